#!/usr/bin/python3
"""mrec.py - a second reader of muxd's record, for auditors who do not want to take muxd's own word for it.

Written from docs/recording-format.md alone; it shares no line with the daemon. Debian: python3-cryptography,
python3-zstandard. It changes nothing and needs no daemon.

  mrec.py events FILE.mrec                 each event, a JSON object a line, as `muxctl export --format json` writes them
  mrec.py log RECORD                       each entry of the chain log, a JSON object a line
  mrec.py merged RECORD                    each entry of other logs that this one took in, a JSON object a line
  mrec.py check [--key PUB]... FILE|RECORD is anything changed, is anything missing? RECORD: the folder record/ of a state
                                           directory, whose keys are taken from ../keys/record unless --key names others

`check` prints one JSON object: what was read, and findings by the codes of docs/recording-format.md. It stops at the first
damage within a recording, since it only has to notice, not to find a way round. Exit status: 0 nothing found, 1 something
was changed, 2 something is missing, 3 both, 64 wrong use.
"""
import base64
import datetime
import hashlib
import hmac
import json
import os
import stat
import struct
import sys
import uuid
import zlib

import zstandard
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

HEADER_MAX, RAW_MAX, INDEX_MAX, PAYLOAD_MAX = 256 << 10, 4 << 20, 128 << 20, 131072
BLOCK, FOOTER, SIGNED, ENTRY, LINE = 104, 232, 168, 64, 8 + 104 + 32
CRITICAL = 0x8000
STREAMS = ("input", "output", "stderr")
TYPES = {1: "open", 2: "data", 3: "resize", 4: "event", 5: "exit", 6: "audit", 7: "clock", 8: "secret", 64: "gap", 65: "missing"}
OPEN, DATA, RESIZE, EXIT, CLOCK, SECRET, GAP, MISSING = 1, 2, 3, 5, 7, 8, 64, 65
RULES = ("full", "truncated", "metadata")
M64 = (1 << 64) - 1


class Damage(Exception):
    """What was found, by its code, and in words."""

    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


def link(before, *parts):
    h = hashlib.sha256(before)
    for p in parts:
        h.update(p)
    return h.digest()


def signed_by(key, purpose, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, purpose + b"\0" + message)
        return True
    except InvalidSignature:
        return False


def key_id(key):
    return hashlib.sha256(key).hexdigest()[:16]


def key_load(path):
    """A .pub file: the 32 bytes of the key as base64url without padding, and a line feed."""
    with open(path, "rb") as f:
        text = f.read(4096).strip()
    key = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    if len(key) != 32:
        raise ValueError("%s holds no public key" % path)
    return key


def fields(data, code):
    at, seen = 0, set()
    while at < len(data):
        if len(data) - at < 8:
            raise Damage(code, "a field is cut short")
        tag, flags, n = struct.unpack_from("<HHI", data, at)
        if n > len(data) - at - 8:
            raise Damage(code, "a field is longer than what holds it")
        if tag in seen and tag <= 6:  # what nobody knows is skipped, however often it stands there
            raise Damage(code, "field %d stands there twice" % tag)
        seen.add(tag)
        yield tag, flags & 1, data[at + 8:at + 8 + n]
        at += 8 + n


# ---- a recording

