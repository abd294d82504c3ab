#!/bin/bash
# Where a program really began and which file it is: links, relative paths, PATH, scripts, directories that are gone, names
# that are no text; in answers, in the audit log, in the recording, and after restarts.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
printf 'rounds: {keep_max: 3}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=begun
token=$(new_token $agent staff "rounds,terminal,observe,replay")
python3 "$(dirname "$0")/begun.py" "$MUXCTL" "$MUXD_STATE" "$token" $agent || fail "a place is not told as it was"

# Terminals and execs: the shell that was taken, not what it calls itself.
shell=$(sshc "$token" $agent 'readlink /proc/$$/exe; :')
sshc "$token" $agent 'cd /tmp; exec -a something-else sleep 0.1'
echo 'exit' | sshx "$token" $agent -tt >/dev/null 2>&1
muxctl exec --cwd /tmp $agent -- sleep 0.1
told() {
	muxctl audit -n 1000 --agent $agent -o json | jq -r '.. | objects | select(.event? == "program.begin") | "\(.detail.cwd) \(.detail.program)"' |
		tail -n 4 >"$tmp/told"
	[ "$(cat "$tmp/told")" = "$1" ]
}
sleep_=$(sshc "$token" $agent 'readlink -f $(command -v sleep)')
want="/workspace $shell
/workspace $shell
/tmp $sleep_
/workspace $shell"
wait_for 20 told "$want" || fail "terminals and execs: $(cat "$tmp/told") instead of $want"
ok "a terminal and execs"
