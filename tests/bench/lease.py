#!/usr/bin/python3
"""From the call for a lease to the first byte of a prompt in its sandbox, out of the warm pool and without one.

A daemon of its own. The clock runs from the first byte of POST /sandboxes/leases (a connection that is open) to the first byte that a
terminal of the leased sandbox shows (api.sock). Writes build/bench-lease.json. LEASES=n: how many (40).
"""
import http.client
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
N = int(os.environ.get("LEASES", 40))


class Daemon:
    def __init__(self, conf):
        self.tmp = tempfile.mkdtemp(prefix="muxd-bench-lease.")
        os.chmod(self.tmp, 0o711)
        self.state = self.tmp + "/state"
        os.mkdir(self.state, 0o711)
        with open(self.tmp + "/muxd.yaml", "w") as f:
            f.write(conf)
        self.process = subprocess.Popen(
            [BUILD + "/muxd", "serve", "--state", self.state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--config",
             self.tmp + "/muxd.yaml"], stderr=open(self.tmp + "/log", "w"))
        for _ in range(300):
            if os.path.exists(self.state + "/ready.json"):
                break
            time.sleep(0.1)
        else:
            sys.exit("muxd did not start: " + open(self.tmp + "/log").read()[-2000:])
        self.ready = json.load(open(self.state + "/ready.json"))
        made = subprocess.run([BUILD + "/muxctl", "--state", self.state, "grant", "create", "--agent", "*", "--principal", "bench",
                               "--kind", "service", "--scopes", "lifecycle,rounds,terminal", "--task", "bench", "--ttl", "1h",
                               "--reason", "bench", "-o", "json"], capture_output=True, check=True)
        self.token = json.loads(made.stdout)["token"]
        host, port = self.ready["https"].rsplit(":", 1)
        self.http = http.client.HTTPSConnection(host, int(port),
                                                context=ssl.create_default_context(cafile=self.state + "/keys/tls.crt"))

    def ask(self, method, path, body=None):
        self.http.request(method, path, json.dumps(body) if body else None,
                          {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        answer = self.http.getresponse()
        value = json.loads(answer.read())
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {value}")
        return value

    def first_byte(self, agent):
        """A terminal's first byte of output."""
        start = json.dumps({"pty": {"cols": 80, "rows": 24}, "task_id": "bench", "stdin_open": True}).encode()
        head = ("GET /v1/agents/%s/exec HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                "Sec-WebSocket-Protocol: muxd.v1\r\nAuthorization: Bearer %s\r\n\r\n" % (agent, self.token)).encode()
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.state + "/api.sock")
            s.sendall(head)
            data = b""
            while b"\r\n\r\n" not in data:
                data += self.more(s)
            data = data.partition(b"\r\n\r\n")[2]
            s.sendall(bytes([0x82, 0x80 | len(start) + 1]) + bytes(4) + b"\x25" + start)
            while True:
                while len(data) >= 4:
                    at, size = (4, struct.unpack(">H", data[2:4])[0]) if data[1] == 126 else (2, data[1])
                    if len(data) < at + size:
                        break
                    kind, data = data[at], data[at + size:]
                    if kind == 1:
                        return
                    if kind == 0x14:
                        sys.exit("the terminal was refused")
                data += self.more(s)

    @staticmethod
    def more(s):
        return s.recv(65536) or sys.exit("no prompt")

    def pool_settles(self, ready):
        for _ in range(600):
            p = self.ask("GET", "/sandboxes/pool")
            if p["ready"] >= ready and not p["filling"] and not p["discarding"]:
                return
            time.sleep(0.05)
        sys.exit("the pool does not settle")

    def close(self):
        subprocess.run([BUILD + "/muxctl", "--state", self.state, "shutdown", "--sandboxes"], capture_output=True)
        self.process.wait()
        shutil.rmtree(self.tmp, ignore_errors=True)


def measure(pool):
    d = Daemon("pool: {size: %d}\n" % pool)
    grants, prompts = [], []
    try:
        d.ask("POST", "/sandboxes/workflows", {"name": "w", "owner": "bench", "version": 1, "steps": [{"shell": "true"}]})
        for i in range(N):
            d.pool_settles(pool)
            start = time.perf_counter()
            lease = d.ask("POST", "/sandboxes/leases", {"userId": "bench", "workflowId": "w", "requestId": "r%d" % i})
            grants.append(time.perf_counter() - start)
            d.first_byte(lease["sandboxId"])
            prompts.append(time.perf_counter() - start)
            d.ask("DELETE", "/sandboxes/leases/" + lease["leaseId"])
    finally:
        d.close()

    def at(times, q):
        return round(1000 * sorted(times)[min(len(times) - 1, int(q * len(times)))], 2)

    return {"grant_p50": at(grants, 0.5), "grant_p95": at(grants, 0.95), "prompt_p50": at(prompts, 0.5), "prompt_p95": at(prompts, 0.95)}


results = {"date": time.strftime("%Y-%m-%d"), "leases": N, "load": os.getloadavg()[0], "pool of 3": measure(3), "no pool": measure(0)}
with open(BUILD + "/bench-lease.json", "w") as f:
    json.dump(results, f, indent=1)
print("| lease, milliseconds (load %.1f) | p50 | p95 | goal |\n|---|---|---|---|" % results["load"])
for how in ("pool of 3", "no pool"):
    r = results[how]
    print("| call to grant, %s | %.1f | %.1f | |" % (how, r["grant_p50"], r["grant_p95"]))
    print("| call to first prompt byte, %s | %.1f | %.1f | %s |" % (how, r["prompt_p50"], r["prompt_p95"],
                                                                      "p50 ≤ 50" if how != "no pool" else ""))
