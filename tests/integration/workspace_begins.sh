#!/bin/bash
# A sandbox begins with an artifact that is an archive, or with a bundle of git: by API, MCP and muxctl, once however often it is asked
# for; what is refused leaves neither an agent nor a snapshot nor a sandbox; and kill -9 of the daemon leaves all of it or nothing.
# tier: test, san KILLS=1, slice KILLS=3, whole KILLS=120
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
printf 'sandbox: {workspace_size: 24MiB}\nartifacts: {size_max: 64MiB}\nlifecycle: {keep_snapshots: 1}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
token=$(new_token 'bg-*' service files,rounds,lifecycle)
run() { muxctl exec -n --task story -c "$2" "$1"; }
put() { muxctl artifact put story "$2" "$1" >/dev/null || fail "no artifact $1"; }
begin() { muxctl sandbox resume "$1" --workspace "$2" -o json >"$tmp/out" 2>&1; }
# ask AGENT WHAT [TOKEN [MORE]]: by HTTPS, the state, or code and message
ask() { api "${3:-$token}" POST "/v1/agents/$1/resume" "{\"workspace\":\"$2\"${4:+,$4}}" | jq -r '.state // "\(.error.code) \(.error.message)"'; }
# there PATTERN: what the backend has of sandboxes of such names: directories, or objects of the cluster
there() {
	if [ -n "${BOX_CONFIG:-}" ]; then kubectl get pod,pvc,volumesnapshot -o json | jq -r '.items[].metadata.labels.agent_id // empty'; else ls "$MUXD_STATE/sandboxes"; fi |
		sort -u | grep -E "^($1)\$"
}
traces() { there 'bg-none.*'; }
no_traces() { [ -z "$(traces)" ]; }
# refused WHAT CODE WORDS WORKSPACE: nothing is there afterwards
refused() {
	local got
	got=$(ask bg-none "$4")
	[ "${got%% *}" = "$2" ] && [[ $got == *"$3"* ]] || fail "$1: not $2 with \"$3\": $got"
	muxctl sandbox show bg-none >/dev/null 2>&1 && fail "$1: something was made"
	wait_for 20 no_traces || fail "$1 left: $(traces)"
	ok "$1: $2"
}

# --- archives
mkdir -p "$tmp/tree/d" && printf seed >"$tmp/tree/file" && printf deep >"$tmp/tree/d/deep" && chmod 700 "$tmp/tree/d" && ln -s d/deep "$tmp/tree/link"
tar -C "$tmp/tree" -cf "$tmp/tree.tar" . && put tree.tar "$tmp/tree.tar"
agents() { muxctl sandbox list -o json | jq -r ".agents[].agent" | sort; } # there may be those of other stories
agents >"$tmp/before"
begin bg-cli artifact:story/tree.tar || fail "not begun: $(cat "$tmp/out")"
equal "an archive is what it begins with" "running artifact:story/tree.tar $(sha256sum <"$tmp/tree.tar" | cut -d' ' -f1)" \
	"$(jq -r '"\(.state) \(.began_with.workspace) \(.began_with.sha256)"' "$tmp/out")"
