#!/bin/bash
# Five addresses of people who are nobody (FIFTY=1: fifty, too) hold idle connections, half handshakes and heads that never end
# at both doors, in network namespaces of the story's own. Who is logged in types on as at a daemon beside it that nobody
# besieges, who logs in gets in.
# LOGINS=n: log-ins during a siege (3).
# tier: test, san, slice LOGINS=1, whole LOGINS=10
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
[ "$(id -u)" = 0 ] || { echo "  not run: network namespaces need root"; exit 0; }
ip netns add "muxd-$$-try" 2>/dev/null && ip netns del "muxd-$$-try" || { echo "  not run: no network namespaces here"; exit 0; }
doors=muxd-$$-doors world=muxd-$$-world crowd=
over() {
	[ -n "$crowd" ] && end_own "$crowd"
	[ -n "${DAEMON:-}" ] && stop_daemon
	[ -n "${quiet:-}" ] && MUXD_STATE=$tmp/quiet DAEMON=$quiet stop_daemon
	ip netns del $world 2>/dev/null
	ip netns del $doors 2>/dev/null
	tidy
}
trap over EXIT
ip netns add $doors && ip netns add $world && ip link add "mx$$" netns $doors type veth peer name "my$$" netns $world || fail "no pair of interfaces"
ip -n $doors addr add 10.77.0.1/16 dev "mx$$" && ip -n $doors link set "mx$$" up && ip -n $doors link set lo up || fail "no address"
ip -n $world link set "my$$" up && ip -n $world link set lo up
for i in $(seq 2 80); do echo "addr add 10.77.0.$i/16 dev my$$"; done | ip -n $world -batch - || fail "no addresses"
inside() { nsenter --net="/run/netns/$1" "${@:2}"; }

# Two daemons in their namespace, at an address that the world reaches; their other programs are found beside them. The crowd
# knows the doors of one.
mkdir "$tmp/bin"
printf '#!/bin/bash\nexec nsenter --net=/run/netns/%s %s/muxd "${@/127.0.0.1:0/10.77.0.1:0}"\n' "$doors" "$BUILD" >"$tmp/bin/muxd" && chmod 755 "$tmp/bin/muxd"
chmod 0711 "$tmp"
agent=strangers
# daemon_of NAME: its state is there, its member of staff has the token in token.NAME
daemon_of() {
	printf 'journal: {dir: %s/journal, size: 16MiB}\napi: {header_timeout: 5s}\nlisten: {gateways: 10.77.0.80}\n' "$tmp/$1" >"$tmp/$1.yaml"
	BUILD="$tmp/bin" start_daemon "$tmp/$1" --config "$tmp/$1.yaml" || fail "no daemon"
	(umask 077 && new_token $agent staff terminal,rounds,observe,drive >"$tmp/token.$1")
}
daemon_of quiet
quiet=$DAEMON quiet_doors=("$(ready https)" "$(ready ssh)" "$tmp/token.quiet")
daemon_of besieged
(umask 077 && new_token $agent agent rounds >"$tmp/robot")
play() { inside $world timeout 60 /usr/bin/python3 tests/integration/strangers.py "$@"; }
person() { play person "$(ready https)" "$(ready ssh)" "${2:-10.77.0.79}" $agent "${3:-$tmp/token.besieged}" "$1" "${quiet_doors[@]}"; }
memory() { awk '/^Pss_Anon/ {print int($2 / 1024)}' "/proc/$(ready pids.net)/smaps_rollup"; }
metric() { inside $doors curl -sS -k "https://$(ready https)/metrics" -H "Authorization: Bearer $(cat "$tmp/token.besieged")" | awk -v m="$1" '$1 == m {print $2}'; }
within() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a <= b)}'; }

