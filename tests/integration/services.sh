#!/bin/bash
# shellcheck disable=SC2016
# Services inside a sandbox: a web server that is begun with it, dies and comes back, is held where it dies in a loop, sleeps
# with it and is woken by a request that it answers itself; a daemon that is killed begins none twice.
# tier: test, slice CYCLES=2, whole CYCLES=50
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/services_story.sh
. "$(dirname "$0")/../lib/services_story.sh"

CYCLES=${CYCLES:-2}
chmod 0711 "$tmp"
services_policy_file
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
services_begin services
services_list
services_recorded
services_judged
services_die
services_sleep
services_daemon_dies
services_leave_nothing
services_stay
services_gone
services_wiped
services_verified
