#!/bin/bash
# What the steps of a run printed, and what was told of it, when its sandbox is long gone: read whole, by whose run it was;
# found in the daemon's log and in the audit log by lease, run and the client's request id, each alone. A run ends with its
# grant, and goes on with one that is renewed.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<'Y'
pool: {size: 1}
grants: {renew_max: 10m}
Y
begin() { start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"; }
begin
trap 'stop_daemon; tidy' EXIT

# service PRINCIPAL TASK: a token
service() {
	muxctl grant create --agent '*' --principal "$1" --kind service --scopes lifecycle,rounds --task "$2" --ttl 15m \
		--reason "story $0" -o json | jq -r .token
}
svc=$(service planner nightly)
get() { api "$svc" GET "/sandboxes/$1"; }
sum() { sha256sum | cut -d' ' -f1; }
code() { jq -r ".error.code // \"none\""; }
# output ROUND [curl's arguments]: its bytes
output() {
	local round=$1
	shift
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $svc" -H 'Accept: application/octet-stream' \
		"$@" "https://$(ready https)/v1/rounds/$round/output"
}

# brief NAME PRINCIPAL: a run by a grant of seven seconds, whose first step takes longer; its token in $tmp/NAME
api "$svc" POST /sandboxes/workflows '{"name":"long","owner":"alice","version":1,"steps":[{"shell":"sleep 9; echo one"},{"argv":["echo","two"]}]}' >/dev/null
brief() {
	local lease token
	muxctl grant create --agent '*' --principal planner --kind service --scopes lifecycle,rounds --task nightly --ttl 15m --reason r -o json |
		jq -r .token >"$tmp/$1.lease"
	lease=$(api "$(cat "$tmp/$1.lease")" POST /sandboxes/leases "{\"userId\":\"alice\",\"workflowId\":\"long\",\"requestId\":\"$1\"}" | jq -r .leaseId)
	token=$(muxctl grant create --agent '*' --principal planner --kind service --scopes lifecycle,rounds --task nightly --ttl 7s --reason r -o json | jq -r .token)
	echo "$token" >"$tmp/$1"
	api "$token" POST /sandboxes/runs "{\"leaseId\":\"$lease\",\"workflowId\":\"long\",\"runId\":\"$1\",\"token\":\"t\"}" | jq -r .accepted
}
equal "two runs by grants of seven seconds" "true true" "$(brief ends) $(brief renewed)"
equal "one of which is renewed" null "$(api "$(cat "$tmp/renewed")" POST /v1/grants/renew '{"ttl":"2m","reason":"still at it"}' | jq -r .error)"

api "$svc" POST /sandboxes/workflows '{"name":"prints","owner":"alice","version":1,"steps":[
 {"name":"much","shell":"seq 400000; echo to stderr >&2"},{"argv":["echo","second"]},{"shell":"exit 3","continueOnError":true}]}' >/dev/null
api "$svc" POST /sandboxes/leases '{"userId":"alice","workflowId":"prints","requestId":"request-of-alice"}' >"$tmp/lease"
lease=$(jq -r .leaseId "$tmp/lease") sandbox=$(jq -r .sandboxId "$tmp/lease")
equal "a run is accepted" '{"accepted":true}' "$(api "$svc" POST /sandboxes/runs \
	"{\"leaseId\":\"$lease\",\"workflowId\":\"prints\",\"runId\":\"run-of-alice\",\"token\":\"a token\"}" | jq -c .)"
succeeded() { [ "$(get runs/run-of-alice | jq -r .state)" = SUCCEEDED ]; }
wait_for 30 succeeded || fail "the run: $(get runs/run-of-alice)"
gone() { [ ! -e "$MUXD_STATE/sandboxes/$sandbox" ] && ! get pool | grep -qF "$sandbox"; }
wait_for 30 gone || fail "the sandbox of the run is still there"

ends() { [ "$(get "runs/$1" | jq -r '"\(.state) \(.steps | length)"')" = "$2" ]; }
wait_for 30 ends ends "FAILED 1" || fail "the run without a grant: $(get runs/ends)"
equal "a run ends with its grant, and says so" "step 1: killed: its grant has ended" "$(get runs/ends | jq -r .message)"
wait_for 30 ends renewed "SUCCEEDED 2" || fail "the run whose grant was renewed: $(get runs/renewed)"
ok "and goes on where that was renewed"

# ---- its output

run=$(get runs/run-of-alice)
step() { jq -r ".steps[$1].$2" <<<"$run"; }
equal "its record has the streams of its steps" "[2688895,10,\"$(seq 400000 | sum)\",7,0,0]" \
	"$(jq -c '[.steps[0].stdout.bytes,.steps[0].stderr.bytes,.steps[0].stdout.sha256,.steps[1].stdout.bytes,.steps[2].stdout.bytes,.steps[2].stderr.bytes]' <<<"$run")"
