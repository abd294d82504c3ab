#!/bin/bash
# lint.sh: clang-tidy over the C, shellcheck over the scripts, mandoc over the man pages, docs.py over the documents, mypy
# over the client, tsc and eslint over the pages. What was found clean is looked at again when it changes (clean.py).
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
mkdir -p build
tests/lib/scripts.py || bad=1
for m in docs/man/*.[1-8]; do
	[ -e "$m" ] && { mandoc -T lint -W warning "$m" || bad=1; }
done
tests/lib/clean.py web webclient tests/lib/web_lint.sh -- tests/lib/web_lint.sh || bad=1
tests/lib/docs.py || bad=1
tests/lib/clean.py mypy clients/python -- \
	'cd clients/python && mypy --strict --python-version 3.9 --no-error-summary --cache-dir ../../build/mypy muxd' || bad=1
tests/lib/tidy.py || bad=1
[ $bad -eq 0 ] && echo "lint: fine"
exit $bad
