"""The API as docs/openapi.yaml describes it: its operations, and the shapes of what it takes and answers.

Made by clients/generate.py; a change belongs there, or into docs/openapi.yaml.
"""
from __future__ import annotations

from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple, TypedDict, Union

VERSION = "0.1.0"


class Operation(NamedTuple):
    method: str
    path: str
    query: Tuple[str, ...]
    body: Tuple[str, ...]


OPERATIONS: Dict[str, Operation] = {
    "getIndex": Operation("GET", "/", (), ()),
    "getHealth": Operation("GET", "/healthz", (), ()),
    "getReady": Operation("GET", "/readyz", (), ()),
    "getMetrics": Operation("GET", "/metrics", (), ()),
    "followMcp": Operation("GET", "/mcp", (), ()),
    "sendMcp": Operation("POST", "/mcp", (), ("jsonrpc",)),
    "endMcp": Operation("DELETE", "/mcp", (), ()),
    "followMcpThrough": Operation("GET", "/mcp/{agent}/{server}", (), ()),
    "sendMcpThrough": Operation("POST", "/mcp/{agent}/{server}", (), ("jsonrpc",)),
    "endMcpThrough": Operation("DELETE", "/mcp/{agent}/{server}", (), ()),
    "getProtectedResource": Operation("GET", "/.well-known/oauth-protected-resource", (), ()),
    "getProtectedResourceMcp": Operation("GET", "/.well-known/oauth-protected-resource/mcp", (), ()),
    "getProtectedResourceThrough": Operation("GET", "/.well-known/oauth-protected-resource/mcp/{agent}/{server}", (), ()),
    "listGrants": Operation("GET", "/v1/grants", ("before", "limit"), ()),
    "createGrant": Operation("POST", "/v1/grants", (), ("file_max", "issuer", "kind", "operations", "principal", "read", "reason", "scopes", "target", "task_id", "ttl", "uses", "write")),
    "renewGrant": Operation("POST", "/v1/grants/renew", (), ("reason", "ttl")),
    "revokeGrant": Operation("DELETE", "/v1/grants/{id}", (), ()),
    "listAgents": Operation("GET", "/v1/agents", ("state", "prefix", "app_id", "after", "limit"), ()),
    "getAgent": Operation("GET", "/v1/agents/{agent}", (), ()),
    "destroyAgent": Operation("DELETE", "/v1/agents/{agent}", ("reason", "wipe"), ()),
    "resumeAgent": Operation("POST", "/v1/agents/{agent}/resume", (), ("app_id", "cluster", "env", "exec_timeout_ms", "idle_ttl", "image", "labels", "namespace", "pod_template", "resources", "timeout_ms", "transfer_timeout_ms", "ttl", "workdir", "workspace")),
    "stopAgent": Operation("POST", "/v1/agents/{agent}/stop", (), ("reason", "timeout_ms")),
    "killInside": Operation("POST", "/v1/agents/{agent}/kill", (), ("reason", "timeout_ms")),
    "terminateAgent": Operation("POST", "/v1/agents/{agent}/terminate", (), ("how", "reason", "timeout_ms")),
    "listSnapshots": Operation("GET", "/v1/agents/{agent}/snapshots", (), ()),
    "takeSnapshot": Operation("POST", "/v1/agents/{agent}/snapshots", (), ("reason", "timeout_ms")),
    "dropSnapshot": Operation("DELETE", "/v1/agents/{agent}/snapshots/{id}", ("reason",), ()),
    "restoreAgent": Operation("POST", "/v1/agents/{agent}/restore", (), ("accept_differs", "check", "reason", "snapshot_id", "timeout_ms")),
    "forkAgent": Operation("POST", "/v1/agents/{agent}/fork", (), ("accept_differs", "as", "at", "check", "idle_ttl", "image", "pod_template", "reason", "resources", "snapshot_id", "timeout_ms", "ttl", "writable")),
    "getLogs": Operation("GET", "/v1/agents/{agent}/logs", ("bytes",), ()),
    "getFile": Operation("GET", "/v1/agents/{agent}/files", ("path", "path_base64", "timeout_ms", "task_id"), ()),
    "putFile": Operation("PUT", "/v1/agents/{agent}/files", ("path", "path_base64", "timeout_ms", "task_id", "mode", "parents"), ()),
    "listLocks": Operation("GET", "/v1/agents/{agent}/locks", (), ()),
    "takeLock": Operation("POST", "/v1/agents/{agent}/locks", (), ("label", "path", "task_id", "ttl_ms")),
    "renewLock": Operation("POST", "/v1/agents/{agent}/locks/{id}", (), ("task_id", "ttl_ms")),
    "releaseLock": Operation("DELETE", "/v1/agents/{agent}/locks/{id}", ("task_id",), ()),
    "watchFiles": Operation("GET", "/v1/agents/{agent}/fs/watch", ("path", "path_base64", "timeout_ms", "task_id", "recursive"), ()),
    "getTree": Operation("GET", "/v1/agents/{agent}/fs/tree", ("path", "path_base64", "timeout_ms", "task_id", "gitignore"), ()),
    "putTree": Operation("PUT", "/v1/agents/{agent}/fs/tree", ("path", "path_base64", "timeout_ms", "task_id", "overwrite", "merge", "parents"), ()),
    "statFile": Operation("POST", "/v1/agents/{agent}/fs/stat", (), ("follow", "path", "sha256", "task_id", "timeout_ms")),
    "listFile": Operation("POST", "/v1/agents/{agent}/fs/list", (), ("cursor", "depth", "gitignore", "ignore", "limit", "path", "task_id", "timeout_ms")),
    "readFile": Operation("POST", "/v1/agents/{agent}/fs/read", (), ("from_line", "length", "offset", "path", "task_id", "timeout_ms", "to_line")),
    "writeFile": Operation("POST", "/v1/agents/{agent}/fs/write", (), ("create_only", "data", "encoding", "if_match", "mode", "parents", "path", "task_id", "timeout_ms")),
    "appendFile": Operation("POST", "/v1/agents/{agent}/fs/append", (), ("data", "encoding", "if_match", "mode", "parents", "path", "task_id", "timeout_ms")),
    "mkdirFile": Operation("POST", "/v1/agents/{agent}/fs/mkdir", (), ("mode", "parents", "path", "task_id", "timeout_ms")),
    "moveFile": Operation("POST", "/v1/agents/{agent}/fs/move", (), ("if_match", "overwrite", "parents", "path", "task_id", "timeout_ms", "to")),
    "copyFile": Operation("POST", "/v1/agents/{agent}/fs/copy", (), ("overwrite", "parents", "path", "recursive", "task_id", "timeout_ms", "to")),
    "deleteFile": Operation("POST", "/v1/agents/{agent}/fs/delete", (), ("if_match", "path", "recursive", "task_id", "timeout_ms")),
    "chmodFile": Operation("POST", "/v1/agents/{agent}/fs/chmod", (), ("mode", "path", "task_id", "timeout_ms")),
    "patchFile": Operation("POST", "/v1/agents/{agent}/fs/patch", (), ("data", "dry_run", "encoding", "path", "task_id", "timeout_ms")),
    "searchFile": Operation("POST", "/v1/agents/{agent}/fs/search", (), ("context", "gitignore", "ignore", "ignore_case", "limit", "path", "pattern", "regex", "task_id", "timeout_ms")),
    "globFile": Operation("POST", "/v1/agents/{agent}/fs/glob", (), ("cursor", "gitignore", "ignore", "limit", "path", "pattern", "task_id", "timeout_ms")),
    "startRound": Operation("POST", "/v1/agents/{agent}/rounds", (), ("argv", "artifacts", "command", "cwd", "env", "exec_id", "idle_timeout_ms", "limits", "pty", "shell", "stdin", "stdin_open", "task_id", "timeout_ms", "wait_ms", "yield_ms")),
    "listContexts": Operation("GET", "/v1/agents/{agent}/contexts", (), ()),
    "createContext": Operation("POST", "/v1/agents/{agent}/contexts", (), ("cwd", "env", "language", "task_id")),
    "getContext": Operation("GET", "/v1/agents/{agent}/contexts/{id}", (), ()),
    "deleteContext": Operation("DELETE", "/v1/agents/{agent}/contexts/{id}", ("task_id",), ()),
    "executeCode": Operation("POST", "/v1/agents/{agent}/contexts/{id}/executions", (), ("code", "exec_id", "task_id", "timeout_ms", "yield_ms")),
    "interruptContext": Operation("POST", "/v1/agents/{agent}/contexts/{id}/interrupt", (), ("task_id",)),
    "resetContext": Operation("POST", "/v1/agents/{agent}/contexts/{id}/reset", (), ("env", "task_id")),
    "executePython": Operation("POST", "/v1/agents/{agent}/python", (), ("code", "cwd", "env", "exec_id", "task_id", "timeout_ms", "yield_ms")),
    "listServices": Operation("GET", "/v1/agents/{agent}/services", ("version",), ()),
    "setServices": Operation("PUT", "/v1/agents/{agent}/services", ("if_version",), ("services",)),
    "getService": Operation("GET", "/v1/agents/{agent}/services/{service}", (), ()),
    "getServiceLog": Operation("GET", "/v1/agents/{agent}/services/{service}/log", ("bytes",), ()),
    "restartService": Operation("POST", "/v1/agents/{agent}/services/{service}/restart", (), ("reason",)),
    "showFilespace": Operation("GET", "/v1/agents/{agent}/filespace", (), ()),
    "syncFilespace": Operation("POST", "/v1/agents/{agent}/filespace/sync", (), ("direction",)),
    "listMcpServers": Operation("GET", "/v1/agents/{agent}/mcp/servers", ("version",), ()),
    "setMcpServers": Operation("PUT", "/v1/agents/{agent}/mcp/servers", ("if_version",), ("servers",)),
    "getMcpServer": Operation("GET", "/v1/agents/{agent}/mcp/servers/{server}", (), ()),
    "refreshMcpServer": Operation("POST", "/v1/agents/{agent}/mcp/servers/{server}/refresh", (), ("task_id",)),
    "approveMcpServer": Operation("POST", "/v1/agents/{agent}/mcp/servers/{server}/approve", (), ("fingerprint",)),
    "requestMcp": Operation("POST", "/v1/agents/{agent}/mcp/request", (), ("exec_id", "method", "params", "server", "task_id", "timeout_ms")),
    "listShells": Operation("GET", "/v1/agents/{agent}/shells", (), ()),
    "endShell": Operation("DELETE", "/v1/agents/{agent}/shells/{name}", ("task_id",), ()),
    "openTerminal": Operation("GET", "/v1/agents/{agent}/terminal", ("cols", "rows", "task"), ()),
    "exec": Operation("GET", "/v1/agents/{agent}/exec", (), ()),
    "getMoment": Operation("GET", "/v1/agents/{agent}/moment", ("opened_at", "snapshot_id"), ()),
    "getRound": Operation("GET", "/v1/rounds/{id}", ("wait_ms", "yield_ms"), ()),
    "getRetention": Operation("GET", "/v1/retention", (), ()),
    "applyRetention": Operation("POST", "/v1/retention/apply", (), ("reason",)),
    "listHolds": Operation("GET", "/v1/holds", ("all",), ()),
    "addHold": Operation("POST", "/v1/holds", (), ("agent", "from", "principal", "reason", "session", "until")),
    "releaseHold": Operation("DELETE", "/v1/holds/{id}", ("reason",), ()),
    "listArtifacts": Operation("GET", "/v1/tasks/{task}/artifacts", ("run", "round", "after", "limit"), ()),
    "takeArtifact": Operation("POST", "/v1/tasks/{task}/artifacts", (), ("agent", "changes", "create_only", "max_bytes", "name", "path", "round", "stream", "timeout_ms")),
    "getArtifact": Operation("GET", "/v1/tasks/{task}/artifacts/{name}", (), ()),
    "putArtifact": Operation("PUT", "/v1/tasks/{task}/artifacts/{name}", ("sha256", "media_type"), ()),
    "deleteArtifact": Operation("DELETE", "/v1/tasks/{task}/artifacts/{name}", (), ()),
    "listRecordings": Operation("GET", "/v1/recordings", ("agent", "principal", "kind", "state", "before", "limit"), ()),
    "listAudit": Operation("GET", "/v1/audit", ("after", "limit", "agent", "principal", "event", "session", "lease", "run", "client_request"), ()),
    "getHead": Operation("GET", "/v1/head", (), ()),
    "mintLease": Operation("POST", "/v1/edge/leases", (), ("edge", "file_max", "kind", "operations", "principal", "read", "reason", "scopes", "target", "task_id", "ttl", "uses", "write")),
    "getEdgeState": Operation("GET", "/v1/edge/state", (), ()),
    "getPolicy": Operation("GET", "/v1/policy", (), ()),
    "listHeads": Operation("GET", "/v1/witness/heads", ("log_id", "limit"), ()),
    "keepHead": Operation("POST", "/v1/witness/heads", (), ("after", "entries", "head", "signature")),
    "getRecording": Operation("GET", "/v1/recordings/{id}", (), ()),
    "getRecordingEvents": Operation("GET", "/v1/recordings/{id}/events", ("from_ns", "after_seq", "limit"), ()),
    "getRecordingScreen": Operation("GET", "/v1/recordings/{id}/screen", ("at_ns",), ()),
    "getExecution": Operation("GET", "/v1/executions/{id}", ("yield_ms",), ()),
    "getRoundOutput": Operation("GET", "/v1/rounds/{id}/output", ("stream", "offset", "limit", "tail", "lines", "raw", "follow", "grep", "regex", "ignore_case"), ()),
    "getRoundEvents": Operation("GET", "/v1/rounds/{id}/events", ("last_event_id",), ()),
    "writeRoundStdin": Operation("POST", "/v1/rounds/{id}/stdin", (), ("data", "encoding", "eof", "offset")),
    "signalRound": Operation("POST", "/v1/rounds/{id}/signal", (), ("signal",)),
    "sendRoundKeys": Operation("POST", "/v1/rounds/{id}/keys", (), ("keys",)),
    "resizeRound": Operation("POST", "/v1/rounds/{id}/resize", (), ("cols", "rows")),
    "getRoundScreen": Operation("GET", "/v1/rounds/{id}/screen", ("format", "wait_ms", "after"), ()),
    "listSessions": Operation("GET", "/v1/sessions", ("agent", "state", "kind", "live", "limit"), ()),
    "getSession": Operation("GET", "/v1/sessions/{id}", (), ()),
    "terminateSession": Operation("POST", "/v1/sessions/{id}/terminate", (), ("reason",)),
    "forkSession": Operation("POST", "/v1/sessions/{id}/fork", (), ("accept_differs", "as", "at_ms", "check", "idle_ttl", "image", "pod_template", "reason", "resources", "snapshot_id", "timeout_ms", "ttl", "writable")),
    "attachSession": Operation("GET", "/v1/sessions/{id}/attach", ("role", "offset", "cols", "rows", "screen"), ()),
    "getWebSession": Operation("GET", "/v1/web/session", (), ()),
    "createWebSession": Operation("POST", "/v1/web/session", (), ()),
    "endWebSession": Operation("DELETE", "/v1/web/session", (), ()),
    "listLeases": Operation("GET", "/sandboxes/leases", ("state", "limit"), ()),
    "createLease": Operation("POST", "/sandboxes/leases", (), ("requestId", "ttlSeconds", "userId", "workflowId")),
    "getLease": Operation("GET", "/sandboxes/leases/{id}", (), ()),
    "releaseLease": Operation("DELETE", "/sandboxes/leases/{id}", (), ()),
    "heartbeatLease": Operation("POST", "/sandboxes/leases/{id}/heartbeat", (), ()),
    "listRuns": Operation("GET", "/sandboxes/runs", ("leaseId", "limit"), ()),
    "startRun": Operation("POST", "/sandboxes/runs", (), ("leaseId", "runId", "timeoutSeconds", "token", "workflowId")),
    "getRun": Operation("GET", "/sandboxes/runs/{id}", ("leaseId",), ()),
    "listWorkflows": Operation("GET", "/sandboxes/workflows", ("limit",), ()),
    "putWorkflow": Operation("POST", "/sandboxes/workflows", (), ("description", "hints", "name", "owner", "schedule", "steps", "version")),
    "getWorkflow": Operation("GET", "/sandboxes/workflows/{id}", (), ()),
    "getPool": Operation("GET", "/sandboxes/pool", (), ()),
}

