#!/usr/bin/python3
"""Changes a copy of a record in every way of the table in docs/security.md, and asks muxctl verify.

tamper.py DIR SECURITY.md: DIR holds base/ (a record), keys/ (every key of it, seeds too), head1..head3 (exported in that order, the
last one the newest that witnesses have), mount/heads.jsonl (of a witness that is a file). OTHER_URL, OTHER_CA: of another muxd.
The log is read and written here by what docs/recording-format.md says, so that whoever holds the true keys can be played.
Each kind says what it did; the table says which findings name it.
"""
import glob, hashlib, json, os, random, re, resource, shutil, socket, stat, struct, subprocess, sys, time, zlib

sys.dont_write_bytecode = True
import derived
from chainlog import ENTRY, Entry, Key, b64, entry_new, keys_in, log_entries, log_path, log_places, log_write, sha

DIR, TABLE = sys.argv[1], sys.argv[2]
MUXCTL = os.environ["MUXCTL"]
SEED = int(os.environ.get("SEED", str(int(time.time()))))
TRIES = int(os.environ.get("TRIES", "1"))
REWRITES = int(os.environ.get("REWRITES", "20"))
rng = random.Random(SEED)
BLOCK, FOOTER = 104, 232
KINDS = {}

KEYS = keys_in(DIR + "/keys")
STRANGER = Key(bytes([7] * 32))
HEADS = [json.load(open(DIR + "/head%d" % n)) for n in (1, 2, 3)]


# ---- the log

def true_key(kid):
    return KEYS[kid]


def audit_entries(entries, first=0, last=1 << 62):
    return [i for i, e in enumerate(entries) if e.type == 1 and first < e.seq <= last]


def with_edit(e):
    o = json.loads(e.payload)
    o["by"] = "uid 4711"
    return e.with_payload(json.dumps(o).encode())


# ---- recordings

def sealed(copy):
    return sorted(glob.glob(copy + "/sealed/*/*.mrec"))


def large(copy):
    return [p for p in sealed(copy) if len(blocks(p)) > 3]


def session_of(path):
    return bytes.fromhex(os.path.basename(path)[:-5].replace("-", ""))


def vouched(paths, entries):
    """Those whose seal stands in front of the last head that is kept outside."""
    old = {e.session for e in entries if e.type == 2 and e.seq < HEADS[2]["seq"]}
    return [p for p in paths if session_of(p) in old]


def blocks(path):
    """[(position, size, type)]."""
    data = open(path, "rb").read()
    at, out = struct.unpack_from("<I", data, 12)[0], []
    while data[at:at + 4] == b"MBLK":
        n = BLOCK + struct.unpack_from("<I", data, at + 20)[0] + 32
        out.append((at, n, data[at + 4]))
        at += n
    return out


def flip(path, low, high):
    with open(path, "r+b") as f:
        at = rng.randrange(low, high)
        f.seek(at)
        b = f.read(1)[0]
        f.seek(at)
        f.write(bytes([b ^ 1 << rng.randrange(8)]))
    return "bit at %d of %s" % (at, path[len(DIR):])


def spliced(path, data):
    with open(path, "wb") as f:
        f.write(data)


def resigned(path, key, data=None):
    """Every hash and the footer made anew, by this key."""
    data = bytearray(data or open(path, "rb").read())
    n = struct.unpack_from("<I", data, 12)[0]
    h = data[n - 32:n] = sha(bytes(32), bytes(data[:n - 32]))
    at = n
    while data[at:at + 4] == b"MBLK":
        size = BLOCK + struct.unpack_from("<I", data, at + 20)[0] + 32
        struct.pack_into("<I", data, at + 96, zlib.crc32(data[at + BLOCK:at + size - 32]))
        struct.pack_into("<I", data, at + 100, zlib.crc32(data[at:at + 100]))
        h = data[at + size - 32:at + size] = sha(bytes(h), bytes(data[at:at + size - 32]))
        at += size
    foot = len(data) - FOOTER
    data[foot + 40:foot + 72] = h
    data[foot + 136:foot + 152] = key.kid.encode()
    data[foot + 168:] = key.sign(b"muxd recording 1", bytes(data[foot:foot + 168]))
    spliced(path, data)


def kind(name):
    def keep(f):
        KINDS[name] = f
        return f
    return keep


def part(name, low, high, paths=large):
    """A bit in one part of a recording: low and high of (path, blocks)."""
    def change(copy):
        p = rng.choice(paths(copy))
        return flip(p, low(p), high(p))
    KINDS[name] = change


def event_block(path):
    return rng.choice([b for b in blocks(path) if b[2] == 1])


def in_block(name, low, high):
    def change(copy):
        p = rng.choice(large(copy))
        at, n, _ = event_block(p)
        return flip(p, at + low(n), at + high(n))
    KINDS[name] = change


