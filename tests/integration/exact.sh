#!/bin/bash
# Nothing is lost and nothing is added: MIB megabytes of terminal text (32; acceptance asks for 256) through a raw
# terminal and as a round's output, and what programs print that exit at once, RUNS times (20; acceptance: 1000) each as
# terminal, as `ssh host cmd` and as round. Compared by SHA-256 at the client, and in the sealed recordings.
# A daemon of its own with rule `full`.
# tier: test, san MIB=2 RUNS=2, slice MIB=8 RUNS=3, whole MIB=256 RUNS=1000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
MIB=${MIB:-32} RUNS=${RUNS:-20}

chmod 0711 "$tmp"
cat >"$tmp/full.yaml" <<'Y'
record:
  rules:
    - {kind: "*", session: "*", rule: full}
grants: {ttl: 2h}
Y
start_daemon "$tmp/state" --config "$tmp/full.yaml" || fail "no daemon"
agent=exact
token=$(new_token $agent staff terminal,rounds,replay 2h)
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
(umask 077 && printf '%s' "$token" >"$tmp/token")
options=(-F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" -o LogLevel=QUIET
	-l "$agent" -o ControlPath="$tmp/cm")
trap 'ssh "${options[@]}" -O exit 127.0.0.1 2>/dev/null; stop_daemon; tidy' EXIT
SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force ssh "${options[@]}" -o PreferredAuthentications=password -o ControlMaster=yes -f -N 127.0.0.1 || fail "no connection"
# over [options] COMMAND: a session over the one connection
over() { ssh "${options[@]}" -o ControlMaster=no -o BatchMode=yes "${tty[@]}" 127.0.0.1 "$@" </dev/null; }
tty=()
sum() { sha256sum | cut -d' ' -f1; }
last() { muxctl session list --all --agent $agent -n 1 -o json | jq -r '.sessions[0].id'; }
verified() { muxctl verify "$1"; }
# sealed ID STREAM: the digest of that stream in the recording, once it is sealed and verifies
sealed() {
	wait_for 60 verified "$1" || fail "$1 is not sealed or does not verify: $(muxctl verify "$1" 2>&1)"
	muxctl export "$1" --format raw --stream "$2" | sum
}

# Text as programs print it: colours, cursor moves, wide characters, long lines, progress bars, bare CR and BEL.
/usr/bin/python3 - "$MIB" >"$tmp/mix" <<'P'
import random, sys
rng, left, out = random.Random(7), int(sys.argv[1]) << 20, sys.stdout.buffer
words = "make error warning ok über naïve 漢字 仮名 ✓ 😀 ─┼─ src/main.c 0x7f \x1b[2J\x1b[H \x07 \x1b]0;title\x07".split(" ")
block = bytearray()
while len(block) < 1 << 20:
    pick = rng.random()
    if pick < 0.5:
        block += ("\x1b[%dm%s\x1b[0m " % (rng.randrange(30, 48), " ".join(rng.choices(words, k=9)))).encode() + b"\r\n"
    elif pick < 0.7:
        block += b"%3d%% [%s]\r" % (rng.randrange(101), b"#" * rng.randrange(60))
    elif pick < 0.9:
        block += ("\x1b[%d;%dH" % (rng.randrange(24), rng.randrange(80)) + "".join(rng.choices(words, k=40))).encode() + b"\n"
    else:
        block += rng.randbytes(rng.randrange(3000)).hex().encode() + b"\n"
while left > 0:
    piece = (b"%016d" % left) + block
    out.write(piece[:left])
    left -= len(piece)
P
want=$(sum <"$tmp/mix")
ssh "${options[@]}" -o ControlMaster=no -o BatchMode=yes 127.0.0.1 'cat > mix; sha256sum mix' <"$tmp/mix" >"$tmp/out" || fail "cannot write into the sandbox"
equal "$MIB MiB in" "$want" "$(cut -d' ' -f1 <"$tmp/out")"
equal "and so the recording of what was typed" "$want" "$(sealed "$(last)" input)"

tty=(-tt)
start=$(date +%s%N)
equal "$MIB MiB of terminal text in a raw terminal" "$want" "$(over 'stty raw -echo; exec cat mix' | sum)"
echo "  $((MIB * 1000000000 / ($(date +%s%N) - start + 1))) MiB/s"
equal "and so the sealed recording" "$want" "$(sealed "$(last)" output)"
tty=()
start=$(date +%s%N)
equal "$MIB MiB as a round's output" "$want" "$(muxctl exec $agent -n -- cat mix | sum)"
echo "  $((MIB * 1000000000 / ($(date +%s%N) - start + 1))) MiB/s"
equal "and so the sealed recording" "$want" "$(sealed "$(last)" stdout)"

r=$(api "$token" POST "/v1/agents/$agent/rounds" '{"argv":["cat","mix"],"wait_ms":60000}')
equal "the digest in the round's answer" "$want" "$(jq -r .stdout.sha256 <<<"$r")"
equal "its total" $((MIB << 20)) "$(jq -r .stdout.total_bytes <<<"$r")"
id=$(jq -r .round_id <<<"$r")
pages() {
	local at=0
	while [ $at -lt $((MIB << 20)) ]; do
		api "$token" GET "/v1/rounds/$id/output?stream=stdout&offset=$at&limit=1048576" >"$tmp/page" || return
		[ "$(jq -r .offset "$tmp/page")" = $at ] || return
		if [ "$(jq -r .encoding "$tmp/page")" = base64 ]; then jq -j .data "$tmp/page" | base64 -d; else jq -j .data "$tmp/page"; fi >"$tmp/bytes"
		cat "$tmp/bytes"
		at=$((at + $(stat -c %s "$tmp/bytes")))
		[ -s "$tmp/bytes" ] || return
	done
}
equal "and the output, page by page" "$want" "$(pages | sum)"

