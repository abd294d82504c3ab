#!/bin/bash
# kill -9 of muxd at random moments under an open page (KILLS=50 for acceptance, SEED=n as it was printed): the page comes
# back by itself, cell by cell as in an unbroken run.
# tier: test, san, slice KILLS=2, whole KILLS=50 CHROMIUM=/usr/bin/chromium
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

webclient/build.sh all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
chmod 0711 "$tmp"
mkdir "$tmp/state" && chmod 0711 "$tmp/state"
cat >"$tmp/state/story.yaml" <<'Y'
record:
  rules:
    - {kind: "*", session: "*", rule: full}
Y
start_daemon "$tmp/state" --config "$tmp/state/story.yaml" || fail "no daemon"
disown "$DAEMON"
finish() {
	muxctl shutdown --sandboxes >/dev/null 2>&1
	# the daemon that the story started again is no child of ours
	for _ in $(seq 200); do kill -0 "$(jq -r .pids.monitor "$tmp/state/ready.json" 2>/dev/null)" 2>/dev/null || break; sleep 0.1; done
	[ -z "${KEEP_LOG:-}" ] || cp "$tmp/state/daemon.log" "$KEEP_LOG"
	grep -E -A20 'Sanitizer|runtime error' "$tmp/state/daemon.log" >&2 && fail "the daemon's log has findings"
	tidy
}
trap finish EXIT
export MUXD_STATE BUILD
node tests/e2e/browser/kill.mjs || fail "see above"
