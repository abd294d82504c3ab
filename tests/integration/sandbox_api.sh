#!/bin/bash
# Sandbox and SandboxClaim of agent-sandbox without a cluster: sandbox_api.py says what is shown and what is not.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

san=
[[ $BUILD == */san ]] && san=SAN=address,undefined
# shellcheck disable=SC2086
make -s --no-print-directory $san -C "$here" "$(realpath --relative-to="$here" "$BUILD")/e2e/link_probe" >"$tmp/make" 2>&1 ||
	fail "link_probe does not build: $(tail -n 3 "$tmp/make")"
crds=$here/../shared/agent-sandbox-crds
[ -e "$crds/README.md" ] && echo "  against: $(tr '\n' ' ' <"$crds/README.md" | cut -c 1-180)" || crds=
if node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null; then
	"$here/webclient/build.sh" all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
	export CEL=1
fi
python3 "$here/tests/integration/sandbox_api.py" "$BUILD/e2e/link_probe" "$BUILD/muxlet" "$tmp" ${crds:+"$crds"} || fail "see above"
