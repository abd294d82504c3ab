#!/bin/bash
# packages.sh SUDO PACKAGE...: install the Debian packages that are missing, and only those. Somebody else's apt is waited for,
# APT_WAIT seconds (600).
set -u
sudo=$1
shift
missing=()
for p in "$@"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ -n "$sudo" ] && ! command -v sudo >/dev/null; then
	echo "muxd: these packages are missing and this user may not install them: ${missing[*]}" >&2
	exit 69
fi
echo "installing: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt COMMAND...: DPkg::Lock::Timeout knows one of apt's locks, and the lists and the archives have their own.
wait=${APT_WAIT:-600} said=
apt() {
	local end=$((SECONDS + wait))
	until $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout="$wait" "$@" >"$log" 2>&1; do
		grep -qE 'Could not get lock|Unable to (acquire|lock)' "$log" && [ $SECONDS -lt $end ] || return 1
		[ -n "$said" ] || echo "another apt is at work; waiting for its lock, $wait s at most" >&2
		said=1
		sleep "${APT_AGAIN:-2}"
	done
}
# RUNLEVEL=1 keeps packages with a service from starting it.
install() { apt install -y -q --no-install-recommends "${missing[@]}"; }
if ! install; then
	apt update -q
	install || {
		echo "muxd: installing packages failed:" >&2
		tail -n 5 "$log" >&2
		exit 69
	}
fi
