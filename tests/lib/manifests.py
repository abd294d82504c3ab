#!/usr/bin/python3
"""manifests.py TOP: deploy/ without a cluster. The Kustomize bases are whole, the Helm chart with its own values makes the
same objects as deploy/kustomize/base, nobody is given more rights than the list below, every pod is locked down.

The chart is rendered by chart.py, a stand-in for `helm template`, which Debian does not have. Where there is a helm, the story
runs `helm lint` besides. tests/chart/check.py has more of the chart. Needs python3-yaml."""
import os
import re
import sys

import yaml

import chart as helm

RELEASE = "muxd"
RIGHTS = {
    ("Role", "muxd"): {("pods", "get list watch create delete"), ("pods/exec", "get create"), ("pods/log", "get"),
                       ("persistentvolumeclaims", "get list create patch delete"), ("events", "list"),
                       ("volumesnapshots", "get list create delete"), ("sandboxes", "get create patch delete")},
    ("ClusterRole", "muxd-cluster"): {("volumesnapshotcontents", "get"), ("persistentvolumes", "get"), ("nodes", "get")},
    ("ClusterRole", "muxd-target"): {("pods", "get list watch"), ("pods/exec", "get create"), ("pods/log", "get")},
    ("ClusterRole", "muxd-target-ephemeral"): {("pods/ephemeralcontainers", "patch")},
    ("ClusterRole", "muxd-storage"): {("volumesnapshotcontents", "get list patch delete"), ("persistentvolumes", "get patch")},
    ("Role", "muxd-warmpool"): {("sandboxclaims", "get create patch delete")},
    ("ClusterRole", "muxd-staff"): {("tokenreviews", "create"), ("subjectaccessreviews", "create")},
}
# What muxctl cluster check would name, of the examples for people
WAYS = {"*", "nodes/proxy", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "pods/ephemeralcontainers", "services/proxy",
        "secrets", "serviceaccounts/token"}
# of a kustomization, since kustomize 2.1 or 5.0
DEPRECATED = {"bases", "patchesStrategicMerge", "patchesJson6902", "commonLabels", "vars", "imageTags", "helmChartInflationGenerator"}
failures = []


def check(what, fine, more=""):
    print(f"  {'ok' if fine else 'WRONG'}: {what}" + (f": {more}" if not fine else ""))
    if not fine:
        failures.append(what)


def documents(text):
    return [d for d in yaml.safe_load_all(text) if d]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def key(o):
    return o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]


def kustomization(directory):
    """The objects of a directory, its bases first; generated ConfigMaps without the suffix that kustomize gives them."""
    k = yaml.safe_load(read(os.path.join(directory, "kustomization.yaml")))
    objects = []
    check(f"{os.path.basename(directory)}: no deprecated field", not DEPRECATED & k.keys(), DEPRECATED & k.keys())
    for name in k.get("resources", []):
        path = os.path.join(directory, name)
        objects += kustomization(path) if os.path.isdir(path) else documents(read(path))
    for generated in k.get("configMapGenerator", []):
        objects = [o for o in objects if key(o) != ("ConfigMap", generated["namespace"], generated["name"])]
        data = {f.split("=")[0]: read(os.path.join(directory, f.split("=")[1])) for f in generated["files"]}
        objects.append({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
                        "metadata": {"name": generated["name"], "namespace": generated["namespace"]}})
    for patch in k.get("patches", []):
        for o in documents(read(os.path.join(directory, patch["path"]))):
            check(f"{os.path.basename(directory)}: the patch of {key(o)} has its object", key(o) in map(key, objects))
    return objects


def normal(o):
    """As compared between base and chart: without comments, order, and what each has of its own."""
    o = yaml.safe_load(yaml.safe_dump(o))
    if o["kind"] == "StatefulSet":
        o["spec"]["template"]["metadata"].pop("annotations", None)
    if o["kind"] == "Service":
        o["spec"].setdefault("type", "ClusterIP")
    if o["kind"] == "ConfigMap":
        o["data"] = {k: yaml.safe_load(v) for k, v in o["data"].items()}
    return o