AgentState = Literal["stopped", "starting", "running", "idle_stopping", "stopping", "destroying", "error"]
Id = str
ErrorCode = Literal["internal", "out_of_memory", "system_error", "invalid_request", "invalid_config", "too_large", "not_found", "unauthenticated", "token_malformed", "token_signature", "token_expired", "token_not_yet_valid", "token_revoked", "token_foreign", "token_algorithm", "token_key_unknown", "token_claims", "token_used", "issuer_unknown", "issuer_unavailable", "revocations_old", "forbidden", "grant_not_narrower", "policy_denied", "reason_required", "task_required", "task_mismatch", "conflict", "bad_state", "already_ended", "try_again", "rate_limited", "limit_reached", "answer_lost", "record_share_full", "timeout", "cancelled", "grant_ended", "record_unavailable", "disk_full", "sandbox_create_failed", "sandbox_create_timeout", "sandbox_exec_timeout", "program_not_found", "program_not_executable", "sandbox_transfer_timeout", "sandbox_transfer_failed", "file_not_found", "file_permission_denied", "not_a_file", "not_a_directory", "file_exists", "directory_not_empty", "file_changed", "range_past_end", "patch_refused", "path_outside", "path_not_allowed", "locked", "workspace_full", "artifacts_full", "base_unknown", "no_git", "port_unreachable", "port_bad_answer", "page_not_allowed", "pty_not_allowed", "shell_busy", "shell_ended", "context_busy", "context_ended", "secret_refused", "egress_not_open", "platform_server", "list_changed", "mcp_server_failed", "mcp_server_down", "service_down", "mcp_server_held", "port_not_allowed", "snapshot_failed", "data_kept", "filespace_failed", "snapshot_differs", "link_lost", "protocol_error", "version_unsupported", "corrupt", "address_in_use", "permission_denied", "image_not_allowed", "image_invalid", "unsupported", "no_shell", "no_end_of_input", "missing_dependency", "unavailable", "sandbox_k8s_error", "k8s_unreachable", "k8s_tls_failed", "k8s_unauthenticated", "k8s_forbidden", "k8s_conflict", "k8s_invalid", "k8s_field_dropped", "k8s_gone", "k8s_busy", "did_not_run", "end_of_file"]
Encoding = Literal["utf-8", "base64"]
FilePath = Union[str, Dict[str, Any]]
FileType = Literal["file", "directory", "symlink", "fifo", "socket", "device"]
FileMode = str
FileDigest = str
FsChanges = List[Dict[str, Any]]
Duration = str
Name = str
SessionKind = Literal["terminal", "exec", "round", "file", "port", "mcp"]
SessionState = Literal["opening", "running", "suspended", "ending", "ended"]
Language = Literal["python", "javascript", "bash"]


