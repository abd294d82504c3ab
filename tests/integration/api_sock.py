"""api_sock.py SOCKET AGENT, token on stdin: the API's Unix socket and its WebSocket of programs, as a program speaks them."""
import base64, hashlib, json, os, signal, socket, struct, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from websocket import Closed, WebSocket  # noqa: E402

path, agent = sys.argv[1:3]
token = sys.stdin.readline().strip()
INPUT, WINDOW, SIGNAL, EOF, START = b"\x00", b"\x21", b"\x23", b"\x24", b"\x25"
OUTPUT, STDERR, OPENED, EXIT, ERROR, FILE = 1, 2, 0x10, 0x13, 0x14, 0x1a


def equal(what, expected, got):
    if expected != got:
        sys.exit("FAILED: %s: expected %r, got %r" % (what, expected, got))
    print("  ok: " + what, flush=True)


def exchange(*pieces, wait=0.05):
    """What is answered until the connection ends."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path)
    got = b""
    try:
        for p in pieces:
            s.sendall(p)
            time.sleep(wait)
        while more := s.recv(65536):
            got += more
    except (BrokenPipeError, ConnectionResetError):
        pass
    s.close()
    return got


class Exec:
    """A program by WebSocket: what came of it, by stream, and its end."""

    def __init__(self, start, window=True):
        self.w = WebSocket(path, "/v1/agents/%s/exec" % agent, token)
        self.out = {OUTPUT: b"", STDERR: b""}
        self.end = self.error = self.opened = None
        self.base, self.transfer = 0, isinstance(start, dict) and "file" in start
        self.w.frame(START + (start if isinstance(start, bytes) else json.dumps(start).encode()))
        if window:
            for stream in (1, 2):
                self.w.frame(WINDOW + struct.pack("<BQ", stream, 1 << 62))

    def step(self):
        m = self.w.message()
        if m[0] in self.out:
            offset, data = struct.unpack("<Q", m[1:9])[0], m[9:]
            self.base = offset if not self.out[m[0]] and self.transfer else self.base  # content begins where it does
            assert offset - self.base == len(self.out[m[0]]), (offset, self.base, len(self.out[m[0]]))
            self.out[m[0]] += data
        elif m[0] == OPENED:
            self.opened = json.loads(m[1:])
        elif m[0] in (EXIT, FILE):
            self.end = json.loads(m[1:])
        elif m[0] == ERROR:
            self.error = json.loads(m[1:])

    def rest(self):
        try:
            while True:
                self.step()
        except Closed as c:
            self.closed = c
        return self

    def until(self, text):
        while text not in self.out[OUTPUT]:
            self.step()


head = "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % token
got = exchange(head[:30].encode(), head[30:60].encode(), head[60:].encode())
equal("a head in pieces", b"HTTP/1.1 200 OK", got.split(b"\r\n")[0])
got = exchange((head * 3).encode())
equal("one request a connection, the rest is not answered", (1, True), (got.count(b"HTTP/1.1 "), b"Connection: close" in got))
got = exchange(b"GET /v1/agents HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
equal("two hosts", b"HTTP/1.1 400 Bad Request", got.split(b"\r\n")[0])
began = time.monotonic()
equal("a head that never ends: nothing, and the end", (b"", True), (exchange(head[:40].encode()), time.monotonic() - began < 19))

x = Exec({"argv": ["sh", "-c", "cat; echo two >&2; exit 5"], "stdin_open": True})
data = os.urandom(3_000_000)


def type_all():
    for at in range(0, len(data), 60_000):
        x.w.frame(INPUT + data[at:at + 60_000])
    x.w.frame(EOF)


typing = threading.Thread(target=type_all)
typing.start()
x.rest()
typing.join()
equal("input, both streams, the code", (data, b"two\n", 5, 1000), (x.out[OUTPUT], x.out[STDERR], x.end["exit"]["code"], x.closed.code))
equal("its digest", hashlib.sha256(data).hexdigest(), x.end["stdout"]["sha256"])
x = Exec({"argv": ["sh", "-c", "echo ${#1}", "sh", "x" * 120_000]}).rest()
equal("a long argument", b"120000\n", x.out[OUTPUT])
x = Exec({"argv": ["sleep", "60"]})
while not x.opened:
    x.step()
x.w.frame(SIGNAL + bytes([signal.SIGTERM]))
equal("a signal", "TERM", x.rest().end["exit"]["signal"])
x = Exec({"command": "tty; stty size; echo $TERM", "pty": {"cols": 93, "rows": 31, "term": "vt220"}}).rest()
equal("a terminal for a program", [b"31 93", b"vt220"], x.out[OUTPUT].split(b"\r\n")[1:3])
x = Exec({"pty": {}, "stdin_open": True})
x.w.frame(INPUT + b"echo $((40 + 2)); exit\n")
x.until(b"42")
equal("a login shell", 0, x.rest().end["exit"]["code"])
x = Exec({"argv": ["head", "-c", "1000000", "/dev/zero"]}, window=False)
while len(x.out[OUTPUT]) < 131072:
    x.step()
x.w.sock.settimeout(1)
try:
    x.step()
    sys.exit("FAILED: more came than the window allows")
except TimeoutError:
    x.w.sock.settimeout(30)
x.w.frame(WINDOW + struct.pack("<BQ", 1, 1 << 40))
equal("the window holds output back", 1000000, len(x.rest().out[OUTPUT]))

name = {"base64": base64.b64encode(b"n\xff\xfe").decode()}
x = Exec({"file": {"op": "put", "path": name, "mode": 0o640}})
x.w.frame(INPUT + b"content")
x.w.frame(EOF)
equal("a put of a name that is not UTF-8", ("0640", 7), (x.rest().end["file"]["mode"], x.end["file"]["size"]))
x = Exec({"file": {"op": "get", "path": name}}).rest()
equal("and its get", (b"content", hashlib.sha256(b"content").hexdigest()), (x.out[OUTPUT], x.end["file"]["sha256"]))

same = {"argv": ["echo", "once"], "exec_id": "sock"}
Exec(same).rest()
seen = Exec(same)
m = seen.w.message()
equal("the same exec_id: what became of it", (0x19, "finished"), (m[0], json.loads(m[1:])["state"]))
for what, start, code in (("no JSON", b"{", "invalid_request"), ("nothing to run", {}, "invalid_request"),
                          ("a key of a round's body alone", {"argv": ["true"], "wait_ms": 1}, "invalid_request"),
                          ("both", {"argv": ["true"], "command": "true", "pty": {}}, "invalid_request"),
                          ("a size that is none", {"pty": {"cols": 0}}, "invalid_request"),
                          ("a path of two kinds", {"file": {"op": "get", "path": {"base64": "!"}}}, "invalid_request"),
                          ("no such transfer", {"file": {"op": "move", "path": "a"}}, "invalid_request"),
                          ("a file that is not there", {"file": {"op": "get", "path": "none"}}, "file_not_found"),
                          ("a program that is not there", {"argv": ["/none"]}, "program_not_found")):
    x = Exec(start).rest()
    got = x.error["code"] if x.error else "exit %s" % (x.end or {}).get("exit")
    equal("refused: " + what, code, got)
equal("and the round that did not start is named", 36, len(x.error["details"]["round_id"]))
w = WebSocket(path, "/v1/agents/%s/exec" % agent, token)
w.frame(INPUT + b"x")
equal("input before START", 4400, w.end().code)
x = Exec({"argv": ["sleep", "60"]})
x.w.frame(START + b"{}")
equal("START twice", 4400, x.rest().closed.code)
w = WebSocket(path, "/v1/agents/%s/exec" % agent, token)
equal("START never", 4504, w.end().code)
w = WebSocket(path, "/v1/agents/%s/exec" % agent, "nonsense")
w.frame(START + b"{}")
equal("a grant that is none", 4401, w.end().code)
w = WebSocket(path, "/v1/agents/%s/exec" % agent, token)
w.sock.sendall(b"\x82\x03\x25{}")  # not masked
equal("a frame without a mask", 1002, w.end().code)
