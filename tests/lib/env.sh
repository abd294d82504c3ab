# env.sh - what every story shares; sourced, never run. Expects MUXD_STATE, MUXCTL and BUILD from the runner.
# shellcheck shell=bash disable=SC2034
set -u
# The same language; jq 1.6 needs 40 ms of a processor to start, and stories ask it some thousand times.
jq() { gojq "$@"; }
export -f jq
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${BUILD:-$here/build}
MUXCTL=${MUXCTL:-$BUILD/muxctl}
# The runner's, which looks for what is left of it; nobody else's whom the story starts.
tmp=${STORY_TMP:-$(mktemp -d /tmp/muxd-story.XXXXXX)}
unset STORY_TMP
# At the end, from a trap: a story that passed leaves nothing, one that failed its directory.
tidy() { [ -e "$tmp/failed" ] || rm -rf "$tmp"; }
trap tidy EXIT

fail() {
	echo "FAILED: $* (its directory is kept: $tmp)" >&2
	: >"$tmp/failed"
	exit 1
}
ok() { echo "  ok: $*"; }
# equal WHAT EXPECTED GOT
equal() { [ "$2" = "$3" ] && ok "$1" || fail "$1: expected '$2', got '$3'"; }
ready() { jq -r ".$1" "$MUXD_STATE/ready.json"; }
muxctl() { "$MUXCTL" --state "$MUXD_STATE" "$@"; }
# new_token AGENT KIND SCOPES [TTL [REASON]]: prints a token
new_token() {
	muxctl grant create --agent "$1" --principal "${PRINCIPAL:-tester}" --kind "$2" --scopes "$3" --task "${GRANT_TASK:-story}" \
		--ttl "${4:-15m}" --reason "${5:-story $0}" -o json | jq -r .token
}
ssh_port() { ready ssh | sed 's/.*://'; }
# sshx TOKEN LOGIN [ssh options and command]: OpenSSH with the token as password
sshx() {
	local token=$1 login=$2
	shift 2
	SSHPASS=$token sshpass -e ssh -F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" \
		-o LogLevel=ERROR -o PreferredAuthentications=password -o NumberOfPasswordPrompts=1 -l "$login" "$@" 127.0.0.1
}
# sshc TOKEN LOGIN COMMAND...: the same, with the command after the host
sshc() {
	local token=$1 login=$2
	shift 2
	SSHPASS=$token sshpass -e ssh -F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" \
		-o LogLevel=ERROR -o PreferredAuthentications=password -o NumberOfPasswordPrompts=1 ${SSH_OPTS:-} -l "$login" 127.0.0.1 "$@"
}
# api TOKEN METHOD PATH [JSON]: body on stdout
api() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -X "$2" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' \
		${4:+--data-binary "$4"} "https://$(ready https)$3"
}
# start_daemon STATE [serve arguments]: a daemon of the story's own; sets MUXD_STATE and DAEMON (pid). Where BOX_CONFIG
# names a configuration of sandboxes (tests/e2e/k8s/boxes.sh), that lies under what the story's own --config says.
start_daemon() {
	MUXD_STATE=$1
	shift
	mkdir -p "$MUXD_STATE" && chmod 0711 "$MUXD_STATE"
	rm -f "$MUXD_STATE/ready.json"
	if [ -n "${BOX_CONFIG:-}" ]; then
		STORY_CONFIG=
		[ "${1:-}" != --config ] || { STORY_CONFIG=$2 && shift 2; }
		lay_config
		set -- "$@" --config "$MUXD_STATE/laid.yaml"
	fi
	"$BUILD/muxd" serve --state "$MUXD_STATE" --https 127.0.0.1:0 --ssh 127.0.0.1:0 "$@" 2>>"$MUXD_STATE/daemon.log" &
	DAEMON=$!
	for _ in $(seq 300); do
		[ -s "$MUXD_STATE/ready.json" ] && return 0
		kill -0 "$DAEMON" 2>/dev/null || break
		sleep 0.1
	done
	tail -n 20 "$MUXD_STATE/daemon.log" >&2
	return 1
}
# The story's configuration over that of its sandboxes, key by key.
lay_config() {
	/usr/bin/python3 - "$BOX_CONFIG" "$STORY_CONFIG" >"$MUXD_STATE/laid.yaml" <<-'P' || fail "the configuration cannot be laid together"
		import sys, yaml
		def lay(under, over):
		    both = isinstance(under, dict) and isinstance(over, dict)
		    return {k: lay(under.get(k), over[k]) if k in over else under[k] for k in under | over} if both else over
		files = [yaml.safe_load(open(path)) or {} for path in sys.argv[1:] if path]
		yaml.safe_dump(files[0] if len(files) == 1 else lay(*files), sys.stdout)
	P
}
# The daemon reads the story's configuration again.
reload_daemon() {
	[ -z "${BOX_CONFIG:-}" ] || lay_config
	kill -HUP "$DAEMON"
}
# end_own [-SIGNAL] PID...: ends those that are the story's children still; the number of one that has ended may be another
# process's by now. None may be named. In a trap nothing else ends anything (layers.sh looks).
end_own() {
	local p parent signal=-TERM
	[[ ${1:-} != -* ]] || { signal=$1 && shift; }
	for p in "$@"; do
		parent=$(sed 's/^.*) //' "/proc/$p/stat" 2>/dev/null | cut -d' ' -f2)
		[ "$parent" != $$ ] && [ "$parent" != "$BASHPID" ] || kill "$signal" "$p"
	done
}
# Ends the daemon; what a sanitizer has to say fails the story, from a trap on EXIT too.
stop_daemon() {
	muxctl shutdown --sandboxes >/dev/null 2>&1 || end_own "$DAEMON"
	wait "$DAEMON" 2>/dev/null
	grep -E -A20 'Sanitizer|runtime error' "$MUXD_STATE/daemon.log" >&2 && fail "the daemon's log has findings"
	return 0
}
# wait_for SECONDS COMMAND...: until it succeeds; four times as long on a machine that is busy with other things. What does not
# come soon is asked for less often: the asking takes the processor from what is waited for.
wait_for() {
	local end=$((SECONDS + $1 * 4)) tries=0
	shift
	type "$1" >/dev/null 2>&1 || fail "wait_for: there is no command $1"
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || [ $tries -lt 40 ] || return 1
		[ $((tries++)) -lt 10 ] && sleep 0.05 || sleep 0.2
	done
}
