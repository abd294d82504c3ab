#!/bin/bash
# Over MCP a round belongs to its task, and a call for another task does not reach it. The daemon lets nobody wait for a round
# (rounds.wait_max), and a long call has its end all the same. A page of another origin is in the audit log.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

echo 'rounds: {wait_max: 0s}' >"$tmp/conf.yaml"
chmod 0711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
# use TOOL ARGUMENTS: what the call is answered
use() {
	printf '%s\n%s\n' "$hello" "$(jq -nc --arg name "$1" --argjson arguments "$2" \
		'{jsonrpc: "2.0", id: 2, method: "tools/call", params: {$name, $arguments}}')" | muxctl mcp own --ttl 20m | jq -c 'select(.id == 2).result'
}
use sandbox.session.create '{"task_id": "one", "session_id": "own"}' >"$tmp/made"
equal "a long call" '"done\n"' "$(use sandbox.session.exec '{"task_id": "one", "session_id": "own", "argv": ["sh", "-c", "sleep 2.5; echo done"]}' |
	jq -c .structuredContent.stdout)"
round=$(use sandbox.round.start '{"task_id": "one", "session_id": "own", "argv": ["sleep", "300"]}' | jq -r .structuredContent.round_id)
for call in show output end; do
	args=$(jq -nc --arg r "$round" --arg call "$call" '{task_id: "two", round_id: $r} + if $call == "end" then {reason: "x"} else {} end')
	equal "$call of another task's round" task_mismatch "$(use "sandbox.round.$call" "$args" | jq -r '.content[0].text | split(":")[0]')"
done
equal "and of its own" running "$(use sandbox.round.show "$(jq -nc --arg r "$round" '{task_id: "one", round_id: $r}')" | jq -r .structuredContent.state)"
PRINCIPAL=page
new_token own agent rounds >"$tmp/token"
equal "a foreign page" 403 "$(curl -s -o "$tmp/refused" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $(cat "$tmp/token")" \
	-H 'Origin: https://elsewhere.example' -H 'Content-Type: application/json' -d '{}' "$(ready https_url)mcp")"
told() { muxctl audit --principal page --event verdict -o json | jq -e 'select(.record.outcome == "forbidden")' >"$tmp/told"; }
wait_for 10 told || fail "the foreign page is not in the audit log"
ok "and the audit log has it"
