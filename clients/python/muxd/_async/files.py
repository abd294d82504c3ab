"""Files: whole ones stream in and out, and the operations of the API on what is in the workspace."""
from __future__ import annotations

import os
from typing import Any, AsyncIterator, Callable, Dict, Iterable, List, Literal, Mapping, Optional, Sequence, Union, cast, overload

from ..api import FsFound, FsPatched, FsRead, FsTree
from ..errors import ConnectionLost, FileNotFound, SandboxError
from ..types import (EntryInfo, FilesystemEvent, FileType, PathLike, SearchMatch, Text, WriteEntry, WriteInfo, data_in, data_out, entry, milliseconds, path_in,
                     path_out, path_query, position)
from .http import AsyncAnswer, AsyncClient, as_object
from .watch import AsyncWatchHandle

READ_MAX = 1 << 20


class AsyncFiles:
    """`sandbox.files`. A path is in the workspace, relative or with /workspace in front; read() and write() reach other places."""

    def __init__(self, client: AsyncClient, agent: str) -> None:
        self._client, self._agent = client, agent

    async def _do(self, operation: str, path: PathLike, again: bool = False, timeout: Optional[float] = None, **more: Any) -> Dict[str, Any]:
        body = {"path": path_in(path), "timeout_ms": milliseconds(timeout)}
        body.update(more)
        return await self._client.json(operation, {"agent": self._agent}, body={k: v for k, v in body.items() if v is not None}, again=again,
                                       timeout=_patience(self._client, timeout))

    # --- whole files, of any size

    @overload
    async def read(self, path: PathLike, format: Literal["text"] = "text", timeout: Optional[float] = ...) -> str: ...

    @overload
    async def read(self, path: PathLike, format: Literal["bytes"], timeout: Optional[float] = ...) -> bytes: ...

    @overload
    async def read(self, path: PathLike, format: Literal["stream"], timeout: Optional[float] = ...) -> AsyncIterator[bytes]: ...

    async def read(self, path: PathLike, format: str = "text", timeout: Optional[float] = None) -> Union[str, bytes, AsyncIterator[bytes]]:
        """The content: text (UnicodeDecodeError where it is no UTF-8), bytes, or an iterator of bytes that holds little of it."""
        if format not in ("text", "bytes", "stream"):
            raise ValueError(f"format {format!r} is none of text, bytes, stream")
        answer = await self._client.open("getFile", {"agent": self._agent}, query={**path_query(path), "timeout_ms": milliseconds(timeout)},
                                         accept="*/*", again=True, timeout=_patience(self._client, timeout), whole=format != "stream")
        if format == "stream":
            return _pieces(answer)
        raw = await answer.read()
        return raw.decode("utf-8") if format == "text" else raw

    async def write(self, path: PathLike, data: Any, mode: Optional[int] = None, parents: bool = True, size: Optional[int] = None,
                    timeout: Optional[float] = None) -> WriteInfo:
        """
        The file with that content, whole or not at all: text, bytes, a file opened for bytes, or an iterable of bytes. Without `size`
        an iterable goes in chunks, 100 MiB at the most.
        """
        content = data.encode() if isinstance(data, str) else bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else data
        query = {**path_query(path), "mode": None if mode is None else f"{mode:o}", "parents": parents, "timeout_ms": milliseconds(timeout)}
        answer = await self._client.open("putFile", {"agent": self._agent}, query=query, content=content, size=_size(content) if size is None else size,
                                         again=True, timeout=_patience(self._client, timeout), whole=True)
        raw = as_object(await answer.read(), answer.status)
        name = path_out(raw["path"])
        return WriteInfo(name=os.path.basename(name), path=name, type=FileType.FILE, size=raw["size"], sha256=raw["sha256"])

    async def write_files(self, files: Iterable[Union[WriteEntry, Mapping[str, Any]]]) -> List[WriteInfo]:
        """One after the other; each is whole, and those before one that fails stay."""
        done = []
        for f in files:
            path, data = (f.path, f.data) if isinstance(f, WriteEntry) else (f["path"], f["data"])
            done.append(await self.write(path, data))
        return done

    # --- directories with all that is in them

    @overload
    async def read_tree(self, path: PathLike = ".", format: Literal["bytes"] = "bytes", gitignore: bool = ..., timeout: Optional[float] = ...) -> bytes: ...

    @overload
    async def read_tree(self, path: PathLike = ".", *, format: Literal["stream"], gitignore: bool = ...,
                        timeout: Optional[float] = ...) -> AsyncIterator[bytes]: ...

    async def read_tree(self, path: PathLike = ".", format: str = "bytes", gitignore: bool = False,
                        timeout: Optional[float] = None) -> Union[bytes, AsyncIterator[bytes]]:
        """A tar archive (pax) of it; names in it begin below `path`. As a stream, ConnectionLost where it is not whole."""
        if format not in ("bytes", "stream"):
            raise ValueError(f"format {format!r} is neither bytes nor stream")
        query = {**path_query(path), "gitignore": gitignore, "timeout_ms": milliseconds(timeout)}
        answer = await self._client.open("getTree", {"agent": self._agent}, query=query, accept="application/x-tar", again=True,
                                         timeout=_patience(self._client, timeout), whole=format == "bytes")
        return await answer.read() if format == "bytes" else _pieces(answer)

    async def write_tree(self, path: PathLike, archive: Any, overwrite: bool = False, merge: bool = False, parents: bool = True,
                         size: Optional[int] = None, timeout: Optional[float] = None) -> FsTree:
        """
        A tar archive (bytes, a file opened for bytes, or an iterable of bytes) becomes that directory, whole or not at all. The name has
        to be free, unless `overwrite` replaces what has it, or `merge` adds to what is in it. Without `size` an iterable goes in chunks,
        100 MiB at the most.
        """
        content = bytes(archive) if isinstance(archive, (bytes, bytearray, memoryview)) else archive
        query = {**path_query(path), "overwrite": overwrite, "merge": merge, "parents": parents, "timeout_ms": milliseconds(timeout)}
        answer = await self._client.open("putTree", {"agent": self._agent}, query=query, content=content, size=_size(content) if size is None else size,
                                         again=overwrite or merge, timeout=_patience(self._client, timeout), whole=True)
        return cast(FsTree, as_object(await answer.read(), answer.status))

    async def watch_dir(self, path: PathLike = ".", on_event: Optional[Callable[[FilesystemEvent], Any]] = None,
                        on_exit: Optional[Callable[[Optional[Exception]], Any]] = None, recursive: bool = False) -> AsyncWatchHandle:
        """What happens in a directory from now on: to a callback, or from the handle, which is an iterator and has get_new_events()."""
        handle = AsyncWatchHandle(self._client, self._agent, {**path_query(path), "recursive": recursive})
        try:
            await handle._open()
        except BaseException as e:
            await handle.stop()
            if isinstance(e, OSError) and not isinstance(e, SandboxError):
                raise ConnectionLost(f"the watch was cut off at once: {e}.") from e
            raise
        if on_event:
            handle.tell(on_event, on_exit)
        return handle

    # --- what a name is

    async def get_info(self, path: PathLike, follow: bool = False) -> EntryInfo:
        return entry((await self._do("statFile", path, again=True, follow=follow))["entry"])

    async def exists(self, path: PathLike) -> bool:
        try:
            await self.get_info(path)
        except FileNotFound:
            return False
        return True

    async def list(self, path: PathLike = ".", depth: int = 1, ignore: Optional[Sequence[str]] = None, gitignore: bool = False) -> List[EntryInfo]:
        """Names, each directory before what is in it; however many, by as many pages as that takes."""
        return await self._pages("listFile", path, depth=depth, ignore=_list(ignore), gitignore=gitignore)

    async def glob(self, pattern: str, path: PathLike = ".", ignore: Optional[Sequence[str]] = None, gitignore: bool = False) -> List[EntryInfo]:
        return await self._pages("globFile", path, pattern=pattern, ignore=_list(ignore), gitignore=gitignore)

    async def _pages(self, operation: str, path: PathLike, **more: Any) -> List[EntryInfo]:
        found: List[EntryInfo] = []
        while True:
            page = await self._do(operation, path, again=True, **more)
            found += [entry(raw) for raw in page["entries"]]
            if "cursor" not in page:
                return found
            more["cursor"] = page["cursor"]

    # --- parts of a file

    async def read_part(self, path: PathLike, offset: int = 0, length: int = READ_MAX) -> bytes:
        """Bytes, 1 MiB at most; an offset below 0 is from the end."""
        raw = await self._do("readFile", path, again=True, offset=offset, length=length)
        return data_out(raw["data"], raw["encoding"])

    async def read_lines(self, path: PathLike, from_line: int = 1, to_line: Optional[int] = None) -> FsRead:
        """Lines, both ends included, with the file's SHA-256 for if_match."""
        return cast(FsRead, await self._do("readFile", path, again=True, from_line=from_line, to_line=to_line, length=READ_MAX))

    async def search(self, pattern: str, path: PathLike = ".", regex: bool = False, ignore_case: bool = False, context: int = 0, limit: int = 200,
                     ignore: Optional[Sequence[str]] = None, gitignore: bool = False) -> List[SearchMatch]:
        """Lines in which it is found; see search_raw() for binary files, and for whether that was all."""
        found = await self.search_raw(pattern, path, regex=regex, ignore_case=ignore_case, context=context, limit=limit, ignore=_list(ignore),
                                      gitignore=gitignore)
        return [SearchMatch(path=path_out(f["path"]), line=m["line"], text=m["text"], match=m["match"], column=m.get("column"))
                for f in found["results"] for m in f["lines"]]

    async def search_raw(self, pattern: str, path: PathLike = ".", **more: Any) -> FsFound:
        return cast(FsFound, await self._do("searchFile", path, again=True, pattern=pattern, **more))

    # --- changes

    async def edit(self, path: PathLike, data: Text, if_match: Optional[str] = None, create_only: bool = False, parents: bool = True,
                   mode: Optional[int] = None) -> WriteInfo:
        """write() for small files, that can be refused: `if_match` is the SHA-256 that the file must have, else FileChanged; with
        create_only FileExists where there is one."""
        guarded = create_only or if_match is not None
        raw = await self._do("writeFile", path, again=not guarded, if_match=if_match, create_only=create_only, parents=parents,
                             mode=None if mode is None else f"{mode:o}", **data_in(data))
        return _written(raw)

    async def append(self, path: PathLike, data: Text, parents: bool = True, if_match: Optional[str] = None) -> WriteInfo:
        return _written(await self._do("appendFile", path, parents=parents, if_match=if_match, **data_in(data)))

    async def make_dir(self, path: PathLike, parents: bool = True, mode: Optional[int] = None) -> bool:
        """False where it was there already; without `parents` that is FileExists."""
        raw = await self._do("mkdirFile", path, again=parents, parents=parents, mode=None if mode is None else f"{mode:o}")
        return bool(raw.get("created", True))

    async def rename(self, old_path: PathLike, new_path: PathLike, overwrite: bool = False, parents: bool = False) -> EntryInfo:
        raw = await self._do("moveFile", old_path, to=path_in(new_path), overwrite=overwrite, parents=parents)
        return entry(raw["entry"])

    async def copy(self, path: PathLike, to: PathLike, recursive: bool = False, overwrite: bool = False, parents: bool = False) -> EntryInfo:
        raw = await self._do("copyFile", path, to=path_in(to), recursive=recursive, overwrite=overwrite, parents=parents)
        return entry(raw["entry"])

    async def remove(self, path: PathLike, recursive: bool = True) -> None:
        """A directory with what is in it, as E2B has it."""
        await self._do("deleteFile", path, recursive=recursive)

    async def chmod(self, path: PathLike, mode: int) -> EntryInfo:
        return entry((await self._do("chmodFile", path, again=True, mode=f"{mode:o}"))["entry"])

    async def patch(self, patch: Text, path: PathLike = ".", dry_run: bool = False) -> FsPatched:
        """A unified diff, a `*** Begin Patch` envelope or SEARCH/REPLACE blocks: all of it, or PatchRefused with why in details."""
        return cast(FsPatched, await self._do("patchFile", path, again=dry_run, dry_run=dry_run, **data_in(patch)))


def _patience(client: AsyncClient, timeout: Optional[float]) -> Optional[float]:
    """A transfer's own timeout is the daemon's to tell."""
    return timeout + client.config.request_timeout if timeout else None


def _list(words: Optional[Sequence[str]]) -> Optional[List[str]]:
    return None if words is None else [*words]


def _written(raw: Dict[str, Any]) -> WriteInfo:
    path = path_out(raw["path"])
    return WriteInfo(name=os.path.basename(path), path=path, type=FileType.FILE, size=raw["size"], sha256=raw.get("sha256", ""))


def _size(content: Any) -> Optional[int]:
    """Bytes of a file from its position on; None where it does not say, as files of /proc, or counts characters."""
    here = None if hasattr(content, "encoding") else position(content)
    if here is None:
        return None
    try:
        content.seek(0, os.SEEK_END)
        end = int(content.tell())
    except (OSError, ValueError):
        return None
    content.seek(here)
    return end - here if end > here else None


async def _pieces(answer: AsyncAnswer) -> AsyncIterator[bytes]:
    try:
        while True:
            piece = await answer.read_some()
            if not piece:
                return
            yield piece
    except OSError as e:
        raise ConnectionLost(f"the content broke off: {e}.") from e
    finally:
        await answer.close()
