#!/bin/bash
# Every operation of every door, with every credential: its answer, and its event in the audit log (audit_matrix.py).
# MATRIX_ALL=1: what changes a sandbox with each kind of principal too, not with one alone.
# MATRIX_PART=n: of the cells that are refused one in n, by SEED.
# tier: test, san MATRIX_PART=4, whole MATRIX_ALL=1
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
/usr/bin/python3 "$here/tests/lib/issuer.py" "$tmp/issuer.port" &
ISSUER=$!
trap 'stop_daemon; end_own "$ISSUER"; wait "$ISSUER"; tidy' EXIT
wait_for 30 test -s "$tmp/issuer.port" || fail "no issuer"
FORGE=http://127.0.0.1:$(cat "$tmp/issuer.port")
/usr/bin/python3 "$here/tests/integration/audit_matrix.py" policy >"$tmp/policy.yaml"
printf 'router: {ports: "1-65535", runtime: true}\nrounds: {keep_max: 1, pty: true}\npolicy: {file: %s}\ngrants: {renew_max: 1h}\n' "$tmp/policy.yaml" >"$tmp/muxd.yaml"
# An edge that leases are minted for; nobody runs it.
edge_key=$(openssl genpkey -algorithm ed25519 -outform DER | openssl pkey -inform DER -pubout -outform DER | tail -c 32 | base64 -w0 | tr '+/' '-_' | tr -d '=')
printf 'edge: {known: [{name: e, id: 0193aaaa-0000-7000-8000-00000000000e, key: "%s"}]}\n' "$edge_key" >>"$tmp/muxd.yaml"
entry() { printf '  - {name: %s, issuer: "%s", jwks_url: "%s/keys", loopback: true, audience: %s, require: "sub=org/*", agents: matrix, scopes: rounds}\n' "$1" "$FORGE" "$FORGE" "$2"; }
{
	printf 'issuers:\n'
	entry matrix muxd
	entry shown 'shown, reason: "MCP of {sub}"'
} >>"$tmp/muxd.yaml"
POOL_SIZE=1 start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
muxctl grant create --agent matrix --principal gone --kind agent --scopes rounds --task m --ttl 15m --reason story -o json >"$tmp/gone"
muxctl grant revoke "$(jq -r .id "$tmp/gone")" >/dev/null || fail "not revoked"

# What others are kept from: a round at hand, one that has left memory, a lease.
owner=$(PRINCIPAL=owner new_token matrix agent rounds)
round() { api "$owner" POST /v1/agents/matrix/rounds '{"argv":["echo","secret"],"wait_ms":20000}' | jq -r .round_id; }
old=$(round) new=$(round)
# One that goes on, for what is done to it: its own terminal, which ends by nothing that the cells do; and a port.
owner=$(PRINCIPAL=other-owner new_token matrix agent rounds,terminal)
live=$(api "$owner" POST /v1/agents/matrix/rounds '{"command":"trap : USR1 INT; while :; do read -r x; done","pty":{"cols":90,"rows":30},"stdin_open":true,"wait_ms":0,"timeout_ms":600000}' | jq -r .round_id)
port=7777
api "$owner" POST /v1/agents/matrix/rounds "{\"command\":\"exec python3 -m http.server $port\",\"wait_ms\":0,\"timeout_ms\":600000}" | jq -er .round_id >/dev/null || fail "no server"
# What the policy allows is asked for by a grant that the monitor made: it makes others of it, and renews them.
muxctl grant create --agent '*' --principal policy-all --kind service --scopes "$(/usr/bin/python3 "$here/tests/integration/audit_matrix.py" scopes)" --task m --ttl 15m --reason story -o json >"$tmp/allowed"
# Artifacts of the matrix's task: one to read and replace, one for each cell that deletes.
maker=$(muxctl grant create --agent matrix --principal owner --kind agent --scopes files --task m --ttl 15m --reason story -o json | jq -r .token)
keeps() { curl -sS -o /dev/null --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $maker" -T "$here/README.md" "https://$(ready https)/v1/tasks/m/artifacts/$1"; }
keeps matrix
for cred in staff agent auditor service other-agent policy-allows; do keeps "gone-rest-$cred" && keeps "gone-api.sock-$cred"; done
svc=$(PRINCIPAL=planner new_token '*' service lifecycle,rounds)
api "$svc" POST /sandboxes/workflows '{"name":"hello","owner":"u","version":1,"steps":[{"shell":"true"}]}' >/dev/null
lease() { api "$svc" POST /sandboxes/leases '{"userId":"u","workflowId":"hello","requestId":"m"}' | jq -er .leaseId; }
wait_for 20 lease || fail "no lease"
jq -n --arg live "$live" --arg port "$port" --arg owner "$owner" --arg allowed "$(jq -r .token "$tmp/allowed")" --arg allowed_id "$(jq -r .id "$tmp/allowed")" \
	--arg https "$(ready https)" --arg ssh "$(ready ssh)" --arg old "$old" --arg round "$new" --arg lease "$(lease)" \
	--arg revoked "$(jq -r .token "$tmp/gone")" --arg id "$(jq -r .id "$tmp/gone")" --arg issuer "$FORGE" \
	'{live: $live, port: $port, owner: $owner, allowed: $allowed, allowed_id: $allowed_id, issuer: $issuer, https: $https, ssh: $ssh, old: $old, round: $round, lease: $lease, revoked: $revoked, revoked_id: $id}' >"$tmp/facts"

/usr/bin/python3 "$here/tests/integration/audit_matrix.py" run "$MUXD_STATE" "$tmp/facts" "$tmp/cells" || fail "the cells were not driven"
muxctl shutdown --sandboxes >/dev/null || fail "no end"
wait "$DAEMON" 2>/dev/null
seq=0
while muxctl audit --since "$seq" -n 1000 -o json >"$tmp/page" 2>/dev/null && [ -s "$tmp/page" ]; do
	cat "$tmp/page" >>"$tmp/events"
	next=$(tail -n 1 "$tmp/page" | jq .seq)
	[ "$next" != "$seq" ] || break
	seq=$next
done
/usr/bin/python3 "$here/tests/integration/audit_matrix.py" check "$tmp/cells" <"$tmp/events" || fail "the matrix has cells that are wrong"
ok "every operation answers and is audited as its credential asks"
