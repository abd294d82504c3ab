#!/bin/bash
# A terminal in Chromium: keys, paste, sizes, wide characters, mouse, alternate screen, search, an observer; the other pages.
# tier: test, whole CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

webclient/build.sh all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export MUXD_STATE BUILD
node tests/e2e/browser/terminal.mjs || fail "see above"
