/** What calls take and return, in the shapes that people know; `raw` is always the API's own answer. */
import type { Agent, Artifact, FilePath, FileType as ApiFileType, FsEvent, FsName, Round, Session, Snapshot } from "./api.js";

/** How a command ended, and all that it printed: as text, with U+FFFD for what is no UTF-8, and in bytes. */
export interface CommandResult {
  /** 128 and the signal's number, as a shell has it; -1 where nobody knows it. */
  exitCode: number;
  /** Why it has no code of its own, in words. */
  error?: string;
  stdout: string;
  stderr: string;
  stdoutBytes: Uint8Array;
  stderrBytes: Uint8Array;
  roundId: string;
  cause: string;
  signal: string | null;
  durationMs: number;
  /** Bytes are missing: more than maxOutput, or not kept any more. */
  truncated: boolean;
  raw: Round;
}

/** A round that runs. */
export interface ProcessInfo {
  /** The round's id. */
  pid: string;
  cmd: string;
  args: string[];
  cwd?: string;
  /** Its exec_id. */
  tag?: string;
  raw: Session;
}

export const FileType = { FILE: "file", DIR: "dir", SYMLINK: "symlink", FIFO: "fifo", SOCKET: "socket", DEVICE: "device" } as const;
export type FileType = "dir" | Exclude<ApiFileType, "directory">;

/** A name in the workspace. `path` begins there, and is taken by every call. */
export interface EntryInfo {
  name: string;
  path: string;
  /** Where the name is not UTF-8: what to give instead of path. */
  pathBytes?: Uint8Array;
  type: FileType;
  size: number;
  mode: number;
  modifiedTime: Date;
  symlinkTarget?: string;
  raw: FsName;
}

export interface WriteInfo {
  name: string;
  path: string;
  type: "file";
  size: number;
  sha256: string;
}

/** A line; `match` is false of one that stands beside a match. */
export interface SearchMatch {
  path: string;
  line: number;
  text: string;
  match: boolean;
  column?: number;
}

/** What names a sandbox among those of several clusters; what it does not have is not there. */
export interface SandboxReference {
  name: string;
  cluster?: string;
  namespace?: string;
  appId?: string;
}

export interface SandboxInfo {
  /** The agent: what connect() takes. */
  sandboxId: string;
  state: string;
  startedAt?: Date;
  /** Of its absolute TTL. */
  endAt?: Date;
  idleStopsAt?: Date;
  reference: SandboxReference;
  raw: Agent;
}

export interface SnapshotInfo {
  snapshotId: string;
  status: string;
  createdAt: Date;
  size?: number;
  current: boolean;
  raw: Snapshot;
}

/** What a terminal shows: a line for each row, without blanks at its end. */
export interface PtyScreen {
  text: string;
  lines: string[];
  cols: number;
  rows: number;
  /** Of the cursor, from 0. */
  row: number;
  col: number;
  /** Of the output, up to where it is drawn. */
  offset: number;
  /** false where a part of the output was missing to it. */
  exact: boolean;
}

/** What happened to a round: started, stdout, stderr, missing, signal, notice, exit. */
export interface RoundEvent {
  event: string;
  /** What to go on behind; of output and exit alone. */
  id?: string;
  data: Record<string, unknown>;
  /** Of stdout and stderr. */
  output?: Uint8Array;
}

export const FilesystemEventType = {
  CREATE: "create", WRITE: "write", REMOVE: "remove", RENAME: "rename", CHMOD: "chmod",
  /** Events were lost: look anew. */
  OVERFLOW: "overflow",
  /** There are no more watches: what is in this directory is not told. */
  UNWATCHED: "unwatched",
} as const;
export type FilesystemEventType = (typeof FilesystemEventType)[keyof typeof FilesystemEventType];

/** `name` begins in the directory that is watched, `path` in the workspace. */
export interface FilesystemEvent {
  name: string;
  type: FilesystemEventType;
  path: string;
  raw: FsEvent;
}

/** A file of a task, which outlives its sandbox. */
export interface ArtifactInfo {
  name: string;
  task: string;
  size: number;
  sha256: string;
  mediaType?: string;
  createdAt: Date;
  /** Without one it is kept until it is deleted. */
  expiresAt?: Date;
  raw: Artifact;
}

/** A path as text, or as bytes where it is not UTF-8. */
export type PathLike = string | Uint8Array;

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
export const loose = new TextDecoder("utf-8", { ignoreBOM: true });
export const encoder = new TextEncoder();

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export function unbase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function asText(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined; // it is no UTF-8
  }
}

/** A path as the API takes it. */
export function pathIn(path: PathLike): FilePath {
  const text = typeof path === "string" ? path : asText(path);
  return text ?? { base64: base64(path as Uint8Array) };
}

