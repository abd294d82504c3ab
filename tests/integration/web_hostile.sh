#!/bin/bash
# Bad clients of the browser door: other origins, wrong grants, broken messages, clients that do not read or do not stop, a
# thousand connections at once. Each gets a code and a sentence, the daemon does not grow, and a neighbour types on.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 16MiB}
Y
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=16
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=webhostile
(umask 077 && new_token $agent staff terminal,observe,drive >"$tmp/token")
BUILD=$BUILD /usr/bin/python3 tests/integration/web_hostile.py "$(ready https)" $agent "$tmp/token" "$(ready pids.net)" || fail "see above"