size = os.path.getsize
part("recording: header", lambda p: 0, lambda p: struct.unpack_from("<I", open(p, "rb").read(16), 12)[0] - 32)
part("recording: hash of the header", lambda p: struct.unpack_from("<I", open(p, "rb").read(16), 12)[0] - 32, lambda p: struct.unpack_from("<I", open(p, "rb").read(16), 12)[0])
in_block("recording: header of a block", lambda n: 0, lambda n: BLOCK)
in_block("recording: content of a block", lambda n: BLOCK, lambda n: n - 32)
in_block("recording: hash of a block", lambda n: n - 32, lambda n: n)
part("recording: index", lambda p: blocks(p)[-1][0], lambda p: sum(blocks(p)[-1][:2]))
part("recording: signed part of the footer", lambda p: size(p) - FOOTER, lambda p: size(p) - 64)
part("recording: signature", lambda p: size(p) - 64, lambda p: size(p))


@kind("recording: a page of zeros")
def _(copy):
    p = rng.choice(large(copy))
    with open(p, "r+b") as f:
        f.seek(rng.randrange(0, size(p) - 4096))
        f.write(bytes(4096))
    return p


@kind("recording: end cut off")
def _(copy):
    p = rng.choice(sealed(copy))
    os.truncate(p, rng.randrange(1, size(p)))
    return p


@kind("recording: footer cut off")
def _(copy):
    p = rng.choice(sealed(copy))
    os.truncate(p, size(p) - FOOTER)
    return p


@kind("recording: bytes put behind its end")
def _(copy):
    p = rng.choice(sealed(copy))
    with open(p, "ab") as f:
        f.write(rng.randbytes(rng.randrange(1, 5000)))
    return p


@kind("recording: bytes put into it")
def _(copy):
    p = rng.choice(sealed(copy))
    data, at = open(p, "rb").read(), rng.randrange(0, size(p))
    spliced(p, data[:at] + rng.randbytes(rng.randrange(1, 300)) + data[at:])
    return "%s at %d" % (p, at)


@kind("recording: bytes taken out of it")
def _(copy):
    p = rng.choice(large(copy))
    data, at = open(p, "rb").read(), rng.randrange(0, size(p) - 500)
    spliced(p, data[:at] + data[at + rng.randrange(1, 500):])
    return "%s at %d" % (p, at)


def moved_blocks(name, order):
    def change(copy):
        p = rng.choice(large(copy))
        data, bs = open(p, "rb").read(), blocks(p)
        i = rng.randrange(len(bs) - 2)
        body = b"".join(data[bs[n][0]:bs[n][0] + bs[n][1]] for n in order(list(range(len(bs))), i))
        spliced(p, data[:bs[0][0]] + body + data[sum(bs[-1][:2]):])
        return "%s, block %d" % (p, i)
    KINDS[name] = change


moved_blocks("recording: a block removed", lambda n, i: n[:i] + n[i + 1:])
moved_blocks("recording: a block repeated", lambda n, i: n[:i + 1] + n[i:])
moved_blocks("recording: two blocks exchanged", lambda n, i: n[:i] + [n[i + 1], n[i]] + n[i + 2:])


@kind("recording: a block of another one")
def _(copy):
    p, q = rng.sample(large(copy), 2)
    data, other, i = open(p, "rb").read(), open(q, "rb").read(), rng.randrange(len(blocks(p)) - 1)
    b, o = blocks(p)[i], event_block(q)
    spliced(p, data[:b[0]] + other[o[0]:o[0] + o[1]] + data[b[0] + b[1]:])
    return p


@kind("recording: removed")
def _(copy):
    p = rng.choice(sealed(copy))
    os.unlink(p)
    return p


@kind("recording: emptied")
def _(copy):
    p = rng.choice(sealed(copy))
    spliced(p, b"")
    return p


@kind("recording: two exchanged")
def _(copy):
    p, q = rng.sample(sealed(copy), 2)
    os.rename(p, copy + "/x")
    os.rename(q, p)
    os.rename(copy + "/x", q)
    return "%s, %s" % (p, q)


@kind("recording: copied over another")
def _(copy):
    p, q = rng.sample(sealed(copy), 2)
    shutil.copy(p, q)
    return q


@kind("recording: renamed")
def _(copy):
    p = rng.choice(sealed(copy))
    os.rename(p, os.path.dirname(p) + "/01936f0e-7c5a-7b1e-8f43-%012x.mrec" % rng.randrange(1 << 48))
    return p


def other_day(copy):
    day = copy + "/sealed/20%02d-0%d-%02d" % (rng.randrange(10, 25), rng.randrange(1, 10), rng.randrange(10, 29))
    os.makedirs(day, exist_ok=True)
    return day


@kind("recording: moved to another day")
def _(copy):
    p = rng.choice(sealed(copy))
    os.rename(p, other_day(copy) + "/" + os.path.basename(p))
    return p


@kind("recording: a second copy under another day")
def _(copy):
    p = rng.choice(sealed(copy))
    shutil.copy(p, other_day(copy))
    return p


