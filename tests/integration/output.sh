#!/bin/bash
# The whole output of a round: while it runs, at once behind its end, after a kill of everything, by range, from its end,
# and past the cap.
# tier: test, slice MIB=16 KILLS=2, whole MIB=100 KILLS=30
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state
# On the disk what seq prints is a twelfth of it: the cap is far enough above that, and noise is put past it below.
cap=$((${MIB:-16} / 8 > 4 ? ${MIB:-16} / 8 : 4))
cat >"$tmp/conf.yaml" <<END
rounds:
  output_keep_stream: ${cap}MiB
journal:
  size: 8MiB
record:
  rules:
    - {kind: "*", rule: truncated, head: 4KiB, tail: 4KiB}
END
start_daemon "$state" --config "$tmp/conf.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT

PRINCIPAL=agent.7
agent=output
token=$(new_token $agent agent rounds)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
# bytes PATH [curl's arguments]: of the API, as they are
bytes() {
	local path=$1
	shift
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H 'Accept: application/octet-stream' \
		"$@" "https://$(ready https)$path"
}
sum() { sha256sum | cut -d' ' -f1; }
status() { sed -n '1s/HTTP\/1.1 \([0-9]*\).*/\1/p' "$tmp/head"; }
field() { sed -n "s/^$1: \(.*\)\r\$/\1/Ip" "$tmp/head"; }

# ---- all of it: during, at once behind, after a kill

