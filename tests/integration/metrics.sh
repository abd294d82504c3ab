#!/bin/bash
# /metrics is read by Prometheus' own parser, and the dashboard in docs/ asks for nothing that is not there.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=metrics
token=$(new_token $agent staff rounds,lifecycle)
page() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/metrics"; }
# value NAME{LABELS}: of one series
value() { awk -v s="$1" '$1 == s { print $2 }' "$tmp/page"; }

page >"$tmp/page" || fail "no page"
before=$(value muxd_round_duration_seconds_count)
api "$token" POST /v1/agents/$agent/rounds '{"argv":["true"],"wait_ms":30000}' | jq -e '.exit.code == 0' >/dev/null || fail "no round"
page >"$tmp/page" || fail "no page"
/usr/bin/python3 "$here/tests/integration/metrics_check.py" "$here/docs/grafana-dashboard.json" \
	muxd_build_info muxd_agents muxd_lifecycle_failures_total <"$tmp/page" || fail "the page or the dashboard is wrong"
ok "the page parses, and has what the dashboard asks for"
equal "a round is counted with its time" $((before + 1)) "$(value muxd_round_duration_seconds_count)"
[ "$(value 'muxd_agents{state="running"}')" -ge 1 ] && ok "the agent runs" || fail "nobody runs: $(grep ^muxd_agents "$tmp/page")"
starts=$(value muxd_sandbox_start_seconds_count)
stopped=$(value 'muxd_agents{state="stopped"}')
muxctl sandbox stop $agent --reason story >/dev/null || fail "not stopped"
page >"$tmp/page"
equal "one more is stopped" $((stopped + 1)) "$(value 'muxd_agents{state="stopped"}')"
[ "$(value muxd_sandbox_snapshot_seconds_count)" -ge 1 ] && ok "its snapshot was timed" || fail "no snapshot was timed"
muxctl sandbox resume $agent >/dev/null || fail "not resumed"
page >"$tmp/page"
equal "a start is timed" $((starts + 1)) "$(value muxd_sandbox_start_seconds_count)"
