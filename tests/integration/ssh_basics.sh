#!/bin/bash
# A person of staff with OpenSSH's own client: commands with exact output and exit codes, both directions byte for byte,
# a terminal with its size, and several sessions over one connection.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=sshbasics
token=$(new_token $agent staff terminal,rounds,observe,drive)
run() { sshc "$token" $agent "$@"; }

equal "a command's output" "hello" "$(run 'echo hello' </dev/null)"
run 'exit 42' </dev/null
equal "its exit code" 42 $?
equal "stderr is apart" "e" "$(run 'echo o; echo e >&2' </dev/null 2>&1 >/dev/null)"
equal "stdin reaches the end of file" "5" "$(printf hello | run 'wc -c' | tr -d ' ')"
run 'kill -TERM $$' </dev/null
equal "a death by signal is 255 for the client" 255 $?
equal "who it is" "1000" "$(run id -u </dev/null)"

head -c 104857600 /dev/urandom >"$tmp/blob"
want=$(sha256sum <"$tmp/blob")
equal "100 MB in" "$want" "$(run sha256sum <"$tmp/blob")"
run 'cat > /workspace/blob' <"$tmp/blob"
equal "100 MB out" "$want" "$(run 'cat /workspace/blob' </dev/null | sha256sum)"
equal "100 MB there and back" "$want" "$(run cat <"$tmp/blob" | sha256sum)"
run 'rm /workspace/blob' </dev/null

SSH_OPTS="-o RekeyLimit=1M"
equal "with new keys each megabyte" "$(head -c 20000000 "$tmp/blob" | sha256sum)" "$(head -c 20000000 "$tmp/blob" | run cat | sha256sum)"
SSH_OPTS="-tt"
equal "a terminal of its own" "/dev/pts/" "$(run tty </dev/null | tr -d '\r' | sed 's/[0-9]*$//')"
SSH_OPTS=

SSH_OPTS="-o ControlMaster=yes -o ControlPersist=60 -o ControlPath=$tmp/cm"
run true </dev/null >/dev/null 2>&1
[ -S "$tmp/cm" ] || fail "no control socket"
SSH_OPTS="-o ControlPath=$tmp/cm"
for i in 1 2 3 4 5; do run "sleep 0.3; echo $i" </dev/null & done >"$tmp/many"
wait
equal "five sessions over one connection" "1 2 3 4 5" "$(sort "$tmp/many" | xargs)"
ssh -F none -o ControlPath="$tmp/cm" -O exit x 2>/dev/null
SSH_OPTS=

sshc wrong-token $agent true </dev/null 2>"$tmp/err"
equal "a wrong token is refused" 255 $?
PRINCIPAL=other
foreign=$(new_token elsewhere staff terminal)
sshc "$foreign" $agent true </dev/null 2>"$tmp/err"
[ $? -ne 0 ] && ok "a token for another agent is refused" || fail "a foreign token got in"

# A start that failed is in the record, and whoever asked for it is told where.
muxctl sandbox resume --workdir /workspace/nowhere sshnowhere >/dev/null || fail "no sandbox of its own directory"
token=$(new_token sshnowhere staff terminal,rounds,observe)
sshc "$token" sshnowhere true </dev/null 2>"$tmp/err" && fail "a command began in a directory that is not there"
failed=$(sed -n 's/.* Session: //p' "$tmp/err" | tr -d '\r')
ended() { muxctl session list --all --agent sshnowhere -o json | jq -r --arg id "$failed" '.sessions[] | select(.id == $id) | .exit.cause'; }
wait_for 10 eval '[ "$(ended)" = not_started ]' || fail "the session of a start that failed: '$failed', $(ended)"
ok "a start that failed names its session"
