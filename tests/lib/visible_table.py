#!/usr/bin/env python3
"""visible_table.py: the ranges of base/visible_table.h, from the Unicode data that python3 knows.

  visible_table.py              prints the header
  visible_table.py check FILE   is FILE what this python would say? A newer Unicode may have given meaning to code points
                                that FILE calls unassigned, and width to a mark; what else differs is told, exit status 1.

Hidden: Cc Cf Zl Zp Co Cs Cn, and what Unicode calls ignorable by default though it is a letter or a mark: the Hangul
fillers, the grapheme joiner, the Khmer inherent vowels and all variation selectors. Marks: Mn and Me, which are drawn
over the character before them.
"""

import re
import sys
import unicodedata

IGNORABLE = [(0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164),
             (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)]
HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Co", "Cs", "Cn"}


def hidden(cp):
    return unicodedata.category(chr(cp)) in HIDDEN or any(a <= cp <= b for a, b in IGNORABLE)


def mark(cp):
    return unicodedata.category(chr(cp)) in {"Mn", "Me"} and not hidden(cp)


def ranges(wanted):
    out = []
    for cp in range(0x110000):
        if not wanted(cp):
            continue
        if out and out[-1][1] == cp - 1:
            out[-1][1] = cp
        else:
            out.append([cp, cp])
    return out


def table(name, wanted):
    cells = [f"{{0x{a:04x}, 0x{b:04x}}}," for a, b in ranges(wanted)]
    lines, line = [], "\t"
    for cell in cells:
        if len(line) + len(cell) + 1 > 110:
            lines.append(line.rstrip())
            line = "\t"
        line += cell + " "
    lines.append(line.rstrip())
    return f"static const struct visible_range {name}[] = {{\n" + "\n".join(lines) + "\n};\n"


def header():
    return f"""/*
 * visible_table.h - which code points cannot be seen, and which are drawn over others: Unicode {unicodedata.unidata_version}.
 *
 * Made by tests/lib/visible_table.py; for visible.c alone. Sorted, inclusive.
 */
#ifndef MUXD_BASE_VISIBLE_TABLE_H
#define MUXD_BASE_VISIBLE_TABLE_H

#include <stdint.h>

struct visible_range {{
	uint32_t first, last;
}};

/* clang-format off */
{table("visible_hidden", hidden)}
{table("visible_marks", mark)}/* clang-format on */

#endif
"""


def read(path):
    """The two tables of a header, as sets of code points."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = {}
    for name, body in re.findall(r"visible_range (\w+)\[\] = \{(.*?)\n\};", text, re.S):
        found[name] = set()
        for a, b in re.findall(r"\{0x([0-9a-f]+), 0x([0-9a-f]+)\}", body):
            found[name].update(range(int(a, 16), int(b, 16) + 1))
    return found["visible_hidden"], found["visible_marks"]


def newer(cp, have_hidden, have_marks):
    """Unassigned then and a character now, or a mark that was given a width (Mc)."""
    born = cp in have_hidden and not hidden(cp)
    widened = cp in have_marks and unicodedata.category(chr(cp)) == "Mc"
    return born or widened


def check(path):
    have_hidden, have_marks = read(path)
    wrong = []
    for cp in range(0x110000):
        if unicodedata.unidata_version != "14.0.0" and newer(cp, have_hidden, have_marks):
            continue
        if (cp in have_hidden) != hidden(cp) or (cp in have_marks) != mark(cp):
            wrong.append(cp)
    for cp in wrong[:20]:
        print(f"visible_table: U+{cp:04X} ({unicodedata.category(chr(cp))}) stands wrong in {path}", file=sys.stderr)
    return 1 if wrong else 0


if len(sys.argv) == 3 and sys.argv[1] == "check":
    sys.exit(check(sys.argv[2]))
print(header(), end="")
