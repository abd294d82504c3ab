#!/usr/bin/env python3
"""A server for the story of ports: HTTP/1.1 with answers of many kinds, and WebSockets, in one file of the standard
library, so that it runs inside any sandbox that has Python. router_server.py [PORT]"""
import base64
import hashlib
import http.server
import socket
import socketserver
import struct
import sys
import time

GIB = 1 << 30
PIECE = bytes(range(256)) * 256
connections = {"open": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        connections["open"] += 1

    def finish(self):
        connections["open"] -= 1
        super().finish()

    def body(self):
        """The request's body: its size and digest."""
        total, digest = 0, hashlib.sha256()

        def take(n):
            nonlocal total
            while n:
                data = self.rfile.read(min(n, 65536))
                if not data:
                    raise ConnectionError("the body ended early")
                digest.update(data)
                total += len(data)
                n -= len(data)

        if self.headers.get("Transfer-Encoding", "") == "chunked":
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                take(n)
                self.rfile.readline()
                if not n:
                    break
        else:
            take(int(self.headers.get("Content-Length", 0)))
        return total, digest.hexdigest()

    def say(self, text, status=200, extra=()):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for k, v in extra:
            self.send_header(k, v)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def begin_chunks(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def any(self):
        path = self.path.split("?")[0]
        name = "do_" + path.strip("/").split("/")[0].replace("-", "_")
        getattr(self, name, self.do_echo)()

    def do_echo(self):
        """What came: the request line, its fields, its body's size and digest."""
        total, digest = self.body()
        fields = "".join("%s: %s\n" % kv for kv in self.headers.items())
        self.say("%s %s\n%s\n%d %s\n" % (self.command, self.path, fields, total, digest),
                 extra=[("X-Inside", "yes"), ("Connection", "X-Hop"), ("X-Hop", "gone"), ("Keep-Alive", "timeout=9"),
                        ("Set-Cookie", "mine=1"), ("Set-Cookie", "__Host-muxd=stolen")])

    def do_big(self):
        """?n bytes, of known length."""
        n = int(self.path.split("?")[1])
        self.send_response(200)
        self.send_header("Content-Length", str(n))
        self.end_headers()
        while n:
            k = min(n, len(PIECE))
            self.wfile.write(PIECE[:k])
            n -= k

    def do_close(self):
        """A body that ends with the connection."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"until the end")
        self.close_connection = True

    def do_chunks(self):
        self.begin_chunks("text/plain")
        for i in range(1000):
            self.chunk(b"%d\n" % i)
        self.chunk(b"")

    def do_events(self):
        """Server-sent events; the next when a file appears."""
        self.begin_chunks("text/event-stream")
        self.chunk(b"data: first\n\n")
        while not __import__("os").path.exists("/workspace/go"):
            time.sleep(0.02)
        self.chunk(b"data: second\n\n")
        self.chunk(b"")

    def do_hold(self):
        """Says a little, then nothing, until the other side closes; then leaves a file."""
        self.begin_chunks("text/plain")
        self.chunk(b"held\n")
        self.connection.recv(1)
        open("/workspace/released", "w").close()

    def do_silent(self):
        """Takes the request and never answers."""
        self.connection.recv(1)

    def reset(self):
        """Without a FIN before it, which shutdown() would send."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.close(self.connection.detach())
        raise ConnectionAbortedError("reset")

    def do_abort(self):
        """Half of what it promised, then a reset."""
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(b"x" * 1000)
        self.wfile.flush()
        self.reset()

    def do_abort_open(self):
        """A body without a length, then a reset."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 1000)
        self.wfile.flush()
        self.reset()

    def do_nothing(self):
        """Closes without a word."""
        self.close_connection = True

    def do_garbage(self):
        self.wfile.write(b"220 mail.example ESMTP\r\n")
        self.wfile.flush()
        self.close_connection = True

    def do_open(self):
        self.say("%d\n" % connections["open"])

    def do_ws(self):
        """Upgrades; echoes each frame; at the end of what the client sends says how much it was."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Accept: %s\r\n\r\n" % accept).encode())
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                break
            n = head[1] & 127
            if n == 126:
                n = struct.unpack(">H", self.rfile.read(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self.rfile.read(8))[0]
            mask = self.rfile.read(4)
            data = self.rfile.read(n)
            data = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big")).to_bytes(n, "big")
            head = bytes([head[0]]) + (bytes([n]) if n < 126 else struct.pack(">BH", 126, n) if n < 65536 else
                                       struct.pack(">BQ", 127, n))
            self.wfile.write(head + data)
            self.wfile.flush()
            if head[0] & 15 == 8:
                break
        self.close_connection = True

    def do_count(self):
        """Upgrades to a protocol of its own: counts bytes until their end, then says the count."""
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: count\r\nConnection: Upgrade\r\n\r\n")
        self.wfile.flush()
        total = 0
        while data := self.connection.recv(65536):
            total += len(data)
        self.wfile.write(b"%d bytes\n" % total)
        self.close_connection = True

    def __getattr__(self, name):
        if name.startswith("do_") and name[3:].isupper():
            return self.any
        raise AttributeError(name)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler).serve_forever()


main()
