#!/bin/sh
# rootfs.sh muxd|muxlet BUILD DIR: the root file system of an image, made in DIR (which must not exist) of the programs in
# BUILD and of what they load from this Debian machine. The Dockerfile and image.sh both call this, so both hold the same.
#   muxd     daemon, recorder, archiver, muxctl, muxlet; their shared libraries (ldd's closure and what is opened by name); no shell
#   muxlet   one static program, which an init container runs as `muxlet --install PATH`
# As root it also gives the directories to uid 64800, whom the image runs as.
set -eu
umask 022

# Opened by name at run time, so no ldd sees it: libwebsockets' event loop.
OPENED="libwebsockets-evlib_uv.so"
UID_MUXD=64800

die() {
	echo "rootfs.sh: $*" >&2
	exit 1
}
[ $# -eq 3 ] || die "usage: rootfs.sh muxd|muxlet BUILD DIR"
what=$1 build=$2 dir=$3
[ ! -e "$dir" ] || die "$dir is there already"

program() {
	[ -x "$build/$1" ] || die "$build/$1 is not built: make all"
	install -D -s -m 755 "$build/$1" "$dir/$2"
}
# Under the name that is asked for, as one file: libssl.so.3, whatever it links to. Its directory's real name: /lib is /usr/lib.
library() {
	[ -e "$1" ] || die "no library '$1'"
	at=$(readlink -f "$(dirname "$1")")/$(basename "$1")
	# the loader among them has to be executable
	[ -e "$dir$at" ] || install -D -m "$(stat -L -c %a "$1")" "$(readlink -f "$1")" "$dir$at"
}
closure() {
	# "name => /path (0x...)" and, for the loader, "/path (0x...)"
	ldd "$1" >"$dir.ldd" || die "ldd $1 failed"
	if grep 'not found' "$dir.ldd" >&2; then die "$1: a library is missing"; fi
	sed -n 's/^.*=> \(\/[^ ]*\) .*$/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (0x.*$/\1/p' "$dir.ldd" >"$dir.libs"
	while read -r lib; do library "$lib"; done <"$dir.libs"
	rm -f "$dir.ldd" "$dir.libs"
}
opened() {
	beside=$(ldd "$build/muxd" | sed -n 's/^.*libwebsockets\.so[^ ]* => \(\/[^ ]*\) .*$/\1/p')
	library "$(dirname "$beside")/$1"
	closure "$(dirname "$beside")/$1"
}
merged_usr() {
	mkdir -p "$dir/usr/lib" "$dir/usr/lib64"
	for d in lib lib64; do ln -s "usr/$d" "$dir/$d"; done
}
people() {
	mkdir -p "$dir/etc"
	printf 'root:x:0:0:root:/:/nonexistent\nmuxd:x:%s:%s:muxd:/var/lib/muxd:/nonexistent\n' $UID_MUXD $UID_MUXD >"$dir/etc/passwd"
	printf 'root:x:0:\nmuxd:x:%s:\n' $UID_MUXD >"$dir/etc/group"
	echo 'hosts: files dns' >"$dir/etc/nsswitch.conf"
}
muxd_tree() {
	merged_usr
	program muxd usr/local/bin/muxd
	program muxctl usr/local/bin/muxctl
	program muxd-recorder usr/local/libexec/muxd/muxd-recorder
	program muxd-screen usr/local/libexec/muxd/muxd-screen
	program muxd-witness usr/local/libexec/muxd/muxd-witness
	program muxd-issuer usr/local/libexec/muxd/muxd-issuer
	program muxd-archive usr/local/libexec/muxd/muxd-archive
	program muxlet usr/local/libexec/muxd/muxlet
	for p in muxd muxctl muxd-recorder muxd-screen muxd-archive muxd-witness muxd-issuer; do closure "$build/$p"; done
	for l in $OPENED; do opened "$l"; done
	people
	# for a cluster or a proxy whose certificate a public authority signed
	[ ! -e /etc/ssl/certs/ca-certificates.crt ] || install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/ca-certificates.crt"
	# where volumes go: configuration, state, journal (a tmpfs)
	mkdir -p "$dir/etc/muxd" "$dir/var/lib/muxd" "$dir/run/muxd" "$dir/dev" "$dir/proc" "$dir/sys"
	install -d -m 1777 "$dir/tmp"
	chmod 711 "$dir/var/lib/muxd" "$dir/run/muxd"
	[ "$(id -u)" != 0 ] || chown $UID_MUXD:$UID_MUXD "$dir/var/lib/muxd" "$dir/run/muxd"
}
muxlet_tree() {
	program muxlet usr/local/bin/muxlet
	if ldd "$build/muxlet" >/dev/null 2>&1; then die "$build/muxlet is not static"; fi
	mkdir -p "$dir/dev" "$dir/proc" "$dir/sys"
}

case $what in
muxd | muxlet) mkdir -p "$dir" && "${what}_tree" ;;
*) die "what is '$what'?" ;;
esac
