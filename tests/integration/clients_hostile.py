#!/usr/bin/python3
"""clients_hostile.py SOCKET: the Python client before a server that answers anything: answers of muxd, changed by a seed. It says
SandboxError, soon, whatever comes. SEED, ROUNDS in the environment."""
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python"))
from muxd import CommandHandle, PtyRound, PtySize, RoundEvents, Sandbox, SandboxError  # noqa: E402
from muxd._sync.http import Client  # noqa: E402
from muxd.connection import ConnectionConfig  # noqa: E402

SEED, ROUNDS = int(os.environ.get("SEED", time.time_ns() % 1000000)), int(os.environ.get("ROUNDS", "400"))
ANSWERS = [
    b'HTTP/1.1 200 OK\r\nContent-Length: 36\r\nConnection: close\r\n\r\n{"agent": "a", "state": "running"}  ',
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMuxd-Offset: 0\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n',
    b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 83\r\n\r\n{"error": {"code": "not_found", "message": "m", "hint": "h", "request_id": "0-0-0"}}',
    b'HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}',
    b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n\x82\x05\x10{}  ',
    b'HTTP/1.1 100 Continue\r\n\r\n' * 40,
    b'HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n',
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4C\r\nevent: stdout\nid: 2-0\ndata: {"offset":0,"data":"a\\n","encoding":"utf-8"}\n\n:\n\n    \r\n0\r\n\r\n',
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n28\r\n{"event":"ready"}\n{"event":"created"}   \n\r\n0\r\n\r\n',
    b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: "2cf24dba"\r\n\r\nhello',
]
INSERTS = [b"\r\n", b"\0", b"\xff" * 9, b"99999999999999999999", b"-1", b":", b"{" * 3000, b"Transfer-Encoding: chunked\r\n", b"\xc2\xb2", b"a" * 70000]
chance = random.Random(SEED)
print(f"  seed {SEED}, {ROUNDS} rounds", flush=True)


def changed():
    data = bytearray(chance.choice(ANSWERS))
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(4)
        if how == 0:
            data[at:at + 1] = bytes([chance.randrange(256)])
        elif how == 1:
            del data[at:at + chance.randrange(20)]
        elif how == 2:
            data[at:at] = chance.choice(INSERTS)
        else:
            del data[at:]
    return bytes(data)


def serve(listener):
    while True:
        client, _ = listener.accept()
        try:
            client.recv(65536)
            client.sendall(changed())
            client.shutdown(socket.SHUT_WR)
            client.close()
        except OSError:
            pass  # it has left


def watched(s):
    watch = s.files.watch_dir()
    try:
        watch.next()
    finally:
        watch.stop()


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(8)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    config = ConnectionConfig(socket_path=sys.argv[1], token="t", request_timeout=5, retry_for=0)
    s = Sandbox("a", Client(config))
    asks = [s.get_info, lambda: s.files.read("x", "bytes"), lambda: b"".join(s.files.read("x", "stream")), lambda: s.files.append("x", "y"),
            lambda: s.pty.create(PtySize(2, 2)), lambda: s.files.write("x", b"y" * 200000), lambda: Sandbox.list(connection=config),
            lambda: list(RoundEvents(s._client, "x")), lambda: watched(s), lambda: s.artifacts.get("x", task="t"),
            lambda: PtyRound(s._client, CommandHandle(s._client, {"round_id": "x"})).screen()]
    refused = 0
    for n in range(ROUNDS):
        began = time.monotonic()
        try:
            chance.choice(asks)()
        except SandboxError:
            refused += 1
        except KeyError:
            pass  # an answer that is well formed, and lacks what the document promises
        except Exception:
            print(f"FAILED: round {n}", flush=True)
            raise
        if time.monotonic() - began > 10:
            sys.exit(f"FAILED: round {n} took {time.monotonic() - began:.1f} s")
    if refused < ROUNDS // 3:
        sys.exit(f"FAILED: {refused} of {ROUNDS} were refused")
    print(f"  ok: {refused} refused by name", flush=True)


main()
