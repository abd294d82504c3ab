# lib.sh - what the scripts of the test cluster share: settings, places, processes kept by pid. Sourced, never run.
# shellcheck shell=bash disable=SC2034
#
# K8S_NET    0 to 255: the cluster's number; another number is another cluster beside it
# K8S_HOME   all that a cluster has on disk: keys, data, logs, pids
# K8S_CACHE  what was built once for this machine; outlives clusters
# K8S_PORT   first of ten ports, on loopback and on the cluster's own bridge
# K8S_IDLE   containerd's stream_idle_timeout
set -eu
K8S_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
K8S_VERSION=1.20.2
K8S_CACHE=${K8S_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/muxd-k8s-$K8S_VERSION-1}
K8S_HOME=$(realpath -m "${K8S_HOME:-/tmp/muxd-k8s-${K8S_NET:-0}}")
# A cluster that was made keeps the number it was made with.
# shellcheck source=/dev/null
[ ! -f "$K8S_HOME/settings" ] || . "$K8S_HOME/settings"
K8S_NET=${K8S_NET:-0}
K8S_PORT=${K8S_PORT:-$((16400 + 10 * K8S_NET))}
K8S_IDLE=${K8S_IDLE:-4h0m0s}

# Addresses of the range for benchmarks (RFC 2544), which no network uses; both are on the bridge and go nowhere else.
K8S_BRIDGE=muxd-k8s-$K8S_NET
K8S_NODE=node
K8S_NODE_IP=198.18.$K8S_NET.1
K8S_PODS=198.18.$K8S_NET.0/24
K8S_SERVICES=198.19.$K8S_NET.0/24
K8S_API_IP=198.19.$K8S_NET.1
K8S_API=https://$K8S_API_IP:443
K8S_CGROUP=muxd-k8s-$K8S_NET
K8S_ETCD=127.0.0.1:$K8S_PORT
# What clusters share while there is any: what to put back when the last one goes.
K8S_SHARED=/run/muxd-k8s
KUBECONFIG=$K8S_HOME/admin.kubeconfig
# Debian's programs before whatever else the machine has by these names.
PATH=$K8S_CACHE/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export KUBECONFIG PATH K8S_HOME K8S_CACHE
# What the machine's proxy reaches, the cluster is not.
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

say() { echo "k8s: $*"; }
# die TEXT: one line on stderr, and the end
die() {
	echo "k8s: $*" >&2
	exit 1
}
# until_ok SECONDS COMMAND...: again and again, until it succeeds
until_ok() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# A process is known by its pid and its start time, so that a pid that came to somebody else is never touched. A zombie is
# gone: whoever inherits it may be slow to notice.
started() { sed -n 's/^.*) \([^Z] .*\)/\1/p' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
# pid_of NAME: prints the pid of what spawn() started; fails if that is gone
pid_of() {
	local pid start
	[ -f "$K8S_HOME/pids/$1" ] && read -r pid start <"$K8S_HOME/pids/$1" || return 1
	[ -n "$start" ] && [ "$(started "$pid")" = "$start" ] && echo "$pid"
}
gone() { ! pid_of "$1" >/dev/null; }
# spawn NAME COMMAND...: in the background, in a session of its own, unless it runs; output goes to log/NAME.log
spawn() {
	local name=$1 pid
	shift
	gone "$name" || return 0
	setsid "$@" >>"$K8S_HOME/log/$name.log" 2>&1 </dev/null 8>&- 9>&- &
	pid=$!
	echo "$pid $(started $pid)" >"$K8S_HOME/pids/$name"
}
# halt NAME SIGNAL: ends it and waits until it is gone
halt() {
	local pid
	if pid=$(pid_of "$1"); then
		kill "-$2" "$pid"
		until_ok 20 gone "$1" || kill -KILL "$pid"
		until_ok 20 gone "$1" || die "$1 (pid $pid) does not end"
	fi
	rm -f "$K8S_HOME/pids/$1"
}
# await NAME SECONDS COMMAND...: until the command succeeds; fails at once when NAME ends before
await() {
	local name=$1 seconds=$2
	shift 2
	until_ok "$seconds" gone_or "$name" "$@" && ! gone "$name" && return 0
	! gone "$name" || echo "k8s: $name ended" >&2
	return 1
}
gone_or() {
	local name=$1
	shift
	gone "$name" || "$@"
}
# last NAME: the last complaint of its log, for an error line; etcd's is JSON
last() { tail -n 1 "$K8S_HOME/log/$1.log" 2>/dev/null | sed -E 's/^\{.*"error":"([^"]*)".*/\1/' | cut -c1-300; }
# in_node COMMAND...: in the mount and pid namespace where containerd, kubelet and pods live
in_node() {
	local pid
	pid=$(pid_of node) || die "the node is not running; $K8S_HOME/log/node.log may say why"
	nsenter --mount="/proc/$pid/ns/mnt" --pid="/proc/$pid/ns/pid_for_children" -- "$@"
}
# lock: one script at a time per cluster; free again when it ends
lock() {
	exec 9>"$K8S_HOME.lock"
	flock -w 300 9 || die "another script works on $K8S_HOME"
}
# machine_lock, machine_unlock: one at a time on this machine (a directory, so that no lock file stays)
machine_lock() {
	exec 8</run
	flock -w 60 8 || die "another script holds the lock on /run"
}
machine_unlock() { exec 8<&-; }
