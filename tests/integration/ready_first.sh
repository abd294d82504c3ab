#!/bin/bash
# Ready is ready: the first call after ready.json succeeds, and a call while the recorder or net comes again waits for it.
# STARTS=n: so many starts (50 for the proof); KILLS=n: so many kills of each.
# tier: test, san, slice STARTS=3 KILLS=3, whole STARTS=50 KILLS=50
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
trap 'stop_daemon; tidy' EXIT
agent=first
begin() { start_daemon "$tmp/state" || fail "no daemon"; }
# Each call by its own way in; what it prints goes to $tmp/out.
by_https() { api "$token" POST /v1/agents/$agent/rounds '{"argv":["echo","here"]}' | tee "$tmp/out" | jq -e '.exit.code == 0' >/dev/null; }
by_ssh() { sshc "$token" $agent echo here </dev/null >"$tmp/out" 2>&1; }
by_hub() { muxctl exec $agent -- echo here >"$tmp/out" 2>&1; }
by_admin() { muxctl grant create --agent $agent --principal t --kind agent --scopes rounds --task t --reason "the first call" >"$tmp/out" 2>&1; }
by_list() { muxctl session list --all --agent $agent >"$tmp/out" 2>&1; }
by_resume() { muxctl sandbox resume $agent >"$tmp/out" 2>&1; }
ways=(by_https by_ssh by_hub by_admin by_list by_resume)
# Before the first ready, too: admin.sock is there, and a grant is given as soon as there can be one.
early() {
	MUXD_STATE=$tmp/state
	mkdir -p "$MUXD_STATE" && chmod 0711 "$MUXD_STATE"
	wait_for 20 muxctl status -o json || fail "no admin.sock"
	by_admin && echo given >"$tmp/early"
}
early &
asks=$!
begin
wait $asks
[ -e "$tmp/early" ] && ok "a grant that was asked for during the start is given after it" || fail "before the first ready: $(cat "$tmp/out")"
token=$(new_token $agent staff terminal,rounds,lifecycle)
by_https || fail "no round: $(cat "$tmp/out")"
n=${STARTS:-6}
for i in $(seq "$n"); do
	way=${ways[$((i % ${#ways[@]}))]}
	# Now in order, now not: what is left behind differs.
	if [ $((i % 2)) = 0 ]; then kill -9 "$(ready pids.recorder)" "$(ready pids.net)" "$DAEMON"; else kill -TERM "$DAEMON"; fi 2>/dev/null
	wait "$DAEMON" 2>/dev/null
	begin
	$way || fail "start $i, $way: $(cat "$tmp/out")"
done
ok "after each of $n starts the first call succeeded"
for i in $(seq "${KILLS:-6}"); do
	for part in recorder net; do
		way=${ways[$((i % ${#ways[@]}))]}
		pid=$(ready "pids.$part")
		kill -9 "$pid"
		$way || fail "$part killed, $way: $(cat "$tmp/out")"
		for _ in 1 2 3 4 5 6 7 8; do # all through its start
			by_https || fail "$part killed: $(cat "$tmp/out")"
		done
		wait_for 10 sh -c "[ \"\$(jq -r .pids.$part '$MUXD_STATE/ready.json')\" != $pid ]" || fail "$part does not come again"
		$way || fail "$part came again, $way: $(cat "$tmp/out")"
	done
done
ok "calls waited for a recorder and a net that were killed"
# Frozen for longer than the record may be silent: it waits, and is answered when the recorder goes on.
pid=$(ready pids.recorder)
kill -STOP "$pid"
sleep 6
(sleep 2; kill -CONT "$pid") &
by_https || fail "the recorder stood still: $(cat "$tmp/out")"
wait $!
ok "and for one that stood still"
