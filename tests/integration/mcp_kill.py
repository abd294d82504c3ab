"""Tools of MCP under kill -9, asked again until they are answered: each ran once, and the record has every answer.

    mcp_kill.py STATE_DIR KILLS

Clients of both eras call muxd's tools (a program, files, patches, artifacts), tasks of 2026-07-28, and a server inside the sandbox through
/mcp/{agent}/{server}. A client that gets no answer sends the same message again: of the old era in its session under the same id, of
the new one under the same UUID. Meanwhile net, the recorder, the monitor or several of them are killed at random moments, each time
something was answered since. In the end:

 - each program that was answered for ran once, by a byte that it adds to a file of its own; none ran twice, nor did a call inside;
 - each file and artifact that was answered for is there, and is what was given, or given later;
 - each patch was applied once, to both of its files, or to neither: a repeat of one that had been applied is refused by name;
 - each task that was begun is found, and has ended with its output;
 - the record has each answer: programs with arguments and output, calls inside with the digests of their parameters and of their
   answer and with both bodies, files and artifacts with the digest of their content in the audit log;
 - `muxctl verify --all` finds nothing.

A server inside dies with the daemon, and what it was at is unknown: its repeat runs nothing, and is told so (conflict).
"""
import hashlib, importlib.machinery, importlib.util, json, os, pathlib, random, signal, ssl, subprocess, sys, threading, time

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(HERE / "tests" / "lib"))
from killed_daemon import BUILD, KILLED, Daemon  # noqa: E402
from mcp_client import NEW, OLD, TASKS, BrokenOff, McpClient, Refused  # noqa: E402

state, kills = sys.argv[1], int(sys.argv[2])
seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
print(f"  seed {seed}", flush=True)
rnd = random.Random(seed)
stop, lock, faults, done = threading.Event(), threading.Lock(), [], []
PATIENCE, STARVES = 120, 5  # seconds: until an answer has to have come; until the kills wait for it
ABOUT = {"task_id": "story", "session_id": "kills"}
SETTLED = 60  # seconds until the log has all


def fault(text):
    with lock:
        faults.append(text)
    print("FAILED:", text[:1500], flush=True)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def compact(o):
    return json.dumps(o, separators=(",", ":"), ensure_ascii=False)


class Worker(threading.Thread):
    """One client. Each step makes one call, asks until it is answered, and keeps what has to be true from then on."""

    ends = ()  # codes that are an answer

    def __init__(self, number, version, path="/mcp", capabilities=None):
        super().__init__(daemon=True)
        self.name = f"w{number}"
        self.client = McpClient(daemon.door, token, context, path, version, capabilities)
        self.asked, self.again, self.steps, self.unknown, self.refused = time.monotonic(), 0, 0, 0, 0
        self.answers = []  # (what, key, facts)

    def run(self):
        if self.until_answered(self.client.begin) is None:
            return
        while not stop.is_set() and not faults:
            self.asked = time.monotonic()
            self.step(f"{self.name}-{self.steps}")
            self.steps += 1
            stop.wait(0.05)

    def until_answered(self, ask):
        """What ask() returns; None: not within PATIENCE, or refused for good."""
        end, said = time.monotonic() + PATIENCE, []
        while time.monotonic() < end:
            try:
                return ask() or True
            except (BrokenOff, Refused) as e:
                said.append(str(e))
                if isinstance(e, Refused) and e.status < 500 and e.status != 429:
                    break
            self.again += 1
            time.sleep(0.05)
        fault(f"{self.name}: no answer: {said[-3:]}")
        return None

    def result(self, message):
        """The tool's result; its code as a text where it is one of conflict; None: a fault."""
        end, said = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end:
            answer = self.until_answered(lambda: self.client.ask(message))
            if answer is None:
                return None
            if "error" in answer:
                said = str(answer["error"])
            elif not answer["result"].get("isError"):
                return answer["result"]
            else:
                said = answer["result"]["content"][0]["text"]
                if (code := said.split(":")[0]) in ("conflict", *self.ends):
                    return code
                if code in FOR_GOOD:
                    break
            self.again += 1
            time.sleep(0.1)
        fault(f"{self.name}: {json.dumps(message)[:300]}: {said[:500]}")
        return None

    def use(self, name, arguments):
        result = self.result(self.client.call(name, {**ABOUT, **arguments}))
        if result == "conflict":
            fault(f"{self.name}: {name} {arguments} is refused as another call")
            return None
        return result and result["structuredContent"]

    def keep(self, what, key, **facts):
        with lock:
            self.answers.append((what, key, facts))


