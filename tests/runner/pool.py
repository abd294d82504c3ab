"""Commands with a limit, a log and the time they took; queues of them, that so many threads work off."""
import contextlib
import os
import re
import resource
import select
import signal
import subprocess
import tempfile
import threading
import time

import left

LOGS = "build/log"
FINDING = re.compile(rb"Sanitizer|runtime error")
NOT_RUN = re.compile(r"^(?: *not run|SKIP): *(.+)$", re.MULTILINE)  # what a story says that it left out
# What a log says of its failure first: a story's, cmocka's, a sanitizer's, Python's, a compiler's, the runner's own.
FAILING = re.compile(r"^\s*FAILED\b|\[ +(ERROR|FAILED) +\]|Sanitizer|runtime error:|Traceback|: error:|^ended: ")
TOLD = 80  # lines about what failed, at the end of a run: CI shows some hundred
TAIL = 15  # of one test
SETTLE = 20  # seconds, as a limit's, until what a story began has ended behind it


def log_of(name):
    return f"{LOGS}/{name.replace('/', '_')}.log"


def share(path="/proc/loadavg"):
    """The part of a processor that one more program has now, a tenth at least: 1 where none waits for one."""
    with open(path, encoding="ascii") as f:
        running = int(f.read().split()[3].split("/")[0])  # whoever asks is one of them
    return max(0.1, min(1.0, len(os.sched_getaffinity(0)) / max(running - 1, 1)))


