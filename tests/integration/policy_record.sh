#!/bin/bash
# shellcheck disable=SC2016
# What is recorded, by task profile: one program under two tasks leaves two recordings, each as its profile's rule says; both
# verify, for the second reader too, and are exported. A profile goes below a floor of the configuration nowhere, and keeps its
# rule over a reload and a restart of the recorder and of the hub.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
policy=$tmp/policy.yaml
cat >"$tmp/muxd.yaml" <<YAML
policy: {file: $policy}
record:
  rules:
  - {kind: service, rule: truncated, head: 300, tail: 200, floor: true}
  - {rule: truncated, head: 1KiB, tail: 1KiB}
YAML
cat >"$policy" <<'YAML'
policy: 1
otherwise: as_granted
profiles:
- name: whole
  match: {task: "whole-*"}
  allow: [sandbox.wake, round.*, file.*, exec.open]
  record: [{session: round, rule: full}, {session: file, rule: full}]
- name: secret
  match: {task: "secret-*"}
  allow: [sandbox.wake, round.*, file.*, exec.open]
  record: metadata
- name: part
  match: {task: "part-*"}
  allow: [sandbox.wake, round.*]
  record: {rule: truncated, head: 100, tail: 500}
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
# KIND NAME: a token for task NAME-1
of() { PRINCIPAL=$2-$1 GRANT_TASK=$2-1 new_token demo "$1" terminal,rounds,files; }
program='{"argv":["sh","-c","i=0; while [ $i -lt 1000 ]; do echo line-$i; i=$((i+1)); done"],"wait_ms":60000}'
round() { api "$1" POST /v1/agents/demo/rounds "${2-$program}" | jq -r .round_id; }
whole=$(of agent whole) secret=$(of agent secret) part=$(of agent part) free=$(of agent free)
a=$(round "$whole") b=$(round "$secret") c=$(round "$part") d=$(round "$free")
e=$(round "$(of service secret)") f=$(round "$(of service part)") g=$(round "$(of service whole)")
printf 'one file' >"$tmp/file"
put() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $1" -T "$tmp/file" "https://$(ready https)/v1/agents/demo/files?path=$2"; }
put "$whole" kept | grep -q kept && put "$secret" left | grep -q left || fail "no files"
sshc "$whole" demo 'echo of the configuration' </dev/null >/dev/null || fail "no exec"

last_of() { muxctl session list --all -o json | jq -r --arg t "$1" --arg k "$2" '[.sessions[] | select(.task == $t and .kind == $k)][0].id'; }
for id in $a $b $c $d $e $f $g; do
	sealed() { muxctl verify "$id" >"$tmp/verify"; }
	wait_for 20 sealed || fail "$id does not verify: $(cat "$tmp/verify")"
done
ok "all verify"
kept() { muxctl export "$1" --format raw --stream stdout 2>/dev/null | wc -c; }
rule() { muxctl export "$1" --format json | jq -rs '[.[] | .. | objects | select(.v == 1 and .kind)][0].record | if . then "\(.rule) \(.head) \(.tail) \(.by)" else "none" end'; }
total=$(seq 0 999 | sed 's/^/line-/' | wc -c)
equal "the same program, everything of it" "$total full null null whole/record" "$(kept "$a") $(rule "$a")"
equal "and nothing" "0 metadata null null secret/record" "$(kept "$b") $(rule "$b")"
equal "and head and tail" "600 truncated 100 500 part/record" "$(kept "$c") $(rule "$c")"
equal "of no profile as the configuration says" "2048 none" "$(kept "$d") $(rule "$d")"
equal "below a floor nobody goes" "500 metadata null null secret/record" "$(kept "$e") $(rule "$e")"
equal "of two that truncate the longer head and tail" 800 "$(kept "$f")"
equal "above it everybody may" "$total" "$(kept "$g")"
equal "length and digest are there whatever is kept" "$(muxctl export "$a" --format json | jq -rs '[.[] | .. | objects | .sha256?.stdout // empty][0]')" \
	"$(muxctl export "$b" --format json | jq -rs '[.[] | .. | objects | .sha256?.stdout // empty][0]')"
equal "a file of a profile that names files" "one file" "$(muxctl export "$(last_of whole-1 file)" --format raw --stream input 2>/dev/null)"
equal "and of one that names everything: metadata, as ever" "" "$(muxctl export "$(last_of secret-1 file)" --format raw --stream input 2>/dev/null)"
equal "a session that the profile's list leaves out is the configuration's" "of the configuration" \
	"$(muxctl export "$(last_of whole-1 exec)" --format raw --stream stdout)"
muxctl export "$b" --format asciicast-v2 >"$tmp/cast" && jq -es length "$tmp/cast" >/dev/null && ok "one without bytes is exported, too" || fail "$(cat "$tmp/cast")"
/usr/bin/python3 "$here/tools/mrec.py" check "$tmp/state/record" >"$tmp/second" 2>&1 && ok "the second reader finds it whole" || fail "$(tail -n 5 "$tmp/second")"

# What runs keeps its rule: over a reload of the policy, a kill of the recorder and of the hub.
slow='{"argv":["sh","-c","echo begun; while [ ! -e go ]; do sleep 0.1; done; seq 1000"],"wait_ms":500}'
s=$(round "$secret" "$slow")
muxctl policy diff "$policy" <(sed 's/record: metadata/record: full/' "$policy") >"$tmp/diff"
grep -q 'round.start.*task=secret-x.*full' "$tmp/diff" && ok "policy diff shows what is recorded otherwise" || fail "$(cat "$tmp/diff")"
muxctl policy test "$policy" round.start task=part-1 | grep -q 'recorded: truncated, 100 and 500 bytes' && ok "so does policy test" || fail "policy test"
sed -i 's/record: metadata/record: full/' "$policy"
muxctl config reload || fail "no reload"
kill -KILL "$(ready pids.recorder)"
wait_for 20 muxctl head >/dev/null || fail "the recorder is not back"
net=$(ready pids.net)
kill -KILL "$net"
back() { [ "$(ready pids.net)" != "$net" ] && api "$free" GET /v1/agents/demo >/dev/null; }
wait_for 20 back || fail "the hub is not back"
api "$free" POST /v1/agents/demo/fs/write '{"path":"go","data":"x"}' >/dev/null || fail "no file"
sealed() { muxctl verify "$s" >/dev/null; }
wait_for 30 sealed || fail "it did not end: $(muxctl verify "$s")"
equal "the rule of its beginning" "0 metadata null null secret/record" "$(kept "$s") $(rule "$s")"
equal "what begins now has the new one" "$total" "$(n=$(round "$secret"); sealed() { muxctl verify "$n" >/dev/null; }; wait_for 20 sealed >/dev/null; kept "$n")"

# A file with a mistake.
sed -i 's/record: full$/record: {rule: metdata}/' "$policy"
muxctl config reload 2>"$tmp/err" && fail "taken"
grep -q 'policy.yaml:11:18: rule of record is "metdata": did you mean metadata?' "$tmp/err" && ok "a rule that there is none of is refused by line and column" || fail "$(cat "$tmp/err")"
