#!/bin/bash
# Leases of pooled sandboxes and runs of stored workflows, by a service for its users: granted once, kept alive, run,
# expired, released; the token of a run is nowhere afterwards, and kill -9 in the middle leaves nothing without an owner.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
# All that is on the disk is looked through for tokens in the end: small images.
cat >"$tmp/muxd.yaml" <<'Y'
sandbox: {workspace_size: 64MiB}
pool: {size: 2}
leases: {ttl_max: 2h}
log: {level: "info,pool=debug,lease=debug,run=debug,session=debug,link=debug"}
Y
begin() { LEASE_TTL_SECONDS=600 POOL_SIZE='' start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"; }
begin
trap 'stop_daemon; tidy' EXIT
service() { PRINCIPAL=${1:-planner} new_token '*' service lifecycle,rounds,files 30m; }
svc=$(service)
lease() { api "$svc" POST /sandboxes/leases "{\"userId\":\"alice\",\"workflowId\":\"${2:-hello}\",\"requestId\":\"$1\"${3:+,\"ttlSeconds\":$3}}"; }
# run LEASE RUN TOKEN [WORKFLOW [TIMEOUT]]: the token from a file, never as an argument
run() {
	printf '{"leaseId":"%s","workflowId":"%s","runId":"%s","token":"%s"%s}' "$1" "${4:-hello}" "$2" "$3" "${5:+,\"timeoutSeconds\":$5}" >"$tmp/run.json"
	api "$svc" POST /sandboxes/runs "@$tmp/run.json"
	rm "$tmp/run.json"
}
get() { api "$svc" GET "/sandboxes/$1"; }
code() { jq -r '.error.code // "none"'; }
has() { [ "$(get "$1" | jq -r "$2")" = "$3" ]; }
reaches() { wait_for 30 has "$@" || fail "$1: $2 is not $3 but $(get "$1")"; }
ended() { ! has "runs/$1" .state RUNNING; }
ready_again() { reaches pool '"\(.ready) \(.discarding) \(.filling)"' '2 0 0'; }
workflow() { api "$svc" POST /sandboxes/workflows "$1"; }

# --- workflows
ready_again
workflow '{"name":"hello","owner":"alice","version":1,"steps":[
 {"name":"shell","shell":"test \"$(cat /proc/self/fd/$MUXD_TOKEN_FD)\" = \"$(cat /workspace/want)\" && echo kept >/workspace/out"},
 {"code":{"language":"python","source":"import os\nassert open(\"/proc/self/fd/\" + os.environ[\"MUXD_TOKEN_FD\"]).read() == open(\"/workspace/want\").read().strip()\n"}},
 {"argv":["sh","-c","test \"$(cat <&3)\" = \"$(cat want)\" && exit 4"],"continueOnError":true},
 {"argv":["cat","out"]}]}' >"$tmp/wf"
equal "a workflow is stored" "hello 1 alice" "$(jq -r '"\(.workflowId) \(.version) \(.owner)"' "$tmp/wf")"
equal "a fault is named by where it is" "/steps/1/argv/0: is not a string" \
	"$(workflow '{"name":"x","owner":"alice","version":1,"steps":[{"shell":"true"},{"argv":[7]}]}' | jq -r .error.message)"
equal "an enabled schedule is refused by name" "unsupported /schedule/enabled" \
	"$(workflow '{"name":"x","owner":"alice","version":1,"steps":[{"shell":"true"}],"schedule":{"cron":"* * * * *","enabled":true}}' |
		jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"
equal "a version is never changed" conflict "$(workflow '{"name":"hello","owner":"alice","version":1,"steps":[{"shell":"true"}]}' | code)"
workflow '{"name":"slow","owner":"alice","version":1,"steps":[{"argv":["sh","-c","cat <&3 >/dev/null; echo up >began; sleep 600"]},{"shell":"echo never"}]}' >"$tmp/wf"
workflow '{"name":"fails","owner":"alice","version":1,"steps":[{"shell":"exit 9"},{"shell":"echo never"}]}' >"$tmp/wf"

