#!/bin/bash
# A start that is asked again with the same exec_id runs its command once, whatever is killed in between, or says that it is
# not known whether it ran: each command adds a byte to a file of its own, and in the end each file has one. Told in
# exec_once.py; KILLS=n, SEED=n.
# tier: test, slice KILLS=4, whole KILLS=1000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
printf 'rounds: {keep: 2h}\nlog: {level: warn}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
(umask 077 && new_token once agent rounds,files 10h >"$tmp/token")
/usr/bin/python3 "$(dirname "$0")/exec_once.py" "$MUXD_STATE" "$tmp/token" "${KILLS:-10}" || fail "see above"
