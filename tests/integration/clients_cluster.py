#!/usr/bin/python3
"""clients_cluster.py [late] [forbidden]: what the client makes of a cluster that does not do its part. MUXD_STATE, TMP_DIR and, where no
part is named, FAKE (the fake API server's commands) in the environment."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python"))
from muxd import Sandbox, SandboxCreateTimeout, SandboxError, SandboxK8sError, errors  # noqa: E402

STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "message": "etcd is out of order", "code": 500}


def answers():
    with open(f"{os.environ['TMP_DIR']}/fake.out", encoding="utf-8") as f:
        return f.read().count("\n")


def tell(**command):
    """Answered once the fake goes by it."""
    before, until = answers(), time.monotonic() + 30
    with open(os.environ["FAKE"], "w", encoding="utf-8") as f:
        f.write(json.dumps(command) + "\n")
    while answers() == before:
        if time.monotonic() > until:
            sys.exit(f"FAILED: the fake API server does not take {command}")
        time.sleep(0.01)


def refused(kind, code, agent, **how):
    try:
        Sandbox.create(agent, state_dir=os.environ["MUXD_STATE"], token_file=f"{os.environ['TMP_DIR']}/any", **how)
    except SandboxError as e:
        if type(e) is not kind or e.code != code or not e.request_id or not e.hint:
            sys.exit(f"FAILED: {type(e).__name__} {e}, not {kind.__name__}")
        print(f"  ok: {kind.__name__}: {e}", flush=True)
        return e
    sys.exit(f"FAILED: no {kind.__name__}")


def late():
    refused(SandboxCreateTimeout, "sandbox_create_timeout", "late", timeout=0.5)


def out_of_order():
    tell(do="rule", method="POST", path="/pods", times=0, status=500, body=STATUS)
    e = refused(SandboxK8sError, "sandbox_k8s_error", "refused")
    if e.k8s_status != {"code": 500, "reason": "InternalError", "message": "etcd is out of order"}:
        sys.exit(f"FAILED: the Status is {e.k8s_status}")
    tell(do="unrule")


def forbidden():
    e = refused(errors.K8sForbidden, "k8s_forbidden", "forbidden")
    status = e.k8s_status
    if not isinstance(e, SandboxK8sError) or (status["code"], status["reason"]) != (403, "Forbidden") or "is forbidden" not in status["message"]:
        sys.exit(f"FAILED: {e!r} {e.k8s_status}")


if sys.argv[1:]:  # these alone, against a real cluster
    for name in sys.argv[1:]:
        {"late": late, "forbidden": forbidden}[name]()
else:
    late()
    out_of_order()
    tell(do="rule", method="POST", path="/pods", times=0, status=403, body={**STATUS, "reason": "Forbidden", "message": "pods is forbidden", "code": 403})
    forbidden()
