/** node's way to muxd: HTTPS with a certificate authority of its own, or the Unix socket. No dependency. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import * as http from "node:http";
import * as https from "node:https";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { ConnectionLost, InvalidRequest, Unauthenticated } from "./errors.js";
import { Broken, Refused, type Answer, type Ask, type Digest, type Socket, type SocketEvents, type Transport } from "./transport.js";

export interface NodeOptions {
  /** https://HOST[:PORT] */
  url?: string;
  caFile?: string;
  /** api.sock, instead of url. */
  socketPath?: string;
  /** The daemon's state directory, where url and CA file stand. */
  stateDir?: string;
  token?: string;
  /** Read again for each request: whoever renews the grant writes it anew. */
  tokenFile?: string;
}

const MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MESSAGE_MAX = 1 << 20;
const CONNECT_TIMEOUT = 60_000;
const PIECE = 256 << 10;

export class NodeTransport implements Transport {
  readonly address: string;
  readonly #options: http.RequestOptions & https.RequestOptions;
  readonly #tls: boolean;
  readonly #token: string | undefined;
  readonly #tokenFile: string | undefined;
  readonly #agent: http.Agent;

  /** The environment says MUXD_URL, MUXD_CA_FILE, MUXD_SOCKET, MUXD_STATE and MUXD_TOKEN_FILE where the options do not. */
  constructor(options: NodeOptions) {
    const env = process.env;
    const given = options.url ?? options.socketPath ?? options.stateDir;
    const socketPath = given ? options.socketPath : env.MUXD_SOCKET;
    const stateDir = given ? options.stateDir : env.MUXD_STATE;
    let url = given ? options.url : env.MUXD_URL;
    let caFile = options.caFile ?? env.MUXD_CA_FILE;
    if (!url && !socketPath) {
      if (!stateDir) {
        throw new InvalidRequest("no url, socketPath or stateDir is given, and none of MUXD_URL, MUXD_SOCKET, MUXD_STATE is set", { hint: "Say where muxd listens." });
      }
      url = readyUrl(stateDir);
      caFile ??= join(stateDir, "keys", "tls.crt");
    }
    this.#token = options.token;
    this.#tokenFile = options.token ? undefined : (options.tokenFile ?? env.MUXD_TOKEN_FILE);
    if (!this.#token && !this.#tokenFile) {
      throw new Unauthenticated("no token or tokenFile is given, and MUXD_TOKEN_FILE is not set", { hint: "Ask for a grant: muxctl grant create." });
    }
    this.#tls = !socketPath;
    this.address = socketPath ?? (url as string);
    this.#options = socketPath ? { socketPath, headers: { host: "localhost" } } : tlsOptions(url as string, caFile);
    this.#agent = this.#tls ? new https.Agent({ keepAlive: true, maxFreeSockets: 4, timeout: 10_000 }) : new http.Agent({ keepAlive: false });
  }

