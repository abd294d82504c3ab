"""sandbox_api.py LINK_PROBE MUXLET TMP [CRDS]: the provider of pods against the fake API server with the kinds of agent-sandbox.

Kept as v1beta1 and served in both versions, converted by replicas and operatingMode at each request, as that project's webhook
does it by its documentation; its controllers are this program. With CRDS, the project's own definitions: every object that muxd
writes has to fit the schema of the version that it wrote in, fields that a server would drop included, and their rules (CEL) are
evaluated for every change. Without: that is not looked at, and said.

NOT PROVED here: that the real webhook converts so (its code does not run), that an API server evaluates the rules alike (cel-js is
not its evaluator; costs are not counted), anything that the real controllers do."""
import copy
import glob
import json
import os
import re
import subprocess
import sys
import threading
import types

import jsonschema
import yaml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/lib"))
import fake_apiserver as fake  # noqa: E402

PROBE, MUXLET, TMP = sys.argv[1:4]
CRDS = sys.argv[4] if len(sys.argv) > 4 else ""
NS = "boxes"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BOXES = "agents.x-k8s.io"
CLAIMS = "extensions.agents.x-k8s.io"
STATE_NOTE = "api.agents.x-k8s.io/v1alpha1-sandbox-state"
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
world = types.SimpleNamespace(served={BOXES: ["v1beta1", "v1alpha1"], CLAIMS: ["v1beta1"]}, play=None, schemas={}, written=[],
                              changes=[], refuse=None)


def fail(why):
    print(f"FAILED: {why}", file=sys.stderr)
    os._exit(1)


def ok(what):
    print(f"  ok: {what}", flush=True)


# ---- the definitions

def load_schemas():
    for path in glob.glob(os.path.join(CRDS, "*.yaml")) if CRDS else []:
        spec = yaml.load(read_file(path), LOADER)["spec"]
        for v in spec["versions"]:
            world.schemas[(spec["group"], v["name"], spec["names"]["plural"])] = v["schema"]["openAPIV3Schema"]


def read_file(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def unknown(schema, o, path=""):
    """Fields that a server would drop without a word."""
    if isinstance(o, list):
        return [x for i, v in enumerate(o) for x in unknown(schema.get("items", {}), v, f"{path}[{i}]")]
    if not isinstance(o, dict) or "properties" not in schema and "additionalProperties" not in schema:
        return []
    rest = schema.get("additionalProperties")
    out = []
    for k, v in o.items():
        inner = schema.get("properties", {}).get(k, rest)
        if inner is None:
            out.append(f"{path}.{k}")
        elif path or k not in ("metadata",):
            out += unknown(inner, v, f"{path}.{k}")
    return out


def rules(schema, new, old, path=""):
    """Those that hold for this change; one below an array would need what this does not do, and fails."""
    for r in schema.get("x-kubernetes-validations", []):
        if "oldSelf" not in r["rule"] or old is not None:
            yield {"rule": r["rule"], "self": new, "oldSelf": old, "what": path + ": " + r.get("message", r["rule"])}
    if "x-kubernetes-validations" in json.dumps(schema.get("items", {})):
        fail(f"{path}: a rule below an array")
    for k, inner in schema.get("properties", {}).items():
        if isinstance(new, dict) and k in new:
            yield from rules(inner, new[k], (old or {}).get(k), f"{path}.{k}")


def problems(group, version, plural, o):
    schema = world.schemas.get((group, version, plural))
    if schema is None:
        return [] if not CRDS else [f"no definition of {plural}.{group}/{version}"]
    bad = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in jsonschema.Draft7Validator(schema).iter_errors(o)]
    bad += [f"{p} would be dropped" for p in unknown(schema, o)]
    for where in (o.get("spec", {}), o.get("spec", {}).get("lifecycle", {})):
        if "shutdownTime" in where and not RFC3339.fullmatch(where["shutdownTime"]):
            bad.append("shutdownTime is no time")
    return bad


# ---- the two versions

def to_alpha(o):
    o = copy.deepcopy(o)
    o["apiVersion"] = BOXES + "/v1alpha1"
    asleep = o["spec"].pop("operatingMode", "Running") == "Suspended"
    o["spec"]["replicas"] = 0 if asleep else 1
    o.get("status", {}).pop("nodeName", None)
    o["metadata"].get("annotations", {}).pop(STATE_NOTE, None)
    return o


def to_beta(o):
    o = copy.deepcopy(o)
    note = json.dumps(o)
    o["apiVersion"] = BOXES + "/v1beta1"
    o["spec"]["operatingMode"] = "Suspended" if o["spec"].pop("replicas", 1) == 0 else "Running"
    o["metadata"].setdefault("annotations", {})[STATE_NOTE] = note
    return o


