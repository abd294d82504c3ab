#!/usr/bin/python3
"""check.py TOP RENDER: the Helm chart by two renderers, tests/lib/chart.py and RENDER (tests/chart/render.go): every file of
tests/chart/values, into namespaces of several names, on clusters that serve several kinds, gives the same objects by both.
Besides: values.schema.json, what each value does, which namespaces are named, and what is refused. No helm is run (Debian has
none); the head of render.go says what that leaves out.

check.py TOP --objects NAMESPACE SANDBOXES FILE: the objects of one file of values as JSON, for the story k8s/chart.
check.py TOP --metrics: names of the metrics that alerts go by."""
import copy
import hashlib
import json
import os
import re
import subprocess
import sys

import jsonschema
import yaml

TOP = sys.argv[1]
sys.path.insert(0, os.path.join(TOP, "tests/lib"))
# pylint: disable=wrong-import-position
import chart  # noqa: E402
import manifests  # noqa: E402
from manifests import check, key  # noqa: E402

CHART = os.path.join(TOP, "deploy/helm/muxd")
VALUES = os.path.join(TOP, "tests/chart/values")
V120 = chart.KNOWN - {"policy/v1"}
GATEWAY = "gateway.networking.k8s.io/"
# (the release's namespace, what the cluster serves)
CLUSTERS = {"unasked": ("muxd", chart.KNOWN), "1.20": ("agents", V120),
            "alpha routes": ("agents", chart.KNOWN | {GATEWAY + "v1alpha3", GATEWAY + "v1alpha3/TLSRoute", GATEWAY + "v1alpha3/BackendTLSPolicy"}),
            "newest": ("a-2", chart.KNOWN | {GATEWAY + "v1", GATEWAY + "v1/TLSRoute", GATEWAY + "v1/BackendTLSPolicy",
                                             GATEWAY + "v1alpha3/BackendTLSPolicy"})}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def values_of(name):
    return yaml.safe_load(read(VALUES, name + ".yaml"))


def names():
    return sorted(n.removesuffix(".yaml") for n in os.listdir(VALUES))


def by_python(changes, cluster="unasked"):
    namespace, served = CLUSTERS[cluster]
    return chart.Chart(CHART, copy.deepcopy(changes), namespace, served)


def objects(changes, cluster="unasked"):
    return {key(o): o for o in by_python(changes, cluster).objects}


def go(render, path, cluster):
    namespace, served = CLUSTERS[cluster]
    return subprocess.run([render, "-namespace", namespace, "-api-versions", ",".join(sorted(served)), "-f", path, CHART],
                          capture_output=True, text=True, timeout=300, check=False)


def compared(templates):
    """Objects as they are compared: the configuration as what it says, and its sum, which is of the text, as right or wrong."""
    templates = json.loads(json.dumps(templates))
    texts = [o["data"]["muxd.yaml"] for o in templates.get("config.yaml", [])]
    for o in templates.get("muxd.yaml", []):
        notes = o["spec"]["template"]["metadata"]["annotations"]
        notes["muxd.dev/config"] = [notes["muxd.dev/config"] == hashlib.sha256(t.rstrip("\n").encode()).hexdigest() for t in texts]
    for o in templates.get("config.yaml", []):
        o["data"]["muxd.yaml"] = yaml.safe_load(o["data"]["muxd.yaml"])
    return {n: o for n, o in templates.items() if o}


def both(render):
    for name in names():
        wrong = []
        for cluster in CLUSTERS:
            r = go(render, os.path.join(VALUES, name + ".yaml"), cluster)
            if r.returncode:
                wrong.append(f"{cluster}: {r.stderr}")
                continue
            a, b = compared(by_python(values_of(name), cluster).render()), compared(json.loads(r.stdout)["templates"])
            wrong += [f"{cluster}, {n}: {a.get(n)}\n    {b.get(n)}" for n in sorted(a.keys() | b.keys()) if a.get(n) != b.get(n)]
            if a["muxd.yaml"][0]["spec"]["template"]["metadata"]["annotations"]["muxd.dev/config"] != [True]:
                wrong.append(f"{cluster}: another configuration would not make another pod")
        check(f"{name}: two renderers, {len(CLUSTERS)} clusters, the same objects", not wrong, "\n".join(wrong))


