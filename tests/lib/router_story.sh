# router_story.sh - what the stories of routed requests share. Sourced after env.sh; expects $agent, whose sandbox has
# python3.
# shellcheck shell=bash disable=SC2154,SC2034

inside() { muxctl exec -n "$agent" -- "$@"; }
# routed PORT PATH [curl arguments]: a request to that port of $agent
routed() {
	local port=$1 path=$2
	shift 2
	${exec_routed:-} curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" \
		-H "X-Sandbox-ID: ${id:-$agent}" -H "X-Sandbox-Port: $port" "$@" "https://$(ready https)$path"
}
# refused WHAT STATUS CODE PORT PATH [curl arguments]
refused() {
	local what=$1 status=$2 code=$3
	shift 3
	equal "$what" "$status $code" "$(routed "$@" -o "$tmp/e" -w '%{http_code}') $(jq -r .error.code "$tmp/e")"
}
sum() { sha256sum | cut -d' ' -f1; }

router_serve() {
	inside true || fail "no sandbox"
	token=$(new_token "$agent" staff ports,rounds)
	muxctl put "$agent" "$here/tests/lib/router_server.py" server.py >/dev/null || fail "no server inside"
	api "$token" POST "/v1/agents/$agent/rounds" \
		'{"argv":["python3","/workspace/server.py","8000"],"wait_ms":0,"timeout_ms":3600000}' >"$tmp/server" ||
		fail "no server"
	wait_for 30 router_up || fail "the server inside does not answer: $(routed 8000 /echo)"
}
router_up() { routed 8000 /echo -f; }

router_answers() {
	local r
	r=$(routed 8000 '/a/../b%2f%zz?x=1&y=/..' --path-as-is -D "$tmp/h" -H 'X-Mine: here' -H 'X-Sandbox-Secret: s' \
		-H 'Cookie: a=1; __Host-muxd=token; muxd_x=2; b=3' -H 'Connection: X-Drop' -H 'X-Drop: dropped' -H 'X-Forwarded-For: 10.1.1.1')
	equal "the target as it was sent" 'GET /a/../b%2f%zz?x=1&y=/.. HTTP/1.1' "$(head -1 <<<"$r") HTTP/1.1"
	grep -qx 'X-Mine: here' <<<"$r" || fail "a field was lost: $r"
	grep -qiE '^(authorization|x-sandbox|x-drop|keep-alive|te|upgrade)' <<<"$r" && fail "what is for one hop went on: $r"
	equal "cookies but ours" 'Cookie: a=1; b=3' "$(grep ^Cookie <<<"$r")"
	equal "who asked" 'X-Forwarded-For: 10.1.1.1, 127.0.0.1' "$(grep ^X-Forwarded-For <<<"$r")"
	equal "how" 'X-Forwarded-Proto: https' "$(grep ^X-Forwarded-Proto <<<"$r")"
	equal "by whom" 'Via: 1.1 muxd' "$(grep ^Via <<<"$r")"
	grep -qi '^X-Inside: yes' "$tmp/h" || fail "a field of the answer was lost"
	grep -qi '^Set-Cookie: mine=1' "$tmp/h" || fail "a cookie of the answer was lost"
	grep -qiE '^(x-hop|keep-alive:)|__Host-muxd' "$tmp/h" && fail "what is for one hop came back: $(cat "$tmp/h")"
	for method in HEAD DELETE PATCH OPTIONS PROPFIND X-OWN; do
		if [ $method = HEAD ]; then r=$(routed 8000 /echo -I | head -1 | tr -d '\r'); else r=$(routed 8000 /echo -X $method | head -1); fi
		[ $method = HEAD ] && equal "method HEAD" "HTTP/1.1 200 OK" "$r" || equal "method $method" "$method /echo" "$r"
	done
	id=$(muxctl sandbox show "$agent" -o json | jq -r .sandbox_id)
	equal "by the sandbox's id" "GET /echo" "$(routed 8000 /echo | head -1)"
	id=
	equal "the API is as it was" ok "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz" | jq -r .status)"
	r=$(routed 8000 /echo -w '%{num_connects}\n' "https://$(ready https)/big?100" "https://$(ready https)/chunks" \
		"https://$(ready https)/healthz" -o "$tmp/1" -o "$tmp/2" -o "$tmp/3" -o "$tmp/4" | paste -sd' ')
	equal "one connection carries one request after the other" "1 0 0 0" "$r"
}

