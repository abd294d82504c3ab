#!/bin/bash
# A start that is asked again with the same exec_id runs its command exactly once, whatever of the daemon is killed in between:
# each command adds a byte to a file of its own, and in the end each file has one. Told in exec_once.py; KILLS=n, SEED=n.
# tier: test, slice KILLS=4, whole KILLS=1000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
mkdir -m 0711 "$tmp/state"
printf 'rounds: {keep: 2h}\nlog: {level: warn}\n' >"$tmp/state/muxd.yaml"
BUILD=$BUILD /usr/bin/python3 "$(dirname "$0")/exec_once.py" "$tmp/state" "${KILLS:-10}" && exit 0
tail -n 30 "$tmp/state/daemon.log" >&2
fail "see above"
