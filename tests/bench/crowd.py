#!/usr/bin/env python3
"""Many at once: keys that others watch, floods with observers, hundreds of sessions beside a flood; and the router.

The clients are those of client.c: every byte is received, and those of a flood are compared. Prints a table and writes
build/bench-crowd.json. Sizes: MIB (256), RUNS (3), SECONDS of each load (8), CROWD ("200 200 100": WebSockets, SSH
connections, observers of one).
"""
import json, os, re, socket, statistics, subprocess, sys, tempfile, time

BUILD = os.environ.get("BUILD", "build")
MIB, RUNS = int(os.environ.get("MIB", "256")), int(os.environ.get("RUNS", "3"))
SECONDS = int(os.environ.get("SECONDS", "8"))
CROWD = os.environ.get("CROWD", "200 200 100").split()
ONLY = os.environ.get("ONLY", "").split()  # parts by name; all without
AGENT = "webbench"
TICK = os.sysconf("SC_CLK_TCK")


class Daemon:
    """One that the functions below speak to while it is there; its sandbox is, too."""

    def __enter__(self):
        global ready, https, ssh, token, state, tmp
        tmp = tempfile.mkdtemp(prefix="muxd-bench-web.")
        os.chmod(tmp, 0o711)
        state = tmp + "/state"
        os.mkdir(state, 0o711)
        with open(tmp + "/muxd.yaml", "w") as f:
            f.write("api: {max_connections: 3000, max_per_address: 3000, connect_rate: 3000}\n"
                    "ssh: {max_connections: 3000, max_per_address: 3000}\n"
                    "sessions: {max: 3000, max_per_agent: 3000}\nsandbox: {pids: 4096}\n")
        self.process = subprocess.Popen([BUILD + "/muxd", "serve", "--state", state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0",
                                         "--config", tmp + "/muxd.yaml", "--end-sandboxes"], stderr=open(tmp + "/muxd.log", "w"))
        for _ in range(300):
            if os.path.exists(state + "/ready.json"):
                break
            time.sleep(0.1)
        else:
            sys.exit("muxd did not start: " + open(tmp + "/muxd.log").read()[-2000:])
        with open(state + "/ready.json") as f:
            ready = json.load(f)
        https, ssh = (ready[k].rsplit(":", 1)[1] for k in ("https", "ssh"))
        out = subprocess.run([BUILD + "/muxctl", "--state", state, "grant", "create", "--agent", AGENT, "--principal", "bench", "--kind",
                              "staff", "--scopes", "terminal,observe,drive,rounds,ports,files", "--task", "bench", "--ttl", "3h",
                              "--reason", "bench", "-o", "json"], capture_output=True, check=True)
        token = json.loads(out.stdout)["token"]
        return self

    def __exit__(self, *_):
        subprocess.run([BUILD + "/muxctl", "--state", state, "shutdown", "--sandboxes"], capture_output=True)
        self.process.terminate()
        self.process.wait()
        subprocess.run(["rm", "-rf", tmp])


def note(text):
    print("# " + text, file=sys.stderr, flush=True)


