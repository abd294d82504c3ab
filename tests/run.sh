#!/bin/bash
# run.sh [--k8s] [--only NAME]: every test of muxd, in order of how soon it tells. --k8s: the Kubernetes stories alone.
# Prints one line a test; ends with "N passed, N failed". Logs of failed ones are shown; all are in build/log.
# Most tests wait most of the time, so a whole run has lanes beside each other, once everything is built: unit tests, the
# stories, the stories sanitized, those of the cluster, and lint on what processors leave idle. LANES=1: one after the other.
# What runs against clocks, terminals and a cluster on a machine that may be busy gets a second run when it fails. That is
# never silent: the end names what was unsteady and shows its first log. A finding of a sanitizer gets none. The logs of what
# failed are shown where they fail, and once more as the last thing before the count: who sees only the end sees them.
# The limits end what hangs; they are several times what a quiet machine needs.
set -u
cd "$(dirname "$0")/.." || exit 1
only='' k8s='' lane=''
[ "${1:-}" = --lane ] && lane=$2 && shift 2 # of a whole run: plain_stories, san_stories, lint
[ "${1:-}" = --k8s ] && k8s=only && shift
[ "${1:-}" = --only ] && only=$2
passed=0 failed=0 names=() unsteady=() shown=() first=()
mkdir -p build/log

show() { tail -n "$2" "$1" 2>/dev/null | cut -b-400 | sed 's/^/      /'; }

