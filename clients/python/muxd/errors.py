"""An exception for each error code of the API, all under SandboxError.

Made by clients/generate.py; a change belongs there, or into docs/openapi.yaml and errors_base.py.
"""
from typing import Dict, Type

from .errors_base import CommandExitException, ConnectionLost, RequestTimeout, SandboxError, SandboxExecTimeout, SandboxK8sError


class InternalError(SandboxError):
    code = "internal"


class OutOfMemory(SandboxError):
    code = "out_of_memory"


class HostSystemError(SandboxError):
    code = "system_error"


class InvalidRequest(SandboxError):
    code = "invalid_request"


class InvalidConfig(SandboxError):
    code = "invalid_config"


class TooLarge(SandboxError):
    code = "too_large"


class NotFound(SandboxError):
    code = "not_found"


class Unauthenticated(SandboxError):
    code = "unauthenticated"


class TokenMalformed(SandboxError):
    code = "token_malformed"


class TokenSignature(SandboxError):
    code = "token_signature"


class TokenExpired(SandboxError):
    code = "token_expired"


class TokenNotYetValid(SandboxError):
    code = "token_not_yet_valid"


class TokenRevoked(SandboxError):
    code = "token_revoked"


class TokenForeign(SandboxError):
    code = "token_foreign"


class TokenAlgorithm(SandboxError):
    code = "token_algorithm"


class TokenKeyUnknown(SandboxError):
    code = "token_key_unknown"


class TokenClaims(SandboxError):
    code = "token_claims"


class TokenUsed(SandboxError):
    code = "token_used"


class IssuerUnknown(SandboxError):
    code = "issuer_unknown"


class IssuerUnavailable(SandboxError):
    code = "issuer_unavailable"


class RevocationsOld(SandboxError):
    code = "revocations_old"


class Forbidden(SandboxError):
    code = "forbidden"


class GrantNotNarrower(SandboxError):
    code = "grant_not_narrower"


class PolicyDenied(SandboxError):
    code = "policy_denied"


class ReasonRequired(SandboxError):
    code = "reason_required"


class TaskRequired(SandboxError):
    code = "task_required"


class TaskMismatch(SandboxError):
    code = "task_mismatch"


class Conflict(SandboxError):
    code = "conflict"


class BadState(SandboxError):
    code = "bad_state"


class AlreadyEnded(SandboxError):
    code = "already_ended"


class TryAgain(SandboxError):
    code = "try_again"


class RateLimited(SandboxError):
    code = "rate_limited"


class LimitReached(SandboxError):
    code = "limit_reached"


class AnswerLost(SandboxError):
    code = "answer_lost"


class RecordShareFull(SandboxError):
    code = "record_share_full"


class ServerTimeout(SandboxError):
    code = "timeout"


class Cancelled(SandboxError):
    code = "cancelled"


class GrantEnded(SandboxError):
    code = "grant_ended"


class RecordUnavailable(SandboxError):
    code = "record_unavailable"


class DiskFull(SandboxError):
    code = "disk_full"


class SandboxCreateFailed(SandboxError):
    code = "sandbox_create_failed"


class SandboxCreateTimeout(SandboxError):
    code = "sandbox_create_timeout"


class ProgramNotFound(SandboxError):
    code = "program_not_found"


class ProgramNotExecutable(SandboxError):
    code = "program_not_executable"


class SandboxTransferTimeout(SandboxError):
    code = "sandbox_transfer_timeout"


class SandboxTransferFailed(SandboxError):
    code = "sandbox_transfer_failed"


class FileNotFound(SandboxError):
    code = "file_not_found"


class FilePermissionDenied(SandboxError):
    code = "file_permission_denied"


class NotAFile(SandboxError):
    code = "not_a_file"


class NotADirectory(SandboxError):
    code = "not_a_directory"


class FileExists(SandboxError):
    code = "file_exists"


class DirectoryNotEmpty(SandboxError):
    code = "directory_not_empty"


class FileChanged(SandboxError):
    code = "file_changed"


