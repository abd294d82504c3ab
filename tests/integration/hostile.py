#!/usr/bin/env python3
"""hostile.py STATE AGENT MUXCTL: a rounds-only agent that tries to fill everything at once: sessions, descriptors, memory, disk,
ring, processors, processes. Staff opens a terminal by SSH every second all the while, and a minute after everything is as before.

MINUTE: seconds of the attack (20). FORK=1: a fork bomb as well. MEMORY=0: without programs that take all memory. SEED. CROWD_BYTES: what each of a crowd holds. AFTER: seconds until everything has to be as before (60).
TOKENS: a file with two lines, the token of the agent and that of staff."""
import http.client, json, os, random, re, select, ssl, statistics, subprocess, sys, threading, time

state, agent, muxctl = sys.argv[1:4]
MINUTE = float(os.environ.get("MINUTE", "20"))
FORK = os.environ.get("FORK", "0") == "1"
AFTER = float(os.environ.get("AFTER", "60"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
CROWD_BYTES = os.environ.get("CROWD_BYTES", "1000000")
ATTACKS = os.environ.get("ATTACKS", "").split()
# Seconds until a terminal's first byte, of 19 in 20; none may take five times as long. A machine that is busy with other things
# before the attack begins is given three times as long, which is said.
BUSY = os.getloadavg()[0] > 2 * os.cpu_count()
WORST = float(os.environ.get("WORST", "3.0" if BUSY else "1.0"))
SANITIZED = bool(os.environ.get("SANITIZED"))  # a sanitizer's memory and times are its own: terminals have to come, whenever
rng = random.Random(SEED)
ready = json.load(open(state + "/ready.json"))
hostile, staff = open(os.environ["TOKENS"]).read().split()
over = threading.Event()
counts, lock = {}, threading.Lock()
failures = []


def failed(text):
    failures.append(text)
    print("  FAILED: " + text, flush=True)


def count(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1


class Client:
    def __init__(self, token):
        host, port = ready["https"].rsplit(":", 1)
        self.ctx = ssl.create_default_context(cafile=state + "/keys/tls.crt")
        self.ctx.check_hostname = False
        self.host, self.port, self.token, self.c = host, int(port), token, None

    def ask(self, method, path, body=None):
        for once_more in (True, False):
            try:
                if not self.c:
                    self.c = http.client.HTTPSConnection(self.host, self.port, context=self.ctx, timeout=60)
                self.c.request(method, path, json.dumps(body) if body is not None else None,
                               {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
                r = self.c.getresponse()
                return r.status, r.read().decode()
            except (http.client.HTTPException, OSError):
                self.c = None
                if not once_more:
                    raise

    def round(self, spec, wait_ms=0):
        status, text = self.ask("POST", "/v1/agents/%s/rounds" % agent, dict(spec, task_id="story", wait_ms=wait_ms))
        o = json.loads(text)
        count(o["error"]["code"] if "error" in o else "started")
        return o


# What each attack asks for, over and over. A round that is refused is asked for again after a moment.
def sh(text):
    return lambda: {"command": text, "timeout_ms": 3600000}


BOMB = "b(){ b|b & }; b"
attacks = {
    "sessions": lambda: {"argv": ["sleep", str(rng.randrange(600, 3600))], "timeout_ms": 3600000},
    "texts": lambda: {"argv": ["é" * rng.randrange(100, 200)]},  # no such program, in a text that is cut
    "descriptors": sh("ulimit -n $(ulimit -Hn); i=3; while eval \"exec $i</dev/null\" 2>/dev/null; do i=$((i+1)); done; sleep 3600"),
    "memory": sh("tail /dev/zero"),
    "crowd": sh("n=0; while [ $n -lt 60 ]; do (x=$(printf %" + CROWD_BYTES + "s x); while :; do sleep 3600; done) & n=$((n+1)); done; wait"),
    "cache": sh("[ -e /workspace/big ] || head -c 400000000 /dev/zero >/workspace/big; while :; do cat /workspace/big >/dev/null; done"),
    "shm": sh("while :; do head -c 100000000 /dev/zero >/dev/shm/$$; sleep 1; done"),
    "kept": sh("head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2; sleep 3600"),
    "disk": sh("while :; do dd if=/dev/zero of=fill.$$ bs=1M 2>/dev/null; for i in $(seq 2000); do : >small.$$.$i; done; done"),
    "ring": sh("yes \"$(head -c 4000 /dev/zero | tr '\\0' x)\""),
    "processors": sh("while :; do :; done"),
    "arguments": lambda: {"argv": ["true"] + ["x" * 1000] * 100},
    "errors": lambda: {"argv": ["/no/such/" + "y" * rng.randrange(10)]},
}
if os.environ.get("MEMORY", "0") != "1":  # what programs use is one group's: docs/security.md says what that means
    for name in ("memory", "crowd", "cache", "shm"):
        del attacks[name]
if FORK:
    attacks["processes"] = sh(BOMB)
if ATTACKS:
    attacks = {k: v for k, v in attacks.items() if k in ATTACKS}


def attack(name, spec, seed):
    mine = random.Random(seed)
    over.wait(MINUTE / 2 if name == "processes" else 0)  # it leaves nothing to the others
    c = Client(hostile)
    while not over.is_set():
        try:
            o = c.round(spec())
        except (OSError, http.client.HTTPException, ValueError) as e:
            count("no answer: " + type(e).__name__)
            o = {"error": 1}
        over.wait(mine.random() * (0.5 if "error" in o else 0.02))


# ---- staff

def terminal(login):
    """Seconds until the first byte, or what came instead."""
    start = time.monotonic()
    p = subprocess.Popen(["sshpass", "-e", "ssh", "-F", "none", "-p", ready["ssh"].rsplit(":", 1)[1], "-tt", "-l", login,
                          "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                          "-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1", "127.0.0.1"],
                         env=dict(os.environ, SSHPASS=staff, TERM="xterm"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    said = b""
    try:
        if select.select([p.stdout], [], [], 60 if SANITIZED else 20)[0]:
            said = os.read(p.stdout.fileno(), 4096)
        took = time.monotonic() - start
        if said and (b"this shell can start none" in said or not re.search(rb"\[muxd\]|cannot|refused|limit", said)):
            leaves(p)
            return took, ""
        p.kill()
        return took, (said + p.communicate()[1]).decode("utf-8", "replace") or "nothing"
    except OSError as e:
        return time.monotonic() - start, str(e)


def leaves(p):
    """As people do; meanwhile the next one comes."""
    def end():
        for _ in range(20):  # a shell that is about to begin drops what was typed ahead
            try:
                p.stdin.write(b"exit\n")
                p.stdin.flush()
                while select.select([p.stdout], [], [], 1)[0] and os.read(p.stdout.fileno(), 65536):
                    pass
                p.wait(0.1)
                break
            except subprocess.TimeoutExpired:
                pass
            except OSError:
                break
        else:
            count("terminal did not end")
            p.kill()
        p.communicate()

    threading.Thread(target=end, daemon=True).start()


# ---- what there is, in numbers

def number(page, name):
    return sum(float(x) for x in re.findall(r"^%s(?:\{[^}]*\})? (\S+)$" % name, page, re.M))


def tree(root):
    n = 0
    for d, _, files in os.walk(root):
        for f in files:
            try:
                n += os.stat(os.path.join(d, f)).st_blocks * 512
            except OSError:
                pass
    return n


def process(pid):
    text = open("/proc/%d/status" % pid).read()
    return int(re.search(r"RssAnon:\s+(\d+)", text).group(1)), len(os.listdir("/proc/%d/fd" % pid))


def look():
    now = json.load(open(state + "/ready.json"))["pids"]
    c = Client(staff)
    page = c.ask("GET", "/metrics")[1]
    o = {"sessions": number(page, "muxd_sessions"), "ring": number(page, "muxd_ring_used_bytes"), "pids": sorted(now.values()),
         "segments": tree(state + "/record/segments") >> 10, "open": len(os.listdir(state + "/record/open"))}
    for name in ("monitor", "net", "recorder"):
        o[name + "_kb"], o[name + "_fds"] = process(now[name])
    return o


def inside(what):
    """One round of staff's: what its program printed."""
    o = Client(staff).round({"command": what}, 20000)
    return o["stdout"]["data"].strip() if "stdout" in o else str(o)


# muxlet: process 1, and in pods the daemon that joins
LOOK = ("ls /proc | grep -c '^[0-9]'; "
        "for p in 1 $(grep -ls -e '[-]-join' /proc/[0-9]*/cmdline | cut -d/ -f3); do awk '/VmRSS/{print $2}' /proc/$p/status; done"
        " 2>/dev/null | sort -n | tail -n 1; ls /proc/1/fd 2>/dev/null | wc -l; "
        "df -k /workspace | awk 'NR==2{print $3}'")


def box():
    words = inside(LOOK).split()
    return dict(zip(("processes", "muxlet_kb", "muxlet_fds", "workspace_kb"), map(int, words))) if len(words) == 4 else {"box": 0, "said": words}


def main():
    print("  seed %d, %g s%s" % (SEED, MINUTE, ", with a fork bomb" if FORK else ""), flush=True)
    if BUSY:
        print("  the machine is busy with other things (load %.0f): %g s are allowed instead of 1" % (os.getloadavg()[0], WORST))
    inside("true")
    quiet = [terminal(agent)[0] for _ in range(5)]
    before, box_before = look(), box()
    while before["sessions"]:
        time.sleep(0.2)
        before = look()
    threads = [threading.Thread(target=attack, args=(n, f, SEED + i), daemon=True) for i, (n, f) in enumerate(attacks.items())]
    for t in threads:
        t.start()
    end, took, high = time.monotonic() + MINUTE, [], {}
    while time.monotonic() < end:
        at = time.monotonic()
        seconds, why = terminal(agent)
        took.append(seconds)
        if os.environ.get("TRACE"):
            print("  %.1f s: %.0f ms %s" % (at + MINUTE - end, seconds * 1e3, why[:100]), flush=True)
        if why:
            failed("a terminal: %r after %.2f s" % (why, seconds))
        elif seconds > 5 * WORST and not SANITIZED:
            failed("a terminal's first byte came after %.2f s" % seconds)
        try:
            for k, v in look().items():
                high[k] = max(v, high.get(k, v))
        except (OSError, http.client.HTTPException) as e:
            failed("the daemon does not answer: %s" % e)
        time.sleep(max(0, min(1 - (time.monotonic() - at), end - time.monotonic())))
    over.set()
    for t in threads:
        t.join(30)
    took.sort()
    print("  first byte of a terminal: quiet p50 %.0f ms, max %.0f ms; under attack p50 %.0f ms, p95 %.0f ms, max %.0f ms (%d terminals)" % (
        statistics.median(quiet) * 1e3, max(quiet) * 1e3, statistics.median(took) * 1e3, took[max(0, -(-len(took) * 95 // 100) - 1)] * 1e3,
        took[-1] * 1e3, len(took)))
    late = ["%.2f" % x for x in took if x > WORST]
    if len(late) > max(1, len(took) // 20) and not SANITIZED:
        failed("%d of %d terminals came after more than %g s: %s" % (len(late), len(took), WORST, " ".join(late)))
    print("  asked for: %s" % ", ".join("%s %d" % x for x in sorted(counts.items())))
    print("  highest: %s" % {k: v for k, v in high.items() if k != "pids"}, flush=True)
    if counts.get("started", 0) < 20:
        failed("the attack was none: %s" % counts)

    # A person ends what runs there, whatever hangs; the workspace stays.
    start = time.monotonic()
    r = subprocess.run([muxctl, "--state", state, "sandbox", "terminate", agent, "--reason", "story", "--how", "keep"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print("  the sandbox was ended in %.1f s" % (time.monotonic() - start), flush=True)
    if r.returncode:
        failed("its end was refused: %s" % r.stdout.decode())
    first, why = terminal(agent)
    print("  and is entered again, first byte after %.0f ms" % (first * 1e3))
    if why:
        failed("it cannot be entered again: %s" % why)
    inside("rm -rf /workspace/* /workspace/.[!.]*")
    deadline, wrong = time.monotonic() + AFTER, ["?"]
    while wrong and time.monotonic() < deadline:
        # A look is a round, too, and memory goes back when none has ended for five seconds.
        time.sleep(6.5 if all(w.split(":")[0].endswith("_kb") for w in wrong) else 1)
        try:
            now, box_now = look(), box()
        except (OSError, http.client.HTTPException, KeyError) as e:
            wrong = ["no answer: %s" % e]
            continue
        wrong = ["%s: %s, was %s" % (k, now[k], before[k]) for k in now if not as_before(k, before[k], now[k])]
        wrong += ["%s: %s, was %s" % (k, box_now[k], box_before.get(k)) for k in box_now if not as_before(k, box_before.get(k, 0), box_now[k])]
    print("  before %s %s\n  after  %s %s" % (before, box_before, now, box_now))
    for w in wrong:
        failed("not as before after %g s: %s" % (AFTER, w))
    print("  ok: everything is as before %.0f s after the end" % (AFTER - (deadline - time.monotonic())) if not wrong else "", flush=True)
    sys.exit(1 if failures else 0)


def as_before(k, was, now):
    if k in ("box", "said"):
        return False
    if k == "pids":
        return was == now
    if k in ("sessions", "open"):
        return now <= was
    if k == "processes":
        return now <= was + 2  # of the look itself
    if k.endswith("_fds"):
        return now <= was + 8
    if k.endswith("_kb"):
        # A sanitizer keeps 256 MiB of what was freed to find its use.
        return now <= was + (16384 if not SANITIZED else 400000)
    if k == "segments":
        return now <= was + 49152  # six files of the log, in kB
    return now <= was + 65536  # the ring


if __name__ == "__main__":
    main()
