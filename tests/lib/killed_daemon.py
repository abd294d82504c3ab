"""killed_daemon.py - a daemon of the story's own whose parts are killed, and that comes again. BUILD in the environment."""
import json
import os
import signal
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD", "build")
# What a kill takes: net has the doors, the monitor begins the others.
KILLED = [("net",), ("net",), ("recorder",), ("net", "recorder"), ("monitor",), ("monitor", "net", "recorder")]


class Daemon:
    """The monitor is this script's child, and begun anew when it was killed. Its configuration is STATE/muxd.yaml."""

    def __init__(self, state):
        self.state, self.p, self.log = state, None, open(state + "/daemon.log", "ab")

    def ready(self):
        with open(os.path.join(self.state, "ready.json"), encoding="utf-8") as f:
            return json.load(f)

    def door(self):
        """(host, port) of HTTPS, which may be another one behind a kill of the monitor."""
        return tuple(self.ready()["https"].rsplit(":", 1))

    def start(self):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            self.p = subprocess.Popen([BUILD + "/muxd", "serve", "--state", self.state, "--config", self.state + "/muxd.yaml", "--https",
                                       "127.0.0.1:0", "--ssh", "127.0.0.1:0"], stdout=self.log, stderr=self.log)
            while time.monotonic() < end and self.p.poll() is None:
                try:
                    if self.ready()["pids"]["monitor"] == self.p.pid:
                        return
                except (OSError, ValueError, KeyError):
                    pass
                time.sleep(0.01)
            time.sleep(0.1)  # the one before still holds its lock
        sys.exit("FAILED: the daemon does not start")

    def kill(self, which):
        """Returns when everything that was killed is there again: what did not come, or None."""
        old = self.ready()["pids"]
        for w in which:
            try:
                os.kill(old[w], signal.SIGKILL)
            except ProcessLookupError:
                pass
        if "monitor" in which:
            self.p.wait()
            self.start()
            return None
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                now = self.ready()["pids"]
                if all(now[w] not in (old[w], 0) for w in which):
                    return None
            except (OSError, ValueError, KeyError):
                pass
            time.sleep(0.01)
        return "%s did not come back" % "+".join(which)

    def muxctl(self, *words):
        done = subprocess.run([BUILD + "/muxctl", "--state", self.state, *words], stdout=subprocess.PIPE, check=False)
        return done.stdout.decode("utf-8", "replace")

    def audit(self, *more):
        """Every record of the audit log, oldest first. Whoever asks is in it: a page that is not full is the last."""
        found, since = [], 0
        while not since or len(rows) == 1000:
            rows = [json.loads(line) for line in self.muxctl("audit", *more, "--since", str(since), "-n", "1000", "-o", "json").splitlines()]
            found += [row["record"] for row in rows]
            since = rows[-1]["seq"] if rows else since + 1
        return found

    def end(self):
        self.muxctl("shutdown", "--sandboxes")
        self.p.wait()
