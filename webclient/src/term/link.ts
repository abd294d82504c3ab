// A session's connection: opens or joins it, comes back by itself with the offset it has, moves the window as the
// terminal shows what came, and says what is going on. It draws nothing.
import { agentPath } from "../api";
import * as wire from "./wire";

export type LinkState =
  | { name: "connecting" }
  | { name: "live" }
  | { name: "waiting"; until: number; why: string }
  | { name: "ended"; exit: wire.Exit }
  | { name: "refused"; error: wire.Refusal };

export interface LinkEvents {
  state(state: LinkState): void;
  opened(opened: wire.Opened, returning: boolean): void;
  /** Call shown() once the terminal has taken it in. */
  output(data: Uint8Array, shown: () => void): void;
  /** Not exact: drawn from a part of the output alone; a notice has said so. */
  screen(cols: number, rows: number, data: Uint8Array, exact: boolean, shown: () => void): void;
  skipped(bytes: number): void;
  notice(notice: wire.Notice): void;
  resized(cols: number, rows: number): void;
  latency(ms: number): void;
}

export type Target = { agent: string } | { session: string; role?: "driver" | "observer" };

/** How far the server may send ahead of what is shown. */
const windowSize = 512 * 1024;
const pingEvery = 15_000;
const pongWithin = 10_000;
/** A network that swallows everything gives neither a connection nor an error. */
const connectWithin = 20_000;
const delays = [250, 500, 1000, 2000, 4000, 8000, 15_000];
/** These say that trying again would not help. */
const final = new Set([1000, 1003, 1008, 1009, 4400, 4401, 4403, 4404, 4409, 4410]);
/** A session that could not be opened is asked for again only after these: each other try would be one more that fails. */
const passing = new Set([429, 503, 504, 507]);

export class Link {
  private socket: WebSocket | null = null;
  private state: LinkState = { name: "connecting" };
  private opened: wire.Opened | null = null;
  /** Behind the last byte that came, and that was shown. */
  private received = 0;
  private shown = 0;
  private granted = 0;
  /** Input that waits here; and of this connection's, in bytes, what was sent and what the sandbox has taken. */
  private waiting: Uint8Array[] = [];
  private sent = 0;
  private taken = 0;
  private tries = 0;
  private retryTimer = 0;
  private pingTimer = 0;
  private pongTimer = 0;
  private pingedAt = 0;
  private lastError: wire.Refusal | null = null;
  private exit: wire.Exit | null = null;
  /** The pixels beside cols and rows, and the size that this connection was opened with: what came between is said at open. */
  private xpixel = 0;
  private ypixel = 0;
  private asked = "";
  /** What the next screen is. */
  private exact = true;
  private done = false;
  private readonly online = (): void => {
    if (this.state.name === "waiting") this.connect();
  };
  private readonly visible = (): void => {
    if (document.visibilityState === "visible") this.online();
  };

  constructor(
    private readonly target: Target,
    private cols: number,
    private rows: number,
    private readonly on: LinkEvents,
  ) {
    window.addEventListener("online", this.online);
    document.addEventListener("visibilitychange", this.visible);
    this.connect();
  }

  /** Nothing typed while there is no connection is sent later: nobody wants an old Enter. */
  input(data: Uint8Array): boolean {
    if (this.state.name !== "live" || this.opened?.role !== "driver") return false;
    for (let at = 0; at < data.length; at += wire.inputMax) this.waiting.push(data.subarray(at, at + wire.inputMax));
    this.sendInput();
    return true;
  }

  /** Never so much that the server stops reading: pings and windows are behind it. */
  private sendInput(): void {
    let pieces = 0;
    for (const piece of this.waiting) {
      if (this.sent - this.taken >= wire.inputAhead) break;
      this.send(wire.input(piece));
      this.sent += piece.length;
      pieces++;
    }
    this.waiting.splice(0, pieces);
  }

  resize(cols: number, rows: number, xpixel: number, ypixel: number): void {
    this.cols = cols;
    this.rows = rows;
    this.xpixel = xpixel;
    this.ypixel = ypixel;
    if (this.opened?.role === "driver") this.send(wire.resize(cols, rows, xpixel, ypixel));
  }

  /** Try at once. */
  retry(): void {
    if (this.state.name === "waiting") this.connect();
  }

  close(): void {
    this.done = true;
    this.stopTimers();
    window.removeEventListener("online", this.online);
    document.removeEventListener("visibilitychange", this.visible);
    this.socket?.close(1000);
    this.socket = null;
  }

  private send(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(bytes);
  }

  private stopTimers(): void {
    window.clearTimeout(this.retryTimer);
    window.clearTimeout(this.pongTimer);
    window.clearInterval(this.pingTimer);
  }

  private setState(state: LinkState): void {
    this.state = state;
    this.on.state(state);
  }

  private size(): string {
    return `cols=${this.cols}&rows=${this.rows}`;
  }

