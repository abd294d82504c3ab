#!/bin/bash
# Over MCP a round belongs to its task, and a call for another task does not reach it. The daemon lets nobody wait for a round
# (rounds.wait_max), and a long call has its end all the same. A page of another origin is in the audit log. The tools that an agent is
# shown are those that the profile of its task allows.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

# Two images by name alone: profiles are asked before anything is made of one.
digest=sha256:$(printf '0%.0s' {1..64})
printf 'policy: {file: %s}\nrounds: {wait_max: 0s, pty: true}\nrouter: {ports: "1-65535"}\nsandbox: {images: [{name: py, archive: %s, digest: "%s"}, {name: node, archive: %s, digest: "%s"}]}\n' \
	"$tmp/policy.yaml" "$tmp/py.tar" "$digest" "$tmp/node.tar" "$digest" >"$tmp/conf.yaml"
echo '{"policy": 1, "otherwise": "as_granted", "profiles": []}' >"$tmp/policy.yaml"
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

# What an agent is shown is what the profile of its task allows: each operation, each tool.
# shellcheck source=tests/mcp/furnish.sh
. "$here/tests/mcp/furnish.sh"
furnish profiles
muxctl grant create --agent profiles --principal profiler --kind agent --scopes rounds,files,terminal,lifecycle,ports,observe,grant --reason profiles \
	-o json | jq -r .token | /usr/bin/python3 "$here/tests/integration/mcp_profiles.py" "$(ready https_url)" "$MUXD_STATE/keys/tls.crt" "$tmp/policy.yaml" \
	"$MUXCTL" --state "$MUXD_STATE" config reload || fail "tools and profiles"
ok "an agent is shown what the profile of its task allows, and no more"
denials() { muxctl audit -n 1000 --principal profiler --event policy.deny -o json | jq -r .record.detail.operation | sort -u; }
all_told() { [ "$(denials | wc -l)" -ge 20 ]; }
wait_for 10 all_told || fail "denials in the audit log: $(denials | xargs)"
ok "each denial is in the audit log, by its operation"
