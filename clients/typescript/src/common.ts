/** What both entries export. */
export { VERSION } from "./api.js";
export { CommandHandle, Commands, type CommandOptions } from "./commands.js";
export { Execution, ExecutionError, OutputMessage, Result, type CodeContext, type RunCodeOptions } from "./contexts.js";
export * from "./errors.js";
export { FileNotFound as FileNotFoundError, NotFound as NotFoundError } from "./errors.js";
export { Files, type Content, type ListOptions, type SearchOptions, type WriteOptions } from "./files.js";
export type { ClientOptions } from "./http.js";
export { Pty, PtyHandle, type PtyEnd, type PtySize } from "./pty.js";
export { BaseSandbox, type CreateOptions } from "./sandbox.js";
export { FileType } from "./types.js";
export type { CommandResult, EntryInfo, PathLike, ProcessInfo, SandboxInfo, SearchMatch, SnapshotInfo, WriteInfo } from "./types.js";