class SandboxReference(TypedDict):
    name: str
    cluster: Optional[str]
    namespace: Optional[str]
    app_id: Optional[str]


class _Agent(TypedDict):
    agent: str
    state: Union[AgentState, Literal["absent"]]


class Agent(_Agent, total=False):
    sandbox_id: Optional[str]
    backend: Literal["local", "link", "plain"]
    backend_reason: Optional[str]
    delivery: Optional[str]
    ephemeral_container: Optional[str]
    namespace: Optional[str]
    pod: Optional[str]
    image: Optional[str]
    image_made_with: Optional[str]
    image_digest: Optional[str]
    resources: Any
    resources_clipped: Optional[List[Literal["cpu", "memory", "pids"]]]
    by_profile: Dict[str, Any]
    resources_made_with: Any
    pod_made_with: Optional[str]
    pod_template: Optional[str]
    own_pod_template: Optional[str]
    pod_template_refused: str
    link: Optional[Literal["waking", "up", "lost", None]]
    cause: Optional[str]
    step: Optional[str]
    generation: int
    state_since: Optional[str]
    workspace: bool
    read_only: bool
    forked_from: Dict[str, Any]
    began_with: Dict[str, Any]
    workspace_snapshot_id: Optional[str]
    snapshot_check: Literal["checked", "not_checked", "not_hashed_yet", "cannot_be_hashed", "differs"]
    next_snapshot_id: Optional[str]
    last_activity_at: Optional[str]
    idle_ttl_ms: int
    idle_stops_at: Optional[str]
    cannot_sleep: Optional[str]
    lease_expires_at: Optional[str]
    ttl_action: Literal["stop", "delete"]
    holding: int
    attached: int
    started_at: Optional[str]
    created_at: Optional[str]
    updated_at: Optional[str]
    sessions: int
    sessions_ended: int
    oom_kills: int
    detail: Optional[str]
    app_id: Optional[str]
    reference: SandboxReference
    workdir: str
    env_names: List[str]
    labels: Dict[str, str]
    exec_timeout_ms: int
    transfer_timeout_ms: int
    timeouts_clipped: List[Literal["exec_timeout_ms", "transfer_timeout_ms"]]
    persists: List[str]
    endpoints: List[Dict[str, Any]]
    enforced: Dict[str, Any]


