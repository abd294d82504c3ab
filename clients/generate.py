#!/usr/bin/python3
"""generate.py [--check]: what the clients have from docs/openapi.yaml, and the blocking half of the Python package.

  python/muxd/api.py         operations, shapes of bodies and answers, of the document
  python/muxd/errors.py      an exception for each error code, behind what errors_base.py has by hand
  python/muxd/_sync/*.py     _async/*.py without its awaits: the two halves cannot differ
  typescript/src/api.ts      the same of the document for TypeScript, and errors.ts

What it writes is committed. --check writes nothing, and fails where that is not what the document says now.
"""
import keyword
import os
import re
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "docs", "openapi.yaml")
PYTHON, TYPESCRIPT = os.path.join(HERE, "python", "muxd"), os.path.join(HERE, "typescript", "src")
MADE = "Made by clients/generate.py; a change belongs there, or into {}."
# Names that are not the code in capitals: requirements and Python's own names have a say.
NAMES = {"sandbox_k8s_error": "SandboxK8sError", "timeout": "ServerTimeout", "permission_denied": "HostPermissionDenied",
         "internal": "InternalError", "system_error": "HostSystemError", "unsupported": "Unsupported", "end_of_file": "EndOfFile"}
SHAPES = ["SandboxReference", "Agent", "Snapshot", "Round", "Stream", "Exit", "Output", "OutputLines", "StdinResult", "File", "FsName", "FsState", "FsChanges", "FsEntry",
          "FsList", "FsRead", "FsWritten", "FsDeleted", "FsPatched", "FsFound", "FsTree", "FsEvent", "FilePath", "FileDigest", "FileMode", "FileType", "AgentState",
          "Encoding", "Id", "Duration", "RoundRequest", "Name", "Artifact", "ArtifactTaken", "Screen", "Session", "SessionKind", "SessionState", "PodTemplate", "Error", "ErrorCode",
          "Context", "Language", "Execution", "ExecutionResult", "ExecutionError", "Printed"]


def class_name(code):
    return NAMES.get(code) or "".join(w.capitalize() for w in code.split("_"))


def ref_name(schema):
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


class Operation:
    def __init__(self, name, method, path, about, shared):
        self.name, self.method, self.path = name, method.upper(), path
        given = [resolve(p) for p in shared + about.get("parameters", [])]
        self.query = [p["name"] for p in given if p["in"] == "query"]
        body = about.get("requestBody", {}).get("content", {})
        schema = resolve(body.get("application/json", {}).get("schema", {}))
        self.body = sorted(schema.get("properties", {}))


document = {}


def resolve(node):
    while "$ref" in node:
        target = document
        for part in node["$ref"].lstrip("#/").split("/"):
            target = target[part]
        node = target
    return node


def operations():
    for path, item in document["paths"].items():
        for method in ("get", "put", "post", "delete"):
            if method in item and not path.startswith(("/ui", "/k8s")) and not item[method]["operationId"].startswith("page"):
                yield Operation(item[method]["operationId"], method, path, item[method], item.get("parameters", []))


# --- Python

def python_type(schema):
    if ref_name(schema):
        return ref_name(schema) if ref_name(schema) in SHAPES else "Any"
    kind = schema.get("type")
    if isinstance(kind, list):
        return "Optional[%s]" % python_type({**schema, "type": next(k for k in kind if k != "null")})
    for several in ("oneOf", "anyOf"):
        if several in schema:
            kinds = [python_type(s) for s in schema[several] if s.get("type") != "null"]
            kinds = list(dict.fromkeys(kinds))
            joined = kinds[0] if len(kinds) == 1 else "Union[%s]" % ", ".join(kinds)
            return "Optional[%s]" % joined if any(s.get("type") == "null" for s in schema[several]) else joined
    if "enum" in schema and kind in ("string", None):
        words = ["None" if v is None else repr(v).replace("'", '"') for v in schema["enum"]]
        return "Literal[%s]" % ", ".join(words)
    if kind == "array":
        return "List[%s]" % python_type(schema.get("items", {}))
    if kind == "object":
        return "Dict[str, %s]" % (python_type(schema["additionalProperties"]) if isinstance(schema.get("additionalProperties"), dict) else "Any")
    return {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}.get(kind, "Any")


def python_class(name, schema):
    needed = set(schema.get("required", []))
    fields = {k: python_type(v) for k, v in schema["properties"].items()}
    must, may = [k for k in fields if k in needed], [k for k in fields if k not in needed]
    if any(keyword.iskeyword(k) for k in fields):
        raise SystemExit(f"{name} has a field that is a keyword of Python")
    if not may:
        return [f"class {name}(TypedDict):"] + [f"    {k}: {fields[k]}" for k in must] + ["", ""]
    lines = []
    if must:
        lines += [f"class _{name}(TypedDict):"] + [f"    {k}: {fields[k]}" for k in must] + ["", ""]
    base = f"_{name}" if must else "TypedDict"
    return lines + [f"class {name}({base}, total=False):"] + [f"    {k}: {fields[k]}" for k in may] + ["", ""]