class Block:
    """A block's header: docs/recording-format.md, Block."""

    def __init__(self, head):
        (magic, self.type, self.codec, self.flags, self.number, self.events, self.raw, self.stored, self.first_ns, self.last_ns,
         self.first_seq, self.last_seq) = struct.unpack_from("<4sBBHIIIIQQQQ", head)
        self.offset = list(struct.unpack_from("<3Q", head, 56))
        self.cols, self.rows, zero, self.wall_ns, self.crc, own = struct.unpack_from("<HHIqII", head, 80)
        if magic != b"MBLK" or own != zlib.crc32(head[:100]):
            raise Damage("block_changed", "no header of a block")
        if self.raw > (INDEX_MAX if self.type == 3 else RAW_MAX) or self.stored > self.raw or (self.codec == 1 and self.stored != self.raw):
            raise Damage("block_changed", "a block of impossible sizes")
        self.head = head
        self.size = BLOCK + self.stored + 32

    def unpack(self, stored):
        try:
            if self.codec == 1:
                raw = stored
            elif self.codec == 2:  # exactly one frame
                frame = zstandard.ZstdDecompressor().decompressobj()
                raw = frame.decompress(stored)
                if frame.unused_data:
                    raise ValueError("bytes behind the frame")
            elif self.codec == 3:
                frame = zlib.decompressobj()
                raw = frame.decompress(stored, self.raw + 1)
                if not frame.eof or frame.unused_data:
                    raise ValueError("bytes behind the stream, or no end")
            else:
                raise ValueError("codec %d" % self.codec)
            if len(raw) != self.raw:
                raise ValueError("%d bytes, not %d" % (len(raw), self.raw))
        except (ValueError, zlib.error, zstandard.ZstdError) as e:
            raise Damage("block_unpack", "block %d does not unpack: %s" % (self.number, e)) from e
        return raw


class Event:
    __slots__ = ("type", "stream", "flags", "seq", "ns", "offset", "payload", "extent")


def varint(data, at):
    v = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damage("event_malformed", "a number is cut short")
        b = data[at]
        at += 1
        v |= (b & 0x7f) << shift
        shift += 7
        if not b & 0x80:
            if v > M64:
                raise Damage("event_malformed", "a number over 64 bits")
            return v, at


def unzigzag(v):
    return (v >> 1) ^ (M64 if v & 1 else 0)


def events_of(raw):
    """The events of one block: differences from zero at its start."""
    seq = ns = at = 0
    expected = [0, 0, 0]
    while at < len(raw):
        e = Event()
        if len(raw) - at < 2 or raw[at + 1] > 2:
            raise Damage("event_malformed", "no event at byte %d" % at)
        e.type, e.stream = raw[at], raw[at + 1]
        at += 2
        numbers = []
        for _ in range(5):
            v, at = varint(raw, at)
            numbers.append(v)
        e.flags, n = numbers[0], numbers[1]
        if e.flags > 0xffff or n > min(PAYLOAD_MAX, len(raw) - at):
            raise Damage("event_malformed", "an event of impossible length")
        e.payload = raw[at:at + n]
        at += n
        seq = e.seq = (seq + unzigzag(numbers[2])) & M64
        ns = e.ns = (ns + unzigzag(numbers[3])) & M64
        placed = e.type in (DATA, GAP, MISSING)
        e.offset = ((expected[e.stream] if placed else 0) + unzigzag(numbers[4])) & M64
        e.extent = 0
        if e.type == DATA:
            e.extent = n
        elif (e.type, n) in ((GAP, 64), (MISSING, 8)):
            e.extent = struct.unpack_from("<Q", e.payload)[0]
        if placed:
            expected[e.stream] = (e.offset + e.extent) & M64
        yield e


