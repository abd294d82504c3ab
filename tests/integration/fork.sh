#!/bin/bash
# Two histories under one key: whoever owns a host copies its state, goes on with both, and shows each to a witness of its own. Each
# history convinces whoever asks its own witness alone; asked for both, verify names the fork, whichever of the two it is shown.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
mkdir -p "$tmp/mount" && chmod 0777 "$tmp/mount"
trap 'tidy' EXIT
live() { # STATE WITNESS: a daemon on that state whose heads go there, for one round more
	echo "witnesses: [{name: box, kind: file, path: $tmp/mount/$2, interval: 1s}]" >"$tmp/$2.yaml"
	start_daemon "$tmp/$1" --config "$tmp/$2.yaml" || fail "no daemon on $1"
	trap 'stop_daemon; tidy' EXIT
	muxctl exec first -- echo "$1 $2" >/dev/null || fail "a round on $1"
	local seq
	seq=$(muxctl head | jq .seq)
	shown() { [ "$(tail -n 1 "$tmp/mount/$2" 2>/dev/null | jq .seq)" -ge "$1" ]; }
	wait_for 15 shown "$seq" "$2" || fail "$2 was not shown entry $seq: $(tail -n 1 "$tmp/mount/$2")"
	muxctl shutdown --sandboxes >/dev/null
	wait "$DAEMON" 2>/dev/null
	trap 'tidy' EXIT
}
live one common
cp -a "$tmp/one" "$tmp/two"
live one shown-one
live two shown-two

judge() { # STATE WITNESS...
	local state=$tmp/$1 more=()
	shift
	for w in "$@"; do more+=(--witness "$tmp/mount/$w"); done
	"$MUXCTL" --state "$state" verify --all "${more[@]}" --require-witness >"$tmp/verdict" 2>&1
}
for h in one two; do
	judge $h common shown-$h || fail "$h and its own witness: $(cat "$tmp/verdict")"
	grep -q "completeness: complete$" "$tmp/verdict" || fail "$h is not complete with its own witness: $(cat "$tmp/verdict")"
done
ok "each history convinces who asks its own witness alone"
for h in one two; do
	judge $h common shown-one shown-two && fail "the fork passes with both witnesses: $(cat "$tmp/verdict")"
	grep -qE "expected_differs|rolled_back" "$tmp/verdict" || fail "the fork is not named: $(cat "$tmp/verdict")"
done
ok "asked for both witnesses, verify names the fork on either side"
