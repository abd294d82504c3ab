"""The names that Daytona's users know, over the same sandboxes. What is not here is not offered: docs/clients.md lists it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Union

from ..connection import config_of
from ..types import EntryInfo, FileType, PathLike, SandboxInfo
from .sandbox import AsyncSandbox


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


class AsyncProcess:
    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def exec(self, command: str, cwd: Optional[str] = None, env: Optional[Dict[str, str]] = None,
                   timeout: Optional[float] = None) -> ExecuteResponse:
        """A line for the shell. Another end than 0 is no error."""
        done = await self._sandbox.commands.run("exec 2>&1\n" + command, cwd=cwd, envs=env, timeout=timeout, check=False)
        return ExecuteResponse(exit_code=done.exit_code, result=done.stdout)


class AsyncFileSystem:
    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._files = sandbox.files

    async def create_folder(self, path: PathLike, mode: str) -> None:
        await self._files.make_dir(path, mode=int(mode, 8))

    async def delete_file(self, path: PathLike, recursive: bool = False) -> None:
        await self._files.remove(path, recursive=recursive)

    async def download_file(self, remote_path: PathLike, timeout: Optional[float] = None) -> bytes:
        return await self._files.read(remote_path, "bytes", timeout=timeout)

    async def upload_file(self, src: Union[bytes, str], dst: PathLike, timeout: Optional[float] = None) -> None:
        """Bytes, or the path of a local file."""
        if isinstance(src, str):
            with open(src, "rb") as f:
                await self._files.write(dst, f, timeout=timeout)
        else:
            await self._files.write(dst, src, timeout=timeout)

    async def get_file_info(self, path: PathLike) -> FileInfo:
        return _info(await self._files.get_info(path))

    async def list_files(self, path: PathLike) -> List[FileInfo]:
        return [_info(e) for e in await self._files.list(path)]

    async def move_files(self, source: PathLike, destination: PathLike) -> None:
        await self._files.rename(source, destination)

    async def find_files(self, path: PathLike, pattern: str) -> Sequence[Match]:
        """Lines in which the text is."""
        return [Match(file=m.path, line=m.line, content=m.text) for m in await self._files.search(pattern, path)]

    async def search_files(self, path: PathLike, pattern: str) -> SearchFilesResponse:
        """Names below a directory that match, as `*.py`."""
        found = await self._files.glob(pattern if "/" in pattern else "**/" + pattern, path)
        return SearchFilesResponse(files=[e.path for e in found])

    async def set_file_permissions(self, path: PathLike, mode: str) -> None:
        await self._files.chmod(path, int(mode, 8))


class AsyncDaytonaSandbox:
    def __init__(self, sandbox: AsyncSandbox) -> None:
        self.muxd = sandbox
        self.id = sandbox.sandbox_id
        self.state = "started"
        self.fs = AsyncFileSystem(sandbox)
        self.process = AsyncProcess(sandbox)

    def _is(self, info: SandboxInfo) -> None:
        self.state = "started" if info.state == "running" else info.state

    async def start(self, timeout: Optional[float] = None) -> None:
        self._is(await self.muxd.resume(timeout))

    async def stop(self, timeout: Optional[float] = None) -> None:
        self._is(await self.muxd.pause(timeout=timeout))

    async def delete(self) -> None:
        """With its workspace and snapshots."""
        await self.muxd.kill(wipe=True)
        await self.muxd.aclose()
        self.state = "destroyed"


class AsyncDaytona:
    """The arguments are ConnectionConfig's."""

    def __init__(self, **connection: Any) -> None:
        self._config = config_of(None, connection)

    async def create(self, name: Optional[str] = None, env_vars: Optional[Dict[str, str]] = None, auto_stop_interval: Optional[float] = None,
                     timeout: Optional[float] = None) -> AsyncDaytonaSandbox:
        """`auto_stop_interval` is in minutes, 0 for never; `timeout` in seconds."""
        idle = None if auto_stop_interval is None else auto_stop_interval * 60
        return AsyncDaytonaSandbox(await AsyncSandbox.create(name, idle_ttl=idle, envs=env_vars, timeout=timeout, connection=self._config))

    async def get(self, sandbox_id: str) -> AsyncDaytonaSandbox:
        """One that was made before, woken if it sleeps."""
        return AsyncDaytonaSandbox(await AsyncSandbox.connect(sandbox_id, connection=self._config))

    async def delete(self, sandbox: AsyncDaytonaSandbox) -> None:
        await sandbox.delete()


def _info(e: EntryInfo) -> FileInfo:
    letters = "".join(letter if e.mode >> (8 - i) & 1 else "-" for i, letter in enumerate("rwxrwxrwx"))
    return FileInfo(name=e.name, path=e.path, is_dir=e.type == FileType.DIR, size=e.size, mode=("d" if e.type == FileType.DIR else "-") + letters,
                    mod_time=e.modified_time.isoformat(), permissions=f"{e.mode:04o}")
