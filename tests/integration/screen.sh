#!/bin/bash
# Screens that come back: vim in a session, its client cut; another client, in a terminal of another kind, finds the same
# screen cell by cell, with attributes, cursor and modes; again after kill -9 of the whole daemon; again while screen workers
# are killed. Somebody who watches a flood and falls behind is shown the current screen, and the driver notices nothing.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/full.yaml" <<Y
log: {level: debug}
journal: {dir: $tmp/journal, size: 16MiB}
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"
agent=screen
token=$(new_token $agent staff terminal,observe,drive 60m)
(umask 077 && printf '%s' "$token" >"$tmp/token")
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
clients=()
tm() { env -u TMUX tmux -f /dev/null -S "$tmp/tmux.$1" "${@:2}"; }
all_away() {
	[ -z "${KEEP_LOG:-}" ] || cp "$MUXD_STATE/daemon.log" "$KEEP_LOG"
	for c in "${clients[@]}"; do tm "$c" kill-server 2>/dev/null; done
	stop_daemon
	tidy
}
trap all_away EXIT

# client NAME TERM COMMAND: a terminal of 100x30 of its own, which runs it
client() {
	cat >"$tmp/$1.conf" <<C
set -g default-terminal $2
set -g status off
set -g mouse on
C
	env -u TMUX LC_ALL=C.UTF-8 tmux -f "$tmp/$1.conf" -S "$tmp/tmux.$1" new-session -d -x 100 -y 30 "$3; sleep 1000" || fail "no tmux"
	clients+=("$1")
}
# enter NAME TERM LOGIN: ... a client by SSH
enter() {
	client "$1" "$2" "SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force exec ssh -F none -tt -p $(ssh_port) \
		-o StrictHostKeyChecking=no -o UserKnownHostsFile=$tmp/known -o LogLevel=ERROR -l '$3' 127.0.0.1"
}
keys() { tm "$1" send-keys "${@:2}"; }
# what a client's terminal shows: every cell with its attributes; where the cursor is, and what the program switched on
capture() {
	tm "$1" capture-pane -e -p
	tm "$1" display -p 'cursor #{cursor_x},#{cursor_y} visible #{cursor_flag} alternate #{alternate_on} keypad #{keypad_flag} keys #{keypad_cursor_flag} mouse #{mouse_any_flag}#{mouse_button_flag}#{mouse_sgr_flag} insert #{insert_flag} wrap #{wrap_flag} region #{scroll_region_upper}-#{scroll_region_lower} title #{pane_title}'
}
shows() { capture "$1" | sed 's/\x1b\[[0-9;]*m//g' | grep -qE -- "$2"; }
seen() { wait_for 10 shows "$1" "$2" && ok "$3" || fail "$3: no '$2' in: $(capture "$1")"; }
same() { capture "$1" | cmp -s - "$2"; }
# equal_screen NAME FILE WHAT
equal_screen() {
	wait_for 10 same "$1" "$2" && ok "$3" || fail "$3: $(capture "$1" | diff "$2" - | cat -v | head -20)"
}

