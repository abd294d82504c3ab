#!/bin/bash
# An agent uses programs made for people, by keys and the screen alone: an editor, a pager, a debugger's prompt. Rounds have
# a terminal where configuration and grant open it, and not else.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
start_daemon "$tmp/state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
PRINCIPAL=agent.7
agent=pty
code() { jq -r .error.code; }
round() { api "$token" POST /v1/agents/$agent/rounds "$1"; }
start() { round "$1" | jq -r .round_id; }
keys() { # ROUND KEY...
	local id=$1
	shift
	api "$token" POST "/v1/rounds/$id/keys" "$(jq -nc '{keys: $ARGS.positional}' --args -- "$@")"
}
screen() { api "$token" GET "/v1/rounds/$1/screen"; }
cells() { api "$token" GET "/v1/rounds/$1/screen?format=cells"; }
# shows ROUND PATTERN: until its screen does
shows() {
	seen() { screen "$1" >"$tmp/screen" && grep -qE -e "$2" "$tmp/screen"; }
	wait_for 10 seen "$1" "$2" || fail "\"$2\" does not come: $(cat "$tmp/screen")"
}

# ---- off, unless both open it

token=$(new_token $agent agent rounds,terminal)
equal "a terminal of a round is off" pty_not_allowed "$(round '{"argv":["true"],"pty":{}}' | code)"
refusal() { muxctl audit --event verdict -n 100 -o json | jq -r '.record | select(.agent == "pty") | .outcome' | grep -qx "$1"; }
wait_for 10 refusal pty_not_allowed || fail "the refusal is not in the audit log"
ok "the refusal is in the audit log"
stop_daemon
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "the daemon does not start"
token=$(new_token $agent agent rounds)
equal "switched on, a grant for rounds alone does not open it" forbidden "$(round '{"argv":["true"],"pty":{}}' | code)"
wait_for 10 refusal forbidden || fail "the refusal is not in the audit log"
r=$(round '{"argv":["sh","-c","echo out; echo err >&2"],"yield_ms":20000}')
equal "it runs rounds without" "out" "$(jq -r .stdout.data <<<"$r")"
token=$(new_token $agent agent rounds,terminal)

# ---- an editor, by keys and its screen

id=$(start '{"argv":["vim","-u","NONE","-i","NONE","notes.txt"],"pty":{"cols":60,"rows":12},"yield_ms":0}')
shows "$id" '"notes.txt" \[New'
equal "keys are counted" "3 12" "$(keys "$id" i 'text:first line' Enter | jq -r '"\(.keys) \(.bytes)"')"
keys "$id" 'text:second lone' Escape >/dev/null
shows "$id" '^second lone$'
# cursor keys are said as the editor asked for them, and do what they say
keys "$id" Left Left r i Up Home >/dev/null
shows "$id" '^second line$'
equal "the cursor is where it went" "0 0 true" "$(cells "$id" | jq -r '"\(.cursor.row) \(.cursor.col) \(.cursor.visible)"')"
equal "an editor has the alternate screen, and cursor keys of its own" "true true" "$(cells "$id" | jq -r '"\(.alternate) \(.application_cursor_keys)"')"
keys "$id" 'text::set nu hlsearch' Enter 'text:/line' Enter >/dev/null
shows "$id" '^ +1 first line'
found() { cells "$id" | jq -e '[.runs[] | select(.text == "line" and (.attrs // [] | index("reverse")) or .text == "line" and .bg != null)] | length == 2' >/dev/null; }
wait_for 10 found && ok "the cells say what is highlighted" || fail "the cells: $(cells "$id" | jq -c .runs)"
equal "another size is taken" 30 "$(api "$token" POST "/v1/rounds/$id/resize" '{"cols":30,"rows":8}' | jq -r .cols)"
wide() { [ "$(cells "$id" | jq -c '[.cols, .rows]')" = '[30,8]' ] && screen "$id" | sed -n 7p | grep -q '~'; }
wait_for 10 wide && ok "and the editor draws itself anew" || fail "$(screen "$id")"
keys "$id" 'text::wq' Enter >/dev/null
r=$(api "$token" GET "/v1/rounds/$id?yield_ms=20000")
equal "it ends as it was told to" "exit 0" "$(jq -r '"\(.exit.cause) \(.exit.code)"' <<<"$r")"
equal "what was written is there" "first line second line" "$(round '{"argv":["cat","notes.txt"],"yield_ms":20000}' | jq -rj .stdout.data | paste -sd' ')"
equal "of a round that has ended there is no screen" already_ended "$(screen "$id" | code)"
equal "nor keys" already_ended "$(keys "$id" Enter | code)"

