#!/bin/bash
# What agents have in sandboxes that muxlet does not run in: rounds, shells, code contexts, python_exec, terminals,
# artifacts of output and exports by git work over plain exec; what they do not is refused by name, each operation of the
# API, with what to do instead. Pods are muxd's own, pinned to plain.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes '  backend: plain'
printf 'rounds: {pty: true}\nrouter: {runtime: true}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; end_boxes' EXIT
PRINCIPAL=agent.7
agent=plain
token=$(new_token $agent agent rounds,files,terminal,ports,lifecycle,drive 30m)
c() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $token" "$@"; }
at=http://localhost/v1/agents/$agent
call() { c -X "$1" -H 'Content-Type: application/json' ${3:+--data-binary "$3"} "http://localhost${2}"; }
round() { call POST /v1/agents/$agent/rounds "$1"; }
code() { jq -r '.error.code // "ok"'; }

round '{"command":"echo out; echo err >&2; exit 3","wait_ms":60000}' >"$tmp/out"
equal "a round" "3 out err" "$(jq -r '"\(.exit.code) \(.stdout.data)\(.stderr.data)"' "$tmp/out" | xargs)"
equal "as what it is shown, and why" "plain kubernetes.backend is plain" "$(call GET /v1/agents/$agent | jq -r '"\(.backend) \(.backend_reason)"')"

# ---- refused by name: operation by operation of the API

# refused WHAT FILE: the answer is the named refusal: code, agent, reason and what to do instead
refused() {
	jq -e --arg a "$agent" '(.error | .code == "unsupported" and .hint != "" and (.message | contains($a) and contains("kubernetes.backend is plain")
		and test("use (rounds|a round)|kubernetes\\.")))' "$2" >/dev/null && ok "refused: $1" || fail "$1: $(head -c 600 "$2")"
}
printf x >"$tmp/x"
tar -C "$tmp" -cf "$tmp/x.tar" x
while read -r op body; do
	equal "fs/$op" 501 "$(c -o "$tmp/out" -w '%{http_code}' -d "$body" "$at/fs/$op")"
	refused "fs/$op" "$tmp/out"
done <<'T'
stat {"path":"x"}
list {"path":"."}
read {"path":"x"}
write {"path":"x","data":"y"}
append {"path":"x","data":"y"}
mkdir {"path":"d"}
move {"path":"x","to":"y"}
copy {"path":"x","to":"y"}
delete {"path":"x"}
chmod {"path":"x","mode":"0600"}
patch {"path":".","data":"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n"}
search {"path":".","pattern":"x"}
glob {"path":".","pattern":"*"}
T
while read -r what method path more; do
	# shellcheck disable=SC2086 # words
	equal "$what" 501 "$(c -o "$tmp/out" -w '%{http_code}' -X "$method" $more "http://localhost$path")"
	refused "$what" "$tmp/out"
done <<T
a-file-out GET /v1/agents/$agent/files?path=x
a-file-in PUT /v1/agents/$agent/files?path=x -T $tmp/x
a-tree-out GET /v1/agents/$agent/fs/tree?path=.
a-tree-in PUT /v1/agents/$agent/fs/tree?path=d -T $tmp/x.tar
a-watch GET /v1/agents/$agent/fs/watch?path=.
an-artifact-of-a-path POST /v1/tasks/story/artifacts -d {"name":"a","agent":"$agent","path":"x"}
an-end-of-all-inside POST /v1/agents/$agent/kill -d {"reason":"story"}
T
curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H "X-Sandbox-ID: $agent" -H 'X-Sandbox-Port: 8000' -o "$tmp/out" "https://$(ready https)/"
refused "a request to a port" "$tmp/out"
theirs() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -u "sdk:$token" -H "X-Sandbox-ID: $agent" -H 'X-Sandbox-Port: 8888' "${@:2}" "https://$(ready https)$1"
}
equal "the runtime's execute" "out 3" "$(theirs /execute -H 'Content-Type: application/json' -d '{"command":"echo out; exit 3"}' | jq -r '"\(.stdout | rtrimstr("\n")) \(.exit_code)"')"
for path in download/x list/. exists/x; do
	equal "the runtime's $path" unsupported "$(theirs "/$path" | jq -r '(.detail // .error.code) | split(":")[0]')"
