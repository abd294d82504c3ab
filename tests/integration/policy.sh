#!/bin/bash
# deploy/kustomize/policy without a cluster: its expressions, evaluated over every path that the webhook's unit test makes, refuse
# and let pass what the webhook does. A policy is asked once for each labelled namespace (paramRef); here that is `boxes`. What no
# API server did here: take the policy and look up its parameters (those of the tests are older than policies).
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' || {
	echo "  not run: the evaluator of CEL needs node 20, this is $(node --version)"
	exit 0
}
"$here/webclient/build.sh" all >"$tmp/npm" 2>&1 || fail "npm: $(tail -n 3 "$tmp/npm")"
make -s -C "$here" build/unit/test_node_path >"$tmp/make" 2>&1 || fail "no table: $(tail -n 5 "$tmp/make")"
"$here/build/unit/test_node_path" --print >"$tmp/table" || fail "no table"
python3 -c 'import json, sys, yaml; json.dump([d for d in yaml.safe_load_all(open(sys.argv[1])) if d], sys.stdout)' \
	"$here/deploy/kustomize/policy/policy.yaml" >"$tmp/policy.json" || fail "the policy is no YAML"
node "$here/tests/lib/policy.mjs" "$tmp/policy.json" "$tmp/table" >"$tmp/out" 2>&1 && ok "$(tail -n 1 "$tmp/out")" || fail "$(tail -n 20 "$tmp/out")"
