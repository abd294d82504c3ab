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
printf '%s\n%s\n' "$token" "$other" | /usr/bin/python3 "$here/tests/integration/mcp_asks.py" "$(ready https_url)mcp/asks/asking" "$MUXD_STATE/keys/tls.crt" >"$tmp/said" || fail "$(tail -1 "$tmp/said")"
ok "$(wc -l <"$tmp/said") answers of both eras"
