#!/bin/bash
# A terminal by SSH is a terminal: the same keys are typed into a shell behind `ssh -tt` and into a plain local one, side
# by side in windows of 80 by 24, and after every step both screens are the same: letters, colours, cursor. Editor, pager,
# tmux inside, resizes, job control, wide characters. What draws figures of its own (top) is compared by its layout.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=terminal
token=$(new_token $agent staff terminal)
tm() { tmux -L "muxd-terminal-$$" -f /dev/null "$@"; }
inner_end() { for s in "$tmp"/plain/story.*/sock; do [ -S "$s" ] && tmux -S "$s" kill-server; done 2>/dev/null; }
trap 'tm kill-server 2>/dev/null; inner_end; tidy' EXIT
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
(umask 077 && printf '%s' "$token" >"$tmp/token")
mkdir "$tmp/plain"
export LC_ALL=C.UTF-8

# Both sides get the same shell, in a new folder, with the same few variables and the window's own TERM.
shell='cd "$(mktemp -d ./story.XXXXXX)" && exec env -i TERM="$TERM" LC_ALL=C.UTF-8 PATH=/usr/bin:/bin HOME="$PWD" PS1="\$ " bash --norc --noprofile'
tm -u new-session -d -s far -x 80 -y 24 "SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force ssh -F none -tt -p $(ssh_port) \
	-o StrictHostKeyChecking=no -o UserKnownHostsFile=$tmp/known -o LogLevel=ERROR -l $agent 127.0.0.1; echo left \$?; sleep 600"
far_prompt() { tm capture-pane -p -t far | grep -q '\$'; }
wait_for 20 far_prompt || fail "no prompt: $(tm capture-pane -p -t far)"
tm new-session -d -s near -x 80 -y 24 -c "$tmp/plain" "bash --norc --noprofile"
for side in far near; do tm send-keys -t $side "$shell" Enter; done

keys() {
	tm send-keys -t far "$@"
	tm send-keys -t near "$@"
}
# text TEXT: typed as it is, whatever tmux would make of it
text() { keys -l "$1"; }
line() { text "$1" && keys Enter; }
# screen SIDE: what it shows with colours, where the cursor is, whether it is the alternate screen
screen() {
	tm capture-pane -p -e -t "$1"
	tm display-message -p -t "$1" 'cursor #{cursor_x},#{cursor_y} of #{pane_width}x#{pane_height}, alternate #{alternate_on}'
}
alike() {
	screen far >"$tmp/far" && screen near >"$tmp/near" || return 1
	tm capture-pane -p -t far | grep -qzP -- "(?m)$1" && cmp -s "$tmp/far" "$tmp/near"
}
# same PATTERN WHAT: within 10 s both screens are the same and show the pattern (Perl's; ^ and $ are those of a line)
same() {
	wait_for 10 alike "$1" && ok "$2" && return
	diff "$tmp/near" "$tmp/far" | cat -v >&2
	cat -v "$tmp/far" >&2
	fail "$2: '$1' is not there or the screens differ (< plain, > ssh)"
}
sleep 0.5
line 'clear'
same '^\$ ?$' "an empty screen with a prompt"
line 'clear; echo $TERM; tty | tr -d 0-9; stty -a | tail -n +2'
same '^(screen|tmux)' "the type of terminal and its modes"

line 'clear; vim -u NONE -i NONE note.txt'
same '^~' "vim draws"
text 'iGrüße, 世界 ✓ 😀'
keys Enter
text $'second\tline'
keys Escape
same '世界 ✓' "vim shows what is typed"
text ':set number hlsearch | syntax on'
keys Enter
text '/second'
keys Enter
same '  2 ' "vim numbers, finds and marks"
text ':wq'
keys Enter
same '\$ ?$' "vim writes and gives the screen back"
line 'clear; sha256sum note.txt; wc note.txt; cat note.txt'
same 'Grüße, 世界' "what it wrote"

line 'clear; seq 1 500 > numbers; less numbers'
same '^numbers' "less draws its first page"
text ' '
same '^24$' "a page on"
text 'b'
same '^1$' "a page back"
text '/4[0-9]9'
keys Enter
same '^409$' "less finds"
text 'n'
same '^419$' "and goes on finding"
text 'G'
same 'END' "the end"
text 'q'
same '\$ ?$' "less gives the screen back"