@kind("recording: moved among the open ones")
def _(copy):
    p = rng.choice(sealed(copy))
    os.rename(p, copy + "/open/" + os.path.basename(p))
    return p


@kind("recording: sealed one made an open one")
def _(copy):
    p = rng.choice(large(copy))
    at = blocks(p)[rng.randrange(1, len(blocks(p)) - 1)][0]
    spliced(copy + "/open/" + os.path.basename(p), open(p, "rb").read()[:at])
    os.unlink(p)
    return p


@kind("recording: signed by a foreign key")
def _(copy):
    p = rng.choice(sealed(copy))
    resigned(p, STRANGER)
    return p


@kind("recording: signed by a foreign key under the true name")
def _(copy):
    p = rng.choice(sealed(copy))
    was, data = open(p, "rb").read(), None
    resigned(p, STRANGER)
    data = bytearray(open(p, "rb").read())
    data[-FOOTER + 136:-FOOTER + 152] = was[-FOOTER + 136:-FOOTER + 152]
    spliced(p, data)
    return p


@kind("recording: changed and signed by the true key")
def _(copy):
    p = rng.choice(large(copy))
    data = bytearray(open(p, "rb").read())
    kid = data[-FOOTER + 136:-FOOTER + 152].decode()
    struct.pack_into("<q", data, len(data) - FOOTER + 128, int(time.time() * 1e9) - rng.randrange(1 << 50))
    resigned(p, true_key(kid), data)
    return p


# ---- the open recording

def the_open(copy):
    return glob.glob(copy + "/open/*.mrec")[0]


@kind("open recording: a bit in a block")
def _(copy):
    p = the_open(copy)
    at, n, _ = rng.choice(blocks(p)[:-1])
    return flip(p, at + 8, at + n)


@kind("open recording: header")
def _(copy):
    p = the_open(copy)
    return flip(p, 0, struct.unpack_from("<I", open(p, "rb").read(16), 12)[0])


@kind("open recording: a block removed")
def _(copy):
    p = the_open(copy)
    bs, data = blocks(p), open(p, "rb").read()
    i = rng.randrange(len(bs) - 1)
    spliced(p, data[:bs[i][0]] + data[bs[i + 1][0]:])
    return p


# ---- the log

@kind("log: header of a file")
def _(copy):
    return flip(log_path(copy), 0, 84)


def in_entry(name, low, high, types=None):
    def change(copy):
        upto = min(h["seq"] for h in HEADS[2:])
        at, n, _ = rng.choice([x for i, x in enumerate(log_places(copy)) if (not types or x[2] in types) and x[1] and i < upto])
        return flip(log_path(copy), at + low(n), at + high(n))
    KINDS[name] = change


in_entry("log: header of an entry", lambda n: 0, lambda n: ENTRY)
in_entry("log: content of an entry", lambda n: ENTRY, lambda n: ENTRY + n)
in_entry("log: hash of an entry", lambda n: ENTRY + n, lambda n: ENTRY + n + 32)
in_entry("log: signature of a head", lambda n: ENTRY + 24, lambda n: ENTRY + n, (4,))
in_entry("log: a tombstone", lambda n: ENTRY, lambda n: ENTRY + n, (3,))


def moved_entries(name, order):
    def change(copy):
        data, at = open(log_path(copy), "rb").read(), log_places(copy)
        i = rng.randrange(1, HEADS[2]["seq"] - 1)
        body = b"".join(data[at[n][0]:at[n][0] + ENTRY + at[n][1] + 32] for n in order(list(range(len(at))), i))
        spliced(log_path(copy), data[:88] + body)
        return "entry %d" % (i + 1)
    KINDS[name] = change


moved_entries("log: an entry removed", lambda n, i: n[:i] + n[i + 1:])
moved_entries("log: an entry repeated", lambda n, i: n[:i + 1] + n[i:])
moved_entries("log: two entries exchanged", lambda n, i: n[:i] + [n[i + 1], n[i]] + n[i + 2:])


@kind("log: cut within an entry")
def _(copy):
    at, n, _ = rng.choice(log_places(copy)[1:HEADS[2]["seq"]])
    os.truncate(log_path(copy), at + rng.randrange(1, ENTRY + n + 32))
    return "at %d" % at


@kind("log: its newest entries cut off")
def _(copy):
    at = log_places(copy)[rng.randrange(HEADS[0]["seq"], HEADS[2]["seq"])][0]
    os.truncate(log_path(copy), at)
    return "at %d" % at


@kind("log: removed")
def _(copy):
    shutil.rmtree(copy + "/chain")
    return ""


