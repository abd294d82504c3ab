#!/bin/bash
# Every command of a sandbox's life, by muxctl and over HTTPS, and what bad input gets: a named error, and nothing changes.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
echo 'sandbox: {workspace_size: 64MiB}' >"$tmp/muxd.yaml" # each snapshot is hashed whole
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
a=api-one b=api-two nobody=0193aaaa-0000-7000-8000-000000000001
token=$(new_token $a staff rounds,lifecycle,observe)

# run AGENT COMMAND: its output
run() { muxctl exec -n --task story -c "$2" "$1"; }
show() { muxctl sandbox show "$1" -o json; }
state() { show "$1" | jq -r .state; }
field() { show "$1" | jq -r ".$2"; }
# What must not change by what is refused.
still() { muxctl sandbox list -o json | jq -c '[.agents[] | {agent, state, workspace_snapshot_id}]'; }
# refused NAME STATUS CODE WORDS COMMAND...: exit status, code and words, and everything as it was
refused() {
	local what=$1 status=$2 code=$3 words=$4 before got
	shift 4
	before=$(still)
	muxctl "$@" -o json >"$tmp/out" 2>"$tmp/err"
	got=$?
	[ $got -eq "$status" ] || fail "$what: exit status $got, not $status: $(cat "$tmp/out" "$tmp/err")"
	[ "$(jq -r .error.code "$tmp/err")" = "$code" ] || fail "$what: $(cat "$tmp/err")"
	grep -qF -- "$words" "$tmp/err" || fail "$what: does not say \"$words\": $(cat "$tmp/err")"
	[ "$(still)" = "$before" ] || fail "$what: something changed: $before, then $(still)"
	ok "$what: $code"
}
# status METHOD PATH [JSON]: HTTP status and code
answer() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -X "$1" -H "Authorization: Bearer $token" -o "$tmp/body" -w '%{http_code}' \
		${3:+-H 'Content-Type: application/json' --data-binary "$3"} "https://$(ready https)$2"
}

# --- a life
run $a 'printf first >file; sha256sum file' >"$tmp/hash" || fail "no sandbox"
equal "made by a round" running "$(state $a)"
first=$(muxctl sandbox snapshot $a -o json | jq -r .snapshot.id)
muxctl sandbox snapshots $a | grep -q "^$first  ready" && ok "a snapshot" || fail "snapshots: $(muxctl sandbox snapshots $a)"
session=$(muxctl session list --all --kind round -n 1 -o json | jq -r '.sessions[0].id')
run $a 'printf second >file'
muxctl sandbox stop $a --reason "story: stop" >"$tmp/out" || fail "not stopped"
grep -q '^state  *stopped' "$tmp/out" && ok "stopped, and shown so" || fail "after the stop: $(cat "$tmp/out")"
second=$(field $a workspace_snapshot_id)
[ "$second" != "$first" ] && [ "$second" != null ] && ok "with a snapshot of its own" || fail "its snapshot is $second"
equal "in the list of what is stopped" $a "$(muxctl sandbox list --in stopped -o json | jq -r '.agents[].agent')"
muxctl sandbox stop $a --reason again >/dev/null && ok "stopping it again is no error" || fail "stopped twice is an error"
muxctl sandbox resume $a --idle-ttl 2h --ttl 3h >"$tmp/out" || fail "not resumed: $(cat "$tmp/out")"
equal "resumed, the file as it was" second "$(run $a 'cat file')"
muxctl sandbox restore $a "$first" --reason "story: restore" >/dev/null || fail "not restored"
equal "restored, and what ran was kept first" 3 "$(muxctl sandbox snapshots $a -o json | jq '[.snapshots[] | select(.status == "ready")] | length')"
equal "the file as it was then" first "$(run $a 'cat file')"
run $a 'sha256sum file' | cmp -s - "$tmp/hash" && ok "to the byte" || fail "another hash"