class _Snapshot(TypedDict):
    id: Id
    agent: str
    status: Literal["taking", "ready", "failed", "dropping", "dropped"]
    created_at: str


class Snapshot(_Snapshot, total=False):
    current: bool
    cause: Optional[str]
    quiesced: bool
    quiesce: Literal["frozen", "synced", "none"]
    previous_id: Optional[str]
    name: Optional[str]
    digest: Optional[str]
    digest_state: Optional[Literal["hashed", "not_hashed_yet", "cannot_be_hashed", None]]
    how: Optional[str]
    size: Optional[int]
    detail: Optional[str]


class _Exit(TypedDict):
    cause: Literal["exit", "timeout", "killed", "oom", "lost", "unknown", "not_started", "idle_timeout"]
    code: Optional[int]
    signal: Optional[str]


class Exit(_Exit, total=False):
    error: ErrorCode
    message: str


class _Stream(TypedDict):
    data: str
    encoding: Encoding
    total_bytes: int
    truncated: bool
    sha256: Optional[str]


class Stream(_Stream, total=False):
    tail: str
    tail_encoding: Encoding
    omitted_bytes: int
    next_offset: int


class _ArtifactTaken(TypedDict):
    name: str
    state: Literal["pending", "kept", "failed"]


class ArtifactTaken(_ArtifactTaken, total=False):
    task_id: str
    size: int
    sha256: str
    step: int
    roundId: str
    error: Dict[str, Any]


