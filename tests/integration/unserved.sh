#!/bin/bash
# A sandbox whose muxlet cannot serve is told as such, and is whole again for whoever asks next: its programs end, its files stay.
# LONG=1 adds a daemon that stands still, and a muxlet that does with nobody to say so, which takes two minutes.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

[ "$(id -u)" = 0 ] || { echo "  not run: only root can take descriptors from another's process"; exit 0; }
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
agent=unserved
token=$(PRINCIPAL=bot new_token $agent agent rounds,files)
round() { api "$token" POST "/v1/agents/$agent/rounds" "$1"; }
show() { muxctl sandbox show $agent -o json; }
muxlet() { jq -r .init.pid "$MUXD_STATE/sandboxes/$agent/sandbox.json"; }
works() { answer=$(round "{\"command\":\"cat /workspace/kept\"}"); [ "$(jq -r .stdout.data <<<"$answer")" = kept ]; }
left() { round '{"command":"pgrep -f \"[s]leep 986\""}' | jq -r .exit.code; }
begin() {
	round '{"command":"echo kept >/workspace/kept; sleep 986 >/dev/null 2>&1 &"}' | jq -e '.exit.code == 0' >/dev/null || fail "no round"
	equal "a program is in the background" 0 "$(left)"
	before=$(show | jq -r .sandbox_id)
}

begin
# as its own user, from outside: root need not have the right
uid=$(jq -r .uid "$MUXD_STATE/sandboxes/$agent/sandbox.json")
setpriv --reuid "$uid" --regid "$uid" --clear-groups prlimit --pid "$(muxlet)" --nofile=5:5 || fail "muxlet keeps its descriptors"
answer=$(round '{"argv":["true"]}')
jq -e '.error.code == "unavailable" and (.error.message | test("no descriptors left"))' <<<"$answer" >/dev/null || fail "without descriptors a start says: $answer"
show | jq -e '.state == "error" and (.detail | test("no descriptors left.*begun anew.*workspace stays"))' >/dev/null || fail "it is shown as $(show)"
muxctl sandbox list --in error -o json | jq -e --arg a $agent '[.agents[] | select(.agent == $a and .state == "error")] | length == 1' >/dev/null ||
	fail "among those in error: $(muxctl sandbox list --in error)"
own=$(new_token $agent staff observe,lifecycle)
api "$own" GET "/v1/agents?state=error" | jq -e '[.agents[].state] == ["error"]' >/dev/null || fail "for its own grant: $(api "$own" GET "/v1/agents?state=error")"
works || fail "who asks next is not served: $answer"
equal "its programs ended" 1 "$(left)"
equal "it runs" running "$(show | jq -r .state)"
[ "$before" != "$(show | jq -r .sandbox_id)" ] || fail "it is the same one"
muxctl audit -n 100 --event sandbox.healed -o json | grep -q "no descriptors" || fail "the audit log does not tell of it"
ok "without descriptors: told, and whole again for who asks next"

begin
kill -STOP "$(muxlet)"
begun=$SECONDS
muxctl sandbox kill $agent --timeout 2s --reason "it stands still" >/dev/null || fail "what stands still is not ended"
[ $((SECONDS - begun)) -le 8 ] || fail "that took $((SECONDS - begun)) s"
works || fail "not served after the kill"
equal "its programs ended" 1 "$(left)"
ok "standing still: ended from outside by a kill, and its files are there"

[ -n "${LONG:-}" ] || exit 0
begin
net=$(ready pids.net)
kill -STOP "$(muxlet)"
kill -KILL "$net"
other() { [ -n "$(ready pids.net)" ] && [ "$(ready pids.net)" != "$net" ]; }
wait_for 10 other || fail "net did not come back"
round '{"command":"echo answered"}' >"$tmp/answer" &
asked=$!
sleep 3
kill -STOP "$(ready pids.net)"
kill -CONT "$(muxlet)"
sleep 22
kill -CONT "$(ready pids.net)"
wait $asked
equal "a daemon that stood still ends nobody's programs" 0 "$(left)"

begin
kill -STOP "$(muxlet)"
told() { show | jq -e '.state == "error" and (.detail | test("does not answer"))'; }
wait_for 30 told || fail "after two minutes it is shown as $(show)"
works || fail "who asks is not served"
ok "standing still: told within $((SECONDS - begun)) s, and whole again for who asks"
