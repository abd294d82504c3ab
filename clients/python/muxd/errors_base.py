"""The root of all errors, and those that carry more than code, message, hint and request id."""
from typing import Any, Dict, Optional


class SandboxError(Exception):
    """What muxd, or the way to it, refused. `code` is stable and the same in the API, in muxctl and in the log."""

    code = "internal"

    def __init__(self, message: str, *, code: Optional[str] = None, hint: str = "", request_id: str = "", status: int = 0,
                 details: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.hint = hint
        self.request_id = request_id
        self.status = status  # of HTTP; 0: there was no answer
        self.details: Dict[str, Any] = details or {}
        self.retry_after = 1.0  # seconds; of 429 and 503

    @property
    def round_id(self) -> str:
        """The round of a start that failed, as the record has it; empty: nothing had begun."""
        said = self.details.get("round_id")
        return said if isinstance(said, str) else ""

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}"
        if self.hint:
            text = f"{text.rstrip('.')}. {self.hint}"
        return f"{text} (request {self.request_id})" if self.request_id else text


class SandboxK8sError(SandboxError):
    """Kubernetes refused. `k8s_status` is what the API server's Status said, where it sent one: code, reason, message."""

    code = "sandbox_k8s_error"

    @property
    def k8s_status(self) -> Optional[Dict[str, Any]]:
        said = self.details.get("kubernetes")
        return said if isinstance(said, dict) else None


class ConnectionLost(SandboxError, ConnectionError):
    """No answer came. `maybe_done`: the request may have been carried out, and saying it again could do it twice."""

    code = "connection_lost"

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message, hint="Nothing was done; try again.")
        self.maybe_done = False
        self.may_come_back = False  # whether it is tried again by itself
        if maybe_done:
            self.was_sent()

    def was_sent(self) -> None:
        """Now, or when it was tried before."""
        self.maybe_done, self.hint = True, "It may have been done; look before you do it again."


class RequestTimeout(ConnectionLost):
    """No answer came within the request's timeout."""

    code = "request_timeout"


class CommandExitException(SandboxError):
    """A command that did not end with 0, with all that it printed."""

    code = "command_exit"

    def __init__(self, message: str, result: Any, *, code: Optional[str] = None, hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.result = result  # a CommandResult
        self.stdout: str = result.stdout
        self.stderr: str = result.stderr
        self.exit_code: int = result.exit_code
        self.error: Optional[str] = result.error


class SandboxExecTimeout(CommandExitException):
    """The command's time was up: its whole process tree was ended. What it printed until then is here."""

    code = "sandbox_exec_timeout"
