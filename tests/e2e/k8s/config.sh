# config.sh - writes the configuration of the node's parts. Sourced after lib.sh.
# shellcheck shell=bash

# restrict_oom_score_adj: without CAP_SYS_RESOURCE no process may lower its score, and no container would start.
# snapshotter: overlayfs wants an upper directory that is no overlay itself.
config_containerd() {
	local snapshotter=overlayfs
	[ "$(stat -f -c %T "$K8S_HOME")" != overlayfs ] || snapshotter=native
	cat >"$K8S_HOME/conf/containerd.toml" <<-E
		version = 2
		root = "$K8S_HOME/containerd/root"
		state = "$K8S_HOME/containerd/state"
		disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
		  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]
		[grpc]
		  address = "$K8S_HOME/run/containerd.sock"
		[debug]
		  address = "$K8S_HOME/run/containerd-debug.sock"
		[plugins."io.containerd.internal.v1.opt"]
		  path = "$K8S_HOME/containerd/opt"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:1"
		  stream_idle_timeout = "$K8S_IDLE"
		  restrict_oom_score_adj = true
		  disable_hugetlb_controller = true
		  tolerate_missing_hugetlb_controller = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$K8S_HOME/conf/cni"
		  [plugins."io.containerd.grpc.v1.cri".containerd]
		    snapshotter = "$snapshotter"
		    default_runtime_name = "runc"
		    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		      runtime_type = "io.containerd.runc.v2"
		      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		        BinaryName = "/usr/sbin/runc"
		        SystemdCgroup = false
	E
}
# The bridge and its addresses are up.sh's: the plug-in is no gateway, so it leaves forwarding off, and pods reach each
# other, the node and the API server, and nothing else.
config_cni() {
	cat >"$K8S_HOME/conf/cni/10-bridge.conflist" <<-E
		{"cniVersion": "0.4.0", "name": "pods", "plugins": [
		  {"type": "bridge", "bridge": "$K8S_BRIDGE", "isGateway": false, "ipMasq": false,
		   "ipam": {"type": "host-local", "dataDir": "$K8S_HOME/run/cni",
		            "ranges": [[{"subnet": "$K8S_PODS", "gateway": "$K8S_NODE_IP"}]],
		            "routes": [{"dst": "0.0.0.0/0"}]}}]}
	E
}
config_kubelet() {
	cat >"$K8S_HOME/conf/kubelet.yaml" <<-E
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $K8S_NODE_IP
		port: $((K8S_PORT + 2))
		readOnlyPort: 0
		healthzBindAddress: 127.0.0.1
		healthzPort: $((K8S_PORT + 3))
		tlsCertFile: $K8S_HOME/pki/kubelet-server.crt
		tlsPrivateKeyFile: $K8S_HOME/pki/kubelet-server.key
		authentication:
		  anonymous: {enabled: false}
		  webhook: {enabled: true}
		  x509: {clientCAFile: $K8S_HOME/pki/ca.crt}
		authorization: {mode: Webhook}
		cgroupDriver: cgroupfs
		cgroupRoot: /$K8S_CGROUP
		nodeStatusUpdateFrequency: 1s
		syncFrequency: 1s
		kubeAPIQPS: 100
		kubeAPIBurst: 200
		failSwapOn: false
		makeIPTablesUtilChains: false
		resolvConf: ""
		oomScoreAdj: 0
		maxOpenFiles: 20000
		volumePluginDir: $K8S_HOME/kubelet/plugins
		evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
	E
}
