#!/bin/bash
# Ten agents, one of them hostile in every limit at once: rounds without end, floods, uploads, files, artifacts, contexts, MCP
# calls, connections, a fork bomb. Nobody else is refused anything and every answer of theirs is whole; what the hostile one is
# refused names the limit; staff enters both sandboxes by SSH and by the browser's door; a sandbox stops for being idle, the
# hostile one when it is told to; the record has every round of the others. Then the record's share: told, held, let go.
# tier: test, alone, slice LENGTH=3, whole LENGTH=300
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

LENGTH=${LENGTH:-6}
chmod 0711 "$tmp"
conf() {
	cat >"$tmp/muxd.yaml" <<-Y
		sandbox: {pids: 200}
		lifecycle: {agents: [{agent: sleepy, idle_ttl: 2s}]}
		shares:
		  rounds_per_agent: 8
		  contexts_per_principal: 2
		  sessions_per_task: 3
		  artifacts_per_principal: 10
		  artifact_size_per_principal: 4MiB
		  input_rate_per_agent: 2MiB
		  output_rate_per_principal: 2MiB
		  beside_rate: 64MiB
		  weights: hostile=50
		${1:-}
	Y
}
conf
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
trap 'muxctl shutdown --sandboxes >/dev/null 2>&1; stop_daemon; tidy' EXIT
begin() { api "$1" POST "/v1/agents/$2/rounds" '{"argv":["true"]}' | jq -e '.exit.code == 0' >/dev/null || fail "no sandbox of $2"; }
bad=$(PRINCIPAL=bad GRANT_TASK=bad new_token hostile agent rounds,files,lifecycle,terminal)
owner=$(PRINCIPAL=olga new_token hostile staff lifecycle,observe)
(
	umask 077
	for i in 1 2 3 4 5 6 7 8 9; do echo "good$i $(PRINCIPAL=good$i GRANT_TASK=t$i new_token good$i agent rounds)"; done >"$tmp/good"
	staff=$(for agent in hostile good1; do jq -n --arg t "$(PRINCIPAL=otto new_token $agent staff terminal)" "{$agent: \$t}"; done | jq -s add)
	jq -nR --arg bad "$bad" --argjson staff "$staff" '{task: "bad", hostile: $bad, staff: $staff, agents: [inputs | split(" ") | {(.[0]): .[1]}] | add}' <"$tmp/good" >"$tmp/tokens.json"
)
while read -r agent token; do begin "$token" "$agent"; done <"$tmp/good"
begin "$bad" hostile
begin "$(PRINCIPAL=sleeper new_token sleepy agent rounds)" sleepy

limits=shares.rounds_per_agent,shares.contexts_per_principal,shares.artifacts_per_principal
limits+=,shares.sessions_per_task,shares.artifact_size_per_principal
began=$EPOCHSECONDS
/usr/bin/python3 tests/integration/fair_shares.py "$MUXD_STATE" "$tmp/tokens.json" "$LENGTH" $limits >"$tmp/told.json" 2>"$tmp/wrong" &
load=$!
# The bytes that it moved, by the audit log. What it printed: no more than a second allows, twice over, for the time, the bursts, and what its
# sandbox held of sessions that were ended. What it uploaded is told alone: its clients come last on this machine, and do not reach that rate
# (unit/hub_shares has it held).
# told_of EVENT NUMBER: their sum.
told_of() {
	local since=0 page
	while page=$(muxctl audit --since $since -n 1000 --agent hostile --principal bad --event "$1" -o json) && [ -n "$page" ]; do
		jq -r ".record.detail | $2" <<<"$page"
		since=$(tail -n 1 <<<"$page" | jq .seq)
	done | jq -s 'add // 0'
}
rates_held() {
	local length=$((EPOCHSECONDS - began)) in out most
	in=$(told_of file.put .size) out=$(told_of round.end '.stdout_bytes + .stderr_bytes')
	most=$(((2 * length + 16) * 2 * 1024 * 1024))
	echo "  told: it moved $in bytes in and $out out in $length s, at 2 MiB a second"
	[ "$in" -gt 0 ] || fail "nothing was uploaded"
	[ "$out" -gt 0 ] && [ "$out" -lt $most ] || fail "output_rate does not hold: $out bytes in $length s"
	ok "and what it printed a second was held"
}
full() { api "$bad" POST /v1/agents/hostile/rounds '{"argv":["true"]}' | jq -e '.error.details.limit == "shares.rounds_per_agent"'; }
# The others are alone for LENGTH seconds first.
wait_for $((${LENGTH%.*} + 60)) full || fail "the hostile agent does not come to its limits: $(cat "$tmp/wrong")"

