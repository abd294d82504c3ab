#!/usr/bin/env python3
"""A FAKE API server that speaks the exec subresource over WebSocket, as its script says.

It is no Kubernetes. It exists for what a real one cannot be made to show: close frames and half-closes at will,
statuses that are missing, strange or late, refusals in every form, answers and messages cut at every byte, peers that
fall silent or reset the connection, certificates that are wrong. What a real kubelet does is tested against a real one.

The command of the exec request is the script: its first words may be modifiers, then comes one of the acts below.

usage: fake_exec_server.py DIR
makes certificates in DIR, listens on loopback, prints one line of JSON with the ports, ends when its stdin does.
"""
import base64
import hashlib
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"


class Gone(Exception):
    """The client went away."""


def pattern():
    """64 KiB that no shift of itself equals; streams repeat it, each time with a number in front."""
    return bytes((i * 31 + (i >> 8) * 7) & 0xFF for i in range(65536))


PATTERN = pattern()


def stream(total):
    """total bytes: blocks of 64 KiB, the first 8 bytes of each its number (little-endian)."""
    n = 0
    while total > 0:
        block = struct.pack("<Q", n) + PATTERN[8:]
        yield block[:total]
        total -= len(block[:total])
        n += 1


def unmask(data, key):
    n = len(data)
    key = (key * ((n + 3) // 4))[:n]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(n, "little")


def frame(op, payload=b"", fin=True):
    n = len(payload)
    head = bytes([(0x80 if fin else 0) | op])
    if n < 126:
        head += bytes([n])
    elif n < 65536:
        head += b"\x7e" + struct.pack(">H", n)
    else:
        head += b"\x7f" + struct.pack(">Q", n)
    return head + payload


def status(code=0, **more):
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        **more,
    }


class Conn:
    """One client: bytes in and out, messages in and out."""

    def __init__(self, sock):
        self.sock = sock
        self.buf = bytearray()
        self.drip = False
        self.fragment = False
        self.version = 0
        self.pongs = []
        self.pings = 0
        self.empties = 0
        self.closed = False  # the client closed its stdin
        self.resizes = []
        self.pending = bytearray()  # stdin that was read on the way to something else

    # --- bytes
    def send(self, data):
        try:
            if not self.drip:
                self.sock.sendall(data)
                return
            for b in data:
                self.sock.sendall(bytes([b]))
        except OSError as e:
            raise Gone from e

    def fill(self):
        try:
            data = self.sock.recv(262144)
        except OSError as e:
            raise Gone from e
        if not data:
            raise Gone
        self.buf += data

    def take(self, n):
        while len(self.buf) < n:
            self.fill()
        out = bytes(self.buf[:n])
        del self.buf[:n]
        return out

    def head(self):
        while b"\r\n\r\n" not in self.buf:
            self.fill()
        end = self.buf.index(b"\r\n\r\n") + 4
        return self.take(end).decode("latin-1")

    # --- messages
    def recv_frame(self):
        a, b = self.take(2)
        n = b & 0x7F
        if n == 126:
            n = struct.unpack(">H", self.take(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.take(8))[0]
        if not b & 0x80:
            raise ValueError("a client's frame is not masked")
        if not a & 0x80 and a & 0x0F != CONT:
            raise ValueError("a fragment")
        key = self.take(4)
        return a & 0x0F, unmask(self.take(n), key)

    def one(self):
        """Takes one frame and files it; stdin goes to self.pending."""
        op, data = self.recv_frame()
        if op == PING:
            self.pings += 1
            self.send(frame(PONG, data))
        elif op == PONG:
            self.pongs.append(data)
        elif op == CLOSE:
            raise Gone
        elif not data:
            self.empties += 1
        elif data[0] == 0:
            self.pending += data[1:]
        elif data[0] == 4:
            self.resizes.append(json.loads(data[1:]))
        elif data[0] == 255 and data[1:] == b"\0":
            self.closed = True

    def message(self, channel, data):
        payload = bytes([channel]) + data
        if not self.fragment:
            self.send(frame(BINARY, payload))
            return
        for i in range(len(payload)):
            self.send(frame(BINARY if i == 0 else CONT, payload[i : i + 1], False))
            if i % 7 == 3:
                self.send(frame(PING, b"between"))
            if i % 11 == 5:
                self.send(frame(CONT, b"", False))
        self.send(frame(CONT, b"", True))

    def out(self, data):
        self.message(1, data if isinstance(data, bytes) else data.encode())

    def finish(self, st, code=1000, reason=b""):
        if st is not None:
            self.message(3, json.dumps(st).encode())
        self.send(frame(CLOSE, struct.pack(">H", code) + reason))
        # wait for the client's close or end, so that nothing is lost by a reset
        self.drip = False
        try:
            while True:
                self.fill()
                self.buf.clear()
        except Gone:
            pass


def act_exit(c, code="0", text=None, err=None):
    if text is not None:
        c.out(text)
    if err is not None:
        c.message(2, err.encode())
    c.finish(status(int(code)))


def act_bytes(c, total, size="32768"):
    """total bytes of stream() in messages of size."""
    for block in stream(int(total)):
        for i in range(0, len(block), int(size)):
            c.out(block[i : i + int(size)])
    c.finish(status())


def act_sink(c, total="-1"):
    """Reads stdin, total bytes of it or up to its end; says how many and their SHA-256."""
    digest, n, want = hashlib.sha256(), 0, int(total)
    while n != want and not (want < 0 and c.closed):
        c.one()
        digest.update(c.pending)
        n += len(c.pending)
        c.pending.clear()
    c.out(f"{n} {digest.hexdigest()}")
    c.finish(status())


def act_echo(c):
    while not c.closed:
        c.one()
        for i in range(0, len(c.pending), 32768):
            c.out(bytes(c.pending[i : i + 32768]))
        c.pending.clear()
    c.finish(status())


def act_status(c, text):
    """The status in these very words, then a close."""
    c.message(3, text.encode())
    c.finish(None)


def act_close(c, code="1000", reason=""):
    c.out("some output")
    c.finish(None, int(code), reason.encode())


def act_cut(c, where="after"):
    """The connection ends: after a message, inside one, inside a frame's head, by a reset."""
    c.out("before the cut")
    if where == "inside":
        c.send(frame(BINARY, b"\1" + b"x" * 1000)[:500])
    elif where == "head":
        c.send(b"\x82")
    elif where == "status":
        c.send(frame(BINARY, b'\3{"status":"Success"}')[:10])
    elif where == "reset":
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def act_unread(c, wait_for="1"):
    """Ends while stdin lies unread: the kernel resets the connection behind the last words."""
    if isinstance(c.sock, ssl.SSLSocket):
        c.fill()
    else:
        while not select.select([c.sock], [], [], 30)[0]:
            pass
    time.sleep(float(wait_for) / 1000)
    c.out("last words")
    c.message(3, json.dumps(status(7)).encode())
    c.send(frame(CLOSE, struct.pack(">H", 1000)))


def act_half_close(c):
    """v5: the server closes its stdout; stderr and the status still come."""
    c.out("out")
    c.send(frame(BINARY, b"\xff\x01"))
    c.message(2, b"err")
    c.finish(status(3))


def act_empty(c):
    """Nothing, in every form that it has."""
    c.send(frame(BINARY))
    c.message(1, b"")
    c.message(2, b"")
    c.send(frame(BINARY, b"", False) + frame(CONT, b"", False) + frame(CONT, b""))
    c.send(frame(BINARY, b"\1", False) + frame(CONT, b"", False) + frame(CONT, b"x"))
    c.message(0, b"not for us")
    c.message(9, b"no such channel")
    c.finish(status())


def act_silent(c, how="deaf"):
    """Stays and says nothing. deaf: reads nothing. pongs: answers pings, sends no data."""
    if how == "deaf":
        time.sleep(3600)
    while True:
        c.one()


def act_stall(c, ms):
    """A program that does not read: the first stdin stops all reading, as in a kubelet; then it reads on, as sink."""
    while not c.pending:
        c.one()
    first = bytes(c.pending)
    c.pending.clear()
    time.sleep(int(ms) / 1000)
    digest, n = hashlib.sha256(first), len(first)
    while not c.closed:
        c.one()
        digest.update(c.pending)
        n += len(c.pending)
        c.pending.clear()
    c.out(f"{n} {digest.hexdigest()}")
    c.finish(status())


def act_pings(c, n):
    for i in range(int(n)):
        c.send(frame(PING, b"%d" % i))
        while len(c.pongs) <= i:
            c.one()
    c.finish(status(0 if c.pongs == [b"%d" % i for i in range(int(n))] else 1))


def act_resizes(c, n):
    while len(c.resizes) < int(n):
        c.one()
    c.out(json.dumps(c.resizes))
    c.finish(status())


def act_kept(c, n):
    """Until n pings and n empty messages came."""
    while c.pings < int(n) or c.empties < int(n):
        c.one()
    c.finish(status())


def act_linger(c):
    """A status, and no close behind it."""
    c.out("all")
    c.message(3, json.dumps(status(5)).encode())
    time.sleep(3600)


def act_late(c):
    """Output behind the status."""
    c.out("before ")
    c.message(3, json.dumps(status(5)).encode())
    c.out("behind")
    c.finish(None)


def act_head(c):
    """What the request said: path, query, headers."""
    c.out(json.dumps(c.request))
    c.finish(status())


def act_illegal(c):
    """A frame that no RFC allows."""
    c.out("so far")
    c.send(b"\x87\x00")
    time.sleep(3600)


ACTS = {name[4:]: f for name, f in globals().items() if name.startswith("act_")}


def refuse(c, code, form="json", text="no"):
    """HTTP instead of a WebSocket."""
    st = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text, "code": int(code)}
    st["reason"] = {"401": "Unauthorized", "403": "Forbidden", "404": "NotFound", "400": "BadRequest"}.get(code, "")
    body = json.dumps(st).encode()
    head = f"HTTP/1.1 {code} Whatever\r\nContent-Type: application/json\r\n"
    if form == "bare":
        c.send(f"HTTP/1.1 {code} Whatever\r\nContent-Length: 0\r\n\r\n".encode())
    elif form == "text":
        c.send(f"HTTP/1.1 {code} Whatever\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    elif form == "json":
        c.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    elif form == "chunked":
        c.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(body), 10):
            c.send(b"%x\r\n" % len(body[i : i + 10]) + body[i : i + 10] + b"\r\n")
        c.send(b"0\r\n\r\n")
    elif form == "slow":
        c.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:20])
        time.sleep(0.3)
        c.send(body[20:])
    elif form == "eof":
        c.send(head.encode() + b"Connection: close\r\n\r\n" + body)
        return
    elif form == "endless":
        c.send(head.encode() + b"\r\n")
        while True:
            c.send(b"x" * 65536)
    elif form == "redirect":
        c.send(f"HTTP/1.1 {code} Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".encode())
    elif form == "noise":
        c.send(b"SSH-2.0-OpenSSH_9.2p1\r\n")
    # the connection stays open: whoever waits for its end waits
    try:
        while True:
            c.fill()
            c.buf.clear()
    except Gone:
        pass


