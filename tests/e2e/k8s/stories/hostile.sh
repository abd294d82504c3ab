#!/bin/bash
# The hostile rounds-only agent of tests/integration/hostile.py in a pod with a limit of memory and of processes and a claim that it
# fills: staff gets in all the while, and everything is as before a minute after. The pod is as large as pods are by default; LIMIT and
# REQUEST make it smaller (docs/security.md says what holds there). By default some seconds of it; MINUTE=60 for the whole.
# tier: all, whole MINUTE=60
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
sandbox: {backend: kubernetes, workspace_size: 512MiB}
kubernetes:
  kubeconfig: $tmp/kubeconfig
  namespace: $ns
  image: localhost/busybox:1
  pull_policy: Never
  request_ephemeral: 1Mi
  request_memory: ${REQUEST:-512Mi}
  workspace: claim
  storage_class: loop
  limit_memory: ${LIMIT:-2Gi}
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
muxctl exec -n --task story $agent -- true || fail "no pod"
kubectl get pod -l agent_id=$agent -o jsonpath='{.items[0].metadata.uid}' >"$tmp/uid"
group=$(find /sys/fs/cgroup -type d -path "*muxd-k8s-*" -path "*pid*" -name "*$(cat "$tmp/uid")*" | head -n 1)
[ -n "$group" ] || fail "no group of processes"

# Who takes memory is told what ended him, whether the kernel did it or muxlet, and nobody else is ended.
token=$(head -n 1 "$tmp/tokens")
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
sleeper=$(round '{"argv":["sleep","600"],"wait_ms":0}' | jq -r .round_id)
equal "one that takes all memory at once" oom "$(round '{"argv":["tail","/dev/zero"],"wait_ms":60000}' | jq -r .exit.cause)"
crowd='n=0; while [ $n -lt 300 ]; do (x=$(printf %10000000s x); while :; do sleep 600; done) & n=$((n+1)); done; wait'
equal "a crowd that takes it bit by bit" oom "$(round "$(jq -n --arg c "$crowd" '{command:$c,wait_ms:60000}')" | jq -r .exit.cause)"
equal "another round beside them" running "$(api "$token" GET "/v1/rounds/$sleeper" | jq -r .state)"
api "$token" POST "/v1/rounds/$sleeper/signal" '{"signal":"KILL"}' >/dev/null

echo "${PIDS:-1000}" >"$group/pids.max" || fail "no limit of processes"
CROWD_BYTES=10000000 TOKENS=$tmp/tokens FORK=${FORK:-0} MEMORY=1 MINUTE=${MINUTE:-10} nice -n 5 \
	env ATTACKS="${ATTACKS:-sessions texts descriptors memory crowd cache shm kept ring processors arguments errors disk processes}" \
	/usr/bin/python3 "$here/tests/integration/hostile.py" "$MUXD_STATE" $agent "$MUXCTL" || fail "$(tail -n 20 "$MUXD_STATE/daemon.log")"
verified() { muxctl verify --all >"$tmp/verify"; }
wait_for 20 verified || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "the record verifies"
