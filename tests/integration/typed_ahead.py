"""What the record holds of passwords, over readers x ways of typing. Arguments: muxctl, state, ssh port, token, agent.

Each case is a terminal: a prompt, commands, a reader that switches echo off, a secret for it, a command after it. The secret
must not be in the recorded input where the reader is one that can be known; every command must be.
"""
import itertools, json, os, pty, select, subprocess, sys, time

MUXCTL, STATE, PORT, TOKEN, AGENT = sys.argv[1:]
COMMON = ["sshpass", "-e", "ssh", "-F", "none", "-tt", "-p", PORT, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
          "-o", "LogLevel=ERROR", "-o", "PreferredAuthentications=password", "-l", AGENT, "127.0.0.1"]
STTY = "sh -c 'stty -echo; printf %s: pass; read x; stty echo; echo; echo got-${#x}'"
PYTHON = "python3 -c 'import getpass; print(\"got-%d\" % len(getpass.getpass()))'"
READERS = {  # shell, command of the reader, must be masked when typed ahead
    "bash-stty": ("bash", STTY, True),
    "bash-read-s": ("bash", "read -sp p''ass: x; echo; echo got-${#x}", False),  # within bash itself: too quick a change
    "dash-stty": ("dash", STTY, True),
    "bash-getpass": ("bash", PYTHON, True),
}
WAYS = ["at the prompt", "in one write", "in one write, LF", "in two writes"]


def until(p, seen, text, seconds=30):
    end = time.time() + seconds
    while text not in seen[0] and time.time() < end:
        if select.select([p.stdout], [], [], 0.2)[0]:
            piece = os.read(p.stdout.fileno(), 65536)
            if not piece:
                break
            seen[0] += piece
    return text in seen[0]


def send(p, text):
    p.stdin.write(text.encode())
    p.stdin.flush()


def case(n, name, way):
    shell, command, masked = READERS[name]
    secret = "Geheim%03dWort" % n
    p = subprocess.Popen([*COMMON, shell + (" --norc -i" if shell == "bash" else " -i")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env={**os.environ, "SSHPASS": TOKEN})
    seen, enter = [b""], "\n" if way.endswith("LF") else "\r"
    send(p, "echo ready-$((40+2))" + enter)
    assert until(p, seen, b"ready-42"), seen
    time.sleep(1.1)  # a pause: another burst of typing
    if way == "at the prompt":
        send(p, command + enter)
        assert until(p, seen, b"assword: " if "getpass" in command else b"pass:"), seen
        send(p, secret + enter)
    elif way == "in two writes":
        send(p, command + enter)
        send(p, secret + enter)
    else:
        send(p, command + enter + secret + enter)
    got = until(p, seen, b"got-%d" % len(secret), 10)
    if not got:
        send(p, enter)
    send(p, "echo after-$((50+1))" + enter)
    got = until(p, seen, b"after-51", 10) and got
    send(p, "exit" + enter)
    p.stdin.close()
    try:
        p.wait(10)
    except subprocess.TimeoutExpired:
        p.kill()
    return got, masked or way == "at the prompt", secret, command


def recorded():
    out = subprocess.run([MUXCTL, "--state", STATE, "session", "list", "--all", "--agent", AGENT, "--limit", "1", "-o", "json"],
                         capture_output=True, check=True).stdout
    session = json.loads(out)["sessions"][0]["id"]
    return subprocess.run([MUXCTL, "--state", STATE, "export", session, "--format", "raw", "--stream", "input"],
                          capture_output=True, check=True).stdout.decode()


failed = 0
# CASES: all, or a part of a case's name; else one of each way and reader
only = os.environ.get("CASES", "")
SOME = [("bash-read-s", WAYS[0]), ("bash-stty", WAYS[1]), ("dash-stty", WAYS[2]), ("bash-getpass", WAYS[3])]
for n, (name, way) in enumerate(itertools.product(READERS, WAYS)):
    if only != "all" and (only not in name + " " + way if only else (name, way) not in SOME):
        continue
    got, masked, secret, command = case(n, name, way)
    text = recorded()
    wrong = [] if got else ["the reader did not get what was typed"]
    if masked and secret in text:
        wrong.append("the secret is in clear")
    if masked and "*" * len(secret) not in text:
        wrong.append("no asterisks")
    for c in (command, "echo ready-$((40+2))", "echo after-$((50+1))"):
        if c not in text:
            wrong.append("not readable: " + c)
    failed += bool(wrong)
    print("  %s: %s, %s%s" % ("FAILED" if wrong else "ok", name, way, "".join(": " + w for w in wrong) + (" " + repr(text) if wrong else "")),
          flush=True)
sys.exit(failed > 0)
