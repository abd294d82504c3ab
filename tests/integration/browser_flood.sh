#!/bin/bash
# 100 MB of output in Chromium, or two minutes of it: the page is not stuck, the daemon's memory stays, a flood without end is ended by a key.
# tier: test, alone, slice FLOOD=15000000, whole CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

webclient/build.sh all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export MUXD_STATE BUILD
# sanitizers make the daemon slow, and its memory is theirs
[[ $BUILD == */san ]] && export FLOOD=${FLOOD:-10000000}
node tests/e2e/browser/flood.mjs || fail "see above"
