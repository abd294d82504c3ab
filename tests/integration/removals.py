"""Removes files of the state directory, and looks whether anything is lost in silence. Started by removals.sh."""
import datetime
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../runner"))
import left  # noqa: E402

BUILD, MUXCTL = os.environ["BUILD"], os.environ["MUXCTL"]
HERE = sys.argv[1]
STATE, GOLD, CONF = HERE + "/state", HERE + "/gold", HERE + "/muxd.yaml"
CASES = os.environ.get("CASES", "4")
FROM = int(os.environ.get("FROM", "0"))
SEED = int(os.environ.get("SEED", "0")) or int(time.time())
LONG = "seq 1 5500000"  # some 41 MB: its first segments go while it is open
# Whose removal is told by others: of keys verify says what they vouch for (verify_keys), which is looked at here only
# so far as it must not be silent.
KEYS = re.compile(r"keys/record/")
daemon = None
began = time.time()


def fail(why):
    if os.environ.get("GO_ON"):
        print("  FAILED: " + why[:1500], flush=True)
        raise AssertionError
    open(HERE + "/failed", "w").close()
    kill()
    sys.exit("FAILED: %s (SEED=%d; its directory is kept: %s)" % (why, SEED, HERE))


def ctl(*args, check=True, **more):
    done = subprocess.run([MUXCTL, "--state", STATE, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, **more)
    if check and done.returncode:
        fail("muxctl %s: %s" % (" ".join(args), done.stderr.decode(errors="replace")))
    return done


def log():
    with open(STATE + "/daemon.log", errors="replace") as f:
        return f.read()


def start():
    """True: it came up. False: it ended, having said something."""
    global daemon
    for name in ("ready.json", "daemon.log"):
        if os.path.exists(STATE + "/" + name):
            os.unlink(STATE + "/" + name)
    with open(STATE + "/daemon.log", "w") as err:
        daemon = subprocess.Popen([BUILD + "/muxd", "serve", "--state", STATE, "--config", CONF, "--https", "127.0.0.1:0",
                                   "--ssh", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stderr=err, stdout=err)
    for _ in range(1200):
        if os.path.exists(STATE + "/ready.json") and os.path.getsize(STATE + "/ready.json"):
            return True
        if daemon.poll() is not None:
            return False
        time.sleep(0.05)
    fail("the daemon neither came up nor ended: " + log()[-2000:])


def children(pid):
    out = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True).stdout
    pairs = [tuple(map(int, line.split())) for line in out.splitlines()]
    found, more = [], [pid]
    while more:
        more = [c for c, p in pairs if p in more]
        found += more
    return found


def kill():
    """As a power cut does, all at once: the daemon's processes, and those of its sandboxes."""
    if not daemon:
        return
    pids = [daemon.pid] + children(daemon.pid) if daemon.poll() is None else []
    for pid, _ in left.left(STATE):
        pids += [p for p in [pid] + children(pid) if p not in pids]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    daemon.wait()
    # What they held ends with them.
    end = time.monotonic() + 60
    while any(left.runs(p) for p in pids):
        if time.monotonic() > end:
            raise RuntimeError("killed, and they have not ended: %s" % [p for p in pids if left.runs(p)])
        time.sleep(0.02)


def stop():
    ctl("shutdown", "--sandboxes", check=False)
    try:
        daemon.wait(60)
    except subprocess.TimeoutExpired:
        fail("the daemon does not stop")
    said = log()
    if "Sanitizer" in said or "runtime error" in said:
        fail("the daemon's log has findings:\n" + said[-4000:])


def sha(data):
    return hashlib.sha256(data).hexdigest()


def make():
    """Some of everything. What each session has put out, by id."""
    os.makedirs(STATE, mode=0o711, exist_ok=True)
    os.makedirs(STATE + "/journal", exist_ok=True)
    with open(CONF, "w") as f:
        f.write("journal: {dir: %s/journal, size: 16MiB}\nrecord: {segment_size: 1MiB, rules: [{kind: \"*\", rule: full}]}\n" % STATE)
    if not start():
        fail("the daemon does not come up: " + log()[-2000:])
    ctl("exec", "-n", "one", "--", "echo", "sealed")
    ctl("exec", "-n", "one", "--", "sh", "-c", "seq 1 200000; echo more >&2")
    ctl("sandbox", "snapshot", "one", check=False)
    ctl("grant", "create", "--agent", "x", "--principal", "p", "--kind", "staff", "--scopes", "rounds", "--reason", "removals")
    opened = []
    for command in (LONG + "; sleep 1000", "echo open; echo short >&2; sleep 1000"):
        opened.append(subprocess.Popen([MUXCTL, "--state", STATE, "exec", "-n", "two", "--", "sh", "-c", command],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    want = {sha(subprocess.run(["sh", "-c", c], capture_output=True).stdout)
            for c in ("echo sealed", "seq 1 200000", LONG, "echo open")}
    deadline = time.time() + 60
    while time.time() < deadline:
        ctl("head")
        have = {s: export(s) for s in sessions()}
        if {h for h in have.values() if h} >= want and released():
            break
        time.sleep(0.5)
    else:
        fail("the sessions do not get there, or no segment goes: " + log()[-1000:])
    time.sleep(0.3)
    kill()
    for p in opened:
        p.kill()
        p.wait()
    shutil.rmtree(GOLD, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", STATE, GOLD], check=True)
    return {s: h for s, h in have.items() if h in want}


def released():
    names = sorted(os.listdir(STATE + "/record/segments"))
    return names and names[0] != "0000000000000001.seg"


def sessions():
    done = ctl("session", "list", "--all", "-o", "json", check=False)
    if done.returncode:
        return []
    return [s["session"] for s in json.loads(done.stdout)["sessions"] if s.get("kind") in ("round", "exec")]


def export(session):
    done = ctl("export", session, "--format", "raw", "--stream", "stdout", check=False)
    return sha(done.stdout) if done.returncode == 0 else None


def files():
    """Relative paths of what there is, one or two of each kind."""
    kinds = {}
    for folder, _, names in os.walk(GOLD):
        for name in sorted(names):
            path = os.path.relpath(folder + "/" + name, GOLD)
            kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16}|\d{4}-\d\d-\d\d", "*", path)
            if os.path.islink(GOLD + "/" + path) or "daemon.log" in path:
                continue
            kinds.setdefault(kind, []).append(path)
    out = []
    for kind, paths in sorted(kinds.items()):
        out += {paths[0], paths[-1]} if kind.startswith("record/") else {paths[0]}
    return sorted(out)


def lines(text):
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            pass


def verify():
    done = ctl("verify", "--all", "-o", "json", check=False)
    try:
        found = json.loads(done.stdout).get("findings", [])
    except ValueError:
        found = []
    return done.returncode, [f for f in found if f.get("class") != "note"], done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def wall(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def audit():
    done = ctl("audit", "--event", "record.recut", "-n", "1000", "-o", "json", check=False)
    events = [o.get("record", {}) for o in lines(done.stdout.decode())]
    for r in events:
        for key in ("lost_from", "lost_until"):
            if key in r and not began - 1 <= wall(r[key]) <= time.time() + 1:
                fail("%s of %s is no time at which there was a session" % (key, r))
    return {r.get("session"): r for r in events}


def times_are_true(session):
    done = ctl("session", "show", session, "-o", "json", check=False)
    for text in re.findall(rb'"(?:opened|ended)_at": ?"([^"]+)"', done.stdout):
        if not began - 1 <= wall(text.decode()) <= time.time() + 1:
            fail("session %s has a time at which there was none: %s" % (session, text))


def settled(want):
    """Every session that was open has ended: their sandboxes are gone."""
    deadline = time.time() + 30
    while time.time() < deadline:
        done = ctl("session", "list", "--all", "-o", "json", check=False)
        if done.returncode == 0:
            states = {s["session"]: s.get("state") for s in json.loads(done.stdout)["sessions"]}
            if all(states.get(s) not in ("open", "ended", "running") for s in want):
                return
        time.sleep(0.1)


def check(what, want):
    if not start():
        said = [line for line in log().splitlines() if any(os.path.basename(p) in line for p in what)]
        if not said:
            fail("without %s it does not come up, and does not say so: %s" % (what, log()[-2000:]))
        return "refused: " + said[-1]
    settled(want)
    ctl("head", check=False)
    rc, found, text = verify()
    recut = audit()
    lost = []
    for session, digest in want.items():
        times_are_true(session)
        if export(session) == digest:
            continue
        named = [f for f in found if session in json.dumps(f)]
        if not named and not (rc and any(f.get("code", "").startswith(("log_", "expected_", "key_")) for f in found)):
            fail("without %s session %s is not what it was, and nobody says so:\n%s\n%s" % (what, session, text, log()[-1500:]))
        lost.append(named[0]["code"] if named else found[0]["code"])
    if any("/chain/" in p for p in what) and rc == 0 and not found:
        fail("without %s verify is silent:\n%s" % (what, text))
    if any(KEYS.search(p) for p in what) and rc == 0 and not found and "announced" not in text:
        fail("without %s verify is silent:\n%s" % (what, text))
    stop()
    said = ["told: " + ", ".join(sorted(set(lost)))] if lost else ["all there"]
    return "; ".join(said + (["cut anew: %d" % len(recut)] if recut else []))


def case(what, running, want):
    shutil.rmtree(STATE)
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", GOLD, STATE], check=True)
    if running:
        if not start():
            fail("the daemon does not come up from what a power cut left: " + log()[-2000:])
    for path in what:
        if os.path.exists(STATE + "/" + path):
            os.unlink(STATE + "/" + path)
    if running:
        ctl("exec", "-n", "three", "--", "echo", "meanwhile", check=False)
        if daemon.poll() is None:
            kill()
    print("  %.0f s" % (time.time() - began) if os.environ.get("TIMES") else "", end="")
    print("  ok: %s, without %s: %s" % ("running" if running else "stopped", " and ".join(what), check(what, want)), flush=True)


def main():
    rng = random.Random(SEED)
    want = make()
    there = files()
    print("  %d sessions, %d kinds of files, SEED=%d" % (len(want), len(there), SEED), flush=True)
    all_cases = [([p], r) for p in there for r in (False, True)]
    pairs = [(list(p), r) for p in itertools.combinations(there, 2) for r in (False, True)]
    if CASES == "singles":
        pairs = []
    elif CASES != "all":
        n = int(CASES)
        record = [c for c in all_cases if c[0][0].startswith("record/")]
        chosen = rng.sample(record, min(len(record), n // 2)) + rng.sample(all_cases, n // 4)
        all_cases = chosen + rng.sample(pairs, max(0, n - len(chosen)))
        pairs = []
    for what, running in (all_cases + pairs)[FROM:]:
        try:
            case(what, running, want)
        except AssertionError:  # told already; GO_ON=1 sees them all
            kill()


try:
    main()
finally:
    kill()
