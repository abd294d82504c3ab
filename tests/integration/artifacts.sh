#!/bin/bash
# Artifacts: a task's files outlive their sandbox, whole or absent, capped and for a time; of another task there are none.
# What a round or a step of a workflow names becomes one when it ends.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
# conf KEEP: small enough to be reached
conf() { printf 'artifacts: {size_max: 3MiB, task_size: 6MiB, size: 9MiB, task_max: 8, keep: %s}\n' "$1" >"$tmp/muxd.yaml"; }
conf 1h
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
T=$(new_token demo agent files,rounds)
# By api.sock: a TLS handshake for each of these calls is most of their time, and openapi.sh has them by HTTPS.
c() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer ${TOKEN:-$T}" "$@"; }
at() { printf 'http://localhost/v1/tasks/%s/artifacts%s' "${TASK:-story}" "${1:+/$1}"; }
# put NAME FILE [curl options]: status and code
put() { c -o "$tmp/answer" -w '%{http_code}' -T "$2" "${@:3}" "$(at "$1")"; echo " $(jq -r '.error.code // "ok"' "$tmp/answer")"; }
code() { jq -r '.error.code // "ok"'; }
stored() { find "$MUXD_STATE/control/artifacts" -type f | wc -l; }
# events NAME: of the audit log, one a line
events() { muxctl audit --since 0 -n 1000 --event "$1" -o json | jq -c .record; }
random() { head -c "$1" /dev/urandom >"$2"; }
sum() { sha256sum <"$1" | cut -d' ' -f1; }

# --- there and back
: >"$tmp/empty"
random 700000 "$tmp/a"
equal "a put" "201 ok" "$(put a.bin "$tmp/a" -H 'Expect:')"
equal "says what it is" "700000 $(sum "$tmp/a") demo tester" "$(jq -r '"\(.size) \(.sha256) \(.agent) \(.principal)"' "$tmp/answer")"
c -o "$tmp/b" "$(at a.bin)" && cmp "$tmp/a" "$tmp/b" && ok "comes back as it was" || fail "another content"
equal "with its digest as ETag, and never as a page" "\"$(sum "$tmp/a")\" attachment" \
	"$(c -I "$(at a.bin)" | tr -d '\r' | sed -n 's/^ETag: //p; s/^Content-Disposition: //p' | xargs -d '\n' echo)"
equal "a range" "$(tail -c +101 "$tmp/a" | head -c 50 | sha256sum)" "$(c -r 100-149 "$(at a.bin)" | sha256sum)"
equal "its end" "$(tail -c 7 "$tmp/a" | sha256sum)" "$(c -r -7 "$(at a.bin)" | sha256sum)"
equal "past the end" "416 range_past_end" "$(c -o "$tmp/x" -w '%{http_code}' -r 700000- "$(at a.bin)") $(code <"$tmp/x")"
equal "who has it is told so" 304 "$(c -o /dev/null -w '%{http_code}' -H "If-None-Match: \"$(sum "$tmp/a")\"" "$(at a.bin)")"
equal "a name of more than ASCII" "201 ok" "$(put 'Bericht%20%C3%A4.bin' "$tmp/a")"
equal "the same content is there once" 1 "$(stored)"
equal "nothing at all is an artifact too" "201 ok" "$(put empty "$tmp/empty")"
equal "and comes back" 0 "$(c "$(at empty)" | wc -c)"
equal "in chunks" "201 ok" "$(c -o "$tmp/answer" -w '%{http_code}' -T - "$(at chunks)" <"$tmp/a") $(code <"$tmp/answer")"
equal "a list by name" "Bericht ä.bin,a.bin,chunks,empty" "$(c "$(at)" | jq -r '[.artifacts[].name] | join(",")')"
equal "in pages" "a.bin true" "$(c "$(at)?limit=1&after=Bericht%20%C3%A4.bin" | jq -r '"\(.artifacts[0].name) \(.more)"')"

