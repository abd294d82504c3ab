#!/bin/bash
# up.sh [full|light]: starts the cluster, or what of it does not run. Root only; build.sh first.
#   full   etcd, API server, controller manager, scheduler, node: what `make k8s-up` gives
#   light  without controller manager, scheduler and service accounts: pods must name their node
. "$(dirname "$0")/lib.sh"
K8S_MODE=${1:-${K8S_MODE:-full}}
. "$K8S_DIR/config.sh"
. "$K8S_DIR/services.sh"

# Directories that containerd and kubelet insist on get a tmpfs each, in the node's namespace; sysctls the kubelet sets for
# itself. What the machine had is noted once for all clusters, and the last that goes restores it: a directory that goes
# sooner would take the mounts of the others with it.
hide() {
	local dir key
	machine_lock
	: >"$K8S_HOME/run/hidden"
	mkdir -p $K8S_SHARED
	for dir in /run/containerd /run/netns /var/log/pods /var/log/containers /etc/cni /var/lib/cni /var/lib/kubelet; do
		echo $dir >>"$K8S_HOME/run/hidden"
		[ -d $dir ] || { mkdir $dir && echo $dir >>$K8S_SHARED/made; }
	done
	if [ ! -e $K8S_SHARED/sysctls ]; then
		for key in vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes; do
			sysctl $key 2>/dev/null || true
		done >$K8S_SHARED/sysctls
	fi
	machine_unlock
}
bridge() {
	local owner=/sys/class/net/$K8S_BRIDGE/ifalias
	if [ -e "$owner" ]; then
		[ "$(cat "$owner")" = "$K8S_HOME" ] || die "the bridge $K8S_BRIDGE belongs to '$(cat "$owner")': end that cluster or choose another K8S_NET"
		return 0
	fi
	# Without an address of its own it takes the lowest of its ports': each pod that comes or goes could change it, and
	# what other pods send goes to the old one, until they ask again.
	ip link add name "$K8S_BRIDGE" address "$(printf '02:00:c6:12:%02x:01' "$K8S_NET")" type bridge || die "cannot make the bridge $K8S_BRIDGE"
	ip link set dev "$K8S_BRIDGE" alias "$K8S_HOME" up
	ip address add "$K8S_NODE_IP/24" dev "$K8S_BRIDGE"
	ip address add "$K8S_API_IP/32" dev "$K8S_BRIDGE"
}
cgroups() {
	local c
	for c in /sys/fs/cgroup/*/; do
		case $c in */unified/) ;; *) mkdir -p "$c$K8S_CGROUP" ;; esac
	done
}
import_images() {
	local tar
	await node 60 ctr -a "$K8S_HOME/run/containerd.sock" version || die "containerd does not answer: $(last containerd)"
	for tar in "$K8S_HOME"/images/*.tar; do
		ctr -a "$K8S_HOME/run/containerd.sock" -n k8s.io images import "$tar" >>"$K8S_HOME/log/images.log" 2>&1 ||
			die "cannot import $tar: $(last images)"
	done
}
# A node of an earlier start is still called ready: what counts is a heartbeat since $1 (UTC, to the second).
node_ready() {
	local status beat
	read -r status beat < <(kubectl get node "$K8S_NODE" -o \
		jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}' --request-timeout=5s; echo)
	[ "$status" = True ] && ! [[ $beat < $1 ]]
}

[ "$(id -u)" -eq 0 ] || die "only root can start a cluster"
[[ $K8S_NET =~ ^[0-9]+$ ]] && [ "$K8S_NET" -le 255 ] || die "K8S_NET is '$K8S_NET': a number of 0 to 255 is wanted"
[[ $K8S_MODE =~ ^(full|light)$ ]] || die "'$K8S_MODE' is neither full nor light"
[ ${#K8S_HOME} -le 80 ] || die "the path $K8S_HOME is too long for the sockets in it: 80 characters at most"
[ -x "$K8S_CACHE/bin/kubelet" ] || die "nothing is built in $K8S_CACHE yet: tests/e2e/k8s/build.sh"
for tool in etcd containerd runc curl openssl ip python3 cc /usr/lib/cni/bridge /bin/busybox; do
	command -v $tool >/dev/null || die "$tool is missing: make setup-k8s"
done
lock
t0=$(date +%s%N)
since() { say "$1 after $((($(date +%s%N) - t0) / 1000000)) ms"; }
start=$(date -u +%Y-%m-%dT%H:%M:%SZ)
mkdir -p "$K8S_HOME"/{conf/cni,containerd,images,log,pids,run}
chmod 0711 "$K8S_HOME"
printf 'K8S_NET=%s\nK8S_PORT=%s\nK8S_MODE=%s\nK8S_IDLE=%s\n' "$K8S_NET" "$K8S_PORT" "$K8S_MODE" "$K8S_IDLE" >"$K8S_HOME/settings"
! gone node || fresh=1
bridge
"$K8S_DIR/pki.sh"
"$K8S_DIR/images.sh"
ulimit -n 20000 2>/dev/null || true
start_etcd
if [ -n "${fresh:-}" ]; then
	hide
	cgroups
	config_containerd
	config_cni
	config_kubelet
	rm -f "$K8S_HOME"/run/*.hold "$K8S_HOME"/run/*.sock*
	start_node
	import_images
fi
start_apiserver
since "API server ready"
[ "$K8S_MODE" = light ] || { start_manager; start_scheduler; }
[ -n "${fresh:-}" ] || start=
await node 120 node_ready "$start" || die "the node is not ready after 120 s: $(last kubelet) ($K8S_HOME/log/kubelet.log)"
[ "$K8S_MODE" = light ] || until_ok 60 kubectl get serviceaccount default -n default ||
	die "no service account after 60 s: $(last manager) ($K8S_HOME/log/manager.log)"
since "node ready"
say "export KUBECONFIG=$KUBECONFIG PATH=$K8S_CACHE/bin:\$PATH no_proxy=$K8S_API_IP"
