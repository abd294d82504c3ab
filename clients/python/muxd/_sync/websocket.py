"""A WebSocket (RFC 6455) of muxd's subprotocol muxd.v1 (docs/protocol.md, "The browser door").

Made by clients/generate.py; a change belongs there, or into _async/.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from typing import Optional

from .. import _head
from .._net.sync import Lock, Stream
from ..errors import ConnectionLost, SandboxError, error_class
from .http import Client

MESSAGE_MAX = 1 << 20
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketClosed(Exception):
    """The other side closed it, with a close code and a sentence; 1006: without."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class WebSocket:
    def __init__(self, stream: Stream, rest: bytes, timeout: float) -> None:
        self._stream, self._rest, self._timeout = stream, bytearray(rest), timeout
        self._sending = Lock()

    @classmethod
    def open(cls, client: Client, target: str) -> "WebSocket":
        config = client.config
        key = base64.b64encode(os.urandom(16)).decode()
        fields = [("Host", config.address.host_field), ("Authorization", "Bearer " + config.token), ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                  ("Sec-WebSocket-Key", key), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Protocol", "muxd.v1")]
        try:
            stream = Stream.open(config.address, config.request_timeout)
        except OSError as e:
            raise ConnectionLost(f"muxd cannot be reached at {config.address}: {e}.") from e
        try:
            stream.write(_head.request("GET", target, fields), config.request_timeout)
            rest = bytearray()
            while b"\r\n\r\n" not in rest:
                data = stream.read(config.request_timeout)
                if not data or len(rest) > _head.HEAD_MAX:
                    raise _head.BadAnswer("the connection ended without an answer")
                rest += data
            raw, _, behind = bytes(rest).partition(b"\r\n\r\n")
            head = _head.parse(raw)
            if head.status != 101:
                _refused(stream, head, behind, config.request_timeout)
            accept = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()
            if head.fields.get("sec-websocket-accept") != accept:
                raise _head.BadAnswer("the answer accepts another WebSocket")
        except OSError as e:
            stream.close()
            raise ConnectionLost(f"no WebSocket: {e}.") from e
        except BaseException:
            stream.close()
            raise
        return cls(stream, behind, config.request_timeout)

    def send(self, data: bytes, opcode: int = 2) -> None:
        n, mask = len(data), os.urandom(4)
        head = bytes([0x80 | opcode, 0x80 | (n if n < 126 else 126 if n < 65536 else 127)])
        head += b"" if n < 126 else struct.pack(">H", n) if n < 65536 else struct.pack(">Q", n)
        key = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")
        with self._sending:
            try:
                self._stream.write(head + mask + masked, self._timeout)
            except BaseException:
                self._stream.close()  # half a message may be out: nothing can follow it
                raise

    def _need(self, n: int, timeout: Optional[float]) -> None:
        while len(self._rest) < n:
            data = self._stream.read(timeout)
            if not data:
                raise WebSocketClosed(1006, "the connection ended")
            self._rest += data

    def receive(self, timeout: Optional[float] = None) -> bytes:
        """The next message. A timeout in the midst of one loses nothing: it is whole the next time."""
        while True:
            self._need(2, timeout)
            opcode, n, at = self._rest[0] & 15, self._rest[1] & 127, 2
            if n >= 126:
                at = 4 if n == 126 else 10
                self._need(at, timeout)
                n = int.from_bytes(self._rest[2:at], "big")
            if n > MESSAGE_MAX:
                raise WebSocketClosed(1009, f"a message of {n} bytes")
            self._need(at + n, timeout)
            data = bytes(self._rest[at:at + n])
            del self._rest[:at + n]
            if opcode == 2:
                return data
            if opcode == 9:
                self.send(data, 10)
            elif opcode == 8:
                raise WebSocketClosed(int.from_bytes(data[:2], "big") if n >= 2 else 1005, data[2:].decode("utf-8", "replace"))

    def close(self) -> None:
        try:
            self.send(struct.pack(">H", 1000), 8)
        except OSError:
            pass  # the other side has left
        finally:
            self._stream.close()


def _refused(stream: Stream, head: _head.Head, behind: bytes, timeout: float) -> None:
    length = _head.body_length("GET", head)
    raw = bytearray(behind)
    while len(raw) < length:
        data = stream.read(timeout)
        if not data:
            break
        raw += data
    try:
        about = json.loads(bytes(raw))["error"]
    except (ValueError, KeyError, TypeError):
        raise SandboxError(f"an answer {head.status} instead of a WebSocket", status=head.status) from None
    raise error_class(about["code"])(about["message"], code=about["code"], hint=about["hint"], request_id=about["request_id"], status=head.status)
