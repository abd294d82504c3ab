#!/bin/bash
# shellcheck disable=SC2016
# Shells: directory, variables and functions go on from round to round, and each command is a round of its own. What is
# killed leaves its shell as it was; a restart of the daemon changes nothing; the sandbox's end is told, not passed over.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
PRINCIPAL=agent.7
agent=shells
token=$(new_token $agent agent rounds)
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
body() { jq -nc --arg c "$1" --argjson more "${2:-{\}}" '{command: $c, shell: "build", wait_ms: 20000} + $more'; }
in_shell() { round "$(body "$@")"; }
says() { jq -r '"\(.exit.cause) \(.exit.code) \(.shell.fresh) \(.stdout.data)\(.stderr.data)"' | paste -sd' ' | sed 's, *$,,'; }
code() { jq -r .error.code; }
shells() { api "$token" GET /v1/agents/$agent/shells; }

# ---- what goes on

equal "a new shell says so" "exit 0 true /workspace" "$(in_shell pwd | says)"
in_shell 'mkdir -p "a b/c"; cd "a b/c"; N=1; export E=$'"'"'two\nlines'"'"'; declare -A m=([k]="v w"); f() { local N=9; echo "f $1 $m_"; exit 3; }; alias ll="ls -l"; set -- x "y z"; umask 027; shopt -s nullglob' >/dev/null
equal "directory, variables, arrays, arguments, umask and options go on" "exit 0 false /workspace/a b/c 1 v w y z 0027 [] two lines" \
	"$(in_shell 'pwd; echo $N "${m[k]}" "$2" $(umask) "[$(echo *.none)]"; printenv E' | says)"
equal "a function does, its exit is the round's, and its locals end" "exit 3 false f x" "$(in_shell 'f x' | says)"
equal "and what stood behind them is there" "exit 0 false 1" "$(in_shell 'echo $N' | says)"
equal "cd - goes back" "exit 0 false /workspace /workspace/a b/c" "$(in_shell 'cd /workspace; cd - >/dev/null; cd - ; cd - >/dev/null; pwd' | says)"
equal "the call's own variables and directory stand before the shell's" "exit 0 false /tmp 7" "$(in_shell 'pwd; echo $N' '{"env":{"N":"7"},"cwd":"/tmp"}' | says)"
equal "and stay" "exit 0 false /tmp 7" "$(in_shell 'pwd; echo $N; cd "/workspace/a b/c"; N=1' | says)"
equal "set -e goes on, and ends a round that fails" "exit 1 false" "$(in_shell 'set -e; false; echo not reached' | says)"
equal "in the next one too" "exit 1 false 1" "$(in_shell 'echo $N; false; echo not reached' | says)"
in_shell 'set +e' >/dev/null
equal "a syntax error is one, and no end of the shell" "exit 2 1" "$(in_shell 'if' | jq -r '"\(.exit.cause) \(.exit.code)"') $(in_shell 'echo $N' | jq -rj .stdout.data)"
equal "what a command prints is all there is" '"" ""' "$(in_shell 'cd .' | jq -c '.stdout.data, .stderr.data' | paste -sd' ')"
equal "input is the command's" "exit 0 false one two" "$(in_shell 'read -r A; read -r B; echo $A $B' '{"stdin":"one\ntwo\n"}' | says)"
equal "what it leaves in the background lives on, as of any round" "exit 0 false 1" "$(in_shell 'sleep 301 & echo >/dev/null' >/dev/null; in_shell 'pkill sleep; echo $((1 - $?))' | says)"
equal "a command line through all of bash's quoting" $'exit 0 false \'"$`\\ é €' "$(in_shell $'printf "%s\\n" "\'\\"\\$\\`\\\\ é €"' | says)"

# ---- what does not end by itself leaves the shell as it was

equal "timed out" "timeout 1" "$(in_shell 'N=2; cd /; echo $N >/tmp/seen; sleep 60' '{"timeout_ms":700}' | jq -r .exit.cause) $(in_shell 'echo $N; pwd' | jq -rj .stdout.data | head -1)"
equal "killed by itself" "KILL 1" "$(in_shell 'N=3; kill -9 $$' | jq -r .exit.signal) $(in_shell 'echo $N' | jq -rj .stdout.data)"
equal "replaced" "ok 1" "$(in_shell 'N=4; exec echo ok' | jq -rj .stdout.data) $(in_shell 'echo $N' | jq -rj .stdout.data)"

# ---- one at a time, and once

id=$(round "$(body 'until [ -e /workspace/go ]; do sleep 0.05; done; N=5' '{"wait_ms":0,"exec_id":"s-1"}')" | jq -r .round_id)
r=$(in_shell 'echo $N')
equal "a second one is refused" shell_busy "$(code <<<"$r")"
[[ $(jq -r .error.message <<<"$r") == *"$id"* ]] && ok "and told which round is in it" || fail "$r"
equal "another shell is free meanwhile" "true /workspace" "$(round '{"command":"pwd","shell":"other","wait_ms":20000}' | jq -rj '.shell.fresh, " ", .stdout.data')"
equal "another principal's of that name is another" true "$(token=$(PRINCIPAL=someone new_token $agent agent rounds) in_shell pwd | jq -r .shell.fresh)"
equal "the list" "build:busy other:kept" "$(shells | jq -r '.shells[] | .name + ":" + .state' | paste -sd' ')"
equal "one that is busy is not ended" shell_busy "$(api "$token" DELETE /v1/agents/$agent/shells/build | code)"
kill -9 "$(ready pids.net)" "$(ready pids.monitor)"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" || fail "the daemon does not come again"
again=$(body 'until [ -e /workspace/go ]; do sleep 0.05; done; N=5' '{"wait_ms":0,"exec_id":"s-1"}')
equal "after a kill of the daemon the same start is the same round" "$id" "$(round "$again" | jq -r .round_id)"
equal "with another shell it is another call" conflict "$(round "$(jq -c '.shell = "other"' <<<"$again")" | code)"
equal "and the shell is busy still" shell_busy "$(in_shell true | code)"
round '{"command":"touch /workspace/go","wait_ms":20000}' >/dev/null
equal "it ends" "exit 0" "$(api "$token" GET "/v1/rounds/$id?wait_ms=20000" | jq -r '"\(.exit.cause) \(.exit.code)"')"
equal "and the next one has what it set" "exit 0 false 5" "$(in_shell 'echo $N' | says)"
equal "a shell that was idle when the daemon was killed is the same" false "$(round '{"command":"pwd","shell":"other","wait_ms":20000}' | jq -r .shell.fresh)"
told() { muxctl audit --event round.start -n 100 -o json | jq -r --arg s "$id" 'select(.record.detail.session == $s) | .record.detail.shell.name' | grep -qx build; }
wait_for 10 told && ok "the audit log has the shell's name" || fail "no shell in the audit log"

