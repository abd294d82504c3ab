#!/bin/bash
# The way past the record through a node: the API server hands nodes/proxy to the kubelet, which runs programs in pods by paths of
# its own. First that way is shown to be open, then the shipped webhook closes it, asked at this daemon: no spelling of a path
# (the unit test's table, every tenth; PATHS=1: every one) gets a program of a sandbox to say anything, what enters nothing
# passes, and with the daemon away nothing does. The shipped policy goes through the same where the server knows policies.
# tier: all, whole PATHS=1
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

config=$tmp/webhook.yaml
end_nodeproxy() {
	[ ! -s "$config" ] || kubectl delete -f "$config" --ignore-not-found --request-timeout=10s >/dev/null 2>&1
	kubectl delete namespace "$ns-b" --wait=false --ignore-not-found --request-timeout=10s >/dev/null 2>&1
	[ -z "${DAEMON:-}" ] || stop_daemon
	end_story
}
trap end_nodeproxy EXIT

make -s --no-print-directory -C "$here" build/unit/test_node_path || fail "no table of paths"
kubectl label namespace "$ns" muxd.dev/sandboxes=true "story=$ns" >/dev/null
kubectl create namespace "$ns-b" >/dev/null || fail "no second namespace"
until_ok 30 kubectl -n "$ns-b" get serviceaccount default || fail "no service account"
pod p localhost/busybox:1 sleep 3600
box=$ns
ns=$ns-b
kubectl config set-context --current --namespace="$ns" >/dev/null
pod q localhost/busybox:1 sleep 3600
ns=$box
kubectl config set-context --current --namespace="$ns" >/dev/null
node=$(kubectl get pod p -o jsonpath='{.spec.nodeName}')
proxy=/api/v1/nodes/$node/proxy

# --- as the cluster's administrator, with paths as they are written
field() { kubectl config view --minify --raw -o jsonpath="{.$1}"; }
(umask 077 && field 'users[0].user.client-certificate-data' | base64 -d >"$tmp/crt" && field 'users[0].user.client-key-data' | base64 -d >"$tmp/key")
field 'clusters[0].cluster.certificate-authority-data' | base64 -d >"$tmp/ca"
server=$(field 'clusters[0].cluster.server')
marker=entered-$$
# what runs needs `cmd`, what execs needs `command`, output and input
query="cmd=echo%20$marker&command=echo&command=$marker&output=1&error=1"
curls() { curl -sS --noproxy '*' --path-as-is --cert "$tmp/crt" --key "$tmp/key" --cacert "$tmp/ca" "$@"; }
# at PATH: status and body on one line
at() { curls -X POST -w ' %{http_code}' "$server$proxy$1?$query" | tr '\n' ' '; }
# every N: the table as requests for curl, of every N-th path; "boxes" is this story's namespace, p/c its pod and container
every() {
	"$here/build/unit/test_node_path" --print | awk -F'\t' -v n="$1" 'NR % n == 0 {print $2}' | sed "s/boxes/$box/g; s,/p/uid-1/c,/p/p,; s,/p/u/c,/p/p,; s,/p/c,/p/p," |
		grep -v '[\\ ]' | while IFS= read -r path; do
		printf 'url = "%s%s%s?%s"\nrequest = "POST"\n' "$server" "$proxy" "/${path#/}" "$query"
	done
}
# in_by N: how many of them got the sandbox's program to speak
in_by() {
	every "$1" >"$tmp/requests"
	curls --max-time 120 -K "$tmp/requests" >"$tmp/said" 2>"$tmp/curl" || true
	grep -c "$marker" "$tmp/said"
}
run_in_sandbox() { kubectl create --raw "$proxy/run/$box/p/p?cmd=id" -f /dev/null; }
run_in_sandbox >"$tmp/out" 2>&1 && grep -q uid= "$tmp/out" || fail "the kubelet runs nothing here, so nothing would be tested: $(cat "$tmp/out")"
n=$(in_by 10)
[ "$n" -gt 3 ] && ok "without muxd $n of $(grep -c ^url "$tmp/requests") paths lead into the sandbox" || fail "only $n paths lead in: $(tail -c 300 "$tmp/said")"

