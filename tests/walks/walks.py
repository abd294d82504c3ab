"""walks.py [--check]: does each walk once over walks.sh's daemon, and prints what was entered, from the traces of its processes."""
import glob, http.client, json, os, re, ssl, struct, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Terminal  # noqa: E402

ROOT = os.getcwd()
WALKS, BUILD = os.environ["WALKS"], os.environ["BUILD"]
CERT = os.environ["MUXD_STATE"] + "/keys/tls.crt"
DRIP = "stty raw -echo; while sleep 2; do printf x; done"
now = time.monotonic_ns
held = {}  # descriptors of the muxlets' traces, by device and inode
quiet = []  # times in which nothing was asked: what ran then runs anyway
ANYWAY = {"pulse_on_timer", "journal_on_tick", "serve_on_look", "serve_on_child_signal", "precedence_on_turn"}  # turns that belong to no walk, whatever they find to do


def ctl(*args):
    return subprocess.run([os.environ["MUXCTL"], "--state", os.environ["MUXD_STATE"], *args], capture_output=True, text=True, timeout=60)


def hold():
    """The traces of the muxlets there are: their own mounts hide the files, and the end of a sandbox takes them away."""
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps, encoding="utf-8") as f:
                found = [line.split() for line in f if "/.walk" in line]
        except OSError:
            continue  # it has ended
        for where, _, _, device, inode, *_ in found:
            if (device, inode) not in held:
                held[device, inode] = os.open("%s/map_files/%s" % (os.path.dirname(maps), where), os.O_RDONLY)


def third_byte(read):
    """From just before a byte came, in a terminal that has said two before."""
    while b"x" not in read():
        pass
    quiet.append((now() + 300_000_000, now() + 1_700_000_000))
    read()
    quiet.append((now() + 300_000_000, now() + 1_700_000_000))
    read()
    at = now()
    return at - 100_000_000, at


def walk_ssh():
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=" + os.environ["known"], "LogLevel=ERROR", "PreferredAuthentications=password"]
    ssh = ["sshpass", "-e", "ssh", "-F", "none", "-tt", "-p", os.environ["ssh"], *[a for o in options for a in ("-o", o)]]
    p = subprocess.Popen([*ssh, "walk@127.0.0.1", DRIP], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    times = third_byte(lambda: os.read(p.stdout.fileno(), 4096))
    p.kill()
    return times


def walk_browser():
    t = Terminal(os.environ["https"], "/v1/agents/walk/terminal?cols=80&rows=24", os.environ["SSHPASS"], cafile=CERT)
    t.keys(b"exec sh -c '" + DRIP.replace("printf", "sleep 0; printf").encode() + b"'\n")
    t.until(b"'\r\n")

    def read():
        while not (got := t.step()):
            pass
        return got
    times = third_byte(read)
    t.close()
    return times


def walk_round():
    host, port = os.environ["https"].rsplit(":", 1)
    c = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(cafile=CERT))
    for _ in range(2):  # over a connection that is open
        time.sleep(2.5)
        began = now()
        c.request("POST", "/v1/agents/walk/rounds", json.dumps({"argv": ["true"], "wait_ms": 20000}),
                  {"Authorization": "Bearer " + os.environ["SSHPASS"], "Content-Type": "application/json"})
        answer = json.loads(c.getresponse().read())
        time.sleep(0.02)  # what the request leaves is put away behind its answer
        ended = now()
    assert answer["exit"]["code"] == 0, answer
    return began, ended


def stopped(agent):
    with open(os.environ["MUXD_STATE"] + "/daemon.log", encoding="utf-8", errors="replace") as f:
        return any("-> stopped" in line and "agent=%s" % agent in line for line in f)


def walk_idle():
    assert ctl("exec", "-n", "idle", "--", "true").returncode == 0
    hold()
    began = now() + 1_000_000_000
    quiet.append((began, began + 2_000_000_000))
    until = now() + 60_000_000_000
    while not stopped("idle"):  # asked of the log: a question would be in the trace
        assert now() < until, "the idle agent does not stop: " + subprocess.run(["grep", "agent=idle", os.environ["MUXD_STATE"] + "/daemon.log"], capture_output=True, text=True, check=False).stdout
        time.sleep(0.2)
    time.sleep(1)
    return began, now() - 100_000_000


def load(path, program, process):
    """[(ns, thread, depth, file, function)] of a trace"""
    with open(path, "rb") as f:
        count, base = struct.unpack("<QQ", f.read(16))
        records = [r for r in struct.iter_unpack("<QQII", f.read(24 * min(count, 2500000))) if r[0]]
    exe = BUILD + "/" + program
    with open(exe, "rb") as f:
        loaded = base if f.read(18)[16] == 3 else 0
    functions = sorted({r[1] for r in records})
    said = subprocess.run(["addr2line", "-f", "-e", exe], input="".join("%#x\n" % (a - loaded) for a in functions), capture_output=True, text=True,
                          check=True).stdout.split("\n")
    names = {}
    for i, a in enumerate(functions):
        file = os.path.relpath(said[2 * i + 1].rsplit(":", 1)[0], ROOT)
        if file.endswith(".h") and os.path.exists(file[:-1] + "c"):
            file = file[:-1] + "c"
        names[a] = file, said[2 * i]
    return [(ns, (process, thread), depth, *names[a]) for ns, a, thread, depth in records]