person login >"$tmp/first" || fail "nobody can log in: $(cat "$tmp/first")" # the sandbox is made
before=$(memory)
out=$(person keys 2>&1) || fail "nobody can type: $(tail -n 1 <<<"$out")"
bound=160 again=300 slow=1
# A sanitizer keeps what was freed, and a handshake costs it five times as much.
[[ $BUILD == */san ]] && bound=600 again=60 slow=5
echo "  quiet: a key's echo by SSH at the daemon to be besieged, at the quiet one, in the browser at both, ms: $out; net holds $before MB"

equal "250 connections of one address: 200 have an answer, the others are told" "200 50 0" "$(person many 10.77.0.78 "$tmp/robot")"
equal "of staff a few more" "250 0 0" "$(person many 10.77.0.77)"
equal "of a gateway: all of them" "250 0 0" "$(person many 10.77.0.80 "$tmp/robot")"

# crowd_comes ADDRESSES PER_HTTPS PER_SSH
crowd_comes() {
	local list
	list=$(seq -f 10.77.0.%g -s , 2 $(($1 + 1)))
	rm -f "$tmp/in" "$tmp/crowd" && mkfifo "$tmp/in"
	ulimit -n "$(ulimit -Hn)"
	inside $world timeout 100 /usr/bin/python3 tests/integration/strangers.py crowd "$(ready https)" "$(ready ssh)" "$list" "$2" "$3" 60 $again <"$tmp/in" >"$tmp/crowd" &
	crowd=$!
	exec 7>"$tmp/in"
	there() { grep -q there "$tmp/crowd"; }
	wait_for 30 there || fail "the crowd did not come: $(cat "$tmp/crowd")"
	echo "  $1 addresses hold $(cut -d' ' -f2 "$tmp/crowd") connections at HTTPS, $(cut -d' ' -f3 "$tmp/crowd") at SSH"
}
crowd_goes() {
	exec 7>&-
	wait $crowd
	crowd=
}
# Both bounds tell a loop that hangs in strangers' work from one that goes on; how much slower it is than at the quiet daemon
# is told. A net that works for strangers waits for its turn of a busy processor where one that sleeps is woken at once.
# stays WHAT GOT QUIET: whoever types sees the keys.
stays() { within "$2" "$(awk -v q="$3" -v s=$slow 'BEGIN {print 4 * q + 400 * s}')" && ok "$1: $2 ms (quiet daemon: $3)" || fail "$1: $2 ms, at the quiet daemon $3"; }
# comes GOT QUIET: whoever is new gets in, before a client gives up.
comes() { within "$1" "$(awk -v q="$2" -v s=$slow 'BEGIN {print 4 * q + 10000 * s}')"; }
siege() {
	crowd_comes "$@"
	for _ in $(seq "${LOGINS:-3}"); do
		out=$(person login 2>&1) || fail "$1 addresses: $(tail -n 1 <<<"$out")"
		read -r s s_quiet w w_quiet <<<"$out"
		comes "$s" "$s_quiet" && comes "$w" "$w_quiet" || fail "$1 addresses: a log-in takes $s ms by SSH ($s_quiet at the quiet daemon), $w ms by HTTPS ($w_quiet)"
	done
	ok "$1 addresses: a new log-in takes $s ms by SSH (quiet daemon: $s_quiet), a round on a new connection $w ms ($w_quiet)"
	out=$(person keys 2>&1) || fail "$1 addresses: $(tail -n 1 <<<"$out")"
	read -r s s_quiet w w_quiet <<<"$out"
	open=$(metric muxd_api_connections)
	within "$open" 814 && ok "strangers have their part of the door: $open connections" || fail "$open connections at HTTPS"
	now=$(memory)
	within "$now" $((before + bound)) && ok "net holds $now MB" || fail "net grew from $before to $now MB"
	crowd_goes
	stays "$1 addresses: a key's echo by SSH" "$s" "$s_quiet"
	stays "$1 addresses: a key's echo in the browser" "$w" "$w_quiet"
}
siege 5 200 130
[ -z "${FIFTY:-}" ] || siege 50 40 25
