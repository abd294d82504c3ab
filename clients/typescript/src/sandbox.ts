/** The sandbox of an agent: made or found, slept and woken, forked and ended. */
import type { Agent, Snapshot } from "./api.js";
import type { OperationName } from "./api.js";
import { Artifacts } from "./artifacts.js";
import { Commands } from "./commands.js";
import { Code } from "./contexts.js";
import { ConnectionLost, NotFound, SandboxError } from "./errors.js";
import { Files } from "./files.js";
import { Client, type ClientOptions } from "./http.js";
import { Pty } from "./pty.js";
import type { Transport } from "./transport.js";
import { sandboxInfo, snapshotInfo, type SandboxInfo, type SnapshotInfo } from "./types.js";

export interface CreateOptions {
  /** Else the one that the grant names; a grant for every agent, or for all whose names begin alike (`ci-*`), gets a new one with a name of its own. */
  agent?: string;
  /** How long it may live; scope lifecycle. */
  ttlMs?: number;
  idleTtlMs?: number;
  /** Of every command. */
  envs?: Record<string, string>;
  podTemplate?: Record<string, unknown>;
  /** A name of the daemon's sandbox.images; counts from the next start on. */
  image?: string;
  /** The app that it belongs to: getInfo().reference, list({ appId }). */
  appId?: string;
  /** Where it is to be; a place that the daemon does not serve is refused. */
  cluster?: string;
  namespace?: string;
  /** How long its commands may take from now on where a call names no time: then SandboxExecTimeout. */
  execTimeoutMs?: number;
  /** The same of transfers of files: then SandboxTransferTimeout. */
  transferTimeoutMs?: number;
  /** How long this may take: then SandboxCreateTimeout. */
  createTimeoutMs?: number;
}

const PATIENCE = 120_000;
const UNDO_WITHIN = 10_000; // of trying; an answer may take as long once more

type Self<O, S> = { new (agent: string, client: Client, envs?: Record<string, string>, own?: boolean): S; transport(options: O): Transport };

export class BaseSandbox extends Code {
  readonly sandboxId: string;
  readonly commands: Commands;
  readonly files: Files;
  readonly pty: Pty;
  readonly artifacts: Artifacts;
  readonly #client: Client;
  /** Its name was made up by create(): nobody else has it. */
  readonly #own: boolean;

  constructor(agent: string, client: Client, envs: Record<string, string> = {}, own = false) {
    super(agent, client);
    this.sandboxId = agent;
    this.#client = client;
    this.#own = own;
    this.commands = new Commands(client, agent, envs);
    this.files = new Files(client, agent);
    this.pty = new Pty(client, agent, this.commands);
    this.artifacts = new Artifacts(client, agent);
  }

  // --- made and found

  /** The agent's sandbox, made, found or woken, and running. */
  static create<O, S extends BaseSandbox>(this: Self<O, S>, options?: CreateOptions & ClientOptions & O): Promise<S>;
  static create<O, S extends BaseSandbox>(this: Self<O, S>, agent: string, options?: CreateOptions & ClientOptions & O): Promise<S>;
  static async create<O, S extends BaseSandbox>(this: Self<O, S>, first?: string | (CreateOptions & ClientOptions & O), second?: CreateOptions & ClientOptions & O): Promise<S> {
    const options = (typeof first === "string" ? { ...second, agent: first } : (first ?? {})) as CreateOptions & ClientOptions & O;
    const client = new Client(this.transport(options), options);
    let madeUp: string | undefined;
    try {
      const granted = options.agent ?? (await grantedAgent(client));
      madeUp = granted !== options.agent && granted.endsWith("*") ? `${granted.slice(0, -1) || "sbx-"}${letters(client, 16)}` : undefined;
      const sandbox = new this(madeUp ?? granted, client, options.envs, madeUp !== undefined);
      await sandbox.wake(options);
      return sandbox;
    } catch (e) {
      const told = await undone(client, madeUp, e);
      client.close();
      throw told;
    }
  }

