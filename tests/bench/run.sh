#!/bin/bash
# run.sh: the bench; prints the tables of docs/speed.md, writes build/bench.json and, with a cluster in K8S_HOME, bench-k8s.json.
set -eu
cd "$(dirname "$0")/../.."
ulimit -n "$(ulimit -H -n)"
/usr/bin/python3 tests/bench/bench.py
/usr/bin/python3 tests/bench/web.py
/usr/bin/python3 tests/bench/lease.py
/usr/bin/python3 tests/bench/resume.py
tests/bench/asleep.sh
tests/bench/record.sh
/usr/bin/python3 tests/bench/witness.py
tests/bench/replay.sh
if [ -n "${K8S_HOME:-}" ]; then
	/usr/bin/python3 tests/bench/k8s.py
else
	echo "into pods: not measured; make k8s-up, then K8S_HOME=... make bench"
fi
