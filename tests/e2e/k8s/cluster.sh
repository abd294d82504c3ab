#!/bin/bash
# cluster.sh VERB...: what tests do to a running cluster.
#   apiserver stop|start         kills kube-apiserver, or starts it and waits until it is ready
#   kubelet stop|start           kills the kubelet (pods run on), or lets it come again and waits until it answers
#   containerd restart [IDLE]    kills containerd and waits for the next one (pods run on); IDLE: its stream_idle_timeout (20s)
#   image DIR TAG [CMD...]       makes an image of a directory tree and gives it to the node; owner root, or OWNER=uid:gid
#   volume NAME SIZE             a persistent volume that is full at SIZE (1Gi), of the storage class `standard` (the default)
#   storage start|stop           volumes and snapshots of the classes in objects/storage.yaml (storage.py), or no longer
#   status                       what runs, with pids
. "$(dirname "$0")/lib.sh"
. "$K8S_DIR/config.sh"
. "$K8S_DIR/services.sh"

usage() { die "$1: see the head of $0"; }
ctr_() { ctr -a "$K8S_HOME/run/containerd.sock" "$@"; }
# kill_part NAME: containerd or kubelet, which node.sh keeps
kill_part() {
	local file=$K8S_HOME/run/$1.pid
	in_node sh -c 'read -r pid <"$1" && kill -KILL "$pid"' kill "$file" 2>/dev/null || true
}
kubelet() {
	case $1 in
	stop)
		touch "$K8S_HOME/run/kubelet.hold"
		kill_part kubelet
		until_ok 20 test ! -e "$K8S_HOME/run/kubelet.pid" || die "the kubelet does not end"
		;;
	start)
		rm -f "$K8S_HOME/run/kubelet.hold"
		until_ok 60 curl -sf -m 5 "http://127.0.0.1:$((K8S_PORT + 3))/healthz" || die "the kubelet does not answer: $(last kubelet)"
		;;
	*) usage "kubelet $1" ;;
	esac
}
apiserver() {
	case $1 in
	stop) halt apiserver KILL ;;
	start) start_apiserver ;;
	*) usage "apiserver $1" ;;
	esac
}
containerd_() {
	local before
	[ "$1" = restart ] || usage "containerd $1"
	K8S_IDLE=${2:-$K8S_IDLE}
	sed -i "s/^K8S_IDLE=.*/K8S_IDLE=$K8S_IDLE/" "$K8S_HOME/settings"
	config_containerd
	before=$(cat "$K8S_HOME/run/containerd.pid" 2>/dev/null || true)
	kill_part containerd
	# shellcheck disable=SC2016
	until_ok 20 bash -c '[ -e "$1" ] && [ "$(cat "$1")" != "$2" ]' new "$K8S_HOME/run/containerd.pid" "$before" || die "containerd does not come again"
	until_ok 60 ctr_ version || die "containerd does not answer: $(last containerd)"
}
image() {
	local dir=$1 tag=$2 tar
	shift 2
	tar=$K8S_HOME/images/$(tr -c 'a-zA-Z0-9._-' '-' <<<"$tag").tar
	"$K8S_DIR/image.py" "$dir" "$tar" "$tag" "$@"
	ctr_ -n k8s.io images import "$tar" >>"$K8S_HOME/log/images.log" 2>&1 || die "cannot import $tag: $(last images)"
}
# An ext4 image, mounted where only the node sees it: a write past its size is ENOSPC. The claim's fsGroup is honoured.
volume() {
	local at=$K8S_HOME/volumes/$1
	[[ $1 =~ ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$ ]] || die "volume: '$1' is no name: lower-case letters, digits and hyphens"
	[ ! -e "$at" ] || die "volume: there is one called $1 already"
	mkdir -p "$at"
	truncate -s "$(numfmt --from=auto "$2")" "$at.img"
	mkfs.ext4 -q -m 0 "$at.img"
	in_node mount -o loop "$at.img" "$at"
	kubectl apply -f - >>"$K8S_HOME/log/volumes.log" <<-E || die "volume: the API server refused it"
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
		provisioner: kubernetes.io/no-provisioner
		volumeBindingMode: WaitForFirstConsumer
		---
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: $1}
		spec:
		  capacity: {storage: "$2"}
		  accessModes: [ReadWriteOnce]
		  persistentVolumeReclaimPolicy: Retain
		  storageClassName: standard
		  local: {path: "$at"}
		  nodeAffinity:
		    required:
		      nodeSelectorTerms:
		      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [$K8S_NODE]}]
	E
}
# The definitions and classes first. What it made stays when it is stopped, and nobody looks after it.
storage() {
	case $1 in
	start)
		kubectl apply -f "$K8S_DIR/objects/snapshots.yaml" >>"$K8S_HOME/log/storage.log" || die "storage: the API server refused the definitions"
		kubectl wait --for=condition=Established --timeout=30s crd volumesnapshots.snapshot.storage.k8s.io \
			volumesnapshotcontents.snapshot.storage.k8s.io volumesnapshotclasses.snapshot.storage.k8s.io >>"$K8S_HOME/log/storage.log" ||
			die "storage: the definitions are not taken"
		until_ok 30 kubectl apply -f "$K8S_DIR/objects/storage.yaml" || die "storage: the API server refused the classes"
		K8S_API=$K8S_API K8S_NODE=$K8S_NODE spawn storage python3 "$K8S_DIR/storage.py"
		;;
	stop) halt storage TERM ;;
	*) usage "storage $1" ;;
	esac
}
status() {
	local name pid
	for name in etcd apiserver manager scheduler node storage; do
		if pid=$(pid_of $name); then say "$name runs, pid $pid"; else say "$name does not run"; fi
	done
}

verb=${1:-}
[ $# -eq 0 ] || shift
[ -f "$K8S_HOME/settings" ] || die "no cluster in $K8S_HOME: make k8s-up"
lock
case $verb/$# in
apiserver/1 | kubelet/1 | volume/2 | storage/1 | status/0) "$verb" "$@" ;;
containerd/1 | containerd/2) containerd_ "$@" ;;
image/[2-9]*) image "$@" ;;
*) usage "'$verb' with $# arguments" ;;
esac
