"""Changes what is derived from a record, as somebody who can write its files: derived.py WHAT FILE...

`sign FILE RECORD KEYS` is for somebody who has the host's keys, too: the digest in the log becomes that of the changed file, and
every hash and signature behind it is made anew.
"""
import hashlib
import json
import os
import sqlite3
import struct
import sys
import zlib

sys.dont_write_bytecode = True

def entry(data, at):
    ns, seq, offset, cols, rows, length, _, _ = struct.unpack_from("<QQQHHIII", data, at)
    return (ns, seq, offset, cols, rows), data[at + 40:at + 40 + length]


def head_size(data):
    return 60 if struct.unpack_from("<H", data, 8)[0] == 2 else 28


def screens(data):
    end, at, found = len(data), head_size(data), []
    if at == 60:
        end, = struct.unpack_from("<Q", data, len(data) - 40)
    while at < end:
        what, text = entry(data, at)
        found.append((what, text))
        at += 40 + len(text)
    return found


def written(head, found):
    """A whole file with every checksum right; of version 2 with its table and root."""
    out, table = head, b""
    for what, text in found:
        first = struct.pack("<QQQHHII", *what, len(text), zlib.crc32(text))
        first += struct.pack("<I", zlib.crc32(first))
        digest = hashlib.sha256(b"muxd keyframe 1\0" + head + first + text).digest()
        table += struct.pack("<Q", len(out)) + first + digest
        out += first + text
    if len(head) == 60:
        root = hashlib.sha256(b"muxd keyframes 1\0" + head + table).digest()
        out += table + b"MKEYEND\n" + struct.pack("<IIQ", len(found), 0, len(out)) + root
    return out


def with_text(found, i, text):
    return found[:i] + [(found[i][0], text)] + found[i + 1:]


def with_field(found, i, field, by):
    what = list(found[i][0])
    what[field] += by
    return found[:i] + [(tuple(what), found[i][1])] + found[i + 1:]


# Files with every checksum right, whose screens are not those that the recording draws. Each needs two screens at least.
FORGED = {
    "every screen another": lambda found: [(w, t + b"\x1b[2J\x1b[HFORGED") for w, t in found],
    "the last screen another": lambda found: with_text(found, -1 % len(found), found[-1][1] + b"\x1b[2J\x1b[HFORGED"),
    "a byte less": lambda found: with_text(found, 0, found[0][1][:-1]),
    "a screen at another time": lambda found: with_field(found, 0, 0, -1),
    "a screen at another event": lambda found: with_field(found, 0, 1, -1),
    "a screen at another place": lambda found: with_field(found, 0, 2, 1),
    "a screen of another size": lambda found: with_field(found, 0, 3, 1),
    "the first screen left out": lambda found: found[1:],
    "a screen twice": lambda found: found + found[-1:],
    "two screens exchanged": lambda found: [(found[0][0], found[1][1]), (found[1][0], found[0][1])] + found[2:],
}


def change_file(path, how):
    data = open(path, "rb").read()
    with open(path, "wb") as f:
        f.write(written(data[:head_size(data)], how(screens(data))))


def forge(path, how):
    change_file(path, FORGED[how])


def sign(path, record, keys, **more):
    """more: other fields of the log's entry."""
    from chainlog import log_entries, log_write
    data = open(path, "rb").read()
    front, entries = log_entries(record)
    for i, e in enumerate(entries):
        if e.type == 6 and e.session == data[12:28] and json.loads(e.payload)["of"] == "keyframes":
            o = json.loads(e.payload)
            o.update(root=data[-32:].hex(), sha256=hashlib.sha256(data).hexdigest(), size=len(data), screens=len(screens(data)), **more)
            entries[i] = e.with_payload(json.dumps(o).encode())
    log_write(record, front, entries, lambda kid: keys[kid])
    for name in "audit.db", "audit.db-wal", "audit.db-shm":  # the next start makes it anew
        if os.path.exists(record + "/" + name):
            os.unlink(record + "/" + name)


def main():
    what, files = sys.argv[1], sys.argv[2:]
    data = open(files[0], "rb").read() if what not in ("sql", "count", "kinds") else b""
    if what == "forge":
        forge(files[0], files[1] if len(files) > 1 else "every screen another")
    elif what == "kinds":
        print("\n".join(FORGED))
    elif what == "cut":  # as a worker's end leaves it
        change_file(files[0], lambda found: found[:-1])
    elif what == "sign":
        from chainlog import keys_in
        sign(files[0], files[1], keys_in(files[2]), **dict(f.split("=") for f in files[3:]))
    elif what == "same":  # the writer here agrees with muxd's: a forged file is as good as one can be
        sys.exit(0 if written(data[:head_size(data)], screens(data)) == data else "the file is of another format")
    elif what == "flip":
        at = head_size(data) + sum(40 + len(t) for _, t in screens(data)) - 1  # of the last screen, which is shown
        open(files[0], "wb").write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
    elif what == "swap":
        other = open(files[1], "rb").read()
        n = head_size(data) - (32 if head_size(data) == 60 else 0)
        open(files[0], "wb").write(written(data[:n] + other[n:head_size(data)], screens(other)))
    elif what == "sql":
        db = sqlite3.connect(files[0], timeout=10)
        done = db.execute(files[1]).rowcount
        db.commit()
        db.close()
        sys.exit(0 if done else "nothing was changed")


if __name__ == "__main__":
    main()