# verdict NAME RC STARTED LOG: counts it and prints its line
verdict() {
	if [ "$2" -eq 0 ]; then
		passed=$((passed + 1))
		printf 'ok    %-34s %6.1f s\n' "$1" "$(echo "$(date +%s.%N) $3" | awk '{print $1 - $2}')"
	else
		failed=$((failed + 1))
		names+=("$1")
		shown+=("$4")
		printf 'FAIL  %-34s\n' "$1"
		show "$4" 40
	fi
	return "$2"
}
may_run_again() {
	[[ $1 =~ ^(san/)?(unit|story)/|^k8s/ ]] && [ "$1" != san/story/findings ] && ! grep -qE 'Sanitizer|runtime error' "$2"
}
# attempt NAME SECONDS COMMAND...
attempt() {
	local name=$1 limit=$2 t0 log rc
	shift 2
	[ -n "$only" ] && [[ $name != *"$only"* ]] && return
	log=build/log/${name//\//_}.log
	t0=$(date +%s.%N)
	timeout -k 10 "$limit" "$@" >"$log" 2>&1
	rc=$?
	if [ $rc -ne 0 ] && may_run_again "$name" "$log"; then
		printf 'again %-34s\n' "$name"
		mv "$log" "${log%.log}.first.log"
		timeout -k 10 "$limit" "$@" >"$log" 2>&1
		rc=$?
		if [ $rc -eq 0 ]; then
			unsteady+=("$name") first+=("${log%.log}.first.log")
		else
			show "${log%.log}.first.log" 20
		fi
	fi
	verdict "$name" $rc "$t0" "$log"
}
build() { make --no-print-directory -j"$(nproc)" "$@"; }

# One build of everything; a build that fails ends the run. A lane finds what the run has built.
log=build/log/build.log
if [ -z "$lane" ] && ! build all >"$log" 2>&1; then
	tail -n 30 "$log"
	echo "0 passed, 1 failed"
	exit 1
fi
# made TEST PROGRAM: one test by name needs its program alone
made() {
	[ -n "$only" ] && [[ $1 == *"$only"* ]] || return 0
	if [[ $1 == san/* ]]; then build SAN=address,undefined "$2"; else build "$2"; fi >build/log/build.log 2>&1
}
units() {
	local dir=$1 t
	for t in tests/unit/test_*.c; do
		t=$(basename "$t" .c)
		made "$2${t#test_}" "$dir/unit/$t"
		attempt "$2${t#test_}" 300 "$dir/unit/$t"
	done
}
corpora() {
	local f
	for f in tests/fuzz/fuzz_*.c; do
		f=$(basename "$f" .c)
		made "$2${f/_//}" "$1/fuzz/$f"
		attempt "$2${f/_//}" 120 "$1/fuzz/$f" "tests/fuzz/corpus/${f#fuzz_}"
	done
}
stories() {
	local dir=$1 prefix=$2 state s part=${only##*/}
	[[ $part == san || $part == story ]] && part= # all of them
	[ -n "$only" ] && ! ls tests/integration/*"$part"*.sh >/dev/null 2>&1 && return
	state=$(mktemp -d /tmp/muxd-test.XXXXXX)
	chmod 0711 "$state"
	BUILD=$PWD/$dir MUXD_STATE=$state
	export BUILD MUXD_STATE MUXCTL=$PWD/$dir/muxctl
	# shellcheck source=tests/lib/env.sh
	if (. tests/lib/env.sh && start_daemon "$state" && echo "$DAEMON" >"$state/pid" && rmdir "$tmp" && trap - EXIT); then
		for s in tests/integration/*.sh; do
			s=$(basename "$s" .sh)
			attempt "$prefix$s" 600 bash "tests/integration/$s.sh"
		done
		"$MUXCTL" --state "$state" shutdown --sandboxes >/dev/null 2>&1
		for _ in $(seq 100); do kill -0 "$(cat "$state/pid")" 2>/dev/null || break; sleep 0.1; done
	else
		failed=$((failed + 1)) names+=("${prefix}daemon")
		echo "FAIL  ${prefix}daemon did not start"
		tail -n 20 "$state/daemon.log" 2>/dev/null
	fi
	# A part that a sanitizer stopped is started again by the monitor: the log tells.
	[ "$prefix" = san/story/ ] && attempt san/story/findings 10 sh -c \
		"! grep -E 'ERROR: (Address|Leak)Sanitizer|runtime error:' '$state/daemon.log'"
	cp "$state/daemon.log" "build/log/daemon-${dir//\//-}.log" 2>/dev/null
	rm -rf "$state"
}

# k8s_claim: a number and a home for a cluster of this run's own, so that others on this machine are left alone
k8s_claim() {
	for K8S_NET in $(seq 100 199); do
		K8S_HOME=/tmp/muxd-k8s-$K8S_NET
		[ -e "/sys/class/net/muxd-k8s-$K8S_NET" ] || ! mkdir "$K8S_HOME" 2>/dev/null || break
	done
	export K8S_NET K8S_HOME
	trap 'tests/e2e/k8s/down.sh wipe' EXIT
}
# k8s_absent WHY: not an error, unless they were asked for by name
k8s_absent() {
	echo "k8s stories: not run: $*"
	[ -z "$k8s" ] || [ -n "${BESIDE:-}" ] || failed=$((failed + 1))
}
# On a cluster that comes and goes with them; or on the one in K8S_HOME, which is left running.
k8s_stories() {
	local filter=${only#k8s} only='' e2e=tests/e2e/k8s log=build/log/k8s_build.log why rc t0 s ran=0 own=
	filter=${filter#/}
	compgen -G "$e2e/stories/*$filter*.sh" >/dev/null || return
	why=$($e2e/prepare.sh) || { k8s_absent "$why"; return; }
	t0=$(date +%s.%N)
	timeout -k 10 2400 $e2e/build.sh >$log 2>&1
	rc=$?
	[ $rc -eq 69 ] && { k8s_absent "$(tail -n 1 $log)"; return; }
	verdict k8s/build $rc "$t0" $log || return
	[ -n "${K8S_HOME:-}" ] || { own=1 && k8s_claim; }
	if attempt k8s/up 600 $e2e/up.sh full; then
		# Last those that want the machine or the node for themselves: one measures how soon staff gets in, one takes the node away.
		for s in $(printf '%s\n' "$e2e"/stories/*"$filter"*.sh | awk '/hostile/ {quiet = $0; next} /nodefail/ {last = $0; next} {print} END {print quiet; print last}'); do
			BUILD=$PWD/build MUXCTL=$PWD/build/muxctl attempt "k8s/$(basename "$s" .sh)" 1500 bash "$s"
			ran=$((ran + 1))
		done
	fi
	if [ -n "$own" ]; then
		[ $ran -gt 0 ] || cp "$K8S_HOME"/log/*.log build/log/ 2>/dev/null
		attempt k8s/down 120 $e2e/down.sh wipe
		trap - EXIT
	fi
	echo "k8s stories: $ran run${own:+, on a cluster of their own}"
}

# beside NAME ARGUMENTS...: a lane of the whole run, in a process of its own; what it says is told at the end.
declare -A lanes
beside() {
	local name=$1
	shift
	BESIDE=1 tests/run.sh "$@" >"build/log/lane_$name.txt" 2>&1 &
	lanes[$name]=$!
	trap 'kill "${lanes[@]}" 2>/dev/null' EXIT
}
join() {
	local line told=
	wait "${lanes[$1]}"
	unset "lanes[$1]"
	while IFS= read -r line; do
		case $line in
		"failed: "*) names+=("${line#failed: }") ;;
		"unsteady, passed the second time: "*) unsteady+=("${line#unsteady, passed the second time: }") ;;
		*" passed, "*" failed")
			passed=$((passed + ${line%% *}))
			line=${line#* passed, }
			failed=$((failed + ${line%% *}))
			told=1
			;;
		*) printf '%s\n' "$line" ;;
		esac
	done <"build/log/lane_$1.txt"
	[ -n "$told" ] || { failed=$((failed + 1)) && names+=("the lane $1, which did not come to its end"); }
}

# Programs that only stories and the bench start: what they call may have changed, too
first_of_all() {
	local f others=()
	for f in tests/e2e/k8s/*_probe.c tests/bench/*.c; do
		f=${f#tests/}
		f=${f%.c}
		others+=("build/${f/e2e\/k8s/e2e}")
	done
	attempt layers 60 tests/lib/layers.sh
	attempt build-tests 900 make --no-print-directory -j"$(nproc)" unit-programs corpus-programs build/chart/render \
		"${others[@]}"
}
san_build() {
	attempt san-build 1800 make --no-print-directory -j"$(nproc)" SAN=address,undefined all unit-programs corpus-programs
}
san_options() {
	export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$PWD/tests/lib/lsan.supp:print_suppressions=0
}
plain_units() {
	units build unit/
	corpora build ""
}
plain_stories() { stories build story/; }
san_units() {
	san_options
	units build/san san/unit/
	corpora build/san san/
}
san_stories() {
	san_options
	stories build/san san/story/
}
lint() { attempt lint 3600 nice -n 19 tests/lib/lint.sh; }
one_by_one() {
	plain_units
	plain_stories
	if [ -z "$only" ] || [[ $only == san* ]]; then
		[ -z "$only" ] || san_build
		san_units
		san_stories
	fi
	lint
}

if [ -n "$lane" ]; then
	"$lane"
elif [ -n "$k8s" ]; then
	k8s_stories
elif [ -n "$only" ]; then
	first_of_all
	one_by_one
	k8s_stories
else
	beside k8s --k8s
	first_of_all
	san_build
	if [ "${LANES:-}" = 1 ]; then
		one_by_one
	else
		for lane in plain_stories san_stories lint; do beside $lane --lane $lane; done
		plain_units
		san_units
		for lane in plain_stories san_stories lint; do join $lane; done
	fi
	join k8s
	trap - EXIT
fi

for log in "${first[@]}"; do
	echo "== failed once: $log"
	show "$log" 20
done
for log in "${shown[@]}"; do
	echo "== failed: $log"
	show "$log" 15
done
[ ${#unsteady[@]} -gt 0 ] && echo "unsteady, passed the second time: ${unsteady[*]}"
[ $failed -gt 0 ] && echo "failed: ${names[*]}"
echo "$passed passed, $failed failed"
[ -z "$only" ] || [ $((passed + failed)) -gt 0 ] || { echo "no test is called $only" && failed=1; }
[ $failed -eq 0 ]