  /** One that was made before, woken if it sleeps; NotFound where there is none. */
  static async connect<O, S extends BaseSandbox>(this: Self<O, S>, sandboxId: string, given?: Pick<CreateOptions, "envs" | "createTimeoutMs"> & ClientOptions & O): Promise<S> {
    const options = (given ?? {}) as Pick<CreateOptions, "envs" | "createTimeoutMs"> & ClientOptions & O;
    const client = new Client(this.transport(options), options);
    try {
      const sandbox = new this(sandboxId, client, options.envs);
      if (["absent", "destroying"].includes((await sandbox.getInfo()).state)) {
        throw new NotFound(`there is no sandbox ${sandboxId}`, { hint: "Sandbox.create() makes one." });
      }
      await sandbox.wake(options);
      return sandbox;
    } catch (e) {
      client.close();
      throw e;
    }
  }

  /** All that the grant is for. */
  static async list<O, S extends BaseSandbox>(this: Self<O, S>, given?: { state?: string; prefix?: string; appId?: string } & ClientOptions & O): Promise<SandboxInfo[]> {
    const options = (given ?? {}) as { state?: string; prefix?: string; appId?: string } & ClientOptions & O;
    const client = new Client(this.transport(options), options);
    const found: SandboxInfo[] = [];
    try {
      for (;;) {
        const query = { state: options.state, prefix: options.prefix, app_id: options.appId, limit: 1000, after: found[found.length - 1]?.sandboxId };
        const page = await client.json<{ agents: Agent[]; more: boolean }>("listAgents", {}, { query, again: true });
        found.push(...page.agents.map(sandboxInfo));
        if (!page.more || !page.agents.length) return found;
      }
    } finally {
      client.close();
    }
  }

  /** Closes connections alone; the sandbox goes on. */
  close(): void {
    this.#client.close();
  }

  // --- its life

