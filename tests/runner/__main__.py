"""runner [check|test|all] [--k8s] [--only NAME]: the tests of muxd, by tier (table.py says what tiers there are).

One build of everything first; then, beside each other: stories, four at a time on two processors, each lane with daemons of
its own; unit tests and corpora, two at a time; the cluster's stories; and lint on what processors leave idle. Last, one after the
other, the stories that have to be alone. Prints one line a test, with its time and that of its processors, then what was slowest;
ends with "N passed, N failed". Logs of failed ones are shown; all are in build/log. The limits end what hangs; they are several
times what a quiet machine needs, and count the time that a machine gives (pool.Limit). JOBS=n: so many stories at a time. An end by a signal ends what was
started; `make test-all` goes on from there (proof.py).
"""
import json
import os
import signal
import sys

import changed
import table
from proof import Proof
from clock import Clock, name as tier_name
from cluster import Cluster
from lanes import Lanes
from pool import LOGS, Queue, Report, Stopped
from stories import Worker

SAN = "address,undefined"
# Of all checkouts of this machine: a fresh clone begins with what takes longest, too.
TIMES = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muxd", "times.json")
UNIT, CORPUS = 300, 120  # seconds
# A unit test that hangs is asked for its stack first, which a sanitizer prints.
HUNG = (signal.SIGABRT, signal.SIGTERM, signal.SIGKILL)
WHOLE = 4 * 3600


def make(*targets, san=False):
    return ["make", "--no-print-directory", f"-j{len(os.sched_getaffinity(0))}", *([f"SAN={SAN}"] if san else []), *targets]


def program(build, test):
    return f"{build}/{test.kind}/{'test' if test.kind == 'unit' else 'fuzz'}_{test.name}"