# --- forks
muxctl sandbox fork $a --snapshot "$second" --as $b -o json >"$tmp/out" || fail "not forked: $(cat "$tmp/out")"
equal "a fork is another agent" $b "$(jq -r .agent "$tmp/out")"
equal "with the file of its snapshot" second "$(run $b 'cat file')"
run $b 'echo x >file' >/dev/null 2>&1 && fail "a read-only fork was written to"
ok "which cannot be written"
muxctl sandbox fork $a --snapshot "$first" --as api-three --writable --ttl 1h >/dev/null || fail "no writable fork"
equal "a writable one can" changed "$(run api-three 'printf changed >file; cat file')"
equal "and the first has its own" first "$(run $a 'cat file')"
# A sandbox that begins with a snapshot: made by who reaches both, found again by the same call, and nothing of one that is there is lost.
begin() { muxctl sandbox resume "$1" --workspace "$2" -o json >"$tmp/out" 2>&1; }
begin api-begun "snapshot:$second" && equal "a new one begins with a snapshot" "running second" "$(jq -r .state "$tmp/out") $(run api-begun 'cat file')"
run api-begun 'printf mine >file'
begin api-begun "snapshot:$second" && equal "the same call finds it as it is" mine "$(run api-begun 'cat file')"
begin api-begun "snapshot:$first" && fail "another snapshot over what is there: $(cat "$tmp/out")"
grep -q conflict "$tmp/out" && equal "another snapshot is refused" mine "$(run api-begun 'cat file')" || fail "$(cat "$tmp/out")"
begin $a "snapshot:$first" && fail "a snapshot over a sandbox that did not begin with it"
PRINCIPAL=wide new_token 'api-*' agent rounds,lifecycle >"$tmp/wide"
settings() { api "$(cat "$tmp/wide")" GET /v1/agents/api-begun | jq -c '[.workdir, .env, .labels]'; }
before=$(settings)
equal "and changes nothing else" "conflict $before" "$(api "$(cat "$tmp/wide")" POST /v1/agents/api-begun/resume \
	"{\"workspace\":\"snapshot:$first\",\"workdir\":\"/tmp\",\"env\":{\"X\":\"1\"},\"labels\":{\"a\":\"b\"}}" | jq -r .error.code) $(settings)"
refused "an archive that is not there" 66 not_found "has no artifact" sandbox resume api-none --workspace artifact:story/tree.tar
refused "a bundle without a task" 64 invalid_request TASK/NAME sandbox resume api-none --workspace bundle:x
refused "anything else" 69 unsupported "begins with snapshot:ID, artifact:TASK/NAME" sandbox resume api-none --workspace https://example.org/x.git
begin api-none "snapshot:01890a5d-ac96-774b-bcce-b302099a8057" && fail "a snapshot that is not there"
PRINCIPAL=narrow new_token api-none agent rounds,lifecycle >"$tmp/narrow"
api "$(cat "$tmp/narrow")" POST /v1/agents/api-none/resume "{\"workspace\":\"snapshot:$second\"}" >"$tmp/out"
equal "nor one of a sandbox that the grant does not reach" not_found "$(jq -r .error.code "$tmp/out")"
muxctl sandbox show api-none >/dev/null 2>&1 && fail "something was made of it"
for i in 1 2 3; do api "$(cat "$tmp/wide")" POST /v1/agents/api-many/resume "{\"workspace\":\"snapshot:$second\"}" >"$tmp/many$i" & many[i]=$!; done
wait "${many[@]}"
equal "asked for three times at once it is one" "running running running 1" \
	"$(jq -r .state "$tmp"/many[123] | xargs) $(jq -r .sandbox_id "$tmp"/many[123] | sort -u | wc -l)"
muxctl sandbox fork --from-session "$session" --at 0s --as api-four >"$tmp/out" 2>&1 &&
	fail "a session before any snapshot was forked"