FOR_GOOD = {"invalid_request", "forbidden", "unauthenticated", "policy_denied", "task_required", "task_mismatch", "not_found", "internal",
            "patch_refused", "unsupported", "corrupt"}


def adds(key, then=""):
    return ["sh", "-c", f"printf x >>once/{key}; {then}printf %s {key}"]


class Tools(Worker):
    """A program, a file that is written and read, an artifact, in turn."""

    def step(self, key):
        content = f"{key} ä {rnd.randrange(1 << 30)}\n"
        kind = self.steps % 4
        if kind == 0 and (o := self.use("sandbox.session.exec", {"argv": adds(key)})):
            self.check(key, (o["exit_code"], o["stdout"]), (0, key))
            self.keep("program", key, round=o["round_id"], argv=adds(key))
        elif kind == 1 and (o := self.use("sandbox.workspace.write_file", {"path": f"files/{key}", "content": content})):
            self.check(key, o["sha256"], sha256(content))
            self.keep("file", key, session=o["session"], content=content)
            self.wrote = key, content
        elif kind == 2 and hasattr(self, "wrote") and (o := self.use("sandbox.workspace.read_file", {"path": f"files/{self.wrote[0]}"})):
            self.check(key, o["data"], self.wrote[1])
            self.keep("read", key, session=o["session"], path=f"files/{self.wrote[0]}")
        elif kind == 3 and (o := self.use("artifact.put", {"name": key, "content": content})):
            self.check(key, o["sha256"], sha256(content))
            self.keep("artifact", key, content=content)

    def check(self, key, got, wanted):
        if got != wanted:
            fault(f"{key}: {got}, expected {wanted}")

    def use(self, name, arguments):
        if name.startswith("artifact."):
            result = self.result(self.client.call(name, {"task_id": ABOUT["task_id"], **arguments}))
            return result if result is None or result == "conflict" else result["structuredContent"]
        return super().use(name, arguments)


class Patches(Worker):
    """Two files in one patch: each step adds a line to both, and counts on. What was applied stands in the files: `did 1` to `did N`, and
    where they are, `now N`. A patch that was applied, and whose answer was lost, does not fit a second time: that is what is told."""

    ends = ("patch_refused",)

    def __init__(self, number, version):
        super().__init__(number, version)
        self.files, self.n = [f"patches/{self.name}-{x}" for x in "ab"], 0

    @staticmethod
    def content(n):
        return "".join(f"did {i}\n" for i in range(1, n + 1)) + f"now {n}\n"

    def patch(self, n):
        hunk = f"@@\n-now {n - 1}\n+did {n}\n+now {n}\n"
        return "*** Begin Patch\n" + "".join(f"*** Update File: {f}\n{hunk}" for f in self.files) + "*** End Patch\n"

    def step(self, key):
        if not self.steps:
            for f in self.files:
                self.use("sandbox.workspace.write_file", {"path": f, "content": self.content(0)})
            return
        n, asked_before = self.n + 1, self.again
        result = self.result(self.client.call("sandbox.workspace.apply_patch", {**ABOUT, "patch": self.patch(n)}))
        if result == "patch_refused":
            self.refused += 1
            if self.again == asked_before:
                fault(f"{self.name}: patch {n} was asked for once, and is refused")
        elif not result:
            return
        else:
            self.keep("patch", key, session=result["structuredContent"]["session"], n=n, files=self.files)
        self.n = n
        for f in self.files:
            o = self.use("sandbox.workspace.read_file", {"path": f})
            if o and o["data"] != self.content(n):
                fault(f"{f} behind patch {n}: ...{o['data'][-60:]!r}")