class Handler(fake.Handler):
    """Two groups more. Objects are kept under the path of v1beta1."""

    def group(self):
        name = self.url.path.rsplit("/", 1)[1]
        served = world.served.get(name)
        if not served:
            return self.answer(404, text="404 page not found\n")
        return self.answer(200, {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [
            {"groupVersion": f"{name}/{v}", "version": v} for v in served]})

    def custom(self):
        _, _, group, version, _, _, plural, *name = self.url.path.split("/")
        if version not in world.served.get(group, []):
            return self.answer(404, text="404 page not found\n")
        body = json.loads(self.body) if self.body else None
        code, o = self.single_custom(group, version, plural, name[0] if name else body["metadata"]["name"], body)
        return self.answer(code, o)

    def refusal(self, code, reason, message, plural, name):
        return code, fake.status(code, reason, message, details={"name": name, "kind": plural})[1]

    def single_custom(self, group, version, plural, name, body):
        path = f"/apis/{group}/v1beta1/namespaces/{NS}/{plural}/{name}"
        out = to_alpha if version == "v1alpha1" else (lambda o: o)
        back = to_beta if version == "v1alpha1" else (lambda o: o)
        with fake.STATE.lock:
            old = fake.STATE.objects.get(path)
            if self.command == "POST" and old:
                return self.refusal(409, "AlreadyExists", f'{plural} "{name}" already exists', plural, name)
            if self.command == "POST" and world.refuse:
                return self.refusal(403, "Forbidden", world.refuse, plural, name)
            if self.command != "POST" and not old:
                return self.refusal(404, "NotFound", f'{plural} "{name}" not found', plural, name)
            if self.command == "GET":
                if world.play:
                    world.play(plural, old)
                return 200, out(old)
            if self.command == "DELETE":
                gone = fake.STATE.remove(path)
                self.collect(gone["metadata"]["uid"])
                return 200, out(gone)
            new = body if self.command == "POST" else fake.merge(out(copy.deepcopy(old)), body)
            bad = problems(group, version, plural, new)
            world.written.append((version, self.command, plural, new, bad))
            if old:
                world.changes.extend(rules(world.schemas.get((group, version, plural), {}), new, out(old)))
            if bad:
                return self.refusal(422, "Invalid", "; ".join(bad)[:500], plural, name)
            stored = back(new)
            generation = (old or {"metadata": {}})["metadata"].get("generation", 0)
            stored["metadata"]["generation"] = generation + (not old or stored["spec"] != old["spec"])
            stored = fake.STATE.put(path, stored)
        if world.play:
            world.play(plural, stored)
        return 201 if self.command == "POST" else 200, out(stored)

    def collect(self, uid):
        """The cluster's garbage collector."""
        for path, o in list(fake.STATE.objects.items()):
            if any(r["uid"] == uid for r in o["metadata"].get("ownerReferences", [])):
                fake.STATE.remove(path)
                self.collect(o["metadata"]["uid"])

    def note(self, body):
        self.body = body
        super().note(body)



KINDS = r"/(sandboxes|sandboxclaims)(/[^/]+)?$"
Handler.ROUTES = [("GET", r"^/apis/[a-z0-9.-]*agents\.x-k8s\.io$", Handler.group)] + [
    (m, KINDS, Handler.custom) for m in ("GET", "POST", "PATCH", "DELETE")]


# ---- muxd's part, by link_probe

def begin(port):
    with open(os.path.join(TMP, "kubeconfig"), "w", encoding="utf-8") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
                   "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                   "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NS}}]}, f)


def probe(*args, api="auto", more=()):
    p = subprocess.run([PROBE, "-n", NS, "-H", api, "-I", "registry.example/muxlet:0.1.0", "-N", "60", *more,
                        os.path.join(TMP, "kubeconfig"), *args], env=dict(os.environ, MUXLET=MUXLET), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150, check=False)
    p.said = p.stdout.decode(errors="replace")
    return p


def expect(what, said, *args, **more):
    p = probe(*args, **more)
    if not re.search(said, p.said):
        fail(f"{what}: no '{said}' in: {p.said}")
    return p


def stored(plural, name, group=BOXES):
    with fake.STATE.lock:
        return copy.deepcopy(fake.STATE.objects.get(f"/apis/{group}/v1beta1/namespaces/{NS}/{plural}/{name}"))


def equal(what, wanted, got):
    if wanted != got:
        fail(f"{what}: expected {wanted!r}, got {got!r}")
    ok(what)


def ready_false(o, reason, message, lag=0):
    with fake.STATE.lock:
        o["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": message,
                                       "observedGeneration": o["metadata"]["generation"] - lag,
                                       "lastTransitionTime": "2026-11-23T08:00:00Z"}]}


