#!/bin/bash
# Heads are stamped by an authority (RFC 3161): each stamp is checked by the recorder before it is in its log, shown, and checked
# again offline by verify and by OpenSSL. An authority that is slow, gone, lies or talks garbage has no receipt; nobody waits.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
tsa=$tmp/tsa
mkdir -p "$tsa" "$tmp/mount" && chmod 0755 "$tsa" && chmod 0777 "$tmp/mount"
/usr/bin/python3 tests/lib/tsa.py "$tsa" &
authority=$!
end_all() { end_own "$authority"; }
trap 'end_all; tidy' EXIT
wait_for 20 test -s "$tsa/port" || fail "no authority"

modes=(imprint nonce stranger expired garbage huge refuse status slow)
configure() { # more of the witness "stamp"
	cat >"$tmp/muxd.yaml" <<Y
witnesses:
  - {name: box, kind: file, path: $tmp/mount/heads.jsonl, interval: 1s}
  - {name: stamp, kind: timestamp, url: "http://127.0.0.1:$(cat "$tsa/port")/ok", tsa_ca: $tsa/ca.pem, timeout: 2s$1}
Y
	for mode in "${@:2}"; do
		echo "  - {name: $mode, kind: timestamp, url: \"http://127.0.0.1:$(cat "$tsa/port")/$mode\", tsa_ca: $tsa/ca.pem, timeout: 2s$1}"
	done >>"$tmp/muxd.yaml"
}
configure ", interval: 1s" "${modes[@]}"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_all; tidy' EXIT
run() { muxctl exec first -- "$@"; }
status() { muxctl head --witness | jq -c --arg w "$1" '.witnesses[] | select(.name == $w)'; }
is() { status "$1" | jq -e "$2" >/dev/null; }
run true || fail "a round"

# ---- stamped, shown, and verified
wait_for 15 is stamp '.state == "current" and .receipts > 0' || fail "no stamp: $(status stamp)"
equal "muxctl head tells who stamped it" "CN=signer timestamped true" "$(status stamp | jq -r '"\(.timestamped.by) \(.proof) \(.checked)"')"
muxctl verify --tsa-ca "$tsa/ca.pem" -o json >"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
equal "verify checks it" "true CN=signer" "$(jq -r '"\(.timestamps.checked > 0 and .timestamps.checked == .timestamps.count) \(.timestamps.newest.by)"' "$tmp/verdict")"
muxctl verify --tsa-ca "$tsa/ca.pem" | grep -q '^timestamps: .* was there at 20.*, says CN=signer;' || fail "verify says: $(muxctl verify --tsa-ca "$tsa/ca.pem")"
muxctl verify | grep -q '^timestamps: .*not checked' || fail "without --tsa-ca: $(muxctl verify)"
muxctl verify --tsa-ca "$tsa/stranger.pem" -o json >"$tmp/verdict" || fail "with other authorities' certificates: $(cat "$tmp/verdict")"
equal "with other certificates it is named, and does not count" "0 true" \
	"$(jq -r '"\(.timestamps.checked) \([.findings[].code] | index("timestamp_untrusted") != null)"' "$tmp/verdict")"
grep -aohE '"hash":"[0-9a-f]{64}","wall_ns":[0-9]+,"receipt":\{"tsr":"[^"]+"' "$tmp"/state/record/chain/*.mchain | tail -n 1 >"$tmp/anchor"
sed 's/.*"tsr":"\([^"]*\)".*/\1/' "$tmp/anchor" | base64 -d >"$tmp/x.tsr"
openssl ts -verify -digest "$(sed 's/"hash":"\([0-9a-f]*\)".*/\1/' "$tmp/anchor")" -in "$tmp/x.tsr" -CAfile "$tsa/ca.pem" >/dev/null 2>"$tmp/said" ||
	fail "openssl: $(cat "$tmp/said")"
ok "so does openssl ts -verify, with the hash and the answer from the log"

# ---- what is no stamp of this head by that authority is told, and is not in the log
told() { is "$1" '.receipts == 0 and .failures > 0' && status "$1" | jq -r .message | grep -qiE "$2"; }
for each in "imprint:not what was asked.*another hash" "nonce:another nonce" "stranger:not signed by who may" \
	"expired:not signed by who may.*expired" "garbage:no answer of an authority" "huge:larger than" "refuse:refused" "status:answered 503" \
	"slow:no answer in time"; do
	wait_for 15 told "${each%%:*}" "${each#*:}" || fail "${each%%:*}: $(status "${each%%:*}")"
done
ok "who lies, is expired, unknown, slow or talks garbage has no receipt, and each is told"
is box '.state == "current" and .lag_seconds < 5' || fail "another witness is held up: $(status box)"

configure ", interval: 1s"
kill -HUP "$DAEMON"
# ---- gone: one event tells it, and nothing grows with how long it is
kill "$authority" && wait "$authority" 2>/dev/null
for _ in 1 2 3 4 5 6; do run true || fail "a round without the authority"; done
wait_for 20 is stamp '.state == "behind" and .failures > 2' || fail "it is gone and nobody says so: $(status stamp)"
behind() { muxctl audit --limit 500 -o json | grep -c '"witness.behind"'; }
before=$(behind) failures=$(status stamp | jq .failures)
run true
wait_for 20 is stamp ".failures > $failures" || fail "it is not tried again: $(status stamp)"
equal "however often it fails, one event tells it" "$before" "$(behind)"
mkdir -p "$tmp/second"
/usr/bin/python3 tests/lib/tsa.py "$tmp/second" &
authority=$!
wait_for 20 test -s "$tmp/second/port" || fail "no second authority"

# ---- by default an hour lies between two, whatever is sealed and whoever starts again
tsa=$tmp/second
configure ", interval: 2s"
kill -HUP "$DAEMON"
run true
wait_for 20 is stamp '.state == "current" and .lag_seconds == 0' || fail "the second authority: $(status stamp)"
configure ""
kill -HUP "$DAEMON"
run true && run true
seq=$(muxctl head | jq .seq)
wait_for 20 is box ".seq >= $seq" || fail "box: $(status box)"
count=$(wc -l <"$tsa/asked")
run true
seq=$(muxctl head | jq .seq)
wait_for 20 is box ".seq >= $seq" || fail "box: $(status box)"
equal "an authority is asked once an hour" "$count" "$(wc -l <"$tsa/asked")"
muxctl verify --witness "$tmp/mount/heads.jsonl" --require-witness >"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
