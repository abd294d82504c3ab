#!/bin/bash
# Services inside sandboxes that are pods, by the story of this machine: begun, healthy, dead and back, held, asleep and woken by
# a request that a server of Node answers.
# tier: all, whole CYCLES=50
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes
# shellcheck disable=SC2086 # words
retell ${STORIES-services}
