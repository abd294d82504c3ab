#!/bin/bash
# web_lint.sh: tsc and eslint over the pages, with their packages of npm.
set -eu
mkdir -p build
webclient/build.sh all >build/web-lint.log 2>&1 || {
	tail -n 5 build/web-lint.log
	exit 1
}
cd webclient
npx --no-install tsc --noEmit
npx --no-install eslint . --max-warnings 0
