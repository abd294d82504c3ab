/**
 * An error for each code of the API, all under SandboxError.
 *
 * Made by clients/generate.py; a change belongs there, or into docs/openapi.yaml and errors_base.ts.
 */
import { SandboxError, SandboxK8sError } from "./errors_base.js";
export * from "./errors_base.js";

export class InternalError extends SandboxError {
  static override readonly code: string = "internal";
}

export class OutOfMemory extends SandboxError {
  static override readonly code: string = "out_of_memory";
}

export class HostSystemError extends SandboxError {
  static override readonly code: string = "system_error";
}

export class InvalidRequest extends SandboxError {
  static override readonly code: string = "invalid_request";
}

export class InvalidConfig extends SandboxError {
  static override readonly code: string = "invalid_config";
}

export class TooLarge extends SandboxError {
  static override readonly code: string = "too_large";
}

export class NotFound extends SandboxError {
  static override readonly code: string = "not_found";
}

export class Unauthenticated extends SandboxError {
  static override readonly code: string = "unauthenticated";
}

export class TokenMalformed extends SandboxError {
  static override readonly code: string = "token_malformed";
}

export class TokenSignature extends SandboxError {
  static override readonly code: string = "token_signature";
}

export class TokenExpired extends SandboxError {
  static override readonly code: string = "token_expired";
}

export class TokenNotYetValid extends SandboxError {
  static override readonly code: string = "token_not_yet_valid";
}

export class TokenRevoked extends SandboxError {
  static override readonly code: string = "token_revoked";
}

export class TokenForeign extends SandboxError {
  static override readonly code: string = "token_foreign";
}

export class TokenAlgorithm extends SandboxError {
  static override readonly code: string = "token_algorithm";
}

export class TokenKeyUnknown extends SandboxError {
  static override readonly code: string = "token_key_unknown";
}

export class TokenClaims extends SandboxError {
  static override readonly code: string = "token_claims";
}

export class TokenUsed extends SandboxError {
  static override readonly code: string = "token_used";
}

export class IssuerUnknown extends SandboxError {
  static override readonly code: string = "issuer_unknown";
}

export class IssuerUnavailable extends SandboxError {
  static override readonly code: string = "issuer_unavailable";
}

export class RevocationsOld extends SandboxError {
  static override readonly code: string = "revocations_old";
}

export class Forbidden extends SandboxError {
  static override readonly code: string = "forbidden";
}

export class GrantNotNarrower extends SandboxError {
  static override readonly code: string = "grant_not_narrower";
}

export class PolicyDenied extends SandboxError {
  static override readonly code: string = "policy_denied";
}

export class ReasonRequired extends SandboxError {
  static override readonly code: string = "reason_required";
}

export class TaskRequired extends SandboxError {
  static override readonly code: string = "task_required";
}

export class TaskMismatch extends SandboxError {
  static override readonly code: string = "task_mismatch";
}

export class Conflict extends SandboxError {
  static override readonly code: string = "conflict";
}

export class BadState extends SandboxError {
  static override readonly code: string = "bad_state";
}

export class AlreadyEnded extends SandboxError {
  static override readonly code: string = "already_ended";
}

export class TryAgain extends SandboxError {
  static override readonly code: string = "try_again";
}

export class RateLimited extends SandboxError {
  static override readonly code: string = "rate_limited";
}

export class LimitReached extends SandboxError {
  static override readonly code: string = "limit_reached";
}

export class AnswerLost extends SandboxError {
  static override readonly code: string = "answer_lost";
}

export class RecordShareFull extends SandboxError {
  static override readonly code: string = "record_share_full";
}

export class ServerTimeout extends SandboxError {
  static override readonly code: string = "timeout";
}

export class Cancelled extends SandboxError {
  static override readonly code: string = "cancelled";
}

export class GrantEnded extends SandboxError {
  static override readonly code: string = "grant_ended";
}

export class RecordUnavailable extends SandboxError {
  static override readonly code: string = "record_unavailable";
}

