#!/bin/bash
# Data of old versions open in today's: each state directory of tests/fixtures, as a muxd of then left it, is unpacked, verified
# offline, and today's daemon started over it, twice. What muxctl and the API said of it then they say now: sessions with each byte of
# their recordings, rounds, the audit log from its first event, grants as they were (valid, revoked, ended), workflows, runs and
# leases, holds; what sleeps wakes with its files, what was running has them too, and a recording that nobody had sealed is sealed.
# New fields may come, none may go. tests/fixtures/README.md says how a version adds its own. FIXTURES: others than those.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
# shellcheck source=tests/lib/state_facts.sh
. "$here/tests/lib/state_facts.sh"
[ "$(id -u)" = 0 ] || { echo "  not run: only root can unpack what belongs to several users"; exit 0; }
FIXTURES=${FIXTURES:-$here/tests/fixtures}
DAEMON=
trap '[ -z "$DAEMON" ] || stop_daemon; tidy' EXIT

# The paths at which $now lacks something of $old, or has another value.
cat >"$tmp/lacks.jq" <<'J'
def lacks($now; $at):
  if type == "object" and ($now | type) == "object" then to_entries[] | .key as $k | .value | lacks($now[$k]; $at + "." + $k)
  elif type == "array" and ($now | type) == "array" and length == ($now | length) then
    to_entries[] | .key as $k | .value | lacks($now[$k]; "\($at)[\($k)]")
  elif . == $now then empty
  else "\($at): \(tojson[:300]), now \($now | tojson[:300])" end;
J
expected() { jq -c "$1" "$expect"; }
one() { jq -r "$1" "$expect"; }
# same WHAT THEN NOW: two JSON texts
same() {
	local lacking
	lacking=$(jq -nr --argjson old "$2" --slurpfile now <(printf %s "$3") -L "$tmp" 'include "lacks"; $old | lacks($now[0]; "")') ||
		fail "$1: no JSON: $3"
	[ -z "$lacking" ] && ok "$1" || fail "$1: $lacking"
}
sealed() { [ -z "$(ls "$state/record/open")" ]; }
begin() { start_daemon "$state" --config "$home/muxd.yaml" || fail "today's muxd does not start over it"; }
# verified WHAT [OPTION...]: nothing was changed, nothing is missing; of notes those that a version change and a daemon that ended
# give: a recording to be sealed, an index that the recorder is to take over, work after the head that was kept
verified() {
	local what=$1
	shift
	"$MUXCTL" --state "$state" verify --all -o json "$@" >"$tmp/verdict"
	jq -e --argjson unsealed "$unsealed" --argjson allowed "$allowed" '.integrity == "intact" and .completeness == "complete" and .witnessed and
		([.findings[].code] - $allowed == []) and .summary.open == $unsealed' "$tmp/verdict" >/dev/null && ok "$what" || fail "$what: $(cat "$tmp/verdict")"
}
# What a look at the first round is answered, by each grant of then
grants_now() {
	local name token
	while read -r name token; do
		jq -n --arg name "$name" --arg code "$(facts_code "$token" "$(one '.rounds[0].round_id')")" '{$name, $code}'
	done < <(one '.grants[] | "\(.name) \(.token)"') | jq -s .
}
# then_and_now: what a daemon that runs says
then_and_now() {
	local id token
	same "its sessions, and every byte of them" "$(expected .sessions)" \
		"$(facts_sessions | jq --argjson old "$(expected '[.sessions[].id]')" '.sessions | map(select(.id | IN($old[])))')"
	same "its audit log, from the first event on" "$(expected .audit)" "$(facts_audit | jq ".audit[:$(expected '.audit | length')]")"
	same "its workflows, runs and leases" "$(expected .work)" "$(facts_work | jq .work)"
	[ "$(expected .holds)" = null ] || same "its holds" "$(expected .holds)" "$(facts_holds | jq .holds)"
	same "its grants" "$(expected '[.grants[] | {name, code}]')" "$(grants_now)"
	token=$(one '.grants[] | select(.code == "finished") | .token')
	for id in $(one '.rounds[].round_id'); do
		same "its round $id, by a grant of then" "$(expected ".rounds[] | select(.round_id == \"$id\")")" "$(api "$token" GET "/v1/rounds/$id")"
	done
}

count=0
for packed in "$FIXTURES"/state-*.tar.zst; do
	[ -s "$packed" ] || fail "no fixtures in $FIXTURES"
	expect=${packed%.tar.zst}.json
	home=$tmp/$(basename "$packed" .tar.zst)
	state=$home/state
	MUXD_STATE=$state
	mkdir -m 0711 "$home" && chmod 0711 "$tmp"
	zstd -dqc "$packed" | tar --same-owner --numeric-owner -xpf - -C "$home" || fail "$packed is not unpacked"
	echo "  -- of $(one .revision)"
	one .head >"$tmp/head"
	unsealed=$(expected .unsealed) allowed='["not_sealed", "rows_unread", "behind_outside"]'
	verified "verified as it was left" --expect-head "$tmp/head"

	begin
	wait_for 20 sealed || fail "a recording is not sealed: $(ls "$state/record/open")"
	unsealed=0 allowed='["behind_outside", "log_tail"]'
	agents=$(facts_agents | jq .agents)
	then_and_now
	same "its sandboxes as they were left, with their snapshots" "$(expected .agents)" "$agents"
	if losetup -f >/dev/null 2>&1; then
		for agent in $(one '.files | keys[]'); do
			same "the files of $agent" "$(expected ".files.$agent")" "$(facts_files "$agent" | jq ".[\"$agent\"]")"
		done
		wait_for 20 sealed || fail "today's recordings are not sealed: $(ls "$state/record/open")"
		verified "verified, snapshots too, after work over it" --expect-head "$tmp/head" --snapshots
	else
		echo "  note: no loop devices: workspaces stay as they are"
		verified "verified after work over it" --expect-head "$tmp/head"
	fi
	stop_daemon
	begin
	then_and_now
	stop_daemon
	count=$((count + 1))
done
ok "$count state directories of old versions"
