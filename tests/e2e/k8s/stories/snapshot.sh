#!/bin/bash
# Snapshots of claims and what comes of them, by the provider alone (link_probe): storage.py is storage and snapshot controller,
# on loop images, so that caps are real and copies are copies. What goes wrong is said in the cluster's words, and leaves the
# workspace as it was.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make -s --no-print-directory -C "$here" "$(realpath --relative-to="$here" "$BUILD")/e2e/link_probe" || fail "link_probe does not build"
export MUXLET=$BUILD/muxlet
cluster storage start || fail "no storage"
class=loop
# probe OPTIONS -- VERB ARGUMENTS...: as in pods.sh, with a claim of 64 MiB
probe() {
	local opts=()
	while [ "$1" != -- ]; do opts+=("$1") && shift; done
	shift
	timeout 180 "$BUILD/e2e/link_probe" -n "$ns" -w claim -s 67108864 -C "$class" "${opts[@]}" "$KUBECONFIG" "$@" 2>"$tmp/said" </dev/null
}
said() { grep -qE -- "$2" "$tmp/said" && ok "$1" || fail "$1: no '$2' in: $(tail -n 5 "$tmp/said")"; }
new_id() { cat /proc/sys/kernel/random/uuid; }
# claims AGENT: those that are not on their way out
claims() {
	kubectl get pvc -l "agent_id=$1" -o json |
		jq -r '.items[].metadata | select(.deletionTimestamp | not) | "persistentvolumeclaim/" + .name' | sort | xargs
}
field() { kubectl get "$1" "$2" -o jsonpath="$3"; }

# ---- taken while it runs
sum=$(probe -- exec coder sh -c 'mkdir d; head -c 3000000 /dev/urandom >d/data; echo first >word; sync; sha256sum <d/data') || fail "$(cat "$tmp/said")"
said "a claim of storage that sizes volumes" 'cap=yes .*workspace=yes'
one=$(new_id)
probe -- take coder "$one" || fail "$(cat "$tmp/said")"
said "a snapshot of what runs" "snapshot $one of coder: VolumeSnapshot muxd-$one size=67108864 ready=yes"
equal "labelled with its agent" coder "$(field volumesnapshot "muxd-$one" '{.metadata.labels.agent_id}')"
equal "of its claim" muxd-coder "$(field volumesnapshot "muxd-$one" '{.spec.source.persistentVolumeClaimName}')"
at=$(field volumesnapshot "muxd-$one" '{.metadata.uid}')
probe -- take coder "$one" || fail "$(cat "$tmp/said")"
equal "asked for again it is the same" "$at" "$(field volumesnapshot "muxd-$one" '{.metadata.uid}')"
probe -- take other "$one"
said "not as another agent's" 'conflict: .*is of agent coder, not of other'
probe -- take nobody "$(new_id)"
said "nobody has no workspace" 'not_found: nobody has no workspace'
probe -- exec coder sh -c 'echo second >word; rm d/data; sync' || fail "$(cat "$tmp/said")"

# ---- restored
probe -- restore coder coder "$one"
said "not under a sandbox that runs" 'bad_state: pod muxd-coder holds the workspace of coder'
probe -- destroy coder || fail "$(cat "$tmp/said")"
probe -- restore coder coder "$(new_id)"
said "a snapshot that is not there" 'not_found: coder has no snapshot'
probe -- restore coder other "$one"
said "nor one of somebody else" 'not_found: other has no snapshot'
equal "the workspace is as it was" persistentvolumeclaim/muxd-coder "$(claims coder)"
probe -- restore coder coder "$one" || fail "$(cat "$tmp/said")"
said "restored" 'coder stopped .*workspace=yes'
now=$(claims coder)
[[ $now =~ ^persistentvolumeclaim/muxd-coder\.2-[0-9a-f]{8}$ ]] && ok "one claim, a new one" || fail "claims: $now"
probe -- restore coder coder "$one" || fail "$(cat "$tmp/said")"
equal "asked for again it is the same" "$now" "$(claims coder)"
equal "with what was in it" "$(xargs <<<"$sum") first" "$(probe -- exec coder sh -c 'sha256sum <d/data; cat word' | xargs)"
probe -- exec coder sh -c 'echo third >word; sync' || fail "$(cat "$tmp/said")"
probe -- destroy coder && probe -- restore coder coder "$one" || fail "$(cat "$tmp/said")"
equal "one that was used since is made anew" first "$(probe -- exec coder cat word)"
equal "a write past its size fails in a restored one, too" 1 "$(probe -- exec coder sh -c 'head -c 100000000 /dev/zero >big; echo $?; rm big' 2>/dev/null)"
said "and it says so" 'cap=yes'

# ---- into another agent, which cannot write
probe -- restore reader coder "$one" ro || fail "$(cat "$tmp/said")"
equal "another agent reads what was there" first "$(probe -- exec reader cat word)"
probe -- exec reader touch new
equal "and cannot write" 1 $?
probe -- exec reader sh -c 'touch d/new || rm -rf d; ls d'
equal "its files stay" 0 $?

