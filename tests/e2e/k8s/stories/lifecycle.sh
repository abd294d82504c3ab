#!/bin/bash
# What holds of a sandbox's life on this machine holds in the cluster: the same story (tests/integration/lifecycle.sh), with claims and
# VolumeSnapshots of storage.py. Afterwards nothing of it is left in the cluster but what agents still have.
# tier: all
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
  request_ephemeral: 1Mi
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
