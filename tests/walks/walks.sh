#!/bin/bash
# walks.sh: which files are entered, in which order, by a byte of output, an exec round and an idle stop; docs/walks.md is written from
# it by hand. Builds muxd and muxlet with a tracer in build/walks (a minute), runs each walk once in a daemon of its own, as root.
# walks.sh --check says which files docs/walks.md lacks, and which it has too many.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ "$(id -u)" = 0 ] || { echo "$0: needs root"; exit 77; }
export WALKS=/tmp/muxd-walks
rm -rf $WALKS && mkdir -m 1777 $WALKS && mkdir -p build/walks
gcc -D_GNU_SOURCE -O2 -fPIC -DWALKS_DIR="\"$WALKS\"" -c tests/walks/tracer.c -o build/walks/tracer.o || exit 1
# The tracer is linked wherever gcc links; where gcc only compiles it says that it has no use for the object.
make -j2 all BUILD=build/walks CC="gcc $PWD/build/walks/tracer.o" HARD=-fPIC \
	OPT='-O1 -fno-inline -fno-optimize-sibling-calls -fno-ipa-icf -finstrument-functions' >build/walks/make.log 2>&1 ||
	{ tail -n 20 build/walks/make.log; exit 1; }
BUILD=$PWD/build/walks
# shellcheck source=tests/lib/env.sh
. tests/lib/env.sh
chmod 0711 "$tmp"
# An hour of lifecycle is 5 s.
printf 'lifecycle: {idle_ttl: 0, idle_warning: 0, speed: 720, agents: [{agent: idle, idle_ttl: 1h}]}\n' >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; rm -rf $WALKS; tidy' EXIT
muxctl exec -n walk -- true || fail "no sandbox"
SSHPASS=$(new_token walk staff terminal,rounds 1h)
export SSHPASS MUXD_STATE MUXCTL BUILD
ssh=$(ssh_port) https=$(ready https) known=$tmp/known net=$(ready pids.net) monitor=$DAEMON
export ssh https known net monitor
/usr/bin/python3 tests/walks/walks.py "$@"
