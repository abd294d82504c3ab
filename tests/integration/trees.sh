#!/bin/bash
# What streams of file operations: trees as archives, both ways, whole or not at all; what happens to files as it happens; and what
# programs changed, in the audit log.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/fs_story.sh
. "$here/tests/lib/fs_story.sh"

agent=trees
PRINCIPAL=trees.1
token=$(new_token trees agent files)
inside true
fs_trees
fs_watches
fs_programs_changed
