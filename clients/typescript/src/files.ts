/** Files: whole ones stream in and out, and the operations of the API on what is in the workspace. */
import type { File as PutFile, FsEntry, FsFound, FsList, FsPatched, FsRead, FsTree, FsWritten } from "./api.js";
import type { OperationName } from "./api.js";
import { ConnectionLost, FileNotFound } from "./errors.js";
import type { Client } from "./http.js";
import { Broken, type Answer, type Body } from "./transport.js";
import { dataIn, dataOut, encoder, entryOf, pathIn, pathOut, pathQuery, writtenOf, type EntryInfo, type FilesystemEvent, type PathLike, type SearchMatch, type WriteInfo } from "./types.js";
import { WatchHandle, type WatchOptions } from "./watch.js";

const READ_MAX = 1 << 20;

export type Content = string | ArrayBuffer | Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

export interface TransferOptions {
  timeoutMs?: number;
}

export interface WriteOptions extends TransferOptions {
  mode?: number;
  /** Make missing directories; true. */
  parents?: boolean;
  /** Of a stream, where it is known; without it 100 MiB at the most. */
  size?: number;
}

export interface TreeOptions extends TransferOptions {
  /** What has the name is replaced, in one step. */
  overwrite?: boolean;
  /** What is in it goes into the directory that is there. */
  merge?: boolean;
  /** Make missing directories; true. */
  parents?: boolean;
  /** Of a stream, where it is known; without it 100 MiB at the most. */
  size?: number;
}

export interface ListOptions {
  depth?: number;
  /** Rules as in .gitignore. */
  ignore?: string[];
  /** The .gitignore files on the way count. */
  gitignore?: boolean;
}

export interface SearchOptions {
  path?: PathLike;
  regex?: boolean;
  ignoreCase?: boolean;
  context?: number;
  limit?: number;
  ignore?: string[];
  gitignore?: boolean;
}

type More = Record<string, unknown>;

/** `sandbox.files`. A path is in the workspace, relative or with /workspace in front; read() and write() reach other places. */
export class Files {
  readonly #client: Client;
  readonly #agent: string;

  constructor(client: Client, agent: string) {
    this.#client = client;
    this.#agent = agent;
  }

