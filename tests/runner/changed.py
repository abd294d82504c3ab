"""What a unit test or a corpus is made of, as one digest: `make check` leaves out what has not changed since it passed.

A program is its own object and those that the linker takes with it, by the objects' symbols; the programs of muxd that it
starts; and the files that its sources name. Whether that changed is asked of contents, not of times: a fresh clone has no test
that passed, so everything counts as changed.
"""
import collections
import glob
import hashlib
import os
import re
import subprocess

STARTED = ("muxlet", "muxd-screen", "muxd-archive", "muxd-recorder", "muxd-witness", "muxd-issuer", "muxctl")
NAMED = re.compile(r"(?:tests|docs|deploy|tools|policy|webclient)/[\w./-]*[\w-]")
PASSED = "build/passed"


def named(files):
    """These files, those that they name, and so on through tests/."""
    seen, todo = set(files), list(files)
    while todo:
        name = todo.pop()
        if not name.startswith("tests/") or not os.path.isfile(name) or name.startswith("tests/fuzz/corpus/"):
            continue
        with open(name, encoding="utf-8", errors="replace") as f:
            more = {w for w in NAMED.findall(f.read()) if os.path.exists(w)} - seen
        seen |= more
        todo += more
    return seen


class Contents:
    def __init__(self, build):
        self.build = build
        self.known = {}
        self.defined, self.wanted = {}, collections.defaultdict(set)
        mains = {f"{build}/obj/{p}/main.o" for p in ("muxd", "recorder", "muxd/screen", "muxd/witness", "muxd/ctl", "control/archive")}
        self.objects([o for o in glob.glob(f"{build}/obj/**/*.o", recursive=True) if o not in mains], True)
        self.objects(glob.glob(f"{build}/test/**/*.o", recursive=True), False)

    def objects(self, paths, library):
        """Who defines and who wants which symbol, of all objects by one call."""
        if not paths:
            return
        said = subprocess.run(["nm", "-A", "-g", *sorted(paths)], check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in said.splitlines():
            path, rest = line.split(":", 1)
            *_, kind, symbol = rest.split()
            if kind in "Uw":
                self.wanted[path].add(symbol)
            elif library:
                self.defined.setdefault(symbol, path)

    def linked(self, path):
        """The object and those that come with it."""
        seen, todo = {path}, [path]
        while todo:
            for symbol in self.wanted[todo.pop()]:
                other = self.defined.get(symbol)
                if other and other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    def digest(self, path):
        if path not in self.known:
            h = hashlib.sha256()
            for name in sorted(glob.glob(path + "/**", recursive=True)) if os.path.isdir(path) else [path]:
                if os.path.isfile(name):
                    with open(name, "rb") as f:
                        h.update(name.encode() + b"\0" + f.read())
            self.known[path] = h.digest()
        return self.known[path]

    def sources(self, obj):
        """The test's own sources, of its object's dependency file, and the files that they name, and so on."""
        try:
            with open(obj.removesuffix(".o") + ".d", encoding="utf-8") as f:
                todo = [w for w in f.read().replace("\\\n", " ").split() if w.startswith("tests/") and not w.endswith(":")]
        except FileNotFoundError:
            todo = []
        return named(todo)

    def of(self, test):
        """The digest of all that a test is made of."""
        obj = f"{self.build}/test/{test.path.removeprefix('tests/').removesuffix('.c')}.o"
        parts = self.linked(obj) | self.sources(obj)
        if test.kind == "fuzz":
            parts |= self.linked(f"{self.build}/test/fuzz/run_corpus.o") | {f"tests/fuzz/corpus/{test.name}"}
        text = ""
        for name in parts:
            if name.startswith("tests/") and name.endswith((".c", ".h")):
                with open(name, encoding="utf-8", errors="replace") as f:
                    text += f.read()
        if "BUILD_DIR" in text:
            parts |= {f"{self.build}/{p}" for p in STARTED if p in text}
        h = hashlib.sha256()
        for name in sorted(parts):
            h.update(name.encode() + b"\0" + (self.digest(name) if os.path.exists(name) else b""))
        return h.hexdigest()


def stamp(test):
    return f"{PASSED}/{test.kind}_{test.name}"


def passed_as(test):
    """The digest with which it passed last, or None."""
    try:
        with open(stamp(test), encoding="ascii") as f:
            return f.read()
    except FileNotFoundError:
        return None


def passed(test, digest):
    os.makedirs(PASSED, exist_ok=True)
    with open(stamp(test), "w", encoding="ascii") as f:
        f.write(digest)
