#!/bin/bash
# Somebody with a grant tries to hurt the SSH door: packets that hold nothing, input past the window, answers never read,
# sessions never closed, passwords without waiting. Nothing of it hangs the daemon or fills it, and others work beside it.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
ssh: {max_auth_tries: 4, max_connections: 40}
journal: {dir: $tmp/journal, size: 16MiB}
Y
# The sanitizer keeps freed memory back to catch late uses: little of it here, where growth is what is measured.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=16
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=sshhostile
token=$(new_token $agent staff terminal)
net=$(ready pids.net)
play() { printf '%s' "$token" | /usr/bin/python3 tests/integration/ssh_hostile.py "$(ssh_port)" $agent "$net" "$1" 2>"$tmp/err"; }
# grew TEXT: how many kB, the last word of it
grew() { echo "${1##* }"; }
bound=20000
[[ $BUILD == */san ]] && bound=100000 # kB; its own book-keeping
others() {
	local start took
	start=$(date +%s%N)
	equal "others work beside it" "fine" "$(sshc "$token" $agent 'echo fine' </dev/null)"
	took=$((($(date +%s%N) - start) / 1000000))
	[ $took -lt 20000 ] || fail "which took $took ms"
}
cd "$(dirname "$0")/../.." || exit 1

others
equal "signals go to the program, unknown ones nowhere" "up usr1 -1" "$(play signals)"
[[ $(play tiny_packets) =~ ^(refused|output\ b\'\'$) ]] && ok "packets that hold nothing end the connection" || fail "tiny packets: $(cat "$tmp/err")"
others
out=$(play beyond_window)
[[ $out == "cut off"* ]] && [ "$(grew "$out")" -lt $bound ] && ok "input past the window ends the connection ($out kB)" || fail "window: $out"
others
out=$(play unread_answers)
[ "$(grew "$out")" -lt $bound ] && ok "answers that nobody reads are bounded ($out kB)" || fail "unread: $out"
others
equal "sessions never closed count against the limit" "sessions 10" "$(play never_close)"
equal "passwords without waiting end the connection" "ended True" "$(play impatient)"
refused() { muxctl audit -n 1000 --event auth.fail -o json | jq -e --arg what "$1" --arg o "$2" 'select(.record.detail.what == $what and .record.outcome == $o)' >/dev/null; }
wait_for 10 refused "early try" rate_limited && ok "what they sent in a delay is in the audit" || fail "no event: $(muxctl audit -n 5 --event auth.fail -o json)"
equal "another name than the first gets nothing" "in False" "$(play renamed)"
wait_for 10 refused "login name" unauthenticated && ok "and is in the audit" || fail "no event: $(muxctl audit -n 5 --event auth.fail -o json)"
equal "nor does an answer without a question" "in False" "$(play unasked)"
wait_for 10 refused answer unauthenticated && ok "which is in the audit as well" || fail "no event: $(muxctl audit -n 5 --event auth.fail -o json)"
equal "Kerberos is not asked" "authenticated True" "$(play kerberos)"
others
equal "one address full of silent connections does not close the door" "held 23, others True" "$(play silent)"
out=$(play strangers)
events() { muxctl audit -n 1000 -o json | jq -c 'select(tostring | test("127\\.0\\.0\\.3"))'; }
shut() { events | grep -q "too many failed log-ins"; }
wait_for 10 shut && ok "an address whose log-ins fail is turned away ($out)" || fail "a hundred bad names: $out"
n=$(events | wc -l)
[ "$n" -le 10 ] && ok "and is in the audit $n times, not a hundred" || fail "strangers wrote $n audit events"
others
stop_daemon
grep -E 'Sanitizer|runtime error' "$MUXD_STATE/daemon.log" && fail "the daemon's log has findings"
ok "the daemon ended without findings"
