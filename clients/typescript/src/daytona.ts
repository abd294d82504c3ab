/** The names that Daytona's users know, over the same sandboxes. What is not here is not offered: docs/clients.md lists it. */
import { readFile, writeFile } from "node:fs/promises";
import type { ClientOptions } from "./http.js";
import { Sandbox as MuxdSandbox } from "./index.js";
import type { NodeOptions } from "./node.js";
import type { PtyHandle } from "./pty.js";
import type { CreateOptions } from "./sandbox.js";
import type { EntryInfo, SandboxInfo } from "./types.js";

export type DaytonaConfig = ClientOptions & NodeOptions;

export interface CreateParams {
  /** The agent. */
  name?: string;
  envVars?: Record<string, string>;
  /** Minutes; 0: never. */
  autoStopInterval?: number;
}

export interface ExecuteResponse {
  exitCode: number;
  /** Both streams, as they came. */
  result: string;
  artifacts: { stdout: string };
}

export interface FileInfo {
  name: string;
  path: string;
  isDir: boolean;
  size: number;
  mode: string;
  permissions: string;
  modTime: string;
  modifiedAt: string;
}

export interface PtyOptions {
  id?: string;
  cols?: number;
  rows?: number;
  onData?: (data: Uint8Array) => void | Promise<void>;
}

export class Process {
  readonly #sandbox: MuxdSandbox;
  readonly #ptys = new Map<string, PtyHandle>();

  constructor(sandbox: MuxdSandbox) {
    this.#sandbox = sandbox;
  }

  /** A line for the shell; timeout in seconds. Another end than 0 is no error. */
  async executeCommand(command: string, cwd?: string, env?: Record<string, string>, timeout?: number): Promise<ExecuteResponse> {
    const { exitCode, stdout } = await this.#sandbox.commands.run(`exec 2>&1\n${command}`, {
      check: false,
      ...(cwd === undefined ? {} : { cwd }),
      ...(env === undefined ? {} : { envs: env }),
      ...(timeout === undefined ? {} : { timeoutMs: timeout * 1000 }),
    });
    return { exitCode, result: stdout, artifacts: { stdout } };
  }

  /** `id` is the caller's name for it, for the calls below. */
  async createPty(options: PtyOptions = {}): Promise<PtyHandle> {
    const handle = await this.#sandbox.pty.create(options);
    this.#ptys.set(options.id ?? handle.pid, handle);
    return handle;
  }

  async killPtySession(id: string): Promise<void> {
    await this.#sandbox.pty.kill(this.#ptys.get(id)?.pid ?? id);
  }

  async resizePtySession(id: string, cols: number, rows: number): Promise<void> {
    await this.#sandbox.pty.resize(this.#ptys.get(id)?.pid ?? id, { cols, rows });
  }
}

export class FileSystem {
  readonly #sandbox: MuxdSandbox;

  constructor(sandbox: MuxdSandbox) {
    this.#sandbox = sandbox;
  }

  async createFolder(path: string, mode: string): Promise<void> {
    await this.#sandbox.files.makeDir(path, { mode: parseInt(mode, 8) });
  }

  async deleteFile(path: string, recursive = false): Promise<void> {
    await this.#sandbox.files.remove(path, { recursive });
  }

  downloadFile(remotePath: string, timeout?: number): Promise<Buffer>;
  downloadFile(remotePath: string, localPath: string, timeout?: number): Promise<void>;
  async downloadFile(remotePath: string, second?: string | number, third?: number): Promise<Buffer | void> {
    const timeout = typeof second === "string" ? third : second;
    const bytes = await this.#sandbox.files.read(remotePath, { format: "bytes", ...seconds(timeout) });
    if (typeof second !== "string") return Buffer.from(bytes);
    await writeFile(second, bytes);
  }

  /** A buffer, or the path of a local file; timeout in seconds. */
  async uploadFile(file: Buffer | string, remotePath: string, timeout?: number): Promise<void> {
    await this.#sandbox.files.write(remotePath, typeof file === "string" ? await readFile(file) : file, seconds(timeout));
  }

  async uploadFiles(files: { source: string | Buffer; destination: string }[], timeout?: number): Promise<void> {
    for (const f of files) await this.uploadFile(f.source, f.destination, timeout);
  }