  #do<T>(operation: OperationName, again: boolean, timeoutMs: number | undefined, more: Record<string, unknown>): Promise<T> {
    const json = Object.fromEntries(Object.entries({ ...more, timeout_ms: timeoutMs }).filter(([, v]) => v !== undefined));
    return this.#client.json<T>(operation, { agent: this.sandboxId }, { json, again, timeoutMs: (timeoutMs ?? PATIENCE) + this.#client.requestTimeoutMs });
  }

  /** @internal */
  async wake(options: CreateOptions): Promise<SandboxInfo> {
    const more = {
      ttl: duration(options.ttlMs), idle_ttl: duration(options.idleTtlMs), pod_template: options.podTemplate, image: options.image,
      app_id: options.appId, cluster: options.cluster, namespace: options.namespace,
      exec_timeout_ms: options.execTimeoutMs, transfer_timeout_ms: options.transferTimeoutMs,
    };
    return sandboxInfo(await this.#do<Agent>("resumeAgent", true, options.createTimeoutMs, more));
  }

  async getInfo(): Promise<SandboxInfo> {
    return sandboxInfo(await this.#client.json<Agent>("getAgent", { agent: this.sandboxId }, { again: true }));
  }

  async isRunning(): Promise<boolean> {
    try {
      return (await this.getInfo()).state === "running";
    } catch (e) {
      if (e instanceof NotFound) return false;
      throw e;
    }
  }

  /** It may live so long from now on (scope lifecycle); 0: for ever. */
  async setTimeout(timeoutMs: number): Promise<void> {
    await this.wake({ ttlMs: timeoutMs });
  }

  /** A snapshot of the workspace, then it stops. Programs end: what is to come back belongs into files (scope lifecycle). */
  async pause(reason = "paused by its client", timeoutMs?: number): Promise<SandboxInfo> {
    return sandboxInfo(await this.#do<Agent>("stopAgent", true, timeoutMs, { reason }));
  }

  /** Awake, with the workspace as it was; at once where it runs. */
  resume(timeoutMs?: number): Promise<SandboxInfo> {
    return this.wake(timeoutMs === undefined ? {} : { createTimeoutMs: timeoutMs });
  }

  /**
   * Its end (scope lifecycle), with its workspace and snapshots where `wipe` says so; of a sandbox with a name that was made up
   * they go unless it says no. false where there was none.
   */
  async kill(options: { wipe?: boolean; reason?: string } = {}): Promise<boolean> {
    const was = (await this.getInfo()).state;
    const query = { reason: options.reason ?? "killed by its client", wipe: options.wipe ?? this.#own };
    await this.#client.json("destroyAgent", { agent: this.sandboxId }, { query, again: true, timeoutMs: PATIENCE });
    return was !== "absent";
  }

  /** Everything that runs inside ends at once; the sandbox goes on. */
  async endProcesses(reason = "ended by its client"): Promise<SandboxInfo> {
    return sandboxInfo(await this.#do<Agent>("killInside", true, undefined, { reason }));
  }

  // --- copies of its workspace

  async createSnapshot(reason?: string, timeoutMs?: number): Promise<SnapshotInfo> {
    return snapshotInfo((await this.#do<{ snapshot: Snapshot }>("takeSnapshot", false, timeoutMs, { reason })).snapshot);
  }

  async listSnapshots(): Promise<SnapshotInfo[]> {
    const { snapshots } = await this.#client.json<{ snapshots: Snapshot[] }>("listSnapshots", { agent: this.sandboxId }, { again: true });
    return snapshots.map(snapshotInfo);
  }

  async deleteSnapshot(snapshotId: string, reason = "removed by its client"): Promise<void> {
    await this.#client.json("dropSnapshot", { agent: this.sandboxId, id: snapshotId }, { query: { reason } });
  }

  /** The workspace becomes what it was; a sandbox that runs is stopped for it, with a snapshot, and woken again. */
  async restore(snapshotId: string, reason = "restored by its client", timeoutMs?: number): Promise<SandboxInfo> {
    await this.#do("restoreAgent", false, timeoutMs, { snapshot_id: snapshotId, reason });
    return this.resume(timeoutMs);
  }

  /** A new sandbox whose workspace is a copy; without snapshotId of the current snapshot. */
  async fork(options: { agent?: string; snapshotId?: string; writable?: boolean; reason?: string; timeoutMs?: number } = {}): Promise<this> {
    const anybodys = options.agent === undefined && (await grantedAgent(this.#client)) === "*";
    const madeUp = anybodys ? `${this.sandboxId.slice(0, 45)}-copy-${letters(this.#client, 12)}` : undefined; // else muxd makes one up, as the grant does not cover every name
    let raw: Agent;
    try {
      raw = await this.#do<Agent>("forkAgent", false, options.timeoutMs, {
        as: madeUp ?? options.agent, snapshot_id: options.snapshotId, writable: options.writable ?? true, reason: options.reason ?? "forked by its client",
      });
    } catch (e) {
      throw await undone(this.#client, madeUp, e);
    }
    const make = this.constructor as new (agent: string, client: Client, envs: Record<string, string>, own: boolean) => this;
    return new make(raw.agent, this.#client, {}, options.agent === undefined);
  }
}

/** The agent that the grant is for; with `*` at its end the beginning of the names of several, `*` alone: of all. */
async function grantedAgent(client: Client): Promise<string> {
  return (await client.json<{ agent: string }>("getWebSession", {}, { again: true })).agent;
}

function letters(client: Client, n: number): string {
  return client.transport.uuid().replace(/-/g, "").slice(0, n);
}

/**
 * The making of a sandbox failed. Where its name was made up nobody else can end what there is of it; that it stays is said in the error,
 * which is returned.
 */
async function undone(client: Client, madeUp: string | undefined, why: unknown): Promise<unknown> {
  const refused = why instanceof SandboxError && (why.status === 401 || why.status === 403);
  if (madeUp === undefined || refused || (why instanceof ConnectionLost && !why.maybeDone)) return why;
  const own = new Client(client.transport, { requestTimeoutMs: UNDO_WITHIN, retryForMs: UNDO_WITHIN });
  try {
    await own.json("destroyAgent", { agent: madeUp }, { query: { reason: "its client gave up making it", wipe: true }, again: true });
  } catch (e) {
    const stays = `The sandbox ${madeUp} may run: it could not be ended (${String(e)}).`;
    if (why instanceof SandboxError && !(e instanceof NotFound)) why.hint = `${why.hint} ${stays}`.trim();
  }
  return why;
}

function duration(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : ms ? `${Math.trunc(ms)}ms` : "0s";
}
