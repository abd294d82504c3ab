"""What an agent is shown over MCP is what the profile of its task allows, each operation for itself.

    mcp_profiles.py URL CACERT POLICY_FILE RELOAD... < TOKEN     RELOAD: a command that loads the file; TOKEN: of a grant with scope grant

For each operation a task whose profile lacks it alone: the tools that go are found out, and each of them is called all the same. For each
tool a task whose profile has nothing but the operations that it went with: then it is not denied. A call makes its arguments of the schema.
Then sandboxes of an image and a size, under profiles that say something of either.
"""
import http.client
import json
import os
import ssl
import subprocess
import sys
import urllib.parse
import uuid

URL, CA, POLICY = sys.argv[1:4]
RELOAD = sys.argv[4:]
TOKEN = sys.stdin.read().strip()
at = urllib.parse.urlsplit(URL)
tls = ssl.create_default_context(cafile=CA)
tls.check_hostname = False
SANDBOX = "profiles"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
failures = []
connection = http.client.HTTPSConnection(at.hostname, at.port, context=tls, timeout=60)


def ask(token, method, path, body=None, headers=()):
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"Authorization": "Bearer " + token, "Content-Type": "application/json", **dict(headers)})
    response = connection.getresponse()
    text = response.read().decode()
    if response.headers.get_content_type() == "text/event-stream":
        text = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
    return json.loads(text)


