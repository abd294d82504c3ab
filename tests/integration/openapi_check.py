#!/usr/bin/python3
"""Drives a running muxd through every operation of docs/openapi.yaml and checks each answer against it.

Environment: MUXD_URL (https://127.0.0.1:8443), MUXD_TOKEN (a grant with scopes rounds, lifecycle, drive
and observe on MUXD_AGENT), MUXD_CACERT (the daemon's certificate), MUXD_AGENT (demo), MUXD_TASK (a task
that the grant allows; default openapi-check), MUXD_SERVICE_TOKEN (a service's grant for every agent with scopes
lifecycle and rounds).

Exit code 0 when every answer has a status, headers and a body that the document allows, and every
operation was tried. Needs python3 and python3-yaml alone: the schemas are checked by the small
validator below, which refuses keywords that it does not know.
"""
import hashlib
import json
import os
import re
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

import yaml

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "openapi.yaml")

ANNOTATIONS = {"description", "example", "examples", "default", "title"}


class Mismatch(Exception):
    pass


class Schemas:
    """JSON Schema 2020-12 as far as the document uses it."""

    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].lstrip("#/").split("/"):
                target = target[part]
            node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
        return node

    def check(self, value, schema, where="$"):
        schema = self.resolve(schema)
        for keyword, wanted in schema.items():
            if keyword in ANNOTATIONS:
                continue
            rule = getattr(self, "rule_" + keyword, None)
            if rule is None:
                raise Mismatch(f"{where}: the checker does not know the keyword {keyword}")
            rule(value, wanted, schema, where)

    def accepts(self, value, schema, where):
        try:
            self.check(value, schema, where)
            return True
        except Mismatch:
            return False

    @staticmethod
    def fail(where, text):
        raise Mismatch(f"{where}: {text}")

    def rule_type(self, value, wanted, _schema, where):
        kinds = {
            "object": isinstance(value, dict),
            "array": isinstance(value, list),
            "string": isinstance(value, str),
            "boolean": isinstance(value, bool),
            "integer": isinstance(value, int) and not isinstance(value, bool),
            "number": isinstance(value, (int, float)) and not isinstance(value, bool),
            "null": value is None,
        }
        names = wanted if isinstance(wanted, list) else [wanted]
        if not any(kinds[name] for name in names):
            self.fail(where, f"{value!r} is not of type {wanted}")

    def rule_enum(self, value, wanted, _schema, where):
        if value not in wanted:
            self.fail(where, f"{value!r} is none of {wanted}")

    def rule_pattern(self, value, wanted, _schema, where):
        if isinstance(value, str) and not re.search(wanted, value):
            self.fail(where, f"{value!r} does not match {wanted}")

    def rule_format(self, value, wanted, _schema, where):
        if not isinstance(value, str):
            return
        if wanted == "uuid":
            try:
                uuid.UUID(value)
            except ValueError:
                self.fail(where, f"{value!r} is no UUID")
        elif wanted == "date-time":
            if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value):
                self.fail(where, f"{value!r} is no time")
        else:
            self.fail(where, f"the checker does not know the format {wanted}")

    def rule_required(self, value, wanted, _schema, where):
        if isinstance(value, dict):
            for key in wanted:
                if key not in value:
                    self.fail(where, f"{key} is missing")

    def rule_properties(self, value, wanted, _schema, where):
        if isinstance(value, dict):
            for key, schema in wanted.items():
                if key in value:
                    self.check(value[key], schema, f"{where}.{key}")

    def rule_additionalProperties(self, value, wanted, schema, where):
        if not isinstance(value, dict):
            return
        for key in value.keys() - schema.get("properties", {}).keys():
            if wanted is False:
                self.fail(where, f"{key} is not in the document")
            if isinstance(wanted, dict):
                self.check(value[key], wanted, f"{where}.{key}")

    def rule_propertyNames(self, value, wanted, _schema, where):
        if isinstance(value, dict):
            for key in value:
                self.check(key, wanted, f"{where} (name)")

    def rule_items(self, value, wanted, _schema, where):
        if isinstance(value, list):
            for i, item in enumerate(value):
                self.check(item, wanted, f"{where}[{i}]")

    def rule_minItems(self, value, wanted, _schema, where):
        if isinstance(value, list) and len(value) < wanted:
            self.fail(where, f"has fewer than {wanted} items")

    def rule_maxItems(self, value, wanted, _schema, where):
        if isinstance(value, list) and len(value) > wanted:
            self.fail(where, f"has more than {wanted} items")

    def rule_minLength(self, value, wanted, _schema, where):
        if isinstance(value, str) and len(value) < wanted:
            self.fail(where, f"is shorter than {wanted}")

    def rule_maxLength(self, value, wanted, _schema, where):
        if isinstance(value, str) and len(value) > wanted:
            self.fail(where, f"is longer than {wanted}")

    def rule_minimum(self, value, wanted, _schema, where):
        if isinstance(value, (int, float)) and value < wanted:
            self.fail(where, f"{value} is less than {wanted}")

    def rule_maximum(self, value, wanted, _schema, where):
        if isinstance(value, (int, float)) and value > wanted:
            self.fail(where, f"{value} is more than {wanted}")

    def rule_oneOf(self, value, wanted, _schema, where):
        if sum(self.accepts(value, schema, where) for schema in wanted) != 1:
            self.fail(where, "does not match exactly one alternative")

    def rule_anyOf(self, value, wanted, _schema, where):
        if not any(self.accepts(value, schema, where) for schema in wanted):
            self.fail(where, "matches no alternative")


class Api:
    def __init__(self, document):
        self.schemas = Schemas(document)
        self.paths = document["paths"]
        self.url = os.environ["MUXD_URL"].rstrip("/")
        self.token = os.environ["MUXD_TOKEN"]
        context = ssl.create_default_context(cafile=os.environ.get("MUXD_CACERT"))
        context.check_hostname = os.environ.get("MUXD_CHECK_HOSTNAME", "0") == "1"
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        self.failures = []
        self.tried = set()
        self.calls = 0

    def fail(self, text):
        self.failures.append(text)
        print("FAIL", text)

    def send(self, method, target, body, headers):
        if isinstance(body, (bytes, bytearray)):
            headers = {"Content-Type": "application/octet-stream", **headers}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + target, data=data, headers=headers, method=method)
        try:
            answer = self.opener.open(request, timeout=90)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.headers, answer.read()

    def response_of(self, operation, status):
        responses = operation["responses"]
        return self.schemas.resolve(responses.get(str(status), responses["default"]))

    def check_answer(self, name, operation, method, status, headers, body):
        response = self.response_of(operation, status)
        for key, header in response.get("headers", {}).items():
            header = self.schemas.resolve(header)
            value = headers.get(key)
            if value is None:
                self.fail(f"{name}: {status} without {key}")
            elif header["schema"].get("type") == "integer":
                self.schemas.check(int(value), header["schema"], key)
            else:
                self.schemas.check(value, header["schema"], key)
        if method == "HEAD" or status == 204:
            return None
        kind = headers.get_content_type()
        content = response.get("content", {})
        if kind not in content:
            self.fail(f"{name}: {status} as {kind}, the document has {list(content)}")
            return None
        value = json.loads(body) if kind == "application/json" else body.decode("latin-1")
        self.schemas.check(value, content[kind]["schema"])
        return value

    def call(self, method, path, expect, body=None, query="", token=True, headers=None, **params):
        """One call; `expect`: the statuses that are right here. Returns (status, value)."""
        operation = self.paths[path]["get" if method == "HEAD" else method.lower()]
        if method != "HEAD":
            self.tried.add((method.lower(), path))
        self.calls += 1
        target = path
        for key, value in params.items():
            target = target.replace("{" + key + "}", value)
        name = f"{method} {target}{query}"
        sent = dict(headers or {})
        if token is True:
            sent["Authorization"] = "Bearer " + self.token
        elif token:
            sent["Authorization"] = "Bearer " + token
        status, got, raw = self.send(method, target + query, body, sent)
        value = None
        try:
            value = self.check_answer(name, operation, method, status, got, raw)
        except (Mismatch, ValueError) as error:
            self.fail(f"{name}: {status}: {error}")
        if status not in expect:
            self.fail(f"{name}: {status}, expected {sorted(expect)}: {raw[:300]!r}")
        return status, value

    def refused(self, method, path, status, code, **more):
        _, value = self.call(method, path, {status}, **more)
        if value and value["error"]["code"] != code:
            self.fail(f"{method} {path}: code {value['error']['code']}, expected {code}")


