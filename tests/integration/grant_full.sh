#!/bin/bash
# A full disk gives no grant: it would be a door that the record does not know of. As root, on a file system of its own
# that holds the whole state, full to its last byte; then there is room, and grants are given again.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

[ "$(id -u)" -eq 0 ] || { echo "  not run: needs root"; exit 0; }
chmod 0711 "$tmp"
trap 'stop_daemon; umount "$tmp/small" 2>/dev/null; tidy' EXIT
mkdir "$tmp/small"
mount -t tmpfs -o size=48m,mode=0711 muxd-test "$tmp/small" 2>"$tmp/err" || {
	echo "  no mounts here ($(cat "$tmp/err")): left out"
	exit 0
}
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 8MiB}
record: {min_free: 1MiB, segment_size: 4MiB}
Y
start_daemon "$tmp/small" --config "$tmp/muxd.yaml" || fail "no daemon"
create() { muxctl grant create --agent full --kind agent --scopes rounds --task story --principal "$1" --reason "is there room?" -o json; }
create before >"$tmp/out" 2>&1 || fail "no grant where there is room: $(cat "$tmp/out")"
for round in 1 2 3; do
	dd if=/dev/zero of="$tmp/small/filler" bs=64k status=none 2>/dev/null
	sleep 2 # the recorder looks at its disk once a second
	for i in 1 2 3; do
		create "full$i" >"$tmp/out" 2>&1 && fail "a grant was given on a full disk: $(cat "$tmp/out")"
		grep -q disk_full "$tmp/out" || fail "it does not say why: $(cat "$tmp/out")"
	done
	rm "$tmp/small/filler"
	wait_for 10 create "after$round" || fail "no grant when there is room again: $(create x 2>&1)"
done
ok "three times three grants were refused, each with disk_full"
muxctl audit -n 1000 -o json | jq -r 'select(.record.event=="grant.create") | .record.principal' | sort >"$tmp/audit"
grep -q '^full' "$tmp/audit" && fail "one of them is in the audit log as given: $(cat "$tmp/audit")"
ok "and none is in the audit log"