# ---- no clock of one's own: the screen is asked for what came of the keys

id=$(start '{"argv":["sh","-c","PS1=\"$ \" exec sh -i"],"pty":{"cols":40,"rows":6},"yield_ms":0}')
shows "$id" '^\$'
offset=$(keys "$id" 'text:sleep 0.5; echo $((40+2)); sleep 0.02; echo $((50+3))' | jq -r .offset)
offset=$(keys "$id" Enter | jq -r .offset)
api "$token" GET "/v1/rounds/$id/screen?after=$((offset + 3))&wait_ms=20000" >"$tmp/screen"
equal "the screen waits for what comes, and for its rest" "42 53" "$(grep -xE '42|53' "$tmp/screen" | paste -sd' ')"
before=$(date +%s%N)
api "$token" GET "/v1/rounds/$id/screen?after=100000&wait_ms=300" >"$tmp/screen"
[ $((($(date +%s%N) - before) / 1000000)) -ge 300 ] || fail "it did not wait"
equal "where nothing comes it waits as long as it may" "42 53" "$(grep -xE '42|53' "$tmp/screen" | paste -sd' ')"
(sleep 0.3; keys "$id" 'text:exit' Enter >/dev/null) &
equal "an end ends the wait" already_ended "$(api "$token" GET "/v1/rounds/$id/screen?after=100000&wait_ms=20000" | code)"
wait $!

# ---- a pager: pages, a search, Ctrl-C; wide characters are whole

id=$(start '{"command":"seq -f \"zeile %g 漢字 é\" 200 >long; exec less long","pty":{"cols":40,"rows":10,"term":"xterm-256color"},"yield_ms":0}')
shows "$id" '^zeile 1 漢字 é$'
keys "$id" PageDown >/dev/null
shows "$id" '^zeile 10 漢字'
keys "$id" 'text:/150' Enter >/dev/null
shows "$id" '^zeile 150 '
keys "$id" q >/dev/null
equal "the pager ends" "exit 0" "$(api "$token" GET "/v1/rounds/$id?yield_ms=20000" | jq -r '"\(.exit.cause) \(.exit.code)"')"

# ---- a debugger's prompt; the hub is killed, and the same screen is there

round '{"command":"printf \"def f(a):\\n    b = a * 2\\n    return b\\nprint(f(21))\\n\" >prog.py","yield_ms":20000}' >/dev/null
id=$(start '{"argv":["python3","-m","pdb","prog.py"],"pty":{"cols":80,"rows":20},"yield_ms":0,"timeout_ms":120000}')
shows "$id" '^\(Pdb\)'
keys "$id" 'text:b f' Enter c Enter >/dev/null
shows "$id" 'b = a \* 2'
screen "$id" >"$tmp/before"
kill -9 "$(ready pids.net)"
up() { screen "$id" >"$tmp/after" && ! grep -q '"error"' "$tmp/after"; }
wait_for 20 up || fail "no screen after a kill: $(cat "$tmp/after")"
equal "after a kill of the daemon the screen is the same" "$(cat "$tmp/before")" "$(cat "$tmp/after")"
keys "$id" 'text:p a + 1' Enter >/dev/null
shows "$id" '^22$'
keys "$id" C-c >/dev/null
keys "$id" 'text:q' Enter >/dev/null
api "$token" GET "/v1/rounds/$id?yield_ms=20000" | jq -e '.exit.cause == "exit"' >/dev/null || fail "the debugger does not end"
ok "the debugger was asked, and left"

