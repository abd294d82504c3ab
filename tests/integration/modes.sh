#!/bin/bash
# A tree with every mode, link, attribute, hole and name is the same after every stop and wake, a restore and a fork: by archives and
# by images, whether a stopped workspace is dropped or kept. By default one cycle of each; CYCLES=20 for the whole.
# tier: test, whole CYCLES=20
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
listed() { muxctl exec -n --task story "$1" -- python3 /workspace/modes_tree.py list /workspace/tree; }
# same AGENT WHAT
same() {
	listed "$1" >"$tmp/now" || fail "$2: no listing"
	cmp -s "$tmp/tree" "$tmp/now" && ok "$2" || fail "$2: $(diff "$tmp/tree" "$tmp/now" | cat -v | head -n 20)"
}
# through AGENT HOW: stopped and woken again and again, restored, forked
through() {
	local id
	muxctl exec -n --task story "$1" -- true || fail "no sandbox"
	muxctl put "$1" "$here/tests/lib/modes_tree.py" modes_tree.py >/dev/null || fail "no put"
	muxctl exec -n --task story "$1" -- python3 /workspace/modes_tree.py make /workspace/tree || fail "no tree"
	listed "$1" >"$tmp/tree" || fail "no listing"
	[ "$(wc -l <"$tmp/tree")" -gt 4600 ] || fail "the tree is not whole: $(wc -l <"$tmp/tree")"
	for _ in $(seq "${CYCLES:-1}"); do muxctl sandbox stop "$1" --reason story >/dev/null && listed "$1" >"$tmp/woken" || fail "$2: no stop"; done
	same "$1" "$2: after ${CYCLES:-1} stops and wakes"
	id=$(muxctl sandbox snapshot "$1" -o json | jq -r .snapshot.id)
	muxctl sandbox fork "$1" --snapshot "$id" --as "$1-fork" -w >/dev/null || fail "$2: no fork"
	same "$1-fork" "$2: a fork"
	muxctl exec -n --task story "$1" -- sh -c 'chmod -R u+rwx /workspace/tree; rm -r /workspace/tree' || fail "it cannot be removed"
	muxctl sandbox stop "$1" --reason story >/dev/null
	muxctl sandbox restore "$1" "$id" --reason story >/dev/null || fail "$2: no restore"
	same "$1" "$2: a restore"
}
# with HOW CONFIGURATION
with() {
	printf '%s\n' "$2" >"$tmp/muxd.yaml"
	start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
	through "${1%% *}" "$1 workspace"
	stop_daemon
}
with "dropped" 'lifecycle: {at_rest: drop}'
with "kept" 'lifecycle: {at_rest: keep}'
with "limited" '{sandbox: {workspace_size: 300MB}, lifecycle: {at_rest: drop}}'
