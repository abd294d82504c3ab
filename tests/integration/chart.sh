#!/bin/bash
# The Helm chart without helm: every file of values in tests/chart/values by two renderers, on clusters of several kinds, its
# schema, and what each value does. tests/e2e/k8s/stories/chart.sh lets a real API server check the objects.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

make -s --no-print-directory -C "$here" build/chart/render || fail "no second renderer"
# Of files alone: what was found right is looked at again when one of them changes.
cd "$here" || fail "no checkout"
TMP_DIR=$tmp tests/lib/clean.py chart deploy docs tests/chart tests/lib base/conf_make.c muxd/monitor/options.c -- \
	/usr/bin/python3 tests/chart/check.py "$here" "$here/build/chart/render" || fail "the chart is not as it should be"
# Helm lists and lets through by these rules whom the chart is for.
for version in v1.20.0 v1.20.15-eks-1 v1.36.0; do
	"$here/build/chart/render" -kube-version "$version" "$here/deploy/helm/muxd" >/dev/null || fail "the chart refuses Kubernetes $version"
done
"$here/build/chart/render" -kube-version v1.19.16 "$here/deploy/helm/muxd" >/dev/null 2>"$tmp/err" && fail "the chart takes Kubernetes 1.19"
grep -q incompatible "$tmp/err" && ok "for 1.20 and later" || fail "refused otherwise: $(cat "$tmp/err")"
"$here/build/chart/render" -namespace agents "$here/deploy/helm/muxd" | jq -e '.notes | contains("NAMESPACE=agents")' >/dev/null && ok "the notes name the namespace" || fail "the notes"
if command -v helm >/dev/null; then
	for f in "$here"/tests/chart/values/*.yaml; do
		helm template -n agents -f "$f" muxd "$here/deploy/helm/muxd" >/dev/null || fail "helm template -f $f"
	done
	ok "helm template, of every file"
else
	echo "  not run: helm (Debian has none); the head of tests/chart/render.go says what that leaves out"
fi
