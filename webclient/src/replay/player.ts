// Plays a recording into a terminal. Times are milliseconds since its first event.
//
// One loop owns the terminal: `show` applies an event, `seek` begins anew from the nearest screen that the record has, `tick`
// (each frame) shows what is due. A jump that another jump overtakes is given up at the next await. The terminal parses
// later than it is written to: it is never given another size, or begun anew, before it has parsed what was written.
import type { Terminal } from "@xterm/xterm";
import { DATA, EXIT, GAP, INPUT, MISSING, RESIZE, STDERR, leftOut, typist, u16, type RecordedEvent } from "./events";
import { Reader, seekBytes, screenAt, type About } from "./source";
import { setSize } from "./size";

export interface PlayerEvents {
  /** Moved, paused, at the end, more is known: draw the controls anew. */
  changed(): void;
  size(cols: number, rows: number): void;
  input(text: string, masked: boolean): void;
  /** Whose input follows. */
  typist(name: string): void;
  /** Somewhere else: what was typed last is not known there. */
  jumped(): void;
  gap(bytes: number): void;
  failed(e: unknown): void;
}
export type PlayerState = "loading" | "paused" | "playing" | "ended" | "live";

const frameBytes = 256 * 1024; // shown in one frame at the most
const jumpBytes = 256 * 1024; // handed to the terminal at once while jumping: parsed in one go, nothing is painted meanwhile
const pollMs = 700;
const decoder = new TextDecoder();
const red = new TextEncoder().encode("\x1b[31m");
const plain = new TextEncoder().encode("\x1b[39m");

export class Player {
  state: PlayerState = "loading";
  at = 0;
  speed = 1;
  /** Silences longer than this are played as this long; 0: as they were. */
  idleMs = 2000;
  duration: number;
  exit: RecordedEvent | null = null;

  private readonly first: bigint;
  private readonly sealed: boolean;
  private readonly pty: boolean;
  private reader: Reader;
  private jump = 0; // counts seeks: the newest one counts
  private frame = 0;
  private last = 0; // performance.now() of the last frame
  private writing = 0; // bytes that the terminal has not parsed
  private collected: Uint8Array[] = []; // of a jump: not yet handed to it
  private collectedBytes = 0;
  private stepping = false;
  private loading = false;
  private poll = 0;
  private wanted: "play" | "pause" = "pause";

  constructor(
    private readonly id: string,
    readonly about: About,
    private readonly term: Terminal,
    private readonly events: PlayerEvents,
    private readonly signal: AbortSignal,
  ) {
    this.first = BigInt(about.first_ns ?? "0");
    this.sealed = about.state === "sealed";
    this.pty = about.open.pty === true;
    this.duration = about.last_ns ? this.ms(BigInt(about.last_ns)) : 0;
    this.reader = new Reader(id, 0n, signal);
  }

  destroy(): void {
    this.jump++;
    this.reader.close();
    cancelAnimationFrame(this.frame);
    window.clearTimeout(this.poll);
  }

  private ms(ns: bigint): number {
    return Number(ns - this.first) / 1e6;
  }

  private setState(s: PlayerState): void {
    if (this.state === s) return;
    this.state = s;
    this.events.changed();
  }

  play(): void {
    this.wanted = "play";
    if (this.state === "ended") {
      void this.seek(0);
      return;
    }
    if (this.state === "paused") {
      this.setState("playing");
      this.run();
    }
  }

  pause(): void {
    this.wanted = "pause";
    this.stopPolling();
    if (this.state === "playing" || this.state === "live") this.setState("paused");
  }

  private stopPolling(): void {
    window.clearTimeout(this.poll);
    this.loading = false;
  }

  toggle(): void {
    const plays = this.state === "playing" || this.state === "live" || (this.state === "loading" && this.wanted === "play");
    if (plays) this.pause();
    else this.play();
  }

  /** To that moment; playing goes on if it played. */
  async seek(to: number): Promise<void> {
    const jump = ++this.jump;
    const over = (): boolean => jump !== this.jump || this.signal.aborted;
    to = Math.max(0, this.sealed ? Math.min(to, this.duration) : to);
    cancelAnimationFrame(this.frame);
    this.stopPolling();
    this.setState("loading");
    try {
      await this.begin(to, over);
      await this.forward(to, over);
      if (over()) return;
      this.at = to;
      this.settle();
    } catch (e) {
      if (over()) return;
      this.setState("paused");
      this.events.failed(e);
    }
  }

