#!/bin/bash
# One connection, many sessions (ControlMaster): side by side, one after the other, up to the limit; what each prints and
# how each ends stays its own. Forwarding, agents and subsystems are refused, and the connection goes on.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=sshmux
token=$(new_token $agent staff terminal)
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
(umask 077 && printf '%s' "$token" >"$tmp/token")
export SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force
options=(-F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" -o LogLevel=ERROR
	-o PreferredAuthentications=password -o NumberOfPasswordPrompts=1 -l "$agent" -o ControlPath="$tmp/cm")
master() { ssh "${options[@]}" -o ControlMaster=yes -f -N 127.0.0.1; }
# No password is given here: this works over the master or not at all.
over() { SSH_ASKPASS=/bin/false ssh "${options[@]}" -o ControlMaster=no 127.0.0.1 "$@"; }
# The same as a process of its own, to be run with &: $! is the client.
apart() { SSH_ASKPASS=/bin/false exec ssh "${options[@]}" -o ControlMaster=no 127.0.0.1 "$@"; }
trap 'ssh "${options[@]}" -O exit 127.0.0.1 2>/dev/null; tidy' EXIT

master || fail "no connection"
jobs=()
for i in 1 2 3 4 5; do
	over "sleep 0.3; echo out $i; echo err $i >&2; exit $i" </dev/null >"$tmp/out$i" 2>"$tmp/err$i" &
	jobs+=($!)
done
for i in 1 2 3 4 5; do
	wait "${jobs[$((i - 1))]}"
	equal "session $i ends with its own status" "$i" $?
	equal "its output" "out $i" "$(cat "$tmp/out$i")"
	equal "its stderr" "err $i" "$(cat "$tmp/err$i")"
done

head -c 20000000 /dev/urandom >"$tmp/blob"
want=$(sha256sum <"$tmp/blob")
over cat <"$tmp/blob" | sha256sum >"$tmp/sum1" &
one=$!
over sha256sum <"$tmp/blob" >"$tmp/sum2" &
two=$!
equal "a third one answers while two are busy" "quick" "$(over 'echo quick' </dev/null)"
wait $one $two
equal "20 MB there and back beside others" "$want" "$(cat "$tmp/sum1")"
equal "20 MB in beside others" "$want" "$(cat "$tmp/sum2")"

for i in $(seq 40); do
	[ "$(over "echo $i" </dev/null)" = "$i" ] || fail "session $i of forty"
done
ok "forty sessions one after the other"

jobs=()
for _ in $(seq 10); do
	apart 'sleep 60' </dev/null &
	jobs+=($!)
done
sleep 1
over true </dev/null 2>"$tmp/err" && fail "an eleventh session got in"
ok "ten at once are the limit of a connection"
kill "${jobs[@]}"
wait "${jobs[@]}" 2>/dev/null
wait_for 10 over true && ok "and room again once they are gone" || fail "no session after the limit"

# A client that is gone, with input that its program does not read: it is not waited for.
live() { muxctl session list -o json | jq "[.sessions[] | select(.agent == \"$agent\" and .state == \"running\")] | length"; }
gone() { [ "$(live)" = 0 ]; }
wait_for 10 gone || fail "$(live) sessions are left"
head -c 1000000 "$tmp/blob" | apart 'sleep 3600' &
left=$!
wait_for 10 eval '[ "$(live)" = 1 ]' || fail "no session"
sleep 1
kill $left
wait $left 2>/dev/null
wait_for 30 gone && ok "a program that does not read what its client left ends" || fail "it lives on"

ssh "${options[@]}" -O forward -R 7777:127.0.0.1:1 127.0.0.1 2>"$tmp/err" && fail "a remote forwarding was granted"
ok "no remote forwarding"
SSHPASS=$token sshpass -e ssh "${options[@]}" -o ControlPath=none -W 127.0.0.1:22 127.0.0.1 </dev/null 2>"$tmp/err" &&
	fail "a direct connection was granted"
ok "no direct connections"
equal "no agent and no X11 come along" "[][]" "$(SSHPASS=$token sshpass -e ssh "${options[@]}" -o ControlPath=none -A -X 127.0.0.1 'echo "[$SSH_AUTH_SOCK][$DISPLAY]"' </dev/null 2>/dev/null)"
over -s sftp </dev/null 2>"$tmp/err"
over_sftp=$?
ssh "${options[@]}" -o ControlMaster=no -s 127.0.0.1 sftp </dev/null >/dev/null 2>"$tmp/err"
[ $? -ne 0 ] && [ $over_sftp -ne 0 ] && grep -q "sftp is not offered" "$tmp/err" && ok "no sftp, and it says so" || fail "sftp: $(cat "$tmp/err")"
equal "the connection goes on" "still here" "$(over 'echo still here' </dev/null)"
