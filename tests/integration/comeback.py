"""comeback.py BUILD AGENT: net is killed under a terminal of muxctl; it comes back, and what is typed then is answered."""
import json, os, pty, select, signal, subprocess, sys, termios, time

build, agent = sys.argv[1:3]
state = os.environ["MUXD_STATE"]


def ready():
    try:
        return json.load(open(state + "/ready.json"))
    except (OSError, ValueError):
        return {"pids": {"net": 0}}


def settled():
    net = None
    for _ in range(100):
        net = ready()["pids"]["net"] or net
        if net and os.path.exists("/proc/%d" % net):
            break
        time.sleep(0.1)
    return net


def start(args):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(build + "/muxctl", ["muxctl", "--state", state] + args)
    return pid, fd


def until(fd, what, seconds=30):
    got, end = b"", time.time() + seconds
    while what not in got:
        if time.time() > end:
            sys.exit("FAILED: no %r in %r" % (what, got[-600:]))
        if select.select([fd], [], [], 0.2)[0]:
            try:
                got += os.read(fd, 65536)
            except OSError:
                sys.exit("FAILED: it ended before %r: %r; before: %r" % (what, got[-600:], globals().get("back")))
    return got


pid, fd = start(["exec", "-t", agent, "--", "sh"])
before = termios.tcgetattr(fd)
until(fd, b"$ ")
os.write(fd, b"x=survived; echo re''ady\r")
until(fd, b"ready\r\n")
net = ready()["pids"]["net"]
os.kill(net, signal.SIGKILL)
gone = until(fd, b"\x1b\\")
assert b"\x1b[22;2t\x1b]2;[muxd] the connection to the daemon is gone" in gone, gone
print("  ok: the title says that the connection is gone")
back = until(fd, b"\x1b[23;2t")
print("  ok: and it is back without a word of anybody")
end = time.time() + 20
os.write(fd, b"echo it-$x\r")
until(fd, b"it-survived")
print("  ok: the same shell answers")
text = gone + back
assert b"muxctl:" not in text, text
os.write(fd, b"exit 7\r")
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 7, status
print("  ok: and its exit status is the program's")

# It ends before muxctl is back: its exit status is in the record.
pid, fd = start(["exec", "-t", agent, "--", "sh", "-c", "echo be''gun; sleep 0.3; exit 9"])
until(fd, b"begun\r\n")
net = settled()
os.kill(pid, signal.SIGSTOP)
os.kill(net, signal.SIGKILL)
end = time.time() + 30
while time.time() < end:
    time.sleep(0.2)
    live = subprocess.run([build + "/muxctl", "--state", state, "-o", "json", "session", "list"], capture_output=True)
    if live.returncode == 0 and not json.loads(live.stdout)["sessions"]:
        break
os.kill(pid, signal.SIGCONT)
shown = b""
while True:
    try:
        shown += os.read(fd, 65536)
    except OSError:
        break
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 9 and b"muxctl replay" in shown, (status, shown)
print("  ok: what ended before it was back has its exit status, too")

# A shell of its own, as without a command; and the escape key.
pid, fd = start(["exec", "-t", agent])
until(fd, b"$ ")
os.kill(settled(), signal.SIGKILL)
until(fd, b"\x1b[23;2t")
os.write(fd, b"echo it-is-$((40+2))\r")
until(fd, b"it-is-42")
print("  ok: a login shell is there again, too")
os.write(fd, b"\x1d")
time.sleep(0.1)
os.write(fd, b"d")
until(fd, b"come back with")
os.waitpid(pid, 0)
print("  ok: the escape key detaches")