equal "whole" "seed deep 700" "$(run bg-cli 'cat file; echo; cat link; echo; stat -c %a d' | xargs)"
equal "and writable" mine "$(run bg-cli 'printf mine >file; cat file')"
first=$(jq -r .workspace_snapshot_id "$tmp/out")
begin bg-cli artifact:story/tree.tar && equal "the same call finds it as it is" mine "$(run bg-cli 'cat file')" || fail "$(cat "$tmp/out")"
equal "it keeps the snapshot that it was made of" "$first" "$(muxctl sandbox show bg-cli -o json | jq -r .forked_from.snapshot)"
equal "what it was made in is in no list" bg-cli "$(comm -13 "$tmp/before" <(agents))"
there 'bg-cli-begin-.*' >/dev/null || fail "the snapshot is gone while it is the current one"
muxctl sandbox stop bg-cli --reason "story: stop" >/dev/null && begin bg-cli artifact:story/tree.tar && equal "it sleeps and wakes as any other" mine "$(run bg-cli 'cat file')" || fail "$(cat "$tmp/out")"
equal "a session in it names what it began with" "$first" "$(muxctl session show "$(muxctl session list --all --agent bg-cli -n 100 -o json | jq -r '.sessions[-1].id')" | awk '/^snapshot before/ { print $3 }')"
equal "by HTTPS" running "$(ask bg-api artifact:story/tree.tar)"
equal "another one of it has its own" seed "$(run bg-api 'cat file')"
use() { # TOOL ARGUMENTS AGENT, over MCP
	printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}' "$(jq -nc --arg name "$1" --argjson arguments "$2" \
		'{jsonrpc: "2.0", id: 2, method: "tools/call", params: {$name, $arguments}}')" | muxctl mcp "$3" --task story --scopes rounds,files,lifecycle | jq -c "select(.id == 2).result"
}
use sandbox.session.create '{"task_id":"story","session_id":"bg-mcp","workspace_ref":"artifact:story/tree.tar","constraints":{"labels":{"a":"b"},"app_id":"story"}}' bg-mcp >"$tmp/out"
equal "over MCP" "false running b story seed" "$(jq -r '"\(.isError) \(.structuredContent.state) \(.structuredContent.labels.a) \(.structuredContent.reference.app_id)"' "$tmp/out") $(run bg-mcp 'cat file')"
use sandbox.session.create '{"task_id":"story","session_id":"bg-none-there","constraints":{"namespace":"nowhere"}}' bg-none-there >"$tmp/out"
equal "not where nobody is" "true unsupported" "$(jq -r '"\(.isError) \(.content[0].text | split(":")[0])"' "$tmp/out")"
no_traces && ok "nothing of it is there" || fail "$(traces)"
for i in 1 2 3; do ask bg-many artifact:story/tree.tar >"$tmp/many$i" & many[i]=$!; done
wait "${many[@]}"
equal "asked for three times at once it is one" "running running running" "$(cat "$tmp"/many[123] | xargs)"
# The monitor, which makes sandboxes, stands still meanwhile: it is not made sooner than that.
kill -STOP "$DAEMON"
soon=$(ask bg-soon artifact:story/tree.tar "" '"timeout_ms":1' | cut -d' ' -f1)
kill -CONT "$DAEMON"
equal "who does not wait for it is told" sandbox_create_timeout "$soon"
equal "and finds it made" "running seed" "$(ask bg-soon artifact:story/tree.tar) $(run bg-soon 'cat file')"

# --- what it is not
equal "another archive over what is there" conflict "$(ask bg-api bundle:story/tree.tar | cut -d' ' -f1)"
printf other >"$tmp/tree/file" && tar -C "$tmp/tree" -cf "$tmp/tree.tar" . && put tree.tar "$tmp/tree.tar"
equal "nor the same name with another content" "conflict seed" "$(ask bg-api artifact:story/tree.tar | cut -d' ' -f1) $(run bg-api 'cat file')"
equal "a new one begins with that" "running other" "$(ask bg-other artifact:story/tree.tar) $(run bg-other 'cat file')"
muxctl sandbox create bg-empty >/dev/null || fail "no sandbox"
equal "one that began with nothing" conflict "$(ask bg-empty artifact:story/tree.tar | cut -d' ' -f1)"
muxctl sandbox snapshot bg-other >/dev/null && muxctl sandbox fork bg-other --as bg-copy --writable >/dev/null || fail "no fork"
equal "a copy of one began with a snapshot" conflict "$(ask bg-copy artifact:story/tree.tar | cut -d' ' -f1)"
for each in artifact: artifact:tree.tar artifact:/tree.tar artifact:story/ bundle:story/x# 'bundle:story/x#-x' snapshot:x; do
	refused "workspace \"$each\"" invalid_request behind "$each"
done
refused "what nothing begins with" unsupported "artifact:TASK/NAME" https://example.org/x.git
refused "an artifact that is not there" not_found "" artifact:story/none

# --- hostile ones
for f in "$here"/tests/fuzz/corpus/tar/*; do
	case ${f##*/}${BOX_CONFIG:+-box} in gnu* | pax* | ustar* | [^d]*-box) continue ;; esac
	put hostile "$f"
	refused "an archive with ${f##*/}" invalid_request "nothing was made, as artifact:story/hostile" artifact:story/hostile
done
head -c 3000 "$tmp/tree.tar" >"$tmp/cut.tar" && put hostile "$tmp/cut.tar"
refused "one that ends in the middle" invalid_request "nothing was made" artifact:story/hostile
gzip -c "$tmp/tree.tar" >"$tmp/tree.tgz" && put hostile "$tmp/tree.tgz"
refused "one that is no tar" invalid_request "nothing was made" artifact:story/hostile
: >"$tmp/none" && put hostile "$tmp/none"
refused "an empty one" invalid_request "nothing was made" artifact:story/hostile
head -c 40000000 /dev/zero >"$tmp/large" && tar -C "$tmp" -cf "$tmp/large.tar" large && put hostile "$tmp/large.tar"
[ -n "${BOX_CONFIG:-}" ] || refused "one that is larger than the workspace" workspace_full "nothing was made" artifact:story/hostile
rm "$tmp/large" "$tmp/large.tar"
put lost "$tmp/cut.tar"
rm "$MUXD_STATE"/control/artifacts/"$(sha256sum <"$tmp/cut.tar" | cut -d' ' -f1)".*
refused "one whose file is gone" corrupt "somebody removed it" artifact:story/lost
muxctl audit -n 1000 -o json 2>/dev/null | jq -r '.record | select(.event == "sandbox.begin" or .event == "agent.resume") | "\(.outcome) \(.detail.workspace)"' >"$tmp/audit"
for line in "asked artifact:story/tree.tar" "ok artifact:story/tree.tar" "invalid_request artifact:story/hostile" "corrupt artifact:story/lost"; do
	grep -qxF "$line" "$tmp/audit" && ok "in the audit log: $line" || fail "not in the audit log: $line"
