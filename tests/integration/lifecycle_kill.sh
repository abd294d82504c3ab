#!/bin/bash
# kill -9 of the monitor, of net, of the recorder and of all of them, at random moments, while twenty agents go through every
# transition: nobody is lost, nobody is there twice, and every snapshot that was answered is there. Told in lifecycle_kill.py.
# KILLS=n (default 6), AGENTS=n, SEED=n to do the same again, KEEP=1 to look at the state directory afterwards.
# tier: test, san KILLS=1, slice KILLS=3, whole KILLS=500
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
[ "$(id -u)" = 0 ] || { echo "SKIP: needs root, to see whose sandboxes there are" && exit 0; }
chmod 711 "$tmp"
[ -z "${KEEP:-}" ] || { trap - EXIT && echo "  state: $tmp/state"; }
BUILD=$BUILD MUXCTL=$MUXCTL /usr/bin/python3 "$(dirname "$0")/lifecycle_kill.py" "$tmp/state"
