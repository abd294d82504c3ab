#!/bin/bash
# Somebody with the disk in hand, and in the end with the host's true keys, changes the record: every kind of docs/security.md's
# table, each at random places. `muxctl verify --all` names it, offline, on a copy, as the table says: with a head that was kept
# elsewhere, with a witness's file, with another muxd that countersigned, and without any. The record that is changed has kills,
# removals by rule, a rotation of its key and an open session; its witnesses were sent its heads by the daemon itself. With the true
# keys nothing in front of the last witnessed head can be rewritten unnoticed: REWRITES=20 histories, made and signed anew.
# TRIES=10 for the long form, SEED, KINDS (a pattern), MANY=n: so many of the kinds, by the seed. The kinds are in tamper.py.
# tier: test, san MANY=4 REWRITES=1, slice MANY=8 REWRITES=2, whole TRIES=10
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
conf() { # retain [witnesses]
	{
		printf 'record:\n  retain: %s\n  retain_wait: 0\n  rules:\n    - {kind: "*", session: "*", rule: full}\n' "$1"
		[ -z "${2:-}" ] || cat "$2"
	} >"$tmp/muxd.yaml"
}
conf 0
state=$tmp/state agent=tampered python=/usr/bin/python3
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
log_id=$(muxctl head | jq -r .log_id)
stop_daemon
trap tidy EXIT

# ---- the other muxd, and the file
other=$tmp/other
pushers() {
	printf 'witness:\n  pushers:\n    - {name: tampered, log_id: %s, keys: [%s]}\n' "$log_id" \
		"$(cat "$state"/keys/record/*.pub | sed 's/.*/"&"/' | paste -sd,)" >"$tmp/other.yaml"
}
pushers
start_daemon "$other" --config "$tmp/other.yaml" || fail "no second daemon"
OTHER=$DAEMON
trap 'end_other; tidy' EXIT
end_other() { # before the directory goes
	MUXD_STATE=$other DAEMON=$OTHER
	stop_daemon
}
OTHER_URL=https://$(ready https) OTHER_CA=$other/keys/tls.crt
mkdir -p "$tmp/mount" && chmod 0777 "$tmp/mount"
cat >"$tmp/witnesses" <<Y
witnesses:
  - {name: box, kind: file, path: $tmp/mount/heads.jsonl, interval: 1s}
  - {name: other, kind: muxd, url: "$OTHER_URL", ca: $OTHER_CA, key: "$(cat "$other"/keys/record/*.pub)", interval: 1s, timeout: 20s}
Y
conf 0 "$tmp/witnesses"
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_other; tidy' EXIT
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
conf 1s "$tmp/witnesses"
muxctl config reload || fail "no reload"
wait_for 20 gone "$old" && wait_for 20 gone "$last" || fail "retention removed nothing"
conf 0 "$tmp/witnesses"
muxctl config reload || fail "no reload"

round 450000
cp -a "$state/keys/record" "$tmp/keys1"
muxctl head >"$tmp/head1" || fail "no head"
muxctl key rotate --record >/dev/null || fail "no rotation"
pushers # the other is told of the new key, too
kill -HUP "$OTHER"
round 250000
kill -KILL "$(ready pids.recorder)"
wait_for 20 muxctl head >/dev/null || fail "the recorder is not back"
round 600000
muxctl head >"$tmp/head2" || fail "no head"
round 200000
round 2000
# Both witnesses have one and the same newest head. From then on none is sent any more.
kept() { curl -sS --cacert "$OTHER_CA" "$OTHER_URL/v1/witness/heads?log_id=$log_id&limit=500" | jq -c '[.heads[] | select(.state == "kept") | .head] | max_by(.seq)'; }
same() {
	tail -n 1 "$tmp/mount/heads.jsonl" >"$tmp/head3"
	[ "$(jq .seq "$tmp/head3")" -gt "$(jq .seq "$tmp/head2")" ] && [ "$(kept | jq .seq)" = "$(jq .seq "$tmp/head3")" ]
}
# Each is sent a head when it is its turn, and on a busy machine something may have been logged between the two: then again.
for _ in {1..30}; do
	if wait_for 2 same; then
		conf 0
		muxctl config reload || fail "no reload"
		same && break # nothing was on its way to one of them alone
		conf 0 "$tmp/witnesses"
		muxctl config reload || fail "no reload"
	fi
	round 2000 # a head for both; the next would come in a minute
done
same || fail "the witnesses have no head in common: $(kept), $(cat "$tmp/head3")"
# A terminal that is long enough for keyframes.
script -qec "$MUXCTL --state $state exec -t $agent -- seq 1 150000" /dev/null >"$tmp/out" 2>&1 || fail "no terminal: $(tail -n 3 "$tmp/out")"
drawn() { grep -aqF '"of":"keyframes"' "$state/record/chain/"*.mchain; }
wait_for 60 drawn || fail "no keyframes"
muxctl exec $agent -n -- sh -c 'seq 1 300000; sleep 600' >/dev/null 2>&1 &
open=$!
opened() { [ -s "$state/record/open/$(basename "$(ls "$state/record/open" | head -n 1)")" ]; }
wait_for 20 opened || fail "no open session"
sleep 1
muxctl shutdown >/dev/null || fail "no shutdown" # the sandbox lives on, and so does its session
wait "$DAEMON" "$open" 2>/dev/null
trap 'end_other; tidy' EXIT
[ -n "$(ls "$state/record/open")" ] || fail "no recording is open"
mkdir "$tmp/base"
cp -a "$state/record/." "$tmp/base/"
cp -a "$state/keys/record" "$tmp/keys"
cp -n "$tmp/keys1/"*.seed "$tmp/keys/" # somebody kept the old seed
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon to end the sandbox with"
stop_daemon
trap 'end_other; tidy' EXIT
export MUXCTL OTHER_URL OTHER_CA
[ -n "${KEEP:-}" ] && cp -a "$tmp/." "$KEEP/"
$python "$(dirname "$0")/tamper.py" "$tmp" "$here/docs/security.md"
