#!/bin/bash
# Programs are made by the nursery, in their own group of memory. From inside it is killed, stopped, bent and starved of memory
# while rounds are asked for: each is answered, none runs twice, and staff's terminals do not notice.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 16MiB}
sandbox: {memory: 256MiB, workspace_size: 64MiB}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=nursery
{
	PRINCIPAL=nursery.1 new_token $agent agent rounds 30m
	new_token $agent staff terminal,rounds,lifecycle,observe 30m
} >"$tmp/tokens"
round() { api "$(head -n 1 "$tmp/tokens")" POST /v1/agents/$agent/rounds "{\"command\":\"$1\",\"wait_ms\":10000}"; }
[ "$(round true | jq -r .state)" = finished ] || fail "no round"
if [ "$(muxctl sandbox show $agent -o json | jq -r .enforced.memory)" != true ]; then
	echo "SKIP: no control group of memory can be made here"
	exit 0
fi
born=$(round "grep -c /programs /proc/self/cgroup" | jq -r .stdout.data)
equal "a round is born in the group of programs" 1 "$born"
equal "and is muxlet's child" 1 "$(round "sed -n 's/^PPid:.//p' /proc/\$\$/status" | jq -r .stdout.data)"
MUXCTL=$MUXCTL TOKENS=$tmp/tokens nice -n "${NICE:-0}" /usr/bin/python3 "$(dirname "$0")/nursery.py" "$MUXD_STATE" $agent || fail "$(tail -n 5 "$MUXD_STATE/daemon.log")"
