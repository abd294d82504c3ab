#!/bin/bash
# Image and resources by task profile: what a profile does not list is refused by name before anything is made, what nobody
# named is the profile's own, more than its most is refused or clipped; whether a sandbox is made by a call for that, by a
# round, a fork or a lease. A file that names an image which the operator does not allow is not loaded.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

make="$(dirname "$0")/../lib/oci_make.py"
chmod 0711 "$tmp"
mkdir "$tmp/img"
one=$(/usr/bin/python3 "$make" good "$tmp/img/one.tar" one) || fail "no image"
two=$(/usr/bin/python3 "$make" good "$tmp/img/two.tar" two) || fail "no image"
chmod -R a+rX "$tmp/img"
policy=$tmp/policy.yaml
cat >"$tmp/muxd.yaml" <<YAML
policy: {file: $policy}
sandbox:
  memory: 256MiB
  workspace_size: 32MiB
  images:
  - {name: python, archive: $tmp/img/one.tar, digest: "$one"}
  - {name: node, archive: $tmp/img/two.tar, digest: "$two"}
  - {name: pod, ref: registry.example/pod}
YAML
cat >"$policy" <<'YAML'
policy: 1
otherwise: as_granted
profiles:
- name: fix
  match: {task: "fix-*"}
  allow: [sandbox.*, snapshot.*, round.*, file.*, lease.hold, artifact.*]
  image: python
  resources: {most: {memory: 128Mi, pids: 100}, default: {memory: 64Mi}}
- name: web
  match: {task: "web-*"}
  allow: [sandbox.*, snapshot.*, round.*]
  image: [python, node]
  resources: {most: {memory: 128Mi}, over: clip}
- name: plain
  match: {task: "plain-*"}
  allow: [sandbox.*, round.*, lease.hold]
  image: {allow: [none, node], default: none}
- name: asks
  match: {task: "asks-*"}
  allow: [sandbox.wake, round.*]
  image: {default: node}
- name: staff
  match: {kind: staff}
  allow: ["*"]
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
token() { PRINCIPAL=$1 GRANT_TASK=$1-1 new_token '*' service terminal,rounds,files,lifecycle; }
fix=$(token fix) web=$(token web) plain=$(token plain) asks=$(token asks) free=$(token free)
said() { jq -r '[.error.code // "fine", .error.details.policy.rule // "-"] | join(" ")' "$tmp/o"; }
try() { api "$1" "$2" "$3" "${4-}" >"$tmp/o" 2>/dev/null; said; }
row() { muxctl sandbox show "$1" -o json 2>/dev/null | jq -r "$2"; }
absent() { equal "$1 was not made" not_found "$(muxctl sandbox show "$2" -o json 2>&1 | grep -o not_found | head -1)"; }
run='{"argv":["sh","-c","cat /etc/image-name 2>/dev/null || echo host"],"wait_ms":60000}'
runs() { api "$1" POST "/v1/agents/$2/rounds" "$run" >"$tmp/o" && jq -r '.stdout.data // .error.code' "$tmp/o"; }
denials() { muxctl audit --agent "$1" --event policy.deny -n 50 -o json | jq -s "$2"; }

# By a call for that.
equal "an image outside of the list is refused by name" "policy_denied fix/image" "$(try "$fix" POST /v1/agents/a/resume '{"image":"node"}')"
equal "and what would allow it" "node in image of profile fix, which has: python" "$(jq -r .error.details.policy.needs "$tmp/o")"
explained=$(jq -r .error.request_id "$tmp/o")
equal "so is none" "policy_denied fix/image" "$(try "$fix" POST /v1/agents/a/resume '{"image":null}')"
equal "more than the most is refused by name" "policy_denied fix/resources" "$(try "$fix" POST /v1/agents/a/resume '{"resources":{"memory":"200Mi"}}')"
grep -q 'memory of 200Mi is over the 128Mi that profile \\"fix\\" allows' "$tmp/o" && ok "with both figures" || fail "$(cat "$tmp/o")"
absent "what was refused" a
equal "an event has image and resources of the first of its rule" '["node null","python 200Mi"]' \
	"$(denials a 'map(.record.detail | "\(.image) \(.resources.memory // null)")' | jq -c .)"
equal "nobody names one: it has the profile's" "fine -" "$(try "$fix" POST /v1/agents/a/resume '{}')"
equal "image, memory and processes" "python 64Mi 100" "$(jq -r '"\(.image) \(.resources.memory) \(.resources.pids)"' "$tmp/o")"
equal "and the answer says that they are its" "python 64Mi null" \
	"$(jq -r '.by_profile | "\(.image) \(.resources.memory) \(.clipped)"' "$tmp/o")"
equal "it is made so" "python 67108864" "$(row a '"\(.image_made_with) \(.resources_made_with.memory)"' | sed 's/64Mi/67108864/')"
equal "its programs are of it" one "$(runs "$fix" a)"
equal "the event of the call has it" "python 64Mi" "$(muxctl audit --agent a --event agent.resume -n 50 -o json |
	jq -sr '[.[].record | select(.outcome == "ok") | .detail.by_profile | select(.)][0] | "\(.image) \(.resources.memory)"')"
