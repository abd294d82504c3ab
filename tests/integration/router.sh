#!/bin/bash
# A request with X-Sandbox-ID at the HTTPS door reaches a port in the sandbox and its answer streams back: whole, at once,
# both ways, whatever the method; who may not, and what is not there, is told by name; and it stands in the record.
# tier: test, slice MIB=200, whole MIB=1024
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/router_story.sh
. "$here/tests/lib/router_story.sh"

agent=router
PRINCIPAL=router.1
router_serve
router_answers
router_bodies
router_streams
router_websocket
router_ends
router_refused
router_recorded
router_split_heads

# A daemon of its own, with a list of ports and short times.
chmod 0711 "$tmp"
printf 'router: {ports: "8000, 9000-9100", answer_timeout: 1s, idle_timeout: 2s}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon of our own"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
router_limits
router_wakes
