#!/bin/bash
# A replay of two hours and 500 MB in Chromium: how fast it opens, how fast any moment is there. MIB and MINUTES: another one.
# Prints rows of docs/speed.md, writes build/bench-replay.json.
set -eu
cd "$(dirname "$0")/../.."
export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
if ! command -v "$CHROMIUM" >/dev/null; then
	echo "replay: not measured; Chromium is not there"
	exit 0
fi
BUILD=$PWD/${BUILD:-build}
mib=${MIB:-500} minutes=${MINUTES:-120}
make -s --no-print-directory "$(realpath --relative-to=. "$BUILD")/bench/long_recording" >/dev/null
webclient/build.sh all >/dev/null
# shellcheck source=tests/lib/env.sh
. tests/lib/env.sh
chmod 0711 "$tmp"
trap 'stop_daemon; rm -rf "$tmp"' EXIT
start_daemon "$tmp/state"
stop_daemon
SESSION=$("$BUILD/bench/long_recording" "$tmp/state" web "$mib" "$minutes")
start_daemon "$tmp/state"
export MUXD_STATE BUILD SESSION
node tests/bench/replay.mjs >build/bench-replay.json
jq -r --arg mib "$mib" --arg minutes "$minutes" '
	def row(what; value; goal): "| \(what) | \(value) | | | \(goal) |";
	row("replay of \($minutes) min, \($mib) MiB: opens, p50"; "\(.open_ms.p50) ms"; "≤ 1 s"),
	row("... any moment, p50"; "\(.seek_ms.p50) ms"; "≤ 200 ms"),
	row("... any moment, p99 of \(.seeks)"; "\(.seek_ms.p99) ms"; "≤ 200 ms"),
	row("... read for a moment, p50"; "\(.seek_kb.p50) kB"; ""),
	row("... its screens made in"; "\(.screens_s) s"; "")' build/bench-replay.json
