#!/bin/bash
# down.sh [wipe]: ends the cluster, whatever of it runs, and takes away what it put into the machine. wipe: its data too.
. "$(dirname "$0")/lib.sh"

# The node's processes end with its first; their cgroups can go once the last of them has.
remove_cgroups() {
	local c left=0
	for c in /sys/fs/cgroup/*/"$K8S_CGROUP" "/sys/fs/cgroup/$K8S_CGROUP"; do
		[ ! -d "$c" ] || find "$c" -depth -type d -exec rmdir {} + 2>/dev/null || left=1
	done
	return $left
}
no_mounts() { ! grep -q " $K8S_HOME/" /proc/self/mountinfo; }
# leave_machine: the bridge goes; with the last one, what up.sh changed for all
leave_machine() {
	local dir
	machine_lock
	[ "$(cat "/sys/class/net/$K8S_BRIDGE/ifalias" 2>/dev/null)" != "$K8S_HOME" ] || ip link delete "$K8S_BRIDGE"
	if [ -d $K8S_SHARED ] && ! compgen -G '/sys/class/net/muxd-k8s-*' >/dev/null; then
		sysctl -q -p $K8S_SHARED/sysctls
		[ ! -f $K8S_SHARED/made ] || while read -r dir; do rmdir "$dir" 2>/dev/null || true; done <$K8S_SHARED/made
		rm -rf $K8S_SHARED
	fi
	machine_unlock
}

[ -d "$K8S_HOME" ] || exit 0
[ "$(id -u)" -eq 0 ] || die "only root can end a cluster"
lock
# All but etcd can be killed: they keep nothing, and take long to end while watches are open.
halt storage TERM
halt manager KILL
halt scheduler KILL
halt node KILL
halt apiserver KILL
halt etcd TERM
until_ok 30 remove_cgroups || die "processes are left in /sys/fs/cgroup/*/$K8S_CGROUP"
leave_machine
if [ "${1:-}" = wipe ]; then
	until_ok 10 no_mounts || die "something is still mounted below $K8S_HOME"
	rm -rf --one-file-system "$K8S_HOME" "$K8S_HOME.lock"
fi
