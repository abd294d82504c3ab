#!/bin/bash
# The warm pool, of pods: who asks gets the one that is ready, a fresh one takes its place, and the daemon's death takes nothing from
# anybody. What leases are is told in tests/integration/leases.sh.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<-Y
	sandbox: {backend: kubernetes, workspace_size: 24MiB}
	kubernetes:
	  kubeconfig: $tmp/kubeconfig
	  namespace: $ns
	  image: localhost/busybox:1
	  pull_policy: Never
	  request_cpu: 10m
	  request_ephemeral: 1Mi
	  request_memory: 16Mi
	  limit_memory: 64Mi
	  workspace: claim
	  storage_class: loop
	pool: {size: 1}
Y
begin() { start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"; }
begin
end_pool() {
	stop_daemon
	end_story
}
trap end_pool EXIT
service() { PRINCIPAL=planner new_token '*' service lifecycle,rounds 30m; }
svc=$(service)
pool() { api "$svc" GET /sandboxes/pool; }
full() { [ "$(pool | jq -r '"\(.ready) \(.filling) \(.discarding)"')" = "1 0 0" ]; }
lease() { api "$svc" POST /sandboxes/leases "{\"userId\":\"alice\",\"workflowId\":\"none\",\"requestId\":\"$1\",\"ttlSeconds\":600}"; }
round() {
	local o id
	o=$(api "$svc" POST "/v1/agents/$1/rounds" "{\"argv\":[\"sh\",\"-c\",\"$2\"],\"wait_ms\":20000}")
	id=$(jq -r .round_id <<<"$o")
	for _ in 1 2 3 4 5; do
		jq -e .exit <<<"$o" >/dev/null && break
		o=$(api "$svc" GET "/v1/rounds/$id?wait_ms=20000")
	done
	jq -r '"\(.exit.code) \(.stdout.data)"' <<<"$o"
}
uid_of() { kubectl get pods -l "muxd.dev/role=sandbox,agent_id=$1" -o jsonpath='{.items[*].metadata.uid}'; }
left_of() { kubectl get pods,pvc -l "agent_id=$1" -o name; }
api "$svc" POST /sandboxes/workflows '{"name":"none","owner":"alice","version":1,"steps":[{"shell":"true"}]}' >/dev/null
wait_for 120 full && ok "the pool fills itself" || fail "$(pool)"
warm=$(pool | jq -r '.sandboxes[0].sandboxId')
first=$(uid_of "$warm")
lease r1 >"$tmp/lease"
equal "who asks gets the pod that is warm" "$warm $first" "$(jq -r .sandboxId "$tmp/lease") $(uid_of "$warm")"
equal "and works in it" "0 " "$(round "$warm" 'echo mine >word')"
wait_for 120 full && ok "a fresh one takes its place" || fail "$(pool)"
kill -9 "$DAEMON" "$(jq -r .pids.net "$MUXD_STATE/ready.json")"
wait "$DAEMON" 2>/dev/null
begin
svc=$(service)
equal "killed and back: the lease goes on" "ACTIVE $warm" \
	"$(api "$svc" GET "/sandboxes/leases/$(jq -r .leaseId "$tmp/lease")" | jq -r '"\(.state) \(.sandboxId)"')"
equal "in the pod that it was, with its files" "$first 0 mine" "$(uid_of "$warm") $(round "$warm" 'cat word')"
wait_for 120 full && ok "and the pool is full" || fail "$(pool)"
equal "given back" RELEASED "$(api "$svc" DELETE "/sandboxes/leases/$(jq -r .leaseId "$tmp/lease")" | jq -r .state)"
forgotten() { [ -z "$(left_of "$warm")" ]; }
wait_for 60 forgotten && ok "its pod and its claim go" || fail "left: $(left_of "$warm")"
next=$(lease r2 | jq -r .sandboxId)
[ "$next" != null ] && [ "$next" != "$warm" ] && ok "the next one gets another" || fail "$next after $warm"
equal "with nothing in it" "1 " "$(round "$next" 'cat word 2>/dev/null')"
