#!/bin/bash
# check.sh theirs|ours SCRIPT PACKAGE OUT: types of one script against a package's, by the pages' compiler. `ours` also writes it
# into OUT, to be run.
set -eu
whose=$1 script=$2 package=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cp "$here/$script.ts" "$out/"
if [ "$whose" = theirs ]; then
	cp "$here/connect_theirs.ts" "$out/connect.ts"
else
	cp "$here/connect.ts" "$out/connect.ts"
fi
sed -i "s|from \"shape\"|from \"$package\"|" "$out/$script.ts"
cat >"$out/tsconfig.json" <<JSON
{"compilerOptions": {"target": "ES2022", "lib": ["ES2022", "DOM", "DOM.Iterable"], "module": "NodeNext", "strict": true, "skipLibCheck": true,
 "types": ["node"], "noUnusedLocals": true}, "files": ["$script.ts"]}
JSON
echo '{"type": "module"}' >"$out/package.json"
exec "$here/../../webclient/node_modules/.bin/tsc" -p "$out" --noEmit "$([ "$whose" = theirs ] && echo true || echo false)"
