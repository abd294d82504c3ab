"""Every operation of every door with every credential: what it answers, and the event it gives in the audit log.

    audit_matrix.py policy                                 a policy with a profile that lacks each operation
    audit_matrix.py run STATE_DIR FACTS.json CELLS.json    drives the cells against a daemon that runs
    audit_matrix.py furnish STATE_DIR FACTS.json PHASE     makes what `closed` acts on: contexts, a shell, rounds
    audit_matrix.py closed STATE_DIR FACTS.json PHASE      drives what is no look while the record takes nothing
    audit_matrix.py kept STATE_DIR FACTS.json PHASE        is what was refused meanwhile as it was?
    audit_matrix.py check CELLS.json < EVENTS              judges answers and events (JSON lines of `muxctl audit`)
    audit_matrix.py edge STATE_DIR CENTRE FACTS.json CELLS.json    drives an edge with leases in a grant's place
    audit_matrix.py edge-check CELLS.json < EVENTS         judges that

Operations come from where they are defined: docs/openapi.yaml (by HTTPS and by the Unix socket api.sock), the op table
of recorder.sock (its C source) and SSH below. One that is not in the tables here, or here and nowhere else, fails the check: who adds an
operation says here whom it lets in and what it leaves in the log.

What a cell must give follows from its credential (RULES) and its operation's class (what it needs, about what it is);
EXCEPTIONS are named with their reasons. docs/security.md, "The audit log".
"""
import base64, collections, concurrent.futures, http.client, json, os, re, socket, ssl, struct, subprocess, sys, threading, time, urllib.error, urllib.request, uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
AGENT, OTHER = "matrix", "matrix-other"
ABSENT = "0193aaaa-0000-7000-8000-000000000001"

# ---- operations

OPEN, METRICS, CLUSTER, EDGE, GRANT = "open", "metrics", "cluster", "edge", "grant"
Op = collections.namedtuple("Op", "auth about needs body event")
# about: what it is about: an agent, a session that has ended (of another principal), all of them, a lease, or the caller.
# needs: one of these scopes; empty: any grant. event: what the right credential leaves in the log, "" : nothing.


def op(auth=GRANT, about="self", needs="", body=None, event=""):
    return Op(auth, about, needs.split(), body, event)


REASON = {"reason": "the matrix"}
LIFE = "lifecycle admin"
FS = {"write": {"data": "x"}, "append": {"data": "x"}, "stat": {}, "list": {}, "read": {}, "mkdir": {"parents": True},
      "chmod": {"mode": "0644"}, "move": {"to": "fs", "overwrite": True}, "copy": {"to": "fs2", "overwrite": True}, "delete": {},
      "patch": {"data": "*** Begin Patch\n*** Add File: m\n+x\n*** End Patch\n"}, "search": {"pattern": "x"}, "glob": {"pattern": "*"}}
REST = {
    "GET /": op(OPEN), "GET /sandboxes": op(OPEN), "GET /sessions": op(OPEN), "GET /sessions/{id}": op(OPEN),
    "GET /terminal/{agent}": op(OPEN), "GET /replay/{id}": op(OPEN), "GET /ui/{file}": op(OPEN),
    "GET /healthz": op(OPEN), "GET /readyz": op(OPEN), "POST /k8s/admission": op(OPEN, body={}),
    "GET /metrics": op(METRICS, needs="observe admin"),
    "GET /.well-known/oauth-protected-resource": op(OPEN), "GET /.well-known/oauth-protected-resource/mcp": op(OPEN),
    "GET /.well-known/oauth-protected-resource/mcp/{agent}/{server}": op(OPEN),
    "POST /mcp": op(body={}), "GET /mcp": op(), "DELETE /mcp": op(),  # without a session: refused; what tools do, their calls' rows say
    "POST /mcp/{agent}/{server}": op(body={}), "GET /mcp/{agent}/{server}": op(), "DELETE /mcp/{agent}/{server}": op(),  # the same
    "POST /v1/grants": op(CLUSTER, body={"target": AGENT, "reason": "the matrix"}), "GET /v1/grants": op(),
    "POST /v1/grants/renew": op(body=REASON), "DELETE /v1/grants/{id}": op(),
    "GET /v1/agents": op(about="list"),
    "GET /v1/agents/{agent}": op(about="agent"),
    "DELETE /v1/agents/{agent}": op(about="agent", needs=LIFE, event="sandbox.destroy"),
    "POST /v1/agents/{agent}/resume": op(about="agent", needs="terminal rounds " + LIFE, body={}, event="agent.resume"),
    "POST /v1/agents/{agent}/stop": op(about="agent", needs=LIFE, body=REASON, event="sandbox.stop"),
    "POST /v1/agents/{agent}/kill": op(about="agent", needs="drive admin", body=REASON, event="sandbox.kill"),
    "POST /v1/agents/{agent}/terminate": op(about="agent", needs=LIFE, body=REASON, event="sandbox.terminate"),
    "GET /v1/agents/{agent}/snapshots": op(about="agent"),
    "POST /v1/agents/{agent}/snapshots": op(about="agent", needs=LIFE, body={}, event="sandbox.snapshot"),
    "DELETE /v1/agents/{agent}/snapshots/{id}": op(about="agent", needs=LIFE, event="snapshot.drop"),
    "POST /v1/agents/{agent}/restore": op(about="agent", needs=LIFE, body={"snapshot_id": ABSENT, **REASON}, event="sandbox.restore"),
    "POST /v1/agents/{agent}/fork": op(about="agent", needs=LIFE, body={}, event="sandbox.fork"),
    "GET /v1/agents/{agent}/logs": op(about="agent", needs="observe " + LIFE, event="sandbox.log"),
    "GET /v1/agents/{agent}/files": op(about="agent", needs="files", event="file.get"),
    "PUT /v1/agents/{agent}/files": op(about="agent", needs="files", body="content", event="file.put"),
    "GET /v1/agents/{agent}/fs/watch": op(about="agent", needs="files", event="file.watch"),  # of a file: it would not end else
    "GET /v1/agents/{agent}/fs/tree": op(about="agent", needs="files", event="file.tree_get"),
    "PUT /v1/agents/{agent}/fs/tree": op(about="agent", needs="files", body="content", event="file.tree_put"),
    **{"POST /v1/agents/{agent}/fs/" + name: op(about="agent", needs="files", body={"path": "fs", "task_id": "m", **more}, event="file." + name)
       for name, more in FS.items()},
    "GET /v1/agents/{agent}/locks": op(about="agent", needs="files", event="lock.list"),
    "POST /v1/agents/{agent}/locks": op(about="agent", needs="files", body={"path": "{cell}", "task_id": "m"}, event="lock.take"),
    "POST /v1/agents/{agent}/locks/{id}": op(about="agent", needs="files", body={"task_id": "m"}, event="lock.renew"),
    "DELETE /v1/agents/{agent}/locks/{id}": op(about="agent", needs="files", event="lock.release"),
    "PUT /v1/tasks/{task}/artifacts/{name}": op(needs="files", body="content", event="artifact.put"),
    "GET /v1/tasks/{task}/artifacts/{name}": op(needs="files", event="artifact.get"),
    "GET /v1/tasks/{task}/artifacts": op(needs="files", event="artifact.list"),
    "DELETE /v1/tasks/{task}/artifacts/{name}": op(needs="files", event="artifact.delete"),
    "POST /v1/tasks/{task}/artifacts": op(about="agent", needs="files", body={"name": "taken", "agent": AGENT, "path": "/etc/passwd"}, event="artifact.put"),
    "POST /v1/agents/{agent}/rounds": op(about="agent", needs="rounds", body={"argv": ["true"], "task_id": "m", "wait_ms": 5000}, event="round.start"),
    "GET /v1/agents/{agent}/shells": op(about="agent", needs="rounds"),
    "DELETE /v1/agents/{agent}/shells/{name}": op(about="agent", needs="rounds", event="shell.end"),  # there is none: not_found
    # Of services that are not there: not_found. What is done with one: services.sh.
    "GET /v1/agents/{agent}/services": op(about="agent", needs="rounds " + LIFE),
    "PUT /v1/agents/{agent}/services": op(about="agent", needs=LIFE, body={"services": [{"name": "{cell}", "argv": ["sleep", "600"]}]}, event="services.set"),
    "GET /v1/agents/{agent}/services/{service}": op(about="agent", needs="rounds " + LIFE),
    "GET /v1/agents/{agent}/services/{service}/log": op(about="agent", needs="observe " + LIFE, event="services.log"),
    "POST /v1/agents/{agent}/services/{service}/restart": op(about="agent", needs=LIFE, body={}, event="services.restart"),
    # Without a store: unsupported. What is done with one: filespace.sh.
    "GET /v1/agents/{agent}/filespace": op(about="agent", needs="rounds files " + LIFE),
    "POST /v1/agents/{agent}/filespace/sync": op(about="agent", needs="files " + LIFE, body={"direction": "push"}, event="filespace.sync"),
    # Of servers that are not there: not_found. What is done with one: servers.sh.
    "GET /v1/agents/{agent}/mcp/servers": op(about="agent", needs="rounds " + LIFE),
    "PUT /v1/agents/{agent}/mcp/servers": op(about="agent", needs=LIFE, body={"servers": [{"name": "{cell}", "command": ["cat"]}]}, event="mcp.servers"),
    "GET /v1/agents/{agent}/mcp/servers/{server}": op(about="agent", needs="rounds " + LIFE),
    "POST /v1/agents/{agent}/mcp/servers/{server}/refresh": op(about="agent", needs="rounds", body={}, event="mcp.refresh"),
    "POST /v1/agents/{agent}/mcp/servers/{server}/approve": op(about="agent", needs=LIFE, body={"fingerprint": "0" * 64}, event="mcp.approve"),
    "POST /v1/agents/{agent}/mcp/request": op(about="agent", needs="rounds", body={"server": "none", "method": "ping", "task_id": "m"}, event="mcp.request"),
    # Of contexts that are not there: not_found.
    "GET /v1/agents/{agent}/contexts": op(about="agent", needs="rounds"), "GET /v1/agents/{agent}/contexts/{id}": op(about="agent", needs="rounds"),
    "POST /v1/agents/{agent}/contexts": op(about="agent", needs="rounds", body={"language": "bash", "task_id": "m"}, event="context.create"),
    "DELETE /v1/agents/{agent}/contexts/{id}": op(about="agent", needs="rounds", event="context.delete"),
    "POST /v1/agents/{agent}/contexts/{id}/executions": op(about="agent", needs="rounds", body={"code": "1"}, event="context.execute"),
    "POST /v1/agents/{agent}/contexts/{id}/interrupt": op(about="agent", needs="rounds", body={}, event="context.interrupt"),
    "POST /v1/agents/{agent}/contexts/{id}/reset": op(about="agent", needs="rounds", body={}, event="context.reset"),
    "POST /v1/agents/{agent}/python": op(about="agent", needs="rounds", body={"code": "1", "task_id": "m", "yield_ms": 5000}, event="python.execute"),
    "GET /v1/executions/{id}": op(about="session", needs="observe replay", event="record.read"),
    "GET /v1/agents/{agent}/terminal": op(OPEN), "GET /v1/sessions/{id}/attach": op(OPEN),  # by WebSocket: WS
    "GET /v1/agents/{agent}/exec": op(OPEN),
    "GET /v1/agents/{agent}/moment": op(about="agent"), "GET /v1/sessions/{id}": op(about="session", needs="observe replay drive admin"),
    "GET /v1/rounds/{id}": op(about="session", needs="observe replay", event="record.read"),
    "GET /v1/rounds/{id}/output": op(about="session", needs="observe replay", event="record.read"),
    "GET /v1/rounds/{id}/events": op(about="session", needs="observe replay", event="record.read"),
    "POST /v1/rounds/{id}/stdin": op(about="session", needs="drive", body={"data": "x"}),
    "POST /v1/rounds/{id}/signal": op(about="session", needs="drive", body={"signal": "USR1"}),
    "POST /v1/rounds/{id}/keys": op(about="session", needs="drive", body={"keys": ["q"]}),
    "POST /v1/rounds/{id}/resize": op(about="session", needs="drive", body={"cols": 80, "rows": 24}),
    "GET /v1/rounds/{id}/screen": op(about="session", needs="observe replay", event="round.screen"),
    "GET /v1/sessions": op(about="list"),
    "POST /v1/sessions/{id}/terminate": op(about="session", needs="drive admin", body=REASON, event="session.terminate"),
    "POST /v1/sessions/{id}/fork": op(about="session", needs=LIFE, body={}, event="sandbox.fork"),
    "GET /v1/recordings": op(about="record list", needs="replay", event="record.read"),
    "GET /v1/recordings/{id}": op(about="session", needs="replay", event="record.read"),
    "GET /v1/recordings/{id}/events": op(about="session", needs="replay", event="record.read"),
    "GET /v1/recordings/{id}/screen": op(about="session", needs="replay", event="record.read"),
    "GET /v1/retention": op(about="record list", needs="replay admin", event="record.read"),
    "POST /v1/retention/apply": op(about="pool", needs="admin", body=REASON),
    "GET /v1/holds": op(about="record list", needs="replay admin", event="record.read"),
    "POST /v1/holds": op(about="agent", needs="replay admin", body={"agent": AGENT, **REASON}, event="hold.add"),
    "DELETE /v1/holds/{id}": op(about="pool", needs="admin"),
    "GET /v1/audit": op(about="record list", needs="replay", event="record.read"),
    "GET /v1/policy": op(needs="replay admin"),
    "POST /v1/edge/leases": op(body={"edge": "e", "scopes": "rounds", "target": AGENT, "task_id": "m", "reason": "the matrix"}),
    "GET /v1/edge/state": op(EDGE),  # an edge's own call opens it, and no grant: edge.sh
    "GET /v1/head": op(about="record list", needs="replay", event="record.read"),
    "POST /v1/witness/heads": op(OPEN, body={}), "GET /v1/witness/heads": op(OPEN),  # by the signature of a log's key; by a log's id
    "GET /v1/web/session": op(), "POST /v1/web/session": op(body={}), "DELETE /v1/web/session": op(),
    "POST /sandboxes/leases": op(about="pool", needs="lifecycle", body={"userId": "u", "workflowId": "none", "requestId": "m"}),
    "GET /sandboxes/leases": op(about="pool", needs="lifecycle"), "GET /sandboxes/leases/{id}": op(about="lease", needs="lifecycle"),
    "DELETE /sandboxes/leases/{id}": op(about="lease", needs="lifecycle"),
    "POST /sandboxes/leases/{id}/heartbeat": op(about="lease", needs="lifecycle", body={}),
    "POST /sandboxes/runs": op(about="pool", needs="lifecycle", body={"leaseId": ABSENT, "workflowId": "none", "runId": "m", "token": "t"}),
    "GET /sandboxes/runs": op(about="pool", needs="lifecycle"), "GET /sandboxes/runs/{id}": op(about="run", needs="lifecycle"),
    "POST /sandboxes/workflows": op(about="pool", needs="lifecycle", body={"name": "matrix", "owner": "u", "version": 1, "steps": [{"shell": "true"}]}),
    "GET /sandboxes/workflows": op(about="pool", needs="lifecycle"), "GET /sandboxes/workflows/{id}": op(about="pool", needs="lifecycle"),
    "GET /sandboxes/pool": op(about="pool", needs="lifecycle"),
}
# For a token of an outside issuer, which stands in a grant's place: those operations that openapi.yaml says take one.
EXCHANGE = {"POST /v1/grants": op(CLUSTER, body={"issuer": "matrix", "reason": "the matrix"})}
PORT = {"port": op(about="agent", needs="ports", event="port.open")}  # X-Sandbox-ID: any method and path
# X-Sandbox-ID and port 8888, answered by the daemon (router.runtime). GRANT, without a page's cookie.
FORM = '--b\r\nContent-Disposition: form-data; name="file"; filename="up"\r\n\r\nx\r\n--b--\r\n'
RUNTIME = {
    "GET /": op(about="agent", needs="rounds files"),
    "POST /execute": op(about="agent", needs="rounds", body={"command": "true"}, event="round.start"),
    "POST /upload": op(about="agent", needs="files", body=FORM, event="file.write"),
    "GET /download/": op(about="agent", needs="files", event="file.get"),
    "GET /list/": op(about="agent", needs="files", event="file.list"),
    "GET /exists/": op(about="agent", needs="files", event="file.stat"),
}
WS = {
    "GET /v1/agents/{agent}/terminal": op(about="agent", needs="terminal", event="session.open"),
    "GET /v1/agents/{agent}/exec": op(about="agent", needs="rounds", body={"argv": ["true"], "task_id": "m"}, event="round.start"),
    "GET /v1/sessions/{id}/attach": op(about="session", needs="drive observe", event="session.attach"),
}
RECORDER = {
    "sessions": op(about="record list", needs="replay", event="record.read"), "audit": op(about="record list", needs="replay", event="record.read"),
    "session": op(about="session", needs="replay", event="record.read"), "events": op(about="session", needs="replay", event="record.read"),
    "recording": op(about="session", needs="replay", event="record.read"), "page": op(about="session", needs="replay", event="record.read"),
    "keyframe": op(about="session", needs="replay", event="record.read"), "output": op(about="session", needs="replay", event="record.read"),
    "read": op(about="session", needs="replay", event="record.read"),
    "grep": op(about="session", needs="replay", body={"pattern": "x"}),
    "retention": op(about="record list", needs="replay admin", event="record.read"), "holds": op(about="record list", needs="replay admin", event="record.read"),
    "hold.add": op(about="agent", needs="replay admin", body=REASON, event="hold.add"),
    "hold.release": op(about="pool", needs="admin", body={"hold": ABSENT, **REASON}),
    "retention.apply": op(about="pool", needs="admin", body=REASON),
    "given": op(body={"session": ABSENT}, event="record.read"),  # the hub's word on any session
    # the daemon's own: by uid, which recorder.sock's owner and mode leave to it and root
    "recover": op(OPEN), "refers": op(OPEN, body={"agent": AGENT, "snapshot": ABSENT}), "snapshot": op(OPEN, body={"agent": AGENT, "snapshot": ABSENT}), "gone": op(OPEN), "hub": op(OPEN), "digests": op(OPEN),
    "carrier": op(OPEN), "witnesses": op(OPEN), "keep": op(OPEN, body={"question": {}}), "kept": op(OPEN, body={"log_id": ABSENT}),
    "audit.head": op(about="record list", needs="replay", event="record.read"),
    "head": op(OPEN), "status": op(OPEN), "flush": op(OPEN, body={"timeout_ms": 5000}),
}
SSH = {  # what follows a log-in; the log-in itself is tried with each credential
    "login": op(about="agent", needs="terminal", event="session.open"), "exec": op(about="agent", needs="terminal", event="session.open"),
    "shell": op(about="agent", needs="terminal", event="session.open"), "attach": op(about="session", needs="drive", event="session.attach"),
    "subsystem": op(about="agent"),
}


