#!/usr/bin/env python3
"""What muxd's doors cost beside peers: bytes, keys, connecting, rounds, memory, rest. Told with each figure's spread.

Everything is interleaved, so that a ratio is of two neighbours in time; a ratio is told as the median of the runs' own
ratios, with the least and the largest. The recorder is on, every byte is received and counted by the same client
(client.c), peers have an empty HOME and shells without start-up files. Peers: the bare PTY, the least TLS server
(floor.c), OpenSSH's sshd, script, tmux, posix_spawn, ControlMaster. Servers and clients are leaders of sessions, each: the kernel
shares its time among sessions, and no peer shares with the client that measures it.

Prints the first table of docs/speed.md; writes build/bench.json and build/speed.svg (plot.py). MIB (32), RUNS (3), KEYS (150),
CROWD (1000), ONLY ("bulk round_output keys flood connect rounds tools day filespace memory rest detached verdicts shares"): four minutes as they are.
"""
import contextlib, hashlib, http.client, json, os, re, resource, shutil, signal, socket, ssl, statistics, subprocess, sys, tempfile, threading, time, uuid

sys.path.insert(0, os.path.dirname(__file__))
import plot

# Who is started in the background hears no Ctrl-C, nor does what it starts: and programs are ended by that here.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # and servers are ended, as by Ctrl-C
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
MIB, RUNS, KEYS = (int(os.environ.get(k, v)) for k, v in (("MIB", "32"), ("RUNS", "3"), ("KEYS", "150")))
CROWD = int(os.environ.get("CROWD", "1000"))
AGENT = "bench"
tmp = tempfile.mkdtemp(prefix="muxd-bench.")
os.chmod(tmp, 0o711)
home = tmp + "/home"
os.mkdir(home)
env = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm", "LANG": "C.UTF-8"}


def note(text):
    print("# " + text, file=sys.stderr, flush=True)


def wait_for(what, ready, seconds=30):
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            sys.exit("%s did not come in %d s" % (what, seconds))
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


# --- processes, looked at from outside

def parents():
    of = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % pid) as f:
            of[int(pid)] = int(f.read().rsplit(")", 1)[1].split()[1])
    return of


def below(pid):
    of = parents()
    found = [pid]
    for p in found:
        found += [c for c, parent in of.items() if parent == p]
    return found


def name(pid):
    with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
        return f.read().strip()
    return ""


def tasks(pid, what, pattern):
    total = 0
    with contextlib.suppress(OSError):
        for t in os.listdir("/proc/%d/task" % pid):
            with contextlib.suppress(OSError), open("/proc/%d/task/%s/%s" % (pid, t, what)) as f:
                total += int(re.search(pattern, f.read(), re.M).group(1))
    return total


def cpu(pids):
    """Seconds of processor."""
    return sum(tasks(p, "schedstat", r"^(\d+)") for p in pids) / 1e9


def wakes(pids):
    return sum(tasks(p, "status", r"^voluntary_ctxt_switches:\s+(\d+)") for p in pids)


def kb(pids):
    """Memory of their own."""
    total = 0
    for p in pids:
        with contextlib.suppress(OSError), open("/proc/%d/smaps_rollup" % p) as f:
            total += int(re.search(r"^Pss_Anon:\s+(\d+)", f.read(), re.M).group(1))
    return total


# --- servers: each knows how a client gets in, and which processes serve it

class Server:
    https = ssh = 0
    token = "none"

    def client(self, *args, look=None):
        """What the client found. look(phase) is called where it waits."""
        argv = [BUILD + "/bench/client", str(self.https), str(self.ssh), self.user, *map(str, args)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True) as p:
            p.stdin.write(self.token + "\n")
            p.stdin.flush()
            last = ""
            for line in p.stdout:
                if line.startswith("phase "):
                    if look:
                        look(line.split()[1])
                    p.stdin.write("\n")
                    p.stdin.flush()
                else:
                    last = line
        if p.returncode:
            sys.exit("the bench's client failed: " + " ".join(argv))
        return json.loads(last)


class Muxd(Server):
    user = AGENT

    def __init__(self, conf="api: {max_connections: 3000, max_per_address: 3000, connect_rate: 3000}\n"
                            "ssh: {max_connections: 3000, max_per_address: 3000}\n"
                            "sessions: {max: 3000, max_per_agent: 3000}\nsandbox: {pids: 4096}\n"):
        self.dir = tempfile.mkdtemp(prefix="muxd.", dir=tmp)
        os.chmod(self.dir, 0o711)
        self.state = self.dir + "/state"
        os.mkdir(self.state, 0o711)
        with open(self.dir + "/muxd.yaml", "w") as f:
            f.write(conf)
        self.process = subprocess.Popen([BUILD + "/muxd", "serve", "--state", self.state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0",
                                         "--config", self.dir + "/muxd.yaml", "--end-sandboxes"], stderr=open(self.dir + "/log", "w"))
        wait_for("muxd", lambda: os.path.exists(self.state + "/ready.json"), 60)
        with open(self.state + "/ready.json") as f:
            self.ready = json.load(f)
        self.https, self.ssh = (int(self.ready[k].rsplit(":", 1)[1]) for k in ("https", "ssh"))
        self.token = json.loads(self.ctl("grant", "create", "--agent", AGENT, "--principal", "bench", "--kind", "staff", "--scopes",
                                         "terminal,rounds,observe,drive,replay,files,ports", "--task", "bench", "--ttl", "3h", "--reason",
                                         "bench", "-o", "json"))["token"]

    def agent(self, name, scopes):
        return json.loads(self.ctl("grant", "create", "--agent", name, "--principal", name, "--kind", "agent", "--scopes", scopes, "--task",
                                   name, "--ttl", "1h", "--reason", "bench", "-o", "json"))["token"]

    def ctl(self, *args):
        return subprocess.run([BUILD + "/muxctl", "--state", self.state, *args], capture_output=True, check=True).stdout

    def parts(self):
        """The three that see bytes."""
        with open(self.state + "/sandboxes/" + AGENT + "/sandbox.json") as f:
            muxlet = json.load(f)["init"]["pid"]
        return {"hub": [self.ready["pids"]["net"]], "muxlet": [muxlet], "recorder": [self.ready["pids"]["recorder"]]}

    def pids(self):
        return sum(self.parts().values(), [])

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.ctl("shutdown", "--sandboxes")
        self.process.terminate()
        self.process.wait()


