#!/bin/bash
# Task profiles: a policy file decides what grants still may do, at every door; each verdict is in the record with its rule and
# version. It is reloaded without a restart; a bad file changes nothing and is told with line and column.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
policy=$tmp/policy.yaml
printf 'policy: {file: %s}\nrounds: {pty: true, timeout_max: 1h}\nfiles: {timeout_max: 1h}\nrouter: {ports: "1-65535"}\n' "$policy" >"$tmp/muxd.yaml"
write() { cat >"$policy"; }
write <<'YAML'
policy: 1
otherwise: as_granted
profiles:
- name: fix
  match: {task: "fix-*", kind: agent}
  allow:
  - sandbox.wake
  - round.start
  - file.read
  - file.write: {paths: ["src/**"]}
  - artifact.read
  - context.create
  - context.execute
  - context.read
  - port.open: {ports: [8080]}
  limits: {round_time: 5s, rounds: 1, file_size: 1KiB, contexts: 1}
- name: typed
  match: {task: "typed-*", kind: agent}
  allow: [sandbox.wake, round.start, terminal.open]
  limits: {sessions: 1}
- name: staff
  match: {kind: staff, principal: alice}
  allow: [session.list, session.watch, policy.read]
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
version() { sha256sum "$policy" | cut -c1-16; }
v1=$(version)
fix=$(PRINCIPAL=fixer GRANT_TASK=fix-1 new_token demo agent terminal,rounds,files,ports)
typed=$(PRINCIPAL=typist GRANT_TASK=typed-1 new_token demo agent terminal,rounds)
free=$(PRINCIPAL=free GRANT_TASK=free new_token demo agent terminal,rounds,files)
alice=$(PRINCIPAL=alice new_token '*' staff terminal,rounds,files,observe,drive,replay,admin)

api "$fix" POST /v1/agents/demo/resume '{}' >"$tmp/o" && equal "a sandbox is woken" running "$(jq -r .state "$tmp/o")"
said() { jq -r '[.error.code // "fine", .error.details.policy.rule // "-"] | join(" ")' "$tmp/o"; }
try() { api "$1" "$2" "$3" "${4-}" >"$tmp/o" 2>/dev/null; said; }
run='{"argv":["echo","hi"],"wait_ms":20000}'

# Rounds, and what a denial tells.
api "$fix" POST /v1/agents/demo/rounds "$run" >"$tmp/o"
equal "a round runs" "finished 0" "$(jq -r '"\(.state) \(.exit.code)"' "$tmp/o")"
round=$(jq -r .round_id "$tmp/o")
equal "a terminal of a round is off unless the profile opens it" "policy_denied fix/terminal.open" \
	"$(try "$fix" POST /v1/agents/demo/rounds '{"argv":["true"],"pty":{"cols":80,"rows":24}}')"
equal "the denial says what would allow it" "terminal.open under allow of profile fix" "$(jq -r .error.details.policy.needs "$tmp/o")"
denied=$(jq -r .error.request_id "$tmp/o")
equal "a longer time than the profile's" "policy_denied fix/limits.round_time" \
	"$(try "$fix" POST /v1/agents/demo/rounds '{"argv":["true"],"timeout_ms":6000}')"
equal "nobody's profile: as granted" "fine -" "$(try "$free" POST /v1/agents/demo/rounds '{"argv":["true"],"wait_ms":20000}')"

