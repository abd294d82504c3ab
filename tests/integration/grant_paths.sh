#!/bin/bash
# A grant that names paths and a size: file operations stay in them, by name and by what is really opened; the refusals
# are named and audited, and nothing was started.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=limited-$$
ALL=$(new_token $agent agent files,rounds)
limits() { muxctl grant create --agent $agent --principal tester --kind agent --scopes files --task story --ttl 5m --reason story "$@" -o json; }
T=$(limits --read 'src/**,*.md' --write 'src/*.txt,out/**' --file-max 1000 | jq -r .token)
c() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer ${TOKEN:-$T}" "$@"; }
A=http://localhost/v1/agents/$agent
# fs OPERATION BODY: its code, or ok
fs() { c -d "$2" "$A/fs/$1" | tee "$tmp/out" | jq -r '.error.code // "ok"'; }
get() { c -o "$tmp/got" -w '%{http_code}' "$A/files?path=$1"; }
# put PATH BYTES [curl options]
put() { head -c "$2" /dev/zero | c -o "$tmp/out" -w '%{http_code}' -T - "${@:3}" "$A/files?path=$1"; }
code() { jq -r '.error.code // "ok"' "$tmp/out"; }

TOKEN=$ALL c -d '{"command":"mkdir -p src/deep out secret && echo s >secret/key && echo a >src/a.txt && echo d >src/deep/d && echo r >README.md && ln -s ../secret/key src/link && ln -s ../secret src/dir && ln -s ../secret out/dir && ln -s src/a.txt l.md && mkdir src/tree && echo x >src/tree/x", "wait_ms": 10000}' "$A/rounds" >/dev/null
state() { TOKEN=$ALL c -d '{"command":"find . -not -name .muxd-* | sort; cat secret/key src/a.txt", "wait_ms": 10000}' "$A/rounds" | jq -r .stdout.sha256; }
WAS=$(state)

equal "what is named is read" "ok ok ok 200" "$(fs read '{"path":"src/a.txt"}') $(fs stat '{"path":"README.md"}') $(fs list '{"path":"src","depth":5}') $(get src/deep/d)"
equal "with the workspace in front as well" "ok 200" "$(fs read '{"path":"/workspace/src/a.txt"}') $(get /workspace/src/a.txt)"
for f in secret/key src/../secret/key ./src/./../secret/key out/dir /etc/passwd ..; do
	equal "not $f" "path_not_allowed 403" "$(fs read "{\"path\":\"$f\"}") $(get "$f")"
done
jq -e '.error.message | test("src/\\*\\* \\*.md")' "$tmp/out" >/dev/null && ok "and the message says what is" || fail "$(cat "$tmp/out")"
equal "nor what a link leads to" "path_not_allowed 403 path_not_allowed 403 path_not_allowed" \
	"$(fs read '{"path":"src/link"}') $(get src/link) $(fs read '{"path":"src/dir/key"}') $(get src/dir/key) $(fs read '{"path":"l.md"}')"
equal "nor trees that are more" "path_not_allowed path_not_allowed path_not_allowed 403" \
	"$(fs search '{"path":".","pattern":"s"}') $(fs list '{"path":"."}') $(fs glob '{"path":"src/dir","pattern":"*"}') $(c -o "$tmp/out" -w '%{http_code}' "$A/fs/tree?path=.")"
