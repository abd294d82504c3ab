#!/bin/bash
# packages.sh SUDO PACKAGE...: install the Debian packages that are missing, and only those.
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
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# RUNLEVEL=1 keeps packages with a service from starting it.
install() { $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
if ! install; then
	$sudo apt-get update -q >"$log" 2>&1
	install || {
		echo "muxd: installing packages failed:" >&2
		tail -n 5 "$log" >&2
		exit 69
	}
fi
