#!/usr/bin/env python3
"""kill -9 of the hub, the recorder, or both, in mid-flood, at random moments.

Each turn: a person has a shell by SSH (a variable set in it) that floods numbered lines, an agent runs a round that
takes a while. Then something is killed. Afterwards: every byte the client was shown is in the recording, in its place;
the shell is still there with its variable; the flood's lines are in the recording without a gap or a repeat; the round
has finished, once, with its true exit code.

Run by kill.sh; KILLS=n turns (default 6), SEED for the random moments.
"""
import json, os, random, re, signal, subprocess, sys, threading, time

STATE, MUXCTL = os.environ["MUXD_STATE"], os.environ["MUXCTL"]
TURNS, SEED = int(os.environ.get("KILLS", "6")), int(os.environ.get("SEED", str(int(time.time()))))
AGENT = "kills"


def ready():
    with open(STATE + "/ready.json") as f:
        return json.load(f)


def ctl(*args, **kw):
    return subprocess.run([MUXCTL, "--state", STATE, *args], capture_output=True, timeout=60, **kw)


def token(kind, scopes):
    p = ctl("grant", "create", "--agent", AGENT, "--principal", "killer", "--kind", kind, "--scopes", scopes,
            "--task", "kill", "--ttl", "60m", "--reason", "kill test", "-o", "json")
    return json.loads(p.stdout)["token"]


