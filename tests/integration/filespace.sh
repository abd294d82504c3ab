#!/bin/bash
# shellcheck disable=SC2016
# Files of an agent in step with the owner's store: create, changes on both sides, a conflict, deletions, names that are no
# good, sleep and wake, and who begins behind whom then.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/filespace_story.sh
. "$(dirname "$0")/../lib/filespace_story.sh"

before() {
	store_put demo hello.txt "from the store"
	store_put demo dir/deep.txt deep
}
not_in_store() { store demo files | jq -e ".files[] | select(.path == \"$1\") | .deleted" >/dev/null; }
STORE_TIMEOUT=20s
filespace_begin before

# The first round finds what the store has; what the next one makes is there a moment later, made.txt last: a sync behind the
# first round may come in the middle. Names that begin as muxlet's do are no part of it.
equal "a new sandbox has the store's files before anything runs in it" "from the storedeep" "$(run demo 'cat hello.txt dir/deep.txt')"
run demo 'mkdir cache .muxd-copy-1-2; touch .muxd-copy-1-2/half .muxd-put-1 .muxd-tree-1; echo no >cache/x; echo no >a.tmp; ln -s /etc/passwd link; mkfifo pipe; echo made >b.tmp; chmod +x b.tmp; mv b.tmp made.txt' >/dev/null
wait_for 5 in_store made.txt made && ok "what a round wrote is in the store" || fail "made.txt is not in the store"
equal "an executable file is one there" true "$(store demo files | jq '.files[] | select(.path == "made.txt") | .executable')"
equal "what is ignored, a link and a pipe are not there" 0 "$(store demo files | jq '[.files[] | select(.path | test("tmp|cache|link|pipe|muxd"))] | length')"
equal "the audit log says who caused it" "round tester story" "$(synced demo '.detail.causes[0] | "\(.kind) \(.principal) \(.task)"')"
equal "and what was copied" "copied_up made.txt" "$(synced demo '.detail.changes[0] | "\(.how) \(.path)"')"
equal "and what was left out" "link pipe" "$(synced demo '[.detail.left[].path] | sort | join(" ")')"

# Both sides change; each change travels, a deletion too, and of a conflict the later writer wins.
store_put demo hello.txt "changed there"
store_put demo both.txt "theirs, first"
run demo 'echo "ours, later" >both.txt; rm dir/deep.txt' >/dev/null
wait_for 5 in_store both.txt "ours, later" && ok "of two writers the later one wins" || fail "the conflict is lost"
wait_for 5 not_in_store dir/deep.txt && ok "a deletion travels up" || fail "dir/deep.txt is still there"
store_put demo made.txt "theirs, later"
store_delete demo both.txt
equal "a pull by call takes what changed there" "pull 2 1" "$(sync_files demo pull | jq -r '"\(.direction) \(.copied) \(.deleted)"')"
equal "and the workspace has it" "changed theretheirs, later0" "$(run demo 'cat hello.txt made.txt; ls both.txt 2>/dev/null | wc -l' | tr -d '\n')"
run demo 'echo mine >made.txt' >/dev/null
wait_for 5 in_store made.txt mine || fail "made.txt is not pushed"

# Names that a file system or a person would stumble over.
store_put demo 'a"b c' quoted
store demo put "{\"files\":[{\"path\":{\"base64\":\"$(printf 'not-\xff' | base64)\"},\"sha256\":\"$(printf x | sha256sum | cut -c1-64)\",\"content\":\"eA==\",\"if\":null}]}" >/dev/null
store_put demo "new
line" lines
store_put demo made.txt/below clash
equal "every name that can be is taken, a clash is told" "3 1" "$(sync_files demo pull | jq -r '"\(.copied) \([.left[] | select(.path == "made.txt/below")] | length)"')"
equal "bytes that are no text are the same bytes" "quoted x lines" "$(run demo 'echo $(cat "a\"b c") $(cat not-*) $(cat new*)')"
store_delete demo made.txt/below

# Sleep and wake: pushed ahead of the snapshot, pulled ahead of everything that begins.
api "$TOKEN" POST /v1/agents/demo/rounds '{"command":"(sleep 0.2; echo late >late.txt) & sleep 0.1","wait_ms":5000}' >/dev/null
sleep 1
muxctl sandbox stop demo --reason "it sleeps" >/dev/null || fail "it does not stop"
in_store late.txt late && ok "a stop pushes what a job in the background wrote" || fail "late.txt is not in the store"
equal "ahead of its snapshot" "filespace.sync snapshot.create" "$(muxctl audit -n 1000 -o json | jq -r '.record | select(.agent == "demo") | .event' | grep -E 'filespace.sync|snapshot.create' | tail -2 | xargs)"
store_put demo while.txt "it slept"
equal "awake again it has what came meanwhile" "it sleptlate" "$(run demo 'cat while.txt late.txt')"