# begun COMMAND: it runs in both; what is typed before that belongs to the shell, and no key of the terminal takes it back
begun() {
	line "clear; echo be''gun; $1"
	same '^begun' "$1 runs"
	sleep 0.3
}
# prompt_again: both shells have it; what is typed before that is echoed twice, or thrown away by what is just ending
prompts() {
	for side in far near; do tm capture-pane -p -t $side | grep -v '^ *$' | tail -n 1 | grep -qx '\$ *' || return 1; done
}
prompt_again() { wait_for 10 prompts || fail "no prompt: $(tm capture-pane -p -t far)"; }
begun 'sleep 1000'
keys C-c
prompt_again
same '\^C' "Ctrl-C"
line 'echo status $?'
same 'status 130' "ends the program by its signal"
begun 'sleep 1001'
keys C-z
prompt_again
same 'Stopped' "Ctrl-Z stops it"
line 'jobs'
same 'Stopped.*sleep 1001' "it is a job"
line 'fg'
same '^sleep 1001' "fg"
keys C-c
prompt_again
line 'echo status $?'
same 'status 130' "and Ctrl-C ends it"
begun cat
text $'漢字 wide'
same '^漢字 wide' "wide characters are echoed"
keys BSpace BSpace BSpace BSpace BSpace BSpace
same '^漢' "and erased"
keys C-u
text 'again'
keys Enter C-d
same 'again' "a line is killed, the end of file is told"

cat >"$tmp/plain/inner.conf" <<'C'
set -g status-left "inner"
set -g status-right ""
set -g default-command "env PS1='$ ' bash --norc --noprofile"
set -g assume-paste-time 0
setw -g automatic-rename off
C
sshc "$token" $agent 'cat > /workspace/inner.conf' <"$tmp/plain/inner.conf" || fail "no file for tmux"
line 'clear'
line 'tmux -u -S ./sock -f ../inner.conf new-session -n one'
same '^\$ ?$(?s:.*)inner.*one' "tmux runs inside"
line 'echo in tmux; stty size'
same '^23 80' "with a terminal of its own"
keys C-b '"'
same '^─+(?s:.*)^\$ ?$' "and splits it"
line 'echo lower ✓'
same '^lower ✓' "with a shell in either half"
keys C-b d
# tmux's own last words may be broken by its last screen, on a plain terminal, too: what counts is that the shell is back.
detached() { tm capture-pane -p -t "$1" | tr -d '\n' | grep -q 'detached'; }
for side in far near; do wait_for 10 detached $side || fail "detach: $(tm capture-pane -p -t $side)"; done
ok "detach"
line 'clear; tmux -S ./sock list-sessions -F "#{session_name} #{window_width}x#{window_height}"; tmux -S ./sock kill-server'
same '^0 80x23' "it went on, and ends"

line 'clear; trap "echo resized; stty size" WINCH; stty size'
same '^24 80' "the size"
for side in far near; do tm resize-window -t $side -x 120 -y 40; done
same 'resized\n40 120' "a resize reaches the shell"
line 'clear; stty size; echo columns $COLUMNS'
same '^columns 120' "as the size it has now"
for side in far near; do tm resize-window -t $side -x 80 -y 24; done
same 'resized\n24 80' "and back again"
line 'trap - WINCH'
line 'clear; less numbers'
same '^numbers' "as programs see it"
for side in far near; do tm resize-window -t $side -x 60 -y 12; done
same '^11$' "a program redraws when the window shrinks"
for side in far near; do tm resize-window -t $side -x 80 -y 24; done
same '^23$' "and when it grows"
text 'q'

# top: the same places on the screen, its figures are its own.
layout() {
	tm capture-pane -p -t "$1" | grep -noE '^top -|^Tasks:|^%Cpu\(s\):|^MiB Mem|^MiB Swap|^ *PID USER +PR +NI +VIRT +RES +SHR S +%CPU +%MEM +TIME\+ COMMAND' | tr -s ' '
}
tops() { [ "$(layout far | wc -l)" = 6 ] && [ "$(layout far)" = "$(layout near)" ]; }
line 'clear; top -d 1'
wait_for 10 tops && ok "top draws" || fail "top: $(layout far) / $(layout near)"
keys 1
sleep 1.2
text 'q'
prompt_again
line 'clear; echo after top'
same '^after top' "and quits"

line 'clear; exit 3'
left() { tm capture-pane -p -t far | grep -q '^left 3'; }
wait_for 10 left && ok "the shell's exit status is ssh's" || fail "not left with 3: $(tm capture-pane -p -t far)"