class Tasks(Worker):
    """Programs that run for longer than a call is waited for: each is a task, asked for again and again, kills or none."""

    def __init__(self, number):
        super().__init__(number, NEW, capabilities=TASKS)
        self.open = []

    def step(self, key):
        if len(self.open) < 3:
            self.begin(key)
        for known in self.open[:]:
            if self.look(*known):
                self.open.remove(known)

    def begin(self, key):
        result = self.result(self.client.call("sandbox.session.exec", {**ABOUT, "argv": adds(key, "sleep 2; ")}))
        if not result or result == "conflict":
            return
        if result["resultType"] != "task":
            self.ended(key, result)  # a repeat, answered from the record
            return
        self.keep("task", key, task=result["taskId"])
        self.open.append((key, result["taskId"]))

    def look(self, key, task):
        """Whether it has ended."""
        answer = self.until_answered(lambda: self.client.ask(self.client.message("tasks/get", {"taskId": task})))
        if answer is None:
            return True
        told = answer.get("result", {})
        if answer.get("error", {}).get("code") == -32603:  # the record cannot be asked at the moment
            self.again += 1
            return False
        if told.get("status") == "completed":
            self.ended(key, told["result"])
        elif told.get("status") != "working":
            fault(f"task {task} of {key}: {json.dumps(answer)[:600]}")
        return told.get("status") != "working"

    def ended(self, key, result):
        o = result["structuredContent"]
        if (o["exit_code"], o["stdout"]) != (0, key):
            fault(f"{key} ended as {json.dumps(o)[:600]}")
        self.keep("program", key, round=o["round_id"], argv=adds(key, "sleep 2; "))


class Inside(Worker):
    """A server of the sandbox's own, whose tool adds a byte."""

    def __init__(self, number, version):
        super().__init__(number, version, "/mcp/kills/counter")

    def step(self, key):
        file = f"/workspace/once/{key}"
        message = self.client.call("count", {"file": file})
        result = self.result(message)
        if result == "conflict":
            self.unknown += 1
        elif result:
            if result["content"][0]["text"] != file:
                fault(f"{key}: {result}")
            self.keep("inside", key, params=compact(message["params"]), answer=compact({"result": {"content": [{"type": "text", "text": file}]}}))


# ---- what has to be true

WHATS = ("program", "file", "read", "patch", "artifact", "task", "inside")


def answered(workers, *whats):
    return [(key, facts) for w in workers for what, key, facts in w.answers if what in whats]


def inside_the_sandbox(first, workers):
    """Once, and what was written."""
    counted = first.use("sandbox.session.exec", {"argv": ["sh", "-c", "cd once && find . -type f -printf '%f %s\\n' >../counted"]})
    files = first.use("sandbox.session.exec", {"argv": ["sh", "-c", "cd files && find . -type f -exec sha256sum {} + >../hashed"]})
    if not counted or not files or counted["exit_code"] or files["exit_code"]:
        fault(f"the files cannot be counted: {counted} {files}")
        return
    bytes_of = {name: int(size) for name, size in (line.split() for line in fetched("counted"))}
    hashes = {name[2:]: digest for digest, name in (line.split() for line in fetched("hashed"))}
    for name, size in bytes_of.items():
        if size != 1:
            fault(f"{name} ran {size} times")
    for key, _ in answered(workers, "program", "inside"):
        if bytes_of.get(key) != 1:
            fault(f"{key} was answered for and ran {bytes_of.get(key, 0)} times")
    for key, facts in answered(workers, "file"):
        if hashes.get(key) != sha256(facts["content"]):
            fault(f"files/{key} is {hashes.get(key)}, not what was written")


def fetched(path):
    return daemon.muxctl("get", "kills", path, "-").splitlines()


