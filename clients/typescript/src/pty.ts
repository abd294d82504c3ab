/** Terminals: `sandbox.pty`. One is a session of muxd, which outlives connections: a cut one is joined again where it was. */
import { AlreadyEnded, ConnectionLost, NotFound, SandboxError } from "./errors.js";
import type { Exit, Screen } from "./api.js";
import type { CommandHandle, Commands } from "./commands.js";
import type { RoundEvents } from "./events.js";
import { errorFrom, errorOf, sleep, target, type Call, type Client, type ErrorBody } from "./http.js";
import { Broken, Refused, type Socket } from "./transport.js";
import { encoder, screenOf, type PtyScreen } from "./types.js";

export interface PtySize {
  cols: number;
  rows: number;
}

/** Output is bytes, as a terminal is sent them: characters may be cut between two of them. */
type OnData = (data: Uint8Array) => void | Promise<void>;

export interface PtyEnd {
  cause: string;
  /** -1 where there is none. */
  exitCode: number;
  signal: string;
}

const WINDOW = 1 << 20;
const INPUT_MAX = 60 << 10;
// Messages of docs/protocol.md.
const INPUT = 0x00, RESIZE = 0x20, WINDOW_IS = 0x21, SIGNAL = 0x23;
const OUTPUT = 0x01, OPENED = 0x10, SKIPPED = 0x12, EXIT = 0x13, ERROR = 0x14, SCREEN = 0x16;

export class PtyHandle {
  readonly #client: Client;
  readonly #onData: OnData | undefined;
  readonly #done: Promise<PtyEnd>;
  #settle!: { resolve: (end: PtyEnd) => void; reject: (why: unknown) => void };
  #target: string;
  #socket: Socket | undefined;
  #session = "";
  #offset = 0;
  #granted = 0;
  #over = false;
  /** Messages are taken one after the other, each once onData is done with the one before: that holds the program back. */
  #queue: Promise<void> = Promise.resolve();
  #waiting: { opened: () => void; failed: (why: unknown) => void } | undefined;

  constructor(client: Client, where: string, onData: OnData | undefined) {
    this.#client = client;
    this.#target = where;
    this.#onData = onData;
    this.#done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.#done.catch(() => undefined); // wait() tells
  }

  /** The session's id: what kill(), resize(), sendInput() and connect() take. */
  get pid(): string {
    return this.#session;
  }

