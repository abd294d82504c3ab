# state_facts.sh - what muxctl and the API say of a state directory: tests/fixtures/make-state.sh writes it down with an old muxd, the
# story old_data asks today's. Sourced after env.sh, with a daemon that runs. Each prints an object of one member, by which its
# part stands in the JSON file; null where that muxctl does not know the question.
# shellcheck shell=bash disable=SC2154

# Every session of the record: who, how it ended, the digest of each stream as a replay gives it, each size of a terminal.
facts_sessions() {
	local id
	muxctl session list --all -n 1000 -o json >"$tmp/sessions" || return 1
	for id in $(jq -r '.sessions[].id' "$tmp/sessions"); do
		jq -c --arg id "$id" '.sessions[] | select(.id == $id) | {id, kind, agent, principal, principal_kind, task, reason,
			exit: (.exit | {cause, code, signal, totals, file: (.file | if . then {op, path, size, sha256} else null end)})}' "$tmp/sessions"
		for stream in input output stderr; do
			muxctl export "$id" --format raw --stream $stream 2>/dev/null | sha256sum | cut -d' ' -f1
		done | jq -R . | jq -sc '{streams: .}'
		muxctl export "$id" --format json 2>/dev/null | jq -sc '{sizes: [.[] | select(.type == "resize") | .body // {cols, rows} | "\(.cols)x\(.rows)"]}'
	done | jq -s '[range(0; length; 3) as $i | .[$i] + .[$i + 1] + .[$i + 2]] | sort_by(.id) | {sessions: .}'
}
# facts_code TOKEN ROUND: how a look at the round is answered: the state, or the error's code
facts_code() { api "$1" GET "/v1/rounds/$2" | jq -r '.error.code // .state'; }
# facts_files AGENT: what its workspace holds; wakes it
facts_files() {
	muxctl exec -n "$1" -c 'find . -name lost+found -prune -o ! -name . -printf "%p %y %m %s %l\n" | sort
		find . -name lost+found -prune -o -type f -print | sort | xargs sha256sum' | jq -R . | jq -s --arg agent "$1" '{($agent): .}'
}
# Every agent with its snapshots; of those that sleep, how.
facts_agents() {
	local a
	for a in $(muxctl sandbox list -o json | jq -r '.agents[].agent' | sort); do
		muxctl sandbox show "$a" -o json | jq '{agent, sandbox_id} + if .state == "stopped" then {state, workspace_snapshot_id, cause} else {} end'
		muxctl sandbox snapshots "$a" -o json | jq '{snapshots: ([.snapshots[] | {id, status, how}] | sort_by(.id))}'
	done | jq -s '{agents: [range(0; length; 2) as $i | .[$i] + .[$i + 1]]}'
}
facts_work() {
	{ muxctl workflow show hello -o json && muxctl run list -o json && muxctl lease list -o json; } | jq -s '{work: .}'
}
facts_holds() {
	if "$MUXCTL" hold list --help >/dev/null 2>&1; then
		muxctl hold list -o json | jq '{holds: ([.[] | {id, session, reason, state}] | sort_by(.id))}'
	else
		echo '{"holds":null}'
	fi
}
# The log from its beginning, a line each
facts_audit() {
	muxctl audit --since 0 -n 1000 -o json |
		jq -r '[.seq, .at, .record.event, .record.principal, .record.agent, .record.grant_id, .record.outcome] | map(. // "-" | tostring) | join(" ")' |
		jq -R . | jq -s '{audit: .}'
}
# As a text: jq would round its nanoseconds, and the signature is over them.
facts_head() { muxctl head -o json | jq -Rs '{head: .}'; }
