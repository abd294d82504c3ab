#!/bin/bash
# A connection breaks under somebody's hands, more than once; they come back by `last`, by the session's id and by muxctl,
# and find the shell as they left it. What was printed meanwhile is on the screen and in the recording, once. Somebody
# watches, who cannot type; at the end the session is terminated from outside.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/full.yaml" <<Y
journal: {dir: $tmp/journal, size: 8MiB}
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"
agent=back
token=$(new_token $agent staff terminal,observe,drive)
(umask 077 && printf '%s' "$token" >"$tmp/token")
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
stories=()
trap 'end_own "${stories[@]}"; stop_daemon; tidy' EXIT

# enter NAME LOGIN: a client by SSH; what is written to descriptor ${to[NAME]} is typed, $tmp/NAME is its screen
declare -A to pid
enter() {
	mkfifo "$tmp/$1.in"
	SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force ssh -F none -tt -p "$(ssh_port)" -o StrictHostKeyChecking=no \
		-o UserKnownHostsFile="$tmp/known" -o LogLevel=ERROR -l "$2" 127.0.0.1 <"$tmp/$1.in" >"$tmp/$1" 2>&1 &
	pid[$1]=$!
	stories+=($!)
	exec {fd}>"$tmp/$1.in"
	to[$1]=$fd
}
typed() { printf '%s\n' "$2" >&"${to[$1]}"; }
sees() { grep -qaE -- "$2" "$tmp/$1"; }
# shown NAME PATTERN WHAT
shown() { wait_for 10 sees "$1" "$2" && ok "$3" || fail "$3: no '$2' in: $(tail -c 1000 "$tmp/$1")"; }
gone() { ! kill -0 "${pid[$1]}" 2>/dev/null; }
live() { muxctl session list --agent $agent -o json | jq -c ".sessions[] | select(.id==\"$session\")"; }
attached() { [ "$(live | jq '.attachments | length')" = "$1" ]; }

enter first $agent
typed first 'stty -echo; PS1=; HERE=kept$((6*7)); echo set$((1+1))'
shown first 'set2' "a shell"
session=$(muxctl session list --agent $agent --kind terminal -o json | jq -r '.sessions[0].id')
equal "one client on it" 1 "$(live | jq '.attachments | length')"

# What ended since takes no place in the list, and rounds with long arguments do not make it too long to be told.
long=$(head -c 100000 /dev/zero | tr '\0' x)
for _ in $(seq 12); do muxctl exec $agent -- true "$long" || fail "no round"; done
equal "what lives is found behind what ended" "$session" "$(muxctl session list --agent $agent -n 5 -o json | jq -r '.sessions[].id')"
equal "and shown" running "$(muxctl session show "$session" -o json | jq -r .state)"
muxctl session list --agent $agent --in ended -o json >"$tmp/ended"
equal "long arguments are left out of lists" "12 true" "$(jq -r '.sessions | map(select(.argv == ["true"])) | "\(length) \(.[0].argv_truncated)"' "$tmp/ended")"
typed first 'for i in $(seq 1 40); do echo line-$i; sleep 0.05; done; echo counted'
shown first 'line-5' "a program that prints"
kill -KILL "${pid[first]}"
wait_for 5 attached 0 && ok "the connection breaks, the session stays" || fail "still attached: $(live)"

enter second $agent+last
shown second 'counted' "back by 'last': what was printed meanwhile"
typed second 'echo $HERE-again'
shown second 'kept42-again' "the variable is still set"
typed second 'echo sleeps; sleep 1; echo slept-$HERE'
shown second '^sleeps' "a program that is quiet for a while"
kill -KILL "${pid[second]}"
wait_for 5 attached 0 || fail "still attached: $(live)"
sleep 1.2

enter third "$agent+$session"
typed third 'echo third-$HERE'
shown third 'third-kept42' "back by the session's id"
shown third 'slept-kept42' "with what was printed while nobody was there"