# --- replaced, guarded
random 300000 "$tmp/b"
equal "the same name again replaces it" "200 ok" "$(put a.bin "$tmp/b")"
equal "unless it must be new" "412 conflict" "$(put a.bin "$tmp/a" -H 'If-None-Match: *')"
equal "a wrong digest makes nothing" "400 invalid_request" \
	"$(c -o "$tmp/x" -w '%{http_code}' -T "$tmp/a" "$(at wrong)?sha256=$(sum "$tmp/b")") $(code <"$tmp/x")"
equal "and the right one does" "201 ok" "$(c -o "$tmp/x" -w '%{http_code}' -T "$tmp/a" "$(at right)?sha256=$(sum "$tmp/a")") $(code <"$tmp/x")"
equal "what was refused is not there" "404 not_found" "$(c -o "$tmp/x" -w '%{http_code}' "$(at wrong)") $(code <"$tmp/x")"

# --- caps
random 4000000 "$tmp/big"
equal "more than one may have, announced" "413 too_large" "$(put big "$tmp/big")"
equal "and not announced" "413 too_large" "$(c -o "$tmp/x" -w '%{http_code}' -T - "$(at big)" <"$tmp/big") $(code <"$tmp/x")"
random 2500000 "$tmp/m"
equal "one of 2.5 MB" "201 ok" "$(put m1 "$tmp/m")"
random 2500000 "$tmp/m"
equal "a second one is over the task's share" "507 artifacts_full" "$(put m2 "$tmp/m")"
grep -q artifacts.task_size "$tmp/answer" && ok "which is named" || fail "$(cat "$tmp/answer")"
T2=$(PRINCIPAL=b muxctl grant create --agent demo --principal b --kind agent --scopes files --task two --ttl 5m --reason cap -o json | jq -r .token)
equal "another task has its own" "201 ok" "$(TOKEN=$T2 TASK=two put m "$tmp/m")"
random 2900000 "$tmp/m"
equal "and so far" "201 ok" "$(TOKEN=$T2 TASK=two put m3 "$tmp/m")"
T3=$(PRINCIPAL=c muxctl grant create --agent demo --principal c --kind agent --scopes files --task three --ttl 5m --reason cap -o json | jq -r .token)
equal "all together have a cap" "507 artifacts_full" "$(TOKEN=$T3 TASK=three put m "$tmp/m")"
equal "and a count" "201 ok|429 limit_reached" "$(for n in 1 2 3; do put "n$n" "$tmp/empty"; done | tail -n 2 | paste -sd'|')"
[ -z "$(find "$MUXD_STATE/control/artifacts" -name '*.part')" ] && ok "of what was refused no file is left" || fail "$(ls "$MUXD_STATE/control/artifacts")"

# --- whose
equal "another task has none of them" "404 not_found" "$(TOKEN=$T2 c -o "$tmp/x" -w '%{http_code}' "$(at a.bin)") $(code <"$tmp/x")"
equal "nor a list" not_found "$(TOKEN=$T2 c "$(at)" | code)"
equal "nor a put" "404 not_found" "$(TOKEN=$T2 put a.bin "$tmp/a")"
equal "nor a deletion" not_found "$(TOKEN=$T2 c -X DELETE "$(at a.bin)" | code)"
equal "without scope files there is none" forbidden "$(TOKEN=$(new_token demo agent rounds) c "$(at a.bin)" | code)"
events verdict | jq -c 'select(.outcome == "task_mismatch" and .detail.task == "story")' | grep -q . &&
	ok "the audit log has who tried" || fail "no verdict on another task"