export function pathOut(path: FilePath): string {
  return typeof path === "string" ? path : loose.decode(unbase64((path as { base64: string }).base64));
}

/** The same for a query, percent-encoded; a line end needs base64 there. */
export function pathQuery(path: PathLike): Record<string, string> {
  const bytes = typeof path === "string" ? encoder.encode(path) : path;
  const text = typeof path === "string" ? path : asText(path);
  if (text === undefined || /[\r\n]/.test(text)) return { path_base64: base64(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") };
  return { path: text };
}

export function dataIn(data: string | Uint8Array): { data: string; encoding: "utf-8" | "base64" } {
  const bytes = typeof data === "string" ? encoder.encode(data) : data;
  const text = bytes.includes(0) ? undefined : asText(bytes);
  return text === undefined ? { data: base64(bytes), encoding: "base64" } : { data: text, encoding: "utf-8" };
}

export function dataOut(data: string, encoding: string): Uint8Array<ArrayBuffer> {
  return encoding === "base64" ? unbase64(data) : encoder.encode(data);
}

function basename(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

export function entryOf(raw: FsName): EntryInfo {
  const path = pathOut(raw.path);
  return {
    name: basename(path),
    path,
    ...(typeof raw.path === "string" ? {} : { pathBytes: unbase64((raw.path as { base64: string }).base64) }),
    type: raw.type === "directory" ? "dir" : raw.type,
    size: raw.size,
    mode: parseInt(raw.mode, 8),
    modifiedTime: new Date(raw.mtime),
    ...(raw.target === undefined ? {} : { symlinkTarget: pathOut(raw.target) }),
    raw,
  };
}

export function writtenOf(raw: { path: FilePath; size?: number; sha256?: string }): WriteInfo {
  const path = pathOut(raw.path);
  return { name: basename(path), path, type: "file", size: raw.size ?? 0, sha256: raw.sha256 ?? "" };
}

function moment<K extends string>(name: K, text: string | null | undefined): Partial<Record<K, Date>> {
  return text ? ({ [name]: new Date(text) } as Record<K, Date>) : {};
}

function referenceOf(raw: Agent): SandboxReference {
  const said = raw.reference;
  return {
    name: raw.agent,
    ...(said?.cluster ? { cluster: said.cluster } : {}),
    ...(said?.namespace ? { namespace: said.namespace } : {}),
    ...(said?.app_id ? { appId: said.app_id } : {}),
  };
}

export function sandboxInfo(raw: Agent): SandboxInfo {
  return {
    sandboxId: raw.agent,
    state: raw.state,
    ...moment("startedAt", raw.started_at),
    ...moment("endAt", raw.lease_expires_at),
    ...moment("idleStopsAt", raw.idle_stops_at),
    reference: referenceOf(raw),
    raw,
  };
}

export function snapshotInfo(raw: Snapshot): SnapshotInfo {
  return {
    snapshotId: raw.id,
    status: raw.status,
    createdAt: new Date(raw.created_at),
    ...(typeof raw.size === "number" ? { size: raw.size } : {}),
    current: raw.current ?? false,
    raw,
  };
}

// The API's own words: `written` is a close behind writing, `modified` comes while a file is open.
const EVENT_TYPES: Partial<Record<FsEvent["event"], FilesystemEventType>> = {
  created: "create", moved_to: "create", modified: "write", written: "write", deleted: "remove", moved_from: "rename", attributes: "chmod", overflow: "overflow",
  unwatched: "unwatched",
};

/** undefined for a kind that this version does not know. */
export function filesystemEvent(raw: FsEvent, below: string): FilesystemEvent | undefined {
  const type = EVENT_TYPES[raw.event];
  const path = raw.path === undefined ? below : pathOut(raw.path);
  const name = path === below ? "." : below === "." ? path : path.slice(below.length + 1);
  return type && { name, type, path, raw };
}

export function artifactOf(raw: Artifact): ArtifactInfo {
  return {
    name: raw.name, task: raw.task, size: raw.size, sha256: raw.sha256, createdAt: new Date(raw.created_at),
    ...(raw.media_type === null ? {} : { mediaType: raw.media_type }),
    ...moment("expiresAt", raw.expires_at),
    raw,
  };
}

/** Of the answer's text and its head. */
export function screenOf(text: string, header: (name: string) => string | undefined): PtyScreen {
  const [cols = 0, rows = 0] = (header("muxd-size") ?? "").split("x").map(Number);
  const [row = 0, col = 0] = (header("muxd-cursor") ?? "").split(",").map(Number);
  return { text, lines: text.split("\n").slice(0, rows), cols, rows, row, col, offset: Number(header("muxd-offset")), exact: header("muxd-exact") !== "false" };
}
