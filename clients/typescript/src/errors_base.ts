/** The root of all errors, and those that carry more than code, message, hint and request id. */
import type { CommandResult } from "./types.js";

export interface ErrorAbout {
  code?: string;
  hint?: string;
  requestId?: string;
  /** Of HTTP; 0: there was no answer. */
  status?: number;
  details?: Record<string, unknown>;
  /** Seconds; of 429 and 503. */
  retryAfter?: number;
  cause?: unknown;
}

/** What muxd, or the way to it, refused. `code` is stable and the same in the API, in muxctl and in the log. */
export class SandboxError extends Error {
  static readonly code: string = "internal";
  readonly code: string;
  hint: string;
  readonly requestId: string;
  readonly status: number;
  readonly details: Record<string, unknown>;
  readonly retryAfter: number;

  constructor(message: string, about: ErrorAbout = {}) {
    super(message, "cause" in about ? { cause: about.cause } : undefined);
    this.name = new.target.name;
    this.code = about.code ?? new.target.code;
    this.hint = about.hint ?? "";
    this.requestId = about.requestId ?? "";
    this.status = about.status ?? 0;
    this.details = about.details ?? {};
    this.retryAfter = about.retryAfter ?? 1;
  }

  /** The round of a start that failed, as the record has it; empty: nothing had begun. */
  get roundId(): string {
    return typeof this.details.round_id === "string" ? this.details.round_id : "";
  }

  override toString(): string {
    const hint = this.hint && ` ${this.hint}`;
    return `${this.code}: ${this.message.replace(/\.$/, "")}.${hint}${this.requestId && ` (request ${this.requestId})`}`;
  }
}

/** Kubernetes refused. `k8sStatus` is what the API server's Status said, where it sent one. */
export class SandboxK8sError extends SandboxError {
  static override readonly code: string = "sandbox_k8s_error";

  get k8sStatus(): { code: number; reason: string; message: string } | undefined {
    return this.details.kubernetes as { code: number; reason: string; message: string } | undefined;
  }
}

/** No answer came. `maybeDone`: the request may have been carried out, and saying it again could do it twice. */
export class ConnectionLost extends SandboxError {
  static override readonly code: string = "connection_lost";
  readonly maybeDone: boolean;
  /** Whether it is tried again by itself. */
  readonly mayComeBack: boolean;

  constructor(message: string, about: ErrorAbout & { maybeDone?: boolean; mayComeBack?: boolean } = {}) {
    super(message, { hint: about.maybeDone ? "It may have been done; look before you do it again." : "Nothing was done; try again.", ...about });
    this.maybeDone = about.maybeDone ?? false;
    this.mayComeBack = about.mayComeBack ?? false;
  }
}

/** No answer came within the request's timeout. */
export class RequestTimeout extends ConnectionLost {
  static override readonly code: string = "request_timeout";
}

/** A command that did not end with 0, with all that it printed. */
export class CommandExitError extends SandboxError {
  static override readonly code: string = "command_exit";
  readonly result: CommandResult;

  constructor(message: string, result: CommandResult, hint = "") {
    super(message, { hint });
    this.result = result;
  }

  get exitCode(): number {
    return this.result.exitCode;
  }

  get stdout(): string {
    return this.result.stdout;
  }

  get stderr(): string {
    return this.result.stderr;
  }

  get error(): string | undefined {
    return this.result.error;
  }
}

/** The command's time was up: its whole process tree was ended. What it printed until then is here. */
export class SandboxExecTimeout extends CommandExitError {
  static override readonly code: string = "sandbox_exec_timeout";
}
