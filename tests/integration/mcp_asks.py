"""A server inside that asks its client back, by both eras of the protocol, and those who mean no good on either side.

    mcp_asks.py URL CACERT < TOKENS       lines: the caller's, another principal's for the same sandbox and task
"""
import http.client
import json
import socket
import ssl
import sys
import threading
import urllib.parse

URL, CA = sys.argv[1:3]
MINE, OTHER = sys.stdin.read().split()
at = urllib.parse.urlsplit(URL)
tls = ssl.create_default_context(cafile=CA)
tls.check_hostname = False
VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
FORMS = {"elicitation": {}}
numbers = iter(range(1, 100000))


def post(body, token=MINE, path=at.path, **fields):
    c = http.client.HTTPSConnection(at.hostname, at.port, context=tls, timeout=60)
    c.request("POST", path, json.dumps(body), {"Authorization": "Bearer " + token, "Content-Type": "application/json",
                                               "Accept": "application/json, text/event-stream", **fields})
    return c, c.getresponse()


def events(response):
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def equal(what, expected, got):
    if expected != got:
        sys.exit(f"{what}: expected {expected!r}, got {got!r}")
    print(what)


def said(message):
    if "error" in message:
        return f"{message['error']['code']} {message['error']['message']}"
    return message["result"]["content"][0]["text"]


class Session:
    """Of the old era."""

    def __init__(self, capabilities=FORMS, token=MINE):
        self.token = token
        c, r = post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "x", "version": "1"}}}, token)
        r.read()
        self.fields = {"Mcp-Session-Id": r.headers["Mcp-Session-Id"]}

    def post(self, body):
        c, r = post({"jsonrpc": "2.0", **body}, self.token, **self.fields)
        return r

    def call(self, tool, **arguments):
        self.ident = next(numbers)
        return events(self.post({"id": self.ident, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}))

    def answer(self, ident, **content):
        return self.post({"id": ident, "result": {"action": "accept", "content": content}}).status


def new(tool, arguments=None, capabilities=FORMS, token=MINE, **params):
    """A call of the new era: status, and the last message."""
    params = {"name": tool, "arguments": arguments or {}, "_meta": {VERSION: "2026-07-28", CAPABILITIES: capabilities}, **params}
    _, r = post({"jsonrpc": "2.0", "id": next(numbers), "method": "tools/call", "params": params}, token,
                **{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool})
    if r.headers.get_content_type() == "application/json":
        return r.status, json.load(r)
    return r.status, list(events(r))[-1]


def asked(result):
    """requestState and the first key of what is asked."""
    assert result["result"]["resultType"] == "input_required", result
    return result["result"]["requestState"], next(iter(result["result"]["inputRequests"]))


def accept(**content):
    return {"action": "accept", "content": content}


# ---- the old era
s, foreign, theirs = Session(), Session(), Session(token=OTHER)
call = s.call("form", n=2)
first = next(call)
equal("a question comes in its call's stream", ("elicitation/create", "number 0"), (first["method"], first["params"]["message"]))
equal("another session does not answer it", 400, foreign.answer(first["id"], a=0))
equal("nor does another principal", 400, theirs.answer(first["id"], a=0))
equal("nor what is no answer", 400, s.post({"id": first["id"], "result": "yes"}).status)
equal("nor one under another id", [400] * 4, [s.answer(i, a=0) for i in (first["id"] + "0", "ask-99999", 1, "")])
equal("its own does", 202, s.answer(first["id"], a=1))
equal("once", 400, s.answer(first["id"], a=2))
second = next(call)
equal("and the next", "number 1", second["params"]["message"])
equal("is refused by people", 202, s.post({"id": second["id"], "error": {"code": -1, "message": "no"}}).status)
equal("and the call ends", '{"a": 1} -1 no', said(next(call)))
equal("what was not declared is not asked for", "-32601 elicitation/create: its caller did not declare that", said(next(Session({}).call("form"))))
equal("an address is not asked for", "-32602 elicitation/create: only forms can be asked for: people are sent to no address", said(next(s.call("url"))))
equal("nor at such length", "-32600 elicitation/create: it is longer than 256 KiB", said(next(s.call("huge"))))