def says(plural, reason, message):
    """The controller's part: Ready=False for the generation that it sees, which ends a start: nobody waits for a deadline."""
    return lambda what, o: ready_false(o, reason, message) if what == plural else None


def stale_first(reason, message):
    """The same of a generation before, until that was read three times; then something else, of this one."""
    reads = []

    def play(plural, o):
        if plural == "sandboxes":
            reads.append(1)
            if len(reads) < 4:
                ready_false(o, reason, message, lag=1)
            else:
                ready_false(o, "MultiplePods", "of this life")
    return play


def stop_here():
    world.play = says("sandboxes", "MultiplePods", "stop here")


def versions():
    """One Sandbox, in each version that is served, whichever wrote it."""
    box = "investigation-one"
    stop_here()
    world.served[BOXES] = ["v1alpha1"]
    expect("an older server", "sandbox_create_failed: .*stop here", "exec", "one", "true", more=("-T", "7200"))
    equal("written as v1alpha1", ("v1alpha1", 1), (world.written[-1][0], world.written[-1][3]["spec"].get("replicas")))
    equal("kept as v1beta1", "Running", stored("sandboxes", box)["spec"]["operatingMode"])
    world.served[BOXES] = ["v1beta1", "v1alpha1"]
    expect("an upgrade", "", "destroy", "one")
    equal("the same object sleeps in the new words", ("v1beta1", "Suspended"),
          (world.written[-1][0], stored("sandboxes", box)["spec"]["operatingMode"]))
    world.served[BOXES] = ["v1alpha1"]
    expect("a downgrade", "sandbox_create_failed: .*stop here", "exec", "one", "true")
    equal("and wakes in the old ones", ("v1alpha1", "Running"),
          (world.written[-1][0], stored("sandboxes", box)["spec"]["operatingMode"]))
    equal("without the end that it has no more", None, stored("sandboxes", box)["spec"].get("shutdownTime"))
    world.served[BOXES] = ["v1beta1"]
    expect("configured to what is gone", r"unsupported: the cluster knows no Sandbox \(agents.x-k8s.io/v1alpha1\)", "wipe", "one",
           api="v1alpha1")
    equal("nothing was touched", "Running", stored("sandboxes", box)["spec"]["operatingMode"])
    world.served[BOXES] = []
    expect("taken away", r"unsupported: the cluster knows no Sandbox \(agents.x-k8s.io\)", "destroy", "one")
    world.served[BOXES] = ["v1beta1"]
    expect("wiped", "", "wipe", "one")
    equal("gone", None, stored("sandboxes", box))


def conditions():
    for api, reason in (("v1alpha1", "MultiplePods"), ("v1beta1", "SandboxExpired")):
        world.served[BOXES] = [api]
        world.play = says("sandboxes", reason, "said by its controller")
        expect(reason, f"sandbox_create_failed: Sandbox .*{reason}: said by its controller", "exec", "two", "true")
        ok(f"{reason}, read in {api}, ends the start, as its failure and not as its deadline")
        expect("wiped", "", "wipe", "two")
        world.play = stale_first(reason, "of an earlier life")
        expect("stale", "sandbox_create_failed: .*MultiplePods: of this life", "exec", "two", "true")
        ok("the same of an earlier generation does not")
        world.play = None
        expect("wiped", "", "wipe", "two")


def claims():
    name = "investigation-three"
    pool = ("-W", "python")
    world.served[BOXES] = ["v1beta1", "v1alpha1"]
    world.play = says("sandboxclaims", "WarmPoolNotFound", "there is no pool python")
    expect("claimed", "sandbox_create_failed: the SandboxClaim of three .*WarmPoolNotFound: there is no pool python", "exec", "three",
           "true", more=(*pool, "-T", "7200"))
    ok("a claim that cannot be served ends the start at once")
    stop_here()
    claim = stored("sandboxclaims", name, CLAIMS)
    equal("of that pool", {"name": "python"}, claim["spec"]["warmPoolRef"])
    equal("with its end", "Delete", claim["spec"]["lifecycle"]["shutdownPolicy"])
    with fake.STATE.lock:
        fake.STATE.put(f"/apis/{BOXES}/v1beta1/namespaces/{NS}/sandboxes/python-x2v", {
            "apiVersion": BOXES + "/v1beta1", "kind": "Sandbox", "metadata": {"generation": 1, "ownerReferences": [
                {"apiVersion": CLAIMS + "/v1beta1", "kind": "SandboxClaim", "name": name, "uid": claim["metadata"]["uid"],
                 "controller": True}]},
            "spec": {"operatingMode": "Running", "podTemplate": {"spec": {"containers": [{"name": "sandbox", "image": "x"}]}}}})
        fake.STATE.objects[f"/apis/{CLAIMS}/v1beta1/namespaces/{NS}/sandboxclaims/{name}"]["status"] = {
            "sandbox": {"name": "python-x2v"}}
    expect("asleep", "", "destroy", "three", more=pool)
    equal("the adopted Sandbox sleeps", "Suspended", stored("sandboxes", "python-x2v")["spec"]["operatingMode"])
    expect("awake", "sandbox_create_failed: .*stop here", "exec", "three", "true", more=pool)
    equal("and wakes", "Running", stored("sandboxes", "python-x2v")["spec"]["operatingMode"])
    equal("without an end by now", [], sorted(stored("sandboxclaims", name, CLAIMS)["spec"]["lifecycle"]))
    expect("wiped", "", "wipe", "three", more=pool)
    equal("all of it is gone", (None, None), (stored("sandboxclaims", name, CLAIMS), stored("sandboxes", "python-x2v")))
    world.refuse = "admission webhook \"quota.example\" denied the request: no more claims today"
    expect("a policy", "k8s_forbidden: .*no more claims today", "exec", "three", "true", more=pool)
    ok("a claim that a policy refuses is told in its words")
    world.refuse = None