# An agent's own timeout is held by the profile of each round's task, and by the configuration; who asks for more is told.
times=$(PRINCIPAL=fixer GRANT_TASK=fix-1 new_token demo agent rounds,lifecycle)
every=$(PRINCIPAL=free GRANT_TASK=free new_token demo agent rounds,lifecycle)
given() { jq -c '[.exec_timeout_ms, .transfer_timeout_ms, .timeouts_clipped, .by_profile]' "$tmp/o"; }
took() { muxctl audit -n 1000 --event round.start -o json | jq -rs --arg r "$1" '.[] | select(.record.detail.session == $r).record.detail.timeout_ms'; }
told() { [ -n "$(took "$1")" ]; }
own() {
	local r
	r=$(api "$1" POST /v1/agents/demo/rounds '{"argv":["true"],"wait_ms":20000}' | jq -r .round_id)
	wait_for 20 told "$r" >/dev/null
	took "$r"
}
api "$times" POST /v1/agents/demo/resume '{"exec_timeout_ms":60000}' >"$tmp/o"
equal "more than the profile allows is said" '[60000,null,null,{"clipped":["exec_timeout_ms"],"exec_timeout_ms":5000}]' "$(given)"
equal "a round has the profile's, one of another task the agent's" "5000 60000" "$(own "$fix") $(own "$free")"
api "$every" POST /v1/agents/demo/resume '{"exec_timeout_ms":7200000,"transfer_timeout_ms":7200000}' >"$tmp/o"
equal "so is more than is configured" '[7200000,7200000,["exec_timeout_ms","transfer_timeout_ms"],null]' "$(given)"
equal "a round has that" 3600000 "$(own "$free")"
api "$times" POST /v1/agents/demo/resume '{"exec_timeout_ms":2000,"transfer_timeout_ms":null}' >"$tmp/o"
equal "less than either is fine" '[2000,null,null,null]' "$(given)"
equal "and counts for both" "2000 2000" "$(own "$fix") $(own "$free")"
api "$times" POST /v1/agents/demo/resume '{"exec_timeout_ms":null}' >"$tmp/o"
equal "without one it is as configured" "5000 600000" "$(own "$fix") $(own "$free")"

kept=$(api "$typed" POST /v1/agents/demo/rounds '{"argv":["echo","kept"],"wait_ms":20000}' | jq -r .round_id)
terminal='{"argv":["sleep","600"],"pty":{"cols":80,"rows":24},"wait_ms":0}'
equal "a terminal of a round" "fine -" "$(try "$typed" POST /v1/agents/demo/rounds "$terminal")"
parts=$(jq -r .round_id "$tmp/o")
equal "is a session, which its profile counts" "limit_reached typed/limits.sessions" "$(try "$typed" POST /v1/agents/demo/rounds "$terminal")"

# Files by path, patches too, whose paths muxlet alone knows.
equal "a file where it may" "fine -" "$(try "$fix" POST /v1/agents/demo/fs/write '{"path":"src/a","data":"x","parents":true}')"
equal "and elsewhere" "policy_denied fix/file.write" "$(try "$fix" POST /v1/agents/demo/fs/write '{"path":"b","data":"x"}')"
equal "reading is free" "fine -" "$(try "$fix" POST /v1/agents/demo/fs/list '{"path":"."}')"
patch() { jq -cn --arg p "$1" '{path: ".", data: "*** Begin Patch\n*** Add File: \($p)\n+x\n*** End Patch\n"}'; }
equal "a patch of it" "fine -" "$(try "$fix" POST /v1/agents/demo/fs/patch "$(patch src/p)")"
equal "a patch of another file is stopped where its names are read" "path_not_allowed -" \
	"$(try "$fix" POST /v1/agents/demo/fs/patch "$(patch q)")"
