/** What both entries export. */
export { VERSION } from "./api.js";
export { Artifacts, type PutOptions, type TakeOptions } from "./artifacts.js";
export { CommandHandle, Commands, type CommandOptions } from "./commands.js";
export { Execution, ExecutionError, OutputMessage, Result, type CodeContext, type RunCodeOptions } from "./contexts.js";
export * from "./errors.js";
export { RoundEvents } from "./events.js";
export { FileNotFound as FileNotFoundError, NotFound as NotFoundError } from "./errors.js";
export { Files, type Content, type ListOptions, type SearchOptions, type TreeOptions, type WriteOptions } from "./files.js";
export type { ClientOptions } from "./http.js";
export { Pty, PtyHandle, PtyRound, type PtyEnd, type PtyOptions, type PtyRunOptions, type PtySize } from "./pty.js";
export { BaseSandbox, type CreateOptions } from "./sandbox.js";
export { FilesystemEventType, FileType } from "./types.js";
export type {
  ArtifactInfo, CommandResult, EntryInfo, FilesystemEvent, PathLike, ProcessInfo, PtyScreen, RoundEvent, SandboxInfo, SandboxReference, SearchMatch, SnapshotInfo, WriteInfo,
} from "./types.js";
export { WatchHandle, type WatchOptions } from "./watch.js";
