#!/bin/bash
# install.sh [servers]: puts the packages of tests/mcp into build/mcp, or those of tests/mcp/servers into build/mcp-servers, as
# the lock file has them: once, and offline from then on. Prints the directory.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
from=$here/tests/mcp${1:+/$1}
to=$here/build/mcp${1:+-$1}
mkdir -p "$to"
(
	flock 9
	cmp -s "$from/package-lock.json" "$to/.installed" && exit 0
	cp "$from"/package{,-lock}.json "$to/"
	cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json .installed
) 9>"$to.lock" >"$to.log" 2>&1 || {
	tail -n 3 "$to.log" >&2
	exit 1
}
echo "$to"
