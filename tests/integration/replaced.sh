#!/bin/bash
# A daemon that is replaced while sessions run, with or without its ring (a pod's is gone with it): from its first moment on verify
# is green, while recordings are open, while they end and are sealed, and then says so with none open.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

ring=/dev/shm/muxd-replaced-$$
end_replaced() {
	[ -z "${DAEMON:-}" ] || stop_daemon
	rm -rf "$ring"
	tidy
}
trap end_replaced EXIT
chmod 711 "$tmp"
mkdir -m 711 "$ring"
echo "journal: {dir: $ring/journal, size: 16MiB}" >"$tmp/muxd.yaml"

# replaced HOW KEEP: ended by HOW (TERM, KILL) with four rounds under way, its ring kept or not, and started again
replaced() {
	local i calls=0 clients=() state=$tmp/$1-$2
	rm -rf "$ring/journal"
	start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon"
	for i in 1 2 3 4; do
		"$MUXCTL" --state "$state" exec -n "box$i" -- sh -c "echo begun; while [ ! -e /workspace/go ]; do sleep 0.05; done; echo over" >"$tmp/out.$i" 2>&1 &
		clients+=($!)
	done
	for i in 1 2 3 4; do wait_for 30 grep -q begun "$tmp/out.$i" || fail "box$i does not begin: $(cat "$tmp/out.$i")"; done
	if [ "$1" = KILL ]; then
		kill -KILL $(pgrep -P "$DAEMON") "$DAEMON"
	else
		kill -TERM "$DAEMON"
	fi
	wait "$DAEMON" 2>/dev/null
	[ "$2" = kept ] || rm -rf "$ring/journal"
	wait "${clients[@]}"
	start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no second daemon"
	green() {
		calls=$((calls + 1))
		muxctl verify --all >"$tmp/verify" 2>&1 || fail "$1, ring $2, call $calls: verify says $?: $(cat "$tmp/verify")"
	}
	green "$@"
	grep -q '^recordings: .* 4 open' "$tmp/verify" || fail "no recording is open: $(cat "$tmp/verify")"
	for i in 1 2 3 4; do
		muxctl exec -n "box$i" -- touch /workspace/go >/dev/null || fail "box$i cannot be reached"
		green "$@"
	done
	until grep -q '^recordings: .* 0 open' "$tmp/verify"; do
		green "$@"
		[ $calls -lt 3000 ] || fail "they stay open: $(cat "$tmp/verify")"
	done
	ok "after $1, ring $2: $calls times verified, green each time"
	muxctl shutdown --sandboxes >/dev/null 2>&1
	wait "$DAEMON" 2>/dev/null
	DAEMON=
}
replaced TERM kept
replaced TERM lost
replaced KILL lost