def sources():
    """What there is, by door, read from where it is defined."""
    import yaml
    found = {"rest": set(), "ws": set(), "exchange": set()}
    with open(os.path.join(ROOT, "docs/openapi.yaml")) as f:
        paths = yaml.safe_load(f)["paths"]
    for path, methods in paths.items():
        for method, what in methods.items():
            if method in ("get", "put", "post", "delete", "patch"):
                found["rest"].add(f"{method.upper()} {path}")
                if {"issuer": []} in what.get("security", []):
                    found["exchange"].add(f"{method.upper()} {path}")
                if "426" in [str(s) for s in what["responses"]]:
                    found["ws"].add(f"{method.upper()} {path}")
    found["api.sock"] = found["rest"] | found["ws"]
    text = open(os.path.join(ROOT, "recorder/serve/service_ops.c")).read()
    found["recorder.sock"] = set(re.findall(r'\{"([a-z_.]+)", service_', text))
    text = open(os.path.join(ROOT, "muxd/doors/ssh/channel.c")).read()
    rows = open(os.path.join(ROOT, "muxd/doors/https/runtime.c")).read()
    found["runtime"] = {" ".join(row) for row in re.findall(r'\{\{HTTP_([A-Z]+), "([^"]+)"', rows)}
    found["ssh"] = set(re.findall(r"channel_(shell|exec|subsystem)_request_function", text)) | {"login", "attach"}
    return found


def tasked():
    """Which calls name a task, by docs/openapi.yaml, and where: {call: "path", "query" or "body"}."""
    import yaml
    with open(os.path.join(ROOT, "docs/openapi.yaml")) as f:
        whole = yaml.safe_load(f)

    def at(what):
        while "$ref" in what:
            step = whole
            for key in what["$ref"][2:].split("/"):
                step = step[key]
            what = step
        return what

    def fields(schema):
        schema = at(schema)
        return set(schema.get("properties", {})).union(*(fields(s) for key in ("allOf", "oneOf", "anyOf") for s in schema.get(key, [])))

    found = {}
    for path, methods in whole["paths"].items():
        for method in set(methods) & {"get", "put", "post", "delete"}:
            call, what = f"{method.upper()} {path}", methods[method]
            named = [at(p) for p in methods.get("parameters", []) + what.get("parameters", [])]
            found.update({call: p["in"] for p in named if p["name"] in ("task", "task_id")})
            bodies = at(what.get("requestBody", {})).get("content", {}).values()
            found.update({call: "body" for b in bodies if "task_id" in fields(b.get("schema", {}))})
    return {**found, "GET /v1/agents/{agent}/exec": "body"}  # its first message


TASKED = tasked()


