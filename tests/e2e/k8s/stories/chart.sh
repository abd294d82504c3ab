#!/bin/bash
# The Helm chart's objects before a real API server: files of values in tests/chart/values (FILES="a b"; FILES=every: all of them),
# rendered into a namespace that is not called muxd, as a dry run at the server, which has to give back every field (one that it does
# not know it would drop). Kinds that the cluster lacks are named. Nothing is made, but the story's two namespaces; installing are the stories deploy and helm.
# tier: all, whole FILES=every
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

end_chart() {
	kubectl delete namespace "$ns-b" --wait=false --ignore-not-found --request-timeout=10s >/dev/null 2>&1
	end_story
}
trap end_chart EXIT
kubectl create namespace "$ns-b" >/dev/null || fail "no second namespace"
kubectl api-resources --no-headers | awk '{print $(NF-2), $NF}' | sort -u >"$tmp/served"
grep -q '^apps/v1 StatefulSet$' "$tmp/served" || fail "the cluster does not say what it serves"

# lost OBJECTS ANSWERS: paths of fields that were sent and did not come back. Quantities come back in another spelling.
cat >"$tmp/lost.py" <<'PY'
import json, sys
def lost(a, b, path):
    if isinstance(a, dict):
        return [p for k in a if a[k] not in ({}, [], None) for p in (lost(a[k], b[k], f"{path}.{k}") if isinstance(b, dict) and k in b else [f"{path}.{k}"])]
    if isinstance(a, list):
        return [p for x, y in zip(a, b) for p in lost(x, y, path + "[]")] if isinstance(b, list) and len(a) == len(b) else [path]
    return [] if str(a) == str(b) or ".resources." in path else [f"{path}: {a} became {b}"]
sent = [json.loads(line) for line in open(sys.argv[1])]
got = json.load(open(sys.argv[2]))
got = got["items"] if got["kind"] == "List" else [got]
key = lambda o: (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"])
got = {key(o): o for o in got}
bad = [p for o in sent for p in (lost(o, got[key(o)], o["kind"]) if key(o) in got else [f"{key(o)} did not come back"])]
print("\n".join(bad))
PY

: >"$tmp/absent"
# all.yaml has what the others have one by one; beside it those that take something away.
files=${FILES:-all default ingress-least namespaces-exist no-pod-security open}
[ "$files" != every ] || files=$(cd "$here/tests/chart/values" && printf '%s\n' *.yaml | sed 's/\.yaml$//')
for name in $files; do
	python3 "$here/tests/chart/check.py" "$here" --objects "$ns" "$ns-b" "$name" >"$tmp/all" || fail "$name: not rendered"
	jq -r '"\(.apiVersion) \(.kind)"' "$tmp/all" | sort -u | comm -23 - "$tmp/served" >"$tmp/lacks"
	cat "$tmp/lacks" >>"$tmp/absent"
	jq -c --rawfile lacks "$tmp/lacks" '($lacks | split("\n")) as $l | select("\(.apiVersion) \(.kind)" | IN($l[]) | not)' "$tmp/all" >"$tmp/objects"
	kubectl apply --dry-run=server --validate=true -o json -f "$tmp/objects" >"$tmp/answers" 2>"$tmp/err" || fail "$name: $(head -c 600 "$tmp/err")"
	equal "$name: the server takes $(grep -c . "$tmp/objects") objects, and every field" "" "$(python3 "$tmp/lost.py" "$tmp/objects" "$tmp/answers" 2>&1)"
	# A StatefulSet's template is looked at only when a pod is made of it.
	jq -c 'select(.kind == "StatefulSet") | {apiVersion: "v1", kind: "Pod", metadata: (.spec.template.metadata + {name: "muxd-0", namespace: .metadata.namespace}),
		spec: (.spec.template.spec + {serviceAccountName: "default", volumes: (.spec.template.spec.volumes + [{name: "state", emptyDir: {}}])})}' "$tmp/all" >"$tmp/pod"
	kubectl create --dry-run=server -f "$tmp/pod" >"$tmp/out" 2>&1 && ok "$name: and the pod" || fail "$name: the pod: $(cat "$tmp/out")"
done
# The server is one that checks: a field and a value that are wrong.
python3 "$here/tests/chart/check.py" "$here" --objects "$ns" "$ns-b" default | grep '"StatefulSet"' >"$tmp/good"
jq -c '.spec.template.spec.nodeSelektor = {a: "b"}' "$tmp/good" >"$tmp/objects"
kubectl apply --dry-run=server -f "$tmp/objects" >"$tmp/out" 2>&1 && fail "an unknown field is taken"
jq -c '.spec.containers[0].volumeMounts[0].name = "nobody"' "$tmp/pod" >"$tmp/objects"
kubectl create --dry-run=server -f "$tmp/objects" >"$tmp/out" 2>&1 && fail "a mount of no volume is taken"
grep -q 'volumeMounts.*nobody' "$tmp/out" && ok "what is wrong is refused" || fail "refused otherwise: $(cat "$tmp/out")"
equal "nothing was made" "" "$(kubectl get statefulset,service,configmap,networkpolicy,ingress -n "$ns" -o name | grep muxd)"
sort -u "$tmp/absent" | sed 's/^/  not checked, the cluster lacks it: /'
