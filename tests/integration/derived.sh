#!/bin/bash
# What is derived from the record is not shown as fact when somebody changed it: rows of audit.db (by sqlite3), keyframes
# (flipped, forged with every checksum right, another recording's). verify --all names each.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/full.yaml" <<'Y'
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
begin() { start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"; }
begin
trap 'stop_daemon; tidy' EXIT
record=$tmp/state/record
change() { /usr/bin/python3 "$here/tests/integration/derived.py" "$@" || fail "derived.py $*"; }
verified() { muxctl verify "$1"; }
ids=()
for i in 1 2; do
	script -qec "$MUXCTL --state $tmp/state exec -t derived -- sh -c 'seq $i 100000'" /dev/null >"$tmp/out" 2>&1 || fail "no terminal: $(tail -n 3 "$tmp/out")"
	ids+=("$(muxctl session list --all --agent derived -n 1 -o json | jq -r '.sessions[0].id')")
	wait_for 20 verified "${ids[-1]}" || fail "not sealed: ${ids[-1]}"
done

# screen ID: the last screen of a recording, through the web replay's door
token=$(new_token '*' auditor replay)
screen() { api "$token" GET "/v1/recordings/$1/screen?at_ns=9000000000000000000"; }
has_screen() { [ "$(screen "$1" | jq -r .found)" = true ]; }
for id in "${ids[@]}"; do
	wait_for 30 has_screen "$id" || fail "no keyframes of $id: $(screen "$id")"
done
screen "${ids[0]}" >"$tmp/good"
key0=$(find "$record/sealed" -name "${ids[0]}.mkey") key1=$(find "$record/sealed" -name "${ids[1]}.mkey")
change same "$key0"
cp "$key0" "$tmp/key0"
for what in flip forge swap; do
	if [ $what = swap ]; then change swap "$key0" "$key1"; else change $what "$key0"; fi
	screen "${ids[0]}" >"$tmp/now"
	jq -e '.found == false' "$tmp/now" >/dev/null || cmp -s "$tmp/now" "$tmp/good" || fail "$what: a screen that never was is shown"
	muxctl audit --event keyframes.differ -o json | grep -q "${ids[0]}" || fail "$what: no audit event"
	wait_for 30 has_screen "${ids[0]}" || fail "$what: not drawn again"
	screen "${ids[0]}" | cmp -s - "$tmp/good" || fail "$what: drawn again, and not the same"
	ok "keyframes, $what: not shown, told, drawn again"
done
stop_daemon
"$MUXCTL" --state "$tmp/state" verify --all >"$tmp/said" 2>&1 || fail "the record does not verify: $(cat "$tmp/said")"
for what in flip forge swap; do
	cp "$key0" "$tmp/key0"
	if [ $what = swap ]; then change swap "$key0" "$key1"; else change $what "$key0"; fi
	"$MUXCTL" --state "$tmp/state" verify --all >"$tmp/said" 2>&1 && fail "$what: verify is content"
	grep -q "keyframes_changed.*${ids[0]}" "$tmp/said" || fail "$what: not named: $(cat "$tmp/said")"
	cp "$tmp/key0" "$key0"
done
ok "verify --all names keyframes that are not what was drawn"

# ---- rows
begin
muxctl audit -n 50 -o json | grep -v 'read\.\|config\.' >"$tmp/audit"
change sql "$record/audit.db" "UPDATE audit SET json = replace(json, 'derived', 'nowhere'), agent = 'nowhere' WHERE agent = 'derived'"
muxctl audit -n 100 -o json >"$tmp/now" 2>"$tmp/warned"
grep -q nowhere "$tmp/now" && fail "a changed row is shown by muxctl audit"
ok "rows changed in audit.db are not shown by muxctl audit"
change sql "$record/audit.db" "UPDATE sessions SET principal = 'eve', reason = 'nothing'"
muxctl session list --all -o json >"$tmp/now"
grep -q '"eve"' "$tmp/now" && fail "a changed row is shown by muxctl session list"
equal "sessions listed" 2 "$(jq '[.sessions[] | select(.agent == "derived")] | length' "$tmp/now")"
muxctl session show "${ids[0]}" -o json | grep -q '"eve"' && fail "a changed row is shown by muxctl session show"
change sql "$record/audit.db" "DELETE FROM audit WHERE event = 'grant.create'"
muxctl audit --event grant.create -n 100 -o json >"$tmp/now"
[ -s "$tmp/now" ] || fail "rows that were removed are missing from muxctl audit"
muxctl audit --event index.differs -o json | grep -q audit.db || muxctl audit --event index.differs -o json | grep -q missing || fail "no audit event"
ok "rows removed are there again, and the audit log says what was done"
stop_daemon
"$MUXCTL" --state "$tmp/state" verify --all >"$tmp/said" 2>&1 || fail "the record does not verify: $(cat "$tmp/said")"
cp "$record/audit.db" "$tmp/audit.db"
while IFS='|' read -r code sql; do
	change sql "$record/audit.db" "$sql"
	"$MUXCTL" --state "$tmp/state" verify --all >"$tmp/said" 2>&1 && fail "$sql: verify is content"
	grep -q "$code" "$tmp/said" || fail "$sql: not named: $(cat "$tmp/said")"
	rm -f "$record/audit.db"*
	cp "$tmp/audit.db" "$record/audit.db"
	chown --reference="$record" "$record/audit.db"
done <<'S'
row_changed|UPDATE audit SET json = replace(json, 'derived', 'nowhere') WHERE agent = 'derived'
row_missing|DELETE FROM audit WHERE lsn = (SELECT min(lsn) FROM audit)
row_added|INSERT INTO audit(lsn, json) VALUES(1000000, '{}')
row_changed|UPDATE sessions SET principal = 'eve'
row_missing|DELETE FROM sessions WHERE id = (SELECT min(id) FROM sessions)
row_added|INSERT INTO sessions(id, state) VALUES('01890000-0000-7000-8000-000000000001', 'sealed')
S
ok "verify --all names rows changed, missing and added"
