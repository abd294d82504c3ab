#!/bin/bash
# Each limit that a caller can reach, driven to it: the refusal has its status and code, in details the name by which the limit is
# configured, whose it is and what is in use, and, where waiting helps, when to ask again: in Retry-After and in details.
# tier: test, whole LOCKS=yes
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/policy.yaml" <<'YAML'
policy: 1
otherwise: as_granted
profiles:
- name: few
  match: {task: few, kind: agent}
  allow: ["*"]
  limits: {rounds: 1, sessions: 1, contexts: 1, file_size: 1KiB}
YAML
cat >"$tmp/muxd.yaml" <<YAML
policy: {file: $tmp/policy.yaml}
rounds: {pty: true}
sessions: {max_per_agent: 40}
sandbox: {workspace_size: 64MiB}
leases: {max: 1}
lifecycle: {forks_max: 1}
artifacts: {task_max: 4, task_size: 64KiB}
shares: {rounds_per_principal: 2, contexts_per_task: 2, artifacts_per_principal: 2, artifact_size_per_agent: 8KiB}
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'muxctl shutdown --sandboxes >/dev/null 2>&1; stop_daemon; tidy' EXIT
# token PRINCIPAL TASK [AGENT [KIND [SCOPES]]]
token() { PRINCIPAL=$1 GRANT_TASK=$2 new_token "${3:-demo}" "${4:-agent}" "${5:-rounds,files,terminal,lifecycle,grant}"; }
# ask TOKEN METHOD PATH [BODY [HEADER]]: the answer in $tmp/o, its head in $tmp/head
ask() {
	curl -sS -o "$tmp/o" -D "$tmp/head" --cacert "$MUXD_STATE/keys/tls.crt" -X "$2" -H "Authorization: Bearer $1" \
		-H "${5:-Content-Type: application/json}" ${4:+--data-binary "$4"} "https://$(ready https)$3"
}
# told: what a program reads of the answer; "-" where Retry-After and retry_after are not there, "differs" where they are not one
told() {
	local after
	after=$(sed -n 's/^retry-after: \([0-9]*\)\r$/\1/Ip' "$tmp/head")
	[ "$(jq -r '.error.details.retry_after // "-"' "$tmp/o")" = "${after:--}" ] || { echo "differs: $(cat "$tmp/o")"; return; }
	jq -r --arg s "$(head -n 1 "$tmp/head" | cut -d ' ' -f 2)" --arg a "${after:+waits}" \
		'[$s, .error.code // "none", .error.details.limit // "none", .error.details.of // "none", if $a == "" then "-" else $a end] | join(" ")' "$tmp/o"
}
# limit WHAT EXPECTED TOKEN METHOD PATH [BODY [HEADER]]: this call is over it
limit() {
	ask "${@:3}"
	equal "$1" "$2" "$(told)"
}
fine() { ask "$@" && ! jq -e .error "$tmp/o" >/dev/null 2>&1 || fail "$2 $3: $(cat "$tmp/o")"; }
rounds=/v1/agents/demo/rounds
contexts=/v1/agents/demo/contexts
sleeping='{"argv":["sleep","600"],"wait_ms":0}'

# A profile's numbers are verdicts, and limits that an end makes free: both are said.
few=$(token few few)
fine "$few" POST $rounds "$sleeping"
round=$(jq -r .round_id "$tmp/o")
limit "a round over its profile" "429 limit_reached limits.rounds task waits" "$few" POST $rounds "$sleeping"
equal "is a verdict all the same" "few/limits.rounds 1 1" "$(jq -r '.error.details | "\(.policy.rule) \(.value) \(.in_use)"' "$tmp/o")"
fine "$few" POST "/v1/rounds/$round/signal" '{"signal":"KILL"}'
freed() { ask "$few" POST $rounds '{"argv":["true"],"wait_ms":20000}' && jq -e '.exit.code == 0' "$tmp/o" >/dev/null; }
wait_for 20 freed && ok "which ends with the first one" || fail "$(cat "$tmp/o")"
denials() { muxctl audit --event policy.deny -n 100 -o json | jq -rs '[.[].record.detail.rule] | join(" ")'; }
is_denied() { [ "$(denials)" = few/limits.rounds ]; }
wait_for 20 is_denied && ok "and its event is that of a denial" || fail "$(denials)"
fine "$few" POST $contexts '{"language":"python"}'
limit "a context over its profile" "429 limit_reached limits.contexts task waits" "$few" POST $contexts '{"language":"python"}'
fine "$few" POST $rounds '{"argv":["sleep","600"],"wait_ms":0,"pty":{"cols":80,"rows":24}}'
limit "a file over its profile will never do" "403 policy_denied none none -" "$few" POST /v1/agents/demo/fs/write \
	"$(printf '{"path":"x","data":"%02000d"}' 0)"

