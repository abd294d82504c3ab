"""What witnesses and digests cost where sessions are sealed: processor time of all of muxd's processes, without any
witness and with a file and an HTTPS service that are told of each seal (staff sessions), taken in turns, each in a fresh
daemon. SESSIONS of SIZE bytes of text each, one after the other, and the end of the sealing awaited; the start is not
counted. Prints rows of docs/speed.md, writes build/bench-witness.json."""
import glob, json, os, statistics, subprocess, sys, tempfile, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("BUILD", ROOT + "/build")
SESSIONS, SIZE, ROUNDS = (int(os.environ.get(k, d)) for k, d in (("SESSIONS", "60"), ("SIZE", "1000000"), ("ROUNDS", "5")))
TICK = os.sysconf("SC_CLK_TCK")


def run(*args, **more):
    return subprocess.run(args, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more).stdout


def spent(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def served(top):
    """An HTTPS service that says yes to every head; not muxd's, so its time is nobody's here."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", top + "/w.key", "-out", top + "/w.crt")
    for name, text in (("mode", "ok\n"), ("taken", ""), ("credential", "sesame\n")):
        with open(top + "/" + name, "w") as f:
            f.write(text)
    os.chmod(top + "/credential", 0o600)
    child = subprocess.Popen(["/usr/bin/python3", ROOT + "/tests/lib/witness.py", top + "/port", top + "/w.crt", top + "/w.key",
                              top + "/mode", top + "/taken"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (os.path.exists(top + "/port") and os.path.getsize(top + "/port")):
        time.sleep(0.05)
    with open(top + "/port") as f:
        return child, f.read().strip()


def config(top, state, port):
    """port None: no witness."""
    text = "witnesses: []\n"
    if port:
        os.makedirs(state + "-mount", exist_ok=True)
        os.chmod(state + "-mount", 0o777)
        text = """witnesses:
  - {name: box, kind: file, path: %s-mount/heads.jsonl}
  - {name: web, kind: https, url: "https://127.0.0.1:%s/heads", ca: %s/w.crt, credential: %s/credential}
""" % (state, port, top, top)
    with open(state + ".yaml", "w") as f:
        f.write(text)
    return state + ".yaml"


def sealed(state):
    return len(glob.glob(state + "/record/sealed/*/*.mrec"))


def one(top, name, port):
    state = "%s/%s" % (top, name)
    os.mkdir(state, 0o711)
    daemon = subprocess.Popen([BUILD + "/muxd", "serve", "--state", state, "--config", config(top, state, port), "--https",
                               "127.0.0.1:0", "--ssh", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=open(state + ".log", "w"))
    try:
        while not (os.path.exists(state + "/ready.json") and os.path.getsize(state + "/ready.json")):
            time.sleep(0.05)
            if daemon.poll() is not None:
                sys.exit("FAILED: the daemon did not start: " + open(state + ".log").read())
        muxctl = lambda *a: run(BUILD + "/muxctl", "--state", state, *a)  # noqa: E731
        muxctl("exec", "web", "--", "true")
        with open(state + "/ready.json") as f:
            pids = [p for p in json.load(f)["pids"].values()]
        before = spent(pids)
        for _ in range(SESSIONS):
            muxctl("exec", "web", "--", "sh", "-c", "yes 'a line of what a program prints' | head -c %d" % SIZE)
        end = time.monotonic() + 60
        while sealed(state) < SESSIONS + 1 and time.monotonic() < end:
            time.sleep(0.2)
        time.sleep(2)  # the last receipt
        took = spent(pids) - before
        return took
    finally:
        daemon.terminate()
        daemon.wait()


def main():
    rows = {"without": [], "with": []}
    with tempfile.TemporaryDirectory(prefix="muxd-bench-") as top:
        os.chmod(top, 0o711)
        child, port = served(top)
        try:
            for i in range(ROUNDS):
                rows["without"].append(one(top, "a%d" % i, None))
                rows["with"].append(one(top, "b%d" % i, port))
            with open(top + "/taken") as f:
                heads = sum(1 for _ in f)
        finally:
            child.terminate()
            child.wait()
    median = {k: statistics.median(v) for k, v in rows.items()}
    cost = 100 * (median["with"] / median["without"] - 1)
    os.makedirs(ROOT + "/build", exist_ok=True)
    with open(ROOT + "/build/bench-witness.json", "w") as f:
        json.dump({"sessions": SESSIONS, "bytes": SIZE, "heads": heads, "seconds": rows, "cost_percent": round(cost, 1)}, f)
    each = {k: 1000 * v / SESSIONS for k, v in median.items()}
    print("| %d staff sessions of %.1f MB, sealed: processor time of all of muxd, each | %.1f ms | | without witnesses | |"
          % (SESSIONS, SIZE / 1e6, each["without"]))
    print("| the same with two witnesses told of each seal (%d heads) | %.1f ms | | %+.1f %% (spread %.0f %%) | ≤ 5 %% |"
          % (heads, each["with"], cost, 100 * (max(rows["without"]) / min(rows["without"]) - 1)))


main()
