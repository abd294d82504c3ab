#!/usr/bin/python3
"""clang-tidy over the product's C, by content: a file that was found clean is looked at again when it, a header it includes,
.clang-tidy, the options or the tool change. What was clean is remembered outside the checkout, in ~/.cache/muxd/tidy
(XDG_CACHE_HOME, TIDY_CACHE), as empty files called by a digest of all that. Says at the end how many files were looked at.
"""
import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

FOLDERS = ("base/*.c", "muxd/*.c", "policy/*.c", "recorder/*.c", "control/*.c", "files/*.c")
OPTIONS = ["-std=c17", "-D_GNU_SOURCE", '-DMUXD_VERSION="0"', "-I."]
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)
KEPT = 60 * 86400  # seconds that a result is remembered unused


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


class Keys:
    """The digest of a file and of everything of this project that it includes."""

    def __init__(self):
        packages = output("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", "*-dev")
        with open(".clang-tidy", "rb") as f:
            config = f.read()
        self.common = hashlib.sha256(b"\0".join([output("clang-tidy", "--version"), packages, config, repr(OPTIONS).encode()])).digest()
        self.files = {}

    def read(self, path):
        """(digest, paths of what it includes)"""
        if path not in self.files:
            with open(path, "rb") as f:
                text = f.read()
            found = []
            for name in INCLUDE.findall(text):
                name = name.decode()
                places = (os.path.normpath(os.path.join(os.path.dirname(path), name)), os.path.normpath(name))
                found += [p for p in places if os.path.isfile(p)][:1]
            self.files[path] = (hashlib.sha256(text).digest(), found)
        return self.files[path]

    def of(self, path):
        seen, todo = {path}, [path]
        while todo:
            for name in self.read(todo.pop())[1]:
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        h = hashlib.sha256(self.common + path.encode())
        for name in sorted(seen):
            h.update(name.encode() + b"\0" + self.read(name)[0])
        return h.hexdigest()


def look(path):
    """(clean, what is to say about it)"""
    p = subprocess.run(["clang-tidy", "--quiet", path, "--", *OPTIONS], capture_output=True, text=True, check=False)
    if p.returncode == 0 and not re.search(r"(warning|error):", p.stdout):
        return True, ""
    return False, p.stdout or p.stderr


def forget(cache):
    for name in os.listdir(cache):
        try:
            if time.time() - os.stat(os.path.join(cache, name)).st_mtime > KEPT:
                os.unlink(os.path.join(cache, name))
        except FileNotFoundError:
            pass  # by another run


def main():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.environ.get("TIDY_CACHE") or os.path.join(home, "muxd", "tidy")
    os.makedirs(cache, exist_ok=True)
    files = output("git", "ls-files", "-z", *FOLDERS).decode().split("\0")[:-1]
    keys, todo = Keys(), []
    for path in filter(os.path.exists, files):
        known = os.path.join(cache, keys.of(path))
        if os.path.exists(known):
            os.utime(known)
        else:
            todo.append((path, known))
    said = set()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (path, known), (clean, text) in zip(todo, pool.map(lambda t: look(t[0]), todo)):
            if clean:
                with open(known, "wb"):
                    pass
            elif text not in said:
                said.add(text)
                print(text.rstrip() or f"{path}: clang-tidy did not get through")
    forget(cache)
    print(f"tidy: {len(todo)} of {len(files)} files looked at, the others are as they were when they were clean")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
