#!/bin/bash
# node.sh: pid 1 of the node's namespaces, started by services.sh. Mounts what the node must not share with the machine, then
# keeps containerd and kubelet running: one that dies or is killed comes again, unless run/NAME.hold is there.
. "$(dirname "$0")/lib.sh"

# Nothing that is mounted from here on is seen outside; inside, mounts spread into pods that ask for it.
mount --make-rprivate /
mount --make-rshared /
while read -r dir; do mount -t tmpfs -o mode=0755 tmpfs "$dir"; done <"$K8S_HOME/run/hidden"
: >"$K8S_HOME/run/resolv.conf"
mount --bind "$K8S_HOME/run/resolv.conf" /etc/resolv.conf
cd "$K8S_HOME" || exit
for volume in volumes/*.img; do [ ! -e "$volume" ] || mount -o loop "$volume" "${volume%.img}"; done

# keep NAME COMMAND...
keep() {
	local name=$1
	shift
	while :; do
		until [ ! -e "run/$name.hold" ]; do sleep 0.1; done
		"$@" >>"log/$name.log" 2>&1 &
		echo $! >"run/$name.pid"
		wait $! || echo "$name ended: $?" >>"log/$name.log"
		rm -f "run/$name.pid"
		sleep 0.2
	done
}
keep containerd containerd -c conf/containerd.toml &
# The kubelet waits for containerd by itself.
keep kubelet kubelet --config=conf/kubelet.yaml --kubeconfig=pki/node.kubeconfig --hostname-override="$K8S_NODE" \
	--node-ip="$K8S_NODE_IP" --root-dir="$K8S_HOME/kubelet" --cert-dir="$K8S_HOME/run/kubelet" --container-runtime=remote \
	--container-runtime-endpoint="unix://$K8S_HOME/run/containerd.sock" --containerd="$K8S_HOME/run/containerd.sock" &
# Orphans of containers end up here; bash reaps them while it waits.
while :; do wait -n || true; sleep 1; done
