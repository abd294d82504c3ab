"""What a request of MCP gets, one case for each cell: who sends it, its head, its body -> status and code.

    mcp_table.py URL CACERT < TOKENS          one a line: the agent's own, and one of the principal "other" for the same
    mcp_table.py URL CACERT FORGE < TOKENS    the cells that are there where a token of that issuer (tests/lib/issuer.py) opens /mcp
"""
import base64
import hashlib
import http.client
import json
import socket
import ssl
import sys
import time
import urllib.parse

URL, CA = sys.argv[1:3]
FORGE = sys.argv[3] if len(sys.argv) > 3 else None
TOKEN, OTHER = sys.stdin.read().split()
at = urllib.parse.urlsplit(URL)
tls = ssl.create_default_context(cafile=CA)
tls.check_hostname = False
BOTH = "application/json, text/event-stream"
JSON = "application/json"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
TASKS = META | {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
NEW = {"MCP-Protocol-Version": "2026-07-28"}
failures = []
cases = 0


def source():
    """Where the next cell comes from: refusals make the door slow to an address."""
    return ("127.3.%d.%d" % divmod(cases + 1, 250), 0) if FORGE else None


def send(method, headers, body=None, path=None):
    """(status, headers, body of JSON or the first message of a stream)"""
    c = http.client.HTTPSConnection(at.hostname, at.port, context=tls, timeout=30, source_address=source())
    given = {"Authorization": "Bearer " + TOKEN, **headers}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    c.putrequest(method, path or at.path, skip_host="Host" in given, skip_accept_encoding=True)
    for key, value in given.items():
        if value is not None:
            c.putheader(key, value)
    if data is not None:
        c.putheader("Content-Length", str(len(data)))
    c.endheaders(data)
    r = c.getresponse()
    if r.headers.get_content_type() != "text/event-stream":
        raw = r.read()
        c.close()
        return r.status, r.headers, json.loads(raw) if raw.strip() else None
    return r.status, r.headers, Stream(c, r)


class Stream:
    def __init__(self, connection, response):
        self.connection, self.response, self.fields = connection, response, []

    def event(self):
        """The next event as {field: text}; None: the stream is over."""
        fields = {}
        while line := self.response.readline():
            line = line.decode().rstrip("\r\n")
            if not line and fields:
                return fields
            if line and not line.startswith(":"):
                key, _, value = line.partition(":")
                fields[key] = value.removeprefix(" ")
        return None

    def message(self):
        while event := self.event():
            if event.get("data"):
                return json.loads(event["data"])
        return None

    def is_over(self):
        """Whether it ends as one that is whole, or is cut."""
        try:
            return self.event() is None
        except (http.client.HTTPException, OSError):
            return True

    def close(self):
        self.response.close()
        self.connection.close()


def rpc(method, params=None, ident=1, **more):
    m = {"jsonrpc": "2.0", "id": ident, "method": method, **more}
    return m if params is None else m | {"params": params}


def check(what, got, wanted):
    global cases
    cases += 1
    if got != wanted:
        failures.append(f"{what}: {got}, expected {wanted}")


def cell(what, status, code, headers, body=None, method="POST", path=None):
    """One request, what it gets, and the answer."""
    got, head, answer = send(method, {"Content-Type": JSON} | headers, body, path)
    if isinstance(answer, Stream):
        stream, answer = answer, answer.message() if method == "POST" else None
        stream.close()
    error = (answer or {}).get("error", {}).get("code") if isinstance(answer, dict) else None
    check(what, (got, error), (status, code))
    return head, answer


def begin(version="2025-11-25"):
    head, answer = cell(f"initialize {version}", 200, None, {"Accept": BOTH},
                        rpc("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
    return head["Mcp-Session-Id"], answer["result"]


def any_era():
    ok = {"Accept": BOTH}
    cell("Content-Type other", 415, -32000, ok | {"Content-Type": "text/plain"}, rpc("ping"))
    cell("Content-Type with a charset", 400, -32000, ok | {"Content-Type": "application/json; charset=utf-8"}, rpc("ping"))
    cell("bad JSON", 400, -32700, ok, b'{"jsonrpc": "2.0",')
    cell("a body of UTF-8 that is none", 400, -32700, ok, b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}')
    cell("a key twice", 400, -32700, ok, b'{"jsonrpc": "2.0", "jsonrpc": "2.0", "id": 1, "method": "ping"}')
    cell("too deep", 400, -32700, ok, b"[" * 40 + b"]" * 40)
    cell("foreign Host", 403, -32000, ok | {"Host": "elsewhere.example"}, rpc("ping"))
    cell("foreign Host with our port", 403, -32000, ok | {"Host": f"elsewhere.example:{at.port}"}, rpc("ping"))
    cell("our Host without port", 400, -32000, ok | {"Host": "localhost"}, rpc("ping"))
    cell("foreign Origin", 403, -32000, ok | {"Origin": "https://elsewhere.example"}, rpc("ping"))
    cell("Origin null", 403, -32000, ok | {"Origin": "null"}, rpc("ping"))
    cell("our Origin, another port", 400, -32000, ok | {"Origin": "http://localhost:1"}, rpc("ping"))
    cell("no grant", 401, "unauthenticated", ok | {"Authorization": None}, rpc("ping"))
    cell("a grant that is none", 401, "token_malformed", ok | {"Authorization": "Bearer x"}, rpc("ping"))
    status, head, _ = send("POST", {"Content-Type": JSON, "Accept": BOTH, "Authorization": None}, rpc("ping"))
    check("401 says how", (status, head["WWW-Authenticate"]), (401, 'Bearer realm="muxd"'))
    for suffix in ("", "/mcp", "/mcp/demo/files"):  # no issuer's tokens open it: nobody is led to one
        status, _, said = send("GET", {"Authorization": None}, path="/.well-known/oauth-protected-resource" + suffix)
        check("no metadata " + suffix, (status, said["error"]["code"]), (404, "not_found"))
    cell("another verb", 405, "invalid_request", ok, rpc("ping"), method="PUT")
    for what, body in {"a number": 3, "no version": {"id": 1, "method": "ping"}, "another version": rpc("ping", jsonrpc="1.0"),
                       "a method that is no text": rpc(5), "an id that is null": rpc("ping", ident=None),
                       "an id that is a fraction": rpc("ping", ident=1.5), "params that are a list": rpc("ping", [1])}.items():
        cell("no message: " + what, 400, -32600, ok, body)
    cell("a batch", 400, -32600, ok, [rpc("ping")])


def old_era():
    ok = {"Accept": BOTH}
    _, result = begin("2025-06-18")
    check("the older version", result["protocolVersion"], "2025-06-18")
    _, result = begin("2024-01-01")
    check("an unknown version: our newest of sessions", result["protocolVersion"], "2025-11-25")
    _, result = begin("2026-07-28")
    check("a version without sessions", result["protocolVersion"], "2025-11-25")
    cell("initialize without a version", 200, -32602, ok, rpc("initialize", {}))
    session, result = begin()
    check("a session's name is visible characters", all(0x21 <= ord(c) <= 0x7E for c in session), True)
    check("what it can do", sorted(result["capabilities"]), CAPABILITIES)
    mine = ok | {"Mcp-Session-Id": session}
    for accept in (JSON, "text/event-stream", "text/html", None):
        cell(f"POST, Accept {accept}", 406, -32000, mine | {"Accept": accept}, rpc("ping"))
    cell("Accept of anything", 200, None, mine | {"Accept": "*/*"}, rpc("ping"))
    cell("GET, Accept other", 406, -32000, mine | {"Accept": JSON}, method="GET")
    cell("no session", 400, -32000, ok, rpc("ping"))
    cell("no session, GET", 400, -32000, ok, method="GET")
    cell("no session, DELETE", 400, -32000, ok, method="DELETE")
    cell("no session, a notification", 400, -32000, ok, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    for unknown in ("none", session[:-1] + ("0" if session[-1] != "0" else "1"), "x" * 300):
        cell("an unknown session", 404, -32001, ok | {"Mcp-Session-Id": unknown}, rpc("ping"))
    cell("a second initialize", 400, -32600, mine, rpc("initialize", {"protocolVersion": "2025-11-25"}))
    cell("the version that was agreed on", 200, None, mine | {"MCP-Protocol-Version": "2025-11-25"}, rpc("ping"))
    cell("the other one of sessions", 200, None, mine | {"MCP-Protocol-Version": "2025-06-18"}, rpc("ping"))
    cell("a version that is none", 400, -32000, mine | {"MCP-Protocol-Version": "1999-01-01"}, rpc("ping"))
    cell("a notification", 202, None, mine, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    cell("an answer", 202, None, mine, {"jsonrpc": "2.0", "id": 7, "result": {}})
    cell("a method that is none", 200, -32601, mine, rpc("no/such"))
    cell("a method of the new era", 200, -32601, mine, rpc("server/discover"))
    cell("logging is not offered", 200, -32601, mine, rpc("logging/setLevel", {"level": "info"}))
    cell("an unknown tool", 200, -32602, mine, rpc("tools/call", {"name": "none"}))
    cell("no tool", 200, -32602, mine, rpc("tools/call", {}))
    _, answer = cell("a tool's bad input is a result", 200, None, mine, rpc("tools/call", {"name": "python_exec", "arguments": {"code": 5}}))
    check("with isError", answer["result"]["isError"], True)
    _, answer = cell("an id is given back as it came", 200, None, mine, rpc("ping", ident="7"))
    check("the same id", answer["id"], "7")
    streams(mine, session)
    number = iter(range(100, 200))
    kept(mine)
    resources(lambda method, params, code: cell(f"{method} {params}", 200, code, mine, rpc(method, params, next(number)))[1].get("result"), -32002)
    cell("DELETE", 200, None, mine, method="DELETE")
    cell("behind it", 404, -32001, mine, rpc("ping"))
    cell("once more", 404, -32001, mine, method="DELETE")


def run(script):
    return {"name": "sandbox.session.exec", "arguments": {"task_id": "story", "session_id": "table", "argv": ["sh", "-c", script]}}


WAITS = "until [ -e go ]; do sleep 0.02; done; "


def streams(mine, session):
    first = send("GET", mine)
    check("GET", (first[0], first[2].event()["data"]), (200, ""))
    cell("a second stream", 409, -32000, mine, method="GET")
    again = send("GET", mine | {"Last-Event-ID": "open"})
    check("who comes back has it", (again[0], again[2].event()["data"]), (200, ""))
    check("and who had it has it no more", first[2].is_over(), True)
    cell("and a second one is one still", 409, -32000, mine, method="GET")
    again[2].close()
    first[2].close()
    cell("as it begins", 200, None, mine, rpc("tools/call", run("rm -f go ran"), ident=39))
    # A call's stream: begins with a place to come back to, from 2025-11-25 on.
    _, _, stream = send("POST", mine | {"Content-Type": JSON}, rpc("tools/call", run(WAITS + "echo one; echo two >>ran; cat ran"), ident=41))
    event = stream.event()
    check("the first event", (event["data"], "retry" in event, bool(event["id"])), ("", True, True))
    stream.close()  # no cancel
    cell("let it go on", 200, None, mine, rpc("tools/call", run("touch go"), ident=40))
    _, _, stream = send("GET", mine | {"Last-Event-ID": event["id"]})
    answer = stream.message()
    check("a stream that was cut is read on", (answer["id"], answer["result"]["structuredContent"]["stdout"]), (41, "one\ntwo\n"))
    check("and ends", stream.event(), None)
    _, _, stream = send("GET", mine | {"Last-Event-ID": event["id"]})
    check("its end is kept", stream.message()["id"], 41)
    stream.close()
    others(session, event)
    _, answer = cell("the same call again", 200, None, mine, rpc("tools/call", run(WAITS + "echo one; echo two >>ran; cat ran"), ident=41))
    check("runs nothing twice", answer["result"]["structuredContent"]["stdout"], "one\ntwo\n")
    _, _, stream = send("POST", mine | {"Content-Type": JSON},
                        rpc("tools/call", run("echo begun; sleep 300") | {"_meta": {"progressToken": "p"}}, ident=42))
    note = stream.message()
    check("progress", (note["method"], note["params"]["progressToken"], note["params"]["message"]), ("notifications/progress", "p", "begun\n"))
    cell("cancelled", 202, None, mine, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 42}})
    left = 0
    while message := stream.message():
        left += "result" in message
    check("no answer to what was cancelled", left, 0)
    other, _ = begin("2025-06-18")
    _, _, stream = send("POST", {"Accept": BOTH, "Content-Type": JSON, "Mcp-Session-Id": other}, rpc("tools/call", run("true")))
    check("no event without data before 2025-11-25", bool(stream.event()["data"]), True)
    stream.close()
    cell("a foreign stream is not read", 400, -32000, mine | {"Mcp-Session-Id": other, "Last-Event-ID": event["id"]}, method="GET")


def kept(mine):
    # Kept streams whose answer was read take no room from new calls.
    c = http.client.HTTPSConnection(at.hostname, at.port, context=tls, timeout=30)
    head = {"Authorization": "Bearer " + TOKEN, "Content-Type": JSON} | mine
    statuses = set()
    for ident in range(5000, 5000 + STREAMS_MAX + 1):
        c.request("POST", at.path, json.dumps(rpc("tools/call", {"name": "artifact.list", "arguments": {"task_id": 5}}, ident)), head)
        answer = c.getresponse()
        answer.read()
        statuses.add(answer.status)
    c.close()
    check("more calls than streams are kept", statuses, {200})


STREAMS_MAX = 1024


def others(session, event):
    # The session of another is none of ours, nor is a name that is made with its UUID.
    his = {"Accept": BOTH, "Authorization": "Bearer " + OTHER}
    cell("another's session", 404, -32001, his | {"Mcp-Session-Id": session}, rpc("ping"))
    ident, version, _ = session.split(".")
    of_grant = "\n".join(["muxd mcp session", ident, version, "1", "6", "table", "story", "other"])  # agent; rounds, files
    made = his | {"Mcp-Session-Id": f"{ident}.{version}.{hashlib.sha256(of_grant.encode()).hexdigest()[:16]}"}
    cell("a name that was made up", 200, None, made, rpc("ping"))
    cell("reads no stream of another", 400, -32000, made | {"Last-Event-ID": event["id"]}, method="GET")
    cell("ends itself", 200, None, made, method="DELETE")
    cell("and is over", 404, -32001, made, rpc("ping"))
    cell("the other's goes on", 200, None, {"Accept": BOTH, "Mcp-Session-Id": session}, rpc("ping"))


def new_era():
    def new(method, params=None, meta=META, ident=1):
        return rpc(method, (params or {}) | {"_meta": meta}, ident)

    def head(method, name=None, **more):
        return NEW | {"Mcp-Method": method} | ({"Mcp-Name": name} if name is not None else {}) | more

    listing = head("tools/list")
    _, answer = cell("tools/list", 200, None, listing, new("tools/list"))
    result = answer["result"]
    check("a result's own members", (result["resultType"], result["cacheScope"], type(result["ttlMs"]),
                                     result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"]), ("complete", "private", int, "muxd"))
    check("no session", send("POST", {"Content-Type": JSON} | listing, new("tools/list"))[1]["Mcp-Session-Id"], None)
    # 1
    cell("no _meta", 400, -32602, listing, rpc("tools/list"))
    cell("no version in it", 400, -32602, listing, new("tools/list", meta={k: v for k, v in META.items() if "Version" not in k}))
    cell("no capabilities in it", 400, -32602, listing, new("tools/list", meta={k: v for k, v in META.items() if "Version" in k}))
    cell("a version that is no text", 400, -32602, listing, new("tools/list", meta=META | {"io.modelcontextprotocol/protocolVersion": 5}))
    # 2
    cell("another version in the head", 400, -32020, listing | {"MCP-Protocol-Version": "2025-11-25"}, new("tools/list"))
    cell("another method in the head", 400, -32020, listing | {"Mcp-Method": "tools/call"}, new("tools/list"))
    cell("the case of a method", 400, -32020, listing | {"Mcp-Method": "Tools/List"}, new("tools/list"))
    # 3
    future = META | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    _, answer = cell("a version of the future", 400, -32022, listing | {"MCP-Protocol-Version": "2099-01-01"}, new("tools/list", meta=future))
    check("what is spoken", answer["error"]["data"], {"supported": ["2026-07-28"], "requested": "2099-01-01"})
    # 4
    cell("no version in the head", 400, -32020, {"Mcp-Method": "tools/list"}, new("tools/list"))
    cell("no method in the head", 400, -32020, NEW, new("tools/list"))
    call = {"name": "none"}
    cell("no Mcp-Name", 400, -32020, head("tools/call"), new("tools/call", call))
    cell("another Mcp-Name", 400, -32020, head("tools/call", "other"), new("tools/call", call))
    cell("Mcp-Name with blanks around it", 200, -32602, head("tools/call", "  none \t"), new("tools/call", call))
    cell("Mcp-Name encoded", 200, -32602, head("tools/call", "=?base64?bm9uZQ==?="), new("tools/call", call))
    cell("Mcp-Name encoded, another", 400, -32020, head("tools/call", "=?base64?b3RoZXI=?="), new("tools/call", call))
    cell("the field's blanks", 200, None, {k: f" {v} " for k, v in listing.items()}, new("tools/list"))
    # 5
    _, answer = cell("tasks, not declared", 400, -32021, head("tasks/get", "round.x"), new("tasks/get", {"taskId": "round.x"}))
    check("what would be needed", answer["error"]["data"], {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}})
    # 6
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen", "no/such"):
        _, answer = cell(method, 404, -32601, head(method), new(method, ident="seven"))
        check(method + " has its id", answer["id"], "seven")
    for method in ("tasks/list", "tasks/result"):
        cell(method, 404, -32601, head(method, ""), new(method, {"taskId": ""}, meta=TASKS))
    cell("a batch", 400, -32600, listing, [new("tools/list")])
    cell("a notification", 202, None, NEW, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    _, answer = cell("server/discover", 200, None, head("server/discover"), new("server/discover"))
    result = answer["result"]
    check("discover", (result["supportedVersions"], sorted(result["capabilities"]), bool(result["instructions"]), type(result["ttlMs"])),
          (["2026-07-28", "2025-11-25", "2025-06-18"], sorted(CAPABILITIES + ["extensions"]), True, int))
    check("tasks are no capability of their own", "tasks" in result["capabilities"], False)
    tasks(new, head)

    def ask(method, params, code):
        name = params.get("uri", params.get("name"))
        coded = None if name is None else name if name.isascii() else "=?base64?" + base64.b64encode(name.encode()).decode() + "?="
        return cell(f"{method} {params}", 200, code, head(method, coded), new(method, params))[1].get("result")

    resources(ask, -32602)


def resources(send_, absent):
    """send_(method, params, code): the result of either era. absent: the code of what is not there."""
    send_("tools/call", {"name": "create_file", "arguments": {"session_id": "table", "path": f"ä {absent}.txt", "content": "text"}}, None)
    put = {"task_id": "story", "name": "b.bin", "content": "/wA=", "encoding": "base64", "media_type": "image/png"}
    send_("tools/call", {"name": "artifact.put", "arguments": put}, None)
    ran = send_("tools/call", run("echo 0123456789"), None)["structuredContent"]["round_id"]
    listed = send_("resources/list", {}, None)
    check("artifacts are listed", [r for r in listed["resources"] if r["name"] == "b.bin"],
          [{"uri": "muxd://artifacts/story/b.bin", "name": "b.bin", "size": 2, "mimeType": "image/png"}])
    check("templates", [t["name"] for t in send_("resources/templates/list", {}, None)["resourceTemplates"]],
          ["workspace-file", "artifact", "round-output"])
    for uri, wanted in {f"muxd://workspace/table/%C3%A4%20{absent}.txt": {"text": "text"},
                        "muxd://artifacts/story/b.bin": {"blob": "/wA=", "mimeType": "image/png"},
                        f"muxd://rounds/{ran}/stdout?offset=3&limit=4": {"text": "3456"}}.items():
        check(uri, send_("resources/read", {"uri": uri}, None)["contents"], [{"uri": uri, **wanted}])
    send_("tools/call", run("(printf x; yes ä | head -n 600000 | tr -d '\\n') >big.txt"), None)
    big = {"task_id": "story", "session_id": "table", "path": "big.txt", "name": "big.txt"}
    send_("tools/call", {"name": "artifact.keep", "arguments": big}, None)
    contents = send_("resources/read", {"uri": "muxd://artifacts/story/big.txt"}, None)["contents"][0]
    check("a longer one says that it is cut, between characters",
          (contents.get("_meta"), set(contents.get("text", "")), len(contents.get("text", "")) > 500000), ({"truncated": True}, {"x", "ä"}, True))
    for uri in ("muxd://workspace/table/none", "muxd://artifacts/story/none", f"muxd://rounds/{ran}/none", "muxd://rounds/none/stdout",
                "muxd://workspace/table", "muxd://workspace//x", "muxd://workspace/table/%00", "muxd://workspace/table/%4", "file:///etc/passwd", ""):
        send_("resources/read", {"uri": uri}, absent)


def tasks(new, head):
    exec_ = head("sandbox.session.exec") | {"Mcp-Method": "tools/call", "Mcp-Name": "sandbox.session.exec"}
    _, answer = cell("a long call without tasks", 200, None, exec_, new("tools/call", run("sleep 1.5; echo late")))
    check("is waited for", answer["result"]["structuredContent"]["stdout"], "late\n")
    _, answer = cell("a long call with tasks", 200, None, exec_, new("tools/call", run("rm -f go; " + WAITS + "echo late; exit 3"), meta=TASKS))
    task = answer["result"]
    check("is a task", (task["resultType"], task["status"], sorted(task.keys() - {"_meta"})),
          ("task", "working", sorted(["resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"])))
    ident = task["taskId"]

    def ask(method, which, **more):
        return cell(f"{method} of {which}", 200, more.get("code"), head(method, which), new(method, {"taskId": which}, meta=TASKS))[1]

    check("update is empty", sorted(ask("tasks/update", ident)["result"]), ["_meta", "resultType"])
    check("it works", ask("tasks/get", ident)["result"]["status"], "working")
    cell("let it go on", 200, None, exec_, new("tools/call", run("touch go")))
    while (told := ask("tasks/get", ident)["result"])["status"] == "working":
        time.sleep(0.2)
    check("a task's end", (told["status"], told["result"]["structuredContent"]["stdout"], told["result"]["structuredContent"]["exit_code"]),
          ("completed", "late\n", 3))
    for unknown in ("none", "round.0193aaaa-0000-7000-8000-000000000001", "code." + ident.removeprefix("round.")):
        ask("tasks/get", unknown, code=-32602)
    _, answer = cell("another", 200, None, exec_, new("tools/call", run("sleep 300"), meta=TASKS))
    ident = answer["result"]["taskId"]
    check("cancel is empty", sorted(ask("tasks/cancel", ident)["result"]), ["_meta", "resultType"])
    while (told := ask("tasks/get", ident)["result"])["status"] == "working":
        time.sleep(0.2)
    check("cancelled", (told["status"], "result" in told), ("cancelled", False))
    # Closing is cancelling.
    body = new("tools/call", run("echo $$ >pid; sleep 300") | {})
    body["params"]["_meta"] = META | {"progressToken": 1}
    _, _, stream = send("POST", {"Content-Type": JSON} | exec_, body)
    first = stream.event()
    check("no ids, progress", ("id" in first, json.loads(first["data"])["method"]), (False, "notifications/progress"))
    stream.connection.sock.shutdown(socket.SHUT_RDWR)
    stream.close()
    for _ in range(200):
        _, answer = cell("is it gone?", 200, None, exec_, new("tools/call", run("kill -0 $(cat pid) 2>/dev/null && echo alive || echo gone")))
        if answer["result"]["structuredContent"]["stdout"] == "gone\n":
            return
    failures.append("the call lives on behind its closed stream")


# ---- where an issuer's tokens open it

KNOWN = "/.well-known/oauth-protected-resource"
SHOWN = {  # a token that is otherwise than a good one: its refusal
    "wrong audience": (401, "token_foreign", {"claims": {"aud": "else"}}),
    "an audience more": (401, "token_foreign", {"claims": {"aud": ["muxd", "else"]}}),
    "wrong issuer": (401, "token_foreign", {"claims": {"iss": "https://else.example"}}),
    "expired": (401, "token_expired", {"claims": {"iat": "-600", "nbf": "-600", "exp": "-60"}}),
    "not yet valid": (401, "token_not_yet_valid", {"claims": {"nbf": "+200"}}),
    "alg none": (401, "token_algorithm", {"alg": "none"}),
    "alg HS256 with the public key": (401, "token_algorithm", {"alg": "HS256"}),
    "unknown kid": (401, "token_key_unknown", {"header": {"kid": "unheard"}}),
    "no kid": (401, "token_key_unknown", {"header": {"kid": None}}),
    "another's key": (401, "token_signature", {"key": "hidden", "header": {"kid": "rsa"}}),
    "no token": (401, "token_malformed", {"tail": ".x"}),
    "claims that do not hold": (403, "token_claims", {"claims": {"sub": "else/repo"}}),
}


def minted(spec):
    c = http.client.HTTPConnection(urllib.parse.urlsplit(FORGE).netloc)
    c.request("POST", "/token", json.dumps(spec | {"claims": {"scp": "rounds files"} | spec.get("claims", {})}))
    return {"Authorization": "Bearer " + c.getresponse().read().decode()}


def challenges(what, head, *more):
    way = f'resource_metadata="https://{at.netloc}{KNOWN}/mcp"'
    check(what + ": the way on", head["WWW-Authenticate"], ", ".join(['Bearer realm="muxd"', *more, way]))


def shown_documents():
    wanted = {"resource": URL, "authorization_servers": [FORGE], "bearer_methods_supported": ["header"], "resource_name": "muxd sandboxes",
              "scopes_supported": ["rounds", "files"]}
    for suffix in ("", "/mcp", "/mcp/table/files"):
        _, document = cell("the document " + suffix, 200, None, {"Authorization": None}, method="GET", path=KNOWN + suffix)
        check("what it names " + suffix, document, wanted)
    cell("the document, by another's name", 404, "not_found", {"Authorization": None, "Host": "elsewhere.example"}, method="GET", path=KNOWN)
    cell("the document of another path", 404, "not_found", {"Authorization": None}, method="GET", path=KNOWN + "/v1")
    cell("the document, another verb", 405, "invalid_request", {"Authorization": None}, rpc("ping"), path=KNOWN)


def shown_refusals():
    old, new = {"Accept": BOTH}, NEW | {"Mcp-Method": "server/discover"}
    head, _ = cell("no token", 401, "unauthenticated", old | {"Authorization": None}, rpc("ping"))
    challenges("no token", head)
    for what, (status, code, spec) in SHOWN.items():
        head, _ = cell("a token: " + what, status, code, old | minted(spec), rpc("ping"))
        if status == 401:
            challenges(what, head, 'error="invalid_token"')
    bad = minted(SHOWN["expired"][2])
    # Whoever is nobody is told nothing of versions, sessions and bodies.
    cell("ahead of the version", 401, "token_expired", new | bad | {"Mcp-Method": "other"}, rpc("server/discover"))
    cell("ahead of the body", 401, "token_expired", old | bad, b'{"jsonrpc": ')
    for method in ("GET", "DELETE"):
        head, _ = cell("ahead of a session's " + method, 401, "token_expired", old | bad | {"Mcp-Session-Id": "x"}, method=method)
        challenges(method, head, 'error="invalid_token"')
    head, _ = cell("at a server inside", 401, "token_expired", old | bad, rpc("ping"), path="/mcp/table/files")
    challenges("a server inside", head, 'error="invalid_token"')
    cell("by another's page", 403, -32000, old | minted({}) | {"Origin": "https://elsewhere.example"}, rpc("ping"))


def shown_opens():
    good = minted({})
    begun = rpc("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    cell("a good one: 2025-11-25", 200, None, {"Accept": BOTH} | good, begun)
    discover = NEW | {"Mcp-Method": "server/discover"}
    cell("a good one: 2026-07-28", 200, None, discover | good, rpc("server/discover", {"_meta": META}))
    _, answer = cell("a server inside, which is not there", 200, -32603, {"Accept": BOTH} | good, begun, path="/mcp/table/none")
    check("is let in, and looked for", answer["error"]["data"]["code"], "not_found")
    for path in ("/v1/agents", "/v1/agents/table/rounds", "/v1/grants", "/metrics"):  # nothing but MCP
        head, _ = cell("a good one at " + path, 401, "token_malformed", good, method="GET" if path != "/v1/agents/table/rounds" else "POST",
                       body=None if path != "/v1/agents/table/rounds" else {"argv": ["true"]}, path=path)
        check("names no way on: " + path, head["WWW-Authenticate"], 'Bearer realm="muxd"')
    cell("its exchange counts once", 401, "token_used", {"Authorization": good["Authorization"]}, {"issuer": "table", "reason": "r"}, path="/v1/grants")
    cell("a grant still does", 200, None, discover, rpc("server/discover", {"_meta": META}))


CAPABILITIES = ["resources", "tools"]
if FORGE:
    shown_documents()
    shown_refusals()
    shown_opens()
else:
    any_era()
    old_era()
    new_era()
print(f"{cases} cells")
for failure in failures:
    print("FAIL", failure)
sys.exit(bool(failures))
