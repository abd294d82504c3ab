# services_story.sh - parts of the stories of services inside sandboxes; sourced, never run. Expects CYCLES.
# shellcheck shell=bash disable=SC2154,SC2034,SC2015,SC2016

asked() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -X "$2" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' "${@:5}" ${4:+--data-binary "$4"} "http://localhost$3"; }
services() { asked "$manager" "$1" "$base/services${2:-}" "${3:-}" "${@:4}"; }
code() { jq -r '.error.code // .'; }
# of NAME FILTER: of a service as it is now
of() { services GET "/$1" | jq -r ".service$2"; }
is() { [ "$(of "$1" .state)" = "$2" ]; }
# becomes NAME STATE WHAT
becomes() { wait_for 20 is "$1" "$2" && ok "$3" || fail "$3: $(services GET "/$1")"; }
# web NAME PORT [MORE]: an entry of the list; dies NAME
web() { jq -nc --arg n "$1" --argjson p "$2" --argjson more "${3:-{\}}" '{name: $n, argv: ["python3", "/workspace/service.py", "web", "\($p)", $n], port: $p, health: {path: "/up"}, restart: {backoff_ms: 100}} + $more'; }
# node NAME PORT: the same by Node, whose story is sleep alone.
node() { jq -nc --arg n "$1" --argjson p "$2" '{name: $n, argv: ["node", "/workspace/service.mjs", "\($p)", $n], port: $p, health: {path: "/up"}, restart: {backoff_ms: 100}}'; }
dies() { jq -nc --arg n "$1" '{name: $n, argv: ["python3", "/workspace/service.py", "dies"], port: 8003, restart: {backoff_ms: 100, attempts: 3}}'; }
list() { jq -nc '{services: $ARGS.positional | map(fromjson)}' --args "$@"; }
routed() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H "X-Sandbox-ID: $agent" \
		-H "X-Sandbox-Port: $1" "${@:3}" "https://$(ready https)$2"
}
events() { muxctl audit --since 0 -n 1000 --event "$1" --agent "$agent" -o json | jq -rs "map(.record) | $2"; }
is_told() { [ "$(events "$2" "$3")" = "$1" ]; }
told() { wait_for 20 is_told "$2" "$3" "$4" && ok "$1" || fail "$1: expected '$2', got '$(events "$3" "$4")'"; }
inside() { muxctl exec -n "$agent" -- "$@"; }
sleeps() { muxctl sandbox stop "$agent" --reason "a story" >/dev/null || fail "it does not sleep"; }
# How many of the programs of a service run.
running() { inside sh -c 'n=0; for p in /proc/[0-9]*/cmdline; do tr "\0" " " <$p 2>/dev/null | grep -q "^python3 /workspace/service.py web $0 " && n=$((n + 1)); done; echo $n' "$1"; }

services_begin() {
	agent=$1
	base=/v1/agents/$agent
	PRINCIPAL=services.1
	token=$(new_token "$agent" agent ports,rounds)
	manager=$(new_token "$agent" agent rounds,lifecycle)
	muxctl put "$agent" "$here/tests/lib/service.py" service.py >/dev/null || fail "no sandbox"
}

# Setting: what cannot be in a list is refused by name and place, a list is a version, and what is new begins at once.
services_list() {
	equal "nothing yet" "0 0" "$(services GET | jq -r '"\(.version) \(.services | length)"')"
	equal "a secret is refused" "secret_refused /services/0/env/API_KEY" "$(services PUT "" "$(list "$(web x 8001 '{"env":{"API_KEY":"x"}}')")" | jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"
	equal "two on one port" "conflict /services/1" "$(services PUT "" "$(list "$(web x 8001)" "$(web y 8001)")" | jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"
	equal "health of no port" invalid_request "$(services PUT "" '{"services":[{"name":"x","argv":["true"],"health":{}}]}' | code)"
	equal "a path that is none" invalid_request "$(services PUT "" "$(list "$(web x 8001 '{"health":{"path":"/a b"}}')")" | code)"
	equal "who may use may not set" forbidden "$(asked "$token" PUT "$base/services" "$(list)" | code)"
	equal "nor is one of a pod of others" unsupported "$(asked "$(new_token other/pod/main staff lifecycle)" PUT "/v1/agents/other%2fpod%2fmain/services" "$(list)" | code)"
	equal "a list is a version" "1 web" "$(services PUT "" "$(list "$(web web 8001)" "$(web second 8002)")" -H 'If-Match: "0"' | jq -r '"\(.version) \(.services[0].name)"')"
	equal "an older one is not changed by mistake" list_changed "$(services PUT "" "$(list)" -H 'If-Match: "0"' | code)"
	equal "a request waits for it and is answered" "web /hello" "$(routed 8001 /hello | sed 's/ [0-9]* / /')"
	becomes web healthy "it is healthy"
	becomes second healthy "and so is the second"
	told "the audit log has it" "1 services.1" services.set 'map(select(.outcome == "ok")) | "\(length) \(.[0].principal)"'
}

