#!/bin/bash
# The client's named errors for a cluster that does not do its part, each with one code in the API, in muxctl and in the log:
# against a fake API server that makes no pod ready, and refuses.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

ended() {
	[ -z "${DAEMON:-}" ] || { end_own -KILL "$DAEMON"; wait "$DAEMON" 2>/dev/null; }
	[ -z "${SERVER:-}" ] || end_own "$SERVER"
	tidy
}
trap ended EXIT
export PYTHONDONTWRITEBYTECODE=1 TMP_DIR=$tmp FAKE=$tmp/fake
chmod 0711 "$tmp"
mkfifo "$FAKE"
exec 9<>"$FAKE"
/usr/bin/python3 "$here/tests/lib/fake_apiserver.py" <"$FAKE" >"$tmp/fake.out" &
SERVER=$!
wait_for 10 test -s "$tmp/fake.out" || fail "the fake API server does not begin"
cat >"$tmp/kubeconfig" <<YAML
current-context: dev
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:$(jq .port "$tmp/fake.out" | head -n 1)'}}]
users: [{name: u, user: {}}]
contexts: [{name: dev, context: {cluster: c, user: u}}]
YAML
cat >"$tmp/muxd.yaml" <<YAML
sandbox: {backend: kubernetes}
kubernetes: {kubeconfig: $tmp/kubeconfig, namespace: boxes, image: 'image:1'}
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
export MUXD_STATE
(umask 077 && new_token '*' service rounds,lifecycle >"$tmp/any")
muxctl sandbox create later --timeout 500ms >/dev/null 2>"$tmp/err" && fail "muxctl sandbox create succeeded"
grep -qF '[sandbox_create_timeout]' "$tmp/err" && ok "muxctl has the code" || fail "muxctl said $(cat "$tmp/err")"
/usr/bin/python3 "$here/tests/integration/clients_cluster.py" || fail "see above"
"$here/clients/typescript/build.sh" >"$tmp/tsc" 2>&1 || { cat "$tmp/tsc"; fail "the TypeScript package is not built"; }
cat >"$tmp/k8s.mjs" <<'JS'
const { Sandbox, SandboxK8sError, K8sForbidden } = await import(`${process.argv[2]}/dist/index.js`);
const e = await Sandbox.create("forbidden", { stateDir: process.env.MUXD_STATE, tokenFile: `${process.env.TMP_DIR}/any` }).catch((e) => e);
console.log(e instanceof SandboxK8sError, e instanceof K8sForbidden, JSON.stringify(e.k8sStatus));
JS
equal "typescript: SandboxK8sError" 'true true {"code":403,"reason":"Forbidden","message":"pods is forbidden"}' "$(node "$tmp/k8s.mjs" "$here/build/clients/typescript")"
muxctl exec cli -- true 2>"$tmp/err" && fail "muxctl exec succeeded"
grep -qF '[k8s_forbidden]' "$tmp/err" && ok "muxctl has the same code" || fail "muxctl said $(cat "$tmp/err")"
for code in sandbox_create_timeout sandbox_k8s_error k8s_forbidden; do
	grep -qE "POST /v1/agents/[a-z]+/resume 50[0-9] $code " "$MUXD_STATE/daemon.log" && ok "the log has $code" ||
		fail "the log lacks $code: $(grep resume "$MUXD_STATE/daemon.log")"
done
