"""Rounds that leave all kinds of processes behind: each ends as it should, whatever lives on.

    orphans.py STATE_DIR TOKEN AGENT ROUNDS

Four clients take turns through KINDS; the rounds that take all processes come last, alone. Prints one line a kind: how many rounds of it, and the longest. Fails at an answer
that is another than the one that the kind names: cause, code or signal, and what it printed.
"""
import collections, http.client, json, os, ssl, sys, threading, time

state, token, agent, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
context = ssl.create_default_context(cafile=os.path.join(state, "keys", "tls.crt"))
context.check_hostname = False
CLIENTS = 4

# kind: (program, fields of the round, cause, code, signal, output)
KINDS = {
    "double fork": ("(sleep 0.3 >/dev/null 2>&1 </dev/null &) & echo parent; exit 3", {}, "exit", 3, None, "parent\n"),
    "a session of its own": ("setsid -f sleep 0.2 >/dev/null 2>&1 </dev/null; echo began; exit 4", {}, "exit", 4, None, "began\n"),
    "a pipe held by a grandchild": ("(sleep 0.25 &); echo held; exit 5", {}, "exit", 5, None, "held\n"),
    "a pipe held by a session of its own": ("(setsid sleep 0.4 &); echo held; exit 6", {}, "exit", 6, None, "held\n"),
    "a daemon that prints later": ("(setsid sh -c 'sleep 0.05; echo late' &); sleep 0.15; exit 0", {}, "exit", 0, None, "late\n"),
    "children that nobody waits for": ("for i in 1 2 3 4 5 6 7 8; do (exit $i) & done; exec sleep 0.02", {}, "exit", 0, None, ""),
    "a signal": ("(sleep 0.1 >/dev/null 2>&1 &); kill -9 $$", {}, "exit", None, "KILL", ""),
}
# One of RARE rounds; all of it is over with the round: a timeout ends what it began, whatever it ignores.
STUBBORN, RARE = "SIGTERM ignored", 50
KINDS_RARE = {STUBBORN: ("trap '' TERM HUP INT; echo deaf; (setsid sleep 321 &); while :; do sleep 321; done", {"timeout_ms": 100},
                         "timeout", None, "KILL", "deaf\n")}
NOT_YET = ("timeout", None, "TERM", "")  # its time was over before it had said that it ignores TERM
# One of FULL rounds: its last fork is refused; what it has, it ends.
LIMIT, FULL = "the limit of processes", 100
KINDS_FULL = {LIMIT: ("exec python3 -c 'import os, time\nkids = []\ntry:\n while True:\n  p = os.fork()\n  if not p: time.sleep(60)\n"
                      "  kids.append(p)\nexcept OSError: pass\nprint(len(kids) > 20, flush=True)\nfor k in kids: os.kill(k, 9)\nos._exit(7)'",
                      {}, "exit", 7, None, "True\n")}
ALL = KINDS | KINDS_RARE | KINDS_FULL
longest, count, faults, lock = collections.Counter(), collections.Counter(), [], threading.Lock()
deaf = 0


def kind_of(n):
    return STUBBORN if n % RARE == RARE - 1 else list(KINDS)[n % len(KINDS)]


def connect():
    with open(os.path.join(state, "ready.json"), encoding="utf-8") as f:
        host, port = json.load(f)["https"].rsplit(":", 1)
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=120)


def ask(conn, program, fields):
    body = {"argv": ["sh", "-c", program], "wait_ms": 60000, **fields}
    conn.request("POST", f"/v1/agents/{agent}/rounds", json.dumps(body),
                 {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    return json.loads(conn.getresponse().read())


def ended(o):
    e = o.get("exit") or {}
    return e.get("cause"), e.get("code"), e.get("signal"), o["stdout"]["data"] if e else None


def client(kinds):
    global deaf
    conn = connect()
    for kind in kinds:
        program, fields, *expected = ALL[kind]
        begun = time.monotonic()
        o = ask(conn, program, fields)
        with lock:
            count[kind] += 1
            longest[kind] = max(longest[kind], time.monotonic() - begun)
            early = kind == STUBBORN and ended(o) == NOT_YET
            deaf += kind == STUBBORN and not early
            if ended(o) != tuple(expected) and not early:
                faults.append(f"{kind}: {json.dumps(o)[:600]}")


def guarded(kinds):
    try:
        client(kinds)
    except Exception as e:
        with lock:
            faults.append(repr(e))


kinds = [kind_of(n) for n in range(rounds - rounds // FULL)]
threads = [threading.Thread(target=guarded, args=(kinds[n::CLIENTS],)) for n in range(CLIENTS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
guarded([LIMIT] * (rounds // FULL))
if count[STUBBORN] and not deaf:
    faults.append(f"{STUBBORN}: none of {count[STUBBORN]} rounds came so far")
for kind, n in sorted(count.items()):
    print(f"    {kind}: {n} rounds, the longest {longest[kind]:.2f} s")
for fault in faults[:5]:
    print("FAILED:", fault)
sys.exit(bool(faults))
