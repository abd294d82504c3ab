#!/bin/bash
# The HTTPS API does what docs/openapi.yaml says: every operation is driven, every answer checked against its schema.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

PRINCIPAL=openapi
MUXD_TOKEN=$(new_token openapi staff terminal,rounds,files,observe,drive,replay,lifecycle)
MUXD_SERVICE_TOKEN=$(new_token '*' service lifecycle,rounds,grant)
MUXD_URL=https://$(ready https) MUXD_CACERT=$MUXD_STATE/keys/tls.crt MUXD_AGENT=openapi MUXD_TASK=story
export MUXD_TOKEN MUXD_SERVICE_TOKEN MUXD_URL MUXD_CACERT MUXD_AGENT MUXD_TASK
/usr/bin/python3 "$here/tests/integration/openapi_check.py" || fail "the API and its document differ"
