"""What the record holds of passwords and commands that are typed ahead. Arguments: muxctl, state, ssh port, token, agent, part.

Each case is a terminal of its own: a shell's prompt stands, then its lines come in one write. The program must have got them, and the
recorded input must hold what the case says: lines in clear, secrets as asterisks.
"""
import concurrent.futures
import json
import os
import re
import select
import subprocess
import sys
import threading
import time

MUXCTL, STATE, PORT, TOKEN, AGENT, PART = sys.argv[1:]
SSH = ["sshpass", "-e", "ssh", "-F", "none", "-tt", "-p", PORT, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
       "-o", "LogLevel=ERROR", "-o", "PreferredAuthentications=password", "-l", AGENT, "127.0.0.1"]
SHELLS = {"bash": "bash --norc", "dash": "sh", "dumb": "TERM=dumb bash --norc"}
SECRET = "Geheim%03dWort"
BUSY = int(os.environ.get("BUSY", "240"))  # seconds; nothing takes that long
STTY = "sh -c 'stty -echo; printf pa''ss:; read x; stty echo; echo got-${#x}'"
STTY_MUTE = "sh -c 'stty -echo; read x; stty echo; echo got-${#x}'"
GETPASS = "python3 -c 'import getpass; print(\"got-%d\" % len(getpass.getpass()))'"
QUOTED = "Ge''heim%03dWort"  # the same for a shell, another text for the record
OPENSSL = "o() { openssl passwd -1 -salt abcdefgh \"$@\"; }; [ \"$(o -noverify)\" = \"$(o %s)\" ] && echo got-$((6+7))" % QUOTED
KEYGEN = "ssh-keygen -q -f /tmp/k -t ed25519 -N %s && ssh-keygen -y -f /tmp/k && echo got-$((6+7))" % QUOTED
TELL = "echo got-${#x}"
DONE = "echo got-$((6+7))"
COMMANDS = ["ls -d /", "pwd", "id", "cd /", "x=7", "for i in 1 2; do", "echo b-$i", "done", DONE]
RAW = "stty -icanon -echo min 1; x=$(head -c 13); stty sane; echo got-${#x}"
LATE = "echo has-be''gun; until [ -e go ]; do sleep 0.05; done; stty -echo; read x; stty echo; echo got-${#x}"

# name: shell, lines of the one write, whether its secret is masked (None: it has none)
KNOWN = {
    "read -s": ("bash", ["read -s x", SECRET, TELL], True),
    "read -sp": ("bash", ["read -sp pa''ss: x", SECRET, TELL], True),
    "read -s behind other commands": ("bash", ["cd /", "true", "ls -d /", "read -s x", SECRET, TELL], True),
    "stty -echo": ("bash", [STTY, SECRET], True),
    "stty -echo without a prompt": ("bash", [STTY_MUTE, SECRET, "echo behind-$((1+1))"], True),
    "stty -echo under dash": ("dash", [STTY, SECRET], True),
    "stty -echo, no marks": ("dumb", [STTY_MUTE, SECRET], True),
    "getpass": ("bash", [GETPASS, SECRET, "echo behind-$((1+1))"], True),
    "openssl": ("bash", [OPENSSL, SECRET], True),
    "ssh-keygen": ("bash", [KEYGEN, SECRET], True),
    "commands": ("bash", COMMANDS, None),
    "commands in a bracketed paste": ("bash", ["\033[200~" + "\r".join(COMMANDS) + "\033[201~"], None),
}
UNKNOWN = {
    "read -s -n": ("bash", ["read -s -n 13 x", SECRET, TELL], False),
    "read -es": ("bash", ["read -es x", SECRET, TELL], False),
    "a reader of keys": ("bash", [RAW, SECRET], False),
    "a program that asks late": ("bash", [LATE], False),
    "commands under dash": ("dash", COMMANDS, None),
    "commands, no marks": ("dumb", COMMANDS, None),
}
# A line of these that may be masked as well: when the line editor of `read -es` has ended, the terminal is that of `read -s` until the
# shell's prompt stands again, and a line whose time is over then comes to it.
TAKEN_FOR_SECRET = {"read -es": TELL}