def excerpt(path, most):
    """Of a log at most so many lines: those at which it failed, then its end."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = [line.rstrip()[:400] for line in f]
    except FileNotFoundError:
        return []
    at = next((n for n, line in enumerate(lines) if FAILING.search(line)), None)
    if at is None or at >= len(lines) - most:
        return lines[-most:]
    first = lines[at : at + max(1, most // 5)]
    rest = most - len(first) - 1
    return [*first, "...", *(lines[-rest:] if rest > 0 else [])]


def show(path, most):
    for line in excerpt(path, most):
        print("      " + line)


class Stopped(Exception):
    """The run is ended by a signal."""


class Limit:
    """Seconds of a test, as if it had a processor: while others wait for processors, time counts for the part that one
    program gets. So a test that hangs is ended, and one on a busy machine is not."""

    def __init__(self, seconds):
        self.seconds, self.counted, self.at = seconds, 0.0, time.monotonic()

    def passed(self):
        now = time.monotonic()
        self.counted, self.at = self.counted + (now - self.at) * share(), now
        return self.counted > self.seconds


class Report:
    """What has run, and how it ended; prints one line a test. The logs of what failed are shown where they fail, and once more as
    the last thing before the count."""

    def __init__(self, again):
        self.again = again  # whether stories get a second run
        self.lock = threading.Lock()
        self.passed, self.failed, self.unsteady, self.took = 0, [], [], []
        self.left_out = []  # (test, what of it did not run)
        self.running = set()
        self.stopping, self.settle = False, SETTLE

    def verdict(self, name, ok, wall=0.0, cpu=0.0, log=None):
        with self.lock:
            self.took.append((wall, cpu, name))
            if ok:
                self.passed += 1
                self.left_out += [(name, what) for what in not_run(log)]
                print(f"ok    {name:34} {wall:6.1f} s {cpu:6.1f} cpu", flush=True)
            else:
                self.failed.append((name, log))
                print(f"FAIL  {name:34} {wall:6.1f} s {cpu:6.1f} cpu", flush=True)
                if log:
                    show(log, 40)
        return ok

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def run(self, log, limit, command, env=None, ends=(signal.SIGTERM, signal.SIGKILL)):
        """(exit code, seconds, seconds of processors). What outlives its limit is ended with all of its group: by the signals
        of `ends`, ten seconds apart."""
        began = time.monotonic()
        with open(log, "wb") as out:
            with self.lock:
                if self.stopping:
                    raise Stopped
                how = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT, "process_group": 0}
                p = subprocess.Popen(command, env=os.environ | (env or {}), **how)
                self.running.add(p.pid)
            left, ends = Limit(limit), list(ends)
            ended = os.pidfd_open(p.pid)
            try:
                while not select.select([ended], [], [], 0.25)[0]:
                    if not left.passed():
                        continue
                    out.write(f"\nended: longer than {limit} s, not counting what others had of the processors\n".encode())
                    out.flush()
                    while ends and not select.select([ended], [], [], 0)[0]:
                        os.killpg(p.pid, ends.pop(0))
                        select.select([ended], [], [], 10)
            finally:
                os.close(ended)
            _, status, usage = os.wait4(p.pid, 0)
            with self.lock:
                self.running.discard(p.pid)
            p.returncode = os.waitstatus_to_exitcode(status)
        return p.returncode, time.monotonic() - began, usage.ru_utime + usage.ru_stime

    def settled(self, log, directory):
        """Whether nothing that names the directory goes on; what does is told in the log, and ended."""
        limit = Limit(self.settle)
        lines = left.settle(directory, lambda: self.stopping or limit.passed())
        with open(log, "a", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in lines)
        return not lines

    def story(self, log, limit, command, env=None, **how):
        """As run(). A story has a directory of its own (env.sh tidies it away), and leaves no process that names it."""
        place = tempfile.mkdtemp(prefix="muxd-story.", dir="/tmp")
        try:
            rc, wall, cpu = self.run(log, limit, command, (env or {}) | {"STORY_TMP": place}, **how)
            return (rc if self.settled(log, place) else rc or 1), wall, cpu
        finally:
            with contextlib.suppress(OSError):
                os.rmdir(place)  # of a story that does not know of it

    def attempt(self, name, limit, command, env=None, again=None, story=False, **how):
        """One test. `again` makes what a second run needs and returns its environment: what runs against clocks, terminals and
        a cluster on a machine that may be busy gets one in `make test` when it fails; a unit test gets none, nor does anything
        in `make test-all`, nor a finding of a sanitizer. A second run is never silent: the end names what was unsteady and
        shows its first log."""
        log, run = log_of(name), self.story if story else self.run
        rc, wall, cpu = run(log, limit, command, env, **how)
        if rc != 0 and again and self.again and not found(log):
            first = log.removesuffix(".log") + ".first.log"
            os.replace(log, first)
            with self.lock:
                print(f"again {name}", flush=True)
                show(first, 20)
            rc, more, more_cpu = run(log, limit, command, again(), **how)
            wall, cpu = wall + more, cpu + more_cpu
            with self.lock:
                self.unsteady.append((name, first, rc == 0))
        return self.verdict(name, rc == 0, wall, cpu, log)

    def stop(self):
        """Ends what runs; nothing begins any more."""
        with self.lock:
            self.stopping = True
            for pid in self.running:
                try:
                    os.killpg(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass

    def slowest(self, most):
        """Two lists: by the clock, and by what their processes had of processors."""
        for what, key in (("slowest", lambda t: t[0]), ("most of the processors", lambda t: t[1])):
            print(f"== {what}:")
            for wall, cpu, name in sorted(self.took, key=key, reverse=True)[:most]:
                print(f"      {name:34} {wall:6.1f} s {cpu:6.1f} cpu")

    def end(self, slowest):
        """The end of the output, which alone CI shows of a long one: what failed, each with the same few lines; 0 or 1."""
        if len(self.took) > 20:
            self.slowest(slowest)
        told = [(f"failed once, {'passed' if fine else 'then again'}: {name}", log) for name, log, fine in self.unsteady]
        told += [(f"failed: {name}", log) for name, log in self.failed if log]
        each = max(3, min(TAIL, TOLD // max(len(told), 1) - 1))
        for what, log in told[-(TOLD // (each + 1)) :]:
            print(f"== {what} ({log})")
            show(log, each)
        for name, what in self.left_out:
            print(f"not run, of {name}: {what}")
        steady = [name for name, _, fine in self.unsteady if fine]
        if steady:
            print("unsteady, passed the second time:", *steady)
        if self.failed:
            print("failed:", *(name for name, _ in self.failed))
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0


def not_run(log):
    """What a test that passed says that it could not show on this machine."""
    if not log or not os.path.exists(log):
        return []
    with open(log, encoding="utf-8", errors="replace") as f:
        return NOT_RUN.findall(f.read())


def found(log):
    with open(log, "rb") as f:
        return bool(FINDING.search(f.read()))


class Queue:
    """Jobs for some threads, the longest first. Two with one `key` never run at once: a story and the same story sanitized."""

    def __init__(self, jobs, key=lambda job: job):
        self.jobs, self.key = list(jobs), key
        self.busy = set()
        self.changed = threading.Condition()

    def take(self):
        """A job, or None when there are no more."""
        with self.changed:
            while self.jobs:
                for i, job in enumerate(self.jobs):
                    if self.key(job) not in self.busy:
                        self.busy.add(self.key(job))
                        return self.jobs.pop(i)
                self.changed.wait()
            return None

    def done(self, job):
        with self.changed:
            self.busy.discard(self.key(job))
            self.changed.notify_all()

    def drop(self):
        with self.changed:
            self.jobs.clear()
            self.changed.notify_all()