# staff, in the middle of it
for agent in hostile good1; do
	staff=$(PRINCIPAL=anna new_token $agent staff terminal)
	out=$(sshx "$staff" $agent -tt 2>&1 <<<'stty -echo; /bin/echo in-$((40+2)); exit' | tr -d '\r')
	grep -q in-42 <<<"$out" || fail "staff does not get into $agent by SSH: $out"
	out=$(muxctl exec $agent -- /bin/echo by-the-web 2>&1) # a WebSocket, as the browser's
	equal "staff gets into $agent by the browser's door" by-the-web "$out"
done
asleep() { [ "$(muxctl sandbox show sleepy -o json | jq -r '"\(.state) \(.cause)"')" = "stopped idle" ]; }
wait_for 30 asleep || fail "the idle stop does not go through: $(muxctl sandbox show sleepy)"
ok "a sandbox stops for being idle beside it"
answer=$(api "$owner" POST /v1/agents/hostile/stop '{"reason":"enough"}')
jq -e '.error | not' <<<"$answer" >/dev/null || fail "the hostile sandbox is not stopped: $answer"
ok "a stop of the hostile sandbox goes through, and it is woken again"

wait $load || fail "the load failed: $(cat "$tmp/wrong")"
told() { jq -r "$1" "$tmp/told.json"; }
echo "  told: $(told '"p50 \(.quiet.p50) ms, p99 \(.quiet.p99) ms quiet; \(.beside.p50) and \(.beside.p99) beside"')"
echo "  told: $(told '"staff'"'"'s first byte: p50 \(.quiet.staff.p50) ms, p99 \(.quiet.staff.p99) ms quiet; \(.beside.staff.p50) and \(.beside.staff.p99) beside"')"
# Of a long run alone: in a short one a percentile is one round. Quiet and beside are of one run, and their ratio is what is promised.
no_more_than_three_times() {
	told "(.beside$2 <= 3 * .quiet$2)" | grep -qx true || fail "$1: $(told ".beside$2") ms beside the hostile one, $(told ".quiet$2") without it"
	ok "$1 is within three times of quiet"
}
if [ "$LENGTH" -ge 60 ]; then
	no_more_than_three_times "the others' p99" .p99
	no_more_than_three_times "staff's first byte, p50," .staff.p50