equal "a move out of it" "policy_denied fix/file.write" "$(try "$fix" POST /v1/agents/demo/fs/move '{"path":"src/a","to":"c"}')"
head -c 2000 /dev/zero >"$tmp/big"
put() { curl -sS -o "$tmp/o" --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $fix" -T "$tmp/big" "https://$(ready https)/v1/agents/demo/files?path=$1"; }
put src/big && equal "a file over the profile's size" "policy_denied fix/limits.file_size" "$(said)"
put /tmp/x && equal "a file outside the workspace" "policy_denied fix/file.write" "$(said)"

# Sizes that nobody knew when they began: the same rule, the same event.
head -c 1000 /dev/zero >"$tmp/part"
c() { curl -sS -o "$tmp/o" --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $fix" "$@"; }
c -T - "https://$(ready https)/v1/agents/demo/files?path=src/chunks" <"$tmp/big" && equal "chunks over it" "policy_denied fix/limits.file_size" "$(said)"
c -T "$tmp/part" "https://$(ready https)/v1/agents/demo/files?path=src/grows" && equal "a file of 1000 bytes" "fine -" "$(said)"
equal "an append to it over it" "policy_denied fix/limits.file_size" \
	"$(try "$fix" POST /v1/agents/demo/fs/append "$(jq -n '{path: "src/grows", data: ("x" * 100)}')")"
jq -er '.error.message | contains("profile \"fix\"")' "$tmp/o" >/dev/null && ok "which names the profile" || fail "$(cat "$tmp/o")"
mkdir -p "$tmp/tree" && cp "$tmp/big" "$tmp/tree" && tar -C "$tmp/tree" -cf "$tmp/tree.tar" big
c -X PUT --data-binary "@$tmp/tree.tar" -H 'Content-Type: application/x-tar' "https://$(ready https)/v1/agents/demo/fs/tree?path=src/tree" &&
	equal "a file of a tree over it" "policy_denied fix/limits.file_size" "$(said)"
late() { [ "$(muxctl audit --event policy.deny -n 100 -o json | jq -rs '[.[].record.detail | select(.rule == "fix/limits.file_size")] | length')" -ge 2 ]; }
wait_for 20 late && ok "each is a denial in the log" || fail "$(muxctl audit --event policy.deny -n 100 -o json)"

# The other doors.
equal "an artifact" "policy_denied fix/artifact.write" "$(try "$fix" POST /v1/tasks/fix-1/artifacts '{"name":"a","agent":"demo","path":"src/a"}')"
equal "a port" "policy_denied -" "$(curl -sS -o "$tmp/o" --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $fix" -H 'X-Sandbox-ID: demo' -H 'X-Sandbox-Port: 9' "https://$(ready https)/" && said)"
sshc "$fix" demo true >"$tmp/ssh" 2>&1
grep -q 'profile "fix" does not allow exec.open.*policy_denied' "$tmp/ssh" && ok "SSH says so in words" || fail "$(cat "$tmp/ssh")"
api "$fix" POST /v1/agents/demo/contexts '{"language":"python"}' >"$tmp/o"
equal "a context" python "$(jq -r .language "$tmp/o")"
context=/v1/agents/demo/contexts/$(jq -r .context_id "$tmp/o")
api "$fix" POST "$context/executions" '{"code":"1+1","yield_ms":20000}' >"$tmp/o"
equal "code runs in it" finished "$(jq -r .state "$tmp/o")"
execution=$(jq -r .execution_id "$tmp/o")
equal "another task in the call is none of the grant's" "task_mismatch -" "$(try "$fix" DELETE "$context?task_id=free")"
equal "nor of its shells" "task_mismatch -" "$(try "$fix" DELETE "/v1/agents/demo/shells/none?task_id=free")"
equal "a reset takes the place of the only one" "fine -" "$(try "$fix" POST "$context/reset" '{}')"
api "$fix" POST "$context/executions" '{"code":"import os; os._exit(1)","yield_ms":20000}' >"$tmp/o"
ended() { [ "$(api "$fix" GET "$context" | jq -r .state)" = ended ]; }
wait_for 20 ended || fail "its interpreter goes on: $(api "$fix" GET "$context")"
equal "another one once it has ended" "fine -" "$(try "$fix" POST /v1/agents/demo/contexts '{"language":"python"}')"
equal "and then no reset of the first" "limit_reached fix/limits.contexts" "$(try "$fix" POST "$context/reset" '{}')"
equal "and no second one of the task" "limit_reached fix/limits.contexts" "$(try "$fix" POST /v1/agents/demo/contexts '{"language":"python"}')"
listed() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
		-H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' "https://$(ready https)/mcp" -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}' |
		jq -r '[.result.tools[].name] | map(select(. == "sandbox.session.exec" or . == "sandbox.terminal.start" or . == "artifact.put" or . == "artifact.get")) | sort | join(" ")'
}
equal "MCP shows the tools that the profile allows" "artifact.get sandbox.session.exec" "$(listed "$fix")"
equal "and all of them where nobody's profile matches" "artifact.get artifact.put sandbox.session.exec sandbox.terminal.start" "$(listed "$free")"
equal "a sandbox's end" "forbidden -" "$(try "$fix" DELETE '/v1/agents/demo?reason=x')"
equal "staff watch" "fine -" "$(try "$alice" GET /v1/sessions)"
equal "and type on nothing" "policy_denied staff/session.drive" "$(try "$alice" POST "/v1/rounds/$round/signal" '{"signal":"INT"}')"
equal "the policy in force is told" "$v1 as_granted" "$(api "$alice" GET /v1/policy | jq -r '"\(.version) \(.otherwise)"')"

