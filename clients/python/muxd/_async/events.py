"""Events of a round, as they happen, over as many connections as that takes."""
from __future__ import annotations

import json
import time
from typing import Any, Dict, List, Optional

from .._lines import Lines
from .._net.aio import sleep
from ..errors import BY_CODE, ConnectionLost, ProtocolError, SandboxError
from ..types import RoundEvent
from .http import AsyncAnswer, AsyncClient

SILENCE = 30.0  # seconds; muxd says something every five
BLOCK_MAX = 4 << 20  # bytes of one event
BRIEF = 5.0  # seconds: who is cut sooner, again and again, is told
LAST = ("exit", "cut")


class AsyncRoundEvents:
    """
    An iterator of RoundEvent, from the round's first one or behind `last_event_id`, to its `exit`. A connection that is cut is made
    anew, and goes on behind the last id: nothing comes twice, and no output is missing.
    """

    def __init__(self, client: AsyncClient, round_id: str, last_event_id: Optional[str] = None) -> None:
        self._client, self._round = client, round_id
        self._answer: Optional[AsyncAnswer] = None
        self._lines = Lines(BLOCK_MAX)
        self._block: List[bytes] = []
        self._ready: List[RoundEvent] = []
        self._over = False
        self._failures = 0
        self._heard = 0.0
        self.last_event_id = last_event_id

    def __aiter__(self) -> "AsyncRoundEvents":
        return self

    async def __anext__(self) -> RoundEvent:
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next(self, timeout: Optional[float] = None) -> Optional[RoundEvent]:
        """The next one, None behind the last; TimeoutError where none comes within `timeout` seconds, which loses nothing."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._ready:
            if self._over:
                return None
            try:
                await self._read(end)
            except TimeoutError:
                raise
            except OSError as e:
                await self._cut(e)
            except BaseException:
                await self.aclose()
                raise
        event = self._ready.pop(0)
        self.last_event_id = event.id or self.last_event_id
        if event.event in LAST:
            await self.aclose()
        if event.event == "cut":
            code = str(event.data.get("code", ""))
            raise BY_CODE.get(code, SandboxError)(str(event.data.get("message", "")), code=code)
        return event

    async def _read(self, end: Optional[float]) -> None:
        if self._answer is None:
            self._lines.clear()
            self._block.clear()
            self._heard = time.monotonic()
            self._answer = await self._client.open("getRoundEvents", {"id": self._round}, query={"last_event_id": self.last_event_id},
                                                   accept="text/event-stream", again=True)
            if self._over or self._answer.status == 204:  # closed while it was opened, or there are no more
                await self.aclose()
                return
        answer = self._answer
        now = time.monotonic()
        left = SILENCE if end is None else min(SILENCE, max(0.0, end - now))
        try:
            piece = await answer.read_within(left)
        except TimeoutError:
            if end is not None and time.monotonic() >= end:
                raise
            raise ConnectionResetError("nothing was heard of it") from None
        if not piece:
            raise ConnectionResetError("it ended before the round did")
        for line in self._lines.feed(piece):
            self._take(line[:-1] if line.endswith(b"\r") else line)
        if self._lines.lost or sum(map(len, self._block)) > BLOCK_MAX:
            raise ProtocolError(f"an event of round {self._round} has no end")
        self._failures = 0 if self._ready else self._failures

    def _take(self, line: bytes) -> None:
        if line:
            self._block.append(line)
            return
        event = _event(b"\n".join(self._block))
        self._block.clear()
        if event:
            self._ready.append(event)

    async def _cut(self, why: OSError) -> None:
        if self._over:
            return
        brief = time.monotonic() - self._heard < BRIEF
        self._failures = self._failures + 1 if brief else 0
        answer, self._answer = self._answer, None
        if answer:
            await answer.close()
        if isinstance(why, SandboxError) or self._failures > 8:
            raise ConnectionLost(f"the events of round {self._round} broke off behind {self.last_event_id or 'none'}: {why}") from why
        await sleep(0.05 * self._failures)

    async def aclose(self) -> None:
        """No more of them; the round goes on."""
        self._over = True
        answer, self._answer = self._answer, None
        if answer:
            await answer.close()


def _event(block: bytes) -> Optional[RoundEvent]:
    """As EventSource reads it; None for a comment."""
    name, last, data = "message", None, []
    for line in block.decode("utf-8", "replace").split("\n"):
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            name = value
        elif field == "id":
            last = value
        elif field == "data":
            data.append(value)
    if not data:
        return None
    try:
        about: Dict[str, Any] = json.loads("\n".join(data))
    except ValueError as e:
        raise ProtocolError(f"an event {name} is no JSON: {e}") from e
    if not isinstance(about, dict):
        raise ProtocolError(f"an event {name} is no object")
    return RoundEvent(event=name, id=last, data=about)