# ---- a password is not in the record, nor on the screen

id=$(start '{"command":"read -s -p \"Password: \" x; echo; echo ${#x}; sleep 60","pty":{},"yield_ms":0}')
shows "$id" '^Password:'
keys "$id" 'text:correct horse' Enter >/dev/null
shows "$id" '^13$'
grep -q horse "$tmp/screen" && fail "the password is on the screen"
keys "$id" Ctrl-C >/dev/null
r=$(api "$token" GET "/v1/rounds/$id?yield_ms=20000")
equal "Ctrl-C ends it" INT "$(jq -r .exit.signal <<<"$r")"
recorded() { muxctl export --format json "$id" >"$tmp/record" 2>/dev/null && [ -s "$tmp/record" ]; }
wait_for 20 recorded || fail "no recording"
grep -qE "$(printf horse | base64)|horse" "$tmp/record" && fail "the password is in the record"
ok "what was typed at a prompt that does not echo is not in the record"

# ---- who else, and bad input

id=$(start '{"argv":["cat"],"pty":{},"yield_ms":0}')
piped=$(start '{"argv":["cat"],"stdin_open":true,"yield_ms":0}')
other=$(PRINCIPAL=other new_token $agent agent rounds,terminal)
equal "another's terminal is not for everybody" not_found "$(token=$other screen "$id" | code | sed 's/forbidden/not_found/')"
equal "nor are its keys" not_found "$(token=$other keys "$id" q | code | sed 's/forbidden/not_found/')"
watcher=$(PRINCIPAL=watcher new_token $agent staff observe)
# shellcheck disable=SC2034 # it is asked for by its name below
driver=$(PRINCIPAL=driver new_token $agent staff drive)
token=$watcher screen "$id" | grep -q error && fail "who may watch does not see it"
alone=$(new_token $agent agent rounds)
equal "nor does who opened it, by a later grant for rounds alone" "forbidden forbidden" \
	"$(token=$alone keys "$id" q | code) $(api "$alone" POST "/v1/rounds/$id/stdin" '{"data":"q"}' | code)"
echo "$alone" >"$tmp/alone"
/usr/bin/python3 -u "$here/tests/integration/attach_round.py" "$MUXD_STATE" "$tmp/alone" "$id" >"$tmp/looks" 2>&1 &
looker=$!
wait_for 60 [ -s "$tmp/looks" ] || fail "it does not get in to look"
equal "nor over a WebSocket, where it looks" "opened observer" "$(head -n 1 "$tmp/looks" | cut -d' ' -f1,2)"
kill $looker
equal "but input of a pipe it gives" null "$(api "$alone" POST "/v1/rounds/$piped/stdin" '{"data":"q"}' | code)"
equal "who watches does not type" forbidden "$(token=$watcher keys "$id" q | code)"
equal "a line each, in turn" "1 1 1" "$(for w in token driver token; do token=${!w} keys "$id" "text:by-$w" | jq -r 'if .bytes > 7 then 1 else . end'; done | paste -sd' ')"
equal "a key whose form the screen decides takes no leave to look" "1 1" \
	"$(for w in token driver; do token=${!w} keys "$id" Left | jq -r 'if .bytes == 3 then 1 else . end'; done | paste -sd' ')"
keys "$id" C-u Enter C-d >/dev/null
api "$token" GET "/v1/rounds/$id?yield_ms=20000" >/dev/null
typed() { muxctl export --format json "$id" >"$tmp/typed" 2>/dev/null && grep -q '"exit"' "$tmp/typed"; }
wait_for 20 typed || fail "no recording"
equal "whose keys they were is in the record" "agent.7 driver agent.7" "$(jq -rn --slurpfile e "$tmp/typed" '
	reduce $e[] as $x ({who: "agent.7", said: []};
		if $x.type == "event" and $x.body.event == "input" then .who = $x.body.principal
		elif $x.type == "data" and $x.stream == "input" and ($x.data | test("by-")) then .said += [.who] else . end)
	| .said | join(" ")')"