def split(copy, parts=3):
    """The same entries in several files, as a log has them that has grown."""
    data, at = open(log_path(copy), "rb").read(), log_places(copy)
    cuts = sorted(rng.sample(range(3, HEADS[1]["seq"] - 1), parts - 1))
    audit = 0
    for n, (a, b) in enumerate(zip([0] + cuts, cuts + [len(at)]), 1):
        front = bytearray(data[:88])
        struct.pack_into("<I", front, 12, n)
        struct.pack_into("<QQ", front, 32, a + 1, audit)
        if a:
            front[48:80] = data[at[a][0] - 32:at[a][0]]
        struct.pack_into("<I", front, 80, zlib.crc32(front[:80]))
        for i in range(a, b):
            if at[i][2] == 1:
                audit = struct.unpack_from("<Q", data, at[i][0] + 24)[0]
        end = at[b][0] if b < len(at) else len(data)
        spliced(log_path(copy, n), front + data[at[a][0]:end])


@kind("log: a file removed")
def _(copy):
    split(copy)
    n = rng.randrange(1, 4)
    os.unlink(log_path(copy, n))
    return "file %d" % n


@kind("log: two files exchanged")
def _(copy):
    split(copy)
    a, b = rng.sample((1, 2, 3), 2)
    one, two = open(log_path(copy, a), "rb").read(), open(log_path(copy, b), "rb").read()
    spliced(log_path(copy, a), two)
    spliced(log_path(copy, b), one)
    return "files %d and %d" % (a, b)


@kind("log: an event changed, hashes made anew")
def _(copy):
    front, entries = log_entries(copy)
    i = rng.choice(audit_entries(entries, 0, HEADS[2]["seq"]))
    entries[i] = with_edit(entries[i])
    log_write(copy, front, entries)
    return "entry %d" % (i + 1)


@kind("log: another key put into an entry, hashes made anew")
def _(copy):
    front, entries = log_entries(copy)
    i = rng.choice([i for i, e in enumerate(entries) if e.type == 5])
    entries[i] = entries[i].with_payload(json.dumps({"kid": STRANGER.kid, "public_key": b64(STRANGER.public)}).encode())
    log_write(copy, front, entries)
    return "entry %d" % (i + 1)


@kind("log: a tombstone forged, its recording removed")
def _(copy):
    front, entries = log_entries(copy)
    p = rng.choice(sealed(copy))
    session = bytes.fromhex(os.path.basename(p)[:-5].replace("-", ""))
    seal = next(json.loads(e.payload) for e in entries if e.type == 2 and e.session == session)
    log_write(copy, front, entries + [entry_new(3, json.dumps(dict(seal, reason="retention", by="recorder")).encode(), session)])
    os.unlink(p)
    return p


@kind("log: a seal removed with its recording, hashes made anew")
def _(copy):
    front, entries = log_entries(copy)
    p = rng.choice(sealed(copy)[:-2])
    session = bytes.fromhex(os.path.basename(p)[:-5].replace("-", ""))
    log_write(copy, front, [e for e in entries if not (e.type == 2 and e.session == session)])
    os.unlink(p)
    return p


def key_entry(key):
    return entry_new(5, json.dumps({"kid": key.kid, "public_key": b64(key.public)}).encode())


def head_entry(key):
    return entry_new(4, struct.pack("<q", int(time.time() * 1e9)) + key.kid.encode() + bytes(64))


def signer_with(*more):
    extra = {k.kid: k for k in more}
    return lambda kid: extra.get(kid) or KEYS[kid]


@kind("keys: a foreign key takes over the log")
def _(copy):
    front, entries = log_entries(copy)
    i = rng.choice(audit_entries(entries, 0, HEADS[2]["seq"]))
    log_write(copy, front, entries + [key_entry(STRANGER), head_entry(STRANGER)], signer_with(STRANGER))
    return "behind entry %d" % len(entries)


@kind("keys: a foreign key takes over a changed log, its public half among the host's")
def _(copy):
    front, entries = log_entries(copy)
    i = rng.choice(audit_entries(entries, 0, HEADS[2]["seq"]))
    entries[i] = with_edit(entries[i])
    log_write(copy, front, entries + [key_entry(STRANGER), head_entry(STRANGER)], lambda kid: STRANGER if kid == STRANGER.kid else KEYS[kid])
    os.makedirs(copy + ".keys")
    spliced(copy + ".keys/%s.pub" % STRANGER.kid, (b64(STRANGER.public) + "\n").encode())
    return "entry %d, and only the foreign key is given" % (i + 1)


@kind("keys: every key exchanged, and all signed anew by the foreign one")
def _(copy):
    front, entries = log_entries(copy)
    entries = [entries[i].with_payload(json.dumps({"kid": STRANGER.kid, "public_key": b64(STRANGER.public)}).encode()) if e.type == 5 else e
               for i, e in enumerate(entries)]
    for p in sealed(copy):
        resigned(p, STRANGER)
    entries = [reseal(copy, e) for e in entries]
    log_write(copy, front, entries, lambda kid: STRANGER)
    os.makedirs(copy + ".keys")
    spliced(copy + ".keys/%s.pub" % STRANGER.kid, (b64(STRANGER.public) + "\n").encode())
    return ""