equal "what is within the most is as named" "fine 100Mi" "$(try "$fix" POST /v1/agents/a/resume '{"resources":{"memory":"100Mi"}}' | cut -d' ' -f1) $(row a .resources.memory)"
muxctl policy explain "$explained" >"$tmp/explained" || fail "no explanation"
grep -q 'fix/image' "$tmp/explained" && grep -q node "$tmp/explained" && grep -q 'image: python' "$tmp/explained" && ok "policy explain tells rule and image" || fail "$(cat "$tmp/explained")"

# Implicitly, by what runs.
equal "a round makes one of the profile's image" one "$(runs "$fix" b)"
equal "with its resources" "python 64Mi" "$(row b '"\(.image) \(.resources.memory)"')"
equal "which is an event of its own, ahead of the start" "session python" "$(muxctl audit --agent b --event policy.allow -n 9 -o json |
	jq -sr '.[0].record | "\(.detail.what) \(.detail.by_profile.image)"' | sed 's/^round/session/')"
equal "several and no default: one has to be named" "policy_denied web/image" "$(try "$web" POST /v1/agents/c/rounds "$run")"
equal "which ones, is told" "none in image of profile web, which has: python, node" "$(jq -r .error.details.policy.needs "$tmp/o")"
absent "nor by a round" c
equal "nor by a file" "policy_denied web/file.write" "$(try "$web" POST /v1/agents/c/fs/write '{"path":"x","data":"x"}')"
equal "one that is named will do" "fine -" "$(try "$web" POST /v1/agents/c/resume '{"image":"node","resources":{"memory":"1Gi"}}')"
equal "more than the most is clipped, and said" '128Mi ["memory"]' "$(jq -r '"\(.resources.memory) \(.by_profile.clipped | tojson)"' "$tmp/o")"
equal "it is kept where the profile has it" two "$(runs "$web" c)"
equal "a default without a list: any image" "two one" "$(runs "$asks" d) $(try "$free" POST /v1/agents/e/resume '{"image":"python"}' >/dev/null && runs "$asks" e)"
equal "a default of none" "host host" "$(runs "$plain" f) $(runs "$free" g)"
equal "nobody's profile: as granted" "null null" "$(row g '"\(.image) \(.resources)"')"

# One that another task made: while it runs nothing is made; asleep, its image counts where the profile has it.
equal "what runs was made before" two "$(runs "$fix" c)"
muxctl sandbox stop c --reason sleep >/dev/null || fail "no stop"
equal "woken under a profile without its image it has that profile's" one "$(runs "$fix" c)"
muxctl sandbox stop e --reason sleep >/dev/null || fail "no stop"
equal "none of them a default: refused" "policy_denied web/image" "$(muxctl sandbox resume e --no-image >/dev/null && muxctl sandbox stop e --reason sleep >/dev/null && try "$web" POST /v1/agents/e/rounds "$run")"
equal "and it sleeps on" stopped "$(row e .state)"

# Copies.
muxctl sandbox stop a --reason sleep >/dev/null || fail "no stop"
equal "a fork of an image that the profile has" "fine -" "$(try "$fix" POST /v1/agents/a/fork '{"as":"copy","writable":true}')"
equal "has that" python "$(row copy .image)"
equal "a fork with another is refused" "policy_denied fix/image" "$(try "$fix" POST /v1/agents/a/fork '{"as":"other","writable":true,"image":"node"}')"
absent "the copy" other
muxctl sandbox create n --image node >/dev/null && muxctl sandbox stop n --reason sleep >/dev/null || fail "no n"
equal "one of another image gets the profile's" "fine python" "$(try "$fix" POST /v1/agents/n/fork '{"as":"copy2","writable":true}' | cut -d' ' -f1) $(row copy2 .image)"
id=$(row n .workspace_snapshot_id)
equal "so does one that begins with its snapshot" "fine python" "$(try "$fix" POST /v1/agents/m/resume "{\"workspace\":\"snapshot:$id\"}" | cut -d' ' -f1) $(row m .image)"

