#!/bin/bash
# A coding agent's day, with the Python client and with the TypeScript client: a repository comes in as a bundle, a test
# fails, the place is searched and looked at in a debugger with a terminal, a patch mends it, a plot is drawn, the changes
# leave as a patch that a clone outside takes; the sandbox sleeps, wakes, and the work goes on.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

"$here/clients/typescript/build.sh" >"$tmp/tsc" 2>&1 || fail "the package is not built: $(tail -n 3 "$tmp/tsc")"
chmod 0711 "$tmp"
echo 'rounds: {pty: true}' >"$tmp/conf.yaml"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
umask 077
PRINCIPAL=coder new_token '*' service terminal,rounds,files,observe,drive,lifecycle >"$tmp/token"

# What the repository has: a mean that is wrong, and a test that says so.
git init -q -b main "$tmp/repo"
cat >"$tmp/repo/mean.py" <<'P'
def mean(values):
    total = 0
    for v in values:
        total = v
    return total / len(values)
P
cat >"$tmp/repo/test_mean.py" <<'P'
import unittest
from mean import mean

class Mean(unittest.TestCase):
    def test_three(self):
        self.assertEqual(mean([1, 2, 6]), 3)

unittest.main()
P
git -C "$tmp/repo" add . || fail "no repository"
git -C "$tmp/repo" -c user.name=o -c user.email=o@example.org commit -qm 'a mean' || fail "no commit"
git -C "$tmp/repo" bundle create -q "$tmp/work.bundle" HEAD main || fail "no bundle"

export PYTHONDONTWRITEBYTECODE=1 MUXD_TOKEN_FILE=$tmp/token MUXD_STATE BUNDLE=$tmp/work.bundle PYTHONPATH=$here/clients/python
# took NAME: the patch that the client wrote mends a clone of what went in
took() {
	git clone -q "$tmp/work.bundle" "$tmp/$1" || fail "no clone"
	git -C "$tmp/$1" apply "$tmp/$1.patch" || fail "$1: its patch does not apply"
	(cd "$tmp/$1" && python3 test_mean.py 2>"$tmp/$1.test") || fail "$1: the clone's test fails: $(cat "$tmp/$1.test")"
	equal "$1: the patch mends a clone, and holds nothing else" "mean.py" "$(git -C "$tmp/$1" diff --name-only)"
}
PATCH=$tmp/python.patch /usr/bin/python3 -W error "$here/tests/integration/coding_day.py" || fail "see above"
took python
mkdir "$tmp/node_modules"
ln -s "$here/build/clients/typescript" "$tmp/node_modules/muxd"
cp "$here/tests/integration/coding_day.mjs" "$tmp/day.mjs"
(cd "$tmp" && PATCH=$tmp/typescript.patch node day.mjs) || fail "see above"
took typescript
equal "nothing is left" 0 "$(api "$(cat "$tmp/token")" GET '/v1/agents?prefix=sbx-' | jq '.agents | length')"
