#!/usr/bin/python3
"""storage.py: provisioner and snapshot controller of the test cluster, for classes of the driver loop.storage.test.

A volume is an ext4 image of the claim's size on a loop device, mounted where only the node sees it: a write past its size is
ENOSPC. A snapshot is a copy of that image, cut while its file system is frozen; a claim with a VolumeSnapshot as its
dataSource begins as a copy of that, grown to its own size. What a cloud's driver does, done here in the smallest way that is true;
whoever uses it sees claims, volumes, snapshots and contents alone.

reclaimPolicy and deletionPolicy are those of volume and content, as they are when their owner goes: with Retain image and object stay.
A stand-in, also in that: the genuine snapshot controller and CSI sidecars are two programs with queues of their own.

It looks at everything four times a second, and does one thing at a time. An error is said and tried again, unless the class is one that
fails: parameters `fail: WORDS` (of a storage class: an event; of a snapshot class: status.error), `never` (readyToUse stays
away), `stranger` (the content refers to somebody else's snapshot).

Run by `cluster.sh storage start`, with K8S_HOME and K8S_API; as root. Killed at any moment, the next one goes on."""
import datetime
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.parse

HOME = os.environ["K8S_HOME"]
API = urllib.parse.urlsplit(os.environ["K8S_API"])
NODE = os.environ.get("K8S_NODE", "node")
DRIVER = "loop.storage.test"
SNAP = "/apis/snapshot.storage.k8s.io/v1"
CORE = "/api/v1"
FINALIZER = DRIVER + "/bound"
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    def __init__(self):
        pki = os.path.join(HOME, "pki")
        self.tls = ssl.create_default_context(cafile=os.path.join(pki, "ca.crt"))
        self.tls.load_cert_chain(os.path.join(pki, "admin.crt"), os.path.join(pki, "admin.key"))
        self.conn = None

    def __call__(self, method, path, body=None, kind="application/json"):
        if self.conn is None:
            self.conn = http.client.HTTPSConnection(API.hostname, API.port or 443, context=self.tls, timeout=20)
        try:
            self.conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
            answer = self.conn.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            self.conn = None
            raise
        if answer.status >= 300:
            raise Refused(answer.status, text[:300])
        return json.loads(text)

    def items(self, path):
        return self("GET", path)["items"]

    def merge(self, path, patch):
        return self("PATCH", path, patch, "application/merge-patch+json")


api = Api()


def say(*words):
    print(datetime.datetime.utcnow().isoformat(timespec="milliseconds"), *words, flush=True)


def now():
    return datetime.datetime.utcnow().isoformat(timespec="seconds") + "Z"


def size_of(quantity):
    number, unit = re.fullmatch(r"([0-9]+)([A-Za-z]*)", str(quantity)).groups()
    return int(number) * UNITS[unit]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr.strip()}")
    return done.stdout


def in_node(*words):
    with open(os.path.join(HOME, "pids", "node"), encoding="ascii") as f:
        pid = f.read().split()[0]
    return run("nsenter", f"--mount=/proc/{pid}/ns/mnt", "--", *words)


def image(volume):
    return os.path.join(HOME, "volumes", volume + ".img")


def copy_of(content):
    return os.path.join(HOME, "snapshots", content + ".img")


def is_mounted(at):
    try:
        in_node("mountpoint", "-q", at)
        return True
    except RuntimeError:
        return False


def meta(o):
    return o["metadata"]


def told(o, reason, words, kind):
    """A warning event about an object; once a second at the most is not looked after."""
    m = meta(o)
    api("POST", f"{CORE}/namespaces/{m['namespace']}/events", {
        "metadata": {"generateName": m["name"][:50] + ".", "namespace": m["namespace"]}, "type": "Warning", "reason": reason,
        "message": words, "firstTimestamp": now(), "lastTimestamp": now(), "count": 1, "source": {"component": DRIVER},
        "involvedObject": {"kind": kind, "namespace": m["namespace"], "name": m["name"], "uid": m["uid"]}})


# --- volumes

