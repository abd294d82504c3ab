#!/usr/bin/python3
"""docs.py: are the documents fit to be read? Prose has at most 120 columns (tables, blocks of code and words that cannot be broken
are as long as they are), every relative link leads to a file and, with #, to a heading of it, the files that a change opens
(docs/architecture.md, the first table) are where it says, and those that pages and comments name by their path are there."""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
COLUMNS = 120
LONG_WORD = re.compile(r"\S{60,}")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    with open(path, encoding="utf-8") as f:
        return {anchor(line.lstrip("#")) for line in f if line.startswith("#")}


def prose(text):
    """The lines that are prose, with their numbers."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def findings(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for number, line in prose(text):
        if len(line) > COLUMNS and not line.startswith("|") and not LONG_WORD.search(line):
            yield f"{number}: {len(line)} columns, {COLUMNS} are the most"
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(to):
                yield f"{number}: {target} is not there"
            elif heading and to.endswith(".md") and heading not in anchors(to):
                yield f"{number}: {name or 'this page'} has no heading #{heading}"


def opened():
    """The table's second column: a file without a folder lies in the folder named before it."""
    with open("docs/architecture.md", encoding="utf-8") as f:
        lines = list(enumerate(f, 1))
    begin = next(n for n, line in lines if line.startswith("## What to open"))
    end = next(n for n, line in lines if n > begin and line.startswith("## "))
    folder = ""
    for number, line in lines[begin:end]:
        for name in re.findall(r"`([^`]+)`", line.split("|")[2]) if line.startswith("|") else ():
            folder = os.path.dirname(name) if "/" in name else folder
            to = name if "/" in name else f"{folder}/{name}"
            if re.search(r"\w\.\w+$", name) and "NAME" not in name and not glob.glob(to):
                yield f"docs/architecture.md:{number}: {to} is not there"


PLACE = re.compile(r"(?<![\w/.-])((?:muxd|base|control|recorder|policy|files|tests|tools|webclient)/[\w/.-]+\.(?:c|h|py|sh|ts|mjs|yaml))\b")


def named():
    """Files of the product that pages and comments name by their whole path."""
    for page in subprocess.check_output(["git", "ls-files", "*.md", "*.c", "*.h"], text=True).split():
        if page.startswith(("clients/", "tests/")):
            continue
        with open(page, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                for name in PLACE.findall(line):
                    if not os.path.exists(name) and "NAME" not in name and "test_x" not in name:
                        yield f"{page}:{number}: {name} is not there"


os.chdir(ROOT)
bad = 0
for text in [*opened(), *named()]:
    print(text)
    bad += 1
for page in subprocess.check_output(["git", "ls-files", "*.md"], text=True).split():
    for text in findings(page):
        print(f"{page}:{text}")
        bad += 1
print(f"docs: {bad} findings" if bad else "docs: fine")
sys.exit(bad != 0)