def turns(records):
    """What a thread was called for by its loop: lists of records."""
    threads = {}
    for r in records:
        threads.setdefault(r[1], []).append(r)
    for rs in threads.values():
        top = min(r[2] for r in rs)
        turn = []
        for r in rs:
            if r[2] == top and turn:
                yield turn
                turn = []
            turn.append(r)
        yield turn


def product(file):
    return not file.startswith(("..", "/", "base/"))


def report(title, records, idle, began, ended, hands, first=None, last=None, among=()):
    """among: files of which the crossings between each other are counted apart. hands: functions that hand the walk on; who is on the stack then is the main line. first, last: functions whose turns begin and end the walk"""
    mine = []
    for turn in turns(records):
        part = [r for r in turn if began <= r[0] <= ended]
        if part and turn[0][4] not in ANYWAY and {r[4] for r in part} - idle.get((turn[0][1][0], turn[0][4]), set()):
            mine.append(part)
    mine.sort(key=lambda t: t[0][0])
    if first:
        begin = next(t for t in mine if any(r[4] == first for r in t))[0][0]
        end = [t for t in mine if any(r[4] == last for r in t)][-1][-1][0]
        mine = [p for t in mine if (p := [r for r in t if begin <= r[0] <= end])]
    entered, ground, pairs, calls, line = {}, set(), set(), 0, set()
    for turn in mine:
        stack = {}
        for ns, thread, depth, file, function in turn:
            stack = {d: f for d, f in stack.items() if d < depth}
            if file.startswith("base/"):
                ground.add(file)
            if not product(file):
                continue
            caller = stack[max(stack)] if stack else file
            if caller != file:
                pairs.add((caller, file))
                calls += 1
            stack[depth] = file
            if function in hands:
                chain = [stack[d] for d in sorted(stack)]
                line.update((a, b) for a, b in zip(chain, chain[1:] + chain[-1:]))
            entered.setdefault(file, (ns, thread[0], function, caller))
    entered = sorted(entered.items(), key=lambda e: e[1][0])
    print("\n## %s\n" % title)
    main = {file for pair in line for file in pair}
    for n, (file, (ns, process, function, caller)) in enumerate(entered, 1):
        print("%3d %s %-7s %-40s %-28s %s" % (n, "*" if file in main else " ", process, file, function, "" if caller == file else "from " + caller))
    for process in sorted({e[1][1] for e in entered}):
        print("%s: %d files" % (process, sum(e[1][1] == process for e in entered)))
    print("files %d, crossings %d (pairs of files), %d as calls, ground %d: %s" % (
        len(entered), len(pairs), calls, len(ground), " ".join(sorted(ground))))
    print("main line (*): files %d, crossings %d" % (len(main), sum(a != b for a, b in line)))
    if among:
        print("between %s: crossings %d" % (" ".join(among), sum(a in among and b in among for a, b in pairs)))
    for caller, file in sorted(pairs):
        print("  %s %s > %s" % ("*" if (caller, file) in line else " ", caller, file))
    return {(file, file in main) for file, _ in entered}


start = now()
walks = {"ssh": walk_ssh(), "browser": walk_browser(), "round": walk_round(), "idle": walk_idle()}
records = load("%s/%s" % (WALKS, os.environ["net"]), "muxd", "net") + load("%s/%s" % (WALKS, os.environ["monitor"]), "muxd", "monitor")
assert held, "no muxlet has left a trace"
for trace in held.values():
    records += load("/proc/self/fd/%d" % trace, "muxlet", "muxlet")
records = [r for r in records if r[0] >= start]  # before that threads were in their mains, of which the loops' turns are parts
idle = {}
for turn in turns(records):
    if any(a <= turn[0][0] and turn[-1][0] <= b for a, b in quiet):
        idle.setdefault((turn[0][1][0], turn[0][4]), set()).update(r[4] for r in turn)
OUT = {"spool_commit", "stream_settle", "journal_append", "stream_append", "stream_peek", "chan_write", "ws_write_now"}
ROUND = {"link_put", "order_send", "child_become", "stream_settle", "journal_append", "conn_write"}
STOP = {"store_write", "row_swap", "ipc_ask", "link_put"}
CARRY = ["control/life/%s.c" % f for f in ("life", "life_idle", "life_stop", "life_run", "life_commit", "life_ask")]
found = [report("A byte to an SSH client", records, idle, *walks["ssh"], OUT), report("A byte to a browser", records, idle, *walks["browser"], OUT),
         report("An exec round", records, idle, *walks["round"], ROUND),
         report("An idle stop", records, idle, *walks["idle"], STOP, first="life_idle_look", last="life_stop_on_over", among=CARRY)]
if "--check" in sys.argv:
    with open("docs/walks.md", encoding="utf-8") as f:
        parts = [{(m[1], bool(m[2])) for m in re.finditer(r"^\| \d+ \| `([^`]+)`( \*)? ", p, re.M)} for p in f.read().split("\n## ")[1:]]
    for want, have in zip([found[0] | found[1], *found[2:]], parts, strict=True):
        print("docs/walks.md lacks", sorted(set(want) - have), "and has too many", sorted(have - set(want)))
