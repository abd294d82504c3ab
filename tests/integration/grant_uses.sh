#!/bin/bash
# A grant that may open something so many times opens that many, by whatever door, and no more: not when ten ask at once,
# not over killed parts of the daemon, not by its children or a renewal. The same start again is no further one, and what is
# open goes on. A grant that names its operations is for no others.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
printf 'grants: {renew_max: 10m}\nrounds: {keep: 1h}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
code() { jq -r '.error.code // "ok"'; }
# mint NAME [arguments]: its token in the variable NAME, all of it in $tmp/NAME
mint() {
	muxctl grant create --agent box --principal ci --kind agent --task t --reason story -o json "${@:2}" >"$tmp/$1" || fail "no grant"
	printf -v "$1" %s "$(jq -r .token "$tmp/$1")"
}
round() { api "$1" POST /v1/agents/box/rounds "${2:-{\"argv\":[\"true\"],\"wait_ms\":20000\}}" | tee "$tmp/round" | jq -r '.error.code // .state'; }
used() { muxctl grant list -o json | jq -r --arg id "$(jq -r .id "$tmp/$1")" '.grants[] | select(.id == $id) | "\(.used)/\(.uses)"'; }

# --- one after the other
mint THREE --scopes rounds,files --uses 3
once='{"argv":["sh","-c","echo x >>once"],"exec_id":"a","wait_ms":20000}'
equal "the first" finished "$(round "$THREE" "$once")"
FIRST=$(jq -r .round_id "$tmp/round")
equal "the same start again is no further use" "finished $FIRST 1/3" "$(round "$THREE" "$once") $(jq -r .round_id "$tmp/round") $(used THREE)"
equal "an operation on files is one" ok "$(api "$THREE" POST /v1/agents/box/fs/read '{"path":"once"}' | code)"
equal "and a round" finished "$(round "$THREE" '{"argv":["sleep","300"],"wait_ms":0,"exec_id":"b"}' | sed 's/running/finished/')"
equal "then none is left" "token_used 3/3" "$(round "$THREE") $(used THREE)"
jq -e '.error.message | test("3 times") and test("0 are left")' "$tmp/round" >/dev/null && ok "the refusal has the number" || fail "$(cat "$tmp/round")"
LONG=$(api "$THREE" POST /v1/agents/box/rounds '{"argv":["sleep","300"],"wait_ms":0,"exec_id":"b"}' | jq -r .round_id)
equal "what is open goes on, is looked at and ended" "running ok" \
	"$(api "$THREE" GET "/v1/rounds/$LONG" | jq -r .state) $(api "$THREE" POST "/v1/rounds/$LONG/signal" '{"signal":"KILL"}' | code)"
denied() { muxctl audit -n 1000 -o json | jq -es 'any(.[].record; .event == "verdict" and .outcome == "token_used" and .principal == "ci")' >/dev/null; }
wait_for 10 denied && ok "the audit log has it" || fail "no event"

# --- all at once
mint FOUR --scopes rounds --uses 4
for n in $(seq 10); do api "$FOUR" POST /v1/agents/box/rounds '{"argv":["true"],"wait_ms":20000}' >"$tmp/at.$n" & all+=($!); done
wait "${all[@]}"
equal "of ten at once four begin" "4 finished 6 token_used" "$(cat "$tmp"/at.* | jq -r '.error.code // .state' | sort | uniq -c | xargs)"
mint SAME --scopes rounds --uses 1
all=()
for n in $(seq 5); do api "$SAME" POST /v1/agents/box/rounds '{"argv":["true"],"exec_id":"c","wait_ms":20000}' >"$tmp/same.$n" & all+=($!); done
wait "${all[@]}"
equal "five times the same start are one" "5 finished 1" "$(cat "$tmp"/same.* | jq -r '.error.code // .state' | sort | uniq -c | xargs) $(cat "$tmp"/same.* | jq -r .round_id | sort -u | wc -l)"

