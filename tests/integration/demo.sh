#!/bin/bash
# muxctl demo: a sandbox is made, runs a program, takes a file and gives it back, and is gone; each step in one line.
# And muxctl sandbox: made, listed, shown with backend and limits, ended, removed.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

muxctl demo >"$tmp/out" 2>"$tmp/err" || fail "muxctl demo: $(cat "$tmp/out" "$tmp/err")"
cat "$tmp/out"
equal "five steps, all of them well" "ok create ok exec ok put ok get ok destroy" "$(awk '{printf "%s%s %s", s, $1, $2; s = " "}' "$tmp/out")"
equal "nothing on stderr" "" "$(cat "$tmp/err")"
name=$(grep -o 'demo-[0-9a-f]*' "$tmp/out" | head -n 1)
equal "the sandbox is gone, and its workspace" null "$(muxctl sandbox list -o json | jq --arg n "$name" '[.agents[] | select(.agent == $n)][0]')"
muxctl demo --backend kubernetes >"$tmp/out" 2>&1
equal "another backend than the daemon's is an error" 75 $?
grep -q '^FAIL  create .*set sandbox.backend to kubernetes$' "$tmp/out" && ok "that says what to set" || fail "$(cat "$tmp/out")"
equal "as JSON" "true 5" "$(muxctl demo --backend local -o json | jq -r '"\(.ok) \(.steps | length)"')"

agent=demo-sandbox
show() { muxctl sandbox show $agent -o json | jq -r "$1"; }
muxctl sandbox show $agent >/dev/null 2>"$tmp/err" && fail "a sandbox that nobody made was shown"
grep -qF '[not_found]' "$tmp/err" && ok "what is not there is not found"
equal "made" "running local" "$(muxctl sandbox create $agent -o json | jq -r '"\(.state) \(.backend)"')"
equal "listed" running "$(muxctl sandbox list -o json | jq -r --arg a $agent '.agents[] | select(.agent == $a).state')"
equal "shown with its limits" boolean "$(show '.enforced.workspace_size | type')"
first=$(show .sandbox_id)
muxctl exec -n $agent -- sh -c 'echo kept >file; sleep 1000' &
round=$!
wait_for 20 sh -c "[ \"\$('$MUXCTL' --state '$MUXD_STATE' sandbox show $agent -o json | jq .sessions)\" = 1 ]" || fail "its session is not counted"
muxctl sandbox destroy $agent >/dev/null 2>"$tmp/err" && fail "ended without a reason"
grep -qF '[reason_required]' "$tmp/err" && ok "an end needs a reason"
equal "ended" stopped "$(muxctl sandbox destroy --reason "the story goes on" $agent -o json | jq -r .state)"
wait $round && fail "its round went on"
ok "with what ran in it"
equal "shown as such" stopped "$(show .state)"
muxctl sandbox destroy --reason "once more" $agent >/dev/null && ok "a second end is no error"
equal "its workspace was kept" kept "$(muxctl exec -n $agent -- cat file)"
[ "$first" != "$(show .sandbox_id)" ] && ok "in a new incarnation" || fail "the sandbox has the id of the one that ended"
muxctl sandbox stop --reason "with a snapshot" $agent >/dev/null || fail "not stopped"
kept() { muxctl sandbox snapshots $agent -o json 2>/dev/null | jq '.snapshots | length'; }
equal "a snapshot" 1 "$(kept)"
/usr/bin/python3 - "$MUXD_STATE/admin.sock" $agent >"$tmp/raw" <<'P'
import json, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.send(json.dumps({"op": "sandbox.destroy", "agent": sys.argv[2], "reason": "raw", "wipe": True}).encode())
print(json.loads(s.recv(65536))["error"]["code"])
P
equal "nothing is wiped behind the back of who keeps the rows" "unsupported 1" "$(cat "$tmp/raw") $(kept)"
equal "all of it is removed" absent "$(muxctl sandbox destroy --wipe --reason "the end" $agent -o json | jq -r .state)"
equal "its snapshot, too" 0 "$(kept | grep . || echo 0)"
muxctl sandbox show $agent >/dev/null 2>&1 && fail "it is still there"
equal "and with --wipe it is not" 1 "$(muxctl exec -n $agent -- test -e file >/dev/null 2>&1; echo $?)"
muxctl sandbox destroy --wipe --reason "the end" $agent >/dev/null
audited() { muxctl audit --agent $agent --event sandbox.destroy -n 100 -o json | jq -c 'select(.record.detail.reason == "the story goes on" and .record.outcome == "ok")' | grep -q .; }
wait_for 20 audited && ok "who ended it, and why, is in the audit log" || fail "no such event"
