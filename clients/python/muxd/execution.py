"""What code in a context came to, in the shapes that E2B's code interpreter has; `raw` is always the API's own answer."""
from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional

from ._lines import Lines
from .types import data_out

EVENT_MAX = 16 << 20  # bytes of one; an execution's results have 6 MiB

# E2B's names of what a result is shown as.
FORMATS = {"text": "text/plain", "html": "text/html", "markdown": "text/markdown", "svg": "image/svg+xml", "png": "image/png", "jpeg": "image/jpeg",
           "pdf": "application/pdf", "latex": "text/latex", "json": "application/json", "javascript": "application/javascript"}


@dataclass
class CodeContext:
    """An interpreter that keeps its variables."""

    id: str
    language: str
    cwd: Optional[str]
    state: str  # idle, busy, ended
    reason: Optional[str]  # why it has ended
    raw: Dict[str, Any] = field(repr=False)


@dataclass
class OutputMessage:
    """A piece of output, as it came."""

    line: str
    timestamp: int  # nanoseconds
    error: bool = False  # of stderr

    def __str__(self) -> str:
        return self.line


@dataclass
class Logs:
    stdout: List[str] = field(default_factory=list)
    stderr: List[str] = field(default_factory=list)


@dataclass
class ExecutionError:
    """What the code raised. `frames`: file, line, function and source of each, the newest last."""

    name: str
    value: str
    traceback: str
    frames: List[Dict[str, Any]] = field(default_factory=list, repr=False)


class Result:
    """A value, or what display() showed, by media type; and by E2B's names: result.png, result.json, ..."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.is_main_result = bool(raw["main"])
        self.data: Dict[str, Any] = dict(raw["data"])
        self.capped: Dict[str, int] = dict(raw["capped"])  # what was too large, and how many bytes it has
        self.raw = dict(raw)

    def __getattr__(self, name: str) -> Any:
        if name not in FORMATS:
            raise AttributeError(name)
        return self.data.get(FORMATS[name])

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    @property
    def extra(self) -> Dict[str, Any]:
        """What has no name here, by media type."""
        return {media: value for media, value in self.data.items() if media not in FORMATS.values()}

    def formats(self) -> Iterator[str]:
        yield from (name for name, media in FORMATS.items() if media in self.data)
        yield from self.extra

    def __repr__(self) -> str:
        return f"Result({', '.join(self.formats())})"

    def __str__(self) -> str:
        return str(self.text) if self.text is not None else repr(self)


@dataclass
class Execution:
    """A run of code. `error` is what it raised; `cause` how it ended: done, error, interrupted, context_died, ..."""

    results: List[Result]
    logs: Logs
    error: Optional[ExecutionError]
    execution_count: Optional[int]
    id: str
    cause: str
    exit_code: Optional[int]  # of bash, and of code without a context
    truncated: bool  # it printed more than is here
    raw: Dict[str, Any] = field(repr=False)

    @property
    def text(self) -> Optional[str]:
        """The value of its last expression."""
        return next((r.text for r in self.results if r.is_main_result), None)

    @property
    def stdout(self) -> str:
        return "".join(self.logs.stdout)

    @property
    def stderr(self) -> str:
        return "".join(self.logs.stderr)

    def to_json(self) -> str:
        return json.dumps(self.raw)


def context_of(raw: Dict[str, Any]) -> CodeContext:
    return CodeContext(id=raw["context_id"], language=raw["language"], cwd=raw["cwd"], state=raw["state"], reason=raw.get("reason"), raw=raw)


def error_of(raw: Mapping[str, Any]) -> ExecutionError:
    return ExecutionError(name=raw["name"], value=raw["value"], traceback=raw["traceback"], frames=list(raw["frames"]))


def execution_of(raw: Dict[str, Any]) -> Execution:
    error = error_of(raw["error"]) if raw["error"] else None
    if error is None and raw["cause"] not in ("done", "exited"):
        error = ExecutionError(name=raw["cause"], value=raw["message"] or "", traceback="")
    texts = {name: data_out(raw[name]["data"], raw[name]["encoding"]).decode("utf-8", "replace") for name in ("stdout", "stderr")}
    logs = Logs(*([text] if text else [] for text in texts.values()))
    return Execution(results=[Result(r) for r in raw["results"]], logs=logs, error=error, execution_count=raw["execution_count"],
                     id=raw["execution_id"], cause=raw["cause"], exit_code=raw["exit_code"],
                     truncated=raw["stdout"]["truncated"] or raw["stderr"]["truncated"], raw=raw)


def message_of(event: Mapping[str, Any]) -> OutputMessage:
    """Of a line that says stdout or stderr."""
    text = event.get("text")
    if text is None:
        text = data_out(str(event.get("base64", "")), "base64").decode("utf-8", "replace")
    return OutputMessage(line=str(text), timestamp=time.time_ns(), error=event["type"] == "stderr")


class CodeEvents:
    """What an interpreter says, an object of JSON in each line; what is none, or is longer than any, is left out."""

    def __init__(self) -> None:
        self._lines = Lines(EVENT_MAX)

    def feed(self, piece: bytes) -> List[Dict[str, Any]]:
        found = []
        for line in self._lines.feed(piece):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):  # code in the sandbox may write there, too
                continue
            if isinstance(event, dict) and isinstance(event.get("type"), str):
                found.append(event)
        return found
