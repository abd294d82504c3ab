#!/bin/bash
# The plain backend: sessions straight on exec streams of the real kubelet, with a shell in the image and without. What the
# protocol cannot do is named in the answer; what is killed is gone, or said to be left. Which protocol it is, is asked: on v4
# no end of input can be said, on v5 (Kubernetes 1.30 and later) it can.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make --no-print-directory -C "$here" "${BUILD#"$here"/}"/e2e/{plain,rc}_probe >"$tmp/make" 2>&1 || fail "the probes: $(tail -n 5 "$tmp/make")"
pod box localhost/busybox:1 sh -c 'while :; do sleep 1; done'
pod bare localhost/static:1
protocol=$(PROBE_STATS=1 timeout 60 "$BUILD/e2e/rc_probe" "$KUBECONFIG" "$ns/box" true 2>&1 >/dev/null | sed -n 's/^\(v[0-9]*\) .*/\1/p' | tail -n 1)
case $protocol in v4 | v5) ok "the protocol here is $protocol" ;; *) fail "no protocol is told: '$protocol'" ;; esac
# probe [OPTIONS] -- POD PROGRAM...: stdout to $tmp/out; $end is the last line, how it ended
probe() {
	local o=()
	while [ "$1" != -- ]; do o+=("$1"); shift; done
	timeout 300 "$BUILD/e2e/plain_probe" "${o[@]}" "$KUBECONFIG" "$ns/$2/$2" "${@:3}" >"$tmp/out" 2>"$tmp/err"
	rc=$?
	end=$(sed -n 's/^probe: //p' "$tmp/err" | tail -n 1)
}
# left: programs of sessions in box that are not dead, by the arguments they were given
left() { kubectl exec box -- ps -o stat,args </dev/null | grep -v '^Z' | grep -c 'sleep 6[0-9][0-9]$'; }
are_left() { test "$(left)" "$@"; }
ends() { grep -qE "^$2" <<<"$end" && ok "$1" || fail "$1: no '$2' in: $end"; }

probe -- box sh -c 'echo out; echo err >&2; exit 7'
equal "a round's code" "7 exit 7 - " "$rc $end"
equal "its stdout" "out" "$(cat "$tmp/out")"
equal "its stderr, apart" "err" "$(grep -v '^probe:' "$tmp/err")"
probe -- box sh -c 'kill -9 $$'
equal "a kill is a code on this protocol" "exit 137 - " "$end"
probe -c /etc -e 'A=b "c" $(id)' -- box sh -c 'echo "$A|$PWD"'
equal "environment and place" 'b "c" $(id)|/etc' "$(cat "$tmp/out")"
probe -- box nosuch
ends "a program that is not there" 'not_started -1 exec'
probe -c /nope -- box true
ends "a directory that is not there" 'not_started -1 cwd'
probe -t -r 132x43 -- box sh -c 'stty size; sleep 2; stty size'
equal "a terminal has its size at once, and its next" "24 80 43 132" "$(tr -d '\r' <"$tmp/out" | xargs)"
probe -t -i -- box '' < <(printf 'echo $((6*7))\n')
grep -q 42 "$tmp/out" && ok "a shell, which the end of input ends" || fail "no 42 in: $(cat "$tmp/out")"

head -c 104857600 /dev/urandom >"$tmp/big"
sum=$(sha256sum <"$tmp/big")
probe -i -- box sh -c 'tee /tmp/big | wc -c' <"$tmp/big"
equal "100 MB in, and their end" "104857600" "$(cat "$tmp/out")"
probe -- box cat /tmp/big
equal "100 MB out, byte by byte" "$sum" "$(sha256sum <"$tmp/out")"
kubectl exec box -- rm /tmp/big </dev/null

