/** What the client needs of where it runs. node.ts is node's, fetch.ts that of a browser on muxd's own pages' address. */

export type Body = Uint8Array | AsyncIterable<Uint8Array>;

export interface Ask {
  method: string;
  target: string;
  headers: Record<string, string>;
  body?: Body;
  /** Of the body, where it is not bytes and its length is known. */
  size?: number;
  /** A connection that was used before may serve it: saying it again does no harm. */
  reuse: boolean;
  /** Until the answer begins, and between two pieces of it, where `patient` is not set. */
  timeoutMs: number;
  patient?: boolean;
}

/** Nothing came, or not all: the request may have arrived. */
export class Broken extends Error {
  /** It did not arrive: there was no connection. */
  readonly unsent: boolean;
  readonly late: boolean;
  /** Trying again cannot help (a certificate). */
  readonly final: boolean;

  constructor(message: string, how: { unsent?: boolean; late?: boolean; final?: boolean } = {}) {
    super(message);
    this.unsent = how.unsent ?? false;
    this.late = how.late ?? false;
    this.final = how.final ?? false;
  }
}

export interface Answer {
  status: number;
  header(name: string): string | undefined;
  /** Throws Broken where the answer breaks off. */
  pieces(): AsyncIterable<Uint8Array>;
  /** How long it may say nothing from here on, in milliseconds; 0: for ever. */
  within(ms: number): void;
  close(): void;
}

/** SHA-256 of what comes in pieces. */
export interface Digest {
  update(piece: Uint8Array): void;
  hex(): Promise<string>;
}

export interface Socket {
  send(message: Uint8Array): void;
  close(): void;
}

export interface SocketEvents {
  message(data: Uint8Array): void;
  /** Once, at the end; 1006: without a close frame. */
  closed(code: number, reason: string): void;
}

/** An answer of HTTP instead of a WebSocket. */
export class Refused extends Error {
  readonly status: number;
  readonly body: Uint8Array;

  constructor(status: number, body: Uint8Array) {
    super(`an answer ${status} instead of a WebSocket`);
    this.status = status;
    this.body = body;
  }
}

export interface Transport {
  /** In words, for errors. */
  readonly address: string;
  /** The bearer token; undefined where a cookie stands for it. */
  token(): Promise<string | undefined>;
  request(ask: Ask): Promise<Answer>;
  socket(target: string, events: SocketEvents): Promise<Socket>;
  sha256(bytes: Uint8Array): Promise<string>;
  digest(): Digest;
  uuid(): string;
  close(): void;
}

export async function whole(answer: Answer): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = [];
  for await (const piece of answer.pieces()) pieces.push(piece);
  return joined(pieces);
}

export function joined(pieces: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(pieces.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of pieces) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}
