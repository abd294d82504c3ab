/** Commands: rounds of the API, started once whatever happens to the connection. */
import type { Exit, Round, Session, StdinResult, Stream } from "./api.js";
import { AlreadyEnded, CommandExitError, Conflict, ConnectionLost, Corrupt, NotFound, ProtocolError, SandboxExecTimeout } from "./errors.js";
import { RoundEvents } from "./events.js";
import { sleep, type Client } from "./http.js";
import { Broken, joined, type Answer } from "./transport.js";
import { dataIn, dataOut, encoder, loose, type CommandResult, type ProcessInfo } from "./types.js";

type Listener = (text: string) => void | Promise<void>;

export interface CommandOptions {
  background?: boolean;
  envs?: Record<string, string>;
  cwd?: string;
  /** Given the output as it comes, in whole characters. */
  onStdout?: Listener;
  onStderr?: Listener;
  /** Input; true where sendStdin() follows. */
  stdin?: boolean | string | Uint8Array;
  /** The daemon's default without it; past it the whole process tree is ended. */
  timeoutMs?: number;
  /** Names the start, which is done once however often it is asked for; one is made up where none is given. */
  execId?: string;
  /** false: another end than 0 is no error. */
  check?: boolean;
  /** Bytes of each stream that the result holds; 64 MiB. */
  maxOutput?: number;
  /** What is kept behind its end (scope files): names, each with a path in the sandbox, ":stdout" or ":stderr". */
  artifacts?: Record<string, string>;
  /** How pty.run() gives it a terminal. */
  pty?: { cols: number; rows: number; term?: string };
}

type Options = CommandOptions;
const WAIT = 20_000;
const MAX_OUTPUT = 64 << 20;
const BRIEF = 5000; // who is cut sooner, again and again, is told
const STDIN_PIECE = 64 << 10;
const STREAMS = ["stdout", "stderr"] as const;
type StreamName = (typeof STREAMS)[number];
// Linux numbers.
const SIGNALS: Record<string, number> = { HUP: 1, INT: 2, QUIT: 3, ILL: 4, TRAP: 5, ABRT: 6, BUS: 7, FPE: 8, KILL: 9, USR1: 10, SEGV: 11, USR2: 12, PIPE: 13, ALRM: 14, TERM: 15, XCPU: 24, XFSZ: 25, SYS: 31 };

/** One stream of a round from its start to its end, over as many connections as that takes. */
export class Follower {
  readonly #client: Client;
  readonly #round: string;
  readonly #stream: StreamName;
  #answer: Answer | undefined;
  #stopped = false;
  /** What the body leaves out: the first byte, and the one behind the last. */
  #holes: [number, number][] = [];
  offset = 0;
  missing = false;

  constructor(client: Client, round: string, stream: StreamName) {
    this.#client = client;
    this.#round = round;
    this.#stream = stream;
  }

  async #open(): Promise<Answer> {
    const answer = await this.#client.open(
      "getRoundOutput",
      { id: this.#round },
      { query: { stream: this.#stream, follow: true, offset: this.offset }, accept: "application/octet-stream", again: true, patient: true },
    );
    const begins = Number(answer.header("muxd-offset") ?? this.offset);
    this.#holes = Array.from((answer.header("muxd-missing") ?? "").matchAll(/(\d+)-(\d+)/g), (m) => [Number(m[1]), Number(m[2]) + 1]);
    if (!(begins >= this.offset)) {
      answer.close();
      throw new ProtocolError(`the output of round ${this.#round} was asked for from byte ${this.offset}, and begins at ${begins}`);
    }
    this.missing ||= begins !== this.offset || this.#holes.length > 0;
    this.offset = begins;
    return answer;
  }

  /** To the byte behind n more. */
  #move(n: number): void {
    for (const [first, behind] of this.#holes) {
      if (this.offset > first || this.offset + n < first) continue;
      n -= first - this.offset;
      this.offset = behind;
    }
    this.offset += n;
  }

  /** Silence is no fault here: a program may say nothing for hours. A connection that ends early is made anew. */
  async *pieces(): AsyncGenerator<Uint8Array> {
    let failures = 0;
    while (!this.#stopped) {
      const began = Date.now();
      this.#answer = await this.#open();
      if (this.stopped()) return;
      try {
        for await (const piece of this.#answer.pieces()) {
          failures = 0;
          this.#move(piece.length);
          yield piece;
        }
        return;
      } catch (e) {
        if (!(e instanceof Broken)) throw e;
        failures = Date.now() - began < BRIEF ? failures + 1 : 0;
        if (this.stopped()) return;
        if (failures > 8) throw new ConnectionLost(`the output of round ${this.#round} broke off at byte ${this.offset}: ${e.message}.`);
        await sleep(50 * failures);
      }
    }
  }

