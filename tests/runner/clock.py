"""How long a tier took, and whether that is too long.

Builds are not counted. Processors that others had are not counted, either: of the time, that part is taken off which this
run's own processes did not get. SLOW=2 stands for a machine half as fast. A cold run (what clang-tidy had not seen,
Kubernetes compiled, nothing that passed before) has five times as long, since that work goes on beside the tests.
"""
import os
import resource
import time

LIMITS = {"check": 90, "test": 720, "all": 6 * 3600}  # seconds on two processors
COLD = 5


def busy():
    """Seconds that the processors of this run have worked, for whomever."""
    mine = {f"cpu{n}" for n in os.sched_getaffinity(0)}
    ticks = 0
    with open("/proc/stat", encoding="ascii") as f:
        for line in f:
            name, *fields = line.split()
            if name in mine:
                user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
                ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def own():
    u = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(x.ru_utime + x.ru_stime for x in u)


class Clock:
    def __init__(self, tier):
        self.tier, self.cold = tier, []
        self.began, self.busy, self.own = time.monotonic(), busy(), own()

    def spent(self):
        """(seconds, seconds of processors, the part of the machine that others had)"""
        wall, mine = time.monotonic() - self.began, own() - self.own
        capacity = wall * len(os.sched_getaffinity(0))
        return wall, mine, min(max(busy() - self.busy - mine, 0) / max(capacity, 0.1), 0.8)

    def counted(self):
        wall, _, others = self.spent()
        return wall * (1 - others)

    def judge(self, before=0.0):
        """(within its time, a line that says so). before: seconds that counted in runs of which this one is the rest"""
        wall, mine, others = self.spent()
        counted = before + wall * (1 - others)
        limit = LIMITS[self.tier] * float(os.environ.get("SLOW", "1")) * (COLD if self.cold else 1)
        line = (
            f"time: {wall:.0f} s and {mine:.0f} s of processors without builds; others had {others:.0%} of the machine, "
            f"so {counted:.0f} s count; make {name(self.tier)} has {limit:.0f} s"
        )
        line += f" ({before:.0f} s of them in earlier runs)" if before else ""
        return counted <= limit, line + (f" (cold: {', '.join(self.cold)})" if self.cold else "")


def name(tier):
    return "test-all" if tier == "all" else tier
