"""Starts under kill -9, asked again until they are answered: each command ran once.

    exec_once.py STATE_DIR TOKEN_FILE KILLS

Four clients start rounds, each with an exec_id of its own; a client that got no answer, or that the daemon is not there yet,
asks again with the same exec_id. Meanwhile net, the recorder or both are killed at random moments. A command adds a byte to
the file that its exec_id names, and says its exec_id. In the end, of every start that was answered:

 - its file has one byte: the command ran, and ran once; none has more. Net may have died between the record of a start and
   the word to the sandbox: such a round ends as `unknown` and has no file, and there is less than one of them a kill;
 - asked once more, with the same exec_id, it is the same round, which has ended with 0 and has the output;
 - no two answers to one exec_id named different rounds.
"""
import http.client, json, os, random, signal, ssl, sys, threading, time

state, token_file, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(token_file, encoding="ascii") as f:
    token = f.read().strip()
seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
print(f"  seed {seed}")
rnd = random.Random(seed)
context = ssl.create_default_context(cafile=os.path.join(state, "keys", "tls.crt"))
context.check_hostname = False
stop, faults, unknown, lock = threading.Event(), [], [], threading.Lock()
rounds, asked_again = {}, 0  # exec_id -> round_id
NOT_YET = (500, 502, 503, 429)  # nothing was begun, or not known whether: ask again


def fault(text):
    with lock:
        faults.append(text)
    print("FAILED:", text, flush=True)


def ready():
    with open(os.path.join(state, "ready.json"), encoding="utf-8") as f:
        return json.load(f)


class Client:
    def __init__(self):
        self.c = None

    def call(self, method, path, body=None):
        """(status, object); OSError or HTTPException where no answer came."""
        if not self.c:
            self.c = http.client.HTTPSConnection(*ready()["https"].rsplit(":", 1), context=context, timeout=30)
        try:
            self.c.request(method, path, body and json.dumps(body), {"Authorization": "Bearer " + token})
            r = self.c.getresponse()
            return r.status, json.loads(r.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            self.c.close()
            self.c = None
            raise

    def sure(self, method, path, body=None):
        """(status, object) of the first answer; a body has an exec_id."""
        end = time.monotonic() + 60
        while True:
            try:
                status, answer = self.call(method, path, body)
                if status not in NOT_YET:
                    return status, answer
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                status, answer = None, e
            if time.monotonic() > end:
                sys.exit(f"FAILED: {method} {path}: {status} {answer}")
            time.sleep(0.05)

    def start(self, exec_id):
        """Until it is answered; the round's id. None: not within a minute."""
        global asked_again
        end = time.monotonic() + 60
        body = {"command": f"printf x >>once/{exec_id}; printf %s {exec_id}", "exec_id": exec_id, "wait_ms": 2000}
        first = True
        while time.monotonic() < end:
            if not first:
                with lock:
                    asked_again += 1
                time.sleep(0.02)
            first = False
            try:
                status, answer = self.call("POST", "/v1/agents/once/rounds", body)
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                continue
            if status in (200, 201, 202):
                return answer["round_id"]
            if status not in NOT_YET:
                fault(f"{exec_id}: {status} {answer}")
                return None
        fault(f"{exec_id}: no answer within a minute")
        return None


def work(number):
    client, n = Client(), 0
    while not stop.is_set():
        exec_id = f"w{number}-{n}"
        n += 1
        got = client.start(exec_id)
        if got:
            with lock:
                rounds[exec_id] = got


def kill_one():
    """Returns when everything that was killed is there again."""
    old = ready()["pids"]
    which = rnd.choice([("net",), ("recorder",), ("net", "recorder")])
    for w in which:
        try:
            os.kill(old[w], signal.SIGKILL)
        except ProcessLookupError:
            pass
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            now = ready()["pids"]
            if all(now[w] not in (old[w], 0) for w in which):
                return
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.01)
    fault("%s did not come back" % "+".join(which))


def ended(client, exec_id):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            status, o = client.call("GET", f"/v1/rounds/{rounds[exec_id]}?wait_ms=5000")
            if status == 200 and o["state"] == "finished":
                return o
        except (OSError, http.client.HTTPException, ValueError):
            pass  # asked again
        time.sleep(0.05)
    return None


def check(exec_id, client, contents):
    again = client.start(exec_id)
    if again != rounds[exec_id]:
        return f"{exec_id} was {rounds[exec_id]} and is {again}"
    o = ended(client, exec_id)
    if not o:
        return f"{exec_id} does not end"
    if exec_id not in contents and o["exit"]["cause"] == "unknown":
        unknown.append(exec_id)
        return None
    if contents.get(exec_id) != 1:
        return f"{exec_id} ran {contents.get(exec_id, 0)} times: {json.dumps(o)[:600]}"
    if o["exit"]["code"] != 0 or o["stdout"]["data"] != exec_id:
        return f"{exec_id} ended as {json.dumps(o)[:400]}"
    return None


def counted(client):
    """exec_id -> bytes of its file."""
    status, o = client.sure("POST", "/v1/agents/once/rounds", {"command": "cd once && wc -c *", "wait_ms": 60000, "exec_id": "count"})
    if status != 200 or o["exit"]["code"] != 0:
        sys.exit(f"FAILED: the files cannot be counted: {status} {o}")
    text = o["stdout"]["data"]
    if o["stdout"].get("truncated"):
        status, whole = client.sure("GET", f"/v1/rounds/{o['round_id']}/output?stream=stdout&limit=16777216")
        text = whole["data"]
    return {n: int(size) for size, n in (line.split() for line in text.splitlines()) if n != "total"}


first = Client()
status, o = first.sure("POST", "/v1/agents/once/rounds", {"argv": ["mkdir", "once"], "wait_ms": 60000, "exec_id": "mkdir"})
if status != 200 or o["exit"]["code"] != 0:
    sys.exit(f"FAILED: {status} {o}")
workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for w in workers:
    w.start()
for _ in range(kills):
    time.sleep(rnd.uniform(0, 0.6))
    kill_one()
stop.set()
for w in workers:
    w.join()
contents = counted(first)
odd = [e for e in rounds if contents.get(e) != 1]
ids = odd + rnd.sample(sorted(set(rounds) - set(odd)), min(200, len(rounds) - len(odd)))  # all are counted; these asked for
for exec_id in ids:
    why = check(exec_id, first, contents)
    if why:
        fault(why)
if not rounds or (kills >= 4 and not asked_again):
    fault(f"{len(rounds)} starts, {asked_again} asked again: the story shows nothing")
if len(contents) + len(unknown) != len(rounds) and not faults:
    fault(f"{len(contents)} files of {len(rounds)} starts")
if len(unknown) > kills:
    fault(f"{len(unknown)} of {len(rounds)} ended as unknown")
print(f"  {kills} kills, {len(rounds)} starts, {asked_again} times asked again, {len(contents)} files of one byte each, "
      f"{len(unknown)} that ended as unknown and did not run")
sys.exit(1 if faults else 0)
