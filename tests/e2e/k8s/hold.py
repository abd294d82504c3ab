#!/usr/bin/python3
"""hold.py NAMESPACE VERSION [pool]: plays the controller of agent-sandbox for one namespace, until it is ended. It is not that project's:
it makes the pod of a Sandbox from its template, deletes it when the Sandbox sleeps, sets Ready (MultiplePods where its name says
so), and deletes what passed its shutdownTime with policy Delete; with `pool` it keeps each SandboxWarmPool filled and gives every
SandboxClaim one of its Sandboxes; nothing else. Garbage collection is the cluster's (owner references). With
K8S_HOME and K8S_API, as storage.py."""
import datetime
import http.client
import sys
import time
import uuid

from storage import CORE, Refused, api, meta, now, say

NS, VERSION = sys.argv[1:3]
POOLED = len(sys.argv) > 3
EXTENSIONS = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{NS}"
POOL = "agents.x-k8s.io/warm-pool"
SANDBOXES = f"/apis/agents.x-k8s.io/{VERSION}/namespaces/{NS}/sandboxes"


def is_awake(spec):
    return spec.get("replicas", 1) == 1 if VERSION == "v1alpha1" else spec.get("operatingMode", "Running") == "Running"


def pod_of(name):
    try:
        return api("GET", f"{CORE}/namespaces/{NS}/pods/{name}")
    except Refused as e:
        if e.status != 404:
            raise
        return None


def owned_by(o, kind, api_version):
    return [{"apiVersion": api_version, "kind": kind, "name": meta(o)["name"], "uid": meta(o)["uid"], "controller": True,
             "blockOwnerDeletion": True}]


def volumes(box):
    """Claims of the Sandbox's own, which outlive its pod."""
    for t in box["spec"].get("volumeClaimTemplates", []):
        name = f"{t['metadata']['name']}-{meta(box)['name']}"
        try:
            api("POST", f"{CORE}/namespaces/{NS}/persistentvolumeclaims", {
                "metadata": {"name": name, "ownerReferences": owned_by(box, "Sandbox", box["apiVersion"])}, "spec": t["spec"]})
        except Refused as e:
            if e.status != 409:
                raise
        yield {"name": t["metadata"]["name"], "persistentVolumeClaim": {"claimName": name}}


def make(box):
    m, template = meta(box), box["spec"]["podTemplate"]
    template["spec"]["volumes"] = template["spec"].get("volumes", []) + list(volumes(box))
    api("POST", f"{CORE}/namespaces/{NS}/pods", {"metadata": dict(template.get("metadata", {}), name=m["name"], ownerReferences=[
        {"apiVersion": box["apiVersion"], "kind": "Sandbox", "name": m["name"], "uid": m["uid"], "controller": True}]),
        "spec": template["spec"]})
    say("pod", m["name"])


def ready(box, pod):
    if "-multiple" in meta(box)["name"]:
        return conditions(box, "False", "MultiplePods", "2 pods are controlled by it")
    states = {c["type"]: c["status"] for c in (pod or {}).get("status", {}).get("conditions", [])}
    status = states.get("Ready", "False")
    reason = "DependenciesReady" if status == "True" else "DependenciesNotReady"
    message = "the pod is ready" if status == "True" else "the pod is not ready: " + (pod["status"]["phase"] if pod else "there is none")
    return conditions(box, status, reason, message)


def conditions(box, status, reason, message):
    was, seen = box.get("status", {}).get("conditions", []), meta(box)["generation"]
    if not was or (was[0]["status"], was[0]["message"], was[0].get("observedGeneration")) != (status, message, seen):
        api.merge(f"{SANDBOXES}/{meta(box)['name']}/status", {"status": {"conditions": [
            {"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": seen,
             "lastTransitionTime": now()}]}})


def look(box):
    name, spec = meta(box)["name"], box["spec"]
    end = spec.get("shutdownTime")
    if meta(box).get("deletionTimestamp"):
        return
    if end and end <= datetime.datetime.utcnow().isoformat(timespec="seconds") + "Z" and spec.get("shutdownPolicy") == "Delete":
        api("DELETE", f"{SANDBOXES}/{name}?propagationPolicy=Background")
        say("expired", name)
        return
    pod = pod_of(name)
    if is_awake(spec) and pod is None and "-multiple" not in name:
        make(box)
    elif not is_awake(spec) and pod is not None and not meta(pod).get("deletionTimestamp"):
        api("DELETE", f"{CORE}/namespaces/{NS}/pods/{name}")
    ready(box, pod)


def fill(pool, boxes):
    """As many that nobody has claimed as it wants."""
    name = meta(pool)["name"]
    free = [b for b in boxes if meta(b).get("labels", {}).get(POOL) == name]
    if len(free) >= pool["spec"]["replicas"]:
        return
    template = api("GET", f"{EXTENSIONS}/sandboxtemplates/{pool['spec']['sandboxTemplateRef']['name']}")["spec"]
    api("POST", SANDBOXES, {"apiVersion": f"agents.x-k8s.io/{VERSION}", "kind": "Sandbox", "metadata": {
        "name": f"{name}-{uuid.uuid4().hex[:5]}", "labels": {POOL: name}}, "spec": {
            "podTemplate": template["podTemplate"], "volumeClaimTemplates": template.get("volumeClaimTemplates", [])}})


def adopt(claim, boxes, pools):
    m, wanted = meta(claim), claim["spec"]["warmPoolRef"]["name"]
    path = f"{EXTENSIONS}/sandboxclaims/{m['name']}"
    if m.get("deletionTimestamp") or claim.get("status", {}).get("sandbox", {}).get("name"):
        return
    free = [b for b in boxes if meta(b).get("labels", {}).get(POOL) == wanted]
    found = wanted in (meta(p)["name"] for p in pools)
    status = {"conditions": [{"type": "Ready", "status": "False", "reason": "SandboxMissing" if found else "WarmPoolNotFound",
                              "message": f"pool {wanted}: {len(free)} free", "observedGeneration": m["generation"],
                              "lastTransitionTime": now()}]}
    if free:
        notes = claim["spec"].get("additionalPodMetadata", {}).get("annotations", {})
        name = meta(free[0])["name"]
        api.merge(f"{SANDBOXES}/{name}", {
            "metadata": {"labels": {POOL: None}, "annotations": {"agents.x-k8s.io/pod-name": name},
                         "ownerReferences": owned_by(claim, "SandboxClaim", claim["apiVersion"])},
            "spec": {"podTemplate": {"metadata": {"annotations": notes}}}})
        if pod_of(name):
            api.merge(f"{CORE}/namespaces/{NS}/pods/{name}", {"metadata": {"annotations": notes}})
        status = {"sandbox": {"name": name}, "conditions": []}
        say("adopted", name, "for", m["name"])
    api.merge(path + "/status", {"status": status})


def pools():
    boxes, all_pools = api.items(SANDBOXES), api.items(f"{EXTENSIONS}/sandboxwarmpools")
    for claim in api.items(f"{EXTENSIONS}/sandboxclaims"):
        adopt(claim, boxes, all_pools)
    for pool in all_pools:
        fill(pool, api.items(SANDBOXES))


def main():
    while True:
        try:
            if POOLED:
                pools()
            for box in api.items(SANDBOXES):
                look(box)
        except (OSError, http.client.HTTPException, Refused) as e:
            say("waits:", repr(e))
        time.sleep(0.2)


if __name__ == "__main__":
    main()