class Recording:
    """One .mrec file. Its header is read when it is opened; blocks() proves what it gives out."""

    def __init__(self, path):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        self.f = os.fdopen(fd, "rb")
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Damage("header_unreadable", "no regular file")
        self.path, self.size = path, os.fstat(fd).st_size
        self.read_header()
        self.read_end()

    def read_header(self):
        front = self.f.read(16)
        if len(front) < 16 or front[:8] != b"MUXDREC\n":
            raise Damage("header_unreadable", "no recording of muxd")
        major, self.minor, n = struct.unpack_from("<HHI", front, 8)
        if major != 1 or not 48 <= n <= min(HEADER_MAX, self.size):
            raise Damage("header_unreadable", "another version, or an impossible length")
        whole = front + self.f.read(n - 16)
        self.hash = link(bytes(32), whole[:-32])
        seen = {}
        for tag, critical, data in fields(whole[16:-32], "header_unreadable"):
            if critical and tag not in (1, 2, 3, 4, 5):
                raise Damage("header_unreadable", "a critical field %d that nobody knows" % tag)
            seen[tag] = data
        if not {1, 2, 3, 4, 5} <= set(seen):
            raise Damage("header_unreadable", "a field is missing")
        self.session, self.salt, self.open = uuid.UUID(bytes=seen[1]), seen[2], seen[3]
        self.open_seq, self.open_ns, self.wall_ns = struct.unpack("<QQq", seen[4])
        self.start = self.pos = n
        if self.hash != whole[-32:]:
            raise Damage("header_changed", "the header was changed")

    def read_end(self):
        self.footer = None
        if self.size < self.start + FOOTER:
            return
        self.f.seek(self.size - FOOTER)
        end = self.f.read(FOOTER)
        if end[:8] != b"MRECEND\n" or struct.unpack_from("<I", end, 8)[0] != FOOTER:
            return
        self.footer = end
        (self.blocks_said, self.size_said, self.index_pos, self.index_size, self.last_hash, log, self.chain_seq, self.chain_hash,
         self.sealed_wall, kid, session) = struct.unpack_from("<IQQQ32s16sQ32sq16s16s", end, 12)
        self.log_id, self.kid, self.of = uuid.UUID(bytes=log), kid.decode("ascii", "replace"), uuid.UUID(bytes=session)

    def leaf(self):
        return hmac.new(self.salt, b"muxd leaf 1\0" + self.footer[:SIGNED], hashlib.sha256).digest()

    def next_block(self):
        """A block and its payload, unpacked, once its hash follows what stands before it; None at the end."""
        end = self.size - (FOOTER if self.footer else 0)
        if end - self.pos < BLOCK + 32:
            return None
        self.f.seek(self.pos)
        block = Block(self.f.read(BLOCK))
        if block.size > end - self.pos:
            raise Damage("block_changed", "block %d reaches behind the end" % block.number)
        stored, said = self.f.read(block.stored), self.f.read(32)
        if zlib.crc32(stored) != block.crc or link(self.hash, block.head, stored) != said:
            raise Damage("block_changed", "block %d was changed" % block.number)
        block.pos, block.hash = self.pos, said
        self.hash = said
        self.pos += block.size
        return block, block.unpack(stored)

    def blocks(self):
        """Each block of events; the index, where there is one, is kept as self.index."""
        self.index, self.lines, n = None, b"", 0
        while True:
            try:
                found = self.next_block()
            except Damage:
                if self.footer:
                    raise
                return  # an open recording ends after any block; what is torn there is made again
            if not found:
                return
            block, raw = found
            if block.number != n:
                raise Damage("block_number", "block %d stands where block %d should" % (block.number, n))
            n += 1
            if block.type == 3:
                self.index = raw
                return
            self.lines += struct.pack("<Q", block.pos) + bytes(4) + block.head[4:] + block.hash
            if block.type == 1:
                yield block, raw
            elif block.flags & CRITICAL:
                raise Damage("block_unknown", "block %d is of type %d" % (block.number, block.type))

    def events(self):
        for block, raw in self.blocks():
            n = 0
            for e in events_of(raw):
                n += 1
                yield e
            if n != block.events:
                raise Damage("event_count", "block %d holds %d events, its header says %d" % (block.number, n, block.events))


