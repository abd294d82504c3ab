#!/bin/bash
# An agent works by rounds over HTTPS: output and exit codes are exact, starts are idempotent, a timeout takes the whole
# tree and still returns what was printed, and what does not fit an answer is in the record.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

PRINCIPAL=agent.7
agent=rounds
token=$(new_token $agent agent rounds,observe,replay)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }

r=$(round '{"argv":["sh","-c","echo out; echo err >&2; exit 3"]}')
equal "a round's state" finished "$(jq -r .state <<<"$r")"
equal "its exit code" 3 "$(jq -r .exit.code <<<"$r")"
equal "its stdout" out "$(jq -r .stdout.data <<<"$r")"
equal "its stderr" err "$(jq -r .stderr.data <<<"$r")"
equal "its digest" "$(echo out | sha256sum | cut -d' ' -f1)" "$(jq -r .stdout.sha256 <<<"$r")"

r=$(round '{"command":"kill -9 $$"}')
equal "a killed round has no code" null "$(jq -r .exit.code <<<"$r")"
equal "a killed round names the signal" KILL "$(jq -r .exit.signal <<<"$r")"

r=$(round '{"argv":["sh","-c","printf \"\\\\377\\\\376\""]}')
equal "bytes that are no text are base64" base64 "$(jq -r .stdout.encoding <<<"$r")"
equal "and are those bytes" "//4=" "$(jq -r .stdout.data <<<"$r")"

a=$(round '{"argv":["sh","-c","echo once >> /workspace/count; wc -l < /workspace/count"],"exec_id":"e-1"}')
b=$(round '{"argv":["sh","-c","echo once >> /workspace/count; wc -l < /workspace/count"],"exec_id":"e-1"}')
equal "the same exec_id is the same round" "$(jq -r .round_id <<<"$a")" "$(jq -r .round_id <<<"$b")"
equal "and ran once" 1 "$(jq -r .stdout.data <<<"$b" | tr -d ' \n')"
c=$(round '{"argv":["true"],"exec_id":"e-1"}')
equal "another call with that exec_id is a conflict" conflict "$(jq -r .error.code <<<"$c")"

# At once, while the sandbox is made: both wait for it, and one of them runs.
woken=$(new_token roundswoken agent rounds)
wake() { api "$woken" POST /v1/agents/roundswoken/rounds "$1" >"$tmp/$2"; }
count='{"command":"echo once >>count; wc -l <count","exec_id":"w-1","wait_ms":60000}'
wake "$count" one & jobs=($!)
wake "$count" two & jobs+=($!)
wake '{"argv":["true"],"exec_id":"w-2"}' three & jobs+=($!)
wake '{"argv":["false"],"exec_id":"w-2"}' four & jobs+=($!)
wait "${jobs[@]}"
equal "two calls with one exec_id that wait for a sandbox are one round" "$(jq -r .round_id "$tmp/one")" "$(jq -r .round_id "$tmp/two")"
equal "which ran once" "1 1" "$(jq -j '.stdout.data | rtrimstr("\n") | tonumber' "$tmp/one") $(jq -j '.stdout.data | rtrimstr("\n") | tonumber' "$tmp/two")"
equal "of two that differ one is a conflict" 1 "$(cat "$tmp/three" "$tmp/four" | jq -r '.error.code // empty' | grep -cx conflict)"

r=$(round '{"command":"echo before; (sleep 300 & sleep 301 & setsid sleep 302 & wait)","timeout_ms":1000,"wait_ms":20000}')
equal "a round past its timeout" timeout "$(jq -r .exit.cause <<<"$r")"
equal "still returns what it printed" before "$(jq -r .stdout.data <<<"$r")"
r=$(round '{"command":"pgrep -c sleep || true"}')
equal "and left no process" 0 "$(jq -r .stdout.data <<<"$r" | tr -d '\n')"

r=$(round '{"argv":["cat"],"stdin":"through and back","wait_ms":5000}')
equal "stdin given at once" "through and back" "$(jq -r .stdout.data <<<"$r")"