class Least(Server):
    """A program of this folder, with muxd's certificate."""

    def __init__(self, muxd, program, *args):
        self.https = free_port()
        keys = muxd.state + "/keys/tls."
        self.process = subprocess.Popen([BUILD + "/bench/" + program, str(self.https), keys + "crt", keys + "key", *args], env=env,
                                        cwd=home, start_new_session=True)
        wait_for("bench/" + program, lambda: answers(self.https))

    def pids(self):
        return [self.process.pid]

    def close(self):
        self.process.kill()
        self.process.wait()


class Floor(Least):
    user = "floor"

    def __init__(self, muxd):
        super().__init__(muxd, "floor")


class Sshd(Server):
    user = "root"
    master = None

    def __init__(self):
        self.ssh = free_port()
        for k in ("host", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp + "/" + k], check=True)
        shutil.copy(tmp + "/id.pub", tmp + "/authorized")
        os.makedirs("/run/sshd", exist_ok=True)
        self.token = "key " + tmp + "/id"
        with open(tmp + "/sshd_config", "w") as f:
            f.write(f"Port {self.ssh}\nListenAddress 127.0.0.1\nHostKey {tmp}/host\nAuthorizedKeysFile {tmp}/authorized\nStrictModes no\n"
                    f"UsePAM no\nPidFile none\nMaxStartups 1000\nMaxSessions 1000\nPrintMotd no\nPrintLastLog no\nPermitRootLogin yes\n"
                    f"SetEnv HOME={home}\n")
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", tmp + "/sshd_config"], stderr=open(tmp + "/sshd.log", "w"),
                                        start_new_session=True)
        wait_for("sshd", lambda: answers(self.ssh))

    def pids(self):
        return [p for p in below(self.process.pid) if name(p) == "sshd"]

    def ssh_argv(self, *args):
        return ["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-c",
                "aes128-gcm@openssh.com", "-i", tmp + "/id", "-o", "IdentitiesOnly=yes", "-p", str(self.ssh), "-l", "root", *args]

    def command(self, line):
        """As a person has it: `ssh host LINE` with ControlMaster, whose connection stands."""
        if not self.master:
            self.master = subprocess.Popen(self.ssh_argv("-o", "ControlMaster=yes", "-o", "ControlPath=" + tmp + "/cm", "-N", "127.0.0.1"),
                                           env=env, stdin=subprocess.DEVNULL)
            wait_for("ControlMaster", lambda: os.path.exists(tmp + "/cm"))
        return self.ssh_argv("-o", "ControlPath=" + tmp + "/cm", "127.0.0.1", line)

    def close(self):
        if self.master:
            self.master.terminate()
            self.master.wait()
        self.process.terminate()
        self.process.wait()


# --- figures

def median(values):
    return statistics.median(values)


def quantile(values, q):
    values = sorted(values)
    return values[int(q * (len(values) - 1))]


rows = []
load = os.getloadavg()[0]  # of others: a figure beside them is a ratio at best


def row(what, mine, unit, peer="", theirs=None, goal=None, per_run=True):
    """mine, theirs: a value for each run. goal: ("<=" or ">=", limit) of the ratio, or of the value where there is no peer."""
    ratios = [a / b for a, b in zip(mine, theirs)] if theirs and per_run else [median(mine) / median(theirs)] if theirs else None
    rows.append({"what": what, "mine": mine, "unit": unit, "peer": peer, "theirs": theirs, "ratios": ratios, "goal": goal})


def heading(text):
    rows.append({"heading": text})


def spread(values, form):
    if len(values) == 1 or min(values) == max(values):
        return form % median(values)
    return "%s (%s to %s)" % (form % median(values), form % min(values), form % max(values))


FORMS = {"MB/s": "%.1f", "µs": "%.0f", "ns": "%.0f", "ms": "%.2f", "s": "%.2f", "kB": "%.0f", "%": "%.3f", "/s": "%.1f", "": "%.2f"}


def cells(r):
    form = FORMS[r["unit"]]
    goal = r["goal"]
    met = ""
    if goal:
        value = median(r["ratios"] or r["mine"])
        met = "yes" if (value <= goal[1] if goal[0] == "<=" else value >= goal[1]) else "**no**"
    return [r["what"], spread(r["mine"], form) + " " + r["unit"],
            "%s %s %s" % (r["peer"], spread(r["theirs"], form), r["unit"]) if r["theirs"] else "",
            spread(r["ratios"], "%.2f") if r["ratios"] else "", "%s %g" % ({"<=": "≤", ">=": "≥"}[goal[0]], goal[1]) if goal else "", met]


def tables():
    out = ["%(date)s, %(cores)d cores, load %(load).1f before it, %(mib)d MiB, %(runs)d runs, %(keys)d keys each." % head, "",
           "| what | muxd | peer | ratio | goal | met |", "|---|---|---|---|---|---|"]
    for r in rows:
        out.append("| **%s** | | | | | |" % r["heading"] if "heading" in r else "| " + " | ".join(cells(r)) + " |")
    return "\n".join(out)


SIX = (("normal terminal", "browser door", "least TLS server", "Bulk of a normal terminal to a browser"),
       ("A key and its echo", "browser door, p50", "least TLS server", "A key and its echo in a browser, p50"),
       ("From connecting", "browser door, p50", "least TLS server", "From connecting to the shell's first byte"),
       ("A round of `true`", "p50", "ControlMaster", "A round of `true`, p50"),
       ("An agent's day", "a file of 1 MiB is read", "ssh", "A file of 1 MiB is read"),
       ("At rest", "no session: share of a core", "", "At rest, of a core"))


