#!/bin/bash
# Terminals and execs: the audit log has bytes and digests of what they showed (event session.streams), those of the recording, also
# where the recorder was killed in between; of what was typed it has the count alone.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
start_daemon "$tmp/state" --end-sandboxes || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=digests
token=$(new_token $agent staff terminal,rounds)
newest() { muxctl session list --all --agent $agent --limit 1 -o json | jq -r '.sessions[0].id'; }
told() {
	muxctl audit -n 1000 --event session.streams -o json | jq -c --arg id "$1" '.. | objects | select(.detail.session? == $id) | .detail' |
		sort -u >"$tmp/told" && [ -s "$tmp/told" ]
}
# check WHAT FILE-OF-STDOUT FILE-OF-STDERR BYTES-TYPED: of the newest session
check() {
	id=$(newest)
	wait_for 20 told "$id" || fail "$1: nothing is told of $id"
	equal "$1: stdout" "$(wc -c <"$2") $(sha256sum <"$2" | cut -d' ' -f1)" "$(jq -r '"\(.stdout_bytes) \(.stdout_sha256)"' "$tmp/told")"
	equal "$1: stderr" "$(wc -c <"$3") $(sha256sum <"$3" | cut -d' ' -f1)" "$(jq -r '"\(.stderr_bytes) \(.stderr_sha256)"' "$tmp/told")"
	equal "$1: stdin" "$4 null" "$(jq -r '"\(.stdin_bytes) \(.stdin_sha256)"' "$tmp/told")"
	muxctl audit -n 1000 --event session.end -o json | grep -F "$id" | grep -q '_sha256":""' && fail "$1: an empty digest is told"
	return 0
}
printf 'typed' | sshc "$token" $agent 'cat; seq 100000; seq 77 >&2' >"$tmp/out" 2>"$tmp/err" || fail "no exec"
check "exec" "$tmp/out" "$tmp/err" 5
: >"$tmp/none"
SSH_OPTS=-tt sshc "$token" $agent 'seq 3000' </dev/null >"$tmp/out" 2>/dev/null
check "terminal" "$tmp/out" "$tmp/none" 0
sealed() { muxctl verify "$id"; }
wait_for 20 sealed || fail "the recording is not sealed"
muxctl export "$id" --format raw --stream output >"$tmp/raw" || fail "no export"
equal "the recording has the same" "$(sha256sum <"$tmp/raw" | cut -d' ' -f1)" "$(jq -r .stdout_sha256 "$tmp/told")"
mkfifo "$tmp/in"
sshc "$token" $agent 'head -c 100000 /dev/zero | tr "\0" x; cat >/dev/null; echo end' <"$tmp/in" >"$tmp/out" 2>/dev/null &
exec 7>"$tmp/in"
full() { [ "$(wc -c <"$tmp/out")" = 100000 ]; }
wait_for 20 full || fail "no output"
kill -9 "$(ready pids.recorder)"
echo over >&7
exec 7>&-
wait $!
equal "with the recorder killed in between" 100004 "$(wc -c <"$tmp/out")"
check "a kill in between" "$tmp/out" "$tmp/none" 5
ok "what was shown is in the audit log"
