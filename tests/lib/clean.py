#!/usr/bin/python3
"""clean.py KIND FILE... -- COMMAND...: run COMMAND, which looks at these files, unless it has found them clean as they are.

What was clean is remembered outside the checkout, in ~/.cache/muxd/KIND (XDG_CACHE_HOME), as empty files called by a digest
of the files, the command and the tools' versions. A folder stands for all that git knows in it. tidy.py and scripts.py use
the same for one file at a time, with all that a file includes.
"""
import hashlib
import os
import subprocess
import sys
import time

KEPT = 60 * 86400  # seconds that a result is remembered unused


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def versions(*patterns):
    """Of those of Debian's packages that are there, as bytes. A tool may have come another way."""
    command = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *patterns]
    return subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def tracked(*patterns):
    """Files that git knows and that are there."""
    names = output("git", "ls-files", "-z", *patterns).decode().split("\0")[:-1]
    return [name for name in names if os.path.isfile(name)]


class Memory:
    """What was found clean."""

    def __init__(self, kind):
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.folder = os.path.join(home, "muxd", kind)
        os.makedirs(self.folder, exist_ok=True)

    def knows(self, key):
        try:
            os.utime(os.path.join(self.folder, key))
            return True
        except FileNotFoundError:
            return False

    def remember(self, key):
        with open(os.path.join(self.folder, key), "wb"):
            pass

    def forget(self):
        for name in os.listdir(self.folder):
            try:
                if time.time() - os.stat(os.path.join(self.folder, name)).st_mtime > KEPT:
                    os.unlink(os.path.join(self.folder, name))
            except FileNotFoundError:
                pass  # by another run


class Keys:
    """The digest of a file and of everything that it includes: `found` names the paths in its text, by its own path."""

    def __init__(self, common, found):
        self.common, self.found, self.files = hashlib.sha256(common).digest(), found, {}

    def read(self, path):
        """(digest, paths of what it includes)"""
        if path not in self.files:
            with open(path, "rb") as f:
                text = f.read()
            self.files[path] = (hashlib.sha256(text).digest(), self.found(path, text))
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


def main(kind, *words):
    files, command = list(words[: words.index("--")]), words[words.index("--") + 1 :]
    # Tools come as packages of Debian, or in the lock files of npm, which are among the files; node from anywhere.
    tools = versions("mypy", "python3") + output("node", "--version")
    h = hashlib.sha256(repr(command).encode() + tools)
    for name in tracked(*files):
        with open(name, "rb") as f:
            h.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    memory = Memory(kind)
    if memory.knows(h.hexdigest()):
        return 0
    code = subprocess.run(["bash", "-c", " ".join(command)] if len(command) == 1 else command, check=False).returncode
    if code == 0:
        memory.remember(h.hexdigest())
    memory.forget()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
