#!/bin/bash
# kill -9 of the monitor, of net, of all of muxd and of the API server, at random moments, while agents go through every transition:
# nobody is lost, nobody is there twice, every snapshot that was answered is there. Told in tests/integration/lifecycle_kill.py.
# KILLS=n (default 3; for acceptance 50), AGENTS=n (default 5; 20), SEED=n to do the same again.
# tier: all, whole KILLS=50 AGENTS=20
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"
KILLS=${KILLS:-3} AGENTS=${AGENTS:-5} BUILD=$BUILD MUXCTL=$MUXCTL K8S_API=$K8S_API K8S_NODE=$K8S_NODE \
	/usr/bin/python3 "$K8S_DIR/lifecycle_kill.py" "$tmp/state" "$ns" "$tmp/kubeconfig" || {
	tail -n 30 "$tmp/state/daemon.log"
	fail "lifecycle does not survive"
}
