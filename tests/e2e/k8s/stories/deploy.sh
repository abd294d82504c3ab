#!/bin/bash
# muxd as it is deployed: images made without an engine, `kubectl apply -k`, a certificate by deploy/tls.sh; then, against that
# pod, both doors, a round in a sandbox pod that it makes, nobody else's exec into it, staff by the cluster's own rules, the
# record verified inside, the daemon's pod replaced under a running program, and everything deleted again.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

box=muxd-sandboxes
# The overlay as it is; for kubectl before 1.21 in the words of its time, which later ones call deprecated.
overlay=$here/deploy/kustomize/tests
if [ "$(kubectl version --client -o json 2>/dev/null | jq -r '.clientVersion.minor' | tr -dc 0-9)" -lt 21 ]; then
	cp -r "$here/deploy/kustomize" "$tmp/kustomize"
	overlay=$tmp/kustomize/tests
	sed -i 's/^resources:/bases:/; s/^patches:/patchesStrategicMerge:/; s/^- path: /- /' "$overlay/kustomization.yaml"
fi
end_deploy() {
	kubectl delete -k "$overlay" --ignore-not-found --wait=false --request-timeout=10s >/dev/null 2>&1
	end_story
}
trap end_deploy EXIT

images
ok "two images, $(du -m "$tmp/muxd.tar" | cut -f1) and $(du -m "$tmp/muxlet.tar" | cut -f1) MB"
cluster volume "muxd-$$" 256Mi
cluster storage start || fail "no storage"

# what an earlier turn left goes by itself; nothing can be made in a namespace that is going
none_left() { [ -z "$(kubectl get namespace muxd $box --ignore-not-found -o name)" ]; }
wait_for 120 none_left || fail "an earlier muxd is still there: $(kubectl get namespace muxd $box)"
kubectl apply -k "$overlay" >"$tmp/applied" || fail "kubectl apply -k: $(cat "$tmp/applied")"
"$here/deploy/tls.sh" >"$tmp/tls" || fail "tls.sh: $(cat "$tmp/tls")"
grep -q 'the webhook trusts it' "$tmp/tls" && ok "a certificate, and the webhook's trust in it" || fail "tls.sh: $(cat "$tmp/tls")"
equal "tls.sh again changes nothing" "the webhook trusts it" "$("$here/deploy/tls.sh")"
is_ready() { kubectl -n muxd wait pod muxd-0 --for=condition=Ready --timeout=5s; }
wait_for 60 is_ready || fail "muxd is not ready: $(kubectl -n muxd describe pod muxd-0 | tail -n 5) $(kubectl -n muxd logs muxd-0 2>&1 | tail -n 5)"
ok "ready"

# --- the doors
address=$(kubectl -n muxd get pod muxd-0 -o jsonpath='{.status.podIP}')
kubectl -n muxd get secret muxd-tls -o 'jsonpath={.data.ca\.crt}' | base64 -d >"$tmp/ca.crt"
# https METHOD PATH TOKEN [JSON]: under the name that the certificate has
https() {
	curl -sS --noproxy '*' --cacert "$tmp/ca.crt" --connect-to "muxd.muxd.svc:443:$address:8443" -X "$1" -H "Authorization: Bearer $3" \
		-H 'Content-Type: application/json' ${4:+--data-binary "$4"} "https://muxd.muxd.svc$2"
}
equal "https by the service's name" "ready" "$(https GET /readyz none | jq -r .status)"
inside() { timeout 60 kubectl -n muxd exec muxd-0 -- muxctl "$@"; }
inside grant create --agent coder --principal tester --kind staff --scopes terminal,rounds --task story --ttl 15m --reason 'deploy story' \
	-o json >"$tmp/grant" || fail "muxctl inside makes no grant"
token=$(jq -r .token "$tmp/grant")
kubectl -n muxd exec muxd-0 -- sh -c true 2>/dev/null && fail "the image has a shell" || ok "no shell in the image"
equal "who it runs as" "64800" "$(kubectl -n muxd get pod muxd-0 -o jsonpath='{.spec.securityContext.runAsUser}')"