export class DiskFull extends SandboxError {
  static override readonly code: string = "disk_full";
}

export class SandboxCreateFailed extends SandboxError {
  static override readonly code: string = "sandbox_create_failed";
}

export class SandboxCreateTimeout extends SandboxError {
  static override readonly code: string = "sandbox_create_timeout";
}

export class ProgramNotFound extends SandboxError {
  static override readonly code: string = "program_not_found";
}

export class ProgramNotExecutable extends SandboxError {
  static override readonly code: string = "program_not_executable";
}

export class SandboxTransferTimeout extends SandboxError {
  static override readonly code: string = "sandbox_transfer_timeout";
}

export class SandboxTransferFailed extends SandboxError {
  static override readonly code: string = "sandbox_transfer_failed";
}

export class FileNotFound extends SandboxError {
  static override readonly code: string = "file_not_found";
}

export class FilePermissionDenied extends SandboxError {
  static override readonly code: string = "file_permission_denied";
}

export class NotAFile extends SandboxError {
  static override readonly code: string = "not_a_file";
}

export class NotADirectory extends SandboxError {
  static override readonly code: string = "not_a_directory";
}

export class FileExists extends SandboxError {
  static override readonly code: string = "file_exists";
}

export class DirectoryNotEmpty extends SandboxError {
  static override readonly code: string = "directory_not_empty";
}

export class FileChanged extends SandboxError {
  static override readonly code: string = "file_changed";
}

export class RangePastEnd extends SandboxError {
  static override readonly code: string = "range_past_end";
}

export class PatchRefused extends SandboxError {
  static override readonly code: string = "patch_refused";
}

export class PathOutside extends SandboxError {
  static override readonly code: string = "path_outside";
}

export class PathNotAllowed extends SandboxError {
  static override readonly code: string = "path_not_allowed";
}

export class Locked extends SandboxError {
  static override readonly code: string = "locked";
}

export class WorkspaceFull extends SandboxError {
  static override readonly code: string = "workspace_full";
}

export class ArtifactsFull extends SandboxError {
  static override readonly code: string = "artifacts_full";
}

export class BaseUnknown extends SandboxError {
  static override readonly code: string = "base_unknown";
}

export class NoGit extends SandboxError {
  static override readonly code: string = "no_git";
}

export class PortUnreachable extends SandboxError {
  static override readonly code: string = "port_unreachable";
}

export class PortBadAnswer extends SandboxError {
  static override readonly code: string = "port_bad_answer";
}

export class PageNotAllowed extends SandboxError {
  static override readonly code: string = "page_not_allowed";
}

export class PtyNotAllowed extends SandboxError {
  static override readonly code: string = "pty_not_allowed";
}

export class ShellBusy extends SandboxError {
  static override readonly code: string = "shell_busy";
}

export class ShellEnded extends SandboxError {
  static override readonly code: string = "shell_ended";
}

export class ContextBusy extends SandboxError {
  static override readonly code: string = "context_busy";
}

export class ContextEnded extends SandboxError {
  static override readonly code: string = "context_ended";
}

export class SecretRefused extends SandboxError {
  static override readonly code: string = "secret_refused";
}

export class EgressNotOpen extends SandboxError {
  static override readonly code: string = "egress_not_open";
}

export class PlatformServer extends SandboxError {
  static override readonly code: string = "platform_server";
}

export class ListChanged extends SandboxError {
  static override readonly code: string = "list_changed";
}

export class McpServerFailed extends SandboxError {
  static override readonly code: string = "mcp_server_failed";
}

export class McpServerDown extends SandboxError {
  static override readonly code: string = "mcp_server_down";
}

export class ServiceDown extends SandboxError {
  static override readonly code: string = "service_down";
}

export class McpServerHeld extends SandboxError {
  static override readonly code: string = "mcp_server_held";
}

export class PortNotAllowed extends SandboxError {
  static override readonly code: string = "port_not_allowed";
}

