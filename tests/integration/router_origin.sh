#!/bin/bash
# What a server in a sandbox answers comes from the daemon's own origin: fields that are about the whole origin stay here,
# answers of 1xx are bounded, and a page of that origin cannot ask at all.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=origin
muxctl exec -n $agent -- true || fail "no sandbox"
token=$(new_token $agent staff ports,rounds,files)
muxctl put $agent tests/integration/heads_inside.py inside.py >/dev/null || fail "no server inside"
api "$token" POST "/v1/agents/$agent/rounds" \
	'{"argv":["python3","/workspace/inside.py","8000"],"wait_ms":0,"timeout_ms":600000}' >"$tmp/server" || fail "no server"
address=$(ready https)
routed() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H "X-Sandbox-ID: $agent" \
		-H "X-Sandbox-Port: 8000" "${@:2}" "https://$address$1"
}
up() { routed / -f; }
wait_for 30 up || fail "the server inside does not answer"

# --- fields
routed /fields -D "$tmp/h" -o "$tmp/b" || fail "no answer"
tr -d '\r' <"$tmp/h" >"$tmp/head"
wide='^(strict-transport-security|clear-site-data|alt-svc|service-worker-allowed|access-control-.*|timing-allow-origin'
wide+='|origin-agent-cluster|report-to|reporting-endpoints|nel|public-key-pins|expect-ct|accept-ch|critical-ch|set-login'
wide+='|use-as-dictionary|no-vary-search|www-authenticate|x-muxd-request-id: mine)'
equal "no field for the whole origin passes" "" "$(grep -iE "$wide(:|\$)" "$tmp/head" | paste -sd' ')"
equal "no cookie of ours, without a name, or for other hosts" "" "$(grep -i theirs "$tmp/head" | paste -sd' ')"
cookies=$(grep -ci '^set-cookie: c' "$tmp/head")
[ "$cookies" -ge 8 ] && [ "$cookies" -le 16 ] && ok "cookies pass, $cookies of 80" || fail "$cookies of 80 cookies pass"
equal "what is about the answer passes" 2 "$(grep -cE '^(X-Kept: yes|Content-Security-Policy: )' "$tmp/head")"

equal "none of them passes behind the body" "fine 0" \
	"$(routed /trailers --raw -D "$tmp/h" -o "$tmp/b"; tr -d '\r\n' <"$tmp/b" | sed 's/^4fine0$/fine/') $(cat "$tmp/h" "$tmp/b" | grep -ciE 'trailer|cookie|clear')"

# --- 1xx
routed '/interim?3' -D "$tmp/h" -o "$tmp/b"
equal "three answers of 1xx and the one that counts" "3 fine" "$(grep -c '^HTTP/1.1 103' "$tmp/h") $(cat "$tmp/b")"
equal "none to a client of HTTP/1.0" "0 fine" "$(routed '/interim?3' --http1.0 -D "$tmp/h"  -o "$tmp/b"; grep -c '^HTTP/1.1 103' "$tmp/h") $(cat "$tmp/b")"
equal "thousands are no answer" "502 port_bad_answer" \
	"$(routed '/interim?5000' -D "$tmp/h" -o "$tmp/b" -w '%{http_code}') $(jq -r .error.code "$tmp/b")"
[ "$(grep -c '^HTTP/1.1 103' "$tmp/h")" -le 16 ] && ok "and at most sixteen of them pass" || fail "$(grep -c 103 "$tmp/h") passed"

# --- pages of our own
page() {
	equal "$1" "403 page_not_allowed" "$(routed / "${@:2}" -o "$tmp/b" -w '%{http_code}') $(jq -r .error.code "$tmp/b")"
}
page "a page that fetches" -H 'Sec-Fetch-Site: same-origin' -H 'Sec-Fetch-Mode: cors' -H 'Sec-Fetch-Dest: empty'
page "a page's form or script with an Origin" -H "Origin: https://$address"
page "both" -H "origin: HTTPS://$address" -H 'sec-fetch-site: SAME-ORIGIN'
equal "a page of another origin, by way of its gateway" fine "$(routed / -H 'Origin: https://app.example')"
audited() {
	muxctl audit --limit 1000 -o json | jq -s -e 'flatten | [.. | objects | select(.event? == "auth.fail" and .detail.what? == "page")] | length >= 1' >/dev/null
}
wait_for 30 audited && ok "refused pages are in the audit log" || fail "$(muxctl audit --limit 5 -o json)"