class _Round(TypedDict):
    round_id: Id
    exec_id: Optional[str]
    task_id: str
    state: Literal["opening", "running", "suspended", "ending", "finished"]
    exit: Optional[Exit]
    stdout: Stream
    stderr: Stream
    duration_ms: int


class Round(_Round, total=False):
    agent: str
    waits: str
    held: Any
    root: Literal["target"]
    shell: Dict[str, Any]
    mcp: Dict[str, Any]
    service: str
    context: Any
    started_at: str
    cwd: Optional[str]
    program: Optional[str]
    snapshot_id: Id
    artifacts: List[ArtifactTaken]


class _Output(TypedDict):
    offset: int
    total_bytes: int
    next_offset: int
    data: str
    encoding: Encoding
    eof: bool


class Output(_Output, total=False):
    gaps: List[Any]


class OutputLines(TypedDict):
    matches: List[Dict[str, Any]]
    next_offset: int
    total_bytes: int
    eof: bool
    gaps: List[Any]


class StdinResult(TypedDict):
    round_id: Id
    taken: int
    eof: bool


class _File(TypedDict):
    op: Literal["put"]
    path: Union[str, Dict[str, Any]]
    size: int
    sha256: str
    agent: str
    session: Id
    duration_ms: int


class File(_File, total=False):
    mode: str


