#!/bin/bash
# Two hours of a terminal in Chromium, 20 MiB: marks of rounds and sizes, any moment exactly as playing to it shows it, and each
# jump reads a bounded part of the recording.
# tier: test, whole CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

webclient/build.sh all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
san=
[[ $BUILD == */san ]] && san=SAN=address,undefined
# shellcheck disable=SC2086
make -s --no-print-directory $san "$(realpath --relative-to="$here" "$BUILD")/bench/long_recording" >"$tmp/make" 2>&1 ||
	fail "long_recording: $(tail -n 5 "$tmp/make")"
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
stop_daemon
SESSION=$("$BUILD/bench/long_recording" "$tmp/state" web 20 120) || fail "no recording"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
muxctl verify "$SESSION" >"$tmp/verify" || fail "$(cat "$tmp/verify")"
ok "the recording is intact and complete"
export MUXD_STATE BUILD SESSION
node tests/e2e/browser/long.mjs || fail "see above"