opening = threading.Lock()


class Terminal:
    def __init__(self, shell):
        self.p = subprocess.Popen([*SSH, SHELLS[shell] + " -i"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**os.environ, "SSHPASS": TOKEN})
        self.seen = b""

    def type(self, text):
        os.write(self.p.stdin.fileno(), text.encode())

    def more(self):
        """False: nothing comes any more."""
        piece = os.read(self.p.stdout.fileno(), 65536) if select.select([self.p.stdout], [], [], BUSY)[0] else b""
        self.seen += piece
        return len(piece) > 0

    def until(self, pattern):
        while not re.search(pattern, self.seen):
            if not self.more():
                return False
        return True

    def end(self):
        """What still comes, and the end; of a shell that does not end its terminal is closed."""
        self.p.stdin.close()
        while self.more():
            pass
        self.p.terminate()
        self.p.wait()


def muxctl(*args):
    return subprocess.run([MUXCTL, "--state", STATE, *args], capture_output=True, check=True).stdout


def recorded(session):
    """The input, once the recording is sealed."""
    end = time.monotonic() + BUSY
    while subprocess.run([MUXCTL, "--state", STATE, "verify", session], capture_output=True).returncode and time.monotonic() < end:
        time.sleep(0.1)
    return muxctl("export", session, "--format", "raw", "--stream", "input").decode()


def newest():
    """The session that was opened last: whoever calls holds `opening`."""
    return json.loads(muxctl("session", "list", "--all", "--agent", AGENT, "--limit", "1", "-o", "json"))["sessions"][0]["id"]


def case(n, name, cases):
    shell, lines, masked = cases[name]
    enter = "\n" if shell == "dash" else "\r"
    word = SECRET % n
    lines = [line.replace(SECRET, word).replace(QUOTED, QUOTED % n) for line in lines]
    with opening:
        t = Terminal(shell)
        t.type("echo ready-$((40+2))" + enter)
        if not t.until(rb"ready-42\s[^$#]*[$#] "):
            return ["no prompt: %r" % t.seen]
        session = newest()
    t.type("".join(line + enter for line in lines))
    if LATE in lines:
        t.until(b"has-begun")
        t.type(word + enter)
        t.until(word.encode())  # echoed
        with opening:
            muxctl("exec", AGENT, "--", "touch", "go")
    wrong = []
    if not t.until(rb"got-\d+\D") or b"got-13" not in t.seen:
        wrong.append("the program did not get what was typed: %r" % t.seen)
    t.type("exit" + enter)
    t.end()
    record = recorded(session)
    if masked and word in record:
        wrong.append("the secret is in clear")
    if masked and "*" * len(word) not in record:
        wrong.append("no asterisks")
    if masked is None and "***" in record:
        wrong.append("a command is masked")
    if masked is False and word not in record:
        wrong.append("the secret is not there, though docs/security.md says that it cannot be known")
    wrong += ["not readable: " + line for line in lines
              if line not in (word, TAKEN_FOR_SECRET.get(name)) and line not in record]
    return wrong + ["record %r, terminal %r" % (record, t.seen)] if wrong else []


def tried(name):
    began = time.monotonic()
    wrong = case(list(cases).index(name), name, cases)
    print("  %s: %s, %.1f s%s" % ("FAILED" if wrong else "ok", name, time.monotonic() - began, "".join("; " + w for w in wrong)), flush=True)
    return bool(wrong)


cases = KNOWN if PART == "known" else UNKNOWN
only = os.environ.get("CASES", "all")
names = [name for name in cases if only in ("all", name) or only in name]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    failed = list(pool.map(tried, names))
sys.exit(any(failed))
