"""runner.py DIRECTORY: what the tests' own runner promises, shown by commands that fail, hang and come back."""
import os
import sys
import time

DIR = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../runner"))
os.makedirs(f"{DIR}/build/log")
os.chdir(DIR)

import clock  # noqa: E402
import pool  # noqa: E402
import table  # noqa: E402
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
    os.environ["A"] = "5"
    check("what the caller set stays", test.env(False) == {"B": "two"} and test.env(True) == {})
    check("a unit test's line is read", declared("unit", "// tier: check\n#include <x.h>\n")[1] is None)
    for what, kind, text in (
        ("none", "story", "#!/bin/bash\n# Says what.\n"),
        ("two", "story", "# tier: test\n# tier: all\n"),
        ("another kind's", "unit", "// tier: test\n"),
        ("an option that is none", "story", "# tier: test, quick\n"),
        ("an option without its values", "story", "# tier: test, slice\n"),
        ("values where none belong", "story", "# tier: test, san A=1\n"),
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
    check("a story that fails once is unsteady", report.attempt("story/a", 20, twice, again=True) and len(report.unsteady) == 1)
    os.unlink("done")
    check("a unit test has no second try", not report.attempt("unit/a", 20, twice) and len(report.failed) == 1)
    os.unlink("done")
    whole = pool.Report(again=False)
    check("nothing has in make test-all", not whole.attempt("story/b", 20, twice, again=True) and not whole.unsteady)
    os.unlink("done")
    finding = script("finding", "test -e done && exit 0; touch done; echo 'ERROR: AddressSanitizer: leak'; exit 1")
    check("nor has a finding of a sanitizer", not report.attempt("story/c", 20, finding, again=True))
    check("what failed ends the run with 1", report.end(5) == 1 and whole.end(5) == 1)


def limits():
    report = pool.Report(again=True)
    began = time.monotonic()
    check("what hangs fails", not report.attempt("story/d", 1, ["sh", "-c", "sleep 600 & echo $! >child; wait"]))
    with open("child", encoding="ascii") as f:
        child = f.read().strip()
    gone = lambda: not os.path.exists(f"/proc/{child}") or open(f"/proc/{child}/stat", encoding="ascii").read().split()[2] == "Z"
    while not gone() and time.monotonic() < began + 60:
        time.sleep(0.05)
    check("and so does all of its group end", gone())
    ends = threading.Timer(1, report.stop)
    ends.start()
    check("a run that is ended ends what runs", not report.attempt("story/e", 600, ["sleep", "600"]))
    try:
        report.attempt("story/f", 20, ["true"])
        check("and begins nothing more", False)
    except pool.Stopped:
        check("and begins nothing more", True)


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


for part in (tiers, second_tries, limits, queues, times):
    part()
sys.exit(bad != 0)