def make_image(volume, size, source):
    """Whole under its name, or not there."""
    path = image(volume)
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = path + ".new"
    if source:
        run("cp", "--sparse=always", source, new)
        if os.path.getsize(new) > size:
            raise RuntimeError(f"the claim is smaller than its snapshot: {size} against {os.path.getsize(new)}")
        os.truncate(new, size)
        subprocess.run(["e2fsck", "-fy", new], capture_output=True, check=False)
        run("resize2fs", new)
    else:
        with open(new, "wb") as f:
            f.truncate(size)
        run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", new)
    os.rename(new, path)


def provision(claim, of):
    parameters = of.get("parameters") or {}
    m, spec = meta(claim), claim["spec"]
    volume = "pvc-" + m["uid"]
    size = size_of(spec["resources"]["requests"]["storage"])
    source = None
    if parameters.get("fail"):
        if not meta(claim).get("annotations", {}).get(DRIVER):
            told(claim, "ProvisioningFailed", parameters["fail"], "PersistentVolumeClaim")
            api.merge(f"{CORE}/namespaces/{m['namespace']}/persistentvolumeclaims/{m['name']}",
                      {"metadata": {"annotations": {DRIVER: "told"}}})
        return
    if spec.get("dataSource"):
        snapshot = api("GET", f"{SNAP}/namespaces/{m['namespace']}/volumesnapshots/{spec['dataSource']['name']}")
        if not snapshot.get("status", {}).get("readyToUse"):
            return
        source = copy_of(snapshot["status"]["boundVolumeSnapshotContentName"])
    make_image(volume, size, source)
    at = image(volume)[:-len(".img")]
    os.makedirs(at, exist_ok=True)
    if not is_mounted(at):
        in_node("mount", "-o", "loop", image(volume), at)
    api("POST", f"{CORE}/persistentvolumes", {
        "metadata": {"name": volume, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {"capacity": {"storage": str(size)}, "accessModes": spec["accessModes"], "storageClassName": spec["storageClassName"],
                 "persistentVolumeReclaimPolicy": of.get("reclaimPolicy", "Delete"), "local": {"path": at},
                 "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": m["namespace"], "name": m["name"],
                              "uid": m["uid"]},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                     {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}]}}}})
    say("volume", volume, "of", m["name"], "from", source or "nothing")


def reclaim(volume):
    name = meta(volume)["name"]
    at = image(name)[:-len(".img")]
    if is_mounted(at):
        in_node("umount", at)
    if os.path.exists(image(name)):
        os.remove(image(name))
    if os.path.isdir(at):
        os.rmdir(at)
    api("DELETE", f"{CORE}/persistentvolumes/{name}")
    say("volume", name, "is gone")


def volumes():
    classes = {meta(c)["name"]: c for c in api.items("/apis/storage.k8s.io/v1/storageclasses") if c["provisioner"] == DRIVER}
    have = api.items(f"{CORE}/persistentvolumes")
    names = {meta(v)["name"] for v in have}
    for claim in api.items(f"{CORE}/persistentvolumeclaims"):
        of = classes.get(claim["spec"].get("storageClassName"))
        waits = of and of.get("volumeBindingMode") == "WaitForFirstConsumer"
        chosen = meta(claim).get("annotations", {}).get("volume.kubernetes.io/selected-node")
        if of and claim["status"].get("phase") == "Pending" and "pvc-" + meta(claim)["uid"] not in names and \
                not meta(claim).get("deletionTimestamp") and (chosen or not waits):
            each(provision, claim, of)
    for volume in have:
        if meta(volume).get("annotations", {}).get("pv.kubernetes.io/provisioned-by") == DRIVER and \
                volume["status"].get("phase") == "Released" and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            each(reclaim, volume)


# --- snapshots

def cut(volume, path):
    at = image(volume)[:-len(".img")]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    in_node("fsfreeze", "--freeze", at)
    try:
        run("cp", "--sparse=always", image(volume), path + ".new")
    finally:
        in_node("fsfreeze", "--unfreeze", at)
    os.rename(path + ".new", path)