  /** To the next event that shows something. */
  async step(): Promise<void> {
    if (this.state === "loading" || this.stepping) return;
    this.pause();
    this.stepping = true;
    try {
      await this.next();
    } catch (e) {
      this.events.failed(e);
    }
    this.stepping = false;
    if (this.state === "paused" && this.reader.state === "end") this.setState("ended");
    this.events.changed();
  }
  private async next(): Promise<void> {
    const jump = this.jump;
    await this.reader.load();
    for (let e = this.reader.peek(); e; e = this.reader.peek()) {
      if (e.type === RESIZE) await this.parsed();
      if (jump !== this.jump) return;
      this.reader.take();
      this.show(e);
      this.at = Math.max(this.at, this.ms(e.ns));
      if (e.type === DATA && e.stream !== INPUT) break;
      await this.reader.load();
    }
    await this.parsed(); // a step is over when it is seen
  }

  /** From where to go on: from here, from a screen of the record, or from the start. */
  private async begin(to: number, over: () => boolean): Promise<void> {
    const ns = this.first + BigInt(Math.round(to * 1e6));
    if (to >= this.at && this.at > 0 && this.reader.covers(ns)) return; // what is at hand leads there
    const screen = this.sealed && this.pty && to > 0 ? await screenAt(this.id, ns, this.signal) : null;
    if (over()) return;
    const from = screen?.found ? this.ms(BigInt(screen.at_ns)) : 0;
    if (to >= this.at && this.at > 0 && from <= this.at) return; // what is on the screen already is nearer
    const reader = new Reader(this.id, screen?.found ? BigInt(screen.seq) : 0n, this.signal, screen?.found ? seekBytes : undefined);
    reader.ahead(); // while the terminal gets ready
    await this.parsed();
    if (over()) {
      reader.close();
      return;
    }
    this.reader.close();
    this.reader = reader;
    this.term.reset();
    this.exit = null;
    this.at = from;
    this.events.jumped();
    if (screen?.found) {
      this.resize(screen.cols, screen.rows);
      this.collect(Uint8Array.from(atob(screen.data), (c) => c.charCodeAt(0)));
    } else {
      this.resize(this.about.open.cols ?? 80, this.about.open.rows ?? 24);
    }
  }

  /** Everything up to that moment, as fast as the terminal takes it. */
  private async forward(to: number, over: () => boolean): Promise<void> {
    for (;;) {
      await this.reader.load();
      if (over()) return;
      const e = this.reader.peek();
      if (!e || this.ms(e.ns) > to) break;
      if (e.type === RESIZE || this.collectedBytes > jumpBytes) {
        await this.parsed();
        if (over()) return;
      }
      this.reader.take();
      this.show(e, true);
      this.at = Math.max(this.at, this.ms(e.ns));
    }
    await this.parsed();
  }

  private collect(p: Uint8Array): void {
    this.collected.push(p);
    this.collectedBytes += p.length;
  }

  /** Hands on what was collected; resolved when the terminal shows all that it was given. */
  private parsed(): Promise<void> {
    const whole = new Uint8Array(this.collectedBytes);
    let at = 0;
    for (const p of this.collected) {
      whole.set(p, at);
      at += p.length;
    }
    this.collected = [];
    this.collectedBytes = 0;
    return new Promise((done) => {
      this.term.write(whole, done);
    });
  }

  private settle(): void {
    if (!this.reader.peek() && this.reader.state === "end") this.setState("ended");
    else if (this.wanted === "play") {
      this.setState("playing");
      this.run();
    } else this.setState("paused");
    this.events.changed();
  }

  private resize(cols: number, rows: number): void {
    if (cols < 1 || rows < 1 || (cols === this.term.cols && rows === this.term.rows)) return;
    setSize(this.term, Math.min(cols, 1000), Math.min(rows, 500));
    this.events.size(cols, rows);
  }

