#!/bin/bash
# A workspace that is a plain directory (no loop devices, or no root) goes to sleep and wakes as it was, however deep: a
# stop drops the only copy, so what cannot be restored must not be called stopped.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

[ "$(id -u)" -eq 0 ] || { echo "  not run: needs root"; exit 0; }
chmod 0711 "$tmp"
trap 'stop_daemon; tidy' EXIT
start_daemon "$tmp/state" || fail "no daemon"
# A plain directory from before the first start stays one.
mkdir -p "$tmp/state/sandboxes/deep/workspace"
make_tree='
import os
d = os.open(".", os.O_RDONLY)
for i in range(2500):
    os.mkdir("d%d" % i, dir_fd=d)
    d = os.open("d%d" % i, os.O_RDONLY, dir_fd=d)
f = os.open("deep", os.O_WRONLY | os.O_CREAT, dir_fd=d)
os.write(f, b"at the bottom")
open("top\n\udcff name", "w").write("at the top")
print("made")'
read_tree='
import os
d = os.open(".", os.O_RDONLY)
for i in range(2500):
    d = os.open("d%d" % i, os.O_RDONLY, dir_fd=d)
print(os.read(os.open("deep", os.O_RDONLY, dir_fd=d), 100).decode(), open("top\n\udcff name").read())'
equal "a tree of 2,500 levels" made "$(muxctl exec deep -- python3 -c "$make_tree" 2>&1)"
for round in 1 2; do
	muxctl sandbox stop deep --reason "to sleep" >"$tmp/out" 2>&1 || fail "stop $round: $(cat "$tmp/out")"
	[ ! -e "$tmp/state/sandboxes/deep/workspace" ] || fail "its workspace was not dropped: nothing is proven here"
	equal "it wakes with all of it" "at the bottom at the top" "$(muxctl exec deep -- python3 -c "$read_tree" 2>&1)"
done
# Damaged while it sleeps: the start says so, and what there is stays.
muxctl sandbox stop deep --reason "to sleep" >"$tmp/out" 2>&1 || fail "stop: $(cat "$tmp/out")"
file=$(find "$tmp/state/sandboxes/deep/snapshots" -name '*.tar.zst' | sort | tail -n 1)
cp "$file" "$tmp/good"
truncate -s -100 "$file"
muxctl sandbox resume deep >"$tmp/out" 2>&1 && fail "a cut archive was restored"
grep -q corrupt "$tmp/out" || fail "it does not say what is wrong: $(cat "$tmp/out")"
cp "$tmp/good" "$file"
equal "a cut archive is refused, and put back it wakes" "at the bottom at the top" \
	"$(muxctl exec deep -- python3 -c "$read_tree" 2>&1)"