def take(snapshot, of):
    m = meta(snapshot)
    parameters = of.get("parameters") or {}
    path = f"{SNAP}/namespaces/{m['namespace']}/volumesnapshots/{m['name']}"
    content = "snapcontent-" + m["uid"]
    if FINALIZER not in m.get("finalizers", []):
        api.merge(path, {"metadata": {"finalizers": m.get("finalizers", []) + [FINALIZER]}})
    if parameters.get("fail"):
        if not snapshot.get("status", {}).get("error"):
            api.merge(path + "/status", {"status": {"readyToUse": False, "error": {"message": parameters["fail"], "time": now()}}})
        return
    if parameters.get("never"):
        return
    claim = api("GET", f"{CORE}/namespaces/{m['namespace']}/persistentvolumeclaims/{snapshot['spec']['source']['persistentVolumeClaimName']}")
    volume = claim["spec"].get("volumeName")
    if not volume:
        return
    cut(volume, copy_of(content))
    ref = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "name": m["name"], "namespace": m["namespace"],
           "uid": "00000000-0000-4000-8000-000000000000" if parameters.get("stranger") else m["uid"]}
    try:
        api("POST", f"{SNAP}/volumesnapshotcontents", {
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": content, "finalizers": [FINALIZER]},
            "spec": {"deletionPolicy": of["deletionPolicy"], "driver": DRIVER, "source": {"volumeHandle": volume},
                     "volumeSnapshotClassName": meta(of)["name"], "volumeSnapshotRef": ref}})
    except Refused as e:
        if e.status != 409:
            raise
    api.merge(f"{SNAP}/volumesnapshotcontents/{content}/status", {"status": {"snapshotHandle": content + ".img"}})
    api.merge(path + "/status", {"status": {
        "boundVolumeSnapshotContentName": content, "readyToUse": True, "creationTime": now(),
        "restoreSize": str(os.path.getsize(copy_of(content)))}})
    say("snapshot", m["name"], "of", volume)


def without_finalizer(o):
    return {"metadata": {"finalizers": [f for f in meta(o).get("finalizers", []) if f != FINALIZER] or None}}


def forget(snapshot):
    """It goes when its content is gone, or stays by itself."""
    m = meta(snapshot)
    path = f"{SNAP}/volumesnapshotcontents/snapcontent-{m['uid']}"
    try:
        content = api("GET", path)
        if content["spec"]["deletionPolicy"] == "Delete":
            if not meta(content).get("deletionTimestamp"):
                api("DELETE", path)
            return
    except Refused as e:
        if e.status != 404:
            raise
    api.merge(f"{SNAP}/namespaces/{m['namespace']}/volumesnapshots/{m['name']}", without_finalizer(snapshot))
    say("snapshot", m["name"], "is gone")


def discard(content):
    """A content that is to go: with the copy, where its policy says so."""
    name = meta(content)["name"]
    if content["spec"]["deletionPolicy"] == "Delete" and os.path.exists(copy_of(name)):
        os.remove(copy_of(name))
    api.merge(f"{SNAP}/volumesnapshotcontents/{name}", without_finalizer(content))
    say("content", name, "is gone")


def snapshots():
    classes = {meta(c)["name"]: c for c in api.items(f"{SNAP}/volumesnapshotclasses") if c["driver"] == DRIVER}
    for content in api.items(f"{SNAP}/volumesnapshotcontents"):
        if meta(content).get("deletionTimestamp") and FINALIZER in meta(content).get("finalizers", []):
            each(discard, content)
    for snapshot in api.items(f"{SNAP}/volumesnapshots"):
        of = snapshot["spec"].get("volumeSnapshotClassName", "loop")
        if meta(snapshot).get("deletionTimestamp"):
            if FINALIZER in meta(snapshot).get("finalizers", []):
                each(forget, snapshot)
        elif of not in classes:
            if not snapshot.get("status", {}).get("error"):
                api.merge(f"{SNAP}/namespaces/{meta(snapshot)['namespace']}/volumesnapshots/{meta(snapshot)['name']}/status",
                          {"status": {"error": {"message": f"there is no VolumeSnapshotClass {of}", "time": now()}}})
        elif not snapshot.get("status", {}).get("readyToUse"):
            each(take, snapshot, classes[of])


def each(do, o, *more):
    """One that fails keeps nobody else waiting."""
    try:
        do(o, *more)
    except (OSError, http.client.HTTPException):
        raise
    except (Refused, RuntimeError) as e:
        say(do.__name__, meta(o)["name"], "failed:", e)


def main():
    while True:
        try:
            volumes()
            snapshots()
        except (OSError, http.client.HTTPException, Refused, RuntimeError, ValueError) as e:
            say("waits:", repr(e))
            time.sleep(0.5)
        time.sleep(0.25)


if __name__ == "__main__":
    sys.exit(main())
