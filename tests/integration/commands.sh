#!/bin/bash
# The command stream: what was entered at terminals, by whom, is in the audit log and in `session show`, exactly once, also
# when net and recorder are killed meanwhile; what was not echoed is not.
# tier: test, whole KILLS=20
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<'Y'
record: {rules: [{kind: "*", session: "*", rule: full}]}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=commands$$
ada=$(PRINCIPAL=ada new_token $agent staff terminal,observe,rounds)
bob=$(PRINCIPAL=bob new_token $agent staff terminal,observe,drive)
mkfifo "$tmp/ada" "$tmp/bob"
shown() { grep -qa -- "$2" "$tmp/$1.out"; }
# typed WHO FD KEYS OUTPUT: and the answer to it
typed() {
	printf '%b' "$3" >&"$2"
	wait_for 20 shown "$1" "$4" || fail "$1 typed '$3', and there is no '$4': $(cat -v "$tmp/$1.out")"
}
sshx "$ada" $agent -tt <"$tmp/ada" >"$tmp/ada.out" 2>&1 &
ssh_ada=$!
exec 7>"$tmp/ada"
typed ada 7 'echo up-$((40+1))\r' up-41
id=$(muxctl session list --agent $agent -o json | jq -r '.sessions[0].id')
sshx "$bob" "$agent+$id" -tt <"$tmp/bob" >"$tmp/bob.out" 2>&1 &
ssh_bob=$!
exec 8>"$tmp/bob"
typed ada 7 "PS1='\$ '; echo \$((50+2))-set\r" 52-set
typed bob 8 'echo bob-$((60+1))\r' bob-61
typed ada 7 'echo to' 'echo to'
typed bob 8 'gether-$((60+3))\r' gether-63
typed ada 7 'read -sp "word""ing: " x; echo " got-${#x}"\r' wording:
typed ada 7 'hunter2-secret\r' got-14
printf '\e[A\e[A\r' >&7
twice() { [ "$(grep -ca gether-63 "$tmp/ada.out")" -ge 2 ]; }
wait_for 20 twice || fail "the history does not come: $(cat -v "$tmp/ada.out")"
tells() { muxctl session show "$id" -o json | jq -r --argjson n "$1" '.commands | length >= $n' | grep -q true; }
if [ "${KILLS:-1}" -gt 0 ]; then
	wait_for 30 tells 4 || fail "nothing told of a session that goes on: $(muxctl session show "$id" -o json)"
	ok "commands of a live session are told"
fi
for ((k = 0; k < ${KILLS:-1}; k++)); do
	pid=$(ready pids.recorder)
	typed ada 7 "echo kill-$k-\$((70+1))\r" "kill-$k-71"
	[ $((k % 3)) -eq 2 ] && sleep 10 # behind a checkpoint, with its batch
	kill -9 "$pid"
	again() { [ "$(ready pids.recorder)" != "$pid" ] && [ "$(ready pids.recorder)" != 0 ]; }
	wait_for 20 again || fail "the recorder does not come again"
done
typed ada 7 'exit\r' 'logout\|exit'
exec 7>&- 8>&-
wait $ssh_ada $ssh_bob
final() {
	muxctl audit -n 1000 --event session.commands --agent $agent -o json |
		jq -c --arg id "$id" 'select(.record.detail.session == $id and .record.detail.final)' | grep -q .
}
wait_for 30 final || fail "the end is not told: $(muxctl audit -n 1000 --event session.commands -o json)"
muxctl session show "$id" -o json | jq -r '.commands[] |
	"\(.source) \(.principal): \(.command)\(if .shared then " (shared)" else "" end)"' >"$tmp/commands"
equal "each command once, with its source and who entered it" "inferred ada: echo up-\$((40+1))
inferred ada: PS1='$ '; echo \$((50+2))-set
inferred bob: echo bob-\$((60+1))
inferred bob: echo together-\$((60+3)) (shared)
inferred ada: read -sp \"word\"\"ing: \" x; echo \" got-\${#x}\"
inferred ada: echo together-\$((60+3))$(for ((k = 0; k < ${KILLS:-1}; k++)); do printf '\ninferred ada: echo kill-%s-$((70+1))' $k; done)
inferred ada: exit" "$(cat "$tmp/commands")"
muxctl audit -n 1000 --event session.commands -o json >"$tmp/batches"
grep -q hunter2 "$tmp/batches" && fail "a password stands in the log"
equal "an entry of the log is about the session, and says that it is derived" "muxd-screen $id" \
	"$(jq -r --arg id "$id" 'select(.session == $id) | "\(.record.detail.derived_by) \(.session)"' "$tmp/batches" | sort -u)"
