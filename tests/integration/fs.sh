#!/bin/bash
# File operations of the API: each does what it says below /workspace and nothing outside, is refused by name where it
# cannot, and stands in the audit log by path with the digests before and after.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/fs_story.sh
. "$here/tests/lib/fs_story.sh"

agent=fs root=/workspace
PRINCIPAL=fs.1
token=$(new_token fs agent files)
inside true
fs_write_and_read
fs_change_what_is_known
fs_names_and_trees
fs_patch_and_search
fs_stays_inside
fs_bad_requests
fs_by_muxctl
fs_recorded