# Its program is nobody's own: a round of the record, whose output is its log.
services_recorded() {
	local round
	round=$(of web .program)
	equal "nobody writes to it" bad_state "$(asked "$(new_token "$agent" staff rounds,drive,observe)" POST "/v1/rounds/$round/signal" '{"signal":"KILL"}' | code)"
	equal "its round names it" web "$(asked "$(new_token "$agent" staff observe)" GET "/v1/rounds/$round" "" | jq -r .service)"
	muxctl services log "$agent" web | grep -q '^web serves' && ok "its log can be read" || fail "no log: $(muxctl services log "$agent" web)"
	equal "the sandbox's log has it too" "web serves" "$(muxctl sandbox logs "$agent" | grep -A99 '==> service web (healthy)' | grep -m1 -o '^web serves')"
	muxctl services list "$agent" | grep -q '^web .*healthy' || fail "muxctl lists nothing"
}

# It dies and comes back; who dies in a loop is held, by name, until somebody says otherwise.
services_die() {
	local before
	before=$(of web .program)
	inside sh -c 'kill -9 $(grep -lz "^8001$" /proc/[0-9]*/cmdline | sed "s,/proc/\([0-9]*\)/.*,\1,")' || fail "not killed"
	equal "a request after its death is answered by the next one" "web /again" "$(wait_for 20 is_another web "$before"; routed 8001 /again | sed 's/ [0-9]* / /')"
	told "which is told of" "it was killed by signal KILL" service.failed 'map(select(.detail.service == "web"))[0].detail.message | split(";")[0]'
	services PUT "" "$(list "$(web web 8001)" "$(web second 8002)" "$(dies loop)")" >/dev/null
	becomes loop held "one that dies in a loop is held"
	equal "and says why" "it died 3 times in a row, the last time: it exited with code 7; it said: no such table: users" "$(of loop .why)"
	equal "who asks for its port hears that" "503 service_down" "$(routed 8003 / -o "$tmp/e" -w '%{http_code}') $(code <"$tmp/e")"
	told "it is told of" 1 service.held length
	equal "begun anew by a word" "held 3" "$(muxctl services restart "$agent" loop --reason "tried again" >/dev/null; wait_for 20 is loop held; of loop '| "\(.state) \(.failures)"')"
	services PUT "" "$(list "$(web web 8001)" "$(web second 8002)")" >/dev/null
	equal "the others went on" "0 healthy" "$(of second '| "\(.restarts) \(.state)"')"
}
is_another() { [ "$(of "$1" .program)" != "$2" ] && is "$1" healthy; }

# Sleep ends them by TERM, the last first, ahead of the snapshot; a request wakes the sandbox and is answered by what it woke:
# servers of Node.
services_sleep() {
	local i got
	muxctl put "$agent" "$here/tests/lib/service.mjs" service.mjs >/dev/null || fail "no file for Node"
	replaced "$(node web 8001)" "$(node second 8002)"
	for i in $(seq "$CYCLES"); do
		wait_for 20 is second healthy || fail "the second does not come up: $(services GET /second)"
		sleeps
		equal "cycle $i: a request wakes it and is answered" "web /$i node" "$(routed 8001 "/$i" | sed 's/ [0-9]* / /')"
	done
	got=$(inside sh -c 'tail -2 web.cycles; tail -2 second.cycles' | awk '{print $1, NR, $2}')
	equal "each was ended by TERM before the snapshot, the last first" "true true true" "$(awk '$1 == "ended" {t[NR] = $3} $1 == "begun" {b[NR] = $3} END {print (1 in t && 3 in t ? "true" : "false"), (t[3] < t[1] ? "true" : "false"), (b[2] > t[1] ? "true" : "false")}' <<<"$got")"
	equal "as often as it slept" "$CYCLES" "$(inside sh -c 'grep -c ended second.cycles')"
	sleeps
	equal "asleep, nothing runs" "absent absent" "$(of web .state) $(of second .state)"
	equal "nor is one begun anew" bad_state "$(services POST /web/restart '{}' | code)"
	muxctl sandbox resume "$agent" >/dev/null || fail "it does not wake"
	becomes second healthy "a resume begins them, too"
	becomes web healthy "both of them"
	replaced "$(web web 8001)" "$(web second 8002)"
}
# replaced WEB SECOND: other programs under the same names.
replaced() {
	local web second
	web=$(of web .program) second=$(of second .program)
	services PUT "" "$(list "$@")" >/dev/null
	wait_for 20 is_another web "$web" && wait_for 20 is_another second "$second" || fail "not replaced: $(services GET)"
}

