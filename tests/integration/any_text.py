#!/usr/bin/python3
"""Random UTF-8 of all lengths into every text field of every operation of docs/openapi.yaml: no call hangs, none fails for
what the text is, and every session that it opened ends.

A field is found in the document: path, query and body, however deep, so a new one is covered by itself. Each call
is one operation with random text in one of its fields and what makes sense in the others.

Environment: MUXD_URL, MUXD_CACERT, MUXD_TOKEN (staff, every agent), MUXD_SERVICE_TOKEN (a
service, every agent, no task); CALLS (240), SEED, HANGS_AFTER (60 s).
Prints what it did; exit code 1 with a list of faults.
"""
import http.client
import json
import os
import random
import socket
import ssl
import sys
import time
import urllib.parse

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import websocket  # noqa: E402

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "openapi.yaml")
ENDLESS = ("text/event-stream", "application/x-ndjson")  # answers that go on for as long as somebody listens
HANGS_AFTER = int(os.environ.get("HANGS_AFTER", "60"))  # s; what starts a sandbox may take long on a busy machine
NAMES_A_TASK = ("startRound", "getFile", "putFile", "writeRoundStdin", "signalRound", "getRound", "getRoundOutput")  # the service's grant has none
AGENTS = ["text", "other"]
LETTERS = "éßñЖ€漢あ\u0301😀𝔘aZ 9"
ODD = "\u202e\u200b\ufeff\uffff\U0010ffff\x01\x1b\n\"\\%$'"
# Lengths at which something was cut, in bytes, and around them.
EDGES = [15, 40, 60, 64, 100, 119, 120, 127, 128, 150, 159, 160, 189, 190, 199, 200, 249, 250, 255, 256, 390, 400, 1000, 4096]