# is_closed BY: what holds for webhook and policy alike
is_closed() {
	local n path
	run_in_sandbox >"$tmp/out" 2>&1 && fail "$1: the administrator ran a program in a sandbox"
	grep -q 'entered through muxd' "$tmp/out" && ok "$1: refused, and the way in is told" || fail "$1: refused otherwise: $(cat "$tmp/out")"
	for path in "/run/$box/p/p" "/exec/$box/p/p" "/attach/$box/p/p" "/portForward/$box/p" "/cri/exec/abc" "/RUN/$box/p/p" "//run/$box/p/p" \
		"/%72un/$box/p/p" "/%252e%252e/run/$box/p/p" "/logs/../run/$box/p/p" "/logs/%2e%2e/run/$box/p/p"; do
		[[ $(at "$path") == *' 403 ' || $(at "$path") == *' 403' ]] || fail "$1: $path is not forbidden: $(at "$path")"
	done
	ok "$1: run, exec, attach, portForward and cri are forbidden, however they are written"
	n=$(in_by "$([ -n "${PATHS:-}" ] && echo 1 || echo 10)")
	equal "$1: none of $(grep -c ^url "$tmp/requests") paths leads in" 0 "$n"
	equal "$1: metrics and health pass" "ok" "$(kubectl get --raw "$proxy/healthz")"
	kubectl get --raw "$proxy/metrics/cadvisor" | grep -q container_ || fail "$1: no metrics"
	grep -q "$marker" <<<"$(at "/run/$box-b/q/q")" && ok "$1: other namespaces are as they were" || fail "$1: $(at "/run/$box-b/q/q")"
}

# --- the shipped webhook, at a daemon of the story's own. Its first entry is held to this story's namespace.
cat >"$tmp/muxd.yaml" <<YAML
kubernetes: {kubeconfig: $KUBECONFIG, namespace: $box, admission_user: "system:serviceaccount:muxd:muxd"}
YAML
chmod 711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
python3 - "$here/deploy/kustomize/base/webhook.yaml" "https://$(ready https)/k8s/admission" "$(base64 -w0 <"$MUXD_STATE/keys/tls.crt")" "$box" >"$config" <<'P'
import sys, yaml
o = yaml.safe_load(open(sys.argv[1]))
o["metadata"]["name"] = sys.argv[4]
for w in o["webhooks"]:
    w["clientConfig"] = {"url": sys.argv[2], "caBundle": sys.argv[3]}
    if "namespaceSelector" in w:
        w["namespaceSelector"]["matchLabels"]["story"] = sys.argv[4]
print(yaml.safe_dump(o))
P
kubectl apply -f "$config" >/dev/null || fail "the webhook is not taken"
is_refused() { ! run_in_sandbox; }
wait_for 20 is_refused || fail "the webhook closes nothing"
is_closed webhook
stop_daemon
DAEMON=
kubectl get --raw "$proxy/healthz" >"$tmp/out" 2>&1 && fail "with muxd away the node can be reached"
grep -q 'failed calling webhook' "$tmp/out" && ok "while muxd is away nothing passes" || fail "muxd is away: $(cat "$tmp/out")"
kubectl delete -f "$config" >/dev/null
is_open() { run_in_sandbox; }
wait_for 20 is_open || fail "the webhook is gone, and nothing passes"

# --- the shipped policy, where there are policies
if kubectl get --raw /apis/admissionregistration.k8s.io/v1 2>/dev/null | grep -q validatingadmissionpolicies; then
	python3 - "$here/deploy/kustomize/policy/policy.yaml" "$box" >"$config" <<'P'
import sys, yaml
own = sys.argv[2]
objects = list(yaml.safe_load_all(open(sys.argv[1])))
for o in objects:
    o["metadata"]["name"] += "-" + own
    spec = o["spec"]
    if "policyName" in spec:
        spec["policyName"] += "-" + own
    for selector in [spec.get("matchConstraints", {}).get("namespaceSelector"), spec.get("paramRef", {}).get("selector")]:
        if selector:
            selector["matchLabels"]["story"] = own
print(yaml.safe_dump_all(objects))
P
	kubectl apply -f "$config" >/dev/null || fail "the policy is not taken"
	wait_for 60 is_refused || fail "the policy closes nothing"
	is_closed policy
else
	echo "  not run: the policy (this server is $(kubectl get --raw /version | jq -r .gitVersion); policies came with 1.30)"
fi
