#!/bin/bash
# kill -9 of the daemon's parts under a client: commands, output, a terminal and starts go on as if nothing had been.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export PYTHONDONTWRITEBYTECODE=1 MUXD_STATE TOKEN_FILE=$tmp/token
(umask 077 && new_token killed agent terminal,rounds,files >"$TOKEN_FILE")
/usr/bin/python3 -W error "$here/tests/integration/clients_kill.py" || fail "see above"
