#!/usr/bin/python3
"""clients.py sync|async: what the Python client promises, against a daemon. Written once, for asyncio; the half that blocks is
made of it as the package's own is (clients/generate.py)."""
import asyncio
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from concurrent.futures import Future

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(TOP, "clients", "python"), os.path.join(TOP, "clients")]
import generate  # noqa: E402
import muxd  # noqa: E402
from muxd import (AsyncArtifacts, AsyncRoundEvents, AsyncSandbox, CommandExitException, ConnectionConfig, ConnectionLost,  # noqa: E402
                  FilesystemEventType, FileType, PtySize, RequestTimeout, SandboxExecTimeout, SandboxTransferTimeout, SandboxError, errors)
from muxd._net.aio import sleep  # noqa: E402

STATE, TMP, AGENT = os.environ["MUXD_STATE"], os.environ["TMP_DIR"], os.environ["AGENT"]
TOKEN, TASK = os.environ["TOKEN_FILE"], os.environ["TASK"]
PROXY = f"{TMP}/proxy-{sys.argv[1]}.sock"


def equal(what, expected, got):
    if expected != got:
        sys.exit(f"FAILED: {what}: expected {expected!r}, got {got!r}"[:2000])
    print(f"  ok: {sys.argv[1]}: {what}", flush=True)


async def raises(what, kind, awaited, **attributes):
    try:
        got = await awaited()
    except SandboxError as e:
        if type(e) is not kind:
            sys.exit(f"FAILED: {what}: {type(e).__name__} {e}, not {kind.__name__}")
        for name, expected in attributes.items():
            equal(f"{what}: {name}", expected, getattr(e, name))
        print(f"  ok: {sys.argv[1]}: {what}: {kind.__name__}", flush=True)
        return e
    sys.exit(f"FAILED: {what}: no {kind.__name__}, but {got!r}"[:2000])


def start(work):
    """Beside the caller: a task, or a thread."""
    if sys.argv[1] == "async":
        return asyncio.ensure_future(work())
    done = Future()

    def run():
        try:
            done.set_result(work())
        except BaseException as e:  # handed to the caller
            done.set_exception(e)
    threading.Thread(target=run, daemon=True).start()
    return done


async def outcome(started):
    if sys.argv[1] == "async":
        await asyncio.wait([started], timeout=30)
        return started.exception()
    return started.exception(30)


class Proxy:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, f"{HERE}/../lib/cutting_proxy.py", PROXY, f"{STATE}/api.sock"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def cut(self, kind, method, path, count=1):
        equal(f"the proxy will cut {method} {path} ({kind})", "ok", self.say(f"cut {kind} {count} {method} {path}"))

    def seen(self):
        return int(self.say("seen").split()[0])

    def made_up(self):
        """The name in what was cut last; None where nothing was."""
        found = re.search(r"(sbx-\w+)/resume", self.say("seen"))
        return found and found[1]

    def alone(self):
        end = time.monotonic() + 20
        while self.say("open") != "0" and time.monotonic() < end:
            time.sleep(0.02)
        return self.say("open") == "0"

    def end(self):
        self.process.communicate()


async def commands(s):
    r = await s.commands.run("echo out; echo err >&2")
    equal("a command", ("out\n", "err\n", 0, "exit", False), (r.stdout, r.stderr, r.exit_code, r.cause, r.truncated))
    r = await s.commands.run(["printf", "%s|", "a b", "$HOME"], envs={"X": "1"})
    equal("a program and its arguments", "a b|$HOME|", r.stdout)
    equal("cwd, envs", "/tmp 1 two\n", (await s.commands.run("echo $PWD $X $Y", cwd="/tmp", envs={"X": "1"})).stdout)
    e = await raises("another end than 0", CommandExitException, lambda: s.commands.run("echo part; exit 3"), exit_code=3, stdout="part\n")
    equal("it is in the result, too", 3, e.result.exit_code)
    equal("without check", 4, (await s.commands.run("exit 4", check=False)).exit_code)
    equal("a signal", (137, "KILL"), (lambda r: (r.exit_code, r.signal))(await s.commands.run("kill -9 $$", check=False)))
    failed = await raises("a program that is not there", errors.ProgramNotFound, lambda: s.commands.run(["no-such-program"]), status=400)
    equal("whose round is named", 36, len(failed.round_id))
    await raises("a time that is up", SandboxExecTimeout, lambda: s.commands.run("echo part; sleep 30", timeout=0.4), code="sandbox_exec_timeout",
                 stdout="part\n")
    await raises("the same, followed", SandboxExecTimeout, lambda: s.commands.run("echo part; sleep 30", timeout=0.4, on_stdout=print_nothing),
                 stdout="part\n")
    equal("input at once", "grüß", (await s.commands.run("cat", stdin="grüß")).stdout)


def print_nothing(_text):
    pass


