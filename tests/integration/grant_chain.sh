#!/bin/bash
# Grants for automation: a service makes narrower ones for its workers, nobody gets more or longer than it has; a renewal
# keeps open what its grant holds open, also over a killed daemon; who takes a grant back takes back all that came of it.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
printf 'grants: {renew_max: 10m, warn: 2s}\nrounds: {keep: 1h}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
code() { jq -r '.error.code // "ok"'; }
mint() { muxctl grant create --agent "$1" --principal "$2" --kind "$3" --scopes "$4" --reason story -o json "${@:5}" | jq -r .token; }
SERVICE=$(mint 'ci-*' ci service rounds,files,terminal,grant --ttl 5m --write 'src/**,*.md')
# child TOKEN BODY: the answer, in $tmp/child as well
child() { api "$1" POST /v1/grants "$2" | tee "$tmp/child"; }
token() { jq -r .token "$tmp/child"; }
round() { api "$1" POST "/v1/agents/$2/rounds" "${3:-{\"argv\":[\"true\"]\}}" | jq -r '.error.code // .state'; }

# --- narrower grants
equal "a worker gets a grant" "ci/w1 agent ci-one rounds t1" \
	"$(child "$SERVICE" '{"principal":"ci/w1","kind":"agent","target":"ci-one","scopes":"rounds","task_id":"t1","ttl":"2m","reason":"one job"}' | jq -r '"\(.principal) \(.kind) \(.target) \(.scopes) \(.task_id)"')"
W1=$(token) W1_ID=$(jq -r .id "$tmp/child")
equal "which does that" "finished" "$(round "$W1" ci-one)"
equal "and nothing else" "forbidden forbidden task_mismatch" \
	"$(round "$W1" ci-two) $(api "$W1" POST /v1/agents/ci-one/fs/list '{"path":"."}' | code) $(round "$W1" ci-one '{"argv":["true"],"task_id":"t2"}')"
equal "it makes none itself" forbidden "$(child "$W1" '{"reason":"more"}' | code)"
equal "what is left out is as the parent has it" 'ci service ci-* terminal,rounds,files ["src/**","*.md"]' \
	"$(child "$SERVICE" '{"reason":"as mine"}' | jq -r '"\(.principal) \(.kind) \(.target) \(.scopes) \(.write | tojson)"')"
while read -r what body; do
	equal "not wider: $what" grant_not_narrower "$(child "$SERVICE" "$body" | code)"
done <<'T'
scope {"scopes":"rounds,admin","reason":"r"}
agent {"target":"demo","reason":"r"}
agents {"target":"*","reason":"r"}
pattern {"target":"c*","reason":"r"}
principal {"principal":"ada","reason":"r"}
almost {"principal":"ci2","reason":"r"}
kind {"kind":"auditor","reason":"r"}
time {"ttl":"6m","reason":"r"}
path {"write":["other/**"],"reason":"r"}
star {"write":["**"],"reason":"r"}
T
equal "a pattern within is" "ci-one*" "$(child "$SERVICE" '{"target":"ci-one*","reason":"r"}' | jq -r .target)"
equal "nor without a reason, or nonsense" "reason_required invalid_request invalid_request invalid_request" \
	"$(child "$SERVICE" '{}' | code) $(child "$SERVICE" '{"reason":"r","use":1}' | code) $(child "$SERVICE" '{"reason":"r","scopes":"all"}' | code) $(child "$SERVICE" '{"reason":"r","ttl":"0s"}' | code)"
DEEP=$SERVICE
for _ in 1 2 3; do
	child "$DEEP" '{"scopes":"rounds,grant","reason":"deeper"}' >/dev/null
	DEEP=$(token)
done
equal "three stand above one another" "3 grant_not_narrower" "$(jq '.above | length' "$tmp/child") $(child "$DEEP" '{"reason":"deeper"}' | code)"
listed() { api "$1" GET /v1/grants | jq -r '[.grants[].principal] | unique | join(" ")'; }
equal "each sees its own, and those made from it" "ci ci/w1|ci/w1" "$(listed "$SERVICE")|$(listed "$W1")"
event() { muxctl audit -n 1000 -o json | jq -es "any(.[].record; $1)" >/dev/null; }
event '.event == "verdict" and .detail.what == "grant.child" and .outcome == "grant_not_narrower" and .principal == "ci"' && ok "refusals are in the audit log" || fail "no verdict"