def tasks_are_found(workers):
    """Those whose end was answered for, too: each, asked once more."""
    for w in workers:
        for what, key, facts in list(w.answers):
            end = time.monotonic() + PATIENCE
            while what == "task" and not w.look(key, facts["task"]):
                if time.monotonic() > end:
                    fault(f"task {facts['task']} of {key} does not end")
                    return
                time.sleep(0.2)


def in_the_log(workers):
    """What is not there yet may come: events of artifacts wait in control.db until the recorder has them."""
    end = time.monotonic() + SETTLED
    while (missing := not_in_the_log(workers)) and time.monotonic() < end:
        time.sleep(1)
    for what in missing:
        fault(f"the audit log has not {what}")


def not_in_the_log(workers):
    """Files, patches and artifacts: their digests, under the name of the session that the answer had."""
    missing = []
    by_session, artifacts, told = {}, set(), set()
    for e in daemon.audit():
        detail = e.get("detail", {})
        if e["event"].startswith("file.") and e["outcome"] == "ok":
            by_session[detail["session"]] = e
        elif e["event"] == "artifact.put" and e["outcome"] == "ok":
            artifacts.add((detail["name"], detail["sha256"]))
        elif e["event"] == "mcp.answer":
            told.add((detail["params_sha256"], e["outcome"]))
    for key, facts in answered(workers, "file"):
        detail = by_session.get(facts["session"], {}).get("detail", {})
        if (detail.get("path"), detail.get("sha256")) != (f"files/{key}", sha256(facts["content"])):
            missing.append(f"that {key} was written: {detail}")
    for key, facts in answered(workers, "patch"):
        wanted = [(f, sha256(Patches.content(facts["n"] - 1)), sha256(Patches.content(facts["n"]))) for f in facts["files"]]
        changes = by_session.get(facts["session"], {}).get("detail", {}).get("changes", [])
        if [(c["path"], c["before"].get("sha256"), c["after"].get("sha256")) for c in changes] != wanted:
            missing.append(f"that {key} was patched: {changes}")
    for key, facts in answered(workers, "read"):
        if by_session.get(facts["session"], {}).get("detail", {}).get("path") != facts["path"]:
            missing.append(f"that {facts['path']} was read by {key}")
    for key, facts in answered(workers, "artifact"):
        if (key, sha256(facts["content"])) not in artifacts:
            missing.append(f"artifact {key}")
    for key, facts in answered(workers, "inside"):
        if (sha256(facts["params"]), "ok") not in told:
            missing.append(f"the answer of {key}")
    return missing


