"""mcp_client.py - a small client of MCP for tests, by both eras of the protocol.

A request is one of HTTPS, and nothing is asked twice by itself: a stream that ends ahead of its answer is BrokenOff, and whoever
wants the answer all the same sends the same message again.
"""
import http.client
import json
import ssl
import uuid

OLD, NEW = "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
TASKS = {"extensions": {PREFIX + "tasks": {}}}


class BrokenOff(Exception):
    """No answer came: what became of the request is not known."""


class Refused(Exception):
    """An error of HTTP in place of an answer."""

    def __init__(self, status, body):
        super().__init__(f"{status} {json.dumps(body)[:400]}")
        self.status, self.body = status, body


class McpClient:
    """door() says (host, port) whenever a connection is begun: a daemon that comes again may have another port."""

    def __init__(self, door, token, context, path="/mcp", version=OLD, capabilities=None):
        self.door, self.token, self.context, self.path, self.version = door, token, context, path, version
        self.capabilities = capabilities or {}
        self.session, self.connection, self.number = None, None, 0

    def message(self, method, params=None):
        """A request under a new id: a number that counts, of the new era a UUID, which is what repeats are known by."""
        self.number += 1
        params = dict(params or {})
        if self.version == NEW:
            params["_meta"] = {PREFIX + "protocolVersion": NEW, PREFIX + "clientCapabilities": self.capabilities}
        return {"jsonrpc": "2.0", "id": str(uuid.uuid4()) if self.version == NEW else self.number, "method": method, "params": params}

    def call(self, name, arguments):
        return self.message("tools/call", {"name": name, "arguments": arguments})

    def head(self, message):
        head = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.version == NEW:
            params = message["params"]
            head |= {"MCP-Protocol-Version": NEW, "Mcp-Method": message["method"]}
            name = params.get("name", params.get("uri", params.get("taskId")))
            return head | ({"Mcp-Name": name} if name is not None else {})
        return head | ({"Mcp-Session-Id": self.session} if self.session else {})

    def post(self, message):
        if not self.connection:
            self.connection = http.client.HTTPSConnection(*self.door(), context=self.context, timeout=60)
        self.connection.request("POST", self.path, json.dumps(message), self.head(message))
        return self.connection.getresponse()

    def answer_of(self, response):
        if response.headers.get_content_type() != "text/event-stream":
            text = response.read()
            return json.loads(text) if text.strip() else None
        answer = None
        for line in response:  # to its end, so that the connection can be used again
            if line.startswith(b"data: ") and "method" not in (said := json.loads(line[6:])):
                answer = said
        return answer

    def ask(self, message):
        """The answer's message: it has `result` or `error`."""
        try:
            response = self.post(message)
            answer = self.answer_of(response)
        except (OSError, http.client.HTTPException, ValueError, KeyError, ssl.SSLError) as e:
            self.close()
            raise BrokenOff(repr(e)) from e
        if response.status != 200:
            raise Refused(response.status, answer)
        if not answer:
            self.close()
            raise BrokenOff("the stream ended ahead of its answer")
        if message["method"] == "initialize":
            self.session = response.headers["Mcp-Session-Id"]
        return answer

    def begin(self):
        """A session, of the old era."""
        if self.version == OLD:
            answer = self.ask(self.message("initialize", {"protocolVersion": OLD, "capabilities": self.capabilities,
                                                          "clientInfo": {"name": "test", "version": "1"}}))
            if "error" in answer:  # of a server inside that could not be begun: there is no session
                raise BrokenOff(str(answer["error"]))

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None
