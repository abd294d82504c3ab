#!/bin/bash
# A round's events as they come (server-sent events): started, output, signals, exit; resumed by the last id with nothing
# lost and nothing twice, whenever the connection, the daemon or the whole thing went; read by curl, by a client that does
# what EventSource does, and by Chromium's own.
# tier: test, slice CUTS=12, whole CUTS=200
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state
start_daemon "$state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
PRINCIPAL=agent.7
agent=events
token=$(new_token $agent agent rounds)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
started() { round "$1" | jq -r .round_id; }
# events ROUND [curl's arguments]
events() {
	local id=$1
	shift
	curl -sSN --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" "$@" "https://$(ready https)/v1/rounds/$id/events"
}
names() { sed -n 's/^event: //p' "$1" | uniq | paste -sd' '; }
# data NAME FILE: what the events of that name have, one a line
data() { sed -n "/^event: $1\$/,/^\$/s/^data: //p" "$2"; }
bytes_of() { data "$1" "$2" | jq -rj 'if .encoding == "utf-8" then .data else (.data | "base64 \(.)") end'; }
round '{"argv":["true"]}' >/dev/null

quiet=$(started '{"command":"sleep 6.5","yield_ms":0}')
events "$quiet" >"$tmp/quiet" & quiet_curl=$!

# ---- one round from its beginning to its end

id=$(started '{"command":"printf \"one \\342\\202\"; sleep 0.7; printf \"\\254\\n\"; echo err >&2; printf \"\\377\" >&2; exit 3","yield_ms":0}')
events "$id" -D "$tmp/head" >"$tmp/first" || fail "the stream breaks: $?"
equal "it is a stream of events" "200 text/event-stream no-store" "$(sed -n '1s/HTTP\/1.1 \([0-9]*\).*/\1/p;s/^Content-Type: \(.*\)\r$/\1/Ip;s/^Cache-Control: \(.*\)\r$/\1/Ip' "$tmp/head" | paste -sd' ')"
equal "which says that it began" "$id running" "$(data started "$tmp/first" | jq -r '"\(.round_id) \(.state)"')"
equal "its output, whole characters alone" "one €" "$(bytes_of stdout "$tmp/first")"
equal "with offsets" "0 4" "$(data stdout "$tmp/first" | jq -r .offset | paste -sd' ')"
# The two writes of stderr come as one event or as two.
equal "what is no text as base64" "base64 ZXJyCv8=" "base64 $(data stderr "$tmp/first" | jq -r 'if .encoding == "utf-8" then (.data | @base64) else .data end' |
	while read -r part; do base64 -d <<<"$part"; done | base64)"
equal "and says so" base64 "$(data stderr "$tmp/first" | jq -r .encoding | tail -n 1)"
equal "and its end" "exit 3 8 5" "$(data exit "$tmp/first" | jq -r '"\(.exit.cause) \(.exit.code) \(.stdout.total_bytes) \(.stderr.total_bytes)"')"
equal "the digest is that of all" "$(printf 'one €\n' | sha256sum | cut -d' ' -f1)" "$(data exit "$tmp/first" | jq -r .stdout.sha256)"
last=$(sed -n 's/^id: //p' "$tmp/first" | tail -n 1)
equal "with an id" "8-5-end" "$last"
equal "who has that is told not to come again" 204 "$(events "$id" -o /dev/null -w '%{http_code}' -H "Last-Event-ID: $last")"
events "$id" -H 'Last-Event-ID: 4-5' >"$tmp/rest"
equal "a round that has ended is told from where one was" "stdout exit €" "$(names "$tmp/rest") $(bytes_of stdout "$tmp/rest")"
events "$id" -G -d last_event_id=5-0 >"$tmp/rest"
equal "the query may say it too, and half a character is bytes" "base64 gqwK" "$(bytes_of stdout "$tmp/rest")"

# ---- signals, and silence