r=$(round '{"argv":["cat"],"stdin_open":true,"wait_ms":0}')
id=$(jq -r .round_id <<<"$r")
api "$token" POST "/v1/rounds/$id/stdin" '{"data":"one "}' >/dev/null
api "$token" POST "/v1/rounds/$id/stdin" '{"data":"two","eof":true}' >/dev/null
r=$(api "$token" GET "/v1/rounds/$id?wait_ms=5000")
equal "stdin written later, then closed" "one two" "$(jq -r .stdout.data <<<"$r")"
r=$(api "$token" POST "/v1/rounds/$id/signal" '{"signal":"INT"}')
equal "a signal to an ended round" already_ended "$(jq -r .error.code <<<"$r")"

r=$(round '{"argv":["sleep","100"],"stdin_open":true,"wait_ms":0}')
id=$(jq -r .round_id <<<"$r")
watcher=$(PRINCIPAL=watcher new_token $agent staff rounds,observe,replay)
equal "who may watch another's round does not type into it" forbidden \
	"$(api "$watcher" POST "/v1/rounds/$id/stdin" '{"data":"x"}' | jq -r .error.code)"
equal "nor end it" forbidden "$(api "$watcher" POST "/v1/rounds/$id/signal" '{"signal":"KILL"}' | jq -r .error.code)"
equal "but sees it" running "$(api "$watcher" GET "/v1/rounds/$id" | jq -r .state)"
driver=$(PRINCIPAL=driver new_token $agent staff drive)
equal "who may drive types" null "$(api "$driver" POST "/v1/rounds/$id/stdin" '{"data":"x"}' | jq -r .error.code)"
api "$token" POST "/v1/rounds/$id/signal" '{"signal":"TERM"}' >/dev/null
equal "a signal ends a round" TERM "$(api "$token" GET "/v1/rounds/$id?wait_ms=5000" | jq -r .exit.signal)"

r=$(round '{"command":"seq 1 300000","wait_ms":20000}')
id=$(jq -r .round_id <<<"$r")
equal "a large output is truncated in the answer" true "$(jq -r .stdout.truncated <<<"$r")"
equal "its digest covers everything" "$(seq 1 300000 | sha256sum | cut -d' ' -f1)" "$(jq -r .stdout.sha256 <<<"$r")"
equal "its total too" "$(seq 1 300000 | wc -c)" "$(jq -r .stdout.total_bytes <<<"$r")"
equal "its tail is its tail" "300000" "$(jq -j .stdout.tail <<<"$r" | tail -n 1)"

# Bad input: a stable code each, and what to do.
code() { jq -r .error.code; }
equal "an empty argv" invalid_request "$(round '{"argv":[]}' | code)"
equal "an unknown field" invalid_request "$(round '{"argv":["true"],"shell":"x"}' | code)"
equal "a cwd that does not exist" invalid_request "$(round '{"argv":["true"],"cwd":"/nowhere"}' | code)"
equal "a program that does not exist" program_not_found "$(round '{"argv":["nosuch"]}' | code)"
# It did not start, and the record has its round all the same.
for body in '{"argv":["nosuch"]}' '{"argv":["true"],"cwd":"/nowhere"}'; do
	failed=$(round "$body" | jq -r .error.details.round_id)
	equal "whose round is named" "$failed finished not_started" "$(api "$token" GET "/v1/rounds/$failed" | jq -r '"\(.round_id) \(.state) \(.exit.cause)"')"
done
equal "no round began: none is named" null "$(round '{"argv":[]}' | jq -r .error.details)"
equal "a file that is no program" program_not_executable "$(round '{"argv":["/etc/passwd"]}' | code)"
equal "another agent" forbidden "$(api "$token" POST /v1/agents/other/rounds '{"argv":["true"]}' | code)"
equal "another task than the grant's" task_mismatch "$(round '{"argv":["true"],"task_id":"elsewhere"}' | code)"
equal "no token" unauthenticated "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/v1/sessions" | code)"
equal "a tampered token" token_signature "$(api "${token%????}AAAA" GET /v1/sessions | code)"
PRINCIPAL=agent.8
observer=$(new_token $agent agent observe)
equal "a scope that is missing" forbidden "$(api "$observer" POST /v1/agents/$agent/rounds '{"argv":["true"]}' | code)"
