#!/bin/bash
# A sandbox goes idle and sleeps with a snapshot, wakes as it was, is never cut while it works, and any moment of it can be opened
# again. The hour is made short by lifecycle.speed; nothing sleeps and hopes.
# tier: test
#
# The same file runs against a cluster (tests/e2e/k8s/stories/lifecycle.sh), by these variables:
#   LIFE_CONFIG   sections `sandbox:` and `kubernetes:` of the configuration; empty: this machine
#   LIFE_SPEED    how many times faster; 720: an hour is 5 s
#   LIFE_WAIT     seconds that a stop or a start may take
#   LIFE_HOW      how snapshots are made, a pattern
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

speed=${LIFE_SPEED:-720} patience=${LIFE_WAIT:-60} how=${LIFE_HOW:-copy|reflink|tar}
hour=$((3600 / speed + 1)) # seconds of real time that an hour of lifecycle's takes, at most
a=sleeper

chmod 0711 "$tmp"
# Each snapshot is hashed whole: small images.
printf '%s\nlifecycle: {idle_ttl: 1h, idle_warning: 20m, speed: %s, keep_snapshots: 3}\n' "${LIFE_CONFIG:-sandbox: {workspace_size: 64MiB\}}" "$speed" >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT

inside() { muxctl exec -n --task story -c "$2" "$1"; }
show() { muxctl sandbox show "$1" -o json; }
field() { show "$1" | jq -r ".$2"; }
is() { [ "$(field "$1" state)" = "$2" ]; }
becomes() {
	wait_for "$patience" is "$1" "$2" && ok "$3" ||
		fail "$3: $1 is $(show "$1" | jq -c '{state, cause, detail}'), not $2"
}
told() { muxctl audit -n 1000 --agent "$1" --event "$2" -o json | jq -c .record; }
last_round() { muxctl session list --all --agent "$1" --kind round -n 1 -o json | jq -r '.sessions[0].id'; }

# ---- asleep and awake again
sum=$(inside $a 'head -c 3000000 /dev/urandom >/workspace/data; echo one >/workspace/word; sha256sum </workspace/data') || fail "no sandbox"
equal "its record says when it will sleep" true "$(show $a | jq '.idle_stops_at > .last_activity_at')"
before=$(last_round $a)
becomes $a stopped "idle for an hour: stopped"
first=$(field $a workspace_snapshot_id)
[ "$first" != null ] || fail "no snapshot"
muxctl sandbox snapshots $a -o json | jq -e --arg id "$first" --arg how "$how" \
	'.snapshots[] | select(.id == $id) | .status == "ready" and (.how | test($how)) and .current' >/dev/null &&
	ok "with a snapshot, $(muxctl sandbox snapshots $a -o json | jq -r '.snapshots[0].how')" || fail "$(muxctl sandbox snapshots $a)"
told $a sandbox.state | jq -e 'select(.detail.to == "stopped" and .outcome == "ok") | .detail | .cause == "idle" and .from == "idle_stopping" and .duration_ms >= 0' \
	>/dev/null && ok "each change with its cause and how long it took" || fail "$(told $a sandbox.state)"
told $a filespace.push | grep -q 'nothing is configured' && ok "the named step says that nothing is configured" || fail "no filespace.push"
began=$(date +%s%N)
got=$(inside $a 'sha256sum </workspace/data; cat /workspace/word') || fail "not awake"
echo "  note: asleep to the end of its first round in $((($(date +%s%N) - began) / 1000000)) ms"
equal "awake, the file is there with its hash" "$(echo $sum) one" "$(echo $got)"
equal "the round before carries no snapshot" null "$(muxctl session show "$before" -o json | jq -r '.snapshot_id // "null"')"
equal "the round after carries its own" "$first" "$(muxctl session show "$(last_round $a)" -o json | jq -r .snapshot_id)"

# ---- what works is never cut, what nobody watches does not hold
inside $a "i=0; while [ \$i -lt $((hour * 3)) ]; do sleep 1; i=\$((i + 1)); done; echo through" >"$tmp/long" || fail "the long round was cut"
equal "a round of three hours runs to its end" through "$(cat "$tmp/long")"
equal "and nothing stopped meanwhile" running "$(field $a state)"
inside $a 'echo two >/workspace/word; (while :; do sleep 1; done) >/dev/null 2>&1 &' || fail "no job in the background"
becomes $a stopped "a job in the background holds nothing"
second=$(field $a workspace_snapshot_id)

