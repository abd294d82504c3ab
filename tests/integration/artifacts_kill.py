"""Puts of artifacts under kill -9: each is there whole, or not at all, and the directory holds what the list names.

    artifacts_kill.py STATE_DIR TOKEN_FILE KILLS

One thread puts, over and over, contents of its own under few names; the net process is killed at a random moment of that.
After each kill every name must hold the last content that was acknowledged or one that was under way since; none that was
acknowledged may be gone; each file's digest is its name, and there is none that no artifact has.
"""
import hashlib, json, os, random, signal, ssl, sys, threading, time, http.client

state, token_file, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
token = open(token_file).read()
seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
rnd = random.Random(seed)
print(f"  seed {seed}")
context = ssl.create_default_context(cafile=os.path.join(state, "keys", "tls.crt"))
context.check_hostname = False
NAMES = ["a", "b", "c"]
acked, maybe = {}, {n: set() for n in NAMES}
puts, wrong = 0, []  # acknowledged ones; what the putting thread found: in there sys.exit() would end that thread alone


def ready():
    return json.load(open(os.path.join(state, "ready.json")))


def call(method, path, body=None, timeout=20):
    c = http.client.HTTPSConnection(*ready()["https"].rsplit(":", 1), context=context, timeout=timeout)
    try:
        c.request(method, "/v1/tasks/kills/artifacts" + path, body, {"Authorization": "Bearer " + token})
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def fail(text):
    print("FAILED:", text)
    sys.exit(1)


def put_until_killed(stop):
    global puts
    while not stop.is_set():
        name = rnd.choice(NAMES)
        body = os.urandom(rnd.choice([0, 10, 5000, 300000, 900000]))
        digest = hashlib.sha256(body).hexdigest()
        maybe[name].add(digest)
        try:
            status, answer = call("PUT", "/" + name, body)
        except OSError:
            return
        except http.client.HTTPException:
            return
        if status in (200, 201):
            acked[name] = digest
            maybe[name] = {digest}
            puts += 1
        elif status not in (500, 502, 503):
            wrong.append(f"a put was answered {status} {answer[:300]}")
            return


def wait_back(old):
    end = time.time() + 60
    while time.time() < end:
        try:
            if ready()["pids"]["net"] != old and call("GET", "")[0] == 200:
                return
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    fail("the daemon did not come back")


def look():
    listed = {a["name"]: a for a in json.loads(call("GET", "")[1])["artifacts"]}
    for name in NAMES:
        if name not in listed:
            if name in acked:
                fail(f"{name} was acknowledged and is gone")
            continue
        status, body = call("GET", "/" + name)
        digest = hashlib.sha256(body).hexdigest()
        if status != 200 or digest != listed[name]["sha256"] or len(body) != listed[name]["size"]:
            fail(f"{name}: {status}, {len(body)} bytes with {digest}, listed {listed[name]}")
        if digest not in maybe[name]:
            fail(f"{name} has a content that was replaced: {digest}")
        acked[name] = digest
        maybe[name] = {digest}
    return {a["sha256"] for a in listed.values()}


def look_at_files(wanted):
    directory = os.path.join(state, "control", "artifacts")
    found = {}
    for file in os.listdir(directory):
        digest = hashlib.sha256(open(os.path.join(directory, file), "rb").read()).hexdigest()
        if file.split(".")[0] != digest:
            fail(f"a file is not what its name says: {file}")
        found[digest] = found.get(digest, 0) + 1
    if wanted != set(found) or any(n > 1 for n in found.values()):
        fail(f"artifacts have {sorted(wanted)}, and the files are {found}")


for i in range(kills):
    net = ready()["pids"]["net"]
    stop = threading.Event()
    putter = threading.Thread(target=put_until_killed, args=(stop,))
    putter.start()
    time.sleep(rnd.uniform(0.02, 0.6))
    end = time.time() + 20
    while i == kills - 1 and not puts and not wrong and time.time() < end:  # a slow machine; some have to come through
        time.sleep(0.02)
    os.kill(net, signal.SIGKILL)
    stop.set()
    putter.join(60)
    if wrong or putter.is_alive():
        fail(wrong[0] if wrong else "a put did not end within a minute of the kill")
    wait_back(net)
    look_at_files(look())
if not puts or not acked:
    fail(f"no put came through beside {kills} kills")
print(f"  ok: {kills} kills, {puts} puts: every artifact whole or absent, {len(acked)} names, no file left over")
