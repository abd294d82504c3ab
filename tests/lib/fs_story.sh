# fs_story.sh - what the stories of file operations share: the same claims about a sandbox on this machine and about one
# in a pod. Sourced after env.sh; expects $agent, whose sandbox has sh, cat, find, stat, ln and sha256sum, and $root, the
# directory that operations stay below.
# shellcheck shell=bash disable=SC2154,SC2034

inside() { muxctl exec -n "$agent" -- "$@"; }
sum() { sha256sum | cut -d' ' -f1; }
# fs OP BODY: the answer's status in $status, its body in $tmp/answer
fs() {
	status=$(curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \
		-o "$tmp/answer" -w '%{http_code}' --data-binary "$2" "http://muxd/v1/agents/$agent/fs/$1")
}
got() { jq -r "$1" "$tmp/answer"; }
# does OP BODY [FILTER [EXPECTED]]: it succeeds, and its answer has that
does() {
	fs "$1" "$2"
	[ "$status" = 200 ] || fail "$1 $2: $status $(cat "$tmp/answer")"
	[ $# -lt 3 ] || equal "$1 $2: $3" "${4-true}" "$(got "$3")"
}
# refuses CODE OP BODY [STATUS]
refuses() {
	fs "$2" "$3"
	jq -e --arg code "$1" '.error | .code == $code and .hint != ""' "$tmp/answer" >/dev/null || fail "$2 $3: $status $(cat "$tmp/answer"), not $1"
	[ "${4:-$status}" = "$status" ] || fail "$1 came as $status, not $4"
	ok "$2 $3: $1 $status"
}

fs_write_and_read() {
	local digest
	digest=$(printf 'one\ntwo\nthree\n' | sum)
	does write '{"path":"src/a.txt","data":"one\ntwo\nthree\n","parents":true}' .sha256 "$digest"
	equal "it is there" "$digest" "$(inside sha256sum src/a.txt | cut -d' ' -f1)"
	does read '{"path":"src/a.txt"}' .data $'one\ntwo\nthree'
	does read "{\"path\":\"$root/src/a.txt\",\"from_line\":2,\"to_line\":2}" '[.data, .total_lines, .truncated] | @json' '["two\n",3,false]'
	does read '{"path":"src/a.txt","offset":4,"length":3}' .data two
	does read '{"path":"src/a.txt","offset":-6}' .data three
	does read '{"path":"src/a.txt","offset":14}' '[.data, .length] | @json' '["",0]'
	does write '{"path":"bytes","data":"AP+A","encoding":"base64"}' .size 3
	does read '{"path":"bytes"}' '[.data, .encoding] | @json' '["AP+A","base64"]'
	does write '{"path":"empty","data":""}' .size 0
	refuses range_past_end read '{"path":"src/a.txt","offset":15}' 416
	refuses range_past_end read '{"path":"src/a.txt","from_line":4}' 416
	refuses file_not_found read '{"path":"no/such"}' 404
	refuses not_a_file read '{"path":"src"}' 409
	refuses not_a_directory list '{"path":"src/a.txt"}' 409
	refuses not_a_directory write '{"path":"src/a.txt/x","data":""}' 409
}

fs_change_what_is_known() {
	local old new
	old=$(printf 'one\ntwo\nthree\n' | sum) new=$(printf 'changed' | sum)
	refuses file_exists write '{"path":"src/a.txt","data":"x","create_only":true}' 409
	refuses file_changed write "{\"path\":\"src/a.txt\",\"data\":\"x\",\"if_match\":\"$new\"}" 412
	equal "what is there is told" "$old" "$(got .error.details.sha256)"
	refuses file_changed append "{\"path\":\"src/a.txt\",\"data\":\"x\",\"if_match\":\"$new\"}" 412
	refuses file_changed delete "{\"path\":\"src/a.txt\",\"if_match\":\"$new\"}" 412
	equal "and nothing was changed" "$old" "$(inside sha256sum src/a.txt | cut -d' ' -f1)"
	does write "{\"path\":\"src/a.txt\",\"data\":\"changed\",\"if_match\":\"$old\"}" \
		'.changes[0] | [.path, .before.sha256, .after.sha256] | @json' "[\"src/a.txt\",\"$old\",\"$new\"]"
	does append '{"path":"src/a.txt","data":" more"}' .size 12
	does append '{"path":"src/log","data":"made"}' .created true
	equal "content is added at the end" "changed more" "$(inside cat src/a.txt)"
	does chmod '{"path":"src/a.txt","mode":"0751"}' .entry.mode 0751
	does write '{"path":"src/a.txt","data":"again"}' .mode 0751
}

fs_names_and_trees() {
	does mkdir '{"path":"tree/deep","parents":true}' .created true
	does mkdir '{"path":"tree/deep","parents":true}' .created false
	refuses file_exists mkdir '{"path":"tree/deep"}' 409
	does write '{"path":"tree/deep/f","data":"f"}'
	does write '{"path":{"base64":"dHJlZS//bgo="},"data":"odd"}' '.path.base64' 'dHJlZS//bgo='
	refuses not_a_file copy '{"path":"tree","to":"copy"}' 409
	does copy '{"path":"tree","to":"copy/of","recursive":true,"parents":true}' .files 2
	refuses invalid_request copy '{"path":"tree","to":"tree/deep/x","recursive":true}' 400
	refuses file_exists move '{"path":"copy/of/deep/f","to":"src/a.txt"}' 409
	does move '{"path":"copy/of/deep/f","to":"src/a.txt","overwrite":true}' '[.changes[].path] | @json' '["copy/of/deep/f","src/a.txt"]'
	refuses invalid_request move '{"path":"tree","to":"tree/deep/tree"}' 400
	equal "the tree is as it was" "tree/deep/f" "$(inside find tree -name f)"
	does list '{"path":"tree","depth":9}' '[.entries[] | .type] | @json' '["directory","file","file"]'
	does list '{"path":".","depth":9,"limit":2}' '.entries | length' 2
	local all=0 cursor
	while cursor=$(got '.cursor // empty | @json') && all=$((all + $(got '.entries | length'))) && [ -n "$cursor" ]; do
		fs list "{\"path\":\".\",\"depth\":9,\"limit\":2,\"cursor\":$(jq -c .cursor "$tmp/answer")}"
	done
	equal "pages have every name once" "$(inside sh -c 'find . -mindepth 1 -print0 | tr -dc "\000" | wc -c' | tr -d ' \r')" "$all"
	does stat '{"path":"tree/deep/f","sha256":true}' .sha256 "$(printf f | sum)"
	refuses directory_not_empty delete '{"path":"tree"}' 409
	does delete '{"path":"tree","recursive":true}' .deleted 4
	refuses file_not_found stat '{"path":"tree"}' 404
	refuses file_not_found delete '{"path":"tree"}' 404
	refuses invalid_request delete '{"path":".","recursive":true}' 400
}

fs_patch_and_search() {
	local before patch
	does write '{"path":"p/one","data":"a\nb\nc\n","parents":true}'
	does write '{"path":"p/two","data":"x\ny\n"}'
	before=$(inside sh -c 'cat p/one p/two | sha256sum')
	# The second file does not fit: the first stays as it is, too.
	patch='*** Begin Patch\n*** Update File: p/one\n@@\n-b\n+B\n*** Update File: p/two\n@@\n-no such line\n+y\n*** End Patch\n'
	refuses patch_refused patch "{\"path\":\".\",\"data\":\"$patch\"}" 409
	equal "the hunk is named" '["p/two","not_found",1]' "$(got '.error.details.refused | [.path, .reason, .hunk] | @json')"
	equal "nothing was changed" "$before" "$(inside sh -c 'cat p/one p/two | sha256sum')"
	patch=${patch/no such line/y}
	patch=${patch/+y/+Y}
	does patch "{\"path\":\".\",\"data\":\"$patch\",\"dry_run\":true}" '.would_change | length' 2
	equal "a dry run neither" "$before" "$(inside sh -c 'cat p/one p/two | sha256sum')"
	does patch "{\"path\":\".\",\"data\":\"$patch\"}" '[.changes[].path] | @json' '["p/one","p/two"]'
	equal "both are" "a B c x Y" "$(inside cat p/one p/two | tr -s '\r\n' ' ' | sed 's/ $//')"
	does patch '{"path":"p","data":"one\n<<<<<<< SEARCH\nB\n=======\nb\n>>>>>>> REPLACE\n"}' '.changes[0].path' p/one
	does patch '{"path":"p","data":"--- /dev/null\n+++ b/three\n@@ -0,0 +1 @@\n+new\n"}' '.changes[0].before' null
	refuses file_exists patch '{"path":"p","data":"*** Begin Patch\n*** Add File: three\n+x\n*** End Patch\n"}' 409
	refuses path_outside patch '{"path":"p","data":"--- /dev/null\n+++ b/../../x\n@@ -0,0 +1 @@\n+x\n"}' 403
	refuses patch_refused patch '{"path":"p","data":"no patch at all"}' 409
	does write '{"path":"p/bin","data":"AGIK","encoding":"base64"}'
	does write '{"path":"p/.gitignore","data":"two\n"}'
	does search '{"path":"p","pattern":"b","context":1}' '[.results[0].path, (.results[0].lines | map(.text) | join(" ")), .binary] | @json' '["p/one","a b c",["p/bin"]]'
	does search '{"path":"p","pattern":"^[xy]$","regex":true,"ignore_case":true}' .matches 2
	does search '{"path":"p","pattern":"y","ignore_case":true,"gitignore":true}' .matches 0
	does search '{"path":"p","pattern":"(a+)+$","regex":true,"limit":1}' .matches 1
	refuses invalid_request search '{"path":"p","pattern":"(","regex":true}'
	refuses invalid_request search '{"path":"p","pattern":"(a)\\1","regex":true}'
	does glob '{"path":"p","pattern":"{one,t*}"}' '[.entries[].path] | @json' '["p/one","p/three","p/two"]'
	does glob '{"path":".","pattern":"**/one","ignore":["/p"]}' '.entries | length' 0
	refuses invalid_request glob '{"path":".","pattern":"[a"}'
}

# Nothing leads outside: not by name, not by link, not in the middle of a path.
fs_stays_inside() {
	inside sh -c 'ln -sfn / out; ln -sfn /etc/passwd pw; ln -sfn ../../../../etc up; ln -sfn src in'
	does read '{"path":"in/a.txt"}' .data f
	for path in /etc/passwd ../etc/passwd src/../../etc/passwd out/etc/passwd pw up/passwd "${root}x/f"; do
		refuses path_outside read "{\"path\":\"$path\"}" 403
		[ "$path" = pw ] || refuses path_outside write "{\"path\":\"$path.muxd\",\"data\":\"x\",\"parents\":true}" 403
	done
	refuses path_outside copy '{"path":"src/a.txt","to":"out/tmp/f"}' 403
	refuses path_outside move '{"path":"src/a.txt","to":"/tmp/f"}' 403
	refuses path_outside delete '{"path":"out/tmp","recursive":true}' 403
	refuses path_outside chmod '{"path":"pw","mode":"0777"}' 403
	does stat '{"path":"pw"}' '[.entry.type, .entry.target] | @json' '["symlink","/etc/passwd"]'
	does write '{"path":"pw","data":"mine"}'
	does delete '{"path":"out"}' .deleted 1
	inside sh -c 'rm -f up in'
}

fs_bad_requests() {
	refuses invalid_request read '{"path":"src","depth":1}'
	refuses invalid_request read '{}'
	refuses invalid_request read '{"path":""}'
	refuses invalid_request read '{"path":{"base64":"AAA="}}'
	refuses invalid_request read '{"path":"a","length":99999999}'
	refuses invalid_request write '{"path":"x","data":"***","encoding":"base64"}'
	refuses invalid_request write '{"path":"x","data":"","if_match":"abc"}'
	refuses invalid_request chmod '{"path":"x","mode":"0888"}'
	refuses invalid_request stat 'no json'
	refuses invalid_request stat "{\"path\":\"$(head -c 5000 /dev/zero | tr '\0' a)\"}"
}

# The same by hand.
fs_by_muxctl() {
	printf 'b\na\n' | muxctl fs write -p "$agent" ctl/f >/dev/null || fail "fs write"
	printf 'c\n' | muxctl fs write -a "$agent" ctl/f >/dev/null || fail "fs write -a"
	equal "fs cat" "b a c" "$(muxctl fs cat "$agent" ctl/f | tr '\n' ' ' | sed 's/ $//')"
	equal "fs cat of lines" a "$(muxctl fs cat --from-line 2 --to-line 2 "$agent" ctl/f)"
	muxctl fs cp "$agent" ctl/f ctl/g >/dev/null && muxctl fs mv -f "$agent" ctl/g ctl/h >/dev/null && muxctl fs chmod "$agent" 600 ctl/h >/dev/null || fail "cp, mv, chmod"
	equal "fs stat" 0600 "$(muxctl fs stat "$agent" ctl/h -o json | jq -r .entry.mode)"
	equal "fs ls" "ctl/f ctl/h" "$(muxctl fs ls "$agent" ctl -o json | jq -r '[.entries[].path] | join(" ")')"
	equal "fs glob" "ctl/h" "$(muxctl fs glob "$agent" 'ctl/[g-z]' -o json | jq -r '.entries[].path')"
	equal "fs grep" "ctl/f:2:a" "$(muxctl fs grep -E "$agent" '^a$' ctl/f)"
	muxctl fs grep "$agent" 'not there' ctl >/dev/null
	equal "its exit status where nothing matches" 1 $?
	printf 'f\n<<<<<<< SEARCH\na\n=======\nA\n>>>>>>> REPLACE\n' | muxctl fs patch "$agent" ctl >/dev/null || fail "fs patch"
	equal "fs patch" A "$(inside sed -n 2p ctl/f | tr -d '\r')"
	muxctl fs mkdir "$agent" ctl/d >/dev/null && muxctl fs rm -r "$agent" ctl >/dev/null || fail "mkdir, rm"
	muxctl fs cat "$agent" /etc/passwd >"$tmp/out" 2>"$tmp/err"
	equal "what leads outside has an exit status of its own" 77 $?
	grep -qF '[path_outside]' "$tmp/err" && ok "and a name" || fail "$(cat "$tmp/err")"
}

# fs_audited EVENT FILTER: the newest such event has that
fs_audited() {
	muxctl audit --agent "$agent" --event "$1" -o json | jq -es "[.[] | (.events // [.])[] | .record | select(.outcome == \"ok\")] | last | $2" >/dev/null
}
fs_recorded() {
	does write '{"path":"audited","data":"1"}'
	does write '{"path":"audited","data":"2"}'
	does delete '{"path":"audited"}'
	wait_for 20 fs_audited file.write ".detail.changes[0] | .path == \"audited\" and .before.sha256 == \"$(printf 1 | sum)\" and .after.sha256 == \"$(printf 2 | sum)\"" &&
		ok "a change is in the audit log by path and digests" || fail "no such event: $(muxctl audit --agent "$agent" --event file.write -o json | tail -3)"
	wait_for 20 fs_audited file.delete ".detail.changes[0] | .path == \"audited\" and .before.sha256 == \"$(printf 2 | sum)\" and .after == null" &&
		ok "a deletion, too" || fail "no such event of a deletion"
	wait_for 20 fs_audited file.read '.detail.path != null' && ok "and a read by its path" || fail "no such event of a read"
}

# changes FILTER: of what was told of changes by programs, entries of all events
changes() { muxctl audit -n 1000 --agent "$agent" --event workspace.changes -o json | jq -s "[.[] | .record.detail.entries // [] | .[]] | $1"; }
# changed HOW PATH [DIGEST]: such an entry is there
changed() { changes "any(.how == \"$1\" and .path == $2 and (\"${3:-}\" == \"\" or .sha256 == \"${3:-}\"))" | grep -q true; }
tells() {
	wait_for 20 changed "$@" && ok "told: $1 $2" ||
		fail "not told: $* $(muxctl audit -n 1000 --agent "$agent" --event workspace.changes -o json | tail -3)"
}
fs_programs_changed() {
	local id
	id=$(muxctl exec -n "$agent" -- sh -c 'mkdir prog; echo one >prog/a; echo one >prog/b; ln -s /etc prog/out; : >"prog/n
l"' >/dev/null && muxctl session list --all --agent "$agent" --kind round -n 1 -o json | jq -r '.sessions[0].id')
	tells created '"prog"'
	tells created '"prog/a"' "$(echo one | sum)"
	tells created '"prog/n\nl"' "$(sum </dev/null)"
	equal "a link is told with its target" /etc "$(changes '[.[] | select(.path == "prog/out")][0].target' | jq -r .)"
	wait_for 20 sh -c "'$MUXCTL' --state '$MUXD_STATE' audit --session $id --event workspace.changes -o json | grep -q ." &&
		ok "the log is asked for it by the session" || fail "no event by session $id"
	equal "the event names it, and who ran it" "$id round" "$(muxctl audit -n 1000 --agent "$agent" --event workspace.changes -o json |
		jq -rs --arg id "$id" '[.[].record.detail | (.sessions // [])[] | select(.session == $id and .principal != "")][0] | [.session, .kind] | join(" ")')"
	inside sh -c 'echo two >prog/a; rm prog/b; chmod 600 "prog/n
l"'
	tells changed '"prog/a"' "$(echo two | sum)"
	tells deleted '"prog/b"'
	tells changed '"prog/n\nl"'
	inside sh -c 'i=0; while [ $i -lt 1500 ]; do : >prog/many.$i; i=$((i+1)); done'
	wait_for 20 sh -c "'$MUXCTL' --state '$MUXD_STATE' audit -n 1000 --agent '$agent' --event workspace.changes -o json | jq -es 'any(.record.detail.left_out >= 500)'" &&
		ok "past a thousand names the rest is counted" || fail "$(muxctl audit -n 3 --agent "$agent" --event workspace.changes -o json | cut -c1-900)"
	inside rm -r prog
	tells deleted '"prog"'
}

# stream ARGS...: content of the API, by curl
stream() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $token" "$@"; }
fs_trees() {
	local url=http://muxd/v1/agents/$agent/fs/tree before after f name
	inside sh -c 'rm -rf trees back by && mkdir -p trees/d && echo one >trees/a && echo two >trees/d/b && ln -s ../a trees/d/l && chmod 750 trees/d'
	equal "a tree comes as an archive" "200 application/x-tar" "$(stream -o "$tmp/tree.tar" -w '%{http_code} %{content_type}' "$url?path=trees")"
	equal "that tar reads" "./ a d/ d/b d/l" "$(tar tf "$tmp/tree.tar" | sort | tr '\n' ' ' | sed 's/ $//')"
	equal "and goes back" "200 5 8" "$(stream -T "$tmp/tree.tar" -o "$tmp/answer" -w '%{http_code}' "$url?path=back") $(got .entries) $(got .bytes)"
	equal "as it was" "$(inside sh -c 'cd trees && cat a d/l d/b && stat -c %a d')" "$(inside sh -c 'cd back && cat a d/l d/b && stat -c %a d')"
	equal "not over what is there" "409 file_exists" "$(stream -T "$tmp/tree.tar" -o "$tmp/answer" -w '%{http_code}' "$url?path=back") $(got .error.code)"
	inside sh -c 'echo mine >back/mine; rm back/a'
	equal "into what is there" 200 "$(stream -T - -o "$tmp/answer" -w '%{http_code}' "$url?path=back&merge=true" <"$tmp/tree.tar")"
	equal "each has its own" "one mine" "$(inside sh -c 'cat back/a back/mine' | tr '\r\n' '  ' | xargs)"
	equal "or in its place" true "$(stream -T "$tmp/tree.tar" "$url?path=back&overwrite=true" | jq .replaced)"
	inside test -e back/mine && fail "what was replaced is there still"
	before=$(inside sh -c 'ls -la /tmp /etc; find . | sort' | sum)
	for f in "$here"/tests/fuzz/corpus/tar/*; do
		name=${f##*/}
		case $name in gnu | pax | ustar) continue ;; esac
		equal "an archive with ${name} is refused" "400 invalid_request" "$(stream -T "$f" -o "$tmp/answer" -w '%{http_code}' "$url?path=bad") $(got .error.code)"
	done
	head -c 3000 "$tmp/tree.tar" >"$tmp/cut.tar"
	equal "one that ends in the middle, too" 400 "$(stream -T "$tmp/cut.tar" -o "$tmp/answer" -w '%{http_code}' "$url?path=bad")"
	mkfifo "$tmp/fifo"
	exec 9<>"$tmp/fifo"
	head -c 3000 "$tmp/tree.tar" >&9 # and no end
	timeout 1 curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $token" -T "$tmp/fifo" "$url?path=bad" >/dev/null 2>&1
	exec 9>&-
	after() { inside sh -c 'ls -la /tmp /etc; find . | sort' | sum; }
	nothing_left() { [ "$before" = "$(after)" ]; }
	wait_for 10 nothing_left && ok "nothing of them is left, nor of one whose sender went" || fail "left: $(inside find . | sort | tail -20)"
	for name in /etc ../x; do
		equal "not outside: $name" "403 path_outside" "$(stream -o "$tmp/answer" -w '%{http_code}' "$url?path=$name") $(got .error.code)"
		equal "nor in there" "403 path_outside" "$(stream -T "$tmp/tree.tar" -o "$tmp/answer" -w '%{http_code}' "$url?path=$name") $(got .error.code)"
	done
	wait_for 20 fs_audited file.tree_put ".detail.changes[] | select(.path == \"back/a\") | .after.sha256 == \"$(echo one | sum)\"" && ok "in the audit log, by path and digest" || fail "no event"
	wait_for 20 fs_audited file.tree_get ".detail.sha256 == \"$(sum <"$tmp/tree.tar")\"" && ok "and what went out, by its own" || fail "no event of a tree that went out"
	muxctl fs pack "$agent" trees | muxctl fs unpack "$agent" by/hand -p >/dev/null || fail "pack, unpack"
	equal "the same by hand" "one two" "$(inside cat by/hand/a by/hand/d/b | tr '\r\n' '  ' | xargs)"
}

