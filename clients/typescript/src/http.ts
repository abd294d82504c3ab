/** Requests to muxd: sent again where that is safe, and only there. */
import { OPERATIONS, type OperationName } from "./api.js";
import { AnswerLost, BY_CODE, ConnectionLost, InvalidRequest, ProtocolError, RequestTimeout, SandboxError } from "./errors.js";
import { Broken, whole, type Answer, type Ask, type Body, type Transport } from "./transport.js";

export interface ClientOptions {
  /** The task that calls belong to, where the grant names none. */
  taskId?: string;
  /** How long an answer may take to begin, and how long it may say nothing. */
  requestTimeoutMs?: number;
  /** How long requests that are safe to repeat are repeated. */
  retryForMs?: number;
}

export interface Call {
  query?: Record<string, string | number | boolean | undefined>;
  json?: Record<string, unknown>;
  body?: Body;
  size?: number;
  accept?: string;
  /** More of the request's head. */
  headers?: Record<string, string>;
  /** Saying it twice does no harm. */
  again?: boolean;
  timeoutMs?: number;
  patient?: boolean;
}

const PAUSE = 50;
const PAUSE_MAX = 2000;

export class Client {
  readonly transport: Transport;
  readonly taskId: string | undefined;
  readonly requestTimeoutMs: number;
  readonly retryForMs: number;
  /** muxd has answered before: who does not listen now is restarting. */
  #reached = false;

  constructor(transport: Transport, options: ClientOptions) {
    this.transport = transport;
    this.taskId = options.taskId;
    this.requestTimeoutMs = options.requestTimeoutMs ?? 60_000;
    this.retryForMs = options.retryForMs ?? 30_000;
  }

  close(): void {
    this.transport.close();
  }

  /** An answer of JSON. */
  async json<T>(operation: OperationName, values: Record<string, string>, call: Call = {}): Promise<T> {
    const { bytes, answer } = await this.bytes(operation, values, call);
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder().decode(bytes));
    } catch (e) {
      throw new ProtocolError(`the answer ${answer.status} is no JSON`, { status: answer.status, cause: e });
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ProtocolError(`the answer ${answer.status} is no object`, { status: answer.status });
    return value as T;
  }

  /** A whole answer: a cut in its body counts as one before. */
  async bytes(operation: OperationName, values: Record<string, string>, call: Call = {}): Promise<{ bytes: Uint8Array<ArrayBuffer>; answer: Answer }> {
    return this.#again(operation, values, call, async (answer) => ({ bytes: await whole(answer), answer }));
  }

  /** An answer whose body has yet to be read, or closed. */
  open(operation: OperationName, values: Record<string, string>, call: Call = {}): Promise<Answer> {
    return this.#again(operation, values, call, (answer) => Promise.resolve(answer));
  }

  async #again<T>(operation: OperationName, values: Record<string, string>, call: Call, take: (answer: Answer) => Promise<T>): Promise<T> {
    const end = Date.now() + this.retryForMs;
    const once = call.body !== undefined && !(call.body instanceof Uint8Array);
    const attempts: Attempts = { requestId: this.transport.uuid(), method: OPERATIONS[operation].method, maybeDone: false };
    for (let pause = PAUSE; ; pause = Math.min(pause * 2, PAUSE_MAX)) {
      try {
        const answer = await this.#try(operation, values, call, attempts);
        const taken = await this.#guarded(call, attempts, () => take(answer));
        this.#reached = true;
        return taken;
      } catch (e) {
        const after = once ? undefined : comesBack(e, call.again ?? false);
        const wait = Math.max(after ?? 0, pause);
        if (after === undefined || Date.now() + wait > end) throw e;
        await sleep(wait);
      }
    }
  }

  async #try(operation: OperationName, values: Record<string, string>, call: Call, attempts: Attempts): Promise<Answer> {
    const about = OPERATIONS[operation];
    const token = await this.transport.token();
    const headers: Record<string, string> = { Accept: call.accept ?? "application/json", "X-Request-Id": attempts.requestId, ...call.headers };
    if (token !== undefined) headers.Authorization = `Bearer ${token}`;
    const ask: Ask = {
      method: about.method,
      target: target(about.path, values, this.#withTask(call.query ?? {}, about.query)),
      headers,
      reuse: call.again ?? false,
      timeoutMs: call.timeoutMs ?? this.requestTimeoutMs,
      ...(call.patient ? { patient: true } : {}),
      ...(call.size === undefined ? {} : { size: call.size }),
    };
    if (call.json) {
      headers["Content-Type"] = "application/json";
      ask.body = new TextEncoder().encode(JSON.stringify(this.#withTask(call.json, about.body)));
    } else if (call.body) {
      headers["Content-Type"] = "application/octet-stream";
      ask.body = call.body instanceof Uint8Array || call.size === undefined ? call.body : counted(call.body, call.size);
    }
    return this.#guarded(call, attempts, async () => {
      const answer = await this.transport.request(ask);
      if (answer.status >= 300) throw errorOf(answer.status, await whole(answer), answer.header("retry-after"));
      return answer;
    });
  }

  async #guarded<T>(call: Call, attempts: Attempts, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (e) {
      if (!(e instanceof Broken)) throw e;
      attempts.maybeDone ||= !e.unsent && attempts.method !== "GET";
      const { requestId, maybeDone } = attempts;
      const about = { requestId, maybeDone, mayComeBack: (e.unsent ? this.#reached : (call.again ?? false)) && !e.late && !e.final, cause: e };
      if (e.unsent) throw new ConnectionLost(`muxd cannot be reached at ${this.transport.address}: ${e.message}.`, about);
      throw new (e.late ? RequestTimeout : ConnectionLost)(`the connection to ${this.transport.address}: ${e.message}.`, about);
    }
  }

  #withTask<T extends Record<string, unknown>>(words: T, takes: readonly string[]): T {
    return this.taskId !== undefined && takes.includes("task_id") && words.task_id === undefined ? { ...words, task_id: this.taskId } : words;
  }
}

