# files_story.sh - what the stories of files share: the same claims about a sandbox on this machine and about one in a pod.
# Sourced after env.sh; expects $agent, whose sandbox has sh, cat, find, stat, mkfifo and sha256sum.
# shellcheck shell=bash disable=SC2154,SC2034

inside() { muxctl exec -n "$agent" -- "$@"; }
put() { muxctl put "${opts[@]}" -- "$agent" "$@" >"$tmp/out" 2>"$tmp/err"; }
get() { muxctl get -- "$agent" "$@" >"$tmp/out" 2>"$tmp/err"; }
opts=()
sum() { sha256sum <"$1" | cut -d' ' -f1; }
# refused WHAT CODE COMMAND...: it fails with that code in its message
refused() {
	local what=$1 code=$2
	shift 2
	"$@" && fail "$what succeeded"
	grep -qF "[$code]" "$tmp/err" && ok "$what: $code" || fail "$what: $(cat "$tmp/err")"
}
curl_() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" "$@"; }
# runs: a transfer of the agent is under way
runs() {
	muxctl session list --agent "$agent" -o json | jq -e '.sessions[] | select(.kind == "file" and .state == "running")'
}

# begin_put NAME: a put that got 3 MB and waits for more, as process $putting
begin_put() {
	rm -f "$tmp/held"
	mkfifo "$tmp/held"
	exec 8<>"$tmp/held"
	"$MUXCTL" --state "$MUXD_STATE" put "$agent" - "$1" <"$tmp/held" 8>&- >/dev/null 2>"$tmp/err" &
	putting=$!
	head -c 3000000 /dev/zero >"$tmp/held" 8>&- &
}

# Every size, byte by byte.
files_there_and_back() {
	for n in 0 1 65535 65536 65537 104857600; do
		head -c $n /dev/urandom >"$tmp/f"
		put "$tmp/f" "size-$n" || fail "put of $n bytes: $(cat "$tmp/err")"
		get "size-$n" "$tmp/g" || fail "get of $n bytes: $(cat "$tmp/err")"
		cmp "$tmp/f" "$tmp/g" && ok "$n bytes there and back" || fail "$n bytes are others"
		[ "$(inside sha256sum "size-$n" | cut -d' ' -f1)" = "$(sum "$tmp/f")" ] || fail "inside they are others"
	done
	inside rm -f size-104857600
	equal "the digest is said" "$(sum "$tmp/f")" "$(muxctl get "$agent" size-65537 - -o json >/dev/null && muxctl put "$agent" "$tmp/f" again -o json | jq -r .sha256)"
	inside rm -f again
}

# Every name.
files_names() {
	printf 'some content' >"$tmp/f"
	for name in 'with space' '-dash' '--get' $'line\nbreak' $'not\xff\xfeutf8' "it's" '$(touch x)' '*' 'a%2fb' 'a;b&c' 'ünï' '...'; do
		put "$tmp/f" "$name" || fail "put to $(printf %q "$name"): $(cat "$tmp/err")"
		get "$name" "$tmp/g" || fail "get of $(printf %q "$name"): $(cat "$tmp/err")"
		cmp -s "$tmp/f" "$tmp/g" || fail "$(printf %q "$name") came back as something else"
		ok "the name $(printf %q "$name")"
	done
	equal "a dozen names are a dozen files" 12 "$(inside sh -c 'cat -- "with space" -dash --get line* not* it* "\$(touch x)" "*" a%2fb "a;b&c" ün* ... | grep -o "some content" | wc -l' | tr -d ' ')"
	equal "and no shell saw one" 0 "$(inside sh -c 'ls x 2>/dev/null | wc -l' | tr -d ' ')"
}

# What a put may be conditional on: what is there, or that nothing is. Of many at once one wins.
files_conditions() {
	local token url n had
	token=$(new_token "$agent" agent files)
	url="$(ready https_url | sed 's,/*$,,')/v1/agents/$agent/files?path=guarded&mode=0640"
	conditional() { echo "$(curl_ -o "$tmp/out" -w '%{http_code}' -T "$tmp/f" "$@" "$url") $(jq -r '.error.code // .sha256' "$tmp/out")"; }
	inside rm -f guarded
	printf one >"$tmp/f"
	equal "a put of a new name alone" "200 $(sum "$tmp/f")" "$(conditional -H 'If-None-Match: *')"
	equal "with its mode" 640 "$(inside stat -c %a guarded)"
	had=$(sum "$tmp/f")
	printf two >"$tmp/f"
	equal "is refused where there is one" "412 file_exists" "$(conditional -H 'If-None-Match: *')"
	equal "and so is one on another content" "412 file_changed" "$(conditional -H "If-Match: \"$(sum "$tmp/f")\"")"
	equal "which says what is there" "$had" "$(jq -r .error.details.sha256 "$tmp/out")"
	equal "nothing was changed" one "$(inside cat guarded)"
	equal "on what is there it is made" "200 $(sum "$tmp/f")" "$(conditional -H "If-Match: \"$had\"")"
	for n in '*' 'abc' "$had" "W/\"$had\"" "\"$had\", \"$had\"" "\"$(printf '%0100d' 0)\""; do
		equal "If-Match: ${n:0:20}... is no condition" "400 invalid_request" "$(conditional -H "If-Match: $n")"
	done
	had=$(sum "$tmp/f")
	for n in $(seq 12); do
		printf 'racer %s' "$n" >"$tmp/r$n"
		curl_ -o "$tmp/o$n" -T "$tmp/r$n" -H "If-Match: \"$had\"" "$url" &
		racers[n]=$!
	done
	wait "${racers[@]}"
	equal "of twelve at once on the same content one wins, and the others hear of it" "1 11" \
		"$(jq -rs '[.[] | select(.sha256)] | length' "$tmp"/o*) $(jq -rs '[.[] | select(.error.code == "file_changed")] | length' "$tmp"/o*)"
	equal "whose content is there" "$(jq -rs '[.[] | .sha256 // empty][0]' "$tmp"/o*)" "$(inside sha256sum guarded | cut -d' ' -f1)"
	equal "a condition is for the workspace" "403 path_outside" \
		"$(curl_ -o "$tmp/out" -w '%{http_code}' -T "$tmp/f" -H 'If-None-Match: *' "${url/guarded/..%2Fx}") $(jq -r .error.code "$tmp/out")"
	printf 'some content' >"$tmp/f"
}

