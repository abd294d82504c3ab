#!/bin/bash
# A fork bomb in a local sandbox: its processes are its own, staff enters all the while, and one call ends it all.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
echo 'sandbox: {pids: 200}' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon did not start"
trap 'stop_daemon; tidy' EXIT
agent=boom
rounds=$(PRINCIPAL=bot new_token $agent agent rounds,files)
staff=$(PRINCIPAL=anna new_token $agent staff terminal,rounds,files,observe,drive)
owner=$(PRINCIPAL=olga new_token $agent staff lifecycle)
round() { api "$1" POST "/v1/agents/$agent/rounds" "$2"; }
now_ms() { date +%s%3N; }
# all that is inside, as a member of staff sees it
inside() { round "$staff" '{"argv":["bash","-c","set -- /proc/[0-9]*; echo $#"]}' | jq -r .stdout.data; }
# Programs of a bomb end as well: for a moment there may be room, and a start that goes through proves nothing. answer: what it got
refused() { answer=$(round "$rounds" "$1") && [ "$(jq -r .error.code <<<"$answer")" = limit_reached ]; }
full() { refused '{"argv":["true"]}'; }
full_by_id() { refused "{\"argv\":[\"echo\",\"ran\"],\"exec_id\":\"e-$((++tries))\"}"; }
empty() { [ "$(inside)" -le 4 ]; }

# 1. a program in the background lives on beside what comes later (docs/protocol.md)
round "$rounds" '{"argv":["sh","-c","sleep 987 >/dev/null 2>&1 &"]}' >/dev/null
round "$rounds" '{"argv":["pgrep","-f","sleep 987"]}' | jq -e '.exit.code == 0' >/dev/null || fail "what a round left in the background is gone"

bomb() {
	case $1 in
	bash) round "$rounds" '{"argv":["bash","-c","b(){ b|b & }; b"]}' ;;
	# forks as fast as it can, and again when one of its own has ended
	busy) round "$rounds" '{"argv":["python3","-c","import os\nif os.fork(): os._exit(0)\nos.setsid()\nos.environ.clear()\nwhile True:\n try: os.fork()\n except OSError: pass"]}' ;;
	esac >/dev/null
}

tries=0
for kind in bash busy; do
	bomb $kind
	wait_for 10 full || fail "the $kind bomb did not fill the sandbox"
	jq -e '.error.code == "limit_reached" and (.error.message | test("limit of 200.*sandbox kill")) and
		(.error.details | .limit == "sandbox.pids" and .of == "agent" and .value == 200 and .retry_after == 1)' <<<"$answer" >/dev/null ||
		fail "a start at the limit says: $answer"
	wait_for 10 full_by_id && ok "nor one with an exec_id" || fail "one with an exec_id says: $answer"
	# staff: rounds, a terminal that starts programs, files; each within the time that a person waits
	for _ in 1 2 3; do
		begun=$(now_ms)
		out=$(sshx "$staff" $agent -tt 2>&1 <<<'stty -echo; /bin/echo in-$((40+2)); ls -d /workspace; exit' | tr -d '\r')
		took=$(($(now_ms) - begun))
		grep -q in-42 <<<"$out" && grep -q '^/workspace' <<<"$out" || fail "a member of staff cannot work in the $kind bomb: $out"
		echo "    $kind: a terminal, log-in to log-out: $took ms"
	done
	muxctl put $agent /etc/hostname /workspace/put.txt >/dev/null ||
		fail "staff cannot put a file"
	[ "$(inside)" -ge 190 ] || fail "the bomb is not there any more, nothing was proved"
	# who has no right to it does not end it
	equal "an agent may not" forbidden "$(api "$rounds" POST /v1/agents/$agent/kill '{"reason":"mine"}' | jq -r .error.code)"
	equal "not without a reason" reason_required "$(api "$staff" POST /v1/agents/$agent/kill '{"reason":" "}' | jq -r .error.code)"
	begun=$(now_ms)
	answer=$(api "$staff" POST /v1/agents/$agent/kill '{"reason":"a fork bomb"}')
	took=$(($(now_ms) - begun))
	jq -e '.state == "running" and .sessions_ended >= 0' <<<"$answer" >/dev/null || fail "kill says: $answer"
	echo "    $kind: ended in $took ms"
	wait_for 3 empty || fail "after the kill there are $(inside) processes"
	round "$rounds" '{"argv":["true"]}' | jq -e '.exit.code == 0' >/dev/null || fail "a round after the kill does not run"
	equal "and so does that call now" ran "$(round "$rounds" "{\"argv\":[\"echo\",\"ran\"],\"exec_id\":\"e-$tries\"}" | jq -r .stdout.data)"
	ok "the $kind bomb: named, entered, ended"
done

# 2. sessions that run are told why they ended; the same by muxctl
id=$(round "$rounds" '{"argv":["sleep","900"],"wait_ms":0}' | jq -r .round_id)
bomb bash
wait_for 10 full || fail "no second bomb"
muxctl sandbox kill $agent --reason "from the console" -o json | jq -e '.sessions_ended >= 1' >/dev/null || fail "muxctl sandbox kill"
ended() { api "$rounds" GET "/v1/rounds/$id" | jq -e '.state == "finished" and .exit.cause == "killed" and (.exit.message | test("from the console"))'; }
wait_for 5 ended || fail "the round that ran says: $(api "$rounds" GET "/v1/rounds/$id")"
muxctl audit --event sandbox.kill -o json | grep -q "from the console" || fail "the audit log does not tell of the kill"
equal "the sandbox is the same one" running "$(api "$owner" GET /v1/agents/$agent | jq -r .state)"
ok "what ran was killed with that reason, and the audit log has it"
