#!/bin/bash
# A sandbox full of sessions that hang is ended whatever hangs: stop, terminate and destroy go through while its limit of sessions is
# reached, its muxlet stands still and none of them has said its end; and the counts come back.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 8MiB}
metrics: {open_on_loopback: true}
sessions: {max: 12, max_per_agent: 10}
lifecycle: {snapshot_timeout: 2s}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
open_now() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/metrics" | awk '/^muxd_sessions[{]/{n += $2} END {print n + 0}'; }
none_open() { [ "$(open_now)" = 0 ]; }
# Rounds until one is refused; prints how many run.
fill() {
	local n=0
	while [ $n -lt 100 ] && api "$1" POST "/v1/agents/$2/rounds" '{"argv":["sleep","1000"],"wait_ms":0}' | grep -q '"running"'; do n=$((n + 1)); done
	echo $n
}
muxlet_of() { jq .init.pid "$MUXD_STATE/sandboxes/$1/sandbox.json"; }

for how in stop terminate destroy; do
	agent=full-$how
	hostile=$(PRINCIPAL=$agent.1 new_token $agent agent rounds)
	staff=$(new_token $agent staff terminal,lifecycle)
	# Of sessions.max (12) one principal has 9.
	equal "$how: one principal's share" 9 "$(fill "$hostile" $agent)"
	other=$(PRINCIPAL=$agent.2 new_token $agent agent rounds)
	equal "$how: the sandbox is full with another's" 1 "$(fill "$other" $agent)"
	equal "$how: staff gets in" in "$(sshc "$staff" $agent 'echo in' </dev/null)"
	kill -STOP "$(muxlet_of $agent)" || fail "its muxlet was not found"
	start=$SECONDS
	case $how in
	destroy) muxctl sandbox terminate $agent --reason story --how wipe >"$tmp/out" 2>&1 ;;
	*) muxctl sandbox $how $agent --reason story >"$tmp/out" 2>&1 ;;
	esac || fail "$how was refused: $(cat "$tmp/out")"
	ok "$how goes through, in $((SECONDS - start)) s"
	wait_for 10 none_open && ok "$how: every session is given back" || fail "$(open_now) sessions are open"
	equal "$how: and there is room again" 9 "$(fill "$hostile" $agent)"
	muxctl sandbox terminate $agent --reason story --how wipe >/dev/null || fail "not ended"
	wait_for 10 none_open || fail "$(open_now) sessions are open"
done
verified() { muxctl verify --all >"$tmp/verify"; }
wait_for 20 verified || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "every session is sealed, the record verifies"
