#!/usr/bin/env python3
"""stop_race.py ADDRESS CERT AGENT TOKEN_FILE: rounds, one after the other, each of which says what the one before wrote, and
stops and snapshots beside them. A round that runs may be ended by a stop, one that comes meanwhile waits for it; what was answered
stays written. A snapshot holds up nobody for long: muxlet begins programs while others are made to stand still."""
import http.client, json, os, random, ssl, sys, threading, time

address, cert, agent, token_file = sys.argv[1:5]
TOKEN = open(token_file).read().strip()
STOPS = int(os.environ.get("STOPS", "20"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
rng = random.Random(SEED)
stops, snapshots, over, wrong = 0, 0, threading.Event(), []


class Client:
    def __init__(self):
        host, port = address.rsplit(":", 1)
        ctx = ssl.create_default_context(cafile=cert)
        ctx.check_hostname = False
        self.c = http.client.HTTPSConnection(host, int(port), context=ctx, timeout=120)

    def post(self, path, body):
        self.c.request("POST", path, json.dumps(body), {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
        r = self.c.getresponse()
        return r.status, json.loads(r.read())


def stopper():
    global stops, snapshots
    c = Client()
    try:
        while stops < STOPS:
            time.sleep(rng.random() * 0.3)
            status, o = c.post("/v1/agents/%s/stop" % agent, {"reason": "race"})
            if status != 200:
                wrong.append("a stop gave %s %s" % (status, o))
                return
            stops += 1
            for _ in range(3):
                time.sleep(rng.random() * 0.1)
                status, o = c.post("/v1/agents/%s/snapshots" % agent, {"reason": "race"})
                if status not in (200, 201):
                    wrong.append("a snapshot gave %s %s" % (status, o))
                    return
                snapshots += 1
    except Exception as e:  # told by main(): whoever dies in a thread fails nothing
        wrong.append(repr(e))
    finally:
        over.set()


def main():
    c, written, killed, n = Client(), {""}, 0, 0
    print("  seed %d" % SEED)
    t = None
    while not over.is_set():
        n += 1
        status, o = c.post("/v1/agents/%s/rounds" % agent, {
            "argv": ["sh", "-c", "cat n 2>/dev/null; echo %d >n.new; mv n.new n" % n], "task_id": "story", "wait_ms": 60000})
        cause = o["exit"]["cause"] if status == 200 else o["error"]["code"]
        if cause != "exit":
            if cause in ("killed", "not_started", "already_ended"):  # by the stop; whether it wrote is not known
                killed += 1
                written = written | {str(n)}
                continue
            sys.exit("FAILED: round %d: %s %s" % (n, status, o))
        found = o["stdout"]["data"].strip()
        if found not in written:
            sys.exit("FAILED: round %d found %r, what was answered was one of %s; %d stops" % (n, found, written, stops))
        written = {str(n)}
        if not t:
            t = threading.Thread(target=stopper, daemon=True)
            t.start()
        time.sleep(rng.random() * 0.05)
    if wrong or stops < STOPS:
        sys.exit("FAILED: the stops ended early, after %d: %s" % (stops, wrong))
    print("  ok: %d rounds beside %d stops and %d snapshots, %d of them ended by a stop: nothing written is lost" %
          (n, stops, snapshots, killed))


main()