def check_examples(api, document):
    """The document's own examples fit its schemas."""

    def walk(node, where):
        if isinstance(node, dict):
            if "schema" in node:
                examples = [node["example"]] if "example" in node else []
                examples += [e["value"] for e in node.get("examples", {}).values()]
                for example in examples:
                    try:
                        api.schemas.check(example, node["schema"], where)
                    except Mismatch as error:
                        api.fail(f"example: {error}")
            for key, value in node.items():
                walk(value, f"{where}/{key}")
        elif isinstance(node, list):
            for i, value in enumerate(node):
                walk(value, f"{where}/{i}")

    walk(document, "")


def state(api):
    api.call("GET", "/", {200}, token=False)
    api.call("GET", "/healthz", {200}, token=False)
    api.call("HEAD", "/healthz", {200}, token=False)
    api.call("GET", "/readyz", {200}, token=False)
    _, page = api.call("GET", "/metrics", {200})
    if "muxd_api_requests_total{" not in (page or ""):
        api.fail("/metrics counts no requests")


def agents(api, agent):
    api.call("POST", "/v1/agents/{agent}/resume", {200}, body={}, agent=agent)
    api.call("POST", "/v1/agents/{agent}/resume", {200}, agent=agent)
    _, value = api.call("GET", "/v1/agents/{agent}", {200}, agent=agent)
    if value and value["state"] != "running":
        api.fail(f"the agent is {value['state']} after resume")
    api.refused("GET", "/v1/agents/{agent}", 401, "unauthenticated", agent=agent, token=False)
    api.refused("GET", "/v1/agents/{agent}", 401, "token_malformed", agent=agent, token="nonsense")
    api.refused("GET", "/v1/agents/{agent}", 400, "invalid_request", agent="Not_a_name")
    api.refused("POST", "/v1/agents/{agent}/resume", 400, "invalid_request", agent=agent, body={"x": 1})
    api.refused("POST", "/v1/agents/{agent}/resume", 403, "image_not_allowed", agent=agent, body={"image": "none"})
    api.call("POST", "/v1/agents/{agent}/resume", {200}, agent=agent, body={"image": None})
    for body in ({"cluster": "none"}, {"namespace": "none"}):
        api.refused("POST", "/v1/agents/{agent}/resume", 501, "unsupported", agent=agent, body=body)
    for field in ("exec_timeout_ms", "transfer_timeout_ms"):
        api.refused("POST", "/v1/agents/{agent}/resume", 400, "invalid_request", agent=agent, body={field: 0})
    _, value = api.call("POST", "/v1/agents/{agent}/resume", {200}, agent=agent, body={"exec_timeout_ms": 86400000, "transfer_timeout_ms": 60000})
    if value and (value["exec_timeout_ms"], value["transfer_timeout_ms"]) != (86400000, 60000):
        api.fail("its timeouts are not shown")
    api.call("POST", "/v1/agents/{agent}/resume", {200}, agent=agent, body={"exec_timeout_ms": None, "transfer_timeout_ms": None})
    for field in ("app_id", "cluster", "namespace"):
        api.refused("POST", "/v1/agents/{agent}/resume", 400, "invalid_request", agent=agent, body={field: "No.Label"})
    _, value = api.call("POST", "/v1/agents/{agent}/resume", {200}, agent=agent, body={"app_id": "story"})
    if value and value["reference"] != {"name": agent, "cluster": None, "namespace": None, "app_id": "story"}:
        api.fail(f"its reference is {value['reference']}")
    _, value = api.call("GET", "/v1/agents", {200}, query="?app_id=story")
    if value and [agent] != [a["agent"] for a in value["agents"]]:
        api.fail("the agent is not in the list of its app")
    api.call("POST", "/v1/agents/{agent}/resume", {200}, agent=agent, body={"app_id": None})
    _, value = api.call("GET", "/v1/agents", {200})
    if value and agent not in [a["agent"] for a in value["agents"]]:
        api.fail("the agent is not in the list")
    api.refused("GET", "/v1/agents/{agent}/terminal", 426, "invalid_request", agent=agent)
    api.refused("GET", "/v1/agents/{agent}/exec", 426, "invalid_request", agent=agent)
    api.call("GET", "/v1/agents/{agent}/moment", {200}, query="?opened_at=2026-01-01T00:00:00Z", agent=agent)
    api.refused("GET", "/v1/agents/{agent}/moment", 400, "invalid_request", query="?opened_at=noon", agent=agent)


def mcp(api):
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    both = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    api.call("POST", "/mcp", {200}, body=begin, headers=both)
    api.call("POST", "/mcp", {406}, body=begin, headers={"Content-Type": "application/json"})
    api.call("POST", "/mcp", {400}, body=begin | {"method": "ping"}, headers=both)
    api.call("POST", "/mcp", {403}, body=begin, headers=both | {"Origin": "https://elsewhere.example"})
    api.call("GET", "/mcp", {406})
    api.call("DELETE", "/mcp", {404}, headers={"Mcp-Session-Id": "none"})
    api.refused("POST", "/mcp", 401, "unauthenticated", body=begin, headers=both, token=False)
    for suffix in ("", "/mcp", "/mcp/{agent}/{server}"):
        api.refused("GET", "/.well-known/oauth-protected-resource" + suffix, 404, "not_found", token=False)


def services(api, agent):
    """Services inside: a list, its refusals, one of them shown, its log, and begun anew."""
    all_, one = "/v1/agents/{agent}/services", "/v1/agents/{agent}/services/{service}"
    here = dict(agent=agent, service="check")
    good = {"name": "check", "argv": ["sleep", "1000"], "env": {"A": "b"}, "restart": {"policy": "on_failure", "attempts": 2}}
    api.call("GET", all_, {200}, agent=agent)
    api.call("PUT", all_, {200}, agent=agent, body={"services": [good]}, headers={"If-Match": '"0"'})
    api.refused("PUT", all_, 412, "list_changed", agent=agent, body={"services": []}, query="?if_version=0")
    api.refused("PUT", all_, 400, "secret_refused", agent=agent, body={"services": [good | {"env": {"API_KEY": "x"}}]})
    api.refused("PUT", all_, 400, "invalid_request", agent=agent, body={"services": [good | {"health": {"path": "/"}}]})
    api.refused("PUT", all_, 409, "conflict", agent=agent, body={"services": [good, good]})
    api.refused("PUT", all_, 401, "unauthenticated", agent=agent, body={"services": []}, token=False)
    api.call("GET", one, {200}, **here)
    api.refused("GET", one, 404, "not_found", agent=agent, service="none")
    api.call("GET", all_, {200}, agent=agent, query="?version=1")
    api.refused("GET", all_, 404, "not_found", agent=agent, query="?version=99")
    api.call("GET", one + "/log", {200}, **here, query="?bytes=100")
    api.refused("GET", one + "/log", 400, "invalid_request", **here, query="?bytes=0")
    api.call("POST", one + "/restart", {200}, body={"reason": "checked"}, **here)
    api.refused("POST", one + "/restart", 404, "not_found", agent=agent, service="none")
    api.call("GET", "/v1/agents/{agent}/logs", {200}, agent=agent)
    api.call("PUT", all_, {200}, agent=agent, body={"services": []})
    api.call("GET", "/v1/agents/{agent}/filespace", {200}, agent=agent)
    api.refused("POST", "/v1/agents/{agent}/filespace/sync", 501, "unsupported", agent=agent, body={"direction": "push"})
    api.refused("POST", "/v1/agents/{agent}/filespace/sync", 400, "invalid_request", agent=agent, body={"direction": "up"})


