#!/bin/bash
# The recorder cannot seal: where the sealed recordings lie is a file. Work goes on and the record is written; that lists lack
# what is newest, and that somebody has to look, is told; with the folder there again all is cut, signed and listed.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
agent=behind sealed=$tmp/state/record/sealed
health() { curl -sS -m 20 -o "$tmp/health" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz"; }
red() { [ "$(health)" = 503 ] && jq -e '.alarms[] | select(.code == "record_behind")' "$tmp/health"; }
green() { [ "$(health)" = 200 ]; }
rounds() { muxctl audit --agent $agent --event round.end -n 100 -o json 2>"$tmp/warned" | jq -s length; }
all_there() { [ "$(rounds)" = 3 ] && [ ! -s "$tmp/warned" ]; }
warns() { rounds >"$tmp/rounds"; grep -q 'lacks what is newest' "$tmp/warned"; }
sealed_all() { [ "$(find "$sealed" -name '*.mrec' | wc -l)" -ge 3 ]; }

muxctl exec $agent -- true || fail "no round"
wait_for 20 test -d "$sealed" || fail "nothing is sealed"
mv "$sealed" "$sealed.away" && : >"$sealed" && chown --reference="$sealed.away" "$sealed"
muxctl exec $agent -- true && muxctl exec $agent -- true || fail "work does not go on"
wait_for 30 red || fail "nobody is told: $(cat "$tmp/health")"
ok "/healthz is red: $(jq -r '.alarms[0].message' "$tmp/health")"
muxctl status >"$tmp/status"
grep -q record_behind "$tmp/status" && ok "muxctl status has it" || fail "muxctl status: $(cat "$tmp/status")"
warns && ok "a list says what it lacks: $(cat "$tmp/warned")" || fail "no warning: $(cat "$tmp/warned" "$tmp/rounds")"
equal "the log has it once" 1 "$(grep -c 'cutting waits' "$MUXD_STATE/daemon.log")"

rm "$sealed" && mv "$sealed.away" "$sealed"
wait_for 40 all_there || fail "not listed: $(cat "$tmp/warned")"
wait_for 20 sealed_all && ok "with the folder there again all is sealed and listed" || fail "not sealed"
wait_for 20 green && ok "/healthz is green" || fail "/healthz: $(cat "$tmp/health")"
muxctl verify --all >"$tmp/verified" && ok "and the record verifies" || fail "verify: $(cat "$tmp/verified")"
