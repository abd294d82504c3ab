"""Terminals: `sandbox.pty`. One is a session of muxd, which outlives connections: a cut one is joined again where it was."""
from __future__ import annotations

import json
import struct
import time
from typing import Any, Callable, Dict, Mapping, Optional, TypeVar, cast

from .._head import target
from .._net.aio import call, sleep
from ..api import Screen
from ..errors import AlreadyEnded, ConnectionLost, NotFound, ProtocolError, SandboxError, error_class
from ..types import PtyScreen, PtySize, Text, screen_of
from .commands import AsyncCommandHandle, AsyncCommands, Command
from .http import AsyncAnswer, AsyncClient, as_object
from .websocket import AsyncWebSocket, WebSocketClosed

OnData = Optional[Callable[[bytes], Any]]
H = TypeVar("H", bound="AsyncPtyHandle")
WINDOW = 1 << 20
INPUT_MAX = 60 << 10
# Messages of docs/protocol.md.
INPUT, RESIZE, WINDOW_IS, SIGNAL = b"\x00", b"\x20", b"\x21", b"\x23"
OUTPUT, OPENED, SKIPPED, EXIT, ERROR, SCREEN = 0x01, 0x10, 0x12, 0x13, 0x14, 0x16


class AsyncPtyHandle:
    """A terminal. Output is bytes, as a terminal is sent them: characters may be cut between two of them."""

    def __init__(self, client: AsyncClient, target: str) -> None:
        self._client, self._target = client, target
        self._over = False  # disconnect() was called
        self._ready = b""  # output that has come
        self._socket: Optional[AsyncWebSocket] = None
        self._offset = self._granted = 0
        self._opened: Dict[str, Any] = {}
        self._on_data: OnData = None
        self.exit: Optional[Dict[str, Any]] = None  # once it has ended: cause, code, signal

    @property
    def pid(self) -> str:
        """The session's id: what kill(), resize(), send_stdin() and connect() take."""
        return str(self._opened.get("session", ""))

    @property
    def exit_code(self) -> Optional[int]:
        return None if self.exit is None or self.exit["code"] is None else int(self.exit["code"])

    async def _join(self) -> None:
        socket = await AsyncWebSocket.open(self._client, self._target)
        self._socket = socket
        try:
            while True:
                if self._over:  # while it was opened
                    raise self._left()
                message = await self._message(socket, self._client.config.request_timeout)
                if message[0] == OPENED:
                    break
            self._opened = json.loads(message[1:])
            self._offset = self._opened["offset"]
            self._granted = self._offset
            await self._move(socket)
        except BaseException:
            await self._drop()
            raise

    async def _message(self, socket: AsyncWebSocket, timeout: Optional[float]) -> bytes:
        message = await socket.receive(timeout)
        if message and message[0] == ERROR:
            about = json.loads(message[1:])
            raise error_class(about["code"])(about["message"], code=about["code"], hint=about.get("hint", ""), status=about.get("status", 0))
        return message or b"\xff"

    async def _move(self, socket: AsyncWebSocket) -> None:
        if self._offset + WINDOW - self._granted >= WINDOW // 4:
            self._granted = self._offset + WINDOW
            try:
                await socket.send(WINDOW_IS + struct.pack("<BQ", 1, self._granted))
            except OSError:
                pass  # it was cut: who reads is told

    async def _again(self, closed: Exception) -> None:
        """The same terminal, from the byte behind the last one that was read."""
        await self._drop()
        end, pause = time.monotonic() + self._client.config.retry_for, 0.05
        while True:
            try:
                self._target = _attach(self.pid, self._offset)
                await self._join()
                return
            except (SandboxError, OSError, WebSocketClosed) as e:
                if self._over:
                    raise self._left() from e
                transient = not isinstance(e, SandboxError) or isinstance(e, ConnectionLost) or e.status in (429, 503)
                if not transient or time.monotonic() + pause > end:
                    raise ConnectionLost(f"the terminal {self.pid} was cut off ({closed}), and could not be joined again: {e}") from e
                await sleep(pause)
                pause = min(pause * 2, 2.0)

    async def read(self, timeout: Optional[float] = None) -> bytes:
        """The next output; b"" once it has ended. TimeoutError where nothing comes within `timeout` seconds; nothing is lost by that."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._ready and self.exit is None:
            socket = self._live()
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                message = await self._message(socket, left)
            except TimeoutError:
                raise
            except SandboxError:
                await self._drop()
                raise
            except (OSError, WebSocketClosed) as e:
                if self._over:
                    raise self._left() from e
                if isinstance(e, WebSocketClosed) and e.code not in (1006, 4503):
                    await self._drop()
                    raise ConnectionLost(f"the terminal {self.pid} was closed: {e}") from e
                await self._again(e)
                continue
            await self._take(socket, message)
        data, self._ready = self._ready, b""
        return data

    async def _take(self, socket: AsyncWebSocket, message: bytes) -> None:
        kind, rest = message[0], message[1:]
        if kind == OUTPUT:
            self._offset = struct.unpack("<Q", rest[:8])[0] + len(rest) - 8
            self._ready = rest[8:]  # before anything is waited for: who gives up waiting loses nothing
            await self._move(socket)
        elif kind == SKIPPED and rest[0] == 1:
            self._offset = struct.unpack("<Q", rest[9:17])[0]
            await self._move(socket)
        elif kind == SCREEN:
            self._offset = struct.unpack("<Q", rest[:8])[0]
            self._ready = b"\x1bc" + rest[12:]
            await self._move(socket)
        elif kind == EXIT:
            self.exit = json.loads(rest)["exit"]
            await self._drop()

    def _live(self) -> AsyncWebSocket:
        if self._socket is None:
            raise self._left()
        return self._socket

    def _left(self) -> ConnectionLost:
        if self._over or self.exit:
            return ConnectionLost(f"the terminal {self.pid} was disconnected; join it by pty.connect()")
        return ConnectionLost(f"the terminal {self.pid} is cut off just now")

    async def wait(self, on_pty: OnData = None) -> Dict[str, Any]:
        """Its end: cause, code, signal. Output goes to `on_pty`, else to the on_data that it was made with."""
        while True:
            data = await self.read()
            if not data:
                assert self.exit is not None
                return self.exit
            await call(on_pty or self._on_data, data)

    async def send_stdin(self, data: Text) -> None:
        raw = data.encode() if isinstance(data, str) else bytes(data)
        for at in range(0, len(raw), INPUT_MAX):
            await self._send(INPUT + raw[at:at + INPUT_MAX])

    async def resize(self, size: PtySize) -> None:
        await self._send(RESIZE + struct.pack("<HHHH", size.cols, size.rows, 0, 0))

    async def send_signal(self, signal: int) -> None:
        """To the terminal's foreground."""
        await self._send(SIGNAL + bytes([signal]))

    async def _send(self, message: bytes) -> None:
        """Input is not said twice: it may have arrived."""
        socket = self._live()
        try:
            await socket.send(message)
        except OSError as e:
            raise ConnectionLost(f"the terminal {self.pid} was cut off: {e}.", maybe_done=True) from e

    async def kill(self, reason: str = "killed by its client") -> bool:
        return await _end(self._client, self.pid, reason)

    async def disconnect(self) -> None:
        """The terminal goes on for the daemon's sessions.linger, and can be joined until then."""
        self._over = True
        await self._drop()

    async def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket:
            await socket.close()


