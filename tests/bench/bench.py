#!/usr/bin/env python3
"""Speed of the SSH and HTTPS doors against peers, in one run, interleaved, as medians and ratios.

Peers: the bare PTY (a floor), OpenSSH's sshd, script(1), posix_spawn, ssh with ControlMaster. The recorder is on in every
figure of ours. Prints a table and writes build/bench.json. Sizes: MIB (default 256), RUNS (3). What many sessions cost is in web.py.
"""
import fcntl, http.client, json, os, pty, select, shutil, signal, socket, ssl, statistics, subprocess, sys, tempfile, termios, threading, time, tty

BUILD = os.environ.get("BUILD", "build")
MIB, RUNS = int(os.environ.get("MIB", "256")), int(os.environ.get("RUNS", "3"))
SESSIONS = 20  # idle ones, there and here
AGENT = "bench"
tmp = tempfile.mkdtemp(prefix="muxd-bench.")
os.chmod(tmp, 0o711)
state = tmp + "/state"
table = {}


def note(text):
    print("# " + text, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_muxd():
    os.mkdir(state, 0o711)
    conf = tmp + "/muxd.yaml"
    with open(conf, "w") as f:
        f.write("ssh: {max_connections: 2000, max_per_address: 2000}\nsessions: {max: 2000, max_per_agent: 1000}\n")
    p = subprocess.Popen([BUILD + "/muxd", "serve", "--state", state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--config",
                          conf, "--end-sandboxes"], stderr=open(tmp + "/muxd.log", "w"))
    for _ in range(200):
        if os.path.exists(state + "/ready.json"):
            return p, json.load(open(state + "/ready.json"))
        time.sleep(0.1)
    sys.exit("muxd did not start: " + open(tmp + "/muxd.log").read()[-2000:])


def start_sshd():
    port = free_port()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp + "/host"], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp + "/id"], check=True)
    shutil.copy(tmp + "/id.pub", tmp + "/authorized")
    os.makedirs("/run/sshd", exist_ok=True)
    with open(tmp + "/sshd_config", "w") as f:
        f.write(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp}/host\nAuthorizedKeysFile {tmp}/authorized\nStrictModes no\n"
                f"UsePAM no\nPidFile none\nMaxStartups 1000\nMaxSessions 1000\nPrintMotd no\nPermitRootLogin yes\n"
                f"PermitUserEnvironment no\n")
    p = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", tmp + "/sshd_config"], stderr=open(tmp + "/sshd.log", "w"))
    time.sleep(0.5)
    return p, port


def grant():
    p = subprocess.run([BUILD + "/muxctl", "--state", state, "grant", "create", "--agent", AGENT, "--principal", "bench", "--kind",
                        "staff", "--scopes", "terminal,rounds,observe,drive,replay", "--task", "bench", "--ttl", "3h", "--reason",
                        "bench", "-o", "json"], capture_output=True, check=True)
    return json.loads(p.stdout)["token"]


COMMON = ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
          "-c", "aes128-gcm@openssh.com"]


def ours(*args):
    return (["sshpass", "-e", "ssh", *COMMON, "-o", "PreferredAuthentications=password", "-p", str(ssh_port), "-l", AGENT, *args[:-1],
             "127.0.0.1"] + ([args[-1]] if args[-1] else []))


def theirs(*args):
    return (["ssh", *COMMON, "-i", tmp + "/id", "-o", "IdentitiesOnly=yes", "-p", str(sshd_port), "-l", "root", *args[:-1],
             "127.0.0.1"] + ([args[-1]] if args[-1] else []))


def drain(argv, terminal):
    """Run, count every byte that comes out, seconds from the first to the last."""
    t0, n = None, 0
    if terminal:
        pid, fd = pty.fork()
        if pid == 0:
            tty.setraw(0)
            os.execvpe(argv[0], argv, env)
    else:
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, stdin=subprocess.DEVNULL)
        fd = p.stdout.fileno()
    while True:
        try:
            b = os.read(fd, 1 << 18)
        except OSError:
            b = b""
        if not b:
            break
        t0 = t0 or time.perf_counter()
        n += len(b)
    end = time.perf_counter()
    if terminal:
        os.close(fd)
        os.waitpid(pid, 0)
    else:
        p.wait()
    return n, end - (t0 or end)


