#!/bin/bash
# What an auditor is told is true, and stops nobody: open sessions and removals are states of their own, a file inside a record
# is compared with that record's log, what was changed is not exported or played in silence, and the log's damage is named.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

# flip FILE: another byte in its middle, whatever stands there
flip() {
	local at=$(($(stat -c %s "$1") / 2)) byte
	byte=$(od -An -tu1 -j $at -N 1 "$1" | tr -d ' ')
	printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}

chmod 0711 "$tmp"
conf() { printf 'record: {retain: %s, retain_wait: 0}\n' "$1" >"$tmp/muxd.yaml"; }
conf 0
state=$tmp/state agent=judged
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
newest() { muxctl session list --all --agent $agent -n 1 -o json | jq -r '.sessions[0].id'; }
file() { find "$state/record/sealed" -name "$1.mrec"; }
there() { [ -n "$(file "$1")" ]; }
gone() { ! there "$1"; }
round() {
	muxctl exec $agent -n -- "$@" >/dev/null || fail "no round"
	last=$(newest)
	wait_for 20 there "$last" || fail "not sealed: $last"
}
verified() { muxctl verify -o json "$@" >"$tmp/said"; }

# A live host: somebody is at work, and a nightly check is green.
round echo one
one=$last
muxctl exec $agent -n -- sleep 1000 >/dev/null 2>&1 &
sleeper=$!
opened() { [ -n "$(ls "$state/record/open")" ]; }
wait_for 20 opened || fail "no open session"
open=$(basename "$(ls "$state/record/open")" .mrec)
muxctl head >"$tmp/head" || fail "no head"
verified --all --expect-head "$tmp/head" --require-witness
equal "with a session open verify --all is green" 0 $?
equal "and counts it" "1 complete" "$(jq -r '"\(.summary.open) \(.completeness)"' "$tmp/said")"
verified "$open"
equal "asked for the open one, it says so with a status of its own" 69 $?
verified "$one"
equal "a sealed one" 0 $?
equal "rests on the host's own key, and on no head from outside" "host as_far_as_known" "$(jq -r '"\(.keys[0].origin) \(.completeness)"' "$tmp/said")"
muxctl verify --all | grep -q "no outside head given: whoever owns the host could have rewritten this" && ok "in words" || fail "$(muxctl verify --all)"

# By its path: inside a record its log is asked, elsewhere the file stands alone.
verified "$(file "$one")"
equal "a file of the record, by its path" "0 true" "$? $(jq -r .log "$tmp/said")"
cp "$(file "$one")" "$tmp/$one.mrec"
verified "$tmp/$one.mrec"
equal "a copy elsewhere: the file alone" "0 false" "$? $(jq -r .log "$tmp/said")"

# Removals: told, green, and a failure for who asks.
sleep 1.1
conf 1s
muxctl config reload || fail "no reload"
wait_for 20 gone "$one" || fail "retention removed nothing"
conf 0
muxctl config reload || fail "no reload"
muxctl head >"$tmp/head" || fail "no head"
verified --all --expect-head "$tmp/head"
equal "with removals" "0 but_for_removals" "$? $(jq -r .completeness "$tmp/said")"
verified --all --no-removals
equal "--no-removals" 68 $?
verified --all --require-witness --no-removals
equal "--require-witness comes first" 67 $?

# Changed bytes are not exported or played as if they were true.
round sh -c 'seq 1 5000'
two=$last
path=$(file "$two")
cp "$path" "$tmp/$two.mrec"
flip "$path"
for how in "export --format text $two" "export --format asciicast-v2 $path" "replay --instant $two"; do
	# shellcheck disable=SC2086
	muxctl $how >"$tmp/out" 2>"$tmp/err"
	equal "a changed recording: $how" "74 0" "$? $(stat -c %s "$tmp/out")"
	grep -q "not what was recorded" "$tmp/err" || fail "not said why: $(cat "$tmp/err")"
done
cp "$tmp/$two.mrec" "$path"
printf 'xyzzy' | dd of="$path" bs=1 seek=$(($(stat -c %s "$path") - 40)) conv=notrunc status=none
muxctl export --format json "$two" >/dev/null 2>&1
equal "a changed signature" 74 $?
muxctl export --unverified --format json "$two" >"$tmp/out" 2>"$tmp/err"
grep -q "warning: this is not what was recorded" "$tmp/err" && [ -s "$tmp/out" ] && ok "--unverified shows it, with a warning" || fail "$(cat "$tmp/err")"
verified "$path"
equal "verify by its path" 74 $?
cp "$tmp/$two.mrec" "$path"
muxctl export --format text "$two" | grep -q 4999 && ok "as it was recorded it is exported" || fail "no export"

# Odd things in the record: each is one finding, and all others are still told.
day=$(dirname "$path")
mkfifo "$day/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11.mrec" "$state/record/open/x.mrec"
mkdir "$day/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c12.mrec"
ln -s /dev/zero "$day/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c13.mrec"
truncate -s 1T "$day/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c14.mrec"
rm "$path"
timeout 20 "$MUXCTL" --state "$state" verify --all -o json >"$tmp/said"
equal "a FIFO, a directory, a link to a device, a sparse terabyte" 74 $?
equal "each is one finding" "4 1" "$(jq -r '[.findings[].code] | "\(map(select(. == "wrong_kind")) | length) \(map(select(. == "header_unreadable")) | length)"' "$tmp/said")"
jq -e --arg id "$two" '.findings[] | select(.code == "recording_missing" and .session == $id)' "$tmp/said" >/dev/null &&
	ok "and the recording that is gone is told all the same" || fail "$(cat "$tmp/said")"
timeout 20 "$MUXCTL" --state "$state" export --format text "$day/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11.mrec" >/dev/null 2>&1
equal "export of a FIFO does not wait" 65 $?
rm -rf "$day/01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c1"* "$state/record/open/x.mrec"
cp "$tmp/$two.mrec" "$path"
kill "$sleeper" 2>/dev/null
wait "$sleeper" 2>/dev/null
stop_daemon
trap tidy EXIT

# The log without a daemon.
muxctl audit -n 1000 -o json >"$tmp/whole" || fail "no audit log offline"
log=$state/record/chain/00000001.mchain
cp "$log" "$tmp/log"
flip "$log"
muxctl audit -n 1000 -o json >"$tmp/out" 2>"$tmp/err"
equal "audit on a damaged log" 74 $?
grep -q "the log is damaged: .*00000001.mchain: byte" "$tmp/err" && ok "names the damage" || fail "$(cat "$tmp/err")"
[ "$(wc -l <"$tmp/out")" -gt $(($(wc -l <"$tmp/whole") / 2)) ] && ok "and tells the rest" || fail "$(wc -l "$tmp/out" "$tmp/whole")"
cp "$tmp/log" "$log"
mkfifo "$state/record/chain/00000002.mchain"
timeout 20 "$MUXCTL" --state "$state" audit -n 1000 >"$tmp/out" 2>"$tmp/err"
equal "audit with a FIFO in the log" 74 $?
rm "$state/record/chain/00000002.mchain"
muxctl audit -n 1000 >/dev/null && ok "and whole again" || fail "audit"
