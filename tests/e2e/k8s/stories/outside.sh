#!/bin/bash
# The configuration of docs/kubernetes.md for a kubeconfig outside the cluster, pasted: its namespace, image and classes are this cluster's, the
# rights those of the roles that it names, and nothing more is needed for a sandbox whose files outlive it.
# tier: test
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

end_outside() {
	[ -z "${DAEMON:-}" ] || stop_daemon
	kubectl delete clusterrole,clusterrolebinding "$ns" --ignore-not-found --request-timeout=10s >/dev/null 2>&1
	end_story
}
trap end_outside EXIT
cluster storage start || fail "no storage"
chmod 711 "$tmp"

# the account: the two roles of the manifests, one of them in this namespace
python3 - "$here/deploy/kustomize/base/rbac.yaml" "$ns" >"$tmp/roles.yaml" <<'P'
import sys, yaml
roles = [o for o in yaml.safe_load_all(open(sys.argv[1])) if o and (o["kind"], o["metadata"]["name"]) in (("Role", "muxd"), ("ClusterRole", "muxd-cluster"))]
for o in roles:
    if o["kind"] == "Role":
        o["metadata"]["namespace"] = sys.argv[2]
    else:
        o["metadata"]["name"] = sys.argv[2]
print(yaml.safe_dump_all(roles))
P
kubectl apply -f "$tmp/roles.yaml" >/dev/null || fail "no roles"
kubectl create serviceaccount outside >/dev/null
kubectl create rolebinding outside --role=muxd --serviceaccount="$ns:outside" >/dev/null
kubectl create clusterrolebinding "$ns" --clusterrole="$ns" --serviceaccount="$ns:outside" >/dev/null
token=$(kubectl create --raw "/api/v1/namespaces/$ns/serviceaccounts/outside/token" -f - \
	<<<'{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token)
(umask 077 && kubectl config view --minify --raw -o json | jq --arg token "$token" '.users[0].user = {token: $token}' >"$tmp/anna")
KUBECONFIG=$tmp/anna kubectl auth can-i get secrets >/dev/null && fail "the account may more than these roles"

"$here/tests/lib/readme_config.py" "$here/docs/kubernetes.md" "kubernetes.kubeconfig=$tmp/anna" "kubernetes.namespace=$ns" kubernetes.image=localhost/busybox:1 \
	kubernetes.pull_policy=Never kubernetes.storage_class=loop sandbox.workspace_size=48MiB kubernetes.request_memory=32Mi kubernetes.request_cpu=10m >"$tmp/muxd.yaml" || fail "docs/kubernetes.md has no such configuration"
equal "it is correct" "$tmp/muxd.yaml: correct" "$("$BUILD/muxd" check-config "$tmp/muxd.yaml" 2>&1)"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
equal "an agent's sandbox is a pod" "1000 /workspace" "$(muxctl exec -n demo -- sh -c 'echo kept >file; echo "$(id -u) $PWD"')"
equal "in that namespace" "muxd-demo" "$(kubectl get pods -l agent_id=demo -o jsonpath='{.items[0].metadata.name}')"
muxctl sandbox stop demo >"$tmp/out" 2>&1 || fail "it does not sleep: $(cat "$tmp/out")"
is_gone() { [ -z "$(kubectl get pods -l agent_id=demo -o name)" ]; }
wait_for 60 is_gone || fail "its pod stays"
equal "its files outlive it" "kept" "$(muxctl exec -n demo -- cat file)"
