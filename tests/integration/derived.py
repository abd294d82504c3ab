"""Changes what is derived from a record, as somebody who can write its files: derived.py WHAT FILE..."""
import hashlib
import sqlite3
import struct
import sys
import zlib


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


def main():
    what, files = sys.argv[1], sys.argv[2:]
    data = open(files[0], "rb").read() if what not in ("sql", "count") else b""
    if what == "forge":
        head = data[:head_size(data)]
        found = [(w, t + b"\x1b[2J\x1b[HFORGED") for w, t in screens(data)]
        open(files[0], "wb").write(written(head, found))
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


main()