session() { muxctl session list --agent $agent --kind terminal -o json | jq -r '.sessions[0].id'; }
attached() { [ "$(muxctl session list --agent $agent -o json | jq -r ".sessions[] | select(.id==\"$id\") | .attachments | length")" = "$1" ]; }
live() { log_of | grep -c 'screen: starting -> live'; }
log_of() { cat "$MUXD_STATE/daemon.log"; }

enter one tmux-256color $agent
keys one "PS1='\$ '; clear; echo before-\$((6*7)); printf 'wide 漢字 e\\314\\201 \\033[1;3;4;38;5;208;44mcolour\\033[0m\\n'" Enter
seen one '^before-42' "a shell"
id=$(session)
cat >"$tmp/text.c" <<'C'
/* A file with colours, wide 漢字 and combining é characters. */
#include <stdio.h>

int main(void)
{
	for (int i = 0; i < 42; i++)
		printf("%d\n", i);
	return 0; /* the end */
}
C
muxctl put $agent "$tmp/text.c" text.c >"$tmp/out" 2>&1 || fail "no put: $(cat "$tmp/out")"
keys one "LC_ALL=C.UTF-8 vim.basic -u NONE -n -c 'set mouse=a number laststatus=2 ttymouse=sgr' -c 'syntax on' -c 'split' text.c" Enter
seen one '42; i\+\+' "vim"
keys one 5G 3l v j
sleep 1
capture one >"$tmp/vim"
grep -q 'alternate 1' "$tmp/vim" || fail "vim is not on the alternate screen: $(tail -1 "$tmp/vim")"

tm one kill-server
wait_for 5 attached 0 || fail "still attached"
enter two screen-256color "$agent+$id"
equal_screen two "$tmp/vim" "cut, and back in another kind of terminal: the same screen"
keys two Escape Escape : q a ! Enter
seen two '^before-42' "vim ends: the main screen is as it was"

# kill -9 of everything: the recent output is only in the record now
keys two "LC_ALL=C.UTF-8 vim.basic -u NONE -n -c 'syntax on' -c 'set number' text.c" Enter
seen two '42; i\+\+' "vim again"
keys two 7G
sleep 1
capture two >"$tmp/vim2"
for p in monitor net recorder; do kill -KILL "$(ready pids.$p)" 2>/dev/null; done
wait "$DAEMON" 2>/dev/null
tm two kill-server
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon after kill -9"
running() { muxctl session list --agent $agent -o json | jq -e ".sessions[] | select(.id==\"$id\" and .state==\"running\")"; }
wait_for 10 running || fail "the session did not come back: $(muxctl session list --agent $agent -o json)"
enter three xterm-256color "$agent+$id"
equal_screen three "$tmp/vim2" "after kill -9 of the daemon: the same screen"
keys three : q a ! Enter
seen three '^before-42' "vim ends: the main screen, from the record too"
seen three "set number' text.c$" "to its last line"

# workers killed at random while people come and go: no session is the poorer
keys three "clear; i=0; until [ -e go ]; do i=\$((i+1)); printf '%s ' \$i; sleep 0.005; done; echo; echo all-\$((40+2))" Enter
for i in 1 2 3 4 5 6; do
	enter "k$i" tmux-256color "$agent+$id"
	sleep 0.$((RANDOM % 5 + 1))
	for p in $(pgrep -P "$(ready pids.monitor)" -f muxd-screen); do kill -KILL "$p" && echo "$p" >>"$tmp/killed"; done
	sleep 0.3
	tm "k$i" kill-server
done
[ -s "$tmp/killed" ] && ok "$(wc -l <"$tmp/killed") workers killed" || fail "there was no worker to kill"
muxctl put $agent /dev/null go >"$tmp/out" 2>&1 || fail "no put: $(cat "$tmp/out")"
seen three 'all-42' "the session ran on"
enter four tmux-256color "$agent+$id"
seen four 'all-42' "and is found"
tm four kill-server

# Somebody watches a flood and stands still meanwhile. 40 MB of it are not kept for anybody.
keys three "clear" Enter
client watch tmux-256color "$MUXCTL --state $MUXD_STATE attach --observe $id"
wait_for 10 attached 2 || fail "nobody watches: $(capture watch)"
# shellcheck disable=SC2009
watcher=$(pgrep -f "muxctl --state $MUXD_STATE attach" | head -1)
kill -STOP "$watcher"
before=$(date +%s%N)
keys three "head -c 30000000 /dev/urandom | base64; echo flood-\$((40+2))" Enter
flooded() { shows three '^flood-42'; }
wait_for 60 flooded && ok "the driver has the flood to its end ($((($(date +%s%N) - before) / 1000000)) ms)" || fail "the driver waits: $(capture three | tail -5)"
kill -CONT "$watcher"
seen watch '^flood-42' "who watched is shown the current screen"
capture three | sed '$d' >"$tmp/three"
caught_up() { capture watch | sed '$d' | cmp -s - "$tmp/three"; }
wait_for 10 caught_up && ok "the same as the driver's" || fail "not the same: $(capture watch | diff "$tmp/three" - | head)"
shows watch 'left out' && fail "bytes were left out instead"
log_of | grep -E 'screen worker.*signal (31|11|6)' && fail "a worker crashed by itself"
ok "no worker crashed by itself"
