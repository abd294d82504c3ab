#!/usr/bin/python3
"""Finds functions whose names stand in more than three files of the product, so that a stack trace can be read without
its lines, and files of more than 1,000 lines whose opening comment does not say why. Prints what it finds."""
import collections
import re
import subprocess
import sys

MOST_FILES, MOST_LINES = 3, 1000
DEFINED = re.compile(r"^(?!typedef|\t)[a-zA-Z_][\w *]*?[ *]([a-z_]\w*)\((?:[^;{}()]|\([^()]*\))*\)\n\{", re.M)
OPENING = re.compile(r"\A(/\*.*?\*/)", re.S)


def main():
    files = subprocess.run(["git", "ls-files", "*.c"], capture_output=True, text=True, check=True).stdout.split()
    where, bad = collections.defaultdict(set), 0
    for path in (f for f in files if not f.startswith("tests/")):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for found in DEFINED.finditer(text):
            where[found[1]].add(path)
        opening = OPENING.match(text)
        if text.count("\n") > MOST_LINES and not (opening and re.search(r"(thousand|,000) lines", " ".join(opening[1].split()))):
            print("%s has %d lines: its opening comment says why one noun needs more than a thousand lines" % (path, text.count("\n")))
            bad = 1
    for name, paths in sorted(where.items()):
        if len(paths) > MOST_FILES and name != "main":
            print("%s() stands in %d files, so a stack trace does not say which: %s" % (name, len(paths), " ".join(sorted(paths))))
            bad = 1
    return bad


sys.exit(main())