  stopped(): boolean {
    if (this.#stopped) this.#answer?.close();
    return this.#stopped;
  }

  stop(): void {
    this.#stopped = true;
    this.#answer?.close();
  }
}

interface Followed {
  bytes: Uint8Array;
  missing: boolean;
}

/** A command that was started. It goes on whether or not anybody waits for it. */
export class CommandHandle {
  readonly #client: Client;
  readonly #options: Options;
  readonly #kept: Record<StreamName, Uint8Array[]> = { stdout: [], stderr: [] };
  readonly #following: Promise<Record<StreamName, Followed>> | undefined;
  #raw: Round;
  /** Bytes of input that were taken; undefined: others may have sent some. */
  #sent: number | undefined;
  #result: CommandResult | undefined;

  /** Callbacks are called from now on; what they throw is thrown by wait(). */
  constructor(client: Client, raw: Round, options: Options, own: boolean) {
    this.#client = client;
    this.#raw = raw;
    this.#options = options;
    this.#sent = own ? 0 : undefined;
    if (options.onStdout || options.onStderr) {
      this.#following = this.#follow();
      this.#following.catch(() => undefined); // wait() tells
    }
  }

  /** The round's id. E2B's is a number; both are taken as they are by kill, connect and sendStdin. */
  get pid(): string {
    return this.#raw.round_id;
  }

  get exitCode(): number | undefined {
    return this.#result?.exitCode;
  }

  get error(): string | undefined {
    return this.#result?.error;
  }

  /** As far as it has come to the callbacks, or all once it has ended. */
  get stdout(): string {
    return this.#result?.stdout ?? loose.decode(joined(this.#kept.stdout));
  }

  get stderr(): string {
    return this.#result?.stderr ?? loose.decode(joined(this.#kept.stderr));
  }

