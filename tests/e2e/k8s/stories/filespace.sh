#!/bin/bash
# An agent's files in step with its owner's store where its sandbox is a pod, by the story of this machine: changes of both sides,
# a conflict, deletions, sleep and wake, and that the snapshot, the pull and the services come in this order.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes
# shellcheck disable=SC2086 # words
retell ${STORIES-filespace}
