#!/bin/bash
# A daemon that ends waits for what its sandboxes are asked; who asks meanwhile that the sandboxes end too is not answered for
# nothing: they end.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
printf 'log: {level: debug}\nsandbox: {workspace_size: 32MiB}\n' >"$tmp/muxd.yaml"
one=stop-sandboxes-$$
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
equal "a sandbox" "here" "$(muxctl exec $one -- echo here)"
lives() { pgrep -f -- "--hostname $one " >/dev/null; }
lives || fail "it is not found by its name"
# Another one's start, which waits for its directory for as long as the story holds that.
mkdir "$tmp/state/sandboxes/held" && exec 7<"$tmp/state/sandboxes/held" && flock 7 || fail "cannot hold a directory"
muxctl exec held --task story -- true >"$tmp/held" 2>&1 &
inode=$(stat -c %i "$tmp/state/sandboxes/held")
waits() { awk -v of=":$inode\$" '$2 == "->" && $7 ~ of { n++ } END { exit !n }' /proc/locks; }
wait_for 20 waits || fail "nobody waits for the directory: $(cat /proc/locks)"
muxctl shutdown --no-wait >/dev/null || fail "no end"
wait_for 30 grep -q "stopping_recorder -> stopping_sandboxes" "$tmp/state/daemon.log" || fail "it does not come to the sandboxes"
muxctl shutdown --sandboxes --no-wait >/dev/null || fail "an end of the sandboxes, too, is refused"
lives || fail "it ended before"
exec 7<&-
wait "$DAEMON"
equal "the daemon ends well" 0 $?
wait
lives && fail "a sandbox is left that was to be ended, and nobody said so"
ok "and so does the sandbox"