class RangePastEnd(SandboxError):
    code = "range_past_end"


class PatchRefused(SandboxError):
    code = "patch_refused"


class PathOutside(SandboxError):
    code = "path_outside"


class PathNotAllowed(SandboxError):
    code = "path_not_allowed"


class Locked(SandboxError):
    code = "locked"


class WorkspaceFull(SandboxError):
    code = "workspace_full"


class ArtifactsFull(SandboxError):
    code = "artifacts_full"


class BaseUnknown(SandboxError):
    code = "base_unknown"


class NoGit(SandboxError):
    code = "no_git"


class PortUnreachable(SandboxError):
    code = "port_unreachable"


class PortBadAnswer(SandboxError):
    code = "port_bad_answer"


class PageNotAllowed(SandboxError):
    code = "page_not_allowed"


class PtyNotAllowed(SandboxError):
    code = "pty_not_allowed"


class ShellBusy(SandboxError):
    code = "shell_busy"


class ShellEnded(SandboxError):
    code = "shell_ended"


class ContextBusy(SandboxError):
    code = "context_busy"


class ContextEnded(SandboxError):
    code = "context_ended"


class SecretRefused(SandboxError):
    code = "secret_refused"


class EgressNotOpen(SandboxError):
    code = "egress_not_open"


class PlatformServer(SandboxError):
    code = "platform_server"


class ListChanged(SandboxError):
    code = "list_changed"


class McpServerFailed(SandboxError):
    code = "mcp_server_failed"


class McpServerDown(SandboxError):
    code = "mcp_server_down"


class ServiceDown(SandboxError):
    code = "service_down"


class McpServerHeld(SandboxError):
    code = "mcp_server_held"


class PortNotAllowed(SandboxError):
    code = "port_not_allowed"


class SnapshotFailed(SandboxError):
    code = "snapshot_failed"


class DataKept(SandboxError):
    code = "data_kept"


class FilespaceFailed(SandboxError):
    code = "filespace_failed"


class SnapshotDiffers(SandboxError):
    code = "snapshot_differs"


class LinkLost(SandboxError):
    code = "link_lost"


class ProtocolError(SandboxError):
    code = "protocol_error"


class VersionUnsupported(SandboxError):
    code = "version_unsupported"


class Corrupt(SandboxError):
    code = "corrupt"


class AddressInUse(SandboxError):
    code = "address_in_use"


class HostPermissionDenied(SandboxError):
    code = "permission_denied"


class ImageNotAllowed(SandboxError):
    code = "image_not_allowed"


class ImageInvalid(SandboxError):
    code = "image_invalid"


class Unsupported(SandboxError):
    code = "unsupported"


class NoShell(SandboxError):
    code = "no_shell"


class NoEndOfInput(SandboxError):
    code = "no_end_of_input"


class MissingDependency(SandboxError):
    code = "missing_dependency"


class Unavailable(SandboxError):
    code = "unavailable"


class K8sUnreachable(SandboxK8sError):
    code = "k8s_unreachable"


class K8sTlsFailed(SandboxK8sError):
    code = "k8s_tls_failed"


class K8sUnauthenticated(SandboxK8sError):
    code = "k8s_unauthenticated"


class K8sForbidden(SandboxK8sError):
    code = "k8s_forbidden"


class K8sConflict(SandboxK8sError):
    code = "k8s_conflict"


class K8sInvalid(SandboxK8sError):
    code = "k8s_invalid"


class K8sFieldDropped(SandboxK8sError):
    code = "k8s_field_dropped"


class K8sGone(SandboxK8sError):
    code = "k8s_gone"


class K8sBusy(SandboxK8sError):
    code = "k8s_busy"


class DidNotRun(SandboxError):
    code = "did_not_run"


class EndOfFile(SandboxError):
    code = "end_of_file"


