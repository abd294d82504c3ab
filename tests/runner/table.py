"""The tests and the tier that each declares in its head, one line `tier: TIER[, OPTION]...`:

  check     unit tests and corpora: in `make check` where what they are made of changed, in `make test` always, sanitized
  test      stories: in `make test`
  all       in `make test-all` alone
Options, slice and whole of unit tests too, the others of stories:
  san [A=1] in `make test` once more, sanitized (hostile, kill, exact and slow ones); A=1: this instead of what slice sets
  alone     nothing runs beside it: a story that measures, or takes the machine for itself
  slice A=1 what `make test` and `make test T=name` set, so that a long proof shows 20 s of itself at most
  whole A=9 what `make test-all` sets instead
A variable that stands in the caller's environment is left as it is.
"""
import glob
import os
import re
from dataclasses import dataclass, field

LINE = re.compile(r"^(?:#|//| \*|/\*)\s*tier:\s*(.*?)\s*(?:\*/)?\s*$", re.M)
STRAY = re.compile(r"^(?:#|//| \*)\s*((?:slice|whole)\s+[A-Z_]+=\S+).*$", re.M)  # an option that no tier line has
HEAD = 3000  # bytes in which the line has to stand
KINDS = {"unit": ("check",), "fuzz": ("check",), "story": ("test", "all"), "k8s": ("test", "all")}
OPTIONS = {"unit": ("slice", "whole"), "fuzz": (), "story": ("san", "alone", "slice", "whole"), "k8s": ("slice", "whole")}


@dataclass
class Test:
    kind: str
    name: str  # without its kind
    path: str
    tier: str = ""
    san: bool | dict = False
    alone: bool = False
    slice: dict = field(default_factory=dict)
    whole: dict = field(default_factory=dict)

    def called(self, san=False):
        return f"{'san/' if san else ''}{self.kind}/{self.name}"

    def env(self, whole, san=False):
        said = self.whole if whole else self.slice
        if san and not whole and isinstance(self.san, dict):
            said = said | self.san
        return {k: v for k, v in said.items() if k not in os.environ}


def declare(test, text):
    """Takes the line from a test's head; returns what is wrong with it, or None."""
    said = LINE.findall(text[:HEAD])
    if len(said) != 1:
        many = "more than one line" if said else "no line"
        return f"{test.path}: {many} `tier: ...` in its head; docs/testing.md says what tiers there are"
    if stray := STRAY.search(text[:HEAD]):
        return f"{test.path}: `{stray[1]}` stands on a line of its own, where nobody reads it: it belongs to the line `tier: ...`"
    test.tier, *options = [word.strip() for word in said[0].split(",")]
    if test.tier not in KINDS[test.kind]:
        return f"{test.path}: `{test.tier}` is no tier of such a test; these are: {', '.join(KINDS[test.kind])}"
    for option in options:
        word, *values = option.split()
        needs, may = word in ("slice", "whole"), word in ("slice", "whole", "san")
        if word not in OPTIONS[test.kind] or not all("=" in v for v in values) or (needs and not values) or (values and not may):
            return f"{test.path}: `{option}` is no option of such a test; docs/testing.md lists them"
        setattr(test, word, dict(v.split("=", 1) for v in values) if values else True)
    return None


def read():
    """All tests; and those that declare no tier, each with what is wrong."""
    tests, wrong = [], []
    for kind, pattern, cut in (
        ("unit", "tests/unit/test_*.c", "test_"),
        ("fuzz", "tests/fuzz/fuzz_*.c", "fuzz_"),
        ("story", "tests/integration/*.sh", ""),
        ("k8s", "tests/e2e/k8s/stories/*.sh", ""),
    ):
        for path in sorted(glob.glob(pattern)):
            name = os.path.splitext(os.path.basename(path))[0].removeprefix(cut)
            test = Test(kind, name, path)
            with open(path, encoding="utf-8", errors="replace") as f:
                why = declare(test, f.read(HEAD))
            tests.append(test)
            if why:
                wrong.append((test, why))
    return tests, wrong
