"""Artifacts: files of a task, by name, which outlive their sandbox."""
from __future__ import annotations

import hashlib
from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Literal, Optional, Sequence, Type, TypeVar, Union, overload

from .._head import number
from ..connection import ConnectionConfig, config_of
from ..errors import ConnectionLost, Corrupt, TaskRequired
from ..types import ArtifactInfo, PathLike, artifact, milliseconds, path_in
from .files import _size
from .http import AsyncAnswer, AsyncClient, as_object

S = TypeVar("S", bound="AsyncArtifacts")
AGAIN = 8  # cuts in a row, without a byte between them


class AsyncArtifacts:
    """`sandbox.artifacts`; or AsyncArtifacts.open(), which needs no sandbox. Scope files."""

    def __init__(self, client: AsyncClient, agent: Optional[str] = None, task: Optional[str] = None) -> None:
        self._client, self._agent, self._task = client, agent, task

    @classmethod
    async def open(cls: Type[S], task: Optional[str] = None, *, connection: Optional[ConnectionConfig] = None, **arguments: Any) -> S:
        """Of a task, else of the one that the connection or the grant names. The other arguments are ConnectionConfig's."""
        return cls(AsyncClient(config_of(connection, arguments)), task=task)

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _of(self, task: Optional[str]) -> str:
        named = task or self._task or self._client.config.task_id
        if not named:
            self._task = named = str((await self._client.json("getWebSession", again=True)).get("task_id") or "")
        if not named:
            raise TaskRequired("no task is named, and the grant is for none", hint="Say which: task=, or task_id= of the connection.")
        return named

    async def put(self, name: str, data: Any, *, media_type: Optional[str] = None, create_only: bool = False, size: Optional[int] = None,
                  task: Optional[str] = None) -> ArtifactInfo:
        """
        An artifact of text, bytes, a file opened for bytes, or an iterable of bytes: whole or not at all, in place of one of that name,
        or (create_only) Conflict where there is one. Corrupt where muxd counted another digest than was sent.
        """
        content = data.encode() if isinstance(data, str) else bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else data
        query = {"media_type": media_type, "sha256": hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else None}
        answer = await self._client.open("putArtifact", {"task": await self._of(task), "name": name}, query=query, content=content,
                                         size=_size(content) if size is None else size, fields={"If-None-Match": "*"} if create_only else {},
                                         again=not create_only, whole=True, digest=True)
        info = artifact(as_object(await answer.read(), answer.status))
        if info.sha256 != answer.sent_sha256:
            raise Corrupt(f"artifact {name} was kept as {info.sha256}, and {answer.sent_sha256} was sent", hint="Put it again.")
        return info

    @overload
    async def get(self, name: str, format: Literal["bytes"] = "bytes", *, task: Optional[str] = ...) -> bytes: ...

    @overload
    async def get(self, name: str, format: Literal["text"], *, task: Optional[str] = ...) -> str: ...

    @overload
    async def get(self, name: str, format: Literal["stream"], *, task: Optional[str] = ...) -> AsyncIterator[bytes]: ...

    async def get(self, name: str, format: str = "bytes", *, task: Optional[str] = None) -> Union[bytes, str, AsyncIterator[bytes]]:
        """
        Its content: bytes, text, or an iterator of bytes that holds little of it. Its digest is checked: Corrupt, of an iterator behind
        its last piece. A cut connection is made again, and goes on where it was.
        """
        if format not in ("bytes", "text", "stream"):
            raise ValueError(f"format {format!r} is none of bytes, text, stream")
        where = {"task": await self._of(task), "name": name}
        pieces = self._pieces(where, await self._open(where, 0, ""))
        if format == "stream":
            return pieces
        raw = b"".join([piece async for piece in pieces])
        return raw.decode("utf-8") if format == "text" else raw

    async def _open(self, where: Dict[str, str], offset: int, tag: str) -> AsyncAnswer:
        fields = {"Range": f"bytes={offset}-"} if offset else {}
        answer = await self._client.open("getArtifact", where, accept="*/*", fields=fields, again=True)
        if tag and answer.fields.get("etag") != tag:
            await answer.close()
            raise Corrupt(f"artifact {where['name']} was replaced while it was read", hint="Read it again.")
        return answer

    async def _pieces(self, where: Dict[str, str], answer: AsyncAnswer) -> AsyncIterator[bytes]:
        digest, offset, cuts = hashlib.sha256(), 0, 0
        tag, length = answer.fields.get("etag", ""), answer.fields.get("content-length", "")
        size = int(length) if number(length) else -1
        try:
            while offset != size:
                try:
                    piece = await answer.read_some()
                    if not piece:
                        break
                except OSError as e:
                    cuts += 1
                    if cuts > AGAIN:
                        raise ConnectionLost(f"artifact {where['name']} broke off at byte {offset}: {e}.") from e
                    await answer.close()
                    answer = await self._open(where, offset, tag)
                    continue
                offset, cuts = offset + len(piece), 0
                digest.update(piece)
                yield piece
            await answer.read_some()  # the end: the connection can be used again
        finally:
            await answer.close()
        if tag.strip('"') != digest.hexdigest():
            raise Corrupt(f"artifact {where['name']} came as {digest.hexdigest()}, and is {tag}", hint="Read it again.")

    async def list(self, *, round_id: Optional[str] = None, run_id: Optional[str] = None, task: Optional[str] = None) -> List[ArtifactInfo]:
        """The task's, by name; of a round or a run those alone."""
        where, found = {"task": await self._of(task)}, []
        query: Dict[str, Any] = {"round": round_id, "run": run_id, "limit": 1000}
        while True:
            page = await self._client.json("listArtifacts", where, query=query, again=True)
            found += [artifact(raw) for raw in page["artifacts"]]
            if not page["more"] or not page["artifacts"]:
                return found
            query["after"] = found[-1].name

    async def delete(self, name: str, *, task: Optional[str] = None) -> ArtifactInfo:
        """What it was; NotFound where there is none."""
        return artifact(await self._client.json("deleteArtifact", {"task": await self._of(task), "name": name}))

    async def take(self, name: str, path: Optional[PathLike] = None, *, agent: Optional[str] = None, round_id: Optional[str] = None,
                   stream: Literal["stdout", "stderr"] = "stdout", create_only: bool = False, timeout: Optional[float] = None,
                   task: Optional[str] = None) -> ArtifactInfo:
        """Makes one of a file in the sandbox, without its bytes coming here; or of the whole output of a round that has ended."""
        if (path is None) == (round_id is None):
            raise ValueError("take() needs a path, or a round_id")
        body: Dict[str, Any] = {"name": name, "create_only": create_only}
        if path is None:
            body.update(round=round_id, stream=stream)
        else:
            body.update(agent=agent or self._agent, path=path_in(path), timeout_ms=milliseconds(timeout))
        patience = timeout + self._client.config.request_timeout if timeout else None
        raw = await self._client.json("takeArtifact", {"task": await self._of(task)}, body={k: v for k, v in body.items() if v is not None},
                                      again=not create_only, timeout=patience)
        return artifact(raw)

    async def export(self, name: str, *, snapshot: Optional[str] = None, git: Optional[str] = None, path: Optional[PathLike] = None,
                     form: Literal["patch", "bundle"] = "patch", text_only: bool = False, ignore: Optional[Sequence[str]] = None,
                     max_bytes: Optional[int] = None, agent: Optional[str] = None, create_only: bool = False,
                     timeout: Optional[float] = None, task: Optional[str] = None) -> ArtifactInfo:
        """Makes one of what changed in the workspace since a snapshot of it, or since a revision of the git repository in `path`."""
        if (snapshot is None) == (git is None):
            raise ValueError("export() needs a snapshot, or a revision of git")
        of_git: Dict[str, Any] = {"path": None if path is None else path_in(path), "form": None if form == "patch" else form}
        of_snapshot: Dict[str, Any] = {"text_only": text_only or None, "ignore": None if ignore is None else list(ignore)}
        base: Dict[str, Any] = {"snapshot": snapshot, **of_snapshot} if git is None else {"git": git, **of_git}
        body: Dict[str, Any] = {"name": name, "create_only": create_only, "agent": agent or self._agent, "max_bytes": max_bytes,
                                "timeout_ms": milliseconds(timeout), "changes": {k: v for k, v in base.items() if v is not None}}
        patience = timeout + self._client.config.request_timeout if timeout else None
        raw = await self._client.json("takeArtifact", {"task": await self._of(task)}, body={k: v for k, v in body.items() if v is not None},
                                      again=not create_only, timeout=patience)
        return artifact(raw)