  async getFileDetails(path: string): Promise<FileInfo> {
    return infoOf(await this.#sandbox.files.getInfo(path));
  }

  async listFiles(path: string, options: { depth?: number } = {}): Promise<FileInfo[]> {
    return (await this.#sandbox.files.list(path, options)).map(infoOf);
  }

  async moveFiles(source: string, destination: string): Promise<void> {
    await this.#sandbox.files.rename(source, destination);
  }

  /** Lines in which the text is. */
  async findFiles(path: string, pattern: string): Promise<{ file: string; line: number; content: string }[]> {
    return (await this.#sandbox.files.search(pattern, { path })).map((m) => ({ file: m.path, line: m.line, content: m.text }));
  }

  /** Names below a directory that match, as `*.ts`. */
  async searchFiles(path: string, pattern: string): Promise<{ files: string[] }> {
    return { files: (await this.#sandbox.files.glob(pattern.includes("/") ? pattern : `**/${pattern}`, { path })).map((e) => e.path) };
  }

  async setFilePermissions(path: string, permissions: { mode?: string }): Promise<void> {
    if (permissions.mode !== undefined) await this.#sandbox.files.chmod(path, parseInt(permissions.mode, 8));
  }
}

export class Sandbox {
  readonly muxd: MuxdSandbox;
  readonly id: string;
  readonly fs: FileSystem;
  readonly process: Process;
  state: string;

  constructor(sandbox: MuxdSandbox, state: string) {
    this.muxd = sandbox;
    this.id = sandbox.sandboxId;
    this.state = state;
    this.fs = new FileSystem(sandbox);
    this.process = new Process(sandbox);
  }

  #is(info: SandboxInfo): void {
    this.state = info.state === "running" ? "started" : info.state;
  }

  async start(timeout?: number): Promise<void> {
    this.#is(await this.muxd.resume(timeout === undefined ? undefined : timeout * 1000));
  }

  async stop(timeout?: number): Promise<void> {
    this.#is(await this.muxd.pause(undefined, timeout === undefined ? undefined : timeout * 1000));
  }

  /** With its workspace and snapshots. */
  async delete(): Promise<void> {
    await this.muxd.kill({ wipe: true });
    this.state = "destroyed";
  }
}

export class Daytona {
  readonly #config: DaytonaConfig;

  constructor(config: DaytonaConfig) {
    this.#config = config;
  }

  /** timeout in seconds. */
  async create(params: CreateParams = {}, options: { timeout?: number } = {}): Promise<Sandbox> {
    const how: CreateOptions = {
      ...(params.name === undefined ? {} : { agent: params.name }),
      ...(params.envVars === undefined ? {} : { envs: params.envVars }),
      ...(params.autoStopInterval === undefined ? {} : { idleTtlMs: params.autoStopInterval * 60_000 }),
      ...(options.timeout ? { createTimeoutMs: options.timeout * 1000 } : {}),
    };
    return new Sandbox(await MuxdSandbox.create({ ...this.#config, ...how }), "started");
  }

  /** One that was made before, woken if it sleeps. */
  async get(sandboxId: string): Promise<Sandbox> {
    return new Sandbox(await MuxdSandbox.connect(sandboxId, this.#config), "started");
  }

  start(sandbox: Sandbox, timeout?: number): Promise<void> {
    return sandbox.start(timeout);
  }

  stop(sandbox: Sandbox): Promise<void> {
    return sandbox.stop();
  }

  delete(sandbox: Sandbox): Promise<void> {
    return sandbox.delete();
  }
}

function seconds(timeout: number | undefined): { timeoutMs?: number } {
  return timeout === undefined ? {} : { timeoutMs: timeout * 1000 };
}

const LETTERS = ["---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx"];

function infoOf(e: EntryInfo): FileInfo {
  const letters = [6, 3, 0].map((shift) => LETTERS[(e.mode >> shift) & 7]).join("");
  const when = e.modifiedTime.toISOString();
  return { name: e.name, path: e.path, isDir: e.type === "dir", size: e.size, mode: (e.type === "dir" ? "d" : "-") + letters, permissions: e.mode.toString(8).padStart(4, "0"), modTime: when, modifiedAt: when };
}
