#!/usr/bin/env python3
"""An MCP server by stdin and stdout for tests, which asks its client back in the ways that its tools name.

form     asks `n` questions, one behind another, and tells the answers       both     asks two at once
endless  asks on and on, and tells how many it got refused first             huge     asks with 300 KB
twins    asks twice under one id                                             url      sends people to an address
self     answers its call while its question is open                         late     asks behind its answer
back     takes its question back                                             log      logs at two levels
begun    how often `form` was begun                                          slow     answers after `ms`
slows    how often `slow` was done                                           heedless goes on behind a cancellation
"""
import json
import sys
import threading
import time

OUT = threading.Lock()
waiting = {}
begun = slows = 0
numbers = iter(range(1, 1000000))


def send(message):
    with OUT:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


class Question:
    def __init__(self, message="?", ident=None, method="elicitation/create", **params):
        self.ident, self.answer, self.there = ident or "q%d" % next(numbers), None, threading.Event()
        waiting.setdefault(self.ident, []).append(self)
        send({"id": self.ident, "method": method, "params": {"message": message, "requestedSchema": {"type": "object", "properties": {}}, **params}})

    def wait(self):
        """The answer's content, or the error's code and text."""
        if not self.there.wait(60):
            return "nobody answers"
        error = self.answer.get("error")
        return "%d %s" % (error["code"], error["message"]) if error else json.dumps(self.answer["result"].get("content"), sort_keys=True)


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def form(args):
    global begun
    begun += 1
    keys = {"_meta": {"muxd/key": args["key"]}} if "key" in args else {}
    return " ".join(Question("number %d" % i, **keys).wait() for i in range(args.get("n", 1)))


def endless(args):
    for n in range(1000):
        said = Question("again").wait()
        if said.startswith("-32"):
            return "%d %s" % (n, said)
    return "without end"


def twins(args):
    first, second = Question("one", ident="twin"), Question("two", ident="twin")
    return " ".join(sorted([first.wait(), second.wait()]))


def back(args):
    q = Question("never mind")
    time.sleep(0.2)
    send({"method": "notifications/cancelled", "params": {"requestId": q.ident}})
    time.sleep(0.2)
    return "taken back"


def log(args):
    for level in ("debug", "error"):
        send({"method": "notifications/message", "params": {"level": level, "data": "said at " + level}})
    return "logged"


def slow(args):
    global slows
    time.sleep(args["ms"] / 1000)
    slows += 1
    return "slow is done"


def heedless(args):
    send({"method": "notifications/message", "params": {"level": "error", "data": "begun"}})
    time.sleep(0.5)
    send({"method": "notifications/message", "params": {"level": "error", "data": "a secret"}})
    return Question("a secret?").wait()


def both(args):
    one, two = Question("one"), Question("two")
    return one.wait() + " " + two.wait()


tools = {
    "form": form, "endless": endless, "twins": twins, "back": back, "log": log, "both": both,
    "huge": lambda a: Question("x" * 300000).wait()[:60],
    "url": lambda a: Question("go there", mode="url", url="https://mcp.example/").wait(),
    "self": lambda a: Question("open") and "answered it myself",
    "begun": lambda a: str(begun),
    "slow": slow, "heedless": heedless,
    "slows": lambda a: str(slows),
    "late": lambda a: "done",
}


def call(ident, params):
    name = params["name"]
    said = tools[name](params.get("arguments") or {})
    send({"id": ident, "result": text(said, isError=said.startswith("-32601"))})
    if name == "late":
        print("late:", Question("too late").wait(), file=sys.stderr, flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    if method == "initialize":
        print("capabilities:", json.dumps(message["params"]["capabilities"], sort_keys=True), file=sys.stderr, flush=True)
        send({"id": ident, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "asking", "version": "1"}}})
    elif method == "tools/list":
        send({"id": ident, "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in tools]}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(ident, message["params"]), daemon=True).start()
    elif method == "notifications/cancelled":
        print("cancelled", message["params"]["requestId"], file=sys.stderr, flush=True)
    elif method is None and waiting.get(ident):
        q = waiting[ident].pop()  # of two under one id the second is the one that is refused
        q.answer = message
        q.there.set()