def some_text(rng):
    """Any length; most of it what people may write, now and then what nobody should."""
    kind = rng.random()
    if kind < 0.1:
        return ""
    letters = LETTERS + ODD if kind < 0.2 else LETTERS
    if kind > 0.6:  # one wide letter behind 0 to 3 narrow ones, so that a cut comes at each of its bytes
        letter = rng.choice("é€😀")
        size = rng.choice(EDGES if kind > 0.8 else EDGES[:-6]) + rng.randint(-4, 4)
        return "abc"[: rng.randint(0, 3)] + letter * max(1, size // len(letter.encode()))
    size = rng.choice([rng.randint(1, 12), rng.randint(1, 120), rng.randint(1, 256), rng.choice(EDGES), rng.randint(1, 3000)])
    text = ""
    while len(text.encode()) < size:
        text += rng.choice(letters)
    return text


class Document:
    def __init__(self):
        with open(DOCUMENT, encoding="utf-8") as f:
            self.root = yaml.safe_load(f)

    def resolve(self, node):
        while "$ref" in node:
            target = self.root
            for part in node["$ref"].lstrip("#/").split("/"):
                target = target[part]
            node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
        return node

    def texts(self, schema, path=()):
        """The paths of all strings in a body; "*" is any element or member, "*key" its name."""
        schema = self.resolve(schema)
        for part in ("allOf", "anyOf", "oneOf"):
            for one in schema.get(part, []):
                yield from self.texts(one, path)
        kinds = schema.get("type")
        if "string" in (kinds if isinstance(kinds, list) else [kinds]):
            yield path
        for name, one in schema.get("properties", {}).items():
            yield from self.texts(one, path + (name,))
        if "items" in schema:
            yield from self.texts(schema["items"], path + ("*",))
        if isinstance(schema.get("additionalProperties"), dict):
            yield path + ("*key",)
            yield from self.texts(schema["additionalProperties"], path + ("*",))

    def operations(self):
        for path, item in self.root["paths"].items():
            for method, op in item.items():
                if method != "parameters":
                    yield path, method.upper(), op, item.get("parameters", []) + op.get("parameters", [])

    def fields(self):
        """(path, method, operationId, where, field): every place for a text."""
        for path, method, op, parameters in self.operations():
            name = op["operationId"]
            for p in map(self.resolve, parameters):
                if p["in"] in ("path", "query", "header"):
                    yield path, method, name, p["in"], p["name"]
            content = self.resolve(op.get("requestBody", {})).get("content", {})
            for kind, body in content.items():
                if "json" not in kind:
                    yield path, method, name, "bytes", kind
                    continue
                seen = set(self.texts(body.get("schema", {})))
                for field in sorted(seen) or [()]:
                    yield path, method, name, "body", field
            if not parameters and not content:
                yield path, method, name, "query", "any"


class Caller:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.doc = Document()
        url = urllib.parse.urlsplit(os.environ["MUXD_URL"])
        self.host = url.hostname, url.port
        self.tls = ssl.create_default_context(cafile=os.environ["MUXD_CACERT"])
        self.tls.check_hostname = False
        self.conn = None
        self.faults = []
        self.codes = {}
        self.count = 0
        self.slowest = (0, "")
        self.lease = self.snapshot = "01a00000-0000-7000-8000-000000000000"
        self.round = self.session = self.lease

    def send(self, method, path, body, token):
        if not self.conn:
            self.conn = http.client.HTTPSConnection(*self.host, timeout=HANGS_AFTER, context=self.tls)
        self.conn.request(method, path, body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        answer = self.conn.getresponse()
        endless = answer.headers.get_content_type() in ENDLESS
        data = b"" if endless else answer.read()
        if answer.will_close or endless:
            self.conn.close()
            self.conn = None
        return answer.status, answer.headers, data

    def call(self, name, method, path, body=None, service=False):
        """One call; what is wrong with its answer is noted. Gives (status, JSON or None)."""
        token = os.environ["MUXD_SERVICE_TOKEN" if service else "MUXD_TOKEN"]
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body, ensure_ascii=self.rng.random() < 0.5).encode()
        said = f"{name}: {method} {path[:300]} {data[:300] if data else ''}"
        began = time.monotonic()
        self.count += 1
        for last in (False, True):
            try:
                status, headers, content = self.send(method, path, data, token)
                break
            except (http.client.RemoteDisconnected, ConnectionError, http.client.CannotSendRequest) as e:
                self.conn = None  # a connection that was kept may have been closed by now
                if last:
                    self.faults.append(f"{said}: no answer: {e!r}")
                    return 0, None
            except OSError as e:
                self.conn = None
                self.faults.append(f"{said}: hangs, no answer within {HANGS_AFTER} s: {e!r}")
                return 0, None
        self.slowest = max(self.slowest, (time.monotonic() - began, said[:100]))
        return status, self.judge(said, status, headers, content)

    def judge(self, said, status, headers, content):
        answer = None
        if headers.get_content_type() == "application/json":
            try:
                answer = json.loads(content.decode())
            except ValueError as e:
                self.faults.append(f"{said}: {status}, and its body is no JSON: {e}: {content[:100]}")
        code = answer.get("error", {}).get("code", "") if isinstance(answer, dict) and isinstance(answer.get("error"), dict) else ""
        self.codes[f"{status} {code}".strip()] = self.codes.get(f"{status} {code}".strip(), 0) + 1
        if status == 500 or code in ("out_of_memory", "internal"):
            self.faults.append(f"{said}: {status} {code}: {content[:200]}")
        return answer

    # ---- one call with a text in one field

    def body_of(self, name):
        """What makes sense in the other fields."""
        unique = f"u{self.count}"
        bodies = {
            "createGrant": {"target": "text", "reason": "any text"},
            "startRound": {"task_id": "T", "argv": ["true"]},
            "signalRound": {"signal": "TERM"},
            "writeRoundStdin": {"data": "x"},
            "restoreAgent": {"reason": "any text", "snapshot_id": self.snapshot},
            "createLease": {"userId": "alice", "workflowId": "hello", "requestId": unique},
            "startRun": {"leaseId": self.lease, "workflowId": "hello", "runId": unique, "token": "secret"},
            "putWorkflow": {"name": "w" + unique, "owner": "alice", "version": 1, "steps": [{"shell": "true"}]},
            "forkAgent": {"as": "fork", "reason": "any text"},
            "forkSession": {"as": "fork", "reason": "any text"},
            "resumeAgent": {},
            "reviewAdmission": {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}},
        }
        return bodies.get(name, {"reason": "any text"})

    @staticmethod
    def place(body, field, text):
        """The body with the text at that path."""
        if not field:
            return text
        if field[0] == "*key":
            return {**(body if isinstance(body, dict) else {}), text: "value"}
        if field[0] == "*":
            inner = Caller.place(None, field[1:], text)
            return [inner] if not isinstance(body, dict) else {**body, "NAME": inner}
        body = dict(body) if isinstance(body, dict) else {}
        old = body.get(field[0])
        if len(field) > 1 and field[1] == "*" and field[0] == "env":
            old = {}
        if len(field) > 1 and isinstance(old, list) and old and isinstance(old[0], dict):
            body[field[0]] = [Caller.place(old[0], field[2:], text)]
        else:
            body[field[0]] = Caller.place(old, field[1:], text)
        return body

    def live_round(self):
        """A round that waits, so that there is one to be signalled and ended."""
        _, answer = self.call("startRound", "POST", "/v1/agents/text/rounds",
                              {"task_id": "T", "argv": ["sleep", "600"], "wait_ms": 0, "stdin_open": True}, service=True)
        if answer and "round_id" in answer:
            self.round = self.session = answer["round_id"]

    def path_values(self, name):
        if name in ("signalRound", "writeRoundStdin", "terminateSession"):
            self.live_round()
        ends = ("stopAgent", "terminateAgent", "destroyAgent", "killInside", "restoreAgent", "forkAgent", "takeSnapshot")
        agent = "other" if name in ends else self.rng.choice(AGENTS)
        kinds = {"dropSnapshot": self.snapshot, "getLease": self.lease, "releaseLease": self.lease, "heartbeatLease": self.lease}
        return {"agent": agent, "id": kinds.get(name, self.round), "file": "page.css"}

    def remember(self, name, answer):
        if not isinstance(answer, dict):
            return
        self.round = answer.get("round_id", self.round)
        self.lease = answer.get("leaseId", self.lease) if name == "createLease" else self.lease
        if isinstance(answer.get("snapshot"), dict):
            self.snapshot = answer["snapshot"].get("id", self.snapshot)

    def one(self, path, method, name, where, field):
        text = some_text(self.rng)
        values, body, query = self.path_values(name), None, {}
        if name in ("getFile", "putFile"):
            query = {"path": "/workspace/file", "task_id": "T"}
        if name == "destroyAgent":
            query = {"reason": "any text"}
        content = self.doc.resolve(self.doc.root["paths"][path][method.lower()].get("requestBody", {})).get("content", {})
        if "application/json" in content:
            body = self.body_of(name)
        elif content:
            body = b"content"
        if name == "startRound" and where == "body" and field[0] == "command":
            del body["argv"]
        if where == "path":
            values[field] = text or "-"
        elif where == "query":
            query[field] = text
        elif where == "body":
            body = self.place(body, field, text)
        elif where == "bytes":
            body = text.encode()
        for key, value in values.items():
            path = path.replace("{" + key + "}", urllib.parse.quote(value, safe="/" if key == "agent" and self.rng.random() < 0.3 else ""))
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if name in ("openTerminal", "attachSession"):
            self.upgrade(name, path)
            self.upgrade(name, "/v1/agents/text/terminal")
        status, answer = self.call(name, method, path, body, service=path.startswith("/sandboxes/") or name in NAMES_A_TASK)
        self.remember(name, answer)
        if status and status < 300 and name in ("forkAgent", "forkSession") and answer and "agent" in answer:
            self.call("destroyAgent", "DELETE", f"/v1/agents/{answer['agent']}?" + urllib.parse.urlencode({"reason": text or "x", "wipe": "true"}))

    def upgrade(self, name, path):
        """A terminal of the browser door; what it opened is ended at the end."""
        self.count += 1
        try:
            ws = websocket.WebSocket("%s:%d" % self.host, path, token=os.environ["MUXD_TOKEN"], timeout=HANGS_AFTER)
            self.codes[f"ws {ws.status}"] = self.codes.get(f"ws {ws.status}", 0) + 1
            if ws.status == 101:
                ws.message()
            ws.sock.close()
        except websocket.Closed:
            pass
        except (TimeoutError, socket.timeout) as e:
            self.faults.append(f"{name}: {path[:300]} hangs: {e!r}")
        except OSError as e:
            self.faults.append(f"{name}: {path[:300]} is cut off: {e!r}")

    def router(self):
        """A request to a port inside, its path as it is."""
        self.count += 1
        target = "/" + some_text(self.rng).translate({c: "_" for c in b"\r\n \0"})
        head = f"GET {target} HTTP/1.1\r\nHost: any\r\nAuthorization: Bearer {os.environ['MUXD_SERVICE_TOKEN']}\r\n"
        head += f"X-Sandbox-ID: {self.rng.choice(['text', some_text(self.rng)[:60].translate({c: '_' for c in bytes(range(32))})])}\r\n"
        head += "X-Sandbox-Port: 8000\r\nConnection: close\r\n\r\n"
        answer = b""
        try:
            with socket.create_connection(self.host, timeout=HANGS_AFTER) as plain, self.tls.wrap_socket(plain, server_hostname="any") as s:
                s.sendall(head.encode())
                while data := s.recv(65536):
                    answer += data
        except TimeoutError as e:
            self.faults.append(f"router: {target[:300]} hangs: {e!r}")
        except OSError:
            pass  # what breaks the rules is cut off
        code = "router " + (answer.split()[1].decode() if answer.startswith(b"HTTP/1.1 ") else "cut")
        self.codes[code] = self.codes.get(code, 0) + 1

    def run(self, calls):
        fields = list(self.doc.fields())
        self.call("putWorkflow", "POST", "/sandboxes/workflows", {"name": "hello", "owner": "alice", "version": 1, "steps": [{"shell": "true"}]}, service=True)
        self.live_round()
        done, todo = set(), []
        while self.count < calls:
            if not todo:
                todo = self.rng.sample(fields, len(fields))
            item = todo.pop()
            done.add(item)
            self.one(*item)
            if self.rng.random() < 0.05:
                self.router()
        if calls > len(fields) * 1.5 and len(done) < len(fields):
            self.faults.append(f"{len(fields) - len(done)} of {len(fields)} fields were not reached")
        print(f"{self.count} calls, {len(done)} of {len(fields)} fields, slowest {self.slowest[0]:.2f} s ({self.slowest[1][:60]})")
        print(", ".join(f"{k}: {v}" for k, v in sorted(self.codes.items())))

    # ---- the ends

    def live(self):
        _, answer = self.call("listSessions", "GET", "/v1/sessions?limit=1000")
        return [s for s in (answer or {}).get("sessions", []) if s.get("state") != "ended"]

    def end_all(self):
        """Whatever is open is ended, with a text for a reason; nothing stays."""
        end = time.monotonic() + 90
        told = set()
        while (open_ := self.live()) and time.monotonic() < end:
            for s in open_:
                if s["id"] in told:
                    continue
                told.add(s["id"])
                reason = "a" + "é" * self.rng.choice([60, 40, 100, 120])
                self.call("terminateSession", "POST", f"/v1/sessions/{s['id']}/terminate", {"reason": reason})
            time.sleep(0.2)
        for s in self.live():
            self.faults.append(f"still open: {s}")


def main():
    seed = int(os.environ.get("SEED", "1"))
    caller = Caller(seed)
    caller.run(int(os.environ.get("CALLS", "240")))
    caller.end_all()
    for fault in caller.faults[:20]:
        print("FAULT", fault)
    print(f"{len(caller.faults)} faults, seed {seed}")
    return 1 if caller.faults else 0


if __name__ == "__main__":
    sys.exit(main())
