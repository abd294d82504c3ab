/** Artifacts: files of a task, by name, which outlive their sandbox. */
import type { Artifact } from "./api.js";
import { ConnectionLost, Corrupt, TaskRequired } from "./errors.js";
import { bodyOf, streamOf, type Content } from "./files.js";
import type { Client } from "./http.js";
import { Broken, joined, type Answer } from "./transport.js";
import { artifactOf, pathIn, type ArtifactInfo, type PathLike } from "./types.js";

const AGAIN = 8; // cuts in a row, without a byte between them

export interface OfTask {
  /** Else the connection's, or the grant's. */
  task?: string;
}

export interface PutOptions extends OfTask {
  mediaType?: string;
  /** Conflict where the name is taken. */
  createOnly?: boolean;
  /** Of a stream, where it is known; without it 100 MiB at the most. */
  size?: number;
}

export interface TakeOptions extends OfTask {
  /** A file of the sandbox. */
  path?: PathLike;
  /** Instead of it a round that has ended: the whole of its stream, stdout by default. */
  roundId?: string;
  stream?: "stdout" | "stderr";
  createOnly?: boolean;
  timeoutMs?: number;
}

export interface ExportOptions extends OfTask {
  /** A snapshot of the sandbox: everything that changed since. */
  snapshot?: string;
  /** Instead of it a revision of the git repository in `path`. */
  git?: string;
  path?: PathLike;
  form?: "patch" | "bundle";
  textOnly?: boolean;
  ignore?: string[];
  maxBytes?: number;
  createOnly?: boolean;
  timeoutMs?: number;
}

type Where = { task: string; name: string };

/** `sandbox.artifacts`; scope files. */
export class Artifacts {
  readonly #client: Client;
  readonly #agent: string;
  #granted: string | undefined;

  constructor(client: Client, agent: string) {
    this.#client = client;
    this.#agent = agent;
  }

  async #of(options: OfTask): Promise<string> {
    const named = options.task ?? this.#client.taskId ?? this.#granted;
    if (named) return named;
    this.#granted = (await this.#client.json<{ task_id?: string }>("getWebSession", {}, { again: true })).task_id;
    if (!this.#granted) throw new TaskRequired("no task is named, and the grant is for none", { hint: "Say which: task, or taskId of the connection." });
    return this.#granted;
  }

