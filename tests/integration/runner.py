"""runner.py DIRECTORY: what the tests' own runner promises, shown by commands that fail, hang and come back."""
import os
import sys
import time

DIR = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../runner"))
os.makedirs(f"{DIR}/build/log")
os.chdir(DIR)

import clock  # noqa: E402
import lanes  # noqa: E402
import left  # noqa: E402
import pool  # noqa: E402
import proof  # noqa: E402
import table  # noqa: E402
import contextlib  # noqa: E402
import io  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import threading  # noqa: E402

bad = 0
os.environ.pop("SLOW", None)


def check(what, fine):
    global bad
    print(f"  {'ok' if fine else 'FAILED'}: {what}")
    bad += not fine


def declared(kind, text):
    test = table.Test(kind, "x", "tests/x")
    return test, table.declare(test, text)


def tiers():
    test, why = declared("story", "#!/bin/bash\n# Says what.\n# tier: test, san, alone, slice A=1 B=two, whole A=9\n")
    check("a story's line is read", not why and test.san and test.alone and test.slice == {"A": "1", "B": "two"} and test.whole == {"A": "9"})
    both, why = declared("story", "# tier: test, san A=1, slice A=3 B=4, whole A=9\n")
    fine = both.env(False) == {"A": "3", "B": "4"} and both.env(False, True) == {"A": "1", "B": "4"} and both.env(True) == {"A": "9"}
    check("sanitized a story has variables of its own", not why and both.san and fine)
    os.environ["A"] = "5"
    check("what the caller set stays", test.env(False) == {"B": "two"} and test.env(True) == {})
    check("a unit test's line is read", declared("unit", "// tier: check\n#include <x.h>\n")[1] is None)
    for what, kind, text in (
        ("none", "story", "#!/bin/bash\n# Says what.\n"),
        ("two", "story", "# tier: test\n# tier: all\n"),
        ("another kind's", "unit", "// tier: test\n"),
        ("an option that is none", "story", "# tier: test, quick\n"),
        ("an option without its values", "story", "# tier: test, slice\n"),
        ("values where none belong", "story", "# tier: test, alone A=1\n"),
        ("an option on a line of its own", "story", "# tier: test\n# slice A=1\n"),
        ("a line that stands too far below", "story", "#\n" * table.HEAD + "# tier: test\n"),
    ):
        check(f"refused: {what}", "tests/x" in (declared(kind, text[: table.HEAD])[1] or ""))


def script(name, text):
    with open(name, "w", encoding="ascii") as f:
        f.write(text)
    return ["sh", name]


def second_tries():
    twice = script("twice", "test -e done && exit 0; touch done; exit 1")
    report = pool.Report(again=True)
    check("a story that fails once is unsteady", report.attempt("story/a", 20, twice, again=dict) and len(report.unsteady) == 1)
    os.unlink("done")
    check("a unit test has no second try", not report.attempt("unit/a", 20, twice) and len(report.failed) == 1)
    os.unlink("done")
    whole = pool.Report(again=False)
    check("nothing has in make test-all", not whole.attempt("story/b", 20, twice, again=dict) and not whole.unsteady)
    os.unlink("done")
    finding = script("finding", "test -e done && exit 0; touch done; echo 'ERROR: AddressSanitizer: leak'; exit 1")
    check("nor has a finding of a sanitizer", not report.attempt("story/c", 20, finding, again=dict))
    check("what failed ends the run with 1", report.end(5) == 1 and whole.end(5) == 1)
    env = pool.Report(again=True)
    fresh = script("fresh", 'test "$FRESH" = yes')
    check("a second run has what was made for it", env.attempt("story/g", 20, fresh, {"FRESH": "no"}, again=lambda: {"FRESH": "yes"}))


def left_out():
    script("part", "echo '  ok: one'; echo '  not run: the other needs root'")
    report = pool.Report(again=False)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        fine = report.attempt("story/part", 20, ["sh", "part"])
        report.end(0)
    check("a part that did not run is told at the end", fine and "not run, of story/part: the other needs root" in told.getvalue())


