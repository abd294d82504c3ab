#!/bin/bash
# Advisory locks of a shared workspace: taken, renewed, released, listed; conflicts name the holder, of many at once one
# wins; they outlive a killed daemon and not their time, and the audit log has it all.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
token() { muxctl grant create --agent shared --principal "$1" --kind agent --scopes "${3:-files}" --task "$2" --ttl 10m --reason story "${@:4}" -o json | jq -r .token; }
A=$(token a one) B=$(token b one) A2=$(token a two)
c() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer ${TOKEN:-$A}" "$@"; }
L=http://localhost/v1/agents/shared/locks
# take BODY: status and code; the answer is in $tmp/out
take() { echo "$(c -o "$tmp/out" -w '%{http_code}' -d "$1" "$L") $(jq -r '.error.code // .principal' "$tmp/out")"; }
id() { jq -r .id "$tmp/out"; }
held() { c "$L" | jq -r '[.locks[] | "\(.path):\(.principal)"] | join(" ")'; }

equal "a lock is taken" "201 a" "$(take '{"path":"src","ttl_ms":60000,"label":"w1"}')"
ID=$(id)
equal "the same call again renews it" "201 a $ID true" "$(take '{"path":"./src/","ttl_ms":90000,"label":"w1"}') $(jq -r '"\(.id) \(.renewed)"' "$tmp/out")"
equal "another's conflicts" "423 locked" "$(TOKEN=$B take '{"path":"/workspace/src"}')"
equal "and is told whose it is" "a one w1 $ID" "$(jq -r '.error.details | "\(.principal) \(.task_id) \(.label) \(.id)"' "$tmp/out")"
equal "so does one below, above, and of the workspace" "423 locked 423 locked 423 locked" \
	"$(TOKEN=$B take '{"path":"src/a/b"}') $(TOKEN=$B take '{"path":"."}') $(take '{"path":"src/x"}')"
equal "also one's own under another label or task" "423 locked 423 locked" "$(take '{"path":"src","label":"w2"}') $(TOKEN=$A2 take '{"path":"src","label":"w1"}')"
equal "but not a name that begins alike" "201 b" "$(TOKEN=$B take '{"path":"src2"}')"
OTHER=$(id)
equal "all see them" "src:a src2:b" "$(TOKEN=$B held)"
equal "another's is not renewed or released" "404 404" \
	"$(TOKEN=$B c -o /dev/null -w '%{http_code}' -X POST "$L/$ID") $(TOKEN=$B c -o /dev/null -w '%{http_code}' -X DELETE "$L/$ID")"
equal "one's own is" "200 200" "$(c -o "$tmp/out" -w '%{http_code}' -d '{"ttl_ms":120000}' "$L/$ID") $(TOKEN=$B c -o "$tmp/out" -w '%{http_code}' -X DELETE "$L/$OTHER")"
equal "with admin anybody's" 200 "$(TOKEN=$(token root one files,admin) c -o /dev/null -w '%{http_code}' -X DELETE "$L/$ID")"
equal "none is left" "" "$(held)"
for bad in '{"path":"../x"}' '{"path":"/etc"}' '{"path":"x","ttl_ms":5}' '{"path":"x","ttl_ms":86400001}' '{}' '{"path":""}'; do
	equal "refused: $bad" "400 invalid_request" "$(take "$bad")"
done
equal "without scope files" "403 forbidden" "$(TOKEN=$(token a one rounds) take '{"path":"x"}')"
equal "a grant with paths locks what it may write" "403 path_not_allowed 201 a" \
	"$(TOKEN=$(token a one files --write 'out/**') take '{"path":"src"}') $(TOKEN=$(token a one files --write 'out/**') take '{"path":"out/x"}')"
for n in $(seq 12); do
	c -o "$tmp/race$n" -d "{\"path\":\"race\",\"label\":\"r$n\"}" "$L" &
	racers[n]=$!
done
wait "${racers[@]}"
equal "of twelve at once one has it" "1 11" "$(jq -rs '[.[] | select(.id)] | length' "$tmp"/race*) $(jq -rs '[.[] | select(.error.code == "locked")] | length' "$tmp"/race*)"
equal "by muxctl as well" "cli:tester cli:tester" "$(muxctl fs lock shared cli --ttl 1h --label me --task t -o json | jq -r '"\(.path):tester"') cli:tester"
muxctl fs lock shared cli --task other 2>&1 | grep -q '\[locked\]' && ok "which names a conflict" || fail "muxctl took it twice"
muxctl fs unlock shared "$(muxctl fs locks shared -o json | jq -r '.locks[] | select(.path == "cli") | .id')" --task t >/dev/null && ok "and releases it" || fail "muxctl fs unlock"

# --- over a kill, and over their time
equal "one for long, one for a second" "201 a 201 a" "$(take '{"path":"long","ttl_ms":600000}') $(take '{"path":"short","ttl_ms":1000}')"
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" || fail "no daemon again"
held | grep -q 'long:a' && ok "a lock outlives a daemon that is killed" || fail "$(held)"
equal "and still holds" "423 locked" "$(TOKEN=$B take '{"path":"long/x"}')"
for _ in $(seq 40); do [ "$(TOKEN=$B take '{"path":"short"}')" = "201 b" ] && break; sleep 0.1; done
held | grep -q 'short:b' && ok "one whose time is over holds nobody" || fail "$(held)"
events() { muxctl audit --since 0 -n 1000 --event "$1" -o json | jq -r '.record | "\(.detail.path) \(.detail.holder) \(.principal)"'; }
for _ in $(seq 50); do events lock.expire | grep -q short && break; sleep 0.1; done
for want in "lock.take src a a" "lock.renew src a a" "lock.release src a root" "lock.expire short a null"; do
	events "${want%% *}" | grep -qx "${want#* }" && ok "the audit log has $want" || fail "no $want: $(events "${want%% *}")"
done
muxctl audit --since 0 -n 1000 --event verdict -o json | jq -e 'select(.record.outcome == "locked" and .record.detail.holder == "a")' >/dev/null && ok "and who was refused for whom" || fail "no verdict"
equal "the wipe of the workspace takes them" "" "$(muxctl exec -n shared -- true; muxctl sandbox terminate shared --how wipe --reason story >/dev/null 2>&1; held)"