def six_lines():
    """Of the table, for who reads no more."""
    for heading_has, what, peer, title in SIX:
        r = next((r for h, r in headed() if heading_has in h and r["what"] == what and r["peer"].startswith(peer)), None)
        if not r:
            continue  # not of this run
        form, unit = FORMS[r["unit"]], r["unit"]
        mine = "%s %s" % (form % median(r["mine"]), unit)
        theirs = "; %s %s %s, ratio %s" % (r["peer"], form % median(r["theirs"]), unit, cells(r)[3]) if r["theirs"] else ""
        yield "- %s: %s%s" % (title, mine, theirs)


def headed():
    at = ""
    for r in rows:
        at = r.get("heading", at)
        if "heading" not in r:
            yield at, r


def put_between(path, lines):
    with open(path) as f:
        before, rest = f.read().split("<!-- bench -->\n", 1)
    with open(path, "w") as f:
        f.write(before + "<!-- bench -->\n" + lines + "\n" + rest[rest.index("<!-- /bench -->"):])


def put_into_docs():
    """Between the pages' marks, and the plot beside the table."""
    put_between("docs/speed.md", tables())
    put_between("README.md", "\n".join(six_lines()))
    shutil.copy(BUILD + "/speed.svg", "docs/speed.svg")


# --- bytes

LINE = "%06d \x1b[3%dmmodule/%d.c\x1b[0m: compiled, naïve café 漢字 \x1b[1mbold\x1b[22m end\n"
TEXT = {"a normal terminal": "", "OPOST off": "-opost"}


def make_text():
    block = "".join(LINE % (i, i % 8, i * 7) for i in range(8000)).encode()
    with open(home + "/text", "wb") as f:
        left = MIB << 20
        while left > 0:
            f.write(block[:left])
            left -= len(block)
    muxd.ctl("put", AGENT, home + "/text", "text")
    with open(home + "/text", "rb") as f:
        return sum(b.count(b"\n") for b in iter(lambda: f.read(1 << 20), b""))


def bulk_one(server, door, command, size):
    seen = {}

    def look(phase):
        if phase == "end":
            time.sleep(0.7)  # the recorder has the rest to write and to cut
        parts = server.parts() if server is muxd else {"all": server.pids()}
        seen[phase] = {k: cpu(p) for k, p in parts.items()}

    # what sshd begins for this connection begins at "begin", after the log-in
    speed = server.client("bulk", door, command, size, look=look)["mb_per_s"]
    return speed, {k: (v - seen["begin"].get(k, 0)) * 1024 / MIB for k, v in seen["end"].items()}


def bulk():
    lines = make_text()
    ways = {"floor": (floor, "web"), "web": (muxd, "web"), "sshd": (sshd, "ssh"), "ssh": (muxd, "ssh")}
    for kind, off in TEXT.items():
        size = (MIB << 20) + (0 if off else lines)
        speed, spent = {k: [] for k in ("pty", *ways)}, {k: [] for k in ways}
        for _ in range(RUNS):
            speed["pty"].append(floor.client("pty-bulk", "stty %s; cat %s/text" % (off or "sane", home), size)["mb_per_s"])
            for k, (server, door) in ways.items():
                text = "text" if server is muxd else home + "/text"
                got = bulk_one(server, door, "stty -echo -icanon %s; printf REA''DY; cat %s; exec sleep 100" % (off, text), size)
                speed[k].append(got[0])
                spent[k].append(got[1])
            note("bulk, %s: %s MB/s" % (kind, ", ".join("%s %.1f" % (k, v[-1]) for k, v in speed.items())))
        heading("%d MiB of text, %s" % (MIB, kind))
        row("browser door", speed["web"], "MB/s", "bare PTY", speed["pty"], (">=", 0.95 if off else 0.78))
        row("browser door", speed["web"], "MB/s", "least TLS server", speed["floor"], None if off else (">=", 0.9))
        row("SSH door", speed["ssh"], "MB/s", "sshd", speed["sshd"], None if off else (">=", 1.1))
        total = {k: [sum(s.values()) for s in v] for k, v in spent.items()}
        row("processor for 1 GiB to durable, browser door", total["web"], "s", "least TLS server", total["floor"],
            None if off else ("<=", 1.4))
        for part in ("hub", "muxlet", "recorder"):
            row("... of which " + part, [s[part] for s in spent["web"]], "s")
        row("processor for 1 GiB to durable, SSH door", total["ssh"], "s", "sshd", total["sshd"])


def taken(argv):
    """Seconds, the processor of who asks in them, and the digest of all that a client prints."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    pieces, t0 = [], time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env, start_new_session=True) as p:
        while piece := os.read(p.stdout.fileno(), 1 << 18):
            pieces.append(piece)
    seconds, now = time.perf_counter() - t0, resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode:
        sys.exit("failed: " + " ".join(argv))
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return seconds, now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime, digest.hexdigest()


def output_argv(server, path):
    """A client in C, with the TLS of everybody; the token goes by a file."""
    with open(tmp + "/header", "w") as f:
        f.write("Authorization: Bearer " + muxd.token)
    return ["curl", "-sf", "--cacert", muxd.state + "/keys/tls.crt", "-H", "@" + tmp + "/header", "-H", "Accept: application/octet-stream",
            "https://127.0.0.1:%d%s" % (server.https, path)]


def output_of(size, wanted, argv, pids):
    """MB/s and processor for 1 GiB, with the client's."""
    before = cpu(pids)
    seconds, client, digest = taken(argv)
    if digest != wanted:
        sys.exit("%s gave bytes with the digest %s, the file's is %s" % (argv, digest, wanted))
    return size / seconds / 1e6, (cpu(pids) - before + client) * (1 << 30) / size


def output_one(size, wanted, keeper):
    """One round's output as it comes, the least that keeps it, and `ssh host cat`."""
    before, t0 = cpu(muxd.pids()), time.perf_counter()
    done = api.call("POST", "/v1/agents/%s/rounds" % AGENT, {"argv": ["cat", "text"], "wait_ms": 0})
    asked = time.perf_counter() - t0
    seconds, client, digest = taken(output_argv(muxd, "/v1/rounds/%s/output?follow=true" % done["round_id"]))
    if digest != wanted:
        sys.exit("the output of a round has the digest %s, the file's is %s" % (digest, wanted))
    time.sleep(0.7)  # the recorder has the rest to write and to cut
    mine = size / (asked + seconds) / 1e6, (cpu(muxd.pids()) - before + client) * (1 << 30) / size
    return (mine, output_of(size, wanted, output_argv(keeper, "/"), keeper.pids()),
            output_of(size, wanted, sshd.command("cat " + home + "/text"), [*sshd.pids(), sshd.master.pid]))


