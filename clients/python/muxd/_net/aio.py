"""A connection of asyncio, and tasks where two streams are read at once."""
from __future__ import annotations

import asyncio
import inspect
from typing import Any, AsyncGenerator, AsyncIterator, Awaitable, Callable, Dict, Optional, Tuple, TypeVar

from .address import Address, tend

PIECE = 256 << 10
CLOSE_WITHIN = 0.5  # seconds
T = TypeVar("T")


async def _within(waited: Awaitable[T], timeout: Optional[float]) -> T:
    """Before Python 3.12 wait_for() loses a cancel that comes when the wait is just over: its caller would go on for ever."""
    if timeout is None:
        return await waited
    task, late = asyncio.current_task(), False
    assert task is not None
    cancel = task.cancel
    before = task.cancelling() if hasattr(task, "cancelling") else 0  # since Python 3.11 cancels are counted

    def expire() -> None:
        nonlocal late
        late = True
        cancel()
    timer = asyncio.get_running_loop().call_later(timeout, expire)
    try:
        return await waited
    except asyncio.CancelledError:
        if late and (task.uncancel() if hasattr(task, "uncancel") else 0) <= before:
            raise TimeoutError("timed out") from None
        raise
    finally:
        timer.cancel()


class Stream:
    """One connection. Every call waits `timeout` seconds at most, then raises TimeoutError; None waits for ever."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: Address, timeout: Optional[float]) -> "Stream":
        if address.socket_path:
            opening = asyncio.open_unix_connection(address.socket_path, limit=PIECE)
        else:
            name = address.host if address.context else None
            opening = asyncio.open_connection(address.host, address.port, ssl=address.context, server_hostname=name, limit=PIECE)
        reader, writer = await _within(opening, timeout)
        try:
            tend(writer.get_extra_info("socket"))
        except BaseException:
            writer.transport.abort()
            raise
        return cls(reader, writer)

    async def read(self, timeout: Optional[float]) -> bytes:
        """What there is; b"" at the end."""
        return await _within(self._reader.read(PIECE), timeout)

    async def write(self, data: bytes, timeout: Optional[float]) -> None:
        for at in range(0, len(data), PIECE):
            self._writer.write(data[at:at + PIECE])
            await _within(self._writer.drain(), timeout)

    async def close(self) -> None:
        self._writer.close()
        try:
            await _within(self._writer.wait_closed(), CLOSE_WITHIN)
        except TimeoutError:  # the other side says no goodbye
            self._writer.transport.abort()
        except OSError:
            pass  # it was broken, and is closed by that
        except BaseException:  # cancelled
            self._writer.transport.abort()
            raise


class Lock(asyncio.Lock):
    pass


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def shielded(work: Callable[[], Awaitable[T]]) -> T:
    """Work that is done to its end though its caller be cancelled, who is told of that behind it."""
    task = asyncio.ensure_future(work())
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task.exception()
        raise asyncio.CancelledError
    return task.result()


async def call(function: Optional[Callable[..., Any]], *args: Any) -> None:
    if function:
        result = function(*args)
        if inspect.isawaitable(result):
            await result


class Background:
    """A function that runs beside its caller."""

    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._task = asyncio.ensure_future(function())


async def iterate(pieces: Any) -> AsyncIterator[bytes]:
    """Bytes from a file or an iterable, of either kind."""
    read = getattr(pieces, "read", None)
    if read:
        while True:
            piece = read(PIECE)
            if inspect.isawaitable(piece):
                piece = await piece
            if piece is None:
                raise BlockingIOError("the file does not block: a pause in it looks as its end does")
            if not piece:
                return
            yield piece.encode() if isinstance(piece, str) else piece
    if hasattr(pieces, "__aiter__"):
        async for piece in pieces:
            yield piece.encode() if isinstance(piece, str) else piece
        return
    for piece in pieces:
        yield piece.encode() if isinstance(piece, str) else piece


async def merge(sources: Dict[str, AsyncIterator[bytes]], abort: Callable[[], Awaitable[None]]) -> AsyncGenerator[Tuple[str, bytes], None]:
    """What all sources give, as it comes. Their reading ends when the caller stops."""
    came: "asyncio.Queue[Tuple[str, Any]]" = asyncio.Queue(16)

    async def pump(name: str, source: AsyncIterator[bytes]) -> None:
        try:
            async for data in source:
                await came.put((name, data))
            await came.put((name, None))
        except Exception as e:  # handed to the caller
            await came.put((name, e))

    tasks = [asyncio.ensure_future(pump(*item)) for item in sources.items()]
    live = len(tasks)
    try:
        while live:
            name, what = await came.get()
            if isinstance(what, Exception):
                raise what
            if what is None:
                live -= 1
            else:
                yield name, what
    finally:
        for t in tasks:
            t.cancel()
        if live:
            await abort()
        await asyncio.gather(*tasks, return_exceptions=True)
