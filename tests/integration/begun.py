"""Where rounds began and which file they are, as muxd tells it. Arguments: muxctl, state, token, agent.

A table of starts; each is compared with what the kernel told an honest program in there, or with what was made for it.
"""
import http.client, json, os, signal, ssl, subprocess, sys, time

MUXCTL, STATE, TOKEN, AGENT = sys.argv[1:]
READY = json.load(open(STATE + "/ready.json"))
TLS = ssl.create_default_context(cafile=STATE + "/keys/tls.crt")


def ask(method, path, body=None):
    host, port = READY["https"].rsplit(":", 1)
    for attempt in range(100):
        try:
            c = http.client.HTTPSConnection(host, int(port), context=TLS, timeout=60)
            c.request(method, "/v1" + path, json.dumps(body) if body is not None else None,
                      {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
            return json.loads(c.getresponse().read())
        except OSError:  # the hub is being killed
            time.sleep(0.1)
    raise SystemExit("the daemon does not answer")


def run(argv, cwd=None, **more):
    body = {"argv": argv, "wait_ms": 20000, **more}
    if cwd is not None:
        body["cwd"] = cwd
    return ask("POST", "/agents/%s/rounds" % AGENT, body)


def muxctl(*args, lines=False):
    out = subprocess.run([MUXCTL, "--state", STATE, *args, "-o", "json"], capture_output=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()] if lines else json.loads(out)


SETUP = r"""
cd /workspace
mkdir -p real/deep bin none "$(printf '\377dir')" 'a\x41' "$(printf 'new\nline')"
ln -s real link; ln -s "$(printf '\377dir')" plain; ln -s 'a\x41' back; ln -s "$(printf 'new\nline')" line
printf '#!/bin/sh\npwd -P\n' >real/tool.sh
printf 'pwd -P\n' >real/text
printf '#!/bin/sh\n:\n' >"$(printf '\377dir/t')"
chmod 755 real/tool.sh real/text "$(printf '\377dir/t')"
ln -s ../real/tool.sh bin/tool; ln -s ../real/text bin/text
echo no >none/tool
d=/workspace; i=0
while [ $i -lt 12 ]; do d=$d/$(printf '\303\274%.0s' $(seq 100)); i=$((i+1)); done
mkdir -p "$d"; ln -s "$d" long
readlink -f /bin/true; readlink -f /bin/cat
"""
setup = run(["sh", "-c", SETUP])
assert setup["exit"]["code"] == 0, setup
TRUE, CAT = setup["stdout"]["data"].split()

# name, argv, cwd, more of the call; cwd and program as they must be told
PATH = {"env": {"PATH": "/workspace/none:/workspace/bin:/usr/bin:/bin"}}
CASES = [
    ("what PATH finds", ["true"], None, {}, "/workspace", TRUE),
    ("a path", ["/bin/cat"], "/", {}, "/", CAT),
    ("a cwd that is a link", ["true"], "/workspace/link/deep", {}, "/workspace/real/deep", TRUE),
    ("a cwd with dots", ["true"], "/workspace/real/../link/./deep/..", {}, "/workspace/real", TRUE),
    ("a script, by a link in PATH, behind one that may not run", ["tool"], "/tmp", PATH, "/tmp", "/workspace/real/tool.sh"),
    ("a script without #!", ["text"], None, PATH, "/workspace", "/workspace/real/text"),
    ("a path from the cwd", ["../bin/tool"], "/workspace/link", {}, "/workspace/real", "/workspace/real/tool.sh"),
    ("a PATH from the cwd", ["tool"], "/workspace", {"env": {"PATH": "real:bin"}}, "/workspace", "/workspace/real/tool.sh"),
    ("an empty entry of PATH", ["tool.sh"], "/workspace/real", {"env": {"PATH": "/none::/bin"}}, "/workspace/real", "/workspace/real/tool.sh"),
    ("a name that is no text", ["./t"], "/workspace/plain", {}, "/workspace/\\xffdir", "/workspace/\\xffdir/t"),
    ("a name with a backslash", ["true"], "/workspace/back", {}, "/workspace/a\\\\x41", TRUE),
    ("a name with a line break", ["true"], "/workspace/line", {}, "/workspace/new\\nline", TRUE),
    ("another name of its own", ["sh", "-c", "cd /tmp; exec -a liar true || exec true"], "/workspace/real", {}, "/workspace/real", None),
]
failed = 0


def check(name, got, want):
    global failed
    failed += got != want
    print("  %s: %s%s" % ("ok" if got == want else "FAILED", name, "" if got == want else ": %r instead of %r" % (got, want)), flush=True)


def place(o):
    return o.get("cwd", "absent"), o.get("program", "absent")


SH = run(["sh", "-c", "readlink /proc/$$/exe; :"])["stdout"]["data"].strip()
rounds = {}
for name, argv, cwd, more, where, program in CASES:
    r = run(argv, cwd, **more)
    rounds[r.get("round_id")] = (name, (where, program or SH))
    check(name, place(r), (where, program or SH))

# The longest: cut at a character, within its bound.
r = run(["true"], "/workspace/long")
assert "cwd" in r, r
where = r.get("cwd") or ""
check("a long cwd is cut", (where.endswith("…"), len(where.encode()) in range(1000, 1025), where.startswith("/workspace/ü"),
                            set(where[len("/workspace/"):-1]) <= set("ü/")), (True, True, True, True))
# A directory that is gone while another program stands in it.
r = run(["sh", "-c", "mkdir gone; cd gone; echo $$; rmdir ../gone; exec sleep 60"], None, wait_ms=1)
assert "round_id" in r, r
for _ in range(200):
    pid = ask("GET", "/rounds/" + r["round_id"])["stdout"]["data"].strip()
    if pid and run(["test", "-e", "/workspace/gone"])["exit"]["code"] == 1:
        break
check("a cwd that is gone", place(run(["true"], "/proc/%s/cwd" % pid))[0], "/workspace/gone (deleted)")
check("... while it still runs", place(ask("GET", "/rounds/" + r["round_id"]))[0], "/workspace")
ask("POST", "/rounds/%s/signal" % r["round_id"], {"signal": "KILL"})
e = run(["true"], "/workspace/missing")["error"]
check("no cwd", (e["code"], "cwd /workspace/missing" in e["message"]), ("invalid_request", True))
check("a cwd that is a file", run(["true"], "/workspace/real/text")["error"]["code"], "invalid_request")

# Killed in the middle: the answer has it, and it is told once.
r = run(["sleep", "100"], "/workspace/link", wait_ms=1)
for _ in range(200):
    if place(ask("GET", "/rounds/" + r["round_id"]))[0]:
        break
os.kill(READY["pids"]["net"], signal.SIGKILL)
time.sleep(0.2)
for _ in range(200):
    got = ask("GET", "/rounds/" + r["round_id"])
    if got.get("state") == "running" and place(got)[0]:
        break
    time.sleep(0.05)
check("after a restart", place(got)[0], "/workspace/real")
ask("POST", "/rounds/%s/signal" % r["round_id"], {"signal": "KILL"})
ask("GET", "/rounds/%s?wait_ms=20000" % r["round_id"])
rounds[r["round_id"]] = ("after a restart", place(got))

# From the record, once memory has let go of them; and each start is told once.
for _ in range(100):
    events = {}
    for o in muxctl("audit", "-n", "1000", "--agent", AGENT, lines=True):
        o = o.get("record") or o.get("body") or o
        if o.get("event") == "program.begin":
            events.setdefault(o["detail"]["session"], []).append(place(o["detail"]))
    if all(i in events for i in rounds):
        break
    time.sleep(0.1)
for i, (name, want) in rounds.items():
    check(name + ", audit", events.get(i), [want])
    check(name + ", from the record", place(ask("GET", "/rounds/" + i)), want)
    check(name + ", session show", place(muxctl("session", "show", i)), want)
    lines = subprocess.run([MUXCTL, "--state", STATE, "export", "--format", "json", i], capture_output=True, check=True).stdout
    bodies = [json.loads(line).get("body") or {} for line in lines.splitlines()]
    check(name + ", recording", [place(b) for b in bodies if b.get("event") == "begun"], [want])
sys.exit(failed > 0)