  private address(): string {
    const size = this.size();
    const base = `wss://${location.host}/v1`;
    if (this.opened) return `${base}/sessions/${this.opened.session}/attach?role=${this.opened.role}&offset=${this.received}&${size}`;
    if ("agent" in this.target) return `${base}/agents/${agentPath(this.target.agent)}/terminal?${size}`;
    return `${base}/sessions/${this.target.session}/attach?${this.target.role ? `role=${this.target.role}&` : ""}${size}`;
  }

  private connect(): void {
    this.stopTimers();
    this.lastError = null;
    this.setState({ name: "connecting" });
    this.asked = this.size();
    const socket = new WebSocket(this.address(), wire.subprotocol);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.pongTimer = window.setTimeout(() => {
      this.lost();
    }, connectWithin);
    socket.onopen = (): void => {
      if (this.socket === socket) window.clearTimeout(this.pongTimer);
    };
    socket.onmessage = (e: MessageEvent<unknown>): void => {
      if (this.socket === socket && e.data instanceof ArrayBuffer) this.receive(e.data);
    };
    socket.onclose = (e): void => {
      if (this.socket === socket) this.closed(e.code, e.reason);
    };
  }

  private receive(buffer: ArrayBuffer): void {
    const m = wire.parse(buffer);
    switch (m.type) {
      case "opened":
        this.begin(m.opened);
        break;
      case "output":
        this.take(m.stream, m.offset, m.data);
        break;
      case "screen":
        this.received = this.shown = m.offset;
        this.on.screen(m.cols, m.rows, m.data, this.exact, this.shownUpTo(m.offset));
        this.exact = true;
        break;
      case "skipped":
        if (m.stream !== 1) break;
        this.received = this.shown = m.to;
        this.on.skipped(m.to - m.from);
        this.moveWindow();
        break;
      case "notice":
        this.exact = m.notice.exact !== false;
        this.on.notice(m.notice);
        break;
      case "resized":
        this.on.resized(m.cols, m.rows);
        break;
      case "taken":
        this.taken = m.total;
        this.sendInput();
        break;
      case "exit":
        this.exit = m.exit;
        break;
      case "error":
        this.lastError = m.error;
        break;
      case "pong":
        window.clearTimeout(this.pongTimer);
        this.on.latency(performance.now() - this.pingedAt);
        break;
      case "unknown":
        break;
    }
  }

  private begin(opened: wire.Opened): void {
    const returning = this.opened !== null;
    this.opened = opened;
    this.received = this.shown = opened.offset;
    this.granted = opened.offset + wire.firstWindow;
    this.waiting = [];
    this.sent = this.taken = 0;
    this.tries = 0;
    this.setState({ name: "live" });
    this.on.opened(opened, returning);
    if (this.asked !== this.size()) this.resize(this.cols, this.rows, this.xpixel, this.ypixel);
    this.moveWindow();
    this.pingTimer = window.setInterval(() => {
      this.ping();
    }, pingEvery);
    this.ping();
  }

  private take(stream: 1 | 2, offset: number, data: Uint8Array): void {
    const end = offset + data.length;
    if (stream === 1) this.received = end;
    this.on.output(data, stream === 1 ? this.shownUpTo(end) : this.windowOf(stream, end));
  }

  private shownUpTo(end: number): () => void {
    return () => {
      if (end > this.shown) this.shown = end;
      this.moveWindow();
    };
  }

  private windowOf(stream: number, end: number): () => void {
    return () => {
      this.send(wire.windowTo(stream, end + windowSize));
    };
  }

  private moveWindow(): void {
    const to = this.shown + windowSize;
    if (to - this.granted < windowSize / 4) return;
    this.granted = to;
    this.send(wire.windowTo(1, to));
  }

  private ping(): void {
    this.pingedAt = performance.now();
    this.send(wire.ping());
    window.clearTimeout(this.pongTimer);
    this.pongTimer = window.setTimeout(() => {
      this.lost();
    }, pongWithin);
  }

  /** The network swallows what is sent: no close will come. */
  private lost(): void {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.closed(1006, "");
  }

  private closed(code: number, reason: string): void {
    this.stopTimers();
    this.socket = null;
    if (this.done) return;
    if (this.exit) {
      this.setState({ name: "ended", exit: this.exit });
      return;
    }
    const hopeless = !this.opened && this.lastError !== null && !passing.has(this.lastError.status);
    if (final.has(code) || hopeless) {
      this.setState({ name: "refused", error: this.lastError ?? { code: "closed", message: reason || "the connection was closed", hint: "", status: code > 4000 ? code - 4000 : 0 } });
      return;
    }
    const delay = (delays[Math.min(this.tries, delays.length - 1)] ?? 15_000) * (0.8 + 0.4 * Math.random());
    this.tries++;
    this.setState({ name: "waiting", until: Date.now() + delay, why: this.lastError?.message ?? reason });
    this.retryTimer = window.setTimeout(() => {
      this.connect();
    }, delay);
  }
}
