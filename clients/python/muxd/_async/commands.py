"""Commands: rounds of the API, started once whatever happens to the connection."""
from __future__ import annotations

import codecs
import hashlib
import re
import signal as signals
import time
import uuid
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union, overload
from typing import Literal

from .._head import number
from .._net.aio import call, merge, sleep
from ..errors import AlreadyEnded, CommandExitException, Conflict, ConnectionLost, Corrupt, NotFound, ProtocolError, SandboxExecTimeout
from ..types import CommandResult, ProcessInfo, Text, data_in, data_out, milliseconds
from .events import AsyncRoundEvents
from .http import AsyncAnswer, AsyncClient

Command = Union[str, Sequence[str]]
Output = Optional[Callable[[str], Any]]
Artifacts = Optional[Mapping[str, str]]

WAIT = 20.0  # seconds that one question for the end may take
MAX_OUTPUT = 64 << 20  # bytes of each stream that a result holds
BRIEF = 5.0  # seconds: who is cut sooner, again and again, is told
STDIN_PIECE = 64 << 10


class AsyncFollower:
    """One stream of a round from its start to its end, over as many connections as that takes."""

    def __init__(self, client: AsyncClient, round_id: str, stream: str) -> None:
        self._client, self._round, self._stream = client, round_id, stream
        self._answer: Optional[AsyncAnswer] = None
        self._stopped = False
        self.offset = 0
        self.missing = False
        self._holes: List[Tuple[int, int]] = []  # what the body leaves out: the first byte, and the one behind the last

    async def _open(self) -> AsyncAnswer:
        query = {"stream": self._stream, "follow": True, "offset": self.offset}
        answer = await self._client.open("getRoundOutput", {"id": self._round}, query=query, accept="application/octet-stream", again=True,
                                         timeout=None)
        word = answer.fields.get("muxd-offset", "")
        begins = int(word) if number(word) else self.offset
        self._holes = [(int(a), int(b) + 1) for a, b in re.findall(r"(\d{1,18})-(\d{1,18})", answer.fields.get("muxd-missing", ""))]
        if begins < self.offset:
            await answer.close()
            raise ProtocolError(f"the output of round {self._round} was asked for from byte {self.offset}, and begins at {begins}")
        self.missing = self.missing or begins != self.offset or bool(self._holes)
        self.offset = begins
        return answer

    def _move(self, n: int) -> None:
        """To the byte behind n more."""
        for first, behind in self._holes:
            if self.offset <= first <= self.offset + n:
                n -= first - self.offset
                self.offset = behind
        self.offset += n

    async def read(self) -> AsyncIterator[bytes]:
        """Silence is no fault here: a program may say nothing for hours. A connection that ends early is made anew."""
        failures = 0
        while not self._stopped:
            began = time.monotonic()
            self._answer = await self._open()
            self._answer.patient()
            if self._stopped:  # while it was opened
                await self._answer.close()
                return
            try:
                while True:
                    piece = await self._answer.read_some()
                    if not piece:
                        return
                    failures = 0
                    self._move(len(piece))
                    yield piece
            except OSError as e:
                failures = failures + 1 if time.monotonic() - began < BRIEF else 0
                if self._stopped or failures > 8:
                    raise ConnectionLost(f"the output of round {self._round} broke off at byte {self.offset}: {e}.") from e
                await sleep(0.05 * failures)

    async def close(self) -> None:
        self._stopped = True
        if self._answer:
            await self._answer.close()


