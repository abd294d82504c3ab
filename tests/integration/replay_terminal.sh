#!/bin/bash
# A recording on a terminal: its picture is the recorded one, line by line, though a status line comes and goes. Where the
# terminal has a line to spare the status line stands under the picture; where it has none, over its last line while
# nothing moves.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=replayterm
tm() { env -u TMUX tmux -f "$tmp/conf" -S "$tmp/tmux" "$@"; }
away() {
	tm kill-server 2>/dev/null
	tidy
}
trap away EXIT
printf 'set -g default-terminal tmux-256color\nset -g status off\n' >"$tmp/conf"
# terminal NAME ROWS COMMAND
terminal() { LC_ALL=C.UTF-8 tm new-session -d -s "$1" -x 80 -y "$2" "$3; sleep 1000" || fail "no tmux"; }
keys() { tm send-keys -t "$@"; }
rows() { tm capture-pane -p -t "$1" | sed -n "1,$2p"; }
shows() { tm capture-pane -p -t "$1" | grep -qE -- "$2"; }
seen() { wait_for 20 shows "$1" "$2" || fail "$3: no '$2' in: $(tm capture-pane -p -t "$1")"; }
is_picture() { [ "$(rows "$1" "$2")" = "$(sed -n "1,$2p" "$tmp/picture")" ]; }
# picture NAME ROWS WHAT
picture() { wait_for 5 is_picture "$1" "$2" && ok "$3" || fail "$3: $(rows "$1" "$2" | diff "$tmp/picture" - | head -20)"; }
never_scrolled() { tm capture-pane -p -S - -t "$1" | grep -cE '^ (PLAY|PAUSE|END) '; }
replay() { echo "$MUXCTL --state $MUXD_STATE replay $id --idle-limit 300ms"; }

# ---- recorded on 22 lines: a shell that scrolls, a program with a screen of its own; then on 24: a shell that scrolls on
terminal work 22 "$MUXCTL --state $MUXD_STATE exec -t $agent -- bash --norc --noprofile"
seen work '\$ *$' "a shell"
keys work "PS1='\$ '; clear; for i in \$(seq 40); do echo line \$i; sleep 0.02; done; echo first-\$((6*7))" Enter
seen work '^first-42' "lines"
keys work "seq 300 | less" Enter
seen work '^:$' "less"
keys work Space
seen work '^42$' "a page on"
keys work q
seen work '^\$ *$' "the shell again"
tm resize-window -t work -x 80 -y 24
keys work "for i in \$(seq 30); do echo behind \$i; sleep 0.02; done; echo second-\$((6*7))" Enter
seen work '^second-42' "lines behind less"
sleep 0.5
rows work 24 | sed '1d; s/^\$$/$ exec sleep 0/' >"$tmp/picture" # as that leaves it: it ends a line, and prints nothing
id=$(muxctl session list --agent $agent -o json | jq -r '.sessions[0].id')
keys work "exec sleep 0" Enter
over() { [ "$(muxctl session list --agent $agent -o json | jq '.sessions | length')" = 0 ]; }
wait_for 10 over || fail "the session does not end"

# ---- a line to spare
terminal tall 25 "$(replay)"
seen tall '^ PLAY ' "the status line while it plays"
seen tall '^ END ' "the end"
picture tall 24 "with a line to spare: the picture, and the status line under it"
equal "which was never scrolled" 1 "$(never_scrolled tall)"

# ---- none
terminal same 24 "$(replay)"
seen same '^ END ' "the end"
picture same 23 "with none, since it grew: the picture, but for its last line"
equal "the status line was never scrolled" 1 "$(never_scrolled same)"
keys same s
picture same 24 "s shows that, too"
keys same g
seen same '^first-42' "again"
keys same G
wait_for 5 is_picture same 24 && ok "back to the start and to the end: the same" || fail "$(rows same 24 | diff "$tmp/picture" -)"

terminal slow 22 "$(replay) --speed 0.125"
seen slow '^line 5$' "slow"
keys slow Space
seen slow '^ PAUSE ' "a pause"
ok "a pause shows where it is"
keys slow Space
gone() { ! shows slow '^ (PLAY|PAUSE) '; }
wait_for 10 gone && ok "and that goes when it plays on" || fail "the line stays: $(rows slow 22)"