class Run:
    def __init__(self, tier, only, k8s):
        self.tier, self.only, self.k8s = tier, only, k8s
        self.whole = tier == "all"
        self.report = Report(again=tier != "all")
        self.tests, self.wrong = table.read()
        self.processors = len(os.sched_getaffinity(0))
        self.clock, self.lanes, self.queues, self.found = None, Lanes(self.broke), [], True
        self.proof = Proof() if self.whole and only is None and not k8s else None
        try:
            with open(TIMES, encoding="utf-8") as f:
                self.times = {name: took for name, took in json.load(f).items() if isinstance(took, list)}
        except (OSError, ValueError):
            self.times = {}

    # ---- what is to run
    def wants(self, called):
        return self.only is None or self.only in called

    def units(self):
        """(build, san, test) of unit tests and corpora"""
        tests = [t for t in self.tests if t.kind in ("unit", "fuzz")]
        builds = {"check": ("build",), "test": ("build/san",), "all": ("build", "build/san")}[self.tier]
        if self.only is not None:
            builds = ("build", "build/san") if self.only.startswith("san") else ("build",)
        return [(b, b != "build", t) for b in builds for t in tests if self.wants(t.called(b != "build"))]

    def stories(self):
        tests = [t for t in self.tests if t.kind == "story"]
        if self.tier == "check":
            return []
        if self.only is not None:
            san = self.only.startswith("san")
            return [("build/san" if san else "build", san, t) for t in tests if self.wants(t.called(san))]
        jobs = [("build", False, t) for t in tests if self.whole or t.tier == "test"]
        return jobs + [("build/san", True, t) for t in tests if self.whole or (t.tier == "test" and t.san)]

    def cluster(self):
        tests = [t for t in self.tests if t.kind == "k8s"]
        if self.tier == "check" or (self.only is not None and self.only.startswith("san")):
            return []
        if self.only is not None:
            return [t for t in tests if self.wants(t.called())]
        return [t for t in tests if self.whole or self.k8s or t.tier == "test"]

    # ---- builds
    def built(self, name, limit, *targets, san=False):
        return self.report.attempt(name, limit, make(*targets, san=san))

    def build(self, units, stories, k8s):
        """What the tests need; a build that fails ends the run: programs of before would be run in its place."""
        if not self.built("build", 1800, "all"):
            return False
        if self.k8s:
            return True
        programs = {san: [program(b, t) for b, s, t in units if s == san] for san in (False, True)}
        others = []
        if self.tier != "check" and self.only is None:
            # Programs that only stories and the bench start: what they call may have changed, too.
            others = ["build/chart/render"]
            others += [f"build/e2e/{f.removesuffix('.c')}" for f in os.listdir("tests/e2e/k8s") if f.endswith("_probe.c")]
            others += [f"build/bench/{f.removesuffix('.c')}" for f in os.listdir("tests/bench") if f.endswith(".c")]
        fine = True
        if programs[False] or others:
            fine = self.built("build-tests", 1800, *programs[False], *others)
        if programs[True] or any(s for _, s, _ in stories):
            fine = self.built("san-build", 2700, "all", *programs[True], san=True) and fine
        return fine

    # ---- lanes
    def unit(self, job):
        build, san, test = job
        command, limit = [program(build, test)], UNIT
        if test.kind == "fuzz":
            command, limit = [*command, f"tests/fuzz/corpus/{test.name}"], CORPUS
        env = {} if self.whole and san else test.env(self.whole)
        if self.whole and test.whole and not san:
            limit = WHOLE
        if not self.report.attempt(test.called(san), limit, command, env, ends=HUNG):
            return
        if not san and self.contents:
            changed.passed(test, self.digests[test.called()])
        if self.proof:
            self.proof.passed(san, test)

    def unit_lane(self, queue):
        while job := queue.take():
            try:
                self.unit(job)
            finally:
                queue.done(job)

    def lint(self):
        self.report.attempt("lint", 5400, ["nice", "-n", "19", "tests/lib/lint.sh"])
        try:
            with open(f"{LOGS}/lint.log", encoding="utf-8") as f:
                looked = [int(line.split()[1]) for line in f if line.startswith("tidy: ")]
        except (OSError, ValueError):
            looked = []
        if looked and looked[0] > 20:
            self.clock.cold.append(f"clang-tidy looked at {looked[0]} files")

    def broke(self, work, e):
        """A lane that breaks is a failure, not a run that hangs."""
        if not isinstance(e, Stopped):
            self.report.verdict(f"the lane {work.__qualname__}, which broke: {e!r}", False)

    def longest_first(self, jobs):
        """Long proofs are the longest, whatever their slices took."""
        took = lambda j: self.times.get(j[2].called(j[1]), [10 if j[2].kind == "story" else 0])[0]
        return sorted(jobs, key=lambda j: (not (self.whole and j[2].whole and not j[1]), -took(j)))

    def story_lanes(self, jobs, lanes):
        queue = Queue(self.longest_first(jobs), key=lambda j: j[2].name)
        self.queues.append(queue)
        for n in range(min(lanes, len(jobs))):
            self.lanes.begin(Worker(self.report, queue, len(self.lanes), self.whole, self.proof).work)

    # ---- the run
    def changed_ones(self, units):
        """Those of `make check`: what they are made of is not what passed. Remembered in every tier that runs them plain."""
        self.contents = changed.Contents("build") if any(not s for _, s, _ in units) and self.only is None else None
        if not self.contents:
            return units
        self.digests = {t.called(): self.contents.of(t) for _, s, t in units if not s}
        if self.tier != "check":
            return units
        todo = [j for j in units if changed.passed_as(j[2]) != self.digests[j[2].called()]]
        print(f"{len(todo)} of {len(units)} unit tests and corpora changed since they passed", flush=True)
        if len(todo) > len(units) / 2:
            self.clock.cold.append("more than half of the tests changed")
        return todo

    def due(self, units, stories, k8s):
        """Those of a whole proof that have not passed yet."""
        if not self.proof:
            return units, stories, k8s
        of = len(units) + len(stories) + len(k8s)
        units, stories = ([j for j in jobs if self.proof.due(j[1], j[2])] for jobs in (units, stories))
        k8s = [t for t in k8s if self.proof.due(False, t)]
        left = len(units) + len(stories) + len(k8s)
        print(f"{left} of {of} tests are due, {of - left} passed before with this product", flush=True)
        for name, log in self.proof.findings.items():
            self.report.verdict(f"{name}, in an earlier run", False, log=log)
        return units, stories, k8s

    def go(self):
        os.makedirs(LOGS, exist_ok=True)
        wrong = [why for test, why in self.wrong if self.wants(test.called())]
        if wrong:
            print(*wrong, sep="\n")
            self.report.verdict("tiers", False)
        units, stories, k8s = [] if self.k8s else self.units(), [] if self.k8s else self.stories(), self.cluster()
        units, stories, k8s = self.due(units, stories, k8s)
        self.found = bool(units or stories or k8s) or self.only in ("lint", "layers", None)
        if not self.found or not self.build(units, stories, k8s):
            return
        if self.wants("layers") or self.only is None:
            self.report.attempt("layers", 60, ["tests/lib/layers.sh"])
        self.clock = Clock(self.tier)
        units = self.changed_ones(units)
        cluster = Cluster(self.report, k8s, self.whole, self.k8s, self.proof)
        self.lanes.begin(cluster.work)
        lanes = int(os.environ.get("JOBS", 2 * self.processors))
        self.story_lanes([j for j in stories if not j[2].alone], lanes)
        queue = Queue(self.longest_first(units), key=lambda j: program(j[0], j[2]))
        self.queues.append(queue)
        for _ in range(self.processors * (2 if self.tier == "check" else 1)):
            self.lanes.begin(self.unit_lane, queue)
        if self.tier != "check" and not self.k8s and self.wants("lint"):
            self.lanes.begin(self.lint)
        self.lanes.join()
        self.story_lanes([j for j in stories if j[2].alone], 1)
        self.lanes.join()
        if cluster.built:
            self.clock.cold.append("Kubernetes was compiled")

    def judge(self):
        if self.clock is None or self.only is not None or self.k8s:
            return
        within, line = self.clock.judge(self.proof.seconds if self.proof else 0)
        print(line)
        if not within:
            self.report.verdict(f"the time of make {tier_name(self.tier)}", False)

    def remember(self):
        for wall, cpu, name in self.report.took:
            self.times[name] = [round(wall, 1), round(cpu, 1)]
        os.makedirs(os.path.dirname(TIMES), exist_ok=True)
        with open(f"{TIMES}.{os.getpid()}", "w", encoding="utf-8") as f:
            f.write("{\n" + ",\n".join(f"{json.dumps(name)}: {took}" for name, took in sorted(self.times.items())) + "\n}\n")
        os.replace(f"{TIMES}.{os.getpid()}", TIMES)

    def main(self):
        try:
            self.go()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("ended by a signal", flush=True)
            self.report.stop()
            for queue in self.queues:
                queue.drop()
            self.lanes.join()
            if self.proof and self.clock:
                self.proof.counted(self.clock.counted())
            return 130
        self.remember()
        self.judge()
        if not self.found:
            print(f"no test is called {self.only}")
            return 1
        return self.report.end(15)


def interrupted(*_):
    raise KeyboardInterrupt


def main(args):
    tier, only, k8s = "test", None, False
    while args:
        word = args.pop(0)
        if word in ("check", "test", "all"):
            tier = word
        elif word == "--k8s":
            k8s = True
        elif word == "--only" and args:
            only = args.pop(0)
        else:
            print("usage: tests/run.sh [check|test|all] [--k8s] [--only NAME]", file=sys.stderr)
            return 2
    # Both as a terminal would give them to the tests: a shell ignores SIGINT for what it starts in the background.
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    # What was freed is kept, so that its use is found: 256 MB of it as usual in make test-all. A fork has to copy the map of
    # that memory, and many tests fork all the time.
    kept = "" if tier == "all" else ":quarantine_size_mb=32"
    os.environ |= {
        "ASAN_OPTIONS": f"detect_leaks=1:abort_on_error=0:handle_abort=1{kept}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "LSAN_OPTIONS": f"suppressions={os.getcwd()}/tests/lib/lsan.supp:print_suppressions=0",
    }
    return Run(tier, only, k8s).main()


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    sys.exit(main(sys.argv[1:]))
