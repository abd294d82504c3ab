"""notices.py BUILD AGENT TOKENFILE: a pause of the record is nobody's news when it is short; a longer one stands in the title.

Two terminals, one by SSH and one of muxctl, with a program in the alternate screen that prints nothing. The recorder is killed
(it is back in 150 ms): not one byte arrives. It is stopped for longer: a title arrives and nothing else, and is taken back.
"""
import json, os, pty, re, select, signal, sys, time

build, agent, tokenfile = sys.argv[1:4]
state = os.environ["MUXD_STATE"]
ready = lambda: json.load(open(state + "/ready.json"))
TITLE = re.compile(rb"(?:\x1b\[22;2t)?\x1b\]2;\[muxd\] ([^\x1b]*)\x1b\\")
OVER = re.compile(rb"\x1b\]2;[^\x1b]*\x1b\\\x1b\[23;2t")


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, name, args, **env):
        self.name = name
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env, TERM="xterm-256color")
            os.execvp(args[0], args)

    def send(self, data):
        os.write(self.fd, data)

    def read(self, seconds):
        return os.read(self.fd, 65536) if select.select([self.fd], [], [], seconds)[0] else b""


def muxctl():
    return Terminal("muxctl", [build + "/muxctl", "--state", state, "exec", "-t", agent, "--", "sh"])


def ssh():
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "PreferredAuthentications=password", "NumberOfPasswordPrompts=1"]
    args = ["sshpass", "-e", "ssh", "-F", "none", "-tt", "-p", ready()["ssh"].rsplit(":", 1)[1]] + [x for o in options for x in ("-o", o)]
    return Terminal("ssh", args + ["-l", agent, "127.0.0.1", "sh"], SSHPASS=open(tokenfile).read().strip())


def until(t, pattern, seconds=60):
    got, end = b"", time.time() + seconds
    while not re.search(pattern, got):
        if time.time() > end:
            sys.exit("FAILED: %s: no %r in %r" % (t.name, pattern, got[-500:]))
        got += t.read(0.2)
    return got


def quiet(t, seconds):
    got, end = b"", time.time() + seconds
    while time.time() < end:
        got += t.read(max(0, end - time.time()))
    return got


def up(old):
    for _ in range(200):
        try:
            if ready()["pids"]["recorder"] not in (0, old):
                return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.05)
    sys.exit("FAILED: no recorder again")


terminals = [muxctl(), ssh()]
for t in terminals:
    until(t, rb"\$ ")
    t.send(b"printf '\\033[?1049h\\033[Hdra''wn'; read x; echo go''ne; sleep 1000\r")
    until(t, rb"\x1b\[\?1049h\x1b\[Hdrawn")
    quiet(t, 0.3)
recorder = ready()["pids"]["recorder"]
os.kill(recorder, signal.SIGKILL)
up(recorder)
for t in terminals:
    got = quiet(t, 1.5)
    if got:
        sys.exit("FAILED: %s: a recorder that was away for a moment wrote %r" % (t.name, got))
    print("  ok: %s: a recorder that is started again writes nothing" % t.name)

recorder = ready()["pids"]["recorder"]
os.kill(recorder, signal.SIGSTOP)
try:
    for t in terminals:
        got = until(t, TITLE)
        if TITLE.sub(b"", got) or b"paused" not in got:
            sys.exit("FAILED: %s: more than a title: %r" % (t.name, got))
        print("  ok: %s: a longer pause stands in the title, and nowhere else" % t.name)
finally:
    os.kill(recorder, signal.SIGCONT)
for t in terminals:
    got = until(t, OVER)
    if OVER.sub(b"", got):
        sys.exit("FAILED: %s: more than the title back: %r" % (t.name, got))
    print("  ok: %s: and is taken back" % t.name)
    t.send(b"\r")
    until(t, rb"gone")
    print("  ok: %s: the program goes on" % t.name)
for t in terminals:
    os.kill(t.pid, signal.SIGKILL)
    os.waitpid(t.pid, 0)
