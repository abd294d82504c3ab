#!/bin/bash
# run.sh BUILD: start muxd with no configuration, say what to paste, stay until Ctrl-C.
set -u
build=$1
# Root's daemon drops to other uids, which must be able to reach its state: not so below a closed home.
reachable() {
	local d=$1
	while [ "$d" != / ]; do
		[ $((0$(stat -c %a "$d") & 1)) -eq 1 ] || return 1
		d=$(dirname "$d")
	done
}
default=$PWD/.muxd
[ "$(id -u)" -eq 0 ] && ! reachable "$PWD" && default=/var/lib/muxd
state=${MUXD_STATE:-$default}
https=${MUXD_HTTPS:-127.0.0.1:8443}
ssh=${MUXD_SSH:-127.0.0.1:2222}
me=${SUDO_USER:-$(id -un)}

{ mkdir -p "$state" && chmod 0711 "$state"; } || exit 77
rm -f "$state/ready.json"
# Of its own session: Ctrl-C reaches it once, through the trap below; a second one means "do not wait".
setsid "$build/muxd" serve --state "$state" --https "$https" --ssh "$ssh" --end-sandboxes ${MUXD_CONFIG:+--config "$MUXD_CONFIG"} &
pid=$!
trap 'kill -TERM $pid 2>/dev/null' INT TERM HUP
for _ in $(seq 200); do
	[ -s "$state/ready.json" ] && break
	kill -0 $pid 2>/dev/null || { wait $pid; exit $?; }
	sleep 0.1
done
[ -s "$state/ready.json" ] || { echo "muxd: not ready after 20 s" >&2; kill -TERM $pid; wait $pid; exit 69; }

field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$state/ready.json" | head -n 1; }
grant=$("$build/muxctl" --state "$state" grant create --agent demo --principal "$me" --kind staff \
	--scopes terminal,rounds,files,observe,drive,replay --ttl 15m --reason "first look" -o json) || { kill -TERM $pid; wait $pid; exit 69; }
get() { printf '%s' "$grant" | sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
token=$(get token)
umask 077
printf '%s' "$token" >"$state/first-look.token"
cat <<TXT

muxd is running. State: $state
  certificate  SHA-256 $(field tls_fingerprint_sha256)
  SSH host key $(field ssh_host_key_fingerprint)

A grant for $me into the sandbox "demo", 15 minutes, reason "first look". Its token (also in $state/first-look.token):

$token

Enter it in a browser (which will ask about the certificate once):
  $(get web_url)

Enter it by SSH (the token is the password):
  $(get ssh_command)

Run a round in it:
  curl -sS --cacert $state/keys/tls.crt -H "Authorization: Bearer \$(cat $state/first-look.token)" -H 'Content-Type: application/json' -d '{"argv":["uname","-a"],"exec_id":"first"}' https://$(field https)/v1/agents/demo/rounds

Look at what happened, and replay it:
  $build/muxctl --state $state session list --all
  $build/muxctl --state $state replay last

Ctrl-C ends muxd and its sandboxes; workspaces and the record stay in $state.
TXT
while kill -0 $pid 2>/dev/null; do wait $pid; done
wait $pid
rc=$?
rm -f "$state/first-look.token"
exit $rc
