#!/bin/bash
# shellcheck disable=SC2016
# A file store that is gone, hangs, is full, lies about digests and times: the answer of a call is never another, the sandbox
# stops with its snapshot and its state says why, and nothing is lost on either side.
# tier: test, slice LIES=1, whole LIES=3
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/filespace_story.sh
. "$(dirname "$0")/../lib/filespace_story.sh"

LIES=${LIES:-1}
filespace_begin :

# Gone, hung, full, lying: the answer is never another, the sandbox stops with its snapshot and says why, nothing is lost.
run demo true >/dev/null # awake
store_kill
equal "a round is answered as ever while the store is gone" 'done' "$(run demo 'echo kept >kept.txt; echo done')"
wait_for 15 state_is error && ok "tried twice the sandbox is stopped, its state is error" || fail "the state is $(muxctl sandbox show demo -o json | jq -r .state)"
muxctl sandbox show demo -o json | jq -r .detail | grep -q 'filespace is not in step' && ok "its detail says why" || fail "its detail does not say why"
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

# Lies. What is refused is told, what is believed decides nothing alone; the workspace stays as it was.
store_kill
STORE_PROGRAM=tests/lib/lying_store.py
: >"$tmp/lie"
store_start
run demo 'cat kept.txt' >/dev/null
store_put demo lied.txt "the truth"
tried() { sync_files demo pull | jq -r '.error.code // "ok \(.copied) \(.left_out)"'; }
echo names >"$tmp/lie"
equal "names that lead out are left out, the others come" "ok 1 3" "$(tried)"
store_put demo lied.txt "another truth"
echo times >"$tmp/lie"
equal "times that lie decide nothing where one side has changed" "ok 1 0" "$(tried)"
equal "and nothing else is replaced" "another truthkept" "$(run demo 'cat lied.txt kept.txt')"
: >"$tmp/lie"
store_put demo lied.txt "the last truth"
for how in $(printf "digest\nendless\ngarbage\n" | head -n "$LIES"); do
	echo "$how" >"$tmp/lie"
	equal "an answer that lies ($how) is none" filespace_failed "$(tried)"
	wait_for 15 state_is error || fail "its state is not error"
	: >"$tmp/lie"
done
echo over >"$tmp/lie"
run demo 'echo passed >over.txt' >/dev/null
equal "what a store passes over is left for the next push" ok "$(sync_files demo push | jq -r '.error.code // "ok"')"
[ "$(wc -l <"$tmp/lie.puts")" -le 6 ] && ok "and it is not put again and again" || fail "$(wc -l <"$tmp/lie.puts") puts of one file"
: >"$tmp/lie"
equal "and with the truth nothing is lost" "the last truthkept" "$(run demo 'cat lied.txt kept.txt')"
record_is_whole
