#!/usr/bin/env python3
"""hostile_tree.py make SEED DIR | list DIR: a tree that is hard to copy, and what is in a tree, line by line.

The listing goes by descriptors, so that no depth is too much for it, and is an implementation of its own: kind, mode,
size, time, links, attributes and the digest of the content of everything below DIR. Sockets are made, and not listed.
"""
import hashlib
import os
import random
import socket
import stat
import sys

NAMES = [b"plain", b"with space", b"new\nline", b"tab\t", b"\xff\xfe bad", b"e\xcc\x81", "é".encode(), b"-rf", b"*",
         b"a\\b", b"'q\"", b"%s%n", b"\x1b[31m", b"..x", b"...", b"=x", b"PaxHeader", b".muxd", b"n" * 255,
         b"\xc3" * 255, b"0", b"\x01", b"._mac", b"GNUSparseFile.0", b"x/".rstrip(b"/") + b"."]


def name(r):
    n = r.choice(NAMES)
    return n if r.random() < 0.5 else (n[:200] + b"%d" % r.randrange(10**6))


def put_file(r, d, n):
    fd = os.open(n, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=d)
    kind = r.randrange(6)
    if kind == 0:
        os.ftruncate(fd, r.choice([1, 4096, 1 << 20, 1 << 33]))  # all hole
    elif kind == 1:  # holes and data in turns
        at = 0
        for _ in range(r.randrange(1, 12)):
            at += r.choice([0, 4096, 65536, 1 << 20, 1 << 32])
            at += os.pwrite(fd, r.randbytes(r.choice([1, 4095, 4096, 70000])), at)
        if r.random() < 0.5:
            os.ftruncate(fd, at + (1 << 21))
    else:
        os.write(fd, r.randbytes(r.choice([0, 1, 511, 512, 513, 5000, 300000])))
    attrs(r, fd)
    return fd


def attrs(r, fd):
    for _ in range(r.choice([0, 0, 0, 1, 5])):
        a = r.choice([b"user.a", b"user.a=b", b"user.new\nline", b"user.\xff", b"user.%41", b"user.long" + b"x" * 200])
        try:
            os.setxattr(fd, a, r.choice([b"", b"\0\1\2", r.randbytes(200), b"v"]))
        except OSError:  # this file system has none, or no room for one more
            pass


def finish(r, fd, modes):
    os.utime(fd, ns=(0, r.choice([0, 1, 999999999, 1700000000123456789, -86400 * 10**9 + 5])))
    os.fchmod(fd, r.choice(modes))
    os.close(fd)


def make(seed, top):
    r = random.Random(seed)
    left = [int(os.environ.get("TREE_FILES", "150"))]
    firsts = []  # (depth trail, name): where a file may get another name
    os.umask(0)
    fill(r, os.open(top, os.O_RDONLY), left, firsts, 0)
    fd = os.open(top, os.O_RDONLY)
    many(r, fd)
    deep(r, fd, int(os.environ.get("TREE_DEPTH", "2500")))
    os.close(fd)


def many(r, fd):
    os.mkdir("many", 0o755, dir_fd=fd)
    d = os.open("many", os.O_RDONLY, dir_fd=fd)
    for i in range(int(os.environ.get("TREE_SMALL", "300"))):
        f = os.open("f%d" % i, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=d)
        os.write(f, b"%d" % i)
        os.close(f)
    os.link("f0", "again", src_dir_fd=d, dst_dir_fd=d)
    os.close(d)


def deep(r, fd, depth):
    """Files here and there on the way; one of the top has its other name at the end."""
    f = os.open("at the top", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=fd)
    os.write(f, b"and at the bottom")
    os.close(f)
    d = os.dup(fd)
    for i in range(depth):
        n = b"d%d" % i if r.random() < 0.9 else (b"x" * 200 + b"%d" % i)
        os.mkdir(n, 0o700, dir_fd=d)
        below = os.open(n, os.O_RDONLY, dir_fd=d)
        os.close(d)
        d = below
        if r.random() < 0.02:
            os.close(put_file(r, d, b"on the way"))
    os.link("at the top", "at the bottom", src_dir_fd=fd, dst_dir_fd=d)
    os.close(d)


def fill(r, d, left, firsts, depth):
    for _ in range(r.randrange(3, 20)):
        n = name(r)
        if left[0] <= 0:
            break
        left[0] -= 1
        try:
            one(r, d, n, left, firsts, depth)
        except FileExistsError:
            pass
    finish(r, d, [0o700, 0o755, 0o1777, 0o2750, 0o700] if depth == 0 else [0, 0o700, 0o555, 0o311, 0o7777])


