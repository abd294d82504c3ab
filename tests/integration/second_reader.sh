#!/bin/bash
# Two readers of one record: muxctl, and tools/mrec.py, which was written from the documents alone. Work of all kinds is
# recorded, with kills of the recorder and of the hub and a restart among it; then both read every recording, event by
# event, and give their verdict. What is honest is whole for both; one flipped bit is none for either.
# RECORDINGS=10000 for the long form, FLIPS, SEED. The story is told in second_reader.py.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<'Y'
record:
  segment_size: 8MiB
  rules:
    - {kind: agent, session: round, rule: truncated, head: 300, tail: 200}
    - {kind: staff, session: round, rule: full}
    - {kind: staff, session: terminal, rule: truncated, head: 4KiB, tail: 1KiB}
    - {kind: staff, session: exec, rule: metadata}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export MUXD_STATE MUXCTL
{
	new_token readers agent rounds,files 60m
	new_token readers staff terminal,rounds,lifecycle,observe,drive,files 60m
} >"$tmp/tokens"
export TOKENS=$tmp/tokens
python=/usr/bin/python3
run() { $python "$(dirname "$0")/second_reader.py" "$@"; }
count=${RECORDINGS:-120}
run work $((count / 2)) || fail "work: $(tail -n 5 "$MUXD_STATE/daemon.log")"
stop_daemon
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon after a restart"
run work $((count / 2)) || fail "work: $(tail -n 5 "$MUXD_STATE/daemon.log")"
sealed() { [ -z "$(ls "$tmp/state/record/open")" ]; }
wait_for 30 sealed || fail "not sealed: $(ls "$tmp/state/record/open")"
sleep 0.3
muxctl head >"$tmp/head" || fail "no head"
stop_daemon
trap tidy EXIT
run compare "$tmp/state" "$tmp/head" || fail "the readers do not agree"
run example "$tmp" || fail "the worked example"
run flips "$tmp/state" "$tmp" "${FLIPS:-12}" || fail "a flipped bit"
