"""A WebSocket client for the browser door: bare enough to break its rules. docs/protocol.md, "The browser door"."""
import base64, json, os, socket, ssl, struct

SUBPROTOCOL = "muxd.v1"


class Closed(Exception):
    """The other side closed: code (1006: without a close frame) and reason."""

    def __init__(self, code, reason=""):
        super().__init__("%d %s" % (code, reason))
        self.code, self.reason = code, reason


class WebSocket:
    def __init__(self, address, path, token=None, cookie=None, origin=None, protocol=SUBPROTOCOL, headers=(), timeout=60, cafile=None):
        if address.startswith("/"):  # the Unix socket: no TLS
            self.plain = self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(address)
        else:
            host, port = address.rsplit(":", 1)
            context = ssl.create_default_context(cafile=cafile) if cafile else ssl._create_unverified_context()
            self.plain = socket.create_connection((host, int(port)), timeout=timeout)
            self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = context.wrap_socket(self.plain, server_hostname=host)
        lines = ["GET %s HTTP/1.1" % path, "Host: " + ("localhost" if address.startswith("/") else address), "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Protocol: " + protocol] if protocol else []
        lines += ["Authorization: Bearer " + token] if token else []
        lines += ["Cookie: __Host-muxd=" + cookie] if cookie else []
        lines += ["Origin: " + origin] if origin else []
        self.sock.sendall(("\r\n".join(lines + list(headers)) + "\r\n\r\n").encode())
        self.buffer, self.at = bytearray(), 0
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer, self.at = bytearray(rest), 0
        self.status = int(head.split()[1])
        self.head = head.decode("latin-1")

    def _fill(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise Closed(1006)
        if self.at > 1 << 20:
            del self.buffer[:self.at]
            self.at = 0
        self.buffer += data

    def _take(self, n):
        while len(self.buffer) - self.at < n:
            self._fill()
        piece = bytes(self.buffer[self.at:self.at + n])
        self.at += n
        return piece

    def message(self):
        """The next binary message; pings are answered."""
        while True:
            first, second = self._take(2)
            n = second & 127
            if n == 126:
                n = struct.unpack(">H", self._take(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self._take(8))[0]
            data = self._take(n)
            if first & 15 == 8:
                self.answer_close(data)
                raise Closed(struct.unpack(">H", data[:2])[0] if n >= 2 else 1005, data[2:].decode())
            if first & 15 == 9:
                self.frame(data, 10)
            elif first & 15 == 2:
                return data

    def answer_close(self, data):
        """RFC 6455, 5.5.1: the answer, after which the other side says nothing more."""
        try:
            self.frame(data, 8)
            self._fill()
        except Closed:
            return
        except (ssl.SSLError, OSError):
            return
        raise AssertionError("something came behind the close frame")

    def frame(self, data, opcode=2, final=True):
        n, mask = len(data), os.urandom(4)
        head = bytes([(0x80 if final else 0) | opcode])
        head += bytes([0x80 | n]) if n < 126 else bytes([0x80 | 126]) + struct.pack(">H", n) if n < 65536 else bytes([0x80 | 127]) + struct.pack(">Q", n)
        key = (mask * (n // 4 + 1))[:n]
        self.sock.sendall(head + mask + (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big"))

    def end(self):
        """Messages until the other side closes; the code and reason it gives."""
        try:
            while True:
                self.message()
        except Closed as c:
            return c
        except (ssl.SSLError, ConnectionError):
            return Closed(1006)

    def close(self):
        self.sock.close()


class Terminal(WebSocket):
    """A session: output by offset, window, the end."""

    WINDOW = 1 << 20

    def __init__(self, address, path, token=None, **more):
        super().__init__(address, path, token, **more)
        if self.status != 101:
            raise Closed(1006, self.head)
        self.opened = self.notice = self.exit = self.error = None
        self.offset = self.granted = self.screens = self.skips = 0
        self.screen = b""  # the last one
        self.partial = False  # a screen was said to be drawn from a part of the output
        while self.opened is None:
            self.step()

    def step(self):
        """One message. Output comes back as bytes, all else as None, and is kept."""
        m = self.message()
        kind, rest = m[0], m[1:]
        if kind == 0x01:
            at = struct.unpack("<Q", rest[:8])[0]
            if at != self.offset:
                raise AssertionError("output at %d, not %d" % (at, self.offset))
            self.offset += len(rest) - 8
            self.move()
            return rest[8:]
        if kind == 0x10:
            self.opened = json.loads(rest)
            self.offset = self.opened["offset"]
            self.granted = self.offset + (128 << 10)
            self.move()
        elif kind == 0x11:
            self.notice = json.loads(rest)
            self.partial = self.notice.get("exact") is False or self.partial
        elif kind == 0x12:
            start, end = struct.unpack("<QQ", rest[1:17])
            if end <= start or (rest[0] == 1 and start != self.offset):
                raise AssertionError("a hole from %d to %d, at %d" % (start, end, self.offset))
            self.skips += 1
            if rest[0] == 1:
                self.offset = end
                self.move()
        elif kind == 0x13:
            self.exit = json.loads(rest)
        elif kind == 0x14:
            self.error = json.loads(rest)
        elif kind == 0x16:
            self.offset = struct.unpack("<Q", rest[:8])[0]
            self.screen = rest[12:]
            self.screens += 1
            self.move()
            return None
        return None

    def move(self):
        if self.offset + self.WINDOW - self.granted >= self.WINDOW // 4:
            self.granted = self.offset + self.WINDOW
            self.frame(b"\x21\x01" + struct.pack("<Q", self.granted))

    def keys(self, data):
        self.frame(b"\x00" + data)

    def until(self, mark):
        """Output up to and with mark."""
        got = b""
        while mark not in got:
            got += self.step() or b""
        return got

    def rest(self, sink=None):
        """Everything to the end; how it was closed."""
        try:
            while True:
                data = self.step()
                if data and sink:
                    sink(data)
        except Closed as c:
            return c