grep -q 'not_found' "$tmp/out" && ok "before the first snapshot there is nothing to fork" || fail "$(cat "$tmp/out")"
session=$(muxctl session list --all --kind round --agent $a -n 1 -o json | jq -r '.sessions[0].id')
muxctl sandbox fork --from-session "$session" --as api-five >/dev/null || fail "a session was not forked"
equal "the workspace of a session" first "$(run api-five 'cat file')"
muxctl session show "$session" >"$tmp/out" || fail "no session"
before_it=$(awk '/^snapshot before/ { print $3 }' "$tmp/out")
equal "a session names the snapshot before it" "$first" "$before_it"
grep -qF "muxctl sandbox fork --from-session $session" "$tmp/out" && ok "and how to look into it" || fail "no way to fork: $(cat "$tmp/out")"
later=$(muxctl sandbox snapshot $a -o json | jq -r .snapshot.id)
equal "and, when there is one, the snapshot after it" "$later" \
	"$(muxctl session show "$session" -o json | jq -r .next_snapshot_id)"
equal "in the list of sessions, too" "$later" \
	"$(answer GET "/v1/sessions?agent=$a&limit=1000" >/dev/null; jq -r --arg s "$session" '.sessions[] | select(.id == $s) | .next_snapshot_id' "$tmp/body")"
round=$(api "$token" POST /v1/agents/$a/rounds '{"argv":["true"],"wait_ms":30000}' | jq -r .snapshot_id)
equal "a round as well" "$later" "$round"
equal "over HTTPS, too" 201 "$(answer POST "/v1/sessions/$session/fork" '{}')"
made=$(jq -r .agent "$tmp/body")
[ "$made" != $a ] && ok "as $made" || fail "the fork is $made"
# into TOKEN: a round in the fork, its exit code or its error
into() { api "$1" POST "/v1/agents/$made/rounds" '{"argv":["true"],"wait_ms":30000}' | jq -r '.error.code // .exit.code'; }
equal "who may enter $a enters what was made of it without a name" 0 "$(into "$(new_token $a agent rounds)")"
equal "a pattern that meets no more than that name does not" forbidden "$(into "$(new_token "$a-*" agent rounds)")"
equal "nor does it list it" 0 "$(api "$(new_token "$a-*" agent rounds)" GET "/v1/agents?prefix=$a" | jq '.agents | length')"
equal "such a name is nobody's choice" 400 "$(answer POST "/v1/agents/$a/fork" "{\"as\":\"$a-fork-0123456789ab\"}")"
equal "nor is a sandbox made under it" not_found "$(api "$(new_token $a agent rounds)" POST "/v1/agents/$a-fork-0123456789ab/rounds" '{"argv":["true"]}' | jq -r .error.code)"

# --- refused
before=$(still)
refused "an agent that is not there" 66 not_found nobody-here sandbox stop nobody-here --reason x
refused "an end of one that is not there" 66 not_found nobody-here sandbox terminate nobody-here --reason x
refused "a snapshot of one that is not there" 66 not_found nobody-here sandbox snapshot nobody-here
refused "a fork of one that is not there" 66 not_found nobody-here sandbox fork nobody-here
refused "a kill without a reason" 64 reason_required --reason sandbox kill $a
refused "a wipe without a reason" 64 reason_required --reason sandbox terminate $a --how wipe
refused "a blank reason" 64 reason_required reason sandbox stop $a --reason " "
refused "a reason with a line end" 64 invalid_request "line break" sandbox stop $a --reason $'x\ny'
refused "a snapshot that is not there" 66 not_found $nobody sandbox restore $a $nobody --reason x
refused "a snapshot that is no id" 64 invalid_request newest sandbox restore $a newest --reason x
theirs=$(muxctl sandbox snapshot api-three -o json | jq -r .snapshot.id)
refused "a restore of another's snapshot" 66 not_found "$theirs" sandbox restore $a "$theirs" --reason x
refused "a fork of another's snapshot" 66 not_found "$theirs" sandbox fork $a --snapshot "$theirs"
refused "another's snapshot is not dropped" 66 not_found "$theirs" sandbox drop $a "$theirs" --reason x
refused "a fork with a name that is taken" 75 conflict $b sandbox fork $a --as $b
refused "a fork with a bad name" 64 invalid_request "agent name" sandbox fork $a --as Not_a_name
refused "a fork of nothing" 64 invalid_request AGENT sandbox fork
refused "a fork of two things" 64 invalid_request AGENT sandbox fork $a --from-session "$session"
refused "a session that is not there" 66 not_found session sandbox fork --from-session $nobody
refused "a TTL that is too short" 64 invalid_request "1s to 3650d" sandbox resume $a --idle-ttl 1ms
refused "a TTL that is none" 64 invalid_request soon sandbox resume $a --ttl soon
refused "an end that there is not" 64 invalid_request burn sandbox terminate $a --reason x --how burn
refused "a state that there is not" 64 invalid_request asleep sandbox list --in asleep
refused "the life of a pod of others" 69 unsupported "pod of others" sandbox stop ns/pod/c --reason x
muxctl sandbox stop api-three --reason "story: sleep" >/dev/null || fail "api-three not stopped"
refused "what its state does not allow" 75 bad_state running sandbox snapshot api-three
equal "after all of that everything is as it was" "$(jq -c 'map(select(.agent != "api-three"))' <<<"$before")" \
	"$(still | jq -c 'map(select(.agent != "api-three"))')"