# A daemon that is killed finds them as they are, and begins none twice.
services_daemon_dies() {
	local before sick
	services PUT "" "$(list "$(web web 8001)" "$(web second 8002)" "$(web sick 8004 '{"health":{"path":"/up","interval_ms":1000},"start_timeout_ms":2000}')" '{"name":"once","argv":["python3","/workspace/service.py","once"],"restart":{"policy":"never"}}')" >/dev/null
	becomes once "done" "one that runs once is done"
	becomes sick healthy "one is healthy"
	inside touch sick.sick
	becomes sick unhealthy "and is not after three looks"
	before=$(of web .program)
	sick=$(of sick .program)
	kill -9 "$(jq .pids.net "$MUXD_STATE/ready.json")"
	wait_for 20 curl -sSf --unix-socket "$MUXD_STATE/api.sock" http://localhost/readyz || fail "no daemon"
	becomes web healthy "found again"
	becomes second healthy "and the second"
	equal "it is the same program" "$before" "$(of web .program)"
	equal "once" "1 1" "$(running 8001) $(running 8002)"
	muxctl services log "$agent" web | grep -q '^web serves' && ok "its log is what it was" || fail "no log: $(muxctl services log "$agent" web)"
	equal "what is done is not begun again" "done 1" "$(of once .state) $(inside sh -c 'grep -c ran once.log')"
	becomes sick unhealthy "one that was ill for longer than its start_timeout_ms runs on"
	inside rm sick.sick
	becomes sick healthy "until it is well"
	equal "the same one" "$sick" "$(of sick .program)"
	muxctl services restart "$agent" once --reason "again" >/dev/null
	wait_for 20 ran_twice && ok "begun again by a word" || fail "not begun again: $(services GET /once)"
	equal "and it serves" "web /after" "$(routed 8001 /after | sed 's/ [0-9]* / /')"
}

ran_twice() { [ "$(of once .state) $(inside sh -c 'grep -c ran once.log')" = "done 2" ]; }

# The children that a service leaves behind end with it, in sessions of their own, too: they would hold the port, and answer for the next one.
services_leave_nothing() {
	local first
	services PUT "" "$(list "$(jq -nc '{name: "left", argv: ["python3", "/workspace/service.py", "leaves", "8005", "left"], port: 8005}')")" >/dev/null
	becomes left healthy "one whose child serves"
	first=$(routed 8005 / | cut -d' ' -f2)
	muxctl services restart "$agent" left --reason "a story" >/dev/null
	wait_for 20 is_another_pid "$first" && ok "the next one serves, and what the one before left does not" || fail "$(services log left) $(routed 8005 /)"
}
is_another_pid() { [ "$(routed 8005 / | cut -d' ' -f2)" != "$1" ] && is left healthy; }

# A stop that is taken back while it ends them begins them again: one that heeds no TERM holds it up.
services_stay() {
	local first
	services PUT "" "$(list '{"name":"deaf","argv":["python3","/workspace/service.py","deaf"],"stop_timeout_ms":60000}' "$(web web 8001)" "$(web second 8002)")" >/dev/null
	becomes deaf healthy "one without a port is healthy as it runs"
	becomes web healthy "beside the others"
	wait_for 20 is_deaf || fail "it does not say that it heeds nothing"
	first=$(of web .program)
	muxctl sandbox stop "$agent" --reason "a story" >"$tmp/stop" 2>&1 &
	wait_for 20 is deaf ending || fail "it is not ended: $(services GET)"
	equal "the last first" "absent absent ending" "$(of second .state) $(of web .state) $(of deaf .state)"
	muxctl sandbox resume "$agent" --timeout 20s >/dev/null || fail "the stop is not taken back"
	wait $!
	wait_for 20 is_another web "$first" && ok "taken back, it begins them again" || fail "not begun again: $(services GET)"
	grep -q taken "$tmp/stop" && ok "who asked for the stop hears that" || fail "$(cat "$tmp/stop")"
}

is_deaf() { muxctl services log "$agent" deaf | grep -q 'heeds nothing'; }