free=$(muxctl grant create --agent demo --principal solo --kind agent --scopes files --ttl 5m --reason free -o json | jq -r .token)
equal "a grant without a task has its own principal's" not_found "$(TOKEN=$free c "$(at a.bin)" | code)"
# A task that the holder chose narrows, and opens nothing of others.
free=$(muxctl grant create --agent demo --principal solo --kind agent --scopes files,grant --ttl 5m --reason free -o json | jq -r .token)
child=$(TOKEN=$free c -d '{"reason": "narrower", "task_id": "story", "scopes": "files"}' -H 'Content-Type: application/json' http://localhost/v1/grants)
equal "a grant says whose choice its task is" "story true" "$(jq -r '"\(.task_id) \(.task_asked)"' <<<"$child")"
chosen=$(jq -r .token <<<"$child")
equal "a child for a chosen task has none of the others'" not_found "$(TOKEN=$chosen c "$(at a.bin)" | code)"
equal "does not replace them" "409 conflict" "$(TOKEN=$chosen put a.bin "$tmp/b")"
equal "nor delete them" not_found "$(TOKEN=$chosen c -X DELETE "$(at a.bin)" | code)"
equal "nor list them" 0 "$(TOKEN=$chosen c "$(at)" | jq '.artifacts | length')"
equal "and a stranger's many take no room of theirs" "201 ok|429 limit_reached" "$(for n in 1 2 3 4 5 6 7 8 9; do TOKEN=$chosen put "s$n" "$tmp/empty"; done | tail -n 2 | paste -sd'|')"
c -o /dev/null -X DELETE "$(at n2)"
equal "as one that is put now shows" "201 ok" "$(put n2 "$tmp/empty")"
for n in 1 2 3 4 5 6 7 8; do TOKEN=$chosen c -o /dev/null -X DELETE "$(at "s$n")"; done

# --- names
long=$(head -c 129 /dev/zero | tr '\0' n)
for name in "a%2Fb:not_found" "a%5Cb:invalid_request" "a%0Ab:invalid_request" "a%00b:invalid_request" "a%FFb:invalid_request" \
	"%20a:invalid_request" "a%E2%80%AEb:invalid_request" "$long:invalid_request"; do
	equal "a name: ${name%:*}" "${name#*:}" "$(put "${name%:*}" "$tmp/b" | cut -d' ' -f2)"
done
equal "4 KiB of a name" 400 "$(put "$(head -c 4096 /dev/zero | tr '\0' n)" "$tmp/b" | cut -c1-3 | sed 's/^4../400/')"
c --path-as-is -o "$tmp/x" -T "$tmp/b" "$(at ..)" && equal "two dots" not_found "$(code <"$tmp/x")"

# --- deleted
equal "a deletion says what it was" "chunks 700000" "$(c -X DELETE "$(at chunks)" | jq -r '"\(.name) \(.size)"')"
equal "and then it is not there" "404 404" "$(c -o /dev/null -w '%{http_code}' "$(at chunks)") $(c -o /dev/null -w '%{http_code}' -X DELETE "$(at chunks)")"
cmp <(c "$(at right)") "$tmp/a" && ok "its bytes stay while another name has them" || fail "they are gone"

for n in n1 n2 m1 empty; do c -o /dev/null -X DELETE "$(at "$n")"; done

# --- a grant that is revoked in the middle
grant() { muxctl grant create --agent demo --principal tester --kind agent --scopes files --task story --ttl 5m --reason cut -o json; }
g=$(grant)
(head -c 1000 "$tmp/a"; sleep 1.5; head -c 1000 "$tmp/a") | TOKEN=$(jq -r .token <<<"$g") c -o "$tmp/part" -T - "$(at unfinished)" 2>/dev/null &
up=$!
sleep 0.5
muxctl grant revoke "$(jq -r .id <<<"$g")" >/dev/null || fail "not revoked"
wait "$up"
equal "a put under a grant that was revoked makes nothing" "token_revoked 404" "$(code <"$tmp/part") $(c -o /dev/null -w '%{http_code}' "$(at unfinished)")"
random 2500000 "$tmp/m"
put large "$tmp/m" >/dev/null
g=$(grant)
# Whoever reads it stops after the first bytes, so that most of it has not left the daemon when the grant goes.
mkfifo "$tmp/slow"
TOKEN=$(jq -r .token <<<"$g") c "$(at large)" >"$tmp/slow" 2>/dev/null &
down=$!
exec 8<"$tmp/slow"
head -c 1000 <&8 >"$tmp/part"
muxctl grant revoke "$(jq -r .id <<<"$g")" >/dev/null || fail "not revoked"
cut_off() { events verdict | jq -e 'select(.outcome == "token_revoked" and .detail.what == "artifact.get")'; }
wait_for 10 cut_off || fail "a get is not cut off under a grant that was revoked"
cat <&8 >>"$tmp/part"
exec 8<&-
wait "$down" && fail "a get goes on under a grant that was revoked"
[ "$(stat -c %s "$tmp/part")" -lt 2500000 ] && ok "and a get breaks off" || fail "it is whole"
events verdict | jq -r 'select(.outcome == "token_revoked") | .detail.what' | sort -u >"$tmp/cut"
c -o /dev/null -X DELETE "$(at large)"
equal "as the audit log says" "artifact.get artifact.put" "$(paste -sd' ' "$tmp/cut")"

# --- a file that is not what it was
random 100000 "$tmp/m"
put rotten "$tmp/m" >/dev/null
printf %016d 0 | dd of="$(ls "$MUXD_STATE/control/artifacts/$(sum "$tmp/m")".*)" bs=1 seek=99984 conv=notrunc 2>/dev/null
c -o "$tmp/x" "$(at rotten)" 2>/dev/null && fail "another content was given out as whole"
[ "$(stat -c %s "$tmp/x")" -lt 100000 ] && ok "whose file was changed breaks off, and never looks whole" || fail "it is whole"
c -o /dev/null -X DELETE "$(at rotten)"

# --- taken from a sandbox, and from a round
api "$T" POST /v1/agents/demo/rounds '{"command":"head -c 200000 /dev/urandom >f; sha256sum f; echo problem >&2; seq 30000","task_id":"story"}' >"$tmp/round"
round=$(jq -r .round_id "$tmp/round")
take() { api "${TOKEN:-$T}" POST /v1/tasks/story/artifacts "$1"; }
equal "a file of a sandbox" "$(jq -r .stdout.data "$tmp/round" | head -n 1 | cut -d' ' -f1) 200000 demo" \
	"$(take '{"name":"f","agent":"demo","path":"f"}' | jq -r '"\(.sha256) \(.size) \(.agent)"')"
equal "a round's whole output" "$(jq -r .stdout.sha256 "$tmp/round")" "$(take "{\"name\":\"out\",\"round\":\"$round\"}" | jq -r .sha256)"
equal "one of the two, not both" invalid_request "$(take "{\"name\":\"x\",\"round\":\"$round\",\"agent\":\"demo\",\"path\":\"f\"}" | code)"
equal "a file that is not there" file_not_found "$(take '{"name":"x","agent":"demo","path":"none"}' | code)"
equal "a round that is not there" not_found "$(take '{"name":"x","round":"0193aaaa-0000-7000-8000-000000000001"}' | code)"
equal "another agent's file" forbidden "$(take '{"name":"x","agent":"other","path":"f"}' | code)"

# --- by muxctl
equal "muxctl puts" "m $(sum "$tmp/b")" "$(muxctl artifact put story "$tmp/b" m -o json | jq -r '"\(.name) \(.sha256)"')"
equal "from its input" "piped 6" "$(echo hello | muxctl artifact put story - piped -o json | jq -r '"\(.name) \(.size)"')"
muxctl artifact get story m "$tmp/got" && cmp "$tmp/got" "$tmp/b" && ok "gets" || fail "another content"
equal "to its output" hello "$(muxctl artifact get story piped -)"
equal "lists" "m piped" "$(muxctl artifact list story | awk '$1 == "m" || $1 == "piped" {print $1}' | xargs)"
for n in m piped; do muxctl artifact rm story "$n" >/dev/null || fail "$n does not go"; done
muxctl artifact take story taken --agent demo --path f >/dev/null && muxctl artifact take story err --round "$round" --stream stderr >/dev/null ||
	fail "it does not take"
equal "takes" "problem" "$(muxctl artifact get story err -)"
muxctl artifact get story absent "$tmp/absent" 2>"$tmp/err"
equal "says what is not there" "66 not_found no" "$? $(grep -o 'not_found' "$tmp/err") $([ -e "$tmp/absent" ] && echo yes || echo no)"
muxctl artifact put story "$tmp/big" big 2>"$tmp/err"
equal "and what is too large" "64 too_large" "$? $(grep -o 'too_large' "$tmp/err")"
for n in taken err; do muxctl artifact rm story "$n" >/dev/null || fail "$n does not go"; done
ok "and deletes"

# --- at the end of a round
api "$T" POST /v1/agents/demo/rounds '{"command":"echo report >r; echo said; echo oops >&2; exit 3","artifacts":[
 {"name":"report","path":"r"},{"name":"said","stream":"stdout"},{"name":"none","path":"not/there"}]}' >"$tmp/round"
