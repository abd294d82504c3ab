"""
muxd: sandboxes for agents, with every byte recorded. The client, of Python's standard library alone.

    from muxd import Sandbox

    with Sandbox.create(url="https://127.0.0.1:8443", ca_file="tls.crt", token_file="grant") as sandbox:
        print(sandbox.commands.run("uname -a").stdout)

AsyncSandbox is the same for asyncio.
"""
from ._async.artifacts import AsyncArtifacts
from ._async.commands import AsyncCommandHandle
from ._async.events import AsyncRoundEvents
from ._async.pty import AsyncPtyHandle, AsyncPtyRound
from ._async.sandbox import AsyncSandbox
from ._async.watch import AsyncWatchHandle
from ._sync.artifacts import Artifacts
from ._sync.commands import CommandHandle
from ._sync.events import RoundEvents
from ._sync.pty import PtyHandle, PtyRound
from ._sync.sandbox import Sandbox
from ._sync.watch import WatchHandle
from .api import VERSION as __version__
from .connection import ConnectionConfig
from .errors import (CommandExitException, ConnectionLost, RequestTimeout, SandboxCreateTimeout, SandboxError, SandboxExecTimeout, SandboxK8sError,
                     SandboxTransferTimeout)
from .execution import CodeContext, Execution, ExecutionError, Logs, OutputMessage, Result
from .types import (ArtifactInfo, CommandResult, EntryInfo, FilesystemEvent, FilesystemEventType, FileType, ProcessInfo, PtyScreen, PtySize, RoundEvent,
                    SandboxInfo, SandboxReference, SearchMatch, SnapshotInfo, WriteEntry, WriteInfo)

__all__ = [
    "ArtifactInfo", "Artifacts", "AsyncArtifacts", "AsyncCommandHandle", "AsyncPtyHandle", "AsyncPtyRound", "AsyncRoundEvents",
    "AsyncSandbox", "AsyncWatchHandle", "CodeContext", "CommandExitException", "CommandHandle", "CommandResult", "ConnectionConfig",
    "ConnectionLost", "EntryInfo", "Execution", "ExecutionError", "FileType", "FilesystemEvent", "FilesystemEventType", "Logs",
    "OutputMessage", "ProcessInfo", "PtyHandle", "PtyRound", "PtyScreen", "PtySize", "RequestTimeout", "Result", "RoundEvent",
    "RoundEvents", "Sandbox", "SandboxCreateTimeout", "SandboxError", "SandboxExecTimeout", "SandboxInfo", "SandboxK8sError",
    "SandboxReference", "SandboxTransferTimeout", "SearchMatch", "SnapshotInfo", "WatchHandle", "WriteEntry", "WriteInfo", "__version__",
]
