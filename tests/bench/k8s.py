#!/usr/bin/env python3
"""Speed into pods, through the link, against kubectl exec for the same argv in the same run, on a real cluster.

Needs a cluster that is up: K8S_HOME (make k8s-up names it). Prints a table and writes build/bench-k8s.json.
Sizes: MIB (default 256), ROUNDS (500), CROWD (100 at once through muxd; kubectl gets 20: more take minutes), RESUMES (7).
Resumes are from a VolumeSnapshot of the tests' own storage (tests/e2e/k8s/storage.py): a 100 MiB volume with 20 MB in it.
"""
import concurrent.futures, http.client, json, os, pty, select, ssl, statistics, subprocess, sys, tempfile, threading, time, shutil

BUILD = os.environ.get("BUILD", "build")
MIB, ROUNDS, CROWD, RESUMES = (int(os.environ.get(k, v)) for k, v in (("MIB", "256"), ("ROUNDS", "500"), ("CROWD", "100"), ("RESUMES", "7")))
HOME = os.environ["K8S_HOME"]
CACHE = subprocess.run(["bash", "-c", ". tests/e2e/k8s/lib.sh && echo $K8S_CACHE"], capture_output=True, text=True).stdout.strip()
NS, AGENT = "bench-%d" % os.getpid(), "bench"
tmp = tempfile.mkdtemp(prefix="muxd-bench.")
os.chmod(tmp, 0o711)
state = tmp + "/state"
env = dict(os.environ, KUBECONFIG=tmp + "/kubeconfig", NO_PROXY="*", no_proxy="*")
KUBECTL = os.environ.get("KUBECTL") or next(
    (d + "/kubectl" for d in [CACHE + "/bin", *os.environ["PATH"].split(":")]
     if os.access(d + "/kubectl", os.X_OK)), "kubectl")


def note(text):
    print("# " + text, file=sys.stderr, flush=True)


def kubectl(*args, **more):
    return subprocess.run([KUBECTL, "-n", NS, *args], env=env, check=True, capture_output=True, **more).stdout


def start_muxd():
    """Agents have claims; the pod of the rounds has an emptyDir's speed all the same: nothing is written there."""
    os.mkdir(state, 0o711)
    subprocess.run(["tests/e2e/k8s/cluster.sh", "storage", "start"], check=True, capture_output=True)
    with open(tmp + "/muxd.yaml", "w") as f:
        f.write("sandbox: {backend: kubernetes, workspace_size: 100MiB}\n"
                "kubernetes: {kubeconfig: %s, namespace: %s, image: 'localhost/busybox:1', pull_policy: Never, request_cpu: 10m, request_ephemeral: 1Mi, "
                "request_memory: 32Mi, limit_memory: 1Gi, workspace: claim, storage_class: loop}\n"
                "sessions: {max: 2000, max_per_agent: 1000}\n" % (tmp + "/kubeconfig", NS))
    p = subprocess.Popen([BUILD + "/muxd", "serve", "--state", state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--config",
                          tmp + "/muxd.yaml", "--end-sandboxes"], stderr=open(tmp + "/muxd.log", "w"))
    for _ in range(200):
        if os.path.exists(state + "/ready.json"):
            return p, json.load(open(state + "/ready.json"))
        time.sleep(0.1)
    sys.exit("muxd did not start: " + open(tmp + "/muxd.log").read()[-2000:])


def muxctl(*args):
    return [BUILD + "/muxctl", "--state", state, *args]


local = threading.local()


