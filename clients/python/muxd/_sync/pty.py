"""Terminals: `sandbox.pty`. One is a session of muxd, which outlives connections: a cut one is joined again where it was.

Made by clients/generate.py; a change belongs there, or into _async/.
"""
from __future__ import annotations

import json
import struct
import time
from typing import Any, Callable, Dict, Optional
from urllib.parse import quote

from .._net.sync import call, sleep
from ..errors import ConnectionLost, NotFound, AlreadyEnded, SandboxError, error_class
from ..types import PtySize, Text
from .http import Client
from .websocket import WebSocket, WebSocketClosed

WINDOW = 1 << 20
INPUT_MAX = 60 << 10
# Messages of docs/protocol.md.
INPUT, RESIZE, WINDOW_IS, SIGNAL = b"\x00", b"\x20", b"\x21", b"\x23"
OUTPUT, OPENED, SKIPPED, EXIT, ERROR, SCREEN = 0x01, 0x10, 0x12, 0x13, 0x14, 0x16


class PtyHandle:
    """A terminal. Output is bytes, as a terminal is sent them: characters may be cut between two of them."""

    def __init__(self, client: Client, target: str) -> None:
        self._client, self._target = client, target
        self._socket: Optional[WebSocket] = None
        self._offset = self._granted = 0
        self._opened: Dict[str, Any] = {}
        self.exit: Optional[Dict[str, Any]] = None  # once it has ended: cause, code, signal

    @property
    def pid(self) -> str:
        """The session's id: what kill(), resize(), send_stdin() and connect() take."""
        return str(self._opened.get("session", ""))

    @property
    def exit_code(self) -> Optional[int]:
        return None if self.exit is None or self.exit["code"] is None else int(self.exit["code"])

    def _join(self) -> None:
        socket = WebSocket.open(self._client, self._target)
        self._socket = socket
        try:
            while True:
                message = self._message(socket, self._client.config.request_timeout)
                if message[0] == OPENED:
                    break
            self._opened = json.loads(message[1:])
            self._offset = self._opened["offset"]
            self._granted = self._offset
            self._move(socket)
        except BaseException:
            self.disconnect()
            raise

    def _message(self, socket: WebSocket, timeout: Optional[float]) -> bytes:
        message = socket.receive(timeout)
        if message and message[0] == ERROR:
            about = json.loads(message[1:])
            raise error_class(about["code"])(about["message"], code=about["code"], hint=about.get("hint", ""), status=about.get("status", 0))
        return message or b"\xff"

    def _move(self, socket: WebSocket) -> None:
        if self._offset + WINDOW - self._granted >= WINDOW // 4:
            self._granted = self._offset + WINDOW
            socket.send(WINDOW_IS + struct.pack("<BQ", 1, self._granted))

    def _again(self, closed: Exception) -> WebSocket:
        """The same terminal, from the byte behind the last one that was read."""
        self.disconnect()
        end, pause = time.monotonic() + self._client.config.retry_for, 0.05
        while True:
            try:
                have = self._offset
                self._target = f"/v1/sessions/{quote(self.pid)}/attach?role=driver&screen=false&offset={have}"
                self._join()
                assert self._socket is not None
                return self._socket
            except (SandboxError, OSError, WebSocketClosed) as e:
                transient = not isinstance(e, SandboxError) or isinstance(e, ConnectionLost) or e.status in (429, 503)
                if not transient or time.monotonic() + pause > end:
                    raise ConnectionLost(f"the terminal {self.pid} was cut off ({closed}), and could not be joined again: {e}") from e
                sleep(pause)
                pause = min(pause * 2, 2.0)

    def read(self, timeout: Optional[float] = None) -> bytes:
        """The next output; b"" once it has ended. TimeoutError where nothing comes within `timeout` seconds; nothing is lost by that."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.exit is None:
            socket = self._live()
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                message = self._message(socket, left)
            except TimeoutError:
                raise
            except (OSError, WebSocketClosed) as e:
                if isinstance(e, WebSocketClosed) and e.code not in (1006, 4503):
                    raise ConnectionLost(f"the terminal {self.pid} was closed: {e}") from e
                self._again(e)
                continue
            data = self._take(socket, message)
            if data:
                return data
        return b""

    def _take(self, socket: WebSocket, message: bytes) -> bytes:
        kind, rest = message[0], message[1:]
        if kind == OUTPUT:
            self._offset = struct.unpack("<Q", rest[:8])[0] + len(rest) - 8
            self._move(socket)
            return rest[8:]
        if kind == SKIPPED and rest[0] == 1:
            self._offset = struct.unpack("<Q", rest[9:17])[0]
            self._move(socket)
        elif kind == SCREEN:
            self._offset = struct.unpack("<Q", rest[:8])[0]
            self._move(socket)
            return b"\x1bc" + rest[12:]
        elif kind == EXIT:
            self.exit = json.loads(rest)["exit"]
            self.disconnect()
        return b""

    def _live(self) -> WebSocket:
        if self._socket is None:
            raise ConnectionLost(f"the terminal {self.pid} was disconnected; join it by pty.connect()")
        return self._socket

    def wait(self, on_pty: Optional[Callable[[bytes], Any]] = None) -> Dict[str, Any]:
        """Its end: cause, code, signal. Output goes to `on_pty`."""
        while True:
            data = self.read()
            if not data:
                assert self.exit is not None
                return self.exit
            call(on_pty, data)

    def send_stdin(self, data: Text) -> None:
        raw = data.encode() if isinstance(data, str) else bytes(data)
        for at in range(0, len(raw), INPUT_MAX):
            self._send(INPUT + raw[at:at + INPUT_MAX])

    def resize(self, size: PtySize) -> None:
        self._send(RESIZE + struct.pack("<HHHH", size.cols, size.rows, 0, 0))

    def send_signal(self, signal: int) -> None:
        """To the terminal's foreground."""
        self._send(SIGNAL + bytes([signal]))

    def _send(self, message: bytes) -> None:
        """Input is not said twice: it may have arrived."""
        try:
            self._live().send(message)
        except OSError as e:
            raise ConnectionLost(f"the terminal {self.pid} was cut off: {e}.", maybe_done=True) from e

    def kill(self, reason: str = "killed by its client") -> bool:
        return _end(self._client, self.pid, reason)

    def disconnect(self) -> None:
        """The terminal goes on for the daemon's sessions.linger, and can be joined until then."""
        socket, self._socket = self._socket, None
        if socket:
            socket.close()


