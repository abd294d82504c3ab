#!/bin/bash
# What people look at cannot be painted: hostile strings from a grammar through everything that prints, on a terminal.
# 400 of them; STRINGS=10000 for as many, SEED=n for others.
# tier: test, san STRINGS=100, slice STRINGS=300, whole STRINGS=10000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
python3 "$here/tests/integration/painted.py" "$BUILD" "$MUXD_STATE" painted "${SEED:-1}" "${STRINGS:-400}" || fail "see above"