# MIB: of an answer (1024), a tenth of it as a request.
router_bodies() {
	local n=$((${MIB:-1024} * 104857))
	head -c $n /dev/urandom >"$tmp/f"
	local digest r
	digest=$(sum <"$tmp/f")
	r=$(routed 8000 /echo -X POST --data-binary @"$tmp/f" -H 'Expect:' | tail -1)
	equal "$n bytes there" "$n $digest" "$r"
	r=$(routed 8000 /echo -X POST --data-binary @"$tmp/f" -H 'Transfer-Encoding: chunked' | tail -1)
	equal "and in chunks" "$n $digest" "$r"
	r=$(routed 8000 /echo -X PUT --data-binary '' | tail -1)
	equal "an empty one" "0 $(sum </dev/null)" "$r"
	r=$(routed 8000 /echo -X POST --data-binary abc -H 'Connection: Upgrade' -H 'Upgrade: h2c' | tail -1)
	equal "a body beside an Upgrade" "3 $(printf abc | sum)" "$r"
	equal "chunks back" "$(seq 0 999 | sum)" "$(routed 8000 /chunks | sum)"
	equal "to a client of HTTP/1.0" "GET /echo" "$(routed 8000 /echo --http1.0 | head -1)"
	equal "a body that ends with the connection" "until the end" "$(routed 8000 /close)"
	rm "$tmp/f"
}

router_streams() {
	local net before after want
	net=$(ready pids.net)
	want=$(/usr/bin/python3 -c '
import hashlib, sys
h=hashlib.sha256(); p=bytes(range(256))*256
for _ in range(16 * int(sys.argv[1])): h.update(p)
print(h.hexdigest())' "${MIB:-1024}")
	before=$(awk '/VmRSS/ {print $2}' "/proc/$net/status")
	equal "${MIB:-1024} MiB back, byte for byte" "$want" "$(routed 8000 "/big?$((${MIB:-1024} << 20))" | sum)"
	after=$(awk '/VmRSS/ {print $2}' "/proc/$net/status")
	[ $((after - before)) -lt 65536 ] && ok "in bounded memory" || fail "the daemon grew from $before to $after kB"
	inside rm -f go
	routed 8000 /events -N >"$tmp/events" &
	local pid=$!
	wait_for 30 grep -q first "$tmp/events" && ok "the first event comes at once" || fail "no first event"
	grep -q second "$tmp/events" && fail "the second came too early"
	inside touch go
	wait "$pid"
	equal "and then the second" "data: first data: second" "$(grep data "$tmp/events" | paste -sd' ')"
}

router_websocket() {
	/usr/bin/python3 "$here/tests/lib/router_ws.py" "$(ready https)" "$MUXD_STATE/keys/tls.crt" "$agent" 8000 <<<"$token" ||
		fail "WebSocket"
	ok "WebSocket, half-close, slow sides"
}

router_ends() {
	inside rm -f released
	local pid
	(exec_routed="exec" && routed 8000 /hold -N >"$tmp/held") &
	pid=$!
	wait_for 30 grep -q held "$tmp/held" || fail "nothing came"
	kill $pid
	wait_for 30 inside test -e released && ok "a client that leaves is gone inside, too" || fail "the connection inside stays"
	routed 8000 /abort >"$tmp/1" 2>"$tmp/e" && fail "half an answer looks whole"
	ok "a server that breaks off: curl sees it"
	routed 8000 /abort-open >"$tmp/1" 2>"$tmp/e" && fail "half an answer without a length looks whole"
	ok "without a length, too"
	refused "closed without a word" 502 port_unreachable 8000 /nothing
	refused "no HTTP" 502 port_bad_answer 8000 /garbage
	refused "nobody listens" 502 port_unreachable 8001 /
	equal "and the message says it" 1 "$(grep -c 'nobody listens on port 8001' "$tmp/e")"
}

router_refused() {
	local good=$token
	refused "a port that is not allowed" 403 port_not_allowed 80 /
	refused "a port that is none" 400 invalid_request 0 /
	refused "a port that is none" 400 invalid_request 65536 /
	refused "a port that is none" 400 invalid_request 80x0 /
	refused "two ports" 400 invalid_request 8000 / -H 'X-Sandbox-Port: 8000'
	refused "two sandboxes" 400 invalid_request 8000 / -H 'X-Sandbox-ID: other'
	refused "a namespace that is none" 400 invalid_request 8000 / -H 'X-Sandbox-Namespace: a/b'
	refused "a length and chunks" 400 invalid_request 8000 / -H 'Content-Length: 3' -H 'Transfer-Encoding: chunked' -d abc
	equal "no port at all" 400 "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" \
		-H "X-Sandbox-ID: $agent" -o /dev/null -w '%{http_code}' "https://$(ready https)/")"
	equal "an empty id" 400 "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" \
		-H "X-Sandbox-ID;" -H 'X-Sandbox-Port: 8000' -o /dev/null -w '%{http_code}' "https://$(ready https)/")"
	id=other refused "another's sandbox" 403 forbidden 8000 /
	token=$(new_token "$agent" staff rounds,files,terminal)
	refused "a grant without the scope" 403 forbidden 8000 /
	token=nonsense
	refused "no grant" 401 token_malformed 8000 /
	token=$(new_token neverthere staff ports)
	id=neverthere refused "a sandbox that is not there" 404 not_found 8000 /
	equal "and is not made" 0 "$(muxctl sandbox list -o json | jq '[.agents[]? // .sandboxes[]? | select(.agent == "neverthere")] | length')"
	token=$(new_token '*' service ports)
	id=01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11 refused "an id of no sandbox" 404 not_found 8000 /
	token=$good
}

