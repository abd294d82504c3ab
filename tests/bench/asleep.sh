#!/bin/bash
# Many agents asleep (AGENTS, 10,000): how soon muxd is ready, how long lists of them take. Their rows are copies of a real one,
# put into the stopped daemon's database; nothing else of them is there. Prints rows of docs/speed.md.
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
AGENTS=${AGENTS:-10000}

ms() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.0f", (b - a) / 1e6}'; }
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; rm -rf "$tmp"' EXIT
muxctl sandbox resume first >/dev/null && muxctl sandbox stop first --reason bench >/dev/null || fail "no sandbox to copy"
muxctl shutdown >/dev/null
wait "$DAEMON"
/usr/bin/python3 - "$tmp/state/control/control.db" "$AGENTS" <<'P'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
columns = [c[1] for c in db.execute("pragma table_info(agents)")]
first = db.execute("select %s from agents where agent = 'first'" % ",".join(columns)).fetchone()
rows = ([("a-%05d" % n if c == "agent" else v) for c, v in zip(columns, first)] for n in range(int(sys.argv[2])))
db.executemany("insert into agents(%s) values(%s)" % (",".join(columns), ",".join("?" * len(columns))), rows)
db.commit()
P
for f in "$tmp/state/control"/*; do chown --reference="$tmp/state/control" "$f"; done
t0=$(date +%s%N)
start_daemon "$tmp/state"
echo "| start of muxd with $AGENTS agents asleep | $(ms "$t0" "$(date +%s%N)") ms | | | ≤ 1 s |"
new_token '*' service lifecycle,admin >"$tmp/token"
# list QUERY: the middle of nine, from the request's end to the answer's first byte
list() {
	for _ in $(seq 9); do
		curl -sS -o "$tmp/list" -w '%{time_starttransfer} %{time_pretransfer}\n' --cacert "$MUXD_STATE/keys/tls.crt" \
			-H "Authorization: Bearer $(cat "$tmp/token")" "https://$(ready https)/v1/agents?$1"
	done | awk '{print ($1 - $2) * 1000}' | sort -n | sed -n 5p
}
for query in "limit=1000" "state=stopped&prefix=a-09&limit=100" "state=stopped&after=a-05000&limit=100" "state=running&limit=100"; do
	took=$(list "$query")
	echo "| a list of them, $query: $(jq '.agents | length' "$tmp/list") | $(printf '%.1f' "$took") ms | | | ≤ 50 ms |"
done