# Which operation of a policy each is (policy/operation.h). A session of the matrix is another's; one that has left memory is the
# record's. Without: none of these is asked of the policy.
UNJUDGED = {
    "POST /mcp", "GET /mcp", "DELETE /mcp",  # the calls of its tools are judged
    "POST /mcp/{agent}/{server}", "GET /mcp/{agent}/{server}", "DELETE /mcp/{agent}/{server}",  # requests to it are judged
    "GET /v1/web/session", "POST /v1/web/session", "DELETE /v1/web/session",  # a log-in's cookie, whose calls are judged
    "subsystem",  # there is none over SSH
    "GET /v1/edge/state",  # an edge's own call, which is no grant
}
POLICY = {
    "edge.mint": ["POST /v1/edge/leases"],
    "grant.make": ["POST /v1/grants"], "grant.list": ["GET /v1/grants"], "grant.renew": ["POST /v1/grants/renew"],
    "grant.revoke": ["DELETE /v1/grants/{id}"],
    "sandbox.read": ["GET /v1/agents", "GET /v1/agents/{agent}", "GET /v1/agents/{agent}/snapshots", "GET /v1/agents/{agent}/logs",
                     "GET /v1/agents/{agent}/moment", "runtime GET /"],
    "sandbox.wake": ["POST /v1/agents/{agent}/resume"], "sandbox.destroy": ["DELETE /v1/agents/{agent}"],
    "sandbox.stop": ["POST /v1/agents/{agent}/" + name for name in ("stop", "kill", "terminate")],
    "snapshot.take": ["POST /v1/agents/{agent}/snapshots"], "snapshot.drop": ["DELETE /v1/agents/{agent}/snapshots/{id}"],
    "snapshot.restore": ["POST /v1/agents/{agent}/restore"],
    "snapshot.fork": ["POST /v1/agents/{agent}/fork", "POST /v1/sessions/{id}/fork"],
    "file.read": ["GET /v1/agents/{agent}/files", "GET /v1/agents/{agent}/fs/watch", "GET /v1/agents/{agent}/fs/tree",
                  *("POST /v1/agents/{agent}/fs/" + name for name in ("stat", "list", "read", "search", "glob")),
                  "GET /download/", "GET /list/", "GET /exists/"],
    "file.write": ["PUT /v1/agents/{agent}/files", "PUT /v1/agents/{agent}/fs/tree",
                   *("POST /v1/agents/{agent}/fs/" + name for name in ("write", "append", "mkdir", "chmod", "move", "copy", "delete", "patch")),
                   "POST /upload"],
    "file.lock": ["GET /v1/agents/{agent}/locks", "POST /v1/agents/{agent}/locks", "POST /v1/agents/{agent}/locks/{id}",
                  "DELETE /v1/agents/{agent}/locks/{id}"],
    "artifact.read": ["GET /v1/tasks/{task}/artifacts/{name}", "GET /v1/tasks/{task}/artifacts"],
    "artifact.write": ["PUT /v1/tasks/{task}/artifacts/{name}", "DELETE /v1/tasks/{task}/artifacts/{name}", "POST /v1/tasks/{task}/artifacts"],
    "round.start": ["POST /v1/agents/{agent}/rounds", "POST /execute", "ws GET /v1/agents/{agent}/exec"],
    "round.read": ["GET /v1/agents/{agent}/shells"], "round.input": ["DELETE /v1/agents/{agent}/shells/{name}"],
    "context.read": ["GET /v1/agents/{agent}/contexts", "GET /v1/agents/{agent}/contexts/{id}"],
    "context.create": ["POST /v1/agents/{agent}/contexts"], "context.delete": ["DELETE /v1/agents/{agent}/contexts/{id}"],
    "context.execute": ["POST /v1/agents/{agent}/contexts/{id}/" + name for name in ("executions", "interrupt", "reset")],
    "python.execute": ["POST /v1/agents/{agent}/python"],
    "mcp.call": ["POST /v1/agents/{agent}/mcp/request", "POST /v1/agents/{agent}/mcp/servers/{server}/refresh"],
    "mcp.read": ["GET /v1/agents/{agent}/mcp/servers", "GET /v1/agents/{agent}/mcp/servers/{server}"],
    "mcp.set": ["PUT /v1/agents/{agent}/mcp/servers", "POST /v1/agents/{agent}/mcp/servers/{server}/approve"],
    "service.read": ["GET /v1/agents/{agent}/services", "GET /v1/agents/{agent}/services/{service}", "GET /v1/agents/{agent}/services/{service}/log"],
    "service.set": ["PUT /v1/agents/{agent}/services"], "service.restart": ["POST /v1/agents/{agent}/services/{service}/restart"],
    "filespace.read": ["GET /v1/agents/{agent}/filespace"], "filespace.sync": ["POST /v1/agents/{agent}/filespace/sync"],
    "session.list": ["GET /v1/sessions", "GET /v1/sessions/{id}"], "session.end": ["POST /v1/sessions/{id}/terminate"],
    "session.watch": ["GET /v1/rounds/{id}/screen"],
    "session.drive": [*("POST /v1/rounds/{id}/" + name for name in ("stdin", "signal", "keys", "resize")), "ws GET /v1/sessions/{id}/attach", "attach"],
    "record.read": ["GET /v1/rounds/{id}", "GET /v1/executions/{id}", "GET /v1/rounds/{id}/output", "GET /v1/rounds/{id}/events",
                    "GET /v1/recordings", "GET /v1/recordings/{id}", "GET /v1/recordings/{id}/events", "GET /v1/recordings/{id}/screen",
                    "GET /v1/retention", "GET /v1/holds", "GET /v1/audit", "GET /v1/head"],
    "record.keep": ["POST /v1/retention/apply", "POST /v1/holds", "DELETE /v1/holds/{id}"],
    "policy.read": ["GET /v1/policy"],
    "lease.hold": ["POST /sandboxes/leases", "DELETE /sandboxes/leases/{id}", "POST /sandboxes/leases/{id}/heartbeat"],
    "lease.read": ["GET /sandboxes/leases", "GET /sandboxes/leases/{id}", "GET /sandboxes/pool"],
    "run.start": ["POST /sandboxes/runs"], "run.read": ["GET /sandboxes/runs", "GET /sandboxes/runs/{id}"],
    "workflow.write": ["POST /sandboxes/workflows"], "workflow.read": ["GET /sandboxes/workflows", "GET /sandboxes/workflows/{id}"],
    "port.open": ["port"], "terminal.open": ["ws GET /v1/agents/{agent}/terminal"], "exec.open": ["login", "exec", "shell"],
}
JUDGED = {name: operation for operation, names in POLICY.items() for name in names}


# What leaves no event of its own in the audit log: the policy's allowance is one (policy.allow). Inputs are in the session's record besides.
ALLOWANCES = {"GET /v1/agents", "GET /v1/agents/{agent}", "GET /v1/agents/{agent}/snapshots", "GET /v1/agents/{agent}/shells", "GET /v1/agents/{agent}/services",
              "GET /v1/agents/{agent}/services/{service}", "GET /v1/agents/{agent}/filespace",
              "GET /v1/agents/{agent}/mcp/servers", "GET /v1/agents/{agent}/mcp/servers/{server}", "GET /v1/agents/{agent}/contexts",
              "GET /v1/agents/{agent}/contexts/{id}", "GET /v1/agents/{agent}/moment", "GET /v1/sessions/{id}", "GET /v1/sessions", "GET /v1/policy", "GET /v1/grants",
              "GET /sandboxes/leases", "GET /sandboxes/leases/{id}", "GET /sandboxes/runs", "GET /sandboxes/workflows", "GET /sandboxes/workflows/{id}",
              "GET /sandboxes/pool", "runtime GET /", *(f"POST /v1/rounds/{{id}}/{name}" for name in ("stdin", "signal", "keys", "resize"))}
RECORDED = {"POST /v1/rounds/{id}/stdin": "input", "POST /v1/rounds/{id}/keys": "input", "POST /v1/rounds/{id}/signal": "signal",
            "POST /v1/rounds/{id}/resize": "resize"}
RESIZED = {"rest": {"cols": 81, "rows": 25}, "api.sock": {"cols": 82, "rows": 26}}
# What is not there is answered so; all else of ALLOWANCES and DONE succeeds.
ABSENCES = {"GET /v1/agents/{agent}/services/{service}": "not_found", "GET /v1/agents/{agent}/services/{service}/log": "not_found",
            "POST /v1/retention/apply": "bad_state",  # no shorter retention waits: retention.sh
            "GET /v1/agents/{agent}/mcp/servers/{server}": "not_found",
            "GET /v1/agents/{agent}/contexts/{id}": "not_found"}
# Allowed, it is an event that names the operation: what it changes is the monitor's, the recorder's or the database's to tell.
TOLD = {"lease.hold", "run.start", "workflow.write", "grant.make", "grant.renew", "grant.revoke", "edge.mint"}
TOLD_CALLS = {"POST /v1/retention/apply", "DELETE /v1/holds/{id}"}
# These have to succeed where the policy allows them.
DONE = {*(f"{method} /v1/agents/{{agent}}/locks{more}" for method, more in (("POST", ""), ("POST", "/{id}"), ("DELETE", "/{id}"))),
        "PUT /v1/agents/{agent}/services", "PUT /v1/agents/{agent}/mcp/servers", "GET /v1/rounds/{id}/screen", "POST /v1/sessions/{id}/terminate",
        "GET /v1/sessions/{id}/attach", "attach", "port", "POST /v1/grants", "POST /v1/grants/renew", "DELETE /v1/grants/{id}", "POST /v1/edge/leases",
        *TOLD_CALLS}


def is_look(door, name):
    """Is the policy's allowance all that the audit log has of it?"""
    return f"{door} {name}" in ALLOWANCES or (name in ALLOWANCES and door != "runtime")


def policy_of(door, name):
    """The operation that a policy names it by; None: it is not judged. recorder.sock is its owner's alone."""
    if door == "recorder.sock":
        return None
    if door == "api.sock" and name in WS:
        door = "ws"
    return JUDGED.get(f"{door} {name}", JUDGED.get(name))


def operations():
    text = open(os.path.join(ROOT, "policy/operation.h")).read()
    return re.findall(r'X\([A-Z_]+, "([a-z.]+)"', text[text.index("#define POLICY_OPERATIONS"):])


def print_policy():
    """One profile for each operation, which allows all others; one that allows everything."""
    print("policy: 1\notherwise: as_granted\nprofiles:\n- {name: all, match: {principal: policy-all}, allow: ['*']}")
    print("- {name: closed, match: {principal: 'closed-*'}, allow: ['*']}")
    for name in operations():
        brings = ("round.start", "context.execute", "python.execute") if name == "round.read" else ()  # these do with them
        others = ", ".join(n for n in operations() if n != name and n not in brings)
        print(f"- {{name: no-{name}, match: {{principal: no-{name}}}, allow: [{others}]}}")


TABLES = {"rest": REST, "ws": WS, "api.sock": {**REST, **WS}, "recorder.sock": RECORDER, "ssh": SSH, "port": PORT, "runtime": RUNTIME, "exchange": EXCHANGE}

# ---- credentials

# shown: a token of an outside issuer as it is, whose entry has a reason: it opens MCP (SHOWN), and counts for nothing elsewhere.
UNKNOWN = {"none": "unauthenticated", "garbage": "token_malformed", "forged": "token_signature", "daemon": "token_signature",
           "issuer": "token_signature", "shown": "token_malformed", "shown expired": "token_expired"}
SHOWN = {name for name in REST if name.split()[1].startswith("/mcp")}
KNOWN = {"expired": "token_expired", "revoked": "token_revoked", "early": "token_not_yet_valid"}
PAGES = ("foreign origin", "no origin")
KINDS = ("staff", "agent", "auditor", "service")
ALL = "terminal,rounds,files,observe,drive,replay,lifecycle,admin,ports,grant"


