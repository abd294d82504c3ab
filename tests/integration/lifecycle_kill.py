#!/usr/bin/env python3
"""Lifecycle under kill -9.

Twenty agents, each with a thread of its own that goes through rounds, stops, idle stops, snapshots, restores, forks and ends,
by HTTPS, in an order that comes from the seed. Meanwhile the monitor, net, the recorder or all of them are killed at random
moments and started again. Each thread knows what its workspace must hold: one content, or, where a kill ate the answer, one of
several. Every CHECK kills, and at the end, all threads rest, and then:

 - each agent is running, stopped or gone, by itself; none is between two states, none in error;
 - there is exactly one sandbox for each that runs, none for any other; no loop device, no half snapshot is left;
 - every snapshot that was answered as ready is listed, and a fork of it holds what it held when it was taken;
 - each workspace holds what it must.

Four users lease sandboxes of the pool beside that: a request that is asked again is the same lease, no sandbox is ever handed out
twice or used before, and at rest the pool is full and nothing is leased.

lifecycle_kill.py STATE; KILLS, AGENTS, SEED, CHECK, GAP (seconds between kills, at most) from the environment.
"""
import collections, http.client, json, os, random, signal, ssl, subprocess, sys, threading, time, traceback

STATE = sys.argv[1]
BUILD, MUXCTL = os.environ["BUILD"], os.environ["MUXCTL"]
KILLS = int(os.environ.get("KILLS", "6"))
AGENTS = int(os.environ.get("AGENTS", "20"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
CHECK = int(os.environ.get("CHECK", "25"))
GAP = float(os.environ.get("GAP", "3"))
SAMPLE = int(os.environ.get("SAMPLE", "30"))
POOL, USERS = 3, 4
UID_BASE = 1000000000 + os.getpid() % 10000 * 60000  # above those of the unit tests (tests/lib/local_box.h), and all its own
CONF = """
log: {level: info}
privsep: {sandbox_uid_base: %d}
sandbox: {workspace_size: 16MiB, memory: 64MiB}
pool: {size: 3, fill: 2}
lifecycle: {idle_ttl: 6s, idle_warning: 0s, keep_snapshots: 100000, keep_age: 0s, start_timeout: 90s, snapshot_timeout: 60s}
""" % UID_BASE
STEADY = ("running", "stopped")
EXPLAINED = ("cancelled", "unavailable", "record_unavailable", "link_lost", "bad_state", "ended", "already_ended", "internal_shutdown")
EXPLAINED_OF = set()  # (call, code) that only a kill of somebody else's explains
faults, counts, lock = [], {}, threading.Lock()


def count(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1


def fault(text):
    with lock:
        faults.append(text)
    print("  FAULT %s: %s" % (time.strftime("%H:%M:%S"), text), flush=True)


class Gone(Exception):
    """No answer came: whether the call did anything is not known."""


# --- the daemon


class Daemon:
    def __init__(self):
        os.makedirs(STATE, mode=0o711, exist_ok=True)
        os.chmod(STATE, 0o711)
        with open(STATE + "/muxd.yaml", "w") as f:
            f.write(CONF)
        self.log = open(STATE + "/daemon.log", "ab")
        self.p, self.ready = None, None

    def read_ready(self):
        try:
            with open(STATE + "/ready.json") as f:
                return json.load(f)
        except (OSError, ValueError):
            return None

    def start(self):
        """Until it is ready; where the one before still holds its lock, again."""
        end = time.time() + 120
        try:
            os.unlink(STATE + "/ready.json")
        except OSError:
            pass
        while time.time() < end:
            self.p = subprocess.Popen(
                [BUILD + "/muxd", "serve", "--state", STATE, "--config", STATE + "/muxd.yaml", "--https", "127.0.0.1:0",
                 "--ssh", "127.0.0.1:0"], stderr=self.log, stdout=self.log)
            while time.time() < end and self.p.poll() is None:
                r = self.read_ready()
                if r and r["pids"]["monitor"] == self.p.pid:
                    self.ready = r
                    return
                time.sleep(0.02)
            time.sleep(0.2)
        sys.exit("FAILED: the daemon does not start")

    def kill(self, which):
        r = self.read_ready() or self.ready
        for w in ("monitor", "net", "recorder") if which == "all" else which.split("+"):
            try:
                if r["pids"][w] > 0:
                    os.kill(r["pids"][w], signal.SIGKILL)
            except ProcessLookupError:
                pass
        if "monitor" in which or which == "all":
            self.p.wait()
            self.start()
            return
        end = time.time() + 120
        while time.time() < end:
            now = self.read_ready()
            if now and all(now["pids"][w] not in (0, r["pids"][w]) for w in which.split("+")):
                self.ready = now
                return
            if self.p.poll() is not None:
                sys.exit("FAILED: the monitor ended when %s was killed" % which)
            time.sleep(0.02)
        sys.exit("FAILED: %s did not come back" % which)


daemon = Daemon()
TOKEN = None


def make_token():
    p = subprocess.run([MUXCTL, "--state", STATE, "grant", "create", "--agent", "*", "--principal", "killer", "--kind",
                        "service", "--scopes", "lifecycle,admin,rounds,observe,replay", "--task", "kill", "--ttl", "12h", "--reason",
                        "lifecycle kill", "-o", "json"], capture_output=True, timeout=60)
    if p.returncode != 0:
        sys.exit("FAILED: no grant: " + p.stderr.decode())
    return json.loads(p.stdout)["token"]


class Client:
    """One connection, made again after each loss. call() gives (status, body), or raises Gone."""

    def __init__(self):
        self.c = None

    def close(self):
        if self.c:
            self.c.close()
        self.c = None

    def connect(self):
        host, port = daemon.ready["https"].rsplit(":", 1)
        ctx = ssl.create_default_context(cafile=STATE + "/keys/tls.crt")
        ctx.check_hostname = False
        self.c = http.client.HTTPSConnection(host, int(port), timeout=150, context=ctx)
        self.c.connect()

    def call(self, method, path, body=None):
        try:
            if not self.c:
                self.connect()
            self.c.request(method, path, json.dumps(body) if body is not None else None,
                           {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
            r = self.c.getresponse()
            data = r.read()
            return r.status, json.loads(data) if data else {}
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.close()
            raise Gone(str(e))

    def sure(self, method, path, body=None, seconds=240):
        """For what may be asked again: until somebody answers."""
        end = time.time() + seconds
        while True:
            try:
                s, o = self.call(method, path, body)
                if s not in (429, 503):
                    return s, o
                last = code(o)
            except Gone as e:
                last = str(e)
            if time.time() > end:
                raise AssertionError("%s %s: no answer in %d s: %s" % (method, path, seconds, last))
            time.sleep(0.1)


def code(o):
    e = o.get("error", {}) if isinstance(o, dict) else {}
    return e.get("code", "?") if isinstance(e, dict) else str(e)


def words(o):
    e = o.get("error", {}) if isinstance(o, dict) else {}
    return "%s: %s" % (e.get("code"), e.get("message")) if isinstance(e, dict) else str(o)[:300]


# --- what is real


BEFORE = set()  # process 1 of sandboxes that others left on this machine


def processes():
    """agent -> pids of process 1 of a sandbox of this run."""
    out = {}
    for d in os.listdir("/proc"):
        if not d.isdigit() or int(d) in BEFORE:
            continue
        try:
            if not UID_BASE <= os.stat("/proc/" + d).st_uid < UID_BASE + 60000:
                with open("/proc/%s/status" % d) as f:
                    uid = [l for l in f if l.startswith("Uid:")][0].split()[1]
                if not UID_BASE <= int(uid) < UID_BASE + 60000:
                    continue
            with open("/proc/%s/status" % d) as f:
                st = f.read()
            if "\nNSpid:" not in st or st.split("\nNSpid:")[1].split("\n")[0].split()[-1] != "1" or "\nState:\tZ" in st:
                continue
            with open("/proc/%s/cmdline" % d, "rb") as f:
                if b"muxlet" not in f.read().split(b"\0")[0]:
                    continue
            with open("/proc/%s/root/etc/hostname" % d) as f:
                out.setdefault(f.read().strip(), []).append(int(d))
        except (OSError, IndexError):
            continue
    return out


def loops():
    out = {}
    for d in os.listdir("/sys/block"):
        try:
            with open("/sys/block/%s/loop/backing_file" % d) as f:
                path = f.read().strip()
        except OSError:
            continue
        if path.startswith(STATE + "/sandboxes/"):
            out.setdefault(path[len(STATE) + 11:].split("/")[0], []).append(d)
    return out


def half_made():
    out = []
    for top, _, names in os.walk(STATE + "/sandboxes"):
        for n in names:
            if n.endswith(".new") or (n.endswith((".img", ".tar.zst")) and top.endswith("/snapshots") and
                                      not os.path.exists(top + "/" + n.split(".")[0] + ".json")):
                out.append(top + "/" + n)
    return out


# --- an agent and what is known of it


class Agent(threading.Thread):
    def __init__(self, n):
        super().__init__(daemon=True)
        self.name_, self.rng, self.c = "kill-%d" % n, random.Random("%d/%d" % (SEED, n)), Client()
        self.n, self.version, self.forks = n, 0, 0
        self.may = {None}  # contents that the workspace may have: a hash, ("v", number) of a write that was not heard, None
        self.snaps = {}  # id -> contents that it may have
        self.pause, self.paused, self.end = threading.Event(), threading.Event(), False
        self.past = collections.deque(maxlen=40)  # what it did and heard last; shown with a fault of its contents

    def note(self, text):
        self.past.append("%s %s" % (time.strftime("%H:%M:%S"), text))

    def story(self):
        return "".join("\n      " + t for t in self.past)

    def path(self, tail=""):
        return "/v1/agents/" + self.name_ + tail

    def round(self, agent, script, tag):
        """stdout of a round, or None where its outcome cannot be known. The same exec_id: it runs once."""
        body = {"argv": ["sh", "-c", script], "exec_id": "%s-%d-%s" % (agent, SEED, tag), "wait_ms": 20000, "timeout_ms": 60000}
        end = time.time() + 240
        while True:
            s, o = self.c.sure("POST", "/v1/agents/%s/rounds" % agent, body)
            while s == 202:
                time.sleep(0.1)
                s, o = self.c.sure("GET", "/v1/rounds/%s?wait_ms=5000" % o["round_id"])
            if s == 200 and o["exit"]["cause"] == "exit":
                self.note("%s: round %s: %s" % (agent, tag, o["stdout"]["data"][:40].split()))
                if o["exit"]["code"] != 0:
                    fault("%s: round %s gave %s: %s" % (agent, tag, o["exit"], o["stderr"]["data"][:200]))
                return self.stdout(agent, tag, o)
            count("round " + (o["exit"]["cause"] if s == 200 else code(o)))
            self.note("%s: round %s: %s" % (agent, tag, o["exit"] if s == 200 else words(o)))
            if s == 200 or code(o) not in ("bad_state", "sandbox_create_timeout", "timeout") or time.time() > end:
                if s != 200:
                    self.odd("round", s, o)
                return None
            time.sleep(0.2)

    def stdout(self, agent, tag, o):
        """All of it. What was written before a kill is no longer in the answer, which says so; it is in the record."""
        out = o["stdout"]
        if not out["truncated"]:
            return out["data"]
        end = time.time() + 120
        while True:
            s, b = self.c.sure("GET", "/v1/rounds/%s/output?stream=stdout&offset=0&limit=4096" % o["round_id"])
            if s == 200 and b.get("eof") and len(b["data"]) == out["total_bytes"]:
                return b["data"]
            if time.time() > end:
                fault("%s: round %s ended, and its output is not in the record: %s %s %s" % (agent, tag, o, s, b))
                return None
            time.sleep(0.2)

    def odd(self, what, s, o):
        """An error that the model has no place for is shown; those that only a kill explains are counted."""
        if code(o) in EXPLAINED or (what, code(o)) in EXPLAINED_OF:
            count("%s %s" % (what, code(o)))
        else:
            fault("%s: %s: %s %s" % (self.name_, what, s, words(o)))

    READ = "[ -e c ] && { sha256sum < c | cut -c1-16; head -n 1 c; } || echo none"

    def look(self, agent, tag):
        out = self.round(agent, self.READ, tag)
        if out is None:
            return "?"
        lines = out.split("\n")
        return (None, None) if lines[0] == "none" else (lines[0], lines[1])

    def fits(self, got, may):
        return any(m is None and got[0] is None or m == got[0] or isinstance(m, tuple) and str(m[1]) == got[1] for m in may)

    def tag(self):
        self.version += 1
        return str(self.version)

    # -- the steps; each leaves self.may and self.snaps true

    def write(self):
        t = self.tag()
        script = ("{ echo %s; head -c %d /dev/urandom; } > c.new && mv c.new c && sha256sum < c | cut -c1-16" %
                  (t, self.rng.randrange(1000, 1500000)))
        before = set(self.may)
        self.may = before | {("v", int(t))}
        out = self.round(self.name_, script, t)
        if out is not None:
            self.may = {out.strip()}

    def check(self):
        got = self.look(self.name_, self.tag())
        if got == "?":
            return
        if not self.fits(got, self.may):
            fault("%s holds %s, it must be one of %s%s" % (self.name_, got, self.may, self.story()))
        self.may = {got[0]}

    def resume(self):
        try:
            s, o = self.c.call("POST", self.path("/resume"), {})
        except Gone:
            return
        if s != 200:
            self.odd("resume", s, o)
        elif o.get("state") == "idle_stopping":  # it fell asleep in the very moment; the call that just ended takes that back
            count("resume met idle_stopping")
        elif o.get("state") != "running":
            fault("%s: resume answered with %s" % (self.name_, o))

    def note_snapshot(self, id_):
        if id_ and id_ not in self.snaps:
            self.snaps[id_] = frozenset(self.may)
            self.note("snapshot %s holds one of %s" % (id_, self.may))

    def absent(self, status):
        """There is no such agent: a write that a kill cut short may not have made it. What was there once stays."""
        if status != 404 or None not in self.may:
            return False
        self.may = {None}
        return True

    def stop(self):
        began = int(time.time() * 1000)
        try:
            s, o = self.c.call("POST", self.path("/stop"), {"reason": "kill story"})
        except Gone:
            return
        if self.absent(s):
            return
        if s != 200:
            self.odd("stop", s, o)
        else:
            # One that this stop has taken: ids begin with their time. Where it was stopped already, it is an older one.
            id_ = o.get("workspace_snapshot_id") or ""
            if id_ and int(id_[:8] + id_[9:13], 16) >= began:
                self.note_snapshot(id_)
            count("stopped")

    def snapshot(self):
        try:
            s, o = self.c.call("POST", self.path("/snapshots"), {"reason": "kill story"})
        except Gone:
            return
        if s in (200, 201):
            self.note_snapshot(o["snapshot"]["id"])
            count("snapshot")
        elif self.absent(s):
            count("nothing to snapshot")
        else:
            self.odd("snapshot", s, o)

    def settled(self):
        """The state, once it is none on the way to another; None: there is no such agent."""
        end = time.time() + 180
        while True:
            s, o = self.c.sure("GET", self.path())
            if s == 404 or o.get("state") == "absent":
                return None
            if s == 200 and o["state"] in STEADY + ("error",):
                return o
            if time.time() > end:
                fault("%s stays %s" % (self.name_, o))
                return o
            time.sleep(0.1)

    def restore(self):
        if not self.snaps:
            return self.snapshot()
        id_ = self.rng.choice(sorted(self.snaps))
        before, then = set(self.may), set(self.snaps[id_])
        self.may = before | then
        self.note("back to %s, %s" % (id_, then))
        try:
            s, o = self.c.call("POST", self.path("/restore"), {"reason": "kill story", "snapshot_id": id_})
        except Gone:
            self.settled()
            return
        if s == 200:
            self.may = then
            count("restored")
        elif code(o) in ("bad_state", "not_found"):
            self.may = before
            self.odd("restore", s, o)
        else:
            self.odd("restore", s, o)

    def fork_of(self, id_, may, writable):
        """A fork holds what the snapshot held; then it goes."""
        self.forks += 1
        name = "fork-%d-%d" % (self.n, self.forks)
        end = time.time() + 240
        while True:
            try:
                s, o = self.c.call("POST", self.path("/fork"), {"reason": "kill story", "snapshot_id": id_, "as": name,
                                                               "writable": writable})
                if s in (200, 201):
                    break
                if code(o) in ("conflict", "bad_state"):  # an earlier call of ours, whose answer a kill ate, made it
                    so, oo = self.c.sure("GET", "/v1/agents/" + name)
                    if so == 200 and oo.get("state") in ("running", "stopped"):
                        break
                    count("fork " + code(o))
                elif code(o) == "not_found":
                    fault("%s: snapshot %s cannot be forked: %s" % (self.name_, id_, words(o)))
                    return
                else:
                    self.odd("fork", s, o)
            except Gone:
                pass
            if time.time() > end:
                fault("%s: no fork of %s" % (self.name_, id_))
                return
            time.sleep(0.2)
        got = self.look(name, "fork-%d" % self.forks)
        if got != "?" and not self.fits(got, may):
            fault("snapshot %s of %s holds %s, it was taken of one of %s%s" % (id_, self.name_, got, set(may), self.story()))
        count("forked")
        self.wipe(name)

    def fork(self):
        if not self.snaps:
            return self.snapshot()
        id_ = self.rng.choice(sorted(self.snaps))
        self.fork_of(id_, self.snaps[id_], self.rng.random() < 0.3)

    def wipe(self, name):
        end = time.time() + 240
        while time.time() < end:
            try:
                s, o = self.c.call("POST", "/v1/agents/%s/terminate" % name, {"reason": "kill story", "how": "wipe"})
                if s in (200, 404):
                    return True
                self.odd("wipe", s, o)
            except Gone:
                pass
            time.sleep(0.2)
        fault("%s cannot be wiped" % name)
        return False

    def end_it(self):
        self.may = self.may | {None}
        if self.wipe(self.name_):
            self.may, self.snaps = {None}, {}
            count("wiped")

    def keep(self):
        try:
            s, o = self.c.call("POST", self.path("/terminate"), {"reason": "kill story", "how": "keep"})
        except Gone:
            return
        if s not in (200, 404):
            self.odd("keep", s, o)
        count("kept")

    def drop(self):
        if len(self.snaps) < 2:
            return self.snapshot()
        id_ = self.rng.choice(sorted(self.snaps))
        try:
            s, o = self.c.call("DELETE", self.path("/snapshots/%s?reason=kill" % id_))
        except Gone:
            del self.snaps[id_]  # perhaps
            return
        if s == 200:
            del self.snaps[id_]
            count("dropped")
        elif code(o) != "bad_state":  # the current one
            del self.snaps[id_]  # a daemon that ends meanwhile answers so, and it may be gone
            self.odd("drop", s, o)

    def idle(self):
        if self.may == {None}:
            return self.write()
        for _ in range(120):
            if self.end or self.pause.is_set():
                return
            time.sleep(0.1)
        count("idled")

    STEPS = (("write", 28), ("check", 14), ("resume", 8), ("stop", 12), ("snapshot", 12), ("restore", 7), ("fork", 6),
             ("keep", 5), ("end_it", 2), ("drop", 3), ("idle", 3))

    def run(self):
        names, weights = [s[0] for s in self.STEPS], [s[1] for s in self.STEPS]
        while not self.end:
            if self.pause.is_set():
                self.paused.set()
                time.sleep(0.05)
                continue
            self.paused.clear()
            step = self.rng.choices(names, weights)[0]
            self.note(step)
            try:
                getattr(self, step)()
            except Exception:
                fault("%s: %s: %s" % (self.name_, step, traceback.format_exc()))
                return
            count("step " + step)
            time.sleep(self.rng.random() * 0.8)
        self.paused.set()


# --- leases


class User(threading.Thread):
    """Asks for sandboxes of the pool, one after the other, and gives them back or lets them expire."""

    given = {}  # sandbox -> lease, for ever: a sandbox serves one lease

    def __init__(self, n):
        super().__init__(daemon=True)
        self.n, self.rng, self.c, self.k = n, random.Random("%d/user/%d" % (SEED, n)), Client(), 0
        self.pause, self.paused, self.end = threading.Event(), threading.Event(), False

    def lease(self, ttl):
        """The same request again after each loss: it is one lease."""
        body = {"userId": "user-%d" % self.n, "workflowId": "story", "requestId": "%d-%d" % (self.n, self.k), "ttlSeconds": ttl}
        seen, end = set(), time.time() + 240
        for again in range(self.rng.choice([1, 1, 2])):
            while True:
                s, o = self.c.sure("POST", "/sandboxes/leases", body)
                if s == 200:
                    break
                count("lease " + code(o))
                if code(o) not in ("limit_reached", "timeout", "unavailable", "cancelled", "try_again") or time.time() > end:
                    fault("user %d: lease: %s %s" % (self.n, s, words(o)))
                    return None
                time.sleep(0.2)
            seen.add((o["leaseId"], o["sandboxId"]))
        if len(seen) != 1:
            fault("user %d: one request is several leases: %s" % (self.n, seen))
        id_, sandbox = seen.pop()
        with lock:
            before = User.given.setdefault(sandbox, id_)
        if before != id_:
            fault("sandbox %s was handed out twice: %s and %s" % (sandbox, before, id_))
        count("lease")
        return id_, sandbox

    def use(self, id_, sandbox):
        """Nobody was here before, and what we leave is ours until the end."""
        body = {"argv": ["sh", "-c", "cat owner 2>/dev/null; echo %s > owner" % id_], "exec_id": "use-" + id_, "wait_ms": 20000}
        s, o = self.c.sure("POST", "/v1/agents/%s/rounds" % sandbox, body)
        while s == 202:
            s, o = self.c.sure("GET", "/v1/rounds/%s?wait_ms=5000" % o["round_id"])
        if s != 200:
            s2, l = self.c.sure("GET", "/sandboxes/leases/" + id_)
            if s2 == 200 and l["state"] == "ACTIVE":
                fault("%s of lease %s cannot be used: %s; %s" % (sandbox, id_, words(o), l))
            return
        if o["stdout"]["total_bytes"]:
            fault("%s of lease %s was used before: %s" % (sandbox, id_, o["stdout"]))

    def run_workflow(self, id_):
        body = {"leaseId": id_, "workflowId": "story", "runId": "run-" + id_, "token": "secret-" + id_, "timeoutSeconds": 60}
        s, o = self.c.sure("POST", "/sandboxes/runs", body)
        end = time.time() + 120
        while s == 202 and time.time() < end:
            s2, r = self.c.sure("GET", "/sandboxes/runs/run-" + id_)
            if s2 == 200 and r["state"] != "RUNNING":
                count("run %s %s" % (r["state"], r.get("reason") or ""))
                return
            time.sleep(0.2)
        if s != 202 and code(o) not in ("bad_state", "ended", "already_ended"):
            fault("user %d: run: %s %s" % (self.n, s, words(o)))
        elif s == 202:
            fault("run of lease %s does not end" % id_)

    def turn(self):
        self.k += 1
        how = self.rng.choice(["release", "release", "run", "expire"])
        got = self.lease(2 if how == "expire" else 600)
        if not got or how == "expire":
            return
        self.use(*got)
        time.sleep(self.rng.random())
        if how == "run":
            self.run_workflow(got[0])
        s, o = self.c.sure("DELETE", "/sandboxes/leases/" + got[0])
        if s != 200 and code(o) not in ("bad_state", "ended", "already_ended", "conflict"):
            fault("user %d: release of %s: %s %s" % (self.n, got[0], s, words(o)))

    def run(self):
        while not self.end:
            if self.pause.is_set():
                self.paused.set()
                time.sleep(0.05)
                continue
            self.paused.clear()
            try:
                self.turn()
            except Exception:
                fault("user %d: %s" % (self.n, traceback.format_exc()))
                return
            time.sleep(self.rng.random() * 2)
        self.paused.set()


def check_leases(c):
    """Nothing is leased any more, and the pool is full again."""
    end, p = time.time() + 120, {}
    while time.time() < end:
        s, p = c.sure("GET", "/sandboxes/pool")
        if s == 200 and (p["ready"], p["leased"], p["discarding"], p["filling"]) == (POOL, 0, 0, 0):
            break
        time.sleep(0.2)
    else:
        fault("the pool is not full again: %s" % p)
    s, o = c.sure("GET", "/sandboxes/leases?state=ACTIVE&limit=1000")
    if s != 200 or o["leases"]:
        fault("leases are left: %s %s" % (s, o))
    s, o = c.sure("GET", "/sandboxes/leases?limit=1000")
    boxes = [l["sandboxId"] for l in o["leases"]] if s == 200 else []
    if len(boxes) != len(set(boxes)):
        fault("two leases have one sandbox: %s" % boxes)


# --- everything at rest


def check_all(agents, users, everything, rng):
    for a in agents + users:
        a.pause.set()
    for a in agents + users:
        while a.is_alive() and not a.paused.wait(1):
            pass
    check_leases(agents[0].c)
    states = {}
    for a in agents:
        o = a.settled()
        states[a.name_] = o["state"] if o else None
        if o and o["state"] == "error":
            fault("%s is in error: %s" % (a.name_, o.get("detail")))
        if o is None and None not in a.may:
            fault("%s is gone, and it had %s" % (a.name_, a.may))
    # Idle stops go on meanwhile, so that somebody may always be between two states: wrong is who was never right.
    wrong = compare(agents)
    for _ in range(120):
        if not wrong:
            break
        time.sleep(0.5)
        now = compare(agents)
        wrong = {name: text for name, text in now.items() if name in wrong}
    for w in wrong.values():
        fault(w)
    for a in agents:
        s, o = a.c.sure("GET", a.path("/snapshots"))
        listed = {x["id"]: x for x in o.get("snapshots", [])} if s == 200 else {}
        for id_ in a.snaps:
            if id_ not in listed:
                fault("snapshot %s of %s is lost" % (id_, a.name_))
            elif listed[id_]["status"] != "ready":
                fault("snapshot %s of %s is %s" % (id_, a.name_, listed[id_]))
    for a in agents:
        if a.may != {None}:
            a.check()
    jobs = [(a, i) for a in agents for i in sorted(a.snaps)]
    rng.shuffle(jobs)
    for a, id_ in jobs if everything else jobs[:SAMPLE]:
        a.fork_of(id_, a.snaps[id_], False)
    print("  at rest: %d agents, %d snapshots, %d looked into; %s" %
          (len([s for s in states.values() if s]), len(jobs), len(jobs) if everything else min(SAMPLE, len(jobs)),
           ", ".join("%s %d" % (k, list(states.values()).count(k)) for k in sorted(set(states.values()), key=str))), flush=True)
    for a in agents + users:
        a.pause.clear()


def compare(agents):
    """What is not as it should be, by whom it is about."""
    wrong = {}
    s, o = agents[0].c.sure("GET", "/v1/agents?limit=1000")
    rows = {x["agent"]: x for x in o.get("agents", [])}
    real, held = processes(), loops()
    for name, row in rows.items():
        n = len(real.get(name, []))
        if row["state"] not in STEADY:
            wrong[name] = "%s is %s: %s" % (name, row["state"], row.get("detail"))
        elif n != (row["state"] == "running"):
            wrong[name] = "%s is %s and has %d sandboxes" % (name, row["state"], n)
        elif len(held.get(name, [])) != n:
            wrong[name] = "%s has %d sandboxes and loop devices %s" % (name, n, held.get(name, []))
    for name in set(real) | set(held):
        if name not in rows:
            wrong[name] = "a sandbox without an owner: %s %s %s" % (name, real.get(name), held.get(name))
    wrong.update(("left " + p, "left: " + p) for p in half_made())
    return wrong


def main():
    global TOKEN
    rng = random.Random(SEED)
    print("  seed %d, %d kills, %d agents" % (SEED, KILLS, AGENTS), flush=True)
    BEFORE.update(pid for pids in processes().values() for pid in pids)
    daemon.start()
    TOKEN = make_token()
    agents, users = [Agent(n) for n in range(AGENTS)], [User(n) for n in range(USERS)]
    s, o = agents[0].c.sure("POST", "/sandboxes/workflows", {"name": "story", "owner": "killer", "version": 1, "steps": [
        {"shell": "cat <&$MUXD_TOKEN_FD > /dev/null; sleep 0.5; echo done"}]})
    if s != 200:
        sys.exit("FAILED: no workflow: " + words(o))
    for a in agents + users:
        a.start()
    time.sleep(3)
    done, started = 0, time.time()
    while done < KILLS and len(faults) < 20:
        time.sleep(0.02 + rng.random() * GAP)
        which = rng.choices(["net", "monitor", "recorder", "net+recorder", "all"], [30, 30, 10, 10, 20])[0]
        daemon.kill(which)
        done += 1
        count("kill " + which)
        if done % CHECK == 0 and done < KILLS:
            print("  %d kills in %d s" % (done, time.time() - started), flush=True)
            check_all(agents, users, False, rng)
    time.sleep(1)
    check_all(agents, users, True, rng)
    for a in agents + users:
        a.end = True
    print("  counts: " + ", ".join("%s %d" % (k, counts[k]) for k in sorted(counts)), flush=True)
    subprocess.run([MUXCTL, "--state", STATE, "shutdown", "--sandboxes"], capture_output=True, timeout=120)
    daemon.p.wait(120)
    left = processes()
    if left:
        fault("sandboxes are left after the end: %s" % left)
    if faults:
        print("FAILED: %d faults; again with SEED=%d" % (len(faults), SEED))
        return 1
    print("  ok: seed %d, %d kills in %d s" % (SEED, done, time.time() - started))
    return 0


if __name__ == "__main__":
    try:
        rc = main()
    finally:
        if daemon.p and daemon.p.poll() is None:
            subprocess.run([MUXCTL, "--state", STATE, "shutdown", "--sandboxes"], capture_output=True, timeout=120)
    sys.exit(rc)