equal "and the request of its client" request-of-alice "$(jq -r .clientRequestId <<<"$run")"
equal "the sandbox's own log stays with it" "utf-8 true" "$(jq -r '.log | "\(.encoding) \(.bytes > 0 or .missing != null)"' <<<"$run")"
equal "a list does without" false "$(get runs | jq '.runs[0] | has("log")')"
# all WHEN
all() {
	equal "$1 a step's output is read whole, by range" "$(seq 400000 | sum)" "$(output "$(step 0 roundId)" -r 0-99999999 | sum)"
	equal "$1 in two parts" "$(seq 400000 | sum)" \
		"$({ output "$(step 0 roundId)" -r 0-999999; output "$(step 0 roundId)" -r 1000000-; } | sum)"
	equal "$1 the next step's too" second "$(output "$(step 1 roundId)")"
	equal "$1 and what the round came to" "exit 3" \
		"$(api "$svc" GET "/v1/rounds/$(step 2 roundId)" | jq -r '"\(.exit.cause) \(.exit.code)"')"
}
# nobody WHEN TOKEN WHO: else may
nobody() {
	equal "$1 $3 hears of no output" not_found "$(api "$2" GET "/v1/rounds/$(step 0 roundId)/output" | code)"
	equal "$1 $3 hears of no round" not_found "$(api "$2" GET "/v1/rounds/$(step 0 roundId)" | code)"
	equal "$1 $3 looks for nothing in it" not_found "$(api "$2" GET "/v1/rounds/$(step 0 roundId)/output?grep=1" | code)"
}
all "after its sandbox"
mine=$svc
other_task=$(service planner weekly)
nobody "after its sandbox" "$other_task" "another task's grant"
nobody "after its sandbox" "$(service stranger nightly)" "another principal"
for p in recorder net monitor; do kill -9 "$(ready "pids.$p")"; done
wait "$DAEMON" 2>/dev/null
begin
svc=$mine
all "after a kill"
nobody "after a kill" "$other_task" "another task's grant"
# refusals EVENT OUTCOME: of reading that step, in the audit log
refusals() {
	muxctl audit -n 1000 -o json --principal planner --event "$1" |
		jq -c --arg s "$(step 0 roundId)" --arg o "$2" '.record | select(.outcome == $o and (.detail.session // .session // "") == $s)'
}
told() { [ "$(refusals verdict forbidden | wc -l)" -ge 1 ]; }
wait_for 10 told && ok "each refusal by the hub is in the audit log" || fail "no verdict: $(muxctl audit -n 50)"
refused_by_record() { muxctl audit -n 1000 -o json --event record.read | grep -F "$(step 0 roundId)" | grep -q '"denied"'; }
wait_for 10 refused_by_record && ok "and those by the recorder" || fail "no record.read: $(muxctl audit -n 50)"

# ---- what was told of it

events() { muxctl audit -n 1000 -o json "$@" | jq -r .record.event; }
missing() { grep -vxF -f <(events "$@") <<<$'lease.create\nlease.end\nround.start\nround.end\nrun.start\nrun.end\npool.discard'; }
for by in "--lease $lease" "--request request-of-alice"; do
	# shellcheck disable=SC2086
	equal "the audit log by $by has all of it" "" "$(missing $by)"
	# shellcheck disable=SC2086
	equal "each step by $by" "3 3" "$(events $by | grep -c round.start) $(events $by | grep -c round.end)"
done
equal "by its run all but what was before" lease.create "$(missing --run run-of-alice)"
equal "of another lease there is nothing" "" "$(events --lease "$sandbox"; events --run run-of-bob; events --request request-of-bob)"
muxctl audit -n 1000 -o json --agent "$sandbox" >"$tmp/audit"
equal "no event of the sandbox between lease and wipe lacks one of the three" "" "$(jq -r '.record | select(.event != "record.read") |
	[.event, .lease_id != null, .run_id != null, .client_request_id != null] | @csv' "$tmp/audit" |
	sed -n '/lease.create/,/pool.discard/p' | sed 1d | grep false)"
equal "by the API as well" "$(events --run run-of-alice | sort)" "$(api "$(PRINCIPAL=auditor new_token '*' auditor replay)" \
	GET '/v1/audit?run=run-of-alice&limit=1000' | jq -r '.events[].record.event' | sort)"

log=$MUXD_STATE/daemon.log
# lines FIELD VALUE: of the daemon's log
lines() { grep -E " $1=$2( |\$)" "$log"; }
for what in "granted to alice" "POST /sandboxes/leases" "POST /sandboxes/runs" SUCCEEDED RELEASED wiped; do
	for by in "lease $lease" "run run-of-alice" "client_request request-of-alice"; do
		case "$by $what" in run*granted* | run*leases) continue ;; esac
		# shellcheck disable=SC2086
		lines $by | grep -qF "$what" || fail "no line of the log with ${by/ /=} says: $what"
	done
	ok "the log says by each of the three: $what"
done
equal "no line about the leased sandbox lacks one of the three" "" "$(grep -F "agent=$sandbox" "$log" |
	sed -n '/granted to/,/wiped/p' | sed 1d | grep -v " lease=$lease run=run-of-alice client_request=request-of-alice")"
equal "the record is whole" 0 "$(muxctl verify --all >/dev/null 2>&1; echo $?)"
