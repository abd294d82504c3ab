"""web_watch.py ADDRESS CAFILE AGENT TOKENFILE: ten who watch a flood, and one who does not read.

The flood is faster than they are shown it. Each must see something of it while it runs, every hole must be announced before what
is behind it (the client checks the offsets), and each must see how it ends; the driver gets every byte. Then a program that paints,
faster than anybody can draw it: they are shown the current screen all the same, and told that it is made from a part of the output."""
import os, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Terminal  # noqa: E402

address, cafile, agent, tokenfile = sys.argv[1:5]
token = open(tokenfile).read().strip()
PLAIN = b"a line of a flood that nobody can read as fast as it comes"
PAINTED = b"\x1b[3;5H\x1b[1;35ma program that paints\x1b[12;40H\x1b[K\x1b[mand goes on\x1b[7;7H and on and on"
END = b"THE-END"


class Watcher(threading.Thread):
    def __init__(self, session):
        super().__init__(daemon=True)
        self.t = Terminal(address, "/v1/sessions/%s/attach?role=observer" % session, token, cafile=cafile)
        self.shown, self.ended, self.error = 0, False, None

    def run(self):
        tail = b""
        try:
            while not self.ended:
                screens = self.t.screens
                data = self.t.step() or b""
                tail = b"" if self.t.screens != screens else (tail + data)[-4096:]
                self.shown += len(data) + (self.t.screens - screens)
                self.ended = END in tail or END in self.t.screen
        except Exception as e:  # told below, by name
            self.error = repr(e)


class Flood:
    """A line over and over, a driver who reads it all and ten who watch."""

    def __init__(self, line):
        self.line, self.came = line + b"\r\n", 0
        self.driver = Terminal(address, "/v1/agents/%s/terminal?cols=80&rows=24" % agent, token, cafile=cafile)
        octal = "".join("\\%03o" % c for c in line)
        self.driver.keys(("stty -echo; PS1=; printf 'REA''DY'; read x; yes \"$(printf '%s')\"\n" % octal).encode())
        self.driver.until(b"READY")
        self.session = self.driver.opened["session"]
        self.watchers = [Watcher(self.session) for _ in range(10)]
        self.stalled = Terminal(address, "/v1/sessions/%s/attach?role=observer" % self.session, token, cafile=cafile)
        for w in self.watchers:
            w.start()
        self.driver.keys(b"\n")

    def check(self):
        data = self.driver.step() or b""
        at = self.came % len(self.line)
        if data != (self.line * (len(data) // len(self.line) + 2))[at:at + len(data)]:
            sys.exit("the driver got something else than the flood at %d" % self.came)
        self.came += len(data)

    def wait(self, what, condition, flowing=True):
        end = time.monotonic() + 120
        while not condition():
            bad = [w.error for w in self.watchers if w.error]
            if bad or time.monotonic() > end:
                sys.exit("%s: %s" % (what, bad or [(w.shown, w.ended, w.t.screens, w.t.partial) for w in self.watchers]))
            if flowing:
                self.check()
            else:
                time.sleep(0.05)

    def all(self, condition):
        return all(condition(w) for w in self.watchers)

    def stop(self):
        self.driver.keys(b"\x03")
        self.driver.keys(b"printf '\\033[HTHE-''END'\n")
        self.driver.until(END)
        self.wait("they do not see the end", lambda: self.all(lambda w: w.ended), flowing=False)


plain = Flood(PLAIN)
plain.wait("they see nothing", lambda: plain.came > 8 << 20 and plain.all(lambda w: w.shown))
seen = {w: w.shown for w in plain.watchers}
plain.wait("what they see stands still", lambda: plain.all(lambda w: w.shown > seen[w]))
plain.stop()
painted = Flood(PAINTED)
painted.wait("nobody is shown a screen", lambda: painted.all(lambda w: w.t.partial))
seen = {w: w.t.screens for w in painted.watchers}
painted.wait("the screens stand still", lambda: painted.all(lambda w: w.t.screens >= seen[w] + 5))
painted.stop()
print("fine", sum(w.t.screens for w in plain.watchers), sum(w.t.screens for w in painted.watchers), "screens")
