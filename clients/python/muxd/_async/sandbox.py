"""The sandbox of an agent: made or found, slept and woken, forked and ended."""
from __future__ import annotations

import copy
import uuid
from typing import Any, Dict, List, Mapping, Optional, Type, TypeVar, Union
from types import TracebackType

from .._net.aio import shielded
from ..connection import ConnectionConfig, config_of
from ..errors import ConnectionLost, NotFound, SandboxError
from ..types import SandboxInfo, SnapshotInfo, duration, milliseconds, sandbox_info, snapshot_info
from .artifacts import AsyncArtifacts
from .commands import AsyncCommands
from .contexts import AsyncCode
from .files import AsyncFiles
from .http import AsyncClient
from .pty import AsyncPty

S = TypeVar("S", bound="AsyncSandbox")
CREATE_TIMEOUT = 120.0  # seconds
UNDO_WITHIN = 10.0  # of trying; an answer may take as long once more


class AsyncSandbox(AsyncCode):
    """
    A sandbox, by the name of its agent. `with AsyncSandbox.create()` ends it, if the name was made up for it: nobody else has it.
    A named agent's sandbox and workspace stay; kill() ends them.
    """

    def __init__(self, agent: str, client: AsyncClient, *, envs: Optional[Mapping[str, str]] = None, own: bool = False) -> None:
        self._client, self._own = client, own
        self.sandbox_id = agent
        self.commands = AsyncCommands(client, agent, envs)
        self.files = AsyncFiles(client, agent)
        self.pty = AsyncPty(client, agent, self.commands)
        self.artifacts = AsyncArtifacts(client, agent)

    # --- made and found

    @classmethod
    async def create(cls: Type[S], agent: Optional[str] = None, *, ttl: Optional[float] = None, idle_ttl: Optional[float] = None,
                     envs: Optional[Mapping[str, str]] = None, pod_template: Optional[Mapping[str, Any]] = None,
                     image: Optional[str] = None, app_id: Optional[str] = None, cluster: Optional[str] = None,
                     namespace: Optional[str] = None, exec_timeout: Optional[float] = None, transfer_timeout: Optional[float] = None,
                     timeout: Optional[float] = None, connection: Optional[ConnectionConfig] = None, **arguments: Any) -> S:
        """
        The agent's sandbox, made, found or woken, and running. Without `agent` it is the one that the grant names; a grant for every agent,
        or for all whose names begin alike (`ci-*`), gets a new one with a name of its own. `ttl` is how many seconds it may live (E2B's
        timeout; scope lifecycle), `timeout` how many this may take: then SandboxCreateTimeout. `image` is a name of the daemon's
        `sandbox.images`, and counts from its next start on. `app_id` is the app that it belongs to (get_info().reference, list(app_id=)).
        `cluster` and `namespace` say where it is to be; a place that the daemon does not serve is refused. `exec_timeout` and
        `transfer_timeout` are how many seconds its commands and its transfers of files may take from now on where a call names none; then
        SandboxExecTimeout, SandboxTransferTimeout. The other arguments are ConnectionConfig's.
        """
        client = AsyncClient(config_of(connection, arguments))
        made_up = ""
        try:
            name = await _granted(client) if agent is None else agent
            if agent is None and name.endswith("*"):
                name = made_up = f"{name[:-1] or 'sbx-'}{uuid.uuid4().hex[:16]}"
            sandbox = cls(name, client, envs=envs, own=bool(made_up))
            await sandbox._wake(ttl, idle_ttl, timeout, pod_template, image=image, app_id=app_id, cluster=cluster, namespace=namespace,
                                exec_timeout_ms=milliseconds(exec_timeout), transfer_timeout_ms=milliseconds(transfer_timeout))
        except BaseException as e:
            try:
                await _undo(client, made_up, e)
            finally:
                await client.aclose()
            raise
        return sandbox

    @classmethod
    async def connect(cls: Type[S], sandbox_id: str, *, envs: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None,
                      connection: Optional[ConnectionConfig] = None, **arguments: Any) -> S:
        """One that was made before, woken if it sleeps; NotFound where there is none."""
        client = AsyncClient(config_of(connection, arguments))
        try:
            sandbox = cls(sandbox_id, client, envs=envs)
            if (await sandbox.get_info()).state in ("absent", "destroying"):
                raise NotFound(f"there is no sandbox {sandbox_id}", hint="Sandbox.create() makes one.")
            await sandbox._wake(None, None, timeout, None)
        except BaseException:
            await client.aclose()
            raise
        return sandbox

    @classmethod
    async def list(cls, *, state: Optional[str] = None, prefix: Optional[str] = None, app_id: Optional[str] = None,
                   connection: Optional[ConnectionConfig] = None, **arguments: Any) -> List[SandboxInfo]:
        """All that the grant is for."""
        client = AsyncClient(config_of(connection, arguments))
        found: List[SandboxInfo] = []
        try:
            while True:
                query = {"state": state, "prefix": prefix, "app_id": app_id, "limit": 1000,
                         "after": found[-1].sandbox_id if found else None}
                page = await client.json("listAgents", query=query, again=True)
                found += [sandbox_info(raw) for raw in page["agents"]]
                if not page["more"] or not page["agents"]:
                    return found
        finally:
            await client.aclose()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            if self._own:
                await shielded(self.kill)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Closes connections alone; the sandbox goes on."""
        await self._client.aclose()

    # --- its life

    async def _do(self, operation: str, again: bool, timeout: Optional[float] = None, **body: Any) -> Dict[str, Any]:
        body["timeout_ms"] = milliseconds(timeout)
        patience = timeout + self._client.config.request_timeout if timeout else CREATE_TIMEOUT + self._client.config.request_timeout
        return await self._client.json(operation, {"agent": self.sandbox_id}, body={k: v for k, v in body.items() if v is not None}, again=again,
                                       timeout=patience)

    async def _wake(self, ttl: Optional[float], idle_ttl: Optional[float], timeout: Optional[float], pod_template: Optional[Mapping[str, Any]],
                    **more: Union[str, int, None]) -> None:
        await self._do("resumeAgent", True, timeout, ttl=duration(ttl), idle_ttl=duration(idle_ttl), pod_template=pod_template,
                       **more)

    async def get_info(self) -> SandboxInfo:
        return sandbox_info(await self._client.json("getAgent", {"agent": self.sandbox_id}, again=True))

    async def is_running(self) -> bool:
        try:
            return (await self.get_info()).state == "running"
        except NotFound:
            return False

    async def set_timeout(self, timeout: float) -> None:
        """It may live so many seconds from now on (scope lifecycle); 0: for ever."""
        await self._wake(timeout, None, None, None)

    async def pause(self, reason: str = "paused by its client", timeout: Optional[float] = None) -> SandboxInfo:
        """A snapshot of the workspace, then it stops. Programs end: what is to come back belongs into files (scope lifecycle)."""
        return sandbox_info(await self._do("stopAgent", True, timeout, reason=reason))

    async def resume(self, timeout: Optional[float] = None) -> SandboxInfo:
        """Awake, with the workspace as it was; at once where it runs."""
        return sandbox_info(await self._do("resumeAgent", True, timeout))

    async def kill(self, wipe: Optional[bool] = None, reason: str = "killed by its client") -> bool:
        """
        Its end (scope lifecycle), with its workspace and snapshots where `wipe` says so; of a sandbox with a name that was made up they
        go unless it says no. False where there was none.
        """
        was = (await self.get_info()).state
        query = {"reason": reason, "wipe": self._own if wipe is None else wipe}
        await self._client.json("destroyAgent", {"agent": self.sandbox_id}, query=query, again=True, timeout=CREATE_TIMEOUT)
        return was != "absent"

    async def end_processes(self, reason: str = "ended by its client") -> SandboxInfo:
        """Everything that runs inside ends at once; the sandbox goes on."""
        return sandbox_info(await self._do("killInside", True, reason=reason))

    # --- copies of its workspace

    async def create_snapshot(self, reason: Optional[str] = None, timeout: Optional[float] = None) -> SnapshotInfo:
        return snapshot_info((await self._do("takeSnapshot", False, timeout, reason=reason))["snapshot"])

    async def list_snapshots(self) -> List[SnapshotInfo]:
        found = await self._client.json("listSnapshots", {"agent": self.sandbox_id}, again=True)
        return [snapshot_info(raw) for raw in found["snapshots"]]

    async def delete_snapshot(self, snapshot_id: str, reason: str = "removed by its client") -> None:
        await self._client.json("dropSnapshot", {"agent": self.sandbox_id, "id": snapshot_id}, query={"reason": reason})

    async def restore(self, snapshot_id: str, reason: str = "restored by its client", timeout: Optional[float] = None) -> SandboxInfo:
        """The workspace becomes what it was; a sandbox that runs is stopped for it, with a snapshot, and woken again."""
        await self._do("restoreAgent", False, timeout, snapshot_id=snapshot_id, reason=reason)
        return await self.resume(timeout)

    async def fork(self: S, agent: Optional[str] = None, *, snapshot_id: Optional[str] = None, writable: bool = True,
                   reason: str = "forked by its client", timeout: Optional[float] = None) -> S:
        """A new sandbox whose workspace is a copy; without `snapshot_id` of the current snapshot."""
        made_up = f"{self.sandbox_id[:45]}-copy-{uuid.uuid4().hex[:12]}" if agent is None and await _granted(self._client) == "*" else ""
        name = made_up or agent  # None: muxd makes one up, as the grant does not cover every name
        try:
            raw = await self._do("forkAgent", False, timeout, snapshot_id=snapshot_id, writable=writable, reason=reason,
                                 **({} if name is None else {"as": name}))
        except BaseException as e:
            await _undo(self._client, made_up, e)
            raise
        return type(self)(raw["agent"], AsyncClient(self._client.config), own=agent is None)


async def _granted(client: AsyncClient) -> str:
    """The agent that the grant is for; with `*` at its end the beginning of the names of several, `*` alone: of all."""
    return str((await client.json("getWebSession", again=True))["agent"])


async def _undo(client: AsyncClient, made_up: str, why: BaseException) -> None:
    """The making of a sandbox failed. Where its name was made up nobody else can end what there is of it; that it stays is said in the error."""
    refused = isinstance(why, SandboxError) and why.status in (401, 403)
    if not made_up or refused or isinstance(why, ConnectionLost) and not why.maybe_done:
        return
    config = copy.copy(client.config)
    config.request_timeout = config.retry_for = UNDO_WITHIN
    own = AsyncClient(config)

    async def destroy() -> None:
        try:
            await own.json("destroyAgent", {"agent": made_up}, query={"reason": "its client gave up making it", "wipe": True}, again=True)
        except NotFound:
            pass  # it had not begun
        except Exception as e:
            stays = f"The sandbox {made_up} may run: it could not be ended ({e})."
            if isinstance(why, SandboxError):
                why.hint = f"{why.hint} {stays}".strip()
            elif hasattr(why, "add_note"):
                why.add_note(stays)
        finally:
            await own.aclose()
    await shielded(destroy)