class AsyncCommandHandle:
    """A command that was started. It goes on whether or not anybody waits for it."""

    def __init__(self, client: AsyncClient, raw: Dict[str, Any], *, on_stdout: Output = None, on_stderr: Output = None, check: bool = True,
                 max_output: int = MAX_OUTPUT, known: bool = True) -> None:
        self._client, self._raw, self._check, self._max = client, raw, check, max_output
        self._on = {"stdout": on_stdout, "stderr": on_stderr}
        self._sent: Optional[int] = 0 if known else None  # bytes of input that were taken; None: others may have sent some
        self._result: Optional[CommandResult] = None

    @property
    def pid(self) -> str:
        """The round's id. E2B's is a number; both are taken as they are by kill, connect and send_stdin."""
        return str(self._raw["round_id"])

    @property
    def exec_id(self) -> Optional[str]:
        return self._raw.get("exec_id")

    @property
    def exit_code(self) -> Optional[int]:
        return None if self._result is None else self._result.exit_code

    async def wait(self, on_stdout: Output = None, on_stderr: Output = None) -> CommandResult:
        """Its end. The callbacks are given the output from its beginning, in whole characters, as it comes."""
        if self._result is None:
            listeners = {"stdout": on_stdout or self._on["stdout"], "stderr": on_stderr or self._on["stderr"]}
            followed = await self._follow(listeners) if any(listeners.values()) else {}
            self._result = await self._finish(followed)
        return _checked(self._result, self._check)

    async def _follow(self, listeners: Mapping[str, Output]) -> Dict[str, Tuple[bytes, bool]]:
        followers = {name: AsyncFollower(self._client, self.pid, name) for name in listeners}
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in listeners}
        kept: Dict[str, bytearray] = {name: bytearray() for name in listeners}

        async def abort() -> None:
            for f in followers.values():
                await f.close()

        came = merge({name: f.read() for name, f in followers.items()}, abort)
        try:
            async for name, data in came:
                kept[name] += data[:max(0, self._max - len(kept[name]))]
                text = decoders[name].decode(data)
                if text:
                    await call(listeners[name], text)
        finally:
            await came.aclose()
        for name, decoder in decoders.items():
            text = decoder.decode(b"", True)
            if text:
                await call(listeners[name], text)
        return {name: (bytes(kept[name]), f.missing or f.offset > self._max) for name, f in followers.items()}

    async def _finish(self, followed: Mapping[str, Tuple[bytes, bool]]) -> CommandResult:
        while self._raw["exit"] is None:
            self._raw = await self._client.json("getRound", {"id": self.pid}, query={"wait_ms": int(WAIT * 1000)}, again=True,
                                                timeout=WAIT + self._client.config.request_timeout)
        streams, cut = {}, False
        for name in ("stdout", "stderr"):
            streams[name], missing = followed.get(name) or await self._whole(name)
            about = self._raw[name]
            cut = cut or missing
            if not missing and about["sha256"] and hashlib.sha256(streams[name]).hexdigest() != about["sha256"]:
                raise Corrupt(f"{name} of round {self.pid} came as {len(streams[name])} bytes that are not the {about['total_bytes']} it printed",
                              hint="Read it again by connect() and wait().")
        return _result(self._raw, streams, cut)

    async def _whole(self, name: str) -> Tuple[bytes, bool]:
        """A stream that nobody followed, and whether some of it is missing."""
        about = self._raw[name]
        head = data_out(about["data"], about["encoding"])
        if not about["truncated"]:
            return head, False
        if about["total_bytes"] > self._max:
            return head + data_out(about.get("tail", ""), about.get("tail_encoding", "utf-8")), True
        answer = await self._client.open("getRoundOutput", {"id": self.pid}, query={"stream": name}, accept="application/octet-stream", again=True,
                                         whole=True)
        return await answer.read(), "muxd-missing" in answer.fields

    async def kill(self) -> bool:
        """SIGKILL to all that it started; False when it had ended."""
        return await self.send_signal("KILL")

    async def send_signal(self, signal: Union[str, int]) -> bool:
        try:
            await self._client.json("signalRound", {"id": self.pid}, body={"signal": signal}, again=signal in ("KILL", 9))
        except (AlreadyEnded, NotFound):
            return False
        return True

    async def send_stdin(self, data: Text) -> None:
        """Returns once all of it was taken. The command must have been started with stdin=True."""
        raw = data.encode() if isinstance(data, str) else bytes(data)
        pause = 0.01
        while raw:
            body: Dict[str, Any] = data_in(_whole_characters(raw[:STDIN_PIECE], raw))
            if self._sent is not None:
                body["offset"] = self._sent
            try:
                taken = (await self._client.json("writeRoundStdin", {"id": self.pid}, body=body, again=self._sent is not None))["taken"]
            except Conflict as e:  # another wrote meanwhile, and nothing of this was taken
                if self._sent is None or not isinstance(e.details.get("offset"), int):
                    raise
                self._sent = e.details["offset"]
                continue
            if self._sent is not None:
                self._sent += taken
            raw = raw[taken:]
            pause = 0.01 if taken else min(pause * 2, 0.5)
            if raw and not taken:
                await sleep(pause)

    async def close_stdin(self) -> None:
        """The end of its input."""
        await self._client.json("writeRoundStdin", {"id": self.pid}, body={"eof": True}, again=True)

    def events(self, last_event_id: Optional[str] = None) -> AsyncRoundEvents:
        """What happens to it, as it happens, to its end: from the beginning, or behind an event's id."""
        return AsyncRoundEvents(self._client, self.pid, last_event_id)

    def disconnect(self) -> None:
        """Nothing to be done: a handle holds no connection, and the command goes on."""