fs_watches() {
	inside sh -c 'rm -rf seen && mkdir -p seen/sub'
	muxctl fs watch -r "$agent" seen -o json >"$tmp/seen" 2>"$tmp/seen.err" &
	watch=$!
	wait_for 10 grep -q '"ready"' "$tmp/seen" || fail "no watch: $(cat "$tmp/seen.err")"
	inside sh -c 'echo x >seen/sub/f; mkdir seen/new; echo y >seen/new/g; mv seen/new seen/other; echo z >seen/other/h; rm seen/sub/f'
	saw() { jq -es "any($1)" "$tmp/seen" >/dev/null; }
	wait_for 10 saw '.event == "deleted" and .path == "seen/sub/f"' && ok "what programs do is told" || fail "$(cat "$tmp/seen")"
	saw '.event == "written" and .path == "seen/sub/f"' && saw '.event == "created" and (.path == "seen/new/g" or .path == "seen/other/g")' &&
		saw '.event == "moved_to" and .path == "seen/other" and .directory and .cookie > 0' && saw '.event == "created" and .path == "seen/other/h"' &&
		ok "with what comes in a new directory, under the name that it has by then" || fail "$(cat "$tmp/seen")"
	kill "$watch"
	wait "$watch" 2>/dev/null
	muxctl fs watch "$agent" seen >"$tmp/seen" 2>"$tmp/seen.err" &
	watch=$!
	wait_for 10 grep -q '^ready' "$tmp/seen" || fail "no watch: $(cat "$tmp/seen.err")"
	inside rm -r seen
	wait "$watch" && grep -q '^gone *seen/' "$tmp/seen" && ok "it ends when its directory is gone" || fail "$(cat "$tmp/seen" "$tmp/seen.err")"
	alone() { [ "$(muxctl session list --agent "$agent" -o json | jq '[.sessions[] | select(.kind == "file")] | length')" = 0 ]; }
	wait_for 20 alone && ok "nothing of those whose clients left is running" || fail "$(muxctl session list --agent "$agent")"
	wait_for 20 fs_audited file.watch '.detail.path != null' && ok "a watch is in the audit log" || fail "no event"
	equal "not outside" "403 path_outside" "$(stream -o "$tmp/answer" -w '%{http_code}' "http://muxd/v1/agents/$agent/fs/watch?path=/etc") $(got .error.code)"
	equal "nor of a file" "409 not_a_directory" "$(inside sh -c ': >plainfile'; stream -o "$tmp/answer" -w '%{http_code}' "http://muxd/v1/agents/$agent/fs/watch?path=plainfile") $(got .error.code)"
}
