#!/usr/bin/env python3
"""What the command stream costs a terminal that floods: commands.py BUILD [OTHER-BUILD ...] [--mib 100] [--runs 5]

For each build, in turns, one daemon each: a terminal over SSH in which `yes` prints so much, with keys before and after; the
time until its end is seen, and the processor time of recorder and screen workers until half a minute later. Needs sshpass.
"""
import argparse, json, os, pty, select, shutil, signal, statistics, subprocess, sys, tempfile, time

TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid, children=False):
    f = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
    return sum(map(int, f[13:15] if children else f[11:13])) / TICK


class Daemon:
    def __init__(self, build):
        self.build = build
        self.dir = tempfile.mkdtemp(prefix="muxd-bench-commands.")
        os.chmod(self.dir, 0o711)
        self.state = self.dir + "/state"
        os.mkdir(self.state, 0o711)
        self.log = open(self.dir + "/log", "w")
        self.p = subprocess.Popen([build + "/muxd", "serve", "--state", self.state, "--https", "127.0.0.1:0", "--ssh",
                                   "127.0.0.1:0"], stderr=self.log)
        while not os.path.exists(self.state + "/ready.json"):
            if self.p.poll() is not None:
                sys.exit("no daemon: " + self.dir + "/log")
            time.sleep(0.05)
        self.ready = json.load(open(self.state + "/ready.json"))
        token = json.loads(self.ctl("grant", "create", "--agent", "flood", "--principal", "bench", "--kind", "staff", "--scopes",
                                    "terminal,observe", "--task", "bench", "--ttl", "1h", "--reason", "bench", "-o", "json"))["token"]
        port = self.ready["ssh"].rsplit(":", 1)[1]
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update(SSHPASS=token, TERM="xterm")
            os.execvp("sshpass", ["sshpass", "-e", "ssh", "-F", "none", "-p", port, "-o", "StrictHostKeyChecking=no", "-o",
                                  "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-l", "flood", "-tt", "127.0.0.1"])
        self.ssh = pid
        self.tail = b""
        self.n = 0
        self.run("true")

    def ctl(self, *args):
        return subprocess.run([self.build + "/muxctl", "--state", self.state, *args], stdout=subprocess.PIPE, check=True, text=True).stdout

    def run(self, command):
        """Types it, and reads until it has ended. Seconds."""
        self.n += 1
        begin = time.monotonic()
        os.write(self.fd, ("%s; echo end-$((1000000+%d))\r" % (command, self.n)).encode())
        want = b"end-%d" % (1000000 + self.n)
        while want not in self.tail:
            if not select.select([self.fd], [], [], 60)[0]:
                sys.exit("nothing comes any more")
            self.tail = self.tail[-64:] + os.read(self.fd, 1 << 16)
        self.tail = b""
        return time.monotonic() - begin

    def used(self):
        return cpu(self.ready["pids"]["recorder"]), cpu(self.p.pid, True)

    def end(self):
        os.kill(self.ssh, signal.SIGTERM)
        os.waitpid(self.ssh, 0)
        os.close(self.fd)
        self.ctl("shutdown", "--sandboxes")
        self.p.wait()
        shutil.rmtree(self.dir)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("build", nargs="+")
    a.add_argument("--mib", type=int, default=100)
    a.add_argument("--runs", type=int, default=5)
    o = a.parse_args()
    daemons = [Daemon(os.path.abspath(b)) for b in o.build]
    times = [[] for _ in daemons]
    begin = [d.used() for d in daemons]
    for _ in range(o.runs):
        for d, t in zip(daemons, times):
            t.append(d.run("yes | head -c %dM" % o.mib))
            d.run("true")
    time.sleep(30)
    for b, d, t, u in zip(o.build, daemons, times, begin):
        now = d.used()
        print("%s: %d MiB in %.2f s (median of %d: %s); processor time a run: recorder %.2f s, screen workers %.2f s" % (
            b, o.mib, statistics.median(t), o.runs, " ".join("%.2f" % x for x in t), (now[0] - u[0]) / o.runs, (now[1] - u[1]) / o.runs))
    for d in daemons:
        d.end()


main()
