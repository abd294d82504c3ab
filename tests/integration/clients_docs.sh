#!/bin/bash
# Every example of docs/clients.md does what it stands there for.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

"$here/clients/typescript/build.sh" >"$tmp/tsc" 2>&1 || fail "the package is not built: $(tail -n 3 "$tmp/tsc")"
chmod 0711 "$tmp"
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
PRINCIPAL=docs
umask 077
new_token '*' service terminal,rounds,files,observe,drive,lifecycle >"$tmp/token"
export PYTHONDONTWRITEBYTECODE=1 MUXD_TOKEN_FILE=$tmp/token MUXD_STATE
/usr/bin/python3 -W error "$here/tests/integration/clients_docs.py" "$tmp" >"$tmp/python" 2>&1 || { cat "$tmp/python"; fail "see above"; }
grep ' ok:' "$tmp/python"
mkdir "$tmp/node_modules"
ln -s "$here/build/clients/typescript" "$tmp/node_modules/muxd"
ln -s "$here/webclient/node_modules/@types" "$tmp/node_modules/@types"
echo '{"type": "module"}' >"$tmp/package.json"
(cd "$tmp" && "$here/webclient/node_modules/.bin/tsc" --target ES2022 --lib ES2022,DOM --module NodeNext --strict --skipLibCheck --types node example*.ts) ||
	fail "an example has the wrong types"
for example in "$tmp"/example*.js; do
	node "$example" >"$tmp/out" || { cat "$tmp/out"; fail "$example"; }
	ok "$(basename "$example" .js): $(tr '\n' ' ' <"$tmp/out")"
done
equal "nothing is left" 0 "$(api "$(cat "$tmp/token")" GET '/v1/agents?prefix=sbx-' | jq '.agents | length')"
