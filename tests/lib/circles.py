#!/usr/bin/python3
"""Finds circles of files, and rooms of the hub that know one above them. File a.c uses b.c when it refers to a symbol that b.c defines (nm, over all objects); a use puts a.c
above b.c, so no file may use itself by way of others. Calls through a table of operations are no uses.
Uses that close a circle for a reason are listed in circles.allowed; a line there whose use closes no circle is an error.
usage: circles.py [--list] [ROOT]; --list prints the allowed uses with their symbols."""
import collections
import os
import re
import subprocess
import sys

# From top to ground: a room calls and includes those behind it. Structs (*_state.h) are for all.
ROOMS = ("muxd/hub", *("muxd/hub/" + r for r in "inside filespace services broker link access session agent record core".split()))
TOPS = ("base", "control", "muxd", "policy", "recorder")
DEFINED = "TDBRVWC"


def object_of(source):
    """The sources of muxlet, which goes into sandboxes, are compiled apart."""
    return ("build/muxlet.d/" if source.startswith("muxd/muxlet/") else "build/obj/") + source.removesuffix(".c") + ".o"


def objects(problems):
    """{object: its source}, without objects whose source is gone. An object older than its source is a problem."""
    found = {}
    for top in TOPS:
        for folder, _, names in os.walk(top):
            for source in (f"{folder}/{n}" for n in names if n.endswith(".c")):
                path = object_of(source)
                if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
                    problems.append(f"{source}: not compiled since it changed; run make all first")
                found[path] = source
    return {} if problems else found


def uses_of(found):
    """{file: {used file: symbols}}. Of a symbol that several programs define, the definition in the same folder counts."""
    defines, needs = collections.defaultdict(set), collections.defaultdict(set)
    for at in range(0, len(found), 500):
        told = subprocess.run(["nm", "-A", "-P", *list(found)[at : at + 500]], capture_output=True, text=True, check=True)
        for line in told.stdout.splitlines():
            path, rest = line.split(": ", 1)
            symbol, kind = rest.split()[:2]
            if kind in DEFINED:
                defines[symbol].add(found[path])
            elif kind == "U":
                needs[found[path]].add(symbol)
    uses = {source: collections.defaultdict(set) for source in sorted(found.values())}
    for source, symbols in needs.items():
        for symbol in symbols:
            owners = defines.get(symbol, set())
            if len(owners) > 1:
                owners = {o for o in owners if os.path.dirname(o) == os.path.dirname(source)}
            if len(owners) == 1 and source not in owners:
                uses[source][next(iter(owners))].add(symbol)
    return uses


def allowed(path, problems):
    """[(from, to, line)] of the list: "[name] reason" opens a circle, "a.c -> b.c" is a use, "#" begins a comment."""
    listed, part, seen = [], None, set()
    if not os.path.exists(path):
        return listed
    with open(path, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            line, where = line.rstrip(), f"{path}:{n}"
            if not line or line.startswith("#"):
                continue
            if m := re.fullmatch(r"\[([^\]]+)\]\s*(.*)", line):
                part = m[1]
                if not m[2]:
                    problems.append(f"{where}: [{part}] gives no reason")
            elif m := re.fullmatch(r"(\S+\.c) -> (\S+\.c)", line):
                if part is None:
                    problems.append(f"{where}: no [name] and reason above it")
                if m.groups() in seen:
                    problems.append(f"{where}: listed twice")
                seen.add(m.groups())
                listed.append((m[1], m[2], where))
            else:
                problems.append(f"{where}: neither [name] reason nor a.c -> b.c")
    return listed


def circles(uses):
    """Sets of files that reach each other (strongly connected components, by Tarjan), the largest first."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in uses[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = set(stack[stack.index(v) :])
            del stack[stack.index(v) :]
            on.difference_update(part)
            if len(part) > 1:
                out.append(part)

    sys.setrecursionlimit(20000)
    for v in uses:
        if v not in index:
            visit(v)
    return sorted(out, key=lambda c: (-len(c), min(c)))


def upward(uses):
    """Problems: calls, and includes, of a room above one's own."""
    rank, found = {r: n for n, r in enumerate(ROOMS)}, []

    def is_above(a, b):
        a, b = rank.get(os.path.dirname(a)), rank.get(os.path.dirname(b))
        return a is not None and b is not None and b < a

    for a, used in uses.items():
        found += [f"{a}: calls {', '.join(sorted(s))} of {b}, a room above it" for b, s in used.items() if is_above(a, b)]
    for room in ROOMS:
        for name in sorted(n for n in (os.listdir(room) if os.path.isdir(room) else ()) if n.endswith((".c", ".h"))):
            with open(f"{room}/{name}", encoding="utf-8") as f:
                for b in re.findall(r'^#include "(muxd/hub/[a-z_/]+\.h)"', f.read(), re.M):
                    if is_above(f"{room}/{name}", b) and not b.endswith("_state.h"):
                        found.append(f"{room}/{name}: includes {b}, of a room above it")
    return found


def shortest(uses, part):
    """The shortest circle within a set of files that reach each other, as [(from, to)]."""
    best = None
    for start in sorted(part):
        before, queue = {}, collections.deque([start])
        while queue and start not in before:
            v = queue.popleft()
            for w in sorted(part & uses[v].keys()):
                if w not in before:
                    before[w] = v
                    queue.append(w)
        way, at = [], start
        while not way or at != start:
            way.insert(0, (before[at], at))
            at = before[at]
        if best is None or len(way) < len(best):
            best = way
    return best


def main(args):
    show = "--list" in args
    roots = [a for a in args if not a.startswith("-")]
    os.chdir(roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    problems = []
    found = objects(problems)
    listed = allowed("tests/lib/circles.allowed", problems)
    if not found:
        print(*(problems[:5] or ["no sources here"]), sep="\n")
        return 1
    uses = uses_of(found)
    problems += upward(uses)
    all_circles = circles(uses)
    circle = {f: n for n, part in enumerate(all_circles) for f in part}
    for a, b, where in listed:
        if b not in uses.get(a, {}):
            problems.append(f"{where}: {a} uses {b} no longer: delete this line")
        elif circle.get(a, -1) != circle.get(b, -2):
            problems.append(f"{where}: {a} and {b} are no longer in one circle: delete this line")
        elif show:
            print(f"{a} -> {b}:", *sorted(uses[a][b]))
    rest = {a: {b: s for b, s in to.items()} for a, to in uses.items()}
    for a, b, _ in listed:
        rest.get(a, {}).pop(b, None)
    for part in circles(rest):
        problems.append("a circle of files: turn one of these uses round, or move the function that is used to the ground:")
        problems += [f"   {a} -> {b}: " + " ".join(sorted(rest[a][b])) for a, b in shortest(rest, part)]
    print(*problems, sep="\n", end="\n" if problems else "")
    if not problems:
        told = f"{len(all_circles)} of {len(circle)} files are allowed, by {len(listed)} uses"
        print(f"circles: {told if listed else 'none'}")
    return 1 if problems else 0


sys.exit(main(sys.argv[1:]))