async def streams(s):
    got = []
    line = r"for i in 1 2 3; do printf '\303'; sleep 0.15; printf '\274\360\237'; sleep 0.15; printf '\230\200\n'; done; echo e >&2"
    r = await s.commands.run(line, on_stdout=got.append, on_stderr=lambda t: got.append(("err", t)))
    equal("characters are whole at the borders of pieces", "ü😀\n" * 3, "".join(t for t in got if isinstance(t, str)))
    equal("in the result as well", ("ü😀\n" * 3, "e\n"), (r.stdout, r.stderr))
    equal("the other stream", [("err", "e\n")], [t for t in got if not isinstance(t, str)])
    h = await s.commands.run("echo first; read x; echo got $x", background=True, stdin=True, timeout=60)

    async def answer(text):
        if "first" in text:
            await h.send_stdin("it\n")
    equal("it comes as it is printed: the callback answers", "first\ngot it\n", (await h.wait(on_stdout=answer)).stdout)
    r = await s.commands.run(r"printf 'a\377b\303'", on_stdout=got.append)
    equal("what is no UTF-8 is marked, and there in bytes", ("a\ufffdb\ufffd", b"a\xffb\xc3"), (r.stdout, r.stdout_bytes))
    big = "head -c 9000000 /dev/urandom | tee big; sha256sum big >&2; rm big"
    r = await s.commands.run(big)
    equal("big output is whole", (9000000, r.stderr[:64]), (len(r.stdout_bytes), hashlib.sha256(r.stdout_bytes).hexdigest()))
    count = [0]

    def add(text):
        count[0] += 1
    r = await s.commands.run(big, on_stdout=add)
    equal("followed, too", (9000000, r.stderr[:64]), (len(r.stdout_bytes), hashlib.sha256(r.stdout_bytes).hexdigest()))
    r = await s.commands.run("head -c 9000000 /dev/zero", max_output=1 << 20)
    equal("past max_output there are head and tail, and that is said", (True, True), (r.truncated, 0 < len(r.stdout_bytes) < 3 << 20))

    def refuse(_text):
        raise KeyError("enough")
    began = time.monotonic()
    try:
        await s.commands.run("echo x; sleep 20", on_stdout=refuse)
        sys.exit("FAILED: a callback's exception was lost")
    except KeyError:
        equal("a callback's exception ends the wait", True, time.monotonic() - began < 5)


async def background(s):
    h = await s.commands.run("cat; echo end", background=True, stdin=True)
    equal("it is among those that run", [h.pid], [p.pid for p in await s.commands.list() if p.pid == h.pid])
    await h.send_stdin("ü" * 50000)
    await s.commands.send_stdin(h.pid, b"\xff\0")
    await h.send_stdin("and more")  # whose place another has written at
    await h.close_stdin()
    equal("its input came in order, and whole", "ü".encode() * 50000 + b"\xff\0and moreend\n", (await h.wait()).stdout_bytes)
    h = await s.commands.run("trap 'echo got; exit 9' USR1; echo up; while :; do sleep 0.05; done", background=True, check=False)
    again = await s.commands.connect(h.pid)
    got = []
    while not (await s.commands.run("true")).exit_code == 0 or "up\n" not in (await output_so_far(s, h.pid)):
        time.sleep(0.02)
    equal("a signal is sent", True, await again.send_signal("USR1"))
    equal("its end", (9, "up\ngot\n"), (lambda r: (r.exit_code, r.stdout))(await h.wait(on_stdout=got.append)))
    equal("a signal to one that has ended", False, await again.send_signal("USR1"))
    h = await s.commands.run("sleep 60 & sleep 60", background=True, check=False)
    equal("killed", (True, 137), (await s.commands.kill(h.pid), (await h.wait()).exit_code))


async def output_so_far(s, pid):
    answer = await s._client.open("getRoundOutput", {"id": pid}, accept="application/octet-stream", again=True, whole=True)
    return (await answer.read()).decode()


