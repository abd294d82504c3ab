"""web_hostile.py ADDRESS AGENT TOKENFILE NETPID: what bad clients of the browser door get, and that nobody else notices."""
import concurrent.futures, json, os, re, socket, ssl, struct, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Closed, Terminal, WebSocket  # noqa: E402

address, agent, tokenfile, pid = sys.argv[1:5]
token = open(tokenfile).read().strip()
path = "/v1/agents/%s/terminal?cols=80&rows=24" % agent
here = "https://" + address


def equal(what, expected, got):
    if expected != got:
        sys.exit("FAILED: %s: expected %r, got %r" % (what, expected, got))
    print("  ok: " + what, flush=True)


def memory():
    with open("/proc/%s/smaps_rollup" % pid) as f:
        return int(re.search(r"Pss_Anon:\s+(\d+)", f.read()).group(1))


def refused(what, status, **how):
    where = how.pop("path", path)
    w = WebSocket(address, where, **how)
    equal(what, status, w.status)
    w.close()


def closed(what, code, says, send, **how):
    """Opens a terminal, sends, and is closed with code and a sentence; an ERROR came before it."""
    t = Terminal(address, path, token)
    send(t)
    c = t.rest()
    if c.code != code or says not in c.reason or not t.error or says not in t.error["message"]:
        sys.exit("FAILED: %s: %s, %s" % (what, c, t.error))
    print("  ok: %s: %s" % (what, c), flush=True)
    t.close()


def said(what, code, says, **how):
    """The upgrade works, and then it is told why nothing comes of it."""
    w = WebSocket(address, how.pop("path", path), **how)
    equal(what + ": upgraded", 101, w.status)
    c = w.end()
    if c.code != code or says not in c.reason:
        sys.exit("FAILED: %s: %s" % (what, c))
    print("  ok: %s: %s" % (what, c), flush=True)
    w.close()


