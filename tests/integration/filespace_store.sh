#!/bin/bash
# shellcheck disable=SC2016
# The way to a file store: by TLS with a token, which may change; a store that cannot be believed to be the right one is none. What
# an MCP server inside and a tool of MCP wrote is pushed. Syncs of many agents wait for each other where their room is small, and
# one that takes too long ends (LONG=1: that needs a minute).
# tier: test, slice LONG=0, whole LONG=1
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/filespace_story.sh
. "$(dirname "$0")/../lib/filespace_story.sh"

certificate() { # NAME: $tmp/NAME.crt and .key, for this machine
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=store -addext "subjectAltName=IP:127.0.0.1" \
		-keyout "$tmp/$1.key" -out "$tmp/$1.crt" 2>/dev/null || fail "no certificate"
}
token_is() { # WORD: what the daemon shows, and the store wants
	printf '%s' "$1" >"$tmp/token"
	store_again
}
store_again() { # [CERTIFICATE]
	store_kill
	store_start --token-file "$tmp/token" --tls-cert "$tmp/${1:-store}.crt" --tls-key "$tmp/${1:-store}.key"
}
store() { curl -sS --cacert "$tmp/store.crt" -H "Authorization: Bearer $(cat "$tmp/token")" "https://127.0.0.1:$STORE_PORT/spaces/$1/$2" ${3:+-H 'Content-Type: application/json' --data-binary "$3"}; }
configured() { # the rest of the section
	printf 'filespace: {url: "https://127.0.0.1:%s", token_file: %s, ca_file: %s, %s}\nlifecycle: {at_rest: drop}\n' \
		"$STORE_PORT" "$tmp/token" "$tmp/store.crt" "$1" >"$tmp/muxd.yaml"
}

chmod 0711 "$tmp"
certificate store
certificate other
: >"$tmp/lie"
STORE_PROGRAM=tests/lib/lying_store.py
STORE=
trap 'stop_daemon; store_kill; tidy' EXIT
token_is "first-token"
configured "timeout: 300ms"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
TOKEN=$(new_token demo agent rounds,files,lifecycle)
run demo 'echo made >made.txt' >/dev/null
wait_for 5 in_store made.txt made && ok "by TLS and with a token" || fail "made.txt is not in the store: $(muxctl filespace status demo -o json)"
equal "without it nobody is answered" 401 "$(curl -s -o /dev/null -w '%{http_code}' --cacert "$tmp/store.crt" "https://127.0.0.1:$STORE_PORT/spaces/demo/files")"
token_is "second-token"
kill -HUP "$DAEMON"
wait_for 5 test "$(cat "$tmp/token")" = "$(cat "$tmp/state/keys/filespace/token")"
run demo 'echo later >later.txt' >/dev/null
wait_for 5 in_store later.txt later && ok "another token is shown once the file has it" || fail "later.txt is not in the store: $(muxctl filespace status demo -o json)"
store_again other
run demo 'echo kept >kept.txt' >/dev/null
wait_for 10 state_is error && ok "a store with a certificate of others is none" || fail "the state is $(muxctl sandbox show demo -o json | jq -r .state)"
store_again
equal "and nothing is lost by it" kept "$(run demo 'cat kept.txt')"
wait_for 5 in_store kept.txt kept || fail "kept.txt is not in the store"

# Behind a tool of muxd's own, and behind a server inside. The put's own sync is over by then.
muxctl put demo "$here/tests/lib/mcp_server.py" server.py >/dev/null || fail "no server"
wait_for 10 in_store server.py "$(cat "$here/tests/lib/mcp_server.py")" || fail "server.py is not in the store"
rests() { [ "$(muxctl filespace status demo -o json | jq -r .state)" = idle ]; }
wait_for 10 rests || fail "its sync is not over"
api "$TOKEN" PUT /v1/agents/demo/mcp/servers '{"servers":[{"name":"counter","command":["python3","/workspace/server.py","counts"]}]}' >/dev/null
muxctl mcp request demo counter tools/call '{"name":"count","arguments":{"file":"/workspace/inside.txt"}}' --task story >/dev/null || fail "no answer"
wait_for 5 in_store inside.txt x && ok "what a server inside wrote is in the store" || fail "inside.txt is not in the store"
caused() { muxctl audit --event filespace.sync -n 1000 -o json | jq -e ".record.detail.causes[]? | select(.kind == \"$1\")" >/dev/null; }
wait_for 10 caused mcp && ok "its sync says that a request caused it" || fail "no sync was caused by a request"
printf '%s\n%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}' \
	'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox.workspace.write_file","arguments":{"task_id":"story","session_id":"demo","path":"tool.txt","content":"by a tool"}}}' |
	muxctl mcp demo --ttl 20m >"$tmp/answers" || fail "muxctl mcp"
wait_for 5 in_store tool.txt "by a tool" && ok "and what a tool wrote" || fail "tool.txt is not in the store: $(cat "$tmp/answers")"

# Where the configuration allows so much that one sync alone has room, a second one waits until the first is over.
configured "timeout: 30s, max_files: 100000, max_file_size: 64MiB"
kill -HUP "$DAEMON"
SECOND=$(new_token second agent rounds,files)
api "$SECOND" POST /v1/agents/second/rounds '{"argv":["true"]}' >/dev/null
states() { for a in demo second; do muxctl filespace status $a -o json | jq -r .state; done | sort | xargs; }
at_rest() { [ "$(states)" = "idle idle" ]; }
states_are() { [ "$(states)" = "$1" ]; }
wait_for 10 at_rest || fail "they do not rest: $(states)"
kill -STOP "$STORE"
run demo 'echo one >one.txt' >/dev/null
api "$SECOND" POST /v1/agents/second/rounds '{"command":"echo two >two.txt"}' >/dev/null
wait_for 10 states_are "queued running" && ok "one sync runs, and one waits for its room" || fail "they are $(states)"
kill -CONT "$STORE"
wait_for 10 in_store one.txt one || fail "one.txt is not in the store"
second_there() { [ "$(store_has second two.txt)" = two ]; }
wait_for 10 second_there && ok "then it has its turn" || fail "two.txt is not in the store: $(muxctl filespace status second -o json)"

[ "${LONG:-0}" = 0 ] || {
	configured "timeout: 1s"
	kill -HUP "$DAEMON"
	echo slow >"$tmp/lie"
	equal "a sync that is over a minute old ends, though each of its requests is answered in time" timeout "$(sync_files demo pull | jq -r .error.code)"
	muxctl audit --event filespace.sync -n 1000 -o json | jq -r ".record.detail.message" | grep -q "ten times filespace.timeout" && ok "and says so" || fail "no event says so"
	: >"$tmp/lie"
}
record_is_whole
