#!/bin/bash
# run.sh [all]: the bench of docs/speed.md. Without `all` its first table alone, in four minutes; with it what many at once,
# pools, snapshots, replays and, with a cluster in K8S_HOME, pods cost. DOCS=1: the first table and its plot go into docs/.
set -eu
cd "$(dirname "$0")/../.."
ulimit -n "$(ulimit -H -n)"
/usr/bin/python3 tests/bench/bench.py
[ "${1:-}" = all ] || exit 0
/usr/bin/python3 tests/bench/crowd.py
/usr/bin/python3 tests/bench/lease.py
/usr/bin/python3 tests/bench/resume.py
tests/bench/asleep.sh
tests/bench/record.sh
/usr/bin/python3 tests/bench/witness.py
tests/bench/replay.sh
if [ -n "${K8S_HOME:-}" ]; then
	/usr/bin/python3 tests/bench/k8s.py
else
	echo "into pods: not measured; make k8s-up, then K8S_HOME=... make bench-all"
fi
