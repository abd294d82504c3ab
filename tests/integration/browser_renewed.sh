#!/bin/bash
# A page in Chromium whose grant is renewed goes on behind its old end: over a cut line, by its calls, over a killed
# daemon; one whose grant was not renewed stays refused, and no cookie is good for longer than renewals and revocations
# say.
# tier: test, whole CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

webclient/build.sh all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
chmod 0711 "$tmp"
mkdir "$tmp/state" && chmod 0711 "$tmp/state"
echo 'grants: {warn: 2s, renew_max: 10m}' >"$tmp/state/story.yaml"
start_daemon "$tmp/state" --config "$tmp/state/story.yaml" || fail "no daemon"
disown "$DAEMON"
finish() {
	muxctl shutdown --sandboxes >/dev/null 2>&1
	# the daemon that the story started again is no child of ours
	for _ in $(seq 200); do kill -0 "$(jq -r .pids.monitor "$tmp/state/ready.json" 2>/dev/null)" 2>/dev/null || break; sleep 0.1; done
	grep -E -A20 'Sanitizer|runtime error' "$tmp/state/daemon.log" >&2 && fail "the daemon's log has findings"
	tidy
}
trap finish EXIT
export MUXD_STATE BUILD
node tests/e2e/browser/renewed.mjs || fail "see above"