# What is not in the list any more ends; who heeds no TERM is killed when its time is over.
services_gone() {
	services PUT "" "$(list '{"name":"deaf","argv":["python3","/workspace/service.py","deaf"],"stop_timeout_ms":200}')" >/dev/null
	becomes deaf healthy "another definition is another service"
	wait_for 20 is_deaf || fail "it does not say that it heeds nothing"
	wait_for 20 none_runs || fail "what is not in the list goes on"
	equal "its port answers no more" "502 port_unreachable" "$(routed 8001 / -o "$tmp/e" -w '%{http_code}') $(code <"$tmp/e")"
	services PUT "" "$(list)" >/dev/null
	wait_for 20 deaf_is_gone && ok "who heeds no TERM is killed" || fail "it goes on"
}

# Words of a service are for those who may read services, and for nobody after the wipe: not for the next agent of that name
# either, whose list may say the same.
services_wiped() {
	local says='{"name":"says","argv":["sh","-c","cat word 2>/dev/null || echo nothing; exec sleep 300"],"cwd":"/workspace"}' quiet
	inside sh -c 'echo WORDS-BEFORE >/workspace/word'
	services PUT "" "$(list "$says")" >/dev/null
	wait_for 20 said says WORDS-BEFORE && ok "what a service says" || fail "its log: $(services GET /says/log)"
	equal "is in the logs of its sandbox" 1 "$(muxctl sandbox logs "$agent" | grep -c WORDS-BEFORE)"
	quiet=$(GRANT_TASK=quiet new_token "$agent" staff observe)
	# Locally the sandbox has said nothing of its own; a pod has muxlet's first words.
	quiet=$(asked "$quiet" GET "$base/logs" "")
	grep -q -e "nothing is kept of what the sandbox of $agent said at its start" -e '"data"' <<<"$quiet" || fail "no answer to who may read no services: $quiet"
	equal "but not for those who may read no services" 0 "$(grep -c WORDS-BEFORE <<<"$quiet")"
	told "who had read them is told of" "says root" services.log 'map(select(.detail.service == "says" and .outcome == "ok" and .principal == "root")) | "\(.[0].detail.service) \(.[0].principal)"'
	muxctl sandbox terminate "$agent" --how wipe --reason "a story" >/dev/null || fail "it is not wiped"
	wait_for 20 is_wiped || fail "it is there: $(muxctl sandbox list)"
	equal "a wipe takes them along" 0 "$(muxctl sandbox logs "$agent" 2>/dev/null | grep -c WORDS-BEFORE)"
	services PUT "" "$(list "$says")" >/dev/null
	equal "the next one of that name has the same list" 1 "$(services GET | jq .version)"
	inside true
	wait_for 20 said says nothing && ok "and begins it" || fail "its log: $(services GET /says/log)"
	equal "without what was said before" 0 "$(services GET /says/log | grep -c WORDS-BEFORE)"
	services PUT "" "$(list)" >/dev/null
}
said() { services GET "/$1/log" | jq -r .data | grep -q "^$2"; }
is_wiped() { [ "$(asked "$manager" GET "$base" "" | code)" = not_found ]; }
services_verified() { muxctl verify --all >"$tmp/verify" 2>&1 || fail "the record does not verify: $(tail -3 "$tmp/verify")"; }
none_runs() { [ "$(running 8001) $(running 8002)" = "0 0" ]; }
deaf_is_gone() { inside sh -c '! grep -lz "^deaf$" /proc/[0-9]*/cmdline'; }

# A profile says who may: what it does not name is denied, and the audit log has the rule.
services_policy_file() {
	printf 'policy: {file: %s}\n' "$tmp/policy.yaml" >"$tmp/muxd.yaml"
	printf 'policy: 1\notherwise: as_granted\nprofiles:\n- name: looks\n  match: {task: looks}\n  allow:\n  - service.read\n- name: quiet\n  match: {task: quiet}\n  allow:\n  - sandbox.read\n' >"$tmp/policy.yaml"
}
services_judged() {
	local looks
	looks=$(GRANT_TASK=looks new_token "$agent" agent rounds,lifecycle)
	equal "a profile that names service.read" "$(of web .state)" "$(asked "$looks" GET "$base/services/web" "" | jq -r .service.state)"
	equal "denies to set" "policy_denied" "$(asked "$looks" PUT "$base/services" "$(list)" | code)"
	equal "and to begin anew" "policy_denied" "$(asked "$looks" POST "$base/services/web/restart" '{}' | code)"
}
