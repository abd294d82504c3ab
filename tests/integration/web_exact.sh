#!/bin/bash
# Through the browser door nothing is lost and nothing is added: MIB megabytes of terminal text (32; acceptance: 256), and
# programs that write 10 bytes or 1 MiB and exit at once, RUNS times each (10; acceptance: 1000). Compared by SHA-256 at
# the client, and the large one in its sealed recording.
# tier: test, san MIB=2 RUNS=2, slice MIB=8 RUNS=4, whole MIB=256 RUNS=1000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
MIB=${MIB:-32} RUNS=${RUNS:-10}

chmod 0711 "$tmp"
cat >"$tmp/full.yaml" <<'Y'
record:
  rules:
    - {kind: "*", session: "*", rule: full}
grants: {ttl: 2h}
Y
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=webexact
token=$(new_token $agent staff terminal,files,replay 2h)
(umask 077 && printf '%s' "$token" >"$tmp/token")
play() { /usr/bin/python3 tests/integration/web_exact.py "$(ready https)" "$tmp/state/keys/tls.crt" $agent "$tmp/token" "$@"; }
sum() { sha256sum | cut -d' ' -f1; }
put() { curl -sS --fail --cacert "$tmp/state/keys/tls.crt" -H "Authorization: Bearer $token" -T "$1" "https://$(ready https)/v1/agents/$agent/files?path=$2" >/dev/null; }

/usr/bin/python3 - "$MIB" >"$tmp/mix" <<'P'
import random, sys
rng, left, out = random.Random(11), int(sys.argv[1]) << 20, sys.stdout.buffer
block = bytearray()
while len(block) < 1 << 20:
    pick = rng.random()
    if pick < 0.6:
        block += ("\x1b[%dmnaïve 漢字 😀 make: warning %d\x1b[0m\r\n" % (rng.randrange(30, 48), rng.random() * 1e9)).encode()
    elif pick < 0.9:
        block += b"\r%3d%% [%s]" % (rng.randrange(101), b"#" * rng.randrange(60))
    else:
        block += rng.randbytes(rng.randrange(2000))
while left > 0:
    piece = (b"%016d" % left) + block
    out.write(piece[:left])
    left -= len(piece)
P
put "$tmp/mix" mix || fail "put"
read -r id n digest whole < <(play big /workspace/mix)
equal "$MIB MiB of terminal text through the browser door" "$((MIB << 20)) $(sum <"$tmp/mix") whole" "$n $digest $whole"
verified() { muxctl verify "$id"; }
wait_for 60 verified || fail "not sealed: $(muxctl verify "$id" 2>&1)"
equal "... and in its recording" "$(sum <"$tmp/mix")" "$(muxctl export "$id" --format raw --stream output | tail -c $((MIB << 20)) | sum)"

head -c 1048576 "$tmp/mix" >"$tmp/one"
put "$tmp/one" one || fail "put"
for size in 10 1048576; do
	play small $size "$RUNS" >"$tmp/runs" || fail "a run of $size bytes: $(tail -n 2 "$tmp/runs")"
	want="$size $(head -c $size "$tmp/one" | sum) whole"
	equal "$size bytes and a program that exits at once, $RUNS times: runs that lost or added something" 0 \
		"$(cut -d' ' -f2- "$tmp/runs" | grep -cvxF "$want")"
	equal "... runs" "$RUNS" "$(wc -l <"$tmp/runs")"
done
