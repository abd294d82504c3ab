#!/usr/bin/python3
"""hold.py NAMESPACE VERSION: plays the controller of agent-sandbox for one namespace, until it is ended. It is not that project's:
it makes the pod of a Sandbox from its template, deletes it when the Sandbox sleeps, sets Ready, and deletes what
passed its shutdownTime with policy Delete; nothing else. Garbage collection is the cluster's (owner references). With
K8S_HOME and K8S_API, as storage.py."""
import datetime
import http.client
import sys
import time

from storage import CORE, Refused, api, meta, now, say

NS, VERSION = sys.argv[1:3]
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


def make(box):
    m, template = meta(box), box["spec"]["podTemplate"]
    api("POST", f"{CORE}/namespaces/{NS}/pods", {"metadata": dict(template.get("metadata", {}), name=m["name"], ownerReferences=[
        {"apiVersion": box["apiVersion"], "kind": "Sandbox", "name": m["name"], "uid": m["uid"], "controller": True}]),
        "spec": template["spec"]})
    say("pod", m["name"])


def ready(box, pod):
    states = {c["type"]: c["status"] for c in (pod or {}).get("status", {}).get("conditions", [])}
    status = states.get("Ready", "False")
    reason = "DependenciesReady" if status == "True" else "DependenciesNotReady"
    message = "the pod is ready" if status == "True" else "the pod is not ready: " + (pod["status"]["phase"] if pod else "there is none")
    was = box.get("status", {}).get("conditions", [])
    if not was or (was[0]["status"], was[0]["message"]) != (status, message):
        api.merge(f"{SANDBOXES}/{meta(box)['name']}/status", {"status": {"conditions": [
            {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now()}]}})


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
    if is_awake(spec) and pod is None:
        make(box)
    elif not is_awake(spec) and pod is not None and not meta(pod).get("deletionTimestamp"):
        api("DELETE", f"{CORE}/namespaces/{NS}/pods/{name}")
    ready(box, pod)


def main():
    while True:
        try:
            for box in api.items(SANDBOXES):
                look(box)
        except (OSError, http.client.HTTPException, Refused) as e:
            say("waits:", repr(e))
        time.sleep(0.2)


if __name__ == "__main__":
    main()
