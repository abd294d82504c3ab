#!/bin/bash
# /metrics is read by Prometheus' own parser, and the dashboard in docs/ asks for nothing that is not there.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=metrics
token=$(new_token $agent staff rounds,lifecycle)
watcher=$(new_token $agent staff observe)
page() { api "$watcher" GET /metrics; }
status() { curl -sS -o /dev/null -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" "${@:2}" "https://$(ready https)$1"; }

equal "nobody reads it without a credential, from this machine neither" 401 "$(status /metrics)"
# value NAME{LABELS}: of one series
value() { awk -v s="$1" '$1 == s { print $2 }' "$tmp/page"; }

page >"$tmp/page" || fail "no page"
before=$(value muxd_round_duration_seconds_count)
api "$token" POST /v1/agents/$agent/rounds '{"argv":["true"],"wait_ms":30000}' | jq -e '.exit.code == 0' >/dev/null || fail "no round"
page >"$tmp/page" || fail "no page"
# Alerts ask for what is there, too; a witness has its numbers where there is one.
alerts=$(/usr/bin/python3 "$here/tests/chart/check.py" "$here" --metrics) || fail "no metrics of the alerts"
[[ $alerts == *muxd_record_state* ]] || fail "the alerts go by: $alerts"
/usr/bin/python3 "$here/tests/integration/metrics_check.py" "$here/docs/grafana-dashboard.json" \
	muxd_build_info muxd_agents muxd_lifecycle_failures_total ${alerts/muxd_witness_lag_seconds/} <"$tmp/page" || fail "the page or the dashboard is wrong"
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

# A scraper's credential: from the configuration, and nothing else.
openssl rand -hex 32 >"$tmp/scraper"
scraper="Authorization: Bearer $(cat "$tmp/scraper")"
chmod 0711 "$tmp" && chmod 0644 "$tmp/scraper"
printf 'metrics: {token_file: %s}\n' "$tmp/scraper" >"$tmp/muxd.yaml"
trap 'stop_daemon; tidy' EXIT
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
equal "a scraper's token opens the numbers" 200 "$(status /metrics -H "$scraper")"
equal "and nothing else" 401 "$(status /v1/sessions -H "$scraper")"
openssl rand -hex 32 >"$tmp/scraper"
equal "a token that was taken out has ended" 401 "$(status /metrics -H "$scraper")"
equal "the one that came in counts at once" 200 "$(status /metrics -H "Authorization: Bearer $(cat "$tmp/scraper")")"
equal "health says how it is" '["control","ready","record","status"]' "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz" | jq -c keys)"
