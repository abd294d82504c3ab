#!/bin/bash
# Two readers of one record: muxctl, and tools/mrec.py, which was written from the documents alone. Work of all kinds is
# recorded, in four parts, with kills of the recorder and of the hub; between the parts recordings are removed by retention while
# others are held by principal and by time, the recorder is killed in the middle of that, the record key is rotated and the
# daemon restarted. Then both read every recording, event by event, and give their verdict. What is honest is whole for both; one
# flipped bit is none for either. RECORDINGS=10000 for the long form, FLIPS, SEED. The story is told in second_reader.py.
# tier: test, slice RECORDINGS=60, whole RECORDINGS=10000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
conf() {
	cat >"$tmp/muxd.yaml" <<Y
record:
  segment_size: 8MiB
  retain: $1
  retain_wait: 0
  rules:
    - {kind: agent, session: round, rule: truncated, head: 300, tail: 200}
    - {kind: staff, session: round, rule: full}
    - {kind: staff, session: terminal, rule: truncated, head: 4KiB, tail: 1KiB}
    - {kind: staff, session: exec, rule: metadata}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
}
conf 0
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export MUXD_STATE MUXCTL
{
	PRINCIPAL=machine new_token readers agent rounds,files 600m
	PRINCIPAL=person new_token readers staff terminal,rounds,lifecycle,observe,drive,files 600m
} >"$tmp/tokens"
export TOKENS=$tmp/tokens
python=/usr/bin/python3
run() { $python "$(dirname "$0")/second_reader.py" "$@"; }
count=${RECORDINGS:-120}
here_now() { find "$tmp/state/record/sealed" -name '*.mrec' | wc -l; }
fewer() { [ "$(here_now)" -lt "$1" ]; }
now() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
work() { run work $((count / 4)) || fail "work: $(tail -n 5 "$MUXD_STATE/daemon.log")"; }
# What nobody holds goes, the recorder killed meanwhile.
removed() {
	local there
	sleep 1.1
	there=$(here_now)
	conf 1s
	muxctl config reload || fail "no reload"
	wait_for 20 fewer "$there" || fail "retention removed nothing: $(muxctl retention show)"
	kill -KILL "$(ready pids.recorder)"
	wait_for 20 muxctl head >/dev/null || fail "the recorder is not back"
	sleep 1
	conf 0
	muxctl config reload || fail "no reload"
}
again() {
	stop_daemon
	start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon after a restart"
}
muxctl hold add --reason "the readers' case" --principal person >/dev/null || fail "no hold"
work
removed
muxctl key rotate --record >/dev/null || fail "no rotation"
from=$(now)
work
muxctl hold add --reason "an afternoon" --from "$from" --until "$(now)" >/dev/null || fail "no hold"
again
work
removed
again
muxctl key rotate --record >/dev/null || fail "no rotation"
work
sealed() { [ -z "$(ls "$tmp/state/record/open")" ]; }
wait_for 60 sealed || fail "not sealed: $(ls "$tmp/state/record/open")"
sleep 0.3
muxctl head >"$tmp/head" || fail "no head"
stop_daemon
trap tidy EXIT
run compare "$tmp/state" "$tmp/head" || fail "the readers do not agree"
run example "$tmp" || fail "the worked example"
run flips "$tmp/state" "$tmp" "${FLIPS:-12}" || fail "a flipped bit"