def modifiers(c, words, offer):
    """Takes the modifiers off; returns the protocol to choose, or None when the client was refused."""
    choice = V5 if V5 in offer else V4
    while words:
        if words[0] == "v4":
            choice = V4
        elif words[0] == "drip":
            c.drip = True
        elif words[0] == "fragment":
            c.fragment = True
        elif words[0] == "old":  # a server that knows v4 and answers anything else with a bare 403
            if V5 in offer:
                c.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return None
            choice = V4
        elif words[0] == "noproto":
            choice = ""
        elif words[0] == "oddproto":
            choice = "v9.channel.k8s.io"
        elif words[0] == "badaccept":
            c.request["key"] += "x"
        elif words[0] == "mute":  # never answers
            time.sleep(3600)
        else:
            break
        words.pop(0)
    return choice


def serve(sock):
    c = Conn(sock)
    head = c.head()
    line, *fields = head.split("\r\n")
    headers = {k.lower(): v for k, _, v in (f.partition(": ") for f in fields if f)}
    url = urllib.parse.urlsplit(line.split(" ")[1])
    query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
    offer = [p.strip() for p in headers.get("sec-websocket-protocol", "").split(",")]
    c.request = {"line": line, "path": url.path, "query": query, "headers": headers, "key": headers["sec-websocket-key"]}
    words = query["command"]
    choice = modifiers(c, words, offer)
    if choice is None:
        return
    if words[0] == "refuse":
        refuse(c, *words[1:])
        return
    accept = base64.b64encode(hashlib.sha1(c.request["key"].encode() + GUID).digest()).decode()
    answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    answer += f"Sec-WebSocket-Accept: {accept}\r\n" + (f"Sec-WebSocket-Protocol: {choice}\r\n" if choice else "")
    c.version = 5 if choice == V5 else 4
    c.send(answer.encode() + b"\r\n")
    ACTS[words[0]](c, *words[1:])


