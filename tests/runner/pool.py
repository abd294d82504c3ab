"""Commands with a limit, a log and the time they took; queues of them, that so many threads work off."""
import os
import re
import resource
import signal
import subprocess
import threading
import time

LOGS = "build/log"
FINDING = re.compile(rb"Sanitizer|runtime error")


def show(path, lines):
    """The end of a log, bounded, for who sees only the end."""
    try:
        with open(path, "rb") as f:
            f.seek(max(0, os.path.getsize(path) - 65536))
            for line in f.read().decode(errors="replace").splitlines()[-lines:]:
                print("      " + line[:400])
    except FileNotFoundError:
        pass


def log_of(name):
    return f"{LOGS}/{name.replace('/', '_')}.log"


class Stopped(Exception):
    """The run is ended by a signal."""


class Report:
    """What has run, and how it ended; prints one line a test. The logs of what failed are shown where they fail, and once more as
    the last thing before the count."""

    def __init__(self, again):
        self.again = again  # whether stories get a second run
        self.lock = threading.Lock()
        self.passed, self.failed, self.unsteady, self.took = 0, [], [], []
        self.running = set()
        self.stopping = False

    def verdict(self, name, ok, wall=0.0, cpu=0.0, log=None):
        with self.lock:
            self.took.append((wall, cpu, name))
            if ok:
                self.passed += 1
                print(f"ok    {name:34} {wall:6.1f} s {cpu:6.1f} cpu", flush=True)
            else:
                self.failed.append((name, log))
                print(f"FAIL  {name}", flush=True)
                if log:
                    show(log, 40)
        return ok

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def run(self, log, limit, command, env=None):
        """(exit code, seconds, seconds of processors). What outlives its limit is ended with all of its group."""
        began = time.monotonic()
        with open(log, "wb") as out:
            with self.lock:
                if self.stopping:
                    raise Stopped
                how = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT, "process_group": 0}
                p = subprocess.Popen(command, env=os.environ | (env or {}), **how)
                self.running.add(p.pid)
            usage = resource.struct_rusage([0] * 16)
            kill_at, how, status = began + limit, signal.SIGTERM, 0
            while True:
                pid, status, usage = os.wait4(p.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > kill_at:
                    out.write(f"\nended: longer than {limit} s\n".encode())
                    out.flush()
                    os.killpg(p.pid, how)
                    kill_at, how = kill_at + 10, signal.SIGKILL
                time.sleep(0.02)
            with self.lock:
                self.running.discard(p.pid)
            p.returncode = os.waitstatus_to_exitcode(status)
        return p.returncode, time.monotonic() - began, usage.ru_utime + usage.ru_stime

    def attempt(self, name, limit, command, env=None, again=False):
        """One test. What runs against clocks, terminals and a cluster on a machine that may be busy gets a second run in
        `make test` when it fails; a unit test gets none, nor does anything in `make test-all`, nor a finding of a sanitizer.
        A second run is never silent: the end names what was unsteady and shows its first log."""
        log = log_of(name)
        rc, wall, cpu = self.run(log, limit, command, env)
        if rc != 0 and again and self.again and not found(log):
            self.say(f"again {name}")
            first = log.removesuffix(".log") + ".first.log"
            os.replace(log, first)
            rc, more, more_cpu = self.run(log, limit, command, env)
            wall, cpu = wall + more, cpu + more_cpu
            with self.lock:
                if rc == 0:
                    self.unsteady.append((name, first))
                else:
                    show(first, 20)
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

    def end(self, slowest):
        """The end of the output; 0 or 1."""
        if len(self.took) > 20:
            print("== slowest:")
            for wall, cpu, name in sorted(self.took, reverse=True)[:slowest]:
                print(f"      {name:34} {wall:6.1f} s {cpu:6.1f} cpu")
        for name, log in self.unsteady:
            print(f"== failed once: {log}")
            show(log, 20)
        for name, log in self.failed:
            if log:
                print(f"== failed: {log}")
                show(log, 15)
        if self.unsteady:
            print("unsteady, passed the second time:", *(name for name, _ in self.unsteady))
        if self.failed:
            print("failed:", *(name for name, _ in self.failed))
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0


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
