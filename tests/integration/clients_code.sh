#!/bin/bash
# run_code() and contexts of the clients, against a daemon: both halves of the Python package, and the TypeScript one.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

export PYTHONDONTWRITEBYTECODE=1 AGENT=code-$$ TOKEN_FILE=$tmp/token
umask 077
PRINCIPAL=code
new_token '*' service terminal,rounds,lifecycle >"$tmp/token"
"$here/clients/typescript/build.sh" >"$tmp/tsc" 2>&1 || { cat "$tmp/tsc"; fail "the TypeScript package is not built"; }
node "$here/tests/integration/clients_code.mjs" "$here/build/clients/typescript" >"$tmp/typescript.log" 2>&1 &
typescript=$!
for how in sync async; do
	/usr/bin/python3 -W error "$here/tests/integration/clients_code.py" $how || fail "$how: see above"
done
wait "$typescript" || { cat "$tmp/typescript.log"; fail "typescript: see above"; }
cat "$tmp/typescript.log"
