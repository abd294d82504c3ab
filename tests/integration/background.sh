#!/bin/bash
# Rounds that take their time: an answer with what there is so far and where to read on, rounds that outlive their call,
# their client and the daemon, and a timeout of those that have fallen silent.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
PRINCIPAL=agent.7
agent=background
token=$(new_token $agent agent rounds)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
shown() { api "$token" GET "/v1/rounds/$1?wait_ms=${2:-0}"; }
code() { jq -r '.error.code'; }
round '{"argv":["true"]}' >/dev/null # the sandbox is there

# ---- what there is so far

r=$(round '{"command":"printf \"a\\342\\202\"; until [ -e go ]; do sleep 0.05; done; printf \"\\254z\"","yield_ms":500}')
id=$(jq -r .round_id <<<"$r")
equal "an answer comes in time, with what there is" "running a 1" "$(jq -r '"\(.state) \(.stdout.data) \(.stdout.next_offset)"' <<<"$r")"
equal "half a character waits for its rest" "utf-8 3" "$(jq -r '"\(.stdout.encoding) \(.stdout.total_bytes)"' <<<"$r")"
round '{"command":"touch go"}' >/dev/null
r=$(shown "$id" 10000)
equal "at its end all of it" "a€z null" "$(jq -r '"\(.stdout.data) \(.stdout.next_offset)"' <<<"$r")"
equal "read on from there" "€z" "$(api "$token" GET "/v1/rounds/$id/output?offset=1" | jq -r .data)"
equal "two names of one field" invalid_request "$(round '{"argv":["true"],"wait_ms":1,"yield_ms":1}' | code)"
equal "in a query, too" invalid_request "$(api "$token" GET "/v1/rounds/$id?wait_ms=1&yield_ms=1" | code)"
equal "an answer is at once where asked for" 0 "$(api "$token" GET "/v1/rounds/$id?yield_ms=0" | jq -r .exit.code)"

# ---- silence

ends() { jq -r '"\(.exit.cause) \(.exit.message)"'; }
r=$(round '{"command":"echo first; (setsid sleep 302 &); sleep 301","idle_timeout_ms":700,"wait_ms":20000}')
equal "a round that has fallen silent is ended" "idle_timeout no output for 700ms" "$(ends <<<"$r")"
equal "with what it printed" first "$(jq -r .stdout.data <<<"$r")"
equal "and all that it began" 0 "$(round '{"command":"pgrep -cf [s]leep.30[12] || true"}' | jq -r .stdout.data | tr -d '\n')"
told() { muxctl audit --event round.end -n 100 -o json | jq -r --arg s "$(jq -r .round_id <<<"$r")" 'select(.record.detail.session == $s) | .record.outcome' | grep -qx idle_timeout; }
wait_for 10 told && ok "the audit log has its cause" || fail "the audit log: $(muxctl audit --event round.end -n 3 -o json)"
r=$(round '{"command":"for i in 1 2 3 4 5; do echo $i >&2; sleep 0.4; done","idle_timeout_ms":1500,"wait_ms":20000}')
equal "one that says something goes on, on stderr too" "exit null" "$(ends <<<"$r")"
r=$(round '{"command":"while :; do echo; sleep 0.1; done","idle_timeout_ms":1000,"timeout_ms":1500,"wait_ms":20000}')
equal "for as long as the hard limit lets it" timeout "$(jq -r .exit.cause <<<"$r")"
equal "no time is no timeout" invalid_request "$(round '{"argv":["true"],"idle_timeout_ms":0}' | code)"
equal "nor is one beyond what may be set" "/idle_timeout_ms" "$(round '{"argv":["true"],"idle_timeout_ms":99999999999}' | jq -r '.error.message | split(":")[0]')"
status=0
muxctl exec --reason story --task story --idle-timeout 500ms $agent -- sleep 300 2>"$tmp/said" || status=$?
equal "muxctl takes it" "124 muxctl: command was killed: no output for 500ms [sandbox_exec_timeout]" "$status $(tail -n 1 "$tmp/said")"

# ---- one connection for all of it

id=$(round '{"argv":["sh","-c","echo ready; read x; echo got $x; sleep 300"],"stdin_open":true,"yield_ms":0}' | jq -r .round_id)
echo "$token" >"$tmp/token"
PRINCIPAL=other new_token $agent agent rounds >"$tmp/other"
equal "another's grant for rounds does not join it" "error forbidden closed 4403 ''" \
	"$(python3 "$here/tests/integration/attach_round.py" "$MUXD_STATE" "$tmp/other" "$id" | sed 's/not_found/forbidden/;s/4404/4403/' | paste -sd' ')"
equal "a round is joined: its output from the start, input, a signal, its end" \
	"opened driver round exit TERM closed 1000 'ready\\ngot hello\\n'" \
	"$(python3 "$here/tests/integration/attach_round.py" "$MUXD_STATE" "$tmp/token" "$id" | paste -sd' ')"

id=$(round '{"argv":["sh","-c","echo ready; until [ -e noticed ]; do sleep 0.05; done; read x; echo $?"],"yield_ms":0}' | jq -r .round_id)
equal "one without stdin_open says that it takes none" "opened driver round notice bad_state exit 0 closed 1000 'ready\\n1\\n'" \
	"$(python3 "$here/tests/integration/attach_round.py" "$MUXD_STATE" "$tmp/token" "$id" "$MUXCTL --state $MUXD_STATE exec -n $agent -- touch noticed" | paste -sd' ')"
kept() { muxctl export --format json "$id" >"$tmp/kept" 2>/dev/null && grep -q '"exit"' "$tmp/kept"; }
wait_for 20 kept || fail "no recording"
equal "and the record has none" "" "$(jq -rj 'select(.type == "data" and .stream == "input").data' "$tmp/kept")"

# ---- neither the client nor the daemon is needed

curl -sS -m 1 --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \
	-d '{"command":"sleep 2; echo survived; touch done","exec_id":"b-1","yield_ms":30000}' \
	"https://$(ready https)/v1/agents/$agent/rounds" >/dev/null 2>&1 && fail "the client did not go away"
silent=$(round '{"command":"echo up; sleep 300","idle_timeout_ms":2000,"yield_ms":0}' | jq -r .round_id)
chatty=$(round '{"command":"while :; do echo; sleep 0.2; done","idle_timeout_ms":1500,"yield_ms":0}' | jq -r .round_id)
sleep 0.5
kill -9 "$(ready pids.net)" "$(ready pids.monitor)"
wait "$DAEMON" 2>/dev/null
sleep 2.2 # the time runs meanwhile
start_daemon "$tmp/state" || fail "the daemon does not come again"
r=$(round '{"command":"sleep 2; echo survived; touch done","exec_id":"b-1","yield_ms":20000}')
equal "a round outlives its client and the daemon: found by its exec_id" "exit 0 survived" "$(jq -r '"\(.exit.cause) \(.exit.code) \(.stdout.data)"' <<<"$r" | tr -d '\n')"
equal "silence was ended meanwhile" "idle_timeout no output for 2s" "$(shown "$silent" 10000 | ends)"
equal "and what speaks runs on" running "$(shown "$chatty" | jq -r .state)"