/** Of one call, which may be said several times. */
interface Attempts {
  readonly requestId: string;
  readonly method: string;
  /** One of them may have been carried out. */
  maybeDone: boolean;
}

/** As many bytes as were announced: what is behind them would be read as the next request. */
async function* counted(body: AsyncIterable<Uint8Array>, size: number): AsyncIterable<Uint8Array> {
  let sent = 0;
  for await (const piece of body as AsyncIterable<Uint8Array | string>) {
    const bytes = typeof piece === "string" ? new TextEncoder().encode(piece) : piece; // who has no types gives text, too
    sent += bytes.length;
    if (sent > size) throw new RangeError(`the content is longer than the ${size} bytes that were announced`);
    yield bytes;
  }
  if (sent < size) throw new RangeError(`the content has ${sent} bytes, and ${size} were announced`);
}

export function sleep(ms: number): Promise<void> {
  return new Promise((go) => setTimeout(go, ms));
}

export function target(path: string, values: Record<string, string>, query: NonNullable<Call["query"]>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(values[name] ?? "");
    // A URL with one of these is another URL, though it be percent-encoded.
    if (!value.split("/").every((step) => !["", ".", ".."].includes(step))) {
      throw new InvalidRequest(`the ${name} ${JSON.stringify(value)} is no name`, { hint: "It is part of a URL: neither it nor a step of it is empty, . or .." });
    }
    return encodeURIComponent(value);
  });
  const pairs = Object.entries(query).flatMap(([k, v]) => (v === undefined ? [] : [`${k}=${encodeURIComponent(String(v))}`]));
  return pairs.length ? `${filled}?${pairs.join("&")}` : filled;
}

/** Milliseconds until it may be tried again; undefined: not. */
function comesBack(e: unknown, again: boolean): number | undefined {
  if (e instanceof ConnectionLost) return e.mayComeBack ? 0 : undefined;
  if (e instanceof SandboxError && e.status === 429) return e.retryAfter * 1000; // nothing was done
  if (again && e instanceof SandboxError && (e.status === 503 || e instanceof AnswerLost)) return e.retryAfter * 1000;
  return undefined;
}

export interface ErrorBody {
  code: string;
  message: string;
  hint?: string;
  request_id?: string;
  status?: number;
  details?: Record<string, unknown>;
}

export function errorFrom(about: ErrorBody, status: number, retryAfter?: string): SandboxError {
  const kind = BY_CODE.get(about.code) ?? SandboxError;
  return new kind(about.message, {
    code: about.code,
    hint: about.hint ?? "",
    requestId: about.request_id ?? "",
    status,
    details: about.details ?? {},
    retryAfter: /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) : 1,
  });
}

export function errorOf(status: number, body: Uint8Array, retryAfter?: string): SandboxError {
  try {
    return errorFrom((JSON.parse(new TextDecoder().decode(body)) as { error: ErrorBody }).error, status, retryAfter);
  } catch {
    return new ProtocolError(`an answer ${status} that is none of muxd's`, { status });
  }
}