class Pty:
    def __init__(self, client: Client, agent: str) -> None:
        self._client, self._agent = client, agent
        self._known: Dict[str, PtyHandle] = {}

    def create(self, size: Optional[PtySize] = None) -> PtyHandle:
        """A terminal with a login shell (scope `terminal`)."""
        size = size or PtySize(rows=24, cols=80)
        task = self._client.config.task_id
        query = f"?cols={size.cols}&rows={size.rows}" + (f"&task={quote(task, safe='')}" if task else "")
        return self._join(PtyHandle(self._client, f"/v1/agents/{quote(self._agent, safe='')}/terminal{query}"))

    def connect(self, pid: str) -> PtyHandle:
        """One that runs, from what is at hand of its output."""
        return self._join(PtyHandle(self._client, f"/v1/sessions/{quote(pid, safe='')}/attach?role=driver&screen=false"))

    def _join(self, handle: PtyHandle) -> PtyHandle:
        try:
            handle._join()
        except WebSocketClosed as e:
            raise ConnectionLost(f"the terminal was closed at once: {e}") from e
        except OSError as e:
            if isinstance(e, SandboxError):
                raise
            raise ConnectionLost(f"the terminal was cut off at once: {e}") from e
        self._known[handle.pid] = handle
        return handle

    def send_stdin(self, pid: str, data: Text) -> None:
        self._handle(pid).send_stdin(data)

    def resize(self, pid: str, size: PtySize) -> None:
        self._handle(pid).resize(size)

    def kill(self, pid: str) -> bool:
        return _end(self._client, pid, "killed by its client")

    def _handle(self, pid: str) -> PtyHandle:
        if pid not in self._known:
            raise NotFound(f"the terminal {pid} was not opened by this object", hint="Join it by pty.connect().")
        return self._known[pid]


def _end(client: Client, pid: str, reason: str) -> bool:
    try:
        client.json("terminateSession", {"id": pid}, body={"reason": reason})
    except (AlreadyEnded, NotFound):
        return False
    return True
