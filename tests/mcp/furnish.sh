# shellcheck shell=bash disable=SC2154
# furnish SANDBOX: what clients.mjs finds in one, a service with a port and an MCP server that says what it is told. Sourced.
furnish() {
	cat >"$tmp/services-$1.json" <<'J'
[{"name": "web", "argv": ["python3", "-m", "http.server", "8765", "--bind", "127.0.0.1"], "port": 8765}]
J
	cat >"$tmp/say-$1.py" <<'P'
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "shout")]
    results = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}},
               "tools/list": {"tools": tools}}
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": results.get(m["method"], {})}), flush=True)
P
	jq -nc --rawfile p "$tmp/say-$1.py" '{mcpServers: {echo: {command: "python3", args: ["-c", $p]}}}' >"$tmp/servers-$1.json"
	muxctl services set "$1" "$tmp/services-$1.json" >/dev/null && muxctl mcp set "$1" "$tmp/servers-$1.json" >/dev/null ||
		fail "no services, or no servers"
}