# --- a sandbox
round() { https POST "/v1/agents/$1/rounds" "$2" "$3"; }
round coder "$token" '{"task_id": "story", "argv": ["sh", "-c", "id -u; echo kept >/workspace/file; exit 7"], "wait_ms": 60000}' >"$tmp/round"
id=$(jq -r '.round_id // empty' "$tmp/round")
[ -n "$id" ] || fail "no round: $(cat "$tmp/round")"
over() { https GET "/v1/rounds/$id?wait_ms=5000" "$token" >"$tmp/round" && [ "$(jq -r .state "$tmp/round")" = finished ]; }
wait_for 60 over || fail "the round does not end: $(cat "$tmp/round")"
equal "a round in a pod that muxd made" "exit 7 1000" "$(jq -r '"\(.exit.cause) \(.exit.code) \(.stdout.data)"' "$tmp/round" | xargs)"
pod=$(kubectl -n $box get pods -l agent_id=coder -o jsonpath='{.items[0].metadata.name}')
equal "its pod" "muxd-coder" "$pod"
SSHPASS=$token sshpass -e ssh -F none -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" -o LogLevel=ERROR \
	-o PreferredAuthentications=password -l coder "$address" 'cat file' </dev/null >"$tmp/out" 2>"$tmp/err"
equal "the same workspace over ssh" "kept" "$(cat "$tmp/out" "$tmp/err")"

# --- idle, a sandbox sleeps, and wakes with its files: nothing is configured for that but the class of its storage
inside grant create --agent sleeper --principal tester --kind staff --task story --scopes terminal,rounds --ttl 15m --reason 'deploy story' -o json >"$tmp/grant2" ||
	fail "no second grant"
rested=$(jq -r .token "$tmp/grant2")
wrote() { [ "$(round sleeper "$rested" '{"task_id": "story", "argv": ["sh", "-c", "echo slept >/workspace/file"], "wait_ms": 60000}' | jq -r .exit.code)" = 0 ]; }
wait_for 60 wrote || fail "no round in the sandbox that is to sleep"
asleep() { [ "$(inside sandbox show sleeper -o json | jq -r .state)" = stopped ]; }
wait_for 60 asleep && ok "an idle sandbox sleeps" || fail "it does not sleep: $(inside sandbox show sleeper)"
equal "it has no pod" "" "$(kubectl -n $box get pods -l agent_id=sleeper -o name)"
equal "it wakes with its files" slept "$(round sleeper "$rested" '{"task_id": "story", "argv": ["cat", "/workspace/file"], "wait_ms": 60000}' | jq -r .stdout.data | xargs)"

# --- nobody enters past muxd: the cluster's administrator is the one who may do everything else
# denied WORDS COMMAND...
denied() {
	local words=$1
	shift
	timeout 60 "$@" >"$tmp/out" 2>&1 </dev/null && fail "allowed: $*"
	grep -q "$words" "$tmp/out" && ok "denied to the administrator: $4" || fail "$* was denied otherwise: $(cat "$tmp/out")"
}
denied "muxctl exec $box/$pod/sandbox -- COMMAND" kubectl -n $box exec "$pod" -- id
denied "muxctl exec $box/$pod" kubectl -n $box attach "$pod"
timeout 20 kubectl -n $box port-forward "$pod" 0:80 >"$tmp/out" 2>&1 &
forward=$!
denied_forward() { exec 3<>"/dev/tcp/127.0.0.1/$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "$tmp/out")"; }
wait_for 5 grep -q 'takes no connections\|Forwarding' "$tmp/out"
if grep -q Forwarding "$tmp/out"; then denied_forward 2>/dev/null; fi
wait_for 5 grep -q 'takes no connections' "$tmp/out" && ok "denied: port-forward" || fail "port-forward: $(cat "$tmp/out")"
kill $forward 2>/dev/null
wait $forward 2>/dev/null
pod free localhost/busybox:1 sleep 3600
equal "other namespaces are as they were" "fine" "$(kubectl exec free -- echo fine)"

