#!/bin/bash
# Somebody with the disk in hand, and in the end with the host's true keys, changes the record: every kind of docs/security.md's
# table, each at random places. `muxctl verify --all` names it, offline, on a copy, as the table says: with a head that was kept
# elsewhere, and without one. The record that is changed has kills, removals by rule, a rotation of its key and an open
# session. TRIES=10 for the long form, SEED, KINDS (a pattern). The kinds are in tamper.py.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
conf() {
	printf 'record:\n  retain: %s\n  retain_wait: 0\n  rules:\n    - {kind: "*", session: "*", rule: full}\n' "$1" >"$tmp/muxd.yaml"
}
conf 0
state=$tmp/state agent=tampered python=/usr/bin/python3
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
newest() { muxctl session list --all --agent $agent -n 1 -o json | jq -r '.sessions[0].id'; }
there() { [ -n "$(find "$state/record/sealed" -name "$1.mrec")" ]; }
gone() { ! there "$1"; }
round() {
	muxctl exec $agent -n -- sh -c "seq 1 2000; head -c $1 /dev/urandom | base64; exit 3" >/dev/null
	[ $? -eq 3 ] || fail "no round"
	last=$(newest)
	wait_for 20 there "$last" || fail "not sealed: $last"
}

# Two that retention removes, with their tombstones.
round 1000
old=$last
round 1000
sleep 1.1
conf 1s
muxctl config reload || fail "no reload"
wait_for 20 gone "$old" && wait_for 20 gone "$last" || fail "retention removed nothing"
conf 0
muxctl config reload || fail "no reload"

round 450000
cp -a "$state/keys/record" "$tmp/keys1"
muxctl head >"$tmp/head1" || fail "no head"
muxctl key rotate --record >/dev/null || fail "no rotation"
round 250000
kill -KILL "$(ready pids.recorder)"
wait_for 20 muxctl head >/dev/null || fail "the recorder is not back"
round 600000
muxctl head >"$tmp/head2" || fail "no head"
round 200000
round 2000
muxctl head >"$tmp/head3" || fail "no head"
muxctl exec $agent -n -- sh -c 'seq 1 300000; sleep 600' >/dev/null 2>&1 &
open=$!
opened() { [ -s "$state/record/open/$(basename "$(ls "$state/record/open" | head -n 1)")" ]; }
wait_for 20 opened || fail "no open session"
sleep 1
muxctl shutdown >/dev/null || fail "no shutdown" # the sandbox lives on, and so does its session
wait "$DAEMON" "$open" 2>/dev/null
[ -n "$(ls "$state/record/open")" ] || fail "no recording is open"
mkdir "$tmp/base"
cp -a "$state/record/." "$tmp/base/"
cp -a "$state/keys/record" "$tmp/keys"
cp -n "$tmp/keys1/"*.seed "$tmp/keys/" # somebody kept the old seed
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon to end the sandbox with"
stop_daemon
trap tidy EXIT
export MUXCTL
[ -n "${KEEP:-}" ] && cp -a "$tmp/." "$KEEP/"
$python "$(dirname "$0")/tamper.py" "$tmp" "$here/docs/security.md"
