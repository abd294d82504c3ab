#!/bin/bash
# shellcheck disable=SC2016
# Files of an agent in step with the owner's store: create, changes on both sides, a conflict, deletions, names that are no
# good, sleep and wake; a store that is gone, hangs, is full or lies; kills in the middle; 5,000 small files, counted.
# tier: test, slice MANY=500 KILLS=1, whole MANY=5000 KILLS=10
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/filespace_story.sh
. "$(dirname "$0")/../lib/filespace_story.sh"

MANY=${MANY:-500}
KILLS=${KILLS:-1}
chmod 0711 "$tmp"
store_start
trap 'stop_daemon; store_kill; tidy' EXIT
cat >"$tmp/muxd.yaml" <<-E
	filespace: {url: "http://127.0.0.1:$STORE_PORT", timeout: 300ms, ignore: "*.tmp cache/"}
	lifecycle: {at_rest: drop}
E
store_put demo hello.txt "from the store"
store_put demo dir/deep.txt deep
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
TOKEN=$(new_token demo agent rounds,files,lifecycle)
in_store() { [ "$(store_has demo "$1")" = "$2" ]; }
not_in_store() { store demo files | jq -e ".files[] | select(.path == \"$1\") | .deleted" >/dev/null; }
state_is() { [ "$(muxctl sandbox show demo -o json | jq -r .state)" = "$1" ]; }

# The first round finds what the store has; what it makes is there a moment later.
equal "a new sandbox has the store's files before anything runs in it" "from the storedeep" "$(run demo 'cat hello.txt dir/deep.txt')"
run demo 'echo made >made.txt; chmod +x made.txt; mkdir cache; echo no >cache/x; echo no >a.tmp; ln -s /etc/passwd link; mkfifo pipe' >/dev/null
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

# Gone, hung, full, lying: the answer is never another, the sandbox stops with its snapshot and says why, nothing is lost.
store_kill
equal "a round is answered as ever while the store is gone" done "$(run demo 'echo kept >kept.txt; echo done')"
wait_for 15 state_is error && ok "tried twice the sandbox is stopped, its state is error" || fail "the state is $(muxctl sandbox show demo -o json | jq -r .state)"
muxctl sandbox show demo -o json | jq -r .detail | grep -q 'filespace was not pushed' && ok "its detail says why" || fail "its detail does not say why"
equal "and a start in that time is refused by name" filespace_failed "$(run demo true)"
wait_for 15 state_is error || fail "it is not stopped again"
store_start
equal "with the store it is back, with its files" kept "$(run demo 'cat kept.txt')"
wait_for 5 in_store kept.txt kept && ok "and they are in the store" || fail "kept.txt is not in the store"
kill -STOP "$STORE"
run demo 'echo hung >hung.txt' >/dev/null
wait_for 20 state_is error && ok "a store that hangs is one that fails" || fail "the state is $(muxctl sandbox show demo -o json | jq -r .state)"
kill -CONT "$STORE"
wait_for 10 store_put demo again.txt again
equal "nothing is lost by it" "hung again" "$(run demo 'cat hung.txt again.txt' | xargs)"
store_kill
store_start --space-max 100000
run demo 'head -c 300000 /dev/zero >big.bin' >/dev/null
wait_for 20 state_is error && ok "a store that is full is one that fails" || fail "the state is $(muxctl sandbox show demo -o json | jq -r .state)"
muxctl sandbox show demo -o json | jq -r .detail | grep -q 'space-max' && ok "with its own words" || fail "its words are lost: $(muxctl sandbox show demo -o json | jq -r .detail)"
store_kill
store_start
equal "with room it goes on" 300000 "$(run demo 'wc -c <big.bin' | xargs)"
wait_for 5 in_store hung.txt hung || fail "the push does not go on"

# Many small files, in few requests, and counted on both sides.
run demo "rm -f big.bin; mkdir -p many; i=0; while [ \$i -lt $MANY ]; do echo \$i >many/\$i; i=\$((i+1)); done" >/dev/null
count_is() { [ "$(store demo "files?limit=5000" | jq '[.files[] | select(.path | tostring | test("^many/")) | select(.deleted | not)] | length')" = "$1" ]; }
wait_for 20 count_is "$MANY" && ok "$MANY small files are in the store, no more and no less" || fail "the store has not $MANY files"
echo "  pushed: $(muxctl audit --event filespace.sync -n 1000 -o json | jq -c ".record.detail | select(.copied >= $MANY) | {copied, bytes, duration_ms}" | tail -1)"

# Kills in the middle of a push: of the daemon, of the store. Whenever, each file is as one side had it.
for k in $(seq "$KILLS"); do
	run demo "i=0; while [ \$i -lt $MANY ]; do echo $k-\$i >many/\$i; i=\$((i+1)); done" >/dev/null
	sync_files demo push >/dev/null 2>&1 &
	sleep "0.0$((k % 10))"
	if [ $((k % 2)) = 1 ]; then
		kill -9 "$DAEMON"
		wait "$DAEMON" 2>/dev/null
		start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not come again"
	else
		store_kill
		store_start
	fi
	sync_files demo push >/dev/null
	equal "kill $k: the store has all of it" 0 "$(store demo get "{\"paths\":[$(for i in $(seq 0 $((MANY - 1))); do printf '"many/%s",' "$i"; done | sed 's/,$//')]}" | jq -r '.files[] | .content' | while read -r c; do echo "$c" | base64 -d; done | grep -vc "^$k-")"
done
equal "the record is whole" 0 "$(muxctl verify --all >/dev/null 2>&1; echo $?)"
