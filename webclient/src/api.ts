// The HTTPS API as the pages use it. Who we are travels in the cookie; the pages never see it.

export interface Grant {
  grant_id: string;
  principal: string;
  kind: string;
  agent: string;
  scopes: string;
  task_id: string;
  reason: string;
  expires_at: string;
  expires_in_ms: number;
  version: string;
}

export interface Agent {
  agent: string;
  state: string;
  backend?: string;
  sandbox_id?: string;
  last_activity_at?: string;
  /** Why each idle stop will fail although there is an idle TTL. */
  cannot_sleep?: string | null;
  /** What went wrong with it last, and what it means for the workspace. */
  detail?: string | null;
  [key: string]: unknown;
}

export interface Attachment {
  principal: string;
  role: "driver" | "observer";
  door: string;
  peer: string;
}

export interface Session {
  id: string;
  kind: "terminal" | "exec" | "round" | "file";
  state: string;
  agent: string;
  principal: string;
  principal_kind: string;
  reason: string;
  task: string;
  argv?: (string | { base64: string })[];
  attachments: Attachment[];
  opened_at?: string;
  ended_at?: string;
  output_bytes?: number;
  exit?: { cause: string; code: number | null; signal: string | null };
}

/** A session as the record has it. */
export interface Recording {
  session: string;
  kind: Session["kind"];
  agent: string;
  principal: string;
  principal_kind: string;
  task: string;
  reason: string;
  opened_at: string | null;
  ended_at: string | null;
  state: "open" | "ended" | "sealed" | "expired" | "kept";
  open?: { argv?: (string | { base64: string })[]; [key: string]: unknown };
  exit?: { cause?: string; code?: number; signal?: number };
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

export const unreachable = (): ApiError => new ApiError(0, "unreachable", "muxd does not answer.", "Is the network there, and the daemon running?");

export async function call<T>(method: string, path: string, options: { body?: unknown; token?: string; signal?: AbortSignal } = {}): Promise<T> {
  const headers: Record<string, string> = {};
  if (options.token) headers["Authorization"] = `Bearer ${options.token}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      ...(options.body !== undefined ? { body: JSON.stringify(options.body) } : {}),
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (e) {
    if (options.signal?.aborted) throw e;
    throw unreachable();
  }
  const value: unknown = await answer.json().catch(() => null);
  if (answer.ok) return value as T;
  const error = (value as { error?: { code?: string; message?: string; hint?: string } } | null)?.error;
  throw new ApiError(answer.status, error?.code ?? "internal", error?.message ?? `The answer was ${answer.status}.`, error?.hint ?? "");
}

export const exchange = (token: string): Promise<Grant> => call("POST", "/v1/web/session", { token });
/** The grant was renewed: the browser keeps the cookie until the new end. */
export const extend = (): Promise<Grant> => call("POST", "/v1/web/session");
export const whoami = (): Promise<Grant> => call("GET", "/v1/web/session");
export const agents = (signal?: AbortSignal): Promise<{ agents: Agent[] }> => call("GET", "/v1/agents", signal ? { signal } : {});
export const sessions = (signal?: AbortSignal): Promise<{ sessions: Session[] }> => call("GET", "/v1/sessions?limit=1000", signal ? { signal } : {});
export const terminate = (id: string, reason: string): Promise<Session> => call("POST", `/v1/sessions/${id}/terminate`, { body: { reason } });

const leaveTries = 3;
const leaveMs = 5000;

/** Takes the cookie away. A line that was cut a moment ago may fail once more, or say nothing: it is asked again. */
export async function leave(): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await call("DELETE", "/v1/web/session", { signal: AbortSignal.timeout(leaveMs) });
      return;
    } catch (e) {
      const answered = e instanceof ApiError && e.status !== 0;
      if (answered) throw e;
      if (tries === leaveTries) throw unreachable();
    }
    await new Promise((r) => setTimeout(r, 500 * tries));
  }
}

export interface RecordingQuery {
  agent?: string;
  principal?: string;
  kind?: string;
  state?: string;
  before?: string;
  limit?: number;
}
export function recordings(query: RecordingQuery, signal?: AbortSignal): Promise<{ recordings: Recording[] }> {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== "") q.set(key, String(value));
  return call("GET", `/v1/recordings?${q.toString()}`, signal ? { signal } : {});
}

/** An agent's name in a path: its slashes stay. */
export const agentPath = (agent: string): string => agent.split("/").map(encodeURIComponent).join("/");

/** The lowest id of a moment: ids are UUIDv7 and begin with milliseconds. */
export function idOfTime(ms: number): string {
  const t = Math.max(0, Math.floor(ms)).toString(16).padStart(12, "0");
  return `${t.slice(0, 8)}-${t.slice(8, 12)}-7000-8000-000000000000`;
}
