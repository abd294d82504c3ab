#!/bin/bash
# The check for circles of files (tests/lib/circles.py), on a tree of three files: a new circle fails and names the functions,
# a listed use is allowed only with a reason and only while it closes a circle, objects older than their source are refused.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
tree=$tmp/tree
list=$tree/tests/lib/circles.allowed
mkdir -p "$tree/muxd/x" "$tree/build/obj/muxd/x" "$tree/tests/lib"
# file NAME CALLED...: defines NAME_go(), which calls CALLED_go() of the others
file() {
	local name=$1 c
	shift
	for c in "$@"; do echo "void ${c}_go(void);"; done >"$tree/muxd/x/$name.c"
	{
		echo "void ${name}_go(void);"
		echo "void ${name}_go(void) {"
		for c in "$@"; do echo "${c}_go();"; done
		echo "}"
	} >>"$tree/muxd/x/$name.c"
	gcc -c "$tree/muxd/x/$name.c" -o "$tree/build/obj/muxd/x/$name.o" || fail "$name.c does not compile"
}
# in_room ROOM/NAME CALLED...: the same in a room of the hub
in_room() {
	local at=muxd/hub/$1 name=${1##*/} c
	shift
	mkdir -p "$tree/${at%/*}" "$tree/build/obj/${at%/*}"
	{
		echo "void ${name}_go(void);"
		for c in "$@"; do echo "void ${c}_go(void);"; done
		echo "void ${name}_go(void) {"
		for c in "$@"; do echo "${c}_go();"; done
		echo "}"
	} >"$tree/$at.c"
	gcc -c "$tree/$at.c" -o "$tree/build/obj/$at.o" || fail "$at.c does not compile"
}
# look STATUS TEXT WHAT: the check ends so, and says so
look() {
	local status=0
	tests/lib/circles.py "$tree" >"$tmp/said" 2>&1 || status=$?
	{ [ $status -eq "$1" ] && grep -qF -- "$2" "$tmp/said"; } || fail "$3: status $status: $(cat "$tmp/said")"
}
file top middle ground
file middle ground
file ground
look 0 "circles: none" "one way"
file ground top
look 1 "muxd/x/ground.c -> muxd/x/top.c: top_go" "a circle of two"
file top middle
look 1 "muxd/x/middle.c -> muxd/x/ground.c: ground_go" "a circle of three"
printf '[x] the ground calls the top.\nmuxd/x/ground.c -> muxd/x/top.c\n' >"$list"
look 0 "circles: 1 of 3 files are allowed, by 1 uses" "allowed"
printf '[x]\nmuxd/x/ground.c -> muxd/x/top.c\n' >"$list"
look 1 "circles.allowed:1: [x] gives no reason" "no reason"
printf 'muxd/x/ground.c -> muxd/x/top.c\n' >"$list"
look 1 "circles.allowed:1: no [name] and reason above it" "no heading"
printf '[x] the ground calls the top.\nmuxd/x/ground.c to muxd/x/top.c\n' >"$list"
look 1 "circles.allowed:2: neither" "a line that is none"
printf '[x] the ground calls the top.\nmuxd/x/ground.c -> muxd/x/top.c\n' >"$list"
file middle ground top
look 1 "muxd/x/middle.c -> muxd/x/top.c: top_go" "a second circle among the files of one that is allowed"
file middle ground
file ground
look 1 "circles.allowed:2: muxd/x/ground.c uses muxd/x/top.c no longer: delete this line" "a use that is gone"
printf '[x] the top calls the middle.\nmuxd/x/top.c -> muxd/x/middle.c\n' >"$list"
look 1 "circles.allowed:2: muxd/x/top.c and muxd/x/middle.c are no longer in one circle: delete this line" "a circle that is gone"
rm "$list"
# An object of a file that is gone says nothing about the tree; a file without an object cannot be judged.
file ground top
mv "$tree/muxd/x/top.c" "$tmp/top.c"
look 0 "circles: none" "a file that is gone"
mv "$tmp/top.c" "$tree/muxd/x/top.c"
rm "$tree/build/obj/muxd/x/top.o"
look 1 "muxd/x/top.c: not compiled since it changed; run make all first" "no object"
# Rooms of the hub: a call, and an include, of a room above one's own; structs are for all.
mv "$tree/muxd/x" "$tmp/x"
in_room core/low
in_room broker/high low
look 0 "circles: none" "a room that calls one below it"
in_room broker/high
in_room core/low high
look 1 "muxd/hub/core/low.c: calls high_go of muxd/hub/broker/high.c, a room above it" "a call upwards"
in_room core/low
echo '#include "muxd/hub/session/session_state.h"' >"$tree/muxd/hub/core/low_state.h"
look 0 "circles: none" "a struct's header"
echo '#include "muxd/hub/broker/high.h"' >>"$tree/muxd/hub/core/low_state.h"
look 1 "muxd/hub/core/low_state.h: includes muxd/hub/broker/high.h, of a room above it" "an include upwards"
