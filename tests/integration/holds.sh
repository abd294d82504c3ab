#!/bin/bash
# Legal hold: what is held by session, agent, principal or time outlives every retention, an admin's "now", restarts and
# an index that is made anew; who set and released it stands in the log; what is not held goes.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state
printf 'record: {retain: 0, retain_wait: 0}\n' >"$tmp/muxd.yaml"
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon of our own"
trap 'stop_daemon; tidy' EXIT
there() { [ -n "$(find "$state/record/sealed" -name "$1.mrec")" ]; }
gone() { ! there "$1"; }
# run AGENT PRINCIPAL: a session of that principal; prints its id
run() {
	local token
	token=$(PRINCIPAL=$2 new_token "$1" staff rounds)
	api "$token" POST "/v1/agents/$1/rounds" '{"argv":["true"],"wait_ms":10000}' | jq -r .round_id
}
hold() { muxctl hold add --reason "case 7" "$@" || fail "hold add $*"; }

muxctl exec -n one --task t -- true && muxctl exec -n two --task t -- true || fail "no sandboxes"
by_session=$(run two mary) by_agent=$(run one mary) by_principal=$(run two joe) free=$(run two mary) released=$(run two mary)
sleep 0.1
from=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
by_time=$(run two mary)
until=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
muxctl head >/dev/null
for id in "$by_session" "$by_agent" "$by_principal" "$free" "$released" "$by_time"; do
	wait_for 10 there "$id" || fail "$id was not sealed"
done

muxctl hold add --agent one 2>/dev/null && fail "a hold without a reason"
muxctl hold add --reason "case 7" 2>/dev/null && fail "a hold of nothing"
muxctl hold add --reason "case 7" --session 0193aaaa-0000-7000-8000-000000000001 2>/dev/null && fail "a hold of no session"
hold --session "$by_session" >/dev/null
hold --agent one >/dev/null
hold --principal joe --agent two >/dev/null
hold --from "$from" --until "$until" >/dev/null
id=$(hold --session "$released")
[ "$(muxctl hold list -o json | jq length)" = 5 ] || fail "hold list: $(muxctl hold list)"
muxctl hold release "$id" 2>/dev/null && fail "released without a reason"
muxctl hold release --reason "closed" "$id" || fail "hold release"
muxctl hold release --reason "closed" "$id" 2>/dev/null && fail "released twice"
[ "$(muxctl hold list -o json | jq length)" = 4 ] || fail "hold list: $(muxctl hold list)"
[ "$(muxctl hold list --all -o json | jq -r '.[] | select(.state == "released") | .released_reason')" = closed ] || fail "hold list --all"

# ---- the index is made anew from the log: the same holds
muxctl shutdown >/dev/null
wait "$DAEMON" 2>/dev/null
rm -f "$state"/record/audit.db*
printf 'record: {retain: 1s, retain_wait: 0}\n' >"$tmp/muxd.yaml"
sleep 1.1
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "it does not start again"
wait_for 15 gone "$free" || fail "what nobody holds stays"
wait_for 15 gone "$released" || fail "what was released stays"
kill -KILL "$(ready pids.recorder)"
wait_for 20 muxctl head >/dev/null || fail "the recorder is not back"
muxctl config reload
muxctl exec -n two --task t -- true && muxctl head >/dev/null
for id in "$by_session" "$by_agent" "$by_principal" "$by_time"; do
	there "$id" || fail "$id was removed under a hold"
done
[ "$(muxctl hold list -o json | jq length)" = 4 ] || fail "holds were lost with the index: $(muxctl hold list)"

muxctl verify --all -o json | jq -e '[.findings[] | select(.code == "removed_held" or .code == "removed_early")] == []' >/dev/null ||
	fail "a false alarm: $(muxctl verify --all)"

# ---- who did it, and why
muxctl audit --event hold.add -o json | jq -se 'length == 5 and all(.[]; .record | .reason == "case 7" and .grant_id and .principal and .held)' \
	>/dev/null || fail "hold.add is not whole in the log"
muxctl audit --event hold.release -o json | jq -se 'length == 1 and (.[0].record.reason == "closed")' >/dev/null || fail "hold.release is not in the log"

# ---- the workspace as it was before and after what is held: its snapshots stay too
before=$(muxctl sandbox snapshot one -o json | jq -r .snapshot.id)
kept=$(run one mary)
after=$(muxctl sandbox snapshot one -o json | jq -r .snapshot.id)
run one mary >/dev/null
last=$(muxctl sandbox snapshot one -o json | jq -r .snapshot.id) # the current one never goes
muxctl hold list -o json | jq -r '.[] | select(.agent == "one") | .id' | while read -r id; do
	muxctl hold release --reason "only the one round" "$id"
done
id=$(hold --session "$kept")
for snapshot in "$before" "$after"; do
	muxctl sandbox drop one "$snapshot" --reason "space" 2>"$tmp/drop" && fail "snapshot $snapshot was removed under a hold"
	grep -q "legal hold $id" "$tmp/drop" || fail "it does not say which hold: $(cat "$tmp/drop")"
done
muxctl hold release --reason "closed" "$id"
muxctl sandbox drop one "$before" --reason "space" >/dev/null || fail "a snapshot stays though nothing holds it"
[ -n "$last" ] || fail "no third snapshot"

# ---- over HTTPS: an auditor sets one, an agent does not; an admin releases
auditor=$(new_token '*' auditor replay) admin=$(new_token '*' staff admin) agent=$(new_token two agent rounds)
id=$(api "$auditor" POST /v1/holds '{"principal":"mary","reason":"case 8"}' | jq -r .hold)
[ "$(api "$auditor" GET /v1/holds | jq -r ".holds[] | select(.id == \"$id\") | .principal")" = mary ] || fail "GET /v1/holds"
[ "$(api "$agent" POST /v1/holds '{"agent":"two","reason":"no"}' | jq -r .error.code)" = forbidden ] || fail "an agent set a hold"
[ "$(api "$auditor" DELETE "/v1/holds/$id?reason=no" | jq -r .error.code)" = forbidden ] || fail "an auditor released a hold"
[ "$(api "$admin" DELETE "/v1/holds/$id?reason=done" | jq -r .released)" = true ] || fail "an admin could not release"
[ "$(api "$auditor" GET /v1/retention | jq -r .retention.retain.now)" = 1s ] || fail "GET /v1/retention"