class _FsName(TypedDict):
    path: FilePath
    type: FileType
    size: int
    mode: FileMode
    mtime: str


class FsName(_FsName, total=False):
    target: FilePath


class _FsState(TypedDict):
    type: FileType
    size: int
    mode: FileMode


class FsState(_FsState, total=False):
    sha256: FileDigest


class _FsEntry(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    entry: FsName


class FsEntry(_FsEntry, total=False):
    sha256: FileDigest
    created: bool
    files: int
    changes: FsChanges
    changes_left_out: int


class _FsList(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    path: FilePath
    entries: List[FsName]


class FsList(_FsList, total=False):
    cursor: FilePath
    unreadable: int


class _FsRead(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    path: FilePath
    type: FileType
    size: int
    mode: FileMode
    mtime: str
    sha256: Optional[str]
    offset: int
    length: int
    truncated: bool
    data: str
    encoding: Encoding


class FsRead(_FsRead, total=False):
    from_line: int
    to_line: int
    total_lines: int


class _FsWritten(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    path: FilePath
    type: FileType
    size: int
    mode: FileMode
    mtime: str
    created: bool
    changes: FsChanges


class FsWritten(_FsWritten, total=False):
    sha256: FileDigest
    in_place: bool
    changes_left_out: int


class _FsDeleted(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    path: FilePath
    deleted: int
    changes: FsChanges


class FsDeleted(_FsDeleted, total=False):
    changes_left_out: int


class _FsPatched(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    operations: int
    dry_run: bool


class FsPatched(_FsPatched, total=False):
    changes: FsChanges
    would_change: FsChanges
    changes_left_out: int


class _FsFound(TypedDict):
    op: str
    agent: str
    session: Id
    duration_ms: int
    path: FilePath
    results: List[Dict[str, Any]]
    binary: List[FilePath]
    files: int
    matches: int
    truncated: bool


class FsFound(_FsFound, total=False):
    stopped_by: Literal["limit", "time", "complexity"]
    unreadable: int


class _FsTree(TypedDict):
    op: Literal["tree_put"]
    agent: str
    session: Id
    path: FilePath
    entries: int
    files: int
    bytes: int


class FsTree(_FsTree, total=False):
    duration_ms: int
    replaced: bool
    merged: bool
    left_behind: str
    changes: List[Dict[str, Any]]
    changes_left_out: int


class _FsEvent(TypedDict):
    event: Literal["ready", "created", "modified", "written", "attributes", "deleted", "moved_from", "moved_to", "overflow", "unwatched", "gone"]


class FsEvent(_FsEvent, total=False):
    path: FilePath
    directory: bool
    cookie: int


class RoundRequest(TypedDict, total=False):
    task_id: Name
    exec_id: Name
    argv: List[str]
    command: str
    shell: Union[Any, Dict[str, Any]]
    cwd: str
    env: Dict[str, str]
    stdin: Union[str, Dict[str, Any]]
    stdin_open: bool
    timeout_ms: int
    idle_timeout_ms: int
    wait_ms: int
    yield_ms: int
    pty: Dict[str, Any]
    artifacts: Any
    limits: Dict[str, Any]


class _Artifact(TypedDict):
    task: str
    name: str
    size: int
    sha256: str
    media_type: Optional[str]
    base: Optional[str]
    agent: Optional[str]
    round_id: Optional[str]
    run_id: Optional[str]
    principal: str
    created_at: str
    expires_at: Optional[str]


class Artifact(_Artifact, total=False):
    replaced: bool


class Screen(TypedDict):
    round_id: Id
    cols: int
    rows: int
    offset: int
    exact: bool
    cursor: Dict[str, Any]
    title: str
    alternate: bool
    application_cursor_keys: bool
    bracketed_paste: bool
    runs: List[Dict[str, Any]]


class _Session(TypedDict):
    id: Id
    state: SessionState


class Session(_Session, total=False):
    kind: SessionKind
    agent: str
    principal: str
    principal_kind: Literal["staff", "agent", "auditor", "service"]
    grant_id: Id
    reason: str
    task: str
    exec_id: str
    door: str
    argv: List[Any]
    argv_truncated: bool
    cwd: Optional[str]
    program: Optional[str]
    snapshot_id: Optional[str]
    next_snapshot_id: Optional[str]
    waits: str
    paced: bool
    held: Any
    root: Literal["target"]
    opened_at: str
    ended_at: str
    cols: int
    rows: int
    input_bytes: int
    output_bytes: int
    stderr_bytes: int
    exit: Exit
    attachments: List[Dict[str, Any]]


class PodTemplate(TypedDict, total=False):
    metadata: Dict[str, Any]
    spec: Dict[str, Any]


class Error(TypedDict):
    error: Dict[str, Any]


class _Context(TypedDict):
    context_id: Id
    agent: str
    language: Language
    state: Literal["idle", "busy", "ended"]
    generation: int
    round_id: Optional[str]
    execution_id: Optional[str]
    sandbox_id: Optional[str]
    cwd: Optional[str]
    created_at: str
    last_used_at: str


class Context(_Context, total=False):
    reason: str


class _Printed(TypedDict):
    data: str
    encoding: Encoding
    total_bytes: int
    truncated: bool


class Printed(_Printed, total=False):
    tail: str
    tail_encoding: Encoding
    omitted_bytes: int
    next_offset: int
    sha256: Optional[str]


class ExecutionResult(TypedDict):
    main: bool
    data: Dict[str, Any]
    capped: Dict[str, int]


class ExecutionError(TypedDict):
    name: str
    value: str
    traceback: str
    frames: List[Dict[str, Any]]
    frames_left_out: int


class Execution(TypedDict):
    execution_id: Id
    context_id: Optional[str]
    exec_id: Optional[str]
    task_id: str
    agent: str
    language: Language
    state: Literal["running", "finished"]
    cause: Optional[str]
    message: Optional[str]
    exit_code: Optional[int]
    execution_count: Optional[int]
    stdout: Printed
    stderr: Printed
    results: List[ExecutionResult]
    error: Optional[ExecutionError]
    lines_left_out: int
    code_bytes: int
    code_sha256: str
    duration_ms: int
    started_at: str
