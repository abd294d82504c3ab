#!/bin/bash
# The Helm chart, rendered (tests/chart/render.go; there is no helm in Debian) and applied into a namespace that is not called muxd:
# ready, a certificate, a round in a sandbox; idle, that sandbox sleeps and wakes with its files, with nothing configured for it
# but the class of its storage and the time. Not beside the story deploy: what has no namespace has one name.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

release=$ns-m boxes=$ns-b
end_helm() {
	kubectl delete -f "$tmp/objects" --ignore-not-found --wait=false --request-timeout=10s >/dev/null 2>&1
	end_story
}
trap end_helm EXIT

images
cluster volume "muxd-$$" 256Mi
cluster storage start || fail "no storage"
make --no-print-directory -C "$here" "${BUILD#"$here"/}/chart/render" >"$tmp/make" 2>&1 || fail "no renderer: $(tail -n 3 "$tmp/make")"

cat >"$tmp/values.yaml" <<Y
image: localhost/muxd:1
pullPolicy: Never
namespace: {create: true}
sandboxes: {namespace: $boxes}
state: {size: 256Mi}
resources: {requests: {cpu: 10m, memory: 64Mi}}
config:
  sandbox: {workspace_size: 64MiB}
  kubernetes:
    image: localhost/busybox:1
    init_image: localhost/muxlet:1
    pull_policy: Never
    request_cpu: 10m
    request_memory: 32Mi
    storage_class: loop
  lifecycle: {idle_ttl: 15s}
Y
"$BUILD/chart/render" -namespace "$release" -f "$tmp/values.yaml" "$here/deploy/helm/muxd" | jq -c '[.templates[][]] | sort_by(.kind != "Namespace")[]' >"$tmp/objects" && [ -s "$tmp/objects" ] || fail "not rendered"
kubectl apply -f "$tmp/objects" >"$tmp/out" 2>&1 || fail "kubectl apply: $(tail -n 5 "$tmp/out")"
NAMESPACE=$release "$here/deploy/tls.sh" >"$tmp/out" 2>&1 && ok "applied into $release, with a certificate" || fail "tls.sh: $(cat "$tmp/out")"
is_ready() { kubectl -n "$release" wait pod muxd-0 --for=condition=Ready --timeout=5s; }
wait_for 90 is_ready && ok "ready" ||
	fail "muxd is not ready: $(kubectl -n "$release" describe pod muxd-0 | tail -n 5) $(kubectl -n "$release" logs muxd-0 2>&1 | tail -n 5)"

inside() { timeout 60 kubectl -n "$release" exec muxd-0 -- muxctl "$@"; }
round() { inside exec sleeper --reason story -- "$@" 2>"$tmp/err"; }
wrote() { round sh -c 'echo slept >/workspace/file && chmod 600 /workspace/file'; }
wait_for 90 wrote && ok "a round in a sandbox of $boxes" || fail "no round: $(cat "$tmp/err")"
state() { inside sandbox show sleeper -o json | jq -r .state; }
asleep() { [ "$(state)" = stopped ]; }
wait_for 90 asleep && ok "an idle sandbox sleeps" || fail "it does not sleep: $(inside sandbox show sleeper)"
equal "it has no pod" "" "$(kubectl -n "$boxes" get pods -o name)"
equal "it wakes with its files and their modes" "slept 600" "$(round sh -c 'echo $(cat /workspace/file) $(stat -c %a /workspace/file)')"
kubectl delete -f "$tmp/objects" --timeout=120s >"$tmp/out" 2>&1 || fail "kubectl delete: $(tail -n 3 "$tmp/out")"
equal "everything is deleted" "" "$(kubectl get namespaces,clusterroles,clusterrolebindings,validatingwebhookconfigurations -o name | grep -e "$release" -e "$boxes" -e /muxd)"
