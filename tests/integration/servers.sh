#!/bin/bash
# shellcheck disable=SC2016
# MCP servers inside a sandbox: a list in versions, a server that is begun by its first request, its requests in the
# record, its end and its coming back; a sandbox that sleeps, a daemon that is killed; tools that change are held.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/servers_story.sh
. "$(dirname "$0")/../lib/servers_story.sh"

chmod 0711 "$tmp"
servers_policy_file
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
servers_begin servers
servers_list
servers_used
servers_recorded
servers_judged
servers_come_back
servers_kept_apart
servers_grant_ends
servers_sleep
servers_change
servers_daemon_dies
servers_urls
