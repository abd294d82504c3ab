#!/bin/bash
# Somebody with the disk in hand changes the record: flips one bit anywhere in a recording or in the log, cuts bytes out,
# takes a recording away, takes the newest away with the log's tail. `muxctl verify` names each, offline, on a copy.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/full.yaml" <<'Y'
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=tampered
verified() { muxctl verify "$1"; }
ids=()
for i in 1 2 3; do
	muxctl exec $agent -n -- sh -c "seq 1 20000; echo round $i; head -c 3000000 /dev/urandom | base64" >/dev/null || fail "no round"
	ids+=("$(muxctl session list --all --agent $agent -n 1 -o json | jq -r '.sessions[0].id')")
	wait_for 20 verified "${ids[-1]}" || fail "not sealed: ${ids[-1]}"
done
muxctl head >"$tmp/head2" || fail "no head"
muxctl exec $agent -n -- echo the newest >/dev/null || fail "no round"
ids+=("$(muxctl session list --all --agent $agent -n 1 -o json | jq -r '.sessions[0].id')")
wait_for 20 verified "${ids[3]}" || fail "not sealed: ${ids[3]}"
sleep 0.2
muxctl head >"$tmp/head" || fail "no head"
stop_daemon
trap tidy EXIT

record=$tmp/state/record
# on WORDS: verify on the copy, offline
on() { "$MUXCTL" --state /nonexistent verify --record "$tmp/copy" --key "$tmp/state/keys/record" "$@" >"$tmp/said" 2>&1; }
fresh() { rm -rf "$tmp/copy" && cp -a "$record" "$tmp/copy"; }
file() { find "$tmp/copy/sealed" -name "$1.mrec"; }
# flip FILE OFFSET BIT
flip() {
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
	printf '%b' "\\x$(printf %02x $((byte ^ (1 << $3))))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
named() { grep -q -- "$1" "$tmp/said"; }

fresh
on --all || fail "the untouched copy does not verify: $(cat "$tmp/said")"
on --all --expect-head "$tmp/head" || fail "nor against its head: $(cat "$tmp/said")"
on --all --expect-head "$tmp/head2" || fail "nor against an earlier head: $(cat "$tmp/said")"
ok "the untouched copy verifies, offline, and against heads exported before"

# One bit, anywhere: the first bytes, the last, and places spread over the whole file.
id=${ids[1]}
size=$(stat -c %s "$(file "$id")")
places=(0 1 4 8 17 40 100 $((size - 1)) $((size - 2)) $((size - 33)) $((size - 65)) $((size - 100)))
for i in $(seq 1 24); do places+=($((size * i / 25))); done
found=0
for at in "${places[@]}"; do
	flip "$(file "$id")" "$at" $((at % 8))
	on --all
	rc=$?
	[ $rc -ne 0 ] && named "$id" && found=$((found + 1)) || echo "flipped at $at of $size: verify says $rc: $(cat "$tmp/said")" >&2
	[ $rc -eq 74 ] || [ $rc -eq 65 ] || echo "flipped at $at: exit status $rc" >&2
	on "$id" && echo "flipped at $at: verify of the recording alone is content" >&2
	flip "$(file "$id")" "$at" $((at % 8))
done
equal "one bit flipped in a recording of $size bytes, found and named" ${#places[@]} $found
on --all || fail "bits flipped back do not verify: $(cat "$tmp/said")"
ok "flipped back it verifies again"

chain=$(find "$tmp/copy/chain" -name '*.mchain' | sort | head -n 1)
size=$(stat -c %s "$chain")
found=0
for i in $(seq 0 24); do
	at=$(((size - 1) * i / 24))
	flip "$chain" "$at" $((i % 8))
	on --all --expect-head "$tmp/head" || found=$((found + 1))
	[ -s "$tmp/said" ] || fail "nothing said"
	flip "$chain" "$at" $((i % 8))
done
equal "one bit flipped in the log of $size bytes, found" 25 $found

# A block cut out: bytes taken from the middle.
cut_out() { { head -c "$2" "$1" && tail -c +$(($2 + $3 + 1)) "$1"; } >"$tmp/shorter" && cat "$tmp/shorter" >"$1"; }
size=$(stat -c %s "$(file "$id")")
for part in "4096 of the middle:$((size / 2)):4096" "the last 10:$((size - 10)):10" "its second half:$((size / 2)):$size"; do
	IFS=: read -r what at n <<<"$part"
	fresh
	cut_out "$(file "$id")" "$at" "$n"
	on --all && fail "$what bytes are gone and verify is content"
	named "$id" && ok "cut out $what: named" || fail "cut out $what: $(cat "$tmp/said")"
done

# The same done well: one whole block is gone, nothing else is touched.
fresh
/usr/bin/python3 - "$(file "$id")" <<'P' || fail "there are too few blocks"
import re, sys
data = open(sys.argv[1], "rb").read()
at = [m.start() for m in re.finditer(b"MBLK", data)]
open(sys.argv[1], "wb").write(data[:at[1]] + data[at[2]:])
sys.exit(0 if len(at) > 3 else 1)
P
on --all
equal "one block taken out" 74 $?
named "block_missing.*$id" && ok "named with its place" || fail "not named: $(cat "$tmp/said")"

# A recording taken away that is not the newest; two exchanged; an empty file in its place.
fresh
rm "$(file "$id")"
on --all
equal "a recording taken away: changed nothing, missing one" 65 $?
named "$id" && ok "and named" || fail "not named: $(cat "$tmp/said")"
fresh
cp "$(file "${ids[0]}")" "$(file "$id")"
on --all && fail "a recording in another's place, and verify is content"
named "$id" && ok "another recording in its place: named" || fail "not named: $(cat "$tmp/said")"
fresh
: >"$(file "$id")"
on --all && fail "an emptied recording, and verify is content"
named "$id" && ok "emptied: named" || fail "not named: $(cat "$tmp/said")"

# The newest taken away together with everything the log says since the head before it, and with audit.db, whose rows
# would have no entry: only a head kept elsewhere tells.
fresh
newest=${ids[3]}
rm "$(file "$newest")"
on --all && fail "the newest is gone, the log still names it, and verify is content"
named "$newest" && ok "the newest taken away: named by the log" || fail "not named: $(cat "$tmp/said")"
fresh
rm "$(file "$newest")" "$tmp/copy/audit.db"
/usr/bin/python3 - "$tmp/copy/chain" "$(jq -r .seq "$tmp/head2")" <<'P' || fail "the log cannot be cut"
import glob, struct, sys
chain, upto = sorted(glob.glob(sys.argv[1] + "/*.mchain"))[-1], int(sys.argv[2])
data, at, end = open(chain, "rb").read(), 88, 0
while at < len(data):
    kind, _, length = struct.unpack_from("<HHI", data, at + 4)
    seq, = struct.unpack_from("<Q", data, at + 16)
    at += 64 + length + 32
    if kind & 0x7FFF == 4 and seq <= upto + 1:
        end = at
open(chain, "wb").write(data[:end])
sys.exit(0 if 88 < end < len(data) else 1)
P
on --all || fail "a record set back altogether shows something by itself: $(cat "$tmp/said")"
on --all --expect-head "$tmp/head2" || fail "it does not hold what it held: $(cat "$tmp/said")"
ok "set back to before the newest it verifies by itself"
on --all --expect-head "$tmp/head"
equal "and is found against the head exported after" 65 $?
named rolled_back && ok "as rolled back" || fail "not named: $(cat "$tmp/said")"
