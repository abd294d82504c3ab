#!/bin/bash
# A key that signs grants may be stolen. One that is rotated lets its tokens end by themselves; one that is dropped takes with
# it all that they let in: connections, streams, rounds, also a round that a restart of net found again.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
trap 'ssh_master exit; end_own ${stream:+"$stream"}; stop_daemon; tidy' EXIT
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
agent=keys
ssh_master() { ssh -F none -O "$1" -o ControlPath="$tmp/master" 127.0.0.1 2>"$tmp/err"; }
code() { jq -r '.error.code // .state'; }
begin() { api "$1" POST /v1/agents/$agent/rounds '{"argv":["sleep","600"],"wait_ms":0}' | jq -r .round_id; }
state_of() { api "$2" GET "/v1/rounds/$1" | jq -r '.state + " " + (.exit.cause // "")'; }
ended() { [ "$(state_of "$1" "$2")" = "finished killed" ]; }

token=$(new_token $agent staff terminal,rounds)
round=$(begin "$token")
SSH_OPTS="-o ControlMaster=auto -o ControlPersist=60 -o ControlPath=$tmp/master" sshc "$token" $agent true </dev/null || fail "no way in by SSH"
curl -sSN --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" "https://$(ready https)/v1/rounds/$round/events" >"$tmp/events" 2>&1 &
stream=$!
muxctl key rotate >/dev/null || fail "no rotation"
equal "a token of the key before still counts" running "$(api "$token" GET "/v1/rounds/$round" | code)"
SSH_OPTS="-o ControlPath=$tmp/master" sshc "$token" $agent true </dev/null && ok "and what it let in goes on" || fail "cut by a rotation alone"
later=$(new_token $agent staff terminal,rounds)
other=$(begin "$later")
net=$(ready pids.net)
kill -9 "$net"
another() { [ "$(ready pids.net)" != "$net" ] && api "$later" GET "/v1/rounds/$other" | grep -q running; }
wait_for 20 another || fail "net does not come back"
SSH_OPTS="-o ControlMaster=auto -o ControlPersist=60 -o ControlPath=$tmp/master" sshc "$token" $agent true </dev/null || fail "no way in by SSH"

muxctl key rotate --drop-old >/dev/null || fail "no rotation"
equal "a token of a dropped key is none" token_signature "$(api "$token" GET "/v1/rounds/$round" | code)"
now=$(new_token $agent staff terminal,rounds,observe)
for r in "$round" "$other"; do
	wait_for 10 ended "$r" "$now" || fail "the round goes on: $(state_of "$r" "$now")"
done
ok "rounds that it began have ended, also those that net found again"
SSH_OPTS="-o ControlPath=$tmp/master -o ControlMaster=no -o ProxyCommand=false" sshc none $agent true </dev/null 2>"$tmp/err" &&
	fail "a connection that it let in opens more"
ok "a connection that it let in opens nothing"
wait "$stream"
stream=
ok "a stream of events has ended"
muxctl export "$round" --format json | jq -r 'select(.type == "event") | .body.text // ""' >"$tmp/said"
muxctl audit -n 500 -o json | jq -r '.record | select(.event == "round.end") | .detail | tostring' >"$tmp/ends"
grep -qh 'the key that signed its grant was dropped' "$tmp/said" "$tmp/ends" && ok "and the record says why" || fail "it says: $(cat "$tmp/said" "$tmp/ends")"
equal "a new token counts" in "$(sshc "$now" $agent 'echo in' </dev/null)"
