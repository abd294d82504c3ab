#!/bin/bash
# The disk of control.db fills up: leases that are over wait and /healthz says why, in one line of the log and not in
# hundreds; a start says that the disk is full, and not to put the database away; one that has room for reading alone
# goes on by itself once there is room. As root, on a file system of its own.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

[ "$(id -u)" -eq 0 ] || { echo "  not run: needs root"; exit 0; }
chmod 0711 "$tmp"
trap 'stop_daemon; umount "$tmp/state/control" 2>/dev/null; tidy' EXIT
printf 'pool: {size: 2}\n' >"$tmp/muxd.yaml"
begin() { start_daemon "$tmp/state" --config "$tmp/muxd.yaml"; }
begin || fail "no daemon"
stop_daemon
mount -t tmpfs -o "size=12m,mode=0700,$(stat -c 'uid=%u,gid=%g' "$tmp/state/control")" muxd-test "$tmp/state/control" 2>"$tmp/err" || {
	echo "  no mounts here ($(cat "$tmp/err")): left out"
	exit 0
}
filler=$tmp/state/control/filler
take_all() { dd if=/dev/zero of="$filler" bs=4k status=none 2>/dev/null; }
give_back() { rm "$filler"; }
health() { curl -sS -m 20 -o "$tmp/health" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz"; }
healthy() { [ "$(health)" = 200 ] && [ "$(jq -r .control "$tmp/health")" = ok ]; }
says() { [ "$(health)" = 503 ] && [ "$(jq -r '"\(.status) \(.control)"' "$tmp/health")" = "control_unavailable $1" ]; }
lease() { api "$svc" POST /sandboxes/leases "{\"userId\":\"alice\",\"workflowId\":\"w\",\"requestId\":\"$1\",\"ttlSeconds\":$2}" | jq -r .leaseId; }
is() { [ "$(api "$svc" GET "/sandboxes/leases/$1" | jq -r .state)" = "$2" ]; }
unstored() { grep -q 'the end of a lease could not be stored' "$MUXD_STATE/daemon.log"; }
lines() { grep -c "$1" "$MUXD_STATE/daemon.log"; }

begin || fail "no daemon on the small file system"
svc=$(PRINCIPAL=planner new_token '*' service lifecycle,rounds 30m)
api "$svc" POST /sandboxes/workflows '{"name":"w","owner":"alice","version":1,"steps":[{"shell":"true"}]}' >/dev/null
a=$(lease a 3) b=$(lease b 3)
is "$a" ACTIVE && is "$b" ACTIVE || fail "no leases"
take_all
wait_for 15 says disk_full && ok "full: /healthz is 503 and says why" || fail "/healthz: $(cat "$tmp/health")"
wait_for 20 unstored || fail "the leases do not come to their end: $(tail -n 3 "$MUXD_STATE/daemon.log")"
is "$a" ACTIVE || fail "the lease ended, and nothing stores that"
give_back
for id in $a $b; do wait_for 30 is "$id" EXPIRED || fail "there is room, and the lease does not end: $(api "$svc" GET "/sandboxes/leases/$id")"; done
wait_for 10 healthy && ok "there is room: the leases end, and /healthz is 200" || fail "/healthz: $(cat "$tmp/health")"
equal "said once, and not for each try" "1 1" "$(lines 'the end of a lease could not be stored') $(lines 'cannot be stored: control.db')"

c=$(lease c 3)
is "$c" ACTIVE || fail "no third lease"
expires=$(api "$svc" GET "/sandboxes/leases/$c" | jq -r .expiresAt)
kill -TERM "$DAEMON" # its sandbox stays
wait "$DAEMON"
take_all
begin >"$tmp/out" 2>&1 && fail "it started without room for control.db"
grep -q 'its disk is full' "$MUXD_STATE/daemon.log" && ! grep -qi 'put it aside' "$MUXD_STATE/daemon.log" &&
	ok "a start without room says so, and does not send the database away" || fail "it says: $(tail -n 5 "$MUXD_STATE/daemon.log")"
over() { [[ $(date -u +%FT%T.%3NZ) > $expires ]]; }
wait_for 10 over || fail "its time is not over: $expires"
truncate -s -45056 "$filler"
begin || fail "no daemon with some room: $(tail -n 5 "$MUXD_STATE/daemon.log")"
unserved() { [ "$(api "$svc" GET "/sandboxes/leases/$c" | jq -r .error.code)" = unavailable ]; }
wait_for 10 unserved || fail "the lease that was over meanwhile: $(api "$svc" GET "/sandboxes/leases/$c")"
[ "$(health)" = 503 ] && ok "one with room for reading alone serves no leases, and /healthz says so" || fail "/healthz: $(cat "$tmp/health")"
give_back
wait_for 40 is "$c" EXPIRED && ok "there is room: they are served, without another start" || fail "not served: $(api "$svc" GET "/sandboxes/leases/$c")"
