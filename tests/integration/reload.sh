#!/bin/bash
# Keys that wait for the daemon's next start, docs/man/muxd.conf.5: neither a reload nor a net that is started again after
# a crash puts one into force, every part goes by the same values, and the log names what waits.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
cat >"$tmp/kubeconfig" <<'YAML'
current-context: dev
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: dev, context: {cluster: c, user: u}}]
YAML
user="admission_user: 'system:serviceaccount:muxd:muxd'"
configure() { printf '%s\n' "$@" >"$tmp/muxd.yaml"; }
configure "kubernetes: {namespace: boxes, $user}" "sandbox: {persist: /var/lib/one}"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT

# May a stranger with nodes/proxy run something in a pod of that namespace?
verdict() {
	api "" POST /k8s/admission '{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
		"operation": "CONNECT", "resource": {"resource": "nodes"}, "subResource": "proxy", "name": "n", "userInfo": {"username": "eve"},
		"object": {"kind": "NodeProxyOptions", "path": "/run/'"$1"'/pod/box"}}}' | tee "$tmp/verdict" | jq -r .response.allowed
}
token=$(new_token demo staff rounds,lifecycle)
persists() { api "$token" GET /v1/agents/demo | jq -r '.persists | join(" ")'; }
resume() { api "$token" POST /v1/agents/demo/resume '{"namespace": "boxes"}' | jq -r .error.message; }
all_is_as_it_was() {
	equal "$1: nobody gets into the sandboxes by a node" false "$(verdict boxes)"
	equal "$1: the namespace that waits holds none" true "$(verdict later)"
	equal "$1: sandboxes persist what they did" "/workspace /var/lib/one" "$(persists)"
	equal "$1: and are on this machine" "namespace: there is no boxes here: sandboxes of this daemon are on its own machine (sandbox.backend: local)" "$(resume)"
}
equal "a round" 0 "$(api "$token" POST /v1/agents/demo/rounds '{"argv":["true"],"wait_ms":30000}' | jq -r .exit.code)"
all_is_as_it_was "at the start"

configure "kubernetes: {kubeconfig: $tmp/kubeconfig, namespace: later, admission_namespaces: more, $user}" "sandbox: {backend: kubernetes}"
equal "a key that does not wait, before" true "$(verdict more)"
muxctl config reload || fail "no reload"
all_is_as_it_was "after a reload"
equal "a key that does not wait" false "$(verdict more)"
grep -q "when muxd is started again: sandbox.backend, sandbox.persist, kubernetes.kubeconfig, kubernetes.namespace$" "$MUXD_STATE/daemon.log" &&
	ok "the log names what waits" || fail "the log does not name what waits"

net=$(ready pids.net)
kill -KILL "$net"
again() { [ "$(ready pids.net)" != "$net" ] && [ "$(verdict more)" = false ]; }
wait_for 10 again || fail "net does not come back with what the reload brought"
all_is_as_it_was "after a crash of net"

configure "kubernetes: {namespace: later, $user}" "sandbox: {persist: /var/lib/two}"
muxctl config reload || fail "no second reload"
muxctl shutdown && wait "$DAEMON"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon again"
equal "the next start of the daemon: the namespace" "true false" "$(verdict boxes) $(verdict later)"
equal "and what persists" "/workspace /var/lib/two" "$(persists)"
