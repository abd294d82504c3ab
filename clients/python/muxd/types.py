"""What calls return, in the shapes that people know; `raw` is always the API's own answer."""
from __future__ import annotations

import base64
import inspect
import os
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Dict, List, Mapping, Optional, Union

from .api import FilePath, FsName

PathLike = Union[str, bytes, "os.PathLike[str]"]
Text = Union[str, bytes]


@dataclass
class CommandResult:
    """How a command ended, and all that it printed. `stdout` and `stderr` are text, with U+FFFD for what is no UTF-8; the bytes
    are beside them."""

    stdout_bytes: bytes
    stderr_bytes: bytes
    exit_code: int  # 128 and the signal's number, as a shell has it; -1 where nobody knows it
    error: Optional[str]  # why it has no code of its own, in words
    round_id: str
    cause: str  # exit, timeout, idle_timeout, killed, oom, lost, not_started, unknown
    signal: Optional[str]
    duration_ms: int
    truncated: bool  # bytes are missing: more than max_output, or not kept any more
    raw: Dict[str, Any] = field(repr=False)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass
class ProcessInfo:
    """A round that runs."""

    pid: str  # the round's id
    cmd: str
    args: List[str]
    cwd: Optional[str]
    tag: Optional[str]  # its exec_id
    raw: Dict[str, Any] = field(repr=False)


class FileType(str, Enum):
    FILE = "file"
    DIR = "directory"
    SYMLINK = "symlink"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"


@dataclass
class EntryInfo:
    """A name in the workspace. `path` begins there, and is taken by every call; bytes that are no UTF-8 are in it as
    os.fsdecode() has them."""

    name: str
    path: str
    type: FileType
    size: int
    mode: int
    modified_time: datetime
    symlink_target: Optional[str]
    raw: FsName = field(repr=False)


@dataclass
class WriteInfo:
    name: str
    path: str
    type: FileType
    size: int
    sha256: str


@dataclass
class WriteEntry:
    path: PathLike
    data: Any


@dataclass
class SearchMatch:
    """A line; `match` is False of one that stands beside a match."""

    path: str
    line: int
    text: str
    match: bool
    column: Optional[int]


@dataclass
class SandboxReference:
    """What names a sandbox among those of several clusters; None is what it does not have."""
    name: str
    cluster: Optional[str]
    namespace: Optional[str]
    app_id: Optional[str]


@dataclass
class SandboxInfo:
    sandbox_id: str  # the agent: what connect() takes
    state: str  # running, stopped, starting, ..., absent
    started_at: Optional[datetime]
    end_at: Optional[datetime]  # of its absolute TTL
    idle_stops_at: Optional[datetime]
    reference: SandboxReference
    raw: Dict[str, Any] = field(repr=False)


@dataclass
class SnapshotInfo:
    snapshot_id: str
    status: str
    created_at: Optional[datetime]
    size: Optional[int]
    current: bool
    raw: Dict[str, Any] = field(repr=False)


@dataclass
class PtySize:
    rows: int
    cols: int


@dataclass
class PtyScreen:
    """What a terminal shows: a line for each row, without blanks at its end."""

    text: str
    size: PtySize
    row: int  # of the cursor, from 0
    col: int
    offset: int  # of the output, up to where it is drawn
    exact: bool  # False where a part of the output was missing to it

    @property
    def lines(self) -> List[str]:
        return self.text.split("\n")[:self.size.rows]


@dataclass
class RoundEvent:
    """What happened to a round: started, stdout, stderr, missing, signal, notice, exit."""

    event: str
    id: Optional[str]  # what to go on behind; of output and exit alone
    data: Dict[str, Any]

    @property
    def output(self) -> bytes:
        """Of stdout and stderr."""
        return data_out(self.data["data"], self.data["encoding"]) if self.event in ("stdout", "stderr") else b""


class FilesystemEventType(str, Enum):
    CREATE = "create"
    WRITE = "write"
    REMOVE = "remove"
    RENAME = "rename"
    CHMOD = "chmod"
    OVERFLOW = "overflow"  # events were lost: look anew
    UNWATCHED = "unwatched"  # there are no more watches: what is in this directory is not told


# The API's own words: `written` is a close behind writing, `modified` comes while a file is open.
_EVENT_TYPES = {"created": FilesystemEventType.CREATE, "moved_to": FilesystemEventType.CREATE, "modified": FilesystemEventType.WRITE,
                "written": FilesystemEventType.WRITE, "deleted": FilesystemEventType.REMOVE, "moved_from": FilesystemEventType.RENAME,
                "attributes": FilesystemEventType.CHMOD, "overflow": FilesystemEventType.OVERFLOW, "unwatched": FilesystemEventType.UNWATCHED}


