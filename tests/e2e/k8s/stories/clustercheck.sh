#!/bin/bash
# muxctl cluster check against a real API server: every way past muxd, given to an account of its own by every kind of role and
# binding, is found with its place and its role, and what gives no way is not; the server's own access reviews say the same. Who
# may read nothing is told what is not known, and muxd's own account is not asked.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

m=$ns-m
end_clustercheck() {
	kubectl delete clusterrole,clusterrolebinding -l "story=$ns" --request-timeout=10s >/dev/null 2>&1
	kubectl delete namespace "$m" --wait=false --ignore-not-found --request-timeout=10s >/dev/null 2>&1
	end_story
}
trap end_clustercheck EXIT
kubectl create namespace "$m" >/dev/null || fail "no namespace for muxd"
until_ok 30 kubectl -n "$m" get serviceaccount default || fail "no service account"
python3 - "$ns" "$m" >"$tmp/objects.json" 2>"$tmp/expected" <<'P'
"""objects on stdout; on stderr, for each account: ACCOUNT VERB RESOURCE.GROUP NAMESPACE-or-- WAY WHERE, WAY - for no way"""
import json, sys
box, muxd = sys.argv[1:]
objects = []
RBAC = "rbac.authorization.k8s.io"


def add(kind, name, namespace=None, **more):
    meta = {"name": name, "labels": {"story": box, **more.pop("labels", {})}}
    if namespace:
        meta["namespace"] = namespace
    version = "v1" if kind == "ServiceAccount" else RBAC + "/v1"
    objects.append({"apiVersion": version, "kind": kind, "metadata": meta, **more})


def give(account, rules, ns=None, role="ClusterRole", **more):
    """ns None: by a ClusterRoleBinding, else by a RoleBinding there"""
    name = f"{box}-{account}"
    add("ServiceAccount", account, box)
    add(role, name, ns if role == "Role" else None, rules=rules, **more)
    add("RoleBinding" if ns else "ClusterRoleBinding", name, ns, roleRef={"apiGroup": RBAC, "kind": role, "name": name},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": box}])


def expect(account, verb, resource, group, ns, way, where):
    print(account, verb, resource + ("." + group if group else ""), ns or "-", way.replace(" ", "_"), where or "-", file=sys.stderr)


def rule(verb, resource, group="", **more):
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb], **more}]


ways = [("get", "nodes/proxy", "", "node proxy", "c"), ("create", "nodes/proxy", "", "node proxy", "c"), ("create", "pods/exec", "", "exec", "sm"),
        ("get", "pods/exec", "", "exec", "s"), ("create", "pods/attach", "", "attach", "sm"), ("create", "pods/portforward", "", "port-forward", "s"),
        ("update", "pods/ephemeralcontainers", "", "ephemeral containers", "s"), ("patch", "pods/ephemeralcontainers", "", "ephemeral containers", "m"),
        ("create", "pods", "", "make pods", "sm"), ("patch", "pods", "", "change pods", "s"), ("create", "deployments", "apps", "make pods", "sm"),
        ("create", "cronjobs", "batch", "make pods", "s"), ("create", "services/proxy", "", "service proxy", "s"),
        ("get", "secrets", "", "muxd's secrets", "m"), ("list", "secrets", "", "muxd's secrets", "m"), ("watch", "secrets", "", "muxd's secrets", "m"),
        ("impersonate", "users", "", "impersonate", "c"), ("impersonate", "groups", "", "impersonate", "c"), ("impersonate", "serviceaccounts", "", "impersonate", "m"),
        ("bind", "clusterroles", RBAC, "bind", "csm"), ("bind", "roles", RBAC, "bind", "s"), ("escalate", "clusterroles", RBAC, "escalate", "c"),
        ("escalate", "roles", RBAC, "escalate", "m"), ("patch", "validatingwebhookconfigurations", "admissionregistration.k8s.io", "webhook", "c"),
        ("deletecollection", "validatingwebhookconfigurations", "admissionregistration.k8s.io", "webhook", "c"),
        ("create", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", "webhook", "c"),
        ("delete", "validatingadmissionpolicybindings", "admissionregistration.k8s.io", "policy", "c"), ("patch", "namespaces", "", "label", "s"),
        ("create", "serviceaccounts/token", "", "muxd's token", "m"), ("update", "configmaps", "", "muxd's configuration", "m"),
        ("approve", "signers", "certificates.k8s.io", "approve certificates", "c")]
place = {"c": None, "s": box, "m": muxd}
for i, (verb, resource, group, way, wheres) in enumerate(ways):
    for w in wheres:
        account = f"w{i}{w}"
        give(account, rule(verb, resource, group), place[w], "ClusterRole" if w == "c" or i % 2 else "Role")
        expect(account, verb, resource, group, place[w], way, place[w])

# the spellings of one right
exec_ = ("create", "pods/exec", "", box, "exec", box)
for account, rules in {"star-verb": rule("*", "pods/exec"), "star-group": rule("create", "pods/exec", "*"), "star-sub": rule("create", "*/exec"),
                       "named": rule("create", "pods/exec", resourceNames=["one-pod"]),
                       "second": rule("list", "pods") + rule("create", "pods/exec")}.items():
    give(account, rules, box)
    if account != "named":  # the server would have to be asked with the name
        expect(account, *exec_)
    else:
        expect(account, "-", "-", "", None, "exec", box)
give("named-account", rule("create", "serviceaccounts/token", resourceNames=["muxd"]), muxd)
expect("named-account", "create", "serviceaccounts/muxd/token", "", muxd, "muxd's token", muxd)
# an aggregated role: the controller fills in its rules
add("ClusterRole", f"{box}-part", rules=rule("create", "pods/attach"), labels={"aggregate-to": box})
give("aggregated", [], box, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"aggregate-to": box}}]})
expect("aggregated", "create", "pods/attach", "", box, "attach", box)
# everything
give("all", rule("*", "*", "*"), None)
expect("all", "*", "*", "*", None, "everything", None)