probe -k 300 -- box sh -c 'sleep 600 & setsid sleep 600 & sleep 600'
ends "a kill ends the tree" 'killed 143'
probe -k 300 -g 500 -- box sh -c 'trap "" TERM; setsid sleep 601 & sleep 601; sleep 601'
ends "and one that does not listen" 'killed 137'
probe -T 500 -t -- box sleep 602
ends "a timeout is a cause" 'timeout'
equal "nothing of them is left" 0 "$(left)"
probe -n 200 -t -- box sh -c 'sleep 603 & echo on; sleep 603'
equal "200 sessions, opened and cut: each was killed" "200 killed, 0 left_running, 0 unknown of 200" "$end"
equal "as the pod says too" 0 "$(left)"

probe -x 300 -- box sh -c 'sleep 604 & sleep 604'
until_ok 30 are_left -gt 0 || fail "the session of a daemon that went did not run"
probe -- box true
until_ok 30 are_left -eq 0 && ok "what a daemon left behind is ended by its next life" || fail "left: $(left)"
probe -- box sh -c 'setsid sleep 605 >/dev/null 2>&1 & exit 0'
probe -- box true
equal "what a session left in the background is not" 1 "$(left)"
kubectl exec box -- sh -c 'kill $(pidof sleep)' </dev/null

probe -- bare /static args one two
equal "an image without a shell" "one two" "$(xargs <"$tmp/out")"
probe -- bare /static exit 7
equal "its code" "exit 7 - " "$end"
probe -c / -- bare /static args
ends "what needs a shell is refused by name" 'not_started -1 no_shell no shell in this image'
probe -t -- bare ''
ends "so is a shell" 'not_started -1 no_shell'
probe -k 1500 -- bare /static sleep 20
ends "what cannot be ended is said to be left" 'unknown -1 - left_running'
probe -i -- bare /static cat </dev/null
equal "no input can be said" "exit 0 - " "$end"
probe -i -- bare /static cat < <(printf abc)
if [ "$protocol" = v4 ]; then
	ends "its end cannot" 'not_started -1 no_end_of_input'
else
	equal "and its end" "exit 0 - abc" "$end$(cat "$tmp/out")"
fi

(sleep 2; cluster apiserver stop; sleep 3; cluster apiserver start) &
probe -t -- box sh -c 'echo on; sleep 606'
wait
ends "an API server that goes ends its sessions, with that cause" 'lost -1 - left_running: the connection was lost'
until_ok 60 probe -- box true
until_ok 30 are_left -eq 0 && ok "and what they left is ended later" || fail "left: $(left)"
probe_as() { KUBECONFIG=$1 probe "${@:2}"; }
kubectl config view --raw --minify >"$tmp/story.kubeconfig"
KUBECONFIG=$tmp/story.kubeconfig kubectl config set-credentials story --token="$(cat "$K8S_HOME/pki/story.token")" >/dev/null
KUBECONFIG=$tmp/story.kubeconfig kubectl config set-context --current --user=story >/dev/null
probe_as "$tmp/story.kubeconfig" -- box true
ends "a refusal has the cluster's words" 'not_started -1 k8s_forbidden .*"box" is forbidden'

# --- the same through the daemon, pinned to plain
printf 'kubernetes: {kubeconfig: %s, backend: plain}\n' "$KUBECONFIG" >"$tmp/muxd.yaml"
chmod 711 "$tmp"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
trap 'stop_daemon; end_story' EXIT
exec_in() { timeout 120 "$MUXCTL" --state "$MUXD_STATE" exec "$ns/$1/$1" "${@:2}"; }
exec_in box -- sh -c 'echo out; exit 7' </dev/null >"$tmp/out"
equal "a round through the daemon" "7 out" "$? $(cat "$tmp/out")"
equal "its input, and its end" "3" "$(printf abc | exec_in box -- wc -c)"
exec_in bare --cwd / -- /static args </dev/null 2>"$tmp/err"
grep -q 'no shell in this image.*' "$tmp/err" && grep -q '\[no_shell\]' "$tmp/err" && ok "no shell, by name" || fail "otherwise: $(cat "$tmp/err")"
printf abc | exec_in bare -- /static cat >"$tmp/out" 2>"$tmp/err"
if [ "$protocol" = v4 ]; then
	grep -q 'no_end_of_input: this cluster' "$tmp/err" && ok "no end of input, by name" || fail "otherwise: $(cat "$tmp/err")"
