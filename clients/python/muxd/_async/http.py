"""Requests to muxd: sent again where that is safe, and only there."""
from __future__ import annotations

import hashlib
import json
import ssl
import time
import uuid
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Tuple

from .. import _head
from .._net.aio import Stream, iterate, sleep
from ..api import OPERATIONS
from ..connection import ConnectionConfig
from ..errors import AnswerLost, ConnectionLost, ProtocolError, RequestTimeout, SandboxError, error_class
from ..types import position

IDLE_MAX = 4  # connections that are kept
IDLE_AGE = 10.0  # seconds; muxd's api.idle_timeout is longer
INTERIM_MAX = 16  # answers of 1xx before the one
PAUSE, PAUSE_MAX = 0.05, 2.0


class AsyncAnswer:
    """An answer whose body has yet to be read, or closed."""

    def __init__(self, client: "AsyncClient", stream: Stream, head: _head.Head, length: int, rest: bytes, timeout: Optional[float]) -> None:
        self.status, self.fields = head.status, head.fields
        self._client, self._stream, self._rest, self._timeout = client, stream, bytearray(rest), timeout
        self._left = length  # -1: in chunks
        self._chunk = 0
        self._closing = False  # the line end behind a chunk has yet to come
        self._open = True
        self.body: Optional[bytes] = None  # once it was read whole
        self.sent_sha256 = ""  # of the request's content, where that was asked for

    async def _more(self) -> bool:
        data = await self._stream.read(self._timeout)
        self._rest += data
        return bool(data)

    async def _line(self) -> bytes:
        while (end := self._rest.find(b"\r\n", 0, _head.LINE_MAX)) < 0:
            if len(self._rest) > _head.LINE_MAX or not await self._more():
                raise _head.BadAnswer("the answer broke off")
        line = bytes(self._rest[:end])
        del self._rest[:end + 2]
        return line

    async def _some(self, most: int) -> bytes:
        if not self._rest and not await self._more():
            raise _head.BadAnswer("the answer broke off")
        piece = bytes(self._rest[:most])
        del self._rest[:len(piece)]
        return piece

    async def _some_chunk(self) -> bytes:
        if self._closing and await self._line():
            raise _head.BadAnswer("a chunk is longer than it says")
        self._closing = False
        if self._chunk == 0:
            self._chunk = _head.chunk_length(await self._line())
            if self._chunk == 0:
                while await self._line():
                    pass  # trailers
                return b""
        piece = await self._some(self._chunk)
        self._chunk -= len(piece)
        self._closing = self._chunk == 0
        return piece

    async def read_some(self) -> bytes:
        """The next bytes; b"" once all have been read. OSError where the answer broke off."""
        if not self._open:
            return b""
        try:
            return await self._next()
        except BaseException:
            await self.close()
            raise

    async def read_within(self, timeout: Optional[float]) -> bytes:
        """The same; where nothing comes within `timeout` seconds that is TimeoutError, and no byte is lost by it."""
        if not self._open:
            return b""
        self._timeout = timeout
        try:
            return await self._next()
        except TimeoutError:
            raise
        except BaseException:
            await self.close()
            raise

    async def _next(self) -> bytes:
        if self._left == -1:
            piece = await self._some_chunk()
        elif self._left == 0:
            piece = b""
        else:
            piece = await self._some(self._left)
            self._left -= len(piece)
        if not piece:
            await self._done()
        return piece

    async def _done(self) -> None:
        self._open = False
        if self._rest or self.fields.get("connection", "").lower() == "close":
            await self._stream.close()
        else:
            await self._client.keep(self._stream)

    async def read(self) -> bytes:
        pieces = []
        while self.body is None:
            piece = await self.read_some()
            pieces.append(piece)
            if not piece:
                self.body = b"".join(pieces)
        return self.body

    def patient(self) -> None:
        """What comes may take any time from here on."""
        self._timeout = None

    async def close(self) -> None:
        if self._open:
            self._open = False
            await self._stream.close()


