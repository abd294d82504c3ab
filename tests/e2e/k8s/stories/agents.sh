#!/bin/bash
# What agents have on this machine they have in the cluster, by the same stories, through the link: code contexts and
# python_exec, shells, rounds with a terminal, artifacts, locks, agent-sandbox's runtime, grants
# that name paths, and run_code() of the clients.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes
# Those that start a daemon of their own.
# shellcheck disable=SC2086 # words
retell ${STORIES-contexts shells pty artifacts locks runtime}
# And those that use the run's.
start_daemon "$tmp/state" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; end_boxes' EXIT
export MUXD_STATE
# shellcheck disable=SC2086 # words
retell ${SHARED-grant_paths clients_code}