def servers(api, agent, task):
    """MCP servers inside: a list, its refusals, one of them used, refreshed, approved, and through /mcp."""
    all_, one, ask = "/v1/agents/{agent}/mcp/servers", "/v1/agents/{agent}/mcp/servers/{server}", "/v1/agents/{agent}/mcp/request"
    here = dict(agent=agent, server="check")
    with open(os.path.join(os.path.dirname(__file__), "..", "lib", "mcp_server.py"), "rb") as f:
        api.call("PUT", "/v1/agents/{agent}/files", {200}, body=f.read(), agent=agent, query=f"?path=server.py&task_id={task}")
    good = {"name": "check", "command": ["python3", "/workspace/server.py", "good"], "env": {"A": "b"}, "start_timeout_ms": 20000}
    api.call("GET", all_, {200}, agent=agent)
    api.call("PUT", all_, {200}, agent=agent, body={"servers": [good]}, headers={"If-Match": '"0"'})
    api.refused("PUT", all_, 412, "list_changed", agent=agent, body={"servers": []}, query="?if_version=0")
    api.refused("PUT", all_, 400, "platform_server", agent=agent, body={"servers": [good | {"scope": "platform"}]})
    api.refused("PUT", all_, 400, "secret_refused", agent=agent, body={"servers": [good | {"env": {"API_KEY": "x"}}]})
    api.refused("PUT", all_, 403, "egress_not_open", agent=agent, body={"servers": [{"name": "x", "url": "https://mcp.example/"}]})
    api.refused("PUT", all_, 400, "invalid_request", agent=agent, body={"servers": [{"name": "x", "url": "https://127.0.0.1:8001/"}]})
    api.refused("PUT", all_, 409, "conflict", agent=agent, body={"servers": [good, good]})
    api.refused("PUT", all_, 401, "unauthenticated", agent=agent, body={"servers": []}, token=False)
    api.call("GET", one, {200}, **here)
    api.refused("GET", one, 404, "not_found", agent=agent, server="none")
    api.call("GET", all_, {200}, agent=agent, query="?version=1")
    api.refused("GET", all_, 404, "not_found", agent=agent, query="?version=99")
    echo = {"server": "check", "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}, "task_id": task, "timeout_ms": 30000, "exec_id": "mcp-check"}
    api.call("POST", ask, {200}, agent=agent, body=echo)
    api.call("POST", ask, {200}, agent=agent, body={"server": "check", "method": "tools/list", "task_id": task})
    api.refused("POST", ask, 409, "conflict", agent=agent, body=echo | {"method": "ping", "params": {}})
    api.refused("POST", ask, 501, "unsupported", agent=agent, body={"server": "check", "method": "logging/setLevel", "task_id": task})
    api.refused("POST", ask, 404, "not_found", agent=agent, body={"server": "none", "method": "ping", "task_id": task})
    api.refused("POST", ask, 401, "unauthenticated", agent=agent, body=echo, token=False)
    _, state = api.call("POST", one + "/refresh", {200}, body={"task_id": task}, **here)
    fingerprint = ((state or {}).get("tools") or {}).get("fingerprint", "0" * 64)
    api.call("POST", one + "/approve", {200}, body={"fingerprint": fingerprint}, **here)
    api.refused("POST", one + "/approve", 412, "list_changed", body={"fingerprint": "0" * 64}, **here)
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    both = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    through = "/mcp/{agent}/{server}"
    api.call("POST", through, {200}, body=begin, headers=both, **here)
    api.call("POST", through, {406}, body=begin, headers={"Content-Type": "application/json"}, **here)
    api.call("GET", through, {406}, **here)
    api.call("DELETE", through, {404}, headers={"Mcp-Session-Id": "none"}, **here)
    api.refused("POST", through, 401, "unauthenticated", body=begin, headers=both, token=False, **here)
    api.call("PUT", all_, {200}, agent=agent, body={"servers": []})


def pages(api, agent):
    page = NOBODY
    for path, params in (("/sandboxes", {}), ("/sessions", {}), ("/sessions/{id}", {"id": page}),
                         ("/terminal/{agent}", {"agent": agent}), ("/replay/{id}", {"id": page})):
        api.call("GET", path, {200}, token=False, **params)
    api.refused("GET", "/ui/{file}", 404, "not_found", token=False, file="none.js")
    for method in ("GET", "POST", "DELETE"):
        api.call(method, "/v1/web/session", {200})
    api.refused("GET", "/v1/web/session", 401, "unauthenticated", token=False)


NOBODY = "0193aaaa-0000-7000-8000-000000000001"


def lifecycle_refused(api, agent):
    path = "/v1/agents/{agent}"
    for verb in ("stop", "terminate", "restore"):
        api.refused("POST", path + "/" + verb, 400, "invalid_request", agent=agent, body={"x": 1})
        api.refused("POST", path + "/" + verb, 401, "unauthenticated", agent=agent, body={}, token=False)
    api.refused("POST", path + "/stop", 400, "reason_required", agent=agent, body={})
    api.refused("POST", path + "/kill", 400, "reason_required", agent=agent, body={})
    api.refused("POST", path + "/kill", 403, "forbidden", agent="someone-elses", body={"reason": "x"})
    api.refused("POST", path + "/terminate", 400, "invalid_request", agent=agent, body={"reason": "x", "how": "y"})
    api.refused("POST", path + "/restore", 400, "invalid_request", agent=agent, body={"reason": "x"})
    api.refused("POST", path + "/snapshots", 400, "invalid_request", agent=agent, body={"x": 1})
    api.refused("POST", path + "/fork", 400, "invalid_request", agent=agent, body={"ttl": "soon"})
    api.refused("POST", path + "/fork", 403, "forbidden", agent=agent, body={"as": "someone-elses"})
    api.refused("POST", path + "/stop", 403, "forbidden", agent="someone-elses", body={"reason": "x"})
    api.refused("DELETE", path + "/snapshots/{id}", 400, "reason_required", agent=agent, id=NOBODY)
    api.refused("POST", "/v1/sessions/{id}/fork", 404, "not_found", id=NOBODY, body={})
    api.refused("GET", "/v1/agents", 400, "invalid_request", query="?state=asleep")
    api.refused("GET", path + "/logs", 400, "invalid_request", agent=agent, query="?bytes=0")
    api.refused("GET", path + "/snapshots", 403, "forbidden", agent="someone-elses")


def lifecycle(api, agent):
    path = "/v1/agents/{agent}"
    _, value = api.call("POST", path + "/snapshots", {201}, agent=agent, body={"reason": "openapi check"})
    first = value["snapshot"]["id"] if value else NOBODY
    _, value = api.call("GET", path + "/snapshots", {200}, agent=agent)
    if value and (value["snapshots"][0]["id"] != first or not value["snapshots"][0]["current"]):
        api.fail(f"the snapshots are {value}")
    api.call("POST", path + "/resume", {200}, agent=agent, body={"idle_ttl": "2h", "ttl": "0s"})
    _, value = api.call("POST", path + "/kill", {200}, agent=agent, body={"reason": "openapi check"})
    if value and value["state"] != "running":
        api.fail(f"after everything inside was ended it is {value['state']}")
    _, value = api.call("POST", path + "/stop", {200}, agent=agent, body={"reason": "openapi check"})
    if value and value["state"] != "stopped":
        api.fail(f"after a stop it is {value['state']}")
    _, value = api.call("GET", "/v1/agents", {200}, query="?state=stopped&prefix=" + agent)
    if value and [a["agent"] for a in value["agents"]] != [agent]:
        api.fail(f"the stopped ones are {value}")
    api.call("POST", path + "/restore", {200}, agent=agent, body={"reason": "openapi check", "snapshot_id": first})
    api.refused("POST", path + "/restore", 404, "not_found", agent=agent,
                body={"reason": "openapi check", "snapshot_id": NOBODY})
    _, value = api.call("POST", path + "/fork", {201}, agent=agent, body={"snapshot_id": first, "ttl": "1h", "writable": True})
    if value and value["agent"] == agent:
        api.fail("the fork is the agent itself")
    api.refused("DELETE", path + "/snapshots/{id}", 409, "bad_state", agent=agent, id=first, query="?reason=current")
    api.call("POST", path + "/resume", {200}, agent=agent)
    api.call("POST", path + "/terminate", {200}, agent=agent, body={"reason": "openapi check", "how": "snapshot"})
    api.call("DELETE", path + "/snapshots/{id}", {200}, agent=agent, id=first, query="?reason=openapi%20check")
    api.refused("DELETE", path + "/snapshots/{id}", 404, "not_found", agent=agent, id=first, query="?reason=again")
    api.call("POST", path + "/resume", {200}, agent=agent)
    api.call("GET", path + "/logs", {200, 404}, agent=agent, query="?bytes=1000")


def files(api, agent, task):
    path = "/v1/agents/{agent}/files"
    content = bytes(range(128)) * 3000
    _, value = api.call("PUT", path, {200}, body=content, agent=agent,
                        query=f"?path=dir/a%20b&parents=true&mode=0640&timeout_ms=60000&task_id={task}")
    if value and (value["size"], value["mode"], value["sha256"]) != (
            len(content), "0640", hashlib.sha256(content).hexdigest()):
        api.fail(f"what was put is {value}")
    _, got = api.call("GET", path, {200}, agent=agent, query=f"?path_base64=ZGlyL2EgYg==&task_id={task}")
    if got is None or got.encode() != content:
        api.fail("what was put does not come back")
    api.call("PUT", path, {200}, body=b"", agent=agent, query=f"?path=empty&task_id={task}")
    query = f"&task_id={task}"
    api.refused("GET", path, 404, "file_not_found", agent=agent, query="?path=none" + query)
    api.refused("GET", path, 409, "not_a_file", agent=agent, query="?path=dir" + query)
    api.refused("GET", path, 400, "invalid_request", agent=agent)
    api.refused("GET", path, 400, "invalid_request", agent=agent, query="?path=a&mode=0644")
    api.refused("PUT", path, 409, "not_a_file", body=b"x", agent=agent, query="?path=/workspace" + query)
    api.refused("PUT", path, 404, "file_not_found", body=b"x", agent=agent, query="?path=no/a" + query)
    api.refused("PUT", path, 400, "invalid_request", body=b"x", agent=agent, query="?path=a&mode=9" + query)
    api.refused("PUT", path, 401, "unauthenticated", body=b"x", agent=agent, query="?path=a", token=False)


def artifacts(api, agent, task):
    path, one = "/v1/tasks/{task}/artifacts", "/v1/tasks/{task}/artifacts/{name}"
    content = bytes(range(128)) * 3000
    here = dict(task=task, name="a%20b")
    digest = hashlib.sha256(content).hexdigest()
    _, value = api.call("PUT", one, {201}, body=content, query=f"?sha256={digest}&media_type=text/plain", **here)
    if value and (value["size"], value["sha256"], value["replaced"]) != (len(content), digest, False):
        api.fail(f"what was put is {value}")
    api.call("PUT", one, {200}, body=content, **here)
    _, got = api.call("GET", one, {200}, **here)
    if got is None or got.encode() != content:
        api.fail("what was put does not come back")
    api.call("GET", one, {206}, headers={"Range": "bytes=1-9"}, **here)
    api.call("GET", one, {304}, headers={"If-None-Match": f'"{digest}"'}, **here)
    api.refused("GET", one, 416, "range_past_end", headers={"Range": "bytes=999999-"}, **here)
    api.refused("PUT", one, 412, "conflict", body=content, headers={"If-None-Match": "*"}, **here)
    api.refused("PUT", one, 400, "invalid_request", body=b"x", query=f"?sha256={digest}", **here)
    api.refused("PUT", one, 400, "invalid_request", body=b"x", query="?sha256=1", **here)
    api.refused("PUT", one, 401, "unauthenticated", body=b"x", token=False, **here)
    api.refused("GET", one, 404, "not_found", task=task, name="none")
    api.call("POST", "/v1/agents/{agent}/fs/write", {200}, agent=agent, body={"path": "kept", "data": "x", "task_id": task})
    _, taken = api.call("POST", path, {201}, task=task, body={"name": "kept", "agent": agent, "path": "kept"})
    if taken and taken["size"] != 1:
        api.fail(f"what was taken is {taken}")
    api.refused("POST", path, 409, "conflict", task=task, body={"name": "kept", "agent": agent, "path": "kept", "create_only": True})
    api.refused("POST", path, 404, "file_not_found", task=task, body={"name": "x", "agent": agent, "path": "none"})
    api.refused("POST", path, 400, "invalid_request", task=task, body={"name": "x"})
    none = {"snapshot": "01900000-0000-7000-8000-000000000000", "text_only": True, "ignore": ["*.o"]}
    api.refused("POST", path, 404, "base_unknown", task=task, body={"name": "x", "agent": agent, "changes": none, "max_bytes": 1000})
    api.refused("POST", path, 400, "invalid_request", task=task, body={"name": "x", "agent": agent, "changes": {"git": "-x", "form": "bundle", "path": "."}})
    api.refused("POST", path, 400, "invalid_request", task=task, body={"name": "a/b", "agent": agent, "path": "kept"})
    _, listed = api.call("GET", path, {200}, task=task, query="?limit=100")
    # The daemon is one that other stories have, and so is the task.
    if listed and [a["name"] for a in listed["artifacts"] if a["agent"] == agent] != ["a b", "kept"]:
        api.fail(f"the list is {listed}")
    api.refused("GET", path, 400, "invalid_request", task=task, query="?limit=0")
    api.refused("GET", path, 404, "not_found", task="another")
    api.call("DELETE", one, {200}, **here)
    api.refused("DELETE", one, 404, "not_found", **here)


def operations(api, agent, task):
    """Operations on files: each once as it goes well, and each kind of refusal."""

    def does(name, path, **more):
        _, value = api.call("POST", f"/v1/agents/{{agent}}/fs/{name}", {200}, agent=agent,
                            body={"path": path, "task_id": task, **more})
        return value or {}

    def refuses(name, status, code, path, **more):
        api.refused("POST", f"/v1/agents/{{agent}}/fs/{name}", status, code, agent=agent,
                    body={"path": path, "task_id": task, **more})

    content = "one\ntwo\n"
    digest = hashlib.sha256(content.encode()).hexdigest()
    does("write", "fs/a", data=content, parents=True, mode="0640", timeout_ms=60000)
    does("append", "fs/a", data="dGhyZWUK", encoding="base64", if_match=digest)
    if does("read", "fs/a", from_line=3).get("data") != "three\n":
        api.fail("what was appended does not come back")
    does("read", {"base64": "ZnMvYQ=="}, offset=-6, length=3)
    does("mkdir", "fs/dir/in", parents=True)
    does("copy", "fs", to="fs2", recursive=True)
    does("move", "fs2/a", to="fs2/b")
    does("chmod", "fs2/b", mode="0600")
    does("stat", "/workspace/fs2/b", sha256=True)
    page = does("list", "fs2", depth=3, limit=1)
    does("list", "fs2", depth=3, cursor=page.get("cursor", ""))
    does("delete", "fs2", recursive=True)
    patch = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    does("patch", "fs", data=patch, dry_run=True)
    does("patch", "fs", data=patch)
    refuses("patch", 409, "patch_refused", "fs", data=patch)
    found = does("search", "fs", pattern="t(w|h)", regex=True, ignore_case=True, context=1, ignore=["*.o"])
    if found.get("matches") != 1:
        api.fail(f"what was searched is {found}")
    refuses("search", 400, "invalid_request", "fs", pattern="(", regex=True)
    does("glob", "/workspace", pattern="**/{a,b}", gitignore=True, limit=1)
    refuses("read", 404, "file_not_found", "fs2")
    refuses("read", 403, "path_outside", "/etc/passwd")
    refuses("read", 416, "range_past_end", "fs/a", offset=1000)
    refuses("list", 409, "not_a_directory", "fs/a")
    refuses("delete", 409, "directory_not_empty", "fs")
    refuses("append", 412, "file_changed", "fs/a", data="x", if_match=digest)
    for name in ("stat", "list", "read", "write", "append", "mkdir", "move", "copy", "delete", "chmod", "patch", "search", "glob"):
        api.refused("POST", f"/v1/agents/{{agent}}/fs/{name}", 400, "invalid_request", agent=agent, body={"task_id": task})
        api.refused("POST", f"/v1/agents/{{agent}}/fs/{name}", 401, "unauthenticated", agent=agent, body={}, token=False)


def locks(api, agent, task):
    """An advisory lock: taken, renewed, in somebody's way, released; and the condition of a put."""
    path, one, here = "/v1/agents/{agent}/locks", "/v1/agents/{agent}/locks/{id}", dict(agent=agent)
    wish = {"path": "locked", "ttl_ms": 60000, "label": "w", "task_id": task}
    _, lock = api.call("POST", path, {201}, body=wish, **here)
    here["id"] = (lock or {}).get("id", "01900000-0000-7000-8000-000000000000")
    api.refused("POST", path, 423, "locked", agent=agent, body={**wish, "label": "other"})
    api.refused("POST", path, 400, "invalid_request", agent=agent, body={**wish, "path": "../x"})
    api.refused("POST", path, 400, "invalid_request", agent=agent, body={**wish, "ttl_ms": 1})
    api.refused("POST", path, 401, "unauthenticated", agent=agent, body=wish, token=False)
    api.call("POST", one, {200}, body={"ttl_ms": 90000, "task_id": task}, **here)
    _, listed = api.call("GET", path, {200}, agent=agent)
    if listed and [(k["path"], k["label"]) for k in listed["locks"]] != [("locked", "w")]:
        api.fail(f"the locks are {listed}")
    api.refused("GET", path, 401, "unauthenticated", agent=agent, token=False)
    api.call("DELETE", one, {200}, query=f"?task_id={task}", **here)
    api.refused("DELETE", one, 404, "not_found", query=f"?task_id={task}", **here)
    api.refused("POST", one, 404, "not_found", body={"task_id": task}, **here)
    files, query = "/v1/agents/{agent}/files", f"?path=conditional&task_id={task}"
    api.call("PUT", files, {200}, body=b"x", agent=agent, query=query, headers={"If-None-Match": "*"})
    api.refused("PUT", files, 412, "file_exists", body=b"x", agent=agent, query=query, headers={"If-None-Match": "*"})
    api.refused("PUT", files, 412, "file_changed", body=b"x", agent=agent, query=query, headers={"If-Match": '"' + "0" * 64 + '"'})


def trees(api, agent, task):
    """A tree as an archive, out and in, and a watch that ends because its directory goes."""
    path, more = "/v1/agents/{agent}/fs/tree", f"&task_id={task}&timeout_ms=60000"
    _, archive = api.call("GET", path, {200}, agent=agent, query="?path=fs&gitignore=true" + more)
    archive = (archive or "").encode()
    _, value = api.call("PUT", path, {200}, body=archive, agent=agent, query="?path=tree/fs&parents=true" + more)
    if value and not value["changes"]:
        api.fail(f"what was unpacked is {value}")
    api.call("PUT", path, {200}, body=archive, agent=agent, query="?path=tree/fs&merge=true" + more)
    api.call("PUT", path, {200}, body=archive, agent=agent, query="?path=tree/fs&overwrite=true" + more)
    api.refused("PUT", path, 409, "file_exists", body=archive, agent=agent, query="?path=tree/fs" + more)
    api.refused("PUT", path, 400, "invalid_request", body=b"no archive" * 100, agent=agent, query="?path=tree/no" + more)
    api.refused("PUT", path, 400, "invalid_request", body=archive, agent=agent, query="?path=tree/no&mode=7" + more)
    api.refused("PUT", path, 400, "invalid_request", body=archive, agent=agent, query="?path=tree/fs&merge=true&overwrite=true" + more)
    api.refused("GET", path, 404, "file_not_found", agent=agent, query="?path=none" + more)
    api.refused("GET", path, 403, "path_outside", agent=agent, query="?path=/etc" + more)
    watch = "/v1/agents/{agent}/fs/watch"
    for wait in (0.2, 1, 5):  # what goes before the watch is there does not end it: then there is none of it, and no lines
        got = []
        thread = threading.Thread(target=lambda: got.append(api.call("GET", watch, {200, 404}, agent=agent, query="?path=tree&recursive=true" + more)[1]))
        thread.start()
        time.sleep(wait)
        api.call("POST", "/v1/agents/{agent}/fs/delete", {200}, agent=agent, body={"path": "tree", "recursive": True, "task_id": task})
        thread.join(30)
        events = [json.loads(line) for line in got[0].splitlines()] if got and isinstance(got[0], str) else []
        if events:
            break
        api.call("POST", "/v1/agents/{agent}/fs/mkdir", {200}, agent=agent, body={"path": "tree", "task_id": task})
    if not events or events[0]["event"] != "ready" or events[-1]["event"] != "gone":
        api.fail(f"what was watched is {events[:5]}")
    for event in events:
        api.schemas.check(event, {"$ref": "#/components/schemas/FsEvent"})
    for method, where in (("GET", watch), ("GET", path), ("PUT", path)):
        body = archive if method == "PUT" else None
        api.refused(method, where, 400, "invalid_request", agent=agent, body=body)
        api.refused(method, where, 401, "unauthenticated", agent=agent, body=body, query="?path=fs", token=False)
    api.refused("GET", watch, 409, "not_a_directory", agent=agent, query="?path=fs/a" + more)


def the_end(api, agent):
    path = "/v1/agents/{agent}"
    api.refused("DELETE", path, 400, "reason_required", agent=agent)
    api.refused("DELETE", path, 400, "invalid_request", agent=agent, query="?reason=x&wipe=maybe")
    _, value = api.call("DELETE", path, {200}, agent=agent, query="?reason=openapi%20check")
    if value and value["state"] != "stopped":
        api.fail(f"after its end the sandbox is {value['state']}")
    api.call("DELETE", path, {200}, agent=agent, query="?reason=again")
    _, value = api.call("GET", path, {200, 404}, agent=agent)
    if value and "state" in value and value["state"] != "stopped":
        api.fail(f"after its end the sandbox is {value['state']}")


def code_contexts(api, agent):
    all_, one = "/v1/agents/{agent}/contexts", "/v1/agents/{agent}/contexts/{id}"
    for language, code in (("python", "print('x'); 1 / 0"), ("bash", "echo x; false")):
        _, made = api.call("POST", all_, {201}, agent=agent, body={"language": language, "cwd": "/tmp", "env": {"A": "1"}})
        ident = (made or {}).get("context_id")
        api.call("GET", all_, {200}, agent=agent)
        api.call("GET", one, {200}, agent=agent, id=ident)
        _, done = api.call("POST", one + "/executions", {200}, agent=agent, id=ident, body={"code": code, "yield_ms": 20000, "timeout_ms": 20000})
        if not done or done["stdout"]["data"] != "x\n":
            api.fail(f"the execution is {done}")
        api.call("GET", "/v1/executions/{id}", {200}, id=done["execution_id"], query="?yield_ms=1")
        api.refused("POST", one + "/interrupt", 409, "bad_state", agent=agent, id=ident, body={})
        api.call("POST", one + "/executions", {202}, agent=agent, id=ident, body={"code": {"python": "import time; time.sleep(30)", "bash": "sleep 30"}[language], "yield_ms": 0})
        api.refused("POST", one + "/executions", 409, "context_busy", agent=agent, id=ident, body={"code": "1"})
        api.call("POST", one + "/interrupt", {200}, agent=agent, id=ident, body={})
        api.call("POST", one + "/reset", {200}, agent=agent, id=ident, body={"env": {"A": "2"}})
        api.call("DELETE", one, {200}, agent=agent, id=ident)
        api.refused("DELETE", one, 404, "not_found", agent=agent, id=ident)
    api.call("POST", "/v1/agents/{agent}/python", {200}, agent=agent, body={"code": "display({'a': 1})", "yield_ms": 20000})


def finished_rounds(api, agent, task):
    run = "/v1/agents/{agent}/rounds"
    api.call("POST", run, {200}, agent=agent, body={"command": "cd /tmp", "shell": "check", "wait_ms": 20000})
    api.call("GET", "/v1/agents/{agent}/shells", {200}, agent=agent)
    api.call("DELETE", "/v1/agents/{agent}/shells/{name}", {200}, agent=agent, name="check")
    api.refused("DELETE", "/v1/agents/{agent}/shells/{name}", 404, "not_found", agent=agent, name="check")
    code_contexts(api, agent)
    body = {"task_id": task, "exec_id": str(uuid.uuid4()), "argv": ["sh", "-c", "cat; echo err >&2; exit 3"],
            "stdin": "in", "env": {"A": "1"}, "timeout_ms": 20000, "wait_ms": 20000}
    _, value = api.call("POST", run, {200}, body=body, agent=agent)
    if not value or "round_id" not in value:
        return
    if (value["exit"]["cause"], value["exit"]["code"]) != ("exit", 3):
        api.fail(f"exit is {value['exit']}")
    if (value["stdout"]["data"], value["stderr"]["data"]) != ("in", "err\n"):
        api.fail(f"streams are {value['stdout']} {value['stderr']}")
    _, again = api.call("POST", run, {200}, body=body, agent=agent)
    if again and again.get("round_id") != value["round_id"]:
        api.fail("the same exec_id made another round")
    api.refused("POST", run, 409, "conflict", body={**body, "argv": ["true"]}, agent=agent)
    api.call("GET", "/v1/rounds/{id}", {200}, id=value["round_id"])
    if read_output(api, value["round_id"], "stdout", 1) != "n":
        api.fail("the output from offset 1 is another")
    _, events = api.call("GET", "/v1/rounds/{id}/events", {200}, id=value["round_id"])
    last = [line[4:] for line in (events or "").splitlines() if line.startswith("id: ")]
    if last[-1:] != ["2-4-end"]:
        api.fail(f"the events are {events}")
    api.call("GET", "/v1/rounds/{id}/events", {204}, id=value["round_id"], headers={"Last-Event-ID": last[-1]})
    api.refused("GET", "/v1/rounds/{id}/events", 400, "invalid_request", id=value["round_id"], query="?last_event_id=x")
    api.refused("POST", "/v1/rounds/{id}/signal", 409, "already_ended", body={"signal": "INT"}, id=value["round_id"])
    _, value = api.call("POST", run, {200}, agent=agent,
                        body={"task_id": task, "command": "printf '\\377\\0'; head -c 100000 /dev/zero | tr '\\0' x",
                              "limits": {"head_bytes": 2, "tail_bytes": 3}, "wait_ms": 20000})
    if value and "stdout" in value:
        stream = value["stdout"]
        if (stream["encoding"], stream["truncated"], stream["total_bytes"]) != ("base64", True, 100002):
            api.fail(f"a cut stream is {stream}")


def keeping(api, agent):
    reason = {"reason": "the document's check"}
    _, made = api.call("POST", "/v1/holds", {201}, body={"agent": agent, "until": "2026-01-01T00:00:00Z", **reason})  # of no session here
    _, listed = api.call("GET", "/v1/holds", {200}, query="?all=true")
    if made and listed and made["hold"] not in [h["id"] for h in listed["holds"]]:
        api.fail("GET /v1/holds does not list the hold that was just set")
    api.call("GET", "/v1/head", {200})
    api.call("GET", "/v1/policy", {200})
    _, page = api.call("GET", "/v1/audit", {200}, query="?limit=2")
    api.call("GET", "/v1/audit", {200}, query=f"?after={page['after']}&limit=1")
    api.refused("GET", "/v1/audit", 400, "invalid_request", query="?limit=0")
    api.refused("POST", "/v1/witness/heads", 501, "unsupported", body={"head": {}}, token=False)  # a witness of nobody
    api.refused("GET", "/v1/witness/heads", 404, "not_found", query="?log_id=0193aaaa-0000-7000-8000-000000000001", token=False)
    api.call("GET", "/v1/retention", {200})
    api.refused("POST", "/v1/holds", 400, "invalid_request", body=reason)
    api.refused("POST", "/v1/holds", 400, "invalid_request", body={"agent": agent, "from": "yesterday", **reason})
    api.refused("POST", "/v1/holds", 400, "reason_required", body={"agent": agent, "reason": " "})
    api.refused("POST", "/v1/holds", 403, "forbidden", body={"principal": "joe", **reason})
    api.refused("POST", "/v1/holds", 404, "not_found", body={"session": str(uuid.uuid4()), **reason})
    api.refused("GET", "/v1/holds", 400, "invalid_request", query="?all=perhaps")
    api.refused("DELETE", "/v1/holds/{id}", 403, "forbidden", query="?reason=check", id=str(uuid.uuid4()))
    api.refused("POST", "/v1/retention/apply", 403, "forbidden", body=reason)


def recordings(api, agent, task):
    """What a round left is listed, described and read, once it is sealed."""
    _, value = api.call("POST", "/v1/agents/{agent}/rounds", {200}, agent=agent,
                        body={"task_id": task, "argv": ["echo", "in the record"], "wait_ms": 20000})
    if not value or "round_id" not in value:
        return
    number = value["round_id"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        _, seen = api.call("GET", "/v1/recordings/{id}", {200}, id=number)
        if seen and seen.get("state") == "sealed":
            break
        time.sleep(0.2)
    else:
        api.fail(f"{number} was never sealed")
    _, listed = api.call("GET", "/v1/recordings", {200}, query=f"?agent={agent}&kind=round&limit=50")
    if listed and number not in [r["session"] for r in listed["recordings"]]:
        api.fail(f"{number} is not listed")
    _, events = api.call("GET", "/v1/recordings/{id}/events", {200}, id=number)
    if not events or "in the record" not in events:
        api.fail(f"the events of {number} lack its output")
    _, screen = api.call("GET", "/v1/recordings/{id}/screen", {200}, id=number)
    if screen and screen["found"]:
        api.fail(f"a round has a screen: {screen}")
    nobody = str(uuid.uuid4())
    api.refused("GET", "/v1/recordings/{id}", 404, "not_found", id=nobody)
    api.refused("GET", "/v1/recordings/{id}/events", 404, "not_found", id=nobody)
    api.refused("GET", "/v1/recordings/{id}/events", 400, "invalid_request", query="?limit=0", id=number)
    api.refused("GET", "/v1/recordings", 400, "invalid_request", query="?colour=red")


def read_output(api, number, stream, offset):
    """The stream from the record, which may be a group commit behind: until it says eof."""
    text = ""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        query = f"?stream={stream}&offset={offset}&limit=10"
        _, out = api.call("GET", "/v1/rounds/{id}/output", {200}, query=query, id=number)
        if not out or "next_offset" not in out:
            return None
        text += out["data"]
        offset = out["next_offset"]
        if out["eof"]:
            return text
        time.sleep(0.02)
    api.fail(f"the {stream} of {number} never ends")
    return text


def running_round(api, agent, task):
    _, value = api.call("POST", "/v1/agents/{agent}/rounds", {202}, agent=agent,
                        body={"task_id": task, "argv": ["cat"], "stdin_open": True, "wait_ms": 0})
    if not value or "round_id" not in value:
        return
    number = value["round_id"]
    api.call("GET", "/v1/rounds/{id}", {200}, query="?wait_ms=50", id=number)
    # the program may not be there yet: then it says so, and takes it a little later
    for _ in range(50):
        status, value = api.call("POST", "/v1/rounds/{id}/stdin", {200, 429}, id=number,
                                 body={"data": "aGk=", "encoding": "base64", "offset": 0})
        if status == 200:
            break
        time.sleep(0.1)
    # what a terminal shows and takes: tests/integration/pty.sh, where there is one
    api.refused("GET", "/v1/rounds/{id}/screen", 409, "bad_state", id=number, query="?format=cells")
    api.refused("POST", "/v1/rounds/{id}/keys", 409, "bad_state", id=number, body={"keys": ["Enter", "C-c"]})
    api.refused("POST", "/v1/rounds/{id}/keys", 400, "invalid_request", id=number, body={"keys": ["nothing"]})
    api.refused("POST", "/v1/rounds/{id}/resize", 409, "bad_state", id=number, body={"cols": 80, "rows": 24})
    api.call("POST", "/v1/rounds/{id}/stdin", {200}, body={"eof": True}, id=number)
    _, value = api.call("GET", "/v1/rounds/{id}", {200}, query="?wait_ms=20000", id=number)
    if value and (value["state"], value["stdout"]["data"]) != ("finished", "hi"):
        api.fail(f"cat ended as {value}")


def ended_rounds(api, agent, task):
    for how in ("signal", "terminate"):
        _, value = api.call("POST", "/v1/agents/{agent}/rounds", {202}, agent=agent,
                            body={"task_id": task, "argv": ["sleep", "600"], "wait_ms": 300})
        if not value or "round_id" not in value:
            return
        number = value["round_id"]
        _, listed = api.call("GET", "/v1/sessions", {200}, query=f"?kind=round&state=running&limit=1000&agent={agent}")
        if listed and number not in [s["id"] for s in listed["sessions"]]:
            api.fail("a running round is not in the list")
        _, one = api.call("GET", "/v1/sessions/{id}", {200}, id=number)
        if one and (one["id"], one["state"]) != (number, "running"):
            api.fail(f"a running round is {one}")
        if how == "signal":
            api.call("POST", "/v1/rounds/{id}/signal", {200}, body={"signal": "SIGTERM"}, id=number)
        else:
            api.refused("POST", "/v1/sessions/{id}/terminate", 400, "reason_required", body={"reason": " "}, id=number)
            api.call("POST", "/v1/sessions/{id}/terminate", {200}, body={"reason": "openapi check"}, id=number)
        _, value = api.call("GET", "/v1/rounds/{id}", {200}, query="?wait_ms=20000", id=number)
        if value and (value["state"] != "finished" or value["exit"]["signal"] not in ("TERM", "HUP", "KILL")):
            api.fail(f"after {how} the round is {value}")


def refusals(api, agent, task):
    run = "/v1/agents/{agent}/rounds"
    nobody = str(uuid.uuid4())
    for body in (b"", b"{", b"[]", b'{"argv": []}', b'{"command": "x", "argv": ["x"]}', b'{"command": "x", "colour": 1}'):
        api.refused("POST", run, 400, "invalid_request", body=body, agent=agent)
    api.refused("POST", run, 413, "too_large", agent=agent, body={"task_id": task, "argv": ["x" * 700000]})
    for path in ("/v1/rounds/{id}", "/v1/rounds/{id}/output", "/v1/rounds/{id}/events"):
        api.refused("GET", path, 404, "not_found", id=nobody)
        api.refused("GET", path, 400, "invalid_request", id="nonsense")
        api.refused("GET", path, 400, "invalid_request", query="?colour=1", id=nobody)
    api.refused("POST", "/v1/rounds/{id}/stdin", 404, "not_found", body={"data": "x"}, id=nobody)
    api.refused("POST", "/v1/rounds/{id}/signal", 404, "not_found", body={"signal": "INT"}, id=nobody)
    api.refused("POST", "/v1/sessions/{id}/terminate", 404, "not_found", body={"reason": "x"}, id=nobody)
    api.refused("GET", "/v1/sessions/{id}/attach", 426, "invalid_request", id=nobody)
    api.refused("GET", "/v1/sessions", 400, "invalid_request", query="?state=sleeping")
    api.refused("GET", "/v1/sessions", 400, "invalid_request", query="?live=yes")
    api.refused("GET", "/v1/sessions/{id}", 404, "not_found", id=nobody)
    api.refused("GET", "/v1/sessions/{id}", 400, "invalid_request", id="nonsense")
    api.refused("POST", "/v1/grants", 401, "unauthenticated", body={"target": agent, "reason": "x"}, token=False)
    api.refused("POST", "/v1/grants", 501, "unsupported", body={"target": agent, "reason": "x"}, token="a.b.c")
    api.refused("POST", "/k8s/admission", 501, "unsupported", body={}, token=False)


def grants(api, service):
    """A grant made from another, seen, and taken back; renewals are not open here."""
    path, one = "/v1/grants", "/v1/grants/{id}"
    _, made = api.call("POST", path, {201}, body={"principal": "openapi/w", "scopes": "rounds", "target": "some-*", "ttl": "1m",
                                                  "read": ["src/**"], "file_max": 10, "reason": "a worker"}, token=service)
    made = made or {"id": "01900000-0000-7000-8000-000000000000"}
    api.refused("POST", path, 403, "grant_not_narrower", body={"scopes": "files", "reason": "x"}, token=service)
    api.refused("POST", path, 400, "reason_required", body={}, token=service)
    api.refused("POST", path, 400, "invalid_request", body={"reason": "x", "used": 1}, token=service)
    api.refused("POST", path, 403, "forbidden", body={"reason": "x"})
    _, seen = api.call("GET", path, {200}, query="?limit=1", token=service)
    if seen and [g["id"] for g in seen["grants"]] != [made["id"]]:
        api.fail(f"the newest grant is {seen}")
    api.refused("GET", path, 400, "invalid_request", query="?before=x", token=service)
    api.refused("GET", path, 401, "unauthenticated", token=False)
    api.refused("POST", path + "/renew", 501, "unsupported", body={"reason": "x", "ttl": "1m"})
    api.refused("POST", path + "/renew", 400, "reason_required", body={})
    lease = {"edge": "none", "target": "some-x", "task_id": "t", "scopes": "rounds", "reason": "x"}
    api.refused("POST", "/v1/edge/leases", 404, "not_found", body=lease, token=service)
    api.refused("POST", "/v1/edge/leases", 403, "forbidden", body=lease)
    api.refused("POST", "/v1/edge/leases", 400, "invalid_request", body={"reason": "x"}, token=service)
    api.refused("GET", "/v1/edge/state", 401, "unauthenticated", token=False)
    api.refused("GET", "/v1/edge/state", 401, "token_malformed", token=service)
    api.refused("DELETE", one, 404, "not_found", id=made["id"])
    api.call("DELETE", one, {200}, id=made["id"], token=service)
    api.refused("DELETE", one, 404, "not_found", id=made["id"], token=service)
    api.refused("DELETE", one, 400, "invalid_request", id="nonsense", token=service)


def leases(api, service):
    """Leases, runs, workflows and the pool, by a service's grant for every agent."""
    leases, one, runs, stored = ("/sandboxes/leases", "/sandboxes/leases/{id}", "/sandboxes/runs", "/sandboxes/workflows")
    user, unique = "alice", uuid.uuid4().hex
    flow = {"name": "check-" + unique, "owner": user, "version": 1, "description": "",
            "steps": [{"name": "one", "shell": "test -e /proc/self/fd/$MUXD_TOKEN_FD", "env": {"A": "b"}, "cwd": "/"},
                      {"code": {"language": "python", "source": "raise SystemExit(3)"}, "continueOnError": True},
                      {"argv": ["true"], "timeoutSeconds": 60}],
            "hints": {"timeoutSeconds": 60, "memoryBytes": 1048576},
            "schedule": {"cron": "0 7 * * *", "timeZone": "UTC", "enabled": False}}
    api.refused("POST", stored, 400, "invalid_request", body={**flow, "steps": [{"argv": [1]}]}, token=service)
    api.refused("POST", stored, 501, "unsupported", token=service,
                body={**flow, "schedule": {"cron": "0 7 * * *", "enabled": True}})
    api.call("POST", stored, {200}, body=flow, token=service)
    api.call("POST", stored, {200}, body=flow, token=service)
    api.refused("POST", stored, 409, "conflict", body={**flow, "steps": [{"shell": "true"}]}, token=service)
    api.call("GET", stored, {200}, query="?limit=5", token=service)
    api.call("GET", stored + "/{id}", {200}, id=flow["name"] + "@1", token=service)
    api.refused("GET", stored + "/{id}", 404, "not_found", id=flow["name"] + "@2", token=service)
    wish = {"userId": user, "workflowId": flow["name"], "requestId": unique, "ttlSeconds": 300}
    api.refused("POST", leases, 403, "forbidden", body=wish)
    api.refused("POST", leases, 404, "not_found", body={**wish, "workflowId": "none"}, token=service)
    _, lease = api.call("POST", leases, {200}, body=wish, token=service)
    _, again = api.call("POST", leases, {200}, body=wish, token=service)
    if not lease or "leaseId" not in lease:
        return
    if again != lease:
        api.fail(f"the same request made {again}, not {lease}")
    api.refused("POST", leases, 409, "conflict", body={**wish, "ttlSeconds": 301}, token=service)
    api.call("GET", one, {200}, id=lease["leaseId"], token=service)
    api.call("GET", leases, {200}, query="?state=ACTIVE&limit=10", token=service)
    api.call("POST", one + "/heartbeat", {200}, id=lease["leaseId"], token=service)
    run = {"leaseId": lease["leaseId"], "workflowId": flow["name"], "runId": unique, "token": "none"}
    api.call("POST", runs, {202}, body=run, token=service)
    api.call("POST", runs, {202}, body=run, token=service)
    deadline = time.monotonic() + 30
    value = None
    while time.monotonic() < deadline and (not value or value["state"] == "RUNNING"):
        _, value = api.call("GET", runs + "/{id}", {200}, id=unique, query="?leaseId=" + lease["leaseId"], token=service)
        time.sleep(0.05)
    if not value or (value["state"], [s["code"] for s in value["steps"]]) != ("SUCCEEDED", [0, 3, 0]):
        api.fail(f"the run is {value}")
    api.call("GET", runs, {200}, query="?limit=5", token=service)
    _, value = api.call("DELETE", one, {200}, id=lease["leaseId"], token=service)
    if value and value["state"] != "RELEASED":
        api.fail(f"after its run the lease is {value}")
    api.refused("DELETE", one, 404, "not_found", id=str(uuid.uuid4()), token=service)
    api.call("GET", "/sandboxes/pool", {200}, token=service)


def main():
    with open(DOCUMENT, encoding="utf-8") as f:
        document = yaml.safe_load(f)
    agent = os.environ.get("MUXD_AGENT", "demo")
    task = os.environ.get("MUXD_TASK", "openapi-check")
    api = Api(document)
    check_examples(api, document)
    state(api)
    agents(api, agent)
    finished_rounds(api, agent, task)
    running_round(api, agent, task)
    ended_rounds(api, agent, task)
    refusals(api, agent, task)
    recordings(api, agent, task)
    keeping(api, agent)
    files(api, agent, task)
    operations(api, agent, task)
    trees(api, agent, task)
    artifacts(api, agent, task)
    locks(api, agent, task)
    servers(api, agent, task)
    services(api, agent)
    pages(api, agent)
    mcp(api)
    lifecycle_refused(api, agent)
    lifecycle(api, agent)
    the_end(api, agent)
    grants(api, os.environ["MUXD_SERVICE_TOKEN"])
    leases(api, os.environ["MUXD_SERVICE_TOKEN"])
    wanted = {(m, p) for p, item in document["paths"].items() for m in item if m != "parameters"}
    for method, path in sorted(wanted - api.tried):
        api.fail(f"{method.upper()} {path} was not tried")
    print(f"openapi check: {api.calls} calls, {len(wanted)} operations, {len(api.failures)} failures")
    return 1 if api.failures else 0


if __name__ == "__main__":
    sys.exit(main())
