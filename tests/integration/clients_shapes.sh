#!/bin/bash
# One script in each shape that people know (tests/clients): its types hold against the published package of E2B and of Daytona,
# and against ours, and it runs against muxd with ours. Those packages are 120 MB, pinned by tests/clients/package-lock.json.
# tier: all
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

"$here/clients/typescript/build.sh" >"$tmp/tsc" 2>&1 || fail "the package is not built: $(tail -n 3 "$tmp/tsc")"
published=$here/build/clients/published
mkdir -p "$published"
(
	flock 9
	cmp -s "$here/tests/clients/package-lock.json" "$published/.installed" && exit 0
	cp "$here"/tests/clients/package{,-lock}.json "$published/"
	cd "$published" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json .installed
) 9>"$published.lock" >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
PRINCIPAL=shapes
umask 077
new_token '*' service terminal,rounds,files,observe,drive,lifecycle >"$tmp/token"
# Ours as an installed package, beside the types of node.
mkdir -p "$tmp/node_modules"
ln -s "$here/build/clients/typescript" "$tmp/node_modules/muxd"
ln -s "$here/webclient/node_modules/@types" "$tmp/node_modules/@types"
for shape in "e2b e2b muxd" "code_interpreter @e2b/code-interpreter muxd" "daytona @daytonaio/sdk muxd/daytona"; do
	read -r script theirs ours <<<"$shape"
	"$here/tests/clients/check.sh" theirs "$script" "$theirs" "$published/check-$$" >"$tmp/types" 2>&1 || { cat "$tmp/types"; fail "$script.ts does not fit $theirs"; }
	rm -r "$published/check-$$"
	ok "$script.ts fits $theirs"
	"$here/tests/clients/check.sh" ours "$script" "$ours" "$tmp/$script" >"$tmp/types" 2>&1 || { cat "$tmp/types"; fail "$script.ts does not fit $ours"; }
	ok "$script.ts fits $ours"
	TOKEN_FILE=$tmp/token node "$tmp/$script/$script.js" || fail "$script.ts does not run"
done