def at(path, value):
    """{"a": {"b": value}} of "a.b"; a path's step may have dots when it stands behind a slash"""
    steps = path.split("/") if "/" in path else path.split(".")
    for step in reversed(steps):
        value = {step: value}
    return value


# (a path, a wrong value, where the schema says so if not there)
WRONG = [
    ("image", "", None), ("image", "a b", None), ("image", 7, None), ("imagine", "x", ""), ("pullPolicy", "Sometimes", None),
    ("imagePullSecrets", "registry", None), ("imagePullSecrets", ["registry"], "imagePullSecrets.0"),
    ("namespace.create", "yes", None), ("namespace.podSecurity.enforce", "strict", None), ("namespace.podSecurity", {"enforced": "baseline"}, None),
    ("namespace.labels", {"pod-security.kubernetes.io/enforce": "baseline"}, None), ("namespace.name", "x", "namespace"),
    ("sandboxes.namespace", "Boxes", None), ("sandboxes.namespace", "", None), ("sandboxes.namespace", "a.b", None), ("sandboxes.create", None, None),
    ("sandboxes.labels", {"muxd.dev/sandboxes": "false"}, None), ("sandboxes.podSecurity.warn-version", "1.30", None),
    ("admission", "both", None), ("staff", "true", None), ("takeOverRetained", 1, None), ("warmPool", "muxd", None), ("ephemeralContainers", "yes", None), ("networkPolicy", "off", None),
    ("service.https", "Headless", None), ("service.http", "ClusterIP", "service"),
    ("ingress.enabled", True, "ingress.hosts"), ("ingress.hosts", ["https://muxd.example.com"], "ingress.hosts.0"), ("ingress.host", "x", "ingress"),
    ("ingress.annotations", {"a": 5}, "ingress.annotations.a"), ("ingress.tls", [{"secret": "x"}], "ingress.tls.0"),
    ("gateway", {"enabled": True, "hostnames": ["a"]}, "gateway.parentRefs"), ("gateway.kind", "GRPCRoute", None), ("gateway.parentRefs", [{"namespace": "x"}], "gateway.parentRefs.0"),
    ("gateway", {"enabled": True, "kind": "HTTPRoute", "parentRefs": [{"name": "a"}], "hostnames": ["b"]}, "gateway.backendCA"),
    ("gateway.sshParentRefs", [{"name": "a", "port": 0}], "gateway.sshParentRefs.0.port"), ("gateway.hostnames", "muxd.example.com", None),
    ("state.size", "20 GB", None), ("state.size", 20, None), ("state.class", "x", "state"),
    ("resources.requests.cpu", "two", None), ("resources.limits.memory", -1, None), ("resources.request", {}, "resources"),
    ("nodeSelector", ["a"], None), ("nodeSelector", {"pool": 7}, "nodeSelector.pool"), ("tolerations", {}, None),
    ("tolerations", [{"key": "a", "effect": "NoRun"}], "tolerations.0.effect"), ("tolerations", [{"keys": "a"}], "tolerations.0"),
    ("affinity", {"nodeAfinity": {}}, None), ("topologySpreadConstraints", [{"maxSkew": 1}], "topologySpreadConstraints.0"),
    ("topologySpreadConstraints", [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}], "topologySpreadConstraints.0.maxSkew"),
    ("priorityClassName", "High", None), ("podAnnotations", {"muxd.dev/config": "x"}, None), ("podAnnotations", {"a": True}, "podAnnotations.a"),
    ("podLabels", {"app.kubernetes.io/name": "other"}, None), ("podLabels", {"a": "b c"}, "podLabels.a"),
    ("extraVolumes", [{"name": "state", "emptyDir": {}}], "extraVolumes.0.name"), ("extraVolumes", [{"name": "a"}], "extraVolumes.0"),
    ("extraVolumeMounts", [{"name": "a", "mountPath": "data"}], "extraVolumeMounts.0.mountPath"),
    ("extraVolumeMounts", [{"name": "a", "mountPath": "/a", "readonly": True}], "extraVolumeMounts.0"),
    *[("extraVolumeMounts", [{"name": "a", "mountPath": p}], "extraVolumeMounts.0.mountPath") for p in (
        "/", "/etc", "/etc/muxd", "/etc/muxd/", "/etc/muxd/muxd.yaml", "/etc/muxd/tls.key", "/etc/muxd/metrics/x", "/var/lib/muxd/state", "/run/muxd", "/run", "/var/lib")],
    ("podDisruptionBudget.enabled", None, None), ("podDisruptionBudget.maxUnavailable", 2, None), ("podDisruptionBudget.minAvailable", 1, "podDisruptionBudget"),
    ("metrics.tokenSecret", "A B", None), ("metrics.tokenKey", "", None), ("serviceMonitor.enabled", True, "metrics.tokenSecret"),
    ("serviceMonitor.interval", "often", None), ("serviceMonitor.interval", 30, None), ("serviceMonitor.scrapeTimeout", "", None),
    ("serviceMonitor.namespace", "x", "serviceMonitor"), ("prometheusRule.hangsAfter", "20", None), ("prometheusRule.rules", [], "prometheusRule"),
    ("config", "text", None), ("config.listen.https", "0.0.0.0:443", None), ("config.listen.ssh", "0.0.0.0:22", None), ("config.kubernetes", [], None),
    ("config.sandbox.backend", "bwrap", None), ("config.log", "debug", None),
]


