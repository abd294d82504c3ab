#!/bin/bash
# The changes of a workspace as an artifact: from a snapshot a patch that git apply and patch -p1 make the same tree with,
# from a revision of git a patch or a bundle; no credentials, no program of the repository, nothing left behind.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
T=$(new_token demo agent files,rounds)
c() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer ${TOKEN:-$T}" "$@"; }
A=http://localhost/v1/agents/demo
S=http://localhost/v1/tasks/story/artifacts
# inside COMMANDS: run there; the exit code is theirs
inside() {
	c -d "$(jq -n --arg c "$1" '{command: $c, wait_ms: 60000}')" "$A/rounds" >"$tmp/round"
	[ "$(jq -r .exit.code "$tmp/round")" = 0 ] || fail "inside: $(cat "$tmp/round")"
}
# export_to NAME CHANGES [more]: asked of the API; its answer in $tmp/answer, told as status and code
export_to() {
	c -o "$tmp/answer" -w '%{http_code}' -d "$(jq -n --arg n "$1" --argjson c "$2" --argjson m "${3:-{\}}" \
		'{name: $n, agent: "demo", changes: $c} + $m')" "$S"
	echo " $(jq -r '.error.code // "ok"' "$tmp/answer")"
}
get() { c -o "$tmp/$1" "$S/$1"; }
# tree DIR: the workspace as it is, without what is never exported
tree() { mkdir "$1" && c "$A/fs/tree?path=." | tar -C "$1" -x && find "$1" \( -name .git -o -name .netrc \) -prune -exec rm -rf {} +; }
# same A B: names, kinds, contents and permission to run
facts() { (cd "$1" && find . \( -type f -o -type l \) -not -path './.git/*' -printf '%y %p %l\0' | sort -z | tr '\0' '\n' &&
	find . -type f -perm -100 -not -path './.git/*' -print0 | sort -z | tr '\0' '\n' &&
	find . -type f -not -path './.git/*' -print0 | sort -z | xargs -0r sha256sum); }
same() { [ "$(facts "$1")" = "$(facts "$2")" ] || { diff <(facts "$1") <(facts "$2"); false; }; }

there() { muxctl sandbox list -o json | jq -r '.agents[].agent' | sort; }

# --- a workspace, its snapshot, and what became of it
inside 'mkdir -p src/deep gone .git && seq 1 2000 >src/big.txt && echo old >src/deep/a.c && printf "no end" >src/end
	head -c 5000 /dev/urandom >src/bin && : >src/empty && echo x >gone/x && ln -s /usr/bin/python3 link && echo k >kind
	echo run >run.sh && echo "a b" >"src/a b" && printf q >"src/q\"uote" && printf n >"src/new
line" && mkdir turns && echo t >turns/t && echo "p=https://me:SECRET@host" >.git/config && echo SECRET >.netrc
	head -c 6000000 /dev/zero | tr "\0" z >src/huge && echo s >same && printf "\303\244\377" >"$(printf "src/u\303\244")"'
there >"$tmp/before"
SNAP=$(muxctl sandbox snapshot demo -o json | jq -r '.snapshot.id // .id')
tree "$tmp/base"
inside 'sed -i "5s/.*/five/; 1000d; 1999a more" src/big.txt && echo new >src/deep/a.c && printf "no end\n" >src/end
	head -c 6000 /dev/urandom >src/bin && rm src/empty gone/x && ln -sfn /bin/sh link && rm kind && ln -s same kind
	chmod +x run.sh && echo "a  b" >"src/a b" && echo more >>"src/q\"uote" && printf N >"src/new
line" && rm -r turns && echo file >turns && mkdir -p new/dir && echo 1 >new/dir/one && : >new/nothing
	echo y >>src/huge && ln -s nowhere new/l && printf "a\r\nb\r\n" >new/crlf && printf "\0" >new/nul
	echo "p=https://me:SECRET2@host" >.git/config && echo SECRET2 >.netrc && printf "x\303\244\376" >"$(printf "src/u\303\244")"'
tree "$tmp/now"

equal "the changes since a snapshot" "201 ok" "$(export_to all.patch "{\"snapshot\":\"$SNAP\"}")"
equal "as an artifact with its base and digest" "$SNAP demo story true" \
	"$(get all.patch; jq -r --arg s "$(sha256sum <"$tmp/all.patch" | cut -d' ' -f1)" '"\(.base) \(.agent) \(.task) \(.sha256 == $s)"' "$tmp/answer")"
