"""web_return.py STATE AGENT TOKENFILE CONFIG DAEMON STRANGERFILE: clients of the browser door while something stands still."""
import hashlib, json, os, signal, struct, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Closed, Terminal  # noqa: E402

state, agent, tokenfile, config, daemon, strangerfile = sys.argv[1:7]
token, stranger = (open(f).read().strip() for f in (tokenfile, strangerfile))
MISSED, MUCH = 3 << 20, 10 << 20


def ok(what):
    print("  ok: " + what, flush=True)


def equal(what, expected, got):
    if expected != got:
        sys.exit("FAILED: %s: expected %r, got %r" % (what, expected, got))
    ok(what)


def ready():
    with open(state + "/ready.json") as f:
        return json.load(f)


def ctl(*args):
    return subprocess.run([os.environ["MUXCTL"], "--state", state, *args], capture_output=True, timeout=60)


def until(what, condition):
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            sys.exit("FAILED: " + what)
        time.sleep(0.1)


class Client(Terminal):
    """still: it does not move its window."""

    def __init__(self, path, still=False, token=token):
        self.still, self.pong, self.taken = still, None, 0
        super().__init__(ready()["https"], path, token, cafile=state + "/keys/tls.crt")

    def move(self):
        if not self.still:
            super().move()

    def message(self):
        m = super().message()
        if m[0] == 0x15:
            self.pong = m[1:]
        elif m[0] == 0x18:
            self.taken = struct.unpack("<Q", m[1:])[0]
        return m

    def answered(self, what):
        """A ping is answered; what is shown meanwhile."""
        self.frame(b"\x22" + what)
        got = b""
        while self.pong != what:
            got += self.step() or b""
        return got

    def notices(self, words):
        while words not in (self.notice or {}).get("text", ""):
            self.step()


def terminal(command):
    """A terminal whose shell gives way to the command, which says READY; and what it has said behind that."""
    t = Client("/v1/agents/%s/terminal?cols=80&rows=24" % agent)
    t.keys(b"stty -echo; PS1=; exec sh -c '" + command.encode() + b"'\n")
    return t, t.until(b"READY\r\n").split(b"READY\r\n", 1)[1]


def min_free(size):
    with open(config) as f:
        lines = f.read().splitlines()
    with open(config, "w") as f:
        f.write("\n".join("  min_free: " + size if "min_free" in line else line for line in lines) + "\n")
    os.kill(int(daemon), signal.SIGHUP)


# --- the record is paused
t, _ = terminal("echo RE''ADY; cat; echo be''hind; exec cat")
min_free("1TiB")
t.notices("paused")
t.keys(b"typed\n")
equal("a key that has to wait does not make the connection deaf", b"", t.answered(b"one"))
t.keys(b"more\n")
t.frame(b"\x24")
t.keys(b"after\n")
min_free("1MiB")
t.notices("can be written again")
equal("all of it arrives afterwards, in its order, on the same connection", b"typed\r\nmore\r\nbehind\r\nafter\r\n", t.until(b"after\r\n"))
t.answered(b"two")
t.close()