def leaf(path):
    import hmac
    data = open(path, "rb").read()
    n, at = struct.unpack_from("<I", data, 12)[0], 16
    while at < n - 32:
        tag, _, length = struct.unpack_from("<HHI", data, at)
        if tag == 2:
            salt = data[at + 8:at + 8 + length]
        at += 8 + length
    return hmac.new(salt, b"muxd leaf 1\0" + data[-FOOTER:-64], hashlib.sha256).hexdigest()


def reseal(copy, e):
    """The seal of a recording as it is now."""
    if e.type != 2:
        return e
    paths = [p for p in sealed(copy) if bytes.fromhex(os.path.basename(p)[:-5].replace("-", "")) == e.session]
    return e.with_payload(json.dumps(dict(json.loads(e.payload), leaf=leaf(paths[0]))).encode()) if paths else e


# ---- with the true keys in hand

@kind("true keys: an event changed, older than the head kept outside")
def _(copy):
    front, entries = log_entries(copy)
    i = rng.choice(audit_entries(entries, 0, HEADS[2]["seq"]))
    entries[i] = with_edit(entries[i])
    log_write(copy, front, entries, true_key)
    return "entry %d" % (i + 1)


@kind("true keys: a recording changed with its seal, older than the head kept outside")
def _(copy):
    front, entries = log_entries(copy)
    p = rng.choice(vouched(large(copy), entries))
    data = bytearray(open(p, "rb").read())
    struct.pack_into("<q", data, len(data) - FOOTER + 128, struct.unpack_from("<q", data, len(data) - FOOTER + 128)[0] - 1)
    resigned(p, true_key(data[-FOOTER + 136:-FOOTER + 152].decode()), data)
    log_write(copy, front, [reseal(copy, e) for e in entries], true_key)
    return p


@kind("true keys: a recording erased with its seal, older than the head kept outside")
def _(copy):
    front, entries = log_entries(copy)
    p = rng.choice(vouched(sealed(copy), entries))
    log_write(copy, front, [e for e in entries if e.session != session_of(p)], true_key)
    os.unlink(p)
    return p


@kind("true keys: the whole record set back to an earlier day")
def _(copy):
    front, entries = log_entries(copy)
    keep = HEADS[0]["seq"] + 1
    for e in entries[keep:]:
        for p in sealed(copy):
            if e.type == 2 and os.path.exists(p) and bytes.fromhex(os.path.basename(p)[:-5].replace("-", "")) == e.session:
                os.unlink(p)
    os.truncate(log_path(copy), log_places(copy)[keep][0])
    for p in glob.glob(copy + "/open/*") + glob.glob(copy + "/audit.db*"):
        os.unlink(p)
    return "behind entry %d" % keep


@kind("true keys: an event added behind the head kept outside")
def _(copy):
    front, entries = log_entries(copy)
    key = KEYS[HEADS[2]["kid"]]
    log_write(copy, front, entries + [with_edit(entries[rng.choice(audit_entries(entries))]), head_entry(key)], true_key)
    return ""


@kind("true keys: an event changed behind the head kept outside")
def _(copy):
    front, entries = log_entries(copy)
    i = rng.choice(audit_entries(entries, HEADS[2]["seq"]))
    entries[i] = with_edit(entries[i])
    log_write(copy, front, entries, true_key)
    return "entry %d" % (i + 1)


def first_of(witnessed):
    """The entries that the n-th head vouches for: [0, this)."""
    return HEADS[witnessed]["seq"]


REWRITTEN = {}


def rewriting(f):
    REWRITTEN[f.__name__] = f
    return f


@rewriting
def an_event_edited(copy, es, at):
    i = rng.choice([i for i in range(at) if es[i].type == 1])
    es[i] = with_edit(es[i])


@rewriting
def an_event_removed(copy, es, at):
    del es[rng.choice([i for i in range(at) if es[i].type == 1])]


@rewriting
def an_event_invented(copy, es, at):
    es.insert(rng.randrange(1, at), with_edit(rng.choice([e for e in es[:at] if e.type == 1])))


@rewriting
def an_event_replaced_by_the_next(copy, es, at):
    i = rng.randrange(1, at - 1)
    es[i:i + 2] = [es[i + 1], es[i]] if es[i].raw[4:] != es[i + 1].raw[4:] else [es[i]]


@rewriting
def a_time_changed(copy, es, at):
    e = es[rng.randrange(at)]
    struct.pack_into("<q", e.raw, 32, struct.unpack_from("<q", e.raw, 32)[0] - rng.randrange(1, 10 ** 12))


@rewriting
def a_journal_number_changed(copy, es, at):
    e = rng.choice([e for e in es[:at] if e.type == 1])
    struct.pack_into("<Q", e.raw, 24, struct.unpack_from("<Q", e.raw, 24)[0] + rng.randrange(1, 1000))