muxctl sandbox terminate $b --reason "story: end" --how keep >"$tmp/out" || fail "not ended"
equal "ended, its workspace kept" "stopped true" "$(show $b | jq -r '"\(.state) \(.workspace)"')"

# --- over HTTPS: what the grant does not cover, and statuses
equal "stop, by HTTPS, without a reason" 400 "$(answer POST /v1/agents/$a/stop '{}')"
equal "of another agent" 403 "$(answer POST /v1/agents/$b/stop '{"reason":"x"}')"
equal "a fork under a name that the grant does not cover" 403 "$(answer POST /v1/agents/$a/fork '{"as":"else"}')"
equal "a key that there is not" 400 "$(answer POST /v1/agents/$a/terminate '{"reason":"x","wipe":true}')"
equal "a snapshot that is not there" 404 "$(answer DELETE "/v1/agents/$a/snapshots/$nobody?reason=x")"
weak=$(new_token $a agent rounds)
for call in 'POST stop {"reason":"x"}' 'POST terminate {"reason":"x"}' 'POST snapshots {}' 'POST fork {}' \
	"POST restore {\"reason\":\"x\",\"snapshot_id\":\"$first\"}" 'POST resume {"ttl":"1h"}' 'GET logs'; do
	read -r method path body <<<"$call"
	code=$(api "$weak" "$method" /v1/agents/$a/"$path" ${body:+"$body"} | jq -r .error.code)
	equal "$path needs more than the scope rounds" forbidden "$code"
done
api "$weak" POST /v1/agents/$a/resume '{}' | jq -e '.state == "running"' >/dev/null && ok "a resume does not" || fail "no resume"

# --- pages
for i in 1 2 3 4 5 6 7; do muxctl sandbox resume "page-$i" >/dev/null || fail "page-$i"; done
list() { api "$(cat "$tmp/all")" GET "/v1/agents?prefix=page-&limit=3&after=$1"; }
new_token '*' service lifecycle,admin >"$tmp/all"
equal "a page" "page-1 page-2 page-3 true" "$(list '' | jq -r '[.agents[].agent, .more] | join(" ")')"
equal "the next" "page-4 page-5 page-6 true" "$(list page-3 | jq -r '[.agents[].agent, .more] | join(" ")')"
equal "the last" "page-7 false" "$(list page-6 | jq -r '[.agents[].agent, .more] | join(" ")')"
equal "a question mark with nothing behind it asks for all" true "$(api "$(cat "$tmp/all")" GET '/v1/agents?' | jq '[.agents[].agent | select(startswith("page-"))] | length == 7')"
equal "all of them, by muxctl" 7 "$(muxctl sandbox list --prefix page- -o json | jq '.agents | length')"
equal "as many as wanted" 2 "$(muxctl sandbox list --prefix page- -n 2 -o json | jq '.agents | length')"

