#!/bin/bash
# Somebody works in a terminal: sizes, letters beyond ASCII, Ctrl-C and Ctrl-Z, an editor; loses the connection, comes
# back by `last` and by the session's id, and finds the shell as it was; then leaves it with an exit status.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=sshterm
token=$(new_token $agent staff terminal,rounds,observe,drive)
tm() { tmux -L "muxd-$$" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null; tidy' EXIT
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
(umask 077 && printf '%s' "$token" >"$tmp/token")

# enter LOGIN: a client in a window of 80 by 24
enter() {
	tm new-session -d -x 80 -y 24 "SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force ssh -F none -p $(ssh_port) \
		-o StrictHostKeyChecking=no -o UserKnownHostsFile=$tmp/known -o LogLevel=ERROR $1@127.0.0.1; echo left \$?; sleep 600"
}
keys() { tm send-keys "$@"; }
# sees TEXT: the screen shows it within 10 s
shows() { tm capture-pane -p | grep -qF -- "$1"; }
sees() {
	if wait_for 10 shows "$1"; then
		ok "$2"
	else
		tm capture-pane -p >&2
		fail "$2: '$1' is not on the screen"
	fi
}

enter $agent
wait_for 15 shows '$' || fail "no prompt"
keys 'stty size' Enter
sees "24 80" "the terminal has the client's size"
tm resize-window -x 100 -y 30
keys 'clear; stty size' Enter
sees "30 100" "and follows it"
keys "clear; printf 'gr\\303\\274n %s\\n' '✓ 漢字'" Enter
sees "grün ✓ 漢字" "letters beyond ASCII, both ways"
keys "clear; echo be''gun; sleep 600; echo status \$?" Enter
sees begun "a program runs"
sleep 0.3
keys C-c
sees "^C" "Ctrl-C arrives"
keys "clear; echo be''gun; sleep 601" Enter
sees begun "another runs"
sleep 0.3
keys C-z
sees "Stopped" "Ctrl-Z stops a job"
keys 'clear; bg; jobs; kill %1; wait' Enter
sees "Running" "and bg goes on with it"
keys 'clear; vi -u NONE -c "set number" /etc/passwd' Enter
sees "1 root:" "an editor draws its screen"
keys Escape ':q!' Enter
sees "agent@" "and gives the screen back" # what is typed before that, an editor may throw away
keys 'clear; HERE=yes; echo set' Enter
sees "set" "a variable is set"

session=$(muxctl session list -o json | jq -r ".sessions[] | select(.agent==\"$agent\" and .kind==\"terminal\" and .state==\"running\").id")
[ -n "$session" ] && ok "the session is listed" || fail "the session is not listed"
keys Enter '~.'
sleep 0.5
tm kill-server
enter $agent+last
keys 'echo $HERE is $((6*7))' Enter
sees "yes is 42" "who comes back by 'last' finds the shell"
tm kill-server
enter "$agent+$session"
keys 'clear; echo $HERE again; stty size' Enter
sees "yes again" "and by the session's id"
sees "24 80" "in the size of the window they have now"
keys 'exit 7' Enter
sees "left 7" "the shell's exit status is the client's"
tm kill-server
sshc "$token" $agent+last </dev/null 2>"$tmp/err"
equal "there is nothing to come back to" 255 $?
grep -q not_found "$tmp/err" && ok "which is said" || fail "no reason given: $(cat "$tmp/err")"
sshc "$token" $agent+last true </dev/null 2>"$tmp/err"
equal "a command is not a way back" 255 $?