def _whole_characters(piece: bytes, raw: bytes) -> bytes:
    """Text is cut between its characters, so that it can go as text."""
    end = len(piece)
    while end < len(raw) and end > len(piece) - 4 and raw[end] & 0xC0 == 0x80:
        end -= 1
    return piece[:end] or piece


def _result(raw: Dict[str, Any], streams: Mapping[str, bytes], cut: bool) -> CommandResult:
    exit = raw["exit"]
    code = exit["code"]
    if code is None:
        number = getattr(signals, f"SIG{exit['signal']}", None) if exit["signal"] else None
        code = -1 if number is None else 128 + int(number)
    said = exit.get("message") or (None if exit["cause"] == "exit" and not exit["signal"] else _words(exit))
    return CommandResult(stdout_bytes=streams["stdout"], stderr_bytes=streams["stderr"], exit_code=code, error=said, round_id=raw["round_id"],
                         cause=exit["cause"], signal=exit["signal"], duration_ms=raw["duration_ms"], truncated=cut, raw=raw)


def _words(exit: Mapping[str, Any]) -> str:
    words = {"exit": "ended by a signal", "timeout": "its time was up", "idle_timeout": "it fell silent", "killed": "was ended",
             "oom": "ran out of memory",
             "lost": "its sandbox was lost", "not_started": "did not begin"}.get(exit["cause"], "nobody saw its end")
    return f"{words} (SIG{exit['signal']})" if exit["signal"] else words


def _checked(result: CommandResult, check: bool) -> CommandResult:
    if result.raw["exit"].get("error") == SandboxExecTimeout.code:
        raise SandboxExecTimeout(f"the command was ended after {result.duration_ms} ms; its time was up.", result, hint="Allow it more time.")
    if check and (result.exit_code != 0 or result.error):
        raise CommandExitException(f"the command ended with {result.exit_code}" + (f": {result.error}" if result.error else "") + ".", result)
    return result