# Permissions, links, and what is replaced.
files_modes() {
	printf '#!/bin/sh\necho runs\n' >"$tmp/script"
	chmod 0750 "$tmp/script"
	put "$tmp/script" bin/ && fail "a put into a directory that is not there succeeded"
	opts=(-p)
	put "$tmp/script" bin/ || fail "put -p: $(cat "$tmp/err")"
	opts=()
	equal "a mode goes along" 750 "$(inside stat -c %a bin/script)"
	equal "and it runs" runs "$(inside bin/script)"
	put - bin/script <"$tmp/f"
	equal "an unknown mode stays as it was" 750 "$(inside stat -c %a bin/script)"
	inside chmod 4755 bin/script
	(umask 027 && get bin/script "$tmp/back") && equal "what comes out is a file of one's own umask, and cannot be executed" 640 "$(stat -c %a "$tmp/back")"
	chmod 700 "$tmp/back" && get bin/script "$tmp/back" && equal "one that is replaced is not read by more than before" 600 "$(stat -c %a "$tmp/back")"
	muxctl get --mode 750 -- "$agent" bin/script "$tmp/back" >"$tmp/out" 2>"$tmp/err" && equal "unless it is asked for" 750 "$(stat -c %a "$tmp/back")"
	inside chmod 750 bin/script
	inside sh -c 'ln -sf target link; echo old > target'
	put "$tmp/f" link
	equal "a link is replaced, not followed" old "$(inside cat target)"
	equal "by a file" "some content" "$(inside cat link)"
	inside ln -sf bin/script link2
	equal "a get follows links" "some content" "$(muxctl get "$agent" link2 -)"
	equal "there is no rest of all this" 0 "$(inside sh -c 'find . -maxdepth 2 -name ".muxd-put*" | wc -l' | tr -d ' ')"
}

# A named error each.
files_refused() {
	refused "no such file" file_not_found get nothing "$tmp/none"
	[ -e "$tmp/none" ] && fail "a get that failed left a file"
	refused "no such directory" file_not_found put "$tmp/f" no/such/dir/f
	refused "a directory in the way" not_a_file put "$tmp/f" bin
	refused "a directory to get" not_a_file get bin "$tmp/none"
	refused "a device" not_a_file get /dev/zero "$tmp/none"
	refused "a file as a directory" file_not_found put "$tmp/f" target/f
	refused "what the sandbox may not write" file_permission_denied put "$tmp/f" /usr/bin/f
	inside sh -c 'mkdir -p closed && echo x > closed/f && chmod 0 closed'
	refused "what it may not enter" file_permission_denied get closed/f "$tmp/none"
	inside mkfifo pipe
	refused "a pipe, without waiting for its writer" not_a_file get pipe "$tmp/none"
	refused "a name that is too long" invalid_request put "$tmp/f" "$(printf 'x%.0s' $(seq 300))"
}