class AsyncPtyRound(AsyncPtyHandle):
    """
    A command with a terminal: a round, started once, with keys by name and a screen. When a connection is cut, output goes on where it
    was; input is not said twice. The command goes on whether or not anybody reads.
    """

    def __init__(self, client: AsyncClient, handle: AsyncCommandHandle) -> None:
        super().__init__(client, "")
        self._handle, self._events = handle, handle.events()

    @property
    def pid(self) -> str:
        """The round's id."""
        return self._handle.pid

    async def read(self, timeout: Optional[float] = None) -> bytes:
        while self.exit is None:
            event = await self._events.next(timeout)
            if event is None:
                raise ConnectionLost(f"the terminal {self.pid} was disconnected; join it by pty.connect()")
            if event.event == "exit":
                self.exit = event.data["exit"]
            elif event.output:
                return event.output
        return b""

    async def send_stdin(self, data: Text) -> None:
        await self._handle.send_stdin(data)

    async def send_keys(self, *keys: str) -> int:
        """Keys by name (Enter, Up, C-c, F1; docs/api.md), one character, or `text:` and anything; all are typed, or none. What came of
        them is on screen(wait=..., after=...) with the number that is returned."""
        return int((await self._client.json("sendRoundKeys", {"id": self.pid}, body={"keys": list(keys)}))["offset"])

    async def screen(self, wait: float = 0, after: int = 0) -> PtyScreen:
        """What it shows; with `wait` (seconds) once output has come behind `after` and then paused."""
        answer = await self._screen("text", "text/plain", wait, after)
        try:
            return screen_of((await answer.read()).decode("utf-8"), answer.fields)
        except (KeyError, ValueError) as e:
            raise ProtocolError(f"a screen without its size, cursor or text: {e}") from e

    async def cells(self, wait: float = 0, after: int = 0) -> Screen:
        """The same with colours and looks, in runs of cells, the cursor and the title."""
        answer = await self._screen("cells", "application/json", wait, after)
        return cast(Screen, as_object(await answer.read(), answer.status))

    async def _screen(self, format: str, accept: str, wait: float, after: int) -> AsyncAnswer:
        query = {"format": format, "wait_ms": int(wait * 1000), "after": after}
        return await self._client.open("getRoundScreen", {"id": self.pid}, query=query, accept=accept, again=True, whole=True,
                                       timeout=wait + self._client.config.request_timeout)

    async def resize(self, size: PtySize) -> None:
        await self._client.json("resizeRound", {"id": self.pid}, body={"cols": size.cols, "rows": size.rows}, again=True)

    async def send_signal(self, signal: int) -> None:
        """To all that it started."""
        await self._handle.send_signal(signal)

    async def kill(self, reason: str = "killed by its client") -> bool:
        return await self._handle.kill()

    async def disconnect(self) -> None:
        await self._events.aclose()