  #do<T>(operation: OperationName, path: PathLike, again: boolean, more: More): Promise<T> {
    return this.#client.json<T>(operation, { agent: this.#agent }, { json: { path: pathIn(path), ...more }, again });
  }

  /** A transfer's own timeout is the daemon's to tell. */
  #patience(options: TransferOptions): { timeoutMs?: number } {
    return options.timeoutMs ? { timeoutMs: options.timeoutMs + this.#client.requestTimeoutMs } : {};
  }

  // --- whole files, of any size

  read(path: PathLike, options?: TransferOptions & { format?: "text" }): Promise<string>;
  read(path: PathLike, options: TransferOptions & { format: "bytes" }): Promise<Uint8Array>;
  read(path: PathLike, options: TransferOptions & { format: "blob" }): Promise<Blob>;
  read(path: PathLike, options: TransferOptions & { format: "stream" }): Promise<ReadableStream<Uint8Array>>;
  /** The content: text (TypeError where it is no UTF-8), bytes, a Blob, or a stream that holds little of it. */
  async read(path: PathLike, options: TransferOptions & { format?: "text" | "bytes" | "blob" | "stream" } = {}): Promise<unknown> {
    const call = { query: { ...pathQuery(path), timeout_ms: options.timeoutMs }, accept: "*/*", again: true, ...this.#patience(options) };
    if (options.format === "stream") return streamOfAnswer(await this.#client.open("getFile", { agent: this.#agent }, call));
    const { bytes } = await this.#client.bytes("getFile", { agent: this.#agent }, call);
    if (options.format === "bytes") return bytes;
    return options.format === "blob" ? new Blob([bytes]) : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  }

  /** The file with that content, whole or not at all. Of several those before one that fails stay. */
  write(path: PathLike, data: Content, options?: WriteOptions): Promise<WriteInfo>;
  write(files: { path: PathLike; data: Content }[], options?: WriteOptions): Promise<WriteInfo[]>;
  async write(where: PathLike | { path: PathLike; data: Content }[], what?: Content | WriteOptions, options: WriteOptions = {}): Promise<WriteInfo | WriteInfo[]> {
    if (Array.isArray(where)) {
      const done: WriteInfo[] = [];
      for (const f of where) done.push(await this.write(f.path, f.data, (what ?? {}) as WriteOptions));
      return done;
    }
    const body = await bodyOf(what as Content);
    const raw = await this.#client.json<PutFile>("putFile", { agent: this.#agent }, {
      query: { ...pathQuery(where), mode: options.mode?.toString(8), parents: options.parents ?? true, timeout_ms: options.timeoutMs },
      body,
      ...(options.size === undefined ? {} : { size: options.size }),
      again: true,
      ...this.#patience(options),
    });
    return writtenOf(raw);
  }

  writeFiles(files: { path: PathLike; data: Content }[], options?: WriteOptions): Promise<WriteInfo[]> {
    return this.write(files, options);
  }

  // --- directories with all that is in them

  readTree(path?: PathLike, options?: TransferOptions & { format?: "bytes"; gitignore?: boolean }): Promise<Uint8Array>;
  readTree(path: PathLike, options: TransferOptions & { format: "stream"; gitignore?: boolean }): Promise<ReadableStream<Uint8Array>>;
  /** A tar archive (pax) of it; names in it begin below `path`. */
  async readTree(path: PathLike = ".", options: TransferOptions & { format?: "bytes" | "stream"; gitignore?: boolean } = {}): Promise<unknown> {
    const query = { ...pathQuery(path), gitignore: options.gitignore ?? false, timeout_ms: options.timeoutMs };
    const call = { query, accept: "application/x-tar", again: true, ...this.#patience(options) };
    if (options.format === "stream") return streamOfAnswer(await this.#client.open("getTree", { agent: this.#agent }, call));
    return (await this.#client.bytes("getTree", { agent: this.#agent }, call)).bytes;
  }

  /**
   * A tar archive becomes that directory, whole or not at all. The name has to be free, unless `overwrite` replaces what has it, or
   * `merge` adds to what is in it.
   */
  async writeTree(path: PathLike, archive: Exclude<Content, string>, options: TreeOptions = {}): Promise<FsTree> {
    const { overwrite = false, merge = false, parents = true } = options;
    return this.#client.json<FsTree>("putTree", { agent: this.#agent }, {
      query: { ...pathQuery(path), overwrite, merge, parents, timeout_ms: options.timeoutMs },
      body: await bodyOf(archive),
      ...(options.size === undefined ? {} : { size: options.size }),
      again: overwrite || merge,
      ...this.#patience(options),
    });
  }

  watchDir(path: PathLike, onEvent: (event: FilesystemEvent) => void | Promise<void>, options?: WatchOptions): Promise<WatchHandle>;
  watchDir(path: PathLike, options?: { recursive?: boolean }): Promise<WatchHandle>;
  /** What happens in a directory from now on: to a callback, or from the handle, which is an iterator. */
  async watchDir(path: PathLike, first?: ((event: FilesystemEvent) => void | Promise<void>) | WatchOptions, second: WatchOptions = {}): Promise<WatchHandle> {
    const options = typeof first === "function" ? second : (first ?? {});
    const handle = new WatchHandle(this.#client, this.#agent, { ...pathQuery(path), recursive: options.recursive ?? false });
    try {
      await handle.open();
    } catch (e) {
      await handle.stop();
      throw e instanceof Broken ? new ConnectionLost(`the watch was cut off at once: ${e.message}.`, { cause: e }) : e;
    }
    if (typeof first === "function") void handle.tell(first, options.onExit);
    return handle;
  }

  // --- what a name is

  async getInfo(path: PathLike, options: { follow?: boolean } = {}): Promise<EntryInfo> {
    return entryOf((await this.#do<FsEntry>("statFile", path, true, { follow: options.follow ?? false })).entry);
  }

  async exists(path: PathLike): Promise<boolean> {
    try {
      await this.getInfo(path);
      return true;
    } catch (e) {
      if (e instanceof FileNotFound) return false;
      throw e;
    }
  }

  /** Names, each directory before what is in it; however many, by as many pages as that takes. */
  list(path: PathLike = ".", options: ListOptions = {}): Promise<EntryInfo[]> {
    return this.#pages("listFile", path, { depth: options.depth ?? 1, ...walk(options) });
  }

  glob(pattern: string, options: { path?: PathLike; ignore?: string[]; gitignore?: boolean } = {}): Promise<EntryInfo[]> {
    return this.#pages("globFile", options.path ?? ".", { pattern, ...walk(options) });
  }

  async #pages(operation: OperationName, path: PathLike, more: More): Promise<EntryInfo[]> {
    const found: EntryInfo[] = [];
    for (let cursor: FsList["cursor"]; ; ) {
      const page = await this.#do<FsList>(operation, path, true, { ...more, ...(cursor === undefined ? {} : { cursor }) });
      found.push(...page.entries.map(entryOf));
      cursor = page.cursor;
      if (cursor === undefined) return found;
    }
  }

  // --- parts of a file

  /** Bytes, 1 MiB at most; an offset below 0 is from the end. */
  async readPart(path: PathLike, offset = 0, length = READ_MAX): Promise<Uint8Array> {
    const raw = await this.#do<FsRead>("readFile", path, true, { offset, length });
    return dataOut(raw.data, raw.encoding);
  }

  /** Lines, both ends included, with the file's SHA-256 for ifMatch. */
  readLines(path: PathLike, from = 1, to?: number): Promise<FsRead> {
    return this.#do<FsRead>("readFile", path, true, { from_line: from, length: READ_MAX, ...(to === undefined ? {} : { to_line: to }) });
  }

  /** Lines in which it is found; see searchRaw() for binary files, and for whether that was all. */
  async search(pattern: string, options: SearchOptions = {}): Promise<SearchMatch[]> {
    const found = await this.searchRaw(pattern, options);
    return found.results.flatMap((f) =>
      f.lines.map((m) => ({ path: pathOut(f.path), line: m.line, text: m.text, match: m.match, ...(m.column === undefined ? {} : { column: m.column }) })),
    );
  }

  searchRaw(pattern: string, options: SearchOptions = {}): Promise<FsFound> {
    return this.#do<FsFound>("searchFile", options.path ?? ".", true, {
      pattern, regex: options.regex ?? false, ignore_case: options.ignoreCase ?? false, context: options.context ?? 0, limit: options.limit ?? 200, ...walk(options),
    });
  }

  // --- changes

  /** write() for small files, that can be refused: ifMatch is the SHA-256 that the file must have, else FileChanged. */
  async edit(path: PathLike, data: string | Uint8Array, options: { ifMatch?: string; createOnly?: boolean; parents?: boolean; mode?: number } = {}): Promise<WriteInfo> {
    const guarded = options.createOnly === true || options.ifMatch !== undefined;
    return writtenOf(await this.#do<FsWritten>("writeFile", path, !guarded, {
      ...dataIn(data), parents: options.parents ?? true, create_only: options.createOnly ?? false, ...ifMatch(options), ...modeOf(options.mode),
    }));
  }

  async append(path: PathLike, data: string | Uint8Array, options: { ifMatch?: string; parents?: boolean } = {}): Promise<WriteInfo> {
    return writtenOf(await this.#do<FsWritten>("appendFile", path, false, { ...dataIn(data), parents: options.parents ?? true, ...ifMatch(options) }));
  }

  /** false where it was there already; without `parents` that is FileExists. */
  async makeDir(path: PathLike, options: { parents?: boolean; mode?: number } = {}): Promise<boolean> {
    const parents = options.parents ?? true;
    return (await this.#do<FsEntry>("mkdirFile", path, parents, { parents, ...modeOf(options.mode) })).created ?? true;
  }

  async rename(oldPath: PathLike, newPath: PathLike, options: { overwrite?: boolean; parents?: boolean } = {}): Promise<EntryInfo> {
    const more = { to: pathIn(newPath), overwrite: options.overwrite ?? false, parents: options.parents ?? false };
    return entryOf((await this.#do<FsEntry>("moveFile", oldPath, false, more)).entry);
  }

  async copy(path: PathLike, to: PathLike, options: { recursive?: boolean; overwrite?: boolean; parents?: boolean } = {}): Promise<EntryInfo> {
    const more = { to: pathIn(to), recursive: options.recursive ?? false, overwrite: options.overwrite ?? false, parents: options.parents ?? false };
    return entryOf((await this.#do<FsEntry>("copyFile", path, false, more)).entry);
  }

  /** A directory with what is in it, as E2B has it. */
  async remove(path: PathLike, options: { recursive?: boolean } = {}): Promise<void> {
    await this.#do("deleteFile", path, false, { recursive: options.recursive ?? true });
  }

  async chmod(path: PathLike, mode: number): Promise<EntryInfo> {
    return entryOf((await this.#do<FsEntry>("chmodFile", path, true, modeOf(mode))).entry);
  }

  /** A unified diff, a `*** Begin Patch` envelope or SEARCH/REPLACE blocks: all of it, or PatchRefused with why in details. */
  patch(patch: string | Uint8Array, options: { path?: PathLike; dryRun?: boolean } = {}): Promise<FsPatched> {
    const dry = options.dryRun ?? false;
    return this.#do<FsPatched>("patchFile", options.path ?? ".", dry, { ...dataIn(patch), dry_run: dry });
  }
}

function walk(options: { ignore?: string[]; gitignore?: boolean }): More {
  return { gitignore: options.gitignore ?? false, ...(options.ignore ? { ignore: options.ignore } : {}) };
}

function ifMatch(options: { ifMatch?: string }): More {
  return options.ifMatch === undefined ? {} : { if_match: options.ifMatch };
}

function modeOf(mode: number | undefined): More {
  return mode === undefined ? {} : { mode: mode.toString(8) };
}

/** @internal */
export async function bodyOf(data: Content): Promise<Body> {
  if (typeof data === "string") return encoder.encode(data);
  if (data instanceof Uint8Array) return data;
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (data instanceof Blob) return new Uint8Array(await data.arrayBuffer());
  return "getReader" in data ? piecesOf(data) : data;
}

async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncIterable<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
  } finally {
    reader.cancel().catch(() => undefined); // what failed there was thrown already
  }
}

function streamOfAnswer(answer: Answer): ReadableStream<Uint8Array> {
  return streamOf(answer.pieces(), () => {
    answer.close();
  });
}

/** @internal */
export function streamOf(source: AsyncIterable<Uint8Array>, cancel: () => void): ReadableStream<Uint8Array> {
  const pieces = source[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(to) {
      try {
        const step = await pieces.next();
        if (step.done) to.close();
        else to.enqueue(step.value);
      } catch (e) {
        to.error(e instanceof Broken ? new ConnectionLost(`the content broke off: ${e.message}.`, { cause: e }) : e);
      }
    },
    cancel,
  });
}
