#!/bin/bash
# The record offline: how fast one core proves a recording and writes it as asciicast, per byte of output, by processor time,
# beside a floor: SHA-256 over the same bytes. MIB: how much. Prints rows of docs/speed.md, writes build/bench-record.json.
set -eu
cd "$(dirname "$0")/../.."
BUILD=$PWD/${BUILD:-build}
mib=${MIB:-500}
make -s --no-print-directory "$(realpath --relative-to=. "$BUILD")/bench/long_recording" >/dev/null
# shellcheck source=tests/lib/env.sh
. tests/lib/env.sh
chmod 0711 "$tmp"
start_daemon "$tmp/state"
stop_daemon
session=$("$BUILD/bench/long_recording" "$tmp/state" web "$mib" 120)
file=$(find "$tmp/state/record/sealed" -name "$session.mrec")
raw() { muxctl export --format raw "$file"; }
bytes=$(raw | wc -c)
# best_of COMMAND...: MB of output per second of processor time, the best of five
best_of() {
	local best=0 now t
	for _ in 1 2 3 4 5; do
		t=$( { TIMEFORMAT='%U %S'; time "$@" >/dev/null 2>&1; } 2>&1)
		now=$(awk -v t="$t" -v n="$bytes" 'BEGIN {split(t, a, " "); print int(n / 1e6 / (a[1] + a[2]))}')
		[ "$now" -gt "$best" ] && best=$now
	done
	echo "$best"
}
raw >"$tmp/raw"
floor=$(best_of openssl dgst -sha256 "$tmp/raw")
verify=$(best_of muxctl verify "$file" --key "$tmp/state/keys/record")
v2=$(best_of muxctl export --format asciicast-v2 "$file")
v3=$(best_of muxctl export --format asciicast-v3 "$file")
mkdir -p build
jq -n --argjson floor "$floor" --argjson verify "$verify" --argjson v2 "$v2" --argjson v3 "$v3" --argjson bytes "$bytes" \
	'{bytes: $bytes, mb_s: {sha256: $floor, verify: $verify, asciicast_v2: $v2, asciicast_v3: $v3}}' >build/bench-record.json
jq -r 'def row(what; value; goal): "| \(what) | \(value) MB/s | | | \(goal) |";
	row("SHA-256 of \(.bytes / 1e6 | floor) MB (openssl), a core"; .mb_s.sha256; ""),
	row("verify, a core"; .mb_s.verify; "≥ 600 MB/s"),
	row("asciicast v2, a core"; .mb_s.asciicast_v2; "≥ 300 MB/s"),
	row("asciicast v3, a core"; .mb_s.asciicast_v3; "≥ 300 MB/s")' build/bench-record.json
