#!/bin/bash
# layers.sh: dependencies run one way, between folders and between files; each library is fenced. Needs a build (make all).
# Prints what breaks it, with file and line.
set -u
cd "$(dirname "$0")/../.." || exit 1
bad=0
# forbid FILES-PATTERN INCLUDE-REGEX WHY
forbid() {
	local hits
	hits=$(git ls-files -- '*.c' '*.h' | grep -E "$1" | grep -vE "${4:-^$}" | xargs -r grep -nE "^#include [\"<]($2)")
	[ -z "$hits" ] && return
	echo "$hits" | sed "s|\$|   ($3)|"
	bad=1
}
hits=$(git ls-files -- '*.c' '*.h' | grep -vE '^base/err\.' | xargs grep -nE 'err_set\([^;]*ERR_(LIMIT|ARTIFACTS_FULL|RECORD_SHARE)\b')
if [ -n "$hits" ]; then
	sed 's|$|   (a limit that is reached has a name: err_limit())|' <<<"$hits"
	bad=1
fi
# Each of their names is in the documents.
for name in $(git ls-files -- '*.c' ':!tests' | xargs cat | tr -d '\n' | grep -oE 'struct err_share\)\{\s*"[a-z_.]+"' | grep -oE '"[a-z_.]+"' | tr -d '"' | sort -u); do
	grep -q "\`$name\`" docs/shares.md || { echo "docs/shares.md: there is no limit \`$name\`" && bad=1; }