# An exec_id that was used before: the same output, from the record, and the same end.
twice() { # NAME OPTIONS... -- COMMAND: its output, status and stderr in $tmp/NAME.1 and .2
	local name=$1 i
	shift
	for i in 1 2; do
		muxctl exec --exec-id "x-$name" "$@" </dev/null >"$tmp/$name.$i" 2>"$tmp/$name.$i.err"
		echo $? >"$tmp/$name.$i.rc"
	done
}
twice ten $agent -- sh -c 'printf 0123456789; printf abc >&2; exit 3'
equal "ten bytes, twice" "0123456789 abc 3" "$(cat "$tmp/ten.2") $(cat "$tmp/ten.2.err") $(cat "$tmp/ten.2.rc")"
twice long $agent -- head -c 2097152 mix
equal "2 MiB" "$(head -c 2097152 "$tmp/mix" | sum) 0" "$(sum <"$tmp/long.1") $(cat "$tmp/long.1.rc")"
equal "and again" "$(sum <"$tmp/long.1") 0" "$(sum <"$tmp/long.2") $(cat "$tmp/long.2.rc" "$tmp/long.2.err")"
twice json -o json $agent -- sh -c 'printf 0123456789; exit 4'
outcome() { jq '[.session, .stdout, .stderr, .exit.cause, .exit.code]' "$tmp/json.$1"; }
equal "as JSON, twice" "$(outcome 1) 4" "$(outcome 2) $(cat "$tmp/json.2.rc")"

# Programs that print and exit at once.
head -c 1048576 "$tmp/mix" >"$tmp/mib"
over 'head -c 1048576 mix > mib; printf 0123456789 > ten' || fail "no files"
cp "$tmp/mib" "$tmp/want-mib"
printf 0123456789 >"$tmp/want-ten"
as_terminal() { over "stty raw -echo; exec cat $1"; }
as_command() { over "exec cat $1"; }
as_round() {
	api "$token" POST "/v1/agents/$agent/rounds" "{\"argv\":[\"cat\",\"$1\"],\"wait_ms\":20000}" >"$tmp/answer"
	jq -r '.stdout | "\(.total_bytes) \(.sha256) \(.truncated)"' "$tmp/answer" >"$tmp/said"
	[ "$(cat "$tmp/said")" = "$(stat -c %s "$tmp/want-$1") $(sum <"$tmp/want-$1") false" ] || cat "$tmp/said" >&2
	if [ "$(jq -r .stdout.encoding "$tmp/answer")" = base64 ]; then jq -j .stdout.data "$tmp/answer" | base64 -d; else jq -j .stdout.data "$tmp/answer"; fi
}
for as in terminal command round; do
	tty=()
	[ $as = terminal ] && tty=(-tt)
	for what in ten mib; do
		bad=0
		start=$(date +%s%N)
		for i in $(seq "$RUNS"); do
			"as_$as" $what >"$tmp/got" 2>"$tmp/err" </dev/null
			cmp -s "$tmp/got" "$tmp/want-$what" && [ ! -s "$tmp/err" ] && continue
			bad=$((bad + 1))
			echo "run $i: $(stat -c %s "$tmp/got") bytes; $(cat "$tmp/err"); $(cmp "$tmp/got" "$tmp/want-$what" 2>&1)" >&2
		done
		equal "$RUNS times $(stat -c %s "$tmp/want-$what") bytes as $as, incomplete" 0 $bad
		echo "  $((($(date +%s%N) - start) / RUNS / 1000000)) ms each"
	done
done

# The same in the record: each of these sessions, by digest.
listed() {
	local before=() left=$((RUNS * 6)) n
	while [ $left -gt 0 ]; do
		n=$((left < 500 ? left : 500))
		muxctl session list --all --agent $agent -n $n "${before[@]}" -o json | jq -r '.sessions[] | "\(.id) \(.kind) \(.open.pty)"' >"$tmp/page"
		[ -s "$tmp/page" ] || return
		cat "$tmp/page"
		left=$((left - n)) before=(--before "$(tail -n 1 "$tmp/page" | cut -d' ' -f1)")
	done
}
listed >"$tmp/list"
equal "all of them are in the record" $((RUNS * 6)) "$(wc -l <"$tmp/list")"
equal "a third of them rounds" $((RUNS * 2)) "$(grep -c round "$tmp/list")"
equal "a third with a terminal" $((RUNS * 2)) "$(grep -c true "$tmp/list")"
wait_for 60 verified "$(head -n 1 "$tmp/list" | cut -d' ' -f1)" || fail "the last one is not sealed"
while read -r id _; do
	muxctl export "$id" --format raw --stream stdout | sum
done <"$tmp/list" | sort | uniq -c | awk '{print $1, $2}' >"$tmp/sums"
for what in ten mib; do echo "$((RUNS * 3)) $(sum <"$tmp/want-$what")"; done | sort -k2 >"$tmp/want-sums"
equal "each complete in its recording" "$(cat "$tmp/want-sums")" "$(sort -k2 "$tmp/sums")"
muxctl verify --all >"$tmp/verify" || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "and the whole record verifies"