round=$(jq -r .round_id "$tmp/round")
equal "a round that named some has its answer at once" "3 3" "$(jq -r '"\(.exit.code) \(.artifacts | length)"' "$tmp/round")"
taken() { [ "$(api "$T" GET "/v1/rounds/$round" | jq -r '[.artifacts[].state] | join(",")')" = "$1" ]; }
wait_for 15 taken kept,kept,failed && ok "and then they are kept, or failed" || fail "$(api "$T" GET "/v1/rounds/$round" | jq -c .artifacts)"
equal "each failure by name" "none file_not_found" "$(api "$T" GET "/v1/rounds/$round" | jq -r '.artifacts[2] | "\(.name) \(.error.code)"')"
equal "with their bytes" "report said" "$(c "$(at report)") $(c "$(at said)")"
equal "found by their round" "report,said" "$(c "$(at)?round=$round" | jq -r '[.artifacts[].name] | join(",")')"
equal "a name that is no name is refused before anything runs" "/artifacts/0/name" \
	"$(api "$T" POST /v1/agents/demo/rounds '{"argv":["true"],"artifacts":[{"name":"a/b","path":"r"}]}' | jq -r '.error.message | split(":")[0]')"
equal "and two of one name" "/artifacts/1" \
	"$(api "$T" POST /v1/agents/demo/rounds '{"argv":["true"],"artifacts":[{"name":"a","path":"r"},{"name":"a","path":"s"}]}' | jq -r '.error.message | split(":")[0]')"