  /** Resolves once the terminal is open. */
  async join(): Promise<void> {
    let gone = false, late: ReturnType<typeof setTimeout> | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#waiting = { opened: resolve, failed: reject };
        late = setTimeout(() => {
          reject(new Broken(`no answer within ${this.#client.requestTimeoutMs / 1000} s`, { late: true }));
        }, this.#client.requestTimeoutMs);
        const events = {
          message: (data: Uint8Array) => {
            this.#queue = this.#queue.then(() => (gone ? undefined : this.#take(data))).catch((e: unknown) => {
              this.#fail(e);
            });
          },
          closed: (code: number, reason: string) => {
            this.#queue = this.#queue.then(() => (gone ? undefined : this.#closed(code, reason)));
          },
        };
        this.#client.transport.socket(this.#target, events).then(
          (socket) => {
            if (gone) {
              socket.close(); // nobody waits for it any more
              return;
            }
            this.#socket = socket;
            this.#move();
          },
          (e: unknown) => {
            reject(e instanceof Refused ? errorOf(e.status, e.body) : e instanceof Broken ? new ConnectionLost(`no terminal: ${e.message}.`, { cause: e }) : e);
          },
        );
      });
    } catch (e) {
      gone = true;
      this.#waiting = undefined;
      this.#drop();
      throw e;
    } finally {
      clearTimeout(late);
    }
  }

  #drop(): void {
    this.#socket?.close();
    this.#socket = undefined;
  }

  #fail(why: unknown): void {
    this.#over = true;
    this.#waiting?.failed(why);
    this.#settle.reject(why);
    this.#drop();
  }

  async #take(message: Uint8Array): Promise<void> {
    if (this.#over) return;
    const rest = message.subarray(1);
    const view = new DataView(rest.buffer, rest.byteOffset, rest.byteLength);
    switch (message[0]) {
      case OUTPUT:
        this.#offset = Number(view.getBigUint64(0, true)) + rest.length - 8;
        await this.#onData?.(rest.slice(8));
        this.#move();
        break;
      case OPENED: {
        const opened = json<{ session: string; offset: number }>(rest);
        this.#session = opened.session;
        this.#offset = this.#granted = opened.offset;
        this.#target = this.#attach();
        this.#waiting?.opened();
        this.#waiting = undefined;
        this.#move();
        break;
      }
      case SKIPPED:
        if (rest[0] === 1) this.#offset = Number(view.getBigUint64(9, true));
        this.#move();
        break;
      case SCREEN:
        this.#offset = Number(view.getBigUint64(0, true));
        await this.#onData?.(Uint8Array.from([0x1b, 0x63, ...rest.subarray(12)]));
        this.#move();
        break;
      case EXIT: {
        const { exit } = json<{ exit: Exit }>(rest);
        this.#over = true;
        this.#settle.resolve(endOf(exit));
        this.#drop();
        break;
      }
      case ERROR: {
        const about = json<ErrorBody>(rest);
        throw errorFrom(about, about.status ?? 0);
      }
    }
  }

  #attach(): string {
    return target("/v1/sessions/{id}/attach", { id: this.#session }, { role: "driver", screen: false });
  }

  #move(): void {
    if (!this.#socket || !this.#session || this.#offset + WINDOW - this.#granted < WINDOW / 4) return;
    this.#granted = this.#offset + WINDOW;
    const message = new DataView(new ArrayBuffer(10));
    message.setUint8(0, WINDOW_IS);
    message.setUint8(1, 1);
    message.setBigUint64(2, BigInt(this.#granted), true);
    try {
      this.#socket.send(new Uint8Array(message.buffer));
    } catch {
      // it was cut: #closed() is told
    }
  }

  async #closed(code: number, reason: string): Promise<void> {
    if (this.#over) return;
    this.#socket = undefined;
    const why = `${code} ${reason}`;
    if (this.#waiting) {
      this.#waiting.failed(new Broken(why));
      return;
    }
    if (code !== 1006 && code !== 4503) {
      this.#fail(new ConnectionLost(`the terminal ${this.pid} was closed: ${why}.`));
      return;
    }
    await this.#again(why);
  }

  /** The same terminal, from the byte behind the last one that was given out. */
  async #again(why: string): Promise<void> {
    const end = Date.now() + this.#client.retryForMs;
    for (let pause = 50; !this.#over; pause = Math.min(pause * 2, 2000)) {
      try {
        this.#target = `${this.#attach()}&offset=${this.#offset}`;
        this.#queue = Promise.resolve();
        await this.join();
        return;
      } catch (e) {
        const transient = !(e instanceof SandboxError) || (e instanceof ConnectionLost && e.cause instanceof Broken && !e.cause.final) || e.status === 429 || e.status === 503;
        if (this.#over || !transient || Date.now() + pause > end) {
          this.#fail(new ConnectionLost(`the terminal ${this.pid} was cut off (${why}), and could not be joined again.`, { cause: e }));
          return;
        }
        await sleep(pause);
      }
    }
  }

  /** Its end. */
  wait(): Promise<PtyEnd> {
    return this.#done;
  }

  sendInput(data: string | Uint8Array): Promise<void> {
    const raw = typeof data === "string" ? encoder.encode(data) : data;
    for (let at = 0; at < raw.length; at += INPUT_MAX) this.#send(Uint8Array.from([INPUT, ...raw.subarray(at, at + INPUT_MAX)]));
    return Promise.resolve();
  }

  resize(size: PtySize): Promise<void> {
    const message = new DataView(new ArrayBuffer(9));
    message.setUint8(0, RESIZE);
    message.setUint16(1, size.cols, true);
    message.setUint16(3, size.rows, true);
    this.#send(new Uint8Array(message.buffer));
    return Promise.resolve();
  }

  /** To the terminal's foreground, by Linux's number. */
  sendSignal(signal: number): Promise<void> {
    this.#send(Uint8Array.of(SIGNAL, signal));
    return Promise.resolve();
  }

  /** Input is not said twice: it may have arrived. */
  #send(message: Uint8Array): void {
    if (!this.#socket) throw new ConnectionLost(`the terminal ${this.pid} is cut off just now.`, { mayComeBack: !this.#over });
    try {
      this.#socket.send(message);
    } catch (e) {
      throw new ConnectionLost(`the terminal ${this.pid} was cut off.`, { maybeDone: true, cause: e });
    }
  }

  async kill(reason = "killed by its client"): Promise<boolean> {
    return endSession(this.#client, this.pid, reason);
  }

  /** The terminal goes on for the daemon's sessions.linger, and can be joined until then. */
  disconnect(): Promise<void> {
    const left = new ConnectionLost(`the terminal ${this.pid} was disconnected.`);
    this.#over = true;
    this.#waiting?.failed(left);
    this.#drop();
    this.#settle.reject(left);
    return Promise.resolve();
  }
}

/**
 * A command with a terminal: a round, started once, with keys by name and a screen. When a connection is cut, output goes on where it
 * was; input is not said twice. The command goes on whether or not anybody reads.
 */
export class PtyRound extends PtyHandle {
  readonly #client: Client;
  readonly #handle: CommandHandle;
  readonly #events: RoundEvents;
  readonly #end: Promise<PtyEnd>;

  constructor(client: Client, handle: CommandHandle, onData: OnData | undefined) {
    super(client, "", onData);
    this.#client = client;
    this.#handle = handle;
    this.#events = handle.events();
    this.#end = this.#read(onData);
    this.#end.catch(() => undefined); // wait() tells
  }

  async #read(onData: OnData | undefined): Promise<PtyEnd> {
    for await (const event of this.#events) {
      if (event.output) await onData?.(event.output);
      if (event.event === "exit") return endOf(event.data.exit as Exit);
    }
    throw new ConnectionLost(`the terminal ${this.pid} was disconnected.`);
  }

  /** The round's id. */
  override get pid(): string {
    return this.#handle.pid;
  }

  override wait(): Promise<PtyEnd> {
    return this.#end;
  }

  override sendInput(data: string | Uint8Array): Promise<void> {
    return this.#handle.sendStdin(data);
  }

  /**
   * Keys by name (Enter, Up, C-c, F1; docs/api.md), one character, or `text:` and anything; all are typed, or none. What came of them is
   * on screen({ waitMs, after }) with the number that this resolves to.
   */
  async sendKeys(...keys: string[]): Promise<number> {
    return (await this.#client.json<{ offset: number }>("sendRoundKeys", { id: this.pid }, { json: { keys } })).offset;
  }

  /** What it shows; with waitMs once output has come behind `after` and then paused. */
  async screen(options: { waitMs?: number; after?: number } = {}): Promise<PtyScreen> {
    const { bytes, answer } = await this.#client.bytes("getRoundScreen", { id: this.pid }, this.#look("text", "text/plain", options));
    return screenOf(new TextDecoder().decode(bytes), (name) => answer.header(name));
  }

  /** The same with colours and looks, in runs of cells, the cursor and the title. */
  cells(options: { waitMs?: number; after?: number } = {}): Promise<Screen> {
    return this.#client.json<Screen>("getRoundScreen", { id: this.pid }, this.#look("cells", "application/json", options));
  }

  #look(format: string, accept: string, { waitMs = 0, after = 0 }: { waitMs?: number; after?: number }): Call {
    return { query: { format, wait_ms: waitMs, after }, accept, again: true, timeoutMs: waitMs + this.#client.requestTimeoutMs };
  }

  override async resize(size: PtySize): Promise<void> {
    await this.#client.json("resizeRound", { id: this.pid }, { json: { cols: size.cols, rows: size.rows }, again: true });
  }

  /** To all that it started. */
  override async sendSignal(signal: number): Promise<void> {
    await this.#handle.sendSignal(signal);
  }

  override kill(): Promise<boolean> {
    return this.#handle.kill();
  }

  override disconnect(): Promise<void> {
    this.#events.stop();
    return Promise.resolve();
  }
}

function endOf(exit: Exit): PtyEnd {
  return { cause: exit.cause, exitCode: exit.code ?? -1, signal: exit.signal ?? "" };
}

export interface PtyOptions extends Partial<PtySize> {
  onData?: OnData;
  cwd?: string;
  envs?: Record<string, string>;
  timeoutMs?: number;
}

export interface PtyRunOptions extends PtyOptions {
  execId?: string;
  term?: string;
}

function json<T>(bytes: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}

async function endSession(client: Client, id: string, reason: string): Promise<boolean> {
  try {
    await client.json("terminateSession", { id }, { json: { reason } });
    return true;
  } catch (e) {
    if (e instanceof AlreadyEnded || e instanceof NotFound) return false;
    throw e;
  }
}

export class Pty {
  readonly #client: Client;
  readonly #agent: string;
  readonly #commands: Commands;
  readonly #known = new Map<string, PtyHandle>();

  constructor(client: Client, agent: string, commands: Commands) {
    this.#client = client;
    this.#agent = agent;
    this.#commands = commands;
  }

  /**
   * A terminal with a login shell (scope `terminal`). With cwd, envs or a timeout it is a round, as run() makes one.
   */
  create(options: PtyOptions = {}): Promise<PtyHandle> {
    if (options.cwd || options.envs || options.timeoutMs) return this.run(["bash", "-l"], options);
    const query = { cols: options.cols ?? 80, rows: options.rows ?? 24, task: this.#client.taskId };
    return this.#join(target("/v1/agents/{agent}/terminal", { agent: this.#agent }, query), options.onData);
  }

  /** A command with a terminal (scopes `terminal` and `rounds`; rounds.pty has to be on), which has keys and a screen. */
  async run(cmd: string | string[], options: PtyRunOptions = {}): Promise<PtyRound> {
    const { onData, cols = 80, rows = 24, term, ...more } = options;
    const handle = await this.#commands.run(cmd, { ...more, background: true, pty: { cols, rows, ...(term === undefined ? {} : { term }) } });
    return this.#knows(new PtyRound(this.#client, handle, onData));
  }

  #knows<H extends PtyHandle>(handle: H): H {
    this.#known.set(handle.pid, handle);
    return handle;
  }

  /** One that runs, from what is at hand of its output; of run() from its beginning. */
  async connect(pid: string, options: { onData?: OnData } = {}): Promise<PtyHandle> {
    try {
      return this.#knows(new PtyRound(this.#client, await this.#commands.connect(pid), options.onData));
    } catch (e) {
      if (!(e instanceof NotFound)) throw e; // it is no round
    }
    return this.#join(target("/v1/sessions/{id}/attach", { id: pid }, { role: "driver", screen: false }), options.onData);
  }

  async #join(where: string, onData: OnData | undefined): Promise<PtyHandle> {
    const handle = new PtyHandle(this.#client, where, onData);
    try {
      await handle.join();
    } catch (e) {
      throw e instanceof Broken ? new ConnectionLost(`the terminal was cut off at once: ${e.message}.`, { cause: e }) : e;
    }
    return this.#knows(handle);
  }

  sendInput(pid: string, data: string | Uint8Array): Promise<void> {
    return this.#handle(pid).sendInput(data);
  }

  resize(pid: string, size: PtySize): Promise<void> {
    return this.#handle(pid).resize(size);
  }

  kill(pid: string): Promise<boolean> {
    return endSession(this.#client, pid, "killed by its client");
  }

  #handle(pid: string): PtyHandle {
    const handle = this.#known.get(pid);
    if (!handle) throw new NotFound(`the terminal ${pid} was not opened by this object`, { hint: "Join it by pty.connect()." });
    return handle;
  }
}
