"""Bytes of a stream in, as they come; whole lines out."""
from __future__ import annotations

from typing import List


class Lines:
    """
    A line of more than `most` bytes is left out, and counted in `lost` as soon as it is longer: what has no end fills nothing. Only the
    new bytes are looked through, so that a long line costs no more than many short ones.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.clear()

    def clear(self) -> None:
        self._rest, self._skips, self.lost = bytearray(), False, 0

    def feed(self, piece: bytes) -> List[bytes]:
        """The lines that end in it, without their ends."""
        found: List[bytes] = []
        *ends, rest = piece.split(b"\n")
        for part in ends:
            self._keep(part)
            if not self._skips:
                found.append(bytes(self._rest))
            self._rest, self._skips = bytearray(), False
        self._keep(rest)
        return found

    def _keep(self, part: bytes) -> None:
        if self._skips:
            return
        if len(self._rest) + len(part) <= self._most:
            self._rest += part
            return
        self._rest, self._skips = bytearray(), True
        self.lost += 1
