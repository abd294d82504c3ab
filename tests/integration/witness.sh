#!/bin/bash
# The record's signed heads go out by themselves: to a file, to an HTTPS service, to another muxd that countersigns what was
# proven to extend its last. A witness that is slow, full, lies or is gone holds up nothing, is told, and lag is visible;
# past refuse_after nothing new starts. A record that was set back, and two histories under one key, are named.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
own_pids=()
end_all() {
	end_own "${own_pids[@]}"
	wait
}
# The other muxd's state and pid, so that both can be spoken to.
mkdir -p "$tmp/mount" && chmod 0777 "$tmp/mount"
lines() { wc -l <"$1" 2>/dev/null || echo 0; }
health() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz"; }
state_of() { health | jq -r --arg w "$1" '.witnesses[]? | select(.name == $w) | .state'; }
is_state() { [ "$(state_of "$1")" = "$2" ]; }
lag_over() { [ "$(health | jq --arg w "$1" '.witnesses[]? | select(.name == $w) | .lag_seconds')" -ge "$2" ]; }

# ---- an HTTPS service with a certificate of its own CA
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
	-addext subjectAltName=IP:127.0.0.1 -keyout "$tmp/w.key" -out "$tmp/w.crt" 2>/dev/null || fail "no certificate"
echo ok >"$tmp/mode"
echo sesame >"$tmp/credential" && chmod 600 "$tmp/credential"
: >"$tmp/taken"
/usr/bin/python3 tests/lib/witness.py "$tmp/port" "$tmp/w.crt" "$tmp/w.key" "$tmp/mode" "$tmp/taken" &
own_pids+=($!)
wait_for 10 test -s "$tmp/port" || fail "no HTTPS witness"

