#!/bin/bash
# shellcheck disable=SC2016
# A file store that is gone, hangs, is full, lies about digests and times: the answer of a call is never another, the sandbox
# stops with its snapshot and its state says why, and nothing is lost on either side. And what is over the caps of a workspace: no
# sync of it begins.
# tier: test, slice LIES=1, whole LIES=3
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/filespace_story.sh
. "$(dirname "$0")/../lib/filespace_story.sh"

LIES=${LIES:-1}
STORE_CONF='max_files: 100'
STORE_TIMEOUT=2s # 8 MB are put within it, on a machine that is busy too
small() { echo 'sandbox: {workspace_size: 16MiB}' >>"$tmp/muxd.yaml"; }
filespace_begin small

# Gone, hung, full, lying: the answer is never another, the sandbox stops with its snapshot and says why, nothing is lost.
run demo true >/dev/null # awake
store_kill
equal "a round is answered as ever while the store is gone" 'done' "$(run demo 'echo kept >kept.txt; echo done')"
wait_for 20 state_is error && ok "tried twice the sandbox is stopped, its state is error" || fail "the state is $(muxctl sandbox show demo -o json | jq -r .state)"
muxctl sandbox show demo -o json | jq -r .detail | grep -q 'filespace is not in step' && ok "its detail says why" || fail "its detail does not say why"
equal "and a start in that time is refused by name" filespace_failed "$(run demo true)"
wait_for 20 state_is error || fail "it is not stopped again"
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
	wait_for 20 state_is error || fail "its state is not error"
	: >"$tmp/lie"
done
echo over >"$tmp/lie"
run demo 'echo passed >over.txt' >/dev/null
equal "what a store passes over is left for the next push" ok "$(sync_files demo push | jq -r '.error.code // "ok"')"
[ "$(wc -l <"$tmp/lie.puts")" -le 6 ] && ok "and it is not put again and again" || fail "$(wc -l <"$tmp/lie.puts") puts of one file"
: >"$tmp/lie"
equal "and with the truth nothing is lost" "the last truthkept" "$(run demo 'cat lied.txt kept.txt')"

# A put that the store has made, and whose answer is lost: the next try finds nothing to do, so the record names the file at once. The
# same for a sync that the daemon's end cuts off.
rests() { [ "$(muxctl filespace status demo -o json | jq -r .state)" = idle ]; }
unconfirmed() { # PATH OUTCOME
	muxctl audit --event filespace.sync --agent demo -n 1000 -o json |
		jq -e ".record | select(.outcome == \"$2\" and .detail.unconfirmed >= 1) | .detail.changes[] | select(.path == \"$1\" and .how == \"copied_up\" and .unconfirmed)" >/dev/null
}
wait_for 10 rests || fail "it does not rest"
echo mute >"$tmp/lie"
run demo 'echo unheard >unheard.txt' >/dev/null
wait_for 10 unconfirmed unheard.txt filespace_failed && ok "a copy whose answer was lost is in the record" || fail "a copy whose answer was lost is told by nobody"
: >"$tmp/lie"
wait_for 10 rests && equal "its second try finds it done" unheard "$(store_has demo unheard.txt)" || fail "the second try does not end"
loaded() { muxctl audit --event config.loaded -n 100 -o json | wc -l; }
before=$(loaded)
loaded_again() { [ "$(loaded)" -gt "$before" ]; }
sed -i 's/timeout: 2s/timeout: 60s/' "$tmp/muxd.yaml" # the daemon ends first, on a machine that is busy too
kill -HUP "$DAEMON"
wait_for 10 loaded_again || fail "the configuration is not read again"
echo mute >"$tmp/lie"
run demo 'echo cut >cut.txt' >/dev/null
wait_for 10 in_store cut.txt cut || fail "cut.txt is not in the store"
stop_daemon
: >"$tmp/lie"
sed -i 's/timeout: 60s/timeout: 2s/' "$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start again"
wait_for 5 unconfirmed cut.txt cancelled && ok "so is one that the daemon's end cut off" || fail "a copy that the daemon's end cut off is told by nobody"