equal "but those below" "ok ok 200" "$(fs search '{"path":"src","pattern":"d"}') $(fs glob '{"path":"src","pattern":"**/*"}') $(c -o "$tmp/tar" -w '%{http_code}' "$A/fs/tree?path=src")"
tar -xOf "$tmp/tar" | grep -q '^s$' && fail "a tree followed a link" || ok "which follow no link"

equal "what is only read is not written" "path_not_allowed path_not_allowed path_not_allowed 403 path_not_allowed" \
	"$(fs write '{"path":"README.md","data":"x"}') $(fs append '{"path":"src/deep/d","data":"x"}') $(fs delete '{"path":"src/deep/d"}') $(put src/deep/e 5) $(fs mkdir '{"path":"src/new"}')"
equal "nor through a link" "path_not_allowed 403 403 path_not_allowed" \
	"$(fs write '{"path":"out/dir/new","data":"x"}') $(put out/dir/new 5) $(put out/dir/new 5 -H 'If-None-Match: *') $(fs delete '{"path":"out/dir/key"}')"
equal "nor by a patch, of which nothing is done" path_not_allowed \
	"$(fs patch '{"path":".","data":"--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-a\n+b\n--- a/secret/key\n+++ b/secret/key\n@@ -1 +1 @@\n-s\n+t\n"}')"
equal "nor by a move or a copy out, or in" "path_not_allowed path_not_allowed path_not_allowed path_not_allowed" \
	"$(fs move '{"path":"src/a.txt","to":"secret/a.txt"}') $(fs copy '{"path":"src/a.txt","to":"README.md","overwrite":true}') $(fs copy '{"path":"secret/key","to":"out/key"}') $(fs copy '{"path":"src","to":"out/src/../../x","recursive":true}')"
equal "a directory moves only where all below may" path_not_allowed "$(fs move '{"path":"src/tree","to":"src/tree.txt"}')"
equal "permissions of another neither" path_not_allowed "$(fs chmod '{"path":"src/deep/d","mode":"0600"}')"
tar -C "$here" -cf "$tmp/small.tar" LICENSE 2>/dev/null || tar -C "$here" -cf "$tmp/small.tar" README.md
equal "no tree where not all below is allowed" 403 "$(c -o "$tmp/out" -w '%{http_code}' -T "$tmp/small.tar" "$A/fs/tree?path=src/new")"
equal "nothing was changed" "$WAS" "$(state)"

equal "what is named is written" "ok 200 ok ok ok" "$(fs write '{"path":"src/n.txt","data":"x"}') $(put out/y 1000) $(fs append '{"path":"out/y2","data":"z"}') $(fs copy '{"path":"src/deep","to":"out/deep","recursive":true}') $(fs patch '{"path":".","data":"--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-a\n+b\n"}')"
equal "up to the size, announced" "413 too_large" "$(head -c 1001 /dev/zero >"$tmp/1001"; c -o "$tmp/out" -w '%{http_code}' -T "$tmp/1001" "$A/files?path=out/big") $(code)"
equal "and not announced" 413 "$(put out/big 100000)"
equal "a write, an append, a patch" "too_large too_large too_large" \
	"$(fs write "{\"path\":\"out/big\",\"data\":\"$(head -c 1001 /dev/zero | tr '\0' x)\"}") $(fs append '{"path":"out/y","data":"more"}') $(fs patch "{\"path\":\".\",\"data\":\"--- a/src/a.txt\\n+++ b/src/a.txt\\n@@ -1 +1 @@\\n-b\\n+$(head -c 1001 /dev/zero | tr '\0' y)\\n\"}")"
TOKEN=$ALL put out/large 5000 >/dev/null
WIDE=$(limits --read '**' --write '**' --file-max 1000 | jq -r .token)
equal "a get, a copy" "413 too_large" "$(TOKEN=$WIDE get out/large) $(TOKEN=$WIDE fs copy '{"path":"out/large","to":"out/c2"}')"
equal "an artifact is taken where it may be read" "ok path_not_allowed" \
	"$(for p in src/a.txt secret/key; do c -d "{\"name\":\"$(basename $p)\",\"agent\":\"$agent\",\"path\":\"$p\"}" http://localhost/v1/tasks/story/artifacts | jq -r '.error.code // "ok"'; done | xargs)"
equal "the one that was taken goes again" 200 "$(TOKEN=$ALL c -o "$tmp/gone" -w "%{http_code}" -X DELETE http://localhost/v1/tasks/story/artifacts/a.txt)"
equal "one for nothing may nothing" "path_not_allowed path_not_allowed" \
	"$(TOKEN=$(limits --read '' | jq -r .token) fs read '{"path":"src/a.txt"}') $(TOKEN=$(limits --write '' | jq -r .token) fs patch '{"path":".","data":"--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1 +1 @@\n-b\n+c\n"}')"
for bad in '/etc/**' 'a/../b' '[a]'; do
	limits --read "$bad" 2>&1 | grep -q 'invalid_request' && ok "no grant names $bad" || fail "a grant names $bad"
done
muxctl grant list -o json | jq -e '[.grants[] | select(.file_max == 1000 and .read == ["src/**", "*.md"])] | length > 0' >/dev/null && ok "the list of grants has them" || fail "$(muxctl grant list -o json | head -c 600)"
muxctl audit --since 0 -n 1000 --event verdict -o json | jq -ce --arg a $agent '.record | select(.outcome == "path_not_allowed" and .agent == $a and .detail.what == "file.read")' | grep -q secret/key &&
	ok "refusals are in the audit log" || fail "no refusal in the audit log"
muxctl audit --since 0 -n 1000 --event grant.create -o json | jq -ce 'select(.record.read != null or .record.detail.read != null)' | grep -q 'src/\*\*' && ok "and what the grant was for" || fail "grant.create has no paths"
