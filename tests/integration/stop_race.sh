#!/bin/bash
# Rounds and stops of one sandbox at the same time: what a round was answered to have written is there for the next one,
# wherever in a stop it came. Told in stop_race.py. STOPS=n (default 20).
# tier: test, san STOPS=4, slice STOPS=8, whole STOPS=20
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
agent=stoprace
token=$(new_token $agent service rounds,lifecycle 15m)
(umask 077 && printf '%s' "$token" >"$tmp/token")
/usr/bin/python3 "$(dirname "$0")/stop_race.py" "$(ready https)" "$MUXD_STATE/keys/tls.crt" $agent "$tmp/token" || fail "see above"
muxctl sandbox terminate $agent --how wipe --reason story >/dev/null