# More than a workspace may have, in the store, inside, or both together: refused by name, with the numbers, before anything is done.
# It stops nothing and keeps nobody out, who could not repair it else; that is told in the audit log and in the status.
TOKEN=$(new_token '*' service rounds,files,lifecycle)
store_many() {
	store "$1" put "$(jq -nc --arg s "$(printf x | sha256sum | cut -d' ' -f1)" --argjson n "$2" \
		'{files: [range($n) | {path: "\(.)", sha256: $s, content: "eA==", if: null}]}')" >/dev/null
}
store_large() {
	head -c 3145728 /dev/zero >"$tmp/large"
	base64 -w0 "$tmp/large" >"$tmp/large.64"
	jq -nc --arg p "$2" --arg s "$(sha256sum "$tmp/large" | cut -d' ' -f1)" --rawfile c "$tmp/large.64" \
		'{files: [{path: $p, sha256: $s, content: $c, if: null}]}' >"$tmp/large.json"
	store "$1" put "@$tmp/large.json" >/dev/null
}
# last AGENT DIRECTION JQ: of its last sync in the audit log
last() { muxctl audit --event filespace.sync --agent "$1" -n 1000 -o json | jq -rs --arg d "$2" "[.[].record | select(.detail.direction == \$d)] | last | $3"; }
told() { # AGENT DIRECTION: by whoever asks, in the audit log, in the status, and what became of its sandbox
	sync_files "$1" "$2" | jq -r .error.code
	last "$1" "$2" '"\(.detail.direction) \(.outcome) \(.detail.copied)"'
	muxctl filespace status "$1" -o json | jq -r ".$2.outcome"
	muxctl sandbox show "$1" -o json | jq -r .state
}
says() { # AGENT DIRECTION WORDS: the message
	last "$1" "$2" .detail.message | grep -q "$3" && ok "with the numbers" || fail "it says: $(last "$1" "$2" .detail.message)"
}
refused="too_large PULL too_large 0 too_large running"
store_many many 101
equal "a store with more files than may be: nothing of it is pulled, and its programs run" 0 "$(run many 'ls | wc -l' | xargs)"
equal "which is told by name" "${refused/PULL/pull}" "$(told many pull | xargs)"
says many pull "more than the 100 files"
for n in 1 2 3 4 5 6; do store_large large "large$n"; done
equal "a store with more bytes than may be: nothing of it is pulled" 0 "$(run large 'ls | wc -l' | xargs)"
equal "which is told by name" "${refused/PULL/pull}" "$(told large pull | xargs)"
says large pull "would have 18[0-9]* bytes, more than the 16777216"
run both 'head -c 8000000 /dev/urandom >here; head -c 6500000 /dev/urandom >here2' >/dev/null
wait_for 20 eval '[ "$(store both files | jq ".files | length")" = 2 ]' || fail "what is below the cap is not pushed"
store_large both large1
equal "what is there counts with what is to come" "${refused/PULL/pull}" "$(told both pull | xargs)"
equal "and nothing has come" "here here2" "$(run both ls | xargs)"
equal "with room made the rest comes" "ok 1" "$(run both 'rm here' >/dev/null; sync_files both pull | jq -r '.error.code // "ok \(.copied)"')"
echo deaf >"$tmp/lie" # what is made here stays here
run union 'for i in $(seq 60); do echo $i >here$i; done' >/dev/null
equal "the store has none of it" "ok 0" "$(sync_files union push | jq -r '.error.code // "ok"') $(store union files | jq '.files | length')"
store_many union 41
equal "files that are there count with those that are to come" "${refused/PULL/pull}" "$(told union pull | xargs)"
says union pull "would have 101 files, more than the 100"
equal "and nothing has come" 60 "$(run union 'ls | wc -l' | xargs)"
equal "with one less the rest comes" "ok 41" "$(run union 'rm here1' >/dev/null; sync_files union pull | jq -r '.error.code // "ok \(.copied)"')"
: >"$tmp/lie"
run grown 'echo first >first' >/dev/null
wait_for 5 eval '[ "$(store_has grown first)" = first ]' || fail "first is not pushed"
equal "a round that makes more files than may be is answered as ever" 'done' "$(run grown 'for i in $(seq 101); do echo $i >$i; done; echo changed >first; echo done')"
equal "and a push of them is refused by name" "${refused/PULL/push}" "$(told grown push | xargs)"
says grown push "more than 100 files"
equal "and nothing of it is in the store" "first 1" "$(store_has grown first) $(store grown files | jq '.files | length')"
run grown 'rm 1 2' >/dev/null
wait_for 10 eval '[ "$(store grown files | jq ".files | length")" = 100 ]' && ok "with fewer it goes on by itself" || fail "the store has $(store grown files | jq '.files | length') files"
equal "and all of it is there" changed "$(store_has grown first)"
record_is_whole
