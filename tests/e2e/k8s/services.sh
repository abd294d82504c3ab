# services.sh - starts the parts of the control plane. Sourced after lib.sh; each does nothing if its part runs.
# shellcheck shell=bash

start_etcd() {
	spawn etcd etcd --name test --data-dir "$K8S_HOME/etcd" --logger zap \
		--listen-client-urls "http://$K8S_ETCD" --advertise-client-urls "http://$K8S_ETCD" \
		--listen-peer-urls "http://127.0.0.1:$((K8S_PORT + 1))" \
		--initial-advertise-peer-urls "http://127.0.0.1:$((K8S_PORT + 1))" \
		--initial-cluster "test=http://127.0.0.1:$((K8S_PORT + 1))"
	await etcd 60 curl -sf -m 5 "http://$K8S_ETCD/health" || die "etcd does not answer: $(last etcd) ($K8S_HOME/log/etcd.log)"
}
# It listens on the address that is also the service `kubernetes` in the cluster: pods reach it without kube-proxy.
# enable-aggregator-routing: webhooks that name a service are called at its pods, for the same reason.
start_apiserver() {
	local p=$K8S_HOME/pki admission=()
	[ "$K8S_MODE" = full ] || admission=(--disable-admission-plugins=ServiceAccount)
	spawn apiserver kube-apiserver --etcd-servers="http://$K8S_ETCD" --bind-address="$K8S_API_IP" --secure-port=443 \
		--tls-cert-file="$p/apiserver.crt" --tls-private-key-file="$p/apiserver.key" --client-ca-file="$p/ca.crt" \
		--token-auth-file="$p/tokens.csv" --authorization-mode=Node,RBAC --allow-privileged=true \
		--kubelet-client-certificate="$p/kubelet-client.crt" --kubelet-client-key="$p/kubelet-client.key" \
		--kubelet-certificate-authority="$p/ca.crt" --kubelet-preferred-address-types=InternalIP \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$p/sa.pub" \
		--service-account-signing-key-file="$p/sa.key" --service-cluster-ip-range="$K8S_SERVICES" \
		--enable-aggregator-routing=true --cert-dir="$K8S_HOME/run/apiserver" --profiling=false "${admission[@]}"
	await apiserver 120 curl -sf -m 5 --cacert "$p/ca.crt" "$K8S_API/readyz" ||
		die "the API server is not ready: $(last apiserver) ($K8S_HOME/log/apiserver.log)"
}
start_manager() {
	spawn manager kube-controller-manager --kubeconfig="$K8S_HOME/pki/manager.kubeconfig" --leader-elect=false \
		--bind-address=127.0.0.1 --secure-port=$((K8S_PORT + 4)) --port=0 --cert-dir="$K8S_HOME/run/manager" \
		--use-service-account-credentials=true --service-account-private-key-file="$K8S_HOME/pki/sa.key" \
		--root-ca-file="$K8S_HOME/pki/ca.crt" --cluster-signing-cert-file="$K8S_HOME/pki/ca.crt" \
		--cluster-signing-key-file="$K8S_HOME/pki/ca.key" --kube-api-qps=100 --kube-api-burst=200 \
		--controllers='*,-cloud-node-lifecycle,-route,-service'
}
start_scheduler() {
	spawn scheduler kube-scheduler --kubeconfig="$K8S_HOME/pki/scheduler.kubeconfig" --leader-elect=false \
		--bind-address=127.0.0.1 --secure-port=$((K8S_PORT + 5)) --port=0 --cert-dir="$K8S_HOME/run/scheduler"
}
# The node: one mount and pid namespace for containerd, kubelet and all pods. Its first process ends it whole.
start_node() {
	spawn node unshare --mount --pid --fork --kill-child=SIGKILL --mount-proc bash "$K8S_DIR/node.sh"
}
