#!/bin/bash
# Files go into a sandbox and come out of it whole or not at all: of any name and size, with their mode, with a named
# error where that is not possible, and each stands in the audit log by path, size and digest.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/files_story.sh
. "$here/tests/lib/files_story.sh"

agent=files
PRINCIPAL=files.1
files_there_and_back
files_names
files_conditions
files_modes
files_refused
files_cut
files_recorded

# A small workspace, a daemon of its own: no space is said as such, and a daemon that dies in the middle leaves nothing.
chmod 0711 "$tmp"
printf 'sandbox: {workspace_size: 32MiB}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon of our own"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
agent=small
inside true
files_no_space 50000000 20000000
files_daemon_dies
