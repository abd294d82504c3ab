#!/usr/bin/python3
"""A service for the stories: `service.py web PORT NAME` serves HTTP and says who it is, `dies` dies at once, `deaf` heeds no TERM.

`leaves` is a web server in a session of its own, whose parent is the service; `once` adds a line and ends. A web server that
finds /workspace/NAME.sick answers /up with 500.

A web server appends to /workspace/NAME.log when it begins and when TERM ends it: so the workspace tells in which order.
"""
import http.server
import os
import signal
import sys
import time


def tell(name, word):
    with open(f"/workspace/{name}.log", "a", encoding="utf-8") as f:
        f.write(f"{word} {time.time_ns()}\n")
        f.flush()
        os.fsync(f.fileno())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"{sys.argv[3]} {os.getpid()} {self.path}\n".encode()
        self.send_response(500 if self.path == "/up" and os.path.exists(f"/workspace/{sys.argv[3]}.sick") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *args):
        print("asked:", form % args, flush=True)


def web(port, name):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)

    def end(*_):
        tell(name, "ended")
        print(name, "ends", flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    tell(name, "begun")
    print(name, "serves", flush=True)
    server.serve_forever()


if sys.argv[1] == "web":
    web(int(sys.argv[2]), sys.argv[3])
elif sys.argv[1] == "leaves":
    if os.fork() == 0:
        os.setsid()
        web(int(sys.argv[2]), sys.argv[3])
    signal.pause()
elif sys.argv[1] == "once":
    tell("once", "ran")
elif sys.argv[1] == "dies":
    print("no such table: users", file=sys.stderr, flush=True)
    sys.exit(7)
elif sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("heeds nothing", flush=True)
    while True:
        time.sleep(1000)
