#!/bin/bash
# Heads that two readers could take for two things, made by a grammar, at the API and at the router: each gets one answer
# that says what is wrong, the connection ends with it, and what stands behind it reaches nobody. HEADS=2000 for more of
# them, SEED=n for others; those of a failure are printed with their seed.
# tier: test, san, whole HEADS=2000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
printf 'api: {connect_rate: 10000, max_per_address: 500}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon of our own"
trap 'stop_daemon; tidy' EXIT
agent=heads
muxctl exec -n $agent -- true || fail "no sandbox"
token=$(new_token $agent staff ports,rounds,files,terminal,observe)
muxctl put $agent tests/integration/heads_inside.py inside.py >/dev/null || fail "no server inside"
api "$token" POST "/v1/agents/$agent/rounds" \
	'{"argv":["python3","/workspace/inside.py","8000"],"wait_ms":0,"timeout_ms":3600000}' >"$tmp/server" || fail "no server"
up() {
	curl -fsS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H "X-Sandbox-ID: $agent" \
		-H "X-Sandbox-Port: 8000" "https://$(ready https)/"
}
wait_for 30 up || fail "the server inside does not answer"
/usr/bin/python3 tests/integration/heads.py "$(ready https)" $agent "${HEADS:-500}" "${SEED:-1}" <<<"$token" || fail "see above"
/usr/bin/python3 tests/integration/heads.py "$(ready https)" $agent "$((${HEADS:-500} / 4))" "${SEED:-1}" "$MUXD_STATE/api.sock" \
	<<<"$token" || fail "by the Unix socket: see above"