  /** An artifact, whole or not at all, in place of one of that name. Corrupt where muxd counted another digest than was sent. */
  async put(name: string, data: Content, options: PutOptions = {}): Promise<ArtifactInfo> {
    const body = await bodyOf(data);
    const digest = this.#client.transport.digest();
    const counted = body instanceof Uint8Array ? body : counting(body, (piece) => { digest.update(piece); });
    if (body instanceof Uint8Array) digest.update(body);
    const known = body instanceof Uint8Array ? { sha256: await digest.hex() } : {};
    const raw = await this.#client.json<Artifact>("putArtifact", { task: await this.#of(options), name }, {
      query: { ...known, media_type: options.mediaType },
      body: counted,
      ...(options.size === undefined ? {} : { size: options.size }),
      ...(options.createOnly ? { headers: { "If-None-Match": "*" } } : {}),
      again: !options.createOnly,
    });
    const sent = await digest.hex();
    if (raw.sha256 !== sent) throw new Corrupt(`artifact ${name} was kept as ${raw.sha256}, and ${sent} was sent`, { hint: "Put it again." });
    return artifactOf(raw);
  }

  get(name: string, options?: OfTask & { format?: "bytes" }): Promise<Uint8Array>;
  get(name: string, options: OfTask & { format: "text" }): Promise<string>;
  get(name: string, options: OfTask & { format: "stream" }): Promise<ReadableStream<Uint8Array>>;
  /**
   * Its content. Its digest is checked: Corrupt, of a stream behind its last piece. A cut connection is made again, and goes on where
   * it was.
   */
  async get(name: string, options: OfTask & { format?: "bytes" | "text" | "stream" } = {}): Promise<unknown> {
    const where = { task: await this.#of(options), name };
    const reading = { answer: await this.#open(where, 0) };
    const pieces = this.#pieces(where, reading);
    if (options.format === "stream") return streamOf(pieces, () => { reading.answer.close(); });
    const all: Uint8Array[] = [];
    for await (const piece of pieces) all.push(piece);
    return options.format === "text" ? new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(joined(all)) : joined(all);
  }

  async #open(where: Where, offset: number, tag?: string): Promise<Answer> {
    const headers = offset ? { Range: `bytes=${offset}-` } : {};
    const answer = await this.#client.open("getArtifact", where, { accept: "*/*", headers, again: true });
    if (tag === undefined || answer.header("etag") === tag) return answer;
    answer.close();
    throw new Corrupt(`artifact ${where.name} was replaced while it was read`, { hint: "Read it again." });
  }

  async *#pieces(where: Where, reading: { answer: Answer }): AsyncGenerator<Uint8Array> {
    const tag = reading.answer.header("etag") ?? "";
    const size = Number(reading.answer.header("content-length"));
    const digest = this.#client.transport.digest();
    for (let offset = 0, cuts = 0; ; ) {
      try {
        for await (const piece of reading.answer.pieces()) {
          offset += piece.length;
          cuts = 0;
          digest.update(piece);
          yield piece;
        }
        break;
      } catch (e) {
        if (!(e instanceof Broken)) throw e;
        if (offset === size) break;
        if (++cuts > AGAIN) throw new ConnectionLost(`artifact ${where.name} broke off at byte ${offset}: ${e.message}.`, { cause: e });
        reading.answer = await this.#open(where, offset, tag);
      }
    }
    const came = await digest.hex();
    if (tag !== `"${came}"`) throw new Corrupt(`artifact ${where.name} came as ${came}, and is ${tag}`, { hint: "Read it again." });
  }

  /** The task's, by name; of a round or a run those alone. */
  async list(options: OfTask & { roundId?: string; runId?: string } = {}): Promise<ArtifactInfo[]> {
    const task = await this.#of(options);
    const found: ArtifactInfo[] = [];
    for (;;) {
      const query = { round: options.roundId, run: options.runId, limit: 1000, after: found.at(-1)?.name };
      const page = await this.#client.json<{ artifacts: Artifact[]; more: boolean }>("listArtifacts", { task }, { query, again: true });
      found.push(...page.artifacts.map(artifactOf));
      if (!page.more || !page.artifacts.length) return found;
    }
  }

  /** What it was; NotFound where there is none. */
  async delete(name: string, options: OfTask = {}): Promise<ArtifactInfo> {
    return artifactOf(await this.#client.json<Artifact>("deleteArtifact", { task: await this.#of(options), name }));
  }

  /** Makes one of a file in the sandbox, without its bytes coming here; or of the whole output of a round that has ended. */
  async take(name: string, options: TakeOptions): Promise<ArtifactInfo> {
    if ((options.path === undefined) === (options.roundId === undefined)) throw new TypeError("take() needs a path, or a roundId");
    const source = options.path === undefined ? { round: options.roundId, stream: options.stream ?? "stdout" } : { agent: this.#agent, path: pathIn(options.path) };
    const raw = await this.#client.json<Artifact>("takeArtifact", { task: await this.#of(options) }, {
      json: { name, ...source, create_only: options.createOnly ?? false, ...(options.timeoutMs ? { timeout_ms: options.timeoutMs } : {}) },
      again: !options.createOnly,
      ...(options.timeoutMs ? { timeoutMs: options.timeoutMs + this.#client.requestTimeoutMs } : {}),
    });
    return artifactOf(raw);
  }

  /** Makes one of what changed in the workspace since a snapshot of it, or since a revision of a git repository. */
  async export(name: string, options: ExportOptions): Promise<ArtifactInfo> {
    if ((options.snapshot === undefined) === (options.git === undefined)) throw new TypeError("export() needs a snapshot, or a revision of git");
    const ofSnapshot = { snapshot: options.snapshot, text_only: options.textOnly, ignore: options.ignore };
    const ofGit = { git: options.git, path: options.path === undefined ? undefined : pathIn(options.path), form: options.form };
    const raw = await this.#client.json<Artifact>("takeArtifact", { task: await this.#of(options) }, {
      json: {
        name, agent: this.#agent, create_only: options.createOnly ?? false, changes: options.git === undefined ? ofSnapshot : ofGit,
        max_bytes: options.maxBytes, timeout_ms: options.timeoutMs,
      },
      again: !options.createOnly,
      ...(options.timeoutMs ? { timeoutMs: options.timeoutMs + this.#client.requestTimeoutMs } : {}),
    });
    return artifactOf(raw);
  }
}

async function* counting(pieces: AsyncIterable<Uint8Array>, count: (piece: Uint8Array) => void): AsyncIterable<Uint8Array> {
  for await (const piece of pieces) {
    count(piece);
    yield piece;
  }
}
