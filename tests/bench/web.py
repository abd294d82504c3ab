#!/usr/bin/env python3
"""Speed of the browser door (WebSocket, TLS, recorder on) against the bare PTY, in one run. Every byte is received.

Prints a table and writes build/bench-web.json. Sizes: MIB (256), RUNS (3), SESSIONS ("1 100 500 1000")."""
import json, os, pty, re, ssl, statistics, subprocess, sys, tempfile, threading, time, tty

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Closed, Terminal  # noqa: E402

BUILD = os.environ.get("BUILD", "build")
MIB, RUNS = int(os.environ.get("MIB", "256")), int(os.environ.get("RUNS", "3"))
SESSIONS = [int(x) for x in os.environ.get("SESSIONS", "1 100 500 1000").split()]
AGENT = "webbench"
tmp = tempfile.mkdtemp(prefix="muxd-bench-web.")
os.chmod(tmp, 0o711)
state = tmp + "/state"
CAT = b"stty raw -echo; printf REA''DY; exec cat\n"


def start():
    os.mkdir(state, 0o711)
    with open(tmp + "/muxd.yaml", "w") as f:
        f.write("api: {max_connections: 3000, max_per_address: 3000, connect_rate: 3000}\nsessions: {max: 3000, max_per_agent: 3000}\n"
                "sandbox: {pids: 4096}\n")
    p = subprocess.Popen([BUILD + "/muxd", "serve", "--state", state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--config",
                          tmp + "/muxd.yaml", "--end-sandboxes"], stderr=open(tmp + "/muxd.log", "w"))
    for _ in range(300):
        if os.path.exists(state + "/ready.json"):
            return p, json.load(open(state + "/ready.json"))
        time.sleep(0.1)
    sys.exit("muxd did not start: " + open(tmp + "/muxd.log").read()[-2000:])


def note(text):
    print("# " + text, file=sys.stderr, flush=True)


def terminal(command=b"", size="cols=100&rows=30"):
    t = Terminal(ready["https"], "/v1/agents/%s/terminal?%s" % (AGENT, size), token)
    if command:
        t.keys(command)
    return t


def net_pss():
    with open("/proc/%d/smaps_rollup" % ready["pids"]["net"]) as f:
        return int(re.search(r"^Pss_Anon:\s+(\d+)", f.read(), re.M).group(1))


# --- bulk

LINE = "%06d \x1b[3%dmmodule/%d.c\x1b[0m: compiled, naïve café 漢字 \x1b[1mbold\x1b[22m end\n"


def make_text():
    block = "".join(LINE % (i, i % 8, i * 7) for i in range(8000)).encode()
    with open(tmp + "/text", "wb") as f:
        left = MIB << 20
        while left > 0:
            f.write(block[:left])
            left -= len(block)
    script = ("import sys\nblock = ''.join(%r %% (i, i %% 8, i * 7) for i in range(8000)).encode()\nleft = %d\n"
              "while left > 0:\n  sys.stdout.buffer.write(block[:left]); left -= len(block)\n" % (LINE, MIB << 20))
    t = terminal()
    t.keys(b"stty -echo; cat >make.py <<'END'\n" + script.encode() + b"END\npython3 make.py >text && echo ma''de; exit\n")
    t.until(b"made")
    t.rest()


def bulk_pty():
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "stty raw; cat " + tmp + "/text"])
    tty.setraw(fd)
    n, start = 0, None
    while True:
        try:
            b = os.read(fd, 1 << 18)
        except OSError:
            break
        if not b:
            break
        start = start or time.perf_counter()
        n += len(b)
    took = time.perf_counter() - start
    os.close(fd)
    os.waitpid(pid, 0)
    return n / took / 1e6


def bulk_web():
    t = terminal(b"stty raw -echo; printf MA''RK; exec cat text\n")
    first = t.until(b"MARK")
    start, n = time.perf_counter(), [len(first) - first.index(b"MARK") - 4]

    def sink(data):
        n[0] += len(data)

    t.rest(sink)
    took = time.perf_counter() - start
    if n[0] != MIB << 20:
        sys.exit("%d bytes of %d came" % (n[0], MIB << 20))
    return n[0] / took / 1e6


# --- echo

def quantiles(times):
    times = sorted(times)
    return {"p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}


def echo_pty(n):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "stty raw -echo; printf READY; exec cat"])
    tty.setraw(fd)
    got = b""
    while b"READY" not in got:
        got += os.read(fd, 4096)
    times = []
    for i in range(n):
        key = b"abcdefghij"[i % 10:i % 10 + 1]
        start = time.perf_counter()
        os.write(fd, key)
        while os.read(fd, 4096) != key:
            pass
        times.append((time.perf_counter() - start) * 1e6)
        time.sleep(0.004)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(fd)
    return quantiles(times)


def echo_web(n):
    t = terminal(CAT)
    t.until(b"READY")
    times = []
    for i in range(n):
        key = b"abcdefghij"[i % 10:i % 10 + 1]
        start = time.perf_counter()
        t.keys(key)
        t.until(key)
        times.append((time.perf_counter() - start) * 1e6)
        time.sleep(0.004)
    t.close()
    return quantiles(times)


