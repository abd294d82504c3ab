#!/bin/bash
# shellcheck disable=SC2016
# MCP servers inside a sandbox that are broken or hostile: each fails its own request by name and is held down with
# back-off, and the good one beside them notices nothing.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/servers_story.sh
. "$(dirname "$0")/../lib/servers_story.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
servers_begin hostile
servers_wide
servers_restless
servers_ping
servers_sways
servers_cut
servers_hostile
servers_url_hostile
