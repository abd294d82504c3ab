#!/bin/bash
# Any one file of the state directory is removed, and any two, the daemon stopped or running: it comes up again or says which
# file it lacks; what was durable is in the recordings, or its loss is named, with times at which there was a session.
# Told in removals.py. CASES=n (default 4) of them by SEED=n, CASES=singles, CASES=all: each kind and each pair, FROM=n without the
# first n; KEEP=1 keeps the last state, GO_ON=1 goes on behind a failure.
# tier: test, san, slice CASES=3, whole CASES=all
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
[ "$(id -u)" = 0 ] || { echo "SKIP: needs root, to end sandboxes as a power cut does" && exit 0; }
chmod 711 "$tmp"
[ -z "${KEEP:-}" ] || { trap - EXIT && echo "  state: $tmp/state"; }
BUILD=$BUILD MUXCTL=$MUXCTL /usr/bin/python3 "$(dirname "$0")/removals.py" "$tmp"
