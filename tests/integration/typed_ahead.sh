#!/bin/bash
# Passwords that are typed ahead, in one write with their command: masked in the record where the program switches the echo
# off, and commands never are. What cannot be known stands in docs/security.md, and is tried here as it stands there.
# WAIT: record.typed_ahead_wait of the first part; "none": the key is left out. CASES: all, or a part of a case's name.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
agent=ahead$$
chmod 0711 "$tmp"
configure() { echo "record: {$1 rules: [{kind: \"*\", session: \"*\", rule: full}]}" >"$tmp/muxd.yaml"; }
# So long that no case waits for its end: each goes on by what the terminal does, however busy the machine is.
case ${WAIT:=1m} in none) configure "" ;; *) configure "typed_ahead_wait: $WAIT," ;; esac
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" --end-sandboxes || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
token=$(new_token $agent staff terminal,rounds,observe)
tried() { python3 "$(dirname "$0")/typed_ahead.py" "$MUXCTL" "$MUXD_STATE" "$(ssh_port)" "$token" $agent "$1" || fail "$2"; }
tried known "what is typed ahead of a password prompt"
ok "no password typed ahead is in the record, and every command is"
[ "$WAIT" = none ] || configure "typed_ahead_wait: 20ms,"
muxctl config reload >/dev/null || fail "the configuration is not read again"
tried unknown "what nobody can know"
ok "what looks like a line editor's prompt, or comes too early, is in clear, as documented"
