#!/bin/bash
# shellcheck disable=SC2016
# Settings of an agent: a directory, variables, labels and its app, given when it is made or woken; its programs begin with them until
# others are set, a sleep between or not. What is a secret, or cannot be asked for, is refused by name, and nothing is made.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=settings
PRINCIPAL=settings.1
manager=$(new_token "$agent" agent rounds,lifecycle)
worker=$(new_token "$agent" agent rounds)
resume() { api "$1" POST "/v1/agents/$agent/resume" "$2"; }
code() { jq -r '.error.code // "none"'; }
round() { api "$worker" POST "/v1/agents/$agent/rounds" "$(jq -nc --argjson more "${2:-{\}}" --arg c "$1" '{argv: ["sh", "-c", $c], wait_ms: 20000} + $more')" | jq -r .stdout.data; }
state() { muxctl sandbox show "$agent" -o json | jq -r "$1"; }
set_told() { [ "$(muxctl audit --since 0 -n 100 --event agent.settings --agent "$agent" -o json | jq -rs 'map(.record | select(.outcome == "ok")) | "\(length) \(.[0].principal)"')" = "$1" ]; }

equal "a secret is refused" secret_refused "$(resume "$manager" '{"env": {"API_TOKEN": "x"}}' | code)"
equal "a place that is none" invalid_request "$(resume "$manager" '{"workdir": "here"}' | code)"
equal "a label that is none" invalid_request "$(resume "$manager" '{"labels": {"a b": "x"}}' | code)"
equal "an image, by its name" "image_not_allowed true" "$(resume "$manager" '{"image": "debian"}' | jq -r '"\(.error.code) \(.error.message | contains("image"))"')"
equal "resources that are none" "invalid_request true" "$(resume "$manager" '{"resources": {"memory": "8Mi"}}' | jq -r '"\(.error.code) \(.error.message | contains("resources.memory"))"')"
equal "more than an event of the audit log can name" too_large "$(jq -nc '[range(20) | {key: "V\(.)", value: ("x y " * 1000)}] | {env: from_entries}' >"$tmp/big"; resume "$manager" "@$tmp/big" | code)"
equal "an app that is none" "invalid_request true" "$(resume "$manager" '{"app_id": "My.App"}' | jq -r '"\(.error.code) \(.error.message | contains("app_id"))"')"
equal "a cluster, where there is none" "unsupported true" "$(resume "$manager" '{"app_id": "billing", "cluster": "prod"}' | jq -r '"\(.error.code) \(.error.message | contains("cluster: there is no prod here"))"')"
equal "a namespace, asked for by who may run" "unsupported true" "$(resume "$worker" '{"namespace": "team-a"}' | jq -r '"\(.error.code) \(.error.message | contains("team-a"))"')"
audited() { muxctl audit --event verdict -n 100 -o json | jq -r ".record | select(.outcome == \"unsupported\") | .detail.message" | grep -q "cluster: there is no prod here"; }
wait_for 20 audited || fail "the audit log does not tell of a place that was refused: $(muxctl audit --event verdict -n 20 -o json | jq -c .record)"
equal "who may run may not say whose it is" forbidden "$(resume "$worker" '{"app_id": "billing"}' | code)"
equal "who may run may not set" forbidden "$(resume "$worker" '{"workdir": "/tmp"}' | code)"
equal "nothing was made" not_found "$(api "$manager" GET "/v1/agents/$agent" | code)"
fork=$agent-fork-0123456789ab
equal "nor is anything kept for a fork that is not there" "not_found not_found 0" "$(api "$(new_token '*' service rounds,lifecycle)" POST "/v1/agents/$fork/resume" '{"env": {"LEFT": "x"}}' | code) $(
	api "$(new_token '*' service rounds)" GET "/v1/agents/$fork" | code) $(muxctl audit --since 0 -n 100 --event agent.settings --agent "$fork" -o json | wc -l)"

