#!/bin/bash
# What rounds print, in sandboxes that are pods, by the stories of this machine: the whole output by range and live, events that
# are resumed, rounds that outlive their call.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes
# shellcheck disable=SC2086 # words
retell ${STORIES-output events background}
