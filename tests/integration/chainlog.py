"""The chain log as docs/recording-format.md has it, read and written by somebody who may have its true keys."""
import base64
import glob
import hashlib
import struct
import time
import zlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ENTRY = 64


def sha(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(p)
    return h.digest()


def b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Key:
    def __init__(self, seed):
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.kid = sha(self.public)[:8].hex()

    def sign(self, purpose, message):
        return self.private.sign(purpose + b"\0" + message)


def keys_in(folder):
    """{kid: Key} of every seed there."""
    return {k.kid: k for k in (Key(open(p, "rb").read()) for p in glob.glob(folder + "/*.seed"))}


class Entry:
    """Bytes of one entry without its hash; seq is that of the header."""

    def __init__(self, raw):
        self.raw = bytearray(raw)

    type = property(lambda s: struct.unpack_from("<H", s.raw, 4)[0] & 0x7FFF)
    seq = property(lambda s: struct.unpack_from("<Q", s.raw, 16)[0])
    session = property(lambda s: bytes(s.raw[40:56]))
    payload = property(lambda s: bytes(s.raw[ENTRY:]))

    def with_payload(self, payload):
        e = Entry(self.raw[:ENTRY] + payload)
        struct.pack_into("<I", e.raw, 8, len(payload))
        return e

    def numbered(self, seq):
        struct.pack_into("<Q", self.raw, 16, seq)
        struct.pack_into("<I", self.raw, 60, zlib.crc32(self.raw[:60]))
        return self


def entry_new(kind, payload, session=bytes(16), critical=True):
    raw = b"MENT" + struct.pack("<HHIIQQq", kind | (0x8000 if critical else 0), 0, len(payload), 0, 0, 0, int(time.time() * 1e9)) + session
    return Entry(raw + struct.pack("<II", 0, 0) + payload)


def log_path(copy, n=1):
    return copy + "/chain/%08d.mchain" % n


def log_places(copy):
    """[(position, length of the payload, type)] of the first file."""
    data, at, out = open(log_path(copy), "rb").read(), 88, []
    while at + ENTRY <= len(data):
        kind, _, n = struct.unpack_from("<HHI", data, at + 4)
        out.append((at, n, kind & 0x7FFF))
        at += ENTRY + n + 32
    return out


def log_entries(copy):
    data = open(log_path(copy), "rb").read()
    return data[:88], [Entry(data[at:at + ENTRY + n]) for at, n, _ in log_places(copy)]


def log_write(copy, front, entries, signer=None):
    """Chained anew; heads are signed anew when signer(entry, kid) gives a key."""
    before, out = front[48:80], bytearray(front)
    for seq, e in enumerate(entries, struct.unpack_from("<Q", front, 32)[0]):
        if e.type == 4 and signer:
            wall, kid = e.payload[:8], e.payload[8:24].decode()
            key = signer(kid)
            e = e.with_payload(wall + key.kid.encode() + key.sign(b"muxd chain head 1", front[16:32] + struct.pack("<Q", seq - 1) + before + wall))
        e = e.numbered(seq)
        before = sha(before, bytes(e.raw))
        out += e.raw + before
    with open(log_path(copy), "wb") as f:
        f.write(out)
