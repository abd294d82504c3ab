#!/usr/bin/python3
"""A fake Kubernetes API server, for faults that a real one cannot be made to show.

It is a fake: a store of JSON objects with resourceVersions, lists in pages and watches, nothing behind them. No
admission, no defaults, no controllers (but one: what is behind a VolumeSnapshot or a claim that is deleted goes, too, where its
policy is Delete), no RBAC; a server-side apply is a plain merge. What the real server does is
tested against the real server. On command it shows: 410 for old versions and old pages, 429 and 503 with Retry-After,
slow bodies, bodies cut short, answers that never come, connections that fall silent, tokens that are rotated (401
until the new one comes), 403 with a Status, answers of any size, bad JSON, borders of chunks and TLS records anywhere.

	fake_apiserver.py [--cert FILE --key FILE [--client-ca FILE]] [--proxy]

Prints one line of JSON: {"port": N, "proxy": N}. Then each line on stdin is a command, answered by one line of JSON:

	{"do": "rule", "method": "GET", "path": REGEX, "times": 1, ACTION}   next matching requests; times 0: all
		ACTION: "status", "headers", "body" (JSON) or "text"; "delay_ms" before it, "drip" bytes a write,
		"cut" after that many bytes of body, "close" without an answer, "hang" for ever, "pass": only the delay
	{"do": "unrule"}                        forget all rules
	{"do": "tokens", "accept": ["t"]}       401 for others; null: nobody is asked
	{"do": "put", "path": P, "object": O}   create or replace, as if another client did it
	{"do": "merge", "path": P, "object": O} into what is there, likewise; null when there is nothing
	{"do": "remove", "path": P}
	{"do": "compact"}                       history is forgotten: watches from before now get 410, pages too
	{"do": "expire"}                        the same for pages alone: a continue of now is 410
	{"do": "bookmarks", "every_ms": N}      0: none
	{"do": "streams", "how": HOW}           watches that are open: "end", "reset", "silence"
	{"do": "line", "text": T}               a line into every watch that is open
	{"do": "drip", "bytes": N}              of every answer; 0: whole
	{"do": "driver", "answers": B}          false: what is behind something that is deleted stays as it is
	{"do": "seen"}                          requests since the last time: method, path, query, headers, body, conn
	{"do": "open"}                          how many watches are open
	{"do": "marks"}                         how many bookmarks were sent

Other kinds of endpoint (exec streams, say) can be added: import this module, subclass Handler, give ROUTES.
"""
import argparse
import copy
import http.server
import json
import re
import select
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
import urllib.parse
import uuid


class Rule:
    """What the next matching requests get instead of an answer from the store."""

    def __init__(self, spec):
        self.method = spec.get("method")
        self.path = re.compile(spec.get("path", ""))
        self.left = spec.get("times", 1)
        self.forever = self.left == 0
        self.spec = spec

    def takes(self, method, path):
        if self.method not in (None, method) or not self.path.search(path):
            return False
        if self.forever:
            return True
        self.left -= 1
        return self.left >= 0


