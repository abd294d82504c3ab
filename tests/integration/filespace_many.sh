#!/bin/bash
# shellcheck disable=SC2016
# Many small files in step with the owner's store, in few requests, counted on both sides; then kills in the middle of a push,
# of the daemon and of the store: each file is as one side had it, and the next push sends the rest.
# tier: test, slice MANY=500 KILLS=1, whole MANY=5000 KILLS=10
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/filespace_story.sh
. "$(dirname "$0")/../lib/filespace_story.sh"

MANY=${MANY:-500}
KILLS=${KILLS:-1}
STORE_TIMEOUT=10s
filespace_begin :

# Many small files, in few requests, and counted on both sides.
run demo "mkdir -p many; i=0; while [ \$i -lt $MANY ]; do echo \$i >many/\$i; i=\$((i+1)); done" >/dev/null
wait_for 20 count_is "$MANY" && ok "$MANY small files are in the store, no more and no less" || fail "the store has not $MANY files"
echo "  pushed: $(muxctl audit --event filespace.sync -n 1000 -o json | jq -c ".record.detail | select(.copied >= $MANY) | {copied, bytes, duration_ms}" | tail -1)"

# Kills in the middle of a push: of the daemon, of the store. Whenever, each file is as one side had it.
for k in $(seq "$KILLS"); do
	run demo "i=0; while [ \$i -lt $MANY ]; do echo $k-\$i >many/\$i; i=\$((i+1)); done" >/dev/null
	sync_files demo push >/dev/null 2>&1 &
	sleep "0.0$((k % 10))"
	if [ $((k % 2)) = 1 ]; then
		kill -9 "$DAEMON"
		wait "$DAEMON" 2>/dev/null
		start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not come again"
	else
		store_kill
		store_start
	fi
	sync_files demo push >/dev/null
	equal "kill $k: the store has all of it" 0 "$(store demo get "$(seq 0 $((MANY - 1)) | jq -sc '{paths: map("many/\(.)")}')" | jq -r '.files[].content | @base64d' | grep -v '^$' | grep -vc "^$k-")"
done
record_is_whole
