/** Code in contexts: interpreters that keep their variables, and runCode() as E2B's code interpreter has it. */
import type { Context, Execution as RawExecution, ExecutionError as RawError, ExecutionResult, OperationName, Round } from "./api.js";
import { CommandHandle, Follower } from "./commands.js";
import { ContextEnded, NotFound, SandboxExecTimeout } from "./errors.js";
import type { Client } from "./http.js";
import { lines } from "./lines.js";
import { dataOut, loose } from "./types.js";

const EVENT_MAX = 16 << 20; // of one; an execution's results have 6 MiB
const WAIT = 20_000;
const NAMES: Record<string, string> = { js: "javascript", node: "javascript", py: "python", sh: "bash" };
// E2B's names of what a result is shown as.
const FORMATS = {
  text: "text/plain", html: "text/html", markdown: "text/markdown", svg: "image/svg+xml", png: "image/png", jpeg: "image/jpeg", pdf: "application/pdf",
  latex: "text/latex", json: "application/json", javascript: "application/javascript",
} as const;

/** An interpreter that keeps its variables. */
export interface CodeContext {
  id: string;
  language: string;
  cwd: string | null;
  /** idle, busy, ended */
  state: string;
  /** Why it has ended. */
  reason?: string;
  raw: Context;
}

/** A piece of output, as it came. */
export class OutputMessage {
  constructor(
    readonly line: string,
    /** Nanoseconds. */
    readonly timestamp: number,
    /** Of stderr. */
    readonly error: boolean,
  ) {}

  toString(): string {
    return this.line;
  }
}

/** What the code raised. */
export class ExecutionError {
  constructor(
    readonly name: string,
    readonly value: string,
    readonly traceback: string,
    /** The newest last. */
    readonly frames: RawError["frames"] = [],
  ) {}
}

/** A value, or what display() showed, by media type; and by E2B's names. */
export class Result {
  readonly isMainResult: boolean;
  readonly data: Record<string, unknown>;
  /** What was too large, and how many bytes it has. */
  readonly capped: Record<string, number>;
  readonly text?: string;
  readonly html?: string;
  readonly markdown?: string;
  readonly svg?: string;
  readonly png?: string;
  readonly jpeg?: string;
  readonly pdf?: string;
  readonly latex?: string;
  readonly json?: string;
  readonly javascript?: string;
  readonly raw: ExecutionResult;

  constructor(raw: ExecutionResult) {
    this.isMainResult = raw.main;
    this.data = raw.data;
    this.capped = raw.capped as Record<string, number>;
    this.raw = raw;
    for (const [name, media] of Object.entries(FORMATS)) {
      if (media in raw.data) Object.assign(this, { [name]: name === "json" ? JSON.stringify(raw.data[media]) : raw.data[media] });
    }
  }

  /** What has no name here, by media type. */
  get extra(): Record<string, unknown> {
    const known = Object.values(FORMATS) as string[];
    return Object.fromEntries(Object.entries(this.data).filter(([media]) => !known.includes(media)));
  }

  formats(): string[] {
    return [...Object.entries(FORMATS).filter(([, media]) => media in this.data).map(([name]) => name), ...Object.keys(this.extra)];
  }
}

/** A run of code. `error` is what it raised; `cause` how it ended: done, error, interrupted, context_died, ... */
export class Execution {
  readonly results: Result[];
  readonly logs: { stdout: string[]; stderr: string[] };
  readonly error?: ExecutionError;
  readonly executionCount?: number;
  readonly id: string;
  readonly cause: string;
  /** Of bash, and of code without a context. */
  readonly exitCode: number | null;
  /** It printed more than is here. */
  readonly truncated: boolean;

  constructor(readonly raw: RawExecution) {
    const text = (name: "stdout" | "stderr"): string[] => {
      const said = loose.decode(dataOut(raw[name].data, raw[name].encoding));
      return said ? [said] : [];
    };
    this.results = raw.results.map((r) => new Result(r));
    this.logs = { stdout: text("stdout"), stderr: text("stderr") };
    this.id = raw.execution_id;
    this.cause = raw.cause ?? "";
    this.exitCode = raw.exit_code;
    this.truncated = raw.stdout.truncated || raw.stderr.truncated;
    if (raw.error) this.error = errorOf(raw.error);
    else if (!["done", "exited"].includes(this.cause)) this.error = new ExecutionError(this.cause, raw.message ?? "", "");
    if (raw.execution_count !== null) this.executionCount = raw.execution_count;
  }