def plain(schema):
    return not schema.get("properties")


def ordered():
    """Shapes behind those that they are made of."""
    done, schemas = [], document["components"]["schemas"]

    def visit(name):
        if name in done:
            return
        for inner in re.findall(r"#/components/schemas/(\w+)", str(schemas[name])):
            if inner in SHAPES and inner != name:
                visit(inner)
        done.append(name)
    for name in SHAPES:
        visit(name)
    return done


def python_api():
    schemas = document["components"]["schemas"]
    out = ['"""The API as docs/openapi.yaml describes it: its operations, and the shapes of what it takes and answers.', "",
           MADE.format("docs/openapi.yaml"), '"""', "from __future__ import annotations", "",
           "from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple, TypedDict, Union", "",
           f'VERSION = "{document["info"]["version"]}"', "", "",
           "class Operation(NamedTuple):", "    method: str", "    path: str", "    query: Tuple[str, ...]", "    body: Tuple[str, ...]", "", "",
           "OPERATIONS: Dict[str, Operation] = {"]
    for o in operations():
        words = [tuple_of(o.query), tuple_of(o.body)]
        out.append(f'    "{o.name}": Operation("{o.method}", "{o.path}", {words[0]}, {words[1]}),')
    out += ["}", ""]
    for name in ordered():
        if plain(schemas[name]):
            out += [f"{name} = {python_type(schemas[name])}"]
    out += ["", ""]
    for name in ordered():
        if not plain(schemas[name]):
            out += python_class(name, schemas[name])
    return "\n".join(out).rstrip("\n") + "\n"


def tuple_of(words):
    return "(%s%s)" % (", ".join(f'"{w}"' for w in words), "," if len(words) == 1 else "")


def codes():
    return document["components"]["schemas"]["ErrorCode"]["enum"]


def python_errors():
    out = ['"""An exception for each error code of the API, all under SandboxError.', "", MADE.format("docs/openapi.yaml and errors_base.py"), '"""',
           "from typing import Dict, Type", "", "from .errors_base import CommandExitException, ConnectionLost, RequestTimeout, SandboxError, SandboxExecTimeout, SandboxK8sError", ""]
    names = ["BY_CODE", "CommandExitException", "ConnectionLost", "RequestTimeout", "SandboxError", "SandboxExecTimeout", "SandboxK8sError", "error_class"]
    by_code = {"sandbox_k8s_error": "SandboxK8sError", "sandbox_exec_timeout": "SandboxExecTimeout"}
    for code in codes():
        if code in by_code:
            continue
        name = by_code[code] = class_name(code)
        names.append(name)
        base = "SandboxK8sError" if code.startswith("k8s_") else "SandboxError"
        out += ["", f"class {name}({base}):", f'    code = "{code}"', ""]
    out += ["", "BY_CODE: Dict[str, Type[SandboxError]] = {"] + [f'    "{c}": {by_code[c]},' for c in codes()] + ["}", "", "",
            "def error_class(code: str) -> Type[SandboxError]:",
            '    """Of a code; of one that this version does not know, SandboxError itself."""',
            "    return BY_CODE.get(code, SandboxError)", "", ""]
    out += ["__all__ = ["] + [f'    "{n}",' for n in sorted(names)] + ["]"]
    return "\n".join(out) + "\n"


UNASYNC = [(r"\bAsyncIterator\b", "Iterator"), (r"\bAsyncGenerator\b", "Generator"), (r"\bAwaitable\[(\w+)\]", r"\1"), (r"\basync (def|with|for)\b", r"\1"),
           (r"\bawait ", ""), (r"__(aenter|aexit|aiter|anext)__", lambda m: f"__{m.group(1)[1:]}__"), (r"\bStopAsyncIteration\b", "StopIteration"), (r"\baclose\b", "close"),
           (r"\bAsync([A-Z]\w*)", r"\1"), (r"\.aio\b", ".sync"), (r"\b_async\b", "_sync")]


def unasync(text):
    for pattern, to in UNASYNC:
        text = re.sub(pattern, to, text)
    head, _, rest = text.partition('"""\n')
    return head + "\n\n" + MADE.format("_async/") + '\n"""\n' + rest if head.startswith('"""') else text


# --- TypeScript