  private show(e: RecordedEvent, jumping = false): void {
    this.duration = Math.max(this.duration, this.ms(e.ns));
    if (e.type === DATA && e.stream === INPUT) {
      this.events.input(decoder.decode(e.payload), (e.flags & 1) !== 0);
    } else if (e.type === DATA) {
      const marked = e.stream === STDERR && !this.pty;
      const parts = marked ? [red, e.payload, plain] : [e.payload];
      for (const p of parts) {
        if (jumping) this.collect(p);
        else this.write(p);
      }
    } else if (e.type === RESIZE && e.payload.length >= 4) {
      this.resize(u16(e.payload, 0), u16(e.payload, 2));
    } else if ((e.type === GAP || e.type === MISSING) && e.stream !== INPUT) {
      this.events.gap(leftOut(e));
    } else if (e.type === EXIT) {
      this.exit = e;
    } else {
      const name = typist(e);
      if (name !== null) this.events.typist(name);
    }
  }

  private write(p: Uint8Array): void {
    this.writing += p.length;
    this.term.write(p, () => {
      this.writing -= p.length;
    });
  }

  // ---- playing

  private run(): void {
    this.last = performance.now();
    const jump = this.jump;
    const tick = (now: number): void => {
      if (jump !== this.jump || this.state !== "playing") return;
      this.tick(now);
      this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
  }

  private tick(now: number): void {
    const passed = (now - this.last) * this.speed;
    this.last = now;
    this.reader.soon();
    if (this.loading || this.writing > frameBytes) return; // time stands still while there is nothing to show, or too much
    let to = this.at + passed;
    for (let shown = 0; shown < frameBytes; ) {
      const e = this.reader.peek();
      if (!e) {
        this.more();
        return;
      }
      if (e.type === RESIZE && this.writing) return; // the next frame
      const seen = this.reader.peekSeen();
      to += this.skipSilence(seen);
      const due = this.ms(e.ns);
      const within = this.idleMs > 0 && !seen; // a silence whose end is not at hand
      if (due > to && !within) break;
      this.reader.take();
      this.show(e);
      shown += e.payload.length;
      if (!within) this.at = Math.max(this.at, due);
    }
    this.at = Math.max(this.at, this.sealed ? Math.min(to, this.duration) : to);
    this.events.changed();
  }

  /** Of a silence that ends with this event only so much is played; how much is left out. */
  private skipSilence(end: RecordedEvent | undefined): number {
    const skipped = end && this.idleMs ? this.ms(end.ns) - this.at - this.idleMs : 0;
    if (skipped <= 0) return 0;
    this.at += skipped;
    return skipped;
  }

  /** The events at hand are shown: load, or wait for what is still to happen. */
  private more(): void {
    if (this.reader.state === "end") {
      this.at = this.duration;
      this.wanted = "pause";
      this.setState("ended");
      return;
    }
    const live = this.reader.state === "live";
    const jump = this.jump;
    this.loading = true;
    if (live) {
      this.at = this.duration;
      this.setState("live");
    }
    window.clearTimeout(this.poll);
    this.poll = window.setTimeout(
      () => {
        this.reader
          .load()
          .then(() => {
            this.loading = false;
            if (jump !== this.jump || (this.state !== "live" && this.state !== "playing")) return;
            if (this.state === "live") void this.follow();
            else this.last = performance.now();
          })
          .catch((e: unknown) => {
            this.loading = false;
            if (jump !== this.jump) return;
            this.setState("paused");
            this.events.failed(e);
          });
      },
      live ? pollMs : 0,
    );
  }

  /** The live tail is shown as it comes. */
  private async follow(): Promise<void> {
    const jump = this.jump;
    for (let e = this.reader.peek(); e; e = this.reader.peek()) {
      if (e.type === RESIZE || this.writing > frameBytes) await this.parsed();
      if (jump !== this.jump || this.state !== "live") return;
      this.reader.take();
      this.show(e);
    }
    this.at = this.duration;
    this.events.changed();
    this.more();
  }

  /** To the end, and on with what happens. */
  async toLive(): Promise<void> {
    this.wanted = "play";
    await this.seek(Number.MAX_SAFE_INTEGER / 1e6);
    this.at = this.duration;
    this.events.changed();
  }
}