def client(*args, look=None):
    """What the client found; look(phase) is called where it waits for that."""
    with subprocess.Popen([BUILD + "/bench/client", https, ssh, AGENT, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as p:
        p.stdin.write(token + "\n")
        p.stdin.flush()
        text = ""
        for line in p.stdout:
            if line.startswith("phase "):
                look(line.split()[1])
                p.stdin.write("\n")
                p.stdin.flush()
            else:
                text += line
    if p.returncode:
        sys.exit("the bench's client failed: " + " ".join(map(str, args)))
    return json.loads(text)


# --- the daemon, looked at from outside

def net_kb():
    """Memory of its own of the hub, in kB."""
    with open("/proc/%d/smaps_rollup" % ready["pids"]["net"]) as f:
        return int(re.search(r"^Pss_Anon:\s+(\d+)", f.read(), re.M).group(1))


def cpu(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Hub:
    """Memory and processor time of the hub at each phase."""

    def __init__(self):
        self.at = {}

    def look(self, phase):
        self.at[phase] = (time.monotonic(), cpu(ready["pids"]["net"]), net_kb())

    def busy(self, a, b):
        """Share of a core between two phases."""
        (t0, c0, _), (t1, c1, _) = self.at[a], self.at[b]
        return (c1 - c0) / (t1 - t0)

    def kb(self, phase):
        return self.at[phase][2]


# --- keys

def watched():
    r = client("watched", CROWD[2], 300)
    note("keys watched by %s: %s" % (CROWD[2], r))
    return r


# --- floods

def shown(found, seconds):
    """What observers were shown, a second and eye; a flood that nobody is shown would cost nothing."""
    eyes = int(CROWD[2]) - 1
    mb, screens = found["observed_mb_per_s"] / eyes, found["screens"] / seconds / eyes
    if not mb and not screens:
        sys.exit("the observers were shown nothing")
    return "%.2f MB and %.1f screens a second" % (mb, screens)


def observers():
    """A flood alone and with observers, several times: how fast it is, what the hub spends on it."""
    runs = []
    for _ in range(RUNS):
        hub = Hub()
        seconds = (SECONDS + 1) // 2
        r = client("observers", CROWD[2], seconds, look=hub.look)
        r["shown"] = shown(r["with"], seconds)
        r["hub alone"], r["hub with"] = hub.busy("alone", "open"), hub.busy("with", "end")
        runs.append(r)
        note("flood alone %.0f MB/s (hub %.2f), observed %.0f (hub %.2f), to each observer %s" % (
            r["alone"]["flood_mb_per_s"], r["hub alone"], r["with"]["flood_mb_per_s"], r["hub with"], r["shown"]))
    return sorted(runs, key=lambda r: r["with"]["flood_mb_per_s"] / r["alone"]["flood_mb_per_s"])[len(runs) // 2]


def crowd():
    hub = Hub()
    hub.look("before")
    r = client("crowd", *CROWD, SECONDS, look=hub.look)
    r["shown"] = shown(r["observed"], SECONDS)
    r["hub"] = {k: {"kb": v[2]} for k, v in hub.at.items()}
    for a, b in (("open", "quiet"), ("flood", "observers"), ("observers", "end")):
        r["hub"][a]["busy"] = hub.busy(a, b)
    note("crowd: %s" % json.dumps(r))
    return r


# --- through the router

SERVER = os.path.join(os.path.dirname(__file__), "..", "lib", "router_server.py")


def fetch(url, *headers):
    """MB/s of one answer of MIB MiB."""
    args = ["curl", "-sS", "-k", "-o", "/dev/null", "-w", "%{size_download} %{time_total}", *headers, "%s/big?%d" % (url, MIB << 20)]
    size, took = subprocess.run(args, check=True, capture_output=True, text=True).stdout.split()
    if int(size) != MIB << 20:
        sys.exit("%s bytes of %d came through" % (size, MIB << 20))
    return int(size) / float(took) / 1e6


def wait_port(url, *headers):
    for _ in range(300):
        if subprocess.run(["curl", "-sfk", "-o", "/dev/null", *headers, url + "/echo"]).returncode == 0:
            return
        time.sleep(0.1)
    sys.exit("no server at " + url)


def router():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    direct = subprocess.Popen([sys.executable, SERVER, port])
    subprocess.run([BUILD + "/muxctl", "--state", state, "put", AGENT, SERVER, "server.py"], check=True, stdout=subprocess.DEVNULL)
    inside = subprocess.Popen([BUILD + "/muxctl", "--state", state, "exec", "-n", AGENT, "--", "python3", "server.py", "8000"],
                              stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    with open(tmp + "/headers", "w") as f:
        f.write("Authorization: Bearer %s\nX-Sandbox-ID: %s\nX-Sandbox-Port: 8000\n" % (token, AGENT))
    headers = ("-H", "@" + tmp + "/headers")
    urls = {"direct": ("http://127.0.0.1:" + port,), "routed": ("https://127.0.0.1:" + https, *headers)}
    try:
        found = {k: [] for k in urls}
        for u in urls.values():
            wait_port(*u)
        for _ in range(RUNS):
            for k, u in urls.items():
                found[k].append(fetch(*u))
        note("router: %s" % found)
        return {k: statistics.median(v) for k, v in found.items()}
    finally:
        for p in (direct, inside):
            p.terminate()
            p.wait()


# --- the table

def row(what, value="", peer="", ratio="", goal=""):
    print("| %-52s | %-20s | %-30s | %-6s | %-8s |" % (what, value, peer, ratio, goal))


def against(what, unit, mine, name, theirs, goal=""):
    row(what, unit % mine, name + " " + unit % theirs, "%.2f" % (mine / theirs), goal)


def report_keys(r):
    for q, goal in (("p50", ""), ("p99", "+ ≤ 1 ms")):
        against("keys watched by %s, one stalled, %s" % (CROWD[2], q), "%.0f µs", r["watched"]["watched"][q], "unwatched",
                r["watched"]["alone"][q], goal)


def report_crowd(c):
    row("**%s WebSocket and %s SSH sessions at once**" % (CROWD[0], CROWD[1]))
    for phase, name in (("flood", "beside a flood and two stalls"), ("observers", "and %s observers of the flood" % CROWD[2])):
        for door in ("web", "ssh"):
            for q in ("p50", "p99"):
                against("%s: %s keys, %s" % (name, {"web": "browser", "ssh": "SSH"}[door], q), "%.0f µs", c[phase][door][q], "quiet",
                        c["quiet"][door][q], {"p50": "≤ 1.5", "p99": "+ ≤ 1 ms"}[q])
    against("speed of the flood, observed", "%.0f MB/s", c["observed"]["flood_mb_per_s"], "unobserved", c["flooding"]["flood_mb_per_s"])
    row("... of which each observer is shown", c["shown"])
    against("memory of the hub in the end", "%.0f kB", c["hub"]["end"]["kb"], "all open, quiet", c["hub"]["open"]["kb"])
    row("hub, of a core: quiet / flood / observed", " / ".join("%.2f" % c["hub"][k]["busy"] for k in ("open", "flood", "observers")))


def report(r):
    row("what", "muxd", "peer", "ratio", "goal")
    row("-" * 52, "-" * 20, "-" * 30, "-" * 6, "-" * 8)
    if "watched" in r:
        report_keys(r)
    if "observers" in r:
        o = r["observers"]
        against("a flood, %s observers, one stalled" % CROWD[2], "%.0f MB/s", o["with"]["flood_mb_per_s"], "unobserved", o["alone"]["flood_mb_per_s"])
        row("... of which each observer is shown", o["shown"])
    if "crowd" in r:
        report_crowd(r["crowd"])
    if "router" in r:
        against("through the router, %d MiB, TLS" % MIB, "%.0f MB/s", r["router"]["routed"], "loopback, plain", r["router"]["direct"])


PARTS = {"watched": watched, "observers": observers, "crowd": crowd, "router": router}

results = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "mib": MIB, "runs": RUNS, "load": os.getloadavg()[0]}


def measure(names):
    for name in names:
        if not ONLY or name in ONLY:
            begin = time.monotonic()
            results[name] = PARTS[name]()
            note("%s took %.0f s" % (name, time.monotonic() - begin))


with Daemon():
    measure(PARTS)
with open(BUILD + "/bench-crowd.json", "w") as f:
    json.dump(results, f, indent=1)
report(results)