def ts_type(schema, depth=1):
    if ref_name(schema):
        return ref_name(schema) if ref_name(schema) in SHAPES else "unknown"
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [ts_type({**schema, "type": k}, depth) for k in kind if k != "null"]
        return " | ".join(dict.fromkeys(kinds + ["null"]))
    for several in ("oneOf", "anyOf"):
        if several in schema and not schema.get("properties"):
            return " | ".join(dict.fromkeys("null" if s.get("type") == "null" else ts_type(s, depth) for s in schema[several]))
    if "enum" in schema and kind in ("string", None):
        return " | ".join("null" if v is None else f'"{v}"' for v in schema["enum"])
    if kind == "array":
        inner = ts_type(schema.get("items", {}), depth)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object" and schema.get("properties"):
        return ts_object(schema, depth)
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {ts_type(more, depth) if isinstance(more, dict) else 'unknown'}>"
    return {"string": "string", "integer": "number", "boolean": "boolean", "number": "number"}.get(kind, "unknown")


def ts_object(schema, depth):
    needed, pad = set(schema.get("required", [])), "  " * depth
    fields = [f"{pad}{k}{'' if k in needed else '?'}: {ts_type(v, depth + 1)};" for k, v in schema["properties"].items()]
    return "{\n" + "\n".join(fields) + "\n" + "  " * (depth - 1) + "}"


def typescript():
    schemas = document["components"]["schemas"]
    out = ["/**", " * The API as docs/openapi.yaml describes it: its operations, and the shapes of what it takes and answers.", " *",
           " * " + MADE.format("docs/openapi.yaml"), " */", f'export const VERSION = "{document["info"]["version"]}";', "",
           "export interface Operation {", "  readonly method: string;", "  readonly path: string;", "  readonly query: readonly string[];",
           "  readonly body: readonly string[];", "}", "", "export const OPERATIONS = {"]
    for o in operations():
        lists = [", ".join(f'"{w}"' for w in words) for words in (o.query, o.body)]
        out.append(f'  {o.name}: {{ method: "{o.method}", path: "{o.path}", query: [{lists[0]}], body: [{lists[1]}] }},')
    out += ["} as const satisfies Record<string, Operation>;", "", "export type OperationName = keyof typeof OPERATIONS;"]
    for name in ordered():
        schema = schemas[name]
        out += ["", f"export interface {name} {ts_object(schema, 1)}" if schema.get("properties") else f"export type {name} = {ts_type(schema)};"]
    return "\n".join(out) + "\n"


def typescript_errors():
    out = ["/**", " * An error for each code of the API, all under SandboxError.", " *", " * " + MADE.format("docs/openapi.yaml and errors_base.ts"), " */",
           'import { SandboxError, SandboxK8sError } from "./errors_base.js";', 'export * from "./errors_base.js";']
    by_code = {"sandbox_k8s_error": "SandboxK8sError", "sandbox_exec_timeout": "SandboxExecTimeout"}
    for code in codes():
        if code not in by_code:
            name = by_code[code] = class_name(code)
            base = "SandboxK8sError" if code.startswith("k8s_") else "SandboxError"
            out += ["", f"export class {name} extends {base} {{", f'  static override readonly code: string = "{code}";', "}"]
    # sandbox_exec_timeout comes with a result, and never as an answer of its own.
    out += ["", "export const BY_CODE: ReadonlyMap<string, typeof SandboxError> = new Map<string, typeof SandboxError>(["]
    out += [f'  ["{c}", {by_code[c]}],' for c in codes() if by_code[c] != "SandboxExecTimeout"] + ["]);"]
    return "\n".join(out) + "\n"


def outputs():
    yield os.path.join(PYTHON, "api.py"), python_api()
    yield os.path.join(PYTHON, "errors.py"), python_errors()
    for name in sorted(os.listdir(os.path.join(PYTHON, "_async"))):
        if name.endswith(".py"):
            with open(os.path.join(PYTHON, "_async", name), encoding="utf-8") as f:
                yield os.path.join(PYTHON, "_sync", name), unasync(f.read())
    yield os.path.join(TYPESCRIPT, "api.ts"), typescript()
    yield os.path.join(TYPESCRIPT, "errors.ts"), typescript_errors()


def stale(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read() != text
    except FileNotFoundError:
        return True


def main():
    with open(DOCUMENT, encoding="utf-8") as f:
        document.update(yaml.safe_load(f))
    old = [(path, text) for path, text in outputs() if stale(path, text)]
    if sys.argv[1:] == ["--check"]:
        for path, _ in old:
            print(f"{os.path.relpath(path, os.path.dirname(HERE))} is not what the document says now: run clients/generate.py")
        return 1 if old else 0
    for path, text in old:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
