#!/bin/bash
# What holds of a sandbox's life on this machine holds in the cluster: the same story (tests/integration/lifecycle.sh), with claims and
# VolumeSnapshots of storage.py. Afterwards nothing of it is left in the cluster but what agents still have.
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"
LIFE_CONFIG="sandbox: {backend: kubernetes, workspace_size: 48MiB}
kubernetes:
  kubeconfig: $tmp/kubeconfig
  namespace: $ns
  image: localhost/busybox:1
  pull_policy: Never
  request_cpu: 10m
  request_memory: 32Mi
  limit_memory: 128Mi
  workspace: claim
  storage_class: ${LIFE_CLASS:-loop}
  snapshot_class: loop"
export LIFE_CONFIG LIFE_SPEED=${LIFE_SPEED:-240} LIFE_WAIT=${LIFE_WAIT:-120} LIFE_HOW=VolumeSnapshot
# In front of this one: the daemon ends its sandboxes there, with the namespace still around.
bash "$here/tests/integration/lifecycle.sh" || fail "the story of this machine does not hold in the cluster"

# of_agents KIND: how many objects each agent has, most first
of_agents() { kubectl get "$1" -l muxd.dev/role -o json | jq -r '.items[].metadata | select(.deletionTimestamp | not) | .labels.agent_id' | sort | uniq -c | sort -rn; }
alone() { [ "$(of_agents pvc | awk '$1 > 1')" = "" ]; }
wait_for 30 alone && ok "no agent has two claims" || fail "$(of_agents pvc)"
unwiped() { [ "$(kubectl get pvc,volumesnapshot -l agent_id=brief -o json | jq '[.items[] | select(.metadata.deletionTimestamp | not)] | length')" = 0 ]; }
wait_for 30 unwiped && ok "who was wiped has neither claims nor snapshots" || fail "$(kubectl get pvc,volumesnapshot --show-labels)"
equal "no pod that only asked for a claim" "" "$(kubectl get pods -l muxd.dev/role=binder -o name)"

# ---- the warm pool, of pods: one is leased and used, a fresh one takes its place, and the daemon's death takes nothing from anybody
printf '%s\npool: {size: 1}\n' "$LIFE_CONFIG" >"$tmp/muxd.yaml"
begin() { start_daemon "$tmp/pool" --config "$tmp/muxd.yaml" || fail "no daemon"; }
begin
# shellcheck disable=SC2317
end_pool() {
	MUXD_STATE=$tmp/pool
	stop_daemon
	end_story
}
trap end_pool EXIT
service() { PRINCIPAL=planner new_token '*' service lifecycle,rounds 30m; }
svc=$(service)
pool() { api "$svc" GET /sandboxes/pool; }
full() { [ "$(pool | jq -r '"\(.ready) \(.filling) \(.discarding)"')" = "1 0 0" ]; }
lease() { api "$svc" POST /sandboxes/leases "{\"userId\":\"alice\",\"workflowId\":\"none\",\"requestId\":\"$1\",\"ttlSeconds\":600}"; }
round() { api "$svc" POST "/v1/agents/$1/rounds" "{\"argv\":[\"sh\",\"-c\",\"$2\"],\"wait_ms\":20000}" | jq -r '"\(.exit.code) \(.stdout.data)"'; }
uid_of() { kubectl get pods -l "muxd.dev/role=sandbox,agent_id=$1" -o jsonpath='{.items[*].metadata.uid}'; }
left_of() { kubectl get pods,pvc -l "agent_id=$1" -o name; }
api "$svc" POST /sandboxes/workflows '{"name":"none","owner":"alice","version":1,"steps":[{"shell":"true"}]}' >/dev/null
wait_for 120 full && ok "the pool fills itself" || fail "$(pool)"
warm=$(pool | jq -r '.sandboxes[0].sandboxId')
first=$(uid_of "$warm")
lease r1 >"$tmp/lease"
equal "who asks gets the pod that is warm" "$warm $first" "$(jq -r .sandboxId "$tmp/lease") $(uid_of "$warm")"
equal "and works in it" "0 " "$(round "$warm" 'echo mine >word')"
wait_for 120 full && ok "a fresh one takes its place" || fail "$(pool)"
kill -9 "$DAEMON" "$(jq -r .pids.net "$MUXD_STATE/ready.json")"
wait "$DAEMON" 2>/dev/null
begin
svc=$(service)
equal "killed and back: the lease goes on" "ACTIVE $warm" \
	"$(api "$svc" GET "/sandboxes/leases/$(jq -r .leaseId "$tmp/lease")" | jq -r '"\(.state) \(.sandboxId)"')"
equal "in the pod that it was, with its files" "$first 0 mine" "$(uid_of "$warm") $(round "$warm" 'cat word')"
wait_for 120 full && ok "and the pool is full" || fail "$(pool)"
equal "given back" RELEASED "$(api "$svc" DELETE "/sandboxes/leases/$(jq -r .leaseId "$tmp/lease")" | jq -r .state)"
forgotten() { [ -z "$(left_of "$warm")" ]; }
wait_for 60 forgotten && ok "its pod and its claim go" || fail "left: $(left_of "$warm")"
next=$(lease r2 | jq -r .sandboxId)
[ "$next" != null ] && [ "$next" != "$warm" ] && ok "the next one gets another" || fail "$next after $warm"
equal "with nothing in it" "1 " "$(round "$next" 'cat word 2>/dev/null')"