class AsyncCommands:
    """`sandbox.commands`: what E2B's users know, and Daytona's as `process`."""

    def __init__(self, client: AsyncClient, agent: str, envs: Optional[Mapping[str, str]] = None) -> None:
        self._client, self._agent, self._envs = client, agent, dict(envs or {})

    @overload
    async def run(self, cmd: Command, background: Literal[False] = False, envs: Optional[Mapping[str, str]] = ..., cwd: Optional[str] = ...,
                  on_stdout: Output = ..., on_stderr: Output = ..., stdin: Union[bool, str, bytes] = ..., timeout: Optional[float] = ...,
                  exec_id: Optional[str] = ..., check: bool = ..., max_output: int = ..., artifacts: Artifacts = ...) -> CommandResult: ...

    @overload
    async def run(self, cmd: Command, background: Literal[True], envs: Optional[Mapping[str, str]] = ..., cwd: Optional[str] = ...,
                  on_stdout: Output = ..., on_stderr: Output = ..., stdin: Union[bool, str, bytes] = ..., timeout: Optional[float] = ...,
                  exec_id: Optional[str] = ..., check: bool = ..., max_output: int = ..., artifacts: Artifacts = ...,
                  pty: Optional[Mapping[str, Any]] = ...) -> AsyncCommandHandle: ...

    async def run(self, cmd: Command, background: bool = False, envs: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
                  on_stdout: Output = None, on_stderr: Output = None, stdin: Union[bool, str, bytes] = False, timeout: Optional[float] = None,
                  exec_id: Optional[str] = None, check: bool = True, max_output: int = MAX_OUTPUT,
                  artifacts: Artifacts = None, pty: Optional[Mapping[str, Any]] = None) -> Union[CommandResult, AsyncCommandHandle]:
        """
        Runs a line for the shell, or a list of a program and its arguments, and returns its result; with `background` a handle.

        `timeout` is in seconds, the daemon's default without it; past it the whole process tree is ended and SandboxExecTimeout raised.
        Another end than 0 raises CommandExitException unless `check` is False. `stdin` is input, or True where send_stdin() follows.
        `exec_id` names the start, which is done once however often it is asked for; one is made up where none is given.
        `artifacts` are kept behind its end (scope files): names, each with a path in the sandbox, ":stdout" or ":stderr".
        `pty` is how pty.run() gives it a terminal.
        """
        body: Dict[str, Any] = {"command": cmd} if isinstance(cmd, str) else {"argv": list(cmd)}
        env = {**self._envs, **(envs or {})}
        streams = bool(on_stdout or on_stderr)
        body.update({k: v for k, v in (("env", env), ("cwd", cwd), ("timeout_ms", milliseconds(timeout))) if v})
        body["exec_id"] = exec_id or f"py-{uuid.uuid4()}"
        if pty:
            body["pty"] = dict(pty)
        if artifacts:
            body["artifacts"] = [{"name": n, **({"stream": w[1:]} if w in (":stdout", ":stderr") else {"path": w})} for n, w in artifacts.items()]
        body["wait_ms"] = 0 if background or streams else int(WAIT * 1000)
        if isinstance(stdin, bool):
            body["stdin_open"] = stdin
        else:
            body["stdin"] = data_in(stdin)
        raw = await self._client.json("startRound", {"agent": self._agent}, body=body, again=True,
                                      timeout=WAIT + self._client.config.request_timeout)
        handle = AsyncCommandHandle(self._client, raw, on_stdout=on_stdout, on_stderr=on_stderr, check=check, max_output=max_output,
                                    known=exec_id is None and not pty)
        return handle if background else await handle.wait()

    async def connect(self, pid: str, on_stdout: Output = None, on_stderr: Output = None, check: bool = True) -> AsyncCommandHandle:
        """A handle for a command that was started before, here or elsewhere."""
        raw = await self._client.json("getRound", {"id": pid}, again=True)
        return AsyncCommandHandle(self._client, raw, on_stdout=on_stdout, on_stderr=on_stderr, check=check, known=False)

    async def list(self) -> List[ProcessInfo]:
        """Those that run."""
        rows = await self._client.json("listSessions", query={"agent": self._agent, "kind": "round", "live": True, "limit": 1000}, again=True)
        return [ProcessInfo(pid=r["id"], cmd=(r.get("argv") or [""])[0], args=(r.get("argv") or [""])[1:], cwd=r.get("cwd"), tag=r.get("exec_id"), raw=r)
                for r in rows["sessions"]]

    async def kill(self, pid: str) -> bool:
        return await (await self.connect(pid)).kill()

    async def send_stdin(self, pid: str, data: Text) -> None:
        await (await self.connect(pid)).send_stdin(data)

    async def close_stdin(self, pid: str) -> None:
        await (await self.connect(pid)).close_stdin()