def round_output():
    """A round's output as a client gets it: all of it, in one answer while it runs, and by ranges behind its end."""
    if not os.path.exists(home + "/text"):
        make_text()
    size, found, ranges = MIB << 20, [], []
    with open(home + "/text", "rb") as f:
        wanted = hashlib.file_digest(f, "sha256").hexdigest()
    keeper = Least(muxd, "keeper", home + "/text", tmp)
    for _ in range(RUNS):
        found.append(output_one(size, wanted, keeper))
        api.reset()
        t0 = time.perf_counter()
        done = api.call("POST", "/v1/agents/%s/rounds" % AGENT, {"argv": ["cat", "text"], "wait_ms": 60000})
        at, path = 0, "/v1/rounds/%s/output?stream=stdout&limit=1048576&offset=" % done["round_id"]
        while at < size:
            at += len(api.raw("GET", path + str(at)))
        ranges.append(at / (time.perf_counter() - t0) / 1e6)
        note("a round's output: %.0f MB/s at %.1f s for 1 GiB, the least %.0f at %.1f, ssh %.0f at %.1f" % sum(found[-1], ()))
    keeper.close()
    mine, least, theirs = zip(*found)
    heading("%d MiB of a program's output" % MIB)
    row("a round's output in one answer, as it runs", [m[0] for m in mine], "MB/s", "ssh host cat", [t[0] for t in theirs], (">=", 0.9))
    row("... the least server that keeps it", [k[0] for k in least], "MB/s", "ssh host cat", [t[0] for t in theirs])
    row("... the same, were it spread over all cores without a wait", [os.cpu_count() * (1 << 30) / k[1] / 1e6 for k in least], "MB/s",
        "ssh host cat", [t[0] for t in theirs])
    row("processor for 1 GiB to durable, with the clients'", [m[1] for m in mine], "s", "ssh host cat", [t[1] for t in theirs], ("<=", 1.5))
    row("... the least server that keeps it", [k[1] for k in least], "s", "ssh host cat", [t[1] for t in theirs])
    row("a round's output by ranges, all of it", ranges, "MB/s", "ssh host cat", [t[0] for t in theirs])


# --- keys

CAT = "stty raw -echo; printf READY; exec cat"


def keys_one(server, door):
    seen = {}

    def look(phase):
        if phase == "end":
            time.sleep(0.1)
        parts = server.parts() if server is muxd else {"all": server.pids()}
        seen[phase] = {k: cpu(p) for k, p in parts.items()}

    us = server.client("echo", door, KEYS, look=look)["us"]
    return us, {k: (v - seen["begin"][k]) * 1e6 / KEYS for k, v in seen["end"].items()}


def keys():
    ways = {"floor": (floor, "web"), "web": (muxd, "web"), "sshd": (sshd, "ssh"), "ssh": (muxd, "ssh")}
    local = {"pty": CAT, "script": "exec script -q -c '%s' /dev/null" % CAT,
             "tmux": "exec tmux -f /dev/null -S %s/tmux new-session '%s'" % (tmp, CAT)}
    us, spent = {k: [] for k in (*local, *ways)}, {k: [] for k in ways}
    for _ in range(RUNS):
        for k, command in local.items():
            us[k].append(floor.client("pty-echo", command, KEYS)["us"])
            if k == "tmux":
                subprocess.run(["tmux", "-S", tmp + "/tmux", "kill-server"], stderr=subprocess.DEVNULL)
        for k, way in ways.items():
            got = keys_one(*way)
            us[k].append(got[0])
            spent[k].append(got[1])
        note("keys, p50: " + ", ".join("%s %.0f" % (k, quantile(v[-1], 0.5)) for k, v in us.items()) + " µs")
    q = {k: {p: [quantile(x, p) for x in v] for p in (0.5, 0.99)} for k, v in us.items()}
    heading("A key and its echo")
    row("browser door, p50", q["web"][0.5], "µs", "least TLS server", q["floor"][0.5], ("<=", 1.25))
    row("browser door, p99", q["web"][0.99], "µs", "least TLS server", q["floor"][0.99])
    row("SSH door, p50", q["ssh"][0.5], "µs", "sshd", q["sshd"][0.5], ("<=", 1.0))
    row("SSH door, p99", q["ssh"][0.99], "µs", "sshd", q["sshd"][0.99])
    for k, title in (("pty", "bare PTY"), ("script", "script"), ("tmux", "tmux")):
        row("browser door, p50", q["web"][0.5], "µs", title, q[k][0.5])
    row("browser door, p99", q["web"][0.99], "µs", "bare PTY", q["pty"][0.99])
    total = {k: [sum(s.values()) for s in v] for k, v in spent.items()}
    row("processor a key, browser door", total["web"], "µs", "least TLS server", total["floor"], ("<=", 2.1))
    for part in ("hub", "muxlet", "recorder"):
        row("... of which " + part, [s[part] for s in spent["web"]], "µs")
    row("processor a key, SSH door", total["ssh"], "µs", "sshd", total["sshd"], ("<=", 1.5))


@contextlib.contextmanager
def flooded(server, door):
    """A client that has a terminal print without end; it ends with a line on its stdin, and prints how fast that was."""
    argv = [BUILD + "/bench/client", str(server.https), str(server.ssh), server.user, "flood", door]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True) as p:
        p.stdin.write(server.token + "\n")
        p.stdin.flush()
        if p.stdout.readline() != "phase runs\n":
            sys.exit("no flood")
        p.stdin.write("\n")
        p.stdin.flush()
        yield p


def beside_one(server, door):
    """Keys while another terminal of the same server is flooded, and how fast that flood is."""
    with flooded(server, door) as p:
        time.sleep(0.5)
        us = server.client("echo", door, KEYS)["us"]
        p.stdin.write("\n")
        p.stdin.flush()
        return us, json.loads(p.stdout.readline())["mb_per_s"]


