#!/usr/bin/python3
"""Finds snprintf calls that cut text by bytes: a precision ("%.60s", "%.*s") anywhere, and, where texts of people and
programs are kept, any "%s" whose length nobody looks at. Such text goes through base/text.h, which cuts at a
character. What is bytes and no text, as a path, says so in a comment at the call: /* bytes: why */. Prints file:line."""
import re
import subprocess
import sys

TEXTS = ("muxd/hub/", "muxd/doors/", "muxd/plain/", "muxd/net/", "muxd/link/", "control/life/", "control/work/", "control/kube/")
OWN = ("base/text.c",)  # it is what the others use
LIBC_ONLY = ("muxd/muxlet/", "files/")  # inside the sandbox: what it says is repaired where it is read


def arguments(text, start):
    """The arguments of the call whose parenthesis is at start, and where it ends."""
    depth, part, out, at, quoted = 0, "", [], start, False
    while True:
        c = text[at]
        if quoted:
            part += c
            if c == "\\":
                at += 1
                part += text[at]
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
            part += c
        elif c in "([{":
            depth += 1
            part += c if depth > 1 else ""
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return out + [part.strip()], at + 1
            part += c
        elif c == "," and depth == 1:
            out.append(part.strip())
            part = ""
        else:
            part += c
        at += 1


def length_is_used(before, after):
    """Whether the call stands in an expression: then its length is compared or counted with."""
    before = re.sub(r"\(void\)\s*$", "", before).rstrip()
    if re.search(r"\((size_t|ssize_t|int|unsigned)\)$", before):
        return True
    return not (before.endswith((";", "{", "}", ")", "else", "*/")) and after.startswith(";"))


def faults(name):
    with open(name, encoding="utf-8") as f:
        text = f.read()
    for call in re.finditer(r"\bv?snprintf\s?(?=\()", text):
        parts, end = arguments(text, call.end())
        form = parts[2] if len(parts) > 2 else ""
        first = text.rfind("\n", 0, text.rfind("\n", 0, call.start())) + 1
        last = text.find("\n", end)
        if "/* bytes: " in text[first:last]:
            continue
        line = text.count("\n", 0, call.start()) + 1
        if re.search(r"%-?[0-9]*\.(\*|[0-9]+)s", form):
            yield f"{name}:{line}: {form} cuts by bytes: text_format() of base/text.h cuts at a character"
        elif call[0].startswith("v") and '"' not in form and not length_is_used(text[: call.start()], text[end:]):
            yield f"{name}:{line}: {form} is cut by bytes at the end: text_vformat() of base/text.h"
        elif name.startswith(TEXTS) and "%s" in form and not length_is_used(text[: call.start()], text[end:]):
            yield f"{name}:{line}: {form} is cut by bytes at the end: text_put() or text_format() of base/text.h"


def main():
    names = sys.argv[1:]
    if not names:
        listed = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout
        names = [n for n in listed.split() if n.startswith(("base/", "muxd/", "control/", "policy/", "recorder/"))]
    found = [f for n in names if n not in OWN and not n.startswith(LIBC_ONLY) for f in faults(n)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
