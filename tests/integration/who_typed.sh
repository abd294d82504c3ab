#!/bin/bash
# Two people type in one terminal, a third watches. Who came, in which role, and who went is in the audit log; of each byte
# of input the recording says who typed it, and so do its exports.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
agent=typed$$
ada=$(PRINCIPAL=ada new_token $agent staff terminal,observe)
bob=$(PRINCIPAL=bob new_token $agent staff terminal,observe,drive)
mkfifo "$tmp/ada" "$tmp/bob" "$tmp/eve"
sshx "$ada" $agent -tt <"$tmp/ada" >"$tmp/ada.out" 2>&1 &
exec 7>"$tmp/ada"
shown() { grep -q "$2" "$tmp/$1.out"; }
echo 'echo from-$((40+1))' >&7
wait_for 20 shown ada from-41 || fail "no terminal: $(cat "$tmp/ada.out")"
id=$(muxctl session list --agent $agent -o json | jq -r '.sessions[0].id')
sshx "$bob" "$agent+$id" -tt <"$tmp/bob" >"$tmp/bob.out" 2>&1 &
exec 8>"$tmp/bob"
echo 'echo from-$((50+2))' >&8
wait_for 20 shown ada from-52 || fail "bob's keys do not come: $(cat "$tmp/bob.out")"
muxctl attach --observe "$id" <"$tmp/eve" >"$tmp/eve.out" 2>&1 &
exec 9>"$tmp/eve"
echo 'echo from-$((60+3))' >&7
wait_for 20 shown bob from-63 || fail "ada's keys do not come back"
came() { [ "$(events session.attach | jq -r .principal | sort | tr '\n' ' ')" = "$1" ]; }
events() {
	muxctl audit -n 1000 --agent $agent -o json | jq -c --arg event "$1" --arg id "$id" \
		'.. | objects | select(.event? == $event and .detail.session? == $id)'
}
wait_for 20 came "ada bob root " || fail "who came: $(events session.attach)"
echo exit >&8
exec 7>&- 8>&- 9>&-
wait
sealed() { [ "$(muxctl session show "$id" -o json | jq -r '.. | .sealed? // empty' | head -n 1)" = true ] || muxctl verify "$id"; }
wait_for 20 sealed || fail "not sealed"
went() { [ "$(events session.detach | jq -r .principal | sort | tr '\n' ' ')" = "ada bob root " ]; }
wait_for 20 went || fail "who went: $(events session.detach)"
ok "who came and who went is in the audit log"
equal "roles" "driver ada, driver bob, observer root" \
	"$(events session.attach | jq -r '.detail.role + " " + .principal' | sort | paste -sd, | sed 's/,/, /g')"
equal "who went is who came" "$(events session.attach | jq -r .detail.attachment | sort)" "$(events session.detach | jq -r .detail.attachment | sort)"

muxctl export --format json "$id" >"$tmp/events" || fail "no export"
jq -rn --slurpfile e "$tmp/events" '
	reduce $e[] as $x ({who: "", said: []};
		if $x.type == "event" and $x.body.event == "input" then .who = $x.body.principal
		elif $x.type == "data" and $x.stream == "input" then .said += [[.who, $x.data]] else . end)
	| .said[] | "\(.[0]): \(.[1])"' | tr -d '\r' | sed '/^$/d' >"$tmp/said"
equal "each byte has its typist" 'ada: echo from-$((40+1))
bob: echo from-$((50+2))
ada: echo from-$((60+3))
bob: exit' "$(cat "$tmp/said")"
for who in ada bob; do
	equal "what $who typed, in bytes" "$(grep -c "^$who" "$tmp/said")" \
		"$(events session.detach | jq -r --arg w $who 'select(.principal == $w) | .detail.typed_bytes' | awk -v n="$(grep "^$who" "$tmp/said" | sed 's/^[a-z]*: //' | wc -c)" \
		-v m="$(grep -c "^$who" "$tmp/said")" '{print $1 == n ? m : $1 " of " n}')"
done
equal "the input as text" '[ada types]
echo from-$((40+1))
[bob types]
echo from-$((50+2))
[ada types]
echo from-$((60+3))
[bob types]
exit' "$(muxctl export --format text --stream input "$id")"
equal "session show tells it" "$(for who in ada bob; do echo "$who driver $(grep "^$who" "$tmp/said" | sed 's/^[a-z]*: //' | wc -c)"; done; echo root observer 0)" \
	"$(muxctl session show "$id" -o json | jq -r '.people[] | "\(.principal) \(.role) \(.typed_bytes)"' | sort)"
muxctl session show "$id" | grep -q "bob, driver by ssh from" || fail "not in the table: $(muxctl session show "$id")"
muxctl export --format asciicast-v2 "$id" | jq -r 'select(type == "array" and .[1] == "m") | .[2]' >"$tmp/marks"
for mark in "attach ada" "attach bob" "attach root" "input ada" "input bob"; do
	grep -qx "$mark" "$tmp/marks" || fail "no chapter '$mark' among $(cat "$tmp/marks")"
done
ok "a cast has its chapters"