call = s.call("twins")
first = next(call)
s.answer(first["id"], a=1)
equal("nor twice under one id", "-32600 elicitation/create: its id is that of a question that is open {\"a\": 1}", said(next(call)))
call = s.call("endless")
for message in call:
    if "method" not in message:
        break
    s.answer(message["id"])
equal("nor without end", "64 -32600 elicitation/create: it is one question too many: 16 at once, 64 for each request", said(message))
call = s.call("self")
message = next(call)
equal("a server may answer without it", "answered it myself", said(message if "result" in message else next(call)))
call = s.call("back")
first, withdrawn = next(call), next(call)
equal("and take it back", ("notifications/cancelled", first["id"]), (withdrawn["method"], withdrawn["params"]["requestId"]))
equal("which is no question then", (400, "taken back"), (s.answer(first["id"]), said(next(call))))
equal("behind its answer it asks nobody", "done", said(next(s.call("late"))))

call = s.call("both")
one, two = next(call), next(call)
s.answer(two["id"], b=2)
s.answer(one["id"], a=1)
equal("two at once", '{"a": 1} {"b": 2}', said(next(call)))

# A connection that is lost has its question again; a call that is cancelled has no question any more.
response = s.post({"id": 777, "method": "tools/call", "params": {"name": "form", "arguments": {}}})
last = None
for line in response:
    last = line[4:].strip().decode() if line.startswith(b"id: ") else last
    if line.startswith(b"data: "):
        break
response.close()
c = http.client.HTTPSConnection(at.hostname, at.port, context=tls, timeout=60)
c.request("GET", at.path, headers={"Authorization": "Bearer " + MINE, "Accept": "text/event-stream", "Last-Event-ID": last, **s.fields})
call = events(c.getresponse())
again = next(call)
equal("who comes back is asked again", 202, s.answer(again["id"], a=3))
equal("and has the answer", '{"a": 3}', said(next(call)))
call = s.call("form")
first = next(call)
s.post({"method": "notifications/cancelled", "params": {"requestId": s.ident}})
equal("a cancelled call", (400, []), (s.answer(first["id"]), list(call)))

# The same request once more is the same call, and has its question; who gave his session up answers nothing more.
call = s.call("form")
first = next(call)
twice = events(s.post({"id": s.ident, "method": "tools/call", "params": {"name": "form", "arguments": {}}}))
equal("a repeat is asked the same", first["id"], next(twice)["id"])
s.answer(first["id"], a=4)
equal("and both are answered", ['{"a": 4}'] * 2, [said(next(call)), said(next(twice))])
gone = Session()
call = gone.call("form")
next(call)
c = http.client.HTTPSConnection(at.hostname, at.port, context=tls, timeout=60)
c.request("DELETE", at.path, headers={"Authorization": "Bearer " + MINE, **gone.fields})
equal("a session that ends", (200, []), (c.getresponse().status, list(call)))
equal("holds nobody up", "slow is done", said(next(theirs.call("slow", ms=10))))

# One at a time: who waits for people lets his own pass, and nobody else's.
call = s.call("form")
first = next(call)
equal("one's own call passes", "slow is done", said(next(s.call("slow", ms=10))))
before, done = int(said(next(s.call("slows")))), []
thread = threading.Thread(target=lambda: done.append(said(next(theirs.call("slow", ms=10)))))
thread.start()
thread.join(0.5)
equal("another's waits", [], done)
behind = threading.Thread(target=lambda: done.append(said(next(s.call("slows")))))
behind.start()
behind.join(0.5)
equal("and is passed by nobody", [], done)
s.answer(first["id"], a=5)
equal("until it has gone on", '{"a": 5}', said(next(call)))
thread.join()
behind.join()
equal("and then it is their turn, one behind the other", {"slow is done", str(before + 1)}, set(done))