def ends():
    """What CI shows of a long run is its end."""
    report = pool.Report(again=True)
    long = "for n in $(seq 300); do echo before $n; done; echo 'FAILED: the cause'; for n in $(seq 300); do echo after $n; done; exit 1"
    with contextlib.redirect_stdout(io.StringIO()):
        report.attempt("story/h", 20, script("once", "test -e tried && exit 0; touch tried; " + long), again=dict)
        for n in range(12):
            report.attempt(f"unit/{n}", 20, ["sh", "-c", long])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        report.end(5)
    lines = shown.getvalue().splitlines()
    check("the end of a run is short", len(lines) <= 100)
    check("each that failed is told with its failing line", lines.count("      FAILED: the cause") == 13)
    check("and with its last one", lines.count("      after 300") == 13)
    check("one that passed the second time as well", any(x.startswith("== failed once, passed: story/h (build/log/") for x in lines))
    with open("build/log/story_h.first.log", encoding="ascii") as f:
        check("whose first log is kept whole", len(f.readlines()) == 601)
    hundred = pool.Report(again=True)
    hundred.failed = [(f"unit/{n}", "build/log/unit_0.log") for n in range(100)]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        hundred.end(5)
    check("a hundred that failed take no more lines", len(shown.getvalue().splitlines()) <= 100)


def limits():
    report = pool.Report(again=True)
    began = time.monotonic()
    check("what hangs fails", not report.attempt("story/d", 1, ["sh", "-c", "sleep 600 & echo $! >child; wait"]))
    with open("child", encoding="ascii") as f:
        child = f.read().strip()
    while left.runs(child) and time.monotonic() < began + 60:
        time.sleep(0.05)
    check("and so does all of its group end", not left.runs(child))
    log = pool.log_of("unit/h")
    report.attempt("unit/h", 1, ["sh", "-c", "trap 'echo asked where; exit 1' ABRT; while :; do sleep 0.1; done"], ends=(signal.SIGABRT, signal.SIGKILL))
    with open(log, encoding="ascii") as f:
        check("a unit test is asked for its stack first", "asked where" in f.read())
    with open("busy", "w", encoding="ascii") as f:
        f.write(f"1.0 1.0 1.0 {4 * len(os.sched_getaffinity(0)) + 1}/100 1")
    check("of a machine with four that run for each processor a quarter counts", pool.share("busy") == 0.25)
    with open("busy", "w", encoding="ascii") as f:
        f.write("1.0 1.0 1.0 1/100 1")
    check("all of one that is idle", pool.share("busy") == 1)
    timer = threading.Timer(1, report.stop)
    timer.start()
    check("a run that is ended ends what runs", not report.attempt("story/e", 600, ["sleep", "600"]))
    try:
        report.attempt("story/f", 20, ["true"])
        check("and begins nothing more", False)
    except pool.Stopped:
        check("and begins nothing more", True)


