#!/bin/bash
# A server inside that may ask its client back: questions reach the caller whose call is under way, by both eras of the protocol, and
# answers reach that call alone. Bad servers and bad clients get errors by name. Everything that was said is in the record. What is
# not opened, by the list or by the policy, is refused; so it is where a caller cannot answer.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/servers_story.sh
. "$(dirname "$0")/../lib/servers_story.sh"

chmod 0711 "$tmp"
cat >"$tmp/policy.yaml" <<'P'
policy: 1
otherwise: as_granted
profiles:
- name: quiet
  match: {task: quiet}
  allow: [mcp.read, mcp.call]
P
echo "policy: {file: $tmp/policy.yaml}" >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
servers_begin asks
muxctl put asks "$here/tests/lib/asking_server.py" asking.py >/dev/null || fail "no server"
asking() { jq -nc --argjson more "${1:-{\}}" '{servers: [{name: "asking", command: ["python3", "/workspace/asking.py"]} + $more]}'; }
equal "what there is to open" "invalid_request invalid_request" "$(for asks in '["money"]' '["roots","roots"]'; do servers PUT "" "$(asking "{\"asks\":$asks}")" | code; done | paste -sd' ')"
servers PUT "" "$(asking)" >/dev/null
equal "nothing is open" "-32601 elicitation/create is off: a server inside a sandbox may not ask its client for it" "$(use asking form | said)"
servers PUT "" "$(asking '{"asks":["elicitation"]}')" >/dev/null
equal "by the API nobody can answer" "-32601 elicitation/create: its caller has no way to answer" "$(use asking form | said)"
wait_for 10 is_so asking '.stderr | contains("capabilities: {\"elicitation\": {}}")' || fail "it is told other capabilities"
other=$(PRINCIPAL=other new_token asks agent rounds,files)
asker=$(muxctl grant create --agent asks --principal asker --kind agent --scopes rounds --task story --ttl 15m --reason story -o json)
printf '%s\n%s\n' "$(jq -r .token <<<"$asker")" "$other" | /usr/bin/python3 "$here/tests/integration/mcp_asks.py" "$(ready https_url)mcp/asks/asking" "$MUXD_STATE/keys/tls.crt" >"$tmp/said" || fail "$(tail -1 "$tmp/said")"
ok "$(wc -l <"$tmp/said") answers of both eras"

# new TOKEN TOOL [MORE]: a call of 2026-07-28, by curl
new() {
	jq -nc --arg t "$2" --argjson more "${3:-{\}}" '{jsonrpc: "2.0", id: 1, method: "tools/call", params: ({name: $t, arguments: {},
		_meta: {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {elicitation: {}}}} + $more)}' |
		curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
			-H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H "Mcp-Name: $2" -d @- http://localhost/mcp/asks/asking | sed 's/^data: //' | grep '^{'
}
text_of() { jq -r '.result.content[0].text // .result.resultType // .error.code'; }

# Sixteen requests of one caller wait for him: another's is not served before they end, here with their grant.
new "$other" slow '{"arguments":{"ms":1}}' >"$tmp/other" &
waits=$!
wait_for 10 is_so asking '.requests == 17' || fail "they do not wait: $(servers GET /asking | jq .requests)"
equal "another's request waits" "" "$(cat "$tmp/other")"
muxctl grant revoke "$(jq -r .id <<<"$asker")" >/dev/null || fail "not revoked"
wait $waits
equal "and is served when their grant has ended" "slow is done" "$(text_of <"$tmp/other")"
told "which they are told of" 16 mcp.ask 'map(select(.outcome == "unanswered" and .principal == "asker")) | length | if . >= 16 then 16 else . end'

round=$(events mcp.ask 'map(select(.outcome == "answered")) | .[0].detail.session')
auditor=$(new_token asks auditor replay)
in_record() {
	asked "$auditor" GET "/v1/recordings/$round/events" "" | tr -d '\0' | grep -aoE '"event":"mcp_question","kind":"elicitation","outcome":"(asked|answered)"[^}]*"(params|answer)_sha256":"[0-9a-f]{64}"' |
		grep -aoE 'asked|answered' | sort -u | paste -sd' '
}
round_is() { [ "$(in_record)" = "answered asked" ]; }
wait_for 20 round_is || fail "in the record: $(in_record)"
ok "both are in its round"

quiet=$(PRINCIPAL=other GRANT_TASK=quiet new_token asks agent rounds)
equal "a policy that does not name it" "-32601 elicitation/create: the policy does not allow it" "$(new "$quiet" form | text_of)"
told "says so" "mcp.ask quiet" policy.deny '.[0] | "\(.detail.operation) \(.detail.task)"'

new "$other" form '{"arguments":{"n":1}}' >"$tmp/open"
round=$(events mcp.ask 'map(select(.outcome == "asked")) | max_by(.wall_ns).detail.session')
kill -9 "$(jq .pids.net "$MUXD_STATE/ready.json")"
wait_for 20 curl -sSf --unix-socket "$MUXD_STATE/api.sock" http://localhost/readyz || fail "the daemon does not come back"
equal "a question does not outlive the daemon" -32602 "$(new "$other" form "$(jq -c '{arguments: {n: 1}, requestState: .result.requestState, inputResponses: {(.result.inputRequests | keys[0]): {action: "accept"}}}' "$tmp/open")" | text_of)"
equal "and its request's round says that nobody knows" unknown "$(asked "$other" GET "/v1/rounds/$round" "" | jq -r .exit.cause)"
equal "the next one is asked" input_required "$(new "$other" form | text_of)"
muxctl verify --all >"$tmp/verify" 2>&1 || fail "the record does not verify: $(tail -3 "$tmp/verify")"