done
equal "and upload" unsupported "$(theirs /upload -F file=@"$tmp/x" | jq -r '(.detail // .error.code) | split(":")[0]')"
muxctl fs cat $agent x >/dev/null 2>"$tmp/err"
equal "muxctl has the code" "69 [unsupported]" "$? $(grep -o '\[unsupported\]' "$tmp/err")"

# ---- what works: a shell, and its end

in_shell() { round "$(jq -nc --arg c "$1" '{command:$c,shell:"build",wait_ms:60000}')"; }
in_shell 'cd /tmp; N=1; f() { echo "f $N"; return 3; }' >/dev/null
equal "a shell goes on" "3 /tmp f 1" "$(in_shell 'pwd; f' | jq -r '"\(.exit.code) \(.stdout.data)"' | xargs)"
equal "and ends" build "$(call DELETE /v1/agents/$agent/shells/build | jq -r .name)"

# ---- contexts

contexts() { call "$1" /v1/agents/$agent/contexts"${2:-}" "${3:-}"; }
body() { jq -nc --arg c "$1" --argjson more "${2:-{\}}" '{code: $c, yield_ms: 30000} + $more'; }
run() { contexts POST "/$1/executions" "$(body "$2" "${3:-{\}}")"; }
started() { contexts POST "/$1/executions" "$(body "$2" '{"yield_ms":0}')" | jq -r .execution_id; }
execution() { call GET "/v1/executions/$1?yield_ms=30000"; }
said() { jq -r '"\(.cause // .error.code) \(.stdout.data)\(.stderr.data)\([.results[] | select(.main).data["text/plain"]] | join(" "))"' | paste -sd' ' | sed 's, *$,,'; }
prints() { [ "$(call GET "/v1/executions/$1" | jq -r .stdout.data)" = "$2" ]; }
for language in python javascript bash; do
	id=$(contexts POST "" "{\"language\":\"$language\"}" | jq -r '.context_id // .error')
	case $language in
	python) set='x = 41' get='x + 1' want='done 42' loop=$'import time\nprint("in", flush=True)\ntime.sleep(60)' ;;
	javascript) set='let x = 41' get='x + 1' want='done 42' loop='console.log("in"); for (;;);' ;;
	bash) set='x=41' get='echo $((x + 1))' want='done 42' loop='echo in; sleep 60' ;;
	esac
	run "$id" "$set" >/dev/null
	equal "$language: variables go on" "$want" "$(run "$id" "$get" | said)"
	e=$(started "$id" "$loop")
	wait_for 10 prints "$e" in || fail "$language: $(execution "$e")"
	equal "$language: one at a time" context_busy "$(run "$id" "$get" | code)"
	contexts POST "/$id/interrupt" >"$tmp/interrupt"
	equal "$language: interrupted" "interrupted in" "$(execution "$e" | jq -r '"\(.cause) \(.stdout.data)"' | xargs)"
	equal "$language: out of time" timeout "$(run "$id" "$loop" '{"timeout_ms":1500}' | jq -r .cause)"
	equal "$language: its variables are there" "$want" "$(run "$id" "$get" | said)"
	contexts POST "/$id/reset" >/dev/null
	equal "$language: reset" 2 "$(contexts GET "/$id" | jq .generation)"
	contexts DELETE "/$id" >"$tmp/out"
	equal "$language: deleted" ended "$(jq -r .state "$tmp/out")"
done
equal "nothing of them is left" 0 "$(round '{"command":"ls -A /tmp | grep -c muxd-","wait_ms":30000}' | jq -rj .stdout.data)"
python() { call POST /v1/agents/$agent/python "$(body "$@")"; }
equal "python_exec" "done hi 3" "$(python 'print("hi"); 3' | said)"
equal "out of time, with what it had said" "timeout in" "$(python $'print("in", flush=True)\nimport time; time.sleep(60)' '{"timeout_ms":1500}' | said)"

# ---- a terminal, by keys and its screen

