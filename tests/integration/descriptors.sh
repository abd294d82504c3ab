#!/bin/bash
# Few descriptors: what does not fit is cut and named, in the log and in /healthz, and sandboxes start; where nothing could
# work the daemon says so at its start.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
journal: {dir: $tmp/journal, size: 8MiB}
Y
# In a subshell, so that what comes after has its limit back.
(
	ulimit -n 100
	start_daemon "$tmp/none" --config "$tmp/muxd.yaml" 2>"$tmp/err" && kill "$DAEMON"
) && fail "a daemon with 100 descriptors"
grep -q 'hard limit of open files is 100, at least 128 are needed' "$tmp/none/daemon.log" && ok "too few are refused by name" ||
	fail "nothing said: $(cat "$tmp/none/daemon.log")"

mkdir "$tmp/bin" && printf '#!/bin/sh\nulimit -n 256 && exec "%s/muxd" "$@"\n' "$BUILD" >"$tmp/bin/muxd" && chmod 0755 "$tmp/bin/muxd"
real=$BUILD
BUILD=$tmp/bin start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
BUILD=$real
trap 'stop_daemon; tidy' EXIT
[ "$(awk '/Max open files/{print $4}' "/proc/$(ready pids.net)/limits")" -le 256 ] || {
	ok "this root may raise the limit: nothing is cut"
	exit 0
}
health=$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz")
jq -e '.status == "ok" and (.reduced | test("open files is 256.*api.max_connections.*sessions.max_per_agent"))' <<<"$health" >/dev/null &&
	ok "what is less than configured stands in /healthz" || fail "/healthz: $health"
grep -q 'warn.*limit of open files is 256' "$MUXD_STATE/daemon.log" && ok "and in the log" || fail "the log does not say"
muxctl exec few -- true && ok "a sandbox starts" || fail "no sandbox"

# As many sessions as it says: they all run, the next one is refused by the limit's name, and staff gets in.
most=$(sed -n 's/.*sessions.max_per_agent is \([0-9]*\) .*/\1/p' <<<"$health")
agent=$(PRINCIPAL=few.1 new_token few agent rounds)
rounds=0
while [ $rounds -lt 300 ] && api "$agent" POST /v1/agents/few/rounds '{"argv":["sleep","300"],"wait_ms":0}' | grep -q '"running"'; do rounds=$((rounds + 1)); done
equal "as many rounds run" "$most" $rounds
equal "the next one is refused by name" limit_reached "$(api "$agent" POST /v1/agents/few/rounds '{"argv":["true"]}' | jq -r .error.code)"
staff=$(new_token few staff terminal)
equal "staff gets in" in "$(sshc "$staff" few 'echo in' </dev/null)"
muxctl sandbox terminate few --reason story --how keep >/dev/null && ok "and it is ended" || fail "its end was refused"
verified() { muxctl verify --all >"$tmp/verify"; }
wait_for 20 verified || fail "the record: $(tail -n 5 "$tmp/verify")"
ok "the record verifies"
