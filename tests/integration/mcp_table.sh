#!/bin/bash
# What a request of MCP gets, in all three versions: a case for each thing that can be wrong with its head and its body, and for what
# streams, tasks and cancelling have to do. Then the cells that are there where an issuer's tokens open it.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

PRINCIPAL=table
{
	new_token table agent rounds,files
	PRINCIPAL=other new_token table agent rounds,files
} | /usr/bin/python3 "$here/tests/integration/mcp_table.py" "$(ready https_url)mcp" "$MUXD_STATE/keys/tls.crt" ||
	fail "cells of the table"

# An entry with a `reason`: 401 leads to its issuer.
/usr/bin/python3 "$here/tests/lib/issuer.py" "$tmp/port" &
ISSUER=$!
trap 'end_own "$ISSUER"; wait "$ISSUER"; tidy' EXIT
wait_for 30 test -s "$tmp/port" || fail "no issuer"
FORGE=http://127.0.0.1:$(cat "$tmp/port")
printf 'issuers: [{name: table, issuer: "%s", jwks_url: "%s/keys", loopback: true, audience: muxd, require: "sub=org/*", agents: table, scopes: "rounds,files", scopes_claim: scp, reason: "MCP of {sub}", task: mcp}]\n' \
	"$FORGE" "$FORGE" >"$tmp/muxd.yaml"
chmod 0711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_own "$ISSUER"; wait "$ISSUER"; tidy' EXIT
{
	new_token table agent rounds,files
	PRINCIPAL=other new_token table agent rounds,files
} | /usr/bin/python3 "$here/tests/integration/mcp_table.py" "$(ready https_url)mcp" "$MUXD_STATE/keys/tls.crt" "$FORGE" ||
	fail "cells of the table with an issuer"
