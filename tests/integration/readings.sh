#!/bin/bash
# Who has read what of another's: each reader in the audit log, with how often, from where, and which bytes.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=readings
owner=$(PRINCIPAL=owner new_token $agent agent rounds)
round=$(api "$owner" POST /v1/agents/$agent/rounds '{"argv":["seq","100"],"wait_ms":20000}' | jq -er .round_id) || fail "no round"
id_of() { cut -d. -f2 <<<"$1" | tr '_-' '/+' | base64 -d 2>/dev/null | jq -r .jti; }
# reads TOKEN N: so many pages of ten bytes, on one connection
reads() {
	local urls=() i
	for i in $(seq 0 $(($2 - 1))); do urls+=(-o /dev/null "https://$(ready https)/v1/rounds/$round/output?stream=stdout&offset=$((i * 10))&limit=10"); done
	curl -sS --fail --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $1" "${urls[@]}"
}
events() { muxctl audit --event record.read -n 1000 -o json | jq -c --arg g "$(id_of "$1")" 'select(.record.grant_id == $g) | .record'; }
# The rest of a reading is told when its connection has ended.
counted() { [ "$(events "$1" | jq -s 'map(.count) | add')" = "$2" ]; }

first=$(PRINCIPAL=ann new_token '*' auditor replay) second=$(PRINCIPAL=bob new_token '*' auditor replay)
reads "$first" 6 || fail "not read"
reads "$second" 4 || fail "not read"
wait_for 10 counted "$first" 6 || fail "six readings: $(events "$first")"
wait_for 10 counted "$second" 4 || fail "four readings: $(events "$second")"
ok "ten readings by two auditors are counted, by reader"
equal "in two events each" "2 2" "$(events "$first" | wc -l) $(events "$second" | wc -l)"
equal "which bytes" '[[0,10]] [[10,50]]' "$(events "$first" | jq -c .streams.output.ranges | paste -sd' ')"
equal "from where, and at what" "127.0.0.1 rest GET /v1/rounds/{id}/output ann" \
	"$(events "$first" | jq -r '"\(.peer | sub(":[0-9]+$"; "")) \(.door) \(.endpoint) \(.principal)"' | sort -u)"

reads "$first" 2 || fail "not read"
wait_for 10 counted "$first" 8 || fail "another connection: $(events "$first")"
ok "another connection is another reader"

third=$(PRINCIPAL=eve new_token other auditor replay)
equal "a round of others is as one that never was" "not_found not_found" \
	"$(api "$third" GET "/v1/rounds/$round/output" | jq -r .error.code) $(api "$third" GET "/v1/recordings/$round" | jq -r .error.code)"
equal "and nobody is named" null "$(api "$third" GET "/v1/recordings/$round" | jq 'if (.error.message | contains("readings")) then 1 else null end')"
denied() { events "$third" | jq -e 'select(.outcome == "denied" and .agent == "readings")'; }
wait_for 10 denied || fail "no refusal: $(events "$third")"
ok "the refusal is in the log, with whose it was"

local_reads() { muxctl audit --event record.read -n 1000 -o json | jq -c --arg s "$round" 'select(.record.op == "file" and .record.session == $s) | .record'; }
sealed() { find "$MUXD_STATE/record/sealed" -name "$round*.mrec" | grep .; }
wait_for 20 sealed || fail "not sealed"
equal "nobody read the file yet" "" "$(local_reads)"
muxctl export "$round" >/dev/null || fail "no export"
equal "muxctl says what it reads, all of it" '292' "$(local_reads | jq -r .streams.output.bytes | head -n 1)"
muxctl export "$(sealed)" >/dev/null || fail "no export by path"
equal "by its path, too" 2 "$(local_reads | jq -s 'map(.count) | add')"

# A recorder that is killed and comes again knows for whom the hub asks, whatever state net is in then. A daemon of our own.
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
owner=$(PRINCIPAL=owner new_token $agent agent rounds)
round=$(api "$owner" POST /v1/agents/$agent/rounds '{"argv":["seq","100"],"wait_ms":20000}' | jq -er .round_id) || fail "no round"
first=$(PRINCIPAL=ann new_token '*' auditor replay) second=$(PRINCIPAL=bob new_token '*' auditor replay)
stored() { reads "$1" 1; }
wait_for 20 stored "$owner" || fail "the round is not in the record"
by_reader() {
	equal "$2: by each reader" "ann rest 127.0.0.1 bob rest 127.0.0.1" "$({ events "$first"; events "$second"; } |
		jq -r '"\(.principal) \(.door) \(.peer | sub(":[0-9]+$"; ""))"' | sort -u | paste -sd' ')"
	wait_for 10 counted "$first" "$1" && wait_for 10 counted "$second" "$1" && ok "$2: counted" ||
		fail "$2: $(events "$first"; events "$second")"
}
# dead PID: it reads nothing more. A reading that it still took, without a chance to answer, is asked and counted again.
dead() { ! [ -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }
old=$(ready pids.recorder)
kill -9 "$old"
until dead "$old" 2>/dev/null; do :; done
reads "$first" 3 && reads "$second" 3 || fail "not read"
by_reader 3 "after a kill of the recorder"
# Net is given a stream to a recorder that dies before it could ask: it hears of the next one though it has not started yet.
net=$(ready pids.net) recorder=$(ready pids.recorder)
kill -9 "$net"
# The next net, as soon as it is there: looked for without a program, since it may ask within milliseconds of its start.
starting() {
	local pid words
	read -ra children <"/proc/$DAEMON/task/$DAEMON/children"
	for pid in "${children[@]}"; do
		[ "$pid" != "$net" ] && mapfile -d '' words 2>/dev/null <"/proc/$pid/cmdline" && [ "${words[1]:-}" = net ] && new=$pid && return
	done
	return 1
}
until=$((SECONDS + 40))
until starting || [ $SECONDS -ge $until ]; do read -rt 0.002 <> <(:); done
kill -STOP "$new" || fail "net does not come again"
sleep 0.3 # the recorder has the stream by now, else the next one gets it
kill -9 "$recorder"
next() { pgrep -P "$DAEMON" -f muxd-recorder | grep -qv "^$recorder\$"; }
wait_for 10 next || fail "the recorder does not come again"
sleep 0.5 # ... and says that it is ready
kill -CONT "$new"
back() { [ "$(ready pids.net)" != "$net" ]; }
begun=$SECONDS
wait_for 10 back || fail "net does not come again"
[ $((SECONDS - begun)) -le 10 ] || fail "net came again after $((SECONDS - begun)) s"
reads "$first" 3 && reads "$second" 3 || fail "not read"
by_reader 6 "after a kill of both"
