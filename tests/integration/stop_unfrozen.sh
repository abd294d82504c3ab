#!/bin/bash
# Somebody in the sandbox cannot be made to stand still (he hangs in the kernel), so its workspace is copied while
# programs run on. A round that ends behind the copier's back was answered: what it wrote is there after the stop.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<'C'
lifecycle:
  at_rest: drop
C
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
a=unfrozen
run() { muxctl exec -n --task story -c "$1" $a; }

# Until its child is done, one that used vfork() stops for nobody.
cat >"$tmp/hang.c" <<'C'
#include <unistd.h>

int main(void)
{
	if (vfork() == 0) {
		sleep(300);
		_exit(0);
	}
	return 0;
}
C
read -ra cc <<<"${CC:-cc}"
"${cc[@]}" -std=gnu17 -O1 -static -o "$tmp/hang" "$tmp/hang.c" || fail "not compiled"
# The copier reads `n` early, and is long at `z`.
run 'head -c 300000000 /dev/urandom >z' || fail "no sandbox"
muxctl put $a "$tmp/hang" hang >"$tmp/out" 2>&1 || fail "no put: $(cat "$tmp/out")"

copies() { muxctl audit -n 200 --agent $a --event snapshot.create -o json | jq -se '[.[].record | select(.outcome == "ok")] | length'; }
quiet() { muxctl audit -n 200 --agent $a --event snapshot.create -o json | jq -r 'select(.record.outcome == "ok") | .record.detail.quiesce' | tail -n 1; }

# A round knows that the stop gave up on making it stand still: it goes on. Then it writes, and ends: during the copy, or at
# once, where copies are made in no time.
again=0 lost=0 n=0
while [ $again -lt 2 ] && [ $n -lt 8 ]; do
	n=$((n + 1))
	before=$(copies) behind=$((n % 2 * 2))
	run 'setsid ./hang >/dev/null 2>&1 </dev/null &' || fail "nobody hangs"
	muxctl exec -n --task story -c "bash -c 'trap \"sleep 0.$behind; echo $n >n; exit 0\" CONT; touch ready; while :; do sleep 0.01; done'" $a >"$tmp/round" 2>&1 &
	round=$!
	in_place() { run 'test -e ready' && run 'rm ready'; }
	wait_for 20 in_place || fail "the round does not begin: $(cat "$tmp/round")"
	muxctl sandbox stop $a --reason story >"$tmp/stop" 2>&1 || fail "no stop: $(cat "$tmp/stop")"
	equal "stop $n: somebody could not be stopped" synced "$(quiet)"
	answered=false
	wait $round && answered=true
	[ "$(copies)" -gt $((before + 1)) ] && again=$((again + 1))
	$answered && [ "$(run 'cat n')" != $n ] && lost=$((lost + 1)) # else the stop ended it: whether it wrote is not known
done
equal "what was answered is there, in each of $n stops" 0 $lost
[ $again -gt 0 ] && ok "a round ended during $again of the copies: copied again" || fail "no round ended during a copy"
one_each() { [ "$(muxctl sandbox snapshots $a -o json | jq '[.snapshots[] | select(.status == "ready")] | length')" = $n ]; }
wait_for 10 one_each && ok "of each stop one snapshot is left, the whole one" || fail "$(muxctl sandbox snapshots $a)"