@rewriting
def a_session_renamed(copy, es, at):
    es[rng.randrange(at)].raw[40:56] = rng.randbytes(16)


@rewriting
def a_tombstone_softened(copy, es, at):
    i = rng.choice([i for i in range(at) if es[i].type == 3])
    es[i] = es[i].with_payload(json.dumps(dict(json.loads(es[i].payload), by="somebody else", limit_ns=10 ** 9 * rng.randrange(1, 9))).encode())


@rewriting
def a_removal_unsaid(copy, es, at):
    gone = rng.choice([e.session for e in es[:at] if e.type == 3])
    es[:] = [e for e in es if not (e.type in (2, 3) and e.session == gone)]


@rewriting
def a_recording_unsaid(copy, es, at):
    p = rng.choice([p for p in sealed(copy) if any(e.type == 2 and e.session == name_id(p) for e in es[:at])])
    es[:] = [e for e in es if e.session != name_id(p)]
    os.unlink(p)


@rewriting
def a_recording_changed(copy, es, at):
    p = rng.choice([p for p in sealed(copy) if any(e.type == 2 and e.session == name_id(p) for e in es[:at])])
    data = bytearray(open(p, "rb").read())
    struct.pack_into("<q", data, len(data) - FOOTER + 128, struct.unpack_from("<q", data, len(data) - FOOTER + 128)[0] + 1)
    resigned(p, true_key(data[-FOOTER + 136:-FOOTER + 152].decode()), data)
    es[:] = [reseal(copy, e) for e in es]


@rewriting
def everything_by_the_newest_key(copy, es, at):
    """As if there had been no rotation."""
    newest = KEYS[HEADS[2]["kid"]]
    es[:] = [e.with_payload(key_entry(newest).payload) if e.type == 5 else e for e in es]
    for p in sealed(copy):
        resigned(p, newest)
    es[:] = [reseal(copy, e) for e in es]
    return lambda kid: newest


@rewriting
def a_head_at_another_time(copy, es, at):
    i = rng.choice([i for i in range(at) if es[i].type == 4])
    wall = struct.unpack_from("<q", es[i].payload)[0] + rng.randrange(1, 10 ** 9)
    es[i] = es[i].with_payload(struct.pack("<q", wall) + es[i].payload[8:])


@rewriting
def nothing_behind_a_place(copy, es, at):
    i = rng.randrange(2, at - 1)
    for e in es[i:]:
        for p in sealed(copy):
            if e.type == 2 and name_id(p) == e.session:
                os.unlink(p)
    for p in glob.glob(copy + "/open/*"):
        os.unlink(p)
    key = [e for e in es[:i] if e.type == 5 and any(h.type == 4 and h.payload[8:24].decode() == json.loads(e.payload)["kid"] for h in es[:i])]
    es[i:] = [head_entry(KEYS[json.loads((key or [es[0]])[-1].payload)["kid"]])]


def name_id(path):
    return bytes.fromhex(os.path.basename(path)[:-5].replace("-", ""))


def rewrite(copy, witnessed, how):
    """A history of his own from a place in front of that head on, under the true keys, with recordings that fit."""
    front, es = log_entries(copy)
    signer = REWRITTEN[how](copy, es, first_of(witnessed)) or true_key
    log_write(copy, front, es, signer)
    places = {}
    data = open(log_path(copy), "rb").read()
    for seq, (at, n, _) in enumerate(log_places(copy), 1):
        places[seq] = data[at + ENTRY + n:at + ENTRY + n + 32]
    for p in sealed(copy):
        data = bytearray(open(p, "rb").read())
        seq = struct.unpack_from("<Q", data, len(data) - FOOTER + 88)[0]
        if seq in places:
            data[-FOOTER + 96:-FOOTER + 128] = places[seq]
            resigned(p, signer(data[-FOOTER + 136:-FOOTER + 152].decode()), data)
    return "%s, in front of entry %d" % (how.replace("_", " "), first_of(witnessed))


def rewrites(copy):
    """With the true keys in hand: 20 histories, each named by each witness that has a head behind the place."""
    bad, named, hows = 0, 0, sorted(REWRITTEN)
    for n in range(REWRITES):
        how, witnessed = hows[n % len(hows)], rng.choice((1, 2, 2))
        fresh(copy)
        what = rewrite(copy, witnessed, how)
        for p in glob.glob(copy + "/audit.db*"):
            os.unlink(p)
        for name, heads in OUTSIDE.items():
            if name.startswith("head") and witnessed != 2:
                heads = ["--expect-head", DIR + "/head%d" % (witnessed + 1)]
            rc, o, _ = verify(copy, *heads)
            if rc not in (65, 74) or not codes(o) & {"expected_differs", "rolled_back", "expected_signature"}:
                print("FAILED: rewritten with the true keys (%s), with %s, seed %d: %d, %s %s" % (what, name, SEED, rc, sorted(codes(o)), o.get("error", "")))
                bad += 1
            named += 1
    if not bad:
        print("  ok: with the true keys in hand %d histories were rewritten in front of a witnessed head in %d ways: each is named, %d verdicts" % (REWRITES, len(hows), named))
    return bad


