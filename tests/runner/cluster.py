"""The Kubernetes stories: on a cluster that comes and goes with them, or on the one in K8S_HOME, which is left running."""
import glob
import os
import shutil
import subprocess

from pool import LOGS, log_of

E2E = "tests/e2e/k8s"
LAST = ("hostile", "nodefail")  # one measures how soon staff gets in, one takes the node away


def claim():
    """A number and a home for a cluster of this run's own, so that others on this machine are left alone."""
    for net in range(100, 200):
        home = f"/tmp/muxd-k8s-{net}"
        if os.path.exists(f"/sys/class/net/muxd-k8s-{net}"):
            continue
        try:
            os.mkdir(home)
        except FileExistsError:
            continue
        return {"K8S_NET": str(net), "K8S_HOME": home}
    raise RuntimeError("the numbers 100 to 199 of clusters are all taken")


class Cluster:
    def __init__(self, report, tests, whole, asked, proof):
        """asked: by name, so that it is a failure when there can be none; proof (or None) notes what passes"""
        self.report, self.whole, self.asked, self.proof = report, whole, asked, proof
        self.tests = sorted(tests, key=lambda t: (LAST.index(t.name) + 1 if t.name in LAST else 0, t.name))
        self.built = False  # whether Kubernetes had to be compiled, beside everything else
        self.ran, self.failed = 0, False

    def absent(self, why):
        self.report.say(f"k8s stories: not run: {why}")
        if self.asked:
            self.report.verdict("k8s", False)

    def build(self):
        """Its programs, once a machine; whether they are there."""
        how = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "check": False}
        p = subprocess.run([f"{E2E}/prepare.sh"], stdout=subprocess.PIPE, text=True, **how)
        if p.returncode != 0:
            self.absent((p.stdout.strip().splitlines() or ["prepare.sh failed"])[-1])
            return False
        log = log_of("k8s/build")
        rc, wall, cpu = self.report.run(log, 2400, [f"{E2E}/build.sh"])
        self.built = cpu > 30
        if rc == 69:
            with open(log, encoding="utf-8", errors="replace") as f:
                self.absent((f.read().strip().splitlines() or ["build.sh failed"])[-1])
            return False
        return self.report.verdict("k8s/build", rc == 0, wall, cpu, log)

    def stories(self, env):
        if self.report.attempt("k8s/up", 600, [f"{E2E}/up.sh", "full"], env, again=lambda: env):
            build = os.path.abspath("build")
            for test in self.tests:
                mine = env | test.env(self.whole) | {"BUILD": build, "MUXCTL": f"{build}/muxctl"}
                limit = 4 * 3600 if self.whole and test.whole else 1500
                fine = self.report.attempt(test.called(), limit, ["bash", test.path], mine, again=lambda env=mine: env, story=True)
                if fine and self.proof:
                    self.proof.passed(False, test)
                self.ran, self.failed = self.ran + 1, self.failed or not fine

    def work(self):
        if not self.tests or not self.build():
            return
        own = {} if os.environ.get("K8S_HOME") else claim()
        try:
            self.stories(own)
        finally:
            if own:
                self.down(own)
        self.report.say(f"k8s stories: {self.ran} run{', on a cluster of their own' if own else ''}")

    def down(self, env):
        """Whatever ended the run. The logs of its programs are kept where a story failed."""
        if self.failed or not self.ran:
            for path in glob.glob(f"{env['K8S_HOME']}/log/*.log"):
                shutil.copy(path, LOGS)
        with open(log_of("k8s/down"), "wb") as log:
            down = [f"{E2E}/down.sh", "wipe"]
            p = subprocess.run(down, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | env, check=False)
        self.report.verdict("k8s/down", p.returncode == 0, log=log_of("k8s/down"))
