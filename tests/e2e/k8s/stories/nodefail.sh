#!/bin/bash
# A node that is gone, a kubelet that is dead, a pod that is evicted: `gone` says why, and the agent comes up again with what
# survived: the claim where there is one, else a snapshot. By the provider alone (link_probe). The cluster has one node, so "elsewhere"
# is that node when it is back, as a pod of its own: the old one is never waited for. A second node is a name with a heartbeat,
# played here: where every node is lost, Kubernetes takes the control plane for the one that is cut off, and evicts nobody.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make -s --no-print-directory -C "$here" "$(realpath --relative-to="$here" "$BUILD")/e2e/link_probe" || fail "link_probe does not build"
export MUXLET=$BUILD/muxlet
cluster storage start || fail "no storage"
spare='' held=''
is_ready() { [ "$(kubectl get node "$K8S_NODE" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
is_free() { is_ready && [ -z "$(kubectl get node "$K8S_NODE" -o jsonpath='{.spec.taints}{.spec.unschedulable}')" ]; }
# node_back: a kubelet makes its node's object when it begins, and never again
node_back() {
	kubectl get node "$K8S_NODE" >/dev/null 2>&1 || cluster kubelet stop || return
	cluster kubelet start && wait_for 90 is_free
}
# Whatever happened, the next story finds the node.
finish() {
	[ ! -s "$tmp/beats" ] || tail -n 5 "$tmp/beats" >&2
	end_own ${spare:+"$spare"} ${held:+"$held"}
	kubectl delete node spare --wait=false --request-timeout=10s >/dev/null 2>&1
	node_back >/dev/null 2>&1
	end_story
}
trap finish EXIT
trap 'exit 1' TERM INT
# patch_as_node PATH KIND: its body is on stdin. kubectl would ask first what the server knows, and is slow on a busy machine.
patch_as_node() {
	curl -sS --fail-with-body -m 10 -X PATCH --cacert "$K8S_HOME/pki/ca.crt" --cert "$K8S_HOME/pki/admin.crt" --key "$K8S_HOME/pki/admin.key" \
		-H "Content-Type: application/$2-patch+json" "$K8S_API$1" --data-binary @-
}
# As a kubelet: the lease is renewed and the state is told each time. The lease alone keeps a node that is ready so; one that
# has been silent for 40 s, as on a machine that is busy with other things, is unknown until it tells its state.
beat() {
	local now
	now=$(date -u +%Y-%m-%dT%H:%M:%S)
	patch_as_node /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/spare merge <<<"{\"spec\": {\"renewTime\": \"$now.000000Z\"}}" &&
		patch_as_node /api/v1/nodes/spare/status strategic-merge <<-J
			{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Played", "message": "by the story", "lastHeartbeatTime": "${now}Z"}]}}
		J
}
kubectl apply -f - >/dev/null <<-Y || fail "no second node"
	apiVersion: v1
	kind: Node
	metadata: {name: spare}
	spec: {unschedulable: true}
	---
	apiVersion: coordination.k8s.io/v1
	kind: Lease
	metadata: {name: spare, namespace: kube-node-lease}
	spec: {holderIdentity: spare, leaseDurationSeconds: 40}
Y
beat >"$tmp/beat" 2>&1 || fail "no heartbeat: $(cat "$tmp/beat")"
while sleep 5; do
	beat >"$tmp/beat" 2>&1 || echo "$(date -u +%T): the second node's heartbeat was not taken: $(head -c 300 "$tmp/beat")" >>"$tmp/beats"
done &
spare=$!
probe() {
	local opts=()
	while [ "$1" != -- ]; do opts+=("$1") && shift; done
	shift
	timeout 300 "$BUILD/e2e/link_probe" -n "$ns" -w claim -s 67108864 -C loop -N 5 "${opts[@]}" "$KUBECONFIG" "$@" 2>"$tmp/said" </dev/null
}
# is_kept WHAT: its pod comes up, with its claim
is_kept() {
	local got
	got=$(probe -- exec kept cat keep)
	[ "$got" = kept ] && ok "$1" || fail "$1: '$got' is in it, not 'kept': $(tail -n 5 "$tmp/said")"
}
said() { grep -qE -- "$2" "$tmp/said" && ok "$1" || fail "$1: no '$2' in: $(tail -n 5 "$tmp/said")"; }
# hold AGENT: a program in it, watched; what is said of it is in $tmp/AGENT, its probe's pid in $held
hold() {
	rm -f "$tmp/$1" # what an earlier one said there would be taken for this one's
	PROBE_LOG=info timeout 400 "$BUILD/e2e/link_probe" -n "$ns" -w claim -s 67108864 -C loop -N 5 "$KUBECONFIG" exec "$1" sleep 1000 2>"$tmp/$1" </dev/null &
	held=$!
	wait_for 60 grep -q 'up, stream' "$tmp/$1" || fail "no stream: $(cat "$tmp/$1")"
}
# ended AGENT PATTERN WHAT
ended() {
	wait $held
	rc=$?
	held=''
	[ $rc -eq 93 ] || tail -n 40 "$tmp/$1"
	equal "$3: what runs in it ends" 93 $rc
	grep -qE "gone: $1: $2" "$tmp/$1" && ok "with that cause" || fail "$(tail -n 5 "$tmp/$1")"
}
uid() { kubectl get pod "$1" -o jsonpath='{.metadata.uid}'; }

# ---- evicted
probe -- exec kept sh -c 'echo kept >keep; sync' || fail "$(cat "$tmp/said")"
snapshot=$(cat /proc/sys/kernel/random/uuid)
probe -- take kept "$snapshot" || fail "$(cat "$tmp/said")"
timeout 400 "$BUILD/e2e/link_probe" -n "$ns" -s 2097152 "$KUBECONFIG" exec evicted sh -c 'head -c 20000000 /dev/zero >big; sleep 1000' 2>"$tmp/evicted" </dev/null &
held=$!
ended evicted 'its container ended: Evicted: .*(limit|EmptyDir)' "a pod that the kubelet evicts"
probe -w emptydir -s 2097152 -- exec evicted true && ok "and it begins again" || fail "$(cat "$tmp/said")"
kubectl create -f - --raw "/api/v1/namespaces/$ns/pods/muxd-kept/eviction" >/dev/null <<-J
	{"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "muxd-kept", "namespace": "$ns"}}
J
is_kept "one that is drained comes up with its claim"

# ---- the kubelet is dead
hold kept
before=$(uid muxd-kept)
cluster kubelet stop || fail "the kubelet does not stop"
ended kept 'its pod was deleted: node node is not ready: Kubelet stopped posting node status' "a node that falls silent"
probe -t 5 -- exec kept true
said "nowhere to go: the scheduler's words" 'sandbox_create_timeout: .*(Unschedulable|taint)'
[ "$(uid muxd-kept)" != "$before" ] && ok "and the old pod is not waited for" || fail "it is the old pod still"
probe -- stat kept
said "the claim survives" 'workspace=yes'
node_back || fail "the node does not come back"
is_kept "a node that is there: up again, from the claim"

# ---- the node object is gone
hold kept
kubectl delete node "$K8S_NODE" --wait=false >/dev/null
ended kept 'its pod was deleted: node node is no longer in the cluster' "a node that is taken out of the cluster"
node_back || fail "the node does not come back"
is_kept "up again, from the claim"

# ---- and its disk with it
probe -- destroy kept || fail "$(cat "$tmp/said")"
volume=$(kubectl get pvc muxd-kept -o jsonpath='{.spec.volumeName}')
kubectl delete pv "$volume" --wait=false >/dev/null
kubectl patch pv "$volume" --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null 2>&1
is_lost() { [ "$(kubectl get pvc muxd-kept -o jsonpath='{.status.phase}')" = Lost ]; }
wait_for 60 is_lost || fail "the claim is not lost: $(kubectl get pvc muxd-kept)"
probe -- stat kept
said "a claim without its volume is no workspace" 'kept stopped .*workspace=no .*is lost'
probe -t 10 -- exec kept true
said "and nothing is begun on it" 'sandbox_create_failed: .*is lost: restore it from a snapshot'
probe -- restore kept kept "$snapshot" || fail "$(cat "$tmp/said")"
is_kept "the last good snapshot brings it back"
