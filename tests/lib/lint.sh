#!/bin/bash
# lint.sh: clang-tidy over the C, shellcheck over the scripts, mandoc over the man pages, tsc and eslint over the pages.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
mkdir -p build
rm -f build/tidy.err
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
git ls-files 'muxd/*.c' 'policy/*.c' 'recorder/*.c' 'control/*.c' |
	xargs -P "$(nproc)" -n 8 sh -c 'clang-tidy --quiet "$@" -- -std=c17 -D_GNU_SOURCE -DMUXD_VERSION=\"0\" -I. 2>>build/tidy.err' lint >build/tidy.log ||
	{ echo "clang-tidy did not get through:" && grep -v 'warnings generated' build/tidy.err | tail -n 5; bad=1; }
grep -E '(warning|error):' build/tidy.log | sort -u
grep -qE '(warning|error):' build/tidy.log && bad=1
[ $bad -eq 0 ] && echo "lint: fine"
exit $bad