# ---- storage that waits for its first consumer
class=loop-late
probe -- restore late coder "$one" || fail "$(cat "$tmp/said")"
said "WaitForFirstConsumer: bound without the sandbox" 'late stopped .*workspace=yes'
until_ok 30 sh -c '! kubectl get pod muxd-late.bind 2>/dev/null | grep -q .' && ok "the pod that asked for it is gone" || fail "muxd-late.bind is still there"
equal "and it holds the copy" first "$(probe -- exec late cat word)"
class=loop

# ---- what goes wrong
probe -- destroy coder || fail "$(cat "$tmp/said")"
before=$(claims coder)
class=loop-full
probe -t 8 -- restore coder coder "$one"
said "storage that cannot provide: its own words" 'timeout: claim muxd-coder.* is not bound after 8 s: .*the storage pool is full'
class=loop
equal "the workspace stays" "$before" "$(claims coder)"
kubectl apply -f - >/dev/null <<-Y
	apiVersion: v1
	kind: ResourceQuota
	metadata: {name: few}
	spec: {hard: {requests.storage: 100Mi}}
Y
until_ok 30 sh -c "kubectl get resourcequota few -o jsonpath='{.status.used}' | grep -q storage" || fail "the quota does not count"
probe -t 20 -- restore coder coder "$one"
said "a quota: the API server's words" 'k8s_forbidden: .*exceeded quota: few'
equal "the workspace stays" "$before" "$(claims coder)"
kubectl delete resourcequota few >/dev/null
bad=$(new_id)
probe -S failing -t 60 -- take coder "$bad"
said "a driver that fails: its words" 'snapshot_failed: .*the storage pool is full'
probe -S never -t 4 -- take coder "$bad"
said "one that is never ready" 'timeout: VolumeSnapshot muxd-.* is not ready after 4 s: readyToUse is not set yet'
probe -S nosuch -t 60 -- take coder "$bad"
said "a class that is not there" 'snapshot_failed: .*there is no VolumeSnapshotClass nosuch'
probe -S stranger -t 30 -- take coder "$bad"
said "a content that is somebody else's" 'snapshot_failed: content .* belongs to'
kubectl delete volumesnapshot "muxd-$bad" --ignore-not-found >/dev/null
probe -- snapshots coder
equal "what failed is not there" 1 "$(grep -c 'probe: snapshot' "$tmp/said")"
timeout 60 "$BUILD/e2e/link_probe" -n "$ns" "$KUBECONFIG" take coder "$bad" 2>"$tmp/said"
said "an emptyDir cannot be copied, and it says what to configure" 'unsupported: kubernetes.workspace is emptydir.*Set it to claim'
kubectl config set-credentials story --token="$(cat "$K8S_HOME/pki/story.token")" >/dev/null
sed 's/user: .*/user: story/' "$KUBECONFIG" >"$tmp/story.kubeconfig"
KUBECONFIG=$tmp/story.kubeconfig probe -- take coder "$bad"
said "who may not is told in the server's words" 'k8s_forbidden: .*volumesnapshots'

# ---- cut short: by the API server's end, by kill -9 of whoever restores
probe -- restore victim coder "$one" && probe -- exec victim sh -c 'echo mine >word; sync' && probe -- destroy victim || fail "$(cat "$tmp/said")"
for delay in 0.02 0.05 0.1 0.2 0.4; do
	timeout -s KILL $delay "$BUILD/e2e/link_probe" -n "$ns" -w claim -s 67108864 -C loop "$KUBECONFIG" restore victim coder "$one"
done 2>/dev/null
probe -- restore victim coder "$one" || fail "$(cat "$tmp/said")"
equal "killed at any moment and asked again: one claim" 1 "$(claims victim | wc -w)"
equal "with the snapshot in it" first "$(probe -- exec victim cat word)"
probe -- destroy victim
two=$(new_id)
cluster apiserver stop
(
	sleep 2
	cluster apiserver start
) &
probe -t 60 -- take coder "$two" && said "an API server that comes back is waited for" "snapshot $two of coder.*ready=yes" || fail "$(cat "$tmp/said")"
wait

# ---- dropped, one by one, and with the agent
probe -- drop other "$two"
said "not by another agent" 'not_found: .*is of agent coder'
probe -- drop coder "$two" && probe -- drop coder "$two" && ok "dropped, twice" || fail "$(cat "$tmp/said")"
until_ok 30 sh -c "! kubectl get volumesnapshot muxd-$two 2>/dev/null | grep -q ." && ok "and gone" || fail "muxd-$two is still there"
probe -- drop_workspace coder || fail "$(cat "$tmp/said")"
equal "a workspace goes" "" "$(claims coder)"
probe -- stat coder
said "and its agent is absent" 'coder absent .*workspace=no'
probe -- snapshots coder
said "its snapshots stay" "snapshot $one of coder: .*ready=yes"
probe -- restore coder coder "$one" && equal "and bring it back" first "$(probe -- exec coder cat word)" || fail "$(cat "$tmp/said")"
probe -- wipe coder || fail "$(cat "$tmp/said")"
equal "wiped: no claim" "" "$(claims coder)"
probe -- list
said "who has a claim and no pod is in the list" 'victim stopped .*workspace=yes'