# ---- what cannot go on

in_shell 'mkdir /tmp/gone; cd /tmp/gone' >/dev/null
round '{"command":"rmdir /tmp/gone","wait_ms":20000}' >/dev/null
r=$(in_shell 'touch /workspace/wrong')
equal "a directory that is gone: nothing runs elsewhere" "125 muxd-shell: the shell cannot return to /tmp/gone, so name another directory (cwd): the command was not run" \
	"$(jq -rj '.exit.code, " ", .stderr.data' <<<"$r")"
equal "it is named, and the shell goes on" "exit 0 false 5" "$(in_shell 'echo $N; [ ! -e wrong ]' '{"cwd":"/workspace"}' | says)"
in_shell 'big=$(head -c 5000000 /dev/zero | tr "\0" x)' | jq -r .stderr.data | grep -q 'more than 4 MiB: the shell has ended' || fail "no word of what is too large"
equal "what could not be kept is not passed over" 125 "$(in_shell 'touch /workspace/wrong' | jq -r .exit.code)"
equal "anew" "exit 0 true /workspace" "$(in_shell 'pwd; echo $N' '{"shell":{"name":"build","fresh":true}}' | says)"
in_shell 'N=6; cd /tmp' >/dev/null

# ---- the sandbox's end

staff=$(PRINCIPAL=staff new_token $agent staff lifecycle)
api "$staff" POST /v1/agents/$agent/stop '{"reason":"story"}' >/dev/null
round '{"command":"[ ! -e wrong ] && touch right","wait_ms":20000}' | jq -e '.exit.code == 0' >/dev/null || fail "a command ran in a wrong directory"
equal "its shells have ended with it" "shell_ended" "$(in_shell 'touch /workspace/wrong' | code)"
equal "again as long as nobody begins it anew" "shell_ended" "$(in_shell pwd | code)"
equal "the list says so" "build:ended" "$(shells | jq -r '.shells[] | .name + ":" + .state' | head -1)"
equal "begun anew" "exit 0 true /workspace" "$(in_shell 'pwd; echo $N' '{"shell":{"name":"build","fresh":true}}' | says)"
equal "it goes on from there" "exit 0 false /workspace" "$(in_shell pwd | says)"
equal "one that has ended is forgotten" "other null" "$(api "$token" DELETE /v1/agents/$agent/shells/other | jq -r '"\(.name) \(.round_id)"')"

# ---- its end

r=$(api "$token" DELETE /v1/agents/$agent/shells/build)
equal "a shell is ended by a round" build "$(jq -r .name <<<"$r")"
equal "which is on the record" 0 "$(api "$token" GET "/v1/rounds/$(jq -r .round_id <<<"$r")" | jq -r .exit.code)"
equal "nothing of it is left" "0 0" "$(round '{"command":"ls -A /tmp | grep -c muxd-shell","wait_ms":20000}' | jq -rj .stdout.data) $(shells | jq '.shells | length')"
ended() { muxctl audit --event shell.end -n 10 -o json | jq -r '.record | "\(.outcome) \(.detail.shell)"' | grep -qx "ok build"; }
wait_for 10 ended && ok "the audit log has its end" || fail "no shell.end in the audit log"
equal "there is none to end" not_found "$(api "$token" DELETE /v1/agents/$agent/shells/build | code)"

# ---- bad input

bad() { equal "$1" "$2" "$(round "$3" | jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"; }
bad "no name" "invalid_request /shell" '{"command":"true","shell":""}'
bad "a path" "invalid_request /shell" '{"command":"true","shell":"../x"}'
bad "a long one" "invalid_request /shell" "{\"command\":\"true\",\"shell\":\"$(printf 'x%.0s' {1..65})\"}"
bad "a number" "invalid_request /shell" '{"command":"true","shell":1}'
bad "another field" "invalid_request /shell/x" '{"command":"true","shell":{"name":"a","x":1}}'
bad "without its name" "invalid_request /shell/name" '{"command":"true","shell":{"fresh":true}}'
bad "argv" "invalid_request /shell" '{"argv":["true"],"shell":"a"}'
bad "its own variable" "invalid_request env/MUXD_SHELL is the shell's own" '{"command":"true","shell":"a","env":{"MUXD_SHELL":"x"}}'
equal "a name in a path that is none" invalid_request "$(api "$token" DELETE /v1/agents/$agent/shells/-x | code)"
none=$(new_token $agent agent files)
equal "who may run nothing sees none" "forbidden forbidden" "$(api "$none" GET /v1/agents/$agent/shells | code) $(api "$none" DELETE /v1/agents/$agent/shells/a | code)"
