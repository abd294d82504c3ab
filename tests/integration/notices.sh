#!/bin/bash
# What the daemon has to say to who sits at a terminal stays out of the program's screen; a terminal of muxctl comes back by
# itself when the process that holds it is started again.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export MUXD_STATE
new_token notices staff terminal,rounds >"$tmp/token"
python3 "$here/tests/integration/notices.py" "$BUILD" notices "$tmp/token" || fail "see above"
python3 "$here/tests/integration/comeback.py" "$BUILD" notices || fail "see above"
