# servers_story.sh - parts of the stories of MCP servers inside sandboxes; sourced, never run.
# shellcheck shell=bash disable=SC2016,SC2154,SC2034

asked() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -X "$2" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' "${@:5}" ${4:+--data-binary "$4"} "http://localhost$3"; }
servers() { asked "$manager" "$1" "$base/mcp/servers${2:-}" "${3:-}" "${@:4}"; }
request() { asked "$token" POST "$base/mcp/request" "$1"; }
# of SERVER METHOD [PARAMS [MORE]]: a request's body
of() { jq -nc --arg s "$1" --arg m "$2" --argjson p "${3:-{\}}" --argjson more "${4:-{\}}" '{server: $s, method: $m, params: $p} + $more'; }
use() { request "$(of "$1" tools/call "$(jq -nc --arg n "$2" --argjson a "${3:-{\}}" '{name: $n, arguments: $a}')" "${4:-{\}}")"; }
said() { jq -r '.result.content[0].text // (.error | "\(.code) \(.message)")'; }
code() { jq -r '.error.code // .'; }
state() { servers GET "/$1" | jq -r .state; }
program() { servers GET "/$1" | jq -r .program; }
events() { muxctl audit --since 0 -n 1000 --event "$1" --agent "$agent" -o json | jq -rs "map(.record) | $2"; }
# told WHAT EXPECTED EVENT FILTER: the audit log has it, by and by
is_told() { [ "$(events "$2" "$3")" = "$1" ]; }
told() { wait_for 20 is_told "$2" "$3" "$4" && ok "$1" || fail "$1: expected '$2', got '$(events "$3" "$4")'"; }
is_so() { servers GET "/$1" | jq -e "$2"; }
round_ended() { [[ "$(round_time "$1" ended_at)" == 20* ]]; }
# one SERVER MODE [MORE]: an entry of the list
one() { jq -nc --arg n "$1" --arg m "$2" --argjson more "${3:-{\}}" '{name: $n, command: ["python3", "/workspace/server.py", $m]} + $more'; }
# by_url NAME URL [MORE]: one that listens inside
by_url() { jq -nc --arg n "$1" --arg u "$2" --argjson more "${3:-{\}}" '{name: $n, url: $u} + $more'; }
list() { jq -nc '{servers: $ARGS.positional | map(fromjson)}' --args "$@"; }

servers_begin() {
	PRINCIPAL=agent.7
	agent=$1
	base=/v1/agents/$agent
	token=$(new_token "$agent" agent rounds,files)
	manager=$(new_token "$agent" agent rounds,lifecycle)
	muxctl put "$here/tests/lib/mcp_server.py" "$agent:server.py" >/dev/null 2>&1 || asked "$token" PUT "$base/files?path=server.py" "@$here/tests/lib/mcp_server.py" >/dev/null
}

# Setting: refusals name what cannot be in a list, a list is a version, and two who change it at once do not meet.
servers_list() {
	equal "nothing yet" "0 0" "$(servers GET | jq -r '"\(.version) \(.servers | length)"')"
	equal "a server of the platform stays outside" platform_server "$(servers PUT "" '{"servers":[{"name":"x","scope":"platform","url":"https://mcp.example/"}]}' | code)"
	for url in https://mcp.example/mcp http://10.0.0.1:8001/ http://127.1:8001/ http://localhost.evil/; do
		equal "a way out there is none: $url" egress_not_open "$(servers PUT "" "$(list "$(by_url x "$url")")" | code)"
	done
	equal "nobody listens in on the loopback" "invalid_request true" "$(servers PUT "" "$(list "$(by_url x https://127.0.0.1:8001/)")" | jq -r '"\(.error.code) \(.error.message | contains("write http://"))"')"
	for env in '{"GITHUB_TOKEN":"x"}' '{"A":"ghp_0123456789abcdef0123"}' '{"A":{"secret":"name"}}' '{"A":"x7Kq92LmPz04RtYw81NbVc53HgJd66Fs"}'; do
		equal "a secret is refused: $env" secret_refused "$(servers PUT "" "$(list "$(one x good "{\"env\":$env}")")" | code)"
	done
	equal "and among arguments" secret_refused "$(servers PUT "" '{"servers":[{"name":"x","command":["a","--api-key","k"]}]}' | code)"
	equal "a name twice" "conflict /servers/1" "$(servers PUT "" "$(list "$(one x good)" "$(one x good)")" | jq -r '"\(.error.code) \(.error.message | .[0:10])"')"
	equal "who may use may not set" forbidden "$(asked "$token" PUT "$base/mcp/servers" "$(list "$(one good good)")" | code)"
	equal "a list is a version" "1 good absent" "$(servers PUT "" "$(list "$(one good good '{"env":{"MAX_TOKENS":"100"}}')" "$(one grows grows)" "$(one chatty chatty)")" -H 'If-Match: "0"' >/dev/null; servers GET | jq -r '"\(.version) \(.servers[0].name) \(.servers[0].state)"')"
	equal "the same again is none" 1 "$(servers PUT "" "$(list "$(one good good '{"env":{"MAX_TOKENS":"100"}}')" "$(one grows grows)" "$(one chatty chatty)")" | jq .version)"
	equal "an older one is not changed by mistake" list_changed "$(servers PUT "" "$(list)" -H 'If-Match: "0"' | code)"
	told "the audit log has it" "1 agent.7" mcp.servers 'map(select(.outcome == "ok")) | "\(length) \(.[0].principal)"'
}

