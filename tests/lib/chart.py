"""chart.py: `helm template` for the tests, which Debian does not have: a Helm chart's objects from values, by an interpreter of Go's
templates that knows what the chart uses and ends at anything else. tests/chart/render.go renders the same by Go's own
text/template and sprig; tests/integration/chart.sh compares both. Needs python3-yaml."""
import copy
import hashlib
import json
import os
import re

import yaml


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ChartError(Exception):
    """What helm would refuse: fail, required, or a template that is wrong."""


class Versions(frozenset):
    """.Capabilities.APIVersions"""


# What Helm takes a cluster for that it does not ask: the group versions of its own client library, as far as charts ask for them.
KNOWN = Versions({"v1", "apps/v1", "policy/v1", "policy/v1beta1", "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"})

TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(`[^`]*`)|(:=|=|\||\(|\)|,)|(-?\d+)\b|((?:\$\w*|[\w]+)?(?:\.\w+)+|\$\w*|\w+|\.))')


def tokens(where, text):
    out, at = [], 0
    text = text.strip()
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise ChartError(f"{where}: not understood: {text[at:]}")
        # A field right after a parenthesis is of what stands in it; there is none in the chart.
        out.append((m.lastindex, m.group(m.lastindex)))
        at = m.end()
    return out


def pieces(text):
    """Text and actions, with what the trim markers take."""
    out, trim = [], False
    for i, part in enumerate(re.split(r"\{\{((?:`[^`]*`|\"(?:[^\"\\]|\\.)*\"|/\*.*?\*/|[^}`\"]|\}(?!\}))*)\}\}", text, flags=re.S)):
        if i % 2 == 0:
            out.append(["text", part.lstrip() if trim else part])
            continue
        if part.startswith("-") and part[1:2].isspace():
            out[-1][1] = out[-1][1].rstrip()
            part = part[1:]
        trim = part.endswith("-") and part[-2:-1].isspace()
        part = (part[:-1] if trim else part).strip()
        out.append(["action", "" if part.startswith("/*") else part])
    return out


def parse(where, text, defines):
    """A tree of (kind, ...) nodes; what is defined goes to defines."""
    root = []
    stack = [("root", root)]
    for kind, part in pieces(text):
        here = stack[-1][1]
        word = part.split(None, 1)[0] if kind == "action" and part else ""
        rest = part[len(word):].strip()
        if kind == "text":
            here.append(("text", part))
        elif word in ("if", "with", "range"):
            body = []
            here.append((word, [(rest, body)]))
            stack.append((word, body, here[-1][1]))
        elif word == "else":
            _, _, branches = stack.pop()
            body = []
            branches.append((rest.removeprefix("if").strip() if rest else None, body))
            stack.append(("else", body, branches))
        elif word == "define":
            body = []
            defines[json.loads(rest)] = body
            stack.append(("define", body, None))
        elif word == "end":
            if len(stack) == 1:
                raise ChartError(f"{where}: an end too many")
            stack.pop()
        elif word:
            here.append(("action", part))
    if len(stack) != 1:
        raise ChartError(f"{where}: {stack[-1][0]} without its end")
    return root


def shown(v):
    """As Go prints it."""
    return "" if v is None else {True: "true", False: "false"}[v] if isinstance(v, bool) else str(v)


def to_yaml(v):
    return yaml.safe_dump(v, sort_keys=True, default_flow_style=False, width=10**6).removesuffix("\n").removesuffix("\n...")


def merged(into, from_):
    """from_ laid over into; null takes a value away."""
    for k, v in from_.items():
        if v is None:
            into.pop(k, None)
        elif isinstance(v, dict) and isinstance(into.get(k), dict):
            merged(into[k], v)
        else:
            into[k] = v
    return into


def indent(n, s):
    return "\n".join(" " * n + line for line in s.split("\n"))


def failed(text):
    raise ChartError(text)


def put(d, k, v):
    d[k] = v
    return d


def formatted(form, *args):
    args = list(args)
    return re.sub("%[sdvq]", lambda m: json.dumps(args.pop(0)) if m[0] == "%q" else shown(args.pop(0)), form)


def equal(a, *more):
    if any(type(a) is not type(b) for b in more):
        raise ChartError(f"eq: incompatible types of {a!r} and {more!r}")
    return a in more


FUNCTIONS = {
    "eq": equal, "ne": lambda a, b: not equal(a, b), "not": lambda v: not v,
    "toYaml": to_yaml, "quote": lambda v: "" if v is None else json.dumps(shown(v)), "printf": formatted,
    "indent": indent, "nindent": lambda n, s: "\n" + indent(n, s),
    "sha256sum": lambda s: hashlib.sha256(s.encode()).hexdigest(),
    "default": lambda d, v=None: v if v else d, "required": lambda m, v: failed(m) if v is None or v == "" else v,
    "fail": failed, "dict": lambda *a: dict(zip(a[::2], a[1::2])), "set": put, "deepCopy": copy.deepcopy, "mergeOverwrite": merged,
}


