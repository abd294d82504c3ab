#!/bin/bash
# A recording on a terminal: its picture is the recorded one, line by line, though a status line comes and goes. Where the
# terminal has a line to spare the status line stands under the picture; where it has none, over its last line while
# nothing moves. The recorded terminal may grow and shrink on the way.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=replayterm
tm() { env -u TMUX tmux -f "$tmp/conf" -S "$tmp/tmux" "$@"; }
away() {
	tm kill-server 2>/dev/null
	tidy
}
trap away EXIT
# What is cleared must not count as scrolled.
printf 'set -g default-terminal tmux-256color\nset -g status off\nset -g scroll-on-clear off\n' >"$tmp/conf"
# terminal NAME ROWS COMMAND
terminal() { LC_ALL=C.UTF-8 tm new-session -d -s "$1" -x 80 -y "$2" "$3; sleep 1000" || fail "no tmux"; }
keys() { tm send-keys -t "$@"; }
rows() { tm capture-pane -p -t "$1" | sed -n "1,$2p"; }
shows() { tm capture-pane -p -t "$1" | grep -qE -- "$2"; }
lacks() { ! shows "$@"; }
seen() { wait_for 20 shows "$1" "$2" || fail "$3: no '$2' in: $(tm capture-pane -p -t "$1")"; }
is_picture() { [ "$(rows "$1" "$2")" = "$(sed -n "1,$2p" "$tmp/picture")" ]; }
# picture NAME ROWS WHAT
picture() { wait_for 5 is_picture "$1" "$2" && ok "$3" || fail "$3: $(rows "$1" "$2" | diff "$tmp/picture" - | head -20)"; }
never_scrolled() { equal "$2" 1 "$(tm capture-pane -p -S - -t "$1" | grep -cE '^ (PLAY|PAUSE|END) ')"; }
replay() { echo "$MUXCTL --state $MUXD_STATE replay $id --idle-limit 300ms"; }
over() { [ "$(muxctl session list --agent $agent -o json | jq '.sessions | length')" = 0 ]; }

# recorded NAME ROWS THEN: a shell that scrolls, a program with a screen of its own; then on THEN lines: a shell that scrolls
# on. Sets id and $tmp/picture.
recorded() {
	terminal "$1" "$2" "$MUXCTL --state $MUXD_STATE exec -t $agent -- bash --norc --noprofile"
	seen "$1" '\$ *$' "a shell"
	keys "$1" "PS1='\$ '; clear; for i in \$(seq 40); do echo line \$i; sleep 0.02; done; echo first-\$((6*7))" Enter
	seen "$1" '^first-42' "lines"
	keys "$1" "seq 300 | less" Enter
	seen "$1" '^:$' "less"
	keys "$1" Space
	seen "$1" "^$((2 * $2 - 2))\$" "a page on"
	keys "$1" q
	seen "$1" '^\$ *$' "the shell again"
	tm resize-window -t "$1" -x 80 -y "$3"
	sleep 0.5
	keys "$1" "for i in \$(seq ${4:-30}); do echo behind \$i; sleep 0.02; done; echo second-\$((6*7))" Enter
	seen "$1" '^second-42' "lines behind less"
	sleep 0.5
	# as what follows leaves it, that ends a line and prints nothing
	rows "$1" "$3" | sed '1d; s/^\$$/$ exec sleep 0/' >"$tmp/picture"
	id=$(muxctl session list --agent $agent -o json | jq -r '.sessions[0].id')
	keys "$1" "exec sleep 0" Enter
	wait_for 10 over || fail "the session does not end"
}

# ---- 22 lines, then 24
recorded grows 22 24

terminal tall 25 "$(replay)"
seen tall '^ PLAY ' "the status line while it plays"
seen tall '^ END ' "the end"
picture tall 24 "with a line to spare: the picture, and the status line under it"
never_scrolled tall "which was never scrolled"

terminal same 24 "$(replay)"
seen same '^ END ' "the end"
picture same 23 "with none, since it grew: the picture, but for its last line"
never_scrolled same "the status line was never scrolled"
keys same s
picture same 24 "s shows that, too"
keys same g
wait_for 10 lacks same '^second-42' || fail "g does not go back"
keys same G
wait_for 5 is_picture same 24 && ok "back to the start and to the end: the same" || fail "$(rows same 24 | diff "$tmp/picture" -)"

terminal slow 22 "$(replay) --speed 0.125"
seen slow '^line 5$' "slow"
keys slow Space
seen slow '^ PAUSE ' "a pause"
ok "a pause shows where it is"
keys slow Space
wait_for 10 lacks slow '^ (PLAY|PAUSE) ' && ok "and that goes when it plays on" || fail "the line stays: $(rows slow 22)"

# ---- 24 lines, then 20, and few lines behind that: some are from before
recorded shrinks 24 20 8
for own in 24 25; do
	terminal s$own $own "$(replay)"
	seen s$own '^ END ' "the end"
	picture s$own 20 "on $own lines what shrank is the picture"
	equal "and nothing is under it but the status line" "" "$(tm capture-pane -p -t s$own | sed -n "21,$((own - 1))p" | tr -d '\n')"
	never_scrolled s$own "which was never scrolled"
done