octets='Content-Type: application/octet-stream'
head -c 5000 /dev/zero >"$tmp/big"
limit "nor will an artifact" "403 policy_denied none none -" "$few" PUT /v1/tasks/few/artifacts/a "@$tmp/big" "$octets"
equal "which is its profile's" few/limits.file_size "$(jq -r .error.details.policy.rule "$tmp/o")"
curl -sS -o "$tmp/o" --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $few" -T - "https://$(ready https)/v1/tasks/few/artifacts/a" <"$tmp/big"
equal "nor one whose size nobody says" few/limits.file_size "$(jq -r .error.details.policy.rule "$tmp/o")"

# Shares.
two=$(token two two)
fine "$two" POST $rounds "$sleeping"
fine "$two" POST $rounds "$sleeping"
limit "a round over its principal's share" "429 limit_reached shares.rounds_per_principal principal waits" "$two" POST $rounds "$sleeping"
many=$(token many many)
fine "$many" POST $contexts '{"language":"python"}'
fine "$many" POST $contexts '{"language":"python"}'
limit "a context over its task's share" "429 limit_reached shares.contexts_per_task task waits" "$many" POST $contexts '{"language":"python"}'
fine "$two" PUT /v1/tasks/two/artifacts/a x "$octets"
fine "$two" PUT /v1/tasks/two/artifacts/b x "$octets"
limit "an artifact over its principal's share" "429 limit_reached shares.artifacts_per_principal principal waits" \
	"$two" PUT /v1/tasks/two/artifacts/c x "$octets"
head -c 9000 /dev/zero >"$tmp/big"
limit "bytes of artifacts: waiting gives none" "507 artifacts_full shares.artifact_size_per_agent agent -" \
	"$many" PUT /v1/tasks/many/artifacts/a "@$tmp/big" "$octets"
head -c 70000 /dev/zero >"$tmp/big"
limit "nor of a task" "507 artifacts_full artifacts.task_size task -" "$many" PUT /v1/tasks/many/artifacts/a "@$tmp/big" "$octets"

# What has a number of its own.
service=$(token svc story '*' service lifecycle,rounds,files)
lease() { printf '{"userId":"u","workflowId":"w","requestId":"%s"}' "$1"; }
fine "$service" POST /sandboxes/workflows '{"name":"w","owner":"u","version":1,"steps":[{"shell":"true"}]}'
fine "$service" POST /sandboxes/leases "$(lease 1)"
limit "a lease over leases.max" "429 limit_reached leases.max daemon waits" "$service" POST /sandboxes/leases "$(lease 2)"
shells=$(token shells shells)
for i in $(seq 32); do fine "$shells" POST $rounds "{\"command\":\"true\",\"shell\":\"s$i\",\"wait_ms\":20000}"; done
limit "a shell more than one may have" "429 limit_reached fixed.shells_own principal waits" "$shells" POST $rounds '{"command":"true","shell":"s33"}'
[ -n "${LOCKS:-}" ] || exit 0 # a thousand of them
locks=$(token locks locks)
for i in $(seq 1000); do printf 'next\nurl = "https://%s/v1/agents/demo/locks"\ndata = "{\\"path\\":\\"p%d\\",\\"ttl_ms\\":600000}"\n' "$(ready https)" "$i"; done |
	sed '1d' >"$tmp/locks.curl"
python3 - "$tmp/locks.curl" "$MUXD_STATE/keys/tls.crt" "$locks" <<'P'
import sys

path, ca, token = sys.argv[1:]
parts = open(path).read().split("next\n")
open(path, "w").write("next\n".join(f'{p}cacert = "{ca}"\nheader = "Authorization: Bearer {token}"\noutput = "/dev/null"\nsilent\n' for p in parts))
P
curl --parallel --parallel-max 8 -K "$tmp/locks.curl" || fail "no locks"
limit "a lock more than an agent may have" "429 limit_reached fixed.locks agent waits" "$locks" POST /v1/agents/demo/locks '{"path":"more","ttl_ms":1000}'
