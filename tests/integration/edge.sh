#!/bin/bash
# A muxd serves an edge: leases of its centre take a grant's place there, and nothing else does. The centre is taken away,
# the network (a namespace of the story's own, as root; else that part is said to be not run) is cut, the edge begins anew
# as behind a clock that was turned back (one that is turned under a daemon that runs: test_hub_edge): leases end to the
# second, and what was taken back stays so. What an edge holds signs no lease, and what is forged, for another edge, over, revoked or a grant
# is refused by its own code.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
code() { jq -r '.error.code // "none"'; }
C=$tmp/centre E1=$tmp/e1 E2=$tmp/e2
centre() { "$MUXCTL" --state "$C" "$@"; }
edge() { "$MUXCTL" --state "$E1" "$@"; }
other() { "$MUXCTL" --state "$E2" "$@"; }
pids=()
far=muxd-$$-far
over() {
	end_own "${pids[@]}"
	wait
	ip netns del "$far" 2>/dev/null
	tidy
}
trap over EXIT
up() { start_daemon "$@" && pids+=("$DAEMON"); }
# start_edge STATE: without a door by TCP
start_edge() {
	mkdir -p "$1" && chmod 0711 "$1" && rm -f "$1/ready.json"
	"${there[@]}" "$BUILD/muxd" serve --edge --state "$1" --config "$tmp/edge.yaml" 2>>"$1/daemon.log" &
	EDGE=$! pids+=($!)
	wait_for 30 test -s "$1/ready.json" || { tail -n 20 "$1/daemon.log" >&2 && return 1; }
}

# ---- each tells the other who it is, by two files
start_daemon "$C" || fail "no centre"
centre edge show -o json >"$tmp/centre.json"
stop_daemon
# The network between them. As root the edges live in a namespace of their own, and where it is cut packets are lost without
# a word; else it is a proxy that ends connections.
gate() { # NAME ADDRESS [command before it]: a proxy, whose commands go to $tmp/NAME.cuts
	mkfifo "$tmp/$1.cuts"
	"${@:3}" /usr/bin/python3 "$here/tests/lib/tcp_gate.py" "$tmp/$1" "$2" <"$tmp/$1.cuts" &
	pids+=($!)
}
there=()
if [ "$(id -u)" = 0 ] && ip netns add "$far" 2>/dev/null; then
	there=(nsenter --net="/run/netns/$far")
	net=100.$((64 + $$ % 64)).$(($$ / 64 % 256))
	ip link add "mn$$" type veth peer name "mf$$" netns "$far" && ip addr add "$net.1/30" dev "mn$$" && ip link set "mn$$" up &&
		ip -n "$far" addr add "$net.2/30" dev "mf$$" && ip -n "$far" link set "mf$$" up && ip -n "$far" link set lo up || fail "no network"
	gate near "$net.1"
	exec 7>"$tmp/near.cuts"
	gate gate 127.0.0.1 "${there[@]}"
	exec 8>"$tmp/gate.cuts"
	wait_for 10 test -s "$tmp/near" || fail "no proxy to the centre"
	echo "to $net.1:$(cat "$tmp/near")" >&8
	network() {
		case $1 in
		closed) ip -n "$far" link set "mf$$" down ;;
		open) ip -n "$far" link set "mf$$" up ;;
		*) echo "$1" >&7 ;;
		esac
	}
	ok "the edges have a network of their own"
else
	echo "  not run: a network of the edges' own, where packets are lost without a word (it takes root and a namespace); a proxy ends connections"
	gate gate 127.0.0.1
	exec 7>"$tmp/gate.cuts"
	network() { echo "$1" >&7; }
