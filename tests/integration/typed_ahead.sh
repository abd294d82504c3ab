#!/bin/bash
# Passwords typed at a prompt and ahead of it, over readers and ways of typing: masked in the record, and commands are not.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
agent=ahead$$
chmod 0711 "$tmp"
start_daemon "$tmp/state" --end-sandboxes || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
token=$(new_token $agent staff terminal,rounds)
python3 "$(dirname "$0")/typed_ahead.py" "$MUXCTL" "$MUXD_STATE" "$(ssh_port)" "$token" $agent || fail "what is typed ahead"
ok "every command is readable, no secret is"