async def files(s):
    f = s.files
    names = ["plain.txt", "with space/ü😀.txt", "per%cent&plus+?#=", "line\nend", b"no\xffutf8", "-rf", "'quote\"", "$(x)`y`", "\\back\x07"]
    for name in names:
        content = os.urandom(1000)
        w = await f.write(name, content)
        equal(f"{name!r} is written", (1000, hashlib.sha256(content).hexdigest()), (w.size, w.sha256))
        equal("and read", content, await f.read(name, "bytes"))
        equal("and is there", True, await f.exists(name))
    listed = [e.path for e in await f.list(".", depth=2)]
    equal("all are listed", [], [n for n in names if (os.fsdecode(n) if isinstance(n, bytes) else n) not in listed])
    entries = {e.path: e for e in await f.list()}
    equal("a path of a list is a path", (await f.read(names[4], "bytes")), await f.read(entries["no\udcffutf8"].path, "bytes"))
    equal("its type", FileType.DIR, entries["with space"].type)
    for name in names:
        await f.remove(name)
    equal("and gone", False, await f.exists(names[3]))
    await f.write("t.txt", "eins\nzwei\ndrei\n")
    equal("text", "eins\nzwei\ndrei\n", await f.read("t.txt"))
    equal("lines", "zwei\n", (await f.read_lines("t.txt", 2, 2))["data"])
    equal("a part", b"drei", await f.read_part("t.txt", 10, 4))
    await f.append("t.txt", "vier\n")
    equal("search", [("t.txt", 4)], [(m.path, m.line) for m in await f.search("vi?er", regex=True)])
    known = (await f.read_lines("t.txt"))["sha256"]
    await f.edit("t.txt", "neu\n", if_match=known)
    await raises("an edit of what has changed", errors.FileChanged, lambda: f.edit("t.txt", "x", if_match=known), status=412)
    await f.patch("*** Begin Patch\n*** Update File: t.txt\n@@\n-neu\n+anders\n*** End Patch\n")
    equal("a patch", "anders\n", await f.read("t.txt"))
    e = await raises("one that does not fit", errors.PatchRefused, lambda: f.patch("*** Begin Patch\n*** Update File: t.txt\n@@\n-neu\n+x\n*** End Patch\n"))
    equal("and why", True, "refused" in e.details)
    equal("directories", (True, False, FileType.DIR), (await f.make_dir("d/e"), await f.make_dir("d/e"), (await f.get_info("d/e")).type))
    equal("a new name", "d/moved", (await f.rename("t.txt", "d/moved")).path)
    equal("a copy", "d/e/copy", (await f.copy("d/moved", "d/e/copy")).path)
    equal("permissions", 0o750, (await f.chmod("d/moved", 0o750)).mode)
    equal("by pattern", ["d/e/copy"], [e.path for e in await f.glob("**/co*")])
    await raises("one that is not there", errors.FileNotFound, lambda: f.read("nowhere"), status=404)
    await raises("one outside", errors.PathOutside, lambda: f.get_info("/etc/passwd"), status=403)
    equal("read reaches there", True, (await f.read("/etc/hostname")).strip() != "")
    with open("/bin/bash", "rb") as big:
        w = await f.write("d/big", big)
        big.seek(0)
        equal("a big one from a file", hashlib.file_digest(big, "sha256").hexdigest(), w.sha256)
    digest = hashlib.sha256()
    async for piece in await f.read("d/big", "stream"):
        digest.update(piece)
    equal("and back in pieces", w.sha256, digest.hexdigest())
    equal("in chunks", 3000, (await f.write("d/chunks", (b"x" * 300 for _ in range(10)))).size)
    with subprocess.Popen(["printf", "from a pipe"], stdout=subprocess.PIPE) as pipe:
        equal("of a pipe", 11, (await f.write("d/pipe", pipe.stdout)).size)
    equal("of a file of text", "grüß", await read_back(f, io.StringIO("grüß")))
    equal("of one whose calls may be awaited", "slow", await read_back(f, Slow(b"slow")))
    with tempfile.NamedTemporaryFile("w+", encoding="utf-16") as wide:
        wide.write("weit")
        wide.seek(0)
        equal("of one of text, in a wrapper and other letters", "weit", await read_back(f, wide))
    with open("/proc/self/status", "rb") as status:
        equal("of one without a size", "Name:", (await read_back(f, status))[:5])
    for size in (3, 30):
        try:
            await f.write("d/size", iter([b"hello ", b"world"]), size=size)
            sys.exit("FAILED: a size that is not true")
        except ValueError as e:
            equal(f"a size that is not true: {e}", False, await f.exists("d/size"))

    def broken():
        yield b"x"
        raise BrokenPipeError("of the caller")
    try:
        await f.write("d/broken", broken())
        sys.exit("FAILED: content that breaks off")
    except BrokenPipeError as e:
        equal("what the content raises comes as it is", ("of the caller", False), (str(e), await f.exists("d/broken")))

    def slowly():
        for _ in range(16):
            time.sleep(0.05)
            yield b"x" * 100
    await raises("a transfer whose time is up", SandboxTransferTimeout, lambda: f.write("d/slow", slowly(), timeout=0.4), code="sandbox_transfer_timeout")
    equal("it left nothing", False, await f.exists("d/slow"))
    await f.remove("d")


async def read_back(f, content):
    await f.write("d/back", content)
    return await f.read("d/back")