def flood():
    ways = {"floor": (floor, "web"), "web": (muxd, "web"), "sshd": (sshd, "ssh"), "ssh": (muxd, "ssh")}
    q, speed = {k: {0.5: [], 0.99: []} for k in ways}, {k: [] for k in ways}
    for _ in range(RUNS):
        for k, way in ways.items():
            us, mb = beside_one(*way)
            speed[k].append(mb)
            for p in q[k]:
                q[k][p].append(quantile(us, p))
        note("beside a flood: " + ", ".join("%s %.0f µs, %.0f MB/s" % (k, q[k][0.5][-1], v[-1]) for k, v in speed.items()))
    heading("A key and its echo, beside a flood of another terminal that is normal")
    row("browser door, speed of the flood", speed["web"], "MB/s", "least TLS server", speed["floor"], (">=", 0.75))
    row("browser door, p50", q["web"][0.5], "µs", "sshd", q["sshd"][0.5], ("<=", 1.15))
    row("browser door, p99", q["web"][0.99], "µs", "sshd", q["sshd"][0.99], ("<=", 1.8))
    row("browser door, p50", q["web"][0.5], "µs", "least TLS server", q["floor"][0.5])
    row("browser door, p99", q["web"][0.99], "µs", "least TLS server", q["floor"][0.99])
    row("SSH door, speed of the flood", speed["ssh"], "MB/s", "sshd", speed["sshd"])
    row("SSH door, p50", q["ssh"][0.5], "µs", "sshd", q["sshd"][0.5])
    row("SSH door, p99", q["ssh"][0.99], "µs", "sshd", q["sshd"][0.99])


# --- connecting, rounds

def connect():
    ms = {k: {0.5: [], 0.99: []} for k in ("floor", "web", "sshd", "ssh")}
    for _ in range(RUNS):
        for k, (server, door, n) in {"floor": (floor, "web", 30), "web": (muxd, "web", 30), "sshd": (sshd, "ssh", 6),
                                     "ssh": (muxd, "ssh", 15)}.items():
            us = server.client("connect", door, n)["us"]
            for p in ms[k]:
                ms[k][p].append(quantile(us, p) / 1e3)
        note("connect: " + ", ".join("%s %.1f" % (k, v[0.5][-1]) for k, v in ms.items()) + " ms")
    heading("From connecting to the first byte of a shell")
    row("browser door, p50", ms["web"][0.5], "ms", "least TLS server", ms["floor"][0.5], ("<=", 1.2))
    row("browser door, p99", ms["web"][0.99], "ms", "least TLS server", ms["floor"][0.99])
    row("SSH door, p50", ms["ssh"][0.5], "ms", "sshd", ms["sshd"][0.5])


class Api:
    """One connection to muxd's API."""
    conn = None

    def reset(self):
        self.conn = None

    def ask(self, method, path, body=None, **fields):
        if not self.conn:
            self.conn = http.client.HTTPSConnection("127.0.0.1", muxd.https,
                                                    context=ssl.create_default_context(cafile=muxd.state + "/keys/tls.crt"))
            self.conn.connect()
            self.conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conn.request(method, path, body and json.dumps(body),
                          {"Authorization": "Bearer " + muxd.token, "Content-Type": "application/json", **fields})
        r = self.conn.getresponse()
        if r.status >= 300:
            sys.exit("%s %s: %d %r" % (method, path, r.status, r.read()[:300]))
        return r

    def raw(self, method, path, body=None, **fields):
        return self.ask(method, path, body, **fields).read()

    def call(self, method, path, body=None):
        return json.loads(self.raw(method, path, body))


class Wire:
    """The same with as little of a client as there can be: a request made before, an answer read to its end and not looked into."""

    def __init__(self, path, body):
        body = json.dumps(body)
        self.request = ("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                        "Content-Length: %d\r\n\r\n%s" % (path, muxd.token, len(body), body)).encode()
        context = ssl.create_default_context(cafile=muxd.state + "/keys/tls.crt")
        self.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", muxd.https)), server_hostname="127.0.0.1")
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self):
        self.sock.sendall(self.request)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.more(65536)
        head, rest = got.split(b"\r\n\r\n", 1)
        left = int(re.search(rb"content-length: *(\d+)", head, re.I)[1]) - len(rest)
        while left > 0:
            left -= len(self.more(left))
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit("a round: %r" % got)

    def more(self, most):
        return self.sock.recv(most) or sys.exit("the daemon closed in the middle of an answer")


def timed(f, *args):
    t0 = time.perf_counter()
    f(*args)
    return (time.perf_counter() - t0) * 1e3


def ssh(line, given=None):
    return subprocess.run(sshd.command(line), env=env, check=True, capture_output=True, input=given).stdout


def rounds(n=100):
    ms = {k: [] for k in ("spawn", "round", "master")}

    def spawn():
        os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)

    wire = Wire("/v1/agents/%s/rounds" % AGENT, {"argv": ["true"], "wait_ms": 10000})
    ssh("true")
    for _ in range(RUNS):
        got = {k: [] for k in ms}
        for i in range(n):
            got["spawn"].append(timed(spawn))
            got["round"].append(timed(wire.call))
            if i % 5 == 0:
                got["master"].append(timed(lambda: subprocess.run(sshd.command("true"), env=env, check=True)))
        for k, v in got.items():
            ms[k].append(quantile(v, 0.5))
    note("rounds: %s ms" % ms)
    heading("A round of `true`")
    row("p50", ms["round"], "ms", "posix_spawn", ms["spawn"], ("<=", 1.6))
    row("p50", ms["round"], "ms", "ControlMaster, clean HOME", ms["master"], ("<=", 0.15))


# --- tools of MCP, by 2026-07-28: a request of HTTP each, beside the round that such a call is

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
CLIENTS = 100


def tool_fields(method, name):
    return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name, "Accept": "application/json, text/event-stream"}


def tool_true(one):
    name = "sandbox.session.exec"
    body = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": "tools/call", "params": {
        "name": name, "arguments": {"task_id": "bench", "session_id": AGENT, "argv": ["true"]}, "_meta": META}}
    if b'"exit_code":0' not in one.raw("POST", "/mcp", body, **tool_fields("tools/call", name)):
        sys.exit("tools/call failed")