def laid(changes):
    """As -f lays them over the chart's values, but for null, which a value of a wrong type is here."""
    def over(into, more):
        for k, v in more.items():
            into[k] = over(into[k], v) if isinstance(v, dict) and isinstance(into.get(k), dict) else v
        return into
    return over(yaml.safe_load(read(CHART, "values.yaml")), copy.deepcopy(changes))


def schema_tests():
    schema = json.loads(read(CHART, "values.schema.json"))
    jsonschema.Draft7Validator.check_schema(schema)
    judge = jsonschema.Draft7Validator(schema)
    for name in names():
        found = [f"{list(e.absolute_path)}: {e.message}" for e in judge.iter_errors(by_python(values_of(name)).values)]
        check(f"{name}: fits values.schema.json", not found, found)
    for path, value, place in WRONG:
        found = {".".join(map(str, e.absolute_path)) for e in judge.iter_errors(laid(at(path, value)))}
        check(f"refused at its place: {path}: {json.dumps(value)}", found == {path if place is None else place}, found)
    tried = {p.split(".")[0].split("/")[0] for p, _, _ in WRONG}
    check("every value has a wrong one in the table", tried >= schema["properties"].keys() - {"global"}, schema["properties"].keys() - tried)

    def resolved(node):
        for ref in node.get("allOf", []):
            node = {**schema["definitions"][ref["$ref"].rsplit("/", 1)[1]], **node}
        return node

    def keys(node, path=""):
        for k, v in node.get("properties", {}).items():
            v = resolved(v)
            yield path + k, v
            yield from keys(v, path + k + ".")
            yield from keys(v.get("items", {}), path + k + "[].")

    described = dict(keys(schema))
    check("every value is described", all(v.get("description", "").endswith(".") for v in described.values()),
          [p for p, v in described.items() if not v.get("description", "").endswith(".")])
    own = [n for n in described if "[]" not in n]
    there = set()

    def walk(v, path=""):
        for k, inner in (v.items() if isinstance(v, dict) else ()):
            there.add(path + k)
            # a map that is the user's own, such as quantities, has no names of ours
            if resolved(described.get(path + k, {})).get("properties"):
                walk(inner, path + k + ".")

    walk(yaml.safe_load(read(CHART, "values.yaml")))
    check("every value of values.yaml is in the schema", there <= set(own), there - set(own))
    # Of Kubernetes' own structures values.yaml shows none or a part; `global` is of a chart above this one.
    theirs = re.compile(r"global$|affinity\.|resources\.claims$|.*\.podSecurity\.")
    check("every value of the schema is in values.yaml", not {n for n in own if n not in there and not theirs.match(n)},
          {n for n in own if n not in there and not theirs.match(n)})
    told = {m.strip("`") for m in re.findall(r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \|", section("## The chart"), re.M) for m in m.split(", ")}
    check("docs/operations.md has every value", told == schema["properties"].keys() - {"global"}, told ^ (schema["properties"].keys() - {"global"}))


def section(head):
    text = read(TOP, "docs/operations.md")
    return text[text.index(head):].split("\n## ", 1)[0] if head in text else ""


def strings(o, path=()):
    if isinstance(o, dict):
        for k, v in o.items():
            yield from strings(v, path + (k,))
    elif isinstance(o, list):
        for v in o:
            yield from strings(v, path)
    elif isinstance(o, str):
        yield path, o


def namespaces():
    """Nothing names a namespace that was not asked for, whatever the features; generated from every file of values."""
    for name in names():
        changes = values_of(name)
        changes.setdefault("sandboxes", {})["namespace"] = "zz-boxes"
        kubernetes = changes.get("config", {}).get("kubernetes", {})
        kubernetes.pop("namespace", None)
        kubernetes.pop("admission_user", None)
        found = chart.Chart(CHART, changes, "zz-release", chart.KNOWN).objects
        config = yaml.safe_load(next(o for o in found if o["kind"] == "ConfigMap")["data"]["muxd.yaml"])
        wrong = []
        for path, s in strings(found + [config]):
            if path[-1:] == ("namespace",) and "parentRefs" not in path and s not in ("zz-release", "zz-boxes"):
                wrong.append(s)
            wrong += [m for m in re.findall(r"serviceaccount:([^:]*):muxd|muxd\.([^.\s]*)\.svc|namespace=\\?\"([^\"]*)\"", s) if "zz-release" not in m]
        wrong += [key(o) for o in found if o["kind"] == "Namespace" and o["metadata"]["name"] not in ("zz-release", "zz-boxes")]
        check(f"{name}: no namespace but those asked for", not wrong and config["kubernetes"]["namespace"] == "zz-boxes"
              and config["kubernetes"]["admission_user"] == "system:serviceaccount:zz-release:muxd", wrong)
        check(f"{name}: what is bound is muxd's account there", all(o["subjects"] == [{"kind": "ServiceAccount", "name": "muxd", "namespace": "zz-release"}]
              for o in found if "subjects" in o))


def pod_of(found):
    return next(o for o in found.values() if o["kind"] == "StatefulSet")["spec"]["template"]


def features():
    plain = objects({})
    p = values_of("placement")
    got = pod_of(objects(p))
    for field in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName", "imagePullSecrets"):
        check(f"{field} is the pod's", got["spec"][field] == p[field] and field not in pod_of(plain)["spec"], got["spec"].get(field))
    check("resources are the container's", got["spec"]["containers"][0]["resources"] == p["resources"])
    check("labels and annotations stand beside muxd's own",
          got["metadata"]["labels"] == {"app.kubernetes.io/name": "muxd", **p["podLabels"]} and got["metadata"]["annotations"].items() > p["podAnnotations"].items())
    v = values_of("volumes")
    spec = pod_of(objects(v))["spec"]
    check("volumes and mounts stand behind muxd's own", spec["volumes"][-2:] == v["extraVolumes"] and len(spec["volumes"]) == 5
          and spec["containers"][0]["volumeMounts"][-2:] == v["extraVolumeMounts"])
    spec = pod_of(objects(values_of("metrics")))["spec"]
    check("the scraper's token is a file of the pod, and muxd is told",
          {"name": "metrics", "secret": {"secretName": "muxd-scraper", "defaultMode": 0o440, "items": [{"key": "tokens.txt", "path": "token"}]}} in spec["volumes"]
          and "token_file: /etc/muxd/metrics/token" in objects(values_of("metrics"))["ConfigMap", "muxd", "muxd"]["data"]["muxd.yaml"])
    budget = {c: objects(values_of("disruption"), c)["PodDisruptionBudget", CLUSTERS[c][0], "muxd"]["apiVersion"] for c in ("1.20", "newest")}
    check("a budget of the version that there is", budget == {"1.20": "policy/v1beta1", "newest": "policy/v1"}, budget)
    for kind, name in (("TLSRoute", "gateway-tls"), ("BackendTLSPolicy", "gateway-http")):
        found = {c: next(o["apiVersion"] for k, o in objects(values_of(name), c).items() if k[0] == kind).removeprefix(GATEWAY) for c in CLUSTERS}
        check(f"{kind} of the version that there is", found == {"unasked": "v1alpha2" if kind == "TLSRoute" else "v1", "1.20": "v1alpha2" if kind == "TLSRoute" else "v1",
                                                               "alpha routes": "v1alpha3", "newest": "v1"}, found)
    kinds = {"disruption": {"PodDisruptionBudget"}, "ingress": {"Ingress"}, "gateway-tls": {"TLSRoute", "TCPRoute"}, "gateway-http": {"HTTPRoute", "BackendTLSPolicy"},
             "monitoring": {"ServiceMonitor", "PrometheusRule"}, "rules": {"PrometheusRule"}, "metrics": set(), "placement": set(), "volumes": set()}
    for name, more in kinds.items():
        check(f"{name}: these objects come, and no others", {k[0] for k in objects(values_of(name)).keys() - plain.keys()} == more
              and not plain.keys() - objects(values_of(name)).keys())
    check("a namespace of its own has its labels", objects(values_of("namespaces"))["Namespace", "", "boxes"]["metadata"]["labels"] == {
        "muxd.dev/sandboxes": "true", "team": "agents", "quota": "1", **{f"pod-security.kubernetes.io/{m}": v for m, v in {
            "enforce": "baseline", "audit": "restricted", "audit-version": "latest", "warn": "restricted"}.items()}})
    check("nobody asked for levels of PodSecurity", objects(values_of("no-pod-security"))["Namespace", "", "muxd-sandboxes"]["metadata"]["labels"] == {"muxd.dev/sandboxes": "true"})
    for values, path in (({}, "/usr/local/bin/muxlet"), ({"muxlet_path": "/opt/muxlet"}, "/opt/muxlet")):
        found = [o for o in objects({"admission": "policy", "config": {"kubernetes": values}}).values() if o["kind"] == "ValidatingAdmissionPolicy"]
        check(f"the policy knows muxlet at {path}", any(f"['{path}', '--visit'" in json.dumps(o) for o in found), found)
    kept = yaml.safe_load(objects(values_of("config"))["ConfigMap", "muxd", "muxd"]["data"]["muxd.yaml"])
    check("configuration goes through", kept["witnesses"][0]["name"] == "disk" and kept["lifecycle"]["agents"][0]["at_rest"] == "keep"
          and kept["kubernetes"]["admission_user"].endswith(":elsewhere:someone") and kept["journal"] == {"dir": "/run/muxd/journal"})
    # The rules about rights and about the pod hold whatever is asked for.
    for name in names():
        found = list(objects(values_of(name)).values())
        manifests.rights(found)
        manifests.locked_down(found)


def kustomize():
    """What the overlays have, too, is the same there."""
    directory = os.path.join(TOP, "deploy/kustomize")
    manifests.same("disruption", manifests.kustomization(os.path.join(directory, "disruption")),
                   [o for o in objects(values_of("disruption")).values() if o["kind"] == "PodDisruptionBudget"])
    given = {"metrics": {"tokenSecret": "muxd-scraper"}, "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
    manifests.same("monitoring", manifests.kustomization(os.path.join(directory, "monitoring")),
                   [o for o in objects(given).values() if o["apiVersion"].startswith("monitoring.coreos.com/")])
    manifests.same("the base with its namespace", manifests.kustomization(os.path.join(directory, "base")), by_python({"namespace": {"create": True}}).objects)


def metrics():
    rules = [r for o in objects(values_of("rules")).values() if o["kind"] == "PrometheusRule" for g in o["spec"]["groups"] for r in g["rules"]]
    return sorted({m for r in rules for m in re.findall(r"muxd_\w+", r["expr"])}), rules


def alerts():
    found, rules = metrics()
    told = section("## Watching")
    check("every alert's metric is one that docs/ tells of", all(f"`{m}" in read(TOP, "docs/witness.md") + read(TOP, "docs/leases.md") or m in told for m in found), found)
    check("every alert has a severity, a summary and what to do", all(r["labels"]["severity"] in ("warning", "critical") and r["annotations"].keys() == {"summary", "description"} for r in rules))
    check("every alert is of this muxd alone", all('namespace="muxd"' in r["expr"] for r in rules))
    check("docs/operations.md names every alert", all(f"`{r['alert']}`" in told for r in rules), [r["alert"] for r in rules if f"`{r['alert']}`" not in told])


# What a template refuses by itself, for who goes past the schema (helm --skip-schema-validation)
REFUSED = [
    ({"config": {"kubernetes": {"namespace": "other"}}}, "config.kubernetes.namespace is other and sandboxes.namespace is muxd-sandboxes"),
    ({"sandboxes": {"namespace": "muxd"}}, "sandboxes need a namespace of their own"), ({"ingress": {"enabled": True}}, "ingress.hosts names no host"),
    ({"gateway": {"enabled": True, "hostnames": ["a"]}}, "gateway needs parentRefs and hostnames"),
    ({"gateway": {"enabled": True, "kind": "HTTPRoute", "hostnames": ["a"], "parentRefs": [{"name": "b"}]}}, "gateway.backendCA names no ConfigMap"),
    ({"serviceMonitor": {"enabled": True}}, "serviceMonitor needs metrics.tokenSecret"),
]


def refused(render):
    for changes, words in REFUSED:
        path = os.path.join(os.environ.get("TMP_DIR", "/tmp"), f"refused-{os.getpid()}.yaml")
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump(changes, f)
        r = go(render, path, "unasked")
        os.unlink(path)
        try:
            objects(changes)
            said = "nothing"
        except chart.ChartError as e:
            said = str(e)
        check(f"refused by both: {words}", r.returncode == 1 and words in r.stderr and words in said, f"{said}; {r.stderr}")


def main():
    if sys.argv[2] == "--objects":
        namespace, boxes, name = sys.argv[3:6]
        changes = chart.merged(values_of(name), {"sandboxes": {"namespace": boxes}})
        changes.get("config", {}).get("kubernetes", {}).pop("namespace", None)
        print("\n".join(json.dumps(o) for o in chart.Chart(CHART, changes, namespace, V120).objects))
        return 0
    if sys.argv[2] == "--metrics":
        print(" ".join(metrics()[0]))
        return 0
    schema_tests()
    both(sys.argv[2])
    namespaces()
    features()
    kustomize()
    alerts()
    refused(sys.argv[2])
    return 1 if manifests.failures else 0


if __name__ == "__main__":
    sys.exit(main())