done

# --- whose they are
equal "a grant of another task" not_found "$(ask bg-none artifact:story/tree.tar "$(GRANT_TASK=elsewhere new_token 'bg-*' service files,lifecycle)" | cut -d' ' -f1)"
equal "one that reads no files" forbidden "$(ask bg-none artifact:story/tree.tar "$(new_token 'bg-*' service rounds,lifecycle)" | cut -d' ' -f1)"
equal "one that makes no sandboxes" forbidden "$(ask bg-none artifact:story/tree.tar "$(new_token 'bg-*' service rounds,files)" | cut -d' ' -f1)"
muxctl sandbox show bg-none >/dev/null 2>&1 && fail "something was made of it"
equal "files and lifecycle will do" running "$(ask bg-plain artifact:story/tree.tar "$(new_token bg-plain service files,lifecycle)")"

# --- bundles of git
(
	mkdir "$tmp/repo" && cd "$tmp/repo" && git init -q -b main . && git config user.email a@b && git config user.name a
	echo one >f && printf '#!/bin/sh\n' >run && chmod 755 run && git add . && git commit -qm one && git tag first
	echo two >f && git commit -qam two && git checkout -q -b feature/x && echo three >f && git commit -qam three && git checkout -q main
	git bundle create -q "$tmp/all.bundle" --all HEAD && git bundle create -q "$tmp/thin.bundle" first..main && git bundle create -q "$tmp/headless.bundle" feature/x
) || fail "no repository"
for each in all thin headless; do put $each.bundle "$tmp/$each.bundle"; done
begin bg-git bundle:story/all.bundle || fail "no bundle: $(cat "$tmp/out")"
equal "a bundle is a repository, its HEAD checked out" "two main  755 0 $(git -C "$tmp/repo" rev-parse main)" \
	"$(run bg-git 'cat f; git branch --show-current; git status --porcelain; git remote; stat -c %a run; ls -A | grep -c begin; git rev-parse HEAD' | tr '\n' ' ' | sed 's/main 755/main  755/; s/ $//')"
equal "with its branches and tags" "feature/x main first" "$(run bg-git 'git for-each-ref --format="%(refname:short)"' | xargs)"
equal "of a branch" "three feature/x" "$(begin bg-branch 'bundle:story/all.bundle#feature/x' && run bg-branch 'cat f; git branch --show-current' | xargs)"
equal "of a tag" "one" "$(begin bg-tag 'bundle:story/all.bundle#first' && run bg-tag 'cat f; git branch --show-current' | xargs)"
equal "without a HEAD by its branch" running "$(ask bg-headless 'bundle:story/headless.bundle#feature/x')"
refused "without either" invalid_request "it has no HEAD" bundle:story/headless.bundle
refused "a ref that it does not have" invalid_request "no branch, tag or commit" 'bundle:story/all.bundle#nowhere'
refused "one that builds on others" invalid_request "no whole bundle" bundle:story/thin.bundle
refused "one that is none" invalid_request "no whole bundle" bundle:story/tree.tar

# --- snapshots go as any others do
stopped() { muxctl sandbox stop bg-cli --reason "story: again" >/dev/null && muxctl sandbox resume bg-cli >/dev/null; }
stopped || fail "not stopped"
for i in api many soon other plain git branch tag headless mcp copy empty; do muxctl sandbox terminate bg-$i --how wipe --reason "story: end" >/dev/null || fail "bg-$i is not wiped"; done
stop_daemon
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon again"
left() { there 'bg-.*'; }
gone() { [ "$(left)" = bg-cli ]; }
wait_for 20 gone && ok "what nobody begins with any more goes" || fail "left: $(left)"
stop_daemon
trap tidy EXIT
[ -z "${BOX_CONFIG:-}" ] || exit 0
/usr/bin/python3 "$(dirname "$0")/workspace_begins.py" "$tmp/kills" "$tmp/tree.tar" "$tmp/all.bundle" "${KILLS:-3}" || fail "kill -9"
