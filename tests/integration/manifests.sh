#!/bin/bash
# deploy/ without a cluster: manifests and chart say the same, give no more rights than they must, and lock every pod down.
# tests/e2e/k8s/stories/deploy.sh applies them to a real one.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

python3 "$here/tests/lib/manifests.py" "$here" || fail "the manifests are not as they should be"
# image.sh reads the Dockerfile for what it does not say itself.
for what in muxd muxlet; do
	grep -q "^FROM scratch AS $what\$" "$here/deploy/image/Dockerfile" || fail "the Dockerfile has no stage $what"
done
if command -v helm >/dev/null; then
	helm lint "$here/deploy/helm/muxd" || fail "helm lint"
	ok "helm lint"
else
	echo "  not run: helm lint (there is no helm; Debian has none)"
fi