equal "and a grant without files" forbidden \
	"$(api "$(new_token demo agent rounds)" POST /v1/agents/demo/rounds '{"argv":["true"],"artifacts":[{"name":"a","path":"r"}]}' | code)"
# What ends the sandbox ends the round, and nothing makes or wakes one for what it named.
boss=$(PRINCIPAL=boss new_token '*' service lifecycle)
for way in "DELETE ?reason=story&wipe=true" 'POST /stop {"reason":"story"}' 'POST /terminate {"reason":"story"}'; do
	read -r method path body <<<"$way"
	agent=asleep-$RANDOM
	round=$(api "$(new_token $agent agent files,rounds)" POST "/v1/agents/$agent/rounds" \
		'{"command":"sleep 100","yield_ms":0,"artifacts":[{"name":"unfetched","path":"f"}]}' | jq -r .round_id)
	api "$boss" "$method" "/v1/agents/$agent$path" "$body" | code >"$tmp/code"
	TOKEN=$(new_token $agent agent files,rounds)
	named() { api "$TOKEN" GET "/v1/rounds/$round" | jq -r '.artifacts[0] | "\(.state) \(.error.code)"' | grep -qx 'failed link_lost'; }
	wait_for 15 named || fail "$way: $(cat "$tmp/code") $(api "$TOKEN" GET "/v1/rounds/$round" | jq -c '[.exit, .artifacts]')"
	equal "after $method $path no sandbox is there, nor was another made" "" \
		"$(api "$TOKEN" GET "/v1/agents/$agent" | jq -r '.state // empty' | grep -E 'running|starting|waking' || true)"
	unset TOKEN
done
# A daemon that is killed while the round runs takes the files of it none the less.
other=$(muxctl grant create --agent demo --principal other --kind agent --scopes files,rounds --ttl 5m --reason other -o json | jq -r .token)
c -o /dev/null -X DELETE "$(at out)"
put theirs "$tmp/empty" >/dev/null
late=$(api "$other" POST /v1/agents/demo/rounds '{"task_id":"story","command":"sleep 1.5; echo other >o","wait_ms":0,
 "artifacts":[{"name":"theirs","path":"o"}]}' | jq -r .round_id)
