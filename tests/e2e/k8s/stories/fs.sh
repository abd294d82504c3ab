#!/bin/bash
# File operations in pods: what holds on this machine holds in the cluster, through the link. In a pod of others paths
# stay below the working directory of its container, where programs begin.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/lib/fs_story.sh
. "$here/tests/lib/fs_story.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<-YAML
	sandbox: {backend: kubernetes}
	kubernetes: {kubeconfig: $tmp/kubeconfig, image: localhost/busybox:1, pull_policy: Never}
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; end_story' EXIT

agent=fs root=/workspace
PRINCIPAL=fs.1
token=$(new_token fs agent files)
inside true || fail "no sandbox"
equal "by the link" link "$(muxctl sandbox show $agent -o json | jq -r .backend)"
fs_write_and_read
fs_change_what_is_known
fs_names_and_trees
fs_patch_and_search
fs_stays_inside
fs_bad_requests
fs_by_muxctl
fs_recorded
fs_programs_changed
fs_trees
fs_watches
muxctl sandbox destroy --reason "the story goes on" $agent >/dev/null || fail "not ended"

kubectl apply -f - >/dev/null <<-YAML || fail "no pod"
	apiVersion: v1
	kind: Pod
	metadata: {name: box}
	spec:
	  terminationGracePeriodSeconds: 0
	  containers:
	  - {name: box, image: localhost/busybox:1, imagePullPolicy: Never, workingDir: /own, command: [sleep, "3600"]}
YAML
kubectl wait pod box --for=condition=Ready --timeout=60s >/dev/null || fail "the pod is not ready"
agent=$ns/box
token=$(new_token "$ns/box" staff files)
does write '{"path":"a/f","data":"one\n","parents":true}' .size 4
does patch '{"path":".","data":"a/f\n<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE\n"}' '.changes[0].path' a/f
equal "a file of a pod of others" two "$(kubectl exec box -- cat /own/a/f </dev/null)"
does search '{"path":".","pattern":"two"}' .matches 1
refuses path_outside read '{"path":"/etc/passwd"}' 403
