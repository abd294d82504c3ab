#!/bin/bash
# A kubeconfig with a mistake is one line with file, line and key: at the start, in check-config, and at SIGHUP, where the
# daemon goes on. Without a cluster, pods are refused by every door with the key that is missing.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

message() { jq -r .error.message; }
pods_are_refused() {
	local token
	PRINCIPAL=tester
	token=$(new_token ns/pod staff rounds,terminal)
	equal "a round in a pod: $1" "$2" "$(api "$token" POST /v1/agents/ns%2Fpod/rounds '{"argv":["true"]}' | message)"
	equal "the same with slashes" "$2" "$(api "$token" POST /v1/agents/ns/pod/rounds '{"argv":["true"]}' | message)"
	equal "a container of it" "${2/ns\/pod/ns/pod/c}" "$(api "$token" GET /v1/agents/ns/pod/c | message)"
	muxctl exec ns/pod -- true 2>"$tmp/err" && fail "muxctl exec succeeded"
	grep -qF "$2" "$tmp/err" && ok "muxctl exec says so" || fail "muxctl exec said: $(cat "$tmp/err")"
	sshc "$token" ns/pod true >"$tmp/out" 2>"$tmp/err" && fail "ssh succeeded"
	grep -qF "$2" "$tmp/out" "$tmp/err" && ok "ssh says so" || fail "ssh said: $(cat "$tmp/out" "$tmp/err")"
}
pods_are_refused "no cluster" "ns/pod is a pod, and this daemon has no cluster: set kubernetes.kubeconfig"
token=$(new_token ns/pod staff rounds)
equal "a grant for a pod is not for another" forbidden \
	"$(api "$token" POST /v1/agents/ns/pod2/rounds '{"argv":["true"]}' | jq -r .error.code)"
token=$(new_token ns/pod/c staff rounds)
equal "nor one for a container for its neighbour" forbidden \
	"$(api "$token" POST /v1/agents/ns/pod/d/rounds '{"argv":["true"]}' | jq -r .error.code)"

cat >"$tmp/good" <<YAML
current-context: dev
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]
users: [{name: u, user: {tokenFile: token}}]
contexts: [{name: dev, context: {cluster: c, user: u}}]
YAML
echo secret >"$tmp/token"
cp "$tmp/good" "$tmp/kubeconfig"
echo "kubernetes: {kubeconfig: $tmp/kubeconfig}" >"$tmp/muxd.yaml"
bad() { printf 'current-context: dev\nclusters: [\n' >"$tmp/kubeconfig"; }
check() { "$BUILD/muxd" check-config "$tmp/muxd.yaml" 2>&1; }

equal "check-config of a good one" "$tmp/muxd.yaml: correct" "$(check)"
bad
check | grep -q "^muxd: kubernetes.kubeconfig: $tmp/kubeconfig:[0-9]" && ok "of a bad one: $(check)" || fail "check-config: $(check)"

# A pod template with a mistake, likewise: file, line and the pointer of the field.
cp "$tmp/good" "$tmp/kubeconfig"
sed "s|^kubernetes: {|&pod_template: $tmp/pod.yaml, |" "$tmp/muxd.yaml" >"$tmp/templated.yaml"
template() { printf '%s\n' "$@" >"$tmp/pod.yaml" && "$BUILD/muxd" check-config "$tmp/templated.yaml" 2>&1; }
equal "a good pod template" "$tmp/templated.yaml: correct" "$(template 'spec:' '  nodeSelector: {disk: ssd}')"
template 'spec:' '  nodeSelector: {disk: ssd}' '  hostPID: true' |
	grep -q "^muxd: kubernetes.pod_template: $tmp/pod.yaml:3:12: /spec/hostPID is not for a template; allowed here: nodeSelector" &&
	ok "one that weakens is named by line and field" || fail "check-config: $(template 'spec:' '  hostPID: true')"
template 'spec: {volumes: [{name: v, secret: {secretName: keys}}]}' |
	grep -q 'names the secret "keys", and kubernetes.pod_template_secrets lists none' &&
	ok "a secret that is not listed, too" || fail "an unlisted secret was taken"
sed -i 's/^kubernetes: {/&hold: sandbox, warm_pool: warm, /' "$tmp/templated.yaml"
template 'spec: {}' | grep -q 'pod_template counts for no pod of kubernetes.warm_pool' &&
	ok "one that would count for nothing, too" || fail "check-config: $(template 'spec: {}')"
sed -i 's/hold: sandbox, warm_pool: warm, //' "$tmp/templated.yaml"
rm "$tmp/pod.yaml"
"$BUILD/muxd" check-config "$tmp/templated.yaml" 2>&1 | grep -q "kubernetes.pod_template: .*pod.yaml" &&
	ok "one that is not there, too" || fail "a missing file was taken"
bad

state=$(mktemp -d "$tmp/state.XXXXXX")
chmod 0711 "$tmp" "$state"
if (trap - EXIT; start_daemon "$state" --config "$tmp/muxd.yaml") 2>"$tmp/err"; then
	fail "a daemon started with a bad kubeconfig"
fi
equal "its last words are one line" 1 "$(grep -c 'kubernetes.kubeconfig: ' "$tmp/err")"

cp "$tmp/good" "$tmp/kubeconfig"
shared=$MUXD_STATE
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon with a good kubeconfig"
trap 'MUXD_STATE=$state; stop_daemon; tidy' EXIT
equal "net has its own copy of the token" secret "$(cat "$state/keys/kube/token")"
equal "for itself alone" 600 "$(stat -c %a "$state/keys/kube/token")"
echo fresher >"$tmp/token"
kill -HUP "$DAEMON"
wait_for 10 grep -qx fresher "$state/keys/kube/token" && ok "SIGHUP brings a rotated token" || fail "the token stayed"
bad
kill -HUP "$DAEMON"
wait_for 10 grep -q "credentials stay as they were: kubernetes.kubeconfig: $tmp/kubeconfig:" "$state/daemon.log" &&
	ok "SIGHUP with a bad kubeconfig is one line" || fail "the log does not say so"
token=$(new_token demo staff rounds)
equal "and the daemon goes on" 0 "$(api "$token" POST /v1/agents/demo/rounds '{"argv":["true"],"wait_ms":30000}' | jq -r .exit.code)"
equal "with the token it had" fresher "$(cat "$state/keys/kube/token")"
sed 's/127.0.0.1:1/127.0.0.1:2/' "$tmp/good" >"$tmp/kubeconfig"
kill -HUP "$DAEMON"
wait_for 10 grep -q "takes effect when muxd is started again" "$state/daemon.log" &&
	ok "another server waits for the next start" || fail "the log does not say so"
grep -rqE 'secret|fresher' "$state/daemon.log" && fail "the log holds a token"
[ "$shared" != "$state" ] && ok "no token in the log"
