#!/usr/bin/python3
"""clang-tidy over the product's C, by content: a file that was found clean is looked at again when it, a header it includes,
.clang-tidy, the options or the tool change (clean.py). Says at the end how many files were looked at.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from clean import Keys, Memory, output, tracked, versions

FOLDERS = ("base/*.c", "muxd/*.c", "policy/*.c", "recorder/*.c", "control/*.c", "files/*.c")
OPTIONS = ["-std=c17", "-D_GNU_SOURCE", '-DMUXD_VERSION="0"', "-I."]
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)


def included(path, text):
    """Paths of what a file of this project includes of it."""
    found = []
    for name in INCLUDE.findall(text):
        name = name.decode()
        places = (os.path.normpath(os.path.join(os.path.dirname(path), name)), os.path.normpath(name))
        found += [p for p in places if os.path.isfile(p)][:1]
    return found


def look(path):
    """(clean, what is to say about it)"""
    p = subprocess.run(["clang-tidy", "--quiet", path, "--", *OPTIONS], capture_output=True, text=True, check=False)
    if p.returncode == 0 and not re.search(r"(warning|error):", p.stdout):
        return True, ""
    return False, p.stdout or p.stderr


def main():
    with open(".clang-tidy", "rb") as f:
        config = f.read()
    common = b"\0".join([output("clang-tidy", "--version"), versions("*-dev"), config, repr(OPTIONS).encode()])
    files, memory, keys = tracked(*FOLDERS), Memory("tidy"), Keys(common, included)
    todo = [(path, key) for path, key in ((path, keys.of(path)) for path in files) if not memory.knows(key)]
    said = set()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (path, key), (clean, text) in zip(todo, pool.map(lambda t: look(t[0]), todo)):
            if clean:
                memory.remember(key)
            elif text not in said:
                said.add(text)
                print(text.rstrip() or f"{path}: clang-tidy did not get through")
    memory.forget()
    print(f"tidy: {len(todo)} of {len(files)} files looked at, the others are as they were when they were clean")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