class Neighbour(threading.Thread):
    """Somebody who works: types a line and waits for its echo, again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.t = Terminal(address, path, token)
        self.t.keys(b"PS1=; stty -echo\n")
        self.done, self.worst, self.n, self.failed = False, 0, 0, None

    def run(self):
        try:
            while not self.done:
                start = time.monotonic()
                self.t.keys(b"echo line-%d-%d\n" % (self.n, self.n))
                self.t.until(b"line-%d-%d\r\n" % (self.n, self.n))
                self.worst = max(self.worst, time.monotonic() - start)
                self.n += 1
                time.sleep(0.02)
        except Exception as e:  # noqa: BLE001: whatever it is, it is told at the end
            self.failed = e


neighbour = Neighbour()
neighbour.start()

# --- who may open one
refused("a page of another origin", 403, cookie=token, origin="https://evil.example")
refused("... with a bearer token too", 403, token=token, origin="https://evil.example")
refused("the right host by http", 403, cookie=token, origin="http://" + address)
refused("a cookie without an origin", 403, cookie=token)
refused("what the browser calls cross-site", 403, cookie=token, origin=here, headers=["Sec-Fetch-Site: cross-site"])
refused("another subprotocol", 400, token=token, protocol="chat")
refused("no subprotocol", 400, token=token, protocol=None)
refused("an unknown query", 400, token=token, path=path + "&shell=sh")
refused("a size out of bounds in the query", 400, token=token, path=path.replace("cols=80", "cols=0"))
refused("no such path", 404, token=token, path="/v1/nothing")
refused("a path without a WebSocket", 501, token=token, path="/v1/agents")
said("no grant", 4401, "no grant", origin=here)
said("a forged token", 4401, "sign", cookie=token[:-8] + "AAAAAAAA", origin=here)
said("text for a token", 4401, "", token="nonsense")
said("another agent", 4403, "", token=token, path=path.replace(agent, "other"))
said("a session that is not there", 4404, "session not found", token=token, path="/v1/sessions/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11/attach")
t = Terminal(address, path, cookie=token, origin=here)
equal("a cookie with the right origin", agent, t.opened["agent"])
said("an offset beyond the end", 4400, "beyond the end", token=token, path="/v1/sessions/%s/attach?offset=99999999" % t.opened["session"])
t.close()

# --- what a terminal is sent
closed("a text message", 1003, "binary", lambda t: t.frame(b"ls\n", 1))
closed("bytes that are no text in a text message", 1003, "binary", lambda t: t.frame(b"\xff\xfe\x00", 1))
closed("a size of 0x0", 4400, "not 0x0", lambda t: t.frame(b"\x20" + bytes(8)))
closed("a size of 65535x65535", 4400, "not 65535x65535", lambda t: t.frame(b"\x20" + b"\xff" * 8))
closed("a short RESIZE", 4400, "RESIZE", lambda t: t.frame(b"\x20\x50"))
closed("an unknown type", 4400, "0x7f", lambda t: t.frame(b"\x7f"))
closed("an empty message", 4400, "empty", lambda t: t.frame(b""))
closed("a WINDOW of stream 9", 4400, "stream", lambda t: t.frame(b"\x21\x09" + bytes(8)))
closed("a message of 70,000 bytes", 1009, "65,537", lambda t: t.frame(bytes(70000)))


# --- what is no frame of a client (RFC 6455, 5): the close code, and nothing of it reaches the session. All at once: each is
# heard out for the five seconds in which a client may answer a close.
def broken(data):
    t = Terminal(address, path, token)
    t.sock.sendall(data)
    c = t.rest()
    t.close()
    return c


MASK = b"\x01\x02\x03\x04"
frames = {
    "an unmasked message": b"\x82\x03\x00ls",
    "an unmasked ping": b"\x89\x00",
    "an unmasked close": b"\x88\x02\x03\xe8",
    "an unmasked message in bytes": b"\x82\x7e\x00\x80" + bytes(128),
    **{"reserved bit %02x" % bits: bytes([0x82 | bits, 0x80]) + MASK for bits in (0x40, 0x20, 0x10)},
    **{"opcode %x" % opcode: bytes([0x80 | opcode, 0x80]) + MASK for opcode in (3, 7, 11, 15)},
    "a ping in pieces": b"\x09\x80" + MASK,
    "a ping of 126 bytes": b"\x89\xfe\x00\x7e" + MASK + bytes(126),
    "a length in more bytes than it needs": b"\x82\xfe\x00\x05" + MASK + bytes(5),
    "a length in eight of them": b"\x82\xff" + (300).to_bytes(8, "big") + MASK + bytes(300),
    "a length beyond 2^63": b"\x82\xff" + b"\xff" * 8 + MASK,
    "half a close code": b"\x88\x81" + MASK + b"x",
    "a continuation of nothing": b"\x80\x80" + MASK,
    "a message inside another": b"\x02\x80" + MASK + b"\x82\x80" + MASK,
}
with concurrent.futures.ThreadPoolExecutor(len(frames)) as at_once:
    for what, c in zip(frames, at_once.map(broken, frames.values())):
        if c.code != 1002:
            sys.exit("FAILED: %s: %s" % (what, c))
        print("  ok: %s: %s" % (what, c), flush=True)


def pieces(t):
    t.frame(b"\x00" + bytes(40000), 2, False)
    t.frame(bytes(40000), 0, True)


closed("the same in two pieces", 1009, "65,537", pieces)
t = Terminal(address, path, token)
t.frame(b"\x00echo pie", 2, False)
t.frame(b"", 0, False)
t.frame(b"ces-$((6*7))\n", 0, True)
t.until(b"pieces-42")
print("  ok: an honest message in pieces arrives whole", flush=True)
t.frame(b"\x21\x01" + b"\xff" * 8)  # a window without end
t.frame(b"\x22" + b"p" * 32)
t.keys(b"sh -c 'trap \"echo in''terrupted; exit\" INT; echo wai''ting; while :; do sleep 0.1; done'; exit 0\n")
t.until(b"waiting")
t.frame(b"\x23\x02")
t.until(b"interrupted")
equal("a window of 2^64-1, a ping, a signal: fine", 1000, t.rest().code)
t.close()

# --- a client that reads nothing, and one that types without end at a program that does not read
before = memory()
t = Terminal(address, path, token)
t.keys(b"yes\n")
time.sleep(2)  # nothing is read: the window closes
typist = Terminal(address, path, token)
typist.keys(b"stty raw -echo; printf RE''ADY; sleep 1000\n")
typist.until(b"READY")
typist.sock.settimeout(1)
sent, end = 0, time.monotonic() + 20
try:
    while sent < 64 << 20 and time.monotonic() < end:
        typist.keys(b"x" * 60000)
        sent += 60000
    stopped = False
except (TimeoutError, ssl.SSLError, OSError):
    stopped = True
equal("input that nobody takes stops its sender (after %d kB)" % (sent >> 10), True, stopped)
grew = memory() - before
equal("a client that does not read, one that does not stop: the daemon grew by %d kB" % grew, True, grew < (100000 if os.environ.get("BUILD", "").endswith("/san") else 16000))
typist.close()
t.close()

# --- a thousand connections in a second or so
start, made, kept = time.monotonic(), 0, []
for i in range(1000):
    try:
        kept.append(socket.create_connection(tuple([address.rsplit(":", 1)[0], int(address.rsplit(":", 1)[1])]), timeout=5))
        made += 1
    except OSError:
        pass
took = time.monotonic() - start
for s in kept:
    s.close()
print("  ok: %d connections in %.1f s" % (made, took), flush=True)
last = None
for _ in range(100):
    try:
        last = Terminal(address, path, token)
        break
    except (Closed, OSError):
        time.sleep(0.2)
equal("somebody from the same address comes in again after it", agent, last and last.opened["agent"])
last.close()

neighbour.done = True
neighbour.join(60)
equal("the neighbour was not cut off", None, neighbour.failed)
print("  ok: the neighbour typed %d lines beside all of it, the slowest took %.0f ms" % (neighbour.n, neighbour.worst * 1000))
