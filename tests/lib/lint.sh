#!/bin/bash
# lint.sh: clang-tidy over the C, shellcheck over the scripts, mandoc over the man pages, docs.py over the documents, mypy over the client, tsc and eslint over the pages.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
mkdir -p build
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
shellcheck -x -S warning "${scripts[@]}" || bad=1
for m in docs/man/*.[1-8]; do
	[ -e "$m" ] && { mandoc -T lint -W warning "$m" || bad=1; }
done
if webclient/build.sh all >build/web-lint.log 2>&1; then
	(cd webclient && npx --no-install tsc --noEmit && npx --no-install eslint . --max-warnings 0) || bad=1
else
	tail -n 5 build/web-lint.log
	bad=1
fi
tests/lib/docs.py || bad=1
(cd clients/python && mypy --strict --python-version 3.9 --no-error-summary --cache-dir ../../build/mypy muxd) || bad=1
tests/lib/tidy.py || bad=1
[ $bad -eq 0 ] && echo "lint: fine"
exit $bad
