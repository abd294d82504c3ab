#!/bin/bash
# A round that prints 10 GiB, with the caps as they are by default: the memory of who keeps it stays flat, totals and
# digest are right, and of the output there are its beginning and its end, while it prints, at once behind it, and after
# kills. What it prints is a cipher's key stream: it cannot be compressed, and any part of it can be made again.
# tier: all, alone, whole MIB=10240
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state
start_daemon "$state" || fail "the daemon does not start"
trap 'end_own ${sampler:+"$sampler"}; stop_daemon; tidy' EXIT

PRINCIPAL=agent.7
token=$(new_token long agent rounds 3h)
mib=${MIB:-768}
size=$((mib * 1024 * 1024))
key=000102030405060708090a0b0c0d0e0f
bytes() {
	local path=$1
	shift
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H 'Accept: application/octet-stream' \
		-D "$tmp/head" "$@" "https://$(ready https)$path"
}
sum() { sha256sum | cut -d' ' -f1; }
field() { sed -n "s/^$1: \(.*\)\r\$/\1/Ip" "$tmp/head"; }
cipher() { echo "openssl enc -aes-128-ctr -nosalt -K $key -iv $(printf %032x "$1") -in /dev/zero 2>/dev/null"; }
# part FROM BYTES: of what is printed
part() { eval "$(cipher $(($1 / 16)))" | tail -c "+$(($1 % 16 + 1))" | head -c "$2"; }
# KiB of memory, those of the ring left out; KiB of the log
sample() {
	local muxlet
	muxlet=$(jq .init.pid "$state/sandboxes/long/sandbox.json")
	while sleep 0.5; do
		for p in recorder:$(ready pids.recorder) net:$(ready pids.net) muxlet:$muxlet; do
			echo "${p%:*} $(awk '/^Pss_Anon:/ {print $2}' "/proc/${p#*:}/smaps_rollup")"
		done
		echo "segments $(du -sk "$state/record/segments" | cut -f1)"
	done >"$tmp/samples" 2>/dev/null
}
most() { awk -v w="$1" '$1 == w && $2 > m {m = $2} END {print m + 0}' "$tmp/samples"; }
least() { awk -v w="$1" '$1 == w && $2 && (!m || $2 < m) {m = $2} END {print m + 0}' "$tmp/samples"; }

# whole WHEN: the beginning and the end are there, the middle is named
whole() {
	local missing from until
	bytes "/v1/rounds/$id/output" >"$tmp/whole" || fail "$1: the answer breaks off"
	missing=$(field muxd-missing)
	equal "$1: all of it is told of" "$size" "$(field muxd-total-bytes)"
	[[ $missing =~ ^bytes\ ([0-9]+)-([0-9]+)$ ]] || fail "$1: Muxd-Missing is '$missing'"
	from=${BASH_REMATCH[1]} until=$((BASH_REMATCH[2] + 1))
	equal "$1: what is there beside $missing" "$((from + size - until))" "$(stat -c %s "$tmp/whole")"
	[ "$from" -ge $((32 << 20)) ] && [ $((size - until)) -ge $((208 << 20)) ] ||
		fail "$1: too little is kept: $missing of $size"
	equal "$1: its beginning" "$(part 0 "$from" | sum)" "$(head -c "$from" "$tmp/whole" | sum)"
	equal "$1: its end" "$(part "$until" $((size - until)) | sum)" "$(tail -c +$((from + 1)) "$tmp/whole" | sum)"
}

id=$(api "$token" POST /v1/agents/long/rounds "{\"command\":\"$(cipher 0) | head -c $size\",\"wait_ms\":0,\"timeout_ms\":7200000}" |
	jq -r .round_id)
sample &
sampler=$!
begun=$SECONDS seen=0
while ! r=$(api "$token" GET "/v1/rounds/$id?wait_ms=1000") || [ "$(jq -r .state <<<"$r")" != finished ]; do
	[ $SECONDS -lt $((begun + 3600)) ] || fail "it does not end"
	bytes "/v1/rounds/$id/output?tail=65536" >"$tmp/tail" || fail "its newest bytes do not come while it prints"
	[ "$(stat -c %s "$tmp/tail")" -le 65536 ] || fail "more came than the last 65536 bytes"
	[ "$(part "$(field muxd-offset)" "$(stat -c %s "$tmp/tail")" | sum)" = "$(sum <"$tmp/tail")" ] ||
		fail "while it prints the bytes at $(field muxd-offset) are others"
	seen=$((seen + 1))
done
took=$((SECONDS - begun))
[ $seen -gt 0 ] || fail "it was never looked at while it printed"
ok "while it printed its newest bytes were right, $seen times"
equal "it ends" "exit 0 $size" "$(jq -r '"\(.exit.cause) \(.exit.code) \(.stdout.total_bytes)"' <<<"$r")"
equal "its digest is that of all it printed" "$(part 0 $size | sum)" "$(jq -r .stdout.sha256 <<<"$r")"
whole "at once behind it"
kill "$sampler"
wait "$sampler" 2>/dev/null
for p in recorder net muxlet; do
	[ "$(most $p)" -gt 0 ] || fail "the memory of $p was never seen"
	ok "$p: $(least $p) to $(most $p) KiB of memory"
	[[ $BUILD == */san ]] || [ $(($(most $p) - $(least $p))) -lt $((24 * 1024)) ] || fail "the memory of $p grows"
done
ok "$mib MiB in $took s; the log had $(($(most segments) / 1024)) MiB at the most"

kill -9 "$(ready pids.recorder)"
wait_for 30 eval '[ "$(api "$token" GET "/v1/rounds/$id/output?limit=1" | jq .total_bytes)" = $size ]' ||
	fail "after a kill of the recorder its output is not answered"
whole "after a kill of the recorder"
for p in recorder net monitor; do kill -9 "$(ready "pids.$p")"; done
wait "$DAEMON" 2>/dev/null
start_daemon "$state" || fail "the daemon does not come again"
whole "after a kill of everything"
