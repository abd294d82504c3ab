#!/bin/bash
# MCP servers inside sandboxes that are pods, by the stories of this machine: used, killed, asleep, hostile, and real
# ones of npm by the official SDK.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes
# shellcheck disable=SC2086 # words
retell ${STORIES-servers servers_hostile mcp_servers}
