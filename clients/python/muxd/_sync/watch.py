"""What happens in a directory, as it happens: `sandbox.files.watch_dir()`.

Made by clients/generate.py; a change belongs there, or into _async/.
"""
from __future__ import annotations

import json
import time
from typing import Any, Callable, Dict, List, Optional

from .._lines import Lines
from .._net.sync import Background, call, sleep
from ..errors import ConnectionLost, ProtocolError, SandboxError
from ..types import FilesystemEvent, filesystem_event, path_out
from .http import Answer, Client

LINE_MAX = 64 << 10
PAUSE_MAX = 2.0
LIKE_NEW = {"event": "overflow"}


class WatchHandle:
    """
    An iterator of FilesystemEvent, from the moment that watch_dir() returned, until stop() or the directory's end. With a callback it
    is called with each of them in the background (a thread of its own in the half that blocks), and the handle is not read.
    A connection that is cut is made anew; what happened meanwhile is not known then, which an event of type OVERFLOW says.
    """

    def __init__(self, client: Client, agent: str, query: Dict[str, Any]) -> None:
        self._client, self._agent, self._query = client, agent, query
        self._answer: Optional[Answer] = None
        self._lines = Lines(LINE_MAX)
        self._ready: List[Dict[str, Any]] = []
        self._stopped = self._gone = False
        self._background: Optional[Background] = None
        self._below = "."

    def _open(self) -> None:
        self._lines.clear()
        self._answer = self._client.open("watchFiles", {"agent": self._agent}, query=self._query, accept="application/x-ndjson", again=True)
        while not self._ready:
            if self._stopped:  # while it was opened
                self._drop()
            self._read(self._client.config.request_timeout)
        first = self._ready.pop(0)
        if first["event"] != "ready":
            raise ProtocolError(f"a watch begins with {first['event']!r}")
        self._below = path_out(first["path"]) if "path" in first else self._below

    def _read(self, timeout: Optional[float]) -> None:
        answer = self._answer
        if answer is None:
            raise ConnectionResetError("it was stopped")
        piece = answer.read_within(timeout)
        if not piece:
            raise ConnectionResetError("it ended")
        lines = self._lines.feed(piece)
        if self._lines.lost:
            raise ProtocolError("an event of a watch has no end")
        try:
            self._ready += [{"event": "", **json.loads(line)} for line in lines if line]
        except (TypeError, ValueError) as e:
            raise ProtocolError(f"an event of a watch is no object of JSON: {e}") from e

    def _again(self, why: OSError) -> None:
        end, pause = time.monotonic() + self._client.config.retry_for, 0.05
        while not self._stopped:
            self._drop()
            try:
                self._open()
                self._ready.append(LIKE_NEW)
                return
            except OSError as e:
                if self._stopped:
                    return
                if isinstance(e, SandboxError) or time.monotonic() + pause > end:
                    self.stop()
                    raise ConnectionLost(f"the watch of {self._below} was cut off ({why}), and could not be made again: {e}") from e
                sleep(pause)
                pause = min(pause * 2, PAUSE_MAX)

    def next(self, timeout: Optional[float] = None) -> Optional[FilesystemEvent]:
        """The next one, None at the end; TimeoutError where none comes within `timeout` seconds, which loses nothing."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._stopped:
            while self._ready:
                raw = self._ready.pop(0)
                if raw["event"] == "gone":
                    self._gone = True
                    self.stop()
                    return None
                event = filesystem_event(raw, self._below)
                if event:
                    return event
            try:
                self._read(None if end is None else max(0.0, end - time.monotonic()))
            except TimeoutError:
                raise
            except OSError as e:
                if not self._stopped:
                    self._again(e)
            except BaseException:
                self.stop()
                raise
        return None

    def __iter__(self) -> "WatchHandle":
        return self

    def __next__(self) -> FilesystemEvent:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def get_new_events(self) -> List[FilesystemEvent]:
        """Those that came since the last time; it does not wait."""
        events: List[FilesystemEvent] = []
        try:
            while True:
                event = self.next(timeout=0.02)
                if event is None:
                    return events
                events.append(event)
        except TimeoutError:
            return events

    def tell(self, on_event: Callable[[FilesystemEvent], Any], on_exit: Optional[Callable[[Optional[Exception]], Any]]) -> None:
        """The callbacks are called from now on; what on_event throws ends the watch, and goes to on_exit."""
        def pump() -> None:
            error: Optional[Exception] = None
            try:
                for event in self:
                    call(on_event, event)
            except Exception as e:  # told to who asked to be told
                error = e
            self.stop()
            call(on_exit, error)
        self._background = Background(pump)

    def _drop(self) -> None:
        answer, self._answer = self._answer, None
        if answer:
            answer.close()

    def stop(self) -> None:
        self._stopped = True
        self._drop()
