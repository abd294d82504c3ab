#!/bin/bash
# Text of any kind and length, in every field of the API, at the SSH door and through muxctl: no call hangs, every session
# ends and is sealed, its end is in the audit log, the record verifies, and staff still gets in. CALLS=2000 for the whole.
# tier: test, san CALLS=60, slice CALLS=120, whole CALLS=2000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
calls=${CALLS:-240}
export SEED=${SEED:-$RANDOM}

chmod 0711 "$tmp"
echo 'pool: {size: 1}' >"$tmp/muxd.yaml"
POOL_SIZE='' start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
grant() { # KIND SCOPES AGENT [TASK]
	muxctl grant create --agent "$3" --principal "any-$1" --kind "$1" --scopes "$2" ${4:+--task "$4"} --ttl 1h --reason "story" -o json | jq -re .token || fail "no grant"
}
staff=$(grant staff terminal,rounds,files,observe,drive,replay,lifecycle,admin '*')
agent=$(grant agent rounds text T)
MUXD_SERVICE_TOKEN=$(grant service lifecycle,rounds,files '*')
MUXD_TOKEN=$staff MUXD_URL=https://$(ready https) MUXD_CACERT=$MUXD_STATE/keys/tls.crt
export MUXD_TOKEN MUXD_SERVICE_TOKEN MUXD_URL MUXD_CACERT MUXD_STATE tmp # for shells that a limit ends, too
muxctl exec --timeout 60s text -- true || fail "no sandbox"

# --- the API: every text field of the document
CALLS=$calls /usr/bin/python3 "$here/tests/integration/any_text.py" || fail "calls of the API with random text (SEED=$SEED)"
ok "no call hangs, none fails for its text"

# --- what an attacker sent: rounds whose program is not there and has a name that is cut, a reason that is cut
e() { printf 'é%.0s' $(seq "$1"); }
rounds=$((calls / 4 < 35 ? 40 : calls / 4 + 5))
printf '{"argv":["%s"]}' "$(e 150)" >"$tmp/round.json"
seq "$rounds" | xargs -P 8 -I {} curl -sS -m 60 -o /dev/null -w '%{http_code}\n' --cacert "$MUXD_CACERT" -H "Authorization: Bearer $agent" \
	-H 'Content-Type: application/json' --data-binary "@$tmp/round.json" "$MUXD_URL/v1/agents/text/rounds" | sort | uniq -c >"$tmp/codes"
grep -qE '(000|500|503)$' "$tmp/codes" && fail "rounds with a name that is cut: $(tr '\n' ' ' <"$tmp/codes")"
equal "rounds with a name that is cut are answered" "$rounds" "$(awk '{n += $1} END {print n}' "$tmp/codes")"
for n in 40 60 120; do
	for a in '' a ab; do
		id=$(api "$staff" POST /v1/agents/text/rounds '{"argv":["sleep","600"],"wait_ms":0}' | jq -re .round_id) || fail "no round"
		timeout 60 bash -c "$(declare -f api ready); api \"\$@\"" - "$staff" POST "/v1/sessions/$id/terminate" "{\"reason\":\"$a$(e $n)\"}" >"$tmp/answer" ||
			fail "terminate hangs"
		echo "$id" >>"$tmp/ended"
	done
done
ends() { while read -r id; do api "$staff" GET "/v1/rounds/$id" | jq -e '.state == "finished"' || return 1; done <"$tmp/ended"; }
wait_for 30 ends || fail "sessions that were ended with a reason that is cut are open"
ok "sessions ended with a reason that is cut are ended"
for a in '' a; do
	api "$staff" POST /v1/agents/text/stop "{\"reason\":\"$a$(e 100)\"}" >"$tmp/answer"
	equal "a stop with a reason that is cut" stopped "$(jq -r '.state // .error.message' "$tmp/answer")"
	api "$staff" POST /v1/agents/text/resume '{}' | jq -e '.state == "running"' >/dev/null || fail "it does not come back"
done

