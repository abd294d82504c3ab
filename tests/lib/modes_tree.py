#!/usr/bin/env python3
"""modes_tree.py make DIR | list DIR: a tree with every mode, and with every kind of name, link, attribute, time and hole that a
program may leave; and what is in it, line by line, as its owner sees it (what he may not read is told by its size alone)."""
import hashlib, os, stat, sys

NAMES = [b"with space", b"new\nline", b"\xff\xfe bad", "Grüße 世界".encode(), b"-rf", b"'q\"", b"\x1b[31m", b"n" * 255]
TIMES = [0, 999999999, 1700000000123456789, 4102444800 * 10**9]


def file(path, data=b"", mode=0o644):
    with open(path, "wb") as f:
        f.write(data)
    os.utime(path, ns=(0, TIMES[len(path) % len(TIMES)]))
    os.chmod(path, mode)


def make(top):
    os.umask(0)
    os.makedirs(os.path.join(top, b"files"))
    os.makedirs(os.path.join(top, b"directories"))
    os.chdir(top)
    for mode in range(0o10000):
        file(b"files/%04o" % mode, b"%04o" % mode, mode)
    for mode in range(0, 0o10000, 0o7):  # and with every bit of them, again and again
        d = b"directories/%04o" % mode
        os.mkdir(d)
        file(d + b"/inside")
        os.chmod(d, mode)
    for n in NAMES:
        file(n, n)
        os.symlink(n, n[:200] + b" link")
        os.link(n, n[:200] + b" too")
    os.symlink(b"/nowhere", b"dangling")
    os.mkfifo(b"fifo", 0o640)
    for n, at in ((b"hole", []), (b"islands", [4096, 1 << 20, 1 << 25])):
        with open(n, "wb") as f:
            for a in at:
                os.pwrite(f.fileno(), b"land", a)
            f.truncate(1 << 26)
    for k in range(5):
        os.setxattr(b"hole", b"user.%d" % k, bytes([k]) * k * 10)
    os.setxattr(b"directories", b"user.new\nline", b"\0\xff")
    os.mkdir(b"keys", 0o700)
    file(b"keys/id", b"a key", 0o600)


def content(path, st):
    """The digest of what stands where the file has no hole."""
    h = hashlib.sha256()
    with open(path, "rb") as f:
        at = 0
        while at < st.st_size:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            for k in range(at, os.lseek(f.fileno(), at, os.SEEK_HOLE), 4096):
                b = os.pread(f.fileno(), 4096, k).rstrip(b"\0")
                h.update(b"%d:" % k + b if b else b"")
                at = k + 4096
    return h.hexdigest()[:16]


def line(path, inos):
    try:
        st = os.lstat(path)
    except PermissionError:  # in a directory whose names may be read, and no more
        print(repr(path), "not to be seen")
        return
    out = [repr(path), "%o" % st.st_mode, "%d:%d" % (st.st_uid, st.st_gid), str(st.st_mtime_ns)]
    if stat.S_ISLNK(st.st_mode):
        out.append(repr(os.readlink(path)))
    if not stat.S_ISDIR(st.st_mode):
        out += [str(st.st_size), "%d of %s" % (st.st_nlink, inos.setdefault(st.st_ino, path))]
    if stat.S_ISREG(st.st_mode):
        out.append("holes" if st.st_blocks * 512 < st.st_size // 2 else "whole")
    if (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)) and os.access(path, os.R_OK):
        out += [repr((a, os.getxattr(path, a))) for a in sorted(os.listxattr(path)) if a.startswith("user.")]
        if stat.S_ISREG(st.st_mode):
            out.append(content(path, st))
    print(*out)


def listing(top):
    inos = {}
    os.chdir(top)
    line(b".", inos)
    for here, dirs, files in os.walk(b"."):
        dirs.sort()
        for n in sorted(dirs + files):
            line(os.path.join(here, n), inos)


{"make": make, "list": listing}[sys.argv[1]](os.fsencode(sys.argv[2]))