class Mint:
    """Tokens as the monitor signs them, and as it never would (docs: policy/grant.h)."""

    def __init__(self, state, revoked):
        keys = os.path.join(state, "keys/grant")
        self.kid = next(n[:-5] for n in os.listdir(keys) if n.endswith(".seed"))
        with open(os.path.join(keys, self.kid + ".seed"), "rb") as f:
            self.seed = f.read()
        with open(os.path.join(state, "instance")) as f:
            self.instance = f.read().strip()
        self.revoked = revoked
        self.principals = {}

    def sign(self, seed, text):
        der = bytes.fromhex("302e020100300506032b657004220420") + seed
        key = "-----BEGIN PRIVATE KEY-----\n" + base64.b64encode(der).decode() + "\n-----END PRIVATE KEY-----\n"
        read, write = os.pipe()
        os.write(write, key.encode())
        os.close(write)
        fd = os.memfd_create("text")
        os.write(fd, text)
        try:
            return subprocess.run(["openssl", "pkeyutl", "-sign", "-inkey", f"/dev/fd/{read}", "-rawin", "-in", f"/dev/fd/{fd}"],
                                  pass_fds=(read, fd), check=True, stdout=subprocess.PIPE).stdout
        finally:
            os.close(read)
            os.close(fd)

    def shown(self, url, cred):
        """One of its own for each cell: the first request with it is its exchange."""
        times = {"iat": "-600", "nbf": "-600", "exp": "-60"} if cred == "shown expired" else {}
        body = json.dumps({"claims": {"aud": "shown", **times}}).encode()
        return urllib.request.urlopen(urllib.request.Request(url + "/token", body)).read().decode()

    def outside(self, url):
        """Of the issuer's tokens: OUTSIDE says what each is answered."""
        def ask(where, body, headers={}):
            got = urllib.request.urlopen(urllib.request.Request(where, json.dumps(body).encode(), headers))
            return got.read().decode()

        good = ask(url + "/token", {})
        head, claims, signature = ask(url + "/token", {}).split(".")
        other = ask(url + "/token", {}).split(".")[1]
        return {"outside good": good, "outside used": "", "outside forged": f"{head}.{other}.{signature}",
                "outside stranger": ask(url + "/token", {"key": "hidden"}), "outside none": ask(url + "/token", {"alg": "none"}),
                "outside expired": ask(url + "/token", {"claims": {"iat": "-600", "nbf": "-600", "exp": "-60"}}),
                "outside foreign": ask(url + "/token", {"claims": {"aud": "else"}}),
                "outside claims": ask(url + "/token", {"claims": {"sub": "else/repo"}})}

    def token(self, principal, kind="agent", agent=AGENT, scopes=ALL, seed=None, kid=None, issuer=None, begin=-60, end=900, typ="muxd-grant", **more):
        def part(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        now, raw = int(time.time()), bytearray(uuid.uuid4().bytes)
        raw[:6] = int(time.time() * 1000).to_bytes(6, "big")
        raw[6] = 0x70 | raw[6] & 15
        ident = str(uuid.UUID(bytes=bytes(raw)))
        head = {"alg": "EdDSA", "typ": typ, "kid": kid or self.kid}
        claims = {"iss": issuer or self.instance, "jti": ident, "sub": principal, "iat": now + begin, "nbf": now + begin,
                  "exp": now + end, "kind": kind, "agent": agent, "scopes": scopes, "task": "m", "reason": "the matrix", **more}
        text = part(json.dumps(head, separators=(",", ":")).encode()) + b"." + part(json.dumps(claims, separators=(",", ":")).encode())
        return (text + b"." + part(self.sign(seed or self.seed, text))).decode(), ident

    def all(self):
        other = os.urandom(32)
        made = {"none": (None, None), "garbage": ("nonsense", None), "forged": self.token("eve", seed=other),
                "daemon": self.token("eve", seed=other, kid="0123456789abcdef"), "issuer": self.token("eve", issuer=ABSENT),
                "expired": self.token("past", begin=-900, end=-60), "early": self.token("future", begin=600, end=900),
                "revoked": self.revoked, "other agent": self.token("stranger", agent=OTHER),
                "other": self.token("stranger", kind="service", agent="*", scopes="lifecycle,rounds"),
                "no scope": self.token("poor", scopes="ports"), "no scope port": self.token("poor", scopes="rounds"),
                "no scope all": self.token("poor", kind="service", agent="*", scopes="ports"), "other task": self.token("tasked", task="other"),
                "no task": self.token("taskless", task=""),
                "own without": self.token("other-owner", scopes="files,ports"), "own past without": self.token("owner", scopes="files,ports")}
        for kind in KINDS:
            made[kind] = self.token(kind, kind=kind, agent=AGENT)
            made[kind + " all"] = self.token(kind + "-all", kind=kind, agent="*") if kind != "agent" else made[kind]
        made["foreign origin"] = made["no origin"] = made["staff"]
        for name in operations():
            made["no-" + name] = self.token("no-" + name, kind="service", agent="*")
        names = {"expired": "past", "early": "future", "revoked": "gone", "other agent": "stranger", "other": "stranger",
                 "no scope": "poor", "no scope port": "poor", "no scope all": "poor", "other task": "tasked", "no task": "taskless", "foreign origin": "staff", "no origin": "staff",
                 "own without": "other-owner", "own past without": "owner"}
        self.principals = {c: names.get(c, "agent" if c == "agent all" else c.replace(" all", "-all")) for c in made}
        return made


# ---- cells

def credential(o, cred, operation=None):
    """Which of a family of tokens a cell uses: leases and the pool are for grants of every agent."""
    if cred == "policy denies":
        return "no-" + operation
    if o.about in ("pool", "lease", "run"):
        return {"other agent": "other", "no scope": "no scope all"}.get(cred, cred + " all" if cred in KINDS else cred)
    return "no scope port" if cred == "no scope" and "ports" in o.needs else cred


def expected(door, name, o, cred):
    """(answers, event, outcome) of a cell; None: it does not apply. answers: codes, or a predicate's name."""
    if (door, name, cred) in EXCEPTIONS:
        return EXCEPTIONS[door, name, cred]
    if cred in OWN:
        return own_without(name, o, cred)
    if cred in OUTSIDE or door == "exchange":
        return exchanged(door, cred)
    if cred in POLICIES and not policy_of(door, name):
        return None
    if door == "rest" and name in SHOWN and cred == "shown":
        return "let in", "grant.create", "ok"
    if cred == "shown expired" and (door != "rest" or name not in SHOWN):
        return None  # as the good one
    write = door in ("rest", "api.sock", "runtime") and not name.startswith("GET")
    if cred in PAGES and (door not in ("rest", "ws") or o.auth not in (GRANT, METRICS)):
        return None
    if cred == "no origin" and not write and door == "rest":
        return None  # a page reads without one: the same as the right grant
    if o.auth == OPEN:
        return None if cred in PAGES else ("let in", "", "")
    if o.auth == EDGE:
        code = "unauthenticated" if cred == "none" else "token_malformed"
        return None if cred in PAGES else ({code}, "auth.fail", code)
    if o.auth == CLUSTER:
        if cred == "none":
            return {"unauthenticated"}, "auth.fail", "unauthenticated"
        if cred in ("garbage", "shown"):
            return {"unsupported"}, "", ""  # no cluster: no token is asked about, so none fails
    if cred in UNKNOWN:
        return {UNKNOWN[cred]}, "auth.fail", UNKNOWN[cred]
    if cred in KNOWN:
        return {KNOWN[cred]}, "auth.fail", KNOWN[cred]
    if cred in PAGES:
        return {"forbidden"}, "auth.fail", "forbidden"
    if cred == "policy allows" and name == "GET /sandboxes/runs/{id}":
        return {"not_found"}, "verdict", "not_found"  # there is none: leases.sh has runs
    if cred == "policy allows":
        answers = {ABSENCES.get(name, "ok")} if name in DONE or is_look(door, name) else "let in"
        told = policy_of(door, name) in TOLD or name in TOLD_CALLS or is_look(door, name)
        return answers, "policy.allow" if told else o.event, "ok"
    if cred == "policy denies":
        return {"policy_denied"}, "policy.deny", "policy_denied"
    if cred in TASKS:
        return by_task(door, name, cred)
    if cred == "other agent":
        return foreign(door, name, o)
    if cred == "no scope" and o.needs:
        return poor(door, name, o)
    if cred == "agent" and o.about in ("pool", "lease", "run"):
        return {"forbidden"}, "verdict", "forbidden"  # an agent's grant is never for every agent
    return "let in", "" if cred == "no scope" else o.event, "ok"


def exchanged(door, cred):
    """A body that names an issuer: its tokens serve, and no grant does."""
    if door != "exchange" or cred in PAGES or cred in POLICIES or cred.startswith("shown"):
        return None
    if cred in OUTSIDE:
        return ({OUTSIDE[cred]}, "auth.fail", OUTSIDE[cred]) if OUTSIDE[cred] else ("let in", "", "")
    code = {**UNKNOWN, **KNOWN}.get(cred)
    return ({code}, "auth.fail", code) if code else ({"invalid_request"}, "", "")


def foreign(door, name, o):
    if o.about == "agent":
        return ({"forbidden"}, "auth.fail" if door == "ssh" else "verdict", "forbidden")
    if o.about == "session":
        if door == "ssh":
            return {"forbidden"}, "auth.fail", "forbidden"  # at the log-in, which names the agent
        return {"not_found"}, "refused", "*"
    if o.about in ("lease", "run"):
        return {"not_found"}, "verdict", "not_found"
    return "let in", o.event, "ok"  # a list has its own alone


def by_task(door, name, cred):
    """The call names another task than its grant; neither names one. What the monitor is asked for by a token is refused ahead of that."""
    if name not in TASKED or name in ("POST /v1/grants", "POST /v1/edge/leases") or door not in ("rest", "ws", "api.sock"):
        return None
    if cred == "other task":
        return {"not_found" if "/artifacts" in name else "task_mismatch"}, "verdict", "task_mismatch"
    needless = TASKED[name] == "path" or any(part in name for part in ("/contexts/{id}", "/shells/", "/refresh"))  # what is not there needs none
    return None if needless else ({"task_required"}, "verdict", "task_required")


def with_task(o, path, where, named):
    """The call with a task in it, or without."""
    if where == "body" and o.body is not None:
        body = {key: value for key, value in o.body.items() if key != "task_id"}
        return o._replace(body={**body, "task_id": "m"} if named else body), path
    if where == "query":
        path = re.sub(r"(?<=[?&])task(_id)?=m&?", "", path).rstrip("?&")
        key = "task" if path.split("?")[0].endswith("/terminal") else "task_id"
        path += f"{'&' if '?' in path else '?'}{key}=m" if named else ""
    return o, path


def poor(door, name, o):
    if o.about == "session" and door != "ssh":
        return {"not_found"}, "refused", "*"
    if o.about == "record list":
        return {"forbidden"}, "record.read", "denied"
    if o.auth == METRICS:
        return {"forbidden"}, "verdict", "forbidden"
    return ({"not_found"} if o.about == "session" else {"forbidden"}), "verdict", "forbidden"


# Another grant of the principal whose round it is, for files and ports: of one that runs, and of one that has left memory.
OWN = ("own without", "own past without")
TOLD_TO_OWNERS = ("GET /v1/sessions/{id}", "session")  # that it is there, and its facts: no scope is needed for one's own


def own_without(name, o, cred):
    if o.about != "session" or o.auth != GRANT or (cred == "own past without" and o.event != "record.read"):
        return None
    return ("let in", o.event, "ok") if name in TOLD_TO_OWNERS else ({"forbidden"}, "refused", "*")


def session_of(facts, fresh, cred):
    """One at hand, or in the record alone."""
    return facts["live"] if cred == "own without" else facts["round"] if fresh else facts["old"]


FRESH = 50
POLICIES = ("policy denies", "policy allows")
TASKS = ("other task", "no task")
GOOD = ("policy allows", *KINDS)
# Of an issuer's tokens: the answer, "" : a grant.
OUTSIDE = {"outside good": "", "outside used": "token_used", "outside forged": "token_signature", "outside stranger": "token_key_unknown",
           "outside none": "token_algorithm", "outside expired": "token_expired", "outside foreign": "token_foreign", "outside claims": "token_claims"}
GENERAL = [*UNKNOWN, *KNOWN, *PAGES, "other agent", "no scope", *OWN, *TASKS, *POLICIES, *KINDS]
CREDENTIALS = [*GENERAL, *OUTSIDE]
# Operations that answer otherwise.
EXCEPTIONS = {
    # What the monitor is asked for by a token is about a grant that it made: these it never did (grant_chain.sh has others).
    (door, name, cred): (({"forbidden"}, "verdict", "forbidden") if cred == "no scope" and name in ("POST /v1/grants", "POST /v1/edge/leases") else
                         ({"token_signature"}, "verdict", "token_signature"))
    for door in ("rest", "api.sock") for name in REST if "/v1/grants" in name or name == "POST /v1/edge/leases" for cred in ("other agent", "no scope", *KINDS)
} | {
    # SSH has no log-in without a password that the daemon would see: an empty one is a token that is none.
    ("ssh", name, "none"): ({"token_malformed"}, "auth.fail", "token_malformed") for name in SSH
} | {  # the other grant of every agent has no admin
    (door, name, "other agent"): ({"forbidden"}, "verdict", "forbidden")
    for door, name in (("recorder.sock", "hold.release"), ("recorder.sock", "retention.apply"),
                       ("rest", "DELETE /v1/holds/{id}"), ("rest", "POST /v1/retention/apply"),
                       ("api.sock", "DELETE /v1/holds/{id}"), ("api.sock", "POST /v1/retention/apply"))
}

# ---- clients: each cell has a connection and an address of its own, so that its events are its own

def address(index, slot):
    """One /24 for each credential: the daemon counts failures of many addresses together, by their prefix."""
    return f"127.77.{slot + 1}.{index % 250 + 1}"


def connect(facts, source):
    """(socket, the peer that the daemon sees); source None: the Unix socket."""
    if source is None:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30)
        sock.connect(os.path.join(facts["state"], "api.sock"))
        return sock, "uid %d" % os.getuid()
    host, port = facts["https"].rsplit(":", 1)
    sock = socket.socket()
    sock.settimeout(30)
    sock.bind((source, 0))
    sock.connect((host, int(port)))
    peer = "%s:%d" % sock.getsockname()
    return facts["tls"].wrap_socket(sock, server_hostname=host), peer