fi
equal "nobody else was refused anything, and every answer was whole" '["200 whole"]' "$(told '[.quiet.answers, .beside.answers] | add | keys | tojson')"
for limit in ${limits//,/ }; do
	told '.hostile[] | keys[]' | grep -q " $limit$" || fail "it was not refused by $limit: $(told '.hostile | tojson')"
done
told '.hostile[] | keys[]' | grep -xE '(429|507) [a-z_]+' && fail "a refusal does not name its limit"
ok "what the hostile one was refused has its name"

# staff got in each time; into the hostile sandbox, which was stopped meanwhile, at least once
let_in() { told ".quiet.staff.answers, .beside.staff.answers | [has(\"hostile let in\"), (keys - [\"hostile let in\"] | map(select(startswith(\"good1\"))))] | tojson"; }
equal "staff had a first byte in both, quiet and beside" '[true,["good1 let in"]] [true,["good1 let in"]]' "$(let_in | paste -sd' ')"

# the record of the others
muxctl sandbox kill hostile --reason over >/dev/null
rates_held
rounds_of() {
	local n=0 before='' ids
	while ids=$(muxctl session list --all --agent "$1" --principal "$1" --kind round -n 1000 ${before:+--before "$before"} -o json | jq -r '.sessions[].id') && [ -n "$ids" ]; do
		n=$((n + $(wc -l <<<"$ids"))) before=$(tail -n 1 <<<"$ids")
	done
	echo $n
}
want=$(told '[.quiet.rounds, .beside.rounds] | add')
recorded() {
	local all=0 i
	for i in 1 2 3 4 5 6 7 8 9; do all=$((all + $(rounds_of good$i) - 1)); done
	echo $all >"$tmp/all" && [ $all = "$want" ]
}
wait_for 30 recorded || fail "the record has $(cat "$tmp/all") rounds of the others, they had $want"
ok "the record has each of the others' $want rounds"
refused() { muxctl audit --event verdict -n 1000 -o json | jq -r '.record.detail.what' | grep -q 'shares.rounds_per_agent'; }
wait_for 20 refused || fail "the audit log does not tell of the refusals"
muxctl verify --all >"$tmp/verify" || fail "verify: $(tail -n 5 "$tmp/verify")"
ok "verify is clean, and the audit log has the refusals"

# the disk runs low: who filled it stops first
conf "  record_low: 1000TiB"
reload_daemon
low() { api "$bad" POST /v1/agents/hostile/rounds '{"argv":["true"]}' | jq -e '.error.code == "record_share_full" and .error.details.limit == "shares.record_low"'; }
wait_for 10 low || fail "the disk is low, and the hostile one goes on"
# One that staff did not look at: its terminals are in the record of good1.
read -r agent token < <(tail -n 1 "$tmp/good")
begin "$token" "$agent"
ok "with little room on the disk the one that filled it begins nothing, the others go on"

# the record's share
filler=$(PRINCIPAL=filler GRANT_TASK=filler new_token filler agent rounds)
begin "$filler" filler
context=/v1/agents/filler/contexts/$(api "$filler" POST /v1/agents/filler/contexts '{"language":"python"}' | jq -r .context_id)
in_context() { api "$filler" POST "$context/executions" "{\"code\":\"$1\",\"yield_ms\":20000}" | jq -r '.results[0].data["text/plain"] // .error.code // .state'; }
equal "a context keeps a variable" finished "$(in_context 'x = 41')"
conf "  record_per_agent: 3MiB"
reload_daemon
held=$(api "$filler" POST /v1/agents/filler/rounds '{"command":"until [ -e go ]; do sleep 0.1; done; yes | head -c 3000000","wait_ms":0}' | jq -r .round_id)
fill() { api "$filler" POST /v1/agents/filler/rounds '{"command":"head -c 400000 /dev/urandom"}' >"$tmp/fill" && [ "$(jq -r .error.code "$tmp/fill")" = record_share_full ]; }
wait_for 20 fill || fail "the record's share is not told: $(head -c 500 "$tmp/fill")"
equal "the record's share is told" "shares.record_per_agent agent 3145728 true" \
	"$(jq -r '.error.details | "\(.limit) \(.of) \(.value) \(.in_use >= .value)"' "$tmp/fill")"
equal "a context is not reset then, and goes on as it is" "record_share_full idle 1" \
	"$(api "$filler" POST "$context/reset" '{}' | jq -r .error.code) $(api "$filler" GET "$context" | jq -r '"\(.state) \(.generation)"')"
round() { api "$filler" GET "/v1/rounds/$held"; }
is_held() { round | jq -e '.held.limit == "shares.record_per_agent"' >/dev/null; }
wait_for 5 is_held || fail "what runs does not say that it is held: $(round)"
muxctl exec filler -- touch go || fail "staff is held, too"
# One that has nothing in the record yet: the share is everybody's, and in a long run the others have used theirs.
begin "$(PRINCIPAL=late GRANT_TASK=late new_token late agent rounds)" late
# The window that it had is used up, 512 KiB of the 3 MB, and no other is opened.
waits() { round | jq -e '.state == "running" and .stdout.total_bytes > 500000' >/dev/null; }
wait_for 10 waits || fail "what is held is not where it should be: $(round | jq -c 'del(.stdout.data)')"
equal "what is held goes no further than its window" true "$(round | jq '.stdout.total_bytes < 1500000')"
conf
reload_daemon
over() { round | jq -e '.state == "finished" and .held == null and .stdout.total_bytes == 3000000' >/dev/null; }
wait_for 10 over || fail "what was held does not go on: $(round | jq -c 'del(.stdout.data)')"
equal "its variables too" 42 "$(in_context 'x + 1')"
muxctl verify --all >"$tmp/verify" || fail "verify: $(tail -n 5 "$tmp/verify")"
told=$(muxctl export "$held" --format json)
grep -q '"held"' <<<"$told" && grep -q held_over <<<"$told" || fail "its recording does not tell of it: $told"
ok "what runs is held meanwhile, said so, and goes on when there is room; staff and others are not held"