size=$((${MIB:-16} * 1024 * 1024))
want=$(seq 1 20000000 | head -c $size | sum)
id=$(round "{\"command\":\"seq 1 20000000 | head -c $size; echo done >&2\",\"wait_ms\":0}" | jq -r .round_id)
bytes "/v1/rounds/$id/output?follow=true" >"$tmp/followed" || fail "following ends with $?"
equal "who follows from the start has all of it" "$want" "$(sum <"$tmp/followed")"
# One connection of all that have read it has this many bytes of it in the audit log.
told() {
	muxctl audit --event record.read -n 1000 -o json | jq -se --arg s "$1" --argjson n "$2" '[.[].record | select(.session == $s)] |
		group_by(.peer) | map(map(.streams.output.bytes // 0) | add) | any(. == $n)' >/dev/null
}
wait_for 10 told "$id" "$size" || fail "what a follower was given is not in the audit log"
ok "and the audit log how much that was"
r=$(api "$token" GET "/v1/rounds/$id?wait_ms=20000")
equal "which is what the round printed" "$want" "$(jq -r .stdout.sha256 <<<"$r")"
equal "at once behind its end it is there" "$want" "$(bytes "/v1/rounds/$id/output" -D "$tmp/head" | sum)"
equal "with its length" "200 $size $size" "$(status) $(field content-length) $(field muxd-total-bytes)"
equal "and nothing is missing" "" "$(field muxd-missing)"
equal "its stderr too" "done" "$(bytes "/v1/rounds/$id/output?stream=stderr")"

# killed WHO...: by SIGKILL, and the daemon comes again
killed() {
	for p in "$@"; do kill -9 "$(ready "pids.$p")"; done
	wait "$DAEMON" 2>/dev/null
	start_daemon "$state" --config "$tmp/conf.yaml" || fail "the daemon does not come again"
}
before=$(ready pid)
killed recorder net monitor
equal "after a kill of everything another daemon" no "$([ "$before" = "$(ready pid)" ] && echo yes || echo no)"
equal "has all of it" "$want" "$(bytes "/v1/rounds/$id/output" | sum)"

# ---- killed while it prints

slow=$(round "{\"command\":\"seq 1 20000000 | head -c $size | (while head -c 65536 >piece && [ -s piece ]; do cat piece; sleep 0.01; done)\",\"wait_ms\":0}" | jq -r .round_id)
for _ in $(seq "${KILLS:-2}"); do
	sleep "0.$((RANDOM % 9 + 1))"
	killed recorder net monitor
	offset=$(api "$token" GET "/v1/rounds/$slow/output?offset=0&limit=1" | jq .total_bytes)
	equal "after a kill in the middle its $offset bytes are those" "$(head -c "$offset" "$tmp/followed" | sum)" \
		"$(bytes "/v1/rounds/$slow/output?limit=$offset" | sum)"
done
wait_for 30 eval 'api "$token" GET "/v1/rounds/$slow?wait_ms=5000" | jq -e ".state == \"finished\""' || fail "the round does not end"
equal "and in the end all of them are" "$want" "$(bytes "/v1/rounds/$slow/output" -D "$tmp/head" | sum)"
equal "none is missing" "" "$(field muxd-missing)"

# ---- who follows and does not read: the program does not wait, and what the journal has lost meanwhile is in the record

late=$(round "{\"command\":\"echo begun; read go; seq 1 20000000 | head -c $size\",\"stdin_open\":true,\"wait_ms\":0}" | jq -r .round_id)
follow() { exec curl -sSN --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" "https://$(ready https)/v1/rounds/$1/output?follow=true"; }
follow "$late" >"$tmp/late" &
follower=$!
wait_for 5 grep -q begun "$tmp/late" || fail "the beginning does not come while the round runs"
kill -STOP "$follower"
api "$token" POST "/v1/rounds/$late/stdin" '{"data":"\n"}' >/dev/null
equal "a follower who does not read holds no program back" finished "$(api "$token" GET "/v1/rounds/$late?wait_ms=20000" | jq -r .state)"
equal "he has little of it" yes "$([ "$(stat -c %s "$tmp/late")" -lt $((size / 2)) ] && echo yes || echo no)"
kill -CONT "$follower"
wait "$follower" || fail "following does not go on: $?"
equal "and all of it once he reads on" "$want" "$(tail -c +7 "$tmp/late" | sum)"

# ---- pages of JSON, from the middle, the end, lines

equal "a page from the middle" "$(tail -c +5000001 "$tmp/followed" | head -c 1000 | sum)" \
	"$(api "$token" GET "/v1/rounds/$id/output?offset=5000000&limit=1000" | jq -j .data | sum)"
equal "the last lines as JSON" "$(tail -n 3 "$tmp/followed")" "$(api "$token" GET "/v1/rounds/$id/output?lines=3" | jq -j .data)"
equal "the last lines as bytes" "$(tail -n 1000 "$tmp/followed" | sum)" "$(bytes "/v1/rounds/$id/output?lines=1000" | sum)"
equal "the last bytes" "$(tail -c 70000 "$tmp/followed" | sum)" "$(bytes "/v1/rounds/$id/output?tail=70000" | sum)"
equal "more than there are is all" "$want" "$(bytes "/v1/rounds/$id/output?tail=999999999" | sum)"

# ---- lines in which something is found

g=$(api "$token" GET "/v1/rounds/$id/output?grep=77777&limit=1000")
equal "every line with some text" "$(grep -n 77777 "$tmp/followed")" "$(jq -r '.matches[] | "\(.line):\(.data)"' <<<"$g")"
equal "to the end" "true $size" "$(jq -r '"\(.eof) \(.next_offset)"' <<<"$g")"
g=$(api "$token" GET "/v1/rounds/$id/output?regex=true&limit=5&grep=%5E12*3%24")
equal "a regular expression, five of them" "$(grep -n -m5 '^12*3$' "$tmp/followed")" "$(jq -r '.matches[] | "\(.line):\(.data)"' <<<"$g")"
equal "goes on behind the last one" "$(grep '^12*3$' "$tmp/followed" | sed -n 6p)" \
	"$(api "$token" GET "/v1/rounds/$id/output?regex=true&limit=1&offset=$(jq .next_offset <<<"$g")&grep=%5E12*3%24" | jq -r '.matches[].data')"
equal "one that is none is refused by name" "invalid_request grep: ( without its ): write \\( for the character (at byte 0 of the pattern)" \
	"$(api "$token" GET "/v1/rounds/$id/output?regex=true&grep=(a" | jq -r '.error | "\(.code) \(.message)"')"
crlf=$(round '{"command":"printf \"undone\\r\\ndone\\r\\nx\\rdone\\n\\ndone\\r\"","wait_ms":20000}' | jq -r .round_id)
equal "a line's end may be a return and a newline, as from a terminal" "1 0 6 undone,2 8 4 done,3 14 6 x\rdone,5 22 4 done" \
	"$(api "$token" GET "/v1/rounds/$crlf/output?regex=true&grep=done%24" | jq -c '.matches[] | "\(.line) \(.offset) \(.bytes) \(.data)"' | tr -d '"' | paste -sd,)"

# ---- ranges

piece_sum() { tail -c "+$(($1 + 1))" "$tmp/followed" | head -c "$(($2 - $1 + 1))" | sum; }
equal "a range" "$(piece_sum 1000000 3999999)" "$(bytes "/v1/rounds/$id/output" -r 1000000-3999999 -D "$tmp/head" | sum)"
equal "says which" "206 bytes 1000000-3999999/$size" "$(status) $(field content-range)"
equal "one from the end" "$(tail -c 500 "$tmp/followed" | sum)" "$(bytes "/v1/rounds/$id/output" -r -500 -D "$tmp/head" | sum)"
equal "says where that is" "bytes $((size - 500))-$((size - 1))/$size" "$(field content-range)"
equal "one that reaches past the end is shortened" "bytes $((size - 5))-$((size - 1))/$size" \
	"$(bytes "/v1/rounds/$id/output" -r $((size - 5))-999999999999 -D "$tmp/head" >/dev/null; field content-range)"
equal "one behind the end is refused with the length" "416 bytes */$size" \
	"$(bytes "/v1/rounds/$id/output" -r $size- -D "$tmp/head" >/dev/null; echo "$(status) $(field content-range)")"
for bad in bytes=5-1 bytes=a-b bytes=-- bytes=0-1,5-6 bytes=99999999999999999999-; do
	equal "Range: $bad is refused" 400 "$(bytes "/v1/rounds/$id/output" -H "Range: $bad" -o /dev/null -w '%{http_code}')"
done
equal "another unit is passed over" "200 $size" \
	"$(bytes "/v1/rounds/$id/output" -H 'Range: lines=1-2' -o /dev/null -w '%{http_code} %{size_download}')"
for bad in 'offset=1&tail=1' 'lines=0' 'lines=10001' 'tail=0' 'follow=perhaps' 'stream=stdin'; do
	equal "?$bad is refused" 400 "$(bytes "/v1/rounds/$id/output?$bad" -o /dev/null -w '%{http_code}')"
done
equal "HEAD has the length and no byte" "200 $size" \
	"$(bytes "/v1/rounds/$id/output" -I -D "$tmp/head" -o /dev/null; echo "$(status) $(field content-length)")"

# ---- a reader who takes his time, and one who leaves

equal "a slow reader has all of it" "$want" "$(bytes "/v1/rounds/$id/output" --limit-rate 10M | sum)"
live=$(round '{"command":"echo begun; cat; echo over","stdin_open":true,"wait_ms":0}' | jq -r .round_id)
bytes "/v1/rounds/$live/output?follow=true" -N >"$tmp/live" &
follower=$!
wait_for 5 grep -q begun "$tmp/live" || fail "the beginning does not come while the round runs"
bytes "/v1/rounds/$live/output?follow=true" -N --max-time 1 >/dev/null 2>&1
equal "of a round that runs there is what there is" begun "$(bytes "/v1/rounds/$live/output")"
equal "whose length is not known" "bytes 0-2/*" "$(bytes "/v1/rounds/$live/output" -r 0-2 -D "$tmp/head" >/dev/null; field content-range)"
api "$token" POST "/v1/rounds/$live/stdin" '{"data":"more\n"}' >/dev/null
wait_for 5 grep -q more "$tmp/live" || fail "what comes later does not come"
api "$token" POST "/v1/rounds/$live/stdin" '{"eof":true}' >/dev/null
wait "$follower" || fail "following does not end with the round: $?"
equal "who follows sees what comes and the end" "begun more over" "$(tr '\n' ' ' <"$tmp/live" | sed 's/ $//')"

# ---- past the cap

head -c 1M /dev/urandom | base64 -w 999 | head -c 1M >"$tmp/noise"
files=$(new_token $agent agent files)
curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $files" -T "$tmp/noise" \
	"https://$(ready https)/v1/agents/$agent/files?path=noise" >/dev/null
big=$(round "{\"command\":\"for i in \$(seq $((4 * cap))); do cat noise; done\",\"wait_ms\":60000}" | jq -r .round_id)
api "$token" GET "/v1/rounds/$big?wait_ms=60000" >/dev/null
bytes "/v1/rounds/$big/output" -D "$tmp/head" >"$tmp/rest"
missing=$(field muxd-missing)
equal "past the cap the answer says what is missing" 1 "$(grep -c '^bytes [0-9]*-[0-9]*$' <<<"$missing")"
from=${missing#bytes } until=${from#*-} from=${from%-*}
for _ in $(seq $((4 * cap))); do cat "$tmp/noise"; done >"$tmp/followed"
equal "its beginning is there" "$(head -c "$from" "$tmp/followed" | sum)" "$(head -c "$from" "$tmp/rest" | sum)"
equal "and its end" "$(tail -c "+$((until + 2))" "$tmp/followed" | sum)" "$(tail -c "+$((from + 1))" "$tmp/rest" | sum)"
printed=$((4 * cap * 1024 * 1024))
[ "$from" -ge $((cap * 128 * 1024)) ] && [ $((printed - until)) -ge $((cap * 640 * 1024)) ] || fail "too little is kept: $missing"
ok "an eighth at the beginning, the rest at the end"
equal "JSON has the gap" "$((until + 1 - from))" "$(api "$token" GET "/v1/rounds/$big/output?offset=$from&limit=10" | jq .gaps[0].bytes)"
equal "a range over the hole is what there is before it" "206 bytes $((from - 10))-$((from - 1))/$printed" \
	"$(bytes "/v1/rounds/$big/output" -r $((from - 10))-$((from + 10)) -D "$tmp/head" >/dev/null; echo "$(status) $(field content-range)")"
equal "one inside it is refused" 416 "$(bytes "/v1/rounds/$big/output" -r $((from + 10))-$((from + 20)) -o /dev/null -w '%{http_code}')"

noisy=$(tail -c "+$((until + 2))" "$tmp/followed" | wc -l)
[ "$noisy" -lt 10000 ] && noisy=$((noisy - 1)) || noisy=10000
equal "the last $noisy lines reach back to the hole" "$(tail -n $noisy "$tmp/followed" | sum)" "$(bytes "/v1/rounds/$big/output?lines=$noisy" | sum)"

# ---- whose it is

PRINCIPAL=agent.8
mine=$token
token=$(new_token $agent agent rounds)
equal "another agent's round is as absent" 404 "$(bytes "/v1/rounds/$id/output" -o /dev/null -w '%{http_code}')"
token=$(new_token other agent rounds)
equal "so it is for another sandbox's grant" 404 "$(bytes "/v1/rounds/$id/output" -o /dev/null -w '%{http_code}')"
PRINCIPAL=auditor.1
token=$(new_token $agent auditor replay)
equal "an auditor sees what the recording has" 8192 \
	"$(( $(api "$token" GET "/v1/rounds/$id/output?limit=1048576" | jq -j .data | wc -c) + $(api "$token" GET "/v1/rounds/$id/output?offset=4096&limit=1048576" | jq -j .data | wc -c) ))"
before=$SECONDS
equal "as bytes with the name of what it lacks" "8192 bytes 4096-$((size - 4097))" \
	"$(bytes "/v1/rounds/$id/output" -D "$tmp/head" | wc -c) $(field muxd-missing)"
[ $((SECONDS - before)) -lt 20 ] || fail "that took $((SECONDS - before)) s"
token=$mine

# ---- by hand

theirs=$id
id=$(muxctl exec -o json $agent -c 'seq 100000; echo fine >&2' | jq -r .session)
equal "muxctl exec names the round of a start that failed" "program_not_found 36" \
	"$(muxctl exec -o json $agent -- nosuch 2>&1 | jq -r '"\(.error.code) \(.error.details.round_id | length)"')"
equal "muxctl round output has all of it" "$(seq 100000 | sum)" "$(muxctl round output "$id" | sum)"
equal "as one who follows" "$(seq 100000 | sum)" "$(muxctl round output --follow "$id" | sum)"
equal "of stderr" fine "$(muxctl round output "$id" --stream stderr)"
equal "its last lines" "$(seq 99998 100000)" "$(muxctl round output -n 3 "$id")"
equal "a range" "$(seq 100000 | head -c 20 | tail -c 10)" "$(muxctl round output --range 10-19 "$id")"
equal "from an offset" "$(seq 99999 100000)" "$(muxctl round output --offset 588882 "$id")"
equal "lines with some text" "$(seq 100000 | grep 77)" "$(muxctl round output --grep 77 "$id")"
equal "with an expression" "$(seq 100000 | grep -E '^12*3$')" "$(muxctl round output -E --grep '^12*3$' "$id")"
equal "none is status 1" 1 "$(muxctl round output --grep nothing "$id"; echo $?)"
equal "a page as JSON" "588895 true 100000" \
	"$(muxctl round output -o json --tail 1 "$id" | jq -r '"\(.total_bytes) \(.eof) \(.data | rtrimstr("\n"))"')"
equal "lines as JSON" 99999 "$(muxctl round output -o json --grep 99999 "$id" | jq '.matches[0].line')"
# refused STATUS MESSAGE ARGUMENTS...
refused() {
	local status=$1 message=$2
	shift 2
	muxctl round output "$@" >"$tmp/out" 2>"$tmp/err"
	equal "muxctl round output $*" "$status 0" "$? $(stat -c %s "$tmp/out")"
	grep -qF "$message" "$tmp/err" || fail "$(cat "$tmp/err")"
}
refused 64 '"x" is not a round id' x
refused 66 'round not found' 01936f0e-0000-7000-8000-000000000000
refused 64 'exclude each other' --tail 1 --offset 1 "$id"
refused 64 'Range must be' --range 5-1 "$id"
refused 64 'the range is past the end' --range 999999- "$id"
refused 64 'stream must be' --stream stdin "$id"
refused 64 '( without its )' -E --grep '(' "$id"
refused 64 'go with --grep' -i "$id"
muxctl round output "$id" >/dev/full 2>"$tmp/err"
equal "what cannot be written is told" "69 1" "$? $(grep -c 'No space left' "$tmp/err")"
muxctl round output "$theirs" >"$tmp/out" 2>"$tmp/err" || fail "another's round, as the recording has it: $?"
equal "of another's round what the recording has" "8192 muxctl: not kept, and left out: bytes 4096-$((size - 4097))" \
	"$(stat -c %s "$tmp/out") $(cat "$tmp/err")"

# ---- what a start finds: a file that lacks its end and some of its bytes, and something that is no file

PRINCIPAL=agent.7
token=$(new_token $agent agent rounds)
small=$(api "$token" POST /v1/agents/$agent/rounds '{"command":"seq 100000","wait_ms":20000}' | jq -r .round_id)
kept=$state/record/output
newest() { find "$kept" -name "$1.1.*" | sort | tail -n 1; }
end_is_there() { tail -c 56 "$(newest "$1")" | head -c 4 | grep -q OPUT; }
wait_for 10 end_is_there "$small" || fail "its end is not written"
stop_daemon
for r in "$small" "$id"; do truncate -s -57 "$(newest "$r")"; done
mkdir "$kept/01936f0e-0000-7000-8000-000000000000.1.00000000"
start_daemon "$state" --config "$tmp/conf.yaml" || fail "the daemon does not come again"
equal "what is left of it is there, with the name of what is not" "$(seq 100000 | head -c 524288 | sum) 588895 bytes 524288-588894" \
	"$(bytes "/v1/rounds/$small/output" -D "$tmp/head" -m 20 | sum) $(field muxd-total-bytes) $(field muxd-missing)"
equal "its events name that as well, and end" "missing 524288 64607 exit" \
	"$(bytes "/v1/rounds/$small/events" -m 20 | awk '/^event: (missing|exit)/ { e = $2 } /^data: / && e { print e, $0; e = "" }' |
		sed 's/ data: / /' | while read -r e data; do jq -r --arg e "$e" '[$e, .offset, .bytes] | map(values) | join(" ")' <<<"$data"; done | xargs)"
equal "and who looks for lines" "1 muxctl: not kept, and not looked at: bytes 524288-588894" \
	"$(muxctl round output --grep nothing "$id" 2>"$tmp/err"; echo "$? $(cat "$tmp/err")")"
equal "and no artifact is made of it" corrupt \
	"$(api "$(PRINCIPAL=agent.7 new_token $agent agent files,rounds)" POST /v1/tasks/story/artifacts "{\"name\":\"part\",\"round\":\"$small\"}" | jq -r .error.code)"
equal "the others are whole" "$want" "$(bytes "/v1/rounds/$theirs/output" | sum)"
stop_daemon
rm -r "$kept" && touch "$kept"
start_daemon "$state" --config "$tmp/conf.yaml" || fail "the daemon does not start without that folder"
rests() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz" | jq -e '.alarms[]? | select(.code == "output_not_kept")' >/dev/null; }
wait_for 10 rests && ok "that nothing is kept is an alarm" || fail "nobody is told"
equal "work goes on" fine "$(muxctl exec $agent -- echo fine)"

equal "the record is whole beside it" 0 "$(muxctl verify --all >/dev/null 2>&1; echo $?)"
