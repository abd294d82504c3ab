#!/bin/bash
# The installer of packages waits for somebody else's apt, by each of its locks, and not for anything else.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

mkdir "$tmp/bin"
printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/dpkg-query"
# An apt-get that finds a lock held $HELD times, then does what $THEN says.
cat >"$tmp/bin/apt-get" <<'S'
#!/bin/sh
echo "$@" >>"$CALLS"
if [ "$(wc -l <"$CALLS")" -le "$HELD" ]; then
	echo "E: $WORDS" >&2
	exit 100
fi
$THEN
S
chmod +x "$tmp/bin/"*
export CALLS=$tmp/calls APT_AGAIN=0.01 HELD WORDS THEN
# installs HELD WORDS THEN [APT_WAIT]: the status
installs() {
	HELD=$1 WORDS=$2 THEN=$3
	: >"$CALLS"
	PATH=$tmp/bin:$PATH APT_WAIT=${4:-60} bash "$here/tests/lib/packages.sh" "" some-package >"$tmp/out" 2>&1
	echo $?
}
while IFS= read -r words; do
	equal "waits: ${words%% (*}" "0 4" "$(installs 3 "$words" true) $(wc -l <"$CALLS")"
	equal "and says so once" 1 "$(grep -c 'another apt is at work' "$tmp/out")"
done <<'W'
Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt-get)
Could not get lock /var/lib/apt/lists/lock - open (11: Resource temporarily unavailable)
Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?
Unable to lock directory /var/lib/apt/lists/
W
grep -q 'DPkg::Lock::Timeout=60 install .* some-package' "$CALLS" && ok "apt waits for its own lock as well" || fail "$(cat "$CALLS")"
equal "what is no lock is not waited for" "69 3" "$(installs 99 'Unable to locate package some-package' true) $(wc -l <"$CALLS")"
grep -q 'Unable to locate package' "$tmp/out" && ok "and named" || fail "$(cat "$tmp/out")"
equal "nor is a lock for ever" 69 "$(installs 1000000 'Could not get lock /var/lib/dpkg/lock' true 1)"
