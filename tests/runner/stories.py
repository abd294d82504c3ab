"""One after the other, stories share a daemon; those side by side have one each. A worker has a daemon of each build, which
it starts when a story first wants it, and another after a story that failed: what that one left half done is nobody's."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from pool import LOGS

LIMIT, LIMIT_WHOLE = 600, 4 * 3600  # seconds that a story may take
FINDING = re.compile(r"ERROR: (Address|Leak)Sanitizer|runtime error:")


class Daemon:
    """A daemon with a state directory of its own below /tmp; its log outlives it as build/log/daemon-BUILD-N.log."""

    def __init__(self, build, number):
        self.build, self.number, self.log = build, number, f"{LOGS}/daemon-{build.replace('/', '-')}-{number}.log"
        self.state = tempfile.mkdtemp(prefix="muxd-test.", dir="/tmp")
        os.chmod(self.state, 0o711)
        with open(f"{self.state}/daemon.log", "wb") as log:
            serve = [f"{build}/muxd", "serve", "--state", self.state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0"]
            self.process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)

    def ready(self):
        for _ in range(1200):
            if os.path.exists(f"{self.state}/ready.json"):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def env(self):
        build = os.path.abspath(self.build)
        return {"BUILD": build, "MUXD_STATE": self.state, "MUXCTL": f"{build}/muxctl"}

    def stop(self, report):
        """Ends it and its sandboxes, keeps its log; whether a sanitizer had nothing to say, and whether nothing is left. A part
        that a sanitizer stopped is started again by the monitor: the log tells."""
        muxctl = [f"{self.build}/muxctl", "--state", self.state, "shutdown", "--sandboxes"]
        try:
            subprocess.run(muxctl, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.copyfile(f"{self.state}/daemon.log", self.log)
        shutil.rmtree(self.state, ignore_errors=True)
        settled = report.settled(self.log, self.state)
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return not FINDING.search(f.read()), settled


class Worker:
    """Works off a queue of (build, san, test); `whole` says whether long proofs are shown whole, `proof` (or None) notes what
    passes."""

    def __init__(self, report, queue, number, whole, proof):
        self.report, self.queue, self.number, self.whole, self.proof = report, queue, number, whole, proof
        self.daemons = {}
        self.begun = 0

    def daemon(self, build, san):
        if build not in self.daemons:
            self.begun += 1
            d = self.daemons[build] = Daemon(build, f"{self.number}.{self.begun}")
            d.up = d.ready()
            if not d.up:
                self.report.verdict(f"{'san/' if san else ''}story/daemon-{d.number}", False, log=f"{d.state}/daemon.log")
        return self.daemons[build]

    def retire(self, build):
        d = self.daemons.pop(build)
        clean, settled = d.stop(self.report)
        if not settled:
            self.report.verdict(f"{'san/' if build.endswith('/san') else ''}story/left-{d.number}", False, log=d.log)
        if build.endswith("/san"):
            self.report.verdict(f"san/story/findings-{d.number}", clean, log=d.log)
            if self.proof and not clean:
                self.proof.finding(f"san/story/findings-{d.number}", d.log)

    def tell(self, job):
        build, san, test = job
        d = self.daemon(build, san)
        if not d.up:
            self.report.verdict(test.called(san), False)
            return
        whole = self.whole and not san
        own = {} if self.whole and san else test.env(whole, san)

        def anew():
            self.retire(build)
            return self.daemon(build, san).env() | own

        limit = LIMIT_WHOLE if whole and test.whole else LIMIT
        if not self.report.attempt(test.called(san), limit, ["bash", test.path], d.env() | own, again=anew, story=True):
            self.retire(build)
        elif self.proof:
            self.proof.passed(san, test)

    def work(self):
        try:
            while job := self.queue.take():
                try:
                    self.tell(job)
                finally:
                    self.queue.done(job)
        finally:
            for build in list(self.daemons):
                self.retire(build)