class Slow:
    """A file as aiofiles and anyio have them."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    async def read(self, n=-1):
        return self._file.read(n)

    async def tell(self):
        return self._file.tell()

    async def seek(self, *where):
        return self._file.seek(*where)


async def cuts(proxy):
    """The connection is cut where it hurts; what is safe is done again, once, and the rest is said."""
    config = ConnectionConfig(socket_path=PROXY, token_file=TOKEN, task_id=TASK, retry_for=10, request_timeout=5)
    s = await AsyncSandbox.create(AGENT, connection=config)
    rounds = f"/v1/agents/{AGENT}/rounds"
    for kind in ("before", "answer"):
        proxy.cut(kind, "POST", rounds, 3)
        r = await s.commands.run(f"echo once >>{kind}; sleep 0.1; cat {kind}")
        equal(f"cut {kind} three times, run once", "once\n", r.stdout)
    equal("they were cut", 6, proxy.seen())
    proxy.cut("answer", "GET", "/v1/rounds/", 2)
    equal("cut while it waits", "x", (await s.commands.run("sleep 0.3; printf x", on_stdout=print_nothing)).stdout)
    proxy.seen()
    proxy.cut("body=70000", "GET", "/v1/rounds/", 4)
    got = []
    r = await s.commands.run("seq 60000; seq 40000 >&2", on_stdout=got.append, on_stderr=print_nothing)
    want = "".join(f"{i}\n" for i in range(1, 60001))
    equal("cut while it is followed, nothing twice and nothing missing", True, want == r.stdout == "".join(got))
    equal("they were cut", 4, proxy.seen())
    proxy.cut("body=70000", "GET", "/v1/rounds/", 3)
    p = await s.pty.run("stty -onlcr; seq 40000")
    got = []
    equal("a command with a terminal, cut thrice", (0, True), ((await p.wait(got.append))["code"], b"".join(got).decode() == "".join(f"{i}\n" for i in range(1, 40001))))
    equal("they were cut", 3, proxy.seen())
    proxy.cut("body=2000", "GET", f"/v1/agents/{AGENT}/fs/watch", 1)
    watch = await s.files.watch_dir(".")
    await s.commands.run("for i in $(seq 200); do : >some-$i; done")
    while (await watch.next(timeout=20)).type != FilesystemEventType.OVERFLOW:
        pass
    await s.files.write("behind", "x")
    while (await watch.next(timeout=20)).name != "behind":
        pass
    equal("a watch that was cut goes on, and says so", 1, proxy.seen())
    await watch.stop()
    h = await s.commands.run("cat", background=True, stdin=True)
    proxy.cut("answer", "POST", f"/v1/rounds/{h.pid}/stdin", 3)
    await h.send_stdin("a\n")
    await h.send_stdin("b\n")
    await h.close_stdin()
    equal("input comes once", "a\nb\n", (await h.wait()).stdout)
    for kind in ("answer", "inside"):
        proxy.cut(kind, "POST", f"/v1/agents/{AGENT}/fs/append", 1)
        e = await raises("an append whose answer was lost", ConnectionLost, lambda: s.files.append(f"appended-{kind}", "x"), maybe_done=True)
        equal("has its request's id, and a hint", (36, True), (len(e.request_id), "may have been done" in e.hint))
        equal("and was not done twice", "x", await s.files.read(f"appended-{kind}"))
    proxy.cut("answer", "PUT", f"/v1/agents/{AGENT}/files", 1)
    equal("a write is done again", 5, (await s.files.write("again", "hello")).size)
    await raises("an exec_id for something else", errors.Conflict, lambda: twice(s), status=409)
    proxy.seen()
    proxy.cut("hang", "GET", f"/v1/agents/{AGENT}", 1)
    quick = await AsyncSandbox.create(AGENT, socket_path=PROXY, token_file=TOKEN, request_timeout=0.5)
    await raises("no answer in time", RequestTimeout, quick.get_info, code="request_timeout")
    await quick.aclose()
    proxy.cut("body=40000", "GET", f"/v1/agents/{AGENT}/terminal", 1)
    p = await s.pty.create(PtySize(rows=24, cols=80))
    proxy.cut("body=50000", "GET", "/v1/sessions/", 1)
    await p.send_stdin("stty -echo; PS1=; clear\n")
    await p.send_stdin("seq 30000; exit 7\n")
    got = []
    end = await p.wait(got.append)
    numbers = [w for w in b"".join(got).replace(b"\r", b"").split(b"\n") if w.isdigit()]
    equal("a terminal that was cut twice has lost nothing", (7, [b"%d" % i for i in range(1, 30001)] == numbers), (end["code"], True))
    equal("they were cut", 3, proxy.seen())
    await left(s, proxy)
    await s.aclose()


async def left(s, proxy):
    """A terminal that is disconnected while its reader joins it again stays so."""
    proxy.cut("body=2000", "GET", f"/v1/agents/{AGENT}/terminal", 1)
    proxy.cut("late=0.6", "GET", "/v1/sessions/", 1)
    p = await s.pty.create()
    await p.send_stdin("seq 3000\n")
    reading = start(lambda: p.wait(print_nothing))
    cut, end = 0, time.monotonic() + 20
    while cut < 2 and time.monotonic() < end:
        await sleep(0.02)
        cut += proxy.seen()
    await p.disconnect()
    equal("who reads is told", (ConnectionLost, True), (lambda e: (type(e), "was disconnected" in str(e)))(await outcome(reading)))
    await raises("who types, too", ConnectionLost, lambda: p.send_stdin("x"), maybe_done=False)
    equal("and no connection is left", True, proxy.alone())
    await s.pty.kill(p.pid)
    proxy.cut("body=600", "GET", f"/v1/agents/{AGENT}/fs/watch", 1)
    proxy.cut("late=0.6", "GET", f"/v1/agents/{AGENT}/fs/watch", 1)
    watch = await s.files.watch_dir(".")
    await s.commands.run("for i in $(seq 20); do : >left-$i; done")
    watching = start(lambda: drained(watch))
    await sleep(0.3)
    await watch.stop()
    equal("a watch that is stopped while it is made anew stays so", (None, True), (await outcome(watching), proxy.alone()))
    proxy.cut("late=0.6", "GET", "/v1/rounds/", 1)
    events_of = (await s.commands.run("sleep 60", background=True)).events()
    reading = start(events_of.next)
    await sleep(0.3)
    await events_of.aclose()
    equal("events that are closed while they are opened, too", (None, None, True), (await outcome(reading), reading.result(), proxy.alone()))


async def drained(handle):
    while await handle.next():
        pass


async def given_up(proxy):
    """create() that fails leaves no sandbox whose name nobody has."""
    how = {"socket_path": PROXY, "token_file": f"{TMP}/any", "task_id": "story"}
    gone = {"state_dir": STATE, "token_file": f"{TMP}/any"}
    proxy.cut("answer", "POST", "/v1/agents/sbx-", 1)
    await raises("the answer to create() was lost", ConnectionLost, lambda: AsyncSandbox.create(retry_for=0, **how), maybe_done=True)
    name = proxy.made_up()
    await raises("what it made is gone", errors.NotFound, lambda: AsyncSandbox.connect(name, **gone))
    proxy.cut("hang", "POST", "/v1/agents/sbx-", 1)
    await raises("no answer to create()", RequestTimeout, lambda: AsyncSandbox.create(timeout=0.6, request_timeout=0.6, **how))
    name = proxy.made_up()
    await raises("what it made is gone", errors.NotFound, lambda: AsyncSandbox.connect(name, **gone))
    if sys.argv[1] == "async":
        for again in (False, True):
            proxy.cut("hang", "POST", "/v1/agents/sbx-", 1)
            proxy.cut("late=0.4", "DELETE", "/v1/agents/sbx-", 1)
            making, name, end = asyncio.ensure_future(AsyncSandbox.create(**how)), None, time.monotonic() + 20
            while name is None and time.monotonic() < end:
                await asyncio.sleep(0.02)
                name = proxy.made_up()
            making.cancel()
            if again:
                await asyncio.sleep(0.2)
                making.cancel()
            await asyncio.wait([making])
            equal("create() was cancelled", True, making.cancelled())
            await raises("what it made is gone", errors.NotFound, lambda: AsyncSandbox.connect(name, **gone))
    proxy.cut("answer", "POST", "/v1/agents/sbx-", 1)
    weak = {**how, "token_file": f"{TMP}/weak"}
    e = await raises("by a grant that may end none", ConnectionLost, lambda: AsyncSandbox.create(retry_for=0, **weak), maybe_done=True)
    name = proxy.made_up()
    equal("the hint has its name", True, f"{name} may run" in e.hint)
    s = await AsyncSandbox.connect(name, **gone)
    await s.kill(wipe=True)
    await s.aclose()
    async with await AsyncSandbox.create(**how) as s:
        snapshot = await s.create_snapshot()
        proxy.cut("answer", "POST", f"/v1/agents/{s.sandbox_id}/fork", 1)
        await raises("the answer to fork() was lost", ConnectionLost, lambda: s.fork(snapshot_id=snapshot.snapshot_id), maybe_done=True)
        end = time.monotonic() + 60  # in a cluster its pod and its claim take their time
        while left := [i.state for i in await AsyncSandbox.list(prefix=f"{s.sandbox_id}-copy-", **gone) if i.state != "absent"]:
            if time.monotonic() > end:
                break
            await sleep(0.1)
        equal("the fork is gone", [], left)


async def twice(s):
    await s.commands.run("true", exec_id="the-same")
    await s.commands.run("false", exec_id="the-same")


async def terminals(s):
    p = await s.pty.create(PtySize(rows=30, cols=100))
    await p.resize(PtySize(rows=31, cols=101))
    await p.send_stdin("stty size; tty >/dev/null && echo it is $((6*7))\n")
    seen = b""
    while b"it is 42" not in seen:
        seen += await p.read(timeout=20)
    equal("a terminal of its size", True, b"31 101" in seen)
    await p.disconnect()
    q = await s.pty.connect(p.pid)
    await q.send_stdin("echo still $((40+4)) here\n")
    seen = b""
    while b"still 44 here" not in seen:
        seen += await q.read(timeout=20)
    equal("it is joined again", p.pid, q.pid)
    equal("and ended", True, await s.pty.kill(q.pid))
    equal("which its reader is told", True, (await q.wait())["cause"] != "exit" or q.exit["signal"] != "")


async def rounds_with_terminals(s):
    p = await s.pty.run(["sh"], PtySize(rows=10, cols=40), envs={"PS1": "$ "})
    offset = await p.send_keys("text:tty >/dev/null && echo it is $((6*7)); stty size", "Enter")
    shown = await p.screen(wait=20, after=offset + 60)
    equal("a command with a terminal, by keys and its screen", ("it is 42", "10 40"), tuple(line for line in shown.lines if line[:1] in ("i", "1")))
    await p.resize(PtySize(rows=11, cols=41))
    await p.send_stdin(b"stty size\n")
    seen = b""
    while b"11 41\r\n$ " not in seen:  # and its prompt: nothing more comes
        seen += await p.read(timeout=20)
    equal("its output from the beginning, and another size", True, b"it is 42" in seen)
    cells = await p.cells()
    equal("cells", (41, 11, True), (cells["cols"], cells["rows"], any("it is 42" in r["text"] for r in cells["runs"])))
    try:
        await p.read(timeout=0.1)
        sys.exit("FAILED: output of nothing")
    except TimeoutError:
        equal("silence is not its end", None, p.exit)
    q = await s.pty.connect(p.pid)
    await q.send_keys("text:exit 5", "Enter")
    got = bytearray()
    equal("joined, from its first byte, to its end", (5, True), ((await q.wait(got.extend))["code"], got.startswith(seen[:20])))
    equal("which the first one is told", (5, 5), ((await p.wait())["code"], p.exit_code))
    data = []
    p = await s.pty.create(PtySize(rows=5, cols=20), data.append, cwd="/tmp", envs={"Z": "dir is"}, timeout=60)
    await p.send_stdin("stty -echo; echo $Z $PWD; exec sleep 60\n")
    while b"dir is /tmp" not in b"".join(data):
        data.append(await p.read(timeout=20))
    equal("a shell somewhere, hung up", (True, "HUP"), (await s.pty.kill(p.pid), (await p.wait())["signal"]))
    p = await s.pty.run("cat", exec_id="cat-once")
    equal("it is started once", p.pid, (await s.pty.run("cat", exec_id="cat-once")).pid)
    equal("and killed", (True, True), (await p.kill(), (await p.wait())["signal"] == "KILL"))


async def events(s):
    h = await s.commands.run(r"printf 'a\303'; sleep 0.2; printf '\274\n'; read x; echo $x >&2; exit 3", background=True, stdin=True, check=False)
    seen = []
    async for e in h.events():
        seen.append(e)
        if e.event == "stdout" and e.output.endswith(b"\n"):
            await h.send_stdin("in\n")
    equal("events from its start to its end", ["started", "stdout", "stderr", "exit"], list(dict.fromkeys(e.event for e in seen)))
    equal("what was printed", ("aü\n", b"in\n"), (b"".join(e.output for e in seen if e.event == "stdout").decode(), next(e.output for e in seen if e.event == "stderr")))
    equal("its end", (3, 1), (seen[-1].data["exit"]["code"], len([e for e in seen if e.event == "exit"])))
    equal("behind an id what follows", b"\xbc\n", b"".join([e.output async for e in h.events("2-0") if e.event == "stdout"]))
    equal("behind the last id nothing", [], [e async for e in h.events(seen[-1].id)])
    await raises("of another's round", errors.NotFound, lambda: first_of(AsyncRoundEvents(s._client, "01936f0e-0000-7000-8000-000000000000")))


async def first_of(events):
    return await events.next()


async def watches(s):
    f = s.files
    await f.make_dir("w/deep")
    watch = await f.watch_dir("w")
    equal("nothing yet", [], await watch.get_new_events())
    await f.write("w/a", "1")
    await s.commands.run("cd w; echo 2 >>a; chmod 600 a; mv a b; rm b; mkdir new; : >deep/unseen")
    seen = []
    while ("new", FilesystemEventType.CREATE) not in seen:
        seen.append((lambda e: (e.name, e.type))(await watch.next(timeout=20)))
    kinds = FilesystemEventType
    want = [("a", kinds.CREATE), ("a", kinds.WRITE), ("a", kinds.CHMOD), ("a", kinds.RENAME), ("b", kinds.CREATE), ("b", kinds.REMOVE)]
    equal("what happens in a directory", want, [w for w in dict.fromkeys(seen) if w in want])
    equal("not below it", [], [w for w in seen if "unseen" in w[0]])
    await watch.stop()
    equal("stopped", None, await watch.next())
    told, ended = [], []
    watch = await f.watch_dir("w", told.append, ended.append, recursive=True)
    await s.commands.run("cd w; : >new/deep; rm -r ../w")
    end = time.monotonic() + 30
    while not ended and time.monotonic() < end:
        await sleep(0.05)
    equal("a callback, below it too", True, ("new/deep", kinds.CREATE, "w/new/deep") in [(e.name, e.type, e.path) for e in told])
    equal("and the directory's end", [None], ended)
    await raises("one that is not there", errors.FileNotFound, lambda: f.watch_dir("w"), status=404)


async def trees(s):
    f = s.files
    await f.write_files([{"path": "tree/a.txt", "data": "a\n"}, {"path": "tree/sub/b.bin", "data": b"\0\xff"}, {"path": "tree/.gitignore", "data": "*.bin\n"}])
    archive = await f.read_tree("tree")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        equal("a directory as an archive", ["a.txt", "sub/b.bin"], sorted(m.name for m in tar if m.isfile() and m.name[:1] != "."))
    with tarfile.open(fileobj=io.BytesIO(b"".join([p async for p in await f.read_tree("tree", format="stream", gitignore=True)]))) as tar:
        equal("in pieces, without what is ignored", ["a.txt"], sorted(m.name for m in tar if m.isfile() and m.name[:1] != "."))
    equal("and back as another", 3, (await f.write_tree("copied/tree", archive))["files"])
    equal("it is the same", b"\0\xff", await f.read("copied/tree/sub/b.bin", "bytes"))
    await raises("a name that is taken", errors.FileExists, lambda: f.write_tree("copied/tree", io.BytesIO(archive)), status=409)
    await f.write("copied/tree/more", "x")
    equal("merged", (3, True), ((await f.write_tree("copied/tree", io.BytesIO(archive), merge=True))["files"], await f.exists("copied/tree/more")))
    await f.write_tree("copied/tree", (archive[i:i + 1000] for i in range(0, len(archive), 1000)), overwrite=True)
    equal("replaced", False, await f.exists("copied/tree/more"))
    await raises("what is no archive", errors.InvalidRequest, lambda: f.write_tree("bad", b"x" * 600))
    equal("leaves nothing", False, await f.exists("bad"))


async def artifacts(s, proxy):
    a = s.artifacts
    big = os.urandom(3 << 20)
    info = await a.put("big", big, media_type="application/x-big")
    equal("an artifact", (len(big), hashlib.sha256(big).hexdigest(), "application/x-big", TASK), (info.size, info.sha256, info.media_type, info.task))
    equal("of pieces, and text", (3000, "grüß"), ((await a.put("pieces", (b"x" * 300 for _ in range(10)))).size, await a.get("text", "text") if await a.put("text", "grüß") else ""))
    await raises("a name that is taken", errors.Conflict, lambda: a.put("text", "x", create_only=True), status=412)
    digest = hashlib.sha256()
    async for piece in await a.get("big", "stream"):
        digest.update(piece)
    equal("back in pieces", info.sha256, digest.hexdigest())
    await s.files.write("out/report", "r")
    equal("of a file in the sandbox", "r", await a.get("report", "text") if await a.take("report", "out/report") else "")
    r = await s.commands.run("echo said; echo made >made", artifacts={"log": ":stdout", "made": "made"})
    end = time.monotonic() + 20
    while len(await a.list(round_id=r.round_id)) < 2 and time.monotonic() < end:
        await sleep(0.05)
    equal("what a command leaves", [("log", "said\n"), ("made", "made\n")], [(i.name, await a.get(i.name, "text")) for i in await a.list(round_id=r.round_id)])
    equal("of its output later", "said\n", await a.get("again", "text") if await a.take("again", round_id=r.round_id) else "")
    await raises("one that is not there", errors.NotFound, lambda: a.get("nothing"), status=404)
    await raises("another task's", errors.NotFound, lambda: a.list(task="other"), status=404)
    proxy.cut("body=1000000", "GET", f"/v1/tasks/{TASK}/artifacts/big", 2)
    async with await AsyncArtifacts.open(socket_path=PROXY, token_file=TOKEN) as mine:
        equal("cut twice it is whole, and the grant says whose", hashlib.sha256(big).hexdigest(), hashlib.sha256(await mine.get("big")).hexdigest())
        equal("they were cut", 2, proxy.seen())
        for i in await mine.list():
            await mine.delete(i.name)
        equal("deleted", [], await mine.list())


async def life():
    """Made, slept, woken, copied, ended; and who may not."""
    async with await AsyncSandbox.create(state_dir=STATE, token_file=f"{TMP}/any", task_id="story") as s:
        name = s.sandbox_id
        equal("a grant for all makes one with a name of its own", "sbx-", name[:4])
        await s.files.write("kept", "x")
        equal("asleep", ("stopped", False), ((await s.pause()).state, await s.is_running()))
        equal("awake", ("running", "x"), ((await s.resume()).state, await s.files.read("kept")))
        await s.pause()
        equal("connect wakes", True, await (c := await AsyncSandbox.connect(name, state_dir=STATE, token_file=f"{TMP}/any")).is_running())
        await c.aclose()
        snapshot = await s.create_snapshot()
        await s.files.write("kept", "y")
        fork = await s.fork(snapshot_id=snapshot.snapshot_id)
        equal("a fork has what was", "x", await fork.files.read("kept"))
        equal("and is ended", True, await fork.kill())
        await fork.aclose()
        await s.set_timeout(3600)
        equal("a time to live", True, (await s.get_info()).end_at is not None)
        equal("it is listed", [name], [i.sandbox_id for i in await AsyncSandbox.list(prefix=name, state_dir=STATE, token_file=f"{TMP}/any") if i.sandbox_id == name])
        more = {"state_dir": STATE, "token_file": f"{TMP}/any"}
        await (await AsyncSandbox.create(name, app_id="py-async", **more)).aclose()
        mine = (await s.get_info()).reference
        equal("its reference", (name, None, os.environ.get("BOX_NAMESPACE"), "py-async"), (mine.name, mine.cluster, mine.namespace, mine.app_id))
        # Another run of this file is at work in the same daemon.
        equal("listed by its app", [name], [i.sandbox_id for i in await AsyncSandbox.list(app_id="py-async", **more) if i.sandbox_id == name])
        equal("and not by another", [], [i.sandbox_id for i in await AsyncSandbox.list(app_id="py-other", **more)])
        own = await AsyncSandbox.create(name, exec_timeout=0.5, transfer_timeout=60, **more)
        await raises("its own timeout of commands", SandboxExecTimeout, lambda: own.commands.run("sleep 30"), code="sandbox_exec_timeout")
        await own.commands.run("sleep 1", timeout=20)
        await own.aclose()
        for place in ({"cluster": "none"}, {"namespace": "none"}):
            await raises(f"not here: {place}", errors.Unsupported, lambda: AsyncSandbox.create(name, **place, **more), status=501)  # pylint: disable=cell-var-from-loop
        for step in ("..", ".", "", "../x", "x/.."):
            await raises(f"no name: {step!r}", errors.InvalidRequest, lambda: s.delete_snapshot(step), status=0)  # pylint: disable=cell-var-from-loop
            await raises(f"no agent: {step!r}", errors.InvalidRequest, lambda: AsyncSandbox.create(step, state_dir=STATE, token_file=f"{TMP}/any"))
        await raises("no terminal", errors.InvalidRequest, lambda: s.pty.connect(".."), status=0)
        equal("and nothing was ended", True, await s.is_running())
    await raises("gone", errors.NotFound, lambda: AsyncSandbox.connect(name, state_dir=STATE, token_file=f"{TMP}/any"))

    def create(**how):
        return lambda: AsyncSandbox.create(AGENT, **{"state_dir": STATE, **how})
    await raises("no token", errors.Unauthenticated, create())
    await raises("a wrong one", errors.TokenMalformed, create(token="x"), status=401)
    with open(TOKEN, encoding="ascii") as t:
        word = t.read().strip()
    forged = word[:-6] + ("AAAAAA" if word[-6:] != "AAAAAA" else "BBBBBB")
    e = await raises("a forged one", errors.TokenSignature, create(token=forged))
    equal("errors have a hint and an id", (True, 36), (e.hint != "", len(e.request_id)))
    await raises("one that may not", errors.Forbidden, lambda: AsyncSandbox.create("another", state_dir=STATE, token_file=TOKEN), status=403)
    await raises("a wrong certificate", ConnectionLost, create(token=word, url=os.environ["URL"], state_dir=None, ca_file="/etc/ssl/certs/ca-certificates.crt"))
    await raises("nobody there", ConnectionLost, create(token=word, url="https://127.0.0.1:1", state_dir=None), maybe_done=False)
    await raises("no TLS", errors.InvalidRequest, create(token=word, url="http://127.0.0.1:1", state_dir=None))
    equal("no error is without its class", [], [c for c in generate_codes() if errors.BY_CODE[c].code != c])


def generate_codes():
    import yaml
    with open(generate.DOCUMENT, encoding="utf-8") as f:
        return yaml.safe_load(f)["components"]["schemas"]["ErrorCode"]["enum"]


async def main():
    equal("its version", os.environ["VERSION"], muxd.__version__)
    async with await AsyncSandbox.create(AGENT, state_dir=STATE, token_file=TOKEN, task_id=TASK, envs={"Y": "two"}) as s:
        for part in (commands, streams, background, files, terminals, rounds_with_terminals, events, watches, trees):
            await part(s)
        proxy = Proxy()
        await artifacts(s, proxy)
    equal("a named agent's sandbox stays", True, await (c := await AsyncSandbox.connect(AGENT, socket_path=f"{STATE}/api.sock", token_file=TOKEN)).is_running())
    await c.aclose()
    await cuts(proxy)
    await given_up(proxy)
    proxy.end()
    await life()


if sys.argv[1] == "async":
    asyncio.run(main())
else:
    with open(__file__, encoding="utf-8") as own:
        source = generate.unasync(own.read().partition("\nif sys.argv[1] == ")[0])
    from muxd import Sandbox  # noqa: F401
    exec(compile(source.replace("        yield", "        yield").replace("import asyncio\n", ""), __file__, "exec"))  # pylint: disable=exec-used
    main()  # type: ignore[unused-coroutine]