export class SnapshotFailed extends SandboxError {
  static override readonly code: string = "snapshot_failed";
}

export class DataKept extends SandboxError {
  static override readonly code: string = "data_kept";
}

export class FilespaceFailed extends SandboxError {
  static override readonly code: string = "filespace_failed";
}

export class SnapshotDiffers extends SandboxError {
  static override readonly code: string = "snapshot_differs";
}

export class LinkLost extends SandboxError {
  static override readonly code: string = "link_lost";
}

export class ProtocolError extends SandboxError {
  static override readonly code: string = "protocol_error";
}

export class VersionUnsupported extends SandboxError {
  static override readonly code: string = "version_unsupported";
}

export class Corrupt extends SandboxError {
  static override readonly code: string = "corrupt";
}

export class AddressInUse extends SandboxError {
  static override readonly code: string = "address_in_use";
}

export class HostPermissionDenied extends SandboxError {
  static override readonly code: string = "permission_denied";
}

export class ImageNotAllowed extends SandboxError {
  static override readonly code: string = "image_not_allowed";
}

export class ImageInvalid extends SandboxError {
  static override readonly code: string = "image_invalid";
}

export class Unsupported extends SandboxError {
  static override readonly code: string = "unsupported";
}

export class NoShell extends SandboxError {
  static override readonly code: string = "no_shell";
}

export class NoEndOfInput extends SandboxError {
  static override readonly code: string = "no_end_of_input";
}

export class MissingDependency extends SandboxError {
  static override readonly code: string = "missing_dependency";
}

export class Unavailable extends SandboxError {
  static override readonly code: string = "unavailable";
}

export class K8sUnreachable extends SandboxK8sError {
  static override readonly code: string = "k8s_unreachable";
}

export class K8sTlsFailed extends SandboxK8sError {
  static override readonly code: string = "k8s_tls_failed";
}

export class K8sUnauthenticated extends SandboxK8sError {
  static override readonly code: string = "k8s_unauthenticated";
}

export class K8sForbidden extends SandboxK8sError {
  static override readonly code: string = "k8s_forbidden";
}

export class K8sConflict extends SandboxK8sError {
  static override readonly code: string = "k8s_conflict";
}

export class K8sInvalid extends SandboxK8sError {
  static override readonly code: string = "k8s_invalid";
}

export class K8sFieldDropped extends SandboxK8sError {
  static override readonly code: string = "k8s_field_dropped";
}

export class K8sGone extends SandboxK8sError {
  static override readonly code: string = "k8s_gone";
}

export class K8sBusy extends SandboxK8sError {
  static override readonly code: string = "k8s_busy";
}

export class DidNotRun extends SandboxError {
  static override readonly code: string = "did_not_run";
}

export class EndOfFile extends SandboxError {
  static override readonly code: string = "end_of_file";
}