# Neither what a workspace is made in, nor the one that begins with that, has a part in the store.
printf seed >"$tmp/seed" && tar -C "$tmp" -cf "$tmp/seed.tar" seed && muxctl artifact put story "$tmp/seed.tar" >/dev/null || fail "no artifact"
muxctl sandbox resume begun --workspace artifact:story/seed.tar >/dev/null || fail "nothing begins with it"
equal "one that begins with an archive has that alone" seed "$(TOKEN=$(new_token begun service rounds,lifecycle,files) run begun 'ls -I lost+found')"
muxctl sandbox terminate begun --how wipe --reason "it has been seen" >/dev/null || fail "it is not wiped"
equal "and the store has nothing of it" demo "$(sqlite3 "file:$tmp/store/files.db?mode=ro" "SELECT DISTINCT space FROM file" | xargs)"

# Snapshot, pull, services, MCP servers: the service is a file that the pull alone brings, and the server is that service.
# While the store keeps the pull waiting, somebody else's service begins, and nothing of this one does.
program=$(cat "$here/tests/lib/mcp_http_server.py")
order() { muxctl audit --since 0 -n 1000 --agent "$1" -o json | jq -rs 'map(.record | select(.event == "filespace.sync" and .detail.direction == "pull" or .event == "round.start" and ((.detail.argv | tojson) | test("served|--mcp")))) | map(if .event == "filespace.sync" then "pull" elif .detail.service then "service" else "server" end) | join(" ")'; }
setting() { api "$TOKEN" PUT "/v1/agents/$1/services" '{"services":[{"name":"served","argv":["python3","/workspace/served.py","8100"],"port":8100,"restart":{"attempts":1}}]}' | jq -r .version; }
serving() { api "$TOKEN" PUT "/v1/agents/$1/mcp/servers" '{"servers":[{"name":"web","url":"http://127.0.0.1:8100/good"}]}' | jq -r .version; }
asking() { api "$TOKEN" POST "/v1/agents/$1/mcp/request" '{"server":"web","method":"tools/call","params":{"name":"file","arguments":{"path":"/workspace/served.txt"}},"task_id":"story"}' | jq -r '.result.content[0].text // .error.message'; }
TOKEN=$(new_token 'demo*' service rounds,files,lifecycle)
for agent in demo-new demo; do
	store_put "$agent" served.py "$program"
	store_put "$agent" served.txt "behind the pull"
done
muxctl sandbox stop demo --reason "it sleeps" >/dev/null || fail "it does not stop"
equal "lists of one that is not there yet, and of one that sleeps" "1 1 1 1" "$(setting demo-new) $(serving demo-new) $(setting demo) $(serving demo)"
equal "made: the server finds the service, and that its file" "behind the pull" "$(asking demo-new)"
equal "in this order" "pull service server" "$(order demo-new)"
store_kill
STORE_PROGRAM=tests/lib/lying_store.py
echo held >"$tmp/lie"
store_start
asking demo >"$tmp/asked" &
asking=$!
pulling() { muxctl filespace status demo -o json | jq -e '.state == "running"'; }
wait_for 20 pulling || fail "nothing is pulled: $(muxctl filespace status demo -o json)"
before=$(muxctl -o json services list demo-new | jq -r '.services[0].program')
muxctl services restart demo-new served --reason "a turn of services" >/dev/null
begun_anew() { muxctl -o json services list demo-new | jq -e --arg b "$before" '.services[0] | .program != $b and .state == "healthy"'; }
wait_for 20 begun_anew || fail "it is not begun anew"
equal "nothing begins ahead of the pull" absent "$(muxctl -o json services list demo | jq -r '.services[0].state')"
: >"$tmp/lie"
wait $asking
equal "woken: the same" "behind the pull" "$(cat "$tmp/asked")"
muxctl sandbox stop demo --reason "it sleeps" >/dev/null || fail "it does not stop"
muxctl sandbox resume demo >/dev/null || fail "it does not resume"
equal "resumed: the same" "behind the pull" "$(asking demo)"
equal "in this order" "pull service server pull service server" "$(order demo | grep -o 'pull service server pull service server$')"
api "$TOKEN" PUT /v1/agents/demo/services '{"services":[]}' >/dev/null
TOKEN=$(new_token demo agent rounds,files,lifecycle)

# A grant for some paths: a sync is about all of them, and its names are not for it.
some=$(muxctl grant create --agent demo --principal bob --kind agent --scopes files --read 'pub/**' --write 'pub/**' --task t --ttl 5m --reason r -o json | jq -r .token)
equal "a grant that is limited to paths starts no sync" path_not_allowed "$(api "$some" POST /v1/agents/demo/filespace/sync '{"direction":"pull"}' | jq -r .error.code)"
equal "and is told no names" "ok null" "$(api "$some" GET /v1/agents/demo/filespace | jq -r '"\(.pull.outcome) \(.pull.changes)"')"

# What a program leaves in the workspace keeps nobody out of it.
run demo 'truncate -s 20G disk.img; rm -rf .muxd; echo x >.muxd; p=.; for i in $(seq 300); do p=$p/d; done; mkdir -p $p' >/dev/null
muxctl sandbox stop demo --reason "it sleeps" >/dev/null || fail "it does not stop"
store_put demo after.txt "still in step"
equal "a file of holes, a marker that is none, and a path too deep let it begin in step" "still in step" "$(run demo 'cat after.txt')"
record_is_whole
