#!/bin/bash
# The TypeScript client in Chromium, on a page of muxd's own address, with the page's cookie.
# tier: test, whole CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

clients/typescript/build.sh >"$tmp/tsc" 2>&1 || fail "the package is not built: $(tail -n 3 "$tmp/tsc")"
export MUXD_STATE BUILD TMP_DIR=$tmp
node tests/e2e/browser/client.mjs || fail "see above"