def tool_list(one):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    if b"sandbox.session.exec" not in one.raw("POST", "/mcp", body, **tool_fields("tools/list", "")):
        sys.exit("tools/list failed")


def round_true(one):
    one.raw("POST", "/v1/agents/%s/rounds" % AGENT, {"argv": ["true"], "wait_ms": 10000})


def at_once(f, each=5):
    """Calls in a second, of clients that have a connection of their own and begin together."""
    ready, threads = threading.Barrier(CLIENTS + 1), []

    def client():
        one = Api()
        f(one)
        ready.wait()
        for _ in range(each):
            f(one)

    for _ in range(CLIENTS):
        threads.append(threading.Thread(target=client))
        threads[-1].start()
    ready.wait()
    t0 = time.perf_counter()
    for t in threads:
        t.join()
    return CLIENTS * each / (time.perf_counter() - t0)


def tools(n=100):
    ms, speed = {f: [] for f in (round_true, tool_true, tool_list)}, {round_true: [], tool_true: []}
    api.reset()
    for f in ms:
        f(api)
    for _ in range(RUNS):
        got = {f: [] for f in ms}
        for _ in range(n):
            for f in ms:
                got[f].append(timed(f, api))
        for f, v in got.items():
            ms[f].append(quantile(v, 0.5))
        for f in speed:
            speed[f].append(at_once(f))
    heading("Tools of MCP")
    row("`tools/call` of `true`, p50", ms[tool_true], "ms", "a round", ms[round_true], ("<=", 1.5))
    row("`tools/list`, p50", ms[tool_list], "ms", "a round", ms[round_true], ("<=", 1.0))
    row("`tools/call` of `true`, %d clients at once" % CLIENTS, speed[tool_true], "/s", "rounds", speed[round_true], (">=", 0.66))


# --- an agent's day: each beside the same thing done by `ssh host`, with ControlMaster and a clean HOME

NAMES = 10000
PATCH = "--- a/line.py\n+++ b/line.py\n@@ -20,3 +20,3 @@\n line 20\n-%s\n+%s\n line 22\n"


class Day:
    """What an agent does, in pairs: by the API, and by ssh."""

    def __init__(self):
        lines = "".join("line %d\n" % i for i in range(1, 200))
        for where in (lambda name, data: api.call("POST", "/v1/agents/%s/fs/write" % AGENT, {"path": name, "data": data}),
                      lambda name, data: ssh("cat >%s/%s" % (home, name), data.encode())):
            where("line.py", lines.replace("line 21\n", "one\n"))
        with open(home + "/mib", "wb") as f:
            f.write(os.urandom(1 << 20))
        muxd.ctl("put", AGENT, home + "/mib", "mib")
        make = "mkdir -p %s && cd %s && seq -f 'a-file-of-some-name-%%05.0f.txt' %d | xargs touch"
        ssh(make % (home + "/many", home + "/many", NAMES))
        done = api.call("POST", "/v1/agents/%s/rounds" % AGENT, {"command": make % ("many", "many", NAMES), "wait_ms": 60000})
        if done["exit"]["code"] != 0:
            sys.exit("no %d files: %r" % (NAMES, done))
        self.context = api.call("POST", "/v1/agents/%s/contexts" % AGENT, {"language": "python"})["context_id"]
        self.side = {"mine": 0, "theirs": 0}  # how often each patched: there, and back

    def read(self):
        return len(api.raw("GET", "/v1/agents/%s/files?path=mib" % AGENT)) == 1 << 20

    def ssh_read(self):
        return len(ssh("cat %s/mib" % home)) == 1 << 20

    def patch_of(self, who):
        self.side[who] += 1
        return PATCH % (("one", "two") if self.side[who] % 2 else ("two", "one"))

    def patch(self):
        done = api.call("POST", "/v1/agents/%s/fs/patch" % AGENT, {"path": ".", "data": self.patch_of("mine")})
        return len(done["changes"]) == 1

    def ssh_patch(self):
        """As durable as the other: the file and the name that it got."""
        return b"patching file line.py" in ssh("cd %s && patch -p1 && sync line.py ." % home, self.patch_of("theirs").encode())

    def list(self):
        """All pages, as they are: what a client makes of the JSON is its own time."""
        n, cursor = 0, None
        while True:
            page = api.raw("POST", "/v1/agents/%s/fs/list" % AGENT, {"path": "many", "limit": 10000, **({"cursor": cursor} if cursor else {})})
            n += page.count(b'"path":')
            at = page.rfind(b'"cursor":')
            if at < 0:
                return n >= NAMES
            cursor = json.loads(b"{" + page[at:page.index(b'"', at + 10) + 1] + b"}")["cursor"]

    def ssh_list(self):
        return ssh("find %s/many -mindepth 1 -printf '%%p %%y %%s %%m %%T@\\n'" % home).count(b"\n") == NAMES

    def execute(self):
        done = api.call("POST", "/v1/agents/%s/contexts/%s/executions" % (AGENT, self.context), {"code": "print(1)"})
        return done["stdout"]["data"] == "1\n"

    def ssh_execute(self):
        return ssh("python3 -c 'print(1)'") == b"1\n"

    def event(self):
        """A round begins, and its output is here, as an event."""
        done = api.call("POST", "/v1/agents/%s/rounds" % AGENT, {"argv": ["echo", "ready"], "wait_ms": 0})
        self.events = api.ask("GET", "/v1/rounds/%s/events" % done["round_id"])
        while line := self.events.readline():
            if line.startswith(b"event: stdout"):
                return b"ready" in self.events.readline() + self.events.readline()
        return False

    def ssh_event(self):
        self.other = subprocess.Popen(sshd.command("echo ready"), env=env, stdout=subprocess.PIPE)
        return self.other.stdout.read(1) == b"r"

    def rest(self):
        """Of the last two, outside of the time."""
        self.events.read()
        self.other.stdout.read()
        self.other.stdout.close()
        self.other.wait()