# ---- what is no file

def odd(name, make, place):
    def change(copy):
        p = place(copy)
        if os.path.lexists(p):
            os.rename(p, copy + "/kept")
        make(copy, p)
        return p
    KINDS[name] = change


def make_socket(copy, p):
    s = socket.socket(socket.AF_UNIX)
    was = os.getcwd()
    os.chdir(os.path.dirname(p))  # a path of a socket is short
    s.bind(os.path.basename(p))
    os.chdir(was)
    s.close()


def sparse(copy, p):
    with open(p, "wb") as f:
        f.truncate(1 << 40)


def in_place(copy):
    return rng.choice(sealed(copy))


def beside(copy):
    return os.path.dirname(sealed(copy)[0]) + "/01936f0e-7c5a-7b1e-8f43-%012x.mrec" % rng.randrange(1 << 48)


odd("odd: a FIFO in a recording's place", lambda c, p: os.mkfifo(p), in_place)
odd("odd: a FIFO beside the recordings", lambda c, p: os.mkfifo(p), beside)
odd("odd: a symbolic link in a recording's place", lambda c, p: os.symlink(c + "/kept", p), in_place)
odd("odd: a directory in a recording's place", lambda c, p: os.mkdir(p), in_place)
odd("odd: a socket beside the recordings", make_socket, beside)
odd("odd: a terabyte of nothing beside the recordings", sparse, beside)
odd("odd: a FIFO in the log", lambda c, p: os.mkfifo(p), lambda c: log_path(c, rng.randrange(2, 100)))
odd("odd: a symbolic link in the log's place", lambda c, p: os.symlink(c + "/kept", p), log_path)
odd("odd: a terabyte of nothing in the log", sparse, lambda c: log_path(c, 2))
odd("odd: a FIFO among the open recordings", lambda c, p: os.mkfifo(p), lambda c: c + "/open/01936f0e-7c5a-7b1e-8f43-%012x.mrec" % rng.randrange(1 << 48))
odd("odd: a symbolic link in a day's place", lambda c, p: os.symlink(c + "/kept", p), lambda c: os.path.dirname(rng.choice(sealed(c))))


@kind("odd: a recording grown to a terabyte")
def _(copy):
    p = rng.choice(sealed(copy))
    os.truncate(p, 1 << 40)
    return p


@kind("odd: the log's file grown to a terabyte")
def _(copy):
    os.truncate(log_path(copy), 1 << 40)
    return ""


# ---- what is derived

@kind("audit.db: a row changed")
def _(copy):
    import sqlite3
    db = sqlite3.connect(copy + "/audit.db")
    rows = [r[0] for r in db.execute("select rowid from audit")]
    db.execute("update audit set principal = 'nobody', json = replace(json, 'uid 0', 'uid 7') where rowid = ?", (rng.choice(rows),))
    db.commit()
    db.close()
    return ""


@kind("true keys: keyframes forged, their digest in the log too, behind the head kept outside")
def _(copy):
    p = glob.glob(copy + "/sealed/*/*.mkey")[0]
    how = rng.choice(sorted(derived.FORGED))
    derived.forge(p, how)
    derived.sign(p, copy, KEYS)
    return how


# ---- the table, and the trials

# What an auditor may have from outside; each must tell the same.
OUTSIDE = {
    "head that was kept": ["--expect-head", DIR + "/head3"],
    "file of a witness": ["--witness", DIR + "/mount/heads.jsonl"],
    "other muxd": ["--witness", os.environ["OTHER_URL"], "--witness-ca", os.environ["OTHER_CA"]],
}


def table():
    """{kind: (codes with a head from outside, codes without)}; none: not named, "listed": told as what it is."""
    out = {}
    for line in open(TABLE):
        m = re.match(r"^\| ((?:recording|open recording|log|keys|true keys|odd|audit\.db): [^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", line)
        if m:
            out[m[1]] = m[2], m[2] if m[3] == "same" else m[3]
    return out