id=$(round '{"argv":["vim","-u","NONE","-i","NONE","notes.txt"],"pty":{"cols":60,"rows":12},"yield_ms":0}' | jq -r .round_id)
screen() { call GET "/v1/rounds/$id/screen"; }
shows() {
	seen() { screen >"$tmp/screen" && grep -qE -e "$1" "$tmp/screen"; }
	wait_for 10 seen "$1" || fail "\"$1\" does not come: $(cat "$tmp/screen")"
}
keys() { call POST "/v1/rounds/$id/keys" "$(jq -nc '{keys: $ARGS.positional}' --args -- "$@")" >/dev/null; }
shows 'notes.txt'
keys i 'text:first line' Escape
shows '^first line$'
equal "another size" 30 "$(call POST "/v1/rounds/$id/resize" '{"cols":30,"rows":8}' | jq -r .cols)"
keys 'text::wq' Enter
equal "an editor by keys" "exit 0 first line" "$(call GET "/v1/rounds/$id?yield_ms=30000" | jq -r '"\(.exit.cause) \(.exit.code)"') $(round '{"argv":["cat","notes.txt"],"wait_ms":30000}' | jq -rj .stdout.data)"

# ---- artifacts: of a round's output and of git; of a path not, by name

round '{"command":"echo made; echo x >p","wait_ms":30000,"artifacts":[{"name":"said","stream":"stdout"},{"name":"path","path":"p"}]}' >"$tmp/out"
id=$(jq -r .round_id "$tmp/out")
taken() { call GET "/v1/rounds/$id" | jq -e '[.artifacts[].state] == ["kept","failed"]'; }
wait_for 20 taken || fail "$(call GET "/v1/rounds/$id" | jq -c .artifacts)"
equal "a round's output is kept, a path of it refused" "made unsupported" "$(c http://localhost/v1/tasks/story/artifacts/said) $(call GET "/v1/rounds/$id" | jq -r '.artifacts[1].error.code')"
round '{"command":"mkdir r && cd r && git init -q . && git config user.email a@b && git config user.name a && echo one >f && git add . && git commit -qm one && echo two >>f","wait_ms":30000}' >"$tmp/out"
equal "a repository" 0 "$(jq .exit.code "$tmp/out")"
c -d "{\"name\":\"git.patch\",\"agent\":\"$agent\",\"changes\":{\"git\":\"HEAD\",\"path\":\"r\"}}" http://localhost/v1/tasks/story/artifacts >"$tmp/out"
equal "its changes as an artifact" ok "$(code <"$tmp/out")"
c http://localhost/v1/tasks/story/artifacts/git.patch | grep -q '^+two' && ok "with what changed" || fail "$(cat "$tmp/out")"
snap=$(muxctl sandbox snapshot $agent -o json | jq -r '.snapshot.id // .id')
c -d "{\"name\":\"snap.patch\",\"agent\":\"$agent\",\"changes\":{\"snapshot\":\"$snap\"}}" http://localhost/v1/tasks/story/artifacts >"$tmp/out"
refused "changes since a snapshot" "$tmp/out"

# ---- locks, which are rows
equal "a lock" "$agent" "$(c -d '{"path":"src","ttl_ms":60000}' "$at/locks" | jq -r "if .path == \"src\" then \"$agent\" else . end")"

# ---- over a kill of the daemon nothing goes on, and that is told

py=$(contexts POST "" '{"language":"python"}' | jq -r .context_id)
run "$py" 'x = 41' >/dev/null
e=$(started "$py" $'import time\nprint("in", flush=True)\ntime.sleep(600)')
wait_for 10 prints "$e" in || fail "$(execution "$e")"
net=$(ready pids.net)
kill -9 "$net"
back() { [ "$(ready pids.net)" != "$net" ] && [ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$MUXD_STATE/api.sock" http://localhost/readyz)" = 200 ]; }
wait_for 20 back || fail "the daemon does not come back"
equal "an execution ended as nobody knows how" unknown "$(execution "$e" | jq -r .cause)"
equal "and its context with it" "context_ended" "$(run "$py" x | code)"
equal "a reset begins anew" "done 2" "$(contexts POST "/$py/reset" '{}' >/dev/null; run "$py" '1 + 1' | said)"
gone() { [ "$(kubectl exec muxd-$agent -- pgrep -fc muxd-context </dev/null)" = 1 ]; }
wait_for 30 gone && ok "and of the one before nothing runs" || fail "$(kubectl exec muxd-$agent -- ps -ef </dev/null)"
