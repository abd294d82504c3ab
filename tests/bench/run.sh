#!/bin/bash
# run.sh: the bench; prints the table of the README, writes build/bench.json.
set -eu
cd "$(dirname "$0")/../.."
ulimit -n "$(ulimit -H -n)"
exec /usr/bin/python3 tests/bench/bench.py
