#!/bin/bash
# The record's disk fills up under running work, and has room again later: nothing new starts, what runs stands still and
# says why on the screen, /healthz says so; then all goes on by itself, and not a byte is missing, on screen or in the
# record. Net and the whole daemon come back while it is full: the doors open and say why nothing starts. First by record.min_free; then, as root, on a file system that is full to its last byte.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
trap 'end_own ${client:+"$client"}; stop_daemon; umount "$tmp/small/record" 2>/dev/null; tidy' EXIT
export TERM=xterm-256color
agent=full
# config MIN_FREE
config() {
	cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $journal, size: 8MiB}
record:
  min_free: $1
  segment_size: 4MiB
  rules:
    - {kind: "*", session: "*", rule: full}
Y
}
health() { curl -sS -m 20 -o "$tmp/health" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz"; }
healthy() { [ "$(health)" = 200 ]; }
unhealthy() { [ "$(health)" = 503 ]; }
says_full() { unhealthy && grep -q disk_full "$tmp/health"; }
another_net() { [ "$(ready pids.net)" != "$1" ]; }
size() { stat -c %s "$1"; }
said() { grep -aqF "$1" "$tmp/screen"; }
counted() { tr -d '\r' <"$tmp/screen" | grep -aqE '^finished [0-9]'; }
# What the program printed: without the titles, which may stand in the middle of a line.
printed() { perl -0777 -pe 's/(\e\[22;2t)?\e\]2;[^\e]*\e\\(\e\[23;2t)?//g' "$tmp/screen" | grep -aoE 'line [0-9]+ of what must not be lost$' | sha256sum; }
# What was journaled meanwhile is cut, and in the index, a little after there is room.
both_audited() {
	muxctl audit -n 1000 -o json | jq -r .record.event >"$tmp/audit"
	grep -q record.unavailable "$tmp/audit" && grep -q record.ok "$tmp/audit"
}
putting() { muxctl session list --agent $agent --kind file -o json | jq -e '.sessions[0].input_bytes == 6'; }
put_ended() { ! kill -0 "$put"; }
# ticking TOKEN: a round that counts until it is told to end; ticks FILE: the digest of what one that came so far has printed
ticking() {
	muxctl exec $agent -- rm -f go || fail "no session"
	api "$1" POST /v1/agents/$agent/rounds '{"command":"i=0; until [ -e go ]; do i=$((i+1)); echo tick $i; sleep 0.01; done; echo $i in all","wait_ms":0}' | jq -r .round_id
}
told_to_end() { muxctl exec $agent -- touch go; }
ticks() {
	local n
	n=$(sed -n 's/ in all$//p' "$1")
	[ "${n:-0}" -gt 0 ] && (seq -f 'tick %.0f' "$n"; echo "$n in all") | sha256sum | cut -d' ' -f1
}
# through FILL FREE: work that runs while FILL takes the room and FREE gives it back
through() {
	local token lines want id round before held put
	token=$(new_token $agent staff terminal,rounds,observe)
	sshc "$token" $agent 'rm -f done' </dev/null || fail "no session"
	# A terminal that prints as fast as it can, and goes on slowly until it is told to end (a fast machine would be done before
	# the disk is full, or fill a small one); and a round beside it. The screen is kept; keys are typed from a pipe.
	sshx "$token" $agent -tt < <(
		echo "stty raw -echo; PS1=; PS2=; i=0; until [ -e done ]; do i=\$((i+1)); [ \$i -lt 200000 ] || sleep 0.01; echo \"line \$i of what must not be lost\"; done; echo finished \$i"
		sleep 55
	) >"$tmp/screen" 2>"$tmp/client.err" &
	client=$!
	wait_for 10 grep -aq '^line 2000 ' "$tmp/screen" || fail "nothing runs: $(cat "$tmp/screen" "$tmp/client.err")"
	round=$(ticking "$token")
	rm -f "$tmp/held"
	mkfifo "$tmp/held"
	muxctl put $agent - held <"$tmp/held" >"$tmp/put" 2>&1 &
	put=$!
	exec {held}>"$tmp/held"
	echo first >&"$held"
	wait_for 10 putting || fail "no put: $(cat "$tmp/put")"
	"$1"
	wait_for 10 said $'\e]2;[muxd] paused: the disk of the record is full' || fail "not said in the title: $(tail -c 300 "$tmp/screen")"
	ok "the disk is full: said in the title of the window"
	wait_for 5 unhealthy && ok "/healthz answers 503" || fail "/healthz: $(health)"
	jq -e . "$tmp/health" >/dev/null && grep -q disk_full "$tmp/health" && ok "and why" || fail "/healthz says: $(cat "$tmp/health")"
	equal "a new round is refused" disk_full "$(api "$token" POST /v1/agents/$agent/rounds '{"argv":["true"]}' | jq -r .error.code)"
	sshc "$token" $agent true </dev/null >"$tmp/out" 2>&1
	[ $? -ne 0 ] && grep -q disk_full "$tmp/out" && ok "a new session too" || fail "SSH says: $(cat "$tmp/out")"
	sleep 0.5
	before=$(size "$tmp/screen")
	sleep 1
	equal "the running one stands still" "$before" "$(size "$tmp/screen")"
	grep -q "paused: the disk" "$tmp/put" && ok "a put is told, too" || fail "the put says: $(cat "$tmp/put")"
	counted && fail "it was over before it could be paused"
	kill -0 $client || fail "its client was let go"
	"$2"
	wait_for 10 said $'\e[23;2t' && ok "there is room: the title is what it was" || fail "not said: $(tail -c 300 "$tmp/screen")"
	wait_for 5 healthy && ok "/healthz answers 200" || fail "/healthz: $(health)"
	muxctl exec $agent -- touch 'done' || fail "the terminal is not told to end"
	wait_for 30 counted || fail "it did not go on: $(tail -c 300 "$tmp/screen")"
	ok "it goes on to its end"
	seq 200000 >&"$held"
	exec {held}>&-
	wait_for 20 put_ended || fail "the put stands still: $(cat "$tmp/put")"
	equal "so does the put" "$( (echo first; seq 200000) | sha256sum)" "$(muxctl get $agent held - 2>"$tmp/err" | sha256sum)"
	lines=$(tr -d '\r' <"$tmp/screen" | grep -aoE '^finished [0-9]+' | cut -d' ' -f2)
	want=$(seq -f 'line %.0f of what must not be lost' "$lines" | sha256sum)
	equal "on the screen nothing is missing" "$want" "$(printed)"
	id=$(muxctl session list --all --agent $agent --kind terminal -n 1 -o json | jq -r '.sessions[0].id')
	equal "nor in the record" "$want" "$(muxctl export "$id" --format raw --stream output | grep -aoE 'line [0-9]+ of what must not be lost$' | sha256sum)"
	muxctl export "$id" --format json | jq -r 'select(.type=="event") | .body.text // ""' | grep -q '^paused: the disk' &&
		ok "which tells of the pause" || fail "the pause is not in the recording"
	told_to_end || fail "the round beside it is not told to end"
	api "$token" GET "/v1/rounds/$round?wait_ms=20000" | jq -r .stdout.sha256 >"$tmp/digest"
	muxctl export "$round" --format raw --stream stdout >"$tmp/ticks"
	want=$(ticks "$tmp/ticks") || fail "the round beside it did not end: $(tail -n 3 "$tmp/ticks")"
	equal "nor of the round beside it" "$want" "$(cat "$tmp/digest")"
	equal "nor in its record" "$want" "$(sha256sum <"$tmp/ticks" | cut -d' ' -f1)"
	equal "new ones start again" "again" "$(sshc "$token" $agent 'echo again' </dev/null)"
	wait_for 10 both_audited && ok "both are in the audit" || fail "not in the audit: $(tail -n 5 "$tmp/audit")"
	kill $client
	wait $client 2>/dev/null
	client=
	muxctl verify --all >"$tmp/verify"
	[ $? -ne 74 ] && ok "the record is unchanged" || fail "the record: $(cat "$tmp/verify")"
}
# comes_back FILL FREE: net is killed, and the daemon started anew, between FILL and FREE; a round runs all the while
comes_back() {
	local token round want net
	token=$(new_token $agent staff rounds)
	round=$(ticking "$token")
	"$1"
	wait_for 10 says_full || fail "/healthz: $(health) $(cat "$tmp/health")"
	net=$(ready pids.net)
	kill -9 "$net"
	wait_for 20 another_net "$net" || fail "net does not come back: $(tail -n 5 "$MUXD_STATE/daemon.log")"
	wait_for 10 says_full && ok "net was killed: the next one answers, and says why nothing starts" || fail "/healthz: $(cat "$tmp/health")"
	equal "a new round is refused" disk_full "$(api "$token" POST /v1/agents/$agent/rounds '{"argv":["true"]}' | jq -r .error.code)"
	kill -TERM "$DAEMON"
	wait "$DAEMON"
	equal "an end while it is full has a status of its own" 69 $?
	grep -q 'the record lacks [0-9]* records: they are in the journal .* alone' "$MUXD_STATE/daemon.log" &&
		ok "and says what is in the journal alone" || fail "it says: $(tail -n 3 "$MUXD_STATE/daemon.log")"
	start_daemon "$MUXD_STATE" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
	wait_for 10 says_full && ok "so does a daemon that was started meanwhile" || fail "/healthz: $(cat "$tmp/health")"
	"$2"
	wait_for 10 healthy && ok "there is room: /healthz answers 200" || fail "/healthz: $(health)"
	told_to_end || fail "the round that ran meanwhile is not told to end"
	equal "the round that ran meanwhile ends" finished "$(api "$token" GET "/v1/rounds/$round?wait_ms=60000" | jq -r .state)"
	muxctl export "$round" --format raw --stream stdout >"$tmp/ticks"
	want=$(ticks "$tmp/ticks") || fail "it did not end: $(tail -n 3 "$tmp/ticks")"
	equal "and nothing of it is missing, or there twice" "$want" "$(sha256sum <"$tmp/ticks" | cut -d' ' -f1)"
	equal "new ones start again" "0" "$(api "$token" POST /v1/agents/$agent/rounds '{"argv":["true"]}' | jq -r .exit.code)"
}

echo "  record.min_free:"
journal=$tmp/journal
config 1MiB
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
reload() { config "$1" && kill -HUP "$DAEMON"; }
more_than_there_is() { reload 1TiB; }
less_again() { reload 1MiB; }
through more_than_there_is less_again
comes_back more_than_there_is less_again
stop_daemon
owner=$(stat -c 'uid=%u,gid=%g' "$tmp/state/record")

[ "$(id -u)" -eq 0 ] || exit 0
mkdir -m 0711 "$tmp/small" && mkdir "$tmp/small/record"
mount -t tmpfs -o "size=64m,mode=0700,$owner" muxd-test "$tmp/small/record" 2>"$tmp/err" || {
	echo "  no mounts here ($(cat "$tmp/err")): the second half is left out"
	exit 0
}
echo "  a file system of 64 MiB:"
journal=$tmp/journal2
config 2MiB
start_daemon "$tmp/small" --config "$tmp/muxd.yaml" || fail "no daemon"
take_all() {
	dd if=/dev/zero of="$tmp/small/record/filler" bs=64k status=none 2>/dev/null
	equal "bytes left" 0 "$(df --output=avail "$tmp/small/record" | tail -n 1 | tr -d ' ')"
}
give_back() { rm "$tmp/small/record/filler"; }
through take_all give_back
comes_back take_all give_back
