#!/bin/bash
# The cluster is one: its node takes pods, exec reaches into them and tells how it ended, service accounts are there, RBAC
# denies what nobody allowed, and losing the API server, the kubelet or containerd for a while kills no pod.
# tier: test
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

equal "the node is ready" "True" "$(kubectl get node -o jsonpath='{.items[*].status.conditions[?(@.type=="Ready")].status}')"
equal "its version" "v$K8S_VERSION" "$(kubectl get node -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}')"

pod box localhost/busybox:1 sh -c 'mkdir /www && echo hello >/www/index.html && httpd -f -p 8080 -h /www'
inside() { timeout 60 kubectl exec -i box -- "$@"; }
equal "a command's output" "hello" "$(inside echo hello </dev/null)"
inside sh -c 'exit 7' </dev/null 2>"$tmp/err"
equal "its exit code" 7 $?
equal "stderr is apart" "e" "$(inside sh -c 'echo o; echo e >&2' </dev/null 2>&1 >/dev/null)"
equal "stdin reaches the end of file" "5" "$(printf hello | inside wc -c)"
pid=$(inside sh -c 'pidof httpd' </dev/null)

pod bare localhost/static:1
equal "an image without a shell" "one two" "$(timeout 60 kubectl exec bare -- /static args one two | xargs)"
timeout 60 kubectl exec bare -- sh -c true 2>"$tmp/err" && fail "an image without a shell ran sh"
grep -q 'executable file not found' "$tmp/err" && ok "the runtime says what is missing" || fail "no reason in: $(cat "$tmp/err")"

account=/var/run/secrets/kubernetes.io/serviceaccount
equal "the account's namespace is mounted" "$ns" "$(inside cat $account/namespace </dev/null)"
token=$(inside cat $account/token </dev/null)
inside cat $account/ca.crt </dev/null >"$tmp/ca.crt"
api=$(inside sh -c 'echo https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT' </dev/null)
# whoever TOKEN: whom the API server takes the bearer for; nobody here may list pods, and it says who may not
whoever() {
	curl -sS --cacert "$tmp/ca.crt" -H "Authorization: Bearer $1" "$api/api/v1/namespaces/$ns/pods" | jq -r '.message | split("\"")[1]'
}
equal "its token is known to the API" "system:serviceaccount:$ns:default" "$(whoever "$token")"
equal "a token of 8 kB is taken" "long" "$(whoever "$(cat "$K8S_HOME/pki/long.token")")"
printf 'GET / HTTP/1.0\r\n\r\n' | inside nc -w 10 "$K8S_API_IP" 443 | grep -q 'HTTP request to an HTTPS server' &&
	ok "the pod reaches the API server" || fail "the pod does not reach $K8S_API_IP:443"
kubectl expose pod box --name=web --port=80 --target-port=8080 --selector=run=box >/dev/null
until_ok 30 kubectl get --raw "/api/v1/namespaces/$ns/services/web:80/proxy/" || fail "the service has no pod"
equal "the API server reaches a service's pod" "hello" "$(kubectl get --raw "/api/v1/namespaces/$ns/services/web:80/proxy/")"

as_story exec box -- true 2>"$tmp/err" && fail "somebody without rights could exec"
grep -q 'pods "box" is forbidden' "$tmp/err" && ok "RBAC denies exec to whom nobody allowed it" || fail "denied otherwise: $(cat "$tmp/err")"
kubectl create role enter --verb=get,create --resource=pods,pods/exec >/dev/null
kubectl create rolebinding enter --role=enter --user=story >/dev/null
until_ok 30 as_story exec box -- true || fail "a role does not allow exec"
ok "a role allows it"
as_story get secrets >"$tmp/out" 2>&1 && fail "the role allows more than it says"
grep -q 'secrets is forbidden' "$tmp/out" && ok "and nothing else" || fail "denied otherwise: $(cat "$tmp/out")"

# The first custom resource crashed an API server that was built without care.
kubectl apply -f - >/dev/null <<E || fail "no custom resource definition"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$ns.example}
spec:
  group: $ns.example
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
E
thing() { kubectl create -f - <<<"{\"apiVersion\": \"$ns.example/v1\", \"kind\": \"Thing\", \"metadata\": {\"name\": \"$1\", \"labels\": {\"a\": \"b\"}}}"; }
kubectl wait crd "things.$ns.example" --for=condition=Established --timeout=60s >/dev/null || fail "the definition is not established"
until_ok 60 thing one || fail "no custom resource"
equal "a custom resource" "b" "$(kubectl get things.$ns.example one -o 'jsonpath={.metadata.labels.a}')"
kubectl delete crd "things.$ns.example" >/dev/null

# A kubelet that has just come back may take one exec and refuse the next: asked until it answers, then the answer counts.
httpd() { inside sh -c 'pidof httpd; echo asked' </dev/null >"$tmp/httpd" && grep -q '^asked$' "$tmp/httpd"; }
alive() {
	until_ok 60 httpd || fail "$1: nobody answers"
	equal "$1" "$pid" "$(sed '/^asked$/d' "$tmp/httpd")"
}
cluster apiserver stop
kubectl get pods --request-timeout=5s >/dev/null 2>&1 && fail "a killed API server answers"
cluster apiserver start
alive "the pod outlives the API server"
cluster kubelet stop
timeout 20 kubectl exec box -- true 2>/dev/null && fail "a killed kubelet answers"
cluster kubelet start
until_ok 60 inside true </dev/null
alive "and the kubelet"

# containerd cuts streams that are silent for too long: the next story may need to know that the cut can be had.
cluster containerd restart 3s
until_ok 60 inside true </dev/null
alive "and containerd"
inside sh -c 'sleep 30; echo late' </dev/null >"$tmp/out" 2>&1
grep -q late "$tmp/out" && fail "a stream silent for 30 s was not cut after 3" || ok "a silent stream is cut after stream_idle_timeout"
cluster containerd restart 4h0m0s
until_ok 60 inside true </dev/null

cluster volume "${ns}" 16Mi
kubectl apply -f - >/dev/null <<E
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: disk}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 1000, runAsNonRoot: true, fsGroup: 1000}
  volumes: [{name: disk, persistentVolumeClaim: {claimName: disk}}]
  containers: [{name: main, image: "localhost/busybox:1", command: [sleep, "3600"], volumeMounts: [{name: disk, mountPath: /workspace}]}]
E
# The scheduler looks again for a claim it has not heard of after a minute: its watch may be late after the API server's end.
kubectl wait pod disk --for=condition=Ready --timeout=150s >/dev/null || fail "no pod with a volume: $(kubectl describe pod disk | tail -n 3)"
kubectl exec disk -- sh -c 'echo mine >/workspace/file' && ok "a volume for user 1000" || fail "user 1000 cannot write to the volume"
kubectl exec disk -- dd if=/dev/zero of=/workspace/big bs=1M count=17 2>&1 | grep -q 'No space left' &&
	ok "a full volume is ENOSPC" || fail "17 MiB fit into a volume of 16 MiB"

mkdir "$tmp/tree" && cp /bin/busybox "$tmp/tree/busybox" && chmod 4755 "$tmp/tree/busybox"
cluster image "$tmp/tree" localhost/made:1 /busybox sleep 3600
pod made localhost/made:1
equal "an image made of a directory" "-rwsr-xr-x" "$(kubectl exec made -- /busybox ls -l /busybox | cut -c1-10)"
