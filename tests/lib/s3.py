"""A stand-in for an S3 service with versions and object lock: s3.py PORT_FILE CERT KEY MODE_FILE LOG

What it takes is signed with Signature Version 4, computed again from the request by botocore; x-amz headers and the host have to be
signed, and the body as x-amz-content-sha256 says. A PUT under /locked/ needs a lock and a checksum; each is a version of its own, of
which none can be deleted before its time (COMPLIANCE). /plain/ is a bucket without versions. It does not say what a real service would
beyond that. MODE_FILE holds one word: ok, slow, down (503), skewed (403 RequestTimeTooSkewed), short (locks for an hour), deaf (says ok and keeps nothing), blind (does not tell locks). Each object taken is a line of LOG."""
import base64, datetime, hashlib, http.server, json, ssl, sys, time, urllib.parse
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

port_file, cert, key, mode_file, log = sys.argv[1:6]
KEYS = {"AKIDMUXD": ("s3cr3t/with+signs=", None), "ASIAMUXD": ("another/secret", "token==")}
REGION = "eu-test-1"
store = {}


class S3(http.server.BaseHTTPRequestHandler):
    def wrong(self, body):
        """Why the request is not signed as it must be."""
        words = dict(w.strip().split("=", 1) for w in self.headers.get("Authorization", "")[len("AWS4-HMAC-SHA256 "):].split(",") if "=" in w)
        if not {"Credential", "SignedHeaders", "Signature"} <= set(words):
            return "AccessDenied", "no signature"
        ident, _, region, service, _ = words["Credential"].split("/")
        if ident not in KEYS:
            return "InvalidAccessKeyId", "no such key"
        if region != REGION or service != "s3":
            return "AuthorizationHeaderMalformed", "the region is wrong; expecting " + REGION
        secret, session = KEYS[ident]
        signed = words["SignedHeaders"].split(";")
        unsigned = [h.lower() for h in self.headers if h.lower().startswith("x-amz-") or h.lower() in ("host", "content-md5")]
        if set(unsigned) - set(signed):
            return "AccessDenied", "not signed: %s" % (set(unsigned) - set(signed))
        if self.headers.get("x-amz-security-token") != session:
            return "InvalidToken", "the token is another"
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return "XAmzContentSHA256Mismatch", "the body is another"
        r = AWSRequest(self.command, "https://%s%s" % (self.headers["Host"], self.path), headers={h: self.headers[h] for h in signed}, data=body)
        r.context["timestamp"] = self.headers["x-amz-date"]
        auth = S3SigV4Auth(Credentials(ident, secret), "s3", REGION)
        if auth.signature(auth.string_to_sign(r, auth.canonical_request(r)), r) != words["Signature"]:
            return "SignatureDoesNotMatch", "computed from %r" % auth.canonical_request(r)
        return None

    def error(self, status, code, message):
        text = b"" if self.command == "HEAD" else ("<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message></Error>" % (code, message)).encode()
        return self.answer(status, text)

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for h in headers:
            self.send_header(*h)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        mode = open(mode_file).read().strip()
        if mode == "slow":
            time.sleep(30)
        if mode == "down":
            return self.error(503, "SlowDown", "come back later")
        if mode == "skewed":
            return self.error(403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large.")
        wrong = self.wrong(body)
        if wrong:
            return self.error(403, *wrong)
        url = urllib.parse.urlsplit(self.path)
        version = urllib.parse.parse_qs(url.query).get("versionId", [None])[0]
        return getattr(self, "on_" + self.command)(url.path, version, body, mode)

    do_PUT = do_HEAD = do_GET = do_DELETE = handle_one

    def on_PUT(self, path, _, body, mode):
        bucket = path.split("/")[1]
        until, lock = self.headers.get("x-amz-object-lock-retain-until-date"), self.headers.get("x-amz-object-lock-mode")
        if bucket == "plain":
            return self.error(400, "InvalidRequest", "Bucket is missing Object Lock Configuration") if lock else self.answer(200)
        if bucket not in ("locked", "unversioned"):
            return self.error(404, "NoSuchBucket", "The specified bucket does not exist")
        if lock not in ("COMPLIANCE", "GOVERNANCE") or not until or self.headers.get("Content-MD5") != base64.b64encode(hashlib.md5(body).digest()).decode():
            return self.error(400, "InvalidRequest", "Content-MD5 and a lock are needed")
        if mode == "short":
            until = (datetime.datetime.utcnow() + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        versions = store.setdefault(path, {})
        version = "v%d.%s" % (len(versions), hashlib.sha256(path.encode()).hexdigest()[:16])
        if mode != "deaf":
            versions[version] = (body, lock, until)
            with open(log, "a") as f:
                f.write(body.decode() + "\n")
        return self.answer(200, b"", [("ETag", '"%s"' % hashlib.md5(body).hexdigest())] + ([("x-amz-version-id", version)] if bucket == "locked" else []))

    def on_HEAD(self, path, version, _, mode):
        if version not in store.get(path, {}):
            return self.error(404, "", "")
        body, lock, until = store[path][version]
        return self.answer(200, b"", [("x-amz-version-id", version)] + ([("x-amz-object-lock-mode", lock), ("x-amz-object-lock-retain-until-date", until)] if mode != "blind" else []))

    def on_GET(self, path, version, _, mode):
        versions = store.get(path, {})
        return self.answer(200, versions[version or max(versions)][0]) if versions else self.error(404, "NoSuchKey", "")

    def on_DELETE(self, path, version, _, mode):
        return self.error(403, "AccessDenied", "Access Denied because object protected by object lock.")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), S3)
ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
ctx.load_cert_chain(cert, key)
server.socket = ctx.wrap_socket(server.socket, server_side=True)
with open(port_file, "w") as f:
    f.write(str(server.server_address[1]))
server.serve_forever()
