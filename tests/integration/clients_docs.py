#!/usr/bin/python3
"""clients_docs.py OUT: the examples of docs/clients.md. Those in Python run here, one after the other, as on one page; those in
TypeScript are written to OUT, a file each."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(TOP, "clients", "python"))

with open(os.path.join(TOP, "docs", "clients.md"), encoding="utf-8") as f:
    page = f.read()
blocks = [(page.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in re.finditer(r"^```(python|ts)\n(.*?)^```$", page, re.M | re.S)]
names = {}
for line, kind, text in blocks:
    if kind == "python":
        exec(compile("\n" * (line - 1) + text, "docs/clients.md", "exec"), names)  # pylint: disable=exec-used
        print(f"  ok: docs/clients.md:{line}", flush=True)
    else:
        with open(f"{sys.argv[1]}/example{line}.ts", "w", encoding="utf-8") as f:
            f.write(text)
if {kind for _, kind, _ in blocks} != {"python", "ts"}:
    sys.exit("FAILED: no examples")
