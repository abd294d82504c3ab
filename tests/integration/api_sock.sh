#!/bin/bash
# The API by the Unix socket, as curl and a program see it: the same routes and errors without TLS, one request a
# connection, heads that come in pieces; and the WebSocket of programs and transfers: what START may say, input, signals,
# the two streams, a transfer of a name that is not UTF-8, and what is refused (api_sock.py).
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=sock$$
token=$(new_token $agent staff rounds,files,terminal,observe,lifecycle)
local_api() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $token" "$@"; }
equal "a round by curl" '7 "there\n"' "$(local_api -H 'Content-Type: application/json' \
	-d '{"argv":["sh","-c","echo there; exit 7"],"wait_ms":20000}' "http://localhost/v1/agents/$agent/rounds" |
	jq -r '"\(.exit.code) \(.stdout.data | tojson)"')"
equal "a file by curl" "$(sha256sum <"$here/README.md")" \
	"$(local_api -T "$here/README.md" "http://localhost/v1/agents/$agent/files?path=r" >/dev/null &&
		local_api "http://localhost/v1/agents/$agent/files?path=r" | sha256sum)"
equal "without a grant" 401 "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$MUXD_STATE/api.sock" http://localhost/v1/agents)"
equal "its mode" "srw-------" "$(stat -c %A "$MUXD_STATE/api.sock")"
[ ! -e "$MUXD_STATE/hub.sock" ] || fail "hub.sock is still there"
/usr/bin/python3 "$here/tests/integration/api_sock.py" "$MUXD_STATE/api.sock" "$agent" <<<"$token" || fail "see above"
# paths that libwebsockets folds: by both doors nothing is done, and it is said why
for path in "/v1/agents/$agent/snapshots/..?reason=x" "/v1/agents/$agent/shells/%2e%2E" "/v1/agents/$agent/shells/.%2e%2f?x" \
	"/v1/agents//$agent?reason=x" "/v1/agents/$agent/.?reason=x"; do
	equal "DELETE $path" "400 invalid_request" "$(local_api --path-as-is -X DELETE -o "$tmp/e" -w '%{http_code}' "http://localhost$path") $(jq -r .error.code "$tmp/e")"
	equal "and by HTTPS" "400 invalid_request" "$(curl -sS --path-as-is --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" \
		-X DELETE -o "$tmp/e" -w '%{http_code}' "https://$(ready https)$path") $(jq -r .error.code "$tmp/e")"
done
equal "an upgrade by such a path" 400 "$(local_api --path-as-is -o "$tmp/e" -w '%{http_code}' -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
	-H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' "http://localhost/v1/sessions/../agents/$agent/terminal")"
for name in .. . '' ../.. x/y; do
	muxctl artifact rm story "$name" --reason story >/dev/null 2>"$tmp/e"
	equal "muxctl artifact rm '$name'" "64 1" "$? $(grep -c 'names nothing' "$tmp/e")"
done
equal "the sandbox runs" running "$(local_api "http://localhost/v1/agents/$agent" | jq -r .state)"
equal "a name of dots behind an escape is a name" 404 "$(local_api -o /dev/null -w '%{http_code}' \
	"http://localhost/v1/tasks/story/artifacts/%252e%252e")"
muxctl audit -n 400 -o json >"$tmp/audit"
equal "the record names the door and the peer" 'local uid '"$(id -u)" \
	"$(jq -rs --arg a "$agent" '[.[].record | select(.event == "round.start" and .agent == $a)][-1] | "\(.door) \(.peer | sub(":.*"; ""))"' \
		"$tmp/audit")"
muxctl sandbox destroy $agent --wipe --reason story >/dev/null || fail "not destroyed"
