#!/bin/bash
# The hub is killed in the middle of rounds, and they run on. What they printed before and after is in their answers, with
# the digests of the whole, in the audit log and in the recording's exit, as if nothing had happened.
# tier: test, san
# shellcheck source=tests/lib/env.sh disable=SC2034,SC2209
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<'Y'
rounds: {head: 3000, tail: 2000}
record: {rules: [{kind: agent, session: round, rule: truncated, head: 100, tail: 100}, {kind: "*", session: "*", rule: full}]}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=restarted
kept=$(PRINCIPAL=kept new_token $agent staff rounds)
cut=$(PRINCIPAL=cut new_token $agent agent rounds)
api "$kept" POST /v1/agents/$agent/rounds '{"argv":["true"]}' >/dev/null
small='echo before; echo warned >&2; until [ -e go ]; do sleep 0.05; done; echo after'
big='seq 1 20000; until [ -e go ]; do sleep 0.05; done; seq 20001 40000'
silent='seq 1 20000; seq 5 >&2; until [ -e go ]; do sleep 0.05; done'
body() { jq -n --arg c "$1" --arg id "$2" '{command: $c, exec_id: $id, wait_ms: 1}'; }
begun() { api "$1" POST /v1/agents/$agent/rounds "$(body "$3" "$2")" | jq -r .round_id; }
for turn in 1 2; do
	rounds=()
	for shape in small big silent; do
		for who in kept cut; do
			rounds+=("$who-$shape:$(begun "${!who}" "$who-$shape-$turn" "${!shape}")")
		done
	done
	sleep 0.5 # their first lines are printed and journaled
	kill -9 "$(ready pids.net)"
	up() { api "$kept" GET /v1/agents/$agent >/dev/null; }
	wait_for 20 up || fail "the hub does not come back"
	if [ $turn = 2 ]; then # the recorder goes, too, just when it is asked
		kill -9 "$(ready pids.recorder)"
	fi
	api "$kept" POST /v1/agents/$agent/rounds '{"argv":["touch","go"],"wait_ms":20000}' >/dev/null
	for r in "${rounds[@]}"; do
		name=${r%%:*} id=${r#*:} shape=${name#*-} who=${name%-*}
		sh -c "cd $tmp; : >go; $(sed 's/until.*done;*//' <<<"${!shape}")" >"$tmp/out" 2>"$tmp/err"
		done_() { api "${!who}" GET "/v1/rounds/$id" >"$tmp/answer"; [ "$(jq -r .state "$tmp/answer")" = finished ]; }
		wait_for 20 done_ || fail "$name has not finished: $(cat "$tmp/answer")"
		for stream in out err; do
			sum=$(sha256sum <"$tmp/$stream" | cut -d' ' -f1)
			[ "$(jq -r ".std$stream.sha256" "$tmp/answer")" = "$sum" ] || fail "$name, std$stream: $(jq -c ".std$stream" "$tmp/answer" | cut -c1-300)"
			[ "$(jq -r ".std$stream.total_bytes" "$tmp/answer")" = "$(stat -c %s "$tmp/$stream")" ] || fail "$name: another length"
			head=3000
			[ "$who" = cut ] && head=100 # what the record keeps of it
			jq -j ".std$stream.data" "$tmp/answer" >"$tmp/data"
			n=$(stat -c %s "$tmp/data")
			cmp -s -n "$n" "$tmp/data" "$tmp/$stream" || fail "$name: other bytes"
			want=$(stat -c %s "$tmp/$stream")
			[ "$n" -ge "$((want < head ? want : head))" ] || fail "$name, std$stream: $n bytes of $want"
			jq -j ".std$stream.tail // \"\"" "$tmp/answer" >"$tmp/tail"
			tail -c "$(stat -c %s "$tmp/tail")" "$tmp/$stream" | cmp -s - "$tmp/tail" || fail "$name, std$stream: another tail"
		done
	done
	ok "turn $turn: ${#rounds[@]} rounds have their answers: bytes, lengths, digests"
	api "$kept" POST /v1/agents/$agent/rounds '{"argv":["rm","go"]}' >/dev/null
done
id=${rounds[0]#*:}
sum=$(printf 'before\nafter\n' | sha256sum | cut -d' ' -f1)
told() { muxctl audit -n 1000 --event round.end -o json | jq -r --arg id "$id" '.. | objects | select(.detail.session? == $id) | .detail.stdout_sha256' >"$tmp/told" && [ -s "$tmp/told" ]; }
wait_for 20 told || fail "no event of its end"
equal "the audit log has the digest" "$sum" "$(cat "$tmp/told")"
sealed() { muxctl verify "$id" >/dev/null 2>&1; }
wait_for 20 sealed || fail "not sealed"
equal "the recording's exit has it" "$sum" "$(muxctl export --format json "$id" | jq -r 'select(.type == "exit") | .body.sha256.stdout')"