# --- the SSH door: names, commands, environment; bytes that are no UTF-8 as well
for text in "$(e 60)" "a$(e 150)" "$(printf '\xff\xfe')" "$(printf 'x\xe2\x82')" "$(printf '\xf0\x9f\x98')"; do
	timeout 60 bash -c "$(declare -f sshc ssh_port ready); sshc \"\$@\"" - "$staff" text "echo '$text' >/dev/null; true" || fail "ssh: a command hangs or fails"
	SSH_OPTS="-o SetEnv=LC_ANY=$text" timeout 60 bash -c "$(declare -f sshc ssh_port ready); sshc \"\$@\"" - "$staff" text "'$text'" 2>/dev/null
	[ $? -eq 124 ] && fail "ssh: a program that is not there hangs"
	timeout 60 bash -c "$(declare -f sshc ssh_port ready); sshc \"\$@\"" - "$staff" "$text" true 2>/dev/null
	[ $? -eq 124 ] && fail "ssh: a log-in as \"$text\" hangs"
	# --- muxctl, which says of bytes that are no UTF-8 that it cannot ask for them; files have any name
	timeout 60 "$MUXCTL" --state "$MUXD_STATE" exec text -- echo "$text" >/dev/null 2>"$tmp/said"
	rc=$?
	if printf '%s' "$text" | iconv -f utf-8 -t utf-8 >/dev/null 2>&1; then
		[ $rc -eq 0 ] || fail "muxctl exec: $rc: $(cat "$tmp/said")"
	else
		[ $rc -eq 64 ] && grep -q 'not UTF-8' "$tmp/said" || fail "muxctl exec: $rc: $(cat "$tmp/said")"
	fi
	echo content >"$tmp/file"
	name=$(printf '%s' "$text" | head -c 200)
	timeout 60 "$MUXCTL" --state "$MUXD_STATE" put text "$tmp/file" "/workspace/$name" >/dev/null 2>&1
	[ $? -eq 124 ] && fail "muxctl put hangs"
	timeout 60 "$MUXCTL" --state "$MUXD_STATE" exec --reason "$text" --env "ANY=$text" text -- true >/dev/null 2>&1
	[ $? -eq 124 ] && fail "muxctl exec --reason hangs"
	id=$(api "$staff" POST /v1/agents/text/rounds '{"argv":["sleep","600"],"wait_ms":0}' | jq -re .round_id) || fail "no round"
	for c in "session terminate $id --reason" 'sandbox snapshot text --reason' 'session list --agent' 'sandbox list --prefix' 'audit --principal' 'sandbox show'; do
		# shellcheck disable=SC2086
		timeout 60 "$MUXCTL" --state "$MUXD_STATE" $c "$text" >/dev/null 2>&1
		[ $? -eq 124 ] && fail "muxctl $c hangs"
	done
	api "$staff" POST "/v1/sessions/$id/terminate" '{"reason":"again"}' >/dev/null
done
ok "SSH and muxctl answer whatever the text"

# --- every session is sealed, with its end; the record verifies; staff gets in
states() { # of every session: id and state, a page at a time
	local before='' page
	while page=$(muxctl session list --all --limit 1000 ${before:+--before "$before"} -o json | jq -r '.. | objects | select(has("opened_at")) | "\(.id) \(.state)"') && [ -n "$page" ]; do
		echo "$page"
		before=$(echo "$page" | tail -n 1 | cut -d' ' -f1)
	done
}
unsealed() { states | grep -vE ' (sealed|expired|kept)$'; }
sealed() { [ -z "$(unsealed)" ]; }
wait_for 60 sealed || fail "not sealed: $(unsealed | tr '\n' ' ')"
ok "every session is sealed ($(states | wc -l))"
muxctl audit --event round.end --limit 1000 -o json >"$tmp/audit" # they are among the newest
while read -r id; do
	grep -q "$id" "$tmp/audit" || fail "$id: its end is not in the audit log"
done <"$tmp/ended"
ok "the ends are in the audit log"
muxctl verify --all >"$tmp/verify" 2>&1 || fail "verify: $(tail -n 3 "$tmp/verify")"
ok "verify --all is clean"
equal "staff gets in" in "$(timeout 60 "$MUXCTL" --state "$MUXD_STATE" exec text -- echo in)"