# Somebody watches, by muxctl in a terminal of its own, and cannot type.
mkfifo "$tmp/watch.in"
MUXCTL_CMD="stty cols 90 rows 20; exec $MUXCTL --state $MUXD_STATE attach --observe $session"
SHELL=/bin/sh script -qefc "$MUXCTL_CMD" /dev/null <"$tmp/watch.in" >"$tmp/watch" 2>&1 &
watcher=$!
stories+=($!)
exec {watch}>"$tmp/watch.in"
wait_for 10 attached 2 || fail "nobody watches: $(cat "$tmp/watch")"
equal "a watcher is listed" observer "$(live | jq -r '.attachments[1].role')"
typed third 'echo both-$HERE'
shown third 'both-kept42' "who types sees it"
shown watch 'both-kept42' "who watches sees the same"
printf 'echo intruder$((1+1))\n' >&"$watch"
sleep 0.5
sees third intruder2 && fail "a watcher typed"
ok "a watcher cannot type"
kill -WINCH "$(pgrep -P $watcher)"
"$MUXCTL" --state "$MUXD_STATE" attach --observe "$session" </dev/null >"$tmp/dull" 2>"$tmp/dull.err" &
dull=$!
stories+=($!)
wait_for 10 attached 3 || fail "nobody watches without a keyboard: $(cat "$tmp/dull.err")"
typed third 'echo after-$HERE'
shown watch 'after-kept42' "a watcher whose window changes goes on watching"
shown dull 'after-kept42' "so does one without an input"
kill -INT $dull
wait $dull
equal "Ctrl-C ends it" 130 $?
sees third after-kept42 && attached 2 || fail "the terminal felt it: $(live)"
printf '\035d' >&"$watch"
wait_for 5 attached 1 && ok "and leaves by Ctrl-] d" || fail "the watcher is still there: $(cat -v "$tmp/watch")"
wait $watcher

# Two at once by SSH: both drive, both see.
enter fourth "$agent+$session"
wait_for 5 attached 2 || fail "no second driver: $(cat "$tmp/fourth")"
typed fourth 'echo fourth-$HERE'
shown third 'fourth-kept42' "a second one types, the first sees it"

muxctl export "$session" --format raw --stream output >"$tmp/live" || fail "a running session cannot be read"
grep -q fourth-kept42 "$tmp/live" && ok "a running session can be read from the record" || fail "not in the record"

muxctl session terminate "$session" --reason "end of the story" >"$tmp/out" || fail "not terminated: $(cat "$tmp/out")"
wait_for 10 gone third && wait_for 10 gone fourth && ok "terminated: every client is let go" || fail "clients stay"
SSHPASS=$token sshpass -e ssh -F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" \
	-o LogLevel=ERROR -tt -l "$agent+$session" 127.0.0.1 </dev/null >"$tmp/err" 2>&1
equal "there is nothing to come back to" 255 $?
grep -q "not_found\|ended" "$tmp/err" && ok "which is said" || fail "no reason: $(cat "$tmp/err")"

verified() { muxctl verify "$session"; }
wait_for 10 verified || fail "not sealed: $(muxctl verify "$session" 2>&1)"
muxctl export "$session" --format raw --stream output | tr -d '\r' >"$tmp/raw"
equal "the recording has every line once" "$(for i in $(seq 1 40); do echo "line-$i"; done | sha256sum)" "$(grep '^line-' "$tmp/raw" | sha256sum)"
for text in set2 counted kept42-again slept-kept42 third-kept42 both-kept42 fourth-kept42; do
	equal "and '$text' once" 1 "$(grep -c -- "$text" "$tmp/raw")"
done
muxctl export "$session" --format json | jq -r 'select(.type=="event") | .body | "\(.event) \(.role // "")"' >"$tmp/events"
equal "six who came" 6 "$(grep -c '^attach' "$tmp/events")"
equal "two to watch" 2 "$(grep -c '^attach observer' "$tmp/events")"
[ "$(grep -c '^detach' "$tmp/events")" -ge 3 ] && ok "and who left" || fail "leaving is not recorded: $(cat "$tmp/events")"
muxctl audit -n 1000 -o json | jq -r '.record | select(.reason=="end of the story" or .detail.reason=="end of the story") | .event' | grep -q . &&
	ok "who ended it, and why, is in the audit" || fail "no reason in the audit"