# A reload takes a good file and keeps off a bad one.
sed -i 's/round.start/round.strat/' "$policy"
muxctl config reload 2>"$tmp/err" && fail "a bad policy was taken"
grep -q "policy.yaml:8:5: there is no operation \"round.strat\", did you mean round.start?" "$tmp/err" && ok "a bad policy is refused by line and column" || fail "$(cat "$tmp/err")"
equal "the old one stays in force" "$v1" "$(muxctl status -o json | jq -r .policy.version)"
muxctl status -o json | jq -er .policy.refused | grep -q round.strat && ok "and the status says so" || fail "$(muxctl status -o json)"
equal "rounds run as before" "fine -" "$(try "$fix" POST /v1/agents/demo/rounds "$run")"
# Nothing that is put in the policy's place holds the monitor up: it refuses, and goes on with grants.
mv "$policy" "$policy.kept"
mkfifo "$policy"
muxctl config reload 2>"$tmp/err" && fail "a FIFO was taken for a policy"
grep -q "policy.yaml is a FIFO, not a regular file" "$tmp/err" && ok "a FIFO in its place is refused at once" || fail "$(cat "$tmp/err")"
rm "$policy"
head -c 240000 /dev/zero | tr '\0' '[' >"$policy"
muxctl config reload 2>"$tmp/err" && fail "240000 brackets were taken for a policy"
grep -q "policy.yaml:1:65: lists and mappings inside each other: 64 at most" "$tmp/err" && ok "and so are lists without an end" || fail "$(cat "$tmp/err")"
rm "$policy"
ln -s "$policy.kept" "$policy"
muxctl config reload 2>"$tmp/err"
grep -q "policy.yaml:8:5: there is no operation" "$tmp/err" && ok "a link to it is followed" || fail "$(cat "$tmp/err")"
mv "$policy.kept" "$policy"
PRINCIPAL=alice new_token '*' staff replay >/dev/null || fail "no grant after that"
sed -i 's/round.strat/session.end/' "$policy"
muxctl config reload || fail "no reload"
v2=$(version)
in_force() { [ "$(api "$alice" GET /v1/policy | jq -r .version)" = "$v2" ]; }
wait_for 20 in_force || fail "not in force: $(api "$alice" GET /v1/policy)"
equal "a new one counts at once" "policy_denied fix/round.start" "$(try "$fix" POST /v1/agents/demo/rounds "$run")"

