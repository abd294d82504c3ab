#!/usr/bin/python3
"""api_docs.py OUT: the examples of docs/api.md, one after the other as on one page, in one shell (OUT is its directory). Each command
succeeds, and each answer that the page shows has the keys and types of one that came. STATE in the environment."""
import json
import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OUT = sys.argv[1]


def blocks():
    with open(os.path.join(TOP, "docs", "api.md"), encoding="utf-8") as f:
        page = f.read()
    return [(page.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.M | re.S)]


def answers(text):
    """The JSON objects in it, whatever stands between them."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except ValueError:
            at += 1
    return found


def differs(shown, came, where=""):
    """What the page shows and did not come; "" where all of it did. null stands for anything, and so does a value for null."""
    if shown is None or came is None:
        return ""
    if isinstance(shown, bool) != isinstance(came, bool) or not isinstance(came, (int, float) if isinstance(shown, (int, float)) else type(shown)):
        return f"{where or '/'} is {came!r}"
    if isinstance(shown, dict):
        missing = [f"{where}/{k} is missing" for k in shown if k not in came]
        return "; ".join(missing or filter(None, (differs(v, came[k], f"{where}/{k}") for k, v in shown.items())))
    if isinstance(shown, list) and shown and came:
        return differs(shown[0], came[0], where + "/0")
    return ""


def main():
    found = blocks()
    script = ["set -euo pipefail"]
    for line, kind, text in found:
        if kind == "sh":
            script += [f"echo {line} >now; exec >answers.{line}", text]
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=OUT, stderr=subprocess.PIPE, text=True, timeout=120)
    with open(f"{OUT}/now", encoding="utf-8") as f:
        now = f.read().strip()
    if done.returncode:
        with open(f"{OUT}/answers.{now}", encoding="utf-8", errors="replace") as f:
            sys.exit(f"FAILED: docs/api.md:{now} ends with {done.returncode}: {done.stderr[-1500:]}\n{f.read()[-1500:]}")
    before = ""
    for line, kind, text in found:
        if kind == "sh":
            with open(f"{OUT}/answers.{line}", encoding="utf-8", errors="replace") as f:
                before = f.read()
            print(f"  ok: docs/api.md:{line} runs", flush=True)
        elif kind == "json":
            shown = json.loads(text)
            extra = os.environ.get("SHOWN_" + next(iter(shown)), "")  # an answer that no example before it gives
            came = answers(open(extra, encoding="utf-8").read() if extra else before)
            why = [differs(shown, c) for c in came]
            if "" not in why:
                sys.exit(f"FAILED: docs/api.md:{line}: no answer is like it: {min(why, key=len, default='there was none')}")
            print(f"  ok: docs/api.md:{line} is like what came", flush=True)
    if not {"sh", "json"} <= {kind for _, kind, _ in found}:
        sys.exit("FAILED: no examples")


main()