done
forbid '^base/' '(policy|recorder|control|muxd/(plain|screen|link|hub|doors|net|monitor|muxlet|ctl))/' 'base includes nothing of ours'
forbid '^policy/' '(recorder|control|muxd/(plain|screen|link|hub|doors|net|monitor|muxlet|ctl))/' 'policy may know base alone'
forbid '^(base|policy|control|muxd/(screen|witness|link|plain|net|monitor|ctl))/' 'files/' 'the engines serve muxlet, the hub, its doors, the recorder, archives of muxctl, and the paths of a policy' '^(muxd/ctl/tree\.|policy/(profile|verdict)\.c)'
forbid '^recorder/' '(control|muxd/(plain|link|hub|doors|net|monitor|muxlet|ctl))/' 'recorder may know policy, the engines and base'
forbid '^recorder/' 'muxd/screen/' 'of screens the recorder knows the frames alone' '^recorder/draw/'
forbid '^recorder/chain/' 'recorder/(format|index|draw|verify|write|serve|export)/' 'recorder: the log knows no recording'
forbid '^recorder/format/' 'recorder/(index|draw|verify|write|serve|export)/' 'recorder: format knows the log'
forbid '^recorder/(index|draw|export)/' 'recorder/(verify|write|serve)/' 'recorder: what reads recordings knows nothing of who writes them'
forbid '^recorder/verify/' 'recorder/(write|serve|export)/' 'recorder: verify knows nothing of who writes'
forbid '^recorder/write/' 'recorder/(serve|export)/' 'recorder: who writes knows nothing of who serves'
forbid '^control/kube/client/' 'control/kube/(exec|pods)/' 'kube: the client knows no pods'
forbid '^control/kube/exec/' 'control/kube/pods/' 'kube: exec knows no pods'
forbid '^control/' '(recorder|muxd/(plain|screen|link|hub|doors|net|monitor|muxlet|ctl))/' 'control may know policy and base'
forbid '^muxd/link/' '(policy|recorder|control|muxd/(plain|screen|hub|doors|net|monitor|muxlet|ctl))/' 'link may know base'
forbid '^muxd/plain/' '(policy|recorder|muxd/(hub|doors|net|monitor|muxlet|ctl|link/link))/' 'plain may know control, base and the frames'
forbid '^muxd/screen/' '(policy|recorder|control|jansson|uv|muxd/(plain|link|hub|doors|net|monitor|muxlet|ctl))' 'a screen knows base'
forbid '^muxd/' 'muxd/screen/(term|grid|draw|fast|sgr|worker)' 'others know the frames of a screen worker' '^muxd/screen/'
forbid '^(base|muxd|policy|recorder|control)/' 'vterm' 'only the terminal' '^muxd/screen/term\.c'
forbid '^muxd/hub/' 'muxd/(plain|doors|net|monitor|muxlet|ctl)/' 'the hub does not know its doors'
forbid '^muxd/' 'muxd/hub/core/hub_state\.h' 'a room asks by hub_ground.h and hub_rooms.h; how the hub is laid out is for who makes it and who answers for it' '^muxd/hub/(setup|core/hub)\.c'
forbid '^muxd/doors/' 'muxd/(net|monitor|muxlet|ctl|link/frame)|control/' 'doors know the hub'
forbid '^muxd/' 'muxd/doors/https/router/' 'only the HTTPS door hands connections to its router' '^muxd/doors/https/'
forbid '^muxd/' 'muxd/doors/https/mcp/' 'only the HTTPS door knows MCP' '^muxd/doors/https/(mcp/|conn_head\.c|server\.c)'
forbid '^muxd/doors/https/mcp/' 'muxd/doors/https/(admission|agents|assets|body|chunked|conn|files|frames|fs_body|metrics|node_path|origin|page|scraper|server|tls|wire|ws)' 'MCP is calls of the API (inner.h): of the door it knows exchanges and rows alone'
forbid '^muxd/' 'muxd/doors/https/router/router_' 'others know the router by router.h alone; api_head asks whether a head is for it' '^muxd/doors/https/(router/|api_head\.c)'
forbid '^muxd/doors/https/router/' 'muxd/doors/https/(admission|agents|assets|body|chunked|frames|handlers|metrics|node_path|origin|page|scraper|tls|wire|ws)\.' 'the router knows connections, exchanges, heads and who may in'
forbid '^muxd/ctl/' 'muxd/monitor/' 'muxctl starts screen workers as the monitor does, and nothing else' '^muxd/ctl/workers\.'
forbid '^muxd/witness/' '(policy|recorder|control|muxd/(plain|screen|link|hub|doors|net|monitor|muxlet|ctl))/' 'the carrier of heads knows base alone'
forbid '^muxd/issuer/' '(policy|recorder|control|uv|muxd/(plain|screen|link|hub|doors|net|monitor|muxlet|ctl|witness)/)' 'the checker of tokens knows base alone'
forbid '^muxd/' 'muxd/issuer/' 'the checker of tokens is a program of its own' '^muxd/issuer/'
forbid '^muxd/' 'muxd/witness/' 'others may use the exchange alone, and that is muxctl' '^muxd/(witness/|ctl/outside)'
forbid '^muxd/muxlet/' 'base/([a-gi-tv-z]|h[^e]|u[a-su-z])' 'muxlet: libc, frame.h, the engines and the ground without calls: UTF-8, digits' '^muxd/muxlet/mcp'
forbid '^muxd/muxlet/mcp' 'base/([acdfgikm-tv-z]|b[^u]|e[^rv]|h[^te]|j[^s]|json[.]|l[^o]|lo[^o]|u[^t])' 'of muxlet, MCP knows bytes of HTTP, of events and of JSON that is looked over, and addresses on the loopback'
forbid '^muxd/muxlet/' 'muxd/(hub|doors|net|monitor|ctl|link/link)|policy/|recorder/|control/|uv|jansson|openssl|zlib' 'muxlet: libc, frame.h, the engines and the ground without calls: UTF-8, digits'
forbid '^files/' 'base/([a-gi-qstv-z]|h[^e]|r[^e]|u[a-su-z])|(policy|recorder|control|muxd/(plain|screen|link|hub|doors|net|monitor|muxlet|ctl|witness))/|uv|jansson|openssl|zlib|unistd|fcntl|sys/' 'the engines on files are pure: libc without I/O, each other and the ground without calls: UTF-8, digits, paths'
forbid '^(base|muxd|policy|recorder|control)/' 'libwebsockets\.h' 'only the HTTPS door' '^muxd/doors/https/'
forbid '^(base|muxd|policy|recorder|control)/' 'libssh/' 'only the SSH door' '^muxd/doors/ssh/'
forbid '^(base|muxd|policy|recorder|control)/' 'sqlite3\.h' 'only the databases' '^(recorder|control/(store|life|work))/'
forbid '^(base|muxd|policy|recorder|control)/' 'archive(_entry)?\.h[>"]' 'only the archiver' '^control/archive/'
forbid '^(base|muxd|policy|recorder|control)/' 'control/archive/' 'the archiver is a program of its own' '^control/archive/'
forbid '^(base|muxd|policy|recorder|control)/' 'yaml\.h' 'only the one loader of it' '^base/yamldoc'
forbid '^(base|muxd|policy|recorder|control)/' 'curl/' 'only the Kubernetes client, witnesses and issuers' '^(control/kube/client/(http|url)|muxd/witness/https|muxd/issuer/fetch)\.[ch]'
forbid '^(base|muxd|policy|recorder|control)/' 'seccomp\.h' 'only where processes are confined' '^(control/local/seccomp|base/confine)'
forbid '' 'jansson\.h' 'json.h makes building safe from content' '^base/json\.h'
# A comment names its noun. Those that begin with a relative clause go when their file is touched; none comes.
clauses=$(git ls-files -- '*.c' '*.h' | xargs -r grep -hE '/\*+ (What|Who|Whose|Whoever) ' | wc -l)
if [ "$clauses" -gt 332 ]; then
	echo "$clauses comments begin with What or Who, there were 332: name the noun, say who acts (CONTRIBUTING.md)"
	bad=1