class Shell:
    """OpenSSH with a terminal; everything it shows is kept."""

    def __init__(self, tok, login):
        port = ready()["ssh"].rsplit(":", 1)[1]
        self.got, self.lock = bytearray(), threading.Lock()
        self.p = subprocess.Popen(
            ["sshpass", "-e", "ssh", "-F", "none", "-tt", "-p", port, "-o", "StrictHostKeyChecking=no", "-o",
             "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "PreferredAuthentications=password", "-o",
             "NumberOfPasswordPrompts=1", "-l", login, "127.0.0.1"],
            env=dict(os.environ, SSHPASS=tok, TERM="xterm"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            b = os.read(self.p.stdout.fileno(), 65536)
            if not b:
                return
            with self.lock:
                self.got += b

    def type(self, text):
        self.p.stdin.write(text.encode())
        self.p.stdin.flush()

    def wait_for(self, what, seconds=15, since=0):
        end = time.time() + seconds
        while time.time() < end:
            with self.lock:
                if what in self.got[since:]:
                    return True
            time.sleep(0.02)
        return False

    def end(self):
        self.p.kill()
        self.p.wait()
        time.sleep(0.1)
        with self.lock:
            return bytes(self.got)


def sessions():
    p = ctl("session", "list", "--agent", AGENT, "-o", "json")
    return json.loads(p.stdout)["sessions"] if p.returncode == 0 else []


def wait_ready(old, which):
    end = time.time() + 30
    while time.time() < end:
        try:
            now = ready()["pids"]
            if all(now[w] != old[w] for w in which) and ctl("session", "list", "-o", "json").returncode == 0:
                return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    sys.exit("FAILED: the daemon did not come back within 30 s")


def recorded(session):
    for _ in range(50):
        p = ctl("export", session, "--format", "raw", "--stream", "output")
        if p.returncode == 0:
            return p.stdout
        time.sleep(0.2)
    sys.exit("FAILED: export: " + p.stderr.decode())


def strip_notices(b):
    return re.sub(rb"\r\n\[muxd\][^\r\n]*\r\n", b"", b)


def turn(n, rng, tok, agent_tok):
    which = rng.choice([["net"], ["recorder"], ["net", "recorder"]])
    shell = Shell(tok, AGENT)
    shell.type("stty -echo; PS1=; KEPT=%d\n echo here$((1+1))\n" % n)
    if not shell.wait_for(b"here2"):
        sys.exit("FAILED: no shell: %r" % bytes(shell.got[-300:]))
    time.sleep(0.3)
    session = [s for s in sessions() if s["kind"] == "terminal" and s["state"] == "running"][0]["id"]
    marker = "/workspace/ran-%d-%d" % (SEED, n)
    body = json.dumps({"argv": ["sh", "-c", "echo x >> %s; sleep 1.5; exit 7" % marker], "exec_id": "k%d-%d" % (SEED, n),
                       "wait_ms": 0})
    url, cert = "https://" + ready()["https"], STATE + "/keys/tls.crt"
    curl = ["curl", "-sS", "--cacert", cert, "-H", "Authorization: Bearer " + agent_tok, "-H",
            "Content-Type: application/json"]
    r = json.loads(subprocess.run(curl + ["-d", body, url + "/v1/agents/%s/rounds" % AGENT], capture_output=True).stdout)
    shell.type("for i in $(seq 1 400000); do echo line-%d-$i; done; echo finis''hed\n" % n)
    if not shell.wait_for(b"line-%d-100\r" % n):
        sys.exit("FAILED: no flood")
    time.sleep(rng.random() * 1.0)
    old = ready()["pids"]
    for w in which:
        os.kill(old[w], signal.SIGKILL)
    wait_ready(old, which)
    if which == ["recorder"]:
        time.sleep(0.5)
    shown = strip_notices(shell.end())
    back = Shell(tok, "%s+%s" % (AGENT, session))
    time.sleep(0.2)
    if not back.wait_for(b"finished", 60):
        sys.exit("FAILED: turn %d (%s): the flood did not go on: %r" % (n, which, bytes(back.got[-300:])))
    mark = len(back.got)
    back.type("echo kept=$KEPT\n")
    if not back.wait_for(b"kept=%d" % n, 15, mark):
        sys.exit("FAILED: turn %d (%s): the shell lost its variable: %r" % (n, which, bytes(back.got[-300:])))
    back.type("exit\n")
    time.sleep(0.5)
    back.end()
    kept = recorded(session)
    if shown[:len(kept)] != kept[:len(shown)]:
        at = next(i for i, (a, b) in enumerate(zip(shown, kept)) if a != b)
        sys.exit("FAILED: turn %d (%s): shown and recorded differ at %d: %r / %r" %
                 (n, which, at, shown[at - 40:at + 40], kept[at - 40:at + 40]))
    lines = re.findall(rb"line-%d-(\d+)\r\n" % n, kept)
    if [int(x) for x in lines] != list(range(1, 400001)):
        sys.exit("FAILED: turn %d (%s): %d lines of 400000 in the recording" % (n, which, len(lines)))
    end = time.time() + 20
    url = "https://" + ready()["https"]
    while True:
        out = subprocess.run(curl + [url + "/v1/rounds/" + r["round_id"] + "?wait_ms=5000"], capture_output=True).stdout
        q = json.loads(out) if out else {}
        if q.get("state") == "finished" or time.time() > end:
            break
        time.sleep(0.2)
    if q.get("state") != "finished" or q["exit"]["code"] != 7:
        sys.exit("FAILED: turn %d (%s): the round: %s" % (n, which, q))
    count = json.loads(subprocess.run(curl + ["-d", json.dumps({"argv": ["wc", "-l", marker]}),
                                              url + "/v1/agents/%s/rounds" % AGENT], capture_output=True).stdout)
    if not count["stdout"]["data"].startswith("1 "):
        sys.exit("FAILED: turn %d: the round ran %s times" % (n, count["stdout"]["data"]))
    print("  ok: turn %d, killed %s, %d bytes were shown, %d are recorded" % (n, "+".join(which), len(shown), len(kept)))


def main():
    rng = random.Random(SEED)
    print("  seed %d, %d turns" % (SEED, TURNS))
    tok, agent_tok = token("staff", "terminal,rounds,observe,drive,replay"), token("agent", "rounds,observe,replay")
    for n in range(TURNS):
        turn(n, rng, tok, agent_tok)


main()
