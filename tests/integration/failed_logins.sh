#!/bin/bash
# A flood of failed log-ins is a few audit events that count every one of them, also when net, or everything, is killed meanwhile.
# CALLS=n of each sort at once (default 60).
# tier: test, san, whole CALLS=600
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
n=${CALLS:-60}
trap 'stop_daemon; tidy' EXIT
start_daemon "$tmp/state" || fail "no daemon"

forged=$(new_token demo staff observe)
forged="${forged%.*}.$(printf 'A%.0s' $(seq 86))"
grant=$(muxctl grant create --agent demo --principal mallory --kind agent --scopes rounds --task story --reason "to be revoked" -o json)
id=$(jq -r .id <<<"$grant")
muxctl grant revoke "$id" >/dev/null || fail "not revoked"

calls() { printf '%s\n' "$@" | /usr/bin/python3 tests/integration/failed_logins.py "$(ready https)" "$n"; }
# events OUTCOME: how many there are; counted OUTCOME: how many failures they tell of, an event written twice once
event=auth.fail
events() { muxctl audit -n 1000 --event $event -o json | jq -s --arg o "$1" '[.[] | (.record // .) | select(.outcome == $o)] | length'; }
counted() {
	muxctl audit -n 1000 --event $event -o json | jq -s --arg o "$1" '[.[] | (.record // .) | select(.outcome == $o)]
		| unique_by(.detail.event_id // .request_id) | map(.detail.count // 1) | add // 0'
}
told() { [ "$(counted "$1")" = "$2" ]; }

equal "every bad token is refused" $((2 * n)) "$(calls "$forged" "$(jq -r .token <<<"$grant")")"
few() { [ "$(events "$1")" -ge 1 ] && [ "$(events "$1")" -le "$2" ]; }
wait_for 10 few token_signature 2 && few token_revoked 2 && ok "all of a sort are an event at once" ||
	fail "$(events token_signature) and $(events token_revoked) events"
muxctl audit -n 1000 --event auth.fail -o json | jq -c --arg id "$id" 'select(((.record // .).grant_id == $id) and ((.record // .).principal == "mallory")
	and ((.record // .).endpoint == "GET /v1/agents/{agent}"))' | grep -q . && ok "the revoked one is told by grant, principal and endpoint" || fail "no grant in the audit"

net=$(ready pids.net)
kill -9 "$net"
again() { [ "$(ready pids.net)" != "$net" ] && curl -sf --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/readyz"; }
wait_for 20 again || fail "net did not come again"
wait_for 10 told token_signature "$n" && wait_for 10 told token_revoked "$n" && ok "kill -9 of net: the next one tells of all of them" ||
	fail "after kill -9 of net: $(counted token_signature) and $(counted token_revoked)"

equal "and more" $((2 * n)) "$(calls "$forged" "$(jq -r .token <<<"$grant")")"
kill -9 "$DAEMON" "$(ready pids.net)" "$(ready pids.recorder)"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" || fail "no daemon after kill -9 of everything"
wait_for 10 told token_signature $((2 * n)) && wait_for 10 told token_revoked $((2 * n)) && ok "kill -9 of everything: the next start tells of all of them" ||
	fail "after kill -9 of everything: $(counted token_signature) and $(counted token_revoked)"
few token_signature 6 && ok "in $(events token_signature) events" || fail "$(events token_signature) events"

# What a good grant may not do is counted in the same way.
event=verdict
weak=$(new_token other agent rounds)
equal "a grant that does not reach is refused" "$n" "$(calls "$weak")"
few forbidden 2 && ok "as one event at once" || fail "$(events forbidden) events"
net=$(ready pids.net)
kill -9 "$net"
wait_for 20 again || fail "net did not come again"
wait_for 10 told forbidden "$n" && few forbidden 3 && ok "kill -9 of net: the next one tells of all of them" || fail "after kill -9 of net: $(counted forbidden)"
muxctl audit -n 1000 --event verdict -o json | jq -e -s 'map(.record // .) | map(select(.detail.count)) | length > 0 and all(.[];
	.principal == "tester" and .endpoint == "GET /v1/agents/{agent}" and .agent == "demo" and .detail.agents.demo == .detail.count)' >/dev/null &&
	ok "by whom, what, and of whom" || fail "$(muxctl audit -n 5 --event verdict -o json)"
event=auth.fail

calls "$forged" >/dev/null
stop_daemon
start_daemon "$tmp/state" || fail "no daemon after a stop"
wait_for 10 told token_signature $((3 * n)) && ok "a clean stop tells of what it counted" || fail "after a stop: $(counted token_signature)"
muxctl verify --all >/dev/null && ok "the record is whole" || fail "verify: $(muxctl verify --all)"
