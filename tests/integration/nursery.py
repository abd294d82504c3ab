#!/usr/bin/env python3
"""nursery.py STATE AGENT: rounds while a program inside attacks the process that makes them. Each round writes its number into a
file: who is said to have ended by itself wrote it once, who is said not to have begun wrote nothing.

SECONDS_LONG: how long (6). TOKENS: a file with two lines, the token of the agent and that of staff."""
import http.client, json, os, re, select, ssl, statistics, subprocess, sys, threading, time

state, agent = sys.argv[1:3]
SECONDS = float(os.environ.get("SECONDS_LONG", "6"))
ready = json.load(open(state + "/ready.json"))
ours, staff = open(os.environ["TOKENS"]).read().split()
over = threading.Event()
answers, wrong, lock = {}, [], threading.Lock()

# All but the one of the lowest number is a program before its exec, which is the round's own bad luck.
FIND = "n=$(grep -lx muxlet-nursery /proc/[0-9]*/comm 2>/dev/null | sort -V | head -n 1); n=${n#/proc/}; n=${n%/comm}"
ATTACKS = {
    "killed": "while :; do %s; kill -KILL $n; sleep 0.05; done" % FIND,
    "stopped": "while :; do %s; kill -STOP $n; sleep 0.3; done" % FIND,
    "bent": "while :; do %s; prlimit --pid $n --nofile=4:4; renice -n 19 -p $n; sleep 0.1; done" % FIND,
    "starved": "while :; do tail /dev/zero; done",
}


class Client:
    def __init__(self, token):
        host, port = ready["https"].rsplit(":", 1)
        ctx = ssl.create_default_context(cafile=state + "/keys/tls.crt")
        ctx.check_hostname = False
        self.c, self.token = http.client.HTTPSConnection(host, int(port), context=ctx, timeout=90), token

    def ask(self, method, path, body=None):
        self.c.request(method, path, json.dumps(body) if body is not None else None,
                       {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        return json.loads(self.c.getresponse().read())

    def round(self, command, wait_ms=60000):
        return self.ask("POST", "/v1/agents/%s/rounds" % agent, {"command": command, "wait_ms": wait_ms, "timeout_ms": 60000})


def rounds(name, me):
    c, i = Client(ours), 0
    while not over.is_set():
        i += 1
        number = "<%s.%d.%d>" % (name, me, i)
        try:
            o = c.round("echo '%s' >>/workspace/ran" % number)
        except Exception as e:  # told by check(): whoever dies in a thread fails nothing
            wrong.append("%s: %r" % (number, e))
            return
        with lock:
            answers[number] = o


def terminal():
    """Seconds until staff's terminal says something."""
    start = time.monotonic()
    p = subprocess.Popen(["sshpass", "-e", "ssh", "-F", "none", "-p", ready["ssh"].rsplit(":", 1)[1], "-tt", "-l", agent,
                          "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                          "-o", "PreferredAuthentications=password", "127.0.0.1"], env=dict(os.environ, SSHPASS=staff, TERM="xterm"),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = os.read(p.stdout.fileno(), 4096) if select.select([p.stdout], [], [], 20)[0] else b""
    took = time.monotonic() - start
    p.kill()
    p.communicate()
    if not said or re.search(rb"\[muxd\]|cannot|refused|limit", said):
        sys.exit("  FAILED: a terminal said %r" % said)
    return took


def attack(name):
    over.clear()
    answers.clear()
    hand = Client(ours)
    bad = hand.round(ATTACKS[name], 0)
    threads = [threading.Thread(target=rounds, args=(name, k)) for k in range(3)]
    for t in threads:
        t.start()
    end, took = time.monotonic() + SECONDS / len(ATTACKS), []
    while time.monotonic() < end or len(took) < 3:
        took.append(terminal())
    over.set()
    for t in threads:
        t.join()
    hand.ask("POST", "/v1/rounds/%s/signal" % bad["round_id"], {"signal": "KILL"})
    return took


def check(name, took):
    if wrong:
        sys.exit("  FAILED: " + "; ".join(wrong))
    ran = Client(ours).round("cat /workspace/ran")["stdout"]["data"]
    counts = {"once": 0, "not begun": 0, "hit": 0}
    for number, o in answers.items():
        times = ran.count(number)
        if "error" in o:
            what, fine = "not begun", times == 0
        elif o["exit"]["signal"] is not None:  # a signal that was meant for the nursery, or the kernel's for want of memory
            what, fine = "hit", times <= 1
        else:
            what, fine = "once", times == 1
        counts[what] += 1
        if not fine:
            sys.exit("  FAILED: %s ran %d times, and was answered by %s" % (number, times, o))
    print("  %s: %s; a terminal's first byte p50 %.0f ms, max %.0f ms" % (
        name, ", ".join("%s %d" % x for x in counts.items()), statistics.median(took) * 1e3, max(took) * 1e3), flush=True)
    if counts["once"] < 5:
        sys.exit("  FAILED: hardly a round came through: %s" % list(answers.values())[:3])
    if max(took) > (3 if os.getloadavg()[0] > 2 * os.cpu_count() else 1):
        sys.exit("  FAILED: a terminal was late")


Client(ours).round(": >/workspace/ran")
for which in ATTACKS:
    check(which, attack(which))
print("  ok: every round was answered, and none ran twice")
