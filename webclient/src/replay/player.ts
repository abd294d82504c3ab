// Plays a recording into a terminal. Times are milliseconds since its first event.
//
// One loop owns the terminal: `show` applies an event, `seek` begins anew from the nearest screen that the record has, `tick`
// (each frame) shows what is due. A jump that another jump overtakes is given up at the next await.
import type { Terminal } from "@xterm/xterm";
import { DATA, EXIT, GAP, INPUT, MISSING, RESIZE, STDERR, leftOut, u16, type RecordedEvent } from "./events";
import { Reader, screenAt, type About } from "./source";

export interface PlayerEvents {
  /** Moved, paused, at the end, more is known: draw the controls anew. */
  changed(): void;
  size(cols: number, rows: number): void;
  input(text: string, masked: boolean): void;
  gap(bytes: number): void;
  failed(e: unknown): void;
}
export type PlayerState = "loading" | "paused" | "playing" | "ended" | "live";

const frameBytes = 256 * 1024; // shown in one frame at the most
const jumpBytes = 2 * 1024 * 1024; // handed to the terminal at once while jumping
const pollMs = 700;
const decoder = new TextDecoder();

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
    window.clearTimeout(this.poll);
    if (this.state === "playing" || this.state === "live") this.setState("paused");
  }

  toggle(): void {
    if (this.state === "playing" || this.state === "live") this.pause();
    else this.play();
  }

  /** To that moment; playing goes on if it played. */
  async seek(to: number): Promise<void> {
    const jump = ++this.jump;
    const over = (): boolean => jump !== this.jump || this.signal.aborted;
    to = Math.max(0, this.sealed ? Math.min(to, this.duration) : to);
    cancelAnimationFrame(this.frame);
    window.clearTimeout(this.poll);
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
    this.pause();
    await this.reader.load();
    for (let e = this.reader.peek(); e; e = this.reader.peek()) {
      this.reader.take();
      this.show(e);
      this.at = Math.max(this.at, this.ms(e.ns));
      if (e.type === DATA && e.stream !== INPUT) break;
      await this.reader.load();
    }
    this.events.changed();
  }

  /** From where to go on: from here, from a screen of the record, or from the start. */
  private async begin(to: number, over: () => boolean): Promise<void> {
    const ns = this.first + BigInt(Math.round(to * 1e6));
    const screen = this.sealed && this.pty && to > 0 ? await screenAt(this.id, ns, this.signal) : null;
    if (over()) return;
    const from = screen?.found ? this.ms(BigInt(screen.at_ns)) : 0;
    if (to >= this.at && this.at > 0 && from <= this.at) return; // what is on the screen already is nearer
    this.term.reset();
    this.exit = null;
    if (screen?.found) {
      this.resize(screen.cols, screen.rows);
      this.term.write(Uint8Array.from(atob(screen.data), (c) => c.charCodeAt(0)));
      this.reader = new Reader(this.id, BigInt(screen.seq), this.signal);
    } else {
      this.resize(this.about.open.cols ?? 80, this.about.open.rows ?? 24);
      this.reader = new Reader(this.id, 0n, this.signal);
    }
    this.at = from;
  }

  /** Everything up to that moment, as fast as the terminal takes it. */
  private async forward(to: number, over: () => boolean): Promise<void> {
    for (;;) {
      await this.reader.load();
      if (over()) return;
      const e = this.reader.peek();
      if (!e || this.ms(e.ns) > to) break;
      this.reader.take();
      this.show(e);
      if (this.writing > jumpBytes) await this.parsed();
      if (over()) return;
    }
    await this.parsed();
  }

  private parsed(): Promise<void> {
    return new Promise((done) => {
      this.term.write("", done);
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
    if (cols < 1 || rows < 1) return;
    this.term.resize(Math.min(cols, 1000), Math.min(rows, 500));
    this.events.size(cols, rows);
  }

  private show(e: RecordedEvent): void {
    this.duration = Math.max(this.duration, this.ms(e.ns));
    if (e.type === DATA && e.stream === INPUT) {
      this.events.input(decoder.decode(e.payload), (e.flags & 1) !== 0);
    } else if (e.type === DATA) {
      this.write(e.payload, e.stream === STDERR && !this.pty);
    } else if (e.type === RESIZE && e.payload.length >= 4) {
      this.resize(u16(e.payload, 0), u16(e.payload, 2));
    } else if ((e.type === GAP || e.type === MISSING) && e.stream !== INPUT) {
      this.events.gap(leftOut(e));
    } else if (e.type === EXIT) {
      this.exit = e;
    }
  }

  private write(p: Uint8Array, red: boolean): void {
    this.writing += p.length;
    if (red) this.term.write("\x1b[31m");
    this.term.write(p, () => {
      this.writing -= p.length;
    });
    if (red) this.term.write("\x1b[39m");
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
    if (this.loading || this.writing > frameBytes) return; // time stands still while there is nothing to show, or too much
    let to = this.at + passed;
    for (let shown = 0; shown < frameBytes; ) {
      const e = this.reader.peek();
      if (!e) {
        this.more();
        return;
      }
      const due = this.ms(e.ns);
      if (this.idleMs && due - this.at > this.idleMs) {
        const skipped = due - this.at - this.idleMs; // the rest of the silence is played
        this.at += skipped;
        to += skipped;
      }
      if (due > to) break;
      this.reader.take();
      this.show(e);
      shown += e.payload.length;
      this.at = Math.max(this.at, due);
    }
    this.at = Math.max(this.at, this.sealed ? Math.min(to, this.duration) : to);
    this.events.changed();
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
            if (live) this.follow();
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
  private follow(): void {
    for (let e = this.reader.take(); e; e = this.reader.take()) this.show(e);
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
