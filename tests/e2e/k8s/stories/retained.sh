#!/bin/bash
# Wiped is wiped, with classes that keep (deletionPolicy and reclaimPolicy Retain): the daemon with the rights that deploy/ gives names
# what stays and does not say "ok"; with those of deploy/kustomize/storage it takes that over, and image and copy are gone from the
# driver's disk. The driver is storage.py, a stand-in; which version serves the objects does not matter.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"

# ---- muxd's account, with the rights that are shipped, in a namespace of the story's own
role=muxd-storage-$$
# shipped FILE JQ: objects of a manifest as JSON, changed, and applied
shipped() {
	python3 -c 'import json, sys, yaml; print(json.dumps([d for d in yaml.safe_load_all(open(sys.argv[1])) if d]))' "$here/deploy/kustomize/$1" |
		jq --arg ns "$ns" --arg cluster "$role" "{apiVersion: \"v1\", kind: \"List\", items: [.[] | $2]}" | kubectl apply -f - >/dev/null ||
		fail "the API server refused $1"
}
own='if .subjects then .subjects[0].namespace = $ns else . end'
cluster_wide=".metadata.name |= \$cluster + \"-\" + . | if .roleRef then .roleRef.name |= \$cluster + \"-\" + . else . end | $own"
shipped base/rbac.yaml "select(.kind == \"ServiceAccount\" or .metadata.namespace != null) | .metadata.namespace = \$ns | $own"
shipped base/rbac.yaml "select(.metadata.name == \"muxd-cluster\") | $cluster_wide"
token=$(kubectl create --raw "/api/v1/namespaces/$ns/serviceaccounts/muxd/token" -f - \
	<<<'{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}' | jq -r .status.token)
cp "$tmp/kubeconfig" "$tmp/muxd.kubeconfig"
kubectl --kubeconfig "$tmp/muxd.kubeconfig" config set-credentials muxd --token="$token" >/dev/null
kubectl --kubeconfig "$tmp/muxd.kubeconfig" config set-context --current --user=muxd >/dev/null

cat >"$tmp/muxd.yaml" <<Y
sandbox: {backend: kubernetes, workspace_size: 24MiB}
kubernetes:
  kubeconfig: $tmp/muxd.kubeconfig
  namespace: $ns
  image: localhost/busybox:1
  pull_policy: Never
  request_ephemeral: 1Mi
  request_memory: 32Mi
  workspace: claim
  storage_class: loop-kept
  snapshot_class: kept