def clock(ns):
    t = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ns // 1000000)
    return t.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (ns // 1000000 % 1000)


def bytes_json(o, data):
    try:
        text = data.decode("utf-8")
        if "\0" not in text:
            o.update(data=text, encoding="utf-8")
            return
    except UnicodeDecodeError:
        pass
    o.update(data=base64.b64encode(data).decode(), encoding="base64")


def unique(pairs):
    o = dict(pairs)
    if len(o) != len(pairs):
        raise ValueError("a name stands twice")
    return o


def unbase64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def json_of(data):
    """Strict: UTF-8, an object or a list, each name once. None when it is not."""
    try:
        o = json.loads(data.decode("utf-8"), object_pairs_hook=unique)
        return o if isinstance(o, (dict, list)) else None
    except (ValueError, RecursionError):
        return None


def event_json(r, e, anchor):
    if e.type in (OPEN, CLOCK):
        o = json_of(e.payload)
        if e.type == OPEN and anchor[0] is None:
            anchor[:] = [e.ns, 0]
        if o and isinstance(o.get("wall_ns"), int):
            anchor[:] = [e.ns, o["wall_ns"]]
    o = {"type": TYPES.get(e.type, "unknown"), "seq": e.seq, "time": clock(anchor[1] + e.ns - anchor[0]), "boot_ns": e.ns}
    if e.type == OPEN:
        o["session"] = str(r.session)
    if e.type in (DATA, GAP, MISSING):
        o.update(stream=STREAMS[e.stream], offset=e.offset)
    if e.type == DATA:
        if e.flags & 1:
            o["masked"] = True
        bytes_json(o, e.payload)
    elif e.type == GAP:
        o.update(bytes=e.extent, sha256_to_end=e.payload[32:64].hex(), rule=RULES[e.payload[24]] if e.payload[24] < 3 else "unknown")
    elif e.type == MISSING:
        o["bytes"] = e.extent
    elif e.type == RESIZE:
        o["cols"], o["rows"] = struct.unpack_from("<HH", e.payload)
    elif e.type == SECRET:
        o["bytes"] = struct.unpack_from("<Q", e.payload)[0]
    else:
        body = json_of(e.payload)
        if body is None:
            bytes_json(o, e.payload)
        else:
            o["body"] = body
    return o


class Check:
    """What is found, by code. Integrity: is anything changed? Completeness: is anything missing?"""

    MISSING = {"block_missing", "bytes_lost", "offset_jump", "no_exit", "not_sealed", "log_torn", "log_missing", "recording_missing",
               "rolled_back"}
    STATES = {"seal_pending"}  # of a record at work: worth knowing, no finding; so is a session that is open

    def __init__(self, keys):
        self.keys = {key_id(k): k for k in keys}
        self.findings = []

    def found(self, code, where, words, state=False):
        kind = "note" if state or code in self.STATES else "completeness" if code in self.MISSING else "integrity"
        self.findings.append({"class": kind, "code": code, "path": where, "message": words})

    def verdict(self):
        kinds = {f["class"] for f in self.findings}
        return {"intact": "integrity" not in kinds, "complete": "completeness" not in kinds, "findings": self.findings}

    def recording(self, path, sealed):
        """Reads a whole recording. None when it cannot be read."""
        try:
            r = Recording(path)
        except Damage as e:
            self.found(e.code, path, str(e))
            return None
        except OSError as e:
            self.found("header_unreadable", path, e.strerror)
            return None
        with r.f:
            try:
                self.contents(r, sealed)
            except Damage as e:
                self.found(e.code, path, str(e))
        if os.path.basename(path) != "%s.mrec" % r.session:
            self.found("name_differs", path, "it holds session %s" % r.session)
        if not r.footer:
            self.found("footer_missing" if sealed else "not_sealed", path, "the recording is not sealed", not sealed)
        return r

    def contents(self, r, sealed):
        tally = [{"total": 0, "kept": 0, "omitted": 0, "missing": 0} for _ in STREAMS]
        digests, at, whole = [hashlib.sha256() for _ in STREAMS], [0, 0, 0], [True] * 3
        n = seq = last_ns = 0
        ended = None
        for e in r.events():
            n += 1
            if e.seq < seq:
                raise Damage("order", "event %d follows event %d" % (e.seq, seq))
            seq, last_ns = e.seq, e.ns
            if e.type == EXIT:
                ended = e.payload
            if e.type not in (DATA, GAP, MISSING):
                continue
            s, t = e.stream, tally[e.stream]
            if e.offset != at[s] and e.extent:
                self.found("offset_jump", r.path, "%s goes on at byte %d where byte %d was expected" % (STREAMS[s], e.offset, at[s]))
                whole[s] = False
            at[s] = e.offset + e.extent
            if e.type == DATA:
                digests[s].update(e.payload)
                t["kept"] += e.extent
                t["total"] += e.extent
            elif e.type == GAP:
                t["omitted"] += e.extent
                t["total"] += e.extent
                whole[s] = False  # the kept tail stands under the hashes and the signature alone
            elif e.extent:
                t["missing"] += e.extent
                self.found("bytes_lost", r.path, "the journal lost %d bytes of %s at byte %d" % (e.extent, STREAMS[s], e.offset))
        if ended is None:
            self.found("no_exit", r.path, "the session's end is not in the recording", not sealed and not r.footer)
        said = self.index(r, n, tally, digests, whole) if r.footer else None
        self.exit(r, ended, at, tally, said)

    def index(self, r, n, tally, digests, whole):
        if r.index is None:
            raise Damage("index_unreadable", "there is a footer and no index")
        seen = {}
        for tag, critical, data in fields(r.index, "index_changed"):
            if critical and tag not in (1, 2, 4):
                raise Damage("index_changed", "a critical field %d that nobody knows" % tag)
            seen[tag] = data
        if not {1, 2, 4} <= set(seen) or len(seen[2]) != 3 * 64 or len(seen[4]) != 24 or seen[1] != r.lines:
            raise Damage("index_changed", "the index is not that of these blocks")
        if struct.unpack("<QQQ", seen[4])[0] != n:
            raise Damage("index_changed", "%d events, the index counts others" % n)
        said = []
        for i, name in enumerate(STREAMS):
            values = dict(zip(("total", "kept", "omitted", "missing"), struct.unpack_from("<QQQQ", seen[2], 64 * i)))
            said.append(seen[2][64 * i + 32:64 * i + 64])
            if values != tally[i]:
                self.found("totals_differ", r.path, "%s: the events count %s, the index %s" % (name, tally[i], values))
            if whole[i] and digests[i].digest() != said[i]:
                self.found("digest_differs", r.path, "%s does not have the SHA-256 that the index holds" % name)
        self.footer(r)
        return said

    def footer(self, r):
        index_end = r.pos
        if (r.index_pos + r.index_size != index_end or r.blocks_said * LINE != len(r.lines) or r.last_hash != r.hash
                or r.of != r.session or index_end + FOOTER != r.size):
            self.found("footer_changed", r.path, "the footer does not belong to the blocks in front of it")
        if r.size_said != r.size:
            self.found("size_differs", r.path, "the file has %d bytes, sealed were %d" % (r.size, r.size_said))
        key = self.keys.get(r.kid)
        if key is None:
            self.found("key_unknown", r.path, "its key is none of those that are known")
        elif not signed_by(key, b"muxd recording 1", r.footer[:SIGNED], r.footer[SIGNED:]):
            self.found("footer_changed", r.path, "the footer does not have the signature that it bears")

    def exit(self, r, ended, at, tally, said):
        o = json_of(ended) if ended else None
        if not isinstance(o, dict):
            return
        totals = o.get("totals")
        for i, v in enumerate(totals[:3] if isinstance(totals, list) else []):
            if isinstance(v, int) and v > at[i]:
                self.found("bytes_lost", r.path, "%s ended at byte %d, the recording ends at byte %d" % (STREAMS[i], v, at[i]))
        told = o.get("sha256")
        for i, name in ((1, "stdout"), (2, "stderr")):
            v = told.get(name) if isinstance(told, dict) else None
            if said and isinstance(v, str) and len(v) == 64 and not tally[i]["missing"] and v != said[i].hex():
                self.found("exit_digest_differs", r.path, "%s: its SHA-256 is not the one that was told at the exit" % name)


# ---- the chain log

class Entry:
    __slots__ = ("type", "critical", "seq", "journal_seq", "wall_ns", "session", "payload", "hash", "prev")


def log_files(folder):
    names = [n for n in os.listdir(folder) if n.endswith(".mchain") and n[:-7].isdigit()]
    return sorted(names, key=lambda n: int(n[:-7]))


def log_entries(folder, out_id):
    """Each entry of the log, its hash compared. out_id becomes [log id]."""
    before, seq, number = None, 0, 0
    for name in log_files(folder):
        path = os.path.join(folder, name)
        number += 1
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as f:
            head = f.read(88)
            if len(head) < 88 or head[:8] != b"MUXDCHN\n" or zlib.crc32(head[:80]) != struct.unpack_from("<I", head, 80)[0]:
                raise Damage("log_changed", "%s has no header of a log" % name)
            major, _, own, log, first, _, prev = struct.unpack_from("<HHI16sQQ32s", head, 8)
            if before is None:
                before = link(bytes(32), b"muxd chain 1\0", log)
                out_id.append(uuid.UUID(bytes=log))
            if major != 1 or own != number or int(name[:-7]) != number or prev != before or first != seq + 1 or uuid.UUID(bytes=log) != out_id[0]:
                raise Damage("log_changed", "%s does not follow what stands before it" % name)
            while True:
                front = f.read(ENTRY)
                if not front:
                    break
                if len(front) < ENTRY:
                    raise Damage("log_torn", "%s ends within an entry" % name)
                magic, kind, _, n, _, at, journal, wall, session, _, crc = struct.unpack("<4sHHIIQQq16sII", front)
                if magic != b"MENT" or crc != zlib.crc32(front[:60]) or n > PAYLOAD_MAX or at != seq + 1:
                    raise Damage("log_changed", "no entry %d in %s" % (seq + 1, name))
                payload, said = f.read(n), f.read(32)
                if len(said) < 32:
                    raise Damage("log_torn", "%s ends within entry %d" % (name, at))
                if link(before, front, payload) != said:
                    raise Damage("log_changed", "entry %d of %s was changed" % (at, name))
                e = Entry()
                e.type, e.critical, e.seq, e.journal_seq, e.wall_ns = kind & ~CRITICAL, kind & CRITICAL != 0, at, journal, wall
                e.session, e.payload, e.prev, e.hash = uuid.UUID(bytes=session), payload, before, said
                before, seq = said, at
                yield e


def merged_entries(record, o, before, seq):
    """The entries of a batch of another log, which an entry o of this one tells of, behind (hash, sequence)."""
    log, key, signature = uuid.UUID(o["log_id"]), unbase64(o["key"]), unbase64(o["signature"])
    path = os.path.join(record, "merged", "%s.entries" % log)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as f:
        f.seek(o["at"])
        data = f.read(o["size"])
    where = "entries %d to %d of the log of %s" % (o["after"] + 1, o["until"], o["name"])
    digest = hashlib.sha256(data).digest()
    message = log.bytes + struct.pack("<Q", o["after"]) + digest
    if digest.hex() != o["sha256"] or not signed_by(key, b"muxd witness batch 1", message, signature):
        raise Damage("merged_changed", "%s: digest or signature differ" % where)
    if o["after"] != seq:
        raise Damage("merged_changed", "%s do not follow entry %d" % (where, seq))
    at = 0
    while at < len(data):
        front = data[at:at + ENTRY]
        if len(front) < ENTRY:
            raise Damage("merged_changed", "%s end within one" % where)
        magic, kind, _, n, _, own, journal, wall, session, _, crc = struct.unpack("<4sHHIIQQq16sII", front)
        payload = data[at + ENTRY:at + ENTRY + n]
        if magic != b"MENT" or crc != zlib.crc32(front[:60]) or len(payload) != n or own != seq + 1:
            raise Damage("merged_changed", "%s: no entry %d" % (where, seq + 1))
        e = Entry()
        e.type, e.critical, e.seq, e.journal_seq, e.wall_ns = kind & ~CRITICAL, kind & CRITICAL != 0, own, journal, wall
        e.session, e.payload, e.prev, e.hash = uuid.UUID(bytes=session), payload, before, link(before, front, payload)
        before, seq, at = e.hash, own, at + ENTRY + n
        yield e
    if before.hex() != o["hash"] or seq != o["until"]:
        raise Damage("merged_changed", "%s end elsewhere" % where)


def merged_batch(record, places, o):
    """The next batch; places: how far each log is."""
    log = uuid.UUID(o["log_id"]).bytes
    before, seq, size = places.get(log, (link(bytes(32), b"muxd chain 1\0", log), 0, 0))
    places[log] = (bytes.fromhex(o["hash"]), o["until"], o["at"] + o["size"])
    if o["at"] != size:
        raise Damage("merged_changed", "the batch behind entry %d of the log of %s stands elsewhere" % (o["after"], o["name"]))
    yield from merged_entries(record, o, before, seq)


class Log:
    """The log as its heads vouch for it."""

    def __init__(self, check):
        self.check, self.seals, self.erased = check, {}, {}
        self.entries, self.vouched, self.waiting, self.announced = 0, 0, [], {}
        self.last = None
        self.merged, self.places = 0, {}
        self.id = []

    def head(self, e):
        if len(e.payload) != 88:
            self.check.found("head_malformed", "", "entry %d is no head" % e.seq)
            return
        wall, kid, signature = struct.unpack("<q16s64s", e.payload)
        kid = kid.decode("ascii", "replace")
        message = self.id[0].bytes + struct.pack("<Q", e.seq - 1) + e.prev + struct.pack("<q", wall)
        key = self.check.keys.get(kid)
        if key is None and kid in self.announced and signed_by(self.announced[kid], b"muxd chain head 1", message, signature):
            return  # sound, and as good as its key: a later head may vouch for that
        if key is None or not signed_by(key, b"muxd chain head 1", message, signature):
            self.check.found("head_signature", "", "the head in entry %d is not signed by a known key" % e.seq)
            return
        self.vouched = e.seq - 1
        self.last = {"seq": e.seq - 1, "wall_ns": wall, "kid": kid}
        self.check.keys.update(self.announced)
        self.announced = {}
        for seal, to in self.waiting:
            to[seal["session"]] = seal
        self.waiting = []

    def seal(self, e):
        o = json_of(e.payload)
        if not isinstance(o, dict) or not {"leaf", "day", "size"} <= set(o):
            self.check.found("entry_malformed", "", "entry %d cannot be read" % e.seq)
            return
        o["session"] = e.session
        if e.type == 2:
            if e.session in self.seals and self.seals[e.session]["leaf"] != o["leaf"]:
                self.check.found("seal_repeated", "", "two different seals for session %s" % e.session)
            self.seals[e.session] = o
        else:
            if e.session not in self.seals:
                self.check.found("tombstone_alone", "", "the log erases session %s, which it never had" % e.session)
            self.waiting.append((o, self.erased))  # only one that a head vouches for excuses what is missing

    def key(self, e):
        o = json_of(e.payload)
        try:
            text = o["public_key"]
            key = unbase64(text)
            if o["kid"] != key_id(key):
                raise ValueError
        except (TypeError, KeyError, ValueError):
            self.check.found("entry_malformed", "", "entry %d announces no key" % e.seq)
            return
        if o["kid"] not in self.check.keys:
            self.announced[o["kid"]] = key

    def batch(self, e, record):
        try:
            self.merged += sum(1 for _ in merged_batch(record, self.places, json_of(e.payload)))
        except Damage as d:
            self.check.found(d.code, "", str(d))
        except (TypeError, KeyError, ValueError, OSError) as d:
            self.check.found("merged_changed", "", "entry %d: %s" % (e.seq, d))

    def read(self, folder):
        take = {2: self.seal, 3: self.seal, 4: self.head, 5: self.key, 11: lambda e: self.batch(e, os.path.dirname(folder))}
        try:
            for e in log_entries(folder, self.id):
                self.entries += 1
                if e.type in take:
                    take[e.type](e)
                elif e.critical and e.type not in (1, 8):
                    raise Damage("entry_malformed", "entry %d is of type %d, which must be known" % (e.seq, e.type))
        except Damage as e:
            self.check.found(e.code, folder, str(e))
        if not self.entries:
            self.check.found("log_missing", folder, "there is no log")
        elif not self.vouched:
            self.check.found("log_unsigned", folder, "no head is signed by a key that was given")


def check_record(check, record):
    """The log first, for it announces keys; then each file, and each against the other."""
    log = Log(check)
    log.read(os.path.join(record, "chain"))
    seen, n, opened = set(), 0, 0
    sealed = os.path.join(record, "sealed")
    for day in sorted(os.listdir(sealed)) if os.path.isdir(sealed) else []:
        for name in sorted(os.listdir(os.path.join(sealed, day))):
            if not name.endswith(".mrec"):
                continue
            path = os.path.join(sealed, day, name)
            r = check.recording(path, True)
            n += 1
            if not r or not r.footer:
                continue
            if r.session in seen:
                check.found("recording_repeated", path, "a session has two recordings")
            seen.add(r.session)
            said = log.seals.get(r.session)
            if said is None:
                check.found("seal_pending" if signed(check, r) else "recording_unknown", path, "the log does not know it")
            elif said["leaf"] != r.leaf().hex():
                check.found("leaf_differs", path, "it is not the one that the log knows")
            elif said["day"] != day:
                check.found("day_differs", path, "the log has it under %s" % said["day"])
    folder = os.path.join(record, "open")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".mrec"):
            check.recording(os.path.join(folder, name), False)
            opened += 1
    for session in log.seals:
        if session not in seen and session not in log.erased and not any(
                str(session) in f["path"] for f in check.findings):
            check.found("recording_missing", "", "session %s is in the log and not on the disk" % session)
    return {"recordings": n, "open": opened, "entries": log.entries, "removed": len(log.erased), "merged": log.merged, "head": log.last}


