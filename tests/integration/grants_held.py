#!/usr/bin/env python3
"""grants_held.py PORT TOKEN OTHER COUNT: COUNT connections come in by TOKEN, whose grant ends while they go on asking
what is open to everybody. Nobody else gets in before it has ended, and OTHER does soon after. Prints both answers."""
import json
import socket
import ssl
import sys
import time

port, token, other, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE


def connect():
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10))


def ask(s, path, bearer=None):
    """The status of one answer, 0 when the connection ended."""
    line = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
    try:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{line}\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            piece = s.recv(65536)
            if not piece:
                return 0
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        length = [int(f.split(b":")[1]) for f in head.lower().split(b"\r\n") if f.startswith(b"content-length:")][0]
        while len(body) < length:
            body += s.recv(65536)
        return int(head.split()[1])
    except OSError:
        return 0


def newcomer():
    with connect() as s:
        return ask(s, "/v1/sessions", other)


held, statuses = [], []
for _ in range(count):  # one by one: strangers have less room
    held.append(connect())
    statuses.append(ask(held[-1], "/v1/sessions", token))
assert statuses == [200] * count, statuses
while_full = newcomer()
until = time.monotonic() + 20
after = while_full
while after != 200 and time.monotonic() < until:
    for s in held:
        ask(s, "/healthz")
    time.sleep(0.2)
    after = newcomer()
print(json.dumps({"while_full": while_full, "after": after}))
