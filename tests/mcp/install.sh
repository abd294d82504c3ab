#!/bin/bash
# install.sh [servers or ../issuer]: puts the packages of tests/mcp, or those of the folder that is so called from there, as the lock
# file has them, into a directory
# outside the checkout (~/.cache/muxd/npm, XDG_CACHE_HOME): once, and offline from then on. Prints the directory.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
from=$here/tests/mcp${1:+/$1}
digest=$(sha256sum <"$from/package-lock.json")
to=${XDG_CACHE_HOME:-$HOME/.cache}/muxd/npm/mcp${1:+-${1##*/}}-${digest:0:16}
mkdir -p "$to"
(
	flock 9
	[ -e "$to/.installed" ] && exit 0
	cp "$from"/package{,-lock}.json "$to/"
	cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch .installed
) 9>"$to.lock" >"$to.log" 2>&1 || {
	tail -n 3 "$to.log" >&2
	exit 1
}
echo "$to"