# Sandboxes of the pool have no image, and all that the configuration gives.
lease='{"userId":"u","workflowId":"none","requestId":"r1"}'
equal "a lease is refused where the profile wants an image" "policy_denied fix/image" "$(try "$fix" POST /sandboxes/leases "$lease")"
case $(try "$plain" POST /sandboxes/leases "$lease") in policy_denied*) fail "$(cat "$tmp/o")" ;; *) ok "and is not where it has none" ;; esac

# MCP: image_ref and constraints.
create() {
	curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
		-H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: sandbox.session.create' "https://$(ready https)/mcp" \
		-d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"sandbox.session.create\",\"arguments\":$2,\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}" |
		sed 's/^data: //' | grep '^{' | jq -r '.result | if .isError then .content[0].text else .structuredContent | "\(.image) \(.resources.memory)" end' | cut -c1-40
}
equal "MCP has the same" "python 64Mi" "$(create "$fix" '{"task_id":"fix-1","session_id":"tool"}')"
create "$fix" '{"task_id":"fix-1","session_id":"tool2","image_ref":"node"}' >"$tmp/o"
grep -q '^policy_denied' "$tmp/o" && ok "an image_ref outside of the list is refused" || fail "$(cat "$tmp/o")"
create "$fix" '{"task_id":"fix-1","session_id":"tool2","constraints":{"resources":{"memory":"1Gi"}}}' >"$tmp/o"
grep -q '^policy_denied' "$tmp/o" && ok "so are constraints over the most" || fail "$(cat "$tmp/o")"
absent "by a tool" tool2

# The file: within what the operator allows, with place and the word that was meant.
cp "$policy" "$tmp/good"
refused() {
	cp "$tmp/good" "$policy"
	sed -i "$2" "$policy"
	muxctl config reload 2>"$tmp/err" && fail "taken: $2"
	grep -qF "$1" "$tmp/err" && ok "refused: ${1#*: }" || fail "$2: $(cat "$tmp/err")"
}
refused 'policy.yaml:7:10: image of profile "fix": pyton is not among sandbox.images, did you mean python?' 's/image: python$/image: pyton/'
refused 'policy.yaml:12:11: image of profile "web": sandbox.images has no archive and no dir for pod' 's/image: \[python, node\]/image: [pod, node]/'
refused 'policy.yaml:17:41: default of image of profile "plain" is not among those that it allows' 's/default: none/default: python/'
equal "the old one stays in force" "policy_denied fix/image" "$(try "$fix" POST /v1/agents/z/resume '{"image":"node"}')"
cp "$tmp/good" "$policy"
muxctl config reload || fail "the good one was not taken"
sed -i 's/name: python, archive/name: py, archive/' "$tmp/muxd.yaml"
muxctl config reload 2>"$tmp/err" && fail "an image was taken away from under a profile"
grep -q 'policy.yaml:7:10: image of profile "fix": python is not among sandbox.images' "$tmp/err" && ok "an image that a profile names stays in the configuration" || fail "$(cat "$tmp/err")"

# Offline.
equal "policy test says what it is made with" "allow  fix/sandbox.wake              sandbox.wake task=fix-1|       made with: image python, memory 64Mi, 100 processes" \
	"$(muxctl policy test "$policy" sandbox.wake task=fix-1 | paste -sd'|')"
muxctl policy test "$policy" sandbox.wake task=fix-1 image=node memory=1Gi >"$tmp/o"
grep -q '^deny   fix/image' "$tmp/o" && grep -q 'allowed by: node in image of profile fix' "$tmp/o" && ok "and what denies it" || fail "$(cat "$tmp/o")"
sed 's/image: python$/image: node/' "$tmp/good" >"$tmp/other"
muxctl policy diff "$policy" "$tmp/other" >"$tmp/o"
grep -q 'allow.*allow.*sandbox.wake.*task=fix-x.*image node' "$tmp/o" && grep -q 'deny.*allow.*image=node' "$tmp/o" && ok "policy diff has images" || fail "$(cat "$tmp/o")"

# Killed while such a start is under way: whoever waits is told, and the next one has what was said.
sed -i 's/name: py, archive/name: python, archive/' "$tmp/muxd.yaml"
kill -STOP "$(ready pids.monitor)"
api "$fix" POST /v1/agents/late/rounds "$run" >"$tmp/late" 2>&1 &
waits=$!
begun() { python3 -c 'import sqlite3, sys; sys.exit(not sqlite3.connect(sys.argv[1]).execute("SELECT 1 FROM agents WHERE agent = ?", ("late",)).fetchone())' "$(find "$MUXD_STATE" -name control.db)"; }
wait_for 30 begun || fail "it does not begin"
kill -9 "$DAEMON"
wait "$waits"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon after a kill"
equal "a start that was cut short is made as its profile says" "one python 64Mi" "$(runs "$fix" late) $(row late '"\(.image) \(.resources.memory)"')"
