"""Starts under kill -9, asked again until they are answered: each command ran once.

    exec_once.py STATE_DIR KILLS

Four clients start rounds, each with an exec_id of its own; a client that got no answer, or that the daemon is not there yet,
asks again with the same exec_id. Meanwhile net, the recorder, the monitor or several of them are killed at random moments,
each time some start was answered; they wait for who has none for long, as an answer from the record takes a restarted recorder
seconds. A command adds a byte to the file that its exec_id names, and says its exec_id. In the end, of every start that was answered:

 - its file has one byte: the command ran, and ran once; none has more, and none has no file;
 - asked once more, with the same exec_id, it is the same round, which has ended with 0 and has the output;
 - no two answers to one exec_id named different rounds.

A start whose word to the sandbox was lost ends as `did_not_run`, and the next call with its exec_id begins another round: how
many there were is told from the audit log. None ends as `unknown`.
"""
import http.client, json, os, random, signal, ssl, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from killed_daemon import KILLED, Daemon  # noqa: E402

state, kills = sys.argv[1], int(sys.argv[2])
seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
print(f"  seed {seed}")
rnd = random.Random(seed)
stop, faults, lock = threading.Event(), [], threading.Lock()
rounds, asked_again = {}, 0  # exec_id -> round_id
asked = {n: time.monotonic() for n in range(4)}  # client -> when its start was asked for first
PATIENCE, STARVES = 120, 5  # seconds: until an answer has to have come; until the kills wait for it
NOT_YET = (500, 502, 503, 429)  # nothing was begun, or not known whether: ask again


def fault(text):
    with lock:
        faults.append(text)
    print("FAILED:", text, flush=True)


class Client:
    def __init__(self):
        self.c = None

    def call(self, method, path, body=None):
        """(status, object); OSError or HTTPException where no answer came."""
        if not self.c:
            self.c = http.client.HTTPSConnection(*daemon.door(), context=context, timeout=30)
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
        """Until it is answered; the round's id. None: not within PATIENCE."""
        global asked_again
        end, said = time.monotonic() + PATIENCE, []
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
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                said.append(repr(e))
                continue
            if status in (200, 201, 202):
                return answer["round_id"]
            said.append(f"{status} {answer['error']['code']}: {answer['error']['message']}")
            if status not in NOT_YET:
                fault(f"{exec_id}: {status} {answer}")
                return None
        fault(f"{exec_id}: no answer within {PATIENCE} s: {said[-5:]}")
        return None


def work(number):
    client, n = Client(), 0
    while not stop.is_set():
        exec_id = f"w{number}-{n}"
        n += 1
        asked[number] = time.monotonic()
        got = client.start(exec_id)
        if got:
            with lock:
                rounds[exec_id] = got
        stop.wait(0.2)  # a flood of starts would keep the recorder behind, and answers from the record with it


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


def story():
    global token, context
    context = ssl.create_default_context(cafile=os.path.join(state, "keys", "tls.crt"))
    context.check_hostname = False
    token = json.loads(daemon.muxctl("grant", "create", "--agent", "once", "--principal", "tester", "--kind", "agent", "--scopes",
                                     "rounds", "--task", "story", "--ttl", "10h", "--reason", "starts under kills", "-o", "json"))["token"]
    first = Client()
    status, o = first.sure("POST", "/v1/agents/once/rounds", {"argv": ["mkdir", "once"], "wait_ms": 60000, "exec_id": "mkdir"})
    if status != 200 or o["exit"]["code"] != 0:
        sys.exit(f"FAILED: {status} {o}")
    workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
    for w in workers:
        w.start()
    for n in range(kills):
        since = len(rounds)
        while not faults and (len(rounds) == since or time.monotonic() - min(asked.values()) > STARVES):
            time.sleep(0.005)
        time.sleep(rnd.uniform(0, 0.6))
        why = daemon.kill(rnd.choice(KILLED) if n else ("net",))  # the first cuts every client: each asks again
        if why:
            fault(why)
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
    if len(contents) != len(rounds) and not faults:
        fault(f"{len(contents)} files of {len(rounds)} starts")
    ends = daemon.audit("--event", "round.end")
    odd = [e for e in ends if e["outcome"] != "exit" and e["detail"].get("error") != "did_not_run"]
    for e in odd[:10]:
        fault(f"a round ended as {json.dumps(e)[:400]}")
    print(f"  {kills} kills, {len(rounds)} starts, {asked_again} times asked again, {len(contents)} files of one byte each, "
          f"{sum(e['outcome'] != 'exit' for e in ends)} starts that did not run and were begun again")


daemon = Daemon(state)
signal.signal(signal.SIGTERM, lambda *_: sys.exit("FAILED: told to end"))
daemon.start()
try:
    story()
finally:
    daemon.end()
sys.exit(1 if faults else 0)
