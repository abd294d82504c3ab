"""How muxd is reached, and by whose grant: arguments first, then the environment."""
from __future__ import annotations

import json
import os
import ssl
from typing import Any, Dict, Optional
from urllib.parse import urlsplit

from ._net.address import Address
from .errors import ConnectionLost, InvalidRequest, Unauthenticated

# Seconds.
REQUEST_TIMEOUT = 60.0
RETRY_FOR = 30.0


class ConnectionConfig:
    """
    `url` with `ca_file`, or `socket_path` (api.sock), or `state_dir`, where both stand. The grant is `token`, or the content of
    `token_file`, which is read again for each request: whoever renews it writes it anew.

    The environment says MUXD_URL, MUXD_CA_FILE, MUXD_SOCKET, MUXD_STATE and MUXD_TOKEN_FILE where the arguments do not. No
    variable holds a token: the environment of a process is no place for one.
    """

    def __init__(self, *, url: Optional[str] = None, ca_file: Optional[str] = None, socket_path: Optional[str] = None,
                 state_dir: Optional[str] = None, token: Optional[str] = None, token_file: Optional[str] = None,
                 task_id: Optional[str] = None, request_timeout: float = REQUEST_TIMEOUT, retry_for: float = RETRY_FOR) -> None:
        env = os.environ.get
        if not (url or socket_path or state_dir):
            url, socket_path, state_dir = env("MUXD_URL"), env("MUXD_SOCKET"), env("MUXD_STATE")
        ca_file = ca_file or env("MUXD_CA_FILE")
        if url is None and socket_path is None:
            if not state_dir:
                raise InvalidRequest("no url, socket_path or state_dir is given, and none of MUXD_URL, MUXD_SOCKET, MUXD_STATE is set",
                                     hint="Say where muxd listens.")
            url = _ready(state_dir)["https_url"]
            ca_file = ca_file or os.path.join(state_dir, "keys", "tls.crt")
        self.address = _address(url, socket_path, ca_file)
        self._token = token
        self._token_file = None if token else token_file or env("MUXD_TOKEN_FILE")
        if not (self._token or self._token_file):
            raise Unauthenticated("no token or token_file is given, and MUXD_TOKEN_FILE is not set", hint="Ask for a grant: muxctl grant create.")
        self.task_id = task_id
        self.request_timeout = request_timeout
        self.retry_for = retry_for

    @property
    def token(self) -> str:
        if self._token:
            return self._token
        try:
            with open(str(self._token_file), encoding="ascii") as f:
                return f.read().strip()
        except UnicodeDecodeError:  # it says, and holds, what the file does
            raise Unauthenticated(f"there is no token in {self._token_file}", hint="Ask for a grant: muxctl grant create.") from None
        except OSError as e:
            raise Unauthenticated(f"the token cannot be read from {self._token_file}: {e}", hint="Ask for a grant: muxctl grant create.") from e

    def __repr__(self) -> str:  # no token in it
        return f"ConnectionConfig({self.address})"


def _ready(state_dir: str) -> Any:
    path = os.path.join(state_dir, "ready.json")
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError) as e:
        raise ConnectionLost(f"{path} does not say where muxd listens: {e}") from e


def _address(url: Optional[str], socket_path: Optional[str], ca_file: Optional[str]) -> Address:
    if socket_path:
        return Address(socket_path, "localhost", 0, None)
    parts = urlsplit(str(url))
    if parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise InvalidRequest(f"the url {url!r} is not https://HOST[:PORT]", hint="muxd has its API at the root of a host; a token goes over TLS alone.")
    try:
        return Address(None, parts.hostname, parts.port or 443, ssl.create_default_context(cafile=ca_file))
    except (OSError, ValueError) as e:
        raise InvalidRequest(f"the CA file {ca_file} or the port of {url} cannot be used: {e}", hint="The daemon's own is keys/tls.crt in its state.") from e


CONNECTION_ARGUMENTS = ("url", "ca_file", "socket_path", "state_dir", "token", "token_file", "task_id", "request_timeout", "retry_for")


def config_of(connection: Optional[ConnectionConfig], arguments: Dict[str, Any]) -> ConnectionConfig:
    """The one that is given, or one of the arguments."""
    unknown = sorted(set(arguments) - set(CONNECTION_ARGUMENTS))
    if unknown:
        raise TypeError(f"unexpected arguments: {', '.join(unknown)}")
    if connection and arguments:
        raise TypeError("connection is given, and so are " + ", ".join(sorted(arguments)))
    return connection or ConnectionConfig(**arguments)