def proxy(sock):
    """CONNECT; secret.test wants Basic (user:p@ss), refused.test does not exist; all others are this machine."""
    c = Conn(sock)
    head = c.head()
    line = head.split("\r\n")[0]
    host, port = line.split(" ")[1].rsplit(":", 1)
    want = base64.b64encode(b"user:p@ss").decode()
    if host == "refused.test":
        c.send(b"HTTP/1.1 502 No such host\r\n\r\n")
        return
    if host == "secret.test" and want not in head:
        c.send(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        return
    up = socket.create_connection(("127.0.0.1", int(port)))
    c.send(b"HTTP/1.1 200 Connection established\r\nVia: fake\r\n\r\n")
    while True:
        for s in select.select([sock, up], [], [])[0]:
            data = s.recv(65536)
            if not data:
                return
            (up if s is sock else sock).sendall(data)


def run(sock, context, handler):
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            sock = context.wrap_socket(sock, server_side=True)
        handler(sock)
    except (Gone, OSError):
        pass
    finally:
        sock.close()


def listen(context=None, handler=serve, family=socket.AF_INET, address="127.0.0.1"):
    s = socket.socket(family)
    s.bind((address, 0))
    s.listen(128)

    def accept():
        while True:
            conn, _ = s.accept()
            threading.Thread(target=run, args=(conn, context, handler), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return s.getsockname()[1]


def openssl(cwd, *args):
    subprocess.run(["openssl", *args], cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_certificates(d):
    """ca, other (a CA of strangers); server, expired, client: signed by ca; client has an intermediate."""
    names = "subjectAltName=DNS:api.test,IP:127.0.0.1,IP:::1"
    for ca in ("ca", "other"):
        openssl(d, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={ca}",
                "-days", "2", "-keyout", f"{ca}.key", "-out", f"{ca}.pem")  # fmt: skip
    with open(f"{d}/server.ext", "w", encoding="ascii") as f:
        f.write(names + "\n")
    with open(f"{d}/inter.ext", "w", encoding="ascii") as f:
        f.write("basicConstraints=critical,CA:TRUE\n")
    for name, signer, ext, days in (
        ("server", "ca", "server.ext", "2"),
        ("expired", "ca", "server.ext", "-1"),
        ("inter", "ca", "inter.ext", "2"),
        ("client", "inter", None, "2"),
    ):
        openssl(d, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        openssl(d, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey", f"{signer}.key",
                "-set_serial", str(time.time_ns()), "-days", days, "-out", f"{name}.pem",
                *(["-extfile", ext] if ext else []))  # fmt: skip
    with open(f"{d}/client-chain.pem", "w", encoding="ascii") as f:
        for name in ("client", "inter"):
            with open(f"{d}/{name}.pem", encoding="ascii") as g:
                f.write(g.read())


def server_context(d, name, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{d}/{name}.pem", f"{d}/{name}.key")
    context.set_alpn_protocols(["http/1.1"])
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(f"{d}/{client_ca}.pem")
    return context


def main():
    d = sys.argv[1]
    make_certificates(d)
    dead = socket.socket()  # bound, not listening: refuses
    dead.bind(("127.0.0.1", 0))
    ports = {
        "plain": listen(),
        "tls": listen(server_context(d, "server")),
        "expired": listen(server_context(d, "expired")),
        "mutual": listen(server_context(d, "server", "ca")),
        "tls6": listen(server_context(d, "server"), serve, socket.AF_INET6, "::1"),
        "proxy": listen(None, proxy),
        "dead": dead.getsockname()[1],
    }
    print(json.dumps(ports), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
