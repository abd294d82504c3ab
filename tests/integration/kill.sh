#!/bin/bash
# kill -9 of hub, recorder or both in mid-flood: nothing shown is lost, programs live on. The story is told in kill.py.
# A daemon of its own, with rule `full`, so that the recording can be compared byte by byte.
# tier: test, san, slice KILLS=2, whole KILLS=200
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
cat >"$tmp/full.yaml" <<'Y'
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
chmod 711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"
MUXD_STATE=$MUXD_STATE MUXCTL=$MUXCTL /usr/bin/python3 "$(dirname "$0")/kill.py"
rc=$?
[ $rc -eq 0 ] || tail -n 30 "$MUXD_STATE/daemon.log" >&2
stop_daemon
exit $rc
