"""Every tool of MCP with each grant that must not use it: what the agent is told, as TOOL CREDENTIAL CODE lines.

    mcp_refused.py URL CACERT TOKENS.json     tokens: {credential: token}; "full" has every scope
"""
import json
import ssl
import sys
import urllib.request

URL, CA, TOKENS = sys.argv[1:4]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
tls = ssl.create_default_context(cafile=CA)
tls.check_hostname = False


def ask(token, method, params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
        text = answer.read().decode()
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return json.loads(data[-1] if data else text)["result"]


def some(schema, name):
    """An argument that fits its schema."""
    if name == "session_id":
        return "refused"
    if name == "task_id":
        return "story"
    if schema.get("minLength") == 36:
        return "0193aaaa-0000-7000-8000-000000000001"
    return {"string": (schema.get("enum") or ["x"])[0], "array": ["x"], "integer": 1, "boolean": True, "object": {}}[schema["type"]]


with open(TOKENS) as f:
    tokens = json.load(f)
tools = ask(tokens["full"], "tools/list", {})["tools"]
for tool in tools:
    schema = tool["inputSchema"]
    args = {name: some(schema["properties"][name], name) for name in schema["required"]}
    if "command" in schema["properties"]:
        args["command"] = "true"
    for credential, token in tokens.items():
        if credential == "full":
            continue
        given = args | ({"task_id": "another"} if credential == "task" and "task_id" in schema["properties"] else {})
        if credential == "task" and "task_id" not in given:
            continue
        if credential == "agent" and "session_id" not in given:
            continue
        result = ask(token if credential != "task" else tokens["full"], "tools/call", {"name": tool["name"], "arguments": given})
        print(tool["name"], credential, result["content"][0]["text"].split(":")[0] if result.get("isError") else "let in")
print("listed", "scopes", len(ask(tokens["scopes"], "tools/list", {})["tools"]))
