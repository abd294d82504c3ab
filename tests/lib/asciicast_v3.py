#!/usr/bin/env python3
"""Checks a file against the asciicast v3 format (docs.asciinema.org/manual/asciicast/v3).

    asciicast_v3.py FILE            a JSON summary on stdout, or the first fault on stderr and status 1
    asciicast_v3.py --output FILE   what a terminal would have been sent, after the same checks

Knows nothing of the program that wrote the file: header with term {cols, rows}, then one
[interval, code, data] a line with intervals relative to the event before; # begins a comment.
"""
import json
import re
import sys


class Fault(Exception):
    pass


def need(condition, line, text):
    if not condition:
        raise Fault(f"line {line}: {text}")


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)


def parse(text, line):
    try:
        return json.loads(text, object_pairs_hook=no_duplicates)
    except ValueError as e:
        raise Fault(f"line {line}: no JSON: {e}") from e


def check_theme(theme):
    color = re.compile(r"#[0-9a-fA-F]{6}\Z")
    need(isinstance(theme, dict), 1, "term.theme is no object")
    need(color.match(theme.get("fg", "")) and color.match(theme.get("bg", "")), 1, "term.theme.fg or bg is no color")
    palette = theme.get("palette", "").split(":")
    need(len(palette) in (8, 16) and all(color.match(c) for c in palette), 1, "term.theme.palette is not 8 or 16 colors")


def check_header(h):
    need(isinstance(h, dict), 1, "the header is no object")
    need(is_int(h.get("version")) and h["version"] == 3, 1, "version is not 3")
    term = h.get("term")
    need(isinstance(term, dict), 1, "term is missing")
    for key in ("cols", "rows"):
        need(is_int(term.get(key)) and 0 < term[key] <= 65535, 1, f"term.{key} is no positive integer")
    for key in ("type", "version"):
        need(isinstance(term.get(key, ""), str), 1, f"term.{key} is no string")
    if "theme" in term:
        check_theme(term["theme"])
    need("timestamp" not in h or is_int(h["timestamp"]), 1, "timestamp is no integer")
    limit = h.get("idle_time_limit", 0)
    need(isinstance(limit, (int, float)) and not isinstance(limit, bool), 1, "idle_time_limit is no number")
    for key in ("command", "title"):
        need(isinstance(h.get(key, ""), str), 1, f"{key} is no string")
    env = h.get("env", {})
    need(isinstance(env, dict) and all(isinstance(v, str) for v in env.values()), 1, "env is no map of strings")
    tags = h.get("tags", [])
    need(isinstance(tags, list) and all(isinstance(t, str) for t in tags), 1, "tags is no list of strings")
    for key in ("width", "height", "duration"):
        need(key not in h, 1, f"{key} belongs to version 2")


def check_event(event, line):
    need(isinstance(event, list) and len(event) == 3, line, "an event is an array of three")
    interval, code, data = event
    need(isinstance(interval, (int, float)) and not isinstance(interval, bool), line, "the interval is no number")
    need(interval >= 0, line, "the interval is negative")
    need(isinstance(code, str) and len(code) == 1, line, "the code is no single letter")
    need(isinstance(data, str), line, "the data is no string")
    data.encode("utf-8")  # a lone surrogate is no text
    if code == "r":
        m = re.match(r"(\d+)x(\d+)\Z", data)
        need(m and 0 < int(m[1]) <= 65535 and 0 < int(m[2]) <= 65535, line, "a resize is not COLSxROWS")
    elif code == "x":
        need(re.match(r"\d+\Z", data), line, "an exit status is no number")
    return interval, code, data


def check(path):
    counts, output, seconds = {}, [], 0.0
    with open(path, "rb") as f:
        raw = f.read()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Fault(f"byte {e.start}: the file is not UTF-8") from e
    lines = text.split("\n")
    need(not lines[-1], len(lines), "the last line does not end")
    need(lines[0] and not lines[0].startswith("#"), 1, "the first line is no header")
    header = parse(lines[0], 1)
    check_header(header)
    for n, line in enumerate(lines[1:-1], 2):
        if line.startswith("#"):
            continue
        need("x" not in counts, n, "something follows the exit")
        interval, code, data = check_event(parse(line, n), n)
        counts[code] = counts.get(code, 0) + 1
        seconds += interval
        if code == "o":
            output.append(data)
    return header, counts, seconds, "".join(output)


def main(argv):
    if len(argv) not in (2, 3) or (len(argv) == 3 and argv[1] != "--output"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        header, counts, seconds, output = check(argv[-1])
    except (Fault, OSError) as e:
        print(f"{argv[-1]}: {e}", file=sys.stderr)
        return 1
    if len(argv) == 3:
        sys.stdout.buffer.write(output.encode("utf-8"))
    else:
        json.dump({"term": header["term"], "events": counts, "seconds": round(seconds, 6)}, sys.stdout)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
