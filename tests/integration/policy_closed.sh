#!/bin/bash
# No journal, no allowance: with a policy in force that allows everything, no operation of any door starts anything while the
# recorder stands still, is dead, or its disk is full; and nothing of it is in the log afterwards but refusals.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
matrix=$here/tests/integration/audit_matrix.py
python3 "$matrix" policy >"$tmp/policy.yaml"
config() { printf 'rounds: {pty: true}\nrouter: {ports: "1-65535", runtime: true}\npolicy: {file: %s}\nrecord: {min_free: %s}\n' "$tmp/policy.yaml" "$1" >"$tmp/muxd.yaml"; }
config 1MiB
stopped=
trap 'kill -CONT $stopped 2>/dev/null; stop_daemon; tidy' EXIT
POOL_SIZE=0 start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
owner=$(PRINCIPAL=owner new_token matrix agent rounds)
round=$(api "$owner" POST /v1/agents/matrix/rounds '{"argv":["sleep","600"],"wait_ms":0}' | jq -r .round_id)
jq -n --arg https "$(ready https)" --arg ssh "$(ready ssh)" --arg round "$round" \
	'{https: $https, ssh: $ssh, old: $round, round: $round, lease: "0193aaaa-0000-7000-8000-000000000001", revoked: "", revoked_id: ""}' >"$tmp/facts"
of_matrix() { /usr/bin/python3 "$matrix" "$1" "$MUXD_STATE" "$tmp/facts" "$2"; }
closed() { of_matrix closed "$1"; }
kept() { of_matrix kept "$1" && ok "what was refused is as it was, what was ended has ended ($1)" || fail "something was changed"; }
for phase in stopped killed full; do of_matrix furnish $phase || fail "nothing to act on"; done
health() { curl -sS -m 20 -o "$tmp/health" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz"; }
healthy() { [ "$(health)" = 200 ]; }
unhealthy() { [ "$(health)" = 503 ]; }

stopped=$(ready pids.recorder)
kill -STOP "$stopped"
wait_for 30 unhealthy || fail "the recorder stands still, and nobody says so"
closed stopped && ok "nothing starts while the recorder stands still" || fail "something started"
kill -CONT "$stopped"
wait_for 30 healthy || fail "it does not go on: $(cat "$tmp/health")"
kept stopped

# The monitor would start another one.
recorder=$(ready pids.recorder) stopped=$(ready pids.monitor)
kill -STOP "$stopped"
kill -9 "$recorder"
wait_for 30 unhealthy || fail "the recorder is dead, and nobody says so"
closed killed && ok "nor while it is dead" || fail "something started"
kill -CONT "$stopped"
stopped=
wait_for 30 healthy || fail "no other recorder: $(cat "$tmp/health")"
kept killed

config 1TiB
muxctl config reload || fail "no reload"
wait_for 30 unhealthy || fail "the disk is full, and nobody says so"
closed full && ok "nor while its disk is full" || fail "something started"
config 1MiB
muxctl config reload || fail "no reload"
wait_for 30 healthy || fail "it does not go on: $(cat "$tmp/health")"
kept full
equal "what ran runs on" running "$(api "$owner" GET "/v1/rounds/$round" | jq -r .state)"

# What the log has of them: refusals.
muxctl shutdown --sandboxes >/dev/null || fail "no end"
wait "$DAEMON" 2>/dev/null
seq=0
while muxctl audit --since "$seq" -n 1000 -o json >"$tmp/page" 2>/dev/null && [ -s "$tmp/page" ]; do
	cat "$tmp/page" >>"$tmp/events"
	next=$(tail -n 1 "$tmp/page" | jq .seq)
	[ "$next" != "$seq" ] || break
	seq=$next
done
# But for what furnishes and looks afterwards, whose requests have a mark; ends and looks go on, and a program begins with its round.
# What the policy says of a look or an input is in the log, whether the record takes what comes of it or not.
said='(.event == "policy.allow" and (.detail.operation | test("\\.(read|list)$|^round\\.input$|^session\\.drive$")))'
goes_on='["lock.list", "context.interrupt", "context.delete", "session.terminate", "session.attach", "session.detach", "program.begin"]'
began=$(jq -c --argjson on "$goes_on" 'select(.record.principal // "" | startswith("closed-")).record |
	select((.request_id // "" | startswith("0f0f0f0f") | not) and (.event | IN($on[]) | not) and ('"$said"' | not)) | select(.outcome == "ok" or .outcome == "allowed" or .outcome == "asked") | [.event, .outcome, .endpoint]' "$tmp/events")
equal "nothing is in the log as begun" "" "$began"
