#!/bin/bash
# Every operation of an edge's doors with what is no good lease in a grant's place (forged, of another centre or edge, over, not
# begun, revoked, for too long, a grant, for another agent, one that does not name the operation): its answer, and its event
# in the edge's audit log (audit_matrix.py). MATRIX_ALL=1: each with each.
# tier: test, whole MATRIX_ALL=1
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
C=$tmp/centre E=$tmp/edge
trap 'end_own "$EDGE" "$DAEMON"; wait; tidy' EXIT
start_daemon "$C" || fail "no centre"
"$MUXCTL" --state "$C" edge show -o json >"$tmp/centre.json"
stop_daemon
printf 'edge: {centre: "https://127.0.0.1:1", centre_keys: %s, ca: %s}\n' "$tmp/centre.json" "$C/keys/tls.crt" >"$tmp/edge.yaml"
printf 'router: {ports: "1-65535", runtime: true}\n' >>"$tmp/edge.yaml"
start_edge() {
	mkdir -p "$E" && chmod 0711 "$E" && rm -f "$E/ready.json"
	"$BUILD/muxd" serve --edge --https 127.0.0.1:0 --state "$E" --config "$tmp/edge.yaml" 2>>"$E/daemon.log" &
	EDGE=$!
	wait_for 30 test -s "$E/ready.json" || { tail -n 20 "$E/daemon.log" >&2 && return 1; }
}
start_edge || fail "no edge"
edge() { "$MUXCTL" --state "$E" "$@"; }
edge edge show -o json | jq -c '{edge: {known: [{name: "e", id, key}]}}' >"$tmp/centre.yaml"
kill "$EDGE"
wait "$EDGE"
start_daemon "$C" --config "$tmp/centre.yaml" || fail "no centre again"
sed -i "s|https://127.0.0.1:1\"|https://$(ready https)\", poll: 1s, state_max: 1h|" "$tmp/edge.yaml"
muxctl edge mint e --agent matrix --principal gone --task m --reason story -o json >"$tmp/gone" || fail "no lease"
muxctl edge revoke "$(jq -r .id "$tmp/gone")" >/dev/null || fail "not revoked"
start_edge || fail "no edge again"
hears() { edge edge show -o json | jq -e '.in_force and .revoked_by_centre == 1'; }
wait_for 20 hears >/dev/null || fail "the edge does not hear from its centre: $(edge edge show)"
muxctl edge mint e --agent matrix --principal bot --task m --reason story -o json | jq -r .token >"$tmp/lease" || fail "no lease"
edge --token-file "$tmp/lease" exec matrix -- true || fail "no sandbox"
none=0193aaaa-0000-7000-8000-000000000001
jq -n --arg https "$(jq -r .https "$E/ready.json")" --arg edge "$(edge edge show -o json | jq -r .id)" --arg none $none \
	--arg revoked "$(jq -r .token "$tmp/gone")" --arg id "$(jq -r .id "$tmp/gone")" \
	'{https: $https, edge: $edge, old: $none, round: $none, lease: $none, revoked: $revoked, revoked_id: $id}' >"$tmp/facts"
/usr/bin/python3 "$here/tests/integration/audit_matrix.py" edge "$E" "$C" "$tmp/facts" "$tmp/cells" || fail "the cells were not driven"
edge shutdown --sandboxes >/dev/null || fail "no end"
wait "$EDGE" 2>/dev/null
seq=0
while edge audit --since "$seq" -n 1000 -o json >"$tmp/page" 2>/dev/null && [ -s "$tmp/page" ]; do
	cat "$tmp/page" >>"$tmp/events"
	next=$(tail -n 1 "$tmp/page" | jq .seq)
	[ "$next" != "$seq" ] || break
	seq=$next
done
/usr/bin/python3 "$here/tests/integration/audit_matrix.py" edge-check "$tmp/cells" <"$tmp/events" || fail "the matrix has cells that are wrong"
ok "what is no good lease opens nothing at an edge, by its name and with its event"