# --- renewal: a terminal, a stream of events and a daemon that is killed meanwhile
SHORT=$(mint ci-one ada staff terminal,rounds --ttl 6s --task t1)
LOST=$(mint ci-one bob staff terminal --ttl 6s)
mkfifo "$tmp/keys" "$tmp/lost"
sshx "$SHORT" ci-one -tt <"$tmp/keys" >"$tmp/screen" 2>"$tmp/err" &
exec 7>"$tmp/keys"
sshx "$LOST" ci-one -tt <"$tmp/lost" >"$tmp/lost.screen" 2>&1 &
exec 8>"$tmp/lost"
ROUND=$(api "$SHORT" POST /v1/agents/ci-one/rounds '{"command":"while sleep 1; do echo tick; done","wait_ms":0,"timeout_ms":300000}' | jq -r .round_id)
curl -sSN --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $SHORT" "http://localhost/v1/rounds/$ROUND/events" >"$tmp/events" 2>&1 &
echo 'echo a''live' >&7
wait_for 10 grep -q alive "$tmp/screen" || fail "no terminal: $(cat "$tmp/err")"
wait_for 10 grep -q 'bob\|\$' "$tmp/lost.screen"
equal "no reason, no renewal" reason_required "$(api "$SHORT" POST /v1/grants/renew '{}' | code)"
equal "nor for longer than policy says" forbidden "$(api "$SHORT" POST /v1/grants/renew '{"ttl":"11m","reason":"r"}' | code)"
api "$SHORT" POST /v1/grants/renew '{"ttl":"2m","reason":"still at it"}' >"$tmp/renewed"
LONG=$(jq -r .token "$tmp/renewed")
wait_for 10 grep -q 'access was renewed' "$tmp/screen" && ok "the terminal is told" || fail "$(cat "$tmp/screen" "$tmp/renewed")"
wait_for 15 grep -q 'grant has ended' "$tmp/lost.screen" && ok "one that was not renewed is cut" || fail "$(cat "$tmp/lost.screen")"
sleep 1
equal "the old token is over, the new one serves" "token_expired finished" "$(round "$SHORT" ci-one) $(round "$LONG" ci-one)"
echo 'echo go''es on' >&7
wait_for 10 grep -q 'goes on' "$tmp/screen" && ok "the terminal goes on" || fail "$(cat "$tmp/screen")"
ticks() { grep -c tick "$tmp/events"; }
T0=$(ticks)
more() { [ "$(ticks)" -gt $((T0 + 1)) ]; }
wait_for 10 more && ok "so do its events" || fail "$(tail -3 "$tmp/events")"
equal "and the round" running "$(api "$LONG" GET "/v1/rounds/$ROUND" | jq -r .state)"
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon again"
sleep 3
equal "also over a killed daemon" running "$(api "$LONG" GET "/v1/rounds/$ROUND" | jq -r .state)"
event '.event == "grant.renew" and .principal == "ada" and .reason == "still at it" and .first != null' && ok "the audit log has it" || fail "no event"
equal "a renewal may be renewed" "ok" "$(api "$LONG" POST /v1/grants/renew '{"ttl":"3m","reason":"and on"}' | code)"

# --- taken back, with all that came of it
child "$SERVICE" '{"principal":"ci/w2","scopes":"rounds","target":"ci-one","task_id":"t1","reason":"two"}' >/dev/null
W2=$(token)
JOB=$(api "$W2" POST /v1/agents/ci-one/rounds '{"command":"sleep 300","wait_ms":0}' | jq -r .round_id)
S_ID=$(api "$SERVICE" GET /v1/grants | jq -r '[.grants[] | select(.above == null)][0].id')
equal "not by a worker, nor another's" "not_found not_found" \
	"$(api "$W2" DELETE "/v1/grants/$S_ID" | code) $(api "$LONG" DELETE "/v1/grants/$W1_ID" | code)"
equal "a worker's alone" "true token_revoked finished" "$(api "$SERVICE" DELETE "/v1/grants/$W1_ID" | jq -r .revoked) $(round "$W1" ci-one) $(round "$W2" ci-one)"
asked_by() { muxctl audit --event grant.revoke -n 100 -o json | jq -r "select(.record.grant_id == \"$1\") | .record.via"; }
muxctl grant revoke "$S_ID" >/dev/null || fail "not revoked"
told() { [ "$(asked_by "$W1_ID") $(asked_by "$S_ID")" = "grant admin" ]; }
wait_for 20 told && ok "the record tells a holder's revocation from an administrator's" || fail "the record says '$(asked_by "$W1_ID") $(asked_by "$S_ID")': $(muxctl audit --event grant.revoke -n 3 -o json)"
equal "the service's, and with it the others" "token_revoked token_revoked token_revoked" "$(round "$SERVICE" ci-one) $(round "$W2" ci-one) $(round "$DEEP" ci-one)"
ended() { ! muxctl session list --agent ci-one -o json | jq -e "any(.sessions[]; .id == \"$JOB\")" >/dev/null; }
wait_for 10 ended && ok "what they held open has ended" || fail "$(muxctl session list --agent ci-one)"
L_ID=$(jq -r .id "$tmp/renewed")
muxctl grant revoke "$L_ID" >/dev/null || fail "not revoked"
equal "of renewals one is all" "token_revoked" "$(round "$LONG" ci-one)"
stop_daemon
printf 'rounds: {keep: 1h}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon a third time"
equal "and stays so over a restart" "token_revoked token_revoked token_revoked" "$(round "$W2" ci-one) $(round "$DEEP" ci-one) $(round "$LONG" ci-one)"
NEW=$(mint ci-one ada staff rounds --ttl 1m)
equal "renewals are off unless they are opened" unsupported "$(api "$NEW" POST /v1/grants/renew '{"reason":"r"}' | code)"
N_ID=$(api "$NEW" GET /v1/grants | jq -r '.grants[0].id')
muxctl grant renew "$N_ID" --reason "by the operator" --ttl 5m -o json | jq -e '.first == "'"$N_ID"'" and .token' >/dev/null && ok "but for who administers" || fail "not renewed"
