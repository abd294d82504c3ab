#!/bin/bash
# fresh.sh [ROOT [COMMAND...]]: prove the README's two commands on a machine that has only Debian 12.
#
# Makes a minimal Debian in ROOT with debootstrap (when it is not there yet), clones HEAD into it, enters it with a mount
# namespace of its own and pivot_root (bubblewrap refuses to work where / is no mount), and runs `make test` there, or
# COMMAND. Root only; takes as long as the tests do, and the packages' download.
set -eu
cd "$(dirname "$0")/../.."
root=${1:-/tmp/muxd-fresh}
shift || true
[ "$(id -u)" -eq 0 ] || { echo "fresh.sh: only root can" >&2; exit 77; }
[ -x "$root/usr/bin/apt-get" ] || debootstrap --variant=minbase bookworm "$root"
# The way to the packages of Debian and npm is the machine's own affair: whatever it has is lent.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
mkdir -p "$root/usr/local/share/ca-certificates" "$root/etc/ssl/certs"
for f in /etc/npmrc /root/.npmrc /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/*.crt; do
	[ ! -e "$f" ] || cp -L "$f" "$root$f"
done
rm -rf "$root/srv/muxd"
git clone -q --no-hardlinks . "$root/srv/muxd"
exec unshare -m --propagation private bash -c '
	set -eu
	root=$1
	shift
	mount --bind "$root" "$root"
	cd "$root"
	mkdir -p .old
	mount -t proc proc proc
	mount --rbind /sys sys
	mount --rbind /dev dev
	mount -t tmpfs tmpfs tmp
	pivot_root . .old
	umount -l /.old
	export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
	cd /srv/muxd
	if [ $# -gt 0 ]; then exec "$@"; fi
	command -v make >/dev/null || { apt-get update -q && apt-get install -y -q make; }
	exec make test
' fresh "$root" "$@"