  /** The value of its last expression. */
  get text(): string | undefined {
    return this.results.find((r) => r.isMainResult)?.text;
  }

  toJSON(): RawExecution {
    return this.raw;
  }
}

type Listener<T> = ((value: T) => void | Promise<void>) | undefined;

export interface RunCodeOptions {
  /** python (the default), javascript, bash. */
  language?: string;
  /** Else this object's own one of the language, made at the first call. */
  context?: CodeContext | string;
  onStdout?: (message: OutputMessage) => void | Promise<void>;
  onStderr?: (message: OutputMessage) => void | Promise<void>;
  onResult?: (result: Result) => void | Promise<void>;
  onError?: (error: ExecutionError) => void | Promise<void>;
  /** Of this object's own context, when it is made. */
  envs?: Record<string, string>;
  /** Past it the code is interrupted, and SandboxExecTimeout thrown. */
  timeoutMs?: number;
  execId?: string;
}

function contextOf(raw: Context): CodeContext {
  return { id: raw.context_id, language: raw.language, cwd: raw.cwd, state: raw.state, ...(raw.reason === undefined ? {} : { reason: raw.reason }), raw };
}

function errorOf(raw: RawError): ExecutionError {
  return new ExecutionError(raw.name, raw.value, raw.traceback, raw.frames);
}

function messageOf(event: Record<string, unknown>): OutputMessage {
  const text = typeof event.text === "string" ? event.text : loose.decode(dataOut(String(event.base64 ?? ""), "base64"));
  return new OutputMessage(text, Date.now() * 1e6, event.type === "stderr");
}

