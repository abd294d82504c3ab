#!/bin/bash
# muxctl verify --derive: what keyframes show is what their recordings draw. Honest ones give no alarm, whatever was drawn
# (resizes, the alternate screen, UTF-8 and what is none), and where a worker was killed while it drew. Forged ones, with every
# checksum right and the log signed anew with the host's true keys, are named by --derive alone.
# TERMINALS=50 for more of the honest ones, SEED.
# tier: test, whole TERMINALS=50
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
record=$tmp/state/record python=/usr/bin/python3
seed=${SEED:-$(date +%s)}
change() { $python "$here/tests/integration/derived.py" "$@" || fail "derived.py $*"; }
newest() { muxctl session list --all --agent derive -n 1 -o json | jq -r '.sessions[0].id'; }
verified() { muxctl verify "$1"; }
beside() { find "$record/sealed" -name "$1.$2"; } # ID SUFFIX
drawn() { [ -n "$(beside "$1" mkey)" ]; }
logged() { drawn "$1" && grep -aqF "$(tail -c 32 "$(beside "$1" mkey)" | od -An -v -tx1 | tr -d ' \n')" "$record"/chain/*.mchain; } # its root
token=$(new_token '*' auditor replay)
screen() { api "$token" GET "/v1/recordings/$1/screen?at_ns=9000000000000000000"; }
had() { logged "$1" || { screen "$1" >/dev/null; false; }; } # who misses them has them drawn

# ---- honest ones
terminals=${TERMINALS:-2} ids=()
for i in $(seq "$terminals"); do
	$python "$here/tests/integration/derive.py" "$MUXCTL" "$tmp/state" derive $((seed + i)) >"$tmp/out" 2>&1 || fail "no terminal: $(tail -n 3 "$tmp/out")"
	ids+=("$(newest)")
	wait_for 20 verified "${ids[-1]}" || fail "not sealed: ${ids[-1]}"
done
for id in "${ids[@]}"; do
	wait_for 60 had "$id" || fail "no keyframes of $id"
done

# Killed while it draws: there is a file, whole and logged, that ends early. Who kills too late has it drawn again.
script -qec "$MUXCTL --state $tmp/state exec -t derive -- seq 1 1500000" /dev/null >"$tmp/out" 2>&1 || fail "no terminal: $(tail -n 3 "$tmp/out")"
killed=$(newest)
wait_for 20 verified "$killed" || fail "not sealed: $killed"
wait_for 60 had "$killed" || fail "no keyframes of $killed"
whole=$(wc -c <"$(beside "$killed" mkey)")
drawing() { [ -e "$(beside "$killed" mkey.part)" ]; }
short='' end=$((SECONDS + 240))
for _ in $(seq 20); do
	rm -f "$(beside "$killed" mkey)"
	screen "$killed" >/dev/null
	while ! drawn "$killed"; do
		[ $SECONDS -lt $end ] || fail "no keyframes of $killed any more"
		drawing && for pid in $(pgrep -P "$DAEMON" -f '^muxd-screen'); do kill -KILL "$pid" 2>/dev/null; done
	done
	[ "$(wc -c <"$(beside "$killed" mkey)")" -lt "$whole" ] && short=1 && break
done
[ -n "$short" ] || fail "no worker was killed while it drew"
wait_for 60 logged "$killed" || fail "the log has no digest of what was drawn of $killed"
ids+=("$killed")
stop_daemon
trap tidy EXIT
# verify: says what it says, in $tmp/said; sets rc
verify() {
	"$MUXCTL" --state "$tmp/state" -o json verify "$@" >"$tmp/said" 2>"$tmp/errors"
	rc=$?
}
said() { jq -r "$1" "$tmp/said"; }
codes() { said '[.findings[] | select(.class != "note") | .code] | unique | join(" ")'; }
verify --all
equal "verify --all draws nothing" "0 null" "$rc $(said .keyframes)"
verify --all --derive
equal "honest ones: no alarm, $terminals the same, one cut short by its worker's end (seed $seed)" "0  $terminals 1 0 0" \
	"$rc $(codes) $(said '.keyframes | "\(.same) \(.shorter) \(.not_compared) \(.untrue)"')"
equal "which is named as such" "keyframes_short $killed" "$(said '.findings[] | select(.code | startswith("keyframes")) | .code + " " + .session')"
verify --derive "$(beside "${ids[0]}" mrec)"
equal "one by its path" "0 1" "$rc $(said .keyframes.same)"
verify --derive "${ids[0]}"
equal "one by its id" "0 1" "$rc $(said .keyframes.same)"
cp "$(beside "${ids[0]}" mrec)" "$tmp/alone.mrec"
verify --derive "$tmp/alone.mrec"
equal "a file outside of a record is refused" 64 "$rc"

# ---- who draws
mkdir "$tmp/bin"
chmod 0711 "$tmp/bin"
cp "$MUXCTL" "$tmp/bin/muxctl"
cp "$BUILD/muxd-screen" "$tmp/bin/screen"
from_there() {
	rc=0
	"$tmp/bin/muxctl" --state "$tmp/state" -o json verify --derive "${ids[0]}" >"$tmp/said" 2>"$tmp/errors" || rc=$?
}
from_there
equal "without muxd-screen it is refused" "69 missing_dependency" "$rc $(jq -r .error.code "$tmp/errors")"
worker() { # the rest of a script
	printf '#!/bin/sh\n%s\n' "$1" >"$tmp/bin/muxd-screen"
	chmod 0755 "$tmp/bin/muxd-screen"
}
worker 'exit 1'
from_there
equal "a worker that ends at once is no verdict" "69 unavailable" "$rc $(jq -r .error.code "$tmp/errors")"
mkdir -m 0777 "$tmp/seen"
worker "id -u >$tmp/seen/uid; grep -h NoNewPrivs /proc/self/status >$tmp/seen/status; exec $tmp/bin/screen"
from_there
uid=$(id -u)
[ "$uid" -ne 0 ] || uid=64803
equal "it draws as a uid without rights" "0 1 $uid NoNewPrivs: 1" "$rc $(said .keyframes.same) $(cat "$tmp/seen/uid") $(tr -s '\t' ' ' <"$tmp/seen/status")"
cat >"$tmp/bin/muxd-screen" <<P
#!/usr/bin/python3
import os, socket, subprocess, threading
outer, (ours, theirs) = socket.socket(fileno=3), socket.socketpair()
worker = subprocess.Popen(["$tmp/bin/screen"], pass_fds=(3,), preexec_fn=lambda: os.dup2(theirs.fileno(), 3))
def answers():
    while data := ours.recv(65536):
        outer.sendall(data)
threading.Thread(target=answers, daemon=True).start()
left = 400000
while left > 0 and (data := outer.recv(65536)):
    ours.sendall(data)
    left -= len(data)
worker.kill()
worker.wait()
os._exit(1)
P
from_there
equal "where it dies while it draws again, that is told and no finding" "0  1 0" "$rc $(codes) $(said '.keyframes | "\(.not_compared) \(.untrue)"')"

# ---- forged ones
id=${ids[0]}
cp -a "$record" "$tmp/record"
back() { rm -rf "$record" && cp -a "$tmp/record" "$record"; }
sign() { change sign "$(beside "$id" mkey)" "$record" "$tmp/state/keys/record" "$@"; }
tried=0
while read -r how; do
	back
	change forge "$(beside "$id" mkey)" "$how"
	verify --all
	[ "$rc $(codes)" = "74 keyframes_changed" ] || fail "$how: the log's digest is of another file: $rc $(codes)"
	sign
	verify --all
	[ "$rc $(codes)" = "0 " ] || fail "$how, signed anew: named without --derive, so the forger forgot something: $(cat "$tmp/said")"
	verify --derive "$(beside "$id" mrec)"
	[ "$rc $(codes) $(said .keyframes.untrue)" = "74 keyframes_untrue 1" ] || fail "$how: not named: $rc $(cat "$tmp/said" "$tmp/errors")"
	tried=$((tried + 1))
done < <(change kinds)
[ $tried -ge 10 ] || fail "only $tried kinds"
verify --all --derive
[ "$rc $(codes) $(said .keyframes.untrue)" = "74 keyframes_untrue 1" ] || fail "$how: not named among all: $rc $(cat "$tmp/said" "$tmp/errors")"
[ "$(said '.findings[] | select(.code == "keyframes_untrue") | .session')" = "$id" ] || fail "$how: another one is named"
ok "$tried kinds of forged screens, the log signed anew with the true keys: --derive names each"
back
change cut "$(beside "$id" mkey)"
sign
verify --derive "$id"
equal "a true beginning is no finding" "0  1" "$rc $(codes) $(said .keyframes.shorter)"
back
change forge "$(beside "$id" mkey)"
sign drawing=0-00000000
verify --derive "$id"
equal "another version's drawing is not compared, and told" "0  keyframes_uncompared 1" \
	"$rc $(codes) $(said '.findings[] | select(.session == "'"$id"'") | .code') $(said .keyframes.not_compared)"
# What a changed recording draws says nothing of its keyframes.
back
dd if=/dev/zero of="$(beside "$id" mrec)" bs=1 seek=5000 count=64 conv=notrunc status=none
verify --derive "$id"
[ $rc -eq 74 ] || fail "a changed recording is called $rc"
codes | grep -q keyframes && fail "keyframes of a changed recording are judged: $(codes)"
ok "of a changed recording nothing is drawn"
"$MUXCTL" --state "$tmp/state" verify --all --derive >"$tmp/said" 2>&1
grep -q '^keyframes:    drawn again: ' "$tmp/said" || fail "the text says nothing of them: $(cat "$tmp/said")"
