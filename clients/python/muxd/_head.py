"""HTTP/1.1 as far as muxd speaks it (RFC 9112): heads in and out, and what is left of a body."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Tuple
from urllib.parse import quote

from .errors import InvalidRequest

HEAD_MAX = 64 << 10
LINE_MAX = 4 << 10


class BadAnswer(ConnectionError):
    """What came is no HTTP/1.1, or broke off."""


class Head(NamedTuple):
    status: int
    fields: Dict[str, str]  # names in lower case


def target(path: str, values: Mapping[str, str], query: Mapping[str, Any]) -> str:
    for name, value in values.items():
        if any(step in ("", ".", "..") for step in value.split("/")):  # a URL with one is another URL, though it be percent-encoded
            raise InvalidRequest(f"the {name} {value!r} is no name", hint="It is part of a URL: neither it nor a step of it is empty, . or ..")
        path = path.replace("{%s}" % name, quote(value, safe=""))
    pairs = [f"{k}={quote(_word(v), safe='')}" for k, v in query.items() if v is not None]
    return path + ("?" + "&".join(pairs) if pairs else "")


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, (str, bytes)) else str(value)


def request(method: str, path: str, fields: List[Tuple[str, str]]) -> bytes:
    for name, value in fields:
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the field {name} holds what no head may")
    lines = [f"{method} {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def number(text: str) -> bool:
    """Digits as HTTP means them; str.isdigit() knows others."""
    return text.isascii() and text.isdigit()


def parse(head: bytes) -> Head:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not number(words[1]) or len(words[1]) != 3:
        raise BadAnswer(f"the answer begins with {lines[0][:80]!r}")
    fields: Dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadAnswer(f"the answer has a line {line[:80]!r}")
        name, value = name.lower(), value.strip()
        if name in ("content-length", "transfer-encoding") and fields.get(name, value) != value:
            raise BadAnswer(f"the answer has two {name}")
        fields[name] = value
    return Head(int(words[1]), fields)


def body_length(method: str, head: Head) -> int:
    """Bytes of the body; -1 in chunks. One that ends with its connection looks the same when it is cut: muxd sends none."""
    if method == "HEAD" or head.status < 200 or head.status in (204, 304):
        return 0
    if "chunked" in head.fields.get("transfer-encoding", "").lower():
        return -1
    if "content-length" not in head.fields:
        raise BadAnswer("the answer does not say how long it is")
    length = head.fields["content-length"]
    if not number(length) or len(length) > 15:
        raise BadAnswer(f"Content-Length is {length[:40]!r}")
    return int(length)


def chunk_length(line: bytes) -> int:
    word = line.split(b";")[0].strip()
    if not word or len(word) > 15 or any(c not in b"0123456789abcdefABCDEF" for c in word):
        raise BadAnswer(f"a chunk begins with {line[:40]!r}")
    return int(word, 16)
