#!/bin/bash
# What an edge recorded comes to its centre: in bounded batches, with a position, under the edge's signature and the
# centre's. The centre is away and comes back, either is killed in the middle, a batch comes twice: nothing is lost, nothing
# is there twice, and all is in order. Two readers say so, and both notice what is changed afterwards.
# tier: test, slice RECORDS=600, whole RECORDS=10000
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
C=$tmp/centre E=$tmp/edge RECORDS=${RECORDS:-600}
centre() { "$MUXCTL" --state "$C" "$@"; }
edge() { "$MUXCTL" --state "$E" "$@"; }
pids=()
trap 'end_own "${pids[@]}"; wait; tidy' EXIT
mkfifo "$tmp/cuts"
/usr/bin/python3 "$here/tests/lib/tcp_gate.py" "$tmp/gate" <"$tmp/cuts" &
pids+=($!)
exec 7>"$tmp/cuts"
wait_for 10 test -s "$tmp/gate" || fail "no gate"
start_centre() {
	start_daemon "$C" --config "$tmp/centre.yaml" || fail "no centre"
	CENTRE=$DAEMON pids+=("$DAEMON")
	echo "to $(ready https)" >&7
}
start_edge() {
	mkdir -p "$E" && chmod 0711 "$E" && rm -f "$E/ready.json"
	"$BUILD/muxd" serve --edge --state "$E" --config "$tmp/edge.yaml" 2>>"$E/daemon.log" &
	EDGE=$! pids+=($!)
	wait_for 30 test -s "$E/ready.json" || fail "no edge: $(tail -n 20 "$E/daemon.log")"
}
# Two files tell each of the other; each is what `muxctl edge show` prints there.
: >"$tmp/centre.yaml"
start_centre
centre edge show -o json >"$tmp/centre.json"
url=https://127.0.0.1:$(cat "$tmp/gate")
cat >"$tmp/edge.yaml" <<Y
edge: {centre: "$url", centre_keys: $tmp/centre.json, ca: $C/keys/tls.crt, poll: 1s}
witnesses:
  - {name: centre, kind: muxd, url: "$url", ca: $C/keys/tls.crt, key: "$(jq -r '.record_keys[0]' "$tmp/centre.json")", interval: 1s, timeout: 5s}
Y
start_edge
edge edge show -o json >"$tmp/edge.json"
stop_daemon
jq '{edge: {known: [{name: "site", id, key}]}, witness: {pushers: [{name: "site", log_id, keys: .record_keys, merge: true}]}}' \
	"$tmp/edge.json" >"$tmp/centre.yaml"
start_centre
wait_for 20 eval 'edge edge show -o json | jq -e .in_force' || fail "the edge does not hear from its centre"
centre edge mint site --agent box --principal bot --task t --reason story -o json | jq -r .token >"$tmp/lease"
# work N FROM: as many calls, each an event of the edge's log that names its number
work() {
	/usr/bin/python3 - "$E/api.sock" "$tmp/lease" "$1" "$2" <<-'P' || fail "the edge did not work"
		import http.client, socket, sys
		path, token, n, first = sys.argv[1], open(sys.argv[2]).read().strip(), int(sys.argv[3]), int(sys.argv[4])
		class Local(http.client.HTTPConnection):
		    def connect(self):
		        self.sock = socket.socket(socket.AF_UNIX)
		        self.sock.connect(path)
		for i in range(first, first + n):
		    c = Local("muxd")
		    c.request("GET", "/v1/agents/box/locks", headers={"Authorization": "Bearer " + token, "X-Request-ID": "n-%d" % i})
		    a = c.getresponse()
		    a.read()
		    if a.status != 200:
		        sys.exit("%d: %d" % (i, a.status))
	P
}
merged() { centre edge records site 2>/dev/null; }
count() { merged | grep -c '"lock.list"'; }
has() { [ "$(count)" -ge "$1" ]; }
third=$((RECORDS / 3))

work "$third" 0
wait_for 30 has 1 || fail "nothing comes to the centre: $(tail -n 5 "$E/daemon.log") $(tail -n 5 "$C/daemon.log")"
ok "what an edge records comes to its centre"

# ---- the centre is away for seconds: the edge goes on, and keeps all of it. What a day leaves is shown by how many records
# there are (RECORDS), not by a day; what a day does to leases test_hub_edge has, whose clock runs on.
kill -KILL "$CENTRE"
wait "$CENTRE" 2>/dev/null
work "$third" "$third"
start_centre
# ---- and is killed again while it takes it in, as the edge is while it sends
for _ in 1 2; do
	wait_for 20 has 1
	kill -KILL "$CENTRE" "$EDGE"
	wait "$CENTRE" "$EDGE" 2>/dev/null
	start_edge
	start_centre
done
wait_for 20 eval 'edge edge show -o json | jq -e .in_force' || fail "the edge does not hear from its centre"
work $((RECORDS - 2 * third)) $((2 * third))
wait_for 60 has "$RECORDS" || fail "$(count) of $RECORDS came to the centre: $(tail -n 5 "$E/daemon.log")"
equal "all of it, once" "$RECORDS" "$(count)"
merged | jq -s '[.[].seq] | . == (sort | unique)' >"$tmp/order"
equal "in order" true "$(cat "$tmp/order")"

# ---- the same as the edge has it, event by event
stop_edge() { edge shutdown --sandboxes >/dev/null 2>&1; wait "$EDGE" 2>/dev/null; }
last=$(merged | tail -n 1 | jq .seq)
/usr/bin/python3 "$here/tools/mrec.py" log "$E/record" | jq -c --argjson last "$last" 'select(.seq <= $last)' | jq -c '[.seq, .type, .payload]' >"$tmp/there"
/usr/bin/python3 "$here/tools/mrec.py" merged "$C/record" | jq -c --argjson last "$last" 'select(.seq <= $last)' | jq -c '[.seq, .type, .payload]' >"$tmp/here"
cmp -s "$tmp/there" "$tmp/here" || fail "the centre has another log: $(diff "$tmp/there" "$tmp/here" | head -n 4)"
ok "the edge's own log, entry by entry ($(wc -l <"$tmp/here"))"
stop_edge
stop_daemon

# ---- verified by both readers; a byte is changed, and a batch is left out
verify() { centre verify --all -o json; }
equal "muxctl verify" intact "$(verify | jq -r .integrity)"
n=$(verify | jq .summary.merged)
[ "$n" -ge "$RECORDS" ] || fail "verify counted $n merged entries"
ok "with $n merged entries"
second() { /usr/bin/python3 "$here/tools/mrec.py" check "$C/record"; }
equal "the second reader: intact, as many" "true $n" "$(second | jq -r '"\(.intact) \(.merged)"')"
file=$(ls "$C"/record/merged/*.entries)
cp "$file" "$tmp/entries"
offset=$(grep -abo lock.list "$file" | tail -n 1 | cut -d: -f1)
printf LOCK | dd of="$file" bs=1 seek="$offset" conv=notrunc 2>/dev/null
changed() { jq -r '[.. | .code? // empty] | unique | join(" ")'; }
equal "a changed byte" "merged_changed merged_changed" "$(verify | changed) $(second | changed)"
truncate -s $(($(stat -c %s "$tmp/entries") - 10)) "$file"
equal "an end that is gone" "merged_changed merged_changed" "$(verify | changed) $(second | changed)"
cp "$tmp/entries" "$file"
equal "and as it was" "intact true" "$(verify | jq -r .integrity) $(second | jq .intact)"
