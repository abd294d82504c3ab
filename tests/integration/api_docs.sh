#!/bin/bash
# Every example of docs/api.md runs as it stands, and answers what the page shows.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
mkdir -p "$tmp/bin" "$tmp/page/src"
ln -s "$MUXCTL" "$tmp/bin/muxctl"
# What is refused ends the example.
printf '#!/bin/sh\nexec %s --fail-with-body "$@"\n' "$(command -v curl)" >"$tmp/bin/curl"
chmod +x "$tmp/bin/curl"
seq 1000 >"$tmp/page/report.csv"
echo 'print(1)' >"$tmp/page/src/a.py"
# Two answers that no example gives: an error, and an event.
token=$(muxctl grant create --agent demo --principal docs --kind agent --scopes rounds --ttl 15m --reason docs -o json | jq -r .token)
api "$token" POST /v1/agents/demo/rounds '{"argv":["true"]}' >"$tmp/error"
token=$(new_token demo agent rounds)
round() { api "$token" POST /v1/agents/demo/rounds "$1" >/dev/null; }
changes() { muxctl audit --event workspace.changes -o json | jq -e '.record.detail | select((.entries // []) | length > 0)' >"$tmp/changes"; }
round '{"command":"echo x >gone"}'
wait_for 20 changes || fail "no event workspace.changes"
export STATE=$MUXD_STATE SHOWN_error=$tmp/error SHOWN_look=$tmp/changes
PATH=$tmp/bin:$PATH /usr/bin/python3 "$here/tests/integration/api_docs.py" "$tmp/page" || fail "see above"
