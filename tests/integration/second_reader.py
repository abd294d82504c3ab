#!/usr/bin/python3
"""Work that is recorded, and two readers of its record.

work N: N sessions and more: rounds of an agent (their output cut by a rule) and of a person (kept), of text, of bytes that are no
  text, with standard input, with exit codes and signals; terminals by OpenSSH that are resized, type a password and press Ctrl-C;
  files. In between the recorder and the hub are killed.
compare STATE HEAD: both readers, every recording, every event, and the verdict on the whole.
example TMP: the recording in docs/recording-example.md, as its page says it is.
flips STATE TMP N: one bit of one file of a copy; both readers call it changed, or incomplete where an end is gone.
"""
import base64, fcntl, http.client, importlib.util, json, os, pty, random, re, select, shutil, signal, ssl, struct, subprocess, sys, termios, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
spec = importlib.util.spec_from_file_location("mrec", ROOT + "/tools/mrec.py")
mrec = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mrec)
MUXCTL = os.environ["MUXCTL"]
SEED = int(os.environ.get("SEED", str(int(time.time()))))
rng = random.Random(SEED)
AGENT = "readers"


def failed(words):
    print("  FAILED: " + words + " (seed %d)" % SEED, flush=True)
    sys.exit(1)


# ---- work

def ready():
    with open(os.environ["MUXD_STATE"] + "/ready.json") as f:
        return json.load(f)