# what gives no way
for account, rules, ns in [("reads", rule("get", "pods") + rule("list", "pods") + rule("watch", "pods") + rule("get", "pods/log"), box),
                           ("ends", rule("delete", "pods") + rule("create", "pods/eviction"), box), ("scrapes", rule("get", "nodes/metrics"), None),
                           ("elsewhere", rule("create", "pods/exec"), "default"), ("group", rule("create", "pods/exec", "apps"), box),
                           ("verb", rule("delete", "pods/exec"), box), ("parent", rule("get", "nodes"), None),
                           ("other-account", rule("create", "serviceaccounts/token", resourceNames=["default"]), muxd),
                           ("other-webhook", rule("patch", "validatingwebhookconfigurations", "admissionregistration.k8s.io", resourceNames=["x"]), None),
                           ("box-secrets", rule("get", "secrets"), box)]:
    give(account, rules, ns)
    expect(account, "-", "-", "", None, "-", None)
add("ServiceAccount", "muxd", muxd)
add("ServiceAccount", "dangling", box)
add("ClusterRoleBinding", f"{box}-dangling", roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{box}-none"},
    subjects=[{"kind": "ServiceAccount", "name": "dangling", "namespace": box}])
expect("dangling", "-", "-", "", None, "-", None)
# people and groups
add("ClusterRole", f"{box}-people", rules=rule("get", "nodes/proxy"))
add("ClusterRoleBinding", f"{box}-people", roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{box}-people"},
    subjects=[{"apiGroup": RBAC, "kind": "User", "name": f"{box}:anna"}, {"apiGroup": RBAC, "kind": "Group", "name": f"{box}:team"}])
# muxd itself, as it is shipped
add("Role", "muxd", box, rules=rule("create", "pods/exec") + rule("get", "pods/exec") + rule("create", "pods"))
add("RoleBinding", "muxd", box, roleRef={"apiGroup": RBAC, "kind": "Role", "name": "muxd"},
    subjects=[{"kind": "ServiceAccount", "name": "muxd", "namespace": muxd}])
json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, sys.stdout)
P
kubectl create -f "$tmp/objects.json" >"$tmp/applied" 2>&1 || fail "the roles are not taken: $(grep -v created "$tmp/applied" | tail -n 3)"
filled() { [ "$(kubectl get clusterrole "$ns-aggregated" -o jsonpath='{.rules[0].resources[0]}')" = pods/attach ]; }
wait_for 30 filled || fail "the aggregated role stays empty"

check() { "$MUXCTL" cluster check --muxd "$m" --sandboxes "$ns" "$@"; }
check -o json >"$tmp/found" 2>"$tmp/err"
equal "somebody can, and the status says so" 3 $?
equal "nothing is unknown to the administrator" 0 "$(jq '.unknown | length' "$tmp/found")"
# what is found of the accounts of this story: ACCOUNT WAY WHERE
jq -r --arg ns "$ns" '.can[] | select(.kind == "ServiceAccount" and .namespace == $ns) |
	"\(.name) \(.way | gsub(" "; "_")) \(if .where == "" then "-" else .where end)"' "$tmp/found" | sort -u >"$tmp/got"