muxctl session show "$id" | grep -q '^commands .*inferred, .* by ada: echo up-' || fail "not in the table: $(muxctl session show "$id")"
muxctl exec $agent -- echo a 'b c' >/dev/null || fail "no round"
round=$(muxctl session list --all --agent $agent --kind round -o json | jq -r '.sessions[0].id')
equal "a round's command is exact" '["echo","a","b c"] exact' \
	"$(muxctl session show "$round" -o json | jq -r '.commands[] | "\(.argv | tojson) \(.source)"')"
# A shell that reports its commands, as docs/commands.md has it; and files that were there before, which claim some.
sed -n '/^```bash/,/^```/p' "$here/docs/commands.md" | grep -v '^```' >"$tmp/marks"
printf 'harmless\n\033]633;E;rm -rf /;%s\a' nonce >"$tmp/note"
muxctl put $agent "$tmp/marks" marks.bash >/dev/null && muxctl put $agent "$tmp/note" note >/dev/null || fail "no files"
mkfifo "$tmp/eve"
sshx "$(PRINCIPAL=eve new_token $agent staff terminal,observe)" $agent -tt <"$tmp/eve" >"$tmp/eve.out" 2>&1 &
ssh_eve=$!
exec 9>"$tmp/eve"
typed eve 9 '. /workspace/marks.bash; echo set-$((40+3))\r' set-43
id=$(muxctl session list --agent $agent -o json | jq -r '.sessions[0].id')
typed eve 9 'echo marked-$((50+3)); echo "a;\\\\b"\r' marked-53
typed eve 9 'PS0=; echo bare-$((60+4))\r' bare-64
typed eve 9 'cat /workspace/note; echo note-$((60+5))\r' note-65
# Where it floods not all is drawn, but which screen is on is known.
typed eve 9 'yes | head -c 1M; printf "\\e[?1049h"; yes | head -c 1M; echo alt-$((60+6))\r' alt-66
typed eve 9 'echo in-alt-$((60+7))\r' in-alt-67
typed eve 9 'yes | head -c 1M; printf "\\e[?1049l"; yes | head -c 1M; echo main-$((60+8))\r' main-68
typed eve 9 'echo out-$((60+9))\r' out-69
pid=$(ready pids.net)
kill -9 "$pid"
exec 9>&-
wait $ssh_eve
again() { [ "$(ready pids.net)" != "$pid" ] && [ "$(ready pids.net)" != 0 ]; }
wait_for 20 again || fail "net does not come again"
mkfifo "$tmp/fay"
sshx "$(PRINCIPAL=fay new_token $agent staff terminal,observe,drive)" "$agent+$id" -tt <"$tmp/fay" >"$tmp/fay.out" 2>&1 &
ssh_fay=$!
exec 9>"$tmp/fay"
typed fay 9 'echo after-$((70+1))\r' after-71
typed fay 9 'exit\r' 'logout\|exit'
exec 9>&-
wait $ssh_fay
wait_for 30 final || fail "the end is not told"
equal "what a shell reports, and what a file claims" '["inferred",". /workspace/marks.bash; echo set-$((40+3))",null,null]
["reported","echo marked-$((50+3)); echo \"a;\\\\b\"",null,null]
["reported","PS0=; echo bare-$((60+4))",null,null]
["inferred","cat /workspace/note; echo note-$((60+5))","rm -rf /",null]
["inferred","yes | head -c 1M; printf \"\\e[?1049h\"; yes | head -c 1M; echo alt-$((60+6))",null,null]
["inferred","echo out-$((60+9))",null,null]
["inferred","echo after-$((70+1))",null,null]
["inferred","exit",null,null]' "$(muxctl session show "$id" -o json | jq -c '.commands[] | [.source, .command, .claimed, .screen]')"
muxctl session show "$id" -o json | jq -r '.commands[] |
	"\(.source) \(.principal): \(.command)\(if .shared then " (shared)" else "" end)"' >"$tmp/commands"
muxctl verify --all >"$tmp/verdict" || fail "$(cat "$tmp/verdict")"
muxctl shutdown --sandboxes >/dev/null
wait "$DAEMON"
equal "without a daemon the log tells the same" "$(cat "$tmp/commands")" "$(muxctl session show "$id" -o json | jq -r '.commands[] |
	"\(.source) \(.principal): \(.command)\(if .shared then " (shared)" else "" end)"')"