BY_CODE: Dict[str, Type[SandboxError]] = {
    "internal": InternalError,
    "out_of_memory": OutOfMemory,
    "system_error": HostSystemError,
    "invalid_request": InvalidRequest,
    "invalid_config": InvalidConfig,
    "too_large": TooLarge,
    "not_found": NotFound,
    "unauthenticated": Unauthenticated,
    "token_malformed": TokenMalformed,
    "token_signature": TokenSignature,
    "token_expired": TokenExpired,
    "token_not_yet_valid": TokenNotYetValid,
    "token_revoked": TokenRevoked,
    "token_foreign": TokenForeign,
    "token_algorithm": TokenAlgorithm,
    "token_key_unknown": TokenKeyUnknown,
    "token_claims": TokenClaims,
    "token_used": TokenUsed,
    "issuer_unknown": IssuerUnknown,
    "issuer_unavailable": IssuerUnavailable,
    "revocations_old": RevocationsOld,
    "forbidden": Forbidden,
    "grant_not_narrower": GrantNotNarrower,
    "policy_denied": PolicyDenied,
    "reason_required": ReasonRequired,
    "task_required": TaskRequired,
    "task_mismatch": TaskMismatch,
    "conflict": Conflict,
    "bad_state": BadState,
    "already_ended": AlreadyEnded,
    "try_again": TryAgain,
    "rate_limited": RateLimited,
    "limit_reached": LimitReached,
    "answer_lost": AnswerLost,
    "record_share_full": RecordShareFull,
    "timeout": ServerTimeout,
    "cancelled": Cancelled,
    "grant_ended": GrantEnded,
    "record_unavailable": RecordUnavailable,
    "disk_full": DiskFull,
    "sandbox_create_failed": SandboxCreateFailed,
    "sandbox_create_timeout": SandboxCreateTimeout,
    "sandbox_exec_timeout": SandboxExecTimeout,
    "program_not_found": ProgramNotFound,
    "program_not_executable": ProgramNotExecutable,
    "sandbox_transfer_timeout": SandboxTransferTimeout,
    "sandbox_transfer_failed": SandboxTransferFailed,
    "file_not_found": FileNotFound,
    "file_permission_denied": FilePermissionDenied,
    "not_a_file": NotAFile,
    "not_a_directory": NotADirectory,
    "file_exists": FileExists,
    "directory_not_empty": DirectoryNotEmpty,
    "file_changed": FileChanged,
    "range_past_end": RangePastEnd,
    "patch_refused": PatchRefused,
    "path_outside": PathOutside,
    "path_not_allowed": PathNotAllowed,
    "locked": Locked,
    "workspace_full": WorkspaceFull,
    "artifacts_full": ArtifactsFull,
    "base_unknown": BaseUnknown,
    "no_git": NoGit,
    "port_unreachable": PortUnreachable,
    "port_bad_answer": PortBadAnswer,
    "page_not_allowed": PageNotAllowed,
    "pty_not_allowed": PtyNotAllowed,
    "shell_busy": ShellBusy,
    "shell_ended": ShellEnded,
    "context_busy": ContextBusy,
    "context_ended": ContextEnded,
    "secret_refused": SecretRefused,
    "egress_not_open": EgressNotOpen,
    "platform_server": PlatformServer,
    "list_changed": ListChanged,
    "mcp_server_failed": McpServerFailed,
    "mcp_server_down": McpServerDown,
    "service_down": ServiceDown,
    "mcp_server_held": McpServerHeld,
    "port_not_allowed": PortNotAllowed,
    "snapshot_failed": SnapshotFailed,
    "data_kept": DataKept,
    "filespace_failed": FilespaceFailed,
    "snapshot_differs": SnapshotDiffers,
    "link_lost": LinkLost,
    "protocol_error": ProtocolError,
    "version_unsupported": VersionUnsupported,
    "corrupt": Corrupt,
    "address_in_use": AddressInUse,
    "permission_denied": HostPermissionDenied,
    "image_not_allowed": ImageNotAllowed,
    "image_invalid": ImageInvalid,
    "unsupported": Unsupported,
    "no_shell": NoShell,
    "no_end_of_input": NoEndOfInput,
    "missing_dependency": MissingDependency,
    "unavailable": Unavailable,
    "sandbox_k8s_error": SandboxK8sError,
    "k8s_unreachable": K8sUnreachable,
    "k8s_tls_failed": K8sTlsFailed,
    "k8s_unauthenticated": K8sUnauthenticated,
    "k8s_forbidden": K8sForbidden,
    "k8s_conflict": K8sConflict,
    "k8s_invalid": K8sInvalid,
    "k8s_field_dropped": K8sFieldDropped,
    "k8s_gone": K8sGone,
    "k8s_busy": K8sBusy,
    "did_not_run": DidNotRun,
    "end_of_file": EndOfFile,
}