# --- a lease is one sandbox for one user, however often it is asked for
lease r1 hello 60 >"$tmp/l1"
l1=$(jq -r .leaseId "$tmp/l1") s1=$(jq -r .sandboxId "$tmp/l1")
equal "a lease has three fields" '["expiresAt","leaseId","sandboxId"]' "$(jq -c keys "$tmp/l1")"
equal "the same request is the same lease" "$(cat "$tmp/l1")" "$(lease r1 hello 60)"
equal "with another body it is a conflict that names the first" "conflict $l1" \
	"$(lease r1 hello 61 | jq -r '"\(.error.code) \(.error.message | sub(".* "; ""))"')"
lease r2 >"$tmp/l2"
l2=$(jq -r .leaseId "$tmp/l2") s2=$(jq -r .sandboxId "$tmp/l2")
[ "$s1" != "$s2" ] && ok "two leases have two sandboxes" || fail "two leases have one sandbox"
equal "a lease without a time has the environment's" 600 "$(get "leases/$l2" | jq .ttlSeconds)"
equal "a time out of bounds is refused" invalid_request "$(lease r3 hello 7201 | code)"
equal "an unknown workflow is not found" not_found "$(lease r3 nothing | code)"
before=$(get "leases/$l1" | jq -r .expiresAt)
sleep 1.1
after=$(api "$svc" POST "/sandboxes/leases/$l1/heartbeat" | jq -r .expiresAt)
[[ $after > $before ]] && ok "a heartbeat begins its time anew" || fail "heartbeat: $before, then $after"

