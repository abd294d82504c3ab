#!/bin/bash
# Port 8888 of sandboxes, as agent-sandbox's SDK asks it (router.runtime): its requests to the byte, written out here, and what they
# do: recorded rounds and operations on files, by Bearer and by Basic. Off it is a port like any other.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
PRINCIPAL=sdk
# theirs METHOD PATH [curl arguments]: with the fields of its connector, and the grant as the password of api_url
theirs() {
	local method=$1 path=$2
	shift 2
	curl -sS -m 30 --cacert "$MUXD_STATE/keys/tls.crt" -X "$method" -u "sdk:$token" --path-as-is -A python-requests/2.32.5 -H 'Accept: */*' \
		-H 'Accept-Encoding: gzip, deflate' -H 'Connection: keep-alive' -H "X-Sandbox-ID: ${id:-$agent}" -H "X-Sandbox-Namespace: ${BOX_NAMESPACE:-default}" \
		-H "X-Sandbox-Port: ${port:-8888}" -H "X-Sandbox-Timeout: ${timeout:-60.0}" "$@" "https://$(ready https)$path"
}
execute() { theirs POST /execute -H 'Content-Type: application/json' --data-binary "$(jq -nc --arg c "$1" '{command: $c}')"; }
# upload NAME FILE: the form of urllib3
upload() {
	{
		printf -- '--0d1f6c3a9be04aa0\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n' "$1"
		cat "$2"
		printf '\r\n--0d1f6c3a9be04aa0--\r\n'
	} >"$tmp/form"
	theirs POST /upload -H 'Content-Type: multipart/form-data; boundary=0d1f6c3a9be04aa0' -H 'Expect:' --data-binary "@$tmp/form"
}
# refused WHAT STATUS CODE METHOD PATH [...]
refused() {
	local what=$1 status=$2 code=$3
	shift 3
	equal "$what" "$status $code" "$(theirs "$@" -o "$tmp/e" -w '%{http_code}') $(jq -r '.detail | split(":")[0]' "$tmp/e")"
}

start_daemon "$tmp/off" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
agent=port
token=$(new_token $agent agent ports,rounds,files)
muxctl exec $agent -- true
equal "it is off: a port like any other" port_unreachable "$(theirs GET /exists/x -H "Authorization: Bearer $token" | jq -r .error.code)"
stop_daemon
agent=runtime
echo 'router: {runtime: true}' >"$tmp/conf.yaml"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "no daemon"
token=$(new_token $agent agent rounds,files)

# ---- commands.run

refused "a sandbox that was never there is not made" 404 not_found GET /exists/x
muxctl exec $agent -- true || fail "no sandbox"
equal "health" ok "$(theirs GET / | jq -r .status)"
equal "a command" '{"exit_code":3,"stderr":"err\n","stdout":"out a b\n"}' "$(execute 'echo out "a b"; echo err >&2; exit 3' | jq -c .)"
equal "its directory" '/workspace' "$(execute pwd | jq -r .stdout)"
equal "text that is none is replaced" 'a?b 0' "$(execute 'printf "a\377b"' | jq -r '"\(.stdout) \(.exit_code)"')"
equal "a signal" 137 "$(execute 'kill -9 $$' | jq -r .exit_code)"
r=$(timeout=2 execute 'echo so far; sleep 30')
equal "a time that is up: ended before its client stops waiting" '124 so far true' \
	"$(jq -r '"\(.exit_code) \(.stdout | rtrimstr("\n")) \(.stderr | contains("timeout"))"' <<<"$r")"
equal "long output has both ends, and says what is left out" 'true true true' \
	"$(execute 'seq 400000' | jq -r '.stdout | "\(startswith("1\n2\n")) \(endswith("399999\n400000\n")) \(contains("are left out; GET /v1/rounds/"))"')"
refused "no command" 400 invalid_request POST /execute -H 'Content-Type: application/json' -d '{}'
refused "no JSON" 400 invalid_request POST /execute -d 'x'
timeout=never refused "a timeout that is none" 400 invalid_request POST /execute -d '{"command": "true"}'

# ---- files.write, read, list, exists

