#!/bin/bash
# Rounds leave behind what they can: children of children, sessions of their own, holders of their pipes, programs that
# ignore TERM, and as many processes as there may be. Each round ends as it should; of all that is left nothing stays once
# it has ended by itself: no zombie, no process, no descriptor of muxlet, no memory.
# tier: test, slice ROUNDS=300, whole ROUNDS=10000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
echo 'sandbox: {pids: 200}' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
agent=orphans
token=$(PRINCIPAL=bot new_token $agent agent rounds 3h)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
round '{"argv":["true"]}' >/dev/null # the sandbox is there
muxlet=$(jq .init.pid "$MUXD_STATE/sandboxes/$agent/sandbox.json")
# looked at from outside: who has the sandbox's pids, and in what state
inside() { pgrep --ns "$muxlet" --nslist pid; }
zombies() { inside | while read -r p; do grep -s '^State:.Z' "/proc/$p/status"; done | wc -l; }
fds() { find "/proc/$muxlet/fd" -mindepth 1 | wc -l; }
kib() { awk '/^Pss_Anon:/ {print $2}' "/proc/$muxlet/smaps_rollup"; }
quiet() { [ "$(inside | wc -l)" -le "$before" ]; }

python3 "$here/tests/integration/orphans.py" "$MUXD_STATE" "$token" $agent 40 >"$tmp/first" || fail "$(cat "$tmp/first")"
sleep 1
before=$(inside | wc -l) fds_before=$(fds) kib_before=$(kib)
begun=$SECONDS
python3 "$here/tests/integration/orphans.py" "$MUXD_STATE" "$token" $agent "${ROUNDS:-300}" || fail "rounds ended as they should not"
ok "${ROUNDS:-300} rounds ended as they should, in $((SECONDS - begun)) s"
wait_for 10 quiet || fail "left: $(inside | while read -r p; do tr '\0' ' ' <"/proc/$p/cmdline"; echo "($p)"; done)"
equal "nothing of them is left, beside the $before processes that were there" "0 zombies" "$(zombies) zombies"
equal "nor a descriptor of muxlet's" "$fds_before" "$(fds)"
ok "muxlet: $kib_before KiB before, $(kib) behind"
[[ $BUILD == */san ]] || [ $(($(kib) - kib_before)) -lt 1024 ] || fail "its memory grows"
equal "and it goes on" 0 "$(round '{"argv":["true"]}' | jq .exit.code)"
