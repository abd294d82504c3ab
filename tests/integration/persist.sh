#!/bin/bash
# What outlives a sleep: /workspace, and the paths that sandbox.persist names; a fork has them, a program that turns them
# elsewhere reaches nothing but its own sandbox, and what cannot persist is refused before anything starts.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
inside() { muxctl exec -n --task story "$1" -- sh -c "$2"; }
# refused WORDS CONFIGURATION: it is none
refused() {
	printf '%b\n' "$2" >"$tmp/bad.yaml"
	"$BUILD/muxd" check-config "$tmp/bad.yaml" >"$tmp/why" 2>&1 && fail "taken: $2"
	grep -q "$1" "$tmp/why" && ok "refused: $2" || fail "$2: $(cat "$tmp/why")"
}

refused 'cannot persist' 'sandbox: {persist: "/etc/app"}'
refused 'within each other' 'sandbox: {persist: "/opt, /opt/venv"}'
refused 'of a pod its claim alone' 'sandbox: {backend: kubernetes, persist: "/opt"}\nkubernetes: {kubeconfig: /etc/hostname, image: x}'
printf 'sandbox: {persist: "/var/lib/app, /opt/venv, /tmp/cache"}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
inside keeps 'for d in /var/lib/app /opt/venv /tmp/cache /tmp /workspace; do echo "$d" >$d/here || exit 1; done' || fail "not written"
equal "it is told what persists" "/workspace /var/lib/app /opt/venv /tmp/cache" "$(muxctl sandbox show keeps -o json | jq -r '.persists | join(" ")')"
muxctl sandbox stop keeps --reason sleep >/dev/null || fail "it does not sleep"
equal "what persists is there, what does not is gone" "/var/lib/app /opt/venv /tmp/cache /workspace" \
	"$(inside keeps 'cat /var/lib/app/here /opt/venv/here /tmp/cache/here /tmp/here /workspace/here 2>/dev/null' | paste -sd' ')"
muxctl sandbox stop keeps --reason sleep >/dev/null || fail "it does not sleep"
muxctl sandbox fork keeps --snapshot "$(muxctl sandbox show keeps -o json | jq -r .workspace_snapshot_id)" --as copy --writable >/dev/null || fail "no fork"
equal "a fork has it" /opt/venv "$(inside copy 'cat /opt/venv/here')"

# A program turns the place elsewhere: the link is resolved inside, and nothing outside is made or seen.
inside keeps 'rm -rf /workspace/.persist && ln -s /etc /workspace/.persist' || fail "not turned"
muxctl sandbox stop keeps --reason sleep >/dev/null || fail "it does not sleep"
inside keeps 'ls /workspace/.persist/shadow' >/dev/null 2>&1 && fail "the host's /etc is seen"
[ ! -e /etc/var/lib/app ] && ok "nothing is made outside" || fail "made outside"
equal "its link is dead, and the sandbox lives" alive "$(inside keeps 'cat /var/lib/app/here 2>/dev/null; echo alive')"