@dataclass
class FilesystemEvent:
    """`name` begins in the directory that is watched, `path` in the workspace."""

    name: str
    type: FilesystemEventType
    path: str
    raw: Dict[str, Any] = field(repr=False)


@dataclass
class ArtifactInfo:
    """A file of a task, which outlives its sandbox."""

    name: str
    task: str
    size: int
    sha256: str
    media_type: Optional[str]
    created_at: Optional[datetime]
    expires_at: Optional[datetime]  # None: it is kept until it is deleted
    raw: Dict[str, Any] = field(repr=False)


def moment(text: Optional[str]) -> Optional[datetime]:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def path_in(path: PathLike) -> FilePath:
    """A path as the API takes it."""
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def path_out(path: FilePath) -> str:
    return path if isinstance(path, str) else os.fsdecode(base64.b64decode(path["base64"]))


def path_query(path: PathLike) -> Dict[str, Any]:
    """The same for a query; a line end needs base64 there."""
    raw = os.fsencode(path)
    if b"\n" in raw or b"\r" in raw:
        return {"path_base64": base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    return {"path": raw}


def data_in(data: Text) -> Dict[str, Any]:
    raw = data.encode() if isinstance(data, str) else bytes(data)
    try:
        if b"\0" not in raw:
            return {"data": raw.decode("utf-8"), "encoding": "utf-8"}
    except UnicodeDecodeError:
        pass  # bytes then
    return {"data": base64.b64encode(raw).decode(), "encoding": "base64"}


def data_out(data: str, encoding: str) -> bytes:
    return base64.b64decode(data) if encoding == "base64" else data.encode("utf-8", "surrogatepass")


def position(content: Any) -> Optional[int]:
    """Of a file that can be read from there again; None of a pipe, of one whose calls are coroutines, and of what is no file."""
    tell = getattr(content, "tell", None)
    if tell is None or not hasattr(content, "seek") or inspect.iscoroutinefunction(tell):
        return None
    try:
        return int(tell())
    except (OSError, TypeError, ValueError):
        return None


def entry(raw: FsName) -> EntryInfo:
    path = path_out(raw["path"])
    modified = moment(raw["mtime"])
    assert modified is not None
    target = raw.get("target")
    return EntryInfo(name=os.path.basename(path), path=path, type=FileType(raw["type"]), size=raw["size"], mode=int(raw["mode"], 8),
                     modified_time=modified, symlink_target=None if target is None else path_out(target), raw=raw)


def _reference(raw: Dict[str, Any]) -> SandboxReference:
    said = raw.get("reference") or {}
    return SandboxReference(name=raw["agent"], cluster=said.get("cluster"), namespace=said.get("namespace"), app_id=said.get("app_id"))


def sandbox_info(raw: Dict[str, Any]) -> SandboxInfo:
    return SandboxInfo(sandbox_id=raw["agent"], state=raw["state"], started_at=moment(raw.get("started_at")),
                       end_at=moment(raw.get("lease_expires_at")), idle_stops_at=moment(raw.get("idle_stops_at")), reference=_reference(raw),
                       raw=raw)


def snapshot_info(raw: Dict[str, Any]) -> SnapshotInfo:
    return SnapshotInfo(snapshot_id=raw["id"], status=raw["status"], created_at=moment(raw["created_at"]), size=raw.get("size"),
                        current=bool(raw.get("current")), raw=raw)


def filesystem_event(raw: Dict[str, Any], below: str) -> Optional[FilesystemEvent]:
    """None for a kind that this version does not know."""
    kind = _EVENT_TYPES.get(str(raw.get("event")))
    path = path_out(raw["path"]) if "path" in raw else below
    return FilesystemEvent(name=os.path.relpath(path, below), type=kind, path=path, raw=raw) if kind else None


def artifact(raw: Dict[str, Any]) -> ArtifactInfo:
    return ArtifactInfo(name=raw["name"], task=raw["task"], size=raw["size"], sha256=raw["sha256"], media_type=raw["media_type"],
                        created_at=moment(raw["created_at"]), expires_at=moment(raw["expires_at"]), raw=raw)


def screen_of(text: str, fields: Mapping[str, str]) -> PtyScreen:
    """Of the answer's text and its head."""
    cols, _, rows = fields["muxd-size"].partition("x")
    row, _, col = fields["muxd-cursor"].partition(",")
    return PtyScreen(text=text, size=PtySize(rows=int(rows), cols=int(cols)), row=int(row), col=int(col), offset=int(fields["muxd-offset"]),
                     exact=fields.get("muxd-exact") != "false")


def milliseconds(seconds: Optional[float]) -> Optional[int]:
    return None if not seconds else max(1, int(seconds * 1000))


def duration(seconds: Optional[float]) -> Optional[str]:
    """Seconds as the API has them; 0 is none."""
    return None if seconds is None else f"{int(seconds * 1000)}ms" if seconds else "0s"