fi
wait_for 10 test -s "$tmp/gate" || fail "no gate"
ln -s centre.json "$tmp/centre-now.json" # operators' files are often links
cat >"$tmp/edge.yaml" <<Y
edge: {centre: "https://127.0.0.1:$(cat "$tmp/gate")", centre_keys: $tmp/centre-now.json, ca: $C/keys/tls.crt, poll: 1s, state_max: 1h}
Y
start_edge "$E2" || fail "no second edge"
start_edge "$E1" || fail "no edge"
known() { "$1" edge show -o json | jq -c --arg name "$2" '{name: $name, id, key}'; }
printf '{"edge": {"known": [%s, %s]}}' "$(known edge one)" "$(known other two)" >"$tmp/centre.yaml"
equal "an edge has no key that signs" "" "$(ls "$E1/keys/grant")"
equal "and no door by TCP" '""' "$(jq -c .https "$E1/ready.json")"
# mint EDGE NAME [arguments]: the lease in $tmp/NAME.json, its token in $tmp/NAME
mint() {
	centre edge mint "$1" --agent box --principal bot --task fix-1 --reason story -o json "${@:3}" >"$tmp/$2.json" || return 1
	jq -r .token "$tmp/$2.json" >"$tmp/$2"
}
id() { jq -r .id "$tmp/$1.json"; }
# on STATE TOKEN [METHOD PATH BODY]: the code of the answer of that daemon's api.sock; a round where nothing else is said
on() {
	curl -sS --unix-socket "$1/api.sock" -X "${3:-POST}" -H "Authorization: Bearer $(cat "$tmp/$2")" -H 'Content-Type: application/json' \
		--data-binary "${5:-{\"argv\":[\"true\"],\"wait_ms\":20000\}}" "http://muxd${4:-/v1/agents/box/rounds}" | code
}
start_centre() { up "$C" --config "$tmp/centre.yaml" && CENTRE=$DAEMON && network "to $(ready https)"; }
in_force() { edge edge show -o json | jq -e .in_force; }
start_centre || fail "no centre"

# ---- before the edge has heard from its centre it takes nothing: here it has
wait_for 20 in_force || fail "the edge does not hear from its centre: $(edge edge show)"
wait_for 20 eval 'other edge show -o json | jq -e .in_force' || fail "nor the other"

# ---- rounds and files under a lease
mint one lease --scopes rounds,files --write 'src/**' || fail "no lease"
equal "what it is for" "rounds,files fix-1 600" "$(jq -r '[.scopes, .task, ((.expires_at[:19] + "Z" | fromdate) - (.issued_at[:19] + "Z" | fromdate))] | join(" ")' "$tmp/lease.json" | sed 's/ \([0-9]*\)$/ \1/')"
equal "a round under a lease" none "$(on "$E1" lease)"
equal "muxctl with it" "at the edge" "$(edge --token-file "$tmp/lease" exec box -- echo "at the edge")"
put() { on "$E1" lease POST /v1/agents/box/fs/write "{\"path\":\"$1\",\"data\":\"x\",\"parents\":true}"; }
equal "a file that it names" none "$(put src/a)"
equal "another file" path_not_allowed "$(put b)"
equal "another agent" forbidden "$(on "$E1" lease POST /v1/agents/else/rounds '{"argv":["true"]}')"
equal "a scope that it has not" forbidden "$(on "$E1" lease POST /v1/agents/box/stop '{"reason":"r"}')"
equal "another task" task_mismatch "$(on "$E1" lease POST /v1/agents/box/rounds '{"argv":["true"],"task_id":"fix-2"}')"

