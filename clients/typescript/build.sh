#!/bin/bash
# build.sh: the package into build/clients/typescript, by the compiler that the pages have; types are checked.
set -eu
cd "$(dirname "$0")"
../../webclient/build.sh all
out=../../build/clients/typescript
mkdir -p "$out"
exec 9>"$out.lock"
flock 9
stamp=$(cat package.json tsconfig.json README.md build.sh src/*.ts | sha256sum)
[ "$(cat "$out/.stamp" 2>/dev/null)" = "$stamp" ] && exit 0
rm -rf "$out"
mkdir -p "$out"
../../webclient/node_modules/.bin/tsc -p .
cp package.json README.md "$out"
printf '%s\n' "$stamp" >"$out/.stamp"
