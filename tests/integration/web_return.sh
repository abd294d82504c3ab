#!/bin/bash
# A browser's connection where something stands still: keys typed while the record is paused neither cost the connection nor
# get lost; who comes back to a session that ends while the missed output is on its way is sent all of it, then the end,
# and so is who comes back when it has left memory.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 8MiB}
rounds: {keep_max: 3}
record:
  min_free: 1MiB
  rules:
    - {kind: "*", session: "*", rule: full}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=webreturn
(umask 077 && new_token $agent staff terminal,rounds >"$tmp/token")
(umask 077 && PRINCIPAL=stranger new_token $agent staff terminal,rounds,observe >"$tmp/stranger")
MUXCTL=$MUXCTL /usr/bin/python3 tests/integration/web_return.py "$tmp/state" $agent "$tmp/token" "$tmp/muxd.yaml" "$DAEMON" "$tmp/stranger" ||
	fail "see above"