def signed(check, r):
    key = check.keys.get(r.kid)
    return bool(key) and signed_by(key, b"muxd recording 1", r.footer[:SIGNED], r.footer[SIGNED:])


# ---- commands

def say(o):
    sys.stdout.write(json.dumps(o, ensure_ascii=False, separators=(",", ":")) + "\n")


def command_events(path):
    anchor = [None, 0]
    r = Recording(path)
    with r.f:
        for e in r.events():
            say(event_json(r, e, anchor))
    return 0


def command_log(record):
    for e in log_entries(os.path.join(record, "chain"), []):
        body = json_of(e.payload)
        say({"seq": e.seq, "type": e.type, "time": clock(e.wall_ns), "session": None if e.session.int == 0 else str(e.session),
             "payload": e.payload.hex() if body is None else body, "hash": e.hash.hex()})
    return 0


def command_merged(record):
    places = {}
    for batch in log_entries(os.path.join(record, "chain"), []):
        o = json_of(batch.payload) if batch.type == 11 else None
        for e in merged_batch(record, places, o) if o else ():
            body = json_of(e.payload)
            say({"name": o["name"], "log_id": o["log_id"], "seq": e.seq, "type": e.type, "time": clock(e.wall_ns),
                 "payload": e.payload.hex() if body is None else body})
    return 0


