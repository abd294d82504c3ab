#!/bin/bash
# The hostile rounds-only agent of tests/integration/hostile.py in a pod: staff gets in all the while, and everything is as before a
# minute after. Without the disk, which a node shares out by evicting the pod, and without a fork bomb where the node sets no limit
# of processes (FORK=1 with one). By default 10 s of it; MINUTE=60 for the whole.
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
sandbox: {backend: kubernetes}
kubernetes:
  kubeconfig: $tmp/kubeconfig
  namespace: $ns
  image: localhost/busybox:1
  pull_policy: Never
  request_cpu: 10m
  request_ephemeral: 1Mi
  request_memory: 32Mi
  limit_memory: 256Mi
journal: {dir: $tmp/journal, size: 16MiB}
metrics: {open_on_loopback: true}
sessions: {max_per_agent: 100}
record: {segment_size: 8MiB}
rounds: {keep: 15s}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
finish() {
	muxctl shutdown --sandboxes >/dev/null 2>&1
	end_story
}
trap finish EXIT
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
agent=hostile
{
	PRINCIPAL=hostile.1 new_token $agent agent rounds 30m
	new_token $agent staff terminal,rounds,lifecycle,observe 30m
} >"$tmp/tokens"
TOKENS=$tmp/tokens FORK=${FORK:-0} SHARED_DISK=1 MINUTE=${MINUTE:-10} nice -n 5 \
	env ATTACKS="sessions texts descriptors kept ring processors arguments errors processes" \
	/usr/bin/python3 "$here/tests/integration/hostile.py" "$MUXD_STATE" $agent "$MUXCTL" || fail "$(tail -n 20 "$MUXD_STATE/daemon.log")"
verified() { muxctl verify --all >"$tmp/verify"; }
wait_for 20 verified || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "the record verifies"
