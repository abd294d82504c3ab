#!/bin/bash
# A head goes out when a session of staff was sealed, however long the interval; not for a round of an agent, and not to a witness
# that is configured without it. A witness that is away keeps the host waiting for nothing: the newest head comes when it is back.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
mkdir -p "$tmp/mount" && chmod 0777 "$tmp/mount"
cat >"$tmp/muxd.yaml" <<Y
witnesses:
  - {name: seal, kind: file, path: $tmp/mount/seal, interval: 1h}
  - {name: hourly, kind: file, path: $tmp/mount/hourly, interval: 1h, on_seal: false}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
count() { wc -l <"$tmp/mount/$1" 2>/dev/null || echo 0; }
has() { [ "$(count "$1")" -ge "$2" ]; }
for w in seal hourly; do wait_for 10 has $w 1 || fail "$w has no head at the start"; done

# A round of an agent is sealed; nobody is told before the hour is over.
token=$(new_token first agent rounds)
api "$token" POST /v1/agents/first/rounds '{"argv":["true"],"wait_ms":10000}' | jq -e '.exit.code == 0' >/dev/null || fail "a round"
sealed() { [ -n "$(find "$tmp/state/record" -name "*.mrec" -not -path "*/open/*")" ]; }
wait_for 15 sealed || fail "the round is not sealed: $(muxctl session list)"
sleep 3 # as long as a carrier that were told would need, three times over
before=$(count seal)
staff() {
	SSHPASS=$(PRINCIPAL=anna new_token first staff terminal) timeout 20 sshpass -e ssh -F none -p "$(ready ssh | sed 's/.*://')" -l first \
		-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o PreferredAuthentications=password \
		-o NumberOfPasswordPrompts=1 127.0.0.1 "$@"
}
[ "$(staff echo there)" = there ] || fail "a session of staff"
wait_for 10 has seal $((before + 1)) || fail "no head at the seal: $(muxctl head --witness)"
ok "the seal of a staff session sends a head at once"
equal "not where that is off" 1 "$(count hourly)"

# Away for long: what must wait, waits for nothing, and one head is all that there is to carry afterwards.
mv "$tmp/mount" "$tmp/away"
for i in 1 2 3 4 5 6; do [ "$(staff echo $i)" = $i ] || fail "a session while the witness is away"; done
away() { muxctl head --witness | jq -e '.witnesses[] | select(.name == "seal") | .failures > 1'; }
wait_for 20 away || fail "nobody says that it is away: $(muxctl head --witness)"
health() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/$1"; }
health healthz | jq -e '.witnesses[] | select(.name == "seal")' >/dev/null || fail "/healthz does not know it: $(health healthz)"
mv "$tmp/away" "$tmp/mount"
before=$(count seal)
wait_for 30 has seal $((before + 1)) || fail "it is back and has no head: $(muxctl head --witness)"
sleep 2
equal "six sessions are one head" $((before + 1)) "$(count seal)"
muxctl verify --witness "$tmp/mount/seal" --require-witness >"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
ok "a witness that was away has what it needs by one head"
