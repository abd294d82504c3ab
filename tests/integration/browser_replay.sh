#!/bin/bash
# A session in Chromium after it was: played, sought, stepped through, linked to; one of half an hour and 40 MB at any moment,
# exactly as the terminal showed it; one that still goes on.
# tier: test, whole CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

webclient/build.sh all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
chmod 0711 "$tmp"
cat >"$tmp/story.yaml" <<Y
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
start_daemon "$tmp/state" --config "$tmp/story.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export MUXD_STATE BUILD
node tests/e2e/browser/replay.mjs || fail "see above"