def signals():
    """A run that a signal ends waits for its lanes: one of them takes a cluster down."""
    done = []

    def lane():
        time.sleep(1)
        done.append("down")

    def interrupted(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    run = lanes.Lanes(lambda work, e: done.append(e))
    run.begin(lane)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        run.join()
        told = False
    except KeyboardInterrupt:
        told = True
    signal.signal(signal.SIGALRM, before)
    run.join()
    check("a signal is told, and the lanes are waited for behind it", told and done == ["down"])
    run.begin(lambda: 1 // 0)
    run.join()
    check("a lane that breaks is told", isinstance(done[-1], ZeroDivisionError))


def leftovers():
    """A story fails where a process goes on that names its directory, or sees a workspace that lies in it; and that is ended."""
    report = pool.Report(again=True)
    report.settle = 0

    def gone(path):
        with open(path, encoding="ascii") as f:
            pid = f.read().strip()
        while os.path.exists(f"/proc/{pid}") and left.arguments(pid):
            time.sleep(0.05)
        return True

    def told(name):
        with open(pool.log_of(name), encoding="utf-8") as f:
            return "FAILED: left behind: process " in f.read()

    leaves = script("leaves", 'setsid sh -c "echo \\$\\$ >leaver; sleep 600; : $STORY_TMP/x" & while [ ! -s leaver ]; do sleep 0.05; done')
    check("a story that leaves a process fails", not report.attempt("story/i", 600, leaves, story=True))
    check("which is named, and ended", told("story/i") and gone("leaver"))
    # As a sandbox is: no word of it names a directory, nor does its environment, and the directory is gone.
    script("box", 'mount --bind "$STORY_TMP/box/workspace" workspace && echo $$ >boxed && exec env -i sleep 600')
    hides = 'mkdir -p "$STORY_TMP/box/workspace" workspace; setsid unshare -rm sh box & while [ ! -s boxed ]; do sleep 0.05; done; '
    hides += 'while grep -q box "/proc/$(cat boxed)/cmdline"; do sleep 0.05; done; rm -rf "$STORY_TMP/box"'
    check("so does one that leaves a sandbox", not report.attempt("story/k", 600, script("hides", hides), story=True))
    check("and that is named, and ended", told("story/k") and gone("boxed"))
    report.settle = pool.SETTLE
    ends = script("ends", 'setsid sh -c "while [ ! -e over ]; do sleep 0.05; done; : $STORY_TMP/x" & (sleep 1; touch over) &')
    check("what ends a moment later is not left", report.attempt("story/j", 600, ends, story=True) and not told("story/j"))


def queues():
    queue = pool.Queue(["a1", "a2", "b1"], key=lambda job: job[0])
    first, second = queue.take(), queue.take()
    check("two of one key never run at once", (first, second) == ("a1", "b1"))
    queue.done(first)
    check("one after the other they do", queue.take() == "a2" and queue.take() is None)


def times():
    c = clock.Clock("check")
    check("a run within its time passes", c.judge()[0])
    c.began -= 10 * clock.LIMITS["check"]
    c.busy = clock.busy()
    check("one beyond it does not", not c.judge()[0])
    c.began += 8 * clock.LIMITS["check"]
    c.cold.append("because")
    check("a cold one has longer", c.judge()[0])


def proofs():
    """make test-all goes on where it was ended, as long as the product is the same."""
    os.makedirs("tests/integration")
    os.makedirs("base")
    script("base/a.c", "int a;")
    script("tests/integration/x.sh", "exit 0")
    script("tests/integration/y.sh", "exit 0")
    subprocess.run("git init -q . && git add base tests", shell=True, check=True)
    x, y = (table.Test("story", name, f"tests/integration/{name}.sh") for name in "xy")
    first = proof.Proof()
    check("everything is due at first", first.due(False, x) and first.due(True, x))
    first.passed(False, x)
    first.passed(True, y)
    first.counted(40)
    then = proof.Proof()
    check("what passed is not", not then.due(False, x) and not then.due(True, y))
    check("its other form is", then.due(True, x) and then.due(False, y))
    check("the time of both runs counts", then.seconds == 40)
    script("tests/integration/x.sh", "exit 1")
    check("a test that changed is due", proof.Proof().due(False, x) and not proof.Proof().due(True, y))
    script("tests/integration/y.py", "pass")
    subprocess.run("git add tests", shell=True, check=True)
    check("so is one whose helper did", proof.Proof().due(True, y))
    os.remove("tests/integration/y.py")
    script("base/a.c", "int b;")
    check("all are when the product changed", proof.Proof().due(True, y))
    script("daemon.log", "a finding")
    then.finding("san/story/findings-0.1", "daemon.log")
    kept = proof.Proof().findings["san/story/findings-0.1"]
    check("a finding in a daemon's log stays", kept != "daemon.log" and open(kept, encoding="ascii").read() == "a finding")


for part in (tiers, second_tries, left_out, ends, limits, signals, leftovers, queues, times, proofs):
    part()
sys.exit(bad != 0)
