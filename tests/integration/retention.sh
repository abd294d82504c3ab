#!/bin/bash
# Retention is an act of somebody: every configuration in force stands in the audit log with who loaded it and what
# changed; a shorter record.retain removes nothing before its waiting time is over, by a restart, a reload or a kill of
# the recorder; an admin's word removes at once, and each tombstone says by which rule, limit, configuration and whom.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
state=$tmp/state
conf() { printf 'record: {%s}\n' "$1" >"$tmp/muxd.yaml"; }
made=0 # sessions so far: each is a recording in the end
recordings() { find "$state/record/sealed" -name '*.mrec' | wc -l; }
last_loaded() { muxctl audit --event config.loaded -n 1 -o json; }
loaded() { muxctl audit --event config.loaded -n 100 -o json | wc -l; }
flushed() { muxctl head >/dev/null; }
# is FILTER EXPECTED: of the last configuration that the log tells of
is() {
	local got
	got=$(last_loaded | jq -r ".record.$1")
	[ "$got" = "$2" ] || fail "config.loaded says .$1 = $got, not $2: $(last_loaded | cut -c1-600)"
}
# kept: every recording there ever was is there, once the last ones are sealed
all_kept() { [ "$(recordings)" -ge $made ]; }
kept() { wait_for 10 all_kept; }
more_loaded() { [ "$(loaded)" -gt "$1" ]; }
# What the recorder does each ten minutes, it does at once when what is in force changes: each look has come and gone
# once the configuration's own event is in the log and a later session is sealed.
looked() {
	muxctl exec -n keep --task t -- true >/dev/null || fail "no session"
	made=$((made + 1))
	flushed
}

conf 'retain: 0'
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "no daemon of our own"
trap 'stop_daemon; tidy' EXIT
for i in 1 2 3; do
	muxctl exec -n keep --task t -- echo "round $i" >/dev/null || fail "no session"
	made=$((made + 1))
done
flushed
kept || fail "nothing was sealed"

# ---- what is in force is in the log: text, digest, who, from where
is how start
is door start
is uid "$(id -u)"
is first true
text=$(last_loaded | jq -r .record.text)
[ "$(jq -r '."record.retain_wait"' <<<"$text")" = 1d ] || fail "the text has no record.retain_wait: $text"
[ "$(printf %s "$text" | sha256sum | cut -d' ' -f1)" = "$(last_loaded | jq -r .record.digest)" ] || fail "the digest is not the text's"

# ---- a reload, by signal and by muxctl: told, and nothing goes
sleep 1.1 # older than the second that is to be asked for
before=$(loaded)
conf 'retain: 1s'
kill -HUP "$DAEMON"
wait_for 10 more_loaded "$before" || fail "the reload is not in the log"
is how reload
is door signal
is uid "$(id -u)"
is 'changes | length' 1
is 'changes[0] | .key + " " + .old + " " + .new' "record.retain 0 1s"
is retention.retain.now 0
is retention.retain.next.value 1s
looked
kept || fail "a reload removed recordings"
at=$(muxctl retention show -o json | jq -r .retain.next.applies_at)
before=$(loaded)
muxctl config reload || fail "muxctl config reload"
wait_for 10 more_loaded "$before" || fail "the second reload is not in the log"
is door admin
is 'changes | length' 0
[ "$(muxctl retention show -o json | jq -r .retain.next.applies_at)" = "$at" ] || fail "a reload began the wait anew"

# ---- a restart and a kill of the recorder count on, and remove nothing
muxctl shutdown >/dev/null
wait "$DAEMON" 2>/dev/null
start_daemon "$state" --config "$tmp/muxd.yaml" || fail "it does not start again"
looked
is how start
before=$(loaded)
kill -KILL "$(ready pids.recorder)"
wait_for 20 flushed || fail "the recorder is not back"
looked
[ "$(loaded)" = "$before" ] || fail "a recorder that is started again tells of a load that nobody did"
[ "$(muxctl retention show -o json | jq -r .retain.next.applies_at)" = "$at" ] || fail "a restart began the wait anew"
kept || fail "a restart removed recordings"

# ---- shorter waiting does not help: it waits as long as the one before
before=$(loaded)
conf 'retain: 1s, retain_wait: 0'
muxctl config reload
wait_for 10 more_loaded "$before" || fail "the reload is not in the log"
looked
is retention.retain_wait.now 1d
kept || fail "a shorter waiting time removed recordings"

# ---- an admin's word, with a reason, in the log
muxctl retention apply --reason "x" 2>/dev/null && fail "it applied without --now"
muxctl retention apply --now 2>/dev/null && fail "it applied without a reason"
kept || fail "a refused call removed recordings"
sleep 1.1 # all of them are older than the limit when it is looked
muxctl retention apply --now --reason "ticket 12" >"$tmp/applied" || fail "it did not apply"
few() { [ "$(recordings)" -le 1 ]; }
wait_for 15 few || fail "nothing was removed: $(muxctl retention show)"
event=$(muxctl audit --event retention.apply -o json)
[ "$(jq -r .record.reason <<<"$event")" = "ticket 12" ] || fail "no reason in the log: $event"
muxctl retention apply --now --reason "again" 2>"$tmp/again" && fail "nothing waits, and it applied"

# ---- the tombstones tell all of it, and so does verify
muxctl verify --all -o json >"$tmp/verdict" || fail "removals in force fail the verdict: $(muxctl verify --all | tail -n 20)"
jq -e '[.findings[] | select(.code == "removed" and (.message | contains("record.retain (1s)")))] | length >= 4' "$tmp/verdict" \
	>/dev/null || fail "verify does not list what was removed: $(jq -c .findings "$tmp/verdict" | cut -c1-600)"
jq -e '[.findings[] | select(.code | test("removed_"))] == []' "$tmp/verdict" >/dev/null || fail "a false alarm: $(jq -c .findings "$tmp/verdict" | cut -c1-600)"
muxctl verify --all --no-removals >/dev/null && fail "--no-removals passes"
digest=$(last_loaded | jq -r .record.digest)
/usr/bin/python3 - "$state/record/chain" "$digest" "$(jq -r .record.principal <<<"$event")" <<'PY' || fail "a tombstone does not tell all"
import glob, json, struct, sys
found = 0
for name in sorted(glob.glob(sys.argv[1] + "/*.mchain")):
    data = open(name, "rb").read()[88:]
    for part in data.split(b'{"leaf"')[1:]:
        o, _ = json.JSONDecoder().raw_decode('{"leaf"' + part.decode("utf-8", "replace"))
        if "rule" not in o:
            continue
        found += 1
        assert (o["reason"], o["rule"], o["limit_ns"]) == ("retention", "record.retain", 10**9), o
        assert (o["policy"], o["by"]) == (sys.argv[2], sys.argv[3]), o
        assert o["agent"] == "keep" and o["principal"] and o["removed_ns"] - o["sealed_ns"] > 10**9, o
assert found >= 4, found
PY