/** What an interpreter says, an object of JSON in each line; what is none, or is longer than any, is left out. */
async function* events(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Record<string, unknown>> {
  for await (const line of lines(pieces, EVENT_MAX, () => undefined)) {
    let event: unknown;
    try {
      event = JSON.parse(line);
    } catch {
      continue;
    }
    if (typeof event === "object" && event !== null) yield event as Record<string, unknown>;
  }
}

/** What a sandbox has of it. */
export class Code {
  readonly #client: Client;
  readonly #agent: string;
  readonly #own = new Map<string, CodeContext>();

  constructor(agent: string, client: Client) {
    this.#agent = agent;
    this.#client = client;
  }

  #ask<T>(operation: OperationName, context: CodeContext | string | undefined, json?: Record<string, unknown>, again = false): Promise<T> {
    const id = typeof context === "object" ? context.id : context;
    return this.#client.json<T>(operation, { agent: this.#agent, ...(id === undefined ? {} : { id }) }, {
      ...(json === undefined ? {} : { json }), again, timeoutMs: WAIT + this.#client.requestTimeoutMs,
    });
  }

  /** A new interpreter of python (the default), javascript or bash. */
  async createCodeContext(options: { cwd?: string; language?: string; envs?: Record<string, string> } = {}): Promise<CodeContext> {
    const language = NAMES[options.language ?? ""] ?? options.language ?? "python";
    return contextOf(await this.#ask<Context>("createContext", undefined, { language, cwd: options.cwd, env: options.envs }));
  }

  async listCodeContexts(): Promise<CodeContext[]> {
    return (await this.#ask<{ contexts: Context[] }>("listContexts", undefined, undefined, true)).contexts.map(contextOf);
  }

  async getCodeContext(context: CodeContext | string): Promise<CodeContext> {
    return contextOf(await this.#ask<Context>("getContext", context, undefined, true));
  }

  /** As Ctrl-C: what runs in it ends with an exception, and its variables stay. */
  async interruptCodeContext(context: CodeContext | string): Promise<CodeContext> {
    return contextOf(await this.#ask<Context>("interruptContext", context, {}));
  }

  /** A fresh interpreter under the same id. */
  async restartCodeContext(context: CodeContext | string, envs?: Record<string, string>): Promise<void> {
    await this.#ask("resetContext", context, envs ? { env: envs } : {});
  }

  async removeCodeContext(context: CodeContext | string): Promise<void> {
    await this.#ask("deleteContext", context);
  }

  /**
   * Runs code in a context and resolves with what came of it. What it throws is in `error` of that. Without `context` it is this
   * object's own one of the language; once that has ended ContextEnded is thrown, and the next call makes another.
   */
  async runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    const { onStdout, onStderr, onResult, onError } = options;
    const follows = Boolean(onStdout ?? onStderr ?? onResult ?? onError);
    const where = options.context ?? (await this.#ownContext(options));
    const json = {
      code, exec_id: options.execId ?? `ts-${this.#client.transport.uuid()}`, yield_ms: follows ? 0 : WAIT,
      ...(options.timeoutMs ? { timeout_ms: Math.max(1, Math.trunc(options.timeoutMs)) } : {}),
    };
    let raw: RawExecution;
    try {
      raw = await this.#ask<RawExecution>("executeCode", where, json, true);
    } catch (e) {
      if (options.context === undefined && (e instanceof ContextEnded || e instanceof NotFound)) this.#own.clear();
      throw e;
    }
    if (follows) await this.#follow(raw, onStdout, onStderr, onResult, onError);
    return this.#finish(raw);
  }

  /** Python code once, in an interpreter of its own: 30 s without timeoutMs, 120 s at the most, 1 MB of output. */
  async runPython(code: string, options: { cwd?: string; envs?: Record<string, string>; timeoutMs?: number; execId?: string } = {}): Promise<Execution> {
    const json = {
      code, exec_id: options.execId ?? `ts-${this.#client.transport.uuid()}`, yield_ms: WAIT, cwd: options.cwd, env: options.envs,
      timeout_ms: options.timeoutMs,
    };
    return this.#finish(await this.#ask<RawExecution>("executePython", undefined, json, true));
  }

  async #ownContext(options: RunCodeOptions): Promise<CodeContext> {
    const language = NAMES[options.language ?? ""] ?? options.language ?? "python";
    let mine = this.#own.get(language);
    if (!mine) {
      mine = await this.createCodeContext({ language, ...(options.envs ? { envs: options.envs } : {}) });
      this.#own.set(language, mine);
    }
    return mine;
  }

  async #follow(raw: RawExecution, onStdout: Listener<OutputMessage>, onStderr: Listener<OutputMessage>, onResult: Listener<Result>, onError: Listener<ExecutionError>): Promise<void> {
    const id = raw.execution_id;
    if (raw.language === "bash") {
      const said = (on: Listener<OutputMessage>, type: string) => async (text: string) => on?.(messageOf({ type, text }));
      const round = await this.#client.json<Round>("getRound", { id }, { again: true });
      await new CommandHandle(this.#client, round, { onStdout: said(onStdout, "stdout"), onStderr: said(onStderr, "stderr"), check: false }, false)
        .wait().catch((e: unknown) => {
          if (!(e instanceof SandboxExecTimeout)) throw e; // the execution says so
        });
      return;
    }
    const follower = new Follower(this.#client, id, "stdout");
    try {
      for await (const event of events(follower.pieces())) {
        if (event.type === "stdout") await onStdout?.(messageOf(event));
        else if (event.type === "stderr") await onStderr?.(messageOf(event));
        else if (event.type === "result" && event.data && event.capped) await onResult?.(new Result(event as unknown as ExecutionResult));
        else if (event.type === "error" && event.frames) await onError?.(errorOf(event as unknown as RawError));
      }
    } finally {
      follower.stop();
    }
  }

  async #finish(first: RawExecution): Promise<Execution> {
    let raw = first;
    while (raw.state === "running") {
      raw = await this.#client.json<RawExecution>("getExecution", { id: raw.execution_id }, { query: { yield_ms: WAIT }, again: true, timeoutMs: WAIT + this.#client.requestTimeoutMs });
    }
    const done = new Execution(raw);
    if (done.cause === "timeout") {
      const bytes = { stdoutBytes: dataOut(raw.stdout.data, raw.stdout.encoding), stderrBytes: dataOut(raw.stderr.data, raw.stderr.encoding) };
      throw new SandboxExecTimeout(`the code was interrupted after ${raw.duration_ms} ms; its time was up.`, {
        exitCode: -1, error: "its time was up", stdout: done.logs.stdout.join(""), stderr: done.logs.stderr.join(""), ...bytes, roundId: done.id,
        cause: "timeout", signal: null, durationMs: raw.duration_ms, truncated: done.truncated, raw: await this.#client.json<Round>("getRound", { id: done.id }, { again: true }),
      }, "Allow it more time.");
    }
    return done;
  }
}
