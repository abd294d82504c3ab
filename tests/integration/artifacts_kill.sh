#!/bin/bash
# kill -9 of the daemon at random moments of puts (artifacts_kill.py): each artifact is there whole, or not at all, and no
# file is there that no artifact has.
# tier: test, slice KILLS=3, whole KILLS=300
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
muxctl grant create --agent demo --principal d --kind agent --scopes files --task kills --ttl 2h --reason kills -o json |
	jq -j .token >"$tmp/token"
/usr/bin/python3 "$(dirname "$0")/artifacts_kill.py" "$MUXD_STATE" "$tmp/token" "${KILLS:-3}" || fail "kill -9"