class State:
    """Everything the handlers share; every access under `lock`."""

    def __init__(self):
        self.lock = threading.Condition()
        self.rules = []
        self.tokens = None
        self.version = 100
        self.objects = {}  # path -> object
        self.history = []  # (version, collection, type, object)
        self.oldest = 0
        self.pages = {}
        self.bookmarks_ms = 0
        self.drip = 0
        self.seen = []
        self.watches = {}  # id -> {"how": None, "lines": []}
        self.conns = 0
        self.marks = 0
        self.driver = True

    def rule_for(self, method, path):
        with self.lock:
            for r in self.rules:
                if r.takes(method, path):
                    return r.spec
        return None

    def change(self, path, kind, o):
        """An object in its new state (deleted: its last); under the lock."""
        self.version += 1
        o["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, path.rsplit("/", 1)[0], kind, copy.deepcopy(o)))
        self.lock.notify_all()

    def put(self, path, o):
        meta = o.setdefault("metadata", {})
        old = self.objects.get(path)
        meta["name"] = path.rsplit("/", 1)[1]
        ns = re.search("/namespaces/([^/]+)/", path)
        if ns:
            meta["namespace"] = ns.group(1)
        meta["uid"] = meta.get("uid") or (old["metadata"]["uid"] if old else str(uuid.uuid4()))
        self.objects[path] = o
        self.change(path, "MODIFIED" if old else "ADDED", o)
        return o

    def remove(self, path):
        o = self.objects.pop(path, None)
        if o:
            self.change(path, "DELETED", o)
            self.reclaim(o["metadata"]["uid"])
        return o

    def reclaim(self, uid):
        """A storage driver's part: contents and volumes of an owner that is gone, by their own policy."""
        for path, o in list(self.objects.items()) if self.driver else []:
            spec = o.get("spec") or {}
            owner = (spec.get("volumeSnapshotRef") or spec.get("claimRef") or {}).get("uid")
            if owner == uid and "Delete" in (spec.get("deletionPolicy"), spec.get("persistentVolumeReclaimPolicy")):
                self.remove(path)


STATE = State()


def status(code, reason, message, **more):
    return code, dict(kind="Status", apiVersion="v1", status="Failure", reason=reason, message=message, code=code, **more)


def merge(to, patch):
    for k, v in patch.items():
        if v is None:
            to.pop(k, None)
        elif isinstance(v, dict) and isinstance(to.get(k), dict):
            merge(to[k], v)
        else:
            to[k] = v
    return to


def matches(o, selector):
    labels = o["metadata"].get("labels", {})
    wanted = [s.split("=", 1) for s in selector.split(",") if s]
    return all(labels.get(k) == v for k, v in wanted)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ROUTES = []  # (method, regex, function of the handler): looked at before the store

    def setup(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with STATE.lock:
            STATE.conns += 1
            self.conn = STATE.conns
        super().setup()

    def log_message(self, *args):
        pass

    # --- what every request passes

    def serve(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(self.url.query))
        self.note(body)
        rule = STATE.rule_for(self.command, self.path)
        if rule is not None:
            self.obey(rule)
            if not rule.get("pass"):
                return
        refusal = self.identify()
        if refusal:
            return self.answer(*refusal)
        for method, regex, route in self.ROUTES:
            if method == self.command and re.search(regex, self.url.path):
                return route(self)
        self.store(json.loads(body) if body else None)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def note(self, body):
        entry = dict(method=self.command, path=self.url.path, query=self.query, conn=self.conn,
                     headers={k.lower(): v for k, v in self.headers.items()}, body=body.decode(errors="replace"))
        if isinstance(self.request, ssl.SSLSocket):
            cert = self.request.getpeercert()
            entry["cert"] = dict(x[0] for x in cert["subject"]).get("commonName") if cert else None
            entry["sni"] = getattr(self.request, "fake_sni", None)
        with STATE.lock:
            STATE.seen.append(entry)

    def identify(self):
        with STATE.lock:
            tokens = STATE.tokens
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if tokens is not None and token not in tokens:
            return status(401, "Unauthorized", "Unauthorized")
        return None

    # --- answers

    def send_bytes(self, data, drip=0):
        if not drip:
            self.wfile.write(data)
        for i in range(0, len(data) if drip else 0, drip or 1):
            self.wfile.write(data[i:i + drip])
        self.wfile.flush()

    def answer(self, code, body=None, text=None, headers=None, drip=0, cut=None):
        data = text.encode() if text is not None else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if text is not None else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for k, v in (headers or {}).items():
            self.send_header(k, str(v))
        self.end_headers()
        with STATE.lock:
            drip = drip or STATE.drip
        self.send_bytes(data[:cut] if cut is not None else data, drip)
        if cut is not None:
            self.reset()

    def reset(self):
        """The connection ends with RST."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # closing the descriptor alone: TLS would say goodbye
        sock = self.connection
        if isinstance(sock, ssl.SSLSocket):
            socket.socket(fileno=sock.detach()).close()
        else:
            sock.close()
        raise ConnectionResetError

    def hang(self):
        """Silence until the client leaves."""
        self.close_connection = True
        while select.select([self.connection], [], [], 1)[0] == []:
            pass

    def obey(self, rule):
        time.sleep(rule.get("delay_ms", 0) / 1000)
        if rule.get("pass"):
            return
        if rule.get("hang"):
            self.hang()
        elif rule.get("close"):
            self.reset()
        else:
            self.answer(rule.get("status", 200), rule.get("body"), rule.get("text"), rule.get("headers"),
                        rule.get("drip", 0), rule.get("cut"))

    # --- the store

    def store(self, body):
        path = self.url.path
        collection = path.rstrip("/").rsplit("/", 1)[1] in ("pods", "configmaps", "things", "events", "persistentvolumeclaims",
                                                              "volumesnapshots", "volumesnapshotcontents", "sandboxes")
        if self.command == "GET" and collection:
            if self.query.get("watch") in ("1", "true"):
                return self.watch(path)
            return self.answer(*self.list(path))
        self.answer(*self.single(path, body))

    def single(self, path, body):
        with STATE.lock:
            if self.command == "POST":
                path += "/" + body["metadata"]["name"]
            o = STATE.objects.get(path)
            if self.command == "POST":
                if o:
                    return status(409, "AlreadyExists", "\"%s\" already exists" % o["metadata"]["name"])
                return 201, STATE.put(path, body)
            if self.command == "PATCH" and not o and "apply" in self.headers["Content-Type"]:
                return 201, STATE.put(path, body)
            if not o:
                return status(404, "NotFound", "\"%s\" not found" % path.rsplit("/", 1)[1])
            if self.command == "GET":
                return 200, o
            if self.command == "PATCH":
                wanted = body.get("metadata", {}).get("resourceVersion")
                if wanted and wanted != o["metadata"]["resourceVersion"]:
                    return status(409, "Conflict", "the object has been modified")
                return 200, STATE.put(path, merge(copy.deepcopy(o), body))
            if self.command == "PUT":
                wanted = body["metadata"].get("resourceVersion")
                if wanted and wanted != o["metadata"]["resourceVersion"]:
                    return status(409, "Conflict", "the object has been modified")
                return 200, STATE.put(path, body)
            wanted = ((body or {}).get("preconditions") or {}).get("uid")
            if wanted and wanted != o["metadata"]["uid"]:
                return status(409, "Conflict", "the UID in the precondition (%s) does not match" % wanted)
            return 200, STATE.remove(path)

    def list(self, path):
        with STATE.lock:
            token = self.query.get("continue")
            if token and token not in STATE.pages:
                return status(410, "Expired", "The provided continue parameter is too old")
            if token:
                version, items = STATE.pages.pop(token)
            else:
                version = STATE.version
                items = [copy.deepcopy(o) for p, o in sorted(STATE.objects.items())
                         if p.rsplit("/", 1)[0] == path and matches(o, self.query.get("labelSelector", ""))]
            limit = int(self.query.get("limit") or 0) or len(items)
            meta = {"resourceVersion": str(version)}
            if len(items) > limit:
                meta["continue"] = str(uuid.uuid4())
                STATE.pages[meta["continue"]] = (version, items[limit:])
            return 200, {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items[:limit]}

    # --- watches

    def line(self, text):
        data = (text + "\n").encode()
        with STATE.lock:
            size = STATE.drip or len(data)
        for i in range(0, len(data), size):
            piece = data[i:i + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()

    def watch(self, path):
        since = int(self.query.get("resourceVersion") or 0)
        with STATE.lock:
            if since < STATE.oldest:
                refused = status(410, "Expired", "too old resource version: %d (%d)" % (since, STATE.oldest))
            else:
                refused = None
                me = STATE.watches[id(self)] = {"how": None, "lines": []}
        if refused:
            return self.answer(*refused)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            self.follow(path, since, me)
        finally:
            with STATE.lock:
                STATE.watches.pop(id(self), None)
        self.wfile.write(b"0\r\n\r\n")

    def follow(self, path, told, me):
        ends = time.monotonic() + float(self.query.get("timeoutSeconds") or 3600)
        selector = self.query.get("labelSelector", "")
        bookmark_at = 0
        while time.monotonic() < ends:
            with STATE.lock:
                every = STATE.bookmarks_ms / 1000
                events = [h for h in STATE.history if h[0] > told and h[1] == path and matches(h[3], selector)]
                if not events and not me["how"] and not me["lines"]:
                    STATE.lock.wait(min(every or 0.25, 0.25))
                    events = [h for h in STATE.history if h[0] > told and h[1] == path and matches(h[3], selector)]
                lines, me["lines"], how, now = me["lines"], [], me["how"], STATE.version
            if how == "reset":
                self.reset()
            if select.select([self.connection], [], [], 0)[0]:
                raise ConnectionResetError  # nothing is said here by a client that stays
            if how == "silence":
                self.hang()
                raise ConnectionResetError
            for version, _, kind, o in events:
                self.line(json.dumps({"type": kind, "object": o}))
                told = version
            for text in lines:
                self.line(text)
            if how == "end":
                return
            if every and time.monotonic() >= bookmark_at:
                bookmark_at = time.monotonic() + every
                told = max(told, now) if not events else told
                self.line(json.dumps({"type": "BOOKMARK", "object": {
                    "kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(told)}}}))
                with STATE.lock:
                    STATE.marks += 1


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128
    context = None

    def finish_request(self, request, client_address):
        """TLS in the connection's own thread: a client that does not speak stops nobody else."""
        try:
            if self.context:
                request.settimeout(60)
                request = self.context.wrap_socket(request, server_side=True)
                request.settimeout(None)
            self.RequestHandlerClass(request, client_address, self)
        except (ConnectionError, ssl.SSLError, OSError, ValueError):
            pass
        finally:
            request.close()

    def shutdown_request(self, request):
        try:
            super().shutdown_request(request)
        except OSError:
            pass


class Proxy(socketserver.StreamRequestHandler):
    """CONNECT host:port, to this machine whatever the host's name is."""

    def handle(self):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.request.recv(4096)
            if not piece:
                return
            head += piece
        lines = head.decode().split("\r\n")
        headers = dict((k.lower(), v) for k, v in (x.split(": ", 1) for x in lines[1:] if ": " in x))
        with STATE.lock:
            STATE.seen.append(dict(method="CONNECT", path=lines[0].split()[1], headers=headers))
        peer = socket.create_connection(("127.0.0.1", int(lines[0].split()[1].rsplit(":", 1)[1])))
        self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        pair = {self.request: peer, peer: self.request}
        while True:
            for s in select.select(list(pair), [], [])[0]:
                try:
                    data = s.recv(65536)
                    if not data:
                        return
                    pair[s].sendall(data)
                except OSError:
                    return


class ProxyServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


def command(c):
    do = c["do"]
    with STATE.lock:
        if do == "rule":
            STATE.rules.append(Rule(c))
        elif do == "unrule":
            STATE.rules.clear()
        elif do == "tokens":
            STATE.tokens = c["accept"]
        elif do == "put":
            return STATE.put(c["path"], c["object"])
        elif do == "merge":
            old = STATE.objects.get(c["path"])
            return STATE.put(c["path"], merge(copy.deepcopy(old), c["object"])) if old else None
        elif do == "remove":
            return STATE.remove(c["path"])
        elif do == "compact":
            STATE.version += 1
            STATE.oldest = STATE.version
            STATE.history.clear()
            STATE.pages.clear()
        elif do == "expire":
            STATE.pages.clear()
        elif do == "bookmarks":
            STATE.bookmarks_ms = c["every_ms"]
        elif do == "streams":
            for w in STATE.watches.values():
                w["how"] = c["how"]
        elif do == "line":
            for w in STATE.watches.values():
                w["lines"].append(c["text"])
        elif do == "drip":
            STATE.drip = c["bytes"]
        elif do == "driver":
            STATE.driver = c["answers"]
        elif do == "seen":
            seen, STATE.seen = STATE.seen, []
            return seen
        elif do == "marks":
            return STATE.marks
        elif do == "open":
            return len(STATE.watches)
        else:
            raise ValueError("no such command: " + do)
        STATE.lock.notify_all()
    return True


def tls_context(args):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.cert, args.key)
    context.set_alpn_protocols(["http/1.1"])
    if args.client_ca:
        context.load_verify_locations(args.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL

    def on_sni(sock, name, _):
        sock.fake_sni = name
    context.sni_callback = on_sni
    return context


def main(handler=Handler):
    p = argparse.ArgumentParser()
    p.add_argument("--cert")
    p.add_argument("--key")
    p.add_argument("--client-ca")
    p.add_argument("--proxy", action="store_true")
    args = p.parse_args()
    server = Server(("127.0.0.1", 0), handler)
    if args.cert:
        server.context = tls_context(args)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = {"port": server.server_address[1]}
    if args.proxy:
        proxy = ProxyServer(("127.0.0.1", 0), Proxy)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        ports["proxy"] = proxy.server_address[1]
    print(json.dumps(ports), flush=True)
    for line in sys.stdin:
        print(json.dumps(command(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