# One that is not there yet is begun by its first request; the agent's sandbox with it.
servers_used() {
	equal "a tool answers" "hello" "$(use good echo '{"text":"hello"}' | said)"
	equal "it stays" ready "$(state good)"
	equal "what it says of itself" "test-good" "$(request "$(of good initialize)" | jq -r .result.serverInfo.name)"
	equal "its tools" "echo slow ask env" "$(request "$(of good tools/list)" | jq -r '[.result.tools[].name] | join(" ")')"
	equal "an error of its own is its answer" "-32000 out of paper" "$(use good echo '{"error":{"code":-32000,"message":"out of paper"}}' | said)"
	equal "a tool that it does not list" not_found "$(use good none | code)"
	for name in 7 '""' '"echo\u0000"' null; do equal "no name of a tool: $name" invalid_request "$(request "$(of good tools/call "{\"name\":$name}")" | code)"; done
	equal "no name of a server" "invalid_request invalid_request" "$(servers GET "/a%20b" | code) $(servers POST "/a%20b/refresh" | code)"
	equal "a method that is none of its own" unsupported "$(request "$(of good logging/setLevel)" | code)"
	equal "a server that is not in the list" not_found "$(request "$(of none tools/list)" | code)"
	equal "requests go side by side" "slow is done slow is done slow is done" "$(for i in 1 2 3; do use good slow '{"ms":300}' | said & done | paste -sd' '; wait)"
	equal "sampling is off, and it hears that" "asked" "$(use good ask | said)"
	wait_for 20 is_so good '.stderr | contains("refused: -32601 sampling/createMessage is off")' || fail "in vain"
	equal "nor does it ask by an answer" "mcp_server_failed true" "$(use good echo '{"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}}' | jq -r '"\(.error.code) \(.error.message | contains("by resultType input_required"))"')"
	equal "nor by an error" "mcp_server_failed true" "$(use good echo '{"error":{"code":-32042,"message":"go there","data":{"elicitations":[{"url":"https://mcp.example/"}]}}}' | jq -r '"\(.error.code) \(.error.message | contains("by error -32042"))"')"
	equal "what it asks is taken out" "content resultType" "$(use good echo '{"result":{"resultType":"complete","content":[],"inputRequests":{},"requestState":"x"}}' | jq -r '.result | keys | join(" ")')"
	equal "and so is what would be its answer" "_meta arguments name" "$(request "$(of good tools/call '{"name":"echo","arguments":{"keys":true},"_meta":{"a":1},"inputResponses":{"a":{}},"requestState":"x"}')" | said)"
	told "which is told of" "error -32042 resultType input_required sampling/createMessage" mcp.refused 'map(.detail.method) | unique | join(" ")'
	equal "time is short" timeout "$(use good slow '{"ms":3000}' '{"timeout_ms":500}' | code)"
	equal "and the server is told" "ready" "$(state good)"
	equal "the same call once" "true" "$(a=$(use good echo '{"text":"once"}' '{"exec_id":"e1"}' | jq -r .round_id); b=$(use good echo '{"text":"once"}' '{"exec_id":"e1"}' | jq -r .round_id); [ "$a" = "$b" ] && [ -n "$a" ] && echo true)"
	equal "another call by its exec_id" conflict "$(use good echo '{"text":"other"}' '{"exec_id":"e1"}' | code)"
	equal "muxctl asks, too" "from muxctl" "$(muxctl mcp request "$agent" good tools/call '{"name":"echo","arguments":{"text":"from muxctl"}}' --task story | jq -r '.content[0].text')"
	muxctl mcp servers "$agent" good | grep -q '^echo ' || fail "muxctl shows no tools"
}