class AsyncClient:
    def __init__(self, config: ConnectionConfig) -> None:
        self.config = config
        self._idle: List[Tuple[float, Stream]] = []
        self._closed = False
        self._reached = False  # muxd has answered before: who does not listen now is restarting

    async def aclose(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for _, stream in idle:
            await stream.close()

    async def keep(self, stream: Stream) -> None:
        if self._closed:
            await stream.close()
            return
        self._idle.append((time.monotonic(), stream))
        if len(self._idle) > IDLE_MAX:
            await self._idle.pop(0)[1].close()

    async def _take(self) -> Optional[Stream]:
        while self._idle:
            try:
                since, stream = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if time.monotonic() - since < IDLE_AGE:
                return stream
            await stream.close()
        return None

    async def json(self, operation: str, values: Optional[Mapping[str, str]] = None, *, query: Optional[Mapping[str, Any]] = None,
                   body: Optional[Mapping[str, Any]] = None, again: bool = False, timeout: Optional[float] = None) -> Dict[str, Any]:
        """An answer of JSON. `again`: saying it twice does no harm."""
        answer = await self.open(operation, values, query=query, body=body, again=again, timeout=timeout, whole=True)
        return as_object(await answer.read(), answer.status)

    async def open(self, operation: str, values: Optional[Mapping[str, str]] = None, *, query: Optional[Mapping[str, Any]] = None,
                   body: Optional[Mapping[str, Any]] = None, content: Any = None, size: Optional[int] = None,
                   accept: str = "application/json", fields: Optional[Mapping[str, str]] = None, again: bool = False,
                   timeout: Optional[float] = None, whole: bool = False, digest: bool = False) -> AsyncAnswer:
        """
        An answer of 2xx, else its error is raised. `whole`: its body has been read already, so a cut in it counts as one before.
        `digest`: the answer's sent_sha256 is that of the content. `fields` are more of the request's head.
        """
        about = OPERATIONS[operation]
        query = self._with_task(query or {}, about.query)
        target = _head.target(about.path, values or {}, query)
        request = _Request(about.method, target, accept, str(uuid.uuid4()), content, size)
        request.more = dict(fields or {})
        request.digest = hashlib.sha256() if digest else None
        if body is not None:
            request.content = json.dumps(self._with_task(body, about.body)).encode()
            request.kind = "application/json"
        wait = self.config.request_timeout if timeout is None else timeout
        end, pause = time.monotonic() + self.config.retry_for, PAUSE
        while True:
            try:
                answer = await self._try(request, again, wait, whole)
                break
            except (ConnectionLost, SandboxError) as e:
                request.maybe_done = request.maybe_done or isinstance(e, ConnectionLost) and e.maybe_done
                if request.maybe_done and isinstance(e, ConnectionLost):
                    e.was_sent()
                after = request.may_again(e, again)
                if after is None or time.monotonic() + max(after, pause) > end:
                    raise
                await sleep(max(after, pause))
                pause = min(pause * 2, PAUSE_MAX)
        self._reached = True
        answer.sent_sha256 = request.digest.hexdigest() if request.digest else ""
        return answer

    def _with_task(self, words: Mapping[str, Any], takes: Tuple[str, ...]) -> Dict[str, Any]:
        task = self.config.task_id
        return {**words, "task_id": task} if task and "task_id" in takes and words.get("task_id") is None else dict(words)

    async def _try(self, request: "_Request", again: bool, timeout: float, whole: bool) -> AsyncAnswer:
        stream = await self._take() if again else None
        try:
            if stream is None:
                stream = await self._connect(request, timeout)
            try:
                answer = await self._exchange(stream, request, timeout)
                if whole or answer.status >= 300:
                    await answer.read()
            except (OSError, _head.BadAnswer) as e:
                if e is request.unread:
                    raise
                raise _lost(e, self.config, request, timeout, again) from e
        except BaseException:
            if stream is not None:
                await stream.close()
            raise
        if answer.status >= 300:
            raise await _error(answer)
        return answer

    async def _connect(self, request: "_Request", timeout: float) -> Stream:
        try:
            return await Stream.open(self.config.address, timeout)
        except OSError as e:
            lost = ConnectionLost(f"muxd cannot be reached at {self.config.address}: {e}.")
            lost.request_id = request.id
            lost.may_come_back = self._reached and not isinstance(e, ssl.SSLCertVerificationError)
            raise lost from e

    async def _exchange(self, stream: Stream, request: "_Request", timeout: float) -> AsyncAnswer:
        try:
            await stream.write(request.head(self.config), timeout)
            async for piece in request.pieces():
                await stream.write(piece, timeout)
        except (BrokenPipeError, ConnectionResetError) as e:
            if e is request.unread:
                raise
            pass  # a refusal may have come before all was sent: it is read now
        rest = bytearray()
        for _ in range(INTERIM_MAX):
            while b"\r\n\r\n" not in rest:
                data = await stream.read(timeout)
                if not data or len(rest) > _head.HEAD_MAX:
                    raise _head.BadAnswer("the connection ended without an answer")
                rest += data
            raw, _, behind = bytes(rest).partition(b"\r\n\r\n")
            head = _head.parse(raw)
            rest = bytearray(behind)
            if head.status >= 200:
                return AsyncAnswer(self, stream, head, _head.body_length(request.method, head), bytes(rest), timeout)
        raise _head.BadAnswer("answers of 1xx have no end")


class _Request:
    def __init__(self, method: str, target: str, accept: str, request_id: str, content: Any, size: Optional[int]) -> None:
        self.method, self.target, self.accept, self.id = method, target, accept, request_id
        self.content, self.size, self.kind = content, size, "application/octet-stream"
        self.start = position(content)
        self.sent = self.maybe_done = False
        self.unread: Optional[OSError] = None  # why its content cannot be read: the caller's own, and no fault of the connection
        self.more: Dict[str, str] = {}
        self.digest: Optional["hashlib._Hash"] = None

    def head(self, config: ConnectionConfig) -> bytes:
        fields = [("Host", config.address.host_field), ("Authorization", "Bearer " + config.token), ("Accept", self.accept), ("X-Request-Id", self.id)]
        fields += self.more.items()
        if self.content is None:
            fields += [("Content-Length", "0")] if self.method in ("POST", "PUT") else []
        else:
            size = len(self.content) if isinstance(self.content, bytes) else self.size
            fields += [("Content-Type", self.kind), ("Transfer-Encoding", "chunked") if size is None else ("Content-Length", str(size))]
        return _head.request(self.method, self.target, fields)

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.content is None:
            return
        self.digest = hashlib.sha256() if self.digest else None
        if isinstance(self.content, bytes):
            self._count(self.content)
            yield self.content
            return
        if self.sent and self.start is not None:
            self.content.seek(self.start)
        self.sent = True
        sent = 0
        try:
            async for piece in iterate(self.content):
                sent += len(piece)
                self._count(piece)
                if self.size is not None and sent > self.size:
                    raise ValueError(f"the content is longer than the {self.size} bytes that were announced")
                if piece:
                    yield piece if self.size is not None else b"%x\r\n%s\r\n" % (len(piece), piece)
        except OSError as e:
            self.unread = e
            raise
        if self.size is not None and sent < self.size:
            raise ValueError(f"the content has {sent} bytes, and {self.size} were announced")
        if self.size is None:
            yield b"0\r\n\r\n"

    def _count(self, piece: bytes) -> None:
        if self.digest:
            self.digest.update(piece)

    def may_again(self, error: SandboxError, again: bool) -> Optional[float]:
        """Seconds until it may be tried again; None: not."""
        if self.sent and self.start is None:
            return None  # the content is gone
        if isinstance(error, RequestTimeout):
            return None
        if isinstance(error, ConnectionLost):
            return 0.0 if error.may_come_back else None
        if error.status == 429:
            return error.retry_after  # nothing was done
        if again and (error.status == 503 or isinstance(error, AnswerLost)):
            return error.retry_after
        return None


def _lost(e: BaseException, config: ConnectionConfig, request: _Request, timeout: float, again: bool) -> ConnectionLost:
    late = isinstance(e, TimeoutError)
    text = f"no answer within {timeout:g} s" if late else f"the connection to {config.address} ended: {e}"
    lost = (RequestTimeout if late else ConnectionLost)(text + ".", maybe_done=request.method != "GET")
    lost.request_id = request.id
    lost.may_come_back = again  # else it could be done twice
    return lost


def as_object(raw: bytes, status: int) -> Dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as e:
        raise ProtocolError(f"the answer {status} is no JSON: {e}", status=status) from e
    if not isinstance(value, dict):
        raise ProtocolError(f"the answer {status} is no object", status=status)
    return value


async def _error(answer: AsyncAnswer) -> SandboxError:
    raw = await answer.read()
    try:
        about = json.loads(raw)["error"]
        code, message = str(about["code"]), str(about["message"])
    except (ValueError, KeyError, TypeError):
        return ProtocolError(f"an answer {answer.status} that is none of muxd's", status=answer.status)
    error = error_class(code)(message, code=code, hint=str(about.get("hint", "")), request_id=str(about.get("request_id", "")),
                              status=answer.status, details=about.get("details"))
    word = answer.fields.get("retry-after", "")
    error.retry_after = float(word) if _head.number(word) else 1.0
    return error