# --- staff by the cluster's own rules. 1.20 has no `kubectl create token`, and has the TokenRequest behind it.
kubectl create serviceaccount anna >/dev/null
# token_of AUDIENCE
token_of() {
	kubectl create --raw "/api/v1/namespaces/$ns/serviceaccounts/anna/token" -f - <<<"{\"apiVersion\": \"authentication.k8s.io/v1\",
		\"kind\": \"TokenRequest\", \"spec\": {\"audiences\": [\"$1\"], \"expirationSeconds\": 600}}" | jq -r .status.token
}
anna=$(token_of muxd)
wish="{\"target\": \"coder\", \"reason\": \"deploy story\", \"ttl\": \"8h\"}"
# ask TOKEN [WISH]: the error's code, or how much was given
ask() { https POST /v1/grants "$1" "${2:-$wish}" | tee "$tmp/given" | jq -r '.error.code // "\(.kind) \(.principal) \(.scopes)"'; }
equal "whom the rules do not let exec" "forbidden" "$(ask "$anna")"
kubectl -n $box create role look --verb=get --resource=pods/exec >/dev/null
kubectl -n $box create rolebinding look --role=look --serviceaccount="$ns:anna" >/dev/null
only_get() { [ "$(ask "$anna")" = forbidden ] && grep -q 'create pods/exec' "$tmp/given"; }
wait_for 10 only_get && ok "get alone is not enough" || fail "get alone: $(cat "$tmp/given")"
kubectl -n $box create role enter --verb=create --resource=pods/exec --resource-name=muxd-coder >/dev/null
kubectl -n $box create rolebinding enter --role=enter --serviceaccount="$ns:anna" >/dev/null
may() { [ "$(ask "$anna")" = "staff system:serviceaccount:$ns:anna terminal,rounds" ]; }
wait_for 10 may && ok "whom they do gets a grant in his cluster's name" || fail "no grant: $(cat "$tmp/given")"
ends=$(date -d "$(jq -r .expires_at "$tmp/given")" +%s)
[ "$ends" -le $(($(date +%s) + 610)) ] && ok "for as long as the configuration allows" || fail "it lasts until $ends"
equal "with which a round runs" "hello" "$(round coder "$(jq -r .token "$tmp/given")" '{"argv": ["echo", "hello"], "wait_ms": 30000}' | jq -r .stdout.data)"
equal "for that pod alone" "forbidden" "$(ask "$anna" "${wish/coder/other}")"
equal "scopes beyond the configured" "forbidden" "$(ask "$anna" "${wish/\"ttl\"/\"scopes\": \"replay\", \"ttl\"}")"
equal "a token for the API server itself" "unauthenticated" "$(ask "$(token_of https://kubernetes.default.svc)")"
secret=$(kubectl get serviceaccount anna -o jsonpath='{.secrets[0].name}')
equal "a token without an audience" "unauthenticated" "$(ask "$(kubectl get secret "$secret" -o jsonpath='{.data.token}' | base64 -d)")"
equal "no token at all" "unauthenticated" "$(ask a.b.c)"

# --- the daemon's pod goes; the program, its sandbox and the record stay
round coder "$token" '{"task_id": "story", "argv": ["sh", "-c", "while [ ! -e /workspace/go ]; do sleep 0.2; done; echo lived"], "wait_ms": 0}' >"$tmp/round"
id=$(jq -r .round_id "$tmp/round")
uid=$(kubectl -n muxd get pod muxd-0 -o jsonpath='{.metadata.uid}')
kubectl -n muxd delete pod muxd-0 --wait=true --timeout=60s >/dev/null || fail "muxd's pod does not go"
another() { [ "$(kubectl -n muxd get pod muxd-0 -o jsonpath='{.metadata.uid}')" != "$uid" ] && is_ready; }
wait_for 60 another || fail "muxd does not come again: $(kubectl -n muxd describe pod muxd-0 | tail -n 5) $(kubectl -n muxd logs muxd-0 2>&1 | tail -n 5)"
inside verify --all >"$tmp/out" 2>&1 && ok "the record verifies at once, with a recording open: $(grep ^recordings "$tmp/out")" ||
	fail "verify after the replacement: $(cat "$tmp/out")"
address=$(kubectl -n muxd get pod muxd-0 -o jsonpath='{.status.podIP}')
round coder "$token" '{"task_id": "story", "argv": ["touch", "/workspace/go"], "wait_ms": 30000}' >"$tmp/touch"
wait_for 60 over || fail "the round was lost: $(cat "$tmp/round"); $(cat "$tmp/touch")"
equal "a program outlives the daemon's pod" "exit lived" "$(jq -r '"\(.exit.cause) \(.stdout.data)"' "$tmp/round" | xargs)"

verified() { inside verify --all >"$tmp/out" 2>&1; }
verified && ok "the record verifies inside: $(grep ^recordings "$tmp/out")" || fail "verify: $(cat "$tmp/out")"
kubectl delete -k "$overlay" --timeout=120s >"$tmp/out" 2>&1 || fail "kubectl delete -k: $(cat "$tmp/out")"
equal "everything is deleted" "" "$(kubectl get namespaces,clusterroles,clusterrolebindings,validatingwebhookconfigurations -o name | grep -i muxd)"
