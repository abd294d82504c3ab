#!/usr/bin/env python3
"""Agents that begin with artifacts, under kill -9: each begins with all of it, or is not there; and nothing else is left.

    workspace_begins.py STATE_DIR ARCHIVE BUNDLE KILLS; BUILD, SEED from the environment

For each kill a few agents are asked for, and parts of the daemon are killed while they are made: at a step that the seed chooses,
which is seen on the disk (the sandbox that it is made in, its snapshot, the agent's own directory) or by time. Whoever got no answer
asks again until there is one. Then each agent holds what it began with, was made once, and once nothing is under way any more there
is no sandbox that work was done in, nor a snapshot that no agent needs.
"""
import glob, hashlib, http.client, json, os, random, ssl, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from killed_daemon import Daemon, KILLED

state, archive, bundle, kills = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
rnd = random.Random(seed)
print(f"  seed {seed}", flush=True)
os.makedirs(state, mode=0o711)
os.chmod(state, 0o711)
with open(state + "/muxd.yaml", "w", encoding="utf-8") as f:
    f.write("sandbox: {workspace_size: 16MiB, memory: 64MiB}\nlifecycle: {keep_snapshots: 2}\n")
daemon = Daemon(state)
daemon.start()
TOKEN = json.loads(daemon.muxctl("grant", "create", "--agent", "*", "--principal", "beginner", "--kind", "service", "--scopes",
                                 "lifecycle,admin,rounds,files", "--task", "kills", "--ttl", "4h", "--reason", "kills", "-o", "json"))["token"]
PATIENCE = 240 * float(os.environ.get("SLOW", "1"))
wrong = []


def fail(text):
    print("FAILED:", text, flush=True)
    daemon.end()
    sys.exit(1)


def call(method, path, body=None, raw=None):
    """status and object; raises OSError or HTTPException."""
    context = ssl.create_default_context(cafile=os.path.join(state, "keys", "tls.crt"))
    context.check_hostname = False
    c = http.client.HTTPSConnection(*daemon.door(), context=context, timeout=PATIENCE)
    try:
        c.request(method, path, raw if raw is not None else json.dumps(body) if body is not None else None,
                  {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
        r = c.getresponse()
        data = r.read()
        return r.status, json.loads(data) if data else {}
    finally:
        c.close()


def sure(method, path, body=None, raw=None):
    """Until somebody answers; what a daemon that ends says is no answer."""
    end, last = time.monotonic() + PATIENCE, None
    while time.monotonic() < end:
        try:
            status, o = call(method, path, body, raw)
            if status not in (429, 502, 503, 504, 507):
                return status, o
            last = o
        except (OSError, ValueError, KeyError, http.client.HTTPException) as e:
            last = e
        time.sleep(0.05)
    raise RuntimeError(f"{method} {path}: no answer: {last}")


def begin(agent, what):
    try:
        status, o = sure("POST", f"/v1/agents/{agent}/resume", {"workspace": what})
        if status != 200 or o.get("state") != "running" or o.get("began_with", {}).get("workspace") != what:
            wrong.append(f"{agent}: {status} {o}")
    except RuntimeError as e:
        wrong.append(str(e))


def content(agent):
    status, o = sure("POST", f"/v1/agents/{agent}/rounds", {"command": "cat file f link 2>/dev/null; ls -A | sort | tr '\\n' ' '", "wait_ms": 60000})
    return (status, o.get("exit", {}).get("code"), o.get("stdout", {}).get("data"))


def on_disk(pattern):
    return glob.glob(os.path.join(state, "sandboxes", pattern))


STEPS = {
    "asked": lambda a: True,
    "made": lambda a: on_disk(f"{a}-begin-*"),
    "copied": lambda a: on_disk(f"{a}-begin-*/snapshots/*"),
    "forked": lambda a: on_disk(a),
    "later": lambda a: on_disk(f"{a}-begin-*") and rnd.random() < 0.1,
}
WHAT = {"artifact:kills/tree": None, "bundle:kills/all#main": None}
for name, path in (("tree", archive), ("all", bundle)):
    with open(path, "rb") as f:
        sure("PUT", f"/v1/tasks/kills/artifacts/{name}", raw=f.read())
for number, each in enumerate(WHAT):
    begin(f"model-{number}", each)
    WHAT[each] = content(f"model-{number}")
if wrong or any(w[:2] != (200, 0) for w in WHAT.values()):
    fail(f"without a kill: {wrong} {WHAT}")
made = {}
for i in range(kills):
    step, which = rnd.choice(list(STEPS)), rnd.choice(KILLED)
    agents = {f"k{i}-{n}": rnd.choice(list(WHAT)) for n in range(2)}
    asking = [threading.Thread(target=begin, args=pair) for pair in agents.items()]
    for t in asking:
        t.start()
    watched, end = rnd.choice(list(agents)), time.monotonic() + 30
    while not STEPS[step](watched) and not on_disk(watched) and any(t.is_alive() for t in asking) and time.monotonic() < end:
        time.sleep(0.002)
    time.sleep(rnd.choice([0, 0, 0.01, 0.05, 0.2]))
    problem = daemon.kill(which)
    if problem:
        fail(f"{problem} (kill {i}: {which} at {step})")
    for t in asking:
        t.join(PATIENCE + 60)
    if wrong:
        fail(f"kill {i}, {'+'.join(which)} at {step}: {wrong}")
    for agent, what in agents.items():
        if content(agent) != WHAT[what]:
            fail(f"kill {i}, {'+'.join(which)} at {step}: {agent} of {what} holds {content(agent)}, not {WHAT[what]}")
        made[agent] = what
    for agent in rnd.sample(sorted(made), min(2, len(made))):
        if rnd.random() < 0.5 and len(made) > 2:
            sure("POST", f"/v1/agents/{agent}/terminate", {"reason": "kills", "how": "wipe"})
            del made[agent]

# At rest: of each agent that is there the snapshot that it keeps, and of no other anything.
end = time.monotonic() + PATIENCE
while True:
    status, listed = sure("GET", "/v1/agents?limit=1000")
    names = {a["agent"] for a in listed["agents"]}
    needed = {sure("GET", f"/v1/agents/{a}")[1]["forked_from"]["agent"] for a in names}
    there = {os.path.basename(p): sorted(os.listdir(p)) for p in on_disk("*-begin-*")}
    over = [p for p, inside in there.items() if p not in needed or inside != ["snapshots"]]
    if not over and needed == set(there):
        break
    if time.monotonic() > end:
        fail(f"left over: {over}, needed and not there: {sorted(needed - set(there))}")
    time.sleep(0.2)
if names != set(made) | {"model-0", "model-1"}:
    fail(f"agents are {sorted(names)}, made were {sorted(made)}")
daemon.end()
print(f"  ok: {kills} kills, each agent is whole, and nothing else is left")