# The record.
flushed() { muxctl audit -n 1000 -o json >"$tmp/events" && [ "$(jq -s '[.[] | select(.record.event == "policy.load")] | length' "$tmp/events")" = 2 ]; }
wait_for 20 flushed || fail "$(jq -c .record "$tmp/events" | grep policy)"
equal "each version is in the log before it counts" "$v1 $v2" "$(jq -rs '[.[] | select(.record.event == "policy.load").record.detail.version] | join(" ")' "$tmp/events")"
equal "with who loaded it" "start admin" "$(jq -rs '[.[] | select(.record.event == "policy.load").record.detail.by.door] | join(" ")' "$tmp/events")"
equal "a refused one is told" "4 $v1" "$(jq -rs '[.[] | select(.record.event == "policy.refused").record.detail] | "\(length) \(.[0].in_force)"' "$tmp/events")"
equal "an allowance is in the event of what it allowed" "fix/round.start $v1" \
	"$(jq -rs --arg r "$round" '.[] | select(.record.event == "round.start" and .record.detail.session == $r).record.policy | "\(.rule) \(.version)"' "$tmp/events")"
equal "and names the rule of each of its parts" "typed/round.start typed/terminal.open" \
	"$(jq -rs --arg r "$parts" '.[] | select(.record.event == "round.start" and .record.detail.session == $r).record.policy | "\(.rule) \(.also | join(" "))"' "$tmp/events")"
equal "code that asks for no time has the profile's, and its interpreter 20 s to end it" 25000 \
	"$(jq -rs --arg r "$execution" '.[] | select(.record.event == "round.start" and .record.detail.session == $r).record.detail.timeout_ms' "$tmp/events")"
equal "a denial is an event of its own" "fix/terminal.open fixer" \
	"$(jq -rs --arg r "$denied" '.[] | select(.record.event == "policy.deny" and .record.request_id == $r).record | "\(.detail.rule) \(.principal)"' "$tmp/events")"
muxctl policy show "$v1" >"$tmp/shown" || fail "no text of $v1"
sed 's/session.end/round.start/' "$policy" | cmp - "$tmp/shown" && ok "the text of an old version is in the log" || fail "$(diff "$policy" "$tmp/shown")"
muxctl policy explain "$denied" >"$tmp/why" || fail "not explained"
grep -q "fix/terminal.open" "$tmp/why" && grep -q " 4  - name: fix" "$tmp/why" && ok "a denial is explained with its profile" || fail "$(cat "$tmp/why")"
muxctl policy explain "$round" | grep -q "fix/round.start" && ok "and a round's allowance" || fail "$(muxctl policy explain "$round")"

# A daemon that is started again has the same policy, and says so again. What it had counted is in an event.
for _ in 1 2; do try "$fix" POST /v1/agents/demo/rounds "$run" >/dev/null; done
again=$(jq -r .error.request_id "$tmp/o")
kill -9 "$(jq .pids.net "$MUXD_STATE/ready.json")"
wait_for 30 in_force || fail "not in force after a restart"
explained() { muxctl policy explain "$again" >"$tmp/why" 2>&1 && grep -q "fix/round.start" "$tmp/why"; }
wait_for 10 explained && ok "a denial that was counted is explained as well" || fail "$(cat "$tmp/why")"
equal "after a restart of net it counts as before" "policy_denied fix/round.start" "$(try "$fix" POST /v1/agents/demo/rounds "$run")"
loose=$(PRINCIPAL=typist new_token demo agent rounds)
equal "the output of a round that has left memory is asked for under the round's task" "policy_denied typed/round.read" "$(try "$loose" GET "/v1/rounds/$kept/output")"
equal "as a search in it is" "policy_denied typed/round.read" "$(try "$loose" GET "/v1/rounds/$kept/output?grep=kept")"
three() { muxctl audit --event policy.load -n 100 -o json >"$tmp/loads" && [ "$(wc -l <"$tmp/loads")" = 3 ]; }
wait_for 20 three && ok "and is in the log again" || fail "$(cat "$tmp/loads")"
# Without the key there is no policy.
printf 'rounds: {pty: true}\n' >"$tmp/muxd.yaml"
muxctl config reload || fail "no reload"
no_policy() { [ "$(api "$alice" GET /v1/policy | jq -r .version)" = null ]; }
wait_for 20 no_policy || fail "still there"
equal "without a policy everything is as granted" "fine -" "$(try "$fix" POST /v1/agents/demo/rounds "$run")"
