/** What happens in a directory, as it happens: `sandbox.files.watchDir()`. */
import type { FsEvent } from "./api.js";
import { ConnectionLost, ProtocolError, SandboxError } from "./errors.js";
import { sleep, type Call, type Client } from "./http.js";
import { lines } from "./lines.js";
import { Broken, type Answer } from "./transport.js";
import { filesystemEvent, pathOut, type FilesystemEvent } from "./types.js";

const LINE_MAX = 64 << 10;

export interface WatchOptions {
  recursive?: boolean;
  /** Called once, at the end: with an error, or without one where stop() or the directory's end was it. */
  onExit?: (error?: unknown) => void | Promise<void>;
}

/**
 * A watch that goes on until stop() or the directory's end. A connection that is cut is made anew; what happened meanwhile is not known
 * then, which an event of type "overflow" says. Without a callback it is an iterator.
 */
export class WatchHandle implements AsyncIterable<FilesystemEvent> {
  readonly #client: Client;
  readonly #agent: string;
  readonly #query: NonNullable<Call["query"]>;
  #answer: Answer | undefined;
  #lines: AsyncIterator<FsEvent> | undefined;
  #stopped = false;
  #below = ".";

  constructor(client: Client, agent: string, query: NonNullable<Call["query"]>) {
    this.#client = client;
    this.#agent = agent;
    this.#query = query;
  }

  /** @internal */
  async open(): Promise<void> {
    const answer = await this.#client.open("watchFiles", { agent: this.#agent }, { query: this.#query, accept: "application/x-ndjson", again: true });
    this.#answer = answer;
    answer.within(this.#client.requestTimeoutMs);
    this.#lines = linesOf(answer);
    const first = await this.#lines.next();
    answer.within(0);
    if (first.done) throw new Broken("it ended before it began");
    if (first.value.event !== "ready") throw new ProtocolError(`a watch begins with ${first.value.event}`);
    if (first.value.path !== undefined) this.#below = pathOut(first.value.path);
    if (this.#stopped) answer.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FilesystemEvent> {
    try {
      while (!this.stopped()) {
        try {
          const step = await this.#lines?.next();
          if (!step || step.done) throw new Broken("it ended");
          if (step.value.event === "gone") return;
          const event = filesystemEvent(step.value, this.#below);
          if (event) yield event;
        } catch (e) {
          if (this.stopped()) return;
          if (!(e instanceof Broken)) throw e;
          await this.#again(e);
          if (this.stopped()) return;
          yield { name: ".", type: "overflow", path: this.#below, raw: { event: "overflow" } };
        }
      }
    } finally {
      this.stop();
    }
  }

  async #again(why: Broken): Promise<void> {
    const end = Date.now() + this.#client.retryForMs;
    for (let pause = 50; !this.stopped(); pause = Math.min(pause * 2, 2000)) {
      try {
        await this.open();
        return;
      } catch (e) {
        if (this.stopped()) return;
        if (e instanceof SandboxError || Date.now() + pause > end) {
          throw new ConnectionLost(`the watch of ${this.#below} was cut off (${why.message}), and could not be made again.`, { cause: e });
        }
        await sleep(pause);
      }
    }
  }

  private stopped(): boolean {
    return this.#stopped;
  }

  /** @internal What onEvent throws ends the watch, and goes to onExit. */
  async tell(onEvent: (event: FilesystemEvent) => void | Promise<void>, onExit: WatchOptions["onExit"]): Promise<void> {
    let error: unknown;
    try {
      for await (const event of this) await onEvent(event);
    } catch (e) {
      error = e;
    }
    await (error === undefined ? onExit?.() : onExit?.(error));
  }

  stop(): Promise<void> {
    this.#stopped = true;
    this.#answer?.close();
    return Promise.resolve();
  }
}

async function* linesOf(answer: Answer): AsyncGenerator<FsEvent> {
  const lost = () => {
    throw new ProtocolError("an event of a watch has no end");
  };
  for await (const line of lines(answer.pieces(), LINE_MAX, lost)) yield eventOf(line);
}

function eventOf(line: string): FsEvent {
  try {
    return JSON.parse(line) as FsEvent;
  } catch (e) {
    throw new ProtocolError("an event of a watch is no JSON", { cause: e });
  }
}
