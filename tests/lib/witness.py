"""A witness of heads over HTTPS, that behaves as a file says: witness.py PORT_FILE CERT KEY MODE_FILE LOG

MODE_FILE holds one word: ok, slow (answers after 30 s), full (507), lie (a receipt that nobody signed), older (a receipt for
another entry), huge (an answer without end). Each head that it took is a line of LOG.
"""
import http.server, json, ssl, sys, time

port_file, cert, key, mode_file, log = sys.argv[1:6]


class Witness(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, as services of today do

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        mode = open(mode_file).read().strip()
        head = json.loads(body)
        if self.headers.get("Authorization") != "Bearer sesame":
            return self.answer(401, {"error": {"message": "not you"}})
        if mode == "slow":
            time.sleep(30)
        if mode == "full":
            return self.answer(507, {"error": {"message": "the disk is full"}})
        if mode in ("lie", "older"):
            return self.answer(200, {"receipt": {"log_id": head["log_id"], "seq": head["seq"] - (mode == "older"), "hash": head["hash"],
                                                 "witness_wall_ns": 1, "kid": "0" * 16, "signature": "A" * 86}})
        if mode == "huge":
            self.close_connection = True
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(4000):
                    self.wfile.write(b" " * 4096)
            except OSError:
                pass
            return None
        with open(log, "a") as f:
            f.write(json.dumps(head) + "\n")
        return self.answer(200, {"ok": True})

    def answer(self, status, o):
        text = json.dumps(o).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        try:
            self.wfile.write(text)
        except OSError:
            pass

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Witness)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(port_file, "w") as f:
    f.write(str(server.server_address[1]))
server.serve_forever()