# ---- what an edge does not take, and what it does not do
mint two foreign || fail "no lease for the other edge"
equal "a lease for another edge" token_foreign "$(on "$E1" foreign)"
equal "which that one takes" none "$(on "$E2" foreign)"
equal "a lease at the centre" token_foreign "$(on "$C" lease)"
centre grant create --agent box --principal bot --kind agent --task fix-1 --reason story -o json | jq -r .token >"$tmp/grant"
equal "a grant at the edge" token_foreign "$(on "$E1" grant)"
equal "which the centre takes" none "$(on "$C" grant)"
IFS=. read -r head claims signature <"$tmp/lease"
while [ $((${#claims} % 4)) -ne 0 ]; do claims=$claims=; done
later=$(tr '_-' '/+' <<<"$claims" | base64 -d | jq -cj '.exp += 600' | base64 -w 0 | tr '/+' '_-' | tr -d =)
echo "$head.$later.$signature" >"$tmp/forged"
equal "a later end written into it" token_signature "$(on "$E1" forged)"
equal "nonsense" token_malformed "$(echo nonsense >"$tmp/nonsense" && on "$E1" nonsense)"
equal "the edge makes no grant" unsupported "$(edge grant create --agent box --principal x --kind agent --reason r -o json 2>&1 | code)"
equal "nor a lease" not_found "$(edge edge mint one --agent box --principal x --task t --reason r -o json 2>&1 | code)"
equal "nor a key that signs" unsupported "$(edge key rotate -o json 2>&1 | code)"
equal "nor does a lease make one" token_foreign "$(on "$E1" lease POST /v1/grants/renew '{"reason":"r"}')"
equal "a lease without a task" invalid_request "$(centre edge mint one --agent box --principal x --reason r -o json 2>&1 | code)"
equal "that makes grants" invalid_request "$(centre edge mint one --agent box --principal x --task t --scopes grant --reason r -o json 2>&1 | code)"
equal "for longer than may be" invalid_request "$(centre edge mint one --agent box --principal x --task t --ttl 11m --reason r -o json 2>&1 | code)"
equal "a lease is not renewed" unsupported "$(centre grant renew "$(id lease)" --reason r -o json 2>&1 | code)"

# ---- how often, and what for
mint one twice --uses 2 || fail "no lease"
equal "two of two" "none none token_used" "$(on "$E1" twice) $(on "$E1" twice) $(on "$E1" twice)"
mint one reads --scopes rounds,files --operations file.read || fail "no lease"
operation() { on "$E1" reads POST "/v1/agents/box/fs/$1" '{"path":"src/a"}'; }
equal "an operation that it names, and others" "none forbidden forbidden" "$(operation read) $(operation delete) $(on "$E1" reads)"

# ---- a lease of a principal's own grant, and what becomes of it when that grant goes
centre grant create --agent 'b*' --principal ci --kind service --task fix-1 --scopes rounds,grant --reason story -o json >"$tmp/parent.json"
jq -r .token "$tmp/parent.json" >"$tmp/parent"
lease_of() { curl -sS --unix-socket "$C/api.sock" -H "Authorization: Bearer $(cat "$tmp/parent")" -H 'Content-Type: application/json' --data-binary "$1" http://muxd/v1/edge/leases; }
lease_of '{"edge":"one","target":"box","principal":"ci/w","reason":"a worker"}' >"$tmp/child.json"
jq -r .token "$tmp/child.json" >"$tmp/child"
equal "a principal mints from its own grant" none "$(on "$E1" child)"
equal "and nothing wider" grant_not_narrower "$(lease_of '{"edge":"one","scopes":"files","reason":"r"}' | code)"
centre grant create --agent 'b*' --principal few --kind service --task fix-1 --scopes rounds,grant --uses 3 --reason story -o json | jq -r .token >"$tmp/few"
of_few() { curl -sS --unix-socket "$C/api.sock" -H "Authorization: Bearer $(cat "$tmp/few")" -H 'Content-Type: application/json' --data-binary "$1" http://muxd/v1/edge/leases | jq -r '.error.code // .uses'; }
equal "of a grant with a number it takes its own out of that" "2 1 token_used token_used" \
	"$(of_few '{"edge":"one","target":"box","uses":2,"reason":"r"}') $(of_few '{"edge":"one","target":"box","reason":"the rest"}') $(of_few '{"edge":"one","target":"box","reason":"r"}') $(on "$C" few)"
centre grant revoke "$(id parent)" >/dev/null || fail "not revoked"
refused() { [ "$(on "$E1" "$2")" = "$1" ]; }
wait_for 5 refused token_revoked child || fail "the lease outlives its grant: $(on "$E1" child)"
ok "revoked at the centre, with its grant, and in force at the edge in seconds"

# ---- taken back at the edge itself, at once: what runs under it ends
mint one local || fail "no lease"
edge --token-file "$tmp/local" exec box -- sh -c 'echo begun; sleep 100' >"$tmp/local.out" 2>"$tmp/local.err" &
runs=$!
wait_for 10 grep -q begun "$tmp/local.out" || fail "it did not begin"
kill -STOP "$CENTRE" # and nobody asks it
edge edge revoke "$(id local)" >/dev/null || fail "not revoked"
equal "revoked at the edge, centre or not" token_revoked "$(on "$E1" local)"
wait "$runs"
grep -q grant_ended "$tmp/local.err" || fail "what ran under it went on: $(cat "$tmp/local.err")"
kill -CONT "$CENTRE"
ok "and what ran under it was ended"

# ---- the network is cut: what is known holds, and leases end to the second
mint one short --ttl 4s || fail "no lease"
mint one long || fail "no lease"
network closed
ends=$(jq -r '.expires_at[:19] + "Z" | fromdate' "$tmp/short.json")
equal "a lease with the network cut" none "$(on "$E1" short)"
looks() { curl -sS --unix-socket "$E1/api.sock" -H "Authorization: Bearer $(cat "$tmp/$1")" http://muxd/v1/sessions | code; }
ms() { echo $(($(date +%s%N) / 1000000)); }
# What was asked for behind the end was refused, and what was answered before the end was not.
sent=$(ms)
while [ "$(looks short)" = none ]; do last=$sent sent=$(ms); done
[ "$last" -lt $((ends * 1000)) ] || fail "it was taken $((last - ends * 1000)) ms after its end"
[ "$(ms)" -ge $((ends * 1000)) ] || fail "it was refused $((ends * 1000 - $(ms))) ms before its end"
equal "it ends to the second" token_expired "$(on "$E1" short)"
centre edge revoke "$(id long)" >/dev/null || fail "not revoked"
equal "a revocation that cannot get through is not known" none "$(on "$E1" long)"
network open
wait_for 10 refused token_revoked long || fail "the edge does not hear of it: $(on "$E1" long)"
ok "and is in seconds when it can"

# ---- what is known grows old: every lease ends by its name
mint one aging || fail "no lease"
kill -KILL "$CENTRE"
wait "$CENTRE" 2>/dev/null
sed -i 's/state_max: 1h/state_max: 5s/' "$tmp/edge.yaml"
kill -HUP "$EDGE"
wait_for 15 refused revocations_old aging || fail "an edge that hears nothing goes on: $(on "$E1" aging) $(edge edge show)"
equal "muxctl edge show says so" "false" "$(edge edge show -o json | jq .in_force)"
kill -KILL "$EDGE"
wait "$EDGE" 2>/dev/null
start_edge "$E1" || fail "no edge"
equal "a restart makes it no younger" revocations_old "$(on "$E1" aging)"
equal "and forgets no revocation" token_revoked "$(on "$E1" local)"
start_centre || fail "no centre"
fine() { [ "$(on "$E1" aging)" = none ]; }
wait_for 15 fine || fail "the centre is back, and the lease does not count: $(on "$E1" aging) $(edge edge show)"
ok "the centre is back, and the lease counts again"
equal "one whose uses are up does not" token_used "$(on "$E1" twice)"

# ---- what the edge kept of the time is ahead of its clock, as where that was turned back: it goes by what it saw
mint one now || fail "no lease"
equal "a lease" none "$(on "$E1" now)"
kill -KILL "$CENTRE"
wait "$CENTRE" 2>/dev/null
stop_edge() { kill -TERM "$EDGE" && wait "$EDGE"; }
sed -i 's/state_max: 5s/state_max: 2h/' "$tmp/edge.yaml"
stop_edge
echo $(($(cat "$E1/clock") + 3600000000000)) >"$E1/clock" # what it saw is an hour ahead of the clock: that was turned back
start_edge "$E1" || fail "no edge"
grep -q "the wall clock stands 3[56][0-9][0-9] s behind" "$E1/daemon.log" || fail "nobody noticed: $(tail "$E1/daemon.log")"
equal "begun behind a time that it saw before, it brings no lease back" token_expired "$(on "$E1" now)"

# ---- what does not go together is said by name
says() { # WHAT WORDS [arguments]
	"$BUILD/muxd" serve --state "$tmp/none" --edge "${@:3}" >"$tmp/out" 2>&1 && fail "$1: it starts"
	grep -q "$2" "$tmp/out" || fail "$1: $(cat "$tmp/out")"
	ok "$1"
}
says "no centre" "needs edge.centre"
says "an SSH door" "has no SSH door" --config "$tmp/edge.yaml" --ssh 127.0.0.1:0
{ cat "$tmp/edge.yaml" && echo "kubernetes: {kubeconfig: /etc/none}"; } >"$tmp/kube.yaml"
says "pods" "serves sandboxes of its own machine" --config "$tmp/kube.yaml"
"$BUILD/muxd" serve --state "$C" --edge --config "$tmp/edge.yaml" >"$tmp/out" 2>&1 && fail "it starts with a key that signs"
grep -q "holds a key that signs grants" "$tmp/out" || fail "a directory with a key that signs: $(cat "$tmp/out")"
ok "a directory with a key that signs"
# The centre's is there still, whose daemon was killed.
start_centre || fail "no centre"
for state in "$E1" "$E2" "$C"; do
	"$MUXCTL" --state "$state" shutdown --sandboxes >/dev/null || fail "no end of $state"
done
