#!/usr/bin/python3
"""Paints a terminal: what it writes depends on the seed, the size and the place in the output alone.

paint.py SEED COLS ROWS ROUNDS [unbroken]: after each round it waits for that round's letter; unbroken: for nothing. It ends
at the letter of the round that there is not.
"""
import os
import sys
import termios
import time
import tty

seed, cols, rows, rounds = (int(a) for a in sys.argv[1:5])
unbroken = len(sys.argv) > 5
STEPS = 150  # of a round
TEXT = ["plain words ", "漢字かな", "한국어 ", "e\u0301a\u0308o\u0302", "ｆｕｌｌ", "\t", "tail", "│┌─┐└┘", "😀🚀", "naïve ß ", "x" * 37]
state = seed


def pick(n):
    """0 to n - 1; a linear congruential generator: the same on every machine."""
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % n


def colour(base):
    kind = pick(3)
    if kind == 0:
        return str(base + pick(8))
    if kind == 1:
        return "%d;5;%d" % (base + 8, pick(256))
    return "%d;2;%d;%d;%d" % (base + 8, pick(256), pick(256), pick(256))


def style():
    parts = [str(n) for n in (1, 2, 3, 4, 5, 7, 8, 9, 53) if pick(6) == 0]
    if pick(2):
        parts.append(colour(30))
    if pick(3) == 0:
        parts.append(colour(40))
    return "\x1b[%sm" % ";".join(["0"] + parts)


def region():
    top = 1 + pick(rows // 2)
    return "\x1b[%d;%dr" % (top, top + 2 + pick(rows - top - 2))


def text():
    return "".join(TEXT[pick(len(TEXT))] for _ in range(1 + pick(6)))


MOVES = [
    lambda: "\x1b[%d;%dH" % (1 + pick(rows), 1 + pick(cols)),
    lambda: "\x1b[%d%s" % (1 + pick(9), "ABCDEFG"[pick(7)]),
    lambda: "\r\n" * (1 + pick(3)),
    lambda: "\x1bM" * (1 + pick(3)),
    lambda: "\b" * (1 + pick(5)),
    lambda: "\x1b7" if pick(2) else "\x1b8",
]
EDITS = [
    lambda: "\x1b[%d%s" % (1 + pick(4), "LMP@XSTb"[pick(8)]),
    lambda: "\x1b[%dK" % pick(3),
    lambda: "\x1b[%dJ" % pick(2),
]
MODES = [
    lambda: "\x1b[?1049" + "hl"[pick(2)],
    region,
    lambda: "\x1b[r",
    lambda: "\x1b[4" + "hl"[pick(2)],
    lambda: "\x1b[?7" + "hl"[pick(3) == 0],
    lambda: "\x1b[?6" + "hl"[pick(3) > 0],
    lambda: "\x1b(" + "0B"[pick(2)],
    lambda: "\x1b]0;title %d\x07" % pick(1000),
]


def step():
    out = style() + MOVES[pick(len(MOVES))]()
    if pick(4) == 0:
        out += EDITS[pick(len(EDITS))]()
    if pick(10) == 0:
        out += MODES[pick(len(MODES))]()
    return out + text()


def await_letter(n):
    want = ord("a") + n % 26
    while os.read(0, 1)[0] != want:
        pass


def write(b):
    while b:
        b = b[os.write(1, b) :]


def main():
    if not unbroken:
        tty.setraw(0, termios.TCSANOW)
    write(b"\x1bc")
    for n in range(rounds):
        if not unbroken:
            await_letter(n)
        for _ in range(STEPS):
            write(step().encode())
            if not unbroken:
                time.sleep(0.012)
        write(b"\x1b]0;round %d is over\x07" % n)
    if not unbroken:
        await_letter(rounds)


main()