head -c 300000 /dev/urandom >"$tmp/file"
equal "an upload makes directories" "File 'data/in.bin' uploaded successfully." "$(upload data/in.bin "$tmp/file" | jq -r .message)"
equal "and a download gives it back" "$(sha256sum <"$tmp/file")" "$(theirs GET /download/data%2Fin.bin | sha256sum)"
: >"$tmp/none"
upload 'with space ü%22.txt' "$tmp/none" >/dev/null
equal "an empty one, its name as HTML quotes it" 'true' "$(theirs GET "/exists/with%20space%20%C3%BC%22.txt" | jq -c .exists)"
printf '%s\r\n--0d1f6c3a9be04aa\r\n' line >"$tmp/tricky"
upload tricky "$tmp/tricky" >/dev/null
equal "what looks like a boundary and is none" "$(sha256sum <"$tmp/tricky")" "$(theirs GET /download/tricky | sha256sum)"
execute 'mkdir -p many; cd many; touch -d @1700000000.5 first; mkdir dir' >/dev/null
equal "a list" '["dir","directory",true] ["first","file",1700000000.5]' \
	"$(theirs GET /list/many | jq -c 'sort_by(.name)[] | [.name, .type, if .type == "file" then .mod_time else .mod_time > 1700000000 end]' | paste -sd' ')"
equal "of the base, as the SDK names it" true "$(theirs GET /list/. | jq 'any(.name == "many")')"
equal "it has all" 12000 "$(execute 'cd many; rm -r dir first; for i in $(seq 12000); do : >f$i; done' >/dev/null; theirs GET /list/many | jq length)"
execute "cd many; python3 -c 'for i in range(50001): open(str(i), \"w\")'" >/dev/null
refused "a directory of more names than one answer holds" 413 too_large GET /list/many
equal "what is not there" '{"exists":false,"path":"no/such"}' "$(theirs GET /exists/no%2Fsuch | jq -c .)"
equal "what is" '{"exists":true,"path":"data/in.bin"}' "$(theirs GET /exists/data%2Fin.bin | jq -c .)"
refused "a file that is not there" 404 file_not_found GET /download/nothing
for path in download/..%2F..%2Fetc%2Fpasswd list/x%2F%2e.%2F.. exists/../v1/agents list/..; do
	equal "a way out: $path" path_outside "$(theirs GET "/$path" | jq -r .error.code)"
done
equal "two dots in a name are none" false "$(theirs GET /exists/a..%2F..b | jq .exists)"
upload '../../etc/escaped' "$tmp/none" >"$tmp/e"
equal "of an upload" path_outside "$(jq -r '.detail | split(":")[0]' "$tmp/e")"
refused "no form" 400 invalid_request POST /upload -H 'Content-Type: text/plain' -d x
refused "a form that breaks off" 400 invalid_request POST /upload -H 'Content-Type: multipart/form-data; boundary=b' -d $'--b\r\n'
head -c 1100000 /dev/zero >"$tmp/file"
equal "more than api.max_body" too_large "$(upload big "$tmp/file" | jq -r '.detail | split(":")[0]')"
refused "another method" 405 invalid_request DELETE /exists/x
refused "another call" 404 not_found GET /v1/agents

# ---- who may, and what stands in the record

equal "a bearer grant, without a port" true "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H "X-Sandbox-ID: $agent" \
	"https://$(ready https)/exists/data" | jq .exists)"
id=$(muxctl sandbox show $agent -o json | jq -r .sandbox_id)
equal "by the sandbox's id" true "$(theirs GET /exists/data | jq .exists)"
id=
port=8889 token=$(new_token $agent agent rounds,files,ports)
equal "another port is routed" port_unreachable "$(theirs GET /exists/x -H "Authorization: Bearer $token" | jq -r .error.code)"
port=
token=nonsense
refused "no grant" 401 token_malformed GET /exists/x
token=$(new_token other agent rounds,files)
refused "another agent's" 403 forbidden POST /execute -d '{"command": "true"}'
token=$(new_token $agent agent files)
refused "one without scope rounds" 403 forbidden POST /execute -d '{"command": "true"}'
refused "which may look at files" 404 file_not_found GET /download/nothing
muxctl sandbox resume --workdir /workspace/nowhere nowhere >/dev/null || fail "no sandbox nowhere"
token=$(new_token nowhere agent rounds) id=nowhere
execute true >"$tmp/e"
equal "a start that failed names its round" not_started \
	"$(api "$token" GET "/v1/rounds/$(jq -r '.detail | capture("^invalid_request: .* \\(round (?<id>[0-9a-f-]+)\\)$").id' "$tmp/e")" | jq -r .exit.cause)"
id=
told() { muxctl audit --agent $agent -n 1000 -o json | jq -r '.record.event' | sort | uniq -c | awk '{print $2, $1}' >"$tmp/events"; grep -q "$1" "$tmp/events"; }
for event in 'round.start 1[0-9]' 'file.write [3-9]' 'file.get [3-9]' 'file.list 1[0-9]' 'file.stat [1-9]'; do
	wait_for 10 told "^$event" || fail "no event $event: $(cat "$tmp/events")"
done
ok "all of it is in the audit log, as the API's own calls are"
