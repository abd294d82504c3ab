#!/bin/bash
# With `record.release: durable` nobody is shown a byte that a power cut could take back. Somebody who watches a flood that is
# faster than the disk is shown what is safe, with its holes said in order; the round has every byte; a terminal goes on beside it.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 16MiB}
record: {release: durable}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=durable
token=$(new_token $agent staff terminal,rounds,observe)
(umask 077 && printf '%s' "$token" >"$tmp/token")
round=$(api "$token" POST /v1/agents/$agent/rounds \
	'{"command": "while [ ! -e go ]; do sleep 0.1; done; head -c 64M /dev/zero | tr \\\\0 a", "wait_ms": 0}' | jq -r .round_id)
/usr/bin/python3 - "$(ready https)" "$MUXD_STATE/keys/tls.crt" "$round" "$tmp" >"$tmp/watched" 2>&1 <<'P' &
import sys
sys.path.insert(0, "tests/lib")
from websocket import Terminal

address, cafile, session, tmp = sys.argv[1:5]
t = Terminal(address, "/v1/sessions/%s/attach?role=observer" % session, open(tmp + "/token").read().strip(), cafile=cafile)
open(tmp + "/watching", "w").close()
shown = 0


def more(data):
    global shown
    shown += len(data)
    if data.strip(b"a"):
        sys.exit("something else than the flood")


t.rest(more)  # each hole is checked: forward, and from where the last byte was
print("shown" if shown else "nothing", "ended" if t.exit else "cut", t.offset, "few" if t.skips < 5000 else t.skips)
P
watcher=$!
wait_for 20 test -e "$tmp/watching" || fail "no watcher: $(cat "$tmp/watched")"
equal "a terminal beside it" "42" "$(sshc "$token" $agent 'touch go; echo $((40 + 2))' </dev/null)"
over() { [ "$(api "$token" GET "/v1/rounds/$round?wait_ms=1000" | jq -r .state)" = finished ]; }
wait_for 60 over || fail "the round does not end"
equal "every byte of it" "exit 67108864" "$(api "$token" GET "/v1/rounds/$round" | jq -r '"\(.exit.cause) \(.stdout.total_bytes)"')"
wait $watcher || fail "the watcher: $(cat "$tmp/watched")"
equal "what was watched, and its end" "shown ended 67108864 few" "$(cat "$tmp/watched")"
# A changed journal.size takes effect at the next start: the ring is made anew under a round that runs on.
ring_size() { stat -c %s "$tmp/journal/ring"; }
round=$(api "$token" POST /v1/agents/$agent/rounds \
	'{"command": "for i in $(seq 4000); do echo tick $i; sleep 0.001; done", "wait_ms": 0}' | jq -r .round_id)
before=$(ring_size)
kill -TERM "$DAEMON"
wait "$DAEMON"
sed -i 's/size: 16MiB/size: 32MiB/' "$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
equal "the journal has its new size" $((before + (16 << 20))) "$(ring_size)"
wait_for 60 over || fail "the round does not end: $(api "$token" GET "/v1/rounds/$round")"
equal "and the round not a byte less or more" "$(seq -f 'tick %.0f' 4000 | sha256sum)" \
	"$(muxctl export "$round" --format raw --stream stdout | sha256sum)"
# A recorder that stands still makes nothing durable: an answer waits until it goes on, a screen shows nothing meanwhile.
recorder=$(ready pids.recorder)
kill -STOP "$recorder"
api "$token" POST /v1/agents/$agent/rounds '{"command": "echo shown"}' >"$tmp/answer" 2>&1 &
asked=$!
sshc "$token" $agent 'echo shown' </dev/null >"$tmp/screen" 2>&1 &
watched=$!
sleep 3
[ -s "$tmp/answer" ] && fail "answered while nothing could be durable: $(cat "$tmp/answer")"
[ -s "$tmp/screen" ] && fail "shown while nothing could be durable: $(cat "$tmp/screen")"
ok "nothing is answered or shown while the recorder stands still"
kill -CONT "$recorder"
wait $asked
equal "the answer comes when it goes on" "shown 0" "$(jq -r '"\(.stdout.data | rtrimstr("\n")) \(.exit.code)"' "$tmp/answer")"
wait $watched
equal "and so does the screen" shown "$(cat "$tmp/screen")"