export const BY_CODE: ReadonlyMap<string, typeof SandboxError> = new Map<string, typeof SandboxError>([
  ["internal", InternalError],
  ["out_of_memory", OutOfMemory],
  ["system_error", HostSystemError],
  ["invalid_request", InvalidRequest],
  ["invalid_config", InvalidConfig],
  ["too_large", TooLarge],
  ["not_found", NotFound],
  ["unauthenticated", Unauthenticated],
  ["token_malformed", TokenMalformed],
  ["token_signature", TokenSignature],
  ["token_expired", TokenExpired],
  ["token_not_yet_valid", TokenNotYetValid],
  ["token_revoked", TokenRevoked],
  ["token_foreign", TokenForeign],
  ["token_algorithm", TokenAlgorithm],
  ["token_key_unknown", TokenKeyUnknown],
  ["token_claims", TokenClaims],
  ["token_used", TokenUsed],
  ["issuer_unknown", IssuerUnknown],
  ["issuer_unavailable", IssuerUnavailable],
  ["revocations_old", RevocationsOld],
  ["forbidden", Forbidden],
  ["grant_not_narrower", GrantNotNarrower],
  ["policy_denied", PolicyDenied],
  ["reason_required", ReasonRequired],
  ["task_required", TaskRequired],
  ["task_mismatch", TaskMismatch],
  ["conflict", Conflict],
  ["bad_state", BadState],
  ["already_ended", AlreadyEnded],
  ["try_again", TryAgain],
  ["rate_limited", RateLimited],
  ["limit_reached", LimitReached],
  ["answer_lost", AnswerLost],
  ["record_share_full", RecordShareFull],
  ["timeout", ServerTimeout],
  ["cancelled", Cancelled],
  ["grant_ended", GrantEnded],
  ["record_unavailable", RecordUnavailable],
  ["disk_full", DiskFull],
  ["sandbox_create_failed", SandboxCreateFailed],
  ["sandbox_create_timeout", SandboxCreateTimeout],
  ["program_not_found", ProgramNotFound],
  ["program_not_executable", ProgramNotExecutable],
  ["sandbox_transfer_timeout", SandboxTransferTimeout],
  ["sandbox_transfer_failed", SandboxTransferFailed],
  ["file_not_found", FileNotFound],
  ["file_permission_denied", FilePermissionDenied],
  ["not_a_file", NotAFile],
  ["not_a_directory", NotADirectory],
  ["file_exists", FileExists],
  ["directory_not_empty", DirectoryNotEmpty],
  ["file_changed", FileChanged],
  ["range_past_end", RangePastEnd],
  ["patch_refused", PatchRefused],
  ["path_outside", PathOutside],
  ["path_not_allowed", PathNotAllowed],
  ["locked", Locked],
  ["workspace_full", WorkspaceFull],
  ["artifacts_full", ArtifactsFull],
  ["base_unknown", BaseUnknown],
  ["no_git", NoGit],
  ["port_unreachable", PortUnreachable],
  ["port_bad_answer", PortBadAnswer],
  ["page_not_allowed", PageNotAllowed],
  ["pty_not_allowed", PtyNotAllowed],
  ["shell_busy", ShellBusy],
  ["shell_ended", ShellEnded],
  ["context_busy", ContextBusy],
  ["context_ended", ContextEnded],
  ["secret_refused", SecretRefused],
  ["egress_not_open", EgressNotOpen],
  ["platform_server", PlatformServer],
  ["list_changed", ListChanged],
  ["mcp_server_failed", McpServerFailed],
  ["mcp_server_down", McpServerDown],
  ["service_down", ServiceDown],
  ["mcp_server_held", McpServerHeld],
  ["port_not_allowed", PortNotAllowed],
  ["snapshot_failed", SnapshotFailed],
  ["data_kept", DataKept],
  ["filespace_failed", FilespaceFailed],
  ["snapshot_differs", SnapshotDiffers],
  ["link_lost", LinkLost],
  ["protocol_error", ProtocolError],
  ["version_unsupported", VersionUnsupported],
  ["corrupt", Corrupt],
  ["address_in_use", AddressInUse],
  ["permission_denied", HostPermissionDenied],
  ["image_not_allowed", ImageNotAllowed],
  ["image_invalid", ImageInvalid],
  ["unsupported", Unsupported],
  ["no_shell", NoShell],
  ["no_end_of_input", NoEndOfInput],
  ["missing_dependency", MissingDependency],
  ["unavailable", Unavailable],
  ["sandbox_k8s_error", SandboxK8sError],
  ["k8s_unreachable", K8sUnreachable],
  ["k8s_tls_failed", K8sTlsFailed],
  ["k8s_unauthenticated", K8sUnauthenticated],
  ["k8s_forbidden", K8sForbidden],
  ["k8s_conflict", K8sConflict],
  ["k8s_invalid", K8sInvalid],
  ["k8s_field_dropped", K8sFieldDropped],
  ["k8s_gone", K8sGone],
  ["k8s_busy", K8sBusy],
  ["did_not_run", DidNotRun],
  ["end_of_file", EndOfFile],
]);