def mixed_text(path):
    """Lines as programs print them: plain, coloured, UTF-8, progress bars."""
    parts = []
    for i in range(4000):
        parts.append("%06d \x1b[3%dmmodule/%d.c\x1b[0m: compiled in %d ms, warnings: none\n" % (i, i % 8, i * 7, i % 300))
        parts.append("naïve café ☕ 漢字 %d \x1b[1mbold\x1b[22m end\n" % i)
        parts.append("\r[%s%s] %3d%%" % ("#" * (i % 50), "." * (50 - i % 50), i % 101))
    block = "".join(parts).encode()
    with open(path, "wb") as f:
        left = MIB << 20
        while left > 0:
            f.write(block[:left])
            left -= len(block)


def bulk():
    text = tmp + "/text"
    mixed_text(text)
    with open(text, "rb") as f:
        subprocess.run(ours("cat > /workspace/text"), stdin=f, env=env, check=True)
    ways = {
        "PTY alone": (["sh", "-c", "stty raw; cat " + text], True),
        "script": (["script", "-q", "-c", "stty raw; cat " + text, tmp + "/typescript"], True),
        "sshd, terminal": (theirs("-tt", "stty raw; cat " + text), False),
        "muxd SSH, terminal": (ours("-tt", "stty raw; cat /workspace/text"), False),
        "sshd, pipe": (theirs("cat " + text), False),
        "muxd SSH, pipe": (ours("cat /workspace/text"), False),
    }
    speeds = {k: [] for k in ways}
    for run in range(RUNS):
        for name, (argv, terminal) in ways.items():
            n, s = drain(argv, terminal)
            if n < MIB << 20:
                sys.exit("%s: %d bytes of %d" % (name, n, MIB << 20))
            speeds[name].append(n / s / 1e6)
            note("bulk %s: %.0f MB/s" % (name, speeds[name][-1]))
    return {k: statistics.median(v) for k, v in speeds.items()}


def round_bulk():
    global conn
    conn, out = None, []  # the one before was idle for longer than the door waits
    for _ in range(RUNS):
        t0 = time.perf_counter()
        r = post({"argv": ["cat", "/workspace/text"], "wait_ms": 60000})
        out.append(r["stdout"]["total_bytes"] / (time.perf_counter() - t0) / 1e6)
    return statistics.median(out)


class Echo:
    """A terminal with cat behind it: one key in, one byte back."""

    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            tty.setraw(0)
            os.execvpe(argv[0], argv, env)
        tty.setraw(self.fd)
        got, end = b"", time.time() + 15
        while b"READY" not in got:
            if not select.select([self.fd], [], [], max(0, end - time.time()))[0]:
                sys.exit("no echo from %s: %r" % (argv, got))
            got += os.read(self.fd, 4096)
        time.sleep(0.3)
        while select.select([self.fd], [], [], 0)[0]:
            os.read(self.fd, 4096)

    def sample(self, n, gap=0.004):
        times = []
        for i in range(n):
            key = b"abcdefghij"[i % 10:i % 10 + 1]
            t0 = time.perf_counter()
            os.write(self.fd, key)
            got = b""
            while key not in got:
                if not select.select([self.fd], [], [], 5)[0]:
                    sys.exit("an echo was lost")
                got += os.read(self.fd, 4096)
            times.append((time.perf_counter() - t0) * 1e6)
            time.sleep(gap)
        return times

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


CAT = "stty raw -echo; printf READY; exec cat"