DAY = (("read", "a file of 1 MiB is read", "cat"), ("patch", "a patch of one file, durable", "patch, then sync"),
       ("list", "a list of 10,000 files, all of it", "find -printf"), ("execute", "print(1) in a Python context that is warm", "python3 -c"),
       ("event", "a round begins: the first event with output", "echo: its first byte"))


def day(n=12):
    api.reset()
    d = Day()
    ms = {who: {k: [] for k, _, _ in DAY} for who in ("", "ssh_")}
    for _ in range(RUNS):
        got = {who: {k: [] for k in v} for who, v in ms.items()}
        for i in range(n + 1):
            for k, _, _ in DAY:
                for who, times in got.items():
                    fine = []
                    times[k].append(timed(lambda f: fine.append(f()), getattr(d, who + k)))
                    if not fine[0]:
                        sys.exit("%s%s did not do what it should" % (who, k))
            d.rest()
        for who, times in got.items():
            for k, v in times.items():
                ms[who][k].append(quantile(v[1:], 0.5))  # the first of each is warm behind it
        note("an agent's day, ms: " + ", ".join("%s %.1f (ssh %.1f)" % (k, ms[""][k][-1], ms["ssh_"][k][-1]) for k, _, _ in DAY))
    heading("An agent's day, p50")
    for k, title, peer in DAY:
        row(title, ms[""][k], "ms", "ssh host " + peer, ms["ssh_"][k], ("<=", 1.0))


# --- files in step with the owner's store: a fresh daemon and store for each run, beside tar through ssh

SMALL = 5000  # files, of some 300 bytes, 100 in a directory
MAKE = "mkdir -p %s && cd %s && for d in $(seq 50); do mkdir -p $d; for f in $(seq 100); do printf '%%0300d' $((d*100+f)) >$d/$f; done; done"