def reader():
    """tools/mrec.py, which reads the record by its documentation alone."""
    loader = importlib.machinery.SourceFileLoader("mrec", str(HERE / "tools" / "mrec.py"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mrec", loader))
    loader.exec_module(module)
    return module


def recordings():
    """(open, {stream: bytes}, exit) of each sealed session of a program or a call inside."""
    mrec = reader()
    for path in sorted(pathlib.Path(state, "record", "sealed").glob("*/*.mrec")):
        r = mrec.Recording(str(path))
        with r.f:
            opened = json.loads(r.open)
            if opened["kind"] not in ("round", "mcp"):
                continue
            data, exit_ = {}, {}
            for e in r.events():
                if e.type == mrec.DATA:
                    data.setdefault(mrec.STREAMS[e.stream], bytearray()).extend(e.payload)
                elif e.type == mrec.EXIT:
                    exit_ = json.loads(e.payload)
            yield str(r.session), opened, {k: v.decode() for k, v in data.items()}, exit_


def are_sealed(workers):
    """Seals come a while behind an end; what the recorder has open when it ends is sealed by the next one."""
    rounds, end = [facts["round"] for _, facts in answered(workers, "program")], time.monotonic() + PATIENCE
    while any(pathlib.Path(state, "record", "open", r + ".mrec").exists() for r in rounds) and time.monotonic() < end:
        time.sleep(0.05)


def in_the_record(workers):
    rounds, inside = {}, {}
    for session, opened, data, exit_ in recordings():
        if opened["kind"] == "round":
            rounds[session] = opened["argv"], data.get("stdout", data.get("output", "")), exit_.get("code")
        elif exit_.get("mcp", {}).get("outcome") == "ok":
            inside.setdefault(opened["mcp"]["params_sha256"], []).append((data.get("input"), data.get("output"), exit_["mcp"]["answer_sha256"]))
    for key, facts in answered(workers, "program"):
        if rounds.get(facts["round"]) != (facts["argv"], key, 0):
            fault(f"the record has of {key}, round {facts['round']}: {rounds.get(facts['round'])}")
    for key, facts in answered(workers, "inside"):
        want = facts["params"], facts["answer"], sha256(facts["answer"])
        if inside.get(sha256(facts["params"])) != [want]:
            fault(f"the record has of {key}: {inside.get(sha256(facts['params']))}, expected {want}")


# ---- the story

def prepared():
    """The sandbox, its directories, and the server inside."""
    first = Tools(99, OLD)
    if first.until_answered(first.client.begin) is None or not first.use("sandbox.session.exec", {"argv": ["mkdir", "once", "files"]}):
        sys.exit("FAILED: the sandbox does not begin")
    servers = pathlib.Path(state, "servers.json")
    servers.write_text(json.dumps({"servers": [{"name": "counter", "command": ["python3", "/workspace/server.py", "counts"]}]}))
    daemon.muxctl("put", "kills", str(HERE / "tests" / "lib" / "mcp_server.py"), "server.py")
    daemon.muxctl("mcp", "set", "kills", str(servers))
    return first


def story():
    global token, context
    context = ssl.create_default_context(cafile=os.path.join(state, "keys", "tls.crt"))
    context.check_hostname = False
    token = json.loads(daemon.muxctl("grant", "create", "--agent", "kills", "--principal", "tester", "--kind", "agent", "--scopes",
                                     "rounds,files,lifecycle", "--task", "story", "--ttl", "20h", "--reason", "tools under kills", "-o",
                                     "json"))["token"]
    first = prepared()
    workers = [Tools(0, OLD), Tools(1, NEW), Tasks(2), Inside(3, OLD), Inside(4, NEW), Patches(5, OLD), Patches(6, NEW)]
    for w in workers:
        w.start()
    for n in range(kills):
        since = sum(len(w.answers) for w in workers)
        while not faults and (sum(len(w.answers) for w in workers) == since or time.monotonic() - min(w.asked for w in workers) > STARVES):
            time.sleep(0.005)
        time.sleep(rnd.uniform(0, rnd.choice((0.3, 0.6, 2))))
        if faults:
            break
        why = daemon.kill(rnd.choice(KILLED))
        done.append(n)
        if why:
            fault(why)
        if n % 50 == 49:
            print(f"  {n + 1} kills, {sum(len(w.answers) for w in workers)} answers", flush=True)
    end = time.monotonic() + PATIENCE
    while not faults and not all(answered(workers, what) for what in WHATS) and time.monotonic() < end:
        time.sleep(0.05)  # a slow machine: each has to show something
    stop.set()
    for w in workers:
        w.join()
    tasks_are_found(workers)
    inside_the_sandbox(first, workers)
    in_the_log(workers)
    are_sealed(workers)
    return workers


daemon = Daemon(state)
signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: told to end"))
daemon.start()
try:
    clients = story()
finally:
    daemon.end()
in_the_record(clients)
if subprocess.run([BUILD + "/muxctl", "--state", state, "verify", "--all"], stdout=subprocess.DEVNULL, check=False).returncode:
    fault("muxctl verify --all finds something")
counts = {what: len(answered(clients, what)) for what in WHATS}
print(f"  {len(done)} kills, {sum(w.again for w in clients)} times asked again, {sum(w.unknown for w in clients)} calls inside that nobody knows "
      f"of, {sum(w.refused for w in clients)} patches that did not fit twice, answered: {', '.join(f'{n} {what}' for what, n in counts.items())}")
if not all(counts.values()):
    fault("the story shows nothing of some")
sys.exit(1 if faults else 0)
