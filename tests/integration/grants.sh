#!/bin/bash
# What a grant gives, and how it ends: none without a reason; a short one warns on the screen, then cuts, and the record
# says so; a revoked one cuts at once and stays revoked over a restart; what was changed, is for somebody else, has ended
# or names no task is refused by a code that says which.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
grants: {warn: 2s}
api: {max_connections: 16}
journal: {dir: $tmp/journal, size: 8MiB}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export TERM=xterm-256color
agent=granted
code() { jq -r '.error.code // "none"'; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }
# grant ARGUMENTS: the answer as JSON, refusals too
grant() { muxctl grant create --agent $agent --principal tester "$@" -o json 2>&1; }

equal "no reason" reason_required "$(grant --kind staff | code)"
equal "an empty reason" reason_required "$(grant --kind staff --reason '  ' | code)"
equal "a longer grant than allowed" invalid_request "$(grant --kind staff --reason r --ttl 25h | code)"
equal "a scope that does not exist" invalid_request "$(grant --kind staff --reason r --scopes terminal,everything | code)"
equal "staff without a task works for the console" console "$(grant --kind staff --reason r | jq -r .task)"

# Tokens that are none.
token=$(new_token $agent staff terminal,rounds,observe)
get() { api "$1" GET /v1/sessions | code; }
equal "the token as it was given" none "$(get "$token")"
IFS=. read -r head claims signature <<<"$token"
forge() { # claims with one field changed, under the old signature
	local pad=$claims
	while [ $((${#pad} % 4)) -ne 0 ]; do pad=$pad=; done
	tr '_-' '/+' <<<"$pad" | base64 -d | jq -cj "$1" | base64 -w 0 | tr '/+' '_-' | tr -d =
}
equal "another scope written into it" token_signature "$(get "$head.$(forge '.scopes="admin"').$signature")"
equal "a later end written into it" token_signature "$(get "$head.$(forge '.exp+=86400').$signature")"
equal "its signature cut off" token_malformed "$(get "$head.$claims.")"
equal "a signature of zeros" token_signature "$(get "$head.$claims.$(head -c 64 /dev/zero | base64 -w 0 | tr -d =)")"
none=$(printf '{"alg":"none","typ":"muxd-grant"}' | base64 -w 0 | tr -d =)
equal "no algorithm" refused "$(get "$none.$claims." | sed 's/^token_.*/refused/')"
equal "nonsense" token_malformed "$(get nonsense)"
equal "another agent" forbidden "$(api "$token" POST /v1/agents/somebody/rounds '{"argv":["true"]}' | code)"
reader=$(new_token $agent staff observe)
equal "a scope it has not" forbidden "$(api "$reader" POST /v1/agents/$agent/rounds '{"argv":["true"]}' | code)"
sshc "$reader" $agent true </dev/null 2>"$tmp/err" && fail "SSH without the scope terminal"
ok "nor by SSH"

# Tasks: an agent's call belongs to one, named by the grant or the call, and by both alike.
round() { api "$1" POST /v1/agents/$agent/rounds "$2" | jq -r '.error.code // .task_id'; }
free=$(muxctl grant create --agent $agent --principal agent.1 --kind agent --scopes rounds --reason story -o json | jq -r .token)
bound=$(muxctl grant create --agent $agent --principal agent.2 --kind agent --scopes rounds --task T-1 --reason story -o json | jq -r .token)
equal "an agent without a task" task_required "$(round "$free" '{"argv":["true"]}')"
equal "the task of the call" T-7 "$(round "$free" '{"argv":["true"],"task_id":"T-7"}')"
equal "the task of the grant" T-1 "$(round "$bound" '{"argv":["true"]}')"
equal "both, and the same" T-1 "$(round "$bound" '{"argv":["true"],"task_id":"T-1"}')"
equal "both, and another" task_mismatch "$(round "$bound" '{"argv":["true"],"task_id":"T-2"}')"

# A sandbox takes its time to wake; a grant that is revoked meanwhile begins nothing in it.
late=$(muxctl grant create --agent '*' --principal agent.3 --kind service --scopes rounds --task T-1 --reason story -o json)
for n in $(seq 12); do
	api "$(jq -r .token <<<"$late")" POST "/v1/agents/late-$n/rounds" \
		'{"command": "sleep 3; touch /workspace/late", "wait_ms": 0}' >"$tmp/late.$n" 2>&1 &
done
wait_for 10 muxctl sandbox show late-1 # the first of them; the others wait for their turn
muxctl grant revoke "$(jq -r .id <<<"$late")" >/dev/null || fail "not revoked"
for n in $(seq 12); do wait_for 20 grep -q . "$tmp/late.$n"; done
sleep 4
for n in $(seq 12); do muxctl exec "late-$n" -- sh -c '[ ! -e /workspace/late ]' || fail "late-$n was entered: $(cat "$tmp/late.$n")"; done
ok "revoked while sandboxes wake: $(cat "$tmp"/late.* | grep -c token_revoked) refused, the others cut"
for n in $(seq 12); do muxctl sandbox terminate "late-$n" --reason story --how wipe >/dev/null; done

# enter TOKEN NAME: a terminal whose screen is in $tmp/NAME.screen and whose end, in ms, in $tmp/NAME.end
enter() {
	{
		sshx "$1" $agent -tt < <(
			echo 'echo in$((40+2))'
			exec sleep 30
		) >"$tmp/$2.screen" 2>&1
		now_ms >"$tmp/$2.end"
	} &
	wait_for 10 grep -q in42 "$tmp/$2.screen" || fail "no terminal: $(cat "$tmp/$2.screen")"
}
audited() { muxctl audit -n 1000 -o json | jq -c --arg id "$1" --arg event "$2" 'select((.record.event // .event) == $event) | select(tostring | contains($id))' | grep -q .; }
newest() { muxctl session list --all --agent $agent --kind terminal -n 1 -o json | jq -r '.sessions[0].id'; }
# events ID: names and texts of what happened to a session, from its recording
events() { muxctl export "$1" --format json | jq -r 'select(.type=="event") | .body | "\(.event) \(.text // .why // "")"'; }

# A short grant: warned, cut, recorded.
short=$(new_token $agent staff terminal 8s)
start=$(now_ms)
enter "$short" short
warned() { grep -aq $'\e\\]2;\\[muxd\\] access expires in' "$tmp/short.screen"; }
wait_for 20 warned || fail "no warning: $(cat "$tmp/short.screen")"
at=$(($(now_ms) - start))
[ -e "$tmp/short.end" ] && fail "cut before it was warned"
[ $at -ge 3900 ] && ok "warned ahead in the title of the window, after $at ms of 8 s" || fail "warned after $at ms"
wait_for 30 test -s "$tmp/short.end" || fail "not cut"
at=$(($(cat "$tmp/short.end") - start))
[ $at -ge 6900 ] && ok "and cut, after $at ms" || fail "cut after $at ms"
tr -d '\r' <"$tmp/short.screen" | grep -q '^\[muxd\].*grant has ended' && ok "which is said" || fail "no word at the cut: $(cat "$tmp/short.screen")"
id=$(newest)
events "$id" >"$tmp/events"
grep -q '^notice access expires in' "$tmp/events" && ok "the warning is in the recording" || fail "no notice: $(cat "$tmp/events")"
grep -q '^cut the grant has ended' "$tmp/events" && ok "and the cut" || fail "no cut: $(cat "$tmp/events")"
wait_for 10 audited "$id" session.end && ok "and the end in the audit" || fail "no end in the audit"
equal "its token is refused from then on" token_expired "$(get "$short")"

# What a grant held of the doors ends with it, also where nothing is asked that would need one.
brief=$(new_token $agent agent rounds 6s)
got=$(python3 "$here/tests/integration/grants_held.py" "$(ready https | sed 's/.*://')" "$brief" "$(new_token $agent agent rounds)" 15 2>&1)
equal "while a door is full of people who are in" 429 "$(jq .while_full <<<"$got" 2>&1)"
equal "when their grant has ended" 200 "$(jq .after <<<"$got" 2>&1)"
brief=$(new_token $agent staff terminal 3s)
sshx "$brief" $agent -M -N -o ControlPath="$tmp/master" >"$tmp/idle" 2>&1 &
idle=$!
wait_for 10 test -S "$tmp/master" || fail "no connection: $(cat "$tmp/idle")"
closed() { ! kill -0 $idle 2>/dev/null; }
wait_for 15 closed && ok "an SSH connection without a channel ends with its grant" || {
	kill $idle
	fail "an SSH connection without a channel outlives its grant"
}

# Revoked: at once, for good.
muxctl grant create --agent $agent --principal tester --kind staff --scopes terminal,rounds --task story --reason story -o json >"$tmp/grant"
revoked=$(jq -r .token "$tmp/grant")
enter "$revoked" revoked
long=$(api "$revoked" POST /v1/agents/$agent/rounds '{"argv":["sleep","60"],"wait_ms":0}' | jq -r .round_id)
start=$(now_ms)
muxctl grant revoke "$(jq -r .id "$tmp/grant")" >"$tmp/out" || fail "not revoked: $(cat "$tmp/out")"
wait_for 20 test -s "$tmp/revoked.end" || fail "a revoked session goes on"
at=$(($(cat "$tmp/revoked.end") - start))
ok "a revoked session is cut, after $at ms"
tr -d '\r' <"$tmp/revoked.screen" | grep -q '^\[muxd\].*revoked' && ok "which is said" || fail "no word: $(cat "$tmp/revoked.screen")"
equal "its token is refused" token_revoked "$(get "$revoked")"
ended() { api "$token" GET "/v1/rounds/$long?wait_ms=500" | jq -e '.state == "finished" and .exit.cause == "killed"'; }
wait_for 8 ended && ok "its round is ended" || fail "its round: $(api "$token" GET "/v1/rounds/$long")"
id=$(newest)
events "$id" | grep -q '^cut the grant was revoked' && ok "the cut is in the recording" || fail "no cut: $(events "$id")"
audited "$(jq -r .id "$tmp/grant")" grant.revoke && ok "the revocation is in the audit" || fail "no revocation in the audit"
muxctl grant revoke "$(jq -r .id "$tmp/grant")" >/dev/null 2>&1
equal "revoking it again changes nothing" 0 $?

# Revoked while net is away: what it left running ends when it is back.
muxctl grant create --agent $agent --principal tester --kind staff --scopes rounds --task story --reason story -o json >"$tmp/grant2"
long=$(api "$(jq -r .token "$tmp/grant2")" POST /v1/agents/$agent/rounds '{"argv":["sleep","600"],"wait_ms":0}' | jq -r .round_id)
kill -9 "$(ready pids.net)"
muxctl grant revoke "$(jq -r .id "$tmp/grant2")" >"$tmp/out" || fail "not revoked without net: $(cat "$tmp/out")"
wait_for 30 ended && ok "a grant that is revoked while net is away ends its round" || fail "its round: $(api "$token" GET "/v1/rounds/$long")"

# Revoked while net hangs, and all is killed before the record has it: the next start tells it.
muxctl grant create --agent $agent --principal tester --kind staff --scopes rounds --task story --reason story -o json >"$tmp/grant3"
id=$(jq -r .id "$tmp/grant3")
kill -STOP "$(ready pids.net)"
muxctl grant revoke "$id" >/dev/null 2>&1 &
written() { jq -e --arg id "$id" 'select(.op == "revoke" and .id == $id)' "$tmp/state/grants.log" >/dev/null; }
wait_for 10 written || fail "the revocation is not written"
kill -9 "$DAEMON" "$(ready pids.net)" "$(ready pids.recorder)"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon after kill -9 of everything"
wait_for 10 audited "$id" grant.revoke && ok "a revocation that kill -9 kept from the record is told by the next start" ||
	fail "no event of it: $(muxctl audit --event grant.revoke -n 3 -o json)"

kill -TERM "$DAEMON"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon again"
equal "and told once" 1 "$(muxctl audit --event grant.revoke -n 1000 -o json | jq -c --arg id "$id" 'select(.record.grant_id == $id)' | wc -l)"
equal "refused after a restart too" token_revoked "$(get "$revoked")"
sshc "$revoked" $agent true </dev/null 2>"$tmp/err" && fail "a revoked token got in by SSH"
ok "by SSH as well"
equal "while others go on" none "$(get "$token")"
now=$(cat "$tmp/state/daemon.log" "$tmp"/*.screen | grep -cF -- "${signature:0:40}")
equal "no token was written to the log or a screen" 0 "$now"
muxctl verify --all >"$tmp/verify" || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "the record verifies"

# Work with a timeout of its own gets a grant that outlasts it, whatever the default is.
stop_daemon
printf 'grants: {ttl: 2s, ttl_max: 10m}\njournal: {dir: %s/journal2, size: 8MiB}\n' "$tmp" >"$tmp/short.yaml"
start_daemon "$tmp/short" --config "$tmp/short.yaml" || fail "no daemon"
equal "longer than grants.ttl" 0 "$(muxctl exec $agent --timeout 10m -- sleep 4; echo $?)"
equal "as long as grants.ttl_max" 0 "$(muxctl exec $agent --timeout 10m -- true; echo $?)"
equal "not longer" invalid_request "$(muxctl exec $agent --timeout 601s -o json -- true 2>&1 | code)"
muxctl audit --follow --event round.end -o json >"$tmp/follow" 2>&1 &
follows=$!
sleep 5 # two grants later
muxctl exec $agent --task after -- true || fail "no round"
wait_for 10 grep -q '"after"' "$tmp/follow" && ok "audit --follow outlasts its grant" || fail "not followed: $(cat "$tmp/follow")"
equal "and tells nothing twice" 0 "$(jq -r .seq "$tmp/follow" | sort | uniq -d | wc -l)"
kill $follows
