#!/usr/bin/python3
"""shellcheck over the scripts, by content (clean.py): one is looked at again when it, or one that it names, changed."""
import os
import re
import subprocess
import sys

from clean import Keys, Memory, tracked, versions

COMMAND = ["shellcheck", "-x", "-S", "warning"]
NAMED = re.compile(rb"[\w./-]+\.sh\b")
AT_ONCE = 8


def main():
    files = tracked("*.sh", ".ci/run")
    by_name = {}
    for path in files:
        by_name.setdefault(os.path.basename(path), []).append(path)

    def found(path, text):
        return {p for name in NAMED.findall(text) for p in by_name.get(os.path.basename(name).decode(), []) if p != path}

    memory, keys, bad = Memory("shellcheck"), Keys(versions("shellcheck") + repr(COMMAND).encode(), found), False
    todo = [(path, keys.of(path)) for path in files]
    todo = [(path, key) for path, key in todo if not memory.knows(key)]
    for n in range(0, len(todo), AT_ONCE):
        some = todo[n : n + AT_ONCE]
        if subprocess.run([*COMMAND, *(path for path, _ in some)], check=False).returncode:
            bad = True
            continue
        for _, key in some:
            memory.remember(key)
    memory.forget()
    print(f"shellcheck: {len(todo)} of {len(files)} scripts looked at")
    return bad


if __name__ == "__main__":
    sys.exit(main())
