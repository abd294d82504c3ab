#!/bin/bash
# A client that stops reading stalls nobody and fills no memory, and is let go when it answers no keepalive. A grant that
# ends is announced in the window's title, and cuts its terminal.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
ssh: {keepalive: 1s, keepalive_max: 2}
grants: {warn: 3s}
journal: {dir: $tmp/journal, size: 16MiB}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=sshslow
token=$(new_token $agent staff terminal,drive)
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
(umask 077 && printf '%s' "$token" >"$tmp/token")
export SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force
options=(-F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" -o LogLevel=ERROR
	-o PreferredAuthentications=password)
net=$(ready pids.net)
rss() { awk '/^VmRSS/{print $2}' "/proc/$net/status"; }

sshc "$token" $agent true </dev/null || fail "no session"
ssh "${options[@]}" -l $agent 127.0.0.1 'yes' </dev/null >/dev/null &
flood=$!
sleep 1
kill -STOP $flood
sleep 0.5
before=$(rss)
start=$(date +%s%N)
equal "others are answered beside a stopped client" "in time" "$(sshc "$token" $agent 'echo in time' </dev/null)"
took=$((($(date +%s%N) - start) / 1000000))
[ $took -lt 20000 ] && ok "without delay" || fail "it took $took ms"
sleep 2
grown=$(($(rss) - before))
[ $grown -lt 8192 ] && ok "what it does not read is not kept" || fail "the daemon grew by $grown kB"
gone() { grep -q "no answer to 2 keepalives" "$MUXD_STATE/daemon.log"; }
wait_for 15 gone && ok "it is let go after two keepalives" || fail "a dead client is kept"
kill -CONT $flood 2>/dev/null
kill $flood 2>/dev/null
wait $flood 2>/dev/null
equal "a silent client that lives is kept" "awake" "$(sshc "$token" $agent 'sleep 6; echo awake' </dev/null)"

# Other times are for who is in already, too: with 0 nobody is asked any more, and nobody is cut for not answering.
sshc "$token" $agent 'echo in; sleep 8; echo on' </dev/null >"$tmp/idle" &
idle=$!
wait_for 10 grep -q in "$tmp/idle" || fail "no session"
sed -i 's/keepalive: 1s/keepalive: 0/' "$tmp/muxd.yaml"
kill -HUP "$DAEMON"
wait $idle
equal "an idle client stays when keepalives are turned off" "in on" "$(xargs <"$tmp/idle")"
grep -q "configuration reloaded" "$MUXD_STATE/daemon.log" || fail "the configuration was not read again"

new_token $agent staff terminal,drive 6s >"$tmp/token"
{
	echo 'echo set'
	sleep 8
} | ssh "${options[@]}" -tt -l $agent 127.0.0.1 >"$tmp/screen" 2>&1
equal "a client whose grant has ended" 255 "${PIPESTATUS[1]}"
said() { tr -d '\r' <"$tmp/screen" | grep -q "\[muxd\] .*$1"; }
said "access expires in" && ok "was warned ahead" || fail "no warning: $(cat "$tmp/screen")"
said "grant has ended" && ok "and told when it was cut" || fail "no last word: $(cat "$tmp/screen")"
gone() { [ "$(muxctl session list -o json | jq "[.sessions[] | select(.agent==\"$agent\" and .state==\"running\")] | length")" = 0 ]; }
wait_for 15 gone && ok "a terminal that nobody else has a grant for ends with it" || fail "the terminal goes on"

stop_daemon
grep -E 'Sanitizer|runtime error' "$MUXD_STATE/daemon.log" && fail "the daemon's log has findings"
ok "the daemon ended without findings"