def quantiles(times):
    times = sorted(times)
    return {"p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}


def echo(n=400):
    # script and tmux: what one and two processes between the terminal and the program cost here.
    ways = {"PTY alone": ["sh", "-c", CAT], "script": ["script", "-q", "-c", CAT, "/dev/null"],
            "tmux": ["tmux", "-f", "/dev/null", "-S", tmp + "/tmux", "new-session", CAT], "sshd": theirs("-tt", CAT),
            "muxd SSH": ours("-tt", CAT)}
    out = {}
    for quiet in (True, False):
        floods = []
        if not quiet:
            floods = {"sshd": theirs("-tt", "yes flood"), "muxd SSH": ours("-tt", "yes flood")}
        for name, argv in ways.items():
            flood = None
            if not quiet:
                if name not in floods:
                    continue
                flood = subprocess.Popen(floods[name], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env)
                time.sleep(1)
            e = Echo(argv)
            out[name + ("" if quiet else ", beside a flood")] = quantiles(e.sample(n))
            e.close()
            if name == "tmux":
                subprocess.run(["tmux", "-S", tmp + "/tmux", "kill-server"], stderr=subprocess.DEVNULL)
            if flood:
                flood.kill()
                flood.wait()
            note("echo %s %s: %s" % (name, "quiet" if quiet else "flood", {k: round(v) for k, v in list(out.values())[-1].items()}))
    return out


conn = None


def post(body, path=None):
    global conn
    if conn is None:
        host, port = ready["https"].rsplit(":", 1)
        conn = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(cafile=state + "/keys/tls.crt"))
        conn.connect()
        conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conn.request("POST", path or "/v1/agents/%s/rounds" % AGENT, json.dumps(body),
                 {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    return json.loads(conn.getresponse().read())


def rounds(n=200):
    master = ["-o", "ControlPath=" + tmp + "/cm"]
    subprocess.run(theirs("-o", "ControlMaster=yes", "-f", "-N", *master, ""), env=env, check=True)
    out = {"posix_spawn": [], "muxd round": [], "ssh, ControlMaster": [], "ssh": [], "muxd, ssh": []}

    def timed(name, f):
        t0 = time.perf_counter()
        f()
        out[name].append((time.perf_counter() - t0) * 1e3)

    def spawn():
        os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)

    post({"argv": ["true"]})
    for i in range(n):
        timed("posix_spawn", spawn)
        timed("muxd round", lambda: post({"argv": ["true"]}))
        if i < 20:
            timed("ssh, ControlMaster", lambda: subprocess.run(theirs(*master, "true"), env=env, check=True))
        if i < 10:
            timed("ssh", lambda: subprocess.run(theirs("true"), env=env, check=True))
            timed("muxd, ssh", lambda: subprocess.run(ours("true"), env=env, check=True))
    subprocess.run(["ssh", "-F", "none", *master, "-O", "exit", "x"], capture_output=True)
    return {k: statistics.median(v) for k, v in out.items()}


def pss(pids):
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/smaps_rollup" % pid) as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return total


def children(pid):
    out = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(p) for p in out] + [q for p in out for q in children(int(p))]


