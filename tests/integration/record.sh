#!/bin/bash
# An auditor after the fact: what was typed and shown is in the record, verifies offline, exports to what other players
# read, and one flipped bit is named.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=recorded
token=$(new_token $agent staff terminal,rounds,replay)
sshc "$token" $agent 'printf "caf\303\251 \342\202\254\n"; echo problem >&2; exit 5' </dev/null >"$tmp/shown" 2>&1
id=$(muxctl session list --all --agent $agent -o json | jq -r '.sessions[0].id')
[ "${#id}" = 36 ] || fail "no session in the list"
ok "the session is listed: $id"

sealed() { muxctl verify "$id"; }
wait_for 10 sealed || fail "not sealed within 10 s: $(sealed 2>&1)"
muxctl verify "$id" >"$tmp/verify" || fail "does not verify: $(cat "$tmp/verify")"
ok "it is sealed and verifies"
equal "stdout in the record" "café €" "$(muxctl export "$id" --format raw --stream stdout)"
equal "stderr in the record" "problem" "$(muxctl export "$id" --format raw --stream stderr)"
muxctl export "$id" --format asciicast-v2 >"$tmp/cast" || fail "no asciicast"
equal "asciinema reads the export" "café €" "$(script -qec "asciinema cat $tmp/cast" /dev/null </dev/null | tr -d "\r" | head -n 1)"
timeout 20 script -qec "asciinema play -s 1000 $tmp/cast" "$tmp/played" </dev/null >/dev/null || fail "asciinema play: $(cat "$tmp/played")"
grep -q 'café €' "$tmp/played" && ok "asciinema plays the export" || fail "asciinema play did not show it"
muxctl export "$id" --format asciicast-v3 >"$tmp/cast3" && /usr/bin/python3 "$here/tests/lib/asciicast_v3.py" "$tmp/cast3" >"$tmp/v3" 2>&1 ||
	fail "the v3 export does not follow its specification: $(cat "$tmp/v3")"
ok "the v3 export follows its specification"
muxctl export "$id" --format json | jq -e . >/dev/null || fail "the JSON export is not JSON"
ok "the JSON export is JSON"
muxctl replay "$id" --instant >"$tmp/replay" || fail "replay failed"
grep -q 'café €' "$tmp/replay" && ok "replay shows it" || fail "replay does not show it"

muxctl export last --format json >/dev/null && ok "last is the newest session" || fail "export last"
muxctl audit -o json >"$tmp/audit"
for event in grant.create session.open session.end; do
	grep -q "\"$event\"" "$tmp/audit" || fail "no $event in the audit log"
done
ok "grant, open and end are in the audit log"
grep -q "${token:40:40}" "$tmp/audit" && fail "the token is in the audit log"
grep -rqa "${token:40:40}" "$MUXD_STATE/record" "$MUXD_STATE/daemon.log" && fail "the token is on disk"
ok "the token is nowhere in the record or the log"
muxctl verify --all >"$tmp/all" || fail "verify --all: $(tail -n 5 "$tmp/all")"
ok "the whole record verifies"
