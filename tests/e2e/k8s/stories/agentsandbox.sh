#!/bin/bash
# Pods held by Sandbox objects of agents.x-k8s.io, by the provider alone (link_probe). The definitions are the tests' own, and
# hold.py plays that project's controller: what is shown is that muxd writes what the API asks for and waits for what comes of it.
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make -s --no-print-directory -C "$here" "$(realpath --relative-to="$here" "$BUILD")/e2e/link_probe" || fail "link_probe does not build"
export MUXLET=$BUILD/muxlet
cluster storage start || fail "no storage"
controller=
end_controller() {
	[ -z "$controller" ] || kill "$controller" 2>/dev/null
	controller=
}
trap 'end_controller; end_story' EXIT
begin_controller() {
	K8S_API=$K8S_API python3 "$K8S_DIR/hold.py" "$ns" "$1" >"$tmp/controller" 2>&1 &
	controller=$!
}
version=v1alpha1
probe() {
	local opts=()
	while [ "$1" != -- ]; do opts+=("$1") && shift; done
	shift
	timeout 180 "$BUILD/e2e/link_probe" -n "$ns" -H $version -w claim -s 67108864 -C loop "${opts[@]}" "$KUBECONFIG" "$@" 2>"$tmp/said" </dev/null
}
said() { grep -qE -- "$2" "$tmp/said" && ok "$1" || fail "$1: no '$2' in: $(tail -n 5 "$tmp/said")"; }
field() { kubectl get "sandboxes.$version.agents.x-k8s.io" "$1" -o jsonpath="$2"; }

kubectl delete crd sandboxes.agents.x-k8s.io --ignore-not-found >/dev/null
probe -t 30 -- exec thread-1 true
said "a cluster without the project says what to do" 'unsupported: the cluster knows no Sandbox \(agents.x-k8s.io/v1alpha1\)'
kubectl apply -f "$K8S_DIR/objects/sandboxes.yaml" >/dev/null || fail "the definitions are refused"
kubectl wait --for=condition=Established --timeout=30s crd sandboxes.agents.x-k8s.io >/dev/null
until_ok 30 kubectl get sandboxes.v1beta1.agents.x-k8s.io || fail "the kind is not served"

probe -t 4 -- exec thread-1 true
said "without its controller nothing happens, and that is said" 'sandbox_create_timeout: Sandbox investigation-thread-1 .*status is empty: does the controller of agent-sandbox run'
equal "one object for each thread" thread-1 "$(field investigation-thread-1 '{.metadata.labels.thread-id}')"
for version in v1alpha1 v1beta1; do
	box=thread-$version
	begin_controller $version
	equal "$version: made when it is missing, and reached" "kept" "$(probe -T 7200 -- exec $box sh -c 'echo kept >keep; cat keep; sync' || cat "$tmp/said")"
	said "$version: through muxlet" 'backend=link .*workspace=yes'
	[ "$(field investigation-$box '{.spec.shutdownPolicy}')" = Delete ] && [[ $(field investigation-$box '{.spec.shutdownTime}') =~ ^20.*Z$ ]] &&
		ok "$version: with an end of its own" || fail "$(field investigation-$box '{.spec}')"
	ends=$(field investigation-$box '{.spec.shutdownTime}')
	probe -T 7200 -- destroy $box || fail "$(cat "$tmp/said")"
	if [ $version = v1alpha1 ]; then
		equal "$version: asleep" 0 "$(field investigation-$box '{.spec.replicas}')"
	else
		equal "$version: asleep" Suspended "$(field investigation-$box '{.spec.operatingMode}')"
	fi
	kubectl get pod investigation-$box >/dev/null 2>&1 && fail "the pod is still there"
	probe -T 7200 -- attach $box true
	said "$version: who only comes back does not wake it" 'not_found'
	equal "$version: woken, with its files" kept "$(probe -T 7200 -- exec $box cat keep || cat "$tmp/said")"
	[[ $(field investigation-$box '{.spec.shutdownTime}') > $ends ]] && ok "$version: its end is the one that was told last" ||
		fail "$ends, then $(field investigation-$box '{.spec.shutdownTime}')"
	probe -- list
	said "$version: in the list" "$box running"
	probe -- wipe $box || fail "$(cat "$tmp/said")"
	kubectl get "sandboxes.$version.agents.x-k8s.io" investigation-$box >/dev/null 2>&1 && fail "the Sandbox is still there"
	ok "$version: wiped"
	end_controller
done

# ---- restored under it: another claim in the template
version=v1alpha1
begin_controller $version
id=$(cat /proc/sys/kernel/random/uuid)
probe -- exec copied sh -c 'echo one >word; sync' && probe -- take copied "$id" && probe -- exec copied sh -c 'echo two >word; sync' &&
	probe -- destroy copied && probe -- restore copied copied "$id" || fail "$(cat "$tmp/said")"
equal "restored: the template follows the claim" one "$(probe -- exec copied cat word || cat "$tmp/said")"

# ---- its end
timeout 120 "$BUILD/e2e/link_probe" -n "$ns" -H $version -T 6 "$KUBECONFIG" exec short sleep 1000 2>"$tmp/short" </dev/null &
pid=$!
wait $pid
equal "past its end what runs in it ends" 93 $?
grep -q 'gone: short: its pod was deleted' "$tmp/short" && ok "with that cause" || fail "$(cat "$tmp/short")"
kubectl apply -f - >/dev/null <<-Y
	apiVersion: agents.x-k8s.io/v1alpha1
	kind: Sandbox
	metadata: {name: investigation-taken}
	spec: {replicas: 0, podTemplate: {spec: {containers: [{name: main, image: busybox}]}}}
Y
probe -t 20 -- exec taken true
said "one that muxd did not make is not touched" 'k8s_conflict: Sandbox investigation-taken .*muxd did not make it'