def error_class(code: str) -> Type[SandboxError]:
    """Of a code; of one that this version does not know, SandboxError itself."""
    return BY_CODE.get(code, SandboxError)


__all__ = [
    "AddressInUse",
    "AlreadyEnded",
    "AnswerLost",
    "ArtifactsFull",
    "BY_CODE",
    "BadState",
    "BaseUnknown",
    "Cancelled",
    "CommandExitException",
    "Conflict",
    "ConnectionLost",
    "ContextBusy",
    "ContextEnded",
    "Corrupt",
    "DataKept",
    "DidNotRun",
    "DirectoryNotEmpty",
    "DiskFull",
    "EgressNotOpen",
    "EndOfFile",
    "FileChanged",
    "FileExists",
    "FileNotFound",
    "FilePermissionDenied",
    "FilespaceFailed",
    "Forbidden",
    "GrantEnded",
    "GrantNotNarrower",
    "HostPermissionDenied",
    "HostSystemError",
    "ImageInvalid",
    "ImageNotAllowed",
    "InternalError",
    "InvalidConfig",
    "InvalidRequest",
    "IssuerUnavailable",
    "IssuerUnknown",
    "K8sBusy",
    "K8sConflict",
    "K8sFieldDropped",
    "K8sForbidden",
    "K8sGone",
    "K8sInvalid",
    "K8sTlsFailed",
    "K8sUnauthenticated",
    "K8sUnreachable",
    "LimitReached",
    "LinkLost",
    "ListChanged",
    "Locked",
    "McpServerDown",
    "McpServerFailed",
    "McpServerHeld",
    "MissingDependency",
    "NoEndOfInput",
    "NoGit",
    "NoShell",
    "NotADirectory",
    "NotAFile",
    "NotFound",
    "OutOfMemory",
    "PageNotAllowed",
    "PatchRefused",
    "PathNotAllowed",
    "PathOutside",
    "PlatformServer",
    "PolicyDenied",
    "PortBadAnswer",
    "PortNotAllowed",
    "PortUnreachable",
    "ProgramNotExecutable",
    "ProgramNotFound",
    "ProtocolError",
    "PtyNotAllowed",
    "RangePastEnd",
    "RateLimited",
    "ReasonRequired",
    "RecordShareFull",
    "RecordUnavailable",
    "RequestTimeout",
    "RevocationsOld",
    "SandboxCreateFailed",
    "SandboxCreateTimeout",
    "SandboxError",
    "SandboxExecTimeout",
    "SandboxK8sError",
    "SandboxTransferFailed",
    "SandboxTransferTimeout",
    "SecretRefused",
    "ServerTimeout",
    "ServiceDown",
    "ShellBusy",
    "ShellEnded",
    "SnapshotDiffers",
    "SnapshotFailed",
    "TaskMismatch",
    "TaskRequired",
    "TokenAlgorithm",
    "TokenClaims",
    "TokenExpired",
    "TokenForeign",
    "TokenKeyUnknown",
    "TokenMalformed",
    "TokenNotYetValid",
    "TokenRevoked",
    "TokenSignature",
    "TokenUsed",
    "TooLarge",
    "TryAgain",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "VersionUnsupported",
    "WorkspaceFull",
    "error_class",
]
