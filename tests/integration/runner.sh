#!/bin/bash
# The runner of these tests: a test without a tier, or with one that is none, is refused; who gets a second try and who none;
# what hangs is ended with all of its group; a tier that takes too long is told. Told in runner.py.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$(dirname "$0")/runner.py" "$tmp/runner" || fail "see above"
equal "every test here declares a tier" "" "$(PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c '
import sys
sys.path.insert(0, "tests/runner")
import table
print(*(why for _, why in table.read()[1]), sep="\n")')"