id=$(start '{"argv":["cat"],"pty":{},"yield_ms":0}')
watched() { muxctl audit --event round.screen -n 50 -o json | jq -r .record.principal >"$tmp/looked" && grep -qx watcher "$tmp/looked"; }
wait_for 10 watched && ok "who looked is in the audit log" || fail "the audit log has no round.screen"
grep -qx driver "$tmp/looked" && fail "a key is told as a look"
equal "a round without a terminal has none" "bad_state bad_state bad_state" \
	"$(screen "$piped" | code) $(keys "$piped" Enter | code) $(api "$token" POST "/v1/rounds/$piped/resize" '{"cols":10,"rows":5}' | code)"
bad() { equal "$1" "$2" "$(api "$token" POST "/v1/rounds/$id/$3" "$4" | jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"; }
bad "no keys" "invalid_request /keys" keys '{"keys":[]}'
bad "a key that is none" "invalid_request /keys/1" keys '{"keys":["a","Entre"]}'
bad "one with NUL" "invalid_request not JSON" keys '{"keys":["\u0000a"]}'
bad "a modifier that it has not" "invalid_request /keys/0" keys '{"keys":["C-é"]}'
bad "a number" "invalid_request /keys/0" keys '{"keys":[1]}'
bad "another field" "invalid_request /literal" keys '{"keys":["a"],"literal":true}'
bad "a size of nothing" "invalid_request /cols" resize '{"cols":0,"rows":5}'
bad "a size without rows" "invalid_request /rows" resize '{"cols":10}'
equal "another format" invalid_request "$(api "$token" GET "/v1/rounds/$id/screen?format=png" | code)"
equal "a size of nothing at its start" "/pty/rows" "$(round '{"argv":["true"],"pty":{"rows":0}}' | jq -r '.error.message | split(":")[0]')"
equal "a terminal without a program" invalid_request "$(round '{"pty":{}}' | code)"

# ---- the same by muxctl

muxctl exec -d $agent -- true >/dev/null || fail "no round by muxctl"
id=$(muxctl exec -dt $agent -- vim -u NONE -i NONE by-hand.txt) || fail "no round with a terminal by muxctl"
muxctl round screen "$id" --after 1 --wait 10s | grep -q 'by-hand.txt' && ok "muxctl prints its screen" || fail "no screen"
muxctl round resize "$id" 50x9 || fail "no size"
offset=$(muxctl round keys "$id" i 'text:by hand' Escape) || fail "no keys"
equal "keys, and what came of them" "by hand" "$(muxctl round screen "$id" --after "$offset" | head -n 1)"
equal "its cells" "[50,9,0,6]" "$(muxctl round screen "$id" --cells | jq -c '[.cols, .rows, .cursor.row, .cursor.col]')"
muxctl round keys "$id" 'text::wq' Enter >/dev/null || fail "no keys"
equal "its events" "started stdout exit" "$(muxctl round events "$id" | cut -d' ' -f1 | uniq | paste -sd' ')"
equal "as JSON, behind the last output" '["exit",0]' "$(muxctl round events "$id" -o json --after "$(muxctl round events "$id" -o json |
	jq -r 'select(.event == "stdout").id' | tail -n 1)" | jq -c '[.event, .data.exit.code]')"
told() { equal "muxctl round $1" "$2" "$(muxctl round "${@:3}" 2>&1 >/dev/null | grep -o '\[[a-z_]*\]')"; }
told "keys behind its end" '[already_ended]' keys "$id" x
told "resize to nothing" '[invalid_request]' resize "$id" 0x9
told "screen of no round" '[invalid_request]' screen nonsense
told "events of one that never was" '[not_found]' events 01936f0e-0000-7000-8000-000000000000
