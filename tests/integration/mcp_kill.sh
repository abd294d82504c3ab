#!/bin/bash
# kill -9 of the daemon's parts while clients of both eras call tools, tasks and a server inside: a call that is asked again runs
# nothing twice, tasks are found, and the record has every answer with its digest. Told in mcp_kill.py; KILLS=n, SEED=n.
# tier: test, slice KILLS=4, whole KILLS=1000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
mkdir -m 0711 "$tmp/state"
printf 'rounds: {keep: 2h}\nartifacts: {task_max: 100000}\nlog: {level: warn}\n' >"$tmp/state/muxd.yaml"
BUILD=$BUILD /usr/bin/python3 "$(dirname "$0")/mcp_kill.py" "$tmp/state" "${KILLS:-10}" && exit 0
tail -n 30 "$tmp/state/daemon.log" >&2
fail "see above"