journal: {dir: $tmp/journal, size: 16MiB}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
kept_by=
finish() {
	muxctl shutdown --sandboxes >/dev/null 2>&1
	for o in $kept_by; do kubectl patch "${o%%/*}" "${o#*/}" --type merge -p "$(policy_of "$o")" >/dev/null 2>&1; done
	kubectl delete clusterrole,clusterrolebinding "$role-muxd-cluster" "$role-muxd-storage" >/dev/null 2>&1
	end_story
}
policy_of() { [[ $1 = persistentvolume/* ]] && echo '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}' || echo '{"spec":{"deletionPolicy":"Delete"}}'; }
trap finish EXIT
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"

muxctl exec -n --task story box -- sh -c 'echo secret >word; sync' || fail "no pod of box"
id=$(muxctl sandbox snapshot box -o json | jq -r .snapshot.id)
content=$(kubectl get volumesnapshot "muxd-$id" -o jsonpath='{.status.boundVolumeSnapshotContentName}')
volume=$(kubectl get pvc muxd-box -o jsonpath='{.spec.volumeName}')
kept_by="persistentvolume/$volume volumesnapshotcontent/$content"
image=$K8S_HOME/volumes/$volume.img
copy=$K8S_HOME/snapshots/$content.img
[ -e "$image" ] && [ -e "$copy" ] && ok "the driver has both" || fail "there is no $image or $copy"

# ---- without the right
wipe() { muxctl sandbox destroy box --wipe --reason story >"$tmp/out" 2>&1; }
says() { grep -qF -- "$2" "$tmp/out" && ok "$1" || fail "$1: no '$2' in: $(cat "$tmp/out")"; }
wipe
equal "a wipe that cannot take over is not ok" 75 $?
says "by a stable name" data_kept
says "it names the volume" "PersistentVolume $volume"
says "and the content" "VolumeSnapshotContent $content"
says "and the right that is missing" "muxd has no right to patch persistentvolumes"
[ -e "$image" ] && [ -e "$copy" ] && ok "both are there" || fail "half of it is gone"
equal "no pod of it" "" "$(kubectl get pods -l agent_id=box -o name)"
equal "its claim is nobody's workspace" kept "$(kubectl get pvc muxd-box -o jsonpath='{.metadata.labels.muxd\.dev/workspace}')"
muxctl sandbox show box >"$tmp/out" 2>&1
says "whoever looks reads what stays" "$content"
audited() { muxctl audit --event "$1" -n 100 -o json | jq -s "[.[] | select(.record.outcome == \"data_kept\")] | length"; }
equal "the audit log has the volume's and the content's" "1 1" "$(audited sandbox.wipe) $(audited snapshot.drop)"
muxctl exec -n --task story box -- cat word >"$tmp/out" 2>&1 && fail "what was wiped can be read: $(cat "$tmp/out")"
says "nobody works in it" data_kept

# ---- with it
shipped storage/binding.yaml "$cluster_wide"
wiped() { wipe || ! grep -q data_kept "$tmp/out"; }
wait_for 60 wiped || fail "not wiped: $(cat "$tmp/out")"
wait_for 60 wipe && ok "with the optional role it is wiped" || fail "$(cat "$tmp/out")"
[ ! -e "$image" ] && [ ! -e "$copy" ] && ok "the driver has nothing of it" || fail "left: $(ls "$image" "$copy" 2>&1)"
equal "nor has the cluster" "" "$(kubectl get "persistentvolume/$volume" "volumesnapshotcontent/$content" -o name 2>/dev/null)"
equal "nor an agent" "" "$(kubectl get pods,pvc,volumesnapshots -l agent_id=box -o name)"


# ---- what an earlier version left: its VolumeSnapshot is gone, the content stayed, and muxd knows that it was dropped
muxctl exec -n --task story old -- sh -c 'echo secret >word; sync' || fail "no pod of old"
id=$(muxctl sandbox snapshot old -o json | jq -r .snapshot.id)
muxctl sandbox snapshot old >/dev/null || fail "no second snapshot"
left=$(kubectl get volumesnapshot "muxd-$id" -o jsonpath='{.status.boundVolumeSnapshotContentName}')
kept_by="persistentvolume/$(kubectl get pvc muxd-old -o jsonpath='{.spec.volumeName}') volumesnapshotcontent/$left"
kubectl delete volumesnapshot "muxd-$id" --timeout=30s >/dev/null || fail "the VolumeSnapshot does not go"
stop_daemon
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
wait_for 60 grep -q "VolumeSnapshotContent $left has outlived its snapshot, and stays" "$MUXD_STATE/daemon.log" || fail "it is not named"
kubectl get volumesnapshotcontent "$left" >/dev/null && ok "what muxd does not know to be dropped is named, and stays" || fail "$left went"
muxctl sandbox drop old "$id" --reason story >/dev/null || fail "not dropped"
stop_daemon
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
swept() { [ ! -e "$K8S_HOME/snapshots/$left.img" ] && ! kubectl get volumesnapshotcontent "$left" >/dev/null 2>&1; }
wait_for 60 swept && ok "the sweep at the start finds a content whose snapshot was dropped" || fail "$left is still there"
muxctl sandbox destroy old --wipe --reason story >"$tmp/out" 2>&1 && ok "and the rest goes with a wipe" || fail "$(cat "$tmp/out")"