fi
# refuse FILES-PATTERN TEXT-REGEX WHY EXCEPT: the same of what stands in the code
refuse() {
	local hits
	hits=$(git ls-files -- '*.c' '*.h' | grep -E "$1" | grep -vE "${4:-^$}" | xargs -r grep -nE "$2")
	[ -z "$hits" ] && return
	echo "$hits" | sed "s|\$|   ($3)|"
	bad=1
}
refuse '^(base|muxd|policy|recorder|control)/' 'json_[a-z_]*_nocheck\(|json_(v?pack_ex|vpack)\(|json_v?sprintf\(".*%[.0-9*]*s' 'JSON is built with the names in json.h, which no content makes fail' \
	'^base/json(_build)?\.[ch]'
refuse '^(base|muxd|policy|recorder|control)/' 'SCHED_IDLE|IOPRIO_CLASS_IDLE' 'a thread that shares locks is never idle: base/background.h' '^(base/background\.h|muxd/muxlet/survey\.c)'
# Text that is cut is cut at a character.
tests/lib/cuts.py || bad=1
tests/lib/shown.py || bad=1
# A function's name says its file, and a long file why it is long.
tests/lib/names.py || bad=1
# A comment names its noun: it begins with neither dots nor a pronoun.
if git ls-files '*.c' '*.h' | grep -v '^tests/' | xargs grep -nE '/\*[* ]*(\.\.\.|(It|This|Those|That|They|These)\>)'; then
	echo "name the noun: these comments begin with dots or a pronoun"
	bad=1
fi
# What a trap of a story ends is the story's own still.
if git ls-files 'tests/integration/*.sh' 'tests/e2e/*.sh' 'tests/lib/*_story.sh' tests/lib/env.sh | xargs grep -nE "trap .*\bkill (-(TERM|KILL|INT|9) )?[\"\$]"; then
	echo "a number may be another process's by then: end_own (tests/lib/env.sh)"
	bad=1
fi
# No file uses itself by way of others.
tests/lib/circles.py || bad=1
[ $bad -eq 0 ] && echo "layers: fine"
exit $bad
