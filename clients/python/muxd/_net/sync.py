"""A socket that blocks, and threads where two streams are read at once."""
from __future__ import annotations

import queue
import select
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, Generator, Iterator, Optional, Tuple, TypeVar

from .address import Address, tend

PIECE = 256 << 10
T = TypeVar("T")


class Stream:
    """
    One connection. Every call waits `timeout` seconds at most, then raises TimeoutError; None waits for ever. One thread may read
    while another writes: the socket does not block, and what TLS keeps for it is held by one thread at a time.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._fd = sock, sock.fileno()
        self._lock = threading.Lock()
        sock.setblocking(False)

    @classmethod
    def open(cls, address: Address, timeout: Optional[float]) -> "Stream":
        if address.socket_path:
            plain = socket.socket(socket.AF_UNIX)
            plain.settimeout(timeout)
            try:
                plain.connect(address.socket_path)
            except BaseException:
                plain.close()
                raise
            return cls(plain)
        plain = socket.create_connection((address.host, address.port), timeout=timeout)
        try:
            tend(plain)
            return cls(address.context.wrap_socket(plain, server_hostname=address.host) if address.context else plain)
        except BaseException:
            plain.close()
            raise

    def _when_ready(self, step: Callable[[], T], event: int, timeout: Optional[float]) -> T:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                try:
                    return step()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as e:
                    event = select.POLLIN if isinstance(e, ssl.SSLWantReadError) else select.POLLOUT
                except BlockingIOError:
                    pass  # the event that was asked for
            poll = select.poll()
            poll.register(self._fd, event)
            left = None if end is None else max(0.0, end - time.monotonic())
            if not poll.poll(None if left is None else left * 1000) and left is not None:
                raise TimeoutError("timed out")

    def read(self, timeout: Optional[float]) -> bytes:
        """What there is; b"" at the end."""
        return self._when_ready(lambda: self._sock.recv(PIECE), select.POLLIN, timeout)

    def write(self, data: bytes, timeout: Optional[float]) -> None:
        rest = memoryview(data)
        while rest:
            piece = rest[:PIECE]
            rest = rest[self._when_ready(lambda: self._sock.send(piece), select.POLLOUT, timeout):]

    def close(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes who reads in another thread
        except OSError:
            pass  # it was not connected any more
        self._sock.close()


class Lock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: Any) -> None:
        self._lock.release()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def shielded(work: Callable[[], T]) -> T:
    return work()


def call(function: Optional[Callable[..., Any]], *args: Any) -> None:
    if function:
        function(*args)


class Background:
    """A function that runs beside its caller."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=function, daemon=True)
        self._thread.start()


def iterate(pieces: Any) -> Iterator[bytes]:
    """Bytes from a file or an iterable."""
    read = getattr(pieces, "read", None)
    if read:
        while True:
            piece = read(PIECE)
            if piece is None:
                raise BlockingIOError("the file does not block: a pause in it looks as its end does")
            if not piece:
                return
            yield piece.encode() if isinstance(piece, str) else piece
    for piece in pieces:
        yield piece.encode() if isinstance(piece, str) else piece


class _End:
    def __init__(self, error: Optional[BaseException]) -> None:
        self.error = error


def merge(sources: Dict[str, Iterator[bytes]], abort: Callable[[], None]) -> Generator[Tuple[str, bytes], None, None]:
    """What all sources give, as it comes, in the caller's thread. `abort` ends their reading when the caller stops."""
    came: "queue.Queue[Tuple[str, Any]]" = queue.Queue(16)
    stopped = threading.Event()

    def put(name: str, what: Any) -> bool:
        while not stopped.is_set():
            try:
                came.put((name, what), timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def pump(name: str, source: Iterator[bytes]) -> None:
        try:
            for data in source:
                if not put(name, data):
                    return
            put(name, _End(None))
        except BaseException as e:  # handed to the caller
            put(name, _End(e))

    threads = [threading.Thread(target=pump, args=item, daemon=True) for item in sources.items()]
    for t in threads:
        t.start()
    live = len(threads)
    try:
        while live:
            name, what = came.get()
            if isinstance(what, _End):
                if what.error:
                    raise what.error
                live -= 1
            else:
                yield name, what
    finally:
        stopped.set()
        if live:
            abort()
        for t in threads:
            t.join()