def same(what, wanted, got):
    wanted = {key(o): normal(o) for o in wanted}
    got = {key(o): normal(o) for o in got}
    check(f"{what}: the same objects", wanted.keys() == got.keys(), sorted(wanted.keys() ^ got.keys()))
    for k in sorted(wanted.keys() & got.keys()):
        check(f"{what}: {' '.join(filter(None, k))}", wanted[k] == got[k], f"{wanted[k]}\n    {got[k]}")


def rights(objects):
    for o in objects:
        if o["kind"] in ("Role", "ClusterRole"):
            got = {(r, " ".join(rule["verbs"])) for rule in o["rules"] for r in rule["resources"]}
            check(f"the rights of {o['metadata']['name']}", got == RIGHTS.get((o["kind"], o["metadata"]["name"])), got)
        if o["kind"].endswith("Binding") and "roleRef" in o:
            check(f"only muxd is bound by {o['metadata']['name']}",
                  o["subjects"] == [{"kind": "ServiceAccount", "name": "muxd", "namespace": "muxd"}], o["subjects"])


def people(objects):
    """The examples lead nobody into a sandbox."""
    for o in objects:
        given = {(r, v) for rule in o["rules"] for r in rule["resources"] for v in rule["verbs"]}
        check(f"no way past muxd in {o['metadata']['name']}", o["kind"] == "ClusterRole" and not {r for r, _ in given} & WAYS
              and not {v for _, v in given} & {"*", "impersonate", "bind", "escalate"} and ("pods", "create") not in given, given)