else
	equal "the end of input" abc "$(cat "$tmp/out")"
fi
token=$(new_token "$ns/box/box" staff rounds,terminal,observe,replay)
answer=$(api "$token" GET "/v1/agents/${ns}%2Fbox%2Fbox")
equal "how it is reached, and why" "plain kubernetes.backend is plain" "$(jq -r '.backend + " " + .backend_reason' <<<"$answer")"
(exec_in box -- sh -c 'echo on; sleep 607' </dev/null >"$tmp/out" 2>"$tmp/err"; echo "$?" >"$tmp/code") &
cut=$!
until_ok 30 grep -q on "$tmp/out" || fail "the session did not begin: $(cat "$tmp/err")"
cluster apiserver stop
wait $cut
grep -q left_running "$tmp/err" && ok "an API server that goes: $(grep -m 1 left_running "$tmp/err")" || fail "otherwise: $(cat "$tmp/err")"
cluster apiserver start
until_ok 60 are_left -eq 0 && ok "its program is ended by the daemon that lost it" || fail "left: $(left)"

# --- a crowd: some run, the others are told their place, all are served
umask 077
new_token "$ns/box/box" staff terminal,observe >"$tmp/token"
python3 "$here/tests/e2e/k8s/crowd.py" "$(ready https)" "$MUXD_STATE/keys/tls.crt" "${ns}%2Fbox%2Fbox" "$tmp/token" 100 32 >"$tmp/out" 2>&1 ||
	fail "100 terminals: $(tail -n 3 "$tmp/out")"
while read -r line; do ok "100 terminals: $line"; done <"$tmp/out"
stop_daemon
printf 'kubernetes: {kubeconfig: %s, backend: plain, plain_programs: 2}\n' "$KUBECONFIG" >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start again"
token=$(new_token "$ns/box/box" staff rounds,terminal,observe)
long=()
for i in 1 2; do
	exec_in box -- sh -c "echo on; sleep 60$i" </dev/null >"$tmp/long$i" 2>&1 &
	long+=($!)
done
until_ok 30 grep -q on "$tmp/long1" && until_ok 30 grep -q on "$tmp/long2" || fail "no two programs: $(cat "$tmp"/long[12])"
waiting() { api "$token" GET /v1/sessions | jq -r '.sessions[] | select(.state == "opening") | .waits'; }
is_waiting() { waiting | grep -q "^waiting: place $1, 2 programs run in this container"; }
mkfifo "$tmp/keys"
sshx "$token" "$ns/box/box" -tt <"$tmp/keys" >"$tmp/ssh" 2>&1 &
login=$!
exec 7>"$tmp/keys"
until_ok 30 grep -q 'waiting: place 1 of 1, 2 programs run in this container; Ctrl-C gives up' "$tmp/ssh" && is_waiting "1 of 1" &&
	ok "a login is told its place, and so is who asks for the sessions" || fail "otherwise: $(cat "$tmp/ssh"; waiting)"
exec_in box -- echo third </dev/null >"$tmp/third" 2>&1 &
third=$!
until_ok 30 is_waiting "2 of 2" || fail "the round is not behind it: $(waiting)"
printf '\003' >&7
wait $login
grep -q 'it was ended while it waited for its turn' "$tmp/ssh" && ok "Ctrl-C gives up" || fail "otherwise: $(cat "$tmp/ssh")"
until_ok 30 is_waiting "1 of 1" && ok "who was behind moves up" || fail "otherwise: $(waiting)"
exec 7>&-
end_sleep() { kubectl exec box -- sh -c "kill \$(ps -o pid,args | sed -n 's/^ *\([0-9]*\) sleep $1\$/\1/p')" </dev/null; }
end_sleep 601
wait $third
equal "and has its turn when one ends" third "$(tail -n 1 "$tmp/third")"
end_sleep 602
wait "${long[1]}"
equal "the other was ended by its signal" 143 $?
