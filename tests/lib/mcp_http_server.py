#!/usr/bin/env python3
"""An MCP server by Streamable HTTP for tests, on the port of its first argument: good, or bad in the way that the path says.

good      sessions; tools echo, slow (a stream with progress), ask (asks its client in the stream), file (reads one); a stream by GET
plain     no sessions, no stream, answers over many lines, lines of heads without CR
returns   ends the stream of a call behind an event with an id, and answers who comes back with that
refuses   answers calls by HTTP status 503              redirect  sends whoever calls elsewhere
html      answers calls with a page                     chunks    answers calls in chunks that are none
endless   never ends the content of an answer           big       answers calls with 100 MB
foreign   answers with an id that nobody sent           garbage   streams what is no message
flood     streams notifications without end             mute      never answers initialize
head      answers with a head that does not end         closes    closes the connection in place of an answer
forgets   does not know its session after the first call            session   names a session that is none
"""
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SESSIONS = {}
LATE = {}
LOCK = threading.Lock()


def tool(name):
    return {"name": name, "description": "The tool " + name, "inputSchema": {"type": "object"}}


def text(value):
    return {"content": [{"type": "text", "text": value}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def mode(self):
        return self.path.split("?")[0].strip("/")

    def raw(self, data):
        self.wfile.write(data)
        self.wfile.flush()

    def head(self, status, kind=None, length=None, **more):
        end = "\n" if self.mode() == "plain" else "\r\n"
        lines = ["HTTP/1.1 %d x" % status]
        if kind:
            lines.append("Content-Type: " + kind)
        if length is not None:
            lines.append("Content-Length: %d" % length)
        lines += ["%s: %s" % (k.replace("_", "-"), v) for k, v in more.items()]
        self.close_connection = True
        self.raw((end.join(lines) + end + end).encode())

    def answer(self, message, status=200, **more):
        body = json.dumps({"jsonrpc": "2.0", **message}, indent=2 if self.mode() == "plain" else None).encode()
        self.head(status, "application/json; charset=utf-8", len(body), **more)
        self.raw(body)

    def event(self, message, ident=None):
        lines = ["id: " + ident] if ident else []
        lines += ["data: " + json.dumps({"jsonrpc": "2.0", **message})] if message is not None else ["data:"]
        self.raw(("\r\n".join(lines) + "\r\n\r\n").encode())

    def known(self):
        if self.mode() == "plain":
            return True
        with LOCK:
            return self.headers.get("Mcp-Session-Id") in SESSIONS

    def hello(self, message):
        mode, more = self.mode(), {}
        if mode == "mute":
            time.sleep(60)
            return
        if mode == "session":
            more = {"Mcp_Session_Id": "two words"}
        elif mode != "plain":
            with LOCK:
                name = "s%d-%d" % (os.getpid(), len(SESSIONS) + 1)
                SESSIONS[name] = 0
            more = {"Mcp_Session_Id": name}
        self.answer({"id": message["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                                    "serverInfo": {"name": "http-" + mode, "version": "1"}}}, **more)

    def slow(self, ident, args, meta):
        self.head(200, "text/event-stream")
        self.raw(b": hello\n\n")
        for i in range(3):
            time.sleep(args.get("ms", 300) / 3000)
            if "progressToken" in meta:
                self.event({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": i + 1, "total": 3}})
        self.event({"id": ident, "result": text("slow is done")})

    def call(self, ident, params):
        mode, name, args, meta = self.mode(), params.get("name"), params.get("arguments") or {}, params.get("_meta") or {}
        if args.get("kill"):
            os._exit(9)
        if mode == "refuses":
            self.head(503, "text/plain", 4)
            self.raw(b"busy")
        elif mode == "redirect":
            self.head(307, None, 0, Location="http://127.0.0.1:%d/good" % self.server.server_port)
        elif mode == "html":
            self.head(200, "text/html", 6)
            self.raw(b"<html>")
        elif mode == "chunks":
            self.head(200, "application/json", None, Transfer_Encoding="chunked")
            self.raw(b"7\r\n{\"json\r\nnonsense\r\n")
        elif mode == "endless":
            self.head(200, "application/json")
            self.raw(b'{"jsonrpc": "2.0", "id": ' + json.dumps(ident).encode())
            time.sleep(30)
        elif mode == "big":
            self.head(200, "application/json", 100000000)
            for _ in range(100):
                self.raw(b"x" * 1000000)
        elif mode == "foreign":
            self.answer({"id": 4711, "result": text("for somebody")})
        elif mode == "garbage":
            self.head(200, "text/event-stream")
            while True:
                self.raw(b"data: this is no message\n\n" * 1000)
        elif mode == "flood":
            self.head(200, "text/event-stream")
            while True:
                self.event({"method": "notifications/message", "params": {"level": "info", "data": "x" * 10000}})
        elif mode == "head":
            self.raw(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.raw(b"X-More: " + b"x" * 8000 + b"\r\n")
        elif mode == "closes":
            self.close_connection = True
        elif mode == "returns":
            with LOCK:
                LATE["late-%d" % ident] = {"id": ident, "result": text("came back")}
            self.head(200, "text/event-stream")
            self.raw(b"retry: 100\n")
            self.event(None, "late-%d" % ident)
        elif name == "slow":
            self.slow(ident, args, meta)
        elif name == "ask":
            self.head(200, "text/event-stream")
            self.event({"id": "mine", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
            self.event({"id": ident, "result": text("asked")})
        elif name == "file":
            with open(args["path"], encoding="utf-8") as f:
                self.answer({"id": ident, "result": text(f.read())})
        else:
            self.answer({"id": ident, "result": text(args.get("text", ""))})
        if mode == "forgets":
            with LOCK:
                SESSIONS.pop(self.headers.get("Mcp-Session-Id"), None)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, ident = message.get("method"), message.get("id")
        assert "text/event-stream" in self.headers["Accept"] and self.headers["Content-Type"] == "application/json"
        if method == "initialize":
            self.hello(message)
            return
        assert self.headers["MCP-Protocol-Version"] == "2025-06-18"
        if not self.known():
            self.answer({"id": None, "error": {"code": -32001, "message": "Session not found"}}, 404)
        elif ident is None or method is None:
            print(method or "answered: %s" % (message.get("error") or {}).get("code"), flush=True)
            self.head(202, None, 0)
        elif method == "tools/list":
            self.answer({"id": ident, "result": {"tools": [tool(n) for n in ("echo", "slow", "ask", "file")]}})
        elif method == "tools/call":
            self.call(ident, message.get("params") or {})
        else:
            self.answer({"id": ident, "error": {"code": -32601, "message": "no such method"}}, 404 if method == "prompts/list" else 200)

    def do_GET(self):
        last = self.headers.get("Last-Event-ID")
        if last in LATE:
            self.head(200, "text/event-stream")
            self.event(LATE.pop(last))
        elif self.mode() != "good" or not self.known():
            self.head(405, None, 0)
        else:
            self.head(200, "text/event-stream")
            self.event({"method": "notifications/message", "params": {"level": "info", "data": "by the stream of GET"}})
            time.sleep(3600)

    def do_DELETE(self):
        print("session ended", flush=True)
        with LOCK:
            SESSIONS.pop(self.headers.get("Mcp-Session-Id"), None)
        self.head(200, None, 0)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