# --- a program that reads nothing, and then very much
t, _ = terminal("stty raw opost; echo RE''ADY; until [ -e read ]; do sleep 0.2; done; head -c %d | sha256sum" % MISSED)
pasted, sent = (b"what is pasted 0123456789abcdef\n" * (MISSED // 32 + 1))[:MISSED], 0
while sent < MISSED and sent - t.taken < 98304:
    t.keys(pasted[sent:sent + 16384])
    sent += 16384
    t.answered(b"%d" % sent)
    t.answered(b"and what came with that")
equal("what no program reads is not taken, and does not make the connection deaf", True, sent < MISSED)
if ctl("exec", "-n", agent, "--", "touch", "read").returncode:
    sys.exit("FAILED: the program is not told to read")
while sent < MISSED:
    if sent - t.taken < 98304:
        t.keys(pasted[sent:sent + 16384])
        sent += 16384
    else:
        t.step()
equal("3 MiB at the pace at which they are taken", hashlib.sha256(pasted).hexdigest().encode(), t.until(b"-").split(b" ")[0])
t.close()

# --- the session ends while what a client missed is on its way
t, first = terminal("echo RE''ADY; head -c %d /dev/zero | tr \"\\\\0\" x; echo DO''NE; until [ -e go ]; do sleep 0.2; done" % MISSED)
session, start = t.opened["session"], t.offset - len(first)
digest = hashlib.sha256(first + t.until(b"DONE\r\n"))
end = t.offset
equal("a program has printed 3 MiB and waits", MISSED + 6, end - start)
t.close()
net = ready()["pids"]["net"]
os.kill(net, signal.SIGKILL)
until("the daemon does not come back", lambda: ready()["pids"]["net"] != net and ctl("session", "list").returncode == 0)


def path(offset):
    return "/v1/sessions/%s/attach?role=driver&offset=%d" % (session, offset)


def is_running():
    sessions = json.loads(ctl("session", "list", "--agent", agent, "-o", "json").stdout)["sessions"]
    return any(s["id"] == session and s["state"] == "running" for s in sessions)


def all_of_it(t, what, got=b""):
    h = hashlib.sha256(got)
    t.still = False
    t.move()
    closed = t.rest(h.update)
    equal(what, (end, digest.hexdigest(), 1000, 0), (t.offset, h.hexdigest(), closed.code, t.exit and t.exit["exit"]["code"]))
    t.close()


until("the program is not found again", is_running)
t = Client(path(start), still=True)
got = t.answered(b"joined")
if ctl("exec", "-n", agent, "--", "touch", "go").returncode:
    sys.exit("FAILED: the program is not told to go on")
until("the program does not end", lambda: not is_running())
got += t.answered(b"ended")
equal("the end waits while the client holds its window", None, t.exit)
all_of_it(t, "every byte comes before the end", got)
t = Client(path(start), still=True)
t.keys(b"x")
got = t.answered(b"deaf")
all_of_it(t, "a key typed into the past of a session that has ended does not stop it", got)
t.close()

# --- it ends while its page is cut, and is forgotten: by a restart, by other sessions
def ended_and_forgotten(forget, what, status=7):
    t, first = terminal("echo RE''ADY; until [ -e go%d ]; do sleep 0.2; done; seq 2000; exit %d" % (status, status))
    session, offset = t.opened["session"], t.offset
    t.close()
    if ctl("exec", "-n", agent, "--", "touch", "go%d" % status).returncode:
        sys.exit("FAILED: the program is not told to go on")
    until("the program does not end", lambda: session not in live_sessions())
    forget(session)
    path = "/v1/sessions/%s/attach?role=driver&offset=%d" % (session, offset)
    got = []
    t = Client(path)
    closed = t.rest(got.append)
    expected = b"".join(b"%d\r\n" % i for i in range(1, 2001))
    equal(what, (True, 1000, status, len(expected) + offset),
          (b"".join(got) == expected, closed.code, t.exit and t.exit["exit"]["code"], t.exit and t.exit["stdout"]["total_bytes"]))
    equal("and who it was", (session, agent, "terminal"), tuple(t.opened[k] for k in ("session", "agent", "kind")))
    t.close()
    try:
        t = Client(path.replace("offset=%d" % offset, "offset=%d" % (1 << 40)))
        sys.exit("FAILED: an offset behind the end is taken")
    except Closed as c:
        equal("an offset behind its end is not one", 4400, c.code)
    try:
        t = Client(path, token=stranger)
        sys.exit("FAILED: a stranger is told of it")
    except Closed as c:
        equal("a stranger is not told that there was one", 4404, c.code)


def sessions():
    return json.loads(ctl("session", "list", "--agent", agent, "-o", "json").stdout)["sessions"]


def live_sessions():
    return [s["id"] for s in sessions() if s["state"] != "ended"]


def printed(session):
    return sum(s["output_bytes"] for s in sessions() if s["id"] == session)


def restart(session):
    net = ready()["pids"]["net"]
    os.kill(net, signal.SIGKILL)
    until("the daemon does not come back", lambda: ready()["pids"]["net"] != net and ctl("session", "list").returncode == 0)


def is_forgotten(session):
    try:
        Client("/v1/sessions/%s/attach?role=driver" % session).close()
    except Closed as c:
        return c.code == 4404  # 4409: it has ended, and is still in memory
    return False


def rounds(session):
    for _ in range(4):  # rounds.keep_max is 3
        if ctl("exec", "-n", agent, "--", "true").returncode:
            sys.exit("FAILED: a round")
    until("others do not take its place", lambda: is_forgotten(session))


ended_and_forgotten(restart, "who comes back to a session that ended before a restart is sent the rest, then the end", 7)
ended_and_forgotten(rounds, "who comes back to a session that others took the place of, too", 8)

# --- more was missed than is sent again: the screen comes behind it
t, first = terminal("echo RE''ADY; printf \"\\033[?1049h\\033[?1h\\033[2Jfull-screen\"; until [ -e much ]; do sleep 0.2; done; "
                "head -c %d /dev/zero | tr \"\\0\" \"\\r\"; printf \"DO\"\"NE\"; exec cat" % MUCH)
if b"full-screen" not in first:
    t.until(b"full-screen")
session, offset = t.opened["session"], t.offset
t.close()
if ctl("exec", "-n", agent, "--", "touch", "much").returncode:
    sys.exit("FAILED: the program is not told to go on")
end = offset + MUCH + len(b"DONE")
until("the program does not print all of it", lambda: printed(session) == end)


def with_screen(path):
    """A client that has got its screen: a machine that is too busy may not have one in time, then it comes back."""
    for _ in range(10):
        t = Client(path)
        t.sock.settimeout(15)
        try:
            while not t.screens:
                t.step()
            return t
        except TimeoutError:
            t.close()
    sys.exit("FAILED: there is no screen at " + path)


t = with_screen("/v1/sessions/%s/attach?role=driver&offset=%d" % (session, offset))
fresh = with_screen("/v1/sessions/%s/attach?role=driver" % session)
equal("behind what was skipped comes the screen, with its modes", (1, end, fresh.screen), (t.skips, t.offset, t.screen))
fresh.close()
t.close()
