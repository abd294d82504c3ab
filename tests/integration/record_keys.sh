#!/bin/bash
# The key that signs the record: the old one names the new one; one that comes out of nowhere is told in the audit log, in
# /healthz and by verify, and vouches for nothing before it.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
trap 'stop_daemon; tidy' EXIT
state=$tmp/state agent=keyed
start_daemon "$state" || fail "no daemon"
health() { curl -sS -m 20 -o "$tmp/health" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz"; }
newest() { muxctl session list --all --agent $agent -n 1 -o json | jq -r '.sessions[0].id'; }
sealed() { [ -n "$(find "$state/record/sealed" -name "$(newest).mrec")" ]; }
round() {
	muxctl exec $agent -n -- echo "$1" >/dev/null || fail "no round: $1"
	wait_for 20 sealed || fail "not sealed: $1"
}
signer() { muxctl head -o json | jq -r .kid; }
seeds() { find "$state/keys/record" -name '*.seed' | wc -l; }
publics() { find "$state/keys/record" -name '*.pub' | wc -l; }
verified() { muxctl verify --all -o json "$@" >"$tmp/said"; }
again() {
	stop_daemon
	start_daemon "$state" || fail "no daemon: $1"
}

round first
first=$(signer)
muxctl head >"$tmp/head1" || fail "no head"
equal "no outside head: as far as this host knows" "as_far_as_known false 0" \
	"$(muxctl verify --all -o json | jq -r '"\(.completeness) \(.witnessed) \(.removals)"')"
verified --require-witness
equal "which is a failure where a witness is required" 67 $?
verified --expect-head "$tmp/head1" --require-witness --no-removals || fail "the record with its head: $(cat "$tmp/said")"
equal "with a head from outside it is complete" "complete true" "$(jq -r '"\(.completeness) \(.witnessed)"' "$tmp/said")"

# A rotation: nothing is lost, the public half of the old key stays, every head that was exported is still good.
muxctl key rotate --record -o json >"$tmp/rotated" || fail "key rotate --record: $(cat "$tmp/rotated")"
second=$(jq -r .kid "$tmp/rotated")
round second
equal "the new key signs" "$second" "$(signer)"
equal "one seed, two public keys" "1 2" "$(seeds) $(publics)"
muxctl head >"$tmp/head2" || fail "no head"
verified --expect-head "$tmp/head1" --expect-head "$tmp/head2" --require-witness || fail "after a rotation: $(cat "$tmp/said")"
equal "both keys are named, with their origin" "host host" "$(jq -r '[.keys[].origin] | join(" ")' "$tmp/said")"
verified --key "$state/keys/record/$first.pub" --expect-head "$tmp/head2" || fail "with the first key alone: $(cat "$tmp/said")"
equal "given the first, the second is announced under a head of it" "$first" \
	"$(jq -r --arg k "$second" '.keys[] | select(.kid == $k and .origin == "log") | .head.kid' "$tmp/said")"
verified --key "$state/keys/record/$second.pub" || fail "with the second key alone: $(cat "$tmp/said")"
muxctl audit --event key.rotate -o json | jq -e 'select(.record.key == "record")' >/dev/null ||
	fail "the rotation is not in the audit log: $(muxctl audit --event key.rotate -o json)"
again "after a rotation"
round third
equal "the same key signs after a restart" "$second" "$(signer)"
verified --expect-head "$tmp/head2" || fail "after a restart: $(cat "$tmp/said")"
equal "and all is well" 200 "$(health)"
ok "a rotation is named by the old key"
muxctl head >"$tmp/head3"

# The keys are gone. The daemon makes another one and goes on, in nobody's name.
cp -a "$state/keys/record" "$tmp/backup"
stop_daemon
find "$state/keys/record" -type f -delete
start_daemon "$state" || fail "no daemon without its record keys"
equal "/healthz is red" 503 "$(health)"
jq -e '.status == "record_alarm" and (.alarms[0] | .code == "record_key_foreign" and (.hint | test("backup")))' "$tmp/health" >/dev/null &&
	ok "with a reason and what to do" || fail "/healthz says: $(cat "$tmp/health")"
muxctl status -o json | jq -e '.alarms[0].code == "record_key_foreign"' >/dev/null && ok "so does muxctl status" || fail "$(muxctl status -o json)"
foreign_told() { muxctl audit --event record.key_foreign -o json | grep -q "$second"; }
wait_for 10 foreign_told && ok "it is an audit event" || fail "not in the audit log: $(muxctl audit -n 20)"
round fourth
verified
equal "verify, with the host's own keys" 74 $?
jq -e '[.findings[].code] | index("key_foreign")' "$tmp/said" >/dev/null && ok "names the key that nobody named" || fail "$(cat "$tmp/said")"
verified --key "$tmp/backup" --expect-head "$tmp/head3"
equal "and with the true keys" 74 $?
again "with a foreign key"
equal "it stays red over a restart" 503 "$(health)"

# An admin takes it as it is: from here on keys follow one another again. verify goes on to name what happened.
muxctl key rotate --record >/dev/null || fail "no rotation of a foreign key"
green() { [ "$(health)" = 200 ]; }
wait_for 10 green && ok "a rotation by an admin settles it" || fail "/healthz: $(cat "$tmp/health")"
again "after that rotation"
equal "over a restart too" 200 "$(health)"
verified
equal "verify does not forget" 74 $?

# The backup is put back: what the stranger signed is set aside, and the record is what it was.
stop_daemon
find "$state/keys/record" -type f -delete
cp -a "$tmp/backup/." "$state/keys/record/"
start_daemon "$state" || fail "no daemon with its keys again"
equal "with the keys back it is green" 200 "$(health)"
round fifth
verified --expect-head "$tmp/head3"
[ "$(jq -r '[.findings[] | select(.class == "integrity") | .code] | unique | join(" ")' "$tmp/said")" != "" ] &&
	ok "what the stranger sealed is named: $(jq -r '[.findings[] | select(.class == "integrity") | .code] | unique | join(" ")' "$tmp/said")" ||
	fail "what the stranger sealed passes: $(cat "$tmp/said")"
jq -e '[.findings[].code] | index("key_foreign") | not' "$tmp/said" >/dev/null && ok "its key is out of the log" || fail "$(cat "$tmp/said")"
