"""An issuer of tokens that a real one would never give: issuer.py PORT_FILE

Serves on loopback by http. GET /keys shows its public keys, GET /keys/MODE answers otherwise, and GET /mode?MODE has /keys do so
from then on: ok, slow, huge, redirect, none (404), empty, twice (a name twice), twins (two keys of one kid), gone (the connection is
cut). POST /token takes what a
token is to be otherwise: {"header", "claims": members that are set, or taken out by null; "key": rsa, small, ec, p384, ed, hidden,
secret; "alg"; "raw_header", "raw_claims": text in their place; "tail": appended to the token}. GET /asked counts the questions for keys.
"""
import base64, hashlib, hmac, http.server, json, os, sys, time, urllib.parse
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

KEYS = {"rsa": rsa.generate_private_key(65537, 2048), "small": rsa.generate_private_key(65537, 1024), "hidden": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(ec.SECP256R1()), "p384": ec.generate_private_key(ec.SECP384R1()), "ed": ed25519.Ed25519PrivateKey.generate()}
ALGS = {"rsa": "RS256", "small": "RS256", "hidden": "RS256", "ec": "ES256", "p384": "ES384", "ed": "EdDSA"}
state = {"mode": "ok", "asked": 0, "jti": 0}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(n, size=None):
    return b64(n.to_bytes(size or (n.bit_length() + 7) // 8, "big"))


def jwk(name):
    public = KEYS[name].public_key()
    if isinstance(public, rsa.RSAPublicKey):
        n = public.public_numbers()
        key = {"kty": "RSA", "n": number(n.n), "e": number(n.e)}
    elif isinstance(public, ed25519.Ed25519PublicKey):
        key = {"kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw))}
    else:
        size, n = (public.key_size + 7) // 8, public.public_numbers()
        key = {"kty": "EC", "crv": "P-" + str(public.key_size), "x": number(n.x, size), "y": number(n.y, size)}
    return {**key, "kid": name, "use": "sig"}


def sign(name, alg, text):
    key = KEYS.get(name)
    if alg == "none":
        return b""
    if alg == "HS256":  # an RSA key that everybody knows as the secret
        pem = KEYS["rsa"].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return hmac.new(pem, text, hashlib.sha256).digest()
    if isinstance(key, rsa.RSAPrivateKey):
        if alg.startswith("PS"):
            return key.sign(text, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(text)
    r, s = utils.decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32 if name == "ec" else 48, "big") + s.to_bytes(32 if name == "ec" else 48, "big")


def mint(spec, issuer):
    name, now = spec.get("key", "rsa"), int(time.time())
    alg = spec.get("alg", ALGS.get(name))
    state["jti"] += 1
    header = {"alg": alg, "typ": "JWT", "kid": name, **spec.get("header", {})}
    claims = {"iss": issuer, "aud": "muxd", "sub": "org/repo", "jti": str(state["jti"]), "iat": now, "exp": now + 300, "nbf": now, **spec.get("claims", {})}
    for field in ("iat", "exp", "nbf"):
        if isinstance(claims[field], str) and claims[field][:1] in "+-":  # from now
            claims[field] = now + int(claims[field])
    head = spec.get("raw_header") or json.dumps({k: v for k, v in header.items() if v is not None})
    body = spec.get("raw_claims") or json.dumps({k: v for k, v in claims.items() if v is not None})
    text = b64(head.encode()) + "." + b64(body.encode())
    return text + "." + b64(sign(name, alg, text.encode())) + spec.get("tail", "")


class Issuer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = urllib.parse.urlsplit(self.path)
        if path.path == "/mode":
            state["mode"] = path.query
            return self.answer(200, path.query)
        if path.path == "/asked":
            return self.answer(200, str(state["asked"]))
        state["asked"] += 1
        mode = path.path[6:] or state["mode"]
        keys = [jwk(name) for name in KEYS if name != "hidden"]
        if mode == "gone":
            self.close_connection = True
            return self.connection.close()
        if mode == "slow":
            time.sleep(20)
        if mode == "huge":
            return self.answer(200, " " * 400000)
        if mode == "redirect":
            return self.answer(302, "", {"Location": "/else"})
        if mode == "none":
            return self.answer(404, "no")
        if mode == "empty":
            keys = [{"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}]
        if mode == "twins":
            keys += [{**jwk("ec"), "kid": "rsa"}]
        if mode == "twice":
            return self.answer(200, '{"keys":[],"keys":%s}' % json.dumps(keys))
        return self.answer(200, json.dumps({"keys": keys}))

    def do_POST(self):
        spec = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return self.answer(200, mint(spec, "http://127.0.0.1:%d" % server.server_address[1]))

    def answer(self, status, text, headers={}):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(text.encode())
        except OSError:
            pass

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
