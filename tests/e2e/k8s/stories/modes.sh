#!/bin/bash
# A tree with every mode, link, attribute, hole and name in a pod's claim is the same after every stop and wake, a restore and a fork,
# on a volume whose files the kubelet gives to the pod's group: told by a tar of all of it, with attributes, that root reads on the
# node. By default three cycles; CYCLES=20 for the whole.
# tier: all, whole CYCLES=20
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
sandbox: {backend: kubernetes, workspace_size: 128MiB}
kubernetes:
  kubeconfig: $tmp/kubeconfig
  namespace: $ns
  image: localhost/busybox:1
  pull_policy: Never
  request_ephemeral: 1Mi
  request_memory: 32Mi
  workspace: claim
  storage_class: loop
journal: {dir: $tmp/journal, size: 16MiB}
lifecycle: {agents: [{agent: "*", idle_ttl: 0}]}
Y
finish() {
	muxctl shutdown --sandboxes >/dev/null 2>&1
	end_story
}
trap finish EXIT
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
start() { muxctl exec -n --task story "$1" -- true || fail "no pod of $1"; }
# at AGENT: where the node has the volume of its workspace
at() {
	local volume
	volume=$(kubectl get pvc -l "agent_id=$1" -o json | jq -r '[.items[] | select(.metadata.deletionTimestamp | not)] | .[0].spec.volumeName')
	in_node awk -v v="$volume" 'index($2, v) && index($2, "/volumes/") && !index($2, "/pods/") {print $2; exit}' /proc/self/mounts
}
# whole AGENT: the listing of all of it and the digest of all of it
whole() {
	local dir
	dir=$(at "$1")
	[ -n "$dir" ] || fail "the node has no volume of $1: $(in_node cat /proc/self/mounts | grep loop)"
	in_node tar --xattrs --xattrs-include='*' --sort=name --numeric-owner --format=pax \
		--pax-option=exthdr.name=%d/%f,delete=atime,delete=ctime -C "$dir" -cf - tree >"$tmp/now.tar" || fail "no tar of $1"
	tar --xattrs --full-time --numeric-owner -tvvf "$tmp/now.tar"
	sha256sum <"$tmp/now.tar"
	in_node sh -c 'cd "$1" && du -B 4096 hole islands' du "$dir/tree" # holes are holes
}
# same AGENT WHAT
same() {
	whole "$1" >"$tmp/now"
	cmp -s "$tmp/tree" "$tmp/now" && ok "$2" || fail "$2: $(diff "$tmp/tree" "$tmp/now" | cat -v | head -n 20)"
}
group_has_it() { [ "$(in_node stat -c '%g %a' "$(at box)")" = "1000 2775" ]; }

start box
dir=$(at box)
group_has_it || fail "the kubelet did not give the volume to the pod's group: $(in_node stat -c '%g %a' "$dir")"
in_node setpriv --reuid 1000 --regid 1000 --clear-groups /usr/bin/python3 "$here/tests/lib/modes_tree.py" make "$dir/tree" || fail "no tree"
in_node sync -f "$dir"
whole box >"$tmp/tree"
for _ in $(seq "${CYCLES:-3}"); do
	muxctl sandbox stop box --reason story >/dev/null || fail "no stop"
	start box
done
same box "after ${CYCLES:-3} stops and wakes"
equal "a key is its owner's alone, in the pod, too" 600 "$(muxctl exec -n --task story box -- stat -c %a /workspace/tree/keys/id)"
id=$(muxctl sandbox snapshot box -o json | jq -r .snapshot.id)
muxctl sandbox fork box --snapshot "$id" --as twin -w >/dev/null || fail "no fork"
start twin
same twin "a fork"
muxctl sandbox stop box --reason story >/dev/null || fail "no stop"
muxctl sandbox restore box "$id" --reason story >/dev/null || fail "no restore"
start box
same box "a restore"