# ---- an attached terminal is warned, then it ends with a cause
token=$(new_token $a staff terminal 1h)
(
	exec 3< <(exec sleep 300) # says nothing, and goes on
	silent=$!
	sshx "$token" $a -tt <&3 >"$tmp/screen" 2>&1
	kill $silent
) 2>/dev/null &
wait_for "$patience" is $a running || fail "a login does not wake it"
wait_for "$patience" grep -q 'the sandbox is stopped in' "$tmp/screen" && ok "a silent terminal is warned" || fail "no warning: $(cat "$tmp/screen")"
becomes $a stopped "and then it does not hold"
muxctl session list --all --agent $a --kind terminal -n 1 -o json | grep -q 'sandbox was stopped' && ok "its record says why" || fail "no cause: $(tail -n 3 "$tmp/screen")"

# ---- moments
muxctl sandbox fork --from-session "$(muxctl session list --all --agent $a --kind round -o json | jq -r --arg s "$first" '[.sessions[] | select(.open.snapshot_id == $s or .snapshot_id == $s)][-1].id')" \
	--as looker -o json >"$tmp/fork" || fail "no fork of a session: $(cat "$tmp/fork")"
equal "a session's workspace, under another agent" "one" "$(inside looker 'cat /workspace/word')"
inside looker 'echo changed >/workspace/word' 2>/dev/null && fail "a read-only fork was written to"
ok "read-only"
muxctl sandbox restore $a "$first" --reason story >/dev/null || fail "no restore"
equal "back to the first snapshot" one "$(inside $a 'cat /workspace/word')"
equal "the one after it is there still" two "$(muxctl sandbox fork $a --snapshot "$second" --as looker2 >/dev/null && inside looker2 'cat /workspace/word')"

# ---- retention. First the copies go: asleep, without a workspace, they would need the snapshots that they were made of.
for i in looker looker2; do muxctl sandbox terminate $i --how wipe --reason story >/dev/null || fail "$i is not wiped"; done
copied() { inside $a true && muxctl sandbox snapshot $a; } # awake first: an hour is short on a machine that is busy
for i in 1 2 3; do wait_for "$patience" copied || fail "snapshot $i"; done
ready() { [ "$(muxctl sandbox snapshots $a -o json | jq '[.snapshots[] | select(.status == "ready")] | length')" = 3 ]; }
wait_for "$patience" ready && ok "three are kept" || fail "kept: $(muxctl sandbox snapshots $a)"
muxctl sandbox snapshots $a -o json | jq -e '.snapshots[0].current' >/dev/null && ok "the current one among them" || fail "not the current one"
told $a snapshot.drop | grep -q 'retention: more than lifecycle.keep_snapshots' && ok "what went is in the audit log" || fail "no snapshot.drop"
muxctl sandbox fork $a --snapshot "$first" --as never >"$tmp/out" 2>&1 && fail "a dropped snapshot was forked"
grep -qE 'not_found|no snapshot' "$tmp/out" && ok "and is not there any more" || fail "$(cat "$tmp/out")"

# ---- the doors' process dies while it stops: what was begun comes to an end by itself
inside $a 'echo three >/workspace/word' || fail "not awake"
muxctl sandbox stop $a --reason "story: a crash" >/dev/null 2>&1 &
stopping=$!
is_not_running() { ! is $a running; }
wait_for 10 is_not_running
kill -9 "$(jq -r .pids.net "$MUXD_STATE/ready.json")" 2>/dev/null
wait $stopping
becomes $a stopped "killed in the middle of a stop: it is stopped all the same"
equal "and nothing is lost" three "$(inside $a 'cat /workspace/word')"

# ---- its time is over
muxctl sandbox resume brief --ttl 30m >/dev/null || fail "no sandbox with an end"
becomes brief stopped "an absolute time ends it"
muxctl sandbox terminate brief --how wipe --reason story >/dev/null || fail "not wiped"
muxctl sandbox show brief >/dev/null 2>&1 && fail "wiped and still shown"
ok "wiped for ever"