def worked():
    """Seconds of processor of the children that have ended: what else runs here says nothing of verify."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def verify(copy, *more):
    keys = copy + ".keys" if os.path.isdir(copy + ".keys") else DIR + "/public"
    begun = worked()
    try:
        p = subprocess.run([MUXCTL, "--state", "/nonexistent", "-o", "json", "verify", "--all", "--record", copy, "--key", keys, *more],
                           capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return 124, {"findings": [], "error": "no answer within 60 s"}, 60
    took = worked() - begun
    try:
        o = json.loads(p.stdout)
    except ValueError:
        return p.returncode, {"findings": [], "error": p.stderr.decode()}, took
    return p.returncode, o, took


def codes(o):
    return {f["code"] for f in o["findings"] if f["class"] != "note"}


def judge(name, said, rc, o, derive):
    """None when this is what the table says. derive() asks with --derive."""
    got = codes(o)
    if said.endswith(" with `--derive`"):
        if rc or got:
            return "named without --derive: %d, %s" % (rc, sorted(got))
        rc, o, _ = derive()
        return judge(name, said.removesuffix(" with `--derive`"), rc, o, None)
    if said == "needs a witness":  # named all the same where something that was left behind tells
        return None if rc in (65, 74) or rc == 0 and o["completeness"] == "as_far_as_known" and not o["witnessed"] else "it calls this %d, %s, %s" % (rc, o.get("completeness"), sorted(got))
    if said == "listed":
        behind = o.get("outside", {}).get("behind", 0)
        return None if rc == 0 and not got and behind > 0 else "not listed: %d, %s, %s" % (rc, sorted(got), o.get("outside"))
    want = set(said.replace("`", "").split(", "))
    if rc not in (65, 74):
        return "verify says %d, %s" % (rc, o.get("error", sorted(got)))
    return None if got & want else "named as %s, the table has %s" % (sorted(got), sorted(want))


def fresh(copy):
    for p in (copy, copy + ".keys"):
        shutil.rmtree(p, ignore_errors=True)
    shutil.copytree(DIR + "/base", copy, ignore=shutil.ignore_patterns("segments"))


def change(copy, name):
    """Who has the keys makes audit.db anew, too; without it nothing is compared, and the next start makes it."""
    what = KINDS[name](copy)
    for p in glob.glob(copy + "/audit.db*") if re.match("(true )?keys:", name) else []:
        os.unlink(p)
    return what


def learn(copy, outside):
    """LEARN=1: what a new kind is named by, as rows for the table."""
    for name in [n for n in KINDS if re.search(os.environ.get("KINDS", ""), n)]:
        seen = [{}, {}]
        for n in range(TRIES):
            fresh(copy)
            change(copy, name)
            for i, heads in enumerate((outside, [])):
                rc, o, _ = verify(copy, *heads)
                for c in codes(o) or {"rc %d" % rc}:
                    seen[i][c] = seen[i].get(c, 0) + 1
        print("| %s | %s |" % (name, " | ".join(", ".join("`%s`%s" % (c, "" if n == TRIES else " %d" % n) for c, n in sorted(x.items())) for x in seen)))
    return 0


def main():
    copy, bad, slow = DIR + "/copy", 0, 0
    os.makedirs(DIR + "/public")
    for p in glob.glob(DIR + "/keys/*.pub"):
        shutil.copy(p, DIR + "/public")
    outside = OUTSIDE["head that was kept"]
    fresh(copy)
    for heads in [[], ["--expect-head", DIR + "/head1"] + outside, sum(OUTSIDE.values(), []), *OUTSIDE.values()]:
        rc, o, _ = verify(copy, *heads)
        if rc or codes(o) or o["summary"]["open"] != 1 or o["removals"] != 2:
            print("FAILED: the untouched copy: %d, %s" % (rc, json.dumps(o)[:3000]))
            return 1
    split(copy)
    rc, o, _ = verify(copy, *outside)
    if rc or codes(o):
        print("FAILED: the log in several files: %d, %s" % (rc, json.dumps(o)[:3000]))
        return 1
    print("  ok: the untouched copy verifies: open session, removals, rotation and kill are no findings")
    said = table()
    if os.environ.get("LEARN"):
        return learn(copy, outside)
    if set(said) != set(KINDS):
        print("FAILED: in the table and not here: %s; here and not in the table: %s" % (sorted(set(said) - set(KINDS)), sorted(set(KINDS) - set(said))))
        return 1
    if len(KINDS) < 40:
        print("FAILED: only %d kinds" % len(KINDS))
        return 1
    pattern, tried = os.environ.get("KINDS", ""), 0
    names = [n for n in KINDS if re.search(pattern, n)]
    for name in random.Random(SEED).sample(names, min(len(names), int(os.environ.get("MANY", len(names))))):
        for n in range(TRIES):
            fresh(copy)
            what = change(copy, name)
            tried += 1
            for by, heads in [*OUTSIDE.items(), ("nobody", [])]:
                rc, o, took = verify(copy, *heads)
                slow = max(slow, took)
                why = judge(name, said[name][by == "nobody"], rc, o, lambda: verify(copy, "--derive", *heads))
                if why:
                    print("FAILED: %s (%s), heads from outside of: %s, seed %d: %s" % (name, what, by, SEED, why))
                    bad += 1
    if not pattern:
        bad += rewrites(copy)
    if slow > 10:
        print("FAILED: the slowest answer took %.1f s of a processor" % slow)
        bad += 1
    if not bad:
        print("  ok: %d trials of %d kinds: each is named as the table says; slowest answer %.2f s (seed %d)" % (tried, len(KINDS), slow, SEED))
    return bad != 0


sys.exit(main())
