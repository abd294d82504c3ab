#!/bin/bash
# Sandboxes as pods, and pods of others: every way muxlet comes into a container and every reason it cannot; what a cap
# promises and keeps; what goes wrong at a start, in the cluster's own words; ends that others bring about.
# By the provider alone (link_probe); the daemon's own story is link.sh.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make -s --no-print-directory -C "$here" "$(realpath --relative-to="$here" "$BUILD")/e2e/link_probe" || fail "link_probe does not build"
export MUXLET=$BUILD/muxlet
# probe OPTIONS -- VERB NAME...: stdout; what it says of itself is in $tmp/said, its exit code is the probe's
probe() {
	local opts=()
	while [ "$1" != -- ]; do opts+=("$1") && shift; done
	shift
	timeout 120 "$BUILD/e2e/link_probe" -n "$ns" "${opts[@]}" "$KUBECONFIG" "$@" 2>"$tmp/said" </dev/null
}
# said WHAT PATTERN
said() { grep -qE -- "$2" "$tmp/said" && ok "$1" || fail "$1: no '$2' in: $(tail -n 5 "$tmp/said")"; }
labels() { kubectl get pod "$1" -o jsonpath="{.metadata.labels.$2}"; }

# ---- by each way into the container
mkdir -p "$tmp/muxlet/usr/local/bin" "$tmp/both"/{bin,usr/local/bin,tmp}
install -m 755 "$BUILD/muxlet" "$tmp/muxlet/usr/local/bin/muxlet"
install -m 755 "$BUILD/muxlet" "$tmp/both/usr/local/bin/muxlet"
install -m 755 /bin/busybox "$tmp/both/bin/busybox"
for a in sh sleep cat echo uname mkdir chmod rm rmdir; do ln -s busybox "$tmp/both/bin/$a"; done
cluster image "$tmp/muxlet" localhost/muxlet:1
cluster image "$tmp/both" localhost/both:1

equal "streamed into a pod that has none" "1000 /workspace" "$(probe -- exec streamed sh -c 'echo "$(id -u) $PWD"')"
said "and it says so" 'backend=link delivery=stream'
equal "its labels" "streamed" "$(labels muxd-streamed agent_id)"
[[ $(labels muxd-streamed compute_session_id) =~ ^[0-9a-f-]{36}$ ]] && ok "with an id of its own" || fail "no compute_session_id"
probe -- exec streamed true && said "found again where it was put" 'delivery=stream' || fail "no second stream: $(cat "$tmp/said")"
# muxlets POD N: are there so many?
muxlets() { [ "$(kubectl exec "$1" -- ps | grep -c '[m]uxlet --join')" = "$2" ]; }
wait_for 30 muxlets muxd-streamed 1 && ok "one daemon, whoever asks, and no exec is left" || fail "$(kubectl exec muxd-streamed -- ps)"
probe -m 02 -- exec streamed true || fail "$(cat "$tmp/said")"
wait_for 30 muxlets muxd-streamed 2 && ok "another daemon, with another secret, has a muxlet of its own" || fail "$(kubectl exec muxd-streamed -- ps)"
equal "in the image" "here" "$(probe -i localhost/both:1 -- exec image echo here)"
said "and it says so" 'delivery=image'
equal "by an init container, into an image without a shell" "one two" "$(probe -i localhost/static:1 -I localhost/muxlet:1 -- exec init /static args one two | xargs)"
said "and it says so" 'delivery=init'
equal "without a token of the cluster" "absent" "$(probe -- exec streamed sh -c '[ -e /var/run/secrets/kubernetes.io ] || echo absent')"
equal "without a capability" "0000000000000000" "$(probe -- exec streamed sh -c 'grep CapEff /proc/self/status' | awk '{print $2}')"