class Client:
    def __init__(self, token):
        self.token, self.c = token, None

    def round(self, body):
        """The answer, or None where a kill came between."""
        for _ in range(200):
            try:
                if not self.c:
                    host, port = ready()["https"].rsplit(":", 1)
                    self.c = http.client.HTTPSConnection(host, int(port), timeout=60, context=ssl._create_unverified_context())
                self.c.request("POST", "/v1/agents/%s/rounds" % AGENT, json.dumps(body),
                               {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
                r = self.c.getresponse()
                o = json.loads(r.read())
                if r.status in (502, 503):
                    time.sleep(0.05)
                    continue
                return o
            except (OSError, http.client.HTTPException, ValueError):
                self.c = None
                time.sleep(0.05)
        return None


SHAPES = [
    lambda: {"command": "seq 1 %d" % rng.randrange(1, 3000)},
    lambda: {"command": "head -c %d /dev/urandom" % rng.randrange(1, 40000)},
    lambda: {"command": "printf '\\303\\251\\n%%.0s' $(seq %d); echo out; echo err >&2" % rng.randrange(1, 300)},
    lambda: {"command": "cat; exit %d" % rng.randrange(256), "stdin": {"data": base64.b64encode(rng.randbytes(rng.randrange(5000))).decode(), "encoding": "base64"}},
    lambda: {"command": "kill -%d $$" % rng.choice((1, 2, 9, 15))},
    lambda: {"argv": ["/no/such/program"]},
    lambda: {"argv": ["echo"] + ["é" * rng.randrange(40)] * rng.randrange(1, 20)},
    lambda: {"command": "sleep 5", "timeout_ms": rng.randrange(1, 60)},
    lambda: {"command": "true"},
]


def terminal(token):
    """A person types, resizes, types a password that is not shown, and leaves."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(SSHPASS=token, TERM="xterm")
        os.execvp("sshpass", ["sshpass", "-e", "ssh", "-F", "none", "-tt", "-p", ready()["ssh"].rsplit(":", 1)[1], "-l", AGENT, "-o",
                              "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o",
                              "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1", "127.0.0.1"])
    got = b""

    def until(mark, seconds=20):
        nonlocal got
        end = time.monotonic() + seconds
        while mark not in got and time.monotonic() < end:
            if not select.select([fd], [], [], 0.2)[0]:
                continue
            try:
                got += os.read(fd, 65536)
            except OSError:
                return False
        return mark in got

    steps = [("echo one$((1+1))\r", b"one2"), ("read -s word; echo got$((2+1))\r", b""), ("not for you\r", b"got3"),
             ("seq 1 3000; echo end$((3+1))\r", b"end4"), ("sleep 30\r", b""), ("\3echo five$((4+1))\r", b"five5"), ("exit 3\r", None)]
    for text, mark in steps:
        os.write(fd, text.encode())
        if mark and not until(mark):
            break
        if mark == b"":
            time.sleep(0.1)
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rng.randrange(5, 60), rng.randrange(20, 150), 0, 0))
    until(b"\0never", 1)
    os.close(fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def work(n):
    tokens = open(os.environ["TOKENS"]).read().split()
    clients = [Client(t) for t in tokens]
    kills = sorted(rng.sample(range(1, n), 2)) if n > 2 else []
    answered = 0
    for i in range(n):
        if i in kills:
            os.kill(ready()["pids"]["recorder" if i == kills[0] else "net"], signal.SIGKILL)
            time.sleep(0.3)
        shape = rng.choice(SHAPES)()
        o = clients[rng.random() < 0.5].round(shape)
        answered += o is not None
        if o is not None and "state" not in o and o.get("error", {}).get("code") == "invalid_request":
            failed("%s was not taken: %s" % (shape, o))
    if answered < n - 4:
        failed("%d of %d rounds were answered" % (answered, n))
    terminal(tokens[1])
    for words in (["exec", AGENT, "-n", "--", "sh", "-c", "seq 1 5000; exit 7"], ["put", AGENT, "/etc/services", "services"],
                  ["get", AGENT, "services", os.environ["TOKENS"] + ".copy"]):
        subprocess.run([MUXCTL, "--state", os.environ["MUXD_STATE"], *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)


# ---- the readers

def recordings(record):
    return [os.path.join(d, f) for d, _, files in os.walk(record + "/sealed") for f in files if f.endswith(".mrec")]


def theirs(path):
    p = subprocess.run([MUXCTL, "--state", "/nonexistent", "export", "--unverified", "--format", "json", path], capture_output=True, timeout=120)
    if p.returncode:  # an older muxctl knows no --unverified
        p = subprocess.run([MUXCTL, "--state", "/nonexistent", "export", "--format", "json", path], capture_output=True, timeout=120)
    return [json.loads(line) for line in p.stdout.decode("utf-8").split("\n") if line]


def ours(path):
    anchor, r = [None, 0], mrec.Recording(path)
    with r.f:
        return [mrec.event_json(r, e, anchor) for e in r.events()]


def verdicts(record, keys, *more):
    """(integrity, completeness) of each reader, by the codes that they give; what only one of them can see is left out."""
    p = subprocess.run([MUXCTL, "--state", "/nonexistent", "-o", "json", "verify", "--record", record, "--key", keys, *more], capture_output=True, timeout=1200)
    if not p.stdout:
        failed("verify says nothing: %s" % p.stderr.decode())
    a = {(f["class"], f["code"]) for f in json.loads(p.stdout)["findings"] if f["class"] in ("integrity", "completeness")}
    check = mrec.Check([mrec.key_load(os.path.join(keys, n)) for n in os.listdir(keys) if n.endswith(".pub")])
    mrec.check_record(check, record)
    return a, {(f["class"], f["code"]) for f in check.findings}


def compare(state, head):
    record, n, events, kinds = state + "/record", 0, 0, {}
    for path in recordings(record):
        a, b = theirs(path), ours(path)
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                failed("%s, event %d: muxctl says\n%s\nthe second reader\n%s" % (path, i, json.dumps(x)[:400], json.dumps(y)[:400]))
        if len(a) != len(b) or not a:
            failed("%s: %d events, and %d" % (path, len(a), len(b)))
        n, events = n + 1, events + len(a)
        for e in b:
            kind = "masked" if "masked" in e else e.get("encoding", e["type"]) if e["type"] == "data" else e["type"]
            kinds[kind] = kinds.get(kind, 0) + 1
    for need in ("open", "utf-8", "base64", "masked", "exit", "gap", "resize", "event", "clock"):
        if need not in kinds:
            failed("no event %s among %s: this proves less than it should" % (need, kinds))
    a, b = verdicts(record, state + "/keys/record", "--expect-head", head)
    if a or b:
        failed("an honest record: muxctl finds %s, the second reader %s" % (sorted(a), sorted(b)))
    print("  ok: %d recordings, %d events (%s): both readers agree, and find nothing" % (n, events, ", ".join("%s %d" % k for k in sorted(kinds.items()))))


def flips(state, tmp, n):
    named = 0
    for i in range(n):
        copy = tmp + "/flipped"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(state + "/record", copy, ignore=shutil.ignore_patterns("segments", "audit.db*", "*.mkey"))
        files = recordings(copy) if i % 3 else [os.path.join(copy, "chain", f) for f in os.listdir(copy + "/chain") if f.endswith(".mchain")]
        path = rng.choice(files)
        at = rng.randrange(os.path.getsize(path))
        with open(path, "r+b") as f:
            f.seek(at)
            b = f.read(1)[0]
            f.seek(at)
            f.write(bytes([b ^ 1 << rng.randrange(8)]))
        a, b = verdicts(copy, state + "/keys/record")
        if not a or not b:
            failed("byte %d of %s: muxctl finds %s, the second reader %s" % (at, path, sorted(a), sorted(b)))
        named += 1
    shutil.rmtree(tmp + "/flipped", ignore_errors=True)
    print("  ok: %d flipped bits, each seen by both" % named)


def example(tmp):
    page = open(ROOT + "/docs/recording-example.md", encoding="utf-8").read()
    data = b""
    for line in page.split("```hex\n")[1].split("```")[0].splitlines():
        if not line.startswith(";"):
            at, digits = line.split()
            if int(at, 16) != len(data):
                failed("the example's line %s should stand at %04x" % (at, len(data)))
            data += bytes.fromhex(digits)
    os.makedirs(tmp + "/example", exist_ok=True)
    path = "%s/example/%s.mrec" % (tmp, mrec.uuid.UUID(bytes=data[24:40]))
    with open(path, "wb") as f:
        f.write(data)
    with open(tmp + "/example/key.pub", "w") as f:
        f.write(re.search(r"has it:\s+`([^`]+)`", page).group(1) + "\n")
    check = mrec.Check([mrec.key_load(tmp + "/example/key.pub")])
    r = check.recording(path, True)
    if check.findings or r.leaf().hex() != re.search(r"chain log:\s+`([^`]+)`", page).group(1):
        failed("the example is not what its page says: %s" % check.findings)
    p = subprocess.run([MUXCTL, "--state", "/nonexistent", "verify", path, "--key", tmp + "/example/key.pub"], capture_output=True)
    events = ours(path)
    if p.returncode or theirs(path) != events:
        failed("muxctl does not take the example: %s" % (p.stdout + p.stderr).decode())
    raw = next(mrec.Recording(path).blocks())[1]
    rows = re.findall(r"^\| (\d+) \| `([0-9a-f]+)` \| (\w+)", page, re.M)
    if [k for _, _, k in rows] != [e["type"] for e in events] or any(not raw[int(at):].startswith(bytes.fromhex(h)) for at, h, _ in rows):
        failed("the example's events are not those of its table")
    print("  ok: the worked example: both readers take it, %d events" % len(events))


if sys.argv[1] == "example":
    example(sys.argv[2])
elif sys.argv[1] == "work":
    print("  seed %d" % SEED, flush=True)
    work(int(sys.argv[2]))
elif sys.argv[1] == "compare":
    compare(sys.argv[2], sys.argv[3])
else:
    flips(sys.argv[2], sys.argv[3], int(sys.argv[4]))
