#!/bin/bash
# What programs change is told whatever becomes of the daemon and the sandbox: by a stop right behind a round, over a daemon that was
# killed, and not where the configuration says so.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/fs_story.sh
. "$here/tests/lib/fs_story.sh"

agent=changes PRINCIPAL=changes.1
chmod 0711 "$tmp"
printf 'lifecycle: {keep_snapshots: 1}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT

# ---- a stop at once
inside true || fail "no sandbox"
inside sh -c 'echo x >first; echo y >stays'
muxctl sandbox stop --reason "right behind a round" $agent >/dev/null || fail "not stopped"
tells created '"first"' "$(echo x | sum)"

# ---- awake again: what it holds is compared with, and not told anew. A program that began before the first look was over is named
# there: what it deleted may have gone before.
id=$(inside rm first && muxctl session list --all --agent "$agent" --kind round -n 1 -o json | jq -r '.sessions[0].id')
overlapped() { muxctl audit --agent "$agent" --event workspace.changes -o json | jq -es --arg id "$id" 'any(.record.detail | .baseline == true and any(.sessions[]; .session == $id))'; }
told_or_named() { changed deleted '"first"' || overlapped; }
wait_for 20 told_or_named && ok "a deletion right after waking is told, or not known by name" || fail "$(muxctl audit -n 3 --agent "$agent" -o json)"
inside rm stays
tells deleted '"stays"'
equal "what it held already is told once" 1 "$(changes '[.[] | select(.path == "stays" and .how == "created")] | length')"

# ---- the daemon is killed while a program runs, which goes on
muxctl exec -n $agent -- sh -c 'setsid sh -c "until [ -e go ]; do sleep 0.05; done; echo z >meanwhile" >/dev/null 2>&1 & touch ready' || fail "no program"
tells created '"ready"'
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon again"
inside touch go
wait_for 10 inside test -e meanwhile || fail "the program did not go on"
tells created '"meanwhile"' "$(echo z | sum)"


# ---- not wanted
stop_daemon
printf 'files: {changes: false}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon a third time"
before=$(changes length)
inside sh -c 'echo no >untold'
inside true
sleep 2 # an event that must not come: two looks' time
equal "files.changes: false, and nothing is told" "$before" "$(changes length)"
