"""What has passed of a whole proof: `make test-all` takes hours, and one that was ended goes on where it was.

A test counts as passed for exactly one product: the files that git knows of it, its tests' library, and the test's own files
with those that they name. A commit that changes the product makes everything due again. A finding of a sanitizer in a daemon's log belongs to no single story
and stays until build/proof is removed.
"""
import glob
import hashlib
import os
import shutil
import subprocess

import changed

PATH = "build/proof"
# What every test is made of; the rest of tests/ belongs to single tests.
PRODUCT = ("Makefile", "base", "clients", "control", "deploy", "files", "muxd", "policy", "recorder", "tools", "webclient",
           "tests/clients", "tests/lib", "tests/mcp", "tests/tests.mk")


def tracked(*paths):
    said = subprocess.run(["git", "ls-files", "-z", "--", *paths], check=True, stdout=subprocess.PIPE).stdout
    return sorted(name for name in said.decode().split("\0") if os.path.isfile(name))


def digest(paths, seed=b""):
    h = hashlib.sha256(seed)
    for name in paths:
        with open(name, "rb") as f:
            h.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return h.hexdigest()


class Proof:
    def __init__(self):
        self.product = digest(tracked(*PRODUCT)).encode()
        self.had, self.findings, self.seconds = {}, {}, 0.0
        try:
            with open(PATH, encoding="utf-8") as f:
                for what, *words in (line.split() for line in f if line.endswith("\n")):
                    self.read(what, words)
        except FileNotFoundError:
            pass

    def read(self, what, words):
        if what == "passed":
            self.had[words[0]] = words[1]
        elif what == "finding":
            self.findings[words[0]] = words[1]
        elif what == "counted":
            self.seconds += float(words[0])

    @staticmethod
    def parts(test):
        """A test's own files: its script with what goes by the same name, and what these name. Clusters and browsers are more
        than what is named; of the documents all count where one is."""
        own = tracked(test.path, *(glob.glob(f"tests/integration/{test.name}.*") if test.kind == "story" else []))
        parts = changed.named(own)
        whole = {f"tests/fuzz/corpus/{test.name}"} if test.kind == "fuzz" else set()
        whole |= {top for top in ("tests/e2e", "docs") if any(p.startswith(top + "/") for p in parts)}
        return sorted({p for p in parts if os.path.isfile(p)} | set(tracked(*whole) if whole else ()))

    def key(self, test):
        return digest(self.parts(test), self.product)

    def due(self, san, test):
        return self.had.get(test.called(san)) != self.key(test)

    def write(self, *words):
        with open(PATH, "a", encoding="utf-8") as f:
            f.write(" ".join(words) + "\n")

    def passed(self, san, test):
        self.write("passed", test.called(san), self.key(test))

    def finding(self, name, log):
        kept = f"{log.removesuffix('.log')}.of-{os.getpid()}.log"  # the next run writes over this run's
        shutil.copyfile(log, kept)
        self.write("finding", name, kept)

    def counted(self, seconds):
        self.write("counted", f"{seconds:.0f}")
