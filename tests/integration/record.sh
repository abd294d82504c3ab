#!/bin/bash
# An auditor after the fact: what was typed and shown is in the record, verifies offline, exports to what other players
# read, and one flipped bit is named.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=recorded
token=$(new_token $agent staff terminal,rounds,replay)
sshc "$token" $agent 'printf "caf\303\251 \342\202\254\n"; echo problem >&2; exit 5' </dev/null >"$tmp/shown" 2>&1
id=$(muxctl session list --all --agent $agent -o json | jq -r '.sessions[0].id')
[ "${#id}" = 36 ] || fail "no session in the list"
ok "the session is listed: $id"

sealed() { muxctl verify "$id"; }
wait_for 10 sealed || fail "not sealed within 10 s: $(sealed 2>&1)"
muxctl verify "$id" >"$tmp/verify" || fail "does not verify: $(cat "$tmp/verify")"
ok "it is sealed and verifies"
equal "stdout in the record" "café €" "$(muxctl export "$id" --format raw --stream stdout)"
equal "stderr in the record" "problem" "$(muxctl export "$id" --format raw --stream stderr)"
muxctl export "$id" --format asciicast-v2 >"$tmp/cast" || fail "no asciicast"
equal "asciinema reads the export" "café €" "$(script -qec "asciinema cat $tmp/cast" /dev/null </dev/null | tr -d "\r" | head -n 1)"
timeout 20 script -qec "asciinema play -s 1000 $tmp/cast" "$tmp/played" </dev/null >/dev/null || fail "asciinema play: $(cat "$tmp/played")"
grep -q 'café €' "$tmp/played" && ok "asciinema plays the export" || fail "asciinema play did not show it"
muxctl export "$id" --format asciicast-v3 >"$tmp/cast3" && /usr/bin/python3 "$here/tests/lib/asciicast_v3.py" "$tmp/cast3" >"$tmp/v3" 2>&1 ||
	fail "the v3 export does not follow its specification: $(cat "$tmp/v3")"
ok "the v3 export follows its specification"
muxctl export "$id" --format json | jq -e . >/dev/null || fail "the JSON export is not JSON"
ok "the JSON export is JSON"
muxctl replay "$id" --instant >"$tmp/replay" || fail "replay failed"
grep -q 'café €' "$tmp/replay" && ok "replay shows it" || fail "replay does not show it"

muxctl export last --format json >/dev/null && ok "last is the newest session" || fail "export last"
muxctl audit -o json >"$tmp/audit"
for event in grant.create session.open session.end; do
	grep -q "\"$event\"" "$tmp/audit" || fail "no $event in the audit log"
done
ok "grant, open and end are in the audit log"
grep -q "${token:40:40}" "$tmp/audit" && fail "the token is in the audit log"
grep -rqa "${token:40:40}" "$MUXD_STATE/record" "$MUXD_STATE/daemon.log" && fail "the token is on disk"
ok "the token is nowhere in the record or the log"
muxctl verify --all >"$tmp/all" || fail "verify --all: $(tail -n 5 "$tmp/all")"
ok "the whole record verifies"

# The player on a terminal: what is drawn again is what a fresh one shows.
tm() { env -u TMUX tmux -f /dev/null -S "$tmp/tmux" "$@"; }
player() { # NAME COLUMNS ROWS OPTION...
	tm new-session -d -s "$1" -x "$2" -y "$3" "$MUXCTL --state $MUXD_STATE replay ${*:4} $rows; sleep 1000" &&
		tm set-option -t "$1" window-size manual
}
shows() { tm capture-pane -p -t "$1"; }
at_end() { shows "$1" | grep -q 'the end'; }
alike() { at_end "$1" && [ "$(shows "$1")" = "$(shows "$2")" ]; }
cat >"$tmp/rows" <<R
stty cols 80 rows 24
$MUXCTL --state $MUXD_STATE exec -it $agent -- sh -c 'for i in \$(seq 30); do echo row \$i; done; printf "\033[3;9Hthe end\033[23;1H"; sleep 4'
R
script -qec "sh $tmp/rows" /dev/null </dev/null >"$tmp/rows.out" 2>&1 || fail "no recording to play: $(cat "$tmp/rows.out")"
rows=$(muxctl session list --all --agent $agent -o json | jq -r '.sessions[0].id')
sealed() { muxctl verify "$rows"; }
wait_for 10 sealed || fail "not sealed within 10 s: $(sealed 2>&1)"
trap 'tm kill-server 2>/dev/null; tidy' EXIT
player bare 80 24 --no-status --speed 64 || fail "no tmux"
wait_for 10 at_end bare || fail "the player does not play: $(shows bare)"
player told 80 24
wait_for 10 at_end told || fail "the player does not play: $(shows told)"
tm send-keys -t told Space # in the silence before the end
told() { shows told | tail -n 1 | grep -qE '^ *(PAUSE|END)'; }
wait_for 10 told || fail "no status line: $(shows told)"
tm send-keys -t told s
wait_for 10 alike told bare || fail "without its status line it shows: $(shows told)"
ok "a status line that goes leaves the screen that was under it"
player small 60 20 --no-status --speed 64
wait_for 10 at_end small || fail "no player on a small terminal: $(shows small)"
tm resize-window -t told -x 60 -y 20
wait_for 10 alike told small || fail "after a resize it shows: $(shows told)"
ok "after a resize the player draws what a fresh one draws"
