#!/bin/bash
# What the page on Kubernetes has to paste is a correct configuration. The story outside pastes it against a cluster.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

cat >"$tmp/kubeconfig" <<YAML
{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: t}}]}
YAML
"$here/tests/lib/readme_config.py" "$here/docs/kubernetes.md" "kubernetes.kubeconfig=$tmp/kubeconfig" >"$tmp/muxd.yaml" || fail "docs/kubernetes.md has no configuration to paste"
equal "with a kubeconfig that is there" "$tmp/muxd.yaml: correct" "$("$BUILD/muxd" check-config "$tmp/muxd.yaml" 2>&1)"
"$here/tests/lib/readme_config.py" "$here/docs/kubernetes.md" >"$tmp/muxd.yaml"
"$BUILD/muxd" check-config "$tmp/muxd.yaml" 2>&1 | grep -q 'kubernetes.kubeconfig' && ok "as it stands: the path of the kubeconfig is named" || fail "$("$BUILD/muxd" check-config "$tmp/muxd.yaml" 2>&1)"
# the commented keys are keys, too
sed -n '/^```yaml/,/^```/s/^  # \([a-z_]*: [^ ]*\).*/  \1/p' "$here/docs/kubernetes.md" | sort -u >"$tmp/more"
[ -s "$tmp/more" ] || fail "no commented keys"
{ "$here/tests/lib/readme_config.py" "$here/docs/kubernetes.md" "kubernetes.kubeconfig=$tmp/kubeconfig" | sed '/^kubernetes:/r '"$tmp/more"; } | sed '/context:/d' >"$tmp/muxd.yaml"
equal "with the keys behind #" "$tmp/muxd.yaml: correct" "$("$BUILD/muxd" check-config "$tmp/muxd.yaml" 2>&1)"