# In time; cut in the middle.
files_cut() {
	# In time: a client that sends nothing more.
	opts=(--timeout 1s)
	mkfifo "$tmp/silent"
	sleep 60 >"$tmp/silent" &
	silent=$!
	put "$tmp/silent" slow && fail "a transfer past its timeout succeeded"
	kill $silent 2>/dev/null
	opts=()
	grep -qF '[sandbox_transfer_timeout]' "$tmp/err" && ok "a transfer past its timeout" || fail "timeout: $(cat "$tmp/err")"
	# Cut in the middle: by the client, then with its process killed.
	token=$(new_token "$agent" staff files)
	url=https://$(ready https)/v1/agents/$agent/files
	(head -c 3000000 /dev/zero; sleep 2) | curl_ -m 1 -H 'Content-Length: 5000000' -H 'Transfer-Encoding:' -T - "$url?path=cut1" >/dev/null 2>&1
	begin_put cut2
	wait_for 10 runs || fail "the transfer is not in the list of sessions"
	ok "a running transfer is a session of kind file"
	kill -KILL $putting
	wait $putting 2>/dev/null
	no_transfer() {
		[ "$(muxctl session list --agent "$agent" -o json | jq '[.sessions[] | select(.kind == "file" and .state != "ended")] | length')" = 0 ]
	}
	wait_for 20 no_transfer && ok "transfers whose client is gone end" || fail "they go on"
	equal "and leave nothing" 0 "$(inside sh -c 'find . -maxdepth 1 -name "cut*" -o -name "slow*" -o -name ".muxd-put*" | wc -l' | tr -d ' ')"
	head -c 2000000 /dev/urandom >"$tmp/f"
	equal "a longer body than announced is one request" 200 \
		"$(curl_ -o /dev/null -w '%{http_code}' -T "$tmp/f" "$url?path=rest&mode=0600")"
	equal "REST keeps modes" 600 "$(inside stat -c %a rest)"
	curl_ -o "$tmp/g" "$url?path=rest"
	cmp "$tmp/f" "$tmp/g" && ok "and bytes"
	equal "a grant without scope files" forbidden "$(
		token=$(new_token "$agent" staff rounds)
		curl_ "$url?path=rest" | jq -r .error.code)"
}

# The record of it.
files_recorded() {
	# The record: who, which path, how large, which digest; and of the content nothing, by the rule for files.
	audited() { muxctl audit --agent "$agent" --event "$1" -n 1000 -o json | jq -c "$2" | grep -q .; }
	want='select(.record.outcome == "ok" and .record.detail.path == "rest" and .record.detail.size == 2000000 and .record.detail.sha256 == "'$(sum "$tmp/f")'")'
	wait_for 20 audited file.put "$want" && ok "a put is in the audit log by path, size and digest" || fail "no such event of a put"
	wait_for 20 audited file.get "$want" && ok "a get too" || fail "no such event of a get"
	wait_for 20 audited file.put 'select(.record.outcome == "file_permission_denied" and .record.detail.path == "/usr/bin/f")' &&
		ok "and what was refused" || fail "no event of a refusal"
	echo "a sentence that nobody must find" >"$tmp/f"
	session=$(curl_ -T "$tmp/f" "$url?path=secret" | jq -r .session)
	exported() { muxctl export "$session" --format json >"$tmp/export" 2>/dev/null && [ -s "$tmp/export" ]; }
	wait_for 20 exported || fail "the transfer has no recording"
	grep -q '"path": *"secret"' "$tmp/export" && ok "the recording names the file" || fail "$(head -c 2000 "$tmp/export")"
	! grep -qE 'a sentence|YSBzZW50ZW5jZ' "$tmp/export" && ok "and holds none of it" || fail "the recording holds the content"
}

# files_no_space MUCH FITS: bytes that pass the workspace's cap, and bytes that do not
files_no_space() {
	enforced() { muxctl sandbox show "$agent" -o json | jq -r "$1"; }
	if [ "$(enforced .enforced.workspace_size)" != true ]; then
		ok "(no cap is enforced here: $(enforced .detail))"
		return
	fi
	head -c "$1" /dev/urandom >"$tmp/f"
	refused "more than there is room for, announced" workspace_full put "$tmp/f" big
	(cat "$tmp/f") | muxctl put "$agent" - big 2>"$tmp/err" && fail "it fitted"
	grep -qF '[workspace_full]' "$tmp/err" && ok "and not announced" || fail "$(cat "$tmp/err")"
	token=$(new_token "$agent" staff files)
	url=https://$(ready https)/v1/agents/$agent/files
	equal "and by REST" "507 workspace_full" "$(curl_ -o "$tmp/g" -w '%{http_code}' -T "$tmp/f" "$url?path=big") $(jq -r .error.code "$tmp/g")"
	equal "which leaves nothing" 0 "$(inside sh -c 'find . -maxdepth 1 -name "*big*" -o -name ".muxd*" | wc -l' | tr -d ' ')"
	head -c "$2" "$tmp/f" >"$tmp/g"
	put "$tmp/g" fits && ok "what fits, fits" || fail "$(cat "$tmp/err")"
	inside rm fits
}

# A daemon of the story's own: it dies in the middle.
files_daemon_dies() {
	begin_put cut3
	wait_for 10 runs || fail "the transfer is not in the list of sessions"
	kill -KILL "$(jq -r .pids.net "$MUXD_STATE/ready.json")"
	wait $putting && fail "a transfer survived its daemon"
	ok "a transfer whose daemon died fails: $(head -n 1 "$tmp/err")"
	wait_for 30 inside true || fail "the sandbox is not reached again"
	no_rest() { [ "$(inside sh -c 'find . -maxdepth 1 -name "cut3" -o -name ".muxd*" | wc -l' | tr -d ' ')" = 0 ]; }
	wait_for 20 no_rest && ok "and nothing of it is left" || fail "something is left: $(inside ls -la)"
}
