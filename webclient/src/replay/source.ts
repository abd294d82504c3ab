// A recording as its player reads it: forward from any moment, page by page, a page ahead.
import { ApiError, call } from "../api";
import { decode, isSeen, type RecordedEvent } from "./events";

export interface Size {
  cols: number;
  rows: number;
}
export interface About {
  session: string;
  state: "open" | "sealed";
  open: { agent?: string; kind?: string; principal?: string; reason?: string; task?: string; pty?: boolean; cols?: number; rows?: number; wall_ns?: number; argv?: unknown[]; snapshot_id?: string };
  first_ns?: string;
  last_ns?: string;
  wall_at?: string;
  events?: number;
  file_size?: number;
  rule?: string;
  exit?: { cause?: string; code?: number; signal?: number };
  streams?: { name: string; total: number; omitted: number; missing: number }[];
  timeline?: { step_ns: number; input: number[]; output: number[] };
  sizes?: { at_ns: string; cols: number; rows: number }[];
}
export interface Screen extends Size {
  found: boolean;
  waits?: boolean;
  at_ns: string;
  seq: string;
  data: string;
}
/** What comes behind the events at hand. */
export type Behind = "more" | "end" | "live";

const pageBytes = 512 * 1024;
/** The first page behind a screen: what there is between two of them (KEYFRAMER_SPACING), and a little more. */
export const seekBytes = 272 * 1024;

export const about = (id: string, signal: AbortSignal): Promise<About> => patiently(() => call("GET", `/v1/recordings/${id}`, { signal }), signal);
export const screenAt = (id: string, ns: bigint, signal: AbortSignal): Promise<Screen> => patiently(() => call("GET", `/v1/recordings/${id}/screen?at_ns=${ns}`, { signal }), signal);

interface Page {
  events: RecordedEvent[];
  behind: Behind;
}

const passing = [0, 429, 503]; // no answer, too many requests, not able to for now

/** A network that changes under the page fails what is on its way, and a busy muxd says so: both are asked again, for a while. */
export async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let wait = 250; ; wait *= 2) {
    try {
      return await ask();
    } catch (e) {
      if (signal.aborted || (e instanceof ApiError && !passing.includes(e.status))) throw e;
      if (wait > 16_000 && e instanceof ApiError && e.status !== 0) throw e;
      if (wait > 16_000) throw new ApiError(0, "unreachable", "muxd does not answer.", "Is the network there, and the daemon running?");
      await new Promise((r) => setTimeout(r, wait));
    }
  }
}

async function askPage(id: string, after: bigint, limit: number, signal: AbortSignal): Promise<Response> {
  const answer = await fetch(`/v1/recordings/${id}/events?after_seq=${after}&limit=${limit}`, { credentials: "same-origin", cache: "no-store", signal });
  if (answer.ok) return answer;
  const value = (await answer.json().catch(() => null)) as { error?: { code?: string; message?: string; hint?: string } } | null;
  throw new ApiError(answer.status, value?.error?.code ?? "internal", value?.error?.message ?? `The answer was ${answer.status}.`, value?.error?.hint ?? "");
}

async function fetchPage(id: string, after: bigint, limit: number, signal: AbortSignal): Promise<Page> {
  const answer = await patiently(() => askPage(id, after, limit, signal), signal);
  return { events: decode(new Uint8Array(await answer.arrayBuffer())), behind: (answer.headers.get("Muxd-Page") ?? "end") as Behind };
}

/** Events behind a sequence, in order, each once. */
export class Reader {
  private events: RecordedEvent[] = [];
  private at = 0;
  private seen = 0; // none between `at` and this one is seen
  private after: bigint;
  private behind: Behind = "more";
  private coming: Promise<Page> | null = null;
  private landing: Promise<void> | null = null; // one at a time, however many wait for it
  private readonly stop = new AbortController();

  constructor(
    private readonly id: string,
    after: bigint,
    signal: AbortSignal,
    private limit = pageBytes,
  ) {
    this.after = after;
    if (signal.aborted) this.stop.abort();
    signal.addEventListener("abort", () => { this.stop.abort(); }, { signal: this.stop.signal });
  }

  /** Nobody reads on: what is on its way is not wanted. */
  close(): void {
    this.stop.abort();
  }
  /** Is the next event behind that moment at hand? */
  covers(ns: bigint): boolean {
    const last = this.events[this.events.length - 1];
    return this.at < this.events.length && last !== undefined && last.ns > ns;
  }

  /** The next event at hand, without taking it; undefined: none is loaded. */
  peek(): RecordedEvent | undefined {
    return this.events[this.at];
  }
  /** The next one at hand that is seen, which ends a silence. */
  peekSeen(): RecordedEvent | undefined {
    this.seen = Math.max(this.seen, this.at);
    for (let e = this.events[this.seen]; e && !isSeen(e); e = this.events[this.seen]) this.seen++;
    return this.events[this.seen];
  }
  take(): RecordedEvent | undefined {
    const e = this.events[this.at];
    if (e) this.at++;
    return e;
  }
  /** Who plays wants the next page before this one is over. */
  soon(): void {
    if (this.at * 2 > this.events.length) this.ahead();
  }
  get state(): Behind {
    return this.at < this.events.length ? "more" : this.behind;
  }

  /** Asks for the next page. */
  ahead(): void {
    if (this.behind === "more" && !this.coming) void this.ask();
  }
  private ask(): Promise<Page> {
    const last = this.events[this.events.length - 1];
    const coming = fetchPage(this.id, last ? last.seq : this.after, this.limit, this.stop.signal);
    coming.catch(() => undefined); // told to whoever waits for it in load()
    this.coming = coming;
    this.limit = pageBytes;
    return coming;
  }

  /** Until there is an event at hand, or there is none for now. */
  async load(): Promise<void> {
    if (this.at < this.events.length || this.behind === "end") return;
    this.landing ??= this.land().finally(() => (this.landing = null));
    await this.landing;
  }
  private async land(): Promise<void> {
    try {
      const page = await (this.coming ?? this.ask());
      const last = this.events[this.events.length - 1];
      if (last) this.after = last.seq;
      this.events = page.events;
      this.at = this.seen = 0;
      this.behind = page.behind;
    } finally {
      this.coming = null;
    }
  }
}
