"""Code in contexts: interpreters that keep their variables, and run_code() as E2B's code interpreter has it.

Made by clients/generate.py; a change belongs there, or into _async/.
"""
from __future__ import annotations

import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from .._net.sync import call
from ..errors import ContextEnded, NotFound, SandboxExecTimeout
from ..execution import CodeContext, CodeEvents, Execution, ExecutionError, OutputMessage, Result, context_of, error_of, execution_of, message_of
from ..types import CommandResult, data_out, milliseconds
from .commands import WAIT, CommandHandle, Follower
from .http import Client

Context = Union[CodeContext, str]
OnOutput = Optional[Callable[[OutputMessage], Any]]
OnResult = Optional[Callable[[Result], Any]]
OnError = Optional[Callable[[ExecutionError], Any]]
NAMES = {"js": "javascript", "node": "javascript", "py": "python", "sh": "bash"}


class Code:
    """What a sandbox has of it."""

    _client: Client
    sandbox_id: str

    def _ask(self, operation: str, context: Optional[Context] = None, again: bool = False,
                   body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        values = {"agent": self.sandbox_id}
        if context is not None:
            values["id"] = context if isinstance(context, str) else context.id
        return self._client.json(operation, values, body=body, again=again, timeout=WAIT + self._client.config.request_timeout)

    # --- contexts

    def create_code_context(self, cwd: Optional[str] = None, language: Optional[str] = None,
                                  envs: Optional[Mapping[str, str]] = None) -> CodeContext:
        """A new interpreter of python (the default), javascript or bash."""
        body: Dict[str, Any] = {"language": NAMES.get(language or "", language or "python")}
        body.update({k: v for k, v in (("cwd", cwd), ("env", dict(envs or {}))) if v})
        return context_of(self._ask("createContext", body=body))

    def list_code_contexts(self) -> List[CodeContext]:
        return [context_of(raw) for raw in (self._ask("listContexts", again=True))["contexts"]]

    def get_code_context(self, context: Context) -> CodeContext:
        return context_of(self._ask("getContext", context, again=True))

    def interrupt_code_context(self, context: Context) -> CodeContext:
        """As Ctrl-C: what runs in it ends with an exception, and its variables stay."""
        return context_of(self._ask("interruptContext", context, body={}))

    def restart_code_context(self, context: Context, envs: Optional[Mapping[str, str]] = None) -> CodeContext:
        """A fresh interpreter under the same id."""
        return context_of(self._ask("resetContext", context, body={"env": dict(envs)} if envs else {}))

    def remove_code_context(self, context: Context) -> None:
        self._ask("deleteContext", context)

    # --- code

    def run_code(self, code: str, language: Optional[str] = None, context: Optional[Context] = None, on_stdout: OnOutput = None,
                       on_stderr: OnOutput = None, on_result: OnResult = None, on_error: OnError = None,
                       envs: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None, exec_id: Optional[str] = None) -> Execution:
        """
        Runs code in a context and returns what came of it. What it raises is in `error` of that; a time that is up (in seconds) raises
        SandboxExecTimeout. Without `context` it is this object's own one of the language, made at the first call, with `envs` as its
        environment then; once that has ended ContextEnded is raised, and the next call makes another. Callbacks are called as things come.
        """
        mine = context is None
        where = context if context is not None else self._own_context(language, envs)
        body: Dict[str, Any] = {"code": code, "exec_id": exec_id or f"py-{uuid.uuid4()}"}
        if timeout:
            body["timeout_ms"] = milliseconds(timeout)
        follows = bool(on_stdout or on_stderr or on_result or on_error)
        body["yield_ms"] = 0 if follows else int(WAIT * 1000)
        try:
            raw = self._ask("executeCode", where, again=True, body=body)
        except (ContextEnded, NotFound):
            if mine:
                self._contexts().clear()
            raise
        if follows:
            self._follow_code(raw, on_stdout, on_stderr, on_result, on_error)
        return self._finish_code(raw)

    def run_python(self, code: str, cwd: Optional[str] = None, envs: Optional[Mapping[str, str]] = None, timeout: Optional[float] = None,
                         exec_id: Optional[str] = None) -> Execution:
        """Python code once, in an interpreter of its own: 30 s without `timeout`, 120 at the most, 1 MB of output."""
        body: Dict[str, Any] = {"code": code, "exec_id": exec_id or f"py-{uuid.uuid4()}", "yield_ms": int(WAIT * 1000)}
        body.update({k: v for k, v in (("cwd", cwd), ("env", dict(envs or {})), ("timeout_ms", milliseconds(timeout))) if v})
        return self._finish_code(self._ask("executePython", again=True, body=body))

    def _contexts(self) -> Dict[str, CodeContext]:
        found: Dict[str, CodeContext] = self.__dict__.setdefault("_code_contexts", {})
        return found

    def _own_context(self, language: Optional[str], envs: Optional[Mapping[str, str]]) -> CodeContext:
        name = NAMES.get(language or "", language or "python")
        if name not in self._contexts():
            self._contexts()[name] = self.create_code_context(language=name, envs=envs)
        return self._contexts()[name]

    def _follow_code(self, raw: Dict[str, Any], on_stdout: OnOutput, on_stderr: OnOutput, on_result: OnResult, on_error: OnError) -> None:
        if raw["language"] == "bash":
            self._follow_shell(raw, on_stdout, on_stderr)
            return
        follower, lines = Follower(self._client, raw["execution_id"], "stdout"), CodeEvents()
        try:
            for piece in follower.read():
                for event in lines.feed(piece):
                    kind = event["type"]
                    if kind in ("stdout", "stderr"):
                        call(on_stdout if kind == "stdout" else on_stderr, message_of(event))
                    elif kind == "result" and {"main", "data", "capped"} <= event.keys():
                        call(on_result, Result(event))
                    elif kind == "error" and {"name", "value", "traceback", "frames"} <= event.keys():
                        call(on_error, error_of(event))
        finally:
            follower.close()

    def _follow_shell(self, raw: Dict[str, Any], on_stdout: OnOutput, on_stderr: OnOutput) -> None:
        def said(on: OnOutput, kind: str) -> Callable[[str], Any]:
            return lambda text: on(message_of({"type": kind, "text": text})) if on else None

        started = self._client.json("getRound", {"id": raw["execution_id"]}, again=True)
        handle = CommandHandle(self._client, started, check=False, known=False)
        try:
            handle.wait(said(on_stdout, "stdout"), said(on_stderr, "stderr"))
        except SandboxExecTimeout:
            pass  # the execution says so

    def _finish_code(self, raw: Dict[str, Any]) -> Execution:
        while raw["state"] == "running":
            raw = self._client.json("getExecution", {"id": raw["execution_id"]}, query={"yield_ms": int(WAIT * 1000)}, again=True,
                                          timeout=WAIT + self._client.config.request_timeout)
        done = execution_of(raw)
        if done.cause == "timeout":
            out, err = (data_out(raw[name]["data"], raw[name]["encoding"]) for name in ("stdout", "stderr"))
            result = CommandResult(stdout_bytes=out, stderr_bytes=err, exit_code=-1, error="its time was up", round_id=done.id, cause="timeout",
                                   signal=None, duration_ms=raw["duration_ms"], truncated=done.truncated, raw=raw)
            raise SandboxExecTimeout(f"the code was interrupted after {raw['duration_ms']} ms; its time was up.", result, hint="Allow it more time.")
        return done
