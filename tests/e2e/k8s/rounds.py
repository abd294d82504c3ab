#!/usr/bin/env python3
"""Rounds by the thousand in one pod: memory and descriptors of the hub and of muxlet stay what they were.

Run by stories/link.sh; ROUNDS=n (default 3000). Figures are printed, bounds are those of the product: 1 MB, no descriptor.
"""
import http.client, json, os, ssl, subprocess, sys, time

STATE, AGENT, TOKEN, POD = (os.environ[k] for k in ("MUXD_STATE", "AGENT", "TOKEN", "POD"))
ROUNDS = int(os.environ.get("ROUNDS", "3000"))
ready = json.load(open(STATE + "/ready.json"))
NET = ready["pids"]["net"]
context = ssl.create_default_context(cafile=STATE + "/keys/tls.crt")
context.check_hostname = False
host, port = ready["https"].rsplit(":", 1)
conn = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


def a_round(i):
    body = json.dumps({"argv": ["echo", str(i)]})
    conn.request("POST", "/v1/agents/%s/rounds" % AGENT, body,
                 {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
    r = json.loads(conn.getresponse().read())
    if r.get("exit", {}).get("code") != 0 or r["stdout"]["data"] != "%d\n" % i:
        sys.exit("FAILED: round %d: %s" % (i, r))


def status(text, key):
    return int([l for l in text.splitlines() if l.startswith(key)][0].split()[1])


def hub():
    return status(open("/proc/%d/status" % NET).read(), "RssAnon"), len(os.listdir("/proc/%d/fd" % NET))


def muxlet():
    script = "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in */muxlet\\ --join*) " \
             "echo ${p#/proc/} $(grep RssAnon $p/status) $(ls $p/fd 2>/dev/null | wc -l);; esac; done"
    out = subprocess.run(["kubectl", "exec", POD, "--", "sh", "-c", script], capture_output=True, text=True, timeout=60).stdout
    rows = [l.split() for l in out.splitlines()]
    return sum(int(r[2]) for r in rows), len(rows)


for i in range(100):
    a_round(i)
time.sleep(1)
hub_before, muxlet_before = hub(), muxlet()
t0 = time.time()
for i in range(ROUNDS):
    a_round(i)
took = time.time() - t0
time.sleep(1)
hub_after, muxlet_after = hub(), muxlet()
print("  %d rounds in %.1f s; hub %d -> %d kB, %d -> %d descriptors; muxlet %d -> %d kB, %d -> %d processes" %
      (ROUNDS, took, hub_before[0], hub_after[0], hub_before[1], hub_after[1], muxlet_before[0], muxlet_after[0],
       muxlet_before[1], muxlet_after[1]))
if hub_after[1] > hub_before[1] or muxlet_after[1] > muxlet_before[1]:
    sys.exit("FAILED: descriptors or processes were left")
if muxlet_after[0] > muxlet_before[0] + 1024:
    sys.exit("FAILED: muxlet grew")
print("  ok: nothing is left of %d rounds" % ROUNDS)
