#!/usr/bin/env python3
"""From the call to the first prompt: a sandbox that runs, one of the pool, one that sleeps in a snapshot of 100 MB.

The clock starts before `POST /v1/agents/A/resume` (or the lease) goes out on a TLS connection that is there already, and stops
with the first byte of a shell's prompt on a WebSocket of the browser door, opened on another one. As root, beside nothing else.

resume.py [RUNS]; RESUME_DIR: on another file system than /tmp.
"""
import base64, http.client, json, os, ssl, subprocess, sys, tempfile, time

BUILD = os.environ.get("BUILD", os.path.dirname(os.path.abspath(__file__)) + "/../../build")
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
top = tempfile.mkdtemp(prefix="muxd-resume.", dir=os.environ.get("RESUME_DIR", "/tmp"))
os.chmod(top, 0o711)
state = top + "/state"
os.mkdir(state, 0o711)
with open(top + "/muxd.yaml", "w") as f:
    f.write("sandbox: {workspace_size: 1GiB}\npool: {size: 4, fill: 2}\nlifecycle: {idle_ttl: 0s, keep_snapshots: 3}\nlog: {level: warn}\n")
muxd = subprocess.Popen([BUILD + "/muxd", "serve", "--state", state, "--config", top + "/muxd.yaml", "--https", "127.0.0.1:0", "--ssh",
                         "127.0.0.1:0"], stderr=open(top + "/log", "w"))


def ctl(*args):
    return subprocess.run([BUILD + "/muxctl", "--state", state, *args], capture_output=True, timeout=120, check=True).stdout


while not os.path.exists(state + "/ready.json"):
    time.sleep(0.05)
    if muxd.poll() is not None:
        sys.exit("muxd did not start: " + open(top + "/log").read()[-2000:])
TOKEN = json.loads(ctl("grant", "create", "--agent", "*", "--principal", "bench", "--kind", "service", "--scopes",
                       "terminal,rounds,lifecycle,admin,drive", "--task", "bench", "--ttl", "3h", "--reason", "bench", "-o", "json"))["token"]
HOST, PORT = json.load(open(state + "/ready.json"))["https"].rsplit(":", 1)
CTX = ssl.create_default_context(cafile=state + "/keys/tls.crt")
CTX.check_hostname = False


def dial():
    c = http.client.HTTPSConnection(HOST, int(PORT), timeout=60, context=CTX)
    c.connect()
    return c


api = dial()


def call(method, path, body=None):
    api.request(method, path, json.dumps(body) if body is not None else None,
                {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
    r = api.getresponse()
    o = json.loads(r.read() or b"{}")
    if r.status >= 300:
        sys.exit("%s %s: %d %s" % (method, path, r.status, o))
    return o


def prompt(c, agent):
    """Until a frame of the terminal's output holds a prompt."""
    s = c.sock
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall(("GET /v1/agents/%s/terminal?cols=80&rows=24 HTTP/1.1\r\nHost: %s:%s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: muxd.v1\r\nAuthorization: Bearer %s\r\n\r\n" %
               (agent, HOST, PORT, key, TOKEN)).encode())
    got = b""
    while b"$ " not in got:
        b = s.recv(65536)
        if not b or (got + b).startswith(b"HTTP/1.1 ") and not (got + b).startswith(b"HTTP/1.1 101"):
            sys.exit("no terminal: %r" % (got + b)[-600:])
        got += b
    return time.perf_counter()


def once(first, agent):
    """Milliseconds from the call until the prompt."""
    door = dial()
    t0 = time.perf_counter()
    agent = first() or agent
    t1 = prompt(door, agent)
    door.close()
    return (t1 - t0) * 1e3


def tell(what, times):
    times.sort()
    print("| resume to the first prompt byte, %s, p50 of %d | %.1f ms | worst %.1f ms | | |" % (what, len(times), times[len(times) // 2], times[-1]))


def round_(agent, script):
    o = call("POST", "/v1/agents/%s/rounds" % agent, {"argv": ["sh", "-c", script], "wait_ms": 60000})
    if o["state"] != "finished" or o["exit"]["code"] != 0:
        sys.exit("round: %s" % o)


def full_pool():
    while call("GET", "/sandboxes/pool")["ready"] < 4:
        time.sleep(0.05)


def lease(n):
    return call("POST", "/sandboxes/leases", {"userId": "bench", "workflowId": "none", "requestId": str(n)})


try:
    round_("demo", "head -c 70M /dev/urandom > a; mkdir d; for i in $(seq 3000); do head -c 10240 a > d/$i; done; sync")
    wake = lambda: call("POST", "/v1/agents/demo/resume", {}) and None
    tell("one that runs", [once(wake, "demo") for _ in range(RUNS)])
    times = []
    for _ in range(RUNS):
        call("POST", "/v1/agents/demo/stop", {"reason": "bench"})
        times.append(once(wake, "demo"))
    how = call("GET", "/v1/agents/demo/snapshots")["snapshots"][0]
    tell("from a snapshot of %d MB (%s)" % (how["size"] // 1000000, how["how"]), times)
    call("POST", "/sandboxes/workflows", {"name": "none", "owner": "bench", "version": 1, "steps": [{"shell": "true"}]})
    times = []
    for n in range(RUNS):
        full_pool()
        times.append(once(lambda: lease(n)["sandboxId"], None))
        call("DELETE", "/sandboxes/leases/" + lease(n)["leaseId"])
    tell("from the pool", times)
finally:
    subprocess.run([BUILD + "/muxctl", "--state", state, "shutdown", "--sandboxes"], capture_output=True, timeout=120)
    muxd.wait(60)
    subprocess.run(["rm", "-rf", top])