# --- the same exec_id in another life of its agent is another start
begin() { api "$1" POST /v1/agents/again/rounds '{"argv":["true"],"exec_id":"same","wait_ms":20000}' | jq -r '.error.code // .state'; }
AGAIN=$(muxctl grant create --agent again --principal ci --kind agent --task t --reason story --scopes rounds,lifecycle --uses 1 -o json | jq -r .token)
equal "one use, however often it is asked for" "finished finished" "$(begin "$AGAIN") $(begin "$AGAIN")"
muxctl sandbox terminate again --how wipe --reason "story: another life" >/dev/null || fail "not wiped"
equal "in a sandbox made anew it would be a second one" token_used "$(begin "$AGAIN")"

# --- other doors and kinds
mint SHELL1 --kind staff --scopes terminal,rounds --uses 2
equal "a program over SSH" in "$(sshc "$SHELL1" box echo in </dev/null)"
equal "code that runs once" finished "$(api "$SHELL1" POST /v1/agents/box/python '{"code":"1","yield_ms":20000}' | jq -r '.error.code // .state')"
sshc "$SHELL1" box true </dev/null 2>"$tmp/err" && fail "a third got in by SSH"
grep -q token_used "$tmp/err" && ok "the third is refused there by its name" || fail "$(cat "$tmp/err")"
mint ENDS --scopes rounds --uses 1
equal "a shell" finished "$(round "$ENDS" '{"command":"X=1","shell":"s","wait_ms":20000}')"
equal "is ended without a use" ok "$(api "$ENDS" DELETE /v1/agents/box/shells/s | code)"

# --- what has programs begun, though no session is the caller's own
mint BEGINS --scopes rounds,lifecycle --uses 1
services() { api "$BEGINS" PUT /v1/agents/box/services "{\"services\":[$1]}" | code; }
sleeps='{"name":"s","argv":["sleep","300"]}'
equal "a list of services is a use, its end is none, a second list is another" "ok ok token_used 1/1" \
	"$(services "$sleeps") $(services '') $(services "$sleeps") $(used BEGINS)"
whole=$(new_token box agent rounds,lifecycle)
api "$whole" PUT /v1/agents/box/services "{\"services\":[$sleeps]}" >/dev/null
equal "nor is one begun anew" token_used "$(api "$BEGINS" POST /v1/agents/box/services/s/restart '{"reason":"r"}' | code)"
api "$whole" PUT /v1/agents/box/services '{"services":[]}' >/dev/null
api "$whole" PUT /v1/agents/box/mcp/servers '{"servers":[{"name":"m","command":["sh","-c","echo x >>/workspace/begun; exec sleep 300"]}]}' >/dev/null
equal "nor a server, for its tools" "token_used token_used" "$(api "$BEGINS" POST /v1/agents/box/mcp/servers/m/refresh '{}' | code) $(
	api "$BEGINS" POST /v1/agents/box/mcp/request '{"server":"m","method":"tools/list"}' | code)"
equal "which has not run" file_not_found "$(api "$(new_token box agent files)" POST /v1/agents/box/fs/read '{"path":"begun"}' | code)"

# --- what is refused all the same is no use, and one exec_id is one start of one grant
mint JUDGED --scopes rounds,lifecycle --uses 1
asked() { api "$JUDGED" "$@" | code; }
equal "no such server, no such service, a list that has changed" "not_found not_found not_found list_changed 0/1" \
	"$(asked POST /v1/agents/box/mcp/servers/nosuch/refresh '{}') $(asked POST /v1/agents/box/mcp/request '{"server":"nosuch","method":"tools/call","params":{"name":"x"}}') $(
	asked POST /v1/agents/box/services/nosuch/restart '{"reason":"r"}') $(asked PUT "/v1/agents/box/services?if_version=77" "{\"services\":[$sleeps]}") $(used JUDGED)"
ends='{"servers":[{"name":"m","command":["sh","-c","exit 1"]}]}'
api "$whole" PUT /v1/agents/box/mcp/servers "$ends" >/dev/null
inside() { api "$1" POST "/v1/agents/$2/mcp/request" "{\"server\":\"m\",\"exec_id\":\"x\",\"timeout_ms\":20000,$3}" | code; }
mint LOOKS --scopes rounds --uses 1
equal "a look at tools that fails is a use, the next one is another, and so is a round" "mcp_server_failed token_used token_used 1/1" \
	"$(inside "$LOOKS" box '"method":"tools/list"') $(inside "$LOOKS" box '"method":"tools/list"') $(round "$LOOKS" '{"argv":["true"],"exec_id":"x"}') $(used LOOKS)"