def command_check(args):
    keys, paths = [], []
    while args:
        if args[0] == "--key" and len(args) > 1:
            keys.append(key_load(args[1]))
            args = args[2:]
        else:
            paths.append(args.pop(0))
    if len(paths) != 1:
        raise ValueError("check wants one file or folder")
    path = paths[0].rstrip("/")
    folder = os.path.join(os.path.dirname(os.path.abspath(path)), "keys", "record")
    if not keys and os.path.isdir(path) and os.path.isdir(folder):
        keys = [key_load(os.path.join(folder, n)) for n in sorted(os.listdir(folder)) if n.endswith(".pub")]
    if not keys:
        raise ValueError("no public key: name it by --key")
    check = Check(keys)
    given = sorted(check.keys)
    if os.path.isdir(path):
        what = check_record(check, path)
    else:
        r = check.recording(path, os.path.basename(os.path.dirname(os.path.abspath(path))) != "open")
        what = {"session": str(r.session) if r else None}
    verdict = check.verdict()
    say({**what, "keys": given, **verdict})
    return (0 if verdict["intact"] else 1) | (0 if verdict["complete"] else 2)


def main(argv):
    try:
        if len(argv) == 3 and argv[1] == "events":
            return command_events(argv[2])
        if len(argv) == 3 and argv[1] == "log":
            return command_log(argv[2])
        if len(argv) == 3 and argv[1] == "merged":
            return command_merged(argv[2])
        if len(argv) >= 3 and argv[1] == "check":
            return command_check(argv[2:])
    except Damage as e:
        sys.stderr.write("mrec.py: %s: %s\n" % (e.code, e))
        return 1
    except (ValueError, OSError) as e:
        sys.stderr.write("mrec.py: %s\n" % e)
        return 64
    sys.stderr.write(__doc__)
    return 64


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv))
    except BrokenPipeError:
        os._exit(141)
