/**
 * The API as docs/openapi.yaml describes it: its operations, and the shapes of what it takes and answers.
 *
 * Made by clients/generate.py; a change belongs there, or into docs/openapi.yaml.
 */
export const VERSION = "0.1.0";

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly query: readonly string[];
  readonly body: readonly string[];
}

export const OPERATIONS = {
  getIndex: { method: "GET", path: "/", query: [], body: [] },
  getHealth: { method: "GET", path: "/healthz", query: [], body: [] },
  getReady: { method: "GET", path: "/readyz", query: [], body: [] },
  getMetrics: { method: "GET", path: "/metrics", query: [], body: [] },
  followMcp: { method: "GET", path: "/mcp", query: [], body: [] },
  sendMcp: { method: "POST", path: "/mcp", query: [], body: ["jsonrpc"] },
  endMcp: { method: "DELETE", path: "/mcp", query: [], body: [] },
  followMcpThrough: { method: "GET", path: "/mcp/{agent}/{server}", query: [], body: [] },
  sendMcpThrough: { method: "POST", path: "/mcp/{agent}/{server}", query: [], body: ["jsonrpc"] },
  endMcpThrough: { method: "DELETE", path: "/mcp/{agent}/{server}", query: [], body: [] },
  getProtectedResource: { method: "GET", path: "/.well-known/oauth-protected-resource", query: [], body: [] },
  getProtectedResourceMcp: { method: "GET", path: "/.well-known/oauth-protected-resource/mcp", query: [], body: [] },
  getProtectedResourceThrough: { method: "GET", path: "/.well-known/oauth-protected-resource/mcp/{agent}/{server}", query: [], body: [] },
  listGrants: { method: "GET", path: "/v1/grants", query: ["before", "limit"], body: [] },
  createGrant: { method: "POST", path: "/v1/grants", query: [], body: ["file_max", "issuer", "kind", "operations", "principal", "read", "reason", "scopes", "target", "task_id", "ttl", "uses", "write"] },
  renewGrant: { method: "POST", path: "/v1/grants/renew", query: [], body: ["reason", "ttl"] },
  revokeGrant: { method: "DELETE", path: "/v1/grants/{id}", query: [], body: [] },
  listAgents: { method: "GET", path: "/v1/agents", query: ["state", "prefix", "app_id", "after", "limit"], body: [] },
  getAgent: { method: "GET", path: "/v1/agents/{agent}", query: [], body: [] },
  destroyAgent: { method: "DELETE", path: "/v1/agents/{agent}", query: ["reason", "wipe"], body: [] },
  resumeAgent: { method: "POST", path: "/v1/agents/{agent}/resume", query: [], body: ["app_id", "cluster", "env", "exec_timeout_ms", "idle_ttl", "image", "labels", "namespace", "pod_template", "resources", "timeout_ms", "transfer_timeout_ms", "ttl", "workdir", "workspace"] },
  stopAgent: { method: "POST", path: "/v1/agents/{agent}/stop", query: [], body: ["reason", "timeout_ms"] },
  killInside: { method: "POST", path: "/v1/agents/{agent}/kill", query: [], body: ["reason", "timeout_ms"] },
  terminateAgent: { method: "POST", path: "/v1/agents/{agent}/terminate", query: [], body: ["how", "reason", "timeout_ms"] },
  listSnapshots: { method: "GET", path: "/v1/agents/{agent}/snapshots", query: [], body: [] },
  takeSnapshot: { method: "POST", path: "/v1/agents/{agent}/snapshots", query: [], body: ["reason", "timeout_ms"] },
  dropSnapshot: { method: "DELETE", path: "/v1/agents/{agent}/snapshots/{id}", query: ["reason"], body: [] },
  restoreAgent: { method: "POST", path: "/v1/agents/{agent}/restore", query: [], body: ["accept_differs", "check", "reason", "snapshot_id", "timeout_ms"] },
  forkAgent: { method: "POST", path: "/v1/agents/{agent}/fork", query: [], body: ["accept_differs", "as", "at", "check", "idle_ttl", "image", "pod_template", "reason", "resources", "snapshot_id", "timeout_ms", "ttl", "writable"] },
  getLogs: { method: "GET", path: "/v1/agents/{agent}/logs", query: ["bytes"], body: [] },
  getFile: { method: "GET", path: "/v1/agents/{agent}/files", query: ["path", "path_base64", "timeout_ms", "task_id"], body: [] },
  putFile: { method: "PUT", path: "/v1/agents/{agent}/files", query: ["path", "path_base64", "timeout_ms", "task_id", "mode", "parents"], body: [] },
  listLocks: { method: "GET", path: "/v1/agents/{agent}/locks", query: [], body: [] },
  takeLock: { method: "POST", path: "/v1/agents/{agent}/locks", query: [], body: ["label", "path", "task_id", "ttl_ms"] },
  renewLock: { method: "POST", path: "/v1/agents/{agent}/locks/{id}", query: [], body: ["task_id", "ttl_ms"] },
  releaseLock: { method: "DELETE", path: "/v1/agents/{agent}/locks/{id}", query: ["task_id"], body: [] },
  watchFiles: { method: "GET", path: "/v1/agents/{agent}/fs/watch", query: ["path", "path_base64", "timeout_ms", "task_id", "recursive"], body: [] },
  getTree: { method: "GET", path: "/v1/agents/{agent}/fs/tree", query: ["path", "path_base64", "timeout_ms", "task_id", "gitignore"], body: [] },
  putTree: { method: "PUT", path: "/v1/agents/{agent}/fs/tree", query: ["path", "path_base64", "timeout_ms", "task_id", "overwrite", "merge", "parents"], body: [] },
  statFile: { method: "POST", path: "/v1/agents/{agent}/fs/stat", query: [], body: ["follow", "path", "sha256", "task_id", "timeout_ms"] },
  listFile: { method: "POST", path: "/v1/agents/{agent}/fs/list", query: [], body: ["cursor", "depth", "gitignore", "ignore", "limit", "path", "task_id", "timeout_ms"] },
  readFile: { method: "POST", path: "/v1/agents/{agent}/fs/read", query: [], body: ["from_line", "length", "offset", "path", "task_id", "timeout_ms", "to_line"] },
  writeFile: { method: "POST", path: "/v1/agents/{agent}/fs/write", query: [], body: ["create_only", "data", "encoding", "if_match", "mode", "parents", "path", "task_id", "timeout_ms"] },
  appendFile: { method: "POST", path: "/v1/agents/{agent}/fs/append", query: [], body: ["data", "encoding", "if_match", "mode", "parents", "path", "task_id", "timeout_ms"] },
  mkdirFile: { method: "POST", path: "/v1/agents/{agent}/fs/mkdir", query: [], body: ["mode", "parents", "path", "task_id", "timeout_ms"] },
  moveFile: { method: "POST", path: "/v1/agents/{agent}/fs/move", query: [], body: ["if_match", "overwrite", "parents", "path", "task_id", "timeout_ms", "to"] },
  copyFile: { method: "POST", path: "/v1/agents/{agent}/fs/copy", query: [], body: ["overwrite", "parents", "path", "recursive", "task_id", "timeout_ms", "to"] },
  deleteFile: { method: "POST", path: "/v1/agents/{agent}/fs/delete", query: [], body: ["if_match", "path", "recursive", "task_id", "timeout_ms"] },
  chmodFile: { method: "POST", path: "/v1/agents/{agent}/fs/chmod", query: [], body: ["mode", "path", "task_id", "timeout_ms"] },
  patchFile: { method: "POST", path: "/v1/agents/{agent}/fs/patch", query: [], body: ["data", "dry_run", "encoding", "path", "task_id", "timeout_ms"] },
  searchFile: { method: "POST", path: "/v1/agents/{agent}/fs/search", query: [], body: ["context", "gitignore", "ignore", "ignore_case", "limit", "path", "pattern", "regex", "task_id", "timeout_ms"] },
  globFile: { method: "POST", path: "/v1/agents/{agent}/fs/glob", query: [], body: ["cursor", "gitignore", "ignore", "limit", "path", "pattern", "task_id", "timeout_ms"] },
  startRound: { method: "POST", path: "/v1/agents/{agent}/rounds", query: [], body: ["argv", "artifacts", "command", "cwd", "env", "exec_id", "idle_timeout_ms", "limits", "pty", "shell", "stdin", "stdin_open", "task_id", "timeout_ms", "wait_ms", "yield_ms"] },
  listContexts: { method: "GET", path: "/v1/agents/{agent}/contexts", query: [], body: [] },
  createContext: { method: "POST", path: "/v1/agents/{agent}/contexts", query: [], body: ["cwd", "env", "language", "task_id"] },
  getContext: { method: "GET", path: "/v1/agents/{agent}/contexts/{id}", query: [], body: [] },
  deleteContext: { method: "DELETE", path: "/v1/agents/{agent}/contexts/{id}", query: ["task_id"], body: [] },
  executeCode: { method: "POST", path: "/v1/agents/{agent}/contexts/{id}/executions", query: [], body: ["code", "exec_id", "task_id", "timeout_ms", "yield_ms"] },
  interruptContext: { method: "POST", path: "/v1/agents/{agent}/contexts/{id}/interrupt", query: [], body: ["task_id"] },
  resetContext: { method: "POST", path: "/v1/agents/{agent}/contexts/{id}/reset", query: [], body: ["env", "task_id"] },
  executePython: { method: "POST", path: "/v1/agents/{agent}/python", query: [], body: ["code", "cwd", "env", "exec_id", "task_id", "timeout_ms", "yield_ms"] },
  listServices: { method: "GET", path: "/v1/agents/{agent}/services", query: ["version"], body: [] },
  setServices: { method: "PUT", path: "/v1/agents/{agent}/services", query: ["if_version"], body: ["services"] },
  getService: { method: "GET", path: "/v1/agents/{agent}/services/{service}", query: [], body: [] },
  getServiceLog: { method: "GET", path: "/v1/agents/{agent}/services/{service}/log", query: ["bytes"], body: [] },
  restartService: { method: "POST", path: "/v1/agents/{agent}/services/{service}/restart", query: [], body: ["reason"] },
  showFilespace: { method: "GET", path: "/v1/agents/{agent}/filespace", query: [], body: [] },
  syncFilespace: { method: "POST", path: "/v1/agents/{agent}/filespace/sync", query: [], body: ["direction"] },
  listMcpServers: { method: "GET", path: "/v1/agents/{agent}/mcp/servers", query: ["version"], body: [] },
  setMcpServers: { method: "PUT", path: "/v1/agents/{agent}/mcp/servers", query: ["if_version"], body: ["servers"] },
  getMcpServer: { method: "GET", path: "/v1/agents/{agent}/mcp/servers/{server}", query: [], body: [] },
  refreshMcpServer: { method: "POST", path: "/v1/agents/{agent}/mcp/servers/{server}/refresh", query: [], body: ["task_id"] },
  approveMcpServer: { method: "POST", path: "/v1/agents/{agent}/mcp/servers/{server}/approve", query: [], body: ["fingerprint"] },
  requestMcp: { method: "POST", path: "/v1/agents/{agent}/mcp/request", query: [], body: ["exec_id", "method", "params", "server", "task_id", "timeout_ms"] },
  listShells: { method: "GET", path: "/v1/agents/{agent}/shells", query: [], body: [] },
  endShell: { method: "DELETE", path: "/v1/agents/{agent}/shells/{name}", query: ["task_id"], body: [] },
  openTerminal: { method: "GET", path: "/v1/agents/{agent}/terminal", query: ["cols", "rows", "task"], body: [] },
  exec: { method: "GET", path: "/v1/agents/{agent}/exec", query: [], body: [] },
  getMoment: { method: "GET", path: "/v1/agents/{agent}/moment", query: ["opened_at", "snapshot_id"], body: [] },
  getRound: { method: "GET", path: "/v1/rounds/{id}", query: ["wait_ms", "yield_ms"], body: [] },
  getRetention: { method: "GET", path: "/v1/retention", query: [], body: [] },
  applyRetention: { method: "POST", path: "/v1/retention/apply", query: [], body: ["reason"] },
  listHolds: { method: "GET", path: "/v1/holds", query: ["all"], body: [] },
  addHold: { method: "POST", path: "/v1/holds", query: [], body: ["agent", "from", "principal", "reason", "session", "until"] },
  releaseHold: { method: "DELETE", path: "/v1/holds/{id}", query: ["reason"], body: [] },
  listArtifacts: { method: "GET", path: "/v1/tasks/{task}/artifacts", query: ["run", "round", "after", "limit"], body: [] },
  takeArtifact: { method: "POST", path: "/v1/tasks/{task}/artifacts", query: [], body: ["agent", "changes", "create_only", "max_bytes", "name", "path", "round", "stream", "timeout_ms"] },
  getArtifact: { method: "GET", path: "/v1/tasks/{task}/artifacts/{name}", query: [], body: [] },
  putArtifact: { method: "PUT", path: "/v1/tasks/{task}/artifacts/{name}", query: ["sha256", "media_type"], body: [] },
  deleteArtifact: { method: "DELETE", path: "/v1/tasks/{task}/artifacts/{name}", query: [], body: [] },
  listRecordings: { method: "GET", path: "/v1/recordings", query: ["agent", "principal", "kind", "state", "before", "limit"], body: [] },
  listAudit: { method: "GET", path: "/v1/audit", query: ["after", "limit", "agent", "principal", "event", "session", "lease", "run", "client_request"], body: [] },
  getHead: { method: "GET", path: "/v1/head", query: [], body: [] },
  mintLease: { method: "POST", path: "/v1/edge/leases", query: [], body: ["edge", "file_max", "kind", "operations", "principal", "read", "reason", "scopes", "target", "task_id", "ttl", "uses", "write"] },
  getEdgeState: { method: "GET", path: "/v1/edge/state", query: [], body: [] },
  getPolicy: { method: "GET", path: "/v1/policy", query: [], body: [] },
  listHeads: { method: "GET", path: "/v1/witness/heads", query: ["log_id", "limit"], body: [] },
  keepHead: { method: "POST", path: "/v1/witness/heads", query: [], body: ["after", "entries", "head", "signature"] },
  getRecording: { method: "GET", path: "/v1/recordings/{id}", query: [], body: [] },
  getRecordingEvents: { method: "GET", path: "/v1/recordings/{id}/events", query: ["from_ns", "after_seq", "limit"], body: [] },
  getRecordingScreen: { method: "GET", path: "/v1/recordings/{id}/screen", query: ["at_ns"], body: [] },
  getExecution: { method: "GET", path: "/v1/executions/{id}", query: ["yield_ms"], body: [] },
  getRoundOutput: { method: "GET", path: "/v1/rounds/{id}/output", query: ["stream", "offset", "limit", "tail", "lines", "raw", "follow", "grep", "regex", "ignore_case"], body: [] },
  getRoundEvents: { method: "GET", path: "/v1/rounds/{id}/events", query: ["last_event_id"], body: [] },
  writeRoundStdin: { method: "POST", path: "/v1/rounds/{id}/stdin", query: [], body: ["data", "encoding", "eof", "offset"] },
  signalRound: { method: "POST", path: "/v1/rounds/{id}/signal", query: [], body: ["signal"] },
  sendRoundKeys: { method: "POST", path: "/v1/rounds/{id}/keys", query: [], body: ["keys"] },
  resizeRound: { method: "POST", path: "/v1/rounds/{id}/resize", query: [], body: ["cols", "rows"] },
  getRoundScreen: { method: "GET", path: "/v1/rounds/{id}/screen", query: ["format", "wait_ms", "after"], body: [] },
  listSessions: { method: "GET", path: "/v1/sessions", query: ["agent", "state", "kind", "live", "limit"], body: [] },
  getSession: { method: "GET", path: "/v1/sessions/{id}", query: [], body: [] },
  terminateSession: { method: "POST", path: "/v1/sessions/{id}/terminate", query: [], body: ["reason"] },
  forkSession: { method: "POST", path: "/v1/sessions/{id}/fork", query: [], body: ["accept_differs", "as", "at_ms", "check", "idle_ttl", "image", "pod_template", "reason", "resources", "snapshot_id", "timeout_ms", "ttl", "writable"] },
  attachSession: { method: "GET", path: "/v1/sessions/{id}/attach", query: ["role", "offset", "cols", "rows", "screen"], body: [] },
  getWebSession: { method: "GET", path: "/v1/web/session", query: [], body: [] },
  createWebSession: { method: "POST", path: "/v1/web/session", query: [], body: [] },
  endWebSession: { method: "DELETE", path: "/v1/web/session", query: [], body: [] },
  listLeases: { method: "GET", path: "/sandboxes/leases", query: ["state", "limit"], body: [] },
  createLease: { method: "POST", path: "/sandboxes/leases", query: [], body: ["requestId", "ttlSeconds", "userId", "workflowId"] },
  getLease: { method: "GET", path: "/sandboxes/leases/{id}", query: [], body: [] },
  releaseLease: { method: "DELETE", path: "/sandboxes/leases/{id}", query: [], body: [] },
  heartbeatLease: { method: "POST", path: "/sandboxes/leases/{id}/heartbeat", query: [], body: [] },
  listRuns: { method: "GET", path: "/sandboxes/runs", query: ["leaseId", "limit"], body: [] },
  startRun: { method: "POST", path: "/sandboxes/runs", query: [], body: ["leaseId", "runId", "timeoutSeconds", "token", "workflowId"] },
  getRun: { method: "GET", path: "/sandboxes/runs/{id}", query: ["leaseId"], body: [] },
  listWorkflows: { method: "GET", path: "/sandboxes/workflows", query: ["limit"], body: [] },
  putWorkflow: { method: "POST", path: "/sandboxes/workflows", query: [], body: ["description", "hints", "name", "owner", "schedule", "steps", "version"] },
  getWorkflow: { method: "GET", path: "/sandboxes/workflows/{id}", query: [], body: [] },
  getPool: { method: "GET", path: "/sandboxes/pool", query: [], body: [] },
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof OPERATIONS;

export interface SandboxReference {
  name: string;
  cluster: string | null;
  namespace: string | null;
  app_id: string | null;
}

export type AgentState = "stopped" | "starting" | "running" | "idle_stopping" | "stopping" | "destroying" | "error";

export interface Agent {
  agent: string;
  state: AgentState | "absent";
  sandbox_id?: string | null;
  backend?: "local" | "link" | "plain";
  backend_reason?: string | null;
  delivery?: string | null;
  ephemeral_container?: string | null;
  namespace?: string | null;
  pod?: string | null;
  image?: string | null;
  image_made_with?: string | null;
  image_digest?: string | null;
  resources?: unknown;
  resources_clipped?: ("cpu" | "memory" | "pids")[] | null;
  by_profile?: {
    image?: string | null;
    resources?: unknown;
    clipped?: ("cpu" | "memory" | "pids" | "exec_timeout_ms")[] | null;
    exec_timeout_ms?: number;
  };
  resources_made_with?: unknown;
  pod_made_with?: string | null;
  pod_template?: string | null;
  own_pod_template?: string | null;
  pod_template_refused?: string;
  link?: "waking" | "up" | "lost" | null | null;
  cause?: string | null;
  step?: string | null;
  generation?: number;
  state_since?: string | null;
  workspace?: boolean;
  read_only?: boolean;
  forked_from?: {
    agent: string;
    snapshot: string | null;
  };
  began_with?: {
    workspace: string;
    sha256: string;
  };
  workspace_snapshot_id?: string | null;
  snapshot_check?: "checked" | "not_checked" | "not_hashed_yet" | "cannot_be_hashed" | "differs";
  next_snapshot_id?: string | null;
  last_activity_at?: string | null;
  idle_ttl_ms?: number;
  idle_stops_at?: string | null;
  cannot_sleep?: string | null;
  lease_expires_at?: string | null;
  ttl_action?: "stop" | "delete";
  holding?: number;
  attached?: number;
  started_at?: string | null;
  created_at?: string | null;
  updated_at?: string | null;
  sessions?: number;
  sessions_ended?: number;
  oom_kills?: number;
  detail?: string | null;
  app_id?: string | null;
  reference?: SandboxReference;
  workdir?: string;
  env_names?: string[];
  labels?: Record<string, string>;
  exec_timeout_ms?: number;
  transfer_timeout_ms?: number;
  timeouts_clipped?: ("exec_timeout_ms" | "transfer_timeout_ms")[];
  persists?: string[];
  endpoints?: {
    port: number;
    service: string;
    state: unknown;
  }[];
  enforced?: {
    workspace_size?: boolean;
    memory?: boolean;
    pids?: boolean;
    cpu?: boolean;
  };
}

export type Id = string;

export interface Snapshot {
  id: Id;
  agent: string;
  status: "taking" | "ready" | "failed" | "dropping" | "dropped";
  current?: boolean;
  cause?: string | null;
  quiesced?: boolean;
  quiesce?: "frozen" | "synced" | "none";
  previous_id?: string | null;
  name?: string | null;
  digest?: string | null;
  digest_state?: "hashed" | "not_hashed_yet" | "cannot_be_hashed" | null | null;
  how?: string | null;
  size?: number | null;
  created_at: string;
  detail?: string | null;
}

export type ErrorCode = "internal" | "out_of_memory" | "system_error" | "invalid_request" | "invalid_config" | "too_large" | "not_found" | "unauthenticated" | "token_malformed" | "token_signature" | "token_expired" | "token_not_yet_valid" | "token_revoked" | "token_foreign" | "token_algorithm" | "token_key_unknown" | "token_claims" | "token_used" | "issuer_unknown" | "issuer_unavailable" | "revocations_old" | "forbidden" | "grant_not_narrower" | "policy_denied" | "reason_required" | "task_required" | "task_mismatch" | "conflict" | "bad_state" | "already_ended" | "try_again" | "rate_limited" | "limit_reached" | "answer_lost" | "record_share_full" | "timeout" | "cancelled" | "grant_ended" | "record_unavailable" | "disk_full" | "sandbox_create_failed" | "sandbox_create_timeout" | "sandbox_exec_timeout" | "program_not_found" | "program_not_executable" | "sandbox_transfer_timeout" | "sandbox_transfer_failed" | "file_not_found" | "file_permission_denied" | "not_a_file" | "not_a_directory" | "file_exists" | "directory_not_empty" | "file_changed" | "range_past_end" | "patch_refused" | "path_outside" | "path_not_allowed" | "locked" | "workspace_full" | "artifacts_full" | "base_unknown" | "no_git" | "port_unreachable" | "port_bad_answer" | "page_not_allowed" | "pty_not_allowed" | "shell_busy" | "shell_ended" | "context_busy" | "context_ended" | "secret_refused" | "egress_not_open" | "platform_server" | "list_changed" | "mcp_server_failed" | "mcp_server_down" | "service_down" | "mcp_server_held" | "port_not_allowed" | "snapshot_failed" | "data_kept" | "filespace_failed" | "snapshot_differs" | "link_lost" | "protocol_error" | "version_unsupported" | "corrupt" | "address_in_use" | "permission_denied" | "image_not_allowed" | "image_invalid" | "unsupported" | "no_shell" | "no_end_of_input" | "missing_dependency" | "unavailable" | "sandbox_k8s_error" | "k8s_unreachable" | "k8s_tls_failed" | "k8s_unauthenticated" | "k8s_forbidden" | "k8s_conflict" | "k8s_invalid" | "k8s_field_dropped" | "k8s_gone" | "k8s_busy" | "did_not_run" | "end_of_file";

export interface Exit {
  cause: "exit" | "timeout" | "killed" | "oom" | "lost" | "unknown" | "not_started" | "idle_timeout";
  code: number | null;
  signal: string | null;
  error?: ErrorCode;
  message?: string;
}

export type Encoding = "utf-8" | "base64";

export interface Stream {
  data: string;
  encoding: Encoding;
  tail?: string;
  tail_encoding?: Encoding;
  total_bytes: number;
  omitted_bytes?: number;
  next_offset?: number;
  truncated: boolean;
  sha256: string | null;
}

export interface ArtifactTaken {
  name: string;
  state: "pending" | "kept" | "failed";
  task_id?: string;
  size?: number;
  sha256?: string;
  step?: number;
  roundId?: string;
  error?: {
    code: ErrorCode;
    message: string;
  };
}

export interface Round {
  round_id: Id;
  exec_id: string | null;
  task_id: string;
  agent?: string;
  state: "opening" | "running" | "suspended" | "ending" | "finished";
  waits?: string;
  held?: unknown;
  root?: "target";
  shell?: {
    name: string;
    fresh: boolean;
  };
  mcp?: Record<string, unknown>;
  service?: string;
  context?: unknown;
  exit: null | Exit;
  stdout: Stream;
  stderr: Stream;
  duration_ms: number;
  started_at?: string;
  cwd?: string | null;
  program?: string | null;
  snapshot_id?: Id;
  artifacts?: ArtifactTaken[];
}

export interface Output {
  offset: number;
  total_bytes: number;
  next_offset: number;
  data: string;
  encoding: Encoding;
  eof: boolean;
  gaps?: unknown[];
}

export interface OutputLines {
  matches: ({
    offset: number;
    line: number | null;
    bytes: number;
    data: string;
    encoding: Encoding;
    cut: boolean;
  })[];
  next_offset: number;
  total_bytes: number;
  eof: boolean;
  gaps: unknown[];
}

export interface StdinResult {
  round_id: Id;
  taken: number;
  eof: boolean;
}

export interface File {
  op: "put";
  path: string | {
    base64: string;
  };
  mode?: string;
  size: number;
  sha256: string;
  agent: string;
  session: Id;
  duration_ms: number;
}

export type FilePath = string | {
  base64: string;
};

export type FileType = "file" | "directory" | "symlink" | "fifo" | "socket" | "device";

export type FileMode = string;

export interface FsName {
  path: FilePath;
  type: FileType;
  size: number;
  mode: FileMode;
  mtime: string;
  target?: FilePath;
}

export type FileDigest = string;

export interface FsState {
  type: FileType;
  size: number;
  mode: FileMode;
  sha256?: FileDigest;
}

export type FsChanges = {
  path: FilePath;
  before: FsState;
  after: FsState;
}[];

export interface FsEntry {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  entry: FsName;
  sha256?: FileDigest;
  created?: boolean;
  files?: number;
  changes?: FsChanges;
  changes_left_out?: number;
}

export interface FsList {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  path: FilePath;
  entries: FsName[];
  cursor?: FilePath;
  unreadable?: number;
}

export interface FsRead {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  path: FilePath;
  type: FileType;
  size: number;
  mode: FileMode;
  mtime: string;
  sha256: string | null;
  offset: number;
  length: number;
  from_line?: number;
  to_line?: number;
  total_lines?: number;
  truncated: boolean;
  data: string;
  encoding: Encoding;
}

export interface FsWritten {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  path: FilePath;
  type: FileType;
  size: number;
  mode: FileMode;
  mtime: string;
  sha256?: FileDigest;
  created: boolean;
  in_place?: boolean;
  changes: FsChanges;
  changes_left_out?: number;
}

export interface FsDeleted {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  path: FilePath;
  deleted: number;
  changes: FsChanges;
  changes_left_out?: number;
}

export interface FsPatched {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  operations: number;
  dry_run: boolean;
  changes?: FsChanges;
  would_change?: FsChanges;
  changes_left_out?: number;
}

export interface FsFound {
  op: string;
  agent: string;
  session: Id;
  duration_ms: number;
  path: FilePath;
  results: {
    path: FilePath;
    lines: {
      line: number;
      match: boolean;
      column?: number;
      text: string;
      cut?: boolean;
    }[];
  }[];
  binary: FilePath[];
  files: number;
  matches: number;
  truncated: boolean;
  stopped_by?: "limit" | "time" | "complexity";
  unreadable?: number;
}

export interface FsTree {
  op: "tree_put";
  agent: string;
  session: Id;
  duration_ms?: number;
  path: FilePath;
  entries: number;
  files: number;
  bytes: number;
  replaced?: boolean;
  merged?: boolean;
  left_behind?: string;
  changes?: Record<string, unknown>[];
  changes_left_out?: number;
}

export interface FsEvent {
  event: "ready" | "created" | "modified" | "written" | "attributes" | "deleted" | "moved_from" | "moved_to" | "overflow" | "unwatched" | "gone";
  path?: FilePath;
  directory?: boolean;
  cookie?: number;
}

export type Duration = string;

export type Name = string;

export interface RoundRequest {
  task_id?: Name;
  exec_id?: Name;
  argv?: string[];
  command?: string;
  shell?: unknown | {
    name: unknown;
    fresh?: boolean;
  };
  cwd?: string;
  env?: Record<string, string>;
  stdin?: string | {
    data: string;
    encoding?: Encoding;
  };
  stdin_open?: boolean;
  timeout_ms?: number;
  idle_timeout_ms?: number;
  wait_ms?: number;
  yield_ms?: number;
  pty?: {
    cols?: number;
    rows?: number;
    xpixel?: number;
    ypixel?: number;
    term?: string;
  };
  artifacts?: unknown;
  limits?: {
    head_bytes?: number;
    tail_bytes?: number;
  };
}

export interface Artifact {
  task: string;
  name: string;
  size: number;
  sha256: string;
  media_type: string | null;
  base: string | null;
  agent: string | null;
  round_id: string | null;
  run_id: string | null;
  principal: string;
  created_at: string;
  expires_at: string | null;
  replaced?: boolean;
}

export interface Screen {
  round_id: Id;
  cols: number;
  rows: number;
  offset: number;
  exact: boolean;
  cursor: {
    row: number;
    col: number;
    visible: boolean;
  };
  title: string;
  alternate: boolean;
  application_cursor_keys: boolean;
  bracketed_paste: boolean;
  runs: ({
    row: number;
    col: number;
    cells: number;
    text: string;
    fg?: number | string | null;
    bg?: number | string | null;
    attrs?: ("bold" | "faint" | "italic" | "blink" | "reverse" | "hidden" | "struck" | "overlined" | "underlined")[];
  })[];
}

export type SessionKind = "terminal" | "exec" | "round" | "file" | "port" | "mcp";

export type SessionState = "opening" | "running" | "suspended" | "ending" | "ended";

export interface Session {
  id: Id;
  kind?: SessionKind;
  state: SessionState;
  agent?: string;
  principal?: string;
  principal_kind?: "staff" | "agent" | "auditor" | "service";
  grant_id?: Id;
  reason?: string;
  task?: string;
  exec_id?: string;
  door?: string;
  argv?: unknown[];
  argv_truncated?: boolean;
  cwd?: string | null;
  program?: string | null;
  snapshot_id?: string | null;
  next_snapshot_id?: string | null;
  waits?: string;
  paced?: boolean;
  held?: unknown;
  root?: "target";
  opened_at?: string;
  ended_at?: string;
  cols?: number;
  rows?: number;
  input_bytes?: number;
  output_bytes?: number;
  stderr_bytes?: number;
  exit?: Exit;
  attachments?: ({
    principal?: string;
    role?: "driver" | "observer" | "moderator";
    door?: string;
    peer?: string;
  })[];
}

export interface PodTemplate {
  metadata?: Record<string, unknown>;
  spec?: Record<string, unknown>;
}

export interface Error {
  error: {
    code: ErrorCode;
    message: string;
    hint: string;
    request_id: Id;
    details?: {
      offset?: number;
      round_id?: string;
      session_id?: string;
      limit?: string;
      of?: "principal" | "task" | "agent" | "daemon" | "grant" | "issuer" | "edge" | "server" | "address";
      retry_after?: number;
      value?: number;
      in_use?: number;
      policy?: {
        operation: string;
        rule: string;
        version: string;
        needs: string;
      };
      kubernetes?: {
        code: number;
        reason: string;
        message: string;
      };
    };
  };
}

export type Language = "python" | "javascript" | "bash";

export interface Context {
  context_id: Id;
  agent: string;
  language: Language;
  state: "idle" | "busy" | "ended";
  reason?: string;
  generation: number;
  round_id: string | null;
  execution_id: string | null;
  sandbox_id: string | null;
  cwd: string | null;
  created_at: string;
  last_used_at: string;
}

export interface Printed {
  data: string;
  encoding: Encoding;
  total_bytes: number;
  truncated: boolean;
  tail?: string;
  tail_encoding?: Encoding;
  omitted_bytes?: number;
  next_offset?: number;
  sha256?: string | null;
}

export interface ExecutionResult {
  main: boolean;
  data: Record<string, unknown>;
  capped: Record<string, number>;
}

export interface ExecutionError {
  name: string;
  value: string;
  traceback: string;
  frames: {
    file: string;
    line: number;
    function: string;
    source: string;
  }[];
  frames_left_out: number;
}

export interface Execution {
  execution_id: Id;
  context_id: string | null;
  exec_id: string | null;
  task_id: string;
  agent: string;
  language: Language;
  state: "running" | "finished";
  cause: string | null;
  message: string | null;
  exit_code: number | null;
  execution_count: number | null;
  stdout: Printed;
  stderr: Printed;
  results: ExecutionResult[];
  error: null | ExecutionError;
  lines_left_out: number;
  code_bytes: number;
  code_sha256: string;
  duration_ms: number;
  started_at: string;
}
