# story.sh - what every story in stories/ begins with; sourced, never run. tests/lib/env.sh with a cluster beside it.
# Expects K8S_HOME (a cluster that is up) and, for stories with a daemon, BUILD. Gives: kubectl and KUBECONFIG, cluster VERB...,
# and a namespace of the story's own in $ns, which is kubectl's default and goes with the story.
# shellcheck shell=bash disable=SC2034
# shellcheck source=tests/lib/env.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../lib/env.sh"
# shellcheck source=tests/e2e/k8s/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
set +e
export no_proxy=$K8S_API_IP NO_PROXY=$K8S_API_IP
[ -f "$K8S_HOME/settings" ] || fail "no cluster in $K8S_HOME: make k8s-up"
cluster() { "$K8S_DIR/cluster.sh" "$@"; }

ns=story-$(basename "$0" .sh | tr '_' '-')-$$
cp "$KUBECONFIG" "$tmp/kubeconfig"
KUBECONFIG=$tmp/kubeconfig
kubectl config set-context --current --namespace="$ns" >/dev/null
kubectl create namespace "$ns" >/dev/null || fail "cannot make the namespace $ns"
end_story() {
	kubectl delete namespace "$ns" --wait=false --request-timeout=10s >/dev/null 2>&1
	tidy
}
trap end_story EXIT
until_ok 30 kubectl get serviceaccount default || fail "no service account in $ns after 30 s"

# pod NAME [IMAGE [CMD...]]: a pod that does nothing, and the wait until it is ready
pod() {
	local name=$1 image=${2:-localhost/busybox:1}
	shift
	[ $# -eq 0 ] || shift
	kubectl run "$name" --image="$image" --image-pull-policy=Never --restart=Never \
		--overrides='{"spec":{"terminationGracePeriodSeconds":0}}' ${1:+--command -- "$@"} >/dev/null || fail "cannot make pod $name"
	kubectl wait pod "$name" --for=condition=Ready --timeout=60s >/dev/null ||
		fail "pod $name is not ready: $(kubectl describe pod "$name" | tail -n 3)"
}
# images: muxd's and muxlet's own, made without an engine, at this node
images() {
	local what
	for what in muxd muxlet; do
		"$here/deploy/image/image.sh" "$what" "$BUILD" "$tmp/$what.tar" "localhost/$what:1" || fail "no image $what"
		ctr -a "$K8S_HOME/run/containerd.sock" -n k8s.io images import "$tmp/$what.tar" >/dev/null || fail "cannot import $what"
	done
}
# The person `story` has a token and no right of its own. as_story ARGUMENTS...: kubectl as that person
as_story() {
	kubectl config set-credentials story --token="$(cat "$K8S_HOME/pki/story.token")" >/dev/null
	kubectl --user=story "$@"
}