class Drain(threading.Thread):
    """A client in its own thread that takes what comes."""

    def __init__(self, t):
        super().__init__(daemon=True)
        self.t, self.n = t, 0

    def run(self):
        def count(data):
            self.n += len(data)
        try:
            self.t.rest(count)
        except (OSError, ssl.SSLError, Closed, AssertionError):
            pass


# --- the rest

def idle():
    out = {}
    for n in SESSIONS:
        before, all_ = net_pss(), []
        try:
            for _ in range(n):
                t = terminal(b"exec sleep 1000\n")
                t.until(b"sleep 1000")
                all_.append(t)
        except (Closed, OSError, ssl.SSLError) as e:
            note("idle %d: %d were opened: %s" % (n, len(all_), e))
        time.sleep(2)
        if all_:
            out[len(all_)] = (net_pss() - before) / len(all_)
            note("idle %d: %.0f kB a session" % (len(all_), out[len(all_)]))
        for t in all_:
            t.frame(b"\x23\x0f")
            t.close()
        time.sleep(2)
    return out


def connect(n=40):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        t = terminal()
        while not t.step():
            pass
        times.append((time.perf_counter() - start) * 1e3)
        t.keys(b"exit\n")
        t.close()
    return statistics.median(times)


def observers(count):
    """MB/s that a driver gets of a flood with `count` watchers, all but ten of whom read nothing."""
    t = terminal(b"stty raw -echo; exec cat text\n")
    t.step()
    watchers = [Terminal(ready["https"], "/v1/sessions/%s/attach?role=observer" % t.opened["session"], token) for _ in range(count)]
    readers = [Drain(w) for w in watchers[:10]]
    for r in readers:
        r.start()
    n = [0]

    def sink(data):
        n[0] += len(data)

    start = time.perf_counter()
    t.rest(sink)
    took = time.perf_counter() - start
    for w in watchers:
        w.plain.close()
    return n[0] / took / 1e6


def row(what, value, peer, ratio, goal):
    print("| %-46s | %-16s | %-28s | %-6s | %-8s |" % (what, value, peer, ratio, goal))


muxd, ready = start()
try:
    out = subprocess.run([BUILD + "/muxctl", "--state", state, "grant", "create", "--agent", AGENT, "--principal", "bench", "--kind",
                          "staff", "--scopes", "terminal,observe,drive", "--task", "bench", "--ttl", "3h", "--reason", "bench", "-o", "json"],
                         capture_output=True, check=True)
    token = json.loads(out.stdout)["token"]
    terminal(b"exit\n").rest()
    r = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "mib": MIB, "runs": RUNS}
    r["idle"] = idle()
    make_text()
    speeds = {"pty": [], "web": []}
    for _ in range(RUNS):
        speeds["pty"].append(bulk_pty())
        speeds["web"].append(bulk_web())
        note("bulk: PTY %.0f, browser door %.0f MB/s" % (speeds["pty"][-1], speeds["web"][-1]))
    r["bulk"] = {k: statistics.median(v) for k, v in speeds.items()}
    r["echo"] = {"pty": echo_pty(300), "web": echo_web(300)}
    flood = Drain(terminal(b"yes flood\n"))
    flood.start()
    time.sleep(1)
    r["echo"]["web beside a flood"] = echo_web(300)
    flood.t.plain.close()
    r["connect_ms"] = connect()
    r["observed"] = {n: observers(n) for n in (0, 100)}
    with open("build/bench-web.json", "w") as f:
        json.dump(r, f, indent=1)
    b, e = r["bulk"], r["echo"]
    row("what", "muxd", "peer", "ratio", "goal")
    row("-" * 46, "-" * 16, "-" * 28, "-" * 6, "-" * 8)
    row("browser door, bulk, TLS", "%.0f MB/s" % b["web"], "PTY alone %.0f MB/s" % b["pty"], "%.2f" % (b["web"] / b["pty"]), "≥ 0.90")
    row("browser door, key echo, p50", "%.0f µs" % e["web"]["p50"], "PTY alone %.0f µs" % e["pty"]["p50"], "%.2f" % (e["web"]["p50"] / e["pty"]["p50"]), "")
    f = e["web beside a flood"]
    row("browser door, key echo beside a flood, p50", "%.0f µs" % f["p50"], "own quiet %.0f µs" % e["web"]["p50"], "%.2f" % (f["p50"] / e["web"]["p50"]), "≤ 1.5")
    row("browser door, connect to first prompt byte", "%.1f ms" % r["connect_ms"], "", "", "")
    for n, kb in r["idle"].items():
        row("browser door, idle session, at %d" % n, "%.0f kB" % kb, "", "", "≤ 35 kB")
    o = r["observed"]
    row("a flood, 100 observers (90 read nothing)", "%.0f MB/s" % o[100], "unobserved %.0f MB/s" % o[0], "%.2f" % (o[100] / o[0]), "")
finally:
    subprocess.run([BUILD + "/muxctl", "--state", state, "shutdown", "--sandboxes"], capture_output=True)
    muxd.terminate()
    muxd.wait()
    subprocess.run(["rm", "-rf", tmp])