# ---- pods of others
kubectl apply -f - >/dev/null <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: web, image: localhost/busybox:1, imagePullPolicy: Never, command: [sleep, "100000"], workingDir: /tmp}
  - {name: side, image: localhost/busybox:1, imagePullPolicy: Never, command: [sleep, "100000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: sealed}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    imagePullPolicy: Never
    command: [sleep, "100000"]
    securityContext: {readOnlyRootFilesystem: true, runAsUser: 1234}
  - name: loose
    image: localhost/busybox:1
    imagePullPolicy: Never
    command: [sleep, "100000"]
    securityContext: {readOnlyRootFilesystem: true, runAsUser: 1234}
    volumeMounts: [{name: t, mountPath: /tmp}]
  volumes: [{name: t, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/static:1", imagePullPolicy: Never}]
Y
kubectl wait pod two sealed bare --for=condition=Ready --timeout=60s >/dev/null || fail "pods are not ready"
probe -- resolve "$ns/two"
said "several containers: the list" 'invalid_request: pod two has the containers web and side'
probe -- exec "$ns/two" true
said "the same for whoever goes in" 'invalid_request: pod two has the containers web and side'
probe -- resolve "$ns/bare"
said "one container: its name" "name: $ns/bare/main"
equal "a container of others, where its image begins" "0 /tmp" "$(probe -- exec "$ns/two/web" sh -c 'echo "$(id -u) $PWD"')"
probe -- destroy "$ns/two/web"
said "is not ended here" 'unsupported: .*is a pod of others'
probe -- exec "$ns/bare/main" true
said "no shell" 'unsupported: .*there is no shell, and no muxlet in the image'
probe -- exec "$ns/sealed/main" true
said "nowhere to write" 'unsupported: .*no directory there is writable and not mounted noexec'
equal "a directory to write in is enough" "1234" "$(probe -- exec "$ns/sealed/loose" id -u)"
probe -- exec "$ns/nobody/main" true
said "no such pod" 'not_found: there is no pod nobody'
probe -- exec "$ns/two/third" true
said "no such container: the list" 'not_found: pod two has no container third, only web and side'

# ---- caps
cluster volume "cap-$$" 64Mi # of the default class, made by hand: nobody here takes it
cluster storage start || fail "no storage"
[ "$(probe -w claim -C loop -s 67108864 -- exec claimed sh -c 'echo kept >keep; head -c 100000000 /dev/zero >big; echo $?; rm big' 2>&1)" = 1 ] &&
	said "a claim: a write past its size fails" 'cap=yes' || fail "a claim has no cap: $(cat "$tmp/said")"
probe -- exec claimed-not sh -c true
said "an emptyDir on disk has no cap, and says so" 'cap=no .*workspace cap not enforced'
probe -w claim -C loop -s 67108864 -- destroy claimed && kubectl get pvc muxd-claimed >/dev/null && ok "the workspace outlives its pod" || fail "$(cat "$tmp/said")"
equal "with what is in it" kept "$(probe -w claim -C loop -s 67108864 -- exec claimed cat keep)"
probe -w claim -C loop -s 67108864 -- wipe claimed
until_ok 30 sh -c '! kubectl get pvc muxd-claimed 2>/dev/null | grep -q .' && ok "until it is wiped" || fail "the claim is still there"
probe -w memory -s 16777216 -- exec inmemory sh -c 'head -c 30000000 /dev/zero >big' 2>/dev/null
code=$?
if grep -q 'cap=yes' "$tmp/said"; then equal "memory: the cap that it promises holds" 1 $code; else equal "memory: no cap, none promised" 0 $code; fi

# ---- what goes wrong at a start
probe -i localhost/no-such:1 -t 60 -- exec wrong true
said "an image that never comes is told at once" 'sandbox_create_failed: .*ErrImageNeverPull'
probe -- exec wrong true && ok "mended: the pod that never began is made anew" || fail "$(cat "$tmp/said")"
probe -i localhost:9/no-such:1 -p Always -t 8 -- exec slow true
said "an image that does not come in time" 'sandbox_create_timeout: .*(ErrImagePull|ImagePullBackOff)'
probe -c 1000 -t 4 -- exec greedy true
said "no room on any node" 'sandbox_create_timeout: .*Unschedulable: .*Insufficient cpu'
probe -w claim -s 1099511627776 -t 4 -- exec huge true
said "no volume" 'sandbox_create_timeout: .*(persistentvolumeclaim|volume)'
kubectl run muxd-taken --image=localhost/busybox:1 --image-pull-policy=Never --restart=Never --command -- sleep 1000 >/dev/null
probe -- exec taken true
said "a pod of that name that muxd did not make" 'k8s_conflict: pod muxd-taken .*muxd did not make it'
probe -- destroy taken
said "is not ended either" 'k8s_conflict'
kubectl config set-credentials story --token="$(cat "$K8S_HOME/pki/story.token")" >/dev/null
sed 's/user: .*/user: story/' "$KUBECONFIG" >"$tmp/story.kubeconfig"
KUBECONFIG=$tmp/story.kubeconfig probe -- exec anyone true
said "who may not is told in the server's words" 'k8s_forbidden: .*cannot get resource "pods"'

# ---- ends
timeout 120 "$BUILD/e2e/link_probe" -n "$ns" "$KUBECONFIG" exec "$ns/two/side" sleep 1000 2>"$tmp/restart" </dev/null &
pid=$!
wait_for 30 grep -q 'up, stream' "$tmp/restart" || fail "no stream: $(cat "$tmp/restart")"
timeout 120 "$BUILD/e2e/link_probe" -n "$ns" "$KUBECONFIG" exec streamed sleep 1000 2>"$tmp/deleted" </dev/null &
pid2=$!
wait_for 30 grep -q 'up, stream' "$tmp/deleted" || fail "no stream: $(cat "$tmp/deleted")"
in_node_pid=$(kubectl get pod two -o jsonpath='{.status.containerStatuses[?(@.name=="side")].containerID}' | sed 's|containerd://||')
ctr -a "$K8S_HOME/run/containerd.sock" -n k8s.io task kill -s KILL "$in_node_pid"
kubectl delete pod muxd-streamed --wait=false >/dev/null
wait $pid
equal "a container that is restarted ends what runs in it" 93 $?
grep -qE "gone: $ns/two/side: its container was restarted" "$tmp/restart" && ok "with that cause" || fail "$(cat "$tmp/restart")"
wait $pid2
equal "a pod that is deleted likewise" 93 $?
grep -q 'gone: streamed: its pod was deleted' "$tmp/deleted" && ok "with that cause" || fail "$(cat "$tmp/deleted")"
probe -- attach streamed true
said "it is not made again by who only comes back" 'not_found: there is no pod muxd-streamed'
probe -- destroy image && kubectl get pod muxd-image >/dev/null 2>&1 && fail "the pod is still there"
ok "destroyed: gone when that is said"
probe -- destroy image && ok "gone already is no error" || fail "$(cat "$tmp/said")"
probe -- stat image
said "what is gone is absent" 'image absent'
probe -- list
said "the list has the others" 'init running'
grep -q 'taken' "$tmp/said" && fail "the list has a pod that is not muxd's"
kubectl get pods -o name | grep -q . # the namespace takes the rest along
