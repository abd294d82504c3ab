"""Where muxd listens: a Unix socket, or a host and port with TLS."""
from __future__ import annotations

import socket
import ssl
from typing import NamedTuple, Optional


class Address(NamedTuple):
    socket_path: Optional[str]
    host: str
    port: int
    context: Optional[ssl.SSLContext]

    def __str__(self) -> str:
        return self.socket_path or f"{self.host}:{self.port}"

    @property
    def host_field(self) -> str:
        """What the field Host says."""
        if self.socket_path:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


def tend(sock: socket.socket) -> None:
    """Small requests go at once, and a peer that vanished is found out: a program that is followed may be silent for hours."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