awk '$5 != "-" {print $1, $5, $6}' "$tmp/expected" | sort -u >"$tmp/wanted"
diff "$tmp/wanted" "$tmp/got" >"$tmp/diff" && ok "$(wc -l <"$tmp/got") ways of $(wc -l <"$tmp/expected") accounts are told, and no other" || fail "wanted and found: $(cat "$tmp/diff")"
for who in "User $ns:anna" "Group $ns:team"; do
	equal "$who" "node proxy get nodes/proxy ClusterRoleBinding $ns-people -> ClusterRole $ns-people" \
		"$(jq -r --arg who "$who" '.can[] | select(.who == $who) | "\(.way) \(.rights[0]) \(.by[0])"' "$tmp/found")"
done
equal "muxd's own rights are no finding" "" "$(jq -r --arg m "$m" '.can[] | select(.namespace == $m and .name == "muxd") | .way' "$tmp/found")"
equal "each has its fix" 0 "$(jq '[.can[] | select(.fix == "")] | length' "$tmp/found")"
equal "the caller himself, by review" "everything" "$(jq -r '.can[] | select(.kind == "you:") | .way' "$tmp/found")"

# The server's own word: every right that was expected is a right.
reviews=0
while read -r account verb resource where _ _; do
	[ "$verb" != - ] || continue
	namespace=()
	[ "$where" = - ] || namespace=(-n "$where")
	sub=() what=$resource
	case $resource in
	serviceaccounts/muxd/token) sub=(--subresource=token) what=serviceaccounts/muxd ;;
	*/*) sub=(--subresource="${resource#*/}") what=${resource%%/*} ;;
	*.*) what=$resource ;;
	esac
	[ "$what" != "*.*" ] || what="*"
	kubectl auth can-i "$verb" "$what" "${sub[@]}" "${namespace[@]}" --as "system:serviceaccount:$ns:$account" >"$tmp/can" 2>&1 ||
		grep -q "doesn't have a resource type" "$tmp/can" || fail "the server says no to $account: $verb $resource in $where: $(cat "$tmp/can")"
	reviews=$((reviews + 1))
done < <(if [ -n "${REVIEWS:-}" ]; then cat "$tmp/expected"; else awk 'NR % 3 == 0' "$tmp/expected"; fi)
ok "$reviews of them confirmed by the server's access reviews"

check >"$tmp/table" 2>&1
grep -q "^ServiceAccount $ns/w0c .*node proxy .*(cluster) .*get nodes/proxy .*ClusterRoleBinding $ns-w0c -> ClusterRole $ns-w0c .*nodes/metrics" "$tmp/table" &&
	ok "as a table, with the fix" || fail "the table: $(head -n 12 "$tmp/table")"
check --except '*' >"$tmp/table"
equal "with all of them excepted: nobody" "0 Nobody else can enter past muxd." "$? $(grep Nobody "$tmp/table")"

# --- who may read nothing
kubectl config view --raw -o json | jq --arg token "$(cat "$K8S_HOME/pki/story.token")" \
	'.users = [{name: "story", user: {token: $token}}] | .contexts[0].context.user = "story"' >"$tmp/nobody"
check --kubeconfig "$tmp/nobody" >"$tmp/table" 2>&1
equal "a stranger is not told that nobody can" 4 $?
for what in clusterroles clusterrolebindings "roles in $ns" "rolebindings in $m" "what system:authenticated may"; do
	grep -q "^$what .*403" "$tmp/table" || fail "'$what' is not told as not known: $(cat "$tmp/table")"
done
grep -q 'as far as could be read' "$tmp/table" && ok "but what is not known, by name" || fail "$(cat "$tmp/table")"

# --- muxd's own account
secret() { kubectl -n "$m" get secret -o json | jq -re '.items[] | select(.metadata.annotations["kubernetes.io/service-account.name"] == "muxd") | .data.token'; }
token=$(secret | base64 -d)
[ -n "$token" ] || token=$(kubectl create --raw "/api/v1/namespaces/$m/serviceaccounts/muxd/token" -f - \
	<<<'{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' | jq -r .status.token)
jq --arg token "$token" '.users[0].user.token = $token' "$tmp/nobody" >"$tmp/muxd.kubeconfig"
check --kubeconfig "$tmp/muxd.kubeconfig" >"$tmp/table" 2>&1
equal "as muxd nothing is asked" 77 $?
grep -q "muxd's own account" "$tmp/table" && ok "and that is said" || fail "$(cat "$tmp/table")"
jq '.clusters[0].cluster.server = "https://127.0.0.1:1"' "$tmp/nobody" >"$tmp/away"
check --kubeconfig "$tmp/away" >"$tmp/table" 2>&1
equal "an API server that is not there" 69 $?
