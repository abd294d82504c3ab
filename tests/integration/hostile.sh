#!/bin/bash
# A rounds-only agent tries to fill everything it can; staff gets in all the while, and everything is as before a minute after. The
# story is told in hostile.py. By default 20 s of it; MINUTE=60 for the whole, FORK=0 without the fork bomb, MEMORY=0 without
# programs that are killed for want of memory over and over.
# tier: test, san, alone, slice MINUTE=8, whole MINUTE=60
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 16MiB}
metrics: {open_on_loopback: true}
record: {segment_size: 8MiB}
rounds: {keep: 15s}
sandbox: {memory: 512MiB, workspace_size: 256MiB}
sessions: {max_per_agent: ${PER_AGENT:-200}}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=hostile
[[ $BUILD == */san ]] && export SANITIZED=1
{
	PRINCIPAL=hostile.1 new_token $agent agent rounds 30m
	new_token $agent staff terminal,rounds,lifecycle,observe 30m
} >"$tmp/tokens"
TOKENS=$tmp/tokens FORK=${FORK:-1} nice -n "${NICE:-5}" /usr/bin/python3 "$(dirname "$0")/hostile.py" "$MUXD_STATE" $agent "$MUXCTL" ||
	fail "$(tail -n 20 "$MUXD_STATE/daemon.log")"
verified() { muxctl verify --all >"$tmp/verify"; }
wait_for 20 verified || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "the record verifies"
