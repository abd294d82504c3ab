#!/bin/bash
# What a request of MCP gets, in all three versions: a case for each thing that can be wrong with its head and its body, and for what
# streams, tasks and cancelling have to do.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

PRINCIPAL=table
{
	new_token table agent rounds,files
	PRINCIPAL=other new_token table agent rounds,files
} | /usr/bin/python3 "$here/tests/integration/mcp_table.py" "$(ready https_url)mcp" "$MUXD_STATE/keys/tls.crt" ||
	fail "cells of the table"
