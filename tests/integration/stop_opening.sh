#!/bin/bash
# The daemon ends while a program is being opened in a sandbox that does not answer: nothing falls over, who waits hears why,
# and the next daemon goes on with the sandbox.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
agent=stop-opening-$$
start_daemon "$tmp/state" || fail "no daemon"
end() {
	[ -z "${muxlet:-}" ] || kill -CONT "$muxlet" 2>/dev/null
	kill -0 "$DAEMON" 2>/dev/null || start_daemon "$tmp/state" # only one who is there can end the sandbox
	stop_daemon
	tidy
}
trap end EXIT
equal "a sandbox" "here" "$(muxctl exec $agent -- echo here)"
muxlet=$(pgrep -P "$(pgrep -f -- "--hostname $agent ")")
kill -STOP "$muxlet" || fail "no muxlet to stop"
muxctl exec $agent --task story -- true 2>"$tmp/said" &
client=$!
token=$(new_token $agent staff terminal,rounds)
sshc "$token" $agent true </dev/null >/dev/null 2>&1 &
ssh=$!
head -c 8388608 /dev/zero | "$MUXCTL" --state "$MUXD_STATE" exec $agent -- wc -c >"$tmp/long" 2>&1 &
long=$!
opening() { [ "$(muxctl session list --agent $agent -o json | jq '[.sessions[] | select(.state == "opening")] | length')" -ge 3 ]; }
wait_for 20 opening || fail "nothing is being opened: $(muxctl session list --agent $agent -o json)"
worked() { awk '{print $14 + $15}' "/proc/$(ready pids.net)/stat"; }
sleep 1
before=$(worked)
sleep 2
[ $(($(worked) - before)) -lt 50 ] && ok "a long input that waits costs nothing" || fail "net worked for $(($(worked) - before)) ticks in 2 s"
kill -TERM "$DAEMON"
wait "$DAEMON"
equal "the daemon ends well" 0 $?
grep -E 'signal (6|11)|Segmentation' "$tmp/state/daemon.log" && fail "a part fell over" || ok "each part by itself"
wait $client && fail "true has run"
wait $long && fail "wc has run"
wait $ssh && fail "true has run, by SSH"
[ -s "$tmp/said" ] && ok "who waits hears why: $(head -n 1 "$tmp/said")" || fail "nothing was said"
kill -CONT "$muxlet"
start_daemon "$tmp/state" || fail "no daemon again"
equal "the sandbox is the same" "again" "$(muxctl exec $agent -- echo again)"
equal "its muxlet, too" "$muxlet" "$(pgrep -P "$(pgrep -f -- "--hostname $agent ")")"