id=$(started '{"command":"exec 2>/dev/null; trap \"echo usr; exit 0\" USR1; echo ready; while :; do sleep 0.05; done","yield_ms":0}')
events "$id" >"$tmp/signal" & curl=$!
told() { grep -q ready "$tmp/signal"; }
wait_for 10 told || fail "its first line does not come"
api "$token" POST "/v1/rounds/$id/signal" '{"signal":"USR1"}' >/dev/null
wait $curl || fail "the stream breaks: $?"
equal "a signal is told, with whose it was" "USR1 agent.7" "$(data signal "$tmp/signal" | jq -r '"\(.signal) \(.principal)"')"
equal "before what it did" "started stdout signal stdout exit" "$(names "$tmp/signal")"

# ---- a reader that stands still, and one whose grant ends

id=$(started '{"command":"head -c 8000000 /dev/zero | tr \"\\0\" x; echo; echo end >&2","yield_ms":0}')
mkfifo "$tmp/still"
events "$id" >"$tmp/still" & still=$!
exec 8<"$tmp/still"
equal "one that does not read holds up nobody" "exit 8000001" "$(api "$token" GET "/v1/rounds/$id?yield_ms=30000" | jq -r '"\(.exit.cause) \(.stdout.total_bytes)"')"
sum=$(sed -n 's/^data: {"offset":[0-9]*,"data":"\(x*\).*/\1/p' <&8 | tr -d '\n' | wc -c)
exec 8<&-
wait $still || fail "the slow one: $?"
equal "and reads all of it in the end" 8000000 "$sum"

brief=$(new_token $agent agent rounds 3s)
id=$(started '{"command":"while :; do echo; sleep 0.2; done","yield_ms":0}')
token=$brief events "$id" >"$tmp/cut" || fail "the stream breaks: $?"
equal "the end of a grant is told, and ends it" "token_expired" "$(data cut "$tmp/cut" | jq -r .code)"
equal "behind that nothing comes" cut "$(sed -n 's/^event: //p' "$tmp/cut" | tail -n 1)"

# ---- bad input

code() { jq -r .error.code; }
for bad in x 1 1- -1-2 1-2-3 1-2-endx 99999999999999999999-0 "$(printf '%060d' 1)"; do
	equal "a last id of \"${bad:0:12}\"" invalid_request "$(events "$id" -H "Last-Event-ID: $bad" | code)"
done
equal "one that is ahead of the round" invalid_request "$(events "$id" -H 'Last-Event-ID: 9000000-0' | code)"
equal "no such round" not_found "$(events 0193aaaa-0000-7000-8000-000000000001 | code)"
other=$(PRINCIPAL=other new_token $agent agent rounds)
equal "another's without a scope to watch" forbidden "$(token=$other events "$id" | code | sed 's/not_found/forbidden/')"
equal "an unknown parameter" invalid_request "$(events "$id" -G -d from=1 | code)"
api "$token" POST "/v1/rounds/$id/signal" '{"signal":"KILL"}' >/dev/null

wait $quiet_curl || fail "the quiet one: $?"
equal "while nothing comes a comment keeps the connection" "1" "$(grep -c '^:$' "$tmp/quiet")"

# ---- nothing lost, nothing twice: cut at random, over a kill of the daemon, and past its end

id=$(started '{"command":"i=0; while [ $i -lt 3000 ]; do echo \"line $i é€😀\"; [ $((i % 3)) = 0 ] && echo \"e $i\" >&2; i=$((i+1)); [ $((i % 10)) = 0 ] && sleep 0.01; done; true","yield_ms":0}')
python3 "$here/tests/integration/events_client.py" "$MUXD_STATE" "$token" "$id" "${CUTS:-12}" >"$tmp/client" 2>&1 & client=$!
sleep 1
kill -9 "$(ready pids.net)"
wait $client || fail "the client: $(cat "$tmp/client")"
i=0
while [ $i -lt 3000 ]; do echo "line $i é€😀"; i=$((i + 1)); done >"$tmp/want"
equal "cut ${CUTS:-12} times and over a kill of the daemon, every byte came once" \
	"$(sha256sum <"$tmp/want" | cut -d' ' -f1) $(seq 0 3 2999 | sed 's/^/e /' | sha256sum | cut -d' ' -f1)" "$(tail -n 1 "$tmp/client")"
events "$id" >"$tmp/whole"
bytes_of stdout "$tmp/whole" | cmp -s - "$tmp/want" && ok "the same from its start, now that it has ended" || fail "another content"
