"""The ratios of bench.py as an SVG: a bar for the median, a line for the spread, a mark for the goal. No library."""
from xml.sax.saxutils import escape
import statistics

WIDTH, LEFT, RIGHT, STEP = 900, 430, 60, 22
TOP, MOST = 54, 2.6  # what is larger than that is cut off, and says so
GOOD, BAD, PLAIN = "#2e7d32", "#c62828", "#546e7a"


def x(ratio):
    return LEFT + (WIDTH - LEFT - RIGHT) * min(ratio, MOST) / MOST


def text(at_x, y, words, anchor="start", size=12, fill="#222"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="%s">%s</text>' % (at_x, y, anchor, size, fill, escape(words))


def bar(y, r):
    value, least, most, goal = statistics.median(r["ratios"]), min(r["ratios"]), max(r["ratios"]), r["goal"]
    met = goal and (value <= goal[1] if goal[0] == "<=" else value >= goal[1])
    colour = PLAIN if not goal else GOOD if met else BAD
    out = [text(LEFT - 8, y + 11, "%s / %s" % (r["what"], r["peer"]), "end"),
           '<rect x="%d" y="%d" width="%.1f" height="14" fill="%s"/>' % (LEFT, y, x(value) - LEFT, colour),
           '<path d="M%.1f %dH%.1f" stroke="#111" stroke-width="1.5"/>' % (x(least), y + 7, x(most)),
           text(max(x(value), x(most)) + 5, y + 11, "%.2f%s" % (value, " →" if value > MOST else ""), size=11)]
    if goal:
        out.append('<path d="M%.1f %dv18" stroke="#000" stroke-width="2" stroke-dasharray="3 2"/>' % (x(goal[1]), y - 2))
    return out


def draw(head, rows):
    out, y = [], TOP
    for r in rows:
        if "heading" in r:
            group = r["heading"]
        elif r["ratios"]:
            if group:
                out.append(text(8, y + 12, group, size=12, fill="#000").replace("<text", '<text font-weight="bold"'))
                y += STEP
                group = None
            out += bar(y, r)
            y += STEP
    for tick in (0.5, 1, 1.5, 2, 2.5):
        out.insert(0, '<path d="M%.1f %dV%d" stroke="%s"/>' % (x(tick), TOP - 8, y, "#999" if tick == 1 else "#e0e0e0"))
        out.append(text(x(tick), TOP - 12, "%g" % tick, "middle", 11, "#555"))
    title = "muxd / peer, medians of %(runs)d interleaved runs, %(date)s, %(cores)d cores; dashes: goals; lines: least to largest" % head
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif">\n'
            '<rect width="100%%" height="100%%" fill="#fff"/>\n%s\n%s\n</svg>\n' % (WIDTH, y + 12, text(8, 20, title, size=13), "\n".join(out)))
