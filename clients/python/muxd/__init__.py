"""
muxd: sandboxes for agents, with every byte recorded. The client, of Python's standard library alone.

    from muxd import Sandbox

    with Sandbox.create(url="https://127.0.0.1:8443", ca_file="tls.crt", token_file="grant") as sandbox:
        print(sandbox.commands.run("uname -a").stdout)

AsyncSandbox is the same for asyncio.
"""
from ._async.commands import AsyncCommandHandle
from ._async.pty import AsyncPtyHandle
from ._async.sandbox import AsyncSandbox
from ._sync.commands import CommandHandle
from ._sync.pty import PtyHandle
from ._sync.sandbox import Sandbox
from .api import VERSION as __version__
from .connection import ConnectionConfig
from .errors import (CommandExitException, ConnectionLost, RequestTimeout, SandboxCreateTimeout, SandboxError, SandboxExecTimeout, SandboxK8sError,
                     SandboxTransferTimeout)
from .execution import CodeContext, Execution, ExecutionError, Logs, OutputMessage, Result
from .types import (CommandResult, EntryInfo, FileType, ProcessInfo, PtySize, SandboxInfo, SearchMatch, SnapshotInfo, WriteEntry, WriteInfo)

__all__ = [
    "AsyncCommandHandle", "AsyncPtyHandle", "AsyncSandbox", "CodeContext", "CommandExitException", "CommandHandle", "CommandResult",
    "ConnectionConfig", "ConnectionLost", "EntryInfo", "Execution", "ExecutionError", "FileType", "Logs", "OutputMessage", "ProcessInfo",
    "PtyHandle", "PtySize", "RequestTimeout", "Result", "Sandbox", "SandboxCreateTimeout", "SandboxError", "SandboxExecTimeout", "SandboxInfo",
    "SandboxK8sError", "SandboxTransferTimeout", "SearchMatch", "SnapshotInfo", "WriteEntry", "WriteInfo", "__version__",
]
