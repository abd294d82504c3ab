#!/bin/bash
# k8s_memory.sh: what the hub keeps of rounds and sessions in a pod: its anonymous memory and descriptors after the first 100
# rounds and 100 sessions, and after ROUNDS and SESSIONS more. Fails when it grew by more than LIMIT_KB, or by a descriptor.
# Needs a cluster that is up in K8S_HOME (make k8s-up names it). ROUNDS=10000 SESSIONS=1000 is the whole of it, some minutes.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/e2e/k8s/story.sh
. tests/e2e/k8s/story.sh
ROUNDS=${ROUNDS:-1000} SESSIONS=${SESSIONS:-100} LIMIT_KB=${LIMIT_KB:-1024}

cat >"$tmp/muxd.yaml" <<Y
sandbox: {backend: kubernetes}
kubernetes: {kubeconfig: $tmp/kubeconfig, namespace: $ns, image: 'localhost/busybox:1', pull_policy: Never, request_cpu: 10m, request_ephemeral: 1Mi,
  request_memory: 32Mi, limit_memory: 1Gi}
Y
chmod 0711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_story' EXIT
agent=memory
(umask 077 && new_token $agent staff rounds,terminal 3h >"$tmp/token")
net=$(ready pids.net)

# rounds N: of `true`, one after the other, on one connection
rounds() {
	/usr/bin/python3 - "$(ready https)" "$MUXD_STATE/keys/tls.crt" "$agent" "$1" "$tmp/token" <<'P'
import http.client, json, ssl, sys
address, cert, agent, n, token = sys.argv[1:6]
host, port = address.rsplit(":", 1)
c = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(cafile=cert))
fields = {"Authorization": "Bearer " + open(token).read().strip(), "Content-Type": "application/json"}
for i in range(int(n)):
    c.request("POST", "/v1/agents/%s/rounds" % agent, json.dumps({"argv": ["true"], "wait_ms": 60000}), fields)
    r = json.loads(c.getresponse().read())
    if r.get("exit", {}).get("code") != 0:
        sys.exit("round %d: %s" % (i, r))
P
}
sessions() { for ((i = 0; i < $1; i++)); do muxctl exec $agent --task memory -- true </dev/null || return 1; done; }
open_sessions() { api "$(cat "$tmp/token")" GET '/v1/sessions?state=running' | jq '.sessions | length'; }
none_open() { [ "$(open_sessions)" = 0 ]; }
# measure WHAT: once nothing is open; sets kb and fds
measure() {
	wait_for 30 none_open || fail "$(open_sessions) sessions are open still"
	sleep 3 # what is freed by timers
	kb=$(awk '/^Pss_Anon/ {print $2}' "/proc/$net/smaps_rollup")
	fds=$(find "/proc/$net/fd" -mindepth 1 | wc -l)
	printf '%-40s %8d kB %4d descriptors\n' "$1" "$kb" "$fds"
}

muxctl exec $agent --task memory -- true </dev/null || fail "no pod"
rounds 100 || fail "rounds"
sessions 100 || fail "sessions"
measure "after 100 rounds and 100 sessions"
kb_before=$kb fds_before=$fds
rounds "$ROUNDS" || fail "rounds"
measure "after $ROUNDS rounds more"
sessions "$SESSIONS" || fail "sessions"
measure "after $SESSIONS sessions more"
[ "$(ready pids.net)" = "$net" ] || fail "net was started again meanwhile"
[ $((kb - kb_before)) -le "$LIMIT_KB" ] || fail "it grew by $((kb - kb_before)) kB; $LIMIT_KB are allowed"
[ "$fds" -le "$fds_before" ] || fail "$((fds - fds_before)) descriptors more"