equal "made with them" "running /tmp MODE,TEAM red /workspace" \
	"$(resume "$manager" '{"workdir": "/tmp", "env": {"MODE": "test", "TEAM": "a"}, "labels": {"app/id": "red"}}' |
		jq -r '"\(.state) \(.workdir) \(.env_names | sort | join(",")) \(.labels["app/id"]) \(.persists[0])"')"
equal "it is nobody's, and on this machine" '["settings",null,null,null]' "$(state '.reference | [.name, .cluster, .namespace, .app_id] | tojson')"
equal "its programs begin there" "/tmp test a" "$(round 'echo $PWD $MODE $TEAM')"
equal "the call's own word counts" "/workspace mine a" "$(round 'echo $PWD $MODE $TEAM' '{"cwd": "/workspace", "env": {"MODE": "mine"}}')"
equal "a terminal does, too" "/tmp test" "$(muxctl exec "$agent" -n --task story -c 'echo $PWD $MODE')"
muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
equal "over a sleep" "/tmp test a" "$(round 'echo $PWD $MODE $TEAM')"
equal "one goes, others stay" "test []" "$(resume "$manager" '{"env": {"TEAM": null}}' >/dev/null; round 'echo $MODE [$TEAM]')"
muxctl sandbox resume "$agent" --workdir /workspace --env MODE=ctl --label app/id=blue --label by=hand >/dev/null || fail "muxctl does not set them"
equal "muxctl sets them" "/workspace ctl blue hand" "$(round 'echo $PWD $MODE') $(state '.labels | "\(.["app/id"]) \(.by)"')"
equal "a null takes all of one away" "/workspace null" "$(resume "$manager" '{"workdir": null, "labels": null, "env": null}' >/dev/null; round 'echo $PWD$MODE') $(state .labels)"

# Timeouts: of rounds and transfers that name none; the smaller of theirs and of the configuration's counts, and is said.
files=$(new_token "$agent" agent rounds,files)
ends() { api "$worker" POST "/v1/agents/$agent/rounds" "{\"argv\":[\"sleep\",\"$1\"],\"wait_ms\":20000${2-}}" | jq -r '"\(.exit.cause) \(.exit.error)"'; }
times() { jq -r '"\(.exec_timeout_ms) \(.transfer_timeout_ms) \(.timeouts_clipped | tojson)"'; }
for bad in '{"exec_timeout_ms": 0}' '{"transfer_timeout_ms": "10s"}' '{"exec_timeout_ms": 86400001}'; do
	equal "a time that is none: $bad" invalid_request "$(resume "$manager" "$bad" | code)"
done
equal "who may run may not set them" forbidden "$(resume "$worker" '{"exec_timeout_ms": 1000}' | code)"
equal "it has none" "null null null" "$(resume "$manager" '{}' | times)"
equal "one for rounds" "700 null null" "$(resume "$manager" '{"exec_timeout_ms": 700}' | times)"
equal "ends a round that names none" "timeout sandbox_exec_timeout" "$(ends 30)"
equal "and none that does" "exit null" "$(ends 1.2 ',"timeout_ms":20000')"
equal "it ends code that names none" "timeout" "$(api "$worker" POST "/v1/agents/$agent/python" '{"code":"import time; time.sleep(30)","yield_ms":20000}' | jq -r '.exit.cause // .cause // .error.code')"
muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
equal "over a sleep" "timeout sandbox_exec_timeout" "$(ends 30)"
muxctl sandbox resume "$agent" --exec-timeout 0s --transfer-timeout 500ms >/dev/null || fail "muxctl does not set them"
equal "muxctl sets them, and takes one away" "null 500 null" "$(state . | times)"
equal "a round has the configured time again" "exit null" "$(ends 1)"
mkfifo "$tmp/slow"
(sleep 3; echo late) >"$tmp/slow" &
equal "a transfer that names none" sandbox_transfer_timeout "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $files" -T "$tmp/slow" "https://$(ready https)/v1/agents/$agent/files?path=slow" | code)"
wait $!
equal "and one that does" none "$( (sleep 1; echo late) | curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $files" -T - "https://$(ready https)/v1/agents/$agent/files?path=slow&timeout_ms=20000" | code)"
equal "none of either" "null null null" "$(resume "$manager" '{"transfer_timeout_ms": null}' | times)"

