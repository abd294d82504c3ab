#!/bin/bash
# The recorder is killed in the midst of removals, of holds that are set and released, and of configurations that are
# told: what was answered is in force, what is held is there, what is gone has its tombstone, and verify agrees.
# KILLS=50 for more of them, SEED=n for other moments.
# tier: test, san, whole KILLS=50
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state
RANDOM=${SEED:-1} killer=
conf() { printf 'record: {%s, retain_wait: 0}\n' "$1" >"$tmp/muxd.yaml"; }
conf 'retain: 0'
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon of our own"
trap 'stop_daemon; tidy' EXIT
there() { [ -n "$(find "$state/record/sealed" -name "$1.mrec")" ]; }
flushed() { muxctl head >/dev/null 2>&1; }
token=$(new_token crash staff rounds)
round() { api "$token" POST /v1/agents/crash/rounds '{"argv":["true"],"wait_ms":20000}' | jq -r .round_id; }
# A kill of the recorder in the next 120 ms, at any step of what goes on.
kill_soon() {
	local pid
	pid=$(ready pids.recorder)
	(
		sleep "0.$(printf %03d $((RANDOM % 120)))"
		kill -KILL "$pid" 2>/dev/null
	) &
	killer=$!
}
# Until the recorder that was killed has a successor that answers.
back() { wait ${killer:+"$killer"}; wait_for 20 flushed || fail "the recorder is not back"; }

muxctl exec -n crash --task t -- true || fail "no sandbox"
held=() free=()
for ((i = 0; i < ${KILLS:-3}; i++)); do
	conf 'retain: 0'
	muxctl config reload || fail "config reload"
	for j in 1 2 3 4 5 6; do
		id=$(round)
		[ $((j % 2)) = 0 ] && held+=("$id") || free+=("$id")
	done
	flushed || fail "no head"
	# Holds, and each other time a kill among them: one that was answered counts, another may.
	[ $((i % 2)) = 1 ] || kill_soon
	for id in "${held[@]: -3}"; do
		until muxctl hold add --session "$id" --reason "kill $i" >>"$tmp/holds" 2>/dev/null; do sleep 0.05; done
	done
	back
	# A removal of all that is old enough, and else a kill in it.
	sleep 1.1
	conf 'retain: 1s'
	[ $((i % 2)) = 0 ] || kill_soon
	muxctl config reload || fail "config reload"
	back
done
# What waits for ten minutes is looked at when something else is in force.
conf 'retain: 2s'
sleep 2.1
muxctl config reload
none_free() {
	local id
	for id in "${free[@]}"; do there "$id" && return 1; done
	return 0
}
wait_for 20 none_free || fail "what nobody holds is still there: $(muxctl retention show)"
for id in "${held[@]}"; do
	there "$id" || fail "$id was removed under a hold"
done
muxctl hold list -o json | jq -r '.[].id' | sort >"$tmp/in_force"
sort "$tmp/holds" | comm -23 - "$tmp/in_force" | grep . && fail "a hold that was answered is not in force"
muxctl verify --all -o json >"$tmp/verdict" || fail "verify: $(muxctl verify --all | tail -n 20)"
jq -e '[.findings[] | select(.code | test("removed_|recording_|seal_repeated|erased"))] == []' "$tmp/verdict" >/dev/null ||
	fail "a false alarm: $(jq -c '[.findings[] | select(.code != "removed")]' "$tmp/verdict" | cut -c1-800)"
# Each load is told once, whoever was killed meanwhile.
muxctl audit --event config.loaded -n 1000 -o json | jq -r .record.load | sort | uniq -d | grep . && fail "a load is told twice"
loads=$(muxctl audit --event config.loaded -n 1000 -o json | jq -r .record.load | sort -u | wc -l)
[ "$loads" = $((2 + 2 * ${KILLS:-3})) ] || fail "$loads loads are told, $((2 + 2 * ${KILLS:-3})) were made"