def post(body):
    if not hasattr(local, "conn"):
        host, port = ready["https"].rsplit(":", 1)
        local.conn = http.client.HTTPSConnection(host, int(port), context=tls)
    local.conn.request("POST", "/v1/agents/%s/rounds" % AGENT, json.dumps(body),
                       {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    return json.loads(local.conn.getresponse().read())


def rounds():
    out = {"muxd round": [], "kubectl exec": []}
    for i in range(ROUNDS):
        t0 = time.perf_counter()
        if post({"argv": ["true"], "wait_ms": 20000})["exit"]["code"] != 0:
            sys.exit("a round failed")
        out["muxd round"].append((time.perf_counter() - t0) * 1e3)
        if i % (ROUNDS // 20) == 0:
            t0 = time.perf_counter()
            kubectl("exec", POD, "--", "true")
            out["kubectl exec"].append((time.perf_counter() - t0) * 1e3)
    return {k: {"p50": statistics.median(v), "p99": sorted(v)[int(len(v) * 0.99)]} for k, v in out.items()}


def drained(argv):
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
    t0, n = None, 0
    while True:
        b = os.read(p.stdout.fileno(), 1 << 18)
        if not b:
            break
        t0 = t0 or time.perf_counter()
        n += len(b)
    seconds = time.perf_counter() - t0
    p.wait()
    if n != MIB << 20:
        sys.exit("%s: %d bytes of %d" % (argv[0], n, MIB << 20))
    return n / seconds / 1e6


def bulk():
    out = {"muxd": [], "kubectl exec": []}
    for _ in range(3):
        out["kubectl exec"].append(drained([KUBECTL, "-n", NS, "exec", POD, "--", "head", "-c", str(MIB << 20), "/dev/zero"]))
        out["muxd"].append(drained(muxctl("exec", AGENT, "--task", "bench", "--", "head", "-c", str(MIB << 20), "/dev/zero")))
        note("bulk: %s" % {k: round(v[-1]) for k, v in out.items()})
    return {k: statistics.median(v) for k, v in out.items()}


def crowd_rounds():
    """All at once, each over a connection of its own that is there already."""
    with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
        gate = threading.Barrier(CROWD)

        def one(_):
            post({"argv": ["true"], "wait_ms": 20000})
            gate.wait()
            t0 = time.perf_counter()
            code = post({"argv": ["sh", "-c", "echo here"], "wait_ms": 60000})["exit"]["code"]
            return t0, time.perf_counter(), code

        got = list(pool.map(one, range(CROWD)))
    if any(g[2] != 0 for g in got):
        sys.exit("a round of the crowd failed")
    return max(g[1] for g in got) - min(g[0] for g in got)


def crowd_terminals(argv, n):
    """From the first client's start until every one has shown what its program printed. The clients' own start counts."""
    clients, waiting = [], {}
    t0 = time.perf_counter()
    for _ in range(n):
        pid, fd = pty.fork()
        if pid == 0:
            os.execvpe(argv[0], argv, env)
        clients.append((pid, fd))
        waiting[fd] = b""
    while waiting:
        for fd in select.select(list(waiting), [], [], 120)[0] or sys.exit("%d of %d terminals never showed" % (len(waiting), n)):
            waiting[fd] += os.read(fd, 4096)
            if b"HERE" in waiting[fd]:
                del waiting[fd]
    seconds = time.perf_counter() - t0
    for pid, fd in clients:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(fd)
    return seconds


def resumes():
    """From asleep to the end of the first round, against a pod without any volume that kubectl makes and waits for."""
    out = {"muxd": [], "stop": [], "kubectl run": []}
    do = lambda *args: subprocess.run(muxctl(*args), check=True, capture_output=True, env=env)
    do("exec", "-n", "asleep", "--task", "bench", "--", "sh", "-c", "head -c 20000000 /dev/urandom >data; sync")
    for i in range(RESUMES):
        t0 = time.perf_counter()
        do("sandbox", "stop", "asleep", "--reason", "bench")
        out["stop"].append(time.perf_counter() - t0)
        t0 = time.perf_counter()
        do("exec", "-n", "asleep", "--task", "bench", "--", "test", "-s", "data")
        out["muxd"].append(time.perf_counter() - t0)
        t0 = time.perf_counter()
        kubectl("run", "peer-%d" % i, "--image=localhost/busybox:1", "--image-pull-policy=Never", "--restart=Never", "--command", "--", "sleep", "1000")
        kubectl("wait", "pod", "peer-%d" % i, "--for=condition=Ready", "--timeout=60s")
        out["kubectl run"].append(time.perf_counter() - t0)
        kubectl("delete", "pod", "peer-%d" % i, "--grace-period=0", "--force")
        note("resume: %s" % {k: round(v[-1], 2) for k, v in out.items()})
    return {k: statistics.median(v) for k, v in out.items()}


def row(what, value, peer, ratio, goal):
    print("| %-46s | %-16s | %-28s | %-6s | %-8s |" % (what, value, peer, ratio, goal))


def report(r):
    m, k, b = r["rounds"]["muxd round"], r["rounds"]["kubectl exec"], r["bulk"]
    row("into a pod", "muxd", "peer", "ratio", "goal")
    row("-" * 46, "-" * 16, "-" * 28, "-" * 6, "-" * 8)
    row("a round of true, warm pod, p50", "%.2f ms" % m["p50"], "kubectl exec %.0f ms" % k["p50"], "%.3f" % (m["p50"] / k["p50"]), "≤ 2 ms")
    row("a round of true, warm pod, p99", "%.2f ms" % m["p99"], "kubectl exec %.0f ms" % k["p99"], "%.3f" % (m["p99"] / k["p99"]), "")
    row("bulk output", "%.0f MB/s" % b["muxd"], "kubectl exec %.0f MB/s" % b["kubectl exec"], "%.2f" % (b["muxd"] / b["kubectl exec"]), "≥ 1.5")
    row("%d rounds at once" % CROWD, "%.2f s" % r["crowd_rounds"], "", "", "≤ 1 s")
    row("%d terminals at once (muxctl exec -it)" % CROWD, "%.2f s" % r["crowd_terminals"],
        "20 of kubectl exec -it: %.1f s" % r["crowd_kubectl_20"], "", "≤ 1 s")
    w = r["resumes"]
    row("asleep to the end of the first round, p50", "%.2f s" % w["muxd"], "kubectl run + wait %.2f s" % w["kubectl run"],
        "%.2f" % (w["muxd"] / w["kubectl run"]), "")
    row("stop with a snapshot, p50", "%.2f s" % w["stop"], "", "", "")


muxd = None
try:
    shutil.copy(HOME + "/admin.kubeconfig", tmp + "/kubeconfig")
    subprocess.run([KUBECTL, "create", "namespace", NS], env=env, check=True, capture_output=True)
    muxd, ready = start_muxd()
    tls = ssl.create_default_context(cafile=state + "/keys/tls.crt")
    p = subprocess.run(muxctl("grant", "create", "--agent", AGENT, "--principal", "bench", "--kind", "staff", "--scopes",
                              "terminal,rounds,observe,drive,replay", "--task", "bench", "--ttl", "3h", "--reason", "bench", "-o", "json"),
                       capture_output=True, check=True)
    token = json.loads(p.stdout)["token"]
    first = post({"argv": ["true"], "wait_ms": 60000})
    if (first.get("exit") or {}).get("code") != 0:
        sys.exit("no first round: %s" % first)
    POD = "muxd-" + AGENT
    results = {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "mib": MIB}
    results["rounds"] = rounds()
    note("rounds: %s" % results["rounds"])
    results["bulk"] = bulk()
    results["crowd_rounds"] = crowd_rounds()
    note("crowd of rounds: %.2f s" % results["crowd_rounds"])
    show = ["sh", "-c", "echo HE''RE; exec sleep 600"]
    results["crowd_terminals"] = crowd_terminals(muxctl("exec", "-it", AGENT, "--task", "bench", "--", *show), CROWD)
    note("crowd of terminals: %.2f s" % results["crowd_terminals"])
    results["crowd_kubectl_20"] = crowd_terminals([KUBECTL, "-n", NS, "exec", "-it", POD, "--", *show], 20)
    results["resumes"] = resumes()
    with open("build/bench-k8s.json", "w") as f:
        json.dump(results, f, indent=1)
    report(results)
finally:
    if muxd:
        subprocess.run(muxctl("shutdown", "--sandboxes"), capture_output=True)
        muxd.terminate()
        muxd.wait()
    subprocess.run([KUBECTL, "delete", "namespace", NS, "--wait=false"], env=env, capture_output=True)
    shutil.rmtree(tmp, ignore_errors=True)
