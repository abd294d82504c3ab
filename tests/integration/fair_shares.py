"""Agents that work beside one that takes whatever it can: what the others are answered, and how long that takes.

    fair_shares.py STATE_DIR TOKENS.json SECONDS [LIMIT,... [HOW...]]

TOKENS: {"agents": {name: token}, "hostile": token, "task": ID, "staff": {name: token}}, the last two optional. Each agent runs
`echo whole` four times a second, first alone, then beside the hostile one, SECONDS each, and the second time until it was refused
by each LIMIT, an upload of it went through, and a fork bomb went off: that comes last, since it leaves no process for all else.
HOW: the ways in which it is hostile (all without). Staff opens a terminal at its agents, one after the other, in both times.
Prints one JSON: the agents' answers by status, the median and the 99th percentile of both times in ms, how long staff waited for
the first byte, and what the hostile one was answered.
"""
import base64, collections, contextlib, hashlib, http.client, json, multiprocessing, os, re, socket, ssl, statistics, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import websocket

state, tokens, seconds = sys.argv[1], json.load(open(sys.argv[2])), float(sys.argv[3])
limits = [x for x in "".join(sys.argv[4:5]).split(",") if x]
ready = json.load(open(os.path.join(state, "ready.json")))
host, port = ready["https"].rsplit(":", 1)
tls_file = os.path.join(state, "keys", "tls.crt")
tls = ssl.create_default_context(cafile=tls_file)
tls.check_hostname = False
BAD = "hostile"


class Client:
    """One connection that is kept."""

    def __init__(self, token):
        self.token, self.c = token, None

    def call(self, method, path, body=None, kind="application/json", **headers):
        for again in (False, True):
            try:
                self.c = self.c or http.client.HTTPSConnection(host, int(port), context=tls, timeout=60)
                data = json.dumps(body).encode() if isinstance(body, dict) else body
                self.c.request(method, path, data, {"Authorization": "Bearer " + self.token, "Content-Type": kind} | headers)
                r = self.c.getresponse()
                text = r.read()
                return r.status, text, r.headers
            except (OSError, http.client.HTTPException):
                self.c = None
                if again:
                    raise

    def round(self, agent, argv, **more):
        return self.call("POST", f"/v1/agents/{agent}/rounds", {"argv": argv} | more)


def weigh(nice):
    """Clients are on other machines as a rule: those that are measured come before, the hostile one's behind what they ask for.

    Where the kernel groups tasks by session, a nice value counts within the group alone, and the group has its own.
    """
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as f:
        f.write(str(nice))


# ---- those who work

def work(agent, token, until, also, answers, times):
    c = Client(token)
    while time.monotonic() < until or (also and not also.is_set()):
        begun = time.monotonic()
        try:
            status, text, _ = c.round(agent, ["echo", "whole"], wait_ms=30000)
            said = json.loads(text)
            answers[f"{status} {said['error']['code'] if 'error' in said else said['stdout']['data'].strip()}"] += 1
        except (OSError, http.client.HTTPException) as e:
            answers[f"no answer: {type(e).__name__}"] += 1
        times.append(time.monotonic() - begun)
        time.sleep(max(0.0, 0.25 - times[-1]))


def terminal(agent, token):
    return websocket.Terminal(ready["https"], f"/v1/agents/{agent}/terminal?cols=80&rows=24", token, cafile=tls_file)


def enter(staff, until, also, answers, times):
    """From the connection to the first byte of a shell."""
    while staff and (time.monotonic() < until or (also and not also.is_set())):
        for agent, token in staff.items():
            begun = time.monotonic()
            try:
                t = terminal(agent, token)
                while not t.step():
                    pass
                times.append(time.monotonic() - begun)
                t.keys(b"exit\r")
                t.rest()
                t.close()
                answers[f"{agent} let in"] += 1
            except (OSError, websocket.Closed) as e:
                answers[f"{agent} {type(e).__name__} {str(e)[:200]}"] += 1
        time.sleep(0.5)


def cuts_of(times):
    cuts = statistics.quantiles(times, n=100)
    return {"p50": round(cuts[49] * 1000, 1), "p99": round(cuts[98] * 1000, 1)}


def measure(length, also=None):
    answers, times, until = collections.Counter(), [], time.monotonic() + length
    entered, first = collections.Counter(), []
    threads = [threading.Thread(target=work, args=(a, t, until, also, answers, times)) for a, t in tokens["agents"].items()]
    threads.append(threading.Thread(target=enter, args=(tokens.get("staff"), until, also, entered, first)))
    [t.start() for t in threads]
    [t.join() for t in threads]
    staff = {"staff": {"answers": dict(entered)} | (cuts_of(first) if len(first) > 1 else {})} if tokens.get("staff") else {}
    return {"answers": dict(answers), "rounds": len(times)} | cuts_of(times) | staff


# ---- the hostile one: each way goes on until it is told to stop

stop, filled, reached = threading.Event(), threading.Event(), multiprocessing.Event()
told = collections.defaultdict(collections.Counter)
tid = tokens.get("task", "bad")