  async token(): Promise<string> {
    if (this.#token) return this.#token;
    try {
      return (await readFile(this.#tokenFile as string, "ascii")).trim();
    } catch (e) {
      throw new Unauthenticated(`the token cannot be read: ${words(e)}`, { hint: "Ask for a grant: muxctl grant create." });
    }
  }

  #open(ask: Pick<Ask, "method" | "target" | "headers">, agent: http.Agent | false): http.ClientRequest {
    const how = { ...this.#options, method: ask.method, path: ask.target, headers: { ...this.#options.headers, ...ask.headers }, agent };
    const request = this.#tls ? https.request(how) : http.request(how);
    request.setNoDelay(true);
    request.setSocketKeepAlive(true, 30_000);
    return request;
  }

  request(ask: Ask): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers = { ...ask.headers };
      if (ask.body instanceof Uint8Array) headers["Content-Length"] = String(ask.body.length);
      else if (ask.body && ask.size !== undefined) headers["Content-Length"] = String(ask.size);
      else if (ask.body) headers["Transfer-Encoding"] = "chunked";
      else if (ask.method !== "GET") headers["Content-Length"] = "0";
      const request = this.#open({ ...ask, headers }, ask.reuse ? this.#agent : false);
      let connected = false, answered = false, late: NodeJS.Timeout | undefined;
      // The other side is waited for: to take what was written, or to answer.
      const waits = (on: boolean) => {
        clearTimeout(late);
        if (on) late = setTimeout(() => request.destroy(new Broken(`no answer within ${ask.timeoutMs / 1000} s`, { late: true })), ask.timeoutMs);
      };
      waits(true);
      request.on("socket", (socket) => {
        connected = !socket.connecting;
        if (socket.connecting) {
          socket.once(this.#tls ? "secureConnect" : "connect", () => {
            connected = true;
          });
        }
      });
      request.on("error", (e) => {
        waits(false);
        reject(e instanceof Broken ? e : new Broken(words(e), { unsent: !connected, final: certificate(e) }));
      });
      request.on("response", (response) => {
        waits(false);
        answered = true;
        response.once("end", () => {
          if (!request.writableEnded) request.destroy(); // a refusal, ahead of all that was to be sent
        });
        resolve(new NodeAnswer(response, ask.patient ? 0 : ask.timeoutMs));
      });
      send(request, ask.body, waits).catch((e: unknown) => {
        if (answered) return; // a refusal, which is read
        waits(false);
        reject(e as Error); // the caller's content failed, and no connection
        request.destroy();
      });
    });
  }

  async socket(target: string, events: SocketEvents): Promise<Socket> {
    const key = randomBytes(16).toString("base64");
    const headers = {
      Authorization: `Bearer ${await this.token()}`,
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Key": key,
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Protocol": "muxd.v1",
    };
    return new Promise((resolve, reject) => {
      const request = this.#open({ method: "GET", target, headers }, false);
      request.setTimeout(CONNECT_TIMEOUT, () => request.destroy(new Broken("no answer in time", { late: true })));
      request.on("error", (e) => {
        reject(e instanceof Broken ? e : new Broken(words(e), { unsent: true, final: certificate(e) }));
      });
      request.on("response", (response) => {
        const pieces: Buffer[] = [];
        response.on("data", (p: Buffer) => pieces.push(p));
        response.on("close", () => {
          reject(new Refused(response.statusCode ?? 0, Buffer.concat(pieces)));
        });
      });
      request.on("upgrade", (response, socket, head) => {
        const accept = createHash("sha1").update(key + MAGIC).digest("base64");
        if (response.headers["sec-websocket-accept"] !== accept) {
          socket.destroy();
          reject(new Broken("the answer accepts another WebSocket"));
          return;
        }
        request.setTimeout(0);
        resolve(new NodeSocket(socket, head, events));
      });
      request.end();
    });
  }

  sha256(bytes: Uint8Array): Promise<string> {
    return Promise.resolve(createHash("sha256").update(bytes).digest("hex"));
  }

  digest(): Digest {
    const hash = createHash("sha256");
    let hex: string | undefined;
    return { update: (piece) => void hash.update(piece), hex: () => Promise.resolve((hex ??= hash.digest("hex"))) };
  }

  uuid(): string {
    return randomUUID();
  }

  close(): void {
    this.#agent.destroy();
  }
}

function words(e: unknown): string {
  if (e instanceof AggregateError && !e.message) return e.errors.map(words).join("; ");
  return e instanceof Error ? e.message : String(e);
}

function certificate(e: unknown): boolean {
  const code = (e as { code?: string }).code ?? "";
  return /CERT|SELF_SIGNED|ISSUER|ALTNAME|SIGNATURE/.test(code);
}

function readyUrl(stateDir: string): string {
  const path = join(stateDir, "ready.json");
  try {
    return (JSON.parse(readFileSync(path, "utf8")) as { https_url: string }).https_url;
  } catch (e) {
    throw new ConnectionLost(`${path} does not say where muxd listens: ${words(e)}`);
  }
}

function tlsOptions(url: string, caFile: string | undefined): https.RequestOptions {
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    throw new InvalidRequest(`the url ${JSON.stringify(url)} is not https://HOST[:PORT]`);
  }
  if (parts.protocol !== "https:" || parts.pathname !== "/" || parts.search) {
    throw new InvalidRequest(`the url ${JSON.stringify(url)} is not https://HOST[:PORT]`, { hint: "muxd has its API at the root of a host; a token goes over TLS alone." });
  }
  const where = { hostname: parts.hostname.replace(/^\[|\]$/g, ""), port: parts.port || 443 };
  try {
    return caFile ? { ...where, ca: readFileSync(caFile) } : where;
  } catch (e) {
    throw new InvalidRequest(`the CA file cannot be read: ${words(e)}`, { hint: "The daemon's own is keys/tls.crt in its state." });
  }
}

async function send(request: http.ClientRequest, body: Ask["body"], waits: (on: boolean) => void): Promise<void> {
  let answered = false;
  request.once("response", () => {
    answered = true;
  });
  if (body && !(body instanceof Uint8Array && body.length <= PIECE)) {
    waits(false);
    for await (const piece of body instanceof Uint8Array ? slices(body) : body) {
      if (answered || request.destroyed) break; // a refusal came before all was sent
      waits(true);
      if (!request.write(piece)) await room(request);
      waits(false);
    }
    if (answered || request.destroyed) return;
    waits(true);
    request.end();
  } else {
    request.end(body);
  }
}