# The app that it belongs to: told and listed at once, in the log of each call and start; a copy has none.
apps() { muxctl sandbox list --app-id "$1" -o json | jq -r '[.agents[] | "\(.agent) \(.reference.app_id)"] | join(",")'; }
# audited EVENT APP: how many of its events have it
audited() { muxctl audit --since 0 -n 100 --event "$1" --agent "$agent" -o json | jq -rs --arg app "$2" 'map(.record | select(.outcome == "ok" and .detail.app_id == $app)) | length'; }
equal "an app's" "billing billing" "$(resume "$manager" '{"app_id": "billing"}' | jq -r '"\(.app_id) \(.reference.app_id)"')"
equal "the list of that app" "$agent billing" "$(apps billing)"
equal "and of another" "" "$(apps billing-2)"
equal "the API lists it" "$agent" "$(api "$manager" GET '/v1/agents?app_id=billing' | jq -r '.agents[].agent')"
equal "and of no other" "0" "$(api "$manager" GET '/v1/agents?app_id=search' | jq -r '.agents | length')"
equal "an app that can be none" invalid_request "$(api "$manager" GET '/v1/agents?app_id=A' | code)"
equal "the call is in the log" 1 "$(audited agent.resume billing)"
muxctl sandbox resume "$agent" --app-id search >/dev/null || fail "muxctl does not set it"
muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
equal "over a sleep" "search search" "$(state .app_id) $(apps search | cut -d " " -f 2)"
equal "and in the log of its start" "running 1" "$(resume "$manager" "{}" | jq -r .state) $(audited sandbox.state search)"
equal "people see it" "1" "$(muxctl sandbox show "$agent" | grep -c "app_id search")"
muxctl sandbox fork "$agent" --as "$agent-copy" >/dev/null || fail "no copy"
equal "a copy is no app's" null "$(muxctl sandbox show "$agent-copy" -o json | jq -r .app_id)"
muxctl sandbox destroy "$agent-copy" --wipe --reason "story" >/dev/null || fail "the copy stays"
muxctl sandbox resume "$agent" --no-app-id >/dev/null || fail "muxctl does not take it away"
equal "and no app's again" "null " "$(state .app_id) $(apps search)"
muxctl sandbox resume "$agent" --cluster prod 2>"$tmp/err" && fail "a cluster that is not there"
grep -q unsupported "$tmp/err" && ok "muxctl is told, too" || fail "$(cat "$tmp/err")"

# How much it asks for holds from its next start on; more than the configuration gives every sandbox is clipped, and said.
asks() { jq -r '"\(.resources.memory) \(.resources.pids) \(.resources_clipped)"'; }
equal "it asks for less, and of processors for too much" "64Mi 90 [\"cpu\"]" "$(resume "$manager" '{"resources": {"cpu": 500, "memory": "64Mi", "pids": 90}}' | asks)"
equal "what runs is as it was" "null 2Gi" "$(state '"\(.resources_made_with.pids == 90 | if . then 90 else null end) \(.resources_made_with.memory)"')"
muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
equal "the next start has it" "64Mi 90 2" "$(resume "$manager" '{}' >/dev/null; state '.resources_made_with | "\(.memory) \(.pids) \(.cpu)"')"
if [ "$(state .enforced.memory)" = true ]; then
	equal "more memory than that is not there" "killed" "$(round 'head -c 100M /dev/zero | tail -c 100M >/dev/null || echo killed')"
fi
muxctl sandbox resume "$agent" --no-resources >/dev/null || fail "muxctl does not take them away"
equal "and asks for nothing any more" "null null" "$(state '"\(.resources) \(.resources_clipped)"')"
wait_for 20 set_told "7 settings.1" && ok "each change is told" || fail "$(muxctl audit --since 0 -n 100 --event agent.settings --agent "$agent" -o json)"