  async wait(): Promise<CommandResult> {
    if (!this.#result) {
      const followed = await this.#following;
      this.#result = await this.#finish(followed);
    }
    return checked(this.#result, this.#options.check ?? true);
  }

  async #follow(): Promise<Record<StreamName, Followed>> {
    const most = this.#options.maxOutput ?? MAX_OUTPUT;
    const followers = STREAMS.map((name) => new Follower(this.#client, this.pid, name));
    const listen = async (follower: Follower, name: StreamName, listener: Listener | undefined): Promise<Followed> => {
      const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
      let kept = 0;
      for await (const piece of follower.pieces()) {
        const part = piece.subarray(0, Math.max(0, most - kept));
        kept += part.length;
        if (part.length) this.#kept[name].push(part);
        const text = decoder.decode(piece, { stream: true });
        if (text) await listener?.(text);
      }
      const text = decoder.decode();
      if (text) await listener?.(text);
      return { bytes: joined(this.#kept[name]), missing: follower.missing || follower.offset > most };
    };
    try {
      const [stdout, stderr] = await Promise.all([
        listen(followers[0] as Follower, "stdout", this.#options.onStdout),
        listen(followers[1] as Follower, "stderr", this.#options.onStderr),
      ]);
      return { stdout, stderr };
    } finally {
      for (const f of followers) f.stop();
    }
  }

  async #finish(followed: Record<StreamName, Followed> | undefined): Promise<CommandResult> {
    while (!this.#raw.exit) {
      this.#raw = await this.#client.json<Round>("getRound", { id: this.pid }, { query: { wait_ms: WAIT }, again: true, timeoutMs: WAIT + this.#client.requestTimeoutMs });
    }
    const streams: Partial<Record<StreamName, Uint8Array>> = {};
    let cut = false;
    for (const name of STREAMS) {
      const about = this.#raw[name];
      const { bytes, missing } = followed?.[name] ?? (await this.#whole(name, about));
      streams[name] = bytes;
      cut ||= missing;
      if (!missing && about.sha256 && (await this.#client.transport.sha256(bytes)) !== about.sha256) {
        throw new Corrupt(`${name} of round ${this.pid} came as ${bytes.length} bytes that are not the ${about.total_bytes} it printed`, { hint: "Read it again by connect() and wait()." });
      }
    }
    return resultOf(this.#raw, this.#raw.exit, streams as Record<StreamName, Uint8Array>, cut);
  }

  /** A stream that nobody followed, and whether some of it is missing. */
  async #whole(name: StreamName, about: Stream): Promise<Followed> {
    const head = dataOut(about.data, about.encoding);
    if (!about.truncated) return { bytes: head, missing: false };
    if (about.total_bytes > (this.#options.maxOutput ?? MAX_OUTPUT)) {
      return { bytes: joined([head, dataOut(about.tail ?? "", about.tail_encoding ?? "utf-8")]), missing: true };
    }
    const { bytes, answer } = await this.#client.bytes("getRoundOutput", { id: this.pid }, { query: { stream: name }, accept: "application/octet-stream", again: true });
    return { bytes, missing: answer.header("muxd-missing") !== undefined };
  }

  /** SIGKILL to all that it started; false when it had ended. */
  kill(): Promise<boolean> {
    return this.sendSignal("KILL");
  }

  async sendSignal(signal: string | number): Promise<boolean> {
    try {
      await this.#client.json("signalRound", { id: this.pid }, { json: { signal }, again: signal === "KILL" || signal === 9 });
      return true;
    } catch (e) {
      if (e instanceof AlreadyEnded || e instanceof NotFound) return false;
      throw e;
    }
  }

  /** Resolves once all of it was taken. The command must have been started with stdin: true. */
  async sendStdin(data: string | Uint8Array): Promise<void> {
    let raw = typeof data === "string" ? encoder.encode(data) : data;
    for (let pause = 10; raw.length; ) {
      const body = { ...dataIn(raw.subarray(0, wholeCharacters(raw))), ...(this.#sent === undefined ? {} : { offset: this.#sent }) };
      let taken: number;
      try {
        ({ taken } = await this.#client.json<StdinResult>("writeRoundStdin", { id: this.pid }, { json: body, again: this.#sent !== undefined }));
      } catch (e) {
        // Another wrote meanwhile, and nothing of this was taken.
        if (!(e instanceof Conflict) || this.#sent === undefined || typeof e.details.offset !== "number") throw e;
        this.#sent = e.details.offset;
        continue;
      }
      if (this.#sent !== undefined) this.#sent += taken;
      raw = raw.subarray(taken);
      pause = taken ? 10 : Math.min(pause * 2, 500);
      if (raw.length && !taken) await sleep(pause);
    }
  }

  /** The end of its input. */
  async closeStdin(): Promise<void> {
    await this.#client.json("writeRoundStdin", { id: this.pid }, { json: { eof: true }, again: true });
  }

  /** What happens to it, as it happens, to its end: from the beginning, or behind an event's id. */
  events(lastEventId?: string): RoundEvents {
    return new RoundEvents(this.#client, this.pid, lastEventId);
  }

  /** Nothing to be done: the command goes on, and callbacks hold nothing up. */
  disconnect(): Promise<void> {
    return Promise.resolve();
  }
}

/** Text is cut between its characters, so that it can go as text. */
function wholeCharacters(raw: Uint8Array): number {
  let end = Math.min(STDIN_PIECE, raw.length);
  while (end < raw.length && end > STDIN_PIECE - 4 && ((raw[end] ?? 0) & 0xc0) === 0x80) end--;
  return end;
}

function resultOf(raw: Round, exit: Exit, streams: Record<StreamName, Uint8Array>, truncated: boolean): CommandResult {
  const number = exit.signal ? SIGNALS[exit.signal] : undefined;
  const said = exit.message ?? (exit.cause === "exit" && !exit.signal ? undefined : wordsOf(exit));
  return {
    exitCode: exit.code ?? (number === undefined ? -1 : 128 + number),
    ...(said === undefined ? {} : { error: said }),
    stdout: loose.decode(streams.stdout),
    stderr: loose.decode(streams.stderr),
    stdoutBytes: streams.stdout,
    stderrBytes: streams.stderr,
    roundId: raw.round_id,
    cause: exit.cause,
    signal: exit.signal,
    durationMs: raw.duration_ms,
    truncated,
    raw,
  };
}

function wordsOf(exit: Exit): string {
  const words: Record<Exit["cause"], string> = {
    exit: "ended by a signal", timeout: "its time was up", idle_timeout: "it fell silent", killed: "was ended", oom: "ran out of memory", lost: "its sandbox was lost",
    not_started: "did not begin", unknown: "nobody saw its end",
  };
  return words[exit.cause] + (exit.signal ? ` (SIG${exit.signal})` : "");
}

function checked(result: CommandResult, check: boolean): CommandResult {
  if (result.raw.exit?.error === SandboxExecTimeout.code) {
    throw new SandboxExecTimeout(`the command was ended after ${result.durationMs} ms; its time was up.`, result, "Allow it more time.");
  }
  if (check && (result.exitCode !== 0 || result.error !== undefined)) {
    throw new CommandExitError(`the command ended with ${result.exitCode}${result.error === undefined ? "" : `: ${result.error}`}.`, result);
  }
  return result;
}

function wishOf([name, what]: [string, string]): Record<string, string> {
  return what === ":stdout" || what === ":stderr" ? { name, stream: what.slice(1) } : { name, path: what };
}

/** `sandbox.commands`: what E2B's users know, and Daytona's as `process`. */
export class Commands {
  readonly #client: Client;
  readonly #agent: string;
  readonly #envs: Record<string, string>;

  constructor(client: Client, agent: string, envs: Record<string, string>) {
    this.#client = client;
    this.#agent = agent;
    this.#envs = envs;
  }

  /** Runs a line for the shell, or a list of a program and its arguments. */
  run(cmd: string | string[], options?: CommandOptions & { background?: false }): Promise<CommandResult>;
  run(cmd: string | string[], options: CommandOptions & { background: true }): Promise<CommandHandle>;
  run(cmd: string | string[], options?: CommandOptions): Promise<CommandHandle | CommandResult>;
  async run(cmd: string | string[], options: CommandOptions = {}): Promise<CommandHandle | CommandResult> {
    const streams = options.onStdout !== undefined || options.onStderr !== undefined;
    const env = { ...this.#envs, ...options.envs };
    const json = {
      ...(typeof cmd === "string" ? { command: cmd } : { argv: cmd }),
      ...(Object.keys(env).length ? { env } : {}),
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.timeoutMs ? { timeout_ms: Math.max(1, Math.trunc(options.timeoutMs)) } : {}),
      ...(typeof options.stdin === "string" || options.stdin instanceof Uint8Array ? { stdin: dataIn(options.stdin) } : { stdin_open: options.stdin ?? false }),
      ...(options.artifacts ? { artifacts: Object.entries(options.artifacts).map(wishOf) } : {}),
      ...(options.pty ? { pty: options.pty } : {}),
      exec_id: options.execId ?? `ts-${this.#client.transport.uuid()}`,
      wait_ms: options.background || streams ? 0 : WAIT,
    };
    const raw = await this.#client.json<Round>("startRound", { agent: this.#agent }, { json, again: true, timeoutMs: WAIT + this.#client.requestTimeoutMs });
    const handle = new CommandHandle(this.#client, raw, options, options.execId === undefined && !options.pty);
    return options.background ? handle : handle.wait();
  }

  /** A handle for a command that was started before, here or elsewhere. */
  async connect(pid: string, options: Pick<CommandOptions, "onStdout" | "onStderr" | "check" | "maxOutput"> = {}): Promise<CommandHandle> {
    return new CommandHandle(this.#client, await this.#client.json<Round>("getRound", { id: pid }, { again: true }), options, false);
  }

  /** Those that run. */
  async list(): Promise<ProcessInfo[]> {
    const query = { agent: this.#agent, kind: "round", live: true, limit: 1000 };
    const { sessions } = await this.#client.json<{ sessions: Session[] }>("listSessions", {}, { query, again: true });
    return sessions.map((raw) => {
      const argv = (raw.argv ?? []) as string[];
      return {
        pid: raw.id, cmd: argv[0] ?? "", args: argv.slice(1), raw,
        ...(raw.cwd ? { cwd: raw.cwd } : {}),
        ...(raw.exec_id === undefined ? {} : { tag: raw.exec_id }),
      };
    });
  }

  async kill(pid: string): Promise<boolean> {
    return (await this.connect(pid)).kill();
  }

  async sendStdin(pid: string, data: string | Uint8Array): Promise<void> {
    await (await this.connect(pid)).sendStdin(data);
  }

  async closeStdin(pid: string): Promise<void> {
    await (await this.connect(pid)).closeStdin();
  }
}
