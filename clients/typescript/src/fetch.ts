/** A browser's way to muxd, from a page of muxd's own address: its cookie (POST /v1/web/session) is the credential. */
import { Broken, joined, type Answer, type Ask, type Digest, type Socket, type SocketEvents, type Transport } from "./transport.js";

export interface BrowserOptions {
  /** A bearer token instead of the page's cookie. Terminals need the cookie: a browser sends no field with a WebSocket. */
  token?: string;
}

export class FetchTransport implements Transport {
  readonly address = location.origin;
  readonly #token: string | undefined;

  constructor(options: BrowserOptions) {
    this.#token = options.token;
  }

  token(): Promise<string | undefined> {
    return Promise.resolve(this.#token);
  }

  async request(ask: Ask): Promise<Answer> {
    const body = ask.body === undefined || ask.body instanceof Uint8Array ? ask.body : new Blob(await all(ask.body));
    const stop = new AbortController();
    const late = setTimeout(() => {
      stop.abort();
    }, ask.timeoutMs);
    try {
      const response = await fetch(ask.target, {
        method: ask.method,
        headers: ask.headers,
        credentials: "same-origin",
        cache: "no-store",
        redirect: "error",
        signal: stop.signal,
        ...(body === undefined ? {} : { body: body as BodyInit }),
      });
      return new FetchAnswer(response, stop, ask.patient ? 0 : ask.timeoutMs);
    } catch (e) {
      throw new Broken(stop.signal.aborted ? `no answer within ${ask.timeoutMs / 1000} s` : String(e), { late: stop.signal.aborted });
    } finally {
      clearTimeout(late);
    }
  }

  socket(target: string, events: SocketEvents): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(this.address.replace(/^http/, "ws") + target, "muxd.v1");
      socket.binaryType = "arraybuffer";
      socket.onopen = () => {
        resolve({
          send: (message) => {
            socket.send(message as Uint8Array<ArrayBuffer>);
          },
          close: () => {
            socket.onclose = null;
            socket.close(1000);
          },
        });
      };
      socket.onmessage = (e: MessageEvent<ArrayBuffer>) => {
        events.message(new Uint8Array(e.data));
      };
      socket.onclose = (e) => {
        reject(new Broken("no WebSocket: the browser does not say why", { unsent: true }));
        events.closed(e.code, e.reason);
      };
    });
  }

  async sha256(bytes: Uint8Array): Promise<string> {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
    return Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
  }

  /** A browser digests what is there as a whole, so all of it is held. */
  digest(): Digest {
    const all: Uint8Array[] = [];
    return { update: (piece) => void all.push(piece), hex: () => this.sha256(joined(all)) };
  }

  uuid(): string {
    return crypto.randomUUID();
  }

  close(): void {
    // the browser has the connections
  }
}

/** A browser streams no request's body over HTTP/1.1. */
async function all(pieces: AsyncIterable<Uint8Array>): Promise<BlobPart[]> {
  const parts: BlobPart[] = [];
  for await (const p of pieces) parts.push(p as Uint8Array<ArrayBuffer>);
  return parts;
}

class FetchAnswer implements Answer {
  readonly #response: Response;
  readonly #stop: AbortController;
  #timeoutMs: number;

  constructor(response: Response, stop: AbortController, timeoutMs: number) {
    this.#response = response;
    this.#stop = stop;
    this.#timeoutMs = timeoutMs;
  }

  get status(): number {
    return this.#response.status;
  }

  header(name: string): string | undefined {
    return this.#response.headers.get(name) ?? undefined;
  }

  async *pieces(): AsyncIterable<Uint8Array> {
    const reader = this.#response.body?.getReader();
    while (reader) {
      const value = await this.#read(reader);
      if (!value) return;
      yield value;
    }
  }

  /** The time that its reader takes between two pieces does not count. */
  async #read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | undefined> {
    const late = this.#timeoutMs ? setTimeout(() => { this.#stop.abort(); }, this.#timeoutMs) : undefined;
    try {
      return (await reader.read()).value;
    } catch (e) {
      throw new Broken(`the answer broke off: ${String(e)}`, { late: this.#stop.signal.aborted });
    } finally {
      clearTimeout(late);
    }
  }

  within(ms: number): void {
    this.#timeoutMs = ms;
  }

  close(): void {
    this.#stop.abort();
  }
}