def comm(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read()
    except OSError:
        return ""  # it has ended meanwhile


def idle():
    out = {}
    net = json.load(open(state + "/ready.json"))["pids"]["net"]
    subprocess.run(ours("-tt", "true"), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    before, clients = pss([net]), []
    for _ in range(SESSIONS):
        clients.append(subprocess.Popen(ours("-tt", "exec sleep 1000"), env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL))
    time.sleep(5)
    out["muxd SSH"] = (pss([net]) - before) / SESSIONS
    for c in clients:
        c.kill()
        c.wait()
    before, clients = pss(children(sshd.pid)), []
    for _ in range(SESSIONS):
        clients.append(subprocess.Popen(theirs("-tt", "exec sleep 1000"), env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL))
    time.sleep(5)
    ssh_only = [p for p in children(sshd.pid) if "sshd" in comm(p)]
    out["sshd"] = (pss(ssh_only) - before) / SESSIONS
    for c in clients:
        c.kill()
        c.wait()
    return out


def row(what, value, peer, ratio, goal):
    print("| %-46s | %-16s | %-28s | %-6s | %-8s |" % (what, value, peer, ratio, goal))


def report(r):
    b, e, m, i = r["bulk"], r["echo"], r["rounds"], r["idle"]
    row("what", "muxd", "peer", "ratio", "goal")
    row("-" * 46, "-" * 16, "-" * 28, "-" * 6, "-" * 8)
    t = b["muxd SSH, terminal"]
    for peer, goal in (("sshd, terminal", "≥ 1.0"), ("PTY alone", ""), ("script", "")):
        row("bulk, terminal", "%.0f MB/s" % t, "%s %.0f MB/s" % (peer, b[peer]), "%.2f" % (t / b[peer]), goal)
    row("bulk, ssh host cat", "%.0f MB/s" % b["muxd SSH, pipe"], "sshd %.0f MB/s" % b["sshd, pipe"],
        "%.2f" % (b["muxd SSH, pipe"] / b["sshd, pipe"]), "")
    row("bulk, a round's output", "%.0f MB/s" % r["round_bulk"], "sshd, pipe %.0f MB/s" % b["sshd, pipe"],
        "%.2f" % (r["round_bulk"] / b["sshd, pipe"]), "≥ 1.5")
    q, f = e["muxd SSH"], e["muxd SSH, beside a flood"]
    row("key echo, p50", "%.0f µs" % q["p50"], "sshd %.0f µs" % e["sshd"]["p50"], "%.2f" % (q["p50"] / e["sshd"]["p50"]), "≤ 0.7")
    for peer in ("PTY alone", "script", "tmux"):
        row("key echo, p50", "%.0f µs" % q["p50"], "%s %.0f µs" % (peer, e[peer]["p50"]), "%.2f" % (q["p50"] / e[peer]["p50"]), "")
    row("key echo, p99", "%.0f µs" % q["p99"], "sshd %.0f µs" % e["sshd"]["p99"], "%.2f" % (q["p99"] / e["sshd"]["p99"]), "")
    row("key echo beside a flood, p50", "%.0f µs" % f["p50"], "own quiet %.0f µs" % q["p50"], "%.2f" % (f["p50"] / q["p50"]), "≤ 1.5")
    row("key echo beside a flood, p99", "%.0f µs" % f["p99"], "sshd %.0f µs" % e["sshd, beside a flood"]["p99"],
        "%.2f" % (f["p99"] / e["sshd, beside a flood"]["p99"]), "")
    row("a round of true, p50", "%.2f ms" % m["muxd round"], "posix_spawn %.2f ms" % m["posix_spawn"],
        "%.2f" % (m["muxd round"] / m["posix_spawn"]), "≤ 1.5")
    row("a round of true, p50", "%.2f ms" % m["muxd round"], "ControlMaster %.1f ms" % m["ssh, ControlMaster"],
        "%.2f" % (m["muxd round"] / m["ssh, ControlMaster"]), "≤ 0.1")
    row("ssh host true, new connection", "%.0f ms" % m["muxd, ssh"], "sshd %.0f ms" % m["ssh"], "%.2f" % (m["muxd, ssh"] / m["ssh"]), "≤ 0.5")
    row("idle session, of %d" % SESSIONS, "%.0f kB" % i["muxd SSH"], "sshd %.0f kB" % i["sshd"], "%.3f" % (i["muxd SSH"] / i["sshd"]), "≤ 50 kB")


muxd, ready = start_muxd()
sshd, sshd_port = start_sshd()
try:
    ssh_port = ready["ssh"].rsplit(":", 1)[1]
    token = grant()
    env = dict(os.environ, SSHPASS=token, TERM="xterm")
    results = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "mib": MIB, "runs": RUNS}
    post({"argv": ["true"]})
    results["idle"] = idle()  # first: memory that floods leave behind would hide it
    results["bulk"] = bulk()
    results["round_bulk"] = round_bulk()
    results["echo"] = echo()
    results["rounds"] = rounds()
    with open("build/bench.json", "w") as f:
        json.dump(results, f, indent=1)
    report(results)
finally:
    sshd.terminate()
    subprocess.run([BUILD + "/muxctl", "--state", state, "shutdown", "--sandboxes"], capture_output=True)
    muxd.terminate()
    muxd.wait()
    shutil.rmtree(tmp, ignore_errors=True)