def answered(how, status, text):
    try:
        said = json.loads(text)
    except ValueError:
        said = {}
    error = said.get("error") or {}
    told[how][" ".join(filter(None, [str(status), error.get("code"), error.get("details", {}).get("limit")]))] += 1
    moved = not limits or "uploads" not in ways or "200" in told["uploads"]
    if not filled.is_set() and moved and all(any(k.endswith(" " + x) for w in list(told.values()) for k in list(w)) for x in limits):
        filled.set()
        if not limits or "bomb" not in ways:
            reached.set()


def rounds(c):
    answered("rounds", *c.round(BAD, ["sh", "-c", "while :; do :; done"], wait_ms=0, timeout_ms=8000)[:2])


def output(c):
    answered("output", *c.round(BAD, ["sh", "-c", "yes & yes >&2"], wait_ms=0, timeout_ms=8000)[:2])


def random_output(c):
    answered("record", *c.round(BAD, ["sh", "-c", "head -c 2000000 /dev/urandom"], wait_ms=0)[:2])


def short(c):
    answered("short", *c.round(BAD, ["true"], wait_ms=0)[:2])


def contexts(c):
    answered("contexts", *c.call("POST", f"/v1/agents/{BAD}/contexts", {"language": "python"})[:2])


def artifacts(c):
    """Large ones for as long as there is room for their bytes, then small ones: their number has a limit, too."""
    name = hashlib.sha256(os.urandom(8)).hexdigest()[:12]
    full = any(k.endswith(" shares.artifact_size_per_principal") for k in list(told["artifacts"]))
    size = 100000 if full or "shares.artifact_size_per_principal" not in limits else 3 << 19
    answered("artifacts", *c.call("PUT", f"/v1/tasks/{tid}/artifacts/{name}", os.urandom(size), "application/octet-stream")[:2])


def sessions(_):
    held = []
    try:
        while not stop.is_set() and len(held) < 20:
            held.append(terminal(BAD, tokens["hostile"]))
            answered("sessions", held[-1].status, "{}")
    except websocket.Closed as e:
        limit = re.search(r"shares\.\w+", e.reason)
        answered("sessions", e.code, json.dumps({"error": {"details": {"limit": limit.group() if limit else e.reason[:200]}}}))
        stop.wait(0.5)
    finally:
        [t.close() for t in held]


def uploads(c):
    answered("uploads", *c.call("PUT", f"/v1/agents/{BAD}/files?path=up{threading.get_ident()}", bytes(8 << 20), "application/octet-stream")[:2])


def files(c):
    body = {"path": f"f{threading.get_ident()}", "data": "x" * 1000}
    answered("files", *c.call("POST", f"/v1/agents/{BAD}/fs/write", body)[:2])


def bomb(c):
    if limits and not filled.wait(1):
        return
    answered("bomb", *c.round(BAD, ["bash", "-c", "b(){ b|b & }; b"], wait_ms=0, timeout_ms=5000)[:2])
    time.sleep(1)
    if "202" in told["bomb"]:
        reached.set()


def connections(_):
    held = []
    try:
        while not stop.is_set() and len(held) < 150:
            held.append(socket.create_connection((host, int(port)), timeout=5))
            told["connections"]["made"] += 1
        stop.wait(2)
    finally:
        [s.close() for s in held]


def mcp(c):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_command", "arguments": {"session_id": BAD, "command": "true"}, "_meta": meta}}
    status, text, _ = c.call("POST", "/mcp", body, **{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_command"})
    told["mcp"][f"{status} {'limit_reached' if b'limit_reached' in text else 'error' if b'isError' in text else ''}".strip()] += 1


WAYS = {"rounds": (rounds, 2), "output": (output, 2), "record": (random_output, 1), "short": (short, 2), "contexts": (contexts, 1), "artifacts": (artifacts, 1),
        "uploads": (uploads, 1), "files": (files, 1), "bomb": (bomb, 1), "connections": (connections, 1), "mcp": (mcp, 1), "sessions": (sessions, 1)}
ways = sys.argv[5:] or list(WAYS)


def attack(how, way):
    c = Client(tokens["hostile"])
    while not stop.is_set():
        try:
            if filled.is_set() and not reached.is_set() and how in ("rounds", "output", "record", "short", "mcp"):
                stop.wait(0.2)  # the bomb needs one of the places that these take
                continue
            way(c)
        except (OSError, http.client.HTTPException) as e:
            told[how][type(e).__name__] += 1
        time.sleep(0.02)


def be_hostile(end, queue):
    """In a process of its own, which the machine runs last: its clients are no part of what is measured."""
    weigh(19)
    threads = [threading.Thread(target=attack, args=(h, WAYS[h][0])) for h in ways for _ in range(WAYS[h][1])]
    [t.start() for t in threads]
    end.wait()
    stop.set()
    [t.join() for t in threads]
    queue.put({k: dict(v) for k, v in told.items()})


weigh(-10)
quiet = measure(seconds)
end, queue = multiprocessing.Event(), multiprocessing.Queue()
process = multiprocessing.Process(target=be_hostile, args=(end, queue))
process.start()
time.sleep(1)
beside = measure(seconds, reached)
end.set()
hostile = queue.get(timeout=120)
process.join()
print(json.dumps({"quiet": quiet, "beside": beside, "ratio_p50": round(beside["p50"] / quiet["p50"], 2),
                  "ratio_p99": round(beside["p99"] / quiet["p99"], 2), "hostile": hostile}))