round=$(api "$T" POST /v1/agents/demo/rounds '{"command":"sleep 1.5; echo late >l","wait_ms":0,"artifacts":[{"name":"late","path":"l"}]}' | jq -r .round_id)
back() { [ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$MUXD_STATE/api.sock" http://localhost/readyz)" = 200 ]; }
net=$(ready pids.net)
kill -KILL "$net"
again() { [ "$(ready pids.net)" != "$net" ] && back; }
wait_for 20 again || fail "the daemon does not come back"
wait_for 20 taken kept && ok "a round goes on over kill -9, and its file is kept" || fail "$(api "$T" GET "/v1/rounds/$round" | jq -c '[.state, .artifacts]')"
refused() { [ "$(api "$other" GET "/v1/rounds/$late" | jq -r '.artifacts[0].error.code')" = conflict ]; }
wait_for 20 refused || fail "another principal's: $(api "$other" GET "/v1/rounds/$late" | jq -c .artifacts)"
equal "and a grant without a task replaces nobody else's by that" "tester 0" "$(c "$(at)" | jq -r '.artifacts[] | select(.name == "theirs") | "\(.principal) \(.size)"')"
c -o /dev/null -X DELETE "$(at theirs)"

# --- of a workflow: before its sandbox is given back
svc=$(PRINCIPAL=planner muxctl grant create --agent '*' --principal planner --kind service --scopes lifecycle,rounds,files --ttl 10m --reason wf -o json | jq -r .token)
api "$svc" POST /sandboxes/workflows '{"name":"build","owner":"alice","version":1,"steps":[
 {"shell":"seq 1000; echo made >made","artifacts":[{"name":"log","stream":"stdout"},{"name":"made","path":"made"}]},
 {"shell":"echo wrong >&2; exit 5","artifacts":[{"name":"why","stream":"stderr"},{"name":"gone","path":"gone"}]}]}' >/dev/null
lease=$(api "$svc" POST /sandboxes/leases '{"userId":"alice","workflowId":"build","requestId":"r1"}' | jq -r .leaseId)
api "$svc" POST /sandboxes/runs "{\"leaseId\":\"$lease\",\"workflowId\":\"build\",\"runId\":\"run-1\",\"token\":\"t\"}" >/dev/null
over() { [ "$(api "$svc" GET /sandboxes/runs/run-1 | jq -r .state)" != RUNNING ]; }
wait_for 30 over || fail "the run does not end"
equal "a run lists what was kept of it" "FAILED 1:log:kept 1:made:kept 2:why:kept 2:gone:failed" \
	"$(api "$svc" GET /sandboxes/runs/run-1 | jq -r '.state + " " + ([.artifacts[] | "\(.step):\(.name):\(.state)"] | join(" "))')"
equal "readable when its sandbox is gone" "1000 made wrong" \
	"$(TASK=run-1 TOKEN=$svc c "$(TASK=run-1 at log)" | tail -n 1) $(TOKEN=$svc c "$(TASK=run-1 at made)") $(TOKEN=$svc c "$(TASK=run-1 at why)")"
equal "and found by the run" "log,made,why" "$(TOKEN=$svc c "$(TASK=run-1 at)?run=run-1" | jq -r '[.artifacts[].name] | join(",")')"

# --- expiry, and the audit log
for n in a.bin right report; do c -o /dev/null -X DELETE "$(at "$n")"; done
conf 1s
reload_daemon
short() { put brief "$tmp/b" >/dev/null && [ "$(jq -r '(.expires_at[17:19] | tonumber) - (.created_at[17:19] | tonumber) | if . < 0 then . + 60 else . end' "$tmp/answer")" = 1 ]; }
wait_for 10 short || fail "the configuration was not read: $(cat "$tmp/answer")"
gone() { [ "$(c -o /dev/null -w '%{http_code}' "$(at brief)")" = 404 ]; }
wait_for 10 gone && ok "an artifact goes when its time is over" || fail "it is there"
expired() { events artifact.expire | jq -c --arg s "$(sum "$tmp/b")" 'select(.detail.name == "brief" and .detail.task == "story" and .detail.sha256 == $s and .detail.size == 300000)' | grep -q .; }
wait_for 10 expired && ok "the audit log has it" || fail "no artifact.expire"
for event in artifact.put artifact.get artifact.delete artifact.list artifact.show; do
	[ -n "$(events $event)" ] && ok "and $event" || fail "no $event in the audit log"
done