# --- the ends
refused "a snapshot that a read-only fork was made of is not dropped" 75 bad_state "$second" sandbox drop $a "$second" --reason x
muxctl sandbox terminate $b --reason "story: wipe" --how wipe >/dev/null || fail "the fork is not wiped"
muxctl sandbox drop $a "$second" --reason "story: drop" >/dev/null || fail "not dropped"
refused "a snapshot that was dropped" 66 not_found "$second" sandbox drop $a "$second" --reason x
once='{"argv":["ls"],"exec_id":"once","wait_ms":30000}'
first_round=$(api "$token" POST /v1/agents/$a/rounds "$once" | jq -r .round_id)
equal "an exec_id stands for its round" "$first_round" "$(api "$token" POST /v1/agents/$a/rounds "$once" | jq -r .round_id)"
muxctl sandbox terminate $a --reason "story: wipe" --how wipe >"$tmp/out" || fail "not wiped"
equal "wiped: there is no such agent" 66 "$(muxctl sandbox show $a >/dev/null 2>&1; echo $?)"
equal "nor a snapshot of it" 66 "$(muxctl sandbox snapshots $a >/dev/null 2>&1; echo $?)"
api "$token" POST /v1/agents/$a/rounds "$once" >"$tmp/out"
equal "in the next one of its name the same exec_id is another round" "finished " "$(jq -r --arg id "$first_round" 'select(.round_id != $id) | "\(.state) \(.stdout.data)"' "$tmp/out")"
equal "which has no part in the snapshot that forks need" 0 "$(muxctl sandbox snapshots $a -o json | jq '.snapshots | length')"
refused "nor forks it" 66 not_found "$first" sandbox fork $a --snapshot "$first"
refused "nor goes back to it" 66 not_found "$first" sandbox restore $a "$first" --reason x
for i in api-five "$made"; do
	muxctl sandbox stop $i --reason "story: stop" >/dev/null || fail "$i is not stopped"
	equal "of which $i is made again" first "$(run $i 'cat file')"
	muxctl sandbox terminate $i --reason "story: wipe" --how wipe >/dev/null || fail "$i is not wiped"
done
gone() { ! compgen -G "$MUXD_STATE/sandboxes/$a/snapshots/$first*"; }
wait_for 5 gone && ok "then it goes, too" || fail "it is there still"
muxctl sandbox terminate $a --reason "story: wipe" --how wipe >/dev/null || fail "not wiped again"
[ -e "$MUXD_STATE/sandboxes/$a" ] && fail "its directory is there still" || ok "with all that was left on the disk"
muxctl sandbox resume api-three >/dev/null || fail "not resumed"
printf 'a line\n\033[31mred\n' >>"$MUXD_STATE/sandboxes/api-three/log" || fail "no log of a sandbox"
muxctl sandbox logs api-three >"$tmp/log" || fail "no logs"
grep -q '^a line$' "$tmp/log" && grep -qxF '\x1b[31mred' "$tmp/log" && ok "its log, which cannot speak to the terminal" || fail "logs: $(cat "$tmp/log")"
equal "the end of it" "red" "$(muxctl sandbox logs api-three -n 4)"
refused "the log of nobody" 66 not_found nobody-here sandbox logs nobody-here
for verb in stop terminate; do
	muxctl sandbox $verb api-three >"$tmp/out" 2>&1 || fail "no $verb without a reason: $(cat "$tmp/out")"
	muxctl audit --agent api-three -n 100 -o json 2>/dev/null | grep "\"sandbox.$verb\"" | grep -q "\"muxctl sandbox $verb\"" &&
		ok "$verb without a reason has the command's name for one" || fail "$verb: $(muxctl audit --agent api-three -n 5)"
done

# --- the record
muxctl audit --agent $a -n 1000 -o json >"$tmp/audit" 2>/dev/null || fail "no audit log"
for event in sandbox.stop sandbox.terminate sandbox.snapshot sandbox.restore sandbox.fork snapshot.drop; do
	grep -q "\"$event\"" "$tmp/audit" && ok "$event is in the audit log" || fail "no $event in the audit log"
done
grep -q 'story: restore' "$tmp/audit" && ok "with its reason" || fail "no reason in the audit log"