cp -a "$tmp/base" "$tmp/applied"
(cd "$tmp/applied" && git init -q . && git apply --whitespace=nowarn "$tmp/all.patch") && same "$tmp/applied" "$tmp/now" &&
	ok "git apply makes the same tree of the base" || fail "another tree"
grep -aq SECRET "$tmp/all.patch" && fail "a secret" || ok "the repository's configuration and .netrc are not in it"
equal "by muxctl, text alone" "$SNAP" "$(muxctl artifact export story text.patch --agent demo --snapshot "$SNAP" --text-only --ignore turns -o json | jq -r .base)"
get text.patch
cp -a "$tmp/base" "$tmp/patched"
(cd "$tmp/patched" && patch -s -p1 <"$tmp/text.patch") || fail "patch -p1"
rm -r "$tmp/patched/turns" && cp "$tmp/now/turns" "$tmp/patched" # patch(1) puts no file where a directory was
for f in src/bin new/nul src/huge; do
	equal "$f is named as left out" 1 "$(grep -acF "muxd left out a binary file: $f" "$tmp/text.patch")"
	mkdir -p "$(dirname "$tmp/patched/$f")" && cp -a "$tmp/now/$f" "$tmp/patched/$f"
done
same "$tmp/patched" "$tmp/now" && ok "patch -p1 makes the same tree, but for these" || fail "another tree"
equal "a rule of gitignore leaves out" "0 1" "$(export_to some "{\"snapshot\":\"$SNAP\",\"ignore\":[\"/src/\",\"!.git\"]}" >/dev/null; get some
	echo "$(grep -ac 'b/src/' "$tmp/some") $(grep -ac '^+++ b/turns' "$tmp/some")")"
tree "$tmp/then"
same "$tmp/now" "$tmp/then" && ok "the workspace is as it was" || fail "it changed"

# --- refused by name, nothing left
equal "a snapshot that is none" "404 base_unknown" "$(export_to no '{"snapshot":"01900000-0000-7000-8000-000000000000"}')"
equal "larger than asked for" "413 too_large" "$(export_to no "{\"snapshot\":\"$SNAP\"}" '{"max_bytes":1000}')"
equal "two bases" "400 invalid_request" "$(export_to no "{\"snapshot\":\"$SNAP\",\"git\":\"HEAD\"}")"
equal "without scope files" forbidden "$(TOKEN=$(new_token demo agent rounds) export_to no "{\"snapshot\":\"$SNAP\"}" | cut -d' ' -f2)"
equal "of another's sandbox" forbidden "$(TOKEN=$(new_token other agent files) export_to no "{\"snapshot\":\"$SNAP\"}" | cut -d' ' -f2)"
equal "none of them is an artifact" 404 "$(c -o /dev/null -w '%{http_code}' "$S/no")"
left() { comm -13 "$tmp/before" <(there); }
none_left() { [ -z "$(left)" ]; }
wait_for 10 none_left
equal "no sandbox is left of them" "" "$(left)"
equal "the audit log has base and digest" "$SNAP" \
	"$(muxctl audit --since 0 -n 1000 --event artifact.put -o json | jq -rs '[.[].record | select(.detail.name == "all.patch" and (.detail.sha256 | length) == 64)][0].detail.base')"

# --- since a revision of git
inside 'mkdir repo && cd repo && git init -q . && git config user.email a@b && git config user.name a
	git config remote.origin.url https://me:SECRET@host/x && seq 1 50 >f && echo b >bin && printf "\0\1" >>bin
	echo ignored >.gitignore && git add . && git commit -qm one && git tag first && git archive first >/workspace/first.tar
	echo two >>f && git commit -qam two && echo three >>f && echo new >fresh && echo no >ignored && printf "\2" >>bin
	for h in post-index-change pre-commit; do printf "#!/bin/sh\ntouch /workspace/ran-hook\n" >.git/hooks/$h && chmod +x .git/hooks/$h; done
	printf "#!/bin/sh\ntouch /workspace/ran-\$1\ncat\n" >/workspace/evil.sh && chmod +x /workspace/evil.sh
	echo "* diff=evil filter=evil" >.git/info/attributes && git config diff.external "/workspace/evil.sh external"
	git config diff.evil.textconv "/workspace/evil.sh textconv" && git config diff.evil.command "/workspace/evil.sh command"
	git config filter.evil.clean "/workspace/evil.sh clean" && git config filter.evil.required true
	git config core.fsmonitor "/workspace/evil.sh fsmonitor" && git config credential.helper "/workspace/evil.sh helper"
	echo SECRET >.netrc && rm -f /workspace/ran-*'