router_recorded() {
	local s
	wait_for 30 router_audited && ok "each request is an event of the audit log" || fail "$(muxctl audit --limit 20 -o json)"
	s=$(muxctl session list --agent "$agent" -o json)
	equal "and nothing runs any more" 0 "$(jq '[.sessions[] | select(.kind == "port" and .state == "running")] | length' <<<"$s")"
	equal "no connection is left inside but the one that asks" 1 "$(routed 8000 /open)"
}
router_audited() {
	[ "$(muxctl audit --agent "$agent" --limit 200 -o json | jq -s 'flatten | [.. | objects | select(.event? == "port.open" and .detail.port.request == "GET /chunks")] | length')" -ge 1 ]
}

# A head need not come in one piece.
router_split_heads() {
	local r
	r=$({
		for piece in 'GET /echo HTTP/1.1\r\nHost: x\r\nAuth' "orization: Bearer $token\r\nX-Sand" "box-ID: $agent\r\n" \
			'X-Sandbox-Port: 8000\r\nConnection: close\r\n' '\r\n'; do
			printf "$piece"
			sleep 0.2
		done
		sleep 1
	} | timeout 30 openssl s_client -quiet -connect "$(ready https)" -CAfile "$MUXD_STATE/keys/tls.crt" 2>/dev/null)
	grep -q 'GET /echo' <<<"$r" && ok "a head in five pieces" || fail "a head in pieces: $r"
	# Two requests at once, of which the first is refused: its answer must not pass for both.
	r=$({
		printf 'GET / HTTP/1.1\r\nHost: x\r\nX-Sandbox-ID: %s\r\nX-Sandbox-Port: 0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n' "$agent"
		sleep 5
	} | timeout 60 openssl s_client -quiet -connect "$(ready https)" -CAfile "$MUXD_STATE/keys/tls.crt" 2>/dev/null | tr -d '\r')
	equal "a refusal with a request behind it ends the connection" "HTTP/1.1 400 Bad Request Connection: close" \
		"$(grep -iE '^(HTTP/|connection:)' <<<"$r" | paste -sd' ')"
	# The same, of one that asks for another protocol: what is behind it might have been of that protocol.
	r=$({
		printf 'GET /ws HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Sandbox-ID: %s\r\nX-Sandbox-Port: 8001\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n' "$token" "$agent"
		sleep 5
	} | timeout 60 openssl s_client -quiet -connect "$(ready https)" -CAfile "$MUXD_STATE/keys/tls.crt" 2>/dev/null | tr -d '\r')
	equal "and so does one of an Upgrade" "HTTP/1.1 502 Bad Gateway Connection: close" \
		"$(grep -iE '^(HTTP/|connection:)' <<<"$r" | paste -sd' ')"
}

router_limits() {
	router_serve
	refused "only listed ports" 403 port_not_allowed 8001 /
	refused "a listed range" 502 port_unreachable 9050 /
	refused "no answer in time" 504 timeout 8000 /silent
	routed 8000 /hold >"$tmp/held" 2>"$tmp/e" && fail "a silent connection ended well"
	grep -q held "$tmp/held" && ok "a connection on which nothing moves is closed" || fail "$(cat "$tmp/e")"
}

# A request is a use: who sleeps is woken by it, even where nothing listens any more.
router_wakes() {
	muxctl sandbox stop "$agent" --reason "the story goes on" >/dev/null || fail "it does not stop"
	equal "it sleeps" stopped "$(muxctl sandbox show "$agent" -o json | jq -r .state)"
	refused "a request to a sandbox that sleeps" 502 port_unreachable 8000 /
	equal "wakes it" running "$(muxctl sandbox show "$agent" -o json | jq -r .state)"
}