# ---- the recorded daemon starts once without witnesses: its log's id and key are what the other muxd is configured with
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; end_all; tidy' EXIT
log_id=$(muxctl head | jq -r .log_id)
stop_daemon
key=$(cat "$tmp"/state/keys/record/*.pub)

cat >"$tmp/other.yaml" <<Y
witness:
  pushers:
    - {name: first, log_id: $log_id, keys: ["$key"]}
Y
start_daemon "$tmp/other" --config "$tmp/other.yaml" || fail "no second daemon"
OTHER=$DAEMON OTHER_STATE=$MUXD_STATE
own_pids+=("$OTHER")
other_url=https://$(ready https)
other_key=$(cat "$OTHER_STATE"/keys/record/*.pub)
kept() { curl -sS --cacert "$OTHER_STATE/keys/tls.crt" "$other_url/v1/witness/heads?log_id=$log_id"; }

configure() { # more of the witness "web", more of the list
	cat >"$tmp/muxd.yaml" <<Y
witnesses:
  - {name: box, kind: file, path: $tmp/mount/heads.jsonl, interval: 1s}
  - {name: web, kind: https, url: "https://127.0.0.1:$(cat "$tmp/port")/heads", ca: $tmp/w.crt, credential: $tmp/credential, interval: 1s, timeout: 2s$1}
  - {name: other, kind: muxd, url: "$other_url", ca: $OTHER_STATE/keys/tls.crt, key: "$other_key", interval: 1s, timeout: 5s}
Y
}
configure ""
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
run() { muxctl exec first -- "$@"; }
run true || fail "a round"
news() { muxctl head | jq .seq; }

# ---- each has it, and verify finds its heads in the log
for w in box web other; do wait_for 15 is_state $w current || fail "$w: $(health)"; done
ok "each witness has a head"
for w in box web other; do
	wait_for 15 eval "! lag_over $w 1" || fail "$w lags: $(health)"
done
wait_for 10 test -s "$tmp/taken" || fail "the HTTPS witness was sent nothing"
equal "the other muxd countersigned with its own key" "$(basename "$(ls "$OTHER_STATE"/keys/record/*.pub)" .pub)" \
	"$(kept | jq -r '.heads[-1].receipt.kid')"
run true
two_kept() { [ "$(kept | jq '.heads | length')" -gt 1 ]; }
wait_for 15 two_kept || fail "the other muxd keeps one head alone: $(kept)"
equal "and was shown extensions, one after the other" true "$(kept | jq '[.heads[].head.seq] | length > 1 and . == (sort | unique)')"
token=$(new_token '*' auditor replay)
equal "GET /v1/head" "$log_id" "$(api "$token" GET /v1/head | jq -r .head.log_id)"
first=$(api "$token" GET '/v1/audit?limit=3')
equal "GET /v1/audit: three events, and more" "3 true" "$(jq -r '"\(.events | length) \(.more)"' <<<"$first")"
second=$(api "$token" GET "/v1/audit?limit=1&after=$(jq .after <<<"$first")")
equal "the next batch goes on behind the last" true \
	"$(jq -n --argjson a "$first" --argjson b "$second" '$b.events[0].seq > $a.events[-1].seq')"
equal "a grant without replay may not" 403 "$(curl -s -o /dev/null -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" \
	-H "Authorization: Bearer $(new_token first agent rounds)" "https://$(ready https)/v1/head")"
muxctl verify --witness "$tmp/mount/heads.jsonl" --witness "$other_url" --witness-ca "$OTHER_STATE/keys/tls.crt" --require-witness \
	>"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
grep -q "completeness: complete$" "$tmp/verdict" || fail "with witnesses it is not complete: $(cat "$tmp/verdict")"
ok "with its witnesses the record is complete"
equal "muxctl head --witness" 3 "$(muxctl head --witness | jq '.witnesses | length')"
equal "metrics" 3 "$(curl -s --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $(new_token '*' auditor observe)" \
	"https://$(ready https)/metrics" | grep -c '^muxd_witness_lag_seconds{')"

# ---- a rotated file takes nothing from it
mv "$tmp/mount/heads.jsonl" "$tmp/mount/heads.1"
run true
wait_for 15 test -s "$tmp/mount/heads.jsonl" || fail "nothing after the rotation"
ok "a file that was rotated is begun anew"

# ---- the seal of a session of staff is told at once, whatever the interval
# ---- a witness that misbehaves is told, and nobody waits for it
for mode in ${MODES:-full slow}; do
	echo $mode >"$tmp/mode"
	run true || fail "a round while the witness is $mode"
	failures() { curl -s --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $(new_token '*' auditor observe)" \
		"https://$(ready https)/metrics" | sed -n 's/^muxd_witness_failures_total{witness="web"} //p'; }
	before=$(failures)
	more() { [ "$(failures)" -gt "$before" ]; }
	wait_for 15 more || fail "$mode: no failure is counted"
	wait_for 15 lag_over web 1 || fail "$mode: no lag"
	wait_for 10 eval '! lag_over box 3' || fail "$mode: another witness is held up: $(health)"
	echo ok >"$tmp/mode"
	wait_for 20 eval '! lag_over web 1' || fail "$mode: it does not come back: $(health)"
	ok "a witness that is $mode is told, and holds up nobody"
done
took() { [ "$(lines "$tmp/taken")" -gt "$1" ]; }

# ---- with a key a receipt is checked by the recorder: a lie is none, and past refuse_after nothing new starts
echo lie >"$tmp/mode"
configure ", key: \"$other_key\", refuse_after: 3s"
kill -HUP "$DAEMON"
run true
wait_for 15 is_state web behind || fail "lies: $(health)"
grep -q "not signed by the witness's key" <(muxctl audit --limit 50 -o json) || fail "the lie is not told"
ok "a receipt that nobody signed counts for nothing"
echo older >"$tmp/mode"
refused() { ! run true 2>"$tmp/said" && grep -q refuse_after "$tmp/said"; }
wait_for 60 refused || fail "past refuse_after rounds still start: $(cat "$tmp/said")"
ok "past refuse_after nothing new starts"
configure ""
echo ok >"$tmp/mode"
kill -HUP "$DAEMON"
wait_for 30 run true || fail "without the limit rounds do not start again"

# ---- a carrier that is killed comes again, and the log is the same
wait_for 15 pgrep -P "$DAEMON" muxd-witness || fail "no carrier runs"
carrier=$(pgrep -P "$DAEMON" muxd-witness)
kill -KILL "$carrier"
before=$(lines "$tmp/taken")
run true
wait_for 30 took "$before" || fail "no carrier after a kill"
ok "a carrier that was killed comes again"

# ---- whoever is not configured is not taken
equal "a head of a stranger is refused" 403 "$(curl -s -o "$tmp/answer" -w '%{http_code}' --cacert "$OTHER_STATE/keys/tls.crt" \
	-H 'Content-Type: application/json' --data-binary "{\"head\":$("$MUXCTL" --state "$OTHER_STATE" head)}" "$other_url/v1/witness/heads")"

# ---- two histories under one key: the record is copied, and both go on
seq_kept() { kept | jq '[.heads[] | select(.state == "kept") | .head.seq] | max'; }
muxctl shutdown --sandboxes >/dev/null && wait "$DAEMON"
cp -a "$tmp/state/record" "$tmp/old"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
run true && run true
target=$(news)
has_target() { [ "$(seq_kept)" -ge "$target" ]; }
wait_for 15 has_target || fail "the other is behind: $(health)"
muxctl head >"$tmp/head.outside"
muxctl shutdown --sandboxes >/dev/null && wait "$DAEMON"
mv "$tmp/state/record" "$tmp/new"
cp -a "$tmp/old" "$tmp/state/record"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon with the old record"
wait_for 20 is_state other disputed || fail "a record that was set back is not noticed: $(health)"
is_red() { equal_quiet record_hole "$(health | jq -r '.alarms[0].code')"; }
equal_quiet() { [ "$1" = "$2" ]; }
wait_for 10 is_red || fail "healthz is not red: $(health)"
run true || fail "it does not go on"
for _ in 1 2 3 4; do run true; done
fork_kept() { kept | jq -e '[.heads[] | select(.state == "refused")] | length > 0'; }
wait_for 30 fork_kept || fail "the other muxd refused nothing: $(kept | tail -c 600)"
equal "both heads of the fork are kept" true "$(kept | jq '[.heads[] | select(.state == "refused")][0] | has("head") and has("against")')"
muxctl verify --witness "$other_url" --witness-ca "$OTHER_STATE/keys/tls.crt" >"$tmp/verdict"
grep -q expected_differs "$tmp/verdict" || fail "verify does not name the fork: $(cat "$tmp/verdict")"
grep -q log_hole "$tmp/verdict" || fail "verify does not name the hole: $(cat "$tmp/verdict")"
ok "a record that was set back goes on, red, and verify names the hole"
stop_daemon
MUXD_STATE=$OTHER_STATE DAEMON=$OTHER