equal "the changes since a revision" "201 ok" "$(export_to git.patch '{"git":"first","path":"repo"}')"
get git.patch
inside 'cd repo && git rev-parse first && ls /workspace/ran-* 2>/dev/null | wc -l'
equal "its base is the commit, its round is told" "$(jq -j .stdout.data "$tmp/round" | head -n 1) true" \
	"$(jq -r '"\(.base) \(.round_id != null)"' "$tmp/answer")"
equal "no hook, filter or diff of the repository ran" 0 "$(jq -j .stdout.data "$tmp/round" | tail -n 1)"
mkdir "$tmp/g" && c "$A/files?path=first.tar" | tar -C "$tmp/g" -x
(cd "$tmp/g" && git init -q . && git apply "$tmp/git.patch") || fail "git apply"
equal "git apply gives what is there, and what is new" "three new $(printf 'b\n\0\1\2' | sha256sum)" \
	"$(tail -n 1 "$tmp/g/f") $(cat "$tmp/g/fresh") $(sha256sum <"$tmp/g/bin")"
[ ! -e "$tmp/g/ignored" ] && ! grep -aq SECRET "$tmp/git.patch" && ok "not what is ignored, and no secret" || fail "$(cat "$tmp/git.patch")"
equal "commits as a bundle" "201 ok" "$(export_to b '{"git":"first","path":"repo","form":"bundle"}')"
get b
inside 'cd repo && git bundle create -q /workspace/all.bundle first'
c -o "$tmp/all.bundle" "$A/files?path=all.bundle"
git clone -q "$tmp/all.bundle" "$tmp/clone" -b first 2>/dev/null && equal "which git fetches" two \
	"$(cd "$tmp/clone" && git fetch -q "$tmp/b" HEAD && git show FETCH_HEAD:f | tail -n 1)"
equal "a revision that is none" "404 base_unknown" "$(export_to no '{"git":"nowhere","path":"repo"}')"
equal "no repository" "404 base_unknown" "$(export_to no '{"git":"HEAD","path":"src"}')"
equal "a revision like an option" "400 invalid_request" "$(export_to no '{"git":"--output=x","path":"repo"}')"
equal "nothing to bundle" "409 bad_state" "$(export_to no '{"git":"HEAD","path":"repo","form":"bundle"}')"
inside 'cd repo && git config --unset filter.evil.clean; git config --unset filter.evil.required; git add -f .netrc && git -c core.hooksPath=/dev/null -c core.fsmonitor=false commit -qm secret'
equal "credentials among the commits" "409 bad_state" "$(export_to no '{"git":"first","path":"repo","form":"bundle"}')"
equal "without scope rounds there is no git" forbidden "$(TOKEN=$(new_token demo agent files) export_to no '{"git":"first","path":"repo"}' | cut -d' ' -f2)"

# forked: there is a sandbox of a fork, as its backend has it: a directory, or objects of the cluster
forked() {
	if [ -n "${BOX_CONFIG:-}" ]; then kubectl get pod,pvc -o name | grep -e -base-; else ls -d "$MUXD_STATE"/sandboxes/demo-base-*; fi
}
# --- the daemon is killed in the middle: no artifact, and the next start takes the fork away
inside 'head -c 60000000 /dev/urandom >large'
SNAP=$(muxctl sandbox snapshot demo -o json | jq -r '.snapshot.id // .id')
named=$(new_token 'demo-*' agent files) every=$(new_token '*' service files,lifecycle)
export_to killed "{\"snapshot\":\"$SNAP\"}" >/dev/null 2>&1 &
wait_for 20 forked
F=$(forked | grep -o 'demo-base-[0-9a-f]\{12\}' | head -n 1)
seen="$(TOKEN=$named c "http://localhost/v1/agents/$F/files?path=large" | head -c 4096 | jq -r .error.code) $(c "http://localhost/v1/agents/$F/files?path=large" |
	head -c 4096 | jq -r .error.code) $(TOKEN=$every c "http://localhost/v1/agents?prefix=demo-" | jq '.agents | length')"
kill -9 "$DAEMON"
wait $! 2>/dev/null
forked >/dev/null && ok "the daemon was killed while there was a fork" || fail "no fork was there"
equal "nobody else was in it, nor was shown it" "forbidden forbidden 0" "$seen"
start_daemon "$tmp/state" || fail "no daemon again"
gone() { ! forked; }
wait_for 10 gone
equal "behind the next start it has gone" "demo 404" \
	"$(muxctl sandbox list -o json | jq -r '[.agents[].agent | select(startswith("demo"))] | join(" ")') $(c -o /dev/null -w '%{http_code}' "$S/killed")"