def mcp(token, method, path="/mcp", **params):
    head = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        head["Mcp-Name"] = params["name"]
    return ask(token, "POST", path, {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": {**params, "_meta": META}}, head)


def load(profiles):
    with open(POLICY, "w", encoding="utf-8") as f:
        json.dump({"policy": 1, "otherwise": "as_granted", "profiles": profiles}, f)
    subprocess.run(RELOAD, check=True, stdout=subprocess.DEVNULL)


def grant(task):
    made = ask(TOKEN, "POST", "/v1/grants", {"reason": "profiles", "task_id": task})
    return made.get("token") or sys.exit(f"no grant for {task}: {made}")


def tools(token):
    return {t["name"]: t["inputSchema"] for t in mcp(token, "tools/list")["result"]["tools"]}


def check(what, is_so, said=""):
    if not is_so:
        failures.append(f"{what}: {said}")


known = {"session_id": SANDBOX, "path": "a.txt", "to": "b.txt", "argv": ["true"], "content": "x", "patch": "*** Begin Patch\n*** Add File: p\n+x\n*** End Patch\n",
         "pattern": "x", "name": "n", "reason": "profiles", "code": "1", "language": "python", "signal": "CONT", "keys": ["Enter"], "cols": 80, "rows": 24,
         "shell": "s", "service": "web", "server": "echo", "method": "tools/list", "snapshot_id": str(uuid.uuid4()), "lock_id": str(uuid.uuid4())}
besides = {"sandbox.round.stdin": {"data": "x"}, "artifact.keep": {"session_id": SANDBOX, "path": "a.txt"}, "sandbox.round.start": {"argv": ["true"]}, "sandbox.terminal.start": {"argv": ["true"]}}
# What only asks within the sandbox, so that what came of it is not denied but what it was told; the end of the sandbox is the last call.
LAST = ["sandbox.session.restore", "sandbox.session.end"]


def call(token, tool, task, schema):
    given = {**known, **besides.get(tool, {}), "task_id": task}
    args = {k: given[k] for k in schema["required"]} | besides.get(tool, {})
    result = mcp(token, "tools/call", name=tool, arguments=args).get("result", {})
    return result["content"][0]["text"].split(":")[0] if result.get("isError") else "done"


operations = [line.split()[0] for line in subprocess.run([RELOAD[0], *RELOAD[1:3], "policy", "operations"], check=True, capture_output=True, text=True).stdout.splitlines()
              if "." in line.split()[0]]
every = list(operations)

# Whoever may run something may read its answer: that goes with what runs.
WITH = {"round.read": {"round.start", "context.execute", "python.execute"}}
without = [{"name": "w-" + op.replace(".", "-"), "match": {"task": "without-" + op}, "allow": [o for o in every if o not in WITH.get(op, set()) | {op}]} for op in operations]

load([{"name": "all", "match": {"task": "all"}, "allow": ["*"]}])
everything = grant("all")
shown = tools(everything)
check("with everything allowed all tools are shown", len(shown) > 50, len(shown))
load(without)
tokens = {op: grant("without-" + op) for op in operations}
gone = {op: {t for t in shown if t not in tools(tokens[op])} for op in operations}
print("operations without tools:", ", ".join(op for op in operations if not gone[op]))
check("each tool goes with an operation", set().union(*gone.values()) == set(shown), set(shown) - set().union(*gone.values()))

# Rounds and a context for the tools that are about one: begun while nothing is denied, each under the task that will be.
load([])
assert call(everything, "sandbox.session.create", "all", shown["sandbox.session.create"]) == "done"
rounds = {}
for op in operations:
    if any("round_id" in shown[t]["required"] for t in gone[op]):
        made = mcp(tokens[op], "tools/call", name="sandbox.terminal.start", arguments={"task_id": "without-" + op, "session_id": SANDBOX, "argv": ["sleep", "600"]})
        rounds[op] = made["result"]["structuredContent"]["round_id"]
made = mcp(everything, "tools/call", name="sandbox.context.create", arguments={"task_id": "all", "session_id": SANDBOX, "language": "python"})
known["context_id"] = made["result"]["structuredContent"]["context_id"]

load(without)
denied = 0
for op in operations:
    known["round_id"] = rounds.get(op, str(uuid.uuid4()))
    for tool in sorted(gone[op]):
        code = call(tokens[op], tool, "without-" + op, shown[tool])
        check(f"{tool} without {op}", code == "policy_denied", code)
        denied += 1

alone = {op: {t for t in gone[op] if op not in WITH or not any(t in gone[o] for o in WITH[op])} for op in operations}
needs = {t: [op for op in operations if t in alone[op]] for t in shown}
needs["artifact.keep"].append("file.read")  # of a file; of a round's output its own
only = [{"name": "o-" + t.replace(".", "-").replace("_", "-"), "match": {"task": "only-" + t}, "allow": needs[t]} for t in shown]
order = [t for t in shown if t not in LAST] + [t for t in LAST if t in shown]
mine = {t: grant("only-" + t) for t in order}
load([])
for tool in order:
    if "round_id" in shown[tool]["required"]:
        made = mcp(mine[tool], "tools/call", name="sandbox.terminal.start", arguments={"task_id": "only-" + tool, "session_id": SANDBOX, "argv": ["sleep", "600"]})
        rounds[tool] = made["result"]["structuredContent"]["round_id"]
load(only)
for tool in order:
    known["round_id"] = rounds.get(tool, str(uuid.uuid4()))
    seen = set(tools(mine[tool]))
    check(f"{tool} is shown where {needs[tool]} are allowed", tool in seen, sorted(seen))
    code = call(mine[tool], tool, "only-" + tool, shown[tool])
    check(f"{tool} with {needs[tool]} alone", code != "policy_denied", code)

# A profile that opens a part of an operation shows the tool, and the part.
load([{"name": "narrow", "match": {"task": "narrow"}, "allow": ["sandbox.wake", "mcp.read", {"mcp.call": {"servers": {"echo": ["say"]}}}, {"file.write": {"paths": ["src/**"]}}]}])
narrow = grant("narrow")
seen = set(tools(narrow))
check("a part of an operation", {"sandbox.mcp.request", "sandbox.workspace.write_file"} <= seen and "sandbox.workspace.read_file" not in seen, sorted(seen))
check("a path outside of it", call(narrow, "sandbox.workspace.write_file", "narrow", shown["sandbox.workspace.write_file"]) == "policy_denied")
through = mcp(narrow, "tools/list", f"/mcp/{SANDBOX}/echo")
check("of a server inside the tools that are allowed", [t["name"] for t in through["result"]["tools"]] == ["say"], through)
refused = mcp(narrow, "tools/call", f"/mcp/{SANDBOX}/echo", name="shout", arguments={})
check("and no other", "policy_denied" in json.dumps(refused), refused)

# Image and resources: each profile with each call that names some. It comes last, since the images are names alone.
SHAPES = {"one": {"image": "py"}, "several": {"image": ["py", "node"]}, "default": {"image": {"default": "node"}}, "bare": {"image": ["none", "node"]},
          "most": {"resources": {"most": {"memory": "64Mi", "pids": 50}}}, "clips": {"resources": {"most": {"memory": "64Mi"}, "over": "clip"}},
          "both": {"image": "node", "resources": {"most": {"cpu": 1, "memory": "64Mi"}, "default": {"memory": "32Mi"}}}, "neither": {}}
IMAGES = {"one": ["py"], "several": ["py", "node"], "bare": ["node"], "both": ["node"]}
OVER = {"most": ["memory", "pids"], "both": ["memory", "cpu"]}
asked = [{"image_ref": name} for name in ("py", "node")] + [{"constraints": {"resources": {key: value}}} for key, value in (("memory", "32Mi"), ("memory", "65Mi"), ("pids", 51), ("cpu", "1001m"))]
load([{"name": name, "match": {"task": "shape-" + name}, "allow": ["*"], **shape} for name, shape in SHAPES.items()])
shaped = 0
for name in SHAPES:
    token = grant("shape-" + name)
    for given in asked:
        over = [key for key, value in given.get("constraints", {}).get("resources", {}).items() if value != "32Mi" and key in OVER.get(name, [])]
        if name == "several" and "image_ref" not in given:
            given = {**given, "image_ref": "py"}  # or else it hangs on what the sandbox has from before
        wrong = over or given.get("image_ref", "node" if name != "one" else "py") not in IMAGES.get(name, ["py", "node"])
        result = mcp(token, "tools/call", name="sandbox.session.create", arguments={"task_id": "shape-" + name, "session_id": SANDBOX, **given})["result"]
        text = result["content"][0]["text"] if result.get("isError") else "done"
        check(f"{given} under profile {name}", text.startswith("policy_denied") == bool(wrong), text)
        check(f"{given} under profile {name}, in words", not wrong or f'profile "{name}"' in text, text)
        shaped += 1

if failures:
    sys.exit("\n".join(failures))
print(f"{denied} calls denied, {len(order)} tools, {shaped} shapes")