def one(r, d, n, left, firsts, depth):
    kind = r.randrange(12)
    if kind < 3 and depth < 8:
        os.mkdir(n, 0o700, dir_fd=d)
        sub = os.open(n, os.O_RDONLY, dir_fd=d)
        attrs(r, sub)
        fill(r, sub, left, firsts, depth + 1)
    elif kind == 3:
        os.symlink(r.choice([b"/etc/shadow", b"..", b"\xff\n", b"l" * 4000, b"nowhere", n]), n, dir_fd=d)
        os.utime(n, ns=(0, 1234567890123456789), dir_fd=d, follow_symlinks=False)
        if r.random() < 0.5:
            os.link(n, n[:100] + b" too", src_dir_fd=d, dst_dir_fd=d, follow_symlinks=False)
    elif kind == 4:
        os.mkfifo(n, r.choice([0o600, 0, 0o666]), dir_fd=d)
        os.utime(n, ns=(0, 5 * 10**9), dir_fd=d, follow_symlinks=False)
    elif kind == 5 and len(n) < 60 and b"sock" + n not in map(os.fsencode, os.listdir(d)):
        here = os.getcwd()
        os.fchdir(d)
        s = socket.socket(socket.AF_UNIX)
        s.bind(b"sock" + n)
        s.close()
        os.chdir(here)
    else:
        f = put_file(r, d, n)
        if r.random() < 0.3:
            os.link(n, n[:100] + b" too", src_dir_fd=d, dst_dir_fd=d)
        finish(r, f, [0, 0o400, 0o644, 0o4755, 0o600])


def content(d, n):
    """Digest of the places with data, so that a file of 8 GiB that is one hole costs nothing; and their number of bytes."""
    fd = os.open(n, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=d)
    h, at, end = hashlib.sha256(), 0, os.fstat(fd).st_size
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        stop = os.lseek(fd, at, os.SEEK_HOLE)
        while at < stop:
            b = os.pread(fd, min(1 << 20, stop - at), at)
            for k in range(0, len(b), 4096):  # a block of zeros may be a hole in the copy, and the other way round
                if b[k:k + 4096].strip(b"\0"):
                    h.update(b"%d:" % (at + k) + b[k:k + 4096].rstrip(b"\0"))
            at += len(b)
    os.close(fd)
    return h.hexdigest()[:16]


def line(trail, d, n, st, inos):
    kind = stat.S_IFMT(st.st_mode)
    out = [trail, "%o" % st.st_mode, str(st.st_mtime_ns)]
    if kind == stat.S_IFREG:
        out += [str(st.st_size), content(d, n)]
    if kind == stat.S_IFLNK:
        out += [repr(os.readlink(n, dir_fd=d))]
    if kind != stat.S_IFDIR and st.st_nlink > 1:
        out += ["same as %s, %d" % (inos.setdefault(st.st_ino, trail), st.st_nlink)]
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        fd = os.open(n, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=d)
        out += [repr((a, os.getxattr(fd, a))) for a in sorted(os.listxattr(fd)) if a.startswith("user.")]
        os.close(fd)
    print(" ".join(out))


def listing(top):
    """Trails of one directory are numbered: a path of 2,500 parts for each of its lines would be no help to anybody."""
    d = os.open(top, os.O_RDONLY)
    inos, number = {}, 0
    st = os.fstat(d)
    print("top %o %d" % (st.st_mode, st.st_mtime_ns))
    stack = [(iter(sorted(os.listdir(d), key=os.fsencode)), 0)]
    while stack:
        it, here = stack[-1]
        n = next(it, None)
        if n is None:
            stack.pop()
            up = os.open("..", os.O_RDONLY, dir_fd=d)
            os.close(d)
            d = up
            continue
        st = os.stat(n, dir_fd=d, follow_symlinks=False)
        if stat.S_ISSOCK(st.st_mode):
            continue
        line("%d/%r" % (here, os.fsencode(n)), d, n, st, inos)
        if stat.S_ISDIR(st.st_mode):
            number += 1
            below = os.open(n, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=d)
            os.close(d)
            d = below
            stack.append((iter(sorted(os.listdir(d), key=os.fsencode)), number))
    os.close(d)


if len(sys.argv) == 4 and sys.argv[1] == "make":
    make(int(sys.argv[2]), sys.argv[3])
elif len(sys.argv) == 3 and sys.argv[1] == "list":
    listing(sys.argv[2])
else:
    sys.exit(__doc__)
