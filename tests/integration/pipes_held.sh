#!/bin/bash
# Programs hold the locks of their own pipes by splice(2), for as long as they like: rounds and terminals beside them go
# on. When they hold all that muxlet has threads for, staff goes on, a round is told why it cannot begin, whoever asks next
# has the sandbox begun anew with its workspace, and the sandbox can be stopped and killed whatever is held.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "the daemon did not start"
trap 'stop_daemon; tidy' EXIT
agent=held
bot=$(PRINCIPAL=bot new_token $agent agent rounds,files)
staff=$(PRINCIPAL=anna new_token $agent staff terminal,rounds,observe,lifecycle)
round() { api "$bot" POST "/v1/agents/$agent/rounds" "{\"argv\":$1}"; }

# What the program reads goes to a socket that is full. What holds the pipe has left its round, so that the end of that
# frees nothing.
cat >"$tmp/hold.py" <<'PY'
import os, socket, time
a, b = socket.socketpair()
a.setblocking(False)
try:
    while True:
        a.send(b"y" * 4096)
except BlockingIOError:
    pass
a.setblocking(True)
for s in (a, b):
    os.set_inheritable(s.fileno(), True)
if os.fork() == 0:
    os.setsid()
    code = "import os; os.write(2, b'ready'); os.splice(0, %d, 4096)" % a.fileno()
    os.execve("/usr/bin/python3", ["python3", "-c", code], {})
time.sleep(600)
PY
PRINCIPAL=bot muxctl put $agent "$tmp/hold.py" /workspace/hold.py >/dev/null || fail "the program is not put"
shell=$(PRINCIPAL=bot new_token $agent agent rounds,terminal)

holders=()
# More input comes when the kernel is at the first.
hold() {
	{
		printf 0123456789
		for _ in $(seq 600); do sleep 0.1 && printf more 2>/dev/null || break; done
	} | SSH_OPTS=-T sshc "$shell" $agent "exec python3 /workspace/hold.py" >"$tmp/out.$1" 2>&1 &
	holders+=($!)
}
ready_are() { [ "$(cat "$tmp"/out.* | grep -o ready | wc -l)" -ge "$1" ]; }
let_go() {
	kill "${holders[@]}" 2>/dev/null
	wait "${holders[@]}" 2>/dev/null
	holders=()
	rm -f "$tmp"/out.*
}

hold 1
hold 2
wait_for 20 ready_are 2 || fail "the holders: $(cat "$tmp"/out.*)"
sleep 1
equal "a round beside programs that hold their pipes" hi "$(round '["echo","hi"]' | jq -r .stdout.data)"
equal "a terminal" in-42 "$(sshx "$staff" $agent -tt 2>&1 <<<'stty -echo; echo in-$((40+2)); exit' | tr -d '\r' | grep -o in-42 | head -n 1)"

# a stop, and a kill of all that is inside
PRINCIPAL=anna muxctl sandbox stop $agent --reason held >"$tmp/stop" 2>&1 || fail "the stop: $(cat "$tmp/stop")"
let_go
equal "it is stopped, and begins again with its workspace" 0 "$(round '["test","-f","/workspace/hold.py"]' | jq .exit.code)"
hold 1
wait_for 20 ready_are 1 || fail "the holder: $(cat "$tmp"/out.*)"
sleep 1
api "$staff" POST "/v1/agents/$agent/kill" '{"reason":"it holds its pipe"}' >"$tmp/kill"
jq -e 'has("error") | not' "$tmp/kill" >/dev/null || fail "the kill: $(cat "$tmp/kill")"
let_go
equal "everything inside is ended, and it goes on" 0 "$(round '["true"]' | jq .exit.code)"

# all that muxlet has for agents is held
for n in $(seq 10); do hold "$n"; done # PIPES_COMMON of muxd/muxlet/pipes.h
wait_for 40 ready_are 10 || fail "the holders: $(cat "$tmp"/out.*)"
refused() {
	round '["true"]' >"$tmp/answer"
	jq -e '.error.code == "unavailable"' "$tmp/answer" >/dev/null
}
equal "staff works on" there "$(muxctl exec --task story $agent -- cat <<<there)"
wait_for 60 refused || fail "a round where all is held: $(cat "$tmp/answer")"
jq -e '.error.message | test("hold the pipes.*begun anew")' "$tmp/answer" >/dev/null || fail "not said: $(cat "$tmp/answer")"
state() { muxctl sandbox show $agent -o json | jq -r .state; }
equal "its state says so" error "$(state)"
equal "who asks next has it begun anew, with its workspace" 0 "$(round '["test","-f","/workspace/hold.py"]' | jq .exit.code)"
let_go
equal "and it runs" running "$(state)"
muxctl audit -o json | jq -s -e 'any(.[] | (.[]? // .); .event? == "sandbox.healed")' >/dev/null || fail "the audit log does not say that it was begun anew"
muxctl sandbox terminate $agent --reason story --how keep >/dev/null || fail "its end was refused"
verified() { muxctl verify --all >"$tmp/verify"; }
wait_for 20 verified || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "the record verifies"