# Each request is a round of kind mcp: who, what, digests, both bodies, and how it ended.
servers_recorded() {
	local round
	round=$(use good echo '{"text":"in the record"}' | jq -r .round_id)
	wait_for 20 round_ended "$round" || fail "in vain"
	equal "as a round" "exit 0 good tools/call echo true" "$(asked "$token" GET "/v1/rounds/$round" "" | jq -r '"\(.exit.cause) \(.exit.code) \(.mcp.server) \(.mcp.method) \(.mcp.tool) \(.stdout.data | contains("in the record"))"')"
	equal "with its program" "$(program good)" "$(asked "$token" GET "/v1/rounds/$round" "" | jq -r .mcp.program)"
	equal "its end has where it went" "$(program good) 64" "$(muxctl session show "$round" -o json 2>/dev/null | jq -r '.. | objects | select(has("sent_sha256")) | "\(.program) \(.sent_sha256 | length)"' | head -1)"
	equal "on the timeline" mcp "$(muxctl session list --all -o json | jq -r ".. | objects | select((.session? // .id?) == \"$round\") | .kind" | head -1)"
	told "the audit log has the digest of its parameters" "1 ok echo 64" mcp.answer "map(select(.detail.session == \"$round\")) | \"\(length) \(.[0].outcome) \(.[0].detail.tool) \(.[0].detail.params_sha256 | length)\""
	equal "and none of the text" 0 "$(muxctl audit --since 0 -n 1000 --agent "$agent" -o json | grep -c 'in the record')"
	muxctl verify --all >"$tmp/verify" 2>&1 || fail "the record does not verify: $(tail -3 "$tmp/verify")"
}

# A profile names servers and tools: what it does not name is neither listed nor called.
servers_policy_file() {
	printf 'policy: {file: %s}\n' "$tmp/policy.yaml" >"$tmp/muxd.yaml"
	cat >"$tmp/policy.yaml" <<-Y
		policy: 1
		otherwise: as_granted
		profiles:
		- name: narrow
		  match: {task: narrow}
		  allow:
		  - mcp.read
		  - mcp.call: {servers: {good: [echo]}}
		  limits: {mcp_rate: 4, mcp_size: 1KiB}
	Y
}
servers_judged() {
	local token narrow
	narrow=$(GRANT_TASK=narrow new_token "$agent" agent rounds,lifecycle)
	token=$narrow
	equal "the tools of a profile" "echo" "$(request "$(of good tools/list)" | jq -r '[.result.tools[].name] | join(" ")')"
	equal "are called" "judged" "$(use good echo '{"text":"judged"}' | said)"
	equal "others are not" "policy_denied narrow/mcp.call" "$(use good slow | jq -r '"\(.error.code) \(.error.details.policy.rule)"')"
	equal "nor other servers" policy_denied "$(use chatty echo | code)"
	equal "nor is the list set" policy_denied "$(asked "$narrow" PUT "$base/mcp/servers" "$(list)" | code)"
	rule() { jq -r '"\(.error.code) \(.error.details.policy.rule)"'; }
	equal "nor parameters over the profile's size" "policy_denied narrow/limits.mcp_size" "$(use good echo "{\"text\":\"$(printf '%01100d' 0)\"}" | rule)"
	for _ in 2 3 4; do use good echo '{"text":"judged"}' >/dev/null; done
	equal "nor more requests in a minute than it says" "limit_reached narrow/limits.mcp_rate" "$(use good echo '{"text":"judged"}' | rule)"
	told "the verdict is in the log" "narrow/mcp.call" mcp.answer 'map(select(.detail.task == "narrow")) | .[0].policy.rule'
}

# The program of a server is nobody's own: whoever began it has its requests, and neither its input, its output nor its end.
servers_kept_apart() {
	local round driver looker
	round=$(program good)
	driver=$(new_token "$agent" staff rounds,drive,observe)
	looker=$(new_token "$agent" staff observe)
	for call in stdin:'{"data":"x"}' signal:'{"signal":"KILL"}' keys:'{"keys":["Enter"]}'; do
		equal "${call%%:*} of whoever began it" not_found "$(asked "$token" POST "/v1/rounds/$round/${call%%:*}" "${call#*:}" | code)"
		equal "${call%%:*} of a driver" bad_state "$(asked "$driver" POST "/v1/rounds/$round/${call%%:*}" "${call#*:}" | code)"
	done
	equal "nor is its output read" "not_found not_found" "$(asked "$token" GET "/v1/rounds/$round" "" | code) $(asked "$token" GET "/v1/rounds/$round/output" "" | code)"
	equal "but by who may observe" "server good" "$(asked "$looker" GET "/v1/rounds/$round" "" | jq -r '"\(.mcp.role) \(.mcp.server)"')"
	equal "nobody drives it" bad_state "$(muxctl attach "$round" 2>&1 </dev/null | grep -o bad_state | head -1)"
	equal "whoever began it does not end it" not_found "$(asked "$token" POST "/v1/sessions/$round/terminate" '{"reason":"x"}' | code)"
	equal "who sets the list does" ending "$(asked "$manager" POST "/v1/sessions/$round/terminate" '{"reason":"x"}' | jq -r '.state // .error.code')"
	equal "and the next request begins it anew" "anew" "$(use good echo '{"text":"anew"}' | said)"
	equal "nor is its record read" not_found "$(asked "$token" GET "/v1/rounds/$round" "" | code)"
}

# A grant that ends takes its requests with it: those that wait are not sent, and what is in flight is cancelled.
servers_grant_ends() {
	local grant jobs=() i others=$token
	grant=$(muxctl grant create --agent "$agent" --principal agent.8 --kind agent --scopes rounds --task story --ttl 15m --reason story -o json)
	token=$(jq -r .token <<<"$grant")
	for i in $(seq 33); do
		use good slow "{\"ms\":15000,\"n\":$i}" >"$tmp/revoked-$i" &
		jobs+=($!)
	done
	wait_for 20 is_so good '.requests == 33' || fail "in vain"
	muxctl grant revoke "$(jq -r .id <<<"$grant")" >/dev/null || fail "not revoked"
	wait "${jobs[@]}"
	equal "requests of a grant that was revoked" "33 cancelled" "$(cat "$tmp"/revoked-* | code | sort | uniq -c | awk '{print $1, $2}')"
	told "which the record has as cancelled" 33 mcp.answer 'map(select(.principal == "agent.8" and .outcome == "cancelled")) | length'
	token=$others
	equal "the server is told, and serves others" "32 still" "$(wait_for 20 is_so good '.stderr | [scan("cancelled")] | length == 32' && echo 32) $(use good echo '{"text":"still"}' | said)"
}

# Killed in the middle of a request, it fails that one by name, and is back within seconds.
servers_come_back() {
	local was job
	was=$(program good)
	use good slow '{"ms":5000}' >"$tmp/slow" &
	job=$!
	wait_for 20 is_so good '.requests == 1' || fail "in vain"
	use good echo '{"kill":true}' >/dev/null
	wait "$job"
	equal "the request in flight is told" "mcp_server_failed killed by signal KILL" "$(jq -r '"\(.error.code) \(.error.message | capture("(?<m>killed by signal KILL)").m)"' "$tmp/slow")"
	equal "the next one is served" "again" "$(use good echo '{"text":"again"}' | said)"
	[ "$(program good)" != "$was" ] || fail "it is the same program"
	equal "and that is told of" "ready 1" "$(servers GET /good | jq -r '"\(.state) \(.restarts)"')"
}

no_fork() { ! muxctl sandbox list -o json | grep -q -- "$agent-mcp-"; }
# Tools of a sandbox that sleeps are known, and looking does not wake it.
servers_sleep() {
	local before
	muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
	equal "its tools are known" "echo slow ask env" "$(request "$(of good tools/list)" | jq -r '[.result.tools[].name] | join(" ")')"
	before=$(muxctl sandbox show "$agent" -o json | jq -r .last_activity_at)
	equal "they are read anew in a fork" "test-good 4" "$(asked "$token" POST "$base/mcp/servers/good/refresh" "" | jq -r '"\(.tools.server_info.name) \(.tools.list | length)"')"
	equal "and those of one that nobody has seen" "test-chatty" "$(request "$(of chatty initialize)" | jq -r .result.serverInfo.name)"
	told "which is told of" "2 ok" mcp.discover '"\(length) \(.[0].outcome)"'
	wait_for 20 no_fork || fail "the fork is there: $(muxctl sandbox list)"
	equal "and it sleeps on" "stopped absent $before" "$(muxctl sandbox show "$agent" -o json | jq -r .state) $(state good) $(muxctl sandbox show "$agent" -o json | jq -r .last_activity_at)"
	equal "a call wakes it, and begins the server" "awake" "$(use good echo '{"text":"awake"}' | said)"
}

# What it offers was approved at first sight. Other tools are held until somebody looks.
servers_change() {
	equal "as it was seen first" "first seen 0" "$(use grows echo '{"text":"x"}' >/dev/null; servers GET /grows | jq -r '"\(.tools.approved_by) \(.tools.changes | length)"')"
	asked "$token" POST "$base/mcp/servers/grows/refresh" "" >"$tmp/refreshed"
	equal "another description of a tool" "held env changed" "$(jq -r '"\(.state) \(.tools.changes[0] | "\(.tool) \(.change)")"' "$tmp/refreshed")"
	equal "holds the server" mcp_server_held "$(use grows echo '{"text":"x"}' | code)"
	equal "and its list" mcp_server_held "$(request "$(of grows tools/list)" | code)"
	equal "who uses it may not approve it" forbidden "$(asked "$token" POST "$base/mcp/servers/grows/approve" "$(jq '{fingerprint: .tools.fingerprint}' "$tmp/refreshed")" | code)"
	equal "nor is something approved that nobody saw" list_changed "$(servers POST /grows/approve "{\"fingerprint\":\"$(printf '0%.0s' {1..64})\"}" | code)"
	muxctl mcp approve "$agent" grows >"$tmp/approved" || fail "it is not approved"
	equal "approved, it serves" "y" "$(use grows echo '{"text":"y"}' | said)"
	told "that is told of" "1 1 1" mcp.held '"\(length) \(.[0].detail.count) \(.[0].detail.changes | length)"'
	told "so is who approved it, at first sight and later" "first seen 5 64" mcp.approve 'map(select(.detail.server == "grows" and .outcome == "ok")) | "\(.[0].detail.by) \(.[-1].detail.tools) \(.[-1].detail.fingerprint | length)"'
	told "and who had it looked at" "agent.7" mcp.refresh 'map(select(.detail.server == "grows" and .outcome == "ok")) | .[0].principal'
	told "and who approved" 1 mcp.approve 'map(select(.outcome == "ok" and .detail.by != "first seen")) | length'
	servers PUT "" "$(list "$(one good good)")" >/dev/null
	equal "another definition is another server" "absent null" "$(servers GET /good | jq -r '"\(.state) \(.tools)"')"
}

# A daemon that is killed: the request in flight has its end in the record, its program is begun anew.
servers_daemon_dies() {
	local round job
	use good slow '{"ms":20000}' '{"exec_id":"lost"}' >/dev/null 2>&1 &
	job=$!
	wait_for 20 is_so good '.requests == 1' || fail "in vain"
	kill -9 "$(jq .pids.net "$MUXD_STATE/ready.json")"
	wait "$job" 2>/dev/null
	wait_for 20 curl -sSf --unix-socket "$MUXD_STATE/api.sock" http://localhost/readyz || fail "in vain"
	equal "the same call is not done twice" conflict "$(use good slow '{"ms":20000}' '{"exec_id":"lost"}' | code)"
	round=$(use good slow '{"ms":20000}' '{"exec_id":"lost"}' | jq -r '.error.message | capture("round (?<r>[0-9a-f-]{36})").r')
	equal "its round says that nobody knows" "unknown" "$(asked "$token" GET "/v1/rounds/$round" "" | jq -r .exit.cause)"
	equal "the next one is served" "after" "$(use good echo '{"text":"after"}' | said)"
}

# Much in little: 8 MB of empty objects are 660 MB for who reads them all. What is kept of a server is bounded ahead of that.
daemon_peak() { awk '/^VmHWM/ {print int($2 / 1024)}' "/proc/$(jq .pids.net "$MUXD_STATE/ready.json")/status"; }
servers_wide() {
	local before row
	servers PUT "" "$(list "$(one good good)" "$(one wide wide)" "$(one pages pages)" "$(one proud proud)")" >/dev/null
	equal "the good one" "1" "$(use good echo '{"text":"1"}' | said)"
	before=$(daemon_peak)
	for row in "wide:more than 100000 values" "pages:more than 2 MiB" "proud:longer than 64 KiB"; do
		equal "${row%%:*}" "mcp_server_failed true" "$(use "${row%%:*}" echo '{"text":"x"}' | jq -r --arg m "${row#*:}" '"\(.error.code) \(.error.message | contains($m))"')"
	done
	[ "$(daemon_peak)" -le $((before + 64)) ] || fail "the daemon grew from $before to $(daemon_peak) MiB"
	ok "and the daemon grew by less than 64 MiB, at the worst"
}

# Answers that nobody waits for are a flood as notifications are, and who says all the time that his tools are others is
# asked for them now and then.
servers_restless() {
	servers PUT "" "$(list "$(one good good)" "$(one again again)" "$(one restless restless)")" >/dev/null
	equal "restless, it serves" "x x x" "$(for i in 1 2 3; do use restless echo '{"text":"x"}' | said; done | paste -sd' ')"
	equal "answers without end" "mcp_server_failed true" "$(use again slow '{"ms":20000}' | jq -r '"\(.error.code) \(.error.message | contains("floods"))"')"
	[ "$(servers GET /restless | jq -r .stderr | grep -c 'tools are read')" -le 5 ] || fail "its tools are read too often"
	equal "and it is not held" ready "$(state restless)"
}

# A server that pings is answered, and its sandbox may fall asleep all the same.
last_activity() { muxctl sandbox show "$agent" -o json | jq -r .last_activity_at; }
servers_ping() {
	local before pongs
	servers PUT "" "$(list "$(one pings pings)")" >/dev/null
	equal "it serves" "x" "$(use pings echo '{"text":"x"}' | said)"
	before=$(last_activity)
	pongs=$(servers GET /pings | jq '.stderr | split("pong") | length')
	wait_for 20 is_so pings ".stderr | split(\"pong\") | length > $((pongs + 20))" || fail "its pings are not answered"
	equal "nobody did anything" "$before" "$(last_activity)"
}

# Other instructions hold a server as other tools do: models are told both.
servers_sways() {
	servers PUT "" "$(list "$(one sways sways)")" >/dev/null
	equal "it serves" "x" "$(use sways echo '{"text":"x"}' | said)"
	asked "$manager" POST "/v1/sessions/$(program sways)/terminate" '{"reason":"it has to come back"}' >/dev/null
	wait_for 20 is_so sways '.state == "absent"' || fail "it is $(state sways)"
	use sways echo '{"text":"x"}' >/dev/null
	wait_for 20 is_so sways '.state == "held"' || fail "it is $(state sways)"
	equal "other instructions" "the answer to initialize changed" "$(servers GET /sways | jq -r '.tools.changes[0] | "\(.tool) \(.change)"')"
	equal "hold it" "mcp_server_held mcp_server_held" "$(use sways echo '{"text":"x"}' | code) $(request "$(of sways initialize)" | code)"
	muxctl mcp approve "$agent" sways >/dev/null || fail "it is not approved"
	equal "approved, it serves" "y" "$(use sways echo '{"text":"y"}' | said)"
}

# A server goes with the grant that began it. Who asks next has it begun again, once the old program is dead.
round_time() { muxctl session list --all -o json | jq -r ".. | objects | select((.session? // .id?) == \"$1\") | .$2" | head -1; }
servers_cut() {
	local grant first
	servers PUT "" "$(list "$(one cut good)")" >/dev/null
	grant=$(muxctl grant create --agent "$agent" --principal agent.7 --kind agent --scopes rounds --task story --ttl 5m --reason cut -o json)
	equal "begun by one" "x" "$(token=$(jq -r .token <<<"$grant") use cut echo '{"text":"x"}' | said)"
	first=$(program cut)
	muxctl grant revoke "$(jq -r .id <<<"$grant")" >/dev/null || fail "not revoked"
	equal "used by another" "y" "$(use cut echo '{"text":"y"}' | said)"
	[ "$(program cut)" != "$first" ] || fail "it is the same program"
	wait_for 60 round_ended "$first" || fail "in vain"
	grep -qE '^20.*[0-9]Z 20' <<<"$(round_time "$first" ended_at) $(round_time "$(program cut)" opened_at)" || fail "no times"
	[[ ! "$(round_time "$first" ended_at)" > "$(round_time "$(program cut)" opened_at)" ]] && ok "one after the other" || fail "two programs at once"
	servers PUT "" "$(list "$(one brief good)")" >/dev/null
	equal "one begins it whose grant is about to end" "x" \
		"$(token=$(PRINCIPAL=agent.8 new_token "$agent" agent rounds 30s) use brief echo '{"text":"x"}' | said)"
	first=$(program brief)
	equal "who comes behind has it under a grant that lasts" "y" "$(use brief slow '{"ms":100}' >/dev/null; use brief echo '{"text":"y"}' | said)"
	[ "$(program brief)" != "$first" ] && ok "in a program of his own grant" || fail "it ends with another's grant"
}

# Broken in every way that there is: a named error for that request, the server held down, the good one untouched.
servers_hostile() {
	local mode job
	servers PUT "" "$(list "$(one good good)" "$(one garbage garbage)" "$(one flood flood)" "$(one mute mute '{"start_timeout_ms":1000}')" "$(one dies dies)" \
		"$(one foreign foreign)" "$(one big big)" "$(one deep deep)" "$(one crash crash)" "$(one chatty chatty)" '{"name":"none","command":["/no/such/program"]}')" >/dev/null
	equal "the good one" "1" "$(use good echo '{"text":"1"}' | said)"
	use good slow '{"ms":4000}' >"$tmp/beside" &
	job=$!
	for row in "garbage:prints what is no message" "mute:did not answer initialize within" "dies:exited with code 3 before it answered initialize; stderr: no configuration" \
		"foreign:answered a request that nobody made" "big:longer than 8 MiB" "crash:exited with code 7; stderr: I do not feel well" "none:could not be started"; do
		mode=${row%%:*}
		use "$mode" echo '{"text":"x"}' >"$tmp/$mode"
		equal "$mode" "mcp_server_failed true" "$(jq -r --arg m "${row#*:}" '"\(.error.code) \(.error.message | contains($m))"' "$tmp/$mode")"
	done
	use flood echo '{"text":"x"}' '{"timeout_ms":20000}' >"$tmp/flood"
	equal "flood" true "$(jq -r '.error.message | contains("floods")' "$tmp/flood")"
	equal "deep" timeout "$(use deep echo '{"text":"x"}' '{"timeout_ms":1000}' | code)"
	equal "prose between its messages is counted" "x 2" "$(use chatty echo '{"text":"x"}' | said) $(servers GET /chatty | jq .garbage_lines)"
	# Failing on and on it is held down: refused at once, and told for how long.
	for _ in 1 2 3 4 5; do use dies echo '{"text":"x"}' >"$tmp/dies"; done
	equal "one that dies in a loop is held down" "mcp_server_down backing_off" "$(code <"$tmp/dies") $(state dies)"
	wait "$job"
	equal "and the good one noticed nothing" "slow is done 2" "$(said <"$tmp/beside") $(use good echo '{"text":"2"}' | said)"
	equal "nor was it begun anew" 0 "$(servers GET /good | jq .restarts)"
	equal "the daemon lives" "" "$(grep -iE 'sanitizer|assert|core dumped' "$MUXD_STATE/daemon.log")"
	told "the audit log has each that failed" "again big crash dies flood foreign garbage mute none pages proud wide" mcp.failed 'map(.detail.server) | unique | join(" ")'
}

# ---- servers that listen on the sandbox's loopback, by tests/lib/mcp_http_server.py as a service
service() { asked "$manager" GET "$base/services/$1" "" | jq -r ".service$2"; }
listener_is_new() { [ "$(service listener .restarts)" -gt "$1" ] && [ "$(service listener .state)" = healthy ]; }
listener() { jq -nc '{name: "listener", argv: ["python3", "/workspace/listens.py", "8100"], port: 8100, restart: {backoff_ms: 100}}'; }
urls_begin() {
	asked "$token" PUT "$base/files?path=listens.py" "@$here/tests/lib/mcp_http_server.py" >/dev/null
	asked "$manager" PUT "$base/services" "$(jq -nc --argjson l "$(listener)" '{services: [$l]}')" >/dev/null
}
# Requests wait for the service; each message is in the round of the program that speaks for them; it dies and comes back.
servers_urls() {
	local job was
	urls_begin
	servers PUT "" "$(list "$(by_url web http://127.0.0.1:8100/good)" "$(by_url plain http://localhost:8100/plain)" "$(by_url late http://127.0.0.1:8101/good '{"start_timeout_ms":20000}')" \
		"$(by_url returns http://127.0.0.1:8100/returns)" "$(by_url none http://127.0.0.1:8102/ '{"start_timeout_ms":300}')" "$(by_url six 'http://[::1]:8100/good' '{"start_timeout_ms":300}')")" >/dev/null
	equal "by its address, as soon as it listens" hello "$(use web echo '{"text":"hello"}' | said)"
	equal "its tools" "echo slow ask file" "$(request "$(of web tools/list)" | jq -r '[.result.tools[].name] | join(" ")')"
	equal "what it says of itself" http-good "$(request "$(of web initialize)" | jq -r .result.serverInfo.name)"
	equal "requests go side by side" "slow is done slow is done slow is done" "$(for i in 1 2 3; do use web slow '{"ms":300}' | said & done | paste -sd' '; wait)"
	equal "sampling is off" asked "$(use web ask | said)"
	wait_for 20 is_log 'answered: -32601' || fail "it did not hear that: $(muxctl services log "$agent" listener)"
	wait_for 20 is_so web '.stderr | contains("by the stream of GET")' || fail "what belongs to no request does not come"
	equal "an error by HTTP is its answer" "-32601 no such method" "$(request "$(of web prompts/list)" | said)"
	equal "without sessions, streams and compact JSON" hello "$(use plain echo '{"text":"hello"}' | said)"
	equal "one that ends its stream and is asked again" "came back" "$(use returns echo '{"text":"x"}' | said)"
	use late echo '{"text":"at last"}' >"$tmp/late" &
	job=$!
	wait_for 20 is_so late '.state == "initializing"' || fail "in vain"
	muxctl exec -n "$agent" -- sh -c 'setsid python3 /workspace/listens.py 8101 </dev/null >/dev/null 2>&1 &'
	wait "$job"
	equal "one that is still on its way up" "at last" "$(said <"$tmp/late")"
	equal "nobody listens" "mcp_server_failed true" "$(use none echo | jq -r '"\(.error.code) \(.error.message | contains("it is not there: nobody listens on port 8102 of the sandbox"))"')"
	equal "an address is what it says" "mcp_server_failed" "$(use six echo | code)"
	equal "every byte is in its round" "muxlet --mcp http://127.0.0.1:8100/good" "$(p=$(program web); events round.start "map(select(.detail.session == \"$p\"))[0].detail.argv[0:3] | join(\" \")")"
	use web slow '{"ms":20000}' >"$tmp/slow" &
	job=$!
	wait_for 20 is_so web '.requests == 1' || fail "in vain"
	was=$(service listener .restarts)
	use plain echo '{"kill":true}' >/dev/null
	wait "$job"
	equal "killed, the request in flight is told" mcp_server_failed "$(code <"$tmp/slow")"
	wait_for 20 listener_is_new "$was" || fail "the service does not come back"
	equal "and the next one is served" again "$(use web echo '{"text":"again"}' | said)"
	asked "$manager" PUT "$base/services" '{"services":[{"name":"listener","argv":["false"],"port":8100,"restart":{"attempts":1}}]}' >/dev/null
	wait_for 20 listener_is held || fail "it is not held"
	wait_for 20 is_so web '.state != "ready"' || fail "it is $(state web)"
	equal "a service that is held is named" "service_down true" "$(use web echo '{"text":"x"}' | jq -r '"\(.error.code) \(.error.message | contains("service listener"))"')"
	urls_begin
	muxctl sandbox stop "$agent" --reason sleep >/dev/null || fail "it does not sleep"
	equal "that is no failure of its" 0 "$(events mcp.failed "map(select(.detail.server == \"plain\" and (.detail.message | contains(\"not there\")))) | length")"
	equal "asleep, its tools are known" "echo slow ask file" "$(request "$(of web tools/list)" | jq -r '[.result.tools[].name] | join(" ")')"
	equal "and not read anew where nobody listens" "bad_state true" "$(asked "$token" POST "$base/mcp/servers/web/refresh" "" | jq -r '"\(.error.code) \(.error.message | contains("resume that"))"')"
	equal "a call wakes it, its service, and is answered" awake "$(use web echo '{"text":"awake"}' | said)"
	asked "$manager" PUT "$base/services" '{"services":[]}' >/dev/null
}
is_log() { muxctl services log "$agent" listener | grep -q "$1"; }
listener_is() { [ "$(service listener .state)" = "$1" ]; }

# Broken in every way that HTTP has: a named error for that request, and the good one beside it untouched.
servers_url_hostile() {
	local mode job all=()
	urls_begin
	for mode in good redirect html chunks endless big foreign garbage flood head closes session refuses; do all+=("$(by_url $mode http://127.0.0.1:8100/$mode)"); done
	servers PUT "" "$(list "${all[@]}" "$(by_url mute http://127.0.0.1:8100/mute '{"start_timeout_ms":500}')" "$(by_url forgets http://127.0.0.1:8100/forgets)")" >/dev/null
	equal "the good one" 1 "$(use good echo '{"text":"1"}' | said)"
	use good slow '{"ms":4000}' >"$tmp/beside" &
	job=$!
	for row in "redirect:no redirect is followed" "html:neither application/json nor" "chunks:in chunks that are none" "big:a message of more than 8 MiB" \
		"foreign:answered a request that nobody made" "garbage:prints what is no message" "flood:floods" "head:a head of more than 64 KiB" "closes:before it had answered" \
		"session:names a session by other characters" "mute:did not answer initialize within"; do
		mode=${row%%:*}
		use "$mode" echo '{"text":"x"}' '{"timeout_ms":20000}' >"$tmp/$mode"
		equal "by its address, $mode" "mcp_server_failed true" "$(jq -r --arg m "${row#*:}" '"\(.error.code) \(.error.message | contains($m))"' "$tmp/$mode")"
	done
	equal "endless" timeout "$(use endless echo '{"text":"x"}' '{"timeout_ms":500}' | code)"
	equal "an error of HTTP is its answer" "-32603 the server answered with HTTP status 503" "$(use refuses echo | said)"
	equal "a session that is forgotten" "1 mcp_server_failed 3" "$(use forgets echo '{"text":"1"}' | said) $(use forgets echo '{"text":"2"}' | code) $(wait_for 20 is_so forgets '.state != "backing_off"'; use forgets echo '{"text":"3"}' | said)"
	wait "$job"
	equal "and the good one noticed nothing" "slow is done 2 0" "$(said <"$tmp/beside") $(use good echo '{"text":"2"}' | said) $(servers GET /good | jq .restarts)"
	asked "$manager" PUT "$base/services" '{"services":[]}' >/dev/null
}
