"""The names that Daytona's users know, over the same sandboxes. What is not here is not offered: docs/clients.md lists it.

Made by clients/generate.py; a change belongs there, or into _async/.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Union

from ..connection import config_of
from ..types import EntryInfo, FileType, PathLike, SandboxInfo
from .sandbox import Sandbox


@dataclass
class ExecuteResponse:
    """`result` has both streams, as they came."""

    exit_code: int
    result: str


@dataclass
class FileInfo:
    name: str
    path: str
    is_dir: bool
    size: int
    mode: str
    mod_time: str
    permissions: str


@dataclass
class Match:
    file: str
    line: int
    content: str


@dataclass
class SearchFilesResponse:
    files: List[str]


class Process:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def exec(self, command: str, cwd: Optional[str] = None, env: Optional[Dict[str, str]] = None,
                   timeout: Optional[float] = None) -> ExecuteResponse:
        """A line for the shell. Another end than 0 is no error."""
        done = self._sandbox.commands.run("exec 2>&1\n" + command, cwd=cwd, envs=env, timeout=timeout, check=False)
        return ExecuteResponse(exit_code=done.exit_code, result=done.stdout)


class FileSystem:
    def __init__(self, sandbox: Sandbox) -> None:
        self._files = sandbox.files

    def create_folder(self, path: PathLike, mode: str) -> None:
        self._files.make_dir(path, mode=int(mode, 8))

    def delete_file(self, path: PathLike, recursive: bool = False) -> None:
        self._files.remove(path, recursive=recursive)

    def download_file(self, remote_path: PathLike, timeout: Optional[float] = None) -> bytes:
        return self._files.read(remote_path, "bytes", timeout=timeout)

    def upload_file(self, src: Union[bytes, str], dst: PathLike, timeout: Optional[float] = None) -> None:
        """Bytes, or the path of a local file."""
        if isinstance(src, str):
            with open(src, "rb") as f:
                self._files.write(dst, f, timeout=timeout)
        else:
            self._files.write(dst, src, timeout=timeout)

    def get_file_info(self, path: PathLike) -> FileInfo:
        return _info(self._files.get_info(path))

    def list_files(self, path: PathLike) -> List[FileInfo]:
        return [_info(e) for e in self._files.list(path)]

    def move_files(self, source: PathLike, destination: PathLike) -> None:
        self._files.rename(source, destination)

    def find_files(self, path: PathLike, pattern: str) -> Sequence[Match]:
        """Lines in which the text is."""
        return [Match(file=m.path, line=m.line, content=m.text) for m in self._files.search(pattern, path)]

    def search_files(self, path: PathLike, pattern: str) -> SearchFilesResponse:
        """Names below a directory that match, as `*.py`."""
        found = self._files.glob(pattern if "/" in pattern else "**/" + pattern, path)
        return SearchFilesResponse(files=[e.path for e in found])

    def set_file_permissions(self, path: PathLike, mode: str) -> None:
        self._files.chmod(path, int(mode, 8))


class DaytonaSandbox:
    def __init__(self, sandbox: Sandbox) -> None:
        self.muxd = sandbox
        self.id = sandbox.sandbox_id
        self.state = "started"
        self.fs = FileSystem(sandbox)
        self.process = Process(sandbox)

    def _is(self, info: SandboxInfo) -> None:
        self.state = "started" if info.state == "running" else info.state

    def start(self, timeout: Optional[float] = None) -> None:
        self._is(self.muxd.resume(timeout))

    def stop(self, timeout: Optional[float] = None) -> None:
        self._is(self.muxd.pause(timeout=timeout))

    def delete(self) -> None:
        """With its workspace and snapshots."""
        self.muxd.kill(wipe=True)
        self.muxd.close()
        self.state = "destroyed"


class Daytona:
    """The arguments are ConnectionConfig's."""

    def __init__(self, **connection: Any) -> None:
        self._config = config_of(None, connection)

    def create(self, name: Optional[str] = None, env_vars: Optional[Dict[str, str]] = None, auto_stop_interval: Optional[float] = None,
                     timeout: Optional[float] = None) -> DaytonaSandbox:
        """`auto_stop_interval` is in minutes, 0 for never; `timeout` in seconds."""
        idle = None if auto_stop_interval is None else auto_stop_interval * 60
        return DaytonaSandbox(Sandbox.create(name, idle_ttl=idle, envs=env_vars, timeout=timeout, connection=self._config))

    def get(self, sandbox_id: str) -> DaytonaSandbox:
        """One that was made before, woken if it sleeps."""
        return DaytonaSandbox(Sandbox.connect(sandbox_id, connection=self._config))

    def delete(self, sandbox: DaytonaSandbox) -> None:
        sandbox.delete()


def _info(e: EntryInfo) -> FileInfo:
    letters = "".join(letter if e.mode >> (8 - i) & 1 else "-" for i, letter in enumerate("rwxrwxrwx"))
    return FileInfo(name=e.name, path=e.path, is_dir=e.type == FileType.DIR, size=e.size, mode=("d" if e.type == FileType.DIR else "-") + letters,
                    mod_time=e.modified_time.isoformat(), permissions=f"{e.mode:04o}")