def example():
    for o in yaml.safe_load_all(read_file(os.path.join(TOP, "deploy/kustomize/warmpool/pool.yaml"))):
        bad = problems(CLAIMS, "v1beta1", {"SandboxTemplate": "sandboxtemplates", "SandboxWarmPool": "sandboxwarmpools"}[o["kind"]], o)
        equal(f"the {o['kind']} of deploy/kustomize/warmpool fits its schema", [], bad)


def definitions():
    for version, verb, plural, _, bad in world.written:
        if bad:
            fail(f"{verb} of {plural} in {version}: {bad}")
    kinds = sorted({(v, c, p) for v, c, p, _, _ in world.written})
    ok(f"{len(world.written)} writes fit the schema of the version that they were made in: {', '.join('/'.join(k) for k in kinds)}")
    for wanted in (("v1alpha1", "POST", "sandboxes"), ("v1alpha1", "PATCH", "sandboxes"), ("v1beta1", "POST", "sandboxes"),
                   ("v1beta1", "PATCH", "sandboxes"), ("v1beta1", "POST", "sandboxclaims"), ("v1beta1", "PATCH", "sandboxclaims")):
        if wanted not in kinds:
            fail(f"no {wanted} was made: this proves less than it says")
    # The checks themselves: each has to refuse something.
    good = next(o for v, c, p, o, _ in world.written if (v, c, p) == ("v1beta1", "POST", "sandboxes"))
    for change in ({"spec": {"replicas": 1}}, {"spec": {"operatingMode": "Asleep"}}, {"spec": {"podTemplate": None}},
                   {"spec": {"shutdownTime": "tomorrow"}}, {"spec": {"podTemplate": {"spec": {"containers": [{"name": 1}]}}}}):
        if not problems(BOXES, "v1beta1", "sandboxes", fake.merge(copy.deepcopy(good), copy.deepcopy(change))):
            fail(f"the schema takes {change}")
    ok("and the schema refuses what does not")


def evaluate():
    schema = world.schemas[(BOXES, "v1beta1", "sandboxes")]
    bare, one = {"spec": {"podTemplate": {}}}, {"spec": {"volumeClaimTemplates": [{"spec": {}}]}}
    asked = world.changes + [r for pair in ((one, bare), (bare, one)) for r in rules(schema, *pair)]
    with open(os.path.join(TMP, "rules.json"), "w", encoding="utf-8") as f:
        json.dump(asked, f)
    out = subprocess.run(["node", os.path.join(TOP, "tests/lib/crd_rules.mjs"), f.name], stdout=subprocess.PIPE, check=True).stdout
    got = json.loads(out)
    wrong = [r["what"] for r, g in zip(world.changes, got) if g is not True]
    if not world.changes or wrong:
        fail(f"{len(world.changes)} changes, not allowed: {wrong}")
    ok(f"{len(world.changes)} changes keep the definitions' own rules (CEL)")
    equal("which refuse what they are for", [False, False], got[len(world.changes):])


def main():
    load_schemas()
    server = fake.Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begin(server.server_address[1])
    versions()
    conditions()
    claims()
    if CRDS:
        example()
        definitions()
        evaluate() if os.environ.get("CEL") else print("  not run: the rules (CEL) need node 20")
    else:
        print("  not run: schemas and rules, the definitions of agent-sandbox are not beside the project (../shared/agent-sandbox-crds)")


if __name__ == "__main__":
    main()
