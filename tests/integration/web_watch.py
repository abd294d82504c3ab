"""web_watch.py ADDRESS CAFILE AGENT TOKENFILE: ten who watch a flood, and one who does not read.

The flood is faster than they are shown it. Each must see something of it while it runs, every hole must be announced before what
is behind it (the client checks the offsets), and each must see how it ends; the driver gets every byte."""
import os, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Terminal  # noqa: E402

address, cafile, agent, tokenfile = sys.argv[1:5]
token = open(tokenfile).read().strip()
LINE = b"a line of a flood that nobody can read as fast as it comes\r\n"
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


def wait(what, condition, watchers, driver=None):
    end = time.monotonic() + 120
    while not condition():
        bad = [w.error for w in watchers if w.error]
        if bad or time.monotonic() > end:
            sys.exit("%s: %s" % (what, bad or [(w.shown, w.ended) for w in watchers]))
        if driver:
            check(driver)
        else:
            time.sleep(0.05)


flooded = 0


def check(driver):
    """A piece of the flood at the driver: the line over and over."""
    global flooded
    data = driver.step() or b""
    at = flooded % len(LINE)
    if data != (LINE * (len(data) // len(LINE) + 2))[at:at + len(data)]:
        sys.exit("the driver got something else than the flood at %d" % flooded)
    flooded += len(data)


driver = Terminal(address, "/v1/agents/%s/terminal?cols=80&rows=24" % agent, token, cafile=cafile)
driver.keys(b"stty -echo; PS1=; printf 'REA''DY'; read x; yes '" + LINE.strip() + b"'\n")
driver.until(b"READY")
session = driver.opened["session"]
watchers = [Watcher(session) for _ in range(10)]
stalled = Terminal(address, "/v1/sessions/%s/attach?role=observer" % session, token, cafile=cafile)
for w in watchers:
    w.start()
driver.keys(b"\n")
wait("they see nothing", lambda: flooded > 8 << 20 and all(w.shown for w in watchers), watchers, driver)
seen = [w.shown for w in watchers]
wait("what they see stands still", lambda: all(w.shown > s for w, s in zip(watchers, seen)), watchers, driver)
driver.keys(b"\x03")
driver.keys(b"printf 'THE-''END'\n")
driver.until(END)
wait("they do not see the end", lambda: all(w.ended for w in watchers), watchers)
print("fine", sum(w.t.screens for w in watchers), "screens")