class AsyncPty:
    def __init__(self, client: AsyncClient, agent: str, commands: AsyncCommands) -> None:
        self._client, self._agent, self._commands = client, agent, commands
        self._known: Dict[str, AsyncPtyHandle] = {}

    async def create(self, size: Optional[PtySize] = None, on_data: OnData = None, cwd: Optional[str] = None,
                     envs: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None) -> AsyncPtyHandle:
        """
        A terminal with a login shell (scope `terminal`), whose output goes to `on_data` in wait(). With cwd, envs or a timeout it is a
        round, as run() makes one.
        """
        if cwd or envs or timeout:
            return await self.run(["bash", "-l"], size, on_data, cwd=cwd, envs=envs, timeout=timeout)
        size = size or PtySize(rows=24, cols=80)
        task = self._client.config.task_id
        query = {"cols": size.cols, "rows": size.rows, "task": task or None}
        return await self._join(AsyncPtyHandle(self._client, target("/v1/agents/{agent}/terminal", {"agent": self._agent}, query)), on_data)

    async def run(self, cmd: Command, size: Optional[PtySize] = None, on_data: OnData = None, *, cwd: Optional[str] = None,
                  envs: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None, exec_id: Optional[str] = None,
                  term: Optional[str] = None) -> AsyncPtyRound:
        """A command with a terminal (scopes `terminal` and `rounds`; rounds.pty has to be on), which has keys and a screen."""
        size = size or PtySize(rows=24, cols=80)
        pty: Dict[str, Any] = {"cols": size.cols, "rows": size.rows, **({"term": term} if term else {})}
        handle = await self._commands.run(cmd, background=True, envs=envs, cwd=cwd, timeout=timeout, exec_id=exec_id, pty=pty)
        return self._knows(AsyncPtyRound(self._client, handle), on_data)

    async def connect(self, pid: str, on_data: OnData = None) -> AsyncPtyHandle:
        """One that runs, from what is at hand of its output; of run() from its beginning."""
        try:
            return self._knows(AsyncPtyRound(self._client, await self._commands.connect(pid)), on_data)
        except NotFound:  # it is no round
            return await self._join(AsyncPtyHandle(self._client, _attach(pid)), on_data)

    def _knows(self, handle: H, on_data: OnData) -> H:
        handle._on_data = on_data
        self._known[handle.pid] = handle
        return handle

    async def _join(self, handle: AsyncPtyHandle, on_data: OnData) -> AsyncPtyHandle:
        try:
            await handle._join()
        except WebSocketClosed as e:
            raise ConnectionLost(f"the terminal was closed at once: {e}") from e
        except OSError as e:
            if isinstance(e, SandboxError):
                raise
            raise ConnectionLost(f"the terminal was cut off at once: {e}") from e
        return self._knows(handle, on_data)

    async def send_stdin(self, pid: str, data: Text) -> None:
        await self._handle(pid).send_stdin(data)

    async def resize(self, pid: str, size: PtySize) -> None:
        await self._handle(pid).resize(size)

    async def kill(self, pid: str) -> bool:
        """Of either kind."""
        return await _end(self._client, pid, "killed by its client")

    def _handle(self, pid: str) -> AsyncPtyHandle:
        if pid not in self._known:
            raise NotFound(f"the terminal {pid} was not opened by this object", hint="Join it by pty.connect().")
        return self._known[pid]


def _attach(pid: str, offset: Optional[int] = None) -> str:
    return target("/v1/sessions/{id}/attach", {"id": pid}, {"role": "driver", "screen": False, "offset": offset})


async def _end(client: AsyncClient, pid: str, reason: str) -> bool:
    try:
        await client.json("terminateSession", {"id": pid}, body={"reason": reason})
    except (AlreadyEnded, NotFound):
        return False
    return True
