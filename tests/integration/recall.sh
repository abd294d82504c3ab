#!/bin/bash
# An agent runs many rounds and asks for old ones: memory holds a few, the record answers for the rest, and the same
# exec_id still finds its round. A daemon of its own keeps three results at hand.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# How far memory grows is measured without sanitizers, where a round takes fifty times as long; there it is enough that
# rounds leave memory.
if [[ $BUILD == */san ]]; then ROUNDS=${ROUNDS:-20} ahead=5; else ROUNDS=${ROUNDS:-400} ahead=100; fi

chmod 0711 "$tmp"
printf 'rounds: {keep_max: 3}\napi: {max_body: 8MiB}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=recall
token=$(new_token $agent agent rounds)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
net=$(ready pids.net)
memory() { awk '/^Pss_Anon:/ {print $2}' "/proc/$net/smaps_rollup"; } # without the ring, which it fills in turn

first=$(round '{"argv":["sh","-c","seq 1000; echo bad >&2; exit 5"],"exec_id":"one","wait_ms":20000}')
binary=$(round '{"argv":["sh","-c","printf \"\\377\\376\"; kill -TERM $$"],"wait_ms":20000}')
large=$(round '{"argv":["sh","-c","head -c 3000000 /dev/zero | tr \"\\0\" x"],"wait_ms":20000}')
run() { # N rounds of true, over one connection
	/usr/bin/python3 - "$(ready https)" "$MUXD_STATE/keys/tls.crt" $agent "$1" 3<<<"$token" <<'P'
import http.client, json, os, ssl, sys
address, cert, agent, n = sys.argv[1:5]
token = os.fdopen(3).read().strip()
host, port = address.rsplit(":", 1)
c = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context(cafile=cert))
for i in range(int(n)):
    c.request("POST", "/v1/agents/%s/rounds" % agent, json.dumps({"argv": ["true"], "wait_ms": 20000}),
              {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    r = json.loads(c.getresponse().read())
    if (r.get("exit") or {}).get("code") != 0:
        sys.exit("round %d: %s" % (i, r))
P
}
run $ahead || fail "rounds"
before=$(memory)
run "$ROUNDS" || fail "rounds"
grown=$(($(memory) - before))
# What the sanitizer keeps back grows with everything that is freed.
[[ $BUILD == */san ]] || [ $grown -le 1024 ] || fail "the hub grew by $grown kB"
ok "$ROUNDS rounds later the hub has $grown kB more"

again() { api "$token" GET "/v1/rounds/$(jq -r .round_id <<<"$1")" | jq "del(.duration_ms)"; }
equal "a round that left memory: the same answer" "$(jq 'del(.duration_ms)' <<<"$first")" "$(again "$first")"
equal "bytes that are no text, and a signal" "$(jq 'del(.duration_ms)' <<<"$binary")" "$(again "$binary")"
equal "a long one has its beginning, its length and its digest" "$(jq -c '[.stdout.total_bytes, .stdout.sha256, true]' <<<"$large")" \
	"$(again "$large" | jq -c '[.stdout.total_bytes, .stdout.sha256, .stdout.truncated]')"
same=$(round '{"argv":["sh","-c","seq 1000; echo bad >&2; exit 5"],"exec_id":"one","wait_ms":20000}')
equal "the same exec_id finds it" "$(jq -r .round_id <<<"$first") 5" "$(jq -r '"\(.round_id) \(.exit.code)"' <<<"$same")"
other=$(round '{"argv":["true"],"exec_id":"one"}')
equal "for another call it is refused" conflict "$(jq -r .error.code <<<"$other")"
stranger=$(PRINCIPAL=stranger new_token $agent agent rounds)
equal "a stranger is told nothing" null "$(api "$stranger" GET "/v1/rounds/$(jq -r .round_id <<<"$first")" | jq -c .stdout)"
equal "and one that never was is not found" not_found "$(api "$token" GET /v1/rounds/01a1fe36-ffda-756d-8a69-25ab9cf5f3b8 | jq -r .error.code)"

# Another's round: observe is for what runs, replay for the past, whether memory has it still or the record alone.
r=$(round '{"argv":["sh","-c","echo live; read -r _"],"stdin_open":true,"wait_ms":0}')
id=$(jq -r .round_id <<<"$r")
observer=$(PRINCIPAL=observer new_token $agent staff observe)
auditor=$(PRINCIPAL=auditor new_token $agent auditor replay)
driver=$(PRINCIPAL=driver new_token $agent staff drive,admin)
# looks TOKEN: how the state, and the output, of the round are answered
looks() {
	api "$1" GET "/v1/rounds/$id" | jq -rj '.error.code // .state, " "'
	api "$1" GET "/v1/rounds/$id/output" | jq -rj '.error.code // .data'
}
live() { [ "$(looks "$auditor")" = "running live" ]; }
wait_for 10 live || fail "no output: $(looks "$auditor")"
equal "who may observe sees a round that runs" "running live" "$(looks "$observer")"
equal "who may only drive or administer does not" "forbidden forbidden" "$(looks "$driver")"
api "$token" POST "/v1/rounds/$id/stdin" '{"eof":true}' >/dev/null
api "$token" GET "/v1/rounds/$id?wait_ms=20000" >/dev/null
equal "nor is it for an observer once it has ended" "forbidden forbidden" "$(looks "$observer")"
equal "but for who may replay" "finished live" "$(looks "$auditor")"
run 4 || fail "rounds"
equal "and the same when memory has it no more" "forbidden forbidden, finished live" "$(looks "$observer"), $(looks "$auditor")"

head -c 2250000 /dev/urandom | base64 -w0 >"$tmp/input" # 3,000,000 bytes of text
printf '{"argv":["sha256sum"],"stdin":"%s","wait_ms":20000}' "$(cat "$tmp/input")" >"$tmp/body"
equal "input as long as api.max_body allows comes whole" "$(sha256sum <"$tmp/input")" "$(round "@$tmp/body" | jq -j .stdout.data)"
