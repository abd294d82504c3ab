"""crowd.py ADDRESS CAFILE AGENT TOKENFILE N LEAST: N browser terminals at once into one container.

At least LEAST run at the same time, and each of the others is told its place. Then those that run end, one after the
other, and the rest must come to their turn in that order, none refused. Prints what it took; judges no times but
generous ones, as the machine may be busy."""
import os, re, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from websocket import Closed, Terminal  # noqa: E402

address, cafile, agent, tokenfile = sys.argv[1:5]
n, least = int(sys.argv[5]), int(sys.argv[6])
token = open(tokenfile).read().strip()
PATIENCE = 240


class Person(threading.Thread):
    """Opens a terminal, waits for its turn, works until `leave` is set, and leaves by typing exit."""

    def __init__(self):
        super().__init__(daemon=True)
        self.told = self.place = self.served = self.free = self.error = None
        self.leave, self.left = threading.Event(), False

    def run(self):
        try:
            self.work()
        except (Closed, OSError, AssertionError) as e:
            self.error = repr(e)

    def work(self):
        begun = time.monotonic()
        t = Terminal(address, "/v1/agents/%s/terminal?cols=80&rows=24" % agent, token, cafile=cafile, timeout=PATIENCE)
        t.keys(b"echo here-$((6*7))\r")
        seen = b""
        while b"here-42" not in seen:
            seen += t.step() or b""
            if t.exit or t.error:
                raise AssertionError("%s %s" % (t.exit, t.error))
            if t.notice and not t.notice.get("over"):
                place = re.match(r"waiting: place (\d+) of (\d+), \d+ programs run in this container", t.notice["text"])
                assert place, t.notice
                self.told = self.told or time.monotonic() - begun
                self.place = int(place[1])
        self.served = time.monotonic() - begun
        self.leave.wait(PATIENCE)
        t.keys(b"exit\r")
        t.rest()
        self.left = True


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        errors = [p.error for p in people if p.error]
        if errors or time.monotonic() > end:
            sys.exit("FAILED: %s: %s" % (what, errors[:3] or "%d served, %d told" % (count("served"), count("told"))))
        time.sleep(0.02)


def count(what):
    return sum(1 for p in people if getattr(p, what))


people = [Person() for _ in range(n)]
began = time.monotonic()
for p in people:
    p.start()
until("each is served or told its place", lambda: all(p.served or p.told for p in people))
until("%d at once" % least, lambda: count("served") >= least)
time.sleep(3)  # no more than may: nothing to wait for
at_once, waiting = count("served"), [p for p in people if not p.served]
took = max(p.served for p in people if p.served)
if waiting and min(p.place for p in waiting) < 1:
    sys.exit("FAILED: a place of %r" % [p.place for p in waiting])
print("at once: %d of %d, the last of them after %.1f s; told their place: %d, the first word after at most %.2f s"
      % (at_once, n, took, count("told"), max([p.told for p in people if p.told] or [0])))
waits = []
for p in [p for p in people if p.served]:
    p.leave.set()
while count("left") < n:
    before = {p for p in people if p.served}
    for p in before:
        p.leave.set()
    at = time.monotonic()
    until("another turn", lambda: len({p for p in people if p.served} - before) or all(p.left for p in before))
    if count("served") > len(before):
        waits.append(time.monotonic() - at)
print("all %d served in %.1f s, a free place taken within %.2f s" % (n, time.monotonic() - began, max(waits or [0])))
