#!/usr/bin/python3
"""Lifecycle under kill -9, in the cluster: the story of tests/integration/lifecycle_kill.py with pods, claims and VolumeSnapshots, and
the API server among those that are killed. What is asked of the cluster at rest: one pod for each agent that runs and none for any
other, one claim at the most, no copy that was not finished, no VolumeSnapshot that muxd does not know.

The end of the daemon leaves pods as they are, so nothing is asked of them then.

lifecycle_kill.py STATE NAMESPACE KUBECONFIG; KILLS, AGENTS, SEED, CHECK, GAP, SAMPLE as there; AT_END=sample: SAMPLE snapshots are looked
into at the end, too, instead of all; K8S_HOME, K8S_API."""
import http.client
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../integration"))
for name, value in (("GAP", "6"), ("CHECK", "10"), ("SAMPLE", "10")):
    os.environ.setdefault(name, value)
import lifecycle_kill as story  # noqa: E402
from storage import CORE, SNAP, Api, meta  # noqa: E402

STATE, NS, KUBECONFIG = sys.argv[1:4]
# A wipe waits about a minute for the cluster's snapshot controllers, which each kill of the API server sets back. The story asks again.
story.EXPLAINED_OF.add(("wipe", "timeout"))
api = Api()
CONF = f"""
log: {{level: info}}
sandbox: {{backend: kubernetes, workspace_size: 24MiB}}
kubernetes:
  kubeconfig: {KUBECONFIG}
  namespace: {NS}
  image: localhost/busybox:1
  pull_policy: Never
  request_cpu: 5m
  request_memory: 16Mi
  request_ephemeral: 1Mi
  limit_memory: 64Mi
  workspace: claim
  storage_class: loop
pool: {{size: 3, fill: 2}}
lifecycle: {{idle_ttl: 30s, idle_warning: 0s, keep_snapshots: 100000, keep_age: 0s, start_timeout: 180s, snapshot_timeout: 120s}}
"""


def items(path):
    """Of an API server that may have been killed since it was last asked."""
    end = time.time() + 60
    while True:
        try:
            return api.items(path)
        except (OSError, http.client.HTTPException):
            if time.time() > end:
                raise
            time.sleep(0.2)


def ours(path, role):
    return [o for o in items(f"{path}?labelSelector=muxd.dev/role%3D{role}") if not meta(o).get("deletionTimestamp")]


def of(o):
    return meta(o)["annotations"]["muxd.dev/agent"]


def pods():
    out = {}
    if story.daemon.p is None or story.daemon.p.poll() is not None:
        return out
    for o in ours(f"{CORE}/namespaces/{NS}/pods", "sandbox"):
        out.setdefault(of(o), []).append(meta(o)["uid"])
    return out


def left_over():
    wrong, claims = [], {}
    for o in ours(f"{CORE}/namespaces/{NS}/persistentvolumeclaims", "sandbox"):
        claims.setdefault(of(o), []).append(meta(o)["name"])
    wrong += [f"{agent} has the claims {names}" for agent, names in claims.items() if len(names) > 1]
    wrong += [meta(o)["name"] for o in ours(f"{CORE}/namespaces/{NS}/pods", "binder")]
    known, client = set(), story.Client()
    for row in client.sure("GET", "/v1/agents?limit=1000")[1].get("agents", []):
        _, o = client.sure("GET", f"/v1/agents/{row['agent']}/snapshots")
        known |= {x["id"] for x in o.get("snapshots", [])}
    client.close()
    wrong += [f"VolumeSnapshot {meta(o)['name']} of {of(o)} is unknown" for o in ours(f"{SNAP}/namespaces/{NS}/volumesnapshots", "snapshot")
              if meta(o)["annotations"]["muxd.dev/snapshot"] not in known]
    return wrong


def cluster(*words):
    subprocess.run([os.path.join(HERE, "cluster.sh"), *words], check=True, capture_output=True, timeout=300)


moments = story.random.Random(f"{story.SEED}/apiserver")


def kill(daemon, which, kill_part=story.Daemon.kill):
    """Who is the recorder there is the API server here, for a moment or two."""
    if "recorder" in which:
        cluster("apiserver", "stop")
        story.count("kill apiserver")
        if "net" in which:
            kill_part(daemon, "net")
        time.sleep(moments.random() * 3)
        cluster("apiserver", "start")
        return
    kill_part(daemon, which)


# What a caller hears while the API server is away for longer than muxd waits, and of a pool that cannot keep up with one node: said by
# name, and nothing lost. link_lost: the exec by which a new sandbox is reached broke off.
AWAY = ("k8s_unreachable", "link_lost", "k8s_tls_failed", "k8s_busy", "no sandbox of the pool became ready in time")


def fault(text, plain=story.fault):
    for code in AWAY:
        if f" {code}" in text and "Traceback" not in text and "is in error" not in text:
            story.count(f"heard {code.split()[0] if code[0] != 'n' else 'pool is late'}")
            return
    plain(text)


def check_all(agents, users, everything, rng, check=story.check_all):
    check(agents, users, everything and os.environ.get("AT_END") != "sample", rng)


story.check_all = check_all
story.fault = fault
story.processes = story.loops = pods
story.half_made = left_over
story.Daemon.kill = kill
with open(STATE + "/muxd.yaml", "w", encoding="ascii") as f:
    f.write(CONF)
try:
    RC = story.main()
finally:
    if story.daemon.p and story.daemon.p.poll() is None:
        subprocess.run([story.MUXCTL, "--state", STATE, "shutdown", "--sandboxes"], capture_output=True, timeout=120)
sys.exit(RC)