# Log messages: none before a level was said, then from that on.
equal("no log", ["logged"], [said(m) for m in s.call("log")])
s.post({"id": 5, "method": "logging/setLevel", "params": {"level": "error"}}).read()
equal("from error on", ["said at error", "logged"], [m["params"]["data"] if "params" in m else said(m) for m in s.call("log")])
equal("no level", -32602, json.load(s.post({"id": 6, "method": "logging/setLevel", "params": {"level": "loud"}}))["error"]["code"])

# One that goes on behind its cancellation: its words are nobody else's, and nobody else's request runs beside it.
theirs.post({"id": 7, "method": "logging/setLevel", "params": {"level": "debug"}}).read()
call = s.call("heedless")
equal("it has begun", "begun", next(call)["params"]["data"])
s.post({"method": "notifications/cancelled", "params": {"requestId": s.ident}}).read()
equal("and nobody hears the rest", ["slow is done"], [m["params"] if "params" in m else said(m) for m in theirs.call("slow", ms=10)])

# ---- the new era
before = int(said(new("begun")[1]))
state, key = asked(new("form", {"n": 2})[1])
for what, wrong in {"tampered with": dict(requestState=state + "0"), "made up": dict(requestState="0" * 32), "of another caller": dict(requestState=state, token=OTHER),
                    "of other arguments": dict(arguments={"n": 1}, requestState=state), "no text": dict(requestState=7), "empty": dict(requestState="")}.items():
    given = {"arguments": {"n": 2}, "inputResponses": {key: accept(a=0)}, **wrong}
    equal(f"a state that is {what}", -32602, new("form", **given)[1]["error"]["code"])
equal("no answer", -32602, new("form", {"n": 2}, requestState=state, inputResponses={key: 7})[1]["error"]["code"])
stale = state
state, same = asked(new("form", {"n": 2}, requestState=state, inputResponses={"other": accept(a=0)})[1])
equal("what is missing is asked for again", (key, True), (same, state != stale))
equal("and the state before stands for nothing", -32602, new("form", {"n": 2}, requestState=stale, inputResponses={key: accept(a=0)})[1]["error"]["code"])
used = state
state, key = asked(new("form", {"n": 2}, requestState=state, inputResponses={key: accept(a=1), "more": accept()})[1])
equal("a state is good once", -32602, new("form", {"n": 2}, requestState=used, inputResponses={key: accept(a=0)})[1]["error"]["code"])
equal("the same call goes on", '{"a": 1} {"b": 2}', said(new("form", {"n": 2}, requestState=state, inputResponses={key: accept(b=2)})[1]))
equal("and ran once", before + 1, int(said(new("begun")[1])))
state, key = asked(new("back")[1])
equal("one that asks no more ends", "slow is done", said(next(theirs.call("slow", ms=1))))
given = dict(requestState=state, inputResponses={key: accept()})
equal("what it said is kept", ["taken back"] * 2, [said(new("back", **given)[1]) for _ in range(2)])
equal("for its caller", -32602, new("back", token=OTHER, **given)[1]["error"]["code"])
state, _ = asked(new("both")[1])
equal("an answer ahead, by its name", '{"a": 1}', said(new("form", {"key": "who"}, inputResponses={"who": accept(a=1)})[1]))
status, message = new("form", capabilities={})
equal("what is not declared is said", (400, -32021, {"elicitation": {}}), (status, message["error"]["code"], message["error"]["data"]["requiredCapabilities"]))
equal("no log", "logged", said(new("log")[1]))
for n in range(40):
    message = new("form")[1]
    if message["result"]["resultType"] == "complete":
        break
equal("not more than 16 requests wait for people", (15, True), (n, "16 requests wait" in said(message)))
