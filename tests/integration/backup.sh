#!/bin/bash
# A backup of the record while people work, in the way that docs/operations.md has it: whole each time, with what is new, and
# put back in an empty state a daemon goes on with it.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state copy=$tmp/copy
start_daemon "$state" || fail "the daemon does not start"
WORK=()
trap 'touch "$tmp/enough"; wait "${WORK[@]}" 2>/dev/null; stop_daemon; tidy' EXIT
export PATH=$BUILD:$PATH MUXD_STATE
awk '/^# backup.sh/ { on = 1 } /^```$/ { on = 0 } on' "$here/docs/operations.md" >"$tmp/backup.sh"
grep -q mchain "$tmp/backup.sh" || fail "docs/operations.md has no backup"
recordings() { find "$1/record/sealed" -name '*.mrec' 2>/dev/null | wc -l; }
more_than() { [ "$(recordings "$state")" -gt "$1" ]; }
work() { # rounds, until it is enough
	local token
	token=$(new_token busy agent rounds)
	until [ -e "$tmp/enough" ]; do api "$token" POST /v1/agents/busy/rounds '{"command":"seq 5000"}' >/dev/null; done
}

for _ in 1 2 3; do work & WORK+=($!); done
last=0
for i in 1 2 3; do
	wait_for 20 more_than $((last + 15)) || fail "nothing is recorded"
	sh "$tmp/backup.sh" "$state" "$copy" >"$tmp/told" 2>&1 || fail "backup $i: $(cat "$tmp/told")"
	now=$(recordings "$copy")
	[ "$now" -gt "$last" ] && ok "backup $i is whole, with $now recordings" || fail "backup $i has $now recordings, the one before had $last"
	last=$now
done
touch "$tmp/enough"
wait "${WORK[@]}"
stop_daemon

mkdir -p "$tmp/again" && cp -a "$state/keys" "$tmp/again/" && cp -a "$copy/record" "$tmp/again/"
chown -R --reference="$state/record" "$tmp/again/record" && chmod --reference="$state/record" "$tmp/again/record"
start_daemon "$tmp/again" || fail "no daemon goes on with it"
muxctl exec anew -- true || fail "no round"
muxctl verify --all >"$tmp/told" && ok "put back it verifies, and goes on" || fail "put back: $(cat "$tmp/told")"
[ "$(muxctl audit --event round.end -n 1000 -o json | jq -s length)" -ge "$last" ] && ok "with all that was in it" || fail "lists lack what was there"