def locked_down(objects):
    for o in objects:
        if o["kind"] != "StatefulSet":
            continue
        spec = o["spec"]["template"]["spec"]
        pod = spec["securityContext"]
        check("runs as nobody in particular", pod["runAsNonRoot"] is True and pod["runAsUser"] > 0)
        check("seccomp", pod["seccompProfile"] == {"type": "RuntimeDefault"})
        for c in spec["containers"]:
            check(f"{c['name']} is locked down", c["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
            check(f"{c['name']} has limits and probes", {"limits", "requests"} <= c["resources"].keys()
                  and {"startupProbe", "readinessProbe", "livenessProbe"} <= c.keys())
            mounted = {m["name"] for m in c["volumeMounts"]}
            there = {v["name"] for v in spec["volumes"]} | {v["metadata"]["name"] for v in o["spec"]["volumeClaimTemplates"]}
            check(f"{c['name']} mounts what there is", mounted == there, mounted ^ there)


def admission(webhook, policies):
    """What the webhooks are asked and what the policies match is one thing."""
    hooks = {w["name"].removesuffix("sandboxes.muxd.dev").rstrip(".") or "sandboxes": w for w in webhook["webhooks"]}
    matches = {o["metadata"]["name"].removeprefix("muxd-"): o["spec"] for o in policies if o["kind"] == "ValidatingAdmissionPolicy"}
    bindings = {o["spec"]["policyName"].removeprefix("muxd-"): o["spec"] for o in policies if o["kind"] != "ValidatingAdmissionPolicy"}
    check("sandboxes and nodes, in both", hooks.keys() == matches.keys() == bindings.keys() == {"sandboxes", "nodes"})
    for name, w in hooks.items():
        m = matches[name]["matchConstraints"]
        check(f"the webhook of {name} fails closed", w["failurePolicy"] == "Fail" and matches[name]["failurePolicy"] == "Fail")
        check(f"webhook and policy of {name} are about the same", w["rules"] == m["resourceRules"]
              and w.get("namespaceSelector") == m.get("namespaceSelector"))
        check(f"what is refused of {name} is denied", bindings[name]["validationActions"] == ["Deny"])
    check("nodes are asked about wherever they are", "namespaceSelector" not in hooks["nodes"]
          and {r["scope"] for r in hooks["nodes"]["rules"]} == {"Cluster"})
    check("the policy of nodes goes by the label of the webhook",
          bindings["nodes"]["paramRef"]["selector"] == hooks["sandboxes"]["namespaceSelector"])


# Of the Compose specification what the file may use; a word that is not here is a slip of the pen, or belongs here.
COMPOSE = {"image", "build", "command", "environment", "ports", "volumes", "privileged", "shm_size", "stop_grace_period", "restart"}


def compose(top):
    """No engine runs it: it parses, its words are Compose's, and what it names of ours exists."""
    c = yaml.safe_load(read(os.path.join(top, "deploy/compose.yaml")))
    s = c["services"]["muxd"]
    check("Compose: known words alone", set(c) == {"services", "volumes"} and set(s) <= COMPOSE, set(s) - COMPOSE)
    build = s["build"]
    dockerfile = os.path.join(top, "deploy", build["context"], build["dockerfile"])
    stage = rf"^FROM \S+ AS {re.escape(build['target'])}$"
    check("Compose: its build exists", os.path.exists(dockerfile) and re.search(stage, read(dockerfile), re.M), build)
    ours = set(re.findall(r'(?:\{|getenv\()"([A-Z_]+)"', read(os.path.join(top, "base/conf_make.c")))) | {"MUXD_STATE"}
    check("Compose: muxd reads these variables", set(s["environment"]) <= ours, set(s["environment"]) - ours)
    taken = set(re.findall(r'\{"(--[a-z]+)"', read(os.path.join(top, "muxd/monitor/options.c"))))
    flags = {w for w in s["command"] if w.startswith("--")}
    check("Compose: muxd serve takes these options", s["command"][0] == "serve" and flags <= taken, flags - taken)
    named = {v.split(":")[0] for v in s["volumes"]}
    check("Compose: its volumes are declared", named == set(c["volumes"]), named)
    inner = {str(p).rsplit(":", 1)[1] for p in s["ports"]}
    bound = {w.rsplit(":", 1)[1] for w in s["command"] if ":" in w}
    check("Compose: the ports that are handed out are bound", inner == bound, inner ^ bound)


def main():
    compose(sys.argv[1])
    deploy = os.path.join(sys.argv[1], "deploy")
    base = kustomization(os.path.join(deploy, "kustomize/base"))
    staff = kustomization(os.path.join(deploy, "kustomize/staff"))
    policy = kustomization(os.path.join(deploy, "kustomize/policy"))
    storage = kustomization(os.path.join(deploy, "kustomize/storage"))
    warm = kustomization(os.path.join(deploy, "kustomize/warmpool"))
    ephemeral = kustomization(os.path.join(deploy, "kustomize/ephemeral"))
    overlay = kustomization(os.path.join(deploy, "kustomize/tests"))
    check("the overlay changes no object's name", sorted(map(key, overlay)) == sorted(map(key, base + staff)))
    rights(base + staff + storage + warm + ephemeral)
    people(kustomization(os.path.join(deploy, "kustomize/people")))
    locked_down(base)
    webhook = [o for o in base if o["kind"] == "ValidatingWebhookConfiguration"]
    admission(webhook[0], policy)

    chart = os.path.join(deploy, "helm/muxd")
    own = [o for o in base if key(o) != ("Namespace", "", RELEASE)]  # helm makes it, or is told to
    same("chart", own, helm.Chart(chart).objects)
    same("chart, staff", own + staff, helm.Chart(chart, {"staff": True}).objects)
    same("chart, take over", own + storage, helm.Chart(chart, {"takeOverRetained": True}).objects)
    same("chart, warm pool", own + warm, helm.Chart(chart, {"warmPool": True}).objects)
    same("chart, ephemeral containers", own + ephemeral, helm.Chart(chart, {"ephemeralContainers": True}).objects)
    without = [o for o in own if o not in webhook]
    same("chart, policy", without + policy, helm.Chart(chart, {"admission": "policy"}).objects)
    same("chart, no webhook", without, helm.Chart(chart, {"admission": "none"}).objects)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
