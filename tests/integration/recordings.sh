#!/bin/bash
# A recording is read over HTTPS as a page's player does: page by page, of any size, from the beginning or from a moment,
# while the session goes on and once it is sealed. The bytes are those of muxctl export, each once; reading is audited.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=recordings
PRINCIPAL=recordings.1
token=$(new_token $agent staff terminal,rounds,observe,replay)
cat >"$tmp/read.py" <<'P'
"""read.py ID LIMIT [FROM_PER_CENT]: output of a recording to stdout; what its pages were to stderr."""
import os, ssl, sys, http.client, json
sys.path.insert(0, os.environ["LIB"])
import events
tls = ssl.create_default_context(cafile=os.environ["MUXD_STATE"] + "/keys/tls.crt")
host, port = os.environ["HTTPS"].rsplit(":", 1)
c = http.client.HTTPSConnection(host, int(port), context=tls)
def get(path):
    c.request("GET", path, headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
    r = c.getresponse()
    body = r.read()
    if r.status != 200:
        sys.exit("%s: %d %s" % (path, r.status, body[:300]))
    return r, body
base = "/v1/recordings/" + sys.argv[1]
about = json.loads(get(base)[1])
start = 0
if len(sys.argv) > 3:
    first, last = int(about["first_ns"]), int(about["last_ns"])
    start = first + (last - first) * int(sys.argv[3]) // 100
seq, pages, at = 0, 0, None
while True:
    r, body = get("%s/events?from_ns=%d&after_seq=%d&limit=%s" % (base, start, seq, sys.argv[2]))
    pages += 1
    for kind, stream, flags, n, ns, offset, payload in events.decode(body):
        if n < seq or (start and ns < start and kind != events.EXIT):
            sys.exit("an event out of order, or from before the moment")
        seq = n
        if kind == events.DATA and stream == 1:
            if at is not None and offset != at:
                sys.exit("a hole at %d" % at)
            at = offset + len(payload)
            sys.stdout.buffer.write(payload)
    if r.getheader("Muxd-Page") != "more":
        print(pages, r.getheader("Muxd-Page"), file=sys.stderr)
        break
P
read_it() { LIB=$here/tests/lib HTTPS=$(ready https) TOKEN=$token /usr/bin/python3 "$tmp/read.py" "$@"; }

session=$(api "$token" POST "/v1/agents/$agent/rounds" '{"wait_ms":60000,"command":"for i in $(seq 40); do seq $((i * 100)) $((i * 100 + 99)); sleep 0.02; done"}' | jq -r .round_id)
exported() { muxctl export "$session" --format raw --stream output >"$tmp/want" 2>/dev/null && [ -s "$tmp/want" ]; }
wait_for 30 exported || fail "no recording"
sealed() { curl_json "/v1/recordings/$session" | jq -e '.state == "sealed"' >/dev/null; }
curl_json() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" "https://$(ready https)$1"; }
for limit in 1 1000 1048576; do
	read_it "$session" $limit >"$tmp/got" 2>"$tmp/pages" || fail "limit $limit: $(cat "$tmp/pages")"
	cmp "$tmp/want" "$tmp/got" && ok "its bytes, pages of $limit: $(tr "\n" " " <"$tmp/pages")" || fail "other bytes with pages of $limit"
done
wait_for 60 sealed && ok "it is sealed"
read_it "$session" 777 >"$tmp/got" 2>"$tmp/pages" || fail "sealed: $(cat "$tmp/pages")"
cmp "$tmp/want" "$tmp/got" && ok "the same bytes once sealed"
equal "the end is said" end "$(cut -d' ' -f2 "$tmp/pages")"
read_it "$session" 100000 60 >"$tmp/got" 2>"$tmp/pages" || fail "from a moment: $(cat "$tmp/pages")"
n=$(wc -c <"$tmp/got")
[ "$n" -gt 0 ] && [ "$n" -lt "$(wc -c <"$tmp/want")" ] && tail -c "$n" "$tmp/want" | cmp - "$tmp/got" && ok "from a moment on, the rest" ||
	fail "from a moment: $n bytes"
about=$(curl_json "/v1/recordings/$session")
equal "what it is" "$(wc -c <"$tmp/want")" "$(jq '.streams[] | select(.name == "output") | .total' <<<"$about")"
equal "its timeline adds up" "$(wc -c <"$tmp/want")" "$(jq '.timeline.output | add' <<<"$about")"

# A session that goes on: what was there is not read again.
muxctl exec $agent --task story -- sh -c 'echo one; sleep 3; echo two; sleep 600' >/dev/null 2>&1 &
live() { curl_json "/v1/recordings?agent=$agent&state=open" | jq -r '.recordings[0].session // empty'; }
is_live() { [ -n "$(live)" ]; }
wait_for 30 is_live || fail "no live session is listed"
session=$(live)
shows() { read_it "$session" 100 2>"$tmp/pages" | grep -q "$1"; }
wait_for 30 shows two && ok "a session that goes on is read, too"
equal "and says so" live "$(cut -d' ' -f2 "$tmp/pages")"
muxctl session terminate "$session" --reason "the story is over" >/dev/null

refused() { (token=$(PRINCIPAL=${2:-tester} new_token $agent staff "$1") && curl_json "/v1/recordings/$session" | jq -r .error.code); }
equal "without scope replay" forbidden "$(refused terminal,rounds,observe stranger)"
equal "who may not even watch hears of none" not_found "$(refused terminal,rounds stranger)"
audited() { muxctl audit --agent $agent --event record.read -n 1000 -o json | jq -c 'select(.record.ops.page and .record.outcome == "ok")' | grep -q .; }
wait_for 20 audited && ok "who reads is in the audit log" || fail "it is not in the audit log"