def answer_of(status, body):
    try:
        said = json.loads(body)
        return said["detail"].split(":")[0] if list(said) == ["detail"] else str(said["error"]["code"])  # MCP: a number
    except (ValueError, KeyError, TypeError):
        return "ok" if status < 400 or status == 426 else str(status)


def whole(got):
    """An answer that was refused before its body was sent lingers: its length says when it is over."""
    head, end, body = got.partition(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: *(\d+)", head)
    return end and found and len(body) >= int(found.group(1))


def rest(facts, source, name, o, path, token, cred, headers=(), patience=30):
    method = name.split()[0]
    sock, peer = connect(facts, source)
    sock.settimeout(patience)
    body = b"" if o.body is None else o.body.encode() if isinstance(o.body, str) else json.dumps(o.body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: " + facts["https"], "Connection: close", *headers]
    if method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    if cred in PAGES:
        lines.append("Cookie: __Host-muxd=" + token)
        lines += ["Origin: https://elsewhere.example"] if cred == "foreign origin" else []
    elif token:
        lines.append("Authorization: Bearer " + token)
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
    got, end = b"", time.monotonic() + patience  # what is let in by mistake may be a stream
    try:
        while not whole(got) and time.monotonic() < end and (piece := sock.recv(65536)):
            got += piece
    except OSError:
        pass
    sock.close()
    head, _, rest_of = got.partition(b"\r\n\r\n")
    return answer_of(int(head.split()[1]), rest_of) if head else "no answer", peer


def ws(facts, source, name, o, path, token, cred):
    sock, peer = connect(facts, source)
    lines = [f"GET {path} HTTP/1.1", "Host: " + facts["https"], "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Protocol: muxd.v1"]
    if cred in PAGES:
        lines.append("Cookie: __Host-muxd=" + token)
        lines += ["Origin: https://elsewhere.example"] if cred == "foreign origin" else []
    elif token:
        lines.append("Authorization: Bearer " + token)
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    got = b""
    while b"\r\n\r\n" not in got and (piece := sock.recv(65536)):
        got += piece
    head, _, got = got.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if status != 101:
        while piece := sock.recv(65536):
            got += piece
        sock.close()
        return answer_of(status, got), peer
    if o.body is not None:  # START, masked with zeros
        text = b"\x25" + json.dumps(o.body).encode()
        sock.sendall(bytes([0x82, 0x80 | len(text)]) + bytes(4) + text)
    while True:  # the first message says: it is open, or why not
        while len(got) < 2 or len(got) < 2 + (got[1] & 127 if got[1] & 127 < 126 else 2 + int.from_bytes(got[2:4], "big")):
            piece = sock.recv(65536)
            if not piece:
                return "closed", peer
            got += piece
        n, at = got[1] & 127, 2
        if n == 126:
            n, at = int.from_bytes(got[2:4], "big"), 4
        kind, payload, got = got[0] & 15, got[at:at + n], got[at + n:]
        if kind == 8:
            answer = "closed %d" % int.from_bytes(payload[:2], "big")
            break
        if kind == 2:
            found = re.search(rb'"code":\s*"([a-z_]+)"', payload)
            answer = found.group(1).decode() if found else "ok"
            break
    sock.close()
    return answer, peer


def local(facts, path, name, o, token, target):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(os.path.join(facts["state"], path))
    question = {"op": name, **target, **(o.body or {})}
    if token:
        question["token"] = token
    text = json.dumps(question).encode()
    sock.sendall(struct.pack("<I", len(text) + 1) + b"J" + text)
    got, answer = b"", "closed"
    while True:
        while len(got) >= 5 and len(got) >= 4 + (n := struct.unpack("<I", got[:4])[0]):
            kind, payload, got = got[4:5], got[5:4 + n], got[4 + n:]
            if kind != b"J":
                continue
            o_ = json.loads(payload)
            if "error" in o_ and isinstance(o_["error"], dict):
                answer = o_["error"]["code"]
            elif answer == "closed":
                answer = "ok"
            if o_.get("end") or o_.get("event") in ("result", "error", "exit", "file") or answer != "ok":
                sock.close()
                return answer
        try:
            piece = sock.recv(65536)
        except OSError:
            piece = b""
        if not piece:
            sock.close()
            return answer
        got += piece


def ssh(facts, source, name, token, login):
    host, port = facts["ssh"].rsplit(":", 1)
    command = ["sshpass", "-e", "ssh", "-F", "none", "-b", source, "-p", port, "-o", "StrictHostKeyChecking=no", "-o",
               "UserKnownHostsFile=/dev/null", "-o", "PreferredAuthentications=password", "-o", "NumberOfPasswordPrompts=1",
               "-o", "LogLevel=INFO", "-l", login, *(["-s"] if name == "subsystem" else []), "-T", host]
    command += {"exec": ["true"], "subsystem": ["sftp"], "login": ["true"]}.get(name, [])
    done = subprocess.run(command, env={**os.environ, "SSHPASS": token or ""}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60)
    text = done.stdout.decode("utf-8", "replace")
    found = re.search(r"muxd\]?:? .*\(([a-z_]+)\)", text)
    return found.group(1) if found else "ok" if done.returncode == 0 else f"exit {done.returncode}: {text[-200:]}"


# ---- what a call that is to succeed needs: made ahead of it, by the same token or by an owner whose work it is

def asked(facts, method, path, token, body=None):
    request = urllib.request.Request("https://" + facts["https"] + path, json.dumps(body).encode() if body is not None else None,
                                     {"Authorization": "Bearer " + token, "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, context=facts["tls"], timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:300]!r}") from error


def a_lock(facts, token, cell):
    return {"id": asked(facts, "POST", f"/v1/agents/{AGENT}/locks", token, {"path": f"{cell}-{uuid.uuid4()}", "task_id": "m"})["id"]}


def a_hold(facts, token, cell):
    return {"id": asked(facts, "POST", "/v1/holds", token, {"agent": AGENT, "reason": cell})["hold"]}


def a_child(facts, token, cell):
    made = asked(facts, "POST", "/v1/grants", token, {"target": AGENT, "scopes": "rounds", "ttl": "1m", "reason": cell})
    return {"id": made["id"], "token": made["token"], "grant": made["id"]}


def a_round(seconds):
    def begin(facts, token, cell):
        body = {"argv": ["sleep", str(seconds)], "wait_ms": 0, "timeout_ms": 60000}
        return {"id": asked(facts, "POST", f"/v1/agents/{AGENT}/rounds", facts["owner"], body)["round_id"]}
    return begin


def the_live_one(facts, token, cell):
    return {"id": facts["live"]}


def to_revoke(facts, token, cell):
    return {"id": a_child(facts, token, cell)["id"]}


def bodied(o, cell):
    """What a list or a lock is to have is another for each cell: what changes nothing is no event."""
    return o._replace(body=json.loads(json.dumps(o.body).replace("{cell}", cell))) if isinstance(o.body, dict) else o


BEFORE = {
    "POST /v1/agents/{agent}/locks/{id}": a_lock, "DELETE /v1/agents/{agent}/locks/{id}": a_lock, "DELETE /v1/holds/{id}": a_hold,
    "DELETE /v1/grants/{id}": to_revoke, "POST /v1/grants/renew": a_child, "POST /v1/sessions/{id}/terminate": a_round(60), "attach": a_round(3),
    **{name: the_live_one for name in ("GET /v1/sessions/{id}/attach", "GET /v1/rounds/{id}/screen", "GET /v1/sessions/{id}", *RECORDED)},
}


def recorded(facts, token, cells):
    """Marks the cells whose events are the session's own: its record has theirs, with its principal."""
    request = urllib.request.Request(f"https://{facts['https']}/v1/recordings/{facts['live']}/events", headers={"Authorization": "Bearer " + token})
    with urllib.request.urlopen(request, context=facts["tls"], timeout=30) as answer:
        page = answer.read()  # frames; the events in them are JSON
    found = [json.loads(text) for text in re.findall(rb'\{[^{}]*"event":[^{}]*\}', page)]
    for cell in cells:
        if cell["op"].endswith("/resize"):  # the record of a size has no principal
            cell["recorded"] = struct.pack("<HH", *RESIZED[cell["door"]].values()) in page
        elif cell["op"] in RECORDED and cell["cred"] == "policy allows":
            cell["recorded"] = any(e["event"] == RECORDED[cell["op"]] and e.get("principal") == cell["principal"] for e in found)


# ---- driving

def path_of(name, o, agent, facts, fresh, door, cred, made=None):
    session = session_of(facts, fresh, cred)
    if made:
        return name.split()[1].replace("{agent}", agent).replace("{id}", made["id"]) + ("?reason=matrix" if "/holds/" in name else "")
    path = name.split()[1].replace("{agent}", agent).replace("{file}", "index.js").replace("{server}", "none").replace("{service}", "none")
    ident = {"lease": facts["lease"], "run": ABSENT}.get(o.about, session)
    if "contexts/{id}" in path:
        return path.replace("{id}", ABSENT)
    if "snapshots/{id}" in path:
        return path.replace("{id}", ABSENT) + "?reason=matrix"
    if "/workflows/{id}" in path:
        ident = "hello"
    gone = "none" if "/shells/" in path else f"gone-{door}-{cred}".replace(" ", "-")
    path = path.replace("{name}", gone if name.startswith("DELETE") else "matrix")
    path = path.replace("{id}", ident).replace("{task}", "m")
    if path.endswith(("/files", "/fs/watch", "/fs/tree")):
        path += "?path=m&task_id=m"
    if path.endswith("/moment"):
        path += "?opened_at=2026-01-01T00:00:00Z"
    if path.endswith("/screen") and "recordings" in path:
        path += "?at_ns=1"
    if name.startswith("DELETE /v1/agents/{agent}") and "/shells/" not in path and "/locks/" not in path and "?" not in path:
        path += "?reason=matrix"
    if name == "GET /v1/agents/{agent}/terminal":
        path += "?task=m&cols=80&rows=24"
    return path


def default_slice(door, index, name, o, slot, cred, want):
    """Every operation with every class of credential; which forgery, and which kind of principal, goes round."""
    if door == "api.sock" and cred not in KINDS:  # all come from one uid, whose failures delay its answers
        return CREDENTIALS.index(cred) == index % (len(GENERAL) - len(KINDS))
    if cred in ("forged", "daemon", "issuer"):
        return ("forged", "daemon", "issuer")[index % 3] == cred
    if cred == "policy allows":  # what changes a sandbox is allowed one kind of principal already
        return not want[1].startswith(("sandbox.", "snapshot."))
    return cred not in KINDS or cred == ("staff" if want[1].startswith(("sandbox.", "snapshot.", "agent.")) else KINDS[index % 4])


def drive(state, facts, out):
    with open(facts) as f:
        facts = json.load(f)
    facts["state"], facts["tls"] = state, ssl.create_default_context(cafile=os.path.join(state, "keys/tls.crt"))
    mint = Mint(state, (facts["revoked"], facts["revoked_id"]))
    tokens, cells, todo = mint.all(), [], []
    tokens.update({cred: (token, None) for cred, token in mint.outside(facts["issuer"]).items()})
    tokens["policy allows"] = facts["allowed"], facts["allowed_id"]
    mint.principals["policy allows"] = "policy-all"
    spent = mint.outside(facts["issuer"])["outside good"]
    rest(facts, address(0, 60), "POST /v1/grants", EXCHANGE["POST /v1/grants"], "/v1/grants", spent, "outside good")
    tokens["outside used"] = spent, None
    tokens.update({cred: (mint.shown(facts["issuer"], cred), None) for cred in ("shown", "shown expired")})
    mint.principals.update({"shown": "shown:org+2Frepo", "shown expired": "", **{cred: "" for cred in OUTSIDE}})
    for door, table in TABLES.items():
        for index, (name, o) in enumerate(table.items()):
            for slot, cred in enumerate(CREDENTIALS):
                want = expected(door, name, o, cred)
                if want is not None:
                    todo.append((door, index, name, o, slot, cred, want))
                if door == "rest" and name.startswith("GET /v1/rounds") and cred in ("other agent", "no scope"):
                    todo.append((door, index, name, o, slot + FRESH, cred, want))  # as of one that left memory

    def one(door, index, name, o, slot, cred, want):
        family = credential(o, cred, policy_of(door, name))
        token, grant = tokens[family]
        if want[1] == "grant.create":
            token = mint.shown(facts["issuer"], cred)
            grant = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["jti"]
        agent, mark = AGENT, f"{door}-{cred}".replace(" ", "-").replace(".", "-")
        made = BEFORE[name](facts, token, mark) if name in BEFORE and (cred == "policy allows" or cred in KINDS and want[1]) and want[0] != {"token_signature"} else None
        token, grant = (made["token"], made["grant"]) if made and "token" in made else (token, grant)
        o = bodied(o, mark)
        if name.endswith("/resize"):
            o = o._replace(body=RESIZED[door])
        # What is done to a session is refused or not while it is at hand; what is read is in the record.
        fresh = slot >= FRESH or (o.about == "session" and door != "recorder.sock" and o.event not in ("record.read", "sandbox.fork"))
        session = made["id"] if made else session_of(facts, fresh, cred)
        source = address(index + {"rest": 0, "ws": 90, "ssh": 100, "port": 110, "runtime": 130, "exchange": 140}.get(door, 120), slot)
        path = path_of(name, o, agent, facts, fresh, door, cred, made) if door in ("rest", "exchange", "api.sock", "ws") else ""
        if cred in TASKS:
            o, path = with_task(o, path, TASKED.get(name), cred == "other task")
        target = {"session": session} if o.about == "session" else {"agent": agent} if o.about == "agent" else {}
        cell = dict(door=door, op=name, cred=cred, answers=want[0] if isinstance(want[0], str) else sorted(want[0]), event=want[1],
                    outcome=want[2], grant=grant, session=session, principal=mint.principals[family], about=o.about, policy=policy_of(door, name))
        began = time.monotonic()
        try:
            if door in ("rest", "exchange"):
                cell["got"], cell["peer"] = rest(facts, source, name, o, path, token, cred)
            elif door == "api.sock":
                call = ws if name in WS else rest
                cell["got"], cell["peer"] = call(facts, None, name, o, path, token, cred)
            elif door == "port":
                cell["got"], cell["peer"] = rest(facts, source, "GET /", o, "/", token, cred,
                                                 ("X-Sandbox-ID: " + agent, f"X-Sandbox-Port: {facts['port']}"))
            elif door == "runtime":
                headers = ("X-Sandbox-ID: " + agent, "X-Sandbox-Port: 8888", "Content-Type: multipart/form-data; boundary=b")
                cell["got"], cell["peer"] = rest(facts, source, name, o, {"GET /download/": "/download/%2Fup"}.get(name, name.split()[1]), token, cred, headers)
            elif door == "ws":
                cell["got"], cell["peer"] = ws(facts, source, name, o, path, token, cred)
            elif door == "ssh":
                login = agent + ("+" + session if name == "attach" else "")
                cell["got"], cell["peer"] = ssh(facts, source, name, token, login), source
            else:
                cell["got"], cell["peer"] = local(facts, door, name, o, token, target), "uid %d" % os.getuid()
        except Exception as error:
            cell["got"], cell["peer"] = f"{type(error).__name__}: {error}", ""
        cell["took"] = time.monotonic() - began
        return cell

    began = time.monotonic()
    if not os.environ.get("MATRIX_ALL"):  # of what is signed by nobody here, one kind each; one kind of principal
        todo = [t for t in todo if default_slice(*t)]
    part, seed = int(os.environ.get("MATRIX_PART", "1")), int(os.environ.get("SEED", os.getpid()))
    if part > 1:  # of those that are refused each operation has its own, and each credential
        todo = [t for t in todo if t[5] in GOOD or (t[1] * 13 + t[4] + seed) % part == 0]
        print(f"  one in {part} of those that are refused, SEED={seed}")
    bad = [t for t in todo if t[5] not in GOOD]
    good = [t for t in todo if t[5] in GOOD]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        cells += pool.map(lambda t: one(*t), bad)
        for kind in GOOD:  # what changes the sandbox: one after the other
            calm = [t for t in good if t[5] == kind and not t[6][1].startswith(("sandbox.", "snapshot.", "agent."))]
            cells += pool.map(lambda t: one(*t), calm)
    for t in good:
        if t[6][1].startswith(("sandbox.", "snapshot.", "agent.")):
            cells.append(one(*t))
    recorded(facts, facts["allowed"], cells)
    with open(out, "w") as f:
        json.dump(cells, f)
    print(f"  {len(cells)} cells in {time.monotonic() - began:.1f} s; slowest: "
          + ", ".join(f"{c['door']} {c['op']} x {c['cred']} {c['took']:.1f}" for c in sorted(cells, key=lambda c: -c["took"])[:6]))


# ---- an edge: leases of its centre stand in a grant's place

AT_EDGE = {"other edge": "token_foreign", "a grant": "token_foreign", "too long": "forbidden"}  # by no certain principal


class Leases(Mint):
    """As the centre's monitor signs them."""

    def __init__(self, centre, revoked, edge):
        super().__init__(centre, revoked)
        self.edge = edge

    def lease(self, principal, end=500, **more):
        more = {"scopes": ALL.replace(",grant", ""), "typ": "muxd-lease", "edge": self.edge, **more}
        return self.token(principal, end=end, **more)

    def all(self):
        other = os.urandom(32)
        made = {"none": (None, None), "garbage": ("nonsense", None), "forged": self.lease("eve", seed=other),
                "daemon": self.lease("eve", seed=other, kid="0123456789abcdef"), "issuer": self.lease("eve", issuer=ABSENT),
                "expired": self.lease("past", begin=-500, end=-60), "early": self.lease("future", begin=300, end=600), "revoked": self.revoked,
                "other edge": self.lease("eve", edge=ABSENT), "a grant": self.token("eve"), "too long": self.lease("eve", end=3600),
                "other agent": self.lease("stranger", agent=OTHER), "not named": self.lease("narrow", operations="policy.read")}
        self.principals = {c: {"expired": "past", "early": "future", "revoked": "gone", "other agent": "stranger", "not named": "narrow"}.get(c, c) for c in made}
        return made


def expected_at_edge(door, name, o, cred):
    refused = {**UNKNOWN, **KNOWN, **AT_EDGE}
    if o.auth == OPEN:
        return None
    if o.auth == EDGE:
        code = "unauthenticated" if cred == "none" else "token_malformed"
        return {code}, "auth.fail", code
    if o.auth == CLUSTER and cred == "garbage":
        return {"unsupported"}, "", ""
    if cred in refused:
        return {refused[cred]}, "auth.fail", refused[cred]
    if o.about != "agent" or (cred == "not named" and not policy_of(door, name)):
        return None
    return {"forbidden"}, "verdict", "forbidden"


def drive_edge(state, centre, facts, out):
    with open(facts) as f:
        facts = json.load(f)
    facts["state"], facts["tls"] = state, ssl.create_default_context(cafile=os.path.join(state, "keys/tls.crt"))
    mint = Leases(centre, (facts["revoked"], facts["revoked_id"]), facts["edge"])
    todo, tokens = [], mint.all()
    for door in ("rest", "ws", "port", "runtime", "api.sock"):
        for index, (name, o) in enumerate(TABLES[door].items()):
            for slot, cred in enumerate(tokens):
                want = expected_at_edge(door, name, o, cred)
                sampled = (index * 13 + slot) % (101 if door == "api.sock" else 4) == 0 or os.environ.get("MATRIX_ALL")
                if want is not None and (sampled or cred == "not named" and door != "api.sock"):
                    todo.append((door, index, name, o, slot, cred, want))

    def one(door, index, name, o, slot, cred, want):
        token, grant = tokens[cred]
        o = bodied(o, "edge")
        source = None if door == "api.sock" else address(index + {"rest": 0, "ws": 110, "port": 120, "runtime": 130}[door], slot)
        cell = dict(door=door, op=name, cred=cred, answers=sorted(want[0]), event=want[1], outcome=want[2], grant=grant,
                    principal=mint.principals[cred], about=o.about, policy=policy_of(door, name))
        path = path_of(name, o, AGENT, facts, True, door, cred) if door not in ("port", "runtime") else ""
        try:
            if door == "port":
                cell["got"], cell["peer"] = rest(facts, source, "GET /", o, "/", token, cred, ("X-Sandbox-ID: " + AGENT, "X-Sandbox-Port: 9"))
            elif door == "runtime":
                headers = ("X-Sandbox-ID: " + AGENT, "X-Sandbox-Port: 8888", "Content-Type: multipart/form-data; boundary=b")
                cell["got"], cell["peer"] = rest(facts, source, name, o, {"GET /download/": "/download/%2Fup"}.get(name, name.split()[1]), token, cred, headers)
            else:
                call = ws if door == "ws" or (door == "api.sock" and name in WS) else rest
                cell["got"], cell["peer"] = call(facts, source, name, o, path, token, cred)
        except Exception as error:
            cell["got"], cell["peer"] = f"{type(error).__name__}: {error}", ""
        return cell

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        cells = list(pool.map(lambda t: one(*t), todo))
    with open(out, "w") as f:
        json.dump(cells, f)
    print(f"  {len(cells)} cells in {time.monotonic() - began:.1f} s")


def check_edge(path):
    faults = []
    UNKNOWN.update(AT_EDGE)
    with open(path) as f:
        cells = json.load(f)
    events = [json.loads(line)["record"] for line in sys.stdin if line.strip()]
    judge(cells, events, faults)
    for fault in faults[:60]:
        print("  " + fault, file=sys.stderr)
    print(f"{len(cells)} cells, {len(events)} events, {len(faults)} faults")
    return 1 if faults else 0


# ---- without a record nothing starts

# Their answers come from memory or from the monitor, and nothing is recorded of them.
LOOKS = ("sandbox.read", "session.list", "session.watch", "policy.read", "context.read", "round.read", "lease.read", "run.read", "workflow.read",
         "grant.list", "record.read")
# Nothing starts by them, and the ring has their events: whoever may end what runs must be able to. What each is answered, and why.
ENDS = "whoever may end what runs must be able to"
INPUT = "what runs stands still: its input waits in its queue, and reaches the program when the record takes it"
GO_ON = {"GET /v1/agents/{agent}/locks": ("ok", "a look, whose event the ring has"),
         "POST /v1/rounds/{id}/signal": ("ok", ENDS), "POST /v1/sessions/{id}/terminate": ("ok", ENDS),
         "POST /v1/agents/{agent}/contexts/{id}/interrupt": ("ok", ENDS),
         "POST /v1/rounds/{id}/stdin": ("ok", INPUT), "POST /v1/rounds/{id}/keys": ("ok", INPUT),
         "POST /v1/rounds/{id}/resize": ("ok", "nothing starts, and the ring has the size"),
         "DELETE /v1/agents/{agent}/contexts/{id} (python)": ("no answer", ENDS + "; the answer comes when the record has the end"),
         "GET /v1/sessions/{id}/attach": ("ok", "a look at what stands still")}
CLOSED = {"record_unavailable", "disk_full", "unavailable"}
# Of the tools of MCP: those that only look, and those of the calls above.
TOOLS_LOOK = {"sandbox.session.show", "sandbox.session.list", "sandbox.session.snapshots", "sandbox.port.list", "sandbox.lock.list", "sandbox.round.list",
              "sandbox.round.show", "sandbox.round.output", "sandbox.shell.list", "sandbox.context.list", "sandbox.terminal.screen"}
TOOLS_GO_ON = {"sandbox.round.stdin": INPUT, "sandbox.terminal.keys": INPUT, "sandbox.terminal.resize": INPUT, "sandbox.round.signal": ENDS,
               "sandbox.round.end": ENDS, "sandbox.context.interrupt": ENDS}
GIVEN = {"session_id": AGENT, "task_id": "m", "path": "m", "to": "m2", "argv": ["true"], "content": "x", "patch": FS["patch"]["data"], "pattern": "x",
         "name": "m", "reason": "the matrix", "code": "1", "language": "python", "signal": "CONT", "keys": ["x"], "cols": 80, "rows": 24, "data": "x",
         "shell": "kept", "service": "none", "server": "none", "method": "ping", "snapshot_id": ABSENT, "lock_id": ABSENT}


class Local(http.client.HTTPConnection):
    """To api.sock."""

    def __init__(self, state):
        super().__init__("localhost", timeout=60)
        self.path = os.path.join(state, "api.sock")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def cut_off(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was answered


def ask(state, token, method, path, body=None, headers=(), patience=None):
    connection = Local(state)
    connection.connect()
    if path != "/mcp":  # of furnish and kept, whose events are not those of what was driven
        headers = {"X-Request-Id": "0f0f0f0f" + str(uuid.uuid4())[8:], **dict(headers)}
    if patience:  # a stream that is kept alive would be read for ever
        ends = threading.Timer(patience, cut_off, (connection.sock,))
        ends.daemon = True
        ends.start()
    connection.request(method, path, None if body is None else json.dumps(body),
                       {"Authorization": "Bearer " + token, "Content-Type": "application/json", **dict(headers)})
    got = connection.getresponse()
    text = got.read().decode()
    connection.close()
    if got.headers.get_content_type() == "text/event-stream":
        text = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
    return json.loads(text)


def tools(state, token, method, patience=None, **params):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    head = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        head["Mcp-Name"] = params["name"]
    return ask(state, token, "POST", "/mcp", {"jsonrpc": "2.0", "id": "1", "method": method, "params": {**params, "_meta": meta}}, head, patience)


def tool(state, token, name, schema, objects):
    acts = {"sandbox.round.end": "terminate", "sandbox.round.signal": "signal", "sandbox.terminal.keys": "keys", "sandbox.terminal.resize": "keys"}
    given = {**GIVEN, "round_id": objects[acts.get(name, "stdin")], "execution_id": objects["execution"],
             "context_id": objects["busy" if "interrupt" in name else "bash" if "delete" in name else "idle"]}
    args = {key: given[key] for key in schema["required"]}
    args.update({"argv": ["true"]} if name in ("sandbox.round.start", "sandbox.terminal.start") else {"data": "x"} if name == "sandbox.round.stdin" else
                {"session_id": AGENT, "path": "m"} if name == "artifact.keep" else {})
    try:
        answer = tools(state, token, "tools/call", 12, name=name, arguments=args)
    except (OSError, ValueError, IndexError, http.client.HTTPException):
        return "no answer"
    result = answer.get("result", {"isError": True, "content": [{"text": str(answer.get("error", {}).get("data", {}).get("code"))}]})
    return result["content"][0]["text"].split(":")[0] if result.get("isError") else "ok"


def closed_by(state, facts, phase):
    """Facts and token: what is acted on is its own principal's."""
    with open(facts) as f:
        facts = json.load(f)
    facts["state"], facts["tls"] = state, ssl.create_default_context(cafile=os.path.join(state, "keys/tls.crt"))
    token, _ = Mint(state, (facts["revoked"], facts["revoked_id"])).token("closed-" + phase, kind="service", agent="*")
    return facts, token, os.path.join(os.path.dirname(state), "closed-" + phase)


def furnish(state, facts, phase):
    facts, token, to = closed_by(state, facts, phase)
    contexts, rounds = f"/v1/agents/{AGENT}/contexts", f"/v1/agents/{AGENT}/rounds"

    def context(language):
        return ask(state, token, "POST", contexts, {"language": language, "task_id": "m"})["context_id"]

    def start(**body):
        return ask(state, token, "POST", rounds, {"task_id": "m", "wait_ms": 0, **body})["round_id"]

    made = {"idle": context("python"), "busy": context("python"), "python": context("python"), "bash": context("bash"),
            "stdin": start(argv=["cat"], stdin_open=True), "keys": start(argv=["cat"], pty={"cols": 80, "rows": 24}),
            "signal": start(command="trap : INT; while :; do sleep 1; done"), "terminate": start(argv=["sleep", "600"]),
            "shell": start(command="kept=1", shell="kept", wait_ms=20000)}
    ask(state, token, "POST", f"{contexts}/{made['idle']}/executions", {"code": "x = 41", "yield_ms": 20000})
    made["execution"] = ask(state, token, "POST", f"{contexts}/{made['busy']}/executions", {"code": "while True: pass", "yield_ms": 0})["execution_id"]
    with open(to, "w") as f:
        json.dump(made, f)
    return 0


def closed_path(name, o, facts, door, objects):
    acts = {"contexts/{id}/interrupt": "busy", "contexts/{id} (python)": "python", "DELETE /v1/agents/{agent}/contexts/{id}": "bash",
            "contexts/{id}/": "idle", "/stdin": "stdin", "/keys": "keys", "/resize": "keys", "/signal": "signal", "/terminate": "terminate"}
    for part, which in acts.items():
        if part in name and "{id}" in name:
            return name.split()[1].replace("{agent}", AGENT).replace("{id}", objects[which])
    return path_of(name, o, AGENT, facts, True, door, "closed").replace("/shells/none", "/shells/kept")


def closed(state, facts, phase):
    """Every operation that is not a look, by every door, while the record takes nothing: prints those that were answered otherwise."""
    facts, token, objects = closed_by(state, facts, phase)
    with open(objects) as f:
        objects = json.load(f)
    tables = {**TABLES, "rest": {**REST, "DELETE /v1/agents/{agent}/contexts/{id} (python)": REST["DELETE /v1/agents/{agent}/contexts/{id}"]}}
    todo = [(door, index, name, o) for door in ("rest", "ws", "api.sock", "port", "runtime", "ssh") for index, (name, o) in enumerate(tables[door].items())
            if policy_of(door, name.removesuffix(" (python)")) and policy_of(door, name.removesuffix(" (python)")) not in LOOKS
            and not (phase == "killed" and ("/v1/grants" in name or "/v1/edge" in name))  # the monitor stands still then
            and not (door == "api.sock" and name in GO_ON)  # once is enough, and some can be done once
            and name != "attach"  # a look at what stands still, by SSH: it waits
            and policy_of(door, name) != "record.keep"]  # a hold is the recorder's own line: it waits until there is room
    shown = {t["name"]: t for t in tools(state, token, "tools/list")["result"]["tools"]}
    todo += [("mcp", 0, name, t["inputSchema"]) for name, t in shown.items() if name not in TOOLS_LOOK]

    def one(door, index, name, o):
        if door != "mcp":  # whose o is a schema
            o = bodied(o, "closed")
        source = None if door == "api.sock" else address(index + {"rest": 0, "ws": 110, "port": 120, "runtime": 130, "ssh": 140}.get(door, 0), 40 + PHASES.index(phase))
        path = closed_path(name, o, facts, door, objects) if door in ("rest", "ws", "api.sock") else ""
        try:
            if door == "mcp":
                return tool(state, token, name, o, objects)
            if door == "ws" or name in WS:
                return ws(facts, source, name, o, path, token, "closed")[0]
            if door in ("rest", "api.sock"):
                return rest(facts, source, name, o, path, token, "closed", patience=8 if GO_ON.get(name, ("",))[0] == "no answer" else 30)[0]
            if door == "port":
                return rest(facts, source, "GET /", o, "/", token, "closed", ("X-Sandbox-ID: " + AGENT, "X-Sandbox-Port: 9"))[0]
            if door == "runtime":
                return rest(facts, source, name, o, name.split()[1], token, "closed", ("X-Sandbox-ID: " + AGENT, "X-Sandbox-Port: 8888", "Content-Type: multipart/form-data; boundary=b"))[0]
            return ssh(facts, source, name, token, AGENT + ("+" + facts["round"] if name == "attach" else ""))
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    with concurrent.futures.ThreadPoolExecutor(len(todo)) as pool:
        got = list(pool.map(lambda t: one(*t), todo))
    faults = [f"{door} {name}: {answer}" for (door, _, name, _), answer in zip(todo, got)
              if (answer not in ("ok", "already_ended") if name in TOOLS_GO_ON else answer != GO_ON[name][0] if name in GO_ON else answer not in CLOSED)]
    print(f"  {phase}: {len(got)} operations, " + ", ".join(f"{n} {code}" for code, n in collections.Counter(got).most_common()))
    for fault in faults:
        print("  " + fault, file=sys.stderr)
    return 1 if faults else 0


def kept(state, facts, phase):
    """What was refused has changed nothing; what went on has been done."""
    facts, token, objects = closed_by(state, facts, phase)
    with open(objects) as f:
        objects = json.load(f)
    contexts = f"/v1/agents/{AGENT}/contexts"

    def state_of(which):
        return ask(state, token, "GET", f"{contexts}/{objects[which]}").get("state")

    ran = ask(state, token, "POST", f"{contexts}/{objects['idle']}/executions", {"code": "x + 1", "yield_ms": 20000})
    seen = {"variable": [r["data"].get("text/plain") for r in ran.get("results", [])], "bash": state_of("bash"), "python": state_of("python"),
            "shells": [x["state"] for x in ask(state, token, "GET", f"/v1/agents/{AGENT}/shells")["shells"] if x["name"] == "kept"],
            "terminated": ask(state, token, "GET", "/v1/rounds/" + objects["terminate"] + "?wait_ms=20000")["exit"]["cause"],
            "typed": ask(state, token, "GET", "/v1/rounds/" + objects["stdin"])["stdout"]["data"]}
    want = {"variable": ["42"], "bash": "idle", "python": None, "shells": ["kept"], "terminated": "killed", "typed": "xx"}  # by the API and by MCP
    for key in want:
        if seen[key] != want[key]:
            print(f"  {key}: {seen[key]}, not {want[key]}", file=sys.stderr)
    return 0 if seen == want else 1


PHASES = ("stopped", "killed", "full")

# ---- judging

def check(path):
    faults = []
    for door, found in {**sources(), "port": {"port"}}.items():
        for name in sorted(found - set(TABLES[door])):
            faults.append(f"{door} {name}: is not in the matrix: say whom it lets in and what it leaves in the log")
        for name in sorted(set(TABLES[door]) - found):
            faults.append(f"{door} {name}: is in the matrix, and is no operation any more")
        for name in TABLES[door]:
            if TABLES[door][name].auth != OPEN and door != "recorder.sock" and not policy_of(door, name) and name not in UNJUDGED | {"GET /metrics"}:
                faults.append(f"{door} {name}: say which operation of a policy it is")
    for name in set(POLICY) - set(operations()):
        faults.append(f"{name} is no operation of policies")
    with open(path) as f:
        cells = json.load(f)
    events = [json.loads(line)["record"] for line in sys.stdin if line.strip()]
    judge(cells, events, faults)
    for fault in faults[:60]:
        print("  " + fault, file=sys.stderr)
    print(f"{len(cells)} cells, {len(events)} events, {len(faults)} faults")
    return 1 if faults else 0


def let_in(cell):
    """The credential was taken; whether the call then succeeded is other stories' matter."""
    return cell["got"] not in {*UNKNOWN.values(), *KNOWN.values(), "forbidden", "policy_denied", ""} and not re.match(r"[A-Z]\w+: ", cell["got"])


def doors_of(cell):
    return {"api.sock": "local", "recorder.sock": "recorder", "ws": "web", "port": "rest", "runtime": "rest", "exchange": "rest"}.get(cell["door"], cell["door"])


def same(event, cell):
    """Is that event the cell's own?"""
    peer = event.get("peer", "")
    if doors_of(cell) != event.get("door"):
        return False
    if cell["grant"] and cell["cred"] not in UNKNOWN and event.get("grant_id") != cell["grant"]:
        return False
    if counted(event) and peer == "any":
        return True
    if cell["door"] in ("ssh", "api.sock"):  # the port, or the connection's number, the client does not know
        return peer.rsplit(":", 1)[0] == cell["peer"]
    return peer == cell["peer"]


def counted(event):
    """Does that event stand for several of one sort (muxd/hub/record/repeats.h)?"""
    return event["event"] in ("verdict", "policy.deny", "policy.allow") and "count" in event.get("detail", {})


def several(event):
    """Does that event stand for refusals of one grant with several outcomes? So many sorts as here are counted together."""
    return counted(event) and event["detail"]["what"] == "any" and event.get("outcome") == "denied"


def at_endpoint(event, name):
    if not counted(event):
        return event.get("endpoint") == name
    return {name, "others"} & set(event["detail"]["endpoints"])


def attached(event, cell):
    """Who comes to a session is told by the session, which knows no endpoint."""
    return event["event"] == "session.attach" and event["detail"]["session"] == cell["session"]


def endpoint(cell):
    return {"port": "port", "ssh": "login" if cell["event"] == "auth.fail" else {"login": "exec"}.get(cell["op"], cell["op"])}.get(cell["door"], cell["op"])


def judge(cells, events, faults):
    logins = collections.Counter()
    for cell in cells:
        where = f"{cell['door']} {cell['op']} x {cell['cred']}"
        if cell["answers"] == "let in":
            if not let_in(cell):
                faults.append(f"{where}: answered {cell['got']}, is to be let in")
                continue
        elif cell["got"] not in cell["answers"]:
            faults.append(f"{where}: answered {cell['got']}, not {' or '.join(cell['answers'])}")
        if cell["event"] == "auth.fail" and cell["door"] != "recorder.sock":
            logins[key_of(cell)] += 1
        elif cell["event"] == "grant.create":
            exchanges(cell, where, events, faults)
        elif cell["event"]:
            find(cell, where, events, faults)
        elif cell["cred"] == "policy allows":
            faults.append(f"{where}: nothing in the log says that it was allowed")
        if cell["cred"] == "policy allows" and cell["op"] in RECORDED and not cell.get("recorded"):
            faults.append(f"{where}: the session's record has no {RECORDED[cell['op']]} of {cell['principal']}")
    count_logins(cells, logins, events, faults)
    for event in events:
        if event["event"] in ("auth.fail", "verdict", "record.read") and not event.get("door"):
            faults.append(f"an event without a door: {json.dumps(event)[:200]}")


def judged(event, cell):
    """A denial names its rule, and an allowance goes with the event of what it allowed; the recorder's events have no request."""
    if counted(event) and event["event"] != "policy.allow":
        return True
    if cell["cred"] == "policy denies":
        return event["detail"]["rule"] == f"no-{cell['policy']}/{cell['policy']}" and len(event["detail"]["version"]) == 16 and event["detail"]["needs"]
    if cell["cred"] == "policy allows" and event["event"] not in ("record.read", "hold.add", "verdict"):
        return event.get("policy", {}).get("rule") == "all/" + cell["policy"]
    return True


def exchanges(cell, where, events, faults):
    """The monitor's own event, which knows no door: once for the token."""
    found = [e for e in events if e["event"] == "grant.create" and e["principal"] == cell["principal"] and e["detail"]["jti"] == cell["grant"]]
    if len(found) != 1 or (found[0]["via"], found[0]["detail"]["issuer"], found[0]["outcome"]) != ("issuer", "shown", "ok"):
        faults.append(f"{where}: its token was exchanged {len(found)} times: {json.dumps(found)[:240]}")


def find(cell, where, events, faults):
    """The event of the cell: by whom, from where, for what, how it went out."""
    names = ("verdict", "record.read") if cell["event"] == "refused" else (cell["event"],)
    outcomes = {"*": ("forbidden", "denied", "not_found")}.get(cell["outcome"], (cell["outcome"],))
    near = [e for e in events if e["event"] in names and same(e, cell)]
    for e in near:
        fits = cell["outcome"] == "ok" or e.get("outcome") in outcomes or several(e)
        fits = fits and judged(e, cell)
        known = cell["event"] != "auth.fail" or not cell["grant"] or cell["cred"] in UNKNOWN or e.get("principal") == cell["principal"]
        if fits and known and (at_endpoint(e, endpoint(cell)) or attached(e, cell)) and (cell["cred"] in UNKNOWN or e.get("principal") == cell["principal"]):
            return
    faults.append(f"{where}: no event {'/'.join(names)} {'/'.join(outcomes)} of {cell['principal']} at {endpoint(cell)} from "
                  f"{cell['peer']}" + (f"; near: {json.dumps(near[0])[:240]}" if near else ""))


def key_of(cell):
    """Failed log-ins of one sort are counted together (muxd/hub/record/repeats.h): with a good signature by grant."""
    return doors_of(cell), cell["outcome"], cell["grant"] if cell["cred"] not in UNKNOWN else None


def count_logins(cells, want, events, faults):
    """None is lost: the counts of the events add up to the cells, and an endpoint or address that is named is a cell's."""
    got, named = collections.Counter(), collections.defaultdict(set)
    for cell in cells:
        if cell["event"] == "auth.fail":
            named[key_of(cell)].add(endpoint(cell))
    for e in events:
        if e["event"] != "auth.fail" or e.get("door") == "recorder":
            continue
        key = e["door"], e["outcome"], e.get("grant_id")
        detail = e.get("detail", {})
        got[key] += detail.get("count", 1)
        said = set(detail.get("endpoints", {})) - {"others"} or {e.get("endpoint", "")}
        if key in want and not said <= named[key]:
            faults.append(f"auth.fail {key} names {sorted(said - named[key])}")
    for key, n in want.items():
        if got[key] < n:
            faults.append(f"auth.fail {' '.join(map(str, key))}: {n} failed, and the events count {got[key]}")


if __name__ == "__main__":
    if sys.argv[1] == "policy":
        print_policy()
    elif sys.argv[1] == "scopes":
        print(ALL)
    elif sys.argv[1] == "closed":
        sys.exit(closed(*sys.argv[2:]))
    elif sys.argv[1] in ("furnish", "kept"):
        sys.exit({"furnish": furnish, "kept": kept}[sys.argv[1]](*sys.argv[2:]))
    elif sys.argv[1] == "edge":
        drive_edge(*sys.argv[2:])
    elif sys.argv[1] == "edge-check":
        sys.exit(check_edge(sys.argv[2]))
    elif sys.argv[1] == "run":
        drive(*sys.argv[2:])
    else:
        sys.exit(check(sys.argv[2]))
