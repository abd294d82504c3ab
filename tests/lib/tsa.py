"""An authority for timestamps that behaves as the path of its URL says: tsa.py DIR

Makes its certificates in DIR (ca.pem, stranger.pem: whom its signers hang on), writes DIR/port, and answers over HTTP with
`openssl ts -reply`. The path is one word: ok, slow (answers after 30 s), refuse (an answer that grants nothing), status (503),
imprint (of another hash), nonce (without the one that was sent), stranger (signed by another authority's), expired (by a
certificate that is no longer in force), garbage, huge. DIR/asked has a line for each question.
"""
import datetime, http.server, os, subprocess, sys, tempfile, time
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

folder = sys.argv[1]
now = datetime.datetime.utcnow()
day = datetime.timedelta(days=1)


def at(name):
    return os.path.join(folder, name)


def certificate(name, issuer=None, begin=now - day, end=now + day):
    """Writes NAME.pem and NAME.key; with an issuer it is one that may sign timestamps."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    b = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer[1] if issuer else subject).public_key(key.public_key())
    b = b.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
    b = b.add_extension(x509.BasicConstraints(ca=not issuer, path_length=None), critical=True)
    if issuer:
        b = b.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    pem = b.sign(issuer[0] if issuer else key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    with open(at(name + ".pem"), "wb") as f:
        f.write(pem)
    with open(at(name + ".key"), "wb") as f:
        f.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return key, subject


ca, stranger = certificate("ca"), certificate("stranger")
certificate("signer", ca)
certificate("signer-expired", ca, now - 3 * day, now - day)
certificate("signer-stranger", stranger)
with open(at("tsa.cnf"), "w") as f:
    for signer in ("signer", "signer-expired", "signer-stranger"):
        f.write(f"[{signer}]\nserial = {at('serial')}\ncrypto_device = builtin\nsigner_cert = {at(signer)}.pem\nsigner_key = {at(signer)}.key\n"
                "signer_digest = sha256\ndefault_policy = 1.2.3.4.1\ndigests = sha256\naccuracy = secs:1\ntsa_name = yes\n"
                "ess_cert_id_chain = no\n")


def openssl(*args):
    return subprocess.run(["openssl", "ts", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def reply(query, signer):
    with tempfile.TemporaryDirectory() as d:
        q, r = os.path.join(d, "q"), os.path.join(d, "r")
        with open(q, "wb") as out:
            out.write(query)
        openssl("-reply", "-config", at("tsa.cnf"), "-section", signer, "-queryfile", q, "-out", r)
        with open(r, "rb") as answer:
            return answer.read()


def other_query(digest, *more):
    with tempfile.NamedTemporaryFile() as q:
        openssl("-query", "-sha256", "-digest", digest, "-cert", *more, "-out", q.name)
        return q.read()


class Authority(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        query = self.rfile.read(int(self.headers["Content-Length"]))
        mode = self.path.strip("/")
        with open(at("asked"), "a") as f:
            f.write(mode + "\n")
        if self.headers["Content-Type"] != "application/timestamp-query":
            return self.answer(415, b"")
        if mode == "slow":
            time.sleep(30)
        if mode == "status":
            return self.answer(503, b"")
        if mode == "garbage":
            return self.answer(200, os.urandom(2000))
        if mode == "huge":
            return self.answer(200, b"0" * 4000000)
        if mode == "refuse":
            return self.answer(200, bytes.fromhex("30053003020102"))
        if mode == "imprint":
            return self.answer(200, reply(other_query("00" * 32), "signer"))
        if mode == "nonce":
            digest = query[query.index(bytes.fromhex("0420")) + 2 :][:32].hex()
            return self.answer(200, reply(other_query(digest), "signer"))
        return self.answer(200, reply(query, {"stranger": "signer-stranger", "expired": "signer-expired"}.get(mode, "signer")))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/timestamp-reply")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Authority)
with open(at("port"), "w") as f:
    f.write(str(server.server_address[1]))
server.serve_forever()