class Chart:
    """render(): {template: [object]}. changes are values over values.yaml, as -f does it; served is .Capabilities.APIVersions."""

    def __init__(self, directory, changes=None, namespace="muxd", served=KNOWN):
        self.directory = directory
        self.values = merged(yaml.load(self.read("values.yaml"), LOADER), changes or {})
        meta = yaml.load(self.read("Chart.yaml"), LOADER)
        self.root = {"Values": self.values, "Release": {"Name": "muxd", "Namespace": namespace, "Service": "Helm"},
                     "Chart": {"Name": meta["name"], "Version": meta["version"]}, "Capabilities": {"APIVersions": Versions(served)}}
        self.defines = {}

    def read(self, name):
        with open(os.path.join(self.directory, name), encoding="utf-8") as f:
            return f.read()

    def render(self):
        names = sorted(os.listdir(os.path.join(self.directory, "templates")))
        trees = {n: parse(n, self.read(f"templates/{n}"), self.defines) for n in names}
        out = {}
        for name, tree in trees.items():
            text = self.run(name, tree, self.root, {"$": self.root})
            if name.endswith(".yaml"):
                out[name] = [o for o in yaml.load_all(text, LOADER) if o]
        return {n: o for n, o in out.items() if o}

    @property
    def objects(self):
        return [o for objects in self.render().values() for o in objects]

    def run(self, where, tree, dot, names):
        out = []
        names = names if "$" in names else {"$": dot}
        for node in tree:
            if node[0] == "text":
                out.append(node[1])
            elif node[0] == "action":
                out.append(self.action(where, node[1], dot, names))
            else:
                out.append(self.branch(where, node, dot, names))
        return "".join(out)

    def action(self, where, text, dot, names):
        if m := re.match(r"(\$\w+)\s*:?=\s*", text):
            names[m[1]] = self.pipeline(where, text[m.end():], dot, names)
            return ""
        return shown(self.pipeline(where, text, dot, names))

    def branch(self, where, node, dot, names):
        kind, branches = node
        for condition, body in branches:
            if condition is None:
                return self.run(where, body, dot, dict(names))
            m = re.match(r"(?:(\$\w+)\s*,\s*)?(\$\w+)\s*:=\s*", condition)
            v = self.pipeline(where, condition[m.end():] if m else condition, dot, names)
            if not v:
                continue
            if kind == "range":
                pairs = sorted(v.items()) if isinstance(v, dict) else list(enumerate(v))
                return "".join(self.run(where, body, item, {**names, **({m[1] or "$_": key, m[2]: item} if m else {})})
                               for key, item in pairs)
            inner = {**names, **({m[2]: v} if m else {})}
            return self.run(where, body, v if kind == "with" else dot, inner)
        return ""

    def pipeline(self, where, text, dot, names):
        found = tokens(where, text)
        v = self.piped(where, found, dot, names)
        if found:
            raise ChartError(f"{where}: not understood in {text}")
        return v

    def piped(self, where, rest, dot, names):
        more = ()
        while True:
            v = self.command(where, rest, dot, names, more)
            if not rest or rest[0][1] != "|":
                return v
            rest.pop(0)
            more = (v,)

    def command(self, where, rest, dot, names, more):
        words = []
        while rest and rest[0][1] not in ("|", ")"):
            words.append(self.operand(where, rest, dot, names))
        if not words:
            raise ChartError(f"{where}: an empty command")
        (called, first), args = words[0], [v for _, v in words[1:]] + list(more)
        if any(name for name, _ in words[1:]):
            raise ChartError(f"{where}: a function that is an argument stands in parentheses")
        if not called:
            if args:
                raise ChartError(f"{where}: {first!r} is no function")
            return first
        if called in ("and", "or"):
            v = None
            for v in args:
                if bool(v) == (called == "or"):
                    break
            return v
        if called == "include":
            if args[0] not in self.defines:
                raise ChartError(f"{where}: no template {args[0]}")
            return self.run(where, self.defines[args[0]], args[1], {"$": args[1]})
        if called == "Has":
            return args[0] in first
        if called not in FUNCTIONS:
            raise ChartError(f"{where}: the function {called} is not known here")
        return FUNCTIONS[called](*args)

    def operand(self, where, rest, dot, names):
        """(the function's name or None, the value): a word alone is a function, and the value of Has is what it is asked of"""
        kind, word = rest.pop(0)
        if word == "(":
            v = self.piped(where, rest, dot, names)
            if not rest or rest.pop(0)[1] != ")":
                raise ChartError(f"{where}: a parenthesis is open")
            return None, v
        if kind == 1:
            return None, json.loads(word)
        if kind == 2:
            return None, word[1:-1]
        if kind == 4:
            return None, int(word)
        if word in ("true", "false", "nil"):
            return None, {"true": True, "false": False, "nil": None}[word]
        if word == ".":
            return None, dot
        head, *path = word.split(".")
        if head and not head.startswith("$"):
            if path:
                raise ChartError(f"{where}: not understood: {word}")
            return head, None
        if head and head not in names:
            raise ChartError(f"{where}: {head} is not defined")
        v = names[head] if head else dot
        for part in path:
            if isinstance(v, Versions) and part == "Has":
                return "Has", v
            if not isinstance(v, dict):
                raise ChartError(f"{where}: {word}: {part} of what is no map")
            v = v.get(part)
        return None, v
