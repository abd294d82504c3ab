#!/bin/bash
# run.sh [check|test|all] [--k8s] [--only NAME]: the tests by tier; `test` where none is named. tests/runner tells the rest.
PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 "$(dirname "$0")/runner" "$@"
