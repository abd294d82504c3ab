#!/bin/bash
# prepare.sh: makes this machine fit for a cluster: looks whether it may do what a node needs, and installs packages. When it
# cannot be done, prints why, in one line, and ends with 69.
cd "$(dirname "$0")/../../.." || exit 1

unfit() {
	echo "$*"
	exit 69
}
[ "${K8S:-}" != 0 ] || unfit "K8S=0 asks for none"
[ "$(id -u)" -eq 0 ] || unfit "not root"
# shellcheck disable=SC2016
unshare --mount --pid --net --fork --kill-child --mount-proc sh -c 'mount --make-rprivate / && mount -t tmpfs tmpfs /mnt' 2>/dev/null ||
	unfit "no mount, pid and network namespaces (unshare is refused)"
# The node was seen to work with the controllers of cgroup v1, each in a hierarchy of its own or with v2 beside it.
for c in cpu cpuacct cpuset memory pids devices freezer blkio; do
	[ -d /sys/fs/cgroup/$c ] || unfit "no cgroup v1 controller '$c' (cgroup v2 alone is not supported by these scripts)"
	mkdir "/sys/fs/cgroup/$c/muxd-k8s-try-$$" 2>/dev/null || unfit "cgroup '$c' is not writable"
	rmdir "/sys/fs/cgroup/$c/muxd-k8s-try-$$"
done
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || unfit "the kernel has no overlayfs"
why=$(make -s --no-print-directory setup-k8s 2>&1) || unfit "packages are missing: $(tail -n 1 <<<"$why")"
# Whoever is root in a user namespace only is refused here.
try=muxd-try-$$
ip link add name $try type bridge 2>/dev/null && ip link delete $try || unfit "no bridge can be made on this machine"
unshare --net ip link add name ve0 type veth peer name ve1 2>/dev/null || unfit "the kernel has no veth pairs"
