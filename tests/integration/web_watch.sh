#!/bin/bash
# Those who watch a flood: each is shown something all the time, no hole goes unsaid, everybody sees the end. Of one that
# nobody can draw as fast as it comes they are shown the current screen.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=webwatch
token=$(new_token $agent staff terminal,observe)
(umask 077 && printf '%s' "$token" >"$tmp/token")
said=$(/usr/bin/python3 tests/integration/web_watch.py "$(ready https)" "$MUXD_STATE/keys/tls.crt" $agent "$tmp/token") || fail "watching"
equal "ten watchers, one who reads nothing, a driver who gets it all" fine "${said%% *}"
