"""painted.py BUILD STATE AGENT SEED COUNT: hostile byte strings through everything that prints.

COUNT strings from a grammar (sequences of every kind, whole and broken; C0, C1, DEL; bidirectional, zero-width, private and
unassigned characters; broken UTF-8) are printed by programs, given as arguments and names, written into reasons and task names
where the doors let them, and put into the audit log by what refuses them. Then every way to look at them is run on a
terminal, and each byte that arrives there is checked: text that can be seen, line breaks, and of a replay and an observer the
sequences that draw. Programs that read JSON get the values as they were.
"""
import functools, json, os, pty, random, re, select, subprocess, sys, time

build, state, agent, seed, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
rng = random.Random(seed)
os.environ["TERM"] = "xterm-256color"
HIDDEN = []
for line in re.findall(r"visible_hidden\[\] = \{(.*?)\n\};", open(os.path.join(os.path.dirname(__file__), "../../base/visible_table.h")).read(), re.S):
    HIDDEN = [(int(a, 16), int(b, 16)) for a, b in re.findall(r"\{0x([0-9a-f]+), 0x([0-9a-f]+)\}", line)]
BIDI = [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@functools.lru_cache(None)  # some hundred ranges are looked through
def hidden(cp):
    return any(a <= cp <= b for a, b in HIDDEN)


def hostile():
    """One string of bytes, without NUL: an argument can hold it."""
    out = b""
    for _ in range(rng.randint(1, 6)):
        out += rng.choice([
            lambda: b"\x1b[" + rng.choice([b"", b"?", b">", b"="]) + b";".join(b"%d" % rng.randint(0, 2005) for _ in range(rng.randint(0, 3))) + bytes([rng.randint(0x40, 0x7E)]),
            lambda: b"\x1b]" + rng.choice([b"52;c;aGk=", b"8;;file:///etc/passwd", b"1337;File=x:aGk=", b"0;title", b"2;owned", b"10;?", b"4;1;?", b"777;notify;a;b"]) + rng.choice([b"\x07", b"\x1b\\", b""]),
            lambda: b"\x1b" + rng.choice([b"P+q544e", b"P$qm", b"_Ga=q;", b"^pm", b"Xsos"]) + rng.choice([b"\x1b\\", b""]),
            lambda: rng.choice([b"\x1b[5i", b"\x1b[c", b"\x1b[6n", b"\x1b[21t", b"\x1b[>q", b"\x1b[?1000h", b"\x1b[3J", b"\x1bc", b"\x05", b"\x1bZ"]),
            lambda: bytes([rng.randint(1, 31)]) + b"x",
            lambda: bytes([0xC2, rng.randint(0x80, 0x9F)]) + b"31m",
            lambda: chr(rng.choice(BIDI)).encode() + b"gnp.exe",
            lambda: chr(rng.choice([0x200B, 0x2060, 0xFEFF, 0xAD, 0x2028, 0x2029, 0xE000, 0xFFFF, 0x378, 0xE0041, 0x3164, 0xFE0F])).encode(),
            lambda: b"z" + "\u0301".encode() * rng.randint(1, 9),
            lambda: bytes([rng.randint(0x80, 0xFF)]),
            lambda: rng.choice(["plain", "café", "漢字", "😀", "'\"\\$"]).encode(),
        ])()
    return out


def muxctl(*args, **how):
    return subprocess.run([build + "/muxctl", "--state", state, *args], capture_output=True, timeout=60, **how)


def on_terminal(args, typed=None, until=None, seconds=30):
    """What arrives at the terminal of a command."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(build + "/muxctl", ["muxctl", "--state", state, *args])
    got, end = b"", time.time() + seconds
    while time.time() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            got += data
        if typed and until in got:
            os.write(fd, typed)
            typed = None
    else:
        os.kill(pid, 9)
        sys.exit("FAILED: %s does not end: %r" % (args, got[-300:]))
    os.close(fd)
    os.waitpid(pid, 0)
    return got


def check_text(what, got):
    """Only what can be seen, and line breaks."""
    text = got.decode("utf-8", "surrogateescape")
    for at, c in enumerate(text):
        if c not in "\r\n" and (hidden(ord(c)) or 0xDC80 <= ord(c) <= 0xDCFF):
            sys.exit("FAILED: %s (seed %d): U+%04X reaches the terminal: %r" % (what, seed, ord(c), text[max(0, at - 80) : at + 40]))
    print("  ok: %s: %d bytes, all of them can be seen" % (what, len(got)))


DRAWS = re.compile(
    rb"\x1b(?:[78DEHM]|[()][0AB]|#8|\[(?:"
    rb"[0-9;:]*[@ABCDEFGHIKLMPSXZ`abdefgjkmr]|[0-2]?J|\??[0-2]?J|\?[0-9;]*K|[0-9]*T|[su]|![p]|[0-9]* q"
    rb"|(?:4|20)(?:;(?:4|20))*[hl]|\?(?:5|6|7|12|25|47|104[789])(?:;(?:5|6|7|12|25|47|104[789]))*[hl]))"
)


def check_drawing(what, got, ours=()):
    for words in ours:
        got = got.replace(words, b"")
    rest = DRAWS.sub(b"", got).decode("utf-8", "replace")
    for at, c in enumerate(rest):
        if (ord(c) < 0x20 and c not in "\b\t\n\r\x0e\x0f") or 0x7F <= ord(c) < 0xA0 or ord(c) in BIDI:
            sys.exit("FAILED: %s (seed %d): U+%04X reaches the terminal: %r" % (what, seed, ord(c), rest[max(0, at - 80) : at + 40]))
    print("  ok: %s: %d bytes, which draw" % (what, len(got)))


strings = [hostile() for _ in range(count)]
# Output, in a few rounds and one terminal.
blob = b"".join(s + b"\r\n" for s in strings)
muxctl("put", agent, "-", "hostile", input=blob)
assert muxctl("exec", agent, "--", "cat", "hostile").stdout == blob, "who ran it gets the bytes"
print("  ok: who runs a program gets its bytes as they are")
# As arguments, as a shell line, as a file's name: all of it stands in the record and the audit log.
for i in range(0, len(strings), max(1, len(strings) // (5 if count < 1000 else 60))):
    some = [s for s in strings[i : i + 40]]
    texts = [s.decode("utf-8", "ignore") for s in some]
    muxctl("exec", agent, "--", "true", *texts)
    muxctl("get", agent, os.fsdecode(some[0]), "-")
    muxctl("exec", "--task", texts[0], agent, "--", "true")
    muxctl("exec", "--reason", texts[-1], agent, "--", "true")
    muxctl("exec", "--reason", "why\u200dnot", agent, "--", "no-such-" + texts[1])
    muxctl("grant", "create", "--agent", agent, "--principal", texts[0], "--kind", "staff", "--reason", "r" + texts[0])
rows = [json.loads(line) for line in muxctl("audit", "-n", "1000", "-o", "json").stdout.splitlines()]
argvs = [r["record"].get("detail", {}).get("argv") for r in rows if isinstance(r["record"].get("detail"), dict)]
assert any(a and a[0] == "true" and len(a) > 1 for a in argvs), "the arguments are in the audit log"

listed = json.loads(muxctl("session", "list", "--all", "-n", "200", "-o", "json").stdout)["sessions"]
ids = [s.get("id") or s["session"] for s in listed if s["kind"] in ("round", "exec")]
check_text("audit", on_terminal(["audit", "-n", "1000"]))
check_text("audit -o json", on_terminal(["audit", "-n", "1000", "-o", "json"]))
check_text("session list", on_terminal(["session", "list", "--all", "-n", "200"]))
check_text("session list -o json", on_terminal(["session", "list", "--all", "-n", "200", "-o", "json"]))
for one in ids[:3]:
    check_text("session show", on_terminal(["session", "show", one]))
check_text("grant list", on_terminal(["grant", "list"]))
check_text("sandbox list and show", on_terminal(["sandbox", "list"]) + on_terminal(["sandbox", "show", agent]) + on_terminal(["sandbox", "logs", agent]))
wrong = b""
for s in strings[:3]:
    text = os.fsdecode(s)
    wrong += on_terminal(["exec", agent, "--", "/no/such/" + s.decode("utf-8", "ignore")]) + on_terminal(["get", agent, text, "-"])
    wrong += on_terminal(["session", "show", text]) + on_terminal(["session", "terminate", ids[0], "--reason", text]) + on_terminal(["replay", text])
check_text("errors", wrong)
longest = max((s for s in listed if s["kind"] in ("round", "exec")), key=lambda s: (s.get("offsets") or [0, 0])[1])
check_drawing("replay", on_terminal(["replay", longest.get("id") or longest["session"], "--instant"]))
for form in ("raw", "text", "json", "asciicast-v2", "asciicast-v3"):
    check_drawing("export " + form, on_terminal(["export", "--format", form, longest.get("id") or longest["session"]]))
# Content that is looked at, by each command that prints some: what draws, unless all of it is asked for.
muxctl("artifact", "put", "painted", "-", "hostile", input=blob)
printed = json.loads(muxctl("exec", "-o", "json", agent, "--", "cat", "hostile").stdout)
code = "import sys; d = open('/workspace/hostile', 'rb').read(); sys.stdout.buffer.write(d)"
a_round = next(i for i in [printed.get("round_id"), printed.get("id"), printed.get("session")] if i)
CONTENT = {
    "fs cat": ["fs", "cat", agent, "hostile"],
    "get": ["get", agent, "hostile", "-"],
    "tail of a file": ["tail", agent, "hostile", "-n", "100000"],
    "artifact get": ["artifact", "get", "painted", "hostile", "-"],
    "python": ["python", agent, code],
    "round output": ["round", "output", a_round],
    "round output --grep": ["round", "output", a_round, "--grep", "x"],
    "tail of a round": ["tail", a_round, "-n", "10000"],
}
last = b"\n".join(blob.split(b"\n")[-10001:])  # as many lines as a round's tail gives
for what, args in CONTENT.items():
    check_drawing(what, on_terminal(args))
    everything, wanted = on_terminal([*args, "--raw"]), last if what == "tail of a round" else blob
    if what not in ("round output --grep", "python") and everything.replace(b"\r\n", b"\n") != wanted:
        sys.exit("FAILED: %s --raw: %d bytes of %d" % (what, len(everything), len(wanted)))
    assert muxctl(*args).stdout == wanted or what in ("round output --grep", "python"), what + " into a pipe"
print("  ok: with --raw, and into a pipe, each gives the bytes")
keys = on_terminal(["replay", longest.get("id") or longest["session"], "--no-status"], b"Gq", b"plain") if b"plain" in blob else b""
RESET = re.compile(rb"\x1b\\|\x1b\[\?(?:1000|1002|1003|1006|1004|2004|1|1049)l|\x1b>|\x1b\[4l|\x0f")
check_drawing("replay with keys", RESET.sub(b"", keys))
log = open(os.path.join(state, "daemon.log"), "rb").read()
check_text("the daemon's log", log)

# A terminal of somebody, and one who watches it.
pid, fd = pty.fork()
if pid == 0:
    os.execv(build + "/muxctl", ["muxctl", "--state", state, "exec", "-t", agent, "--", "sh", "-c", "stty -echo; read x; cat hostile; echo the-end; sleep 1"])
watched = []
while not watched:
    time.sleep(0.2)
    live = json.loads(muxctl("session", "list", "--agent", agent, "-o", "json").stdout)["sessions"]
    watched = [s["id"] for s in live if s["kind"] == "exec"]
wpid, wfd = pty.fork()
if wpid == 0:
    os.execv(build + "/muxctl", ["muxctl", "--state", state, "attach", "--observe", watched[0]])
while not any(a.get("role") == "observer" for s in json.loads(muxctl("session", "list", "--agent", agent, "-o", "json").stdout)["sessions"] for a in s["attachments"]):
    time.sleep(0.2)
os.write(fd, b"\r")
seen = {fd: b"", wfd: b""}
end = time.time() + 30
while time.time() < end and len(seen) > 0 and select.select(list(seen), [], [], 6)[0]:
    for each in select.select(list(seen), [], [], 0)[0]:
        try:
            data = os.read(each, 65536)
        except OSError:
            data = b""
        if data:
            seen[each] += data
        else:
            os.close(each)
            if each == wfd:
                observed = seen[each]
            seen.pop(each)
os.waitpid(pid, 0)
os.waitpid(wpid, 0)
assert b"the-end" in observed, observed[-300:]
check_drawing("an observer", RESET.sub(b"", observed))