class FileStore:
    """tools/muxd-filestore, with files of the bench in it or none."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="store.", dir=tmp)
        self.port = free_port()
        self.process = subprocess.Popen([sys.executable, "tools/muxd-filestore", "--dir", self.dir, "--listen", "127.0.0.1:%d" % self.port],
                                        stdout=subprocess.DEVNULL)
        wait_for("the file store", lambda: answers(self.port))

    def close(self):
        self.process.kill()
        self.process.wait()


def synced(daemon, direction):
    """Seconds of the syncs that copied all: the one behind the program before may have taken some along."""
    details = [json.loads(line)["record"]["detail"] for line in daemon.ctl("audit", "--event", "filespace.sync", "-n", "100", "-o", "json").splitlines()]
    details = [d for d in details if d["direction"] == direction]
    return sum(d["duration_ms"] for d in details) / 1e3 if sum(d["copied"] for d in details) == SMALL else None


def filespace_one():
    """Seconds up, by the push behind a round, and down, by the pull of another sandbox with that store behind it."""
    seconds = {}
    with contextlib.closing(FileStore()) as store:
        conf = "filespace: {url: \"http://127.0.0.1:%d\", timeout: 30s}\nlifecycle: {at_rest: drop}\n" % store.port
        for direction, line in (("push", MAKE % ("many", "many")), ("pull", "true")):
            with contextlib.closing(Muxd(conf)) as fresh:
                fresh.ctl("exec", AGENT, "--", "sh", "-c", "true")
                fresh.ctl("exec", AGENT, "--", "sh", "-c", line)
                wait_for("the sync", lambda: synced(fresh, direction), 60)
                seconds[direction] = synced(fresh, direction)
    return seconds


def by_tar(way):
    """Seconds until the same files are on the disk of who gets them, by tar through ssh."""
    there, here = home + "/there", home + "/small"
    shutil.rmtree(there, ignore_errors=True)
    os.mkdir(there)
    if way == "push":
        argv = "tar -C %s -c . | %s" % (here, " ".join(sshd.command("'tar -C %s -x && sync -f %s'" % (there, there))))
    else:
        argv = "%s | tar -C %s -x && sync -f %s" % (" ".join(sshd.command("'tar -C %s -c .'" % here)), there, there)
    return timed(lambda: subprocess.run(argv, shell=True, env=env, check=True)) / 1e3


def filespace():
    ssh(MAKE % (home + "/small", home + "/small"))
    mine, theirs = {"push": [], "pull": []}, {"push": [], "pull": []}
    for _ in range(RUNS):
        for way, seconds in filespace_one().items():
            mine[way].append(seconds)
            theirs[way].append(by_tar(way))
        note("filespace, s: %s, tar through ssh %s" % (mine, theirs))
    heading("%d small files in step with the owner's store, durable on both sides" % SMALL)
    for way, title in (("push", "up"), ("pull", "down")):
        row(title, mine[way], "s", goal=("<=", 3))
        row(title, mine[way], "s", "tar through ssh, then sync", theirs[way])


# --- memory and rest: fresh daemons, for what others gave back would be taken again unseen

def idle_sessions(server, door, n, parts, resting=False):
    seen = {}

    def look(phase):
        seen[phase] = {k: kb(p) for k, p in parts().items()}
        if phase == "idle" and resting:
            time.sleep(12)  # the recorder has their beginnings to cut, and looks at what was typed ten seconds later
            seen["cpu"] = [(time.monotonic(), cpu(server.everybody()), wakes(server.everybody()))]
            time.sleep(5)
            seen["cpu"].append((time.monotonic(), cpu(server.everybody()), wakes(server.everybody())))

    before = {k: kb(p) for k, p in parts().items()}
    server.client("idle", door, n, look=look)
    each = {k: (v - before.get(k, 0)) / n for k, v in seen["idle"].items()}
    if not resting:
        return each
    (t0, c0, w0), (t1, c1, w1) = seen["cpu"]
    return each, 100 * (c1 - c0) / (t1 - t0), (w1 - w0) / (t1 - t0)


def everybody(server):
    """Every process of it, but not the programs that its sessions run."""
    return lambda: sorted({p for p in [*below(server.process.pid), *server.pids()] if name(p) not in ("cat", "sleep", "bash")})


def memory():
    each = {}
    for door in ("web", "ssh"):
        with contextlib.closing(Muxd()) as fresh:
            fresh.client("echo", door, 5)  # what the first one makes is not theirs
            each[door] = idle_sessions(fresh, door, 100, fresh.parts)
            note("memory, %s: %s" % (door, each[door]))
    with contextlib.closing(Floor(muxd)) as fresh:
        fresh.client("echo", "web", 5)
        each["floor"] = idle_sessions(fresh, "web", 100, lambda: {"all": fresh.pids()})
    each["sshd"] = idle_sessions(sshd, "ssh", 20, lambda: {"all": sshd.pids()})
    heading("Memory of an idle session, of 100 in a fresh daemon (of sshd 20)")
    for door, title, peer, limit in (("web", "browser door", "floor", 30), ("ssh", "SSH door", "sshd", 32)):
        row("%s: hub, muxlet and recorder" % title, [sum(each[door].values())], "kB", goal=("<=", limit))
        for part in ("hub", "muxlet", "recorder"):
            row("... of which " + part, [each[door][part]], "kB")
        row("%s beside its peer" % title, [sum(each[door].values())], "kB", {"floor": "least TLS server", "sshd": "sshd"}[peer],
            [each[peer]["all"]])


def rest():
    heading("At rest: all processes of the daemon")
    with contextlib.closing(Muxd()) as fresh:
        fresh.everybody = everybody(fresh)
        fresh.client("echo", "web", 5)
        time.sleep(4)
        t0, c0, w0 = time.monotonic(), cpu(fresh.everybody()), wakes(fresh.everybody())
        time.sleep(8)
        t1, c1, w1 = time.monotonic(), cpu(fresh.everybody()), wakes(fresh.everybody())
        row("no session: share of a core", [100 * (c1 - c0) / (t1 - t0)], "%", goal=("<=", 0.1))
        row("no session: wake-ups", [(w1 - w0) / (t1 - t0)], "/s")
        _, share, woken = idle_sessions(fresh, "web", CROWD, fresh.parts, True)
        row("%d idle sessions: share of a core" % CROWD, [share], "%")
        row("%d idle sessions: wake-ups" % CROWD, [woken], "/s")


def detached():
    """A flood whose client has gone: what all of it costs, the program that floods too, and that it goes on."""
    with contextlib.closing(Muxd()) as fresh:
        with flooded(fresh, "web") as p:
            time.sleep(1)
            p.kill()
        time.sleep(10)
        pids = lambda: sorted({*below(fresh.process.pid), *(p for m in fresh.pids() for p in below(m))})
        printed = lambda: sum(s["output_bytes"] for s in json.loads(fresh.ctl("session", "list", "-o", "json"))["sessions"])
        t0, c0, n0 = time.monotonic(), cpu(pids()), printed()
        time.sleep(5)
        seconds = time.monotonic() - t0
        share, speed = 100 * (cpu(pids()) - c0) / seconds, (printed() - n0) / seconds / 1e6
    heading("A flood of a terminal without a client, from 10 s on")
    row("all processes, the program too: share of a core", [share], "%", goal=("<=", 5))
    row("what it goes on to print", [speed], "MB/s", goal=(">=", 1))


def part(f):
    begin = time.monotonic()
    f()
    note("%s took %.0f s" % (f.__name__, time.monotonic() - begin))


def verdicts():
    """verdict.c: of 100 profiles the last one matches, 16 patterns of paths."""
    ns = json.loads(subprocess.run([BUILD + "/bench/verdict"], check=True, stdout=subprocess.PIPE).stdout)
    heading("A verdict of the policy, of 100 profiles")
    for what, values in ns.items():
        row(what, values, "ns", goal=("<=", 5000))


FAIR = os.environ.get("FAIR", "4")  # seconds each


def shares():
    """fair_shares.py: nine agents run something four times a second, then beside a tenth that takes whatever it can."""
    told = []
    with contextlib.closing(Muxd("sandbox: {pids: 256}\n")) as daemon:
        tokens = {"task": "hostile", "hostile": daemon.agent("hostile", "rounds,files"),
                  "agents": {"good%d" % i: daemon.agent("good%d" % i, "rounds") for i in range(9)}}
        with open(tmp + "/tokens.json", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            json.dump(tokens, f)
        for _ in range(RUNS):
            out = subprocess.run([sys.executable, "tests/integration/fair_shares.py", daemon.state, f.name, FAIR], check=True,
                                 stdout=subprocess.PIPE).stdout
            told.append(json.loads(out))
            daemon.ctl("sandbox", "kill", "hostile", "--reason", "bench")
            if set(told[-1]["beside"]["answers"]) != {"200 whole"}:
                sys.exit("others were refused: %s" % told[-1]["beside"]["answers"])
    note("shares: %s" % told)
    heading("A round of `echo` of nine agents, beside a hostile tenth")
    for p, goal in (("p50", None), ("p99", ("<=", 3))):
        row(p, [t["beside"][p] for t in told], "ms", "the nine alone", [t["quiet"][p] for t in told], goal)


PARTS = [bulk, round_output, keys, flood, connect, rounds, tools, day, filespace, memory, rest, detached, verdicts, shares]
only = os.environ.get("ONLY", "").split() or [f.__name__ for f in PARTS]
api = Api()
with contextlib.ExitStack() as stack:
    stack.callback(shutil.rmtree, tmp, ignore_errors=True)
    muxd = stack.enter_context(contextlib.closing(Muxd()))
    floor = stack.enter_context(contextlib.closing(Floor(muxd)))
    sshd = stack.enter_context(contextlib.closing(Sshd()))
    for server, door in ((muxd, "web"), (floor, "web"), (sshd, "ssh"), (muxd, "ssh")):
        server.client("echo", door, 5)
    begin = time.monotonic()
    for f in PARTS:
        if f.__name__ in only:
            part(f)
    note("%.0f s in all" % (time.monotonic() - begin))
head = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "mib": MIB, "runs": RUNS, "keys": KEYS, "load": load}
with open(BUILD + "/bench.json", "w") as f:
    json.dump({**head, "rows": rows}, f, indent=1, ensure_ascii=False)
with open(BUILD + "/speed.svg", "w") as f:
    f.write(plot.draw(head, rows))
print(tables())
if os.environ.get("DOCS"):
    put_into_docs()