# --- nobody else
status() { curl -sS -o /dev/null -w '%{http_code}' --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $1" -d "$3" "http://localhost$2"; }
other=$(service other)
equal "another principal sees nothing of it" not_found "$(api "$other" GET "/sandboxes/leases/$l1" | code)"
equal "and cannot release it" not_found "$(api "$other" DELETE "/sandboxes/leases/$l1" | code)"
wakes=$(PRINCIPAL=other new_token '*' service lifecycle)
equal "nor wake its sandbox" forbidden "$(api "$wakes" POST "/v1/agents/$s1/resume" | code)"
equal "nor enter its sandbox" forbidden "$(api "$other" POST "/v1/agents/$s1/rounds" '{"argv":["true"]}' | code)"
# routed AGENT: a port of its sandbox
routed() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $ports" -H "X-Sandbox-ID: $1" -H 'X-Sandbox-Port: 8000' "https://$(ready https)/"; }
ports=$(PRINCIPAL=other new_token '*' service ports)
equal "nor reach its ports" forbidden "$(routed "$s1" | code)"
equal "nor copy its workspace" forbidden "$(api "$other" POST "/v1/agents/$s1/fork" '{}' | code)"
equal "a copy of it takes no name, as it goes with the lease" invalid_request "$(api "$svc" POST "/v1/agents/$s1/fork" '{"as":"mine"}' | code)"
snapshot=$(api "$svc" POST "/v1/agents/$s1/snapshots" | jq -r '.snapshot.id // .id')
equal "nor does a sandbox that begins with it" invalid_request "$(api "$svc" POST /v1/agents/mine/resume "{\"workspace\":\"snapshot:$snapshot\"}" | code)"
copy=$(api "$svc" POST "/v1/agents/$s1/fork" '{}' | jq -r .agent)
equal "who leased it enters its copy" 0 "$(api "$svc" POST "/v1/agents/$copy/rounds" '{"argv":["true"],"wait_ms":30000}' | jq .exit.code)"
equal "and nobody else" forbidden "$(api "$other" POST "/v1/agents/$copy/rounds" '{"argv":["true"]}' | code)"
wide=$(PRINCIPAL=other new_token '*' service drive,rounds,lifecycle)
equal "with more scopes than it takes its programs are ended, too" 200 "$(status "$wide" "/v1/agents/$s1/kill" '{"reason":"runaway"}')"
equal "and its services are told of" none "$(api "$wide" GET "/v1/agents/$s1/services" | code)"
equal "nor say how long it lives" forbidden "$(api "$other" POST "/v1/agents/$s1/resume" '{"ttl":"1h"}' | code)"
ports=$(PRINCIPAL=planner new_token '*' service ports)
equal "its lease's principal reaches them" port_unreachable "$(routed "$s1" | code)"
pooled=$(get pool | jq -r '[.sandboxes[] | select(.state == "ready")][0].sandboxId')
[ "$pooled" != null ] || { ready_again; pooled=$(get pool | jq -r '[.sandboxes[] | select(.state == "ready")][0].sandboxId'); }
equal "nobody enters what is not leased" bad_state "$(api "$svc" POST "/v1/agents/$pooled/rounds" '{"argv":["true"]}' | code)"
agent=$(new_token demo agent rounds,files)
equal "an agent's grant leases nothing" forbidden \
	"$(api "$agent" POST /sandboxes/leases '{"userId":"tester","workflowId":"hello","requestId":"a"}' | code)"

# --- a run: its token comes in by a descriptor and stays nowhere
secret=tok-$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
# patterns stand in a file: grep's own arguments are looked through as well
printf '%s\n%s\n' "$secret" "$(printf %s "$secret" | base64 -w0)" >"$tmp/patterns"
anywhere() { grep -lsarF -f "$tmp/patterns" "$@"; }
# what the run compares with: the token's other form, so that the story itself writes it nowhere
want() { api "$svc" POST "/v1/agents/$1/rounds" "{\"argv\":[\"sh\",\"-c\",\"$2\"],\"wait_ms\":20000}" | jq -r .exit.code; }
half=$(printf %s "$secret" | base64 -w0 | rev)
equal "who leased it uses it" 0 "$(want "$s1" "echo $half | rev | base64 -d >/workspace/want")"
equal "a run is accepted" '{"accepted":true}' "$(run "$l1" run-1 "$secret" hello 120 | jq -c .)"
equal "the same run is the same" '{"accepted":true}' "$(run "$l1" run-1 "$secret" hello 120 | jq -c .)"
equal "with another body it is a conflict" conflict "$(run "$l1" run-1 "$secret" hello 121 | code)"
wait_for 30 ended run-1
equal "its steps ran" "SUCCEEDED [0,0,4,0]" "$(get runs/run-1 | jq -r '"\(.state) \([.steps[].code])"')"
reaches "leases/$l1" .state RELEASED
equal "a lease has one run" bad_state "$(run "$l1" run-2 "$secret" | code)"
gone() { [ ! -e "$MUXD_STATE/sandboxes/$s1" ]; }
wait_for 30 gone && ok "its sandbox is wiped" || fail "$s1 is still there"
[ "$copy" != null ] && [ ! -e "$MUXD_STATE/sandboxes/$copy" ] && ok "and its copy before it" || fail "$copy is still there"
equal "which nobody wakes" not_found "$(api "$svc" POST "/v1/agents/$copy/rounds" '{"argv":["true"]}' | code)"
round=$(get runs/run-1 | jq -r '.steps[0].roundId')
named() {
	muxctl audit --agent "$s1" --event round.end -n 100 -o json | jq -c --arg r "$round" --arg l "$l1" \
		'.record | select(.detail.session == $r and .lease_id == $l and .run_id == "run-1" and .request_id)' | grep -q .
}
wait_for 30 named && ok "the events of its rounds name lease, run and request" || fail "no round.end of $round with $l1 and run-1"

# --- release and time
equal "a lease is released" RELEASED "$(api "$svc" DELETE "/sandboxes/leases/$l2" | jq -r .state)"
equal "twice is fine" RELEASED "$(api "$svc" DELETE "/sandboxes/leases/$l2" | jq -r .state)"
equal "its heartbeat comes too late" bad_state "$(api "$svc" POST "/sandboxes/leases/$l2/heartbeat" | code)"
l3=$(lease r4 slow 1 | jq -r .leaseId)
equal "a run that its lease does not outlive" true "$(run "$l3" run-3 "$secret" slow | jq .accepted)"
reaches "leases/$l3" .state EXPIRED
equal "has failed for that" "FAILED expired" "$(get runs/run-3 | jq -r '"\(.state) \(.reason)"')"
equal "an expired lease cannot be released" bad_state "$(api "$svc" DELETE "/sandboxes/leases/$l3" | code)"
l4=$(lease r5 fails | jq -r .leaseId)
run "$l4" run-4 "$secret" fails >/dev/null
wait_for 30 ended run-4
equal "a step that fails ends its run" "FAILED error [9]" "$(get runs/run-4 | jq -r '"\(.state) \(.reason) \([.steps[].code])"')"
l5=$(lease r6 slow | jq -r .leaseId)
run "$l5" run-5 "$secret" slow 2 >/dev/null
wait_for 60 ended run-5
equal "a run that passes its time" "FAILED timeout" "$(get runs/run-5 | jq -r '"\(.state) \(.reason)"')"
watcher=$(new_token '*' auditor observe)
metrics() { api "$watcher" GET /metrics | grep "^$1" | sed 's/.* //'; }
equal "failures are counted by reason" "1 1 1" \
	"$(metrics 'muxd_runs_failed_total{reason="timeout"}') $(metrics 'muxd_runs_failed_total{reason="error"}') $(metrics 'muxd_runs_failed_total{reason="expired"}')"

# --- kill -9 in the middle
ready_again
l6=$(lease r7 slow | jq -r .leaseId)
l7=$(lease r8 hello | jq -r .leaseId)
s7=$(get "leases/$l7" | jq -r .sandboxId) s6=$(get "leases/$l6" | jq -r .sandboxId)
equal "a file in a leased sandbox" 0 "$(want "$s7" "echo mine >/workspace/mine")"
run "$l6" run-6 "$secret" slow 600 >/dev/null
began() { [ "$(want "$s6" "cat /workspace/began")" = 0 ]; }
wait_for 30 began || fail "the slow run did not begin"
# while it runs: in no environment and on no command line of any process
anywhere /proc/[0-9]*/environ /proc/[0-9]*/cmdline && fail "the token is in a process's environment or arguments"
ok "while it runs the token is in no environment and no arguments"
kill -9 "$DAEMON" "$(ready pids.net)"
wait "$DAEMON" 2>/dev/null
begin
svc=$(service)
reaches runs/run-6 '"\(.state) \(.reason)"' "FAILED crash"
equal "its lease is over, the other goes on" "RELEASED ACTIVE" "$(get "leases/$l6" | jq -r .state) $(get "leases/$l7" | jq -r .state)"
ready_again
[ ! -e "$MUXD_STATE/sandboxes/$s6" ] && ok "the sandbox of the run is wiped" || fail "$s6 is still there"
equal "the other sandbox is as it was" 0 "$(want "$s7" "grep mine /workspace/mine")"
equal "the same request is the same lease still" "$l7" "$(lease r8 hello | jq -r .leaseId)"
equal "a run that failed for the crash is not run again" '{"accepted":true} FAILED' \
	"$(run "$l6" run-6 "$secret" slow 600 | jq -c .) $(get runs/run-6 | jq -r .state)"

# --- kill -9 of net alone, at random moments of leases that come and go
for i in 1 2 3; do
	net=$(ready pids.net)
	pids=()
	for n in a b c; do
		lease "k$i$n" fails 600 >"$tmp/k.$n" 2>/dev/null &
		pids+=($!)
	done
	sleep "0.0$((RANDOM % 90 + 10))"
	kill -9 "$net"
	wait "${pids[@]}"
	back() { [ "$(ready pids.net)" != "$net" ] && get pool | jq -e .size >/dev/null; }
	wait_for 60 back || fail "net did not come again"
	for n in a b c; do
		wait_for 30 eval "lease k$i$n fails 600 >$tmp/k.$n && jq -e .leaseId $tmp/k.$n" || fail "no lease: $(cat "$tmp/k.$n")"
	done
	equal "kill $i: three leases have three sandboxes" 3 "$(get "leases?state=ACTIVE&limit=3" | jq '[.leases[].sandboxId] | unique | length')"
	for n in a b c; do api "$svc" DELETE "/sandboxes/leases/$(jq -r .leaseId "$tmp/k.$n")" >/dev/null; done
done
ready_again
equal "what is busy has an owner" '["'"$l7"'"]' "$(get pool | jq -c '[.sandboxes[] | select(.state == "leased") | .leaseId]')"
equal "and every sandbox of the pool is known" "$(get pool | jq -r '.sandboxes[].sandboxId' | sort | tr '\n' ' ')" \
	"$(cd "$MUXD_STATE/sandboxes" && for d in pool-*; do echo "$d"; done | sort | tr '\n' ' ')"

# --- sandboxes that end by themselves
pid_of() { jq .init.pid "$MUXD_STATE/sandboxes/$1/sandbox.json"; }
dead=$(get pool | jq -r '[.sandboxes[] | select(.state == "ready")][0].sandboxId')
kill -9 "$(pid_of "$dead")" "$(pid_of "$s7")"
reaches "leases/$l7" '"\(.state) \(.cause | split(":")[0])"' "RELEASED lost"
replaced() { get pool | jq -e --arg s "$dead" '.ready == 2 and .discarding == 0 and ([.sandboxes[].sandboxId] | index($s) | not)'; }
wait_for 30 replaced && ok "a sandbox that dies takes its lease along, or is replaced" || fail "the pool: $(get pool)"

# --- by muxctl
equal "muxctl shows the pool" 2 "$(muxctl pool show -o json | jq .ready)"
printf '%s\n' "$secret" >"$tmp/token"
muxctl lease create --user bob --workflow fails --request m1 --ttl 5m -o json >"$tmp/m"
m=$(jq -r .leaseId "$tmp/m")
equal "muxctl runs" true "$(muxctl run start --lease "$m" --workflow fails --run-id m-1 --timeout 2h --token-file "$tmp/token" -o json | jq .accepted)"
shows() { [ "$(muxctl run show m-1 -o json | jq -r .state)" = FAILED ]; }
wait_for 30 shows && ok "muxctl shows the run" || fail "muxctl run show"
rm "$tmp/token"
muxctl lease list >/dev/null && muxctl workflow list >/dev/null && muxctl run list >/dev/null || fail "muxctl's lists"

# --- the token is nowhere: ring, segments, control.db, logs as they are; recordings, which are compressed, as exported
journal=$(/usr/bin/python3 -c 'import hashlib, os, sys; print("/dev/shm/muxd-" + hashlib.sha256(os.path.realpath(sys.argv[1]).encode()).hexdigest()[:12])' "$MUXD_STATE")
[ -s "$journal/ring" ] || fail "no ring at $journal"
anywhere "$journal" && fail "the token is in the ring"
anywhere "$MUXD_STATE" && fail "the token is on the disk"
grep -saq run-6 "$MUXD_STATE"/control/* || fail "the runs are stored elsewhere than where this looks"
[ -s "$MUXD_STATE/control/control.db" ] || fail "no control.db"
anywhere /proc/[0-9]*/environ /proc/[0-9]*/cmdline && fail "the token is in a process's environment or arguments"
for r in $(get runs/run-1 | jq -r '.steps[].roundId'); do
	wait_for 30 muxctl export "$r" --format raw --file "$tmp/recorded" || fail "no recording of $r"
	anywhere "$tmp/recorded" && fail "the token is in recording $r"
done
ok "the token is in no file, ring, recording, log, environment or command line"
