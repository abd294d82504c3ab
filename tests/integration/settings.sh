#!/bin/bash
# shellcheck disable=SC2016
# Settings of an agent: a directory, variables and labels, given when it is made or woken; its programs begin with them until
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
equal "who may run may not set" forbidden "$(resume "$worker" '{"workdir": "/tmp"}' | code)"
equal "nothing was made" not_found "$(api "$manager" GET "/v1/agents/$agent" | code)"

equal "made with them" "running /tmp MODE,TEAM red /workspace" \
	"$(resume "$manager" '{"workdir": "/tmp", "env": {"MODE": "test", "TEAM": "a"}, "labels": {"app/id": "red"}}' |
		jq -r '"\(.state) \(.workdir) \(.env_names | sort | join(",")) \(.labels["app/id"]) \(.persists[0])"')"
equal "its programs begin there" "/tmp test a" "$(round 'echo $PWD $MODE $TEAM')"
equal "the call's own word counts" "/workspace mine a" "$(round 'echo $PWD $MODE $TEAM' '{"cwd": "/workspace", "env": {"MODE": "mine"}}')"
equal "a terminal does, too" "/tmp test" "$(muxctl exec "$agent" -n --task story -c 'echo $PWD $MODE')"
muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
equal "over a sleep" "/tmp test a" "$(round 'echo $PWD $MODE $TEAM')"
equal "one goes, others stay" "test []" "$(resume "$manager" '{"env": {"TEAM": null}}' >/dev/null; round 'echo $MODE [$TEAM]')"
muxctl sandbox resume "$agent" --workdir /workspace --env MODE=ctl --label app/id=blue --label by=hand >/dev/null || fail "muxctl does not set them"
equal "muxctl sets them" "/workspace ctl blue hand" "$(round 'echo $PWD $MODE') $(state '.labels | "\(.["app/id"]) \(.by)"')"
equal "a null takes all of one away" "/workspace null" "$(resume "$manager" '{"workdir": null, "labels": null, "env": null}' >/dev/null; round 'echo $PWD$MODE') $(state .labels)"

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
wait_for 20 set_told "4 settings.1" && ok "each change is told" || fail "$(muxctl audit --since 0 -n 100 --event agent.settings --agent "$agent" -o json)"