mint OTHER --scopes rounds --uses 1
equal "the same exec_id is another use of another grant" "mcp_server_failed 1/1" "$(inside "$OTHER" box '"method":"tools/call","params":{"name":"t"}') $(used OTHER)"
equal "for another call it is a second one" token_used "$(inside "$OTHER" box '"method":"tools/call","params":{"name":"u"}')"
wf=$(new_token fresh agent rounds,lifecycle)
api "$wf" PUT /v1/agents/fresh/mcp/servers "$ends" >/dev/null
FRESH=$(muxctl grant create --agent fresh --principal ci --kind agent --task t --reason story --scopes rounds --uses 1 -o json | jq -r .token)
called='"method":"tools/call","params":{"name":"t"}'
equal "where nothing was there yet the same request again is the same use, whose answer is gone" "mcp_server_failed conflict" "$(inside "$FRESH" fresh "$called") $(inside "$FRESH" fresh "$called")"

# --- children, and a renewal
mint PARENT --kind service --scopes rounds,grant --uses 5 --ttl 2m
child() { api "$PARENT" POST /v1/grants "$1" | tee "$tmp/child"; }
equal "none with more, or nonsense" "grant_not_narrower invalid_request" "$(child '{"reason":"r","uses":6}' | code) $(child '{"reason":"r","uses":0}' | code)"
equal "one that names none has its parent's" 5 "$(child '{"reason":"r"}' | jq .uses)"
child '{"reason":"r","uses":4,"principal":"ci/a"}' >/dev/null
A=$(jq -r .token "$tmp/child")
child '{"reason":"r","uses":4,"principal":"ci/b"}' >/dev/null
B=$(jq -r .token "$tmp/child")
equal "each use of a child is one of its parent's" "finished finished finished finished finished token_used token_used 5/5" \
	"$(for who in "$A" "$A" "$A" "$B" "$PARENT" "$B" "$A"; do round "$who"; done | xargs) $(used PARENT)"
api "$PARENT" POST /v1/grants/renew '{"ttl":"5m","reason":"r"}' >"$tmp/renewed"
equal "a renewal gives none" "5 token_used" "$(jq .uses "$tmp/renewed") $(round "$(jq -r .token "$tmp/renewed")")"

# --- parts that are killed, and a start in the middle of which one is
mint KEPT --scopes rounds --uses 2
equal "one of two" finished "$(round "$KEPT")"
kill -9 "$(ready pids.net)"
second() { [ "$(round "$KEPT" '{"argv":["true"],"exec_id":"k","wait_ms":20000}' 2>/dev/null)" = finished ]; }
wait_for 20 second || fail "no second: $(cat "$tmp/round")"
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon again"
equal "a killed net and a killed daemon give none back" "token_used token_used token_used 2/2" "$(round "$KEPT") $(round "$FOUR") $(round "$B") $(used KEPT)"

# --- operations by name
mint NAMED --scopes rounds,files --operations round.start,round.read
equal "what it names" finished "$(round "$NAMED")"
equal "what it does not" forbidden "$(api "$NAMED" POST /v1/agents/box/fs/read '{"path":"once"}' | tee "$tmp/out" | code)"
grep -q 'operation file.read' "$tmp/out" && ok "is refused by its name" || fail "$(cat "$tmp/out")"
muxctl grant create --agent box --principal ci --kind agent --reason r --operations round.strat 2>"$tmp/err" && fail "an operation that is none"
grep -q 'did you mean' "$tmp/err" && ok "one that is none is refused, with the one that is near" || fail "$(cat "$tmp/err")"
mint WIDE --kind service --scopes rounds,files,grant --operations round.start,round.read,grant.make
narrow() { api "$WIDE" POST /v1/grants "$1" | code; }
equal "a child has no other" "grant_not_narrower ok" "$(narrow '{"reason":"r","operations":"file.read"}') $(narrow '{"reason":"r","operations":"round.start"}')"
muxctl verify --all >"$tmp/verify" && ok "the record verifies" || fail "$(tail -n 5 "$tmp/verify")"
