#!/bin/bash
# A program that nobody watches writes as fast as it can while its sandbox is stopped: the snapshot holds every line it
# ever wrote, because it stood still from then on. And a snapshot of what runs on lets it go on.
# tier: test, whole CYCLES=40
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<'C'
lifecycle:
  at_rest: keep
C
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
a=counter
run() { muxctl exec -n --task story -c "$1" $a; }
# It ends by itself after thirty million lines.
count='i=0; while [ $i -lt 30000000 ]; do i=$((i+1)); echo $i; done >>/workspace/lines'
lines() { run 'wc -l </workspace/lines'; }
more_than() { [ "$(lines)" -gt "$1" ]; }
told() { muxctl audit -n 100 --agent $a --event snapshot.create -o json | jq -r 'select(.record.outcome == "ok") | .record.detail.quiesce' | tail -n 1; }
whole() { run 'awk "\$1 != NR { print \"line \" NR \" is \" \$1; exit 1 }" /workspace/lines'; }

run "setsid sh -c '$count' >/dev/null 2>&1 </dev/null &" || fail "no sandbox"
wait_for 30 more_than 100 || fail "it does not count"

muxctl sandbox snapshot $a >/dev/null || fail "no snapshot"
equal "what runs on is frozen for the snapshot" frozen "$(told)"
now=$(lines)
wait_for 30 more_than "$now" && ok "and goes on afterwards" || fail "it stands still at $now"

# As often as CYCLES says: what is stopped ends where it stood, though process 1 of the sandbox takes its time to end.
for cycle in $(seq "${CYCLES:-5}"); do
	[ "$cycle" = 1 ] || run "setsid sh -c '$count' >/dev/null 2>&1 </dev/null &" || fail "no program"
	[ "$cycle" = 1 ] || run 'sleep 0.2'
	muxctl sandbox stop $a --reason story >/dev/null || fail "no stop"
	equal "what is stopped is frozen" frozen "$(told)"
	equal "and shown so" frozen "$(muxctl sandbox snapshots $a -o json | jq -r '.snapshots[0].quiesce')"
	last=$(muxctl sandbox snapshots $a -o json | jq -r '.snapshots[0].id')
	kept=$(lines)
	[ "$cycle" != 1 ] || { whole && ok "the workspace that was kept: $kept lines, none missing" || fail "a hole"; }
	muxctl sandbox restore $a "$last" --reason story >/dev/null || fail "no restore"
	equal "the snapshot has as many: nothing was written after it" "$kept" "$(lines)"
	[ "$cycle" != 1 ] || { whole && ok "and none missing" || fail "a hole in the snapshot"; }
done

# ---- what goes says who still names it: the rounds since it was taken
named() { muxctl session list --all --agent $a --kind round -o json | jq --arg id "$last" '[.sessions[] | select(.state == "sealed" and (.open.snapshot_id // .snapshot_id) == $id)] | length'; }
sealed() { [ "$(named)" -ge 2 ]; }
muxctl sandbox stop $a --reason story >/dev/null || fail "no second stop"
wait_for 60 sealed || fail "no sealed rounds name it: $(named)"
muxctl sandbox drop $a "$last" --reason story >/dev/null || fail "not dropped"
muxctl audit -n 100 --agent $a --event snapshot.drop -o json |
	jq -se --arg id "$last" 'any(.record.detail.id == $id and .record.detail.recordings >= 2)' >/dev/null && ok "a snapshot that goes says how many recordings name it" ||
	fail "$(muxctl audit -n 100 --agent $a --event snapshot.drop -o json | jq -c .record.detail)"