function* slices(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

const ROOM = ["drain", "close", "response"];

function room(request: http.ClientRequest): Promise<void> {
  return new Promise((go) => {
    const there = () => {
      for (const event of ROOM) request.off(event, there);
      go();
    };
    for (const event of ROOM) request.on(event, there);
  });
}

class NodeAnswer implements Answer {
  readonly #response: http.IncomingMessage;
  #timeoutMs: number;
  #late: NodeJS.Timeout | undefined;

  constructor(response: http.IncomingMessage, timeoutMs: number) {
    this.#response = response;
    this.#timeoutMs = timeoutMs;
    response.on("error", () => undefined); // told to who reads
  }

  get status(): number {
    return this.#response.statusCode ?? 0;
  }

  header(name: string): string | undefined {
    const value = this.#response.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  #arm(): void {
    if (!this.#timeoutMs) return;
    this.#late = setTimeout(() => this.#response.destroy(new Broken(`nothing came for ${this.#timeoutMs / 1000} s`, { late: true })), this.#timeoutMs);
  }

  async *pieces(): AsyncIterable<Uint8Array> {
    try {
      this.#arm();
      for await (const piece of this.#response) {
        clearTimeout(this.#late);
        yield piece as Buffer;
        this.#arm();
      }
    } catch (e) {
      throw e instanceof Broken ? e : new Broken(`the answer broke off: ${words(e)}`);
    } finally {
      clearTimeout(this.#late);
    }
    const { complete, headers, statusCode } = this.#response;
    if (!complete) throw new Broken("the answer broke off");
    // One that ends with its connection looks the same when it is cut: muxd sends none.
    if (statusCode !== 204 && headers["content-length"] === undefined && headers["transfer-encoding"] === undefined) throw new Broken("the answer does not say how long it is");
  }

  within(ms: number): void {
    this.#timeoutMs = ms;
  }

  close(): void {
    this.#response.destroy();
  }
}

/** RFC 6455, the client's side. */
class NodeSocket implements Socket {
  readonly #stream: Duplex;
  readonly #events: SocketEvents;
  #rest: Buffer;
  #ended = false;

  constructor(stream: Duplex, head: Buffer, events: SocketEvents) {
    this.#stream = stream;
    this.#events = events;
    this.#rest = head;
    stream.on("data", (data: Buffer) => {
      this.#rest = this.#rest.length ? Buffer.concat([this.#rest, data]) : data;
      this.#take();
    });
    stream.on("error", () => undefined); // close comes behind it
    stream.on("close", () => {
      this.#end(1006, "the connection ended");
    });
    queueMicrotask(() => {
      this.#take();
    });
  }

  #end(code: number, reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stream.destroy();
    this.#events.closed(code, reason);
  }

  #take(): void {
    while (!this.#ended && this.#rest.length >= 2) {
      const opcode = this.#rest.readUInt8(0) & 15;
      let n = this.#rest.readUInt8(1) & 127;
      const at = n < 126 ? 2 : n === 126 ? 4 : 10;
      if (this.#rest.length < at) return;
      if (at === 4) n = this.#rest.readUInt16BE(2);
      if (at === 10) n = Number(this.#rest.readBigUInt64BE(2));
      if (n > MESSAGE_MAX) {
        this.#end(1009, `a message of ${n} bytes`);
        return;
      }
      if (this.#rest.length < at + n) return;
      const data = this.#rest.subarray(at, at + n);
      this.#rest = this.#rest.subarray(at + n);
      if (opcode === 2) this.#events.message(data);
      else if (opcode === 9) this.#frame(data, 10);
      else if (opcode === 8) this.#end(n >= 2 ? data.readUInt16BE(0) : 1005, data.subarray(2).toString("utf8"));
    }
  }

  #frame(data: Uint8Array, opcode: number): void {
    const n = data.length;
    const head = Buffer.alloc(n < 126 ? 2 : n < 65536 ? 4 : 10);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (n < 126 ? n : n < 65536 ? 126 : 127);
    if (head.length === 4) head.writeUInt16BE(n, 2);
    if (head.length === 10) head.writeBigUInt64BE(BigInt(n), 2);
    const mask = randomBytes(4);
    const masked = Buffer.from(data);
    for (let i = 0; i < n; i++) masked[i] = (masked[i] as number) ^ (mask[i & 3] as number);
    if (!this.#stream.destroyed) this.#stream.write(Buffer.concat([head, mask, masked]));
  }

  send(message: Uint8Array): void {
    if (this.#ended) throw new Broken("the connection ended");
    this.#frame(message, 2);
  }

  close(): void {
    if (this.#ended) return;
    this.#frame(Buffer.from([3, 0xe8]), 8);
    this.#ended = true;
    this.#stream.end();
    setTimeout(() => this.#stream.destroy(), 500).unref();
  }
}
