#!/bin/bash
# Every tool of MCP with a grant that lacks its scopes, with one for another sandbox, and with another task than the grant's: refused
# by name, each refusal in the audit log once, and nothing has begun. A grant is shown no tool that it may not use.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

# A daemon of its own: where others are refused as well there are too many sorts of refusals, and each is counted only.
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
PRINCIPAL=refused
full=$(new_token refused agent rounds,files,terminal,lifecycle,observe,replay)
scopes=$(new_token refused agent ports)
other=$(new_token elsewhere agent rounds,files,terminal,lifecycle,observe,replay)
(
	umask 077
	jq -n --arg full "$full" --arg scopes "$scopes" --arg other "$other" '{$full, $scopes, agent: $other, task: ""}' >"$tmp/tokens"
)
/usr/bin/python3 "$here/tests/integration/mcp_refused.py" "$(ready https_url)mcp" "$MUXD_STATE/keys/tls.crt" "$tmp/tokens" >"$tmp/said" || fail "no answers"
n=$(grep -c ' scopes forbidden' "$tmp/said")
[ "$n" -gt 25 ] || fail "only $n tools"
# Of what it is for any grant may see that it is there.
equal "no scope: forbidden, each but four" "sandbox.round.list sandbox.session.list sandbox.session.show sandbox.session.snapshots" \
	"$(grep ' scopes ' "$tmp/said" | grep -v ' forbidden$' | grep -v ^listed | cut -d' ' -f1 | sort | paste -sd' ')"
equal "and none else is listed, but the one for ports" "listed scopes 5" "$(grep ^listed "$tmp/said")"
# A list of rounds has none of another sandbox, whoever asks.
equal "another sandbox: forbidden, each" "sandbox.round.list agent let in" "$(grep ' agent ' "$tmp/said" | grep -v ' forbidden$')"
equal "another task: refused, each" "" "$(grep ' task ' "$tmp/said" | grep -v ' task_mismatch$')"
# Refusals of one sort are counted in one event, a minute after the first.
told() {
	muxctl audit --principal refused --event verdict -n 1000 -o json |
		jq -s --arg what "$1" '[.[].record | select(.outcome == $what) | .detail.count // 1] | add // 0' >"$tmp/told"
	[ "$(cat "$tmp/told")" -ge "$2" ]
}
wait_for 70 told forbidden $((n + $(grep -c ' agent forbidden' "$tmp/said"))) || fail "forbidden: $(cat "$tmp/told") events"
wait_for 70 told task_mismatch "$(grep -c ' task ' "$tmp/said")" || fail "task_mismatch: $(cat "$tmp/told") events"
ok "each refusal is in the audit log"
equal "nothing began" 0 "$(muxctl audit --agent refused -n 1000 -o json | jq -s '[.[].record | select(.event == "round.start" or .event == "agent.resume")] | length')"
