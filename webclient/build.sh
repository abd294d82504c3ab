#!/bin/bash
# build.sh: the pages into build/web/, and build/web/assets.c for muxd. npm's packages are pinned by package-lock.json.
set -eu
cd "$(dirname "$0")"
for tool in node npm; do
	command -v $tool >/dev/null || { echo "muxd: $tool is missing; make setup-build installs it" >&2; exit 69; }
done
# all: what lint and tests need as well
want=${1:-build}
# npm replaces what others may just install.
mkdir -p ../build
exec 9>../build/web.lock
flock 9
stamp=node_modules/.muxd-$want
if ! cmp -s package-lock.json "$stamp" && ! { [ "$want" = build ] && cmp -s package-lock.json node_modules/.muxd-all; }; then
	omit=--omit=dev
	[ "$want" = all ] && omit=
	npm ci $omit --no-audit --no-fund --loglevel=error
	cp package-lock.json "$stamp"
fi
[ "$want" = all ] || node build.mjs
