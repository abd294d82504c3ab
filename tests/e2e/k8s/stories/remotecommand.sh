#!/bin/bash
# Exec streams of control/kube against a real kubelet (v4.channel.k8s.io): bytes both ways, exit codes, terminals, refusals in
# the API's own words, streams that are silent for longer than the server's idle limit, and what is left of them when the API
# server goes.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make --no-print-directory -C "$here" "${BUILD#"$here"/}/e2e/rc_probe" >"$tmp/make" 2>&1 || fail "rc_probe: $(tail -n 5 "$tmp/make")"
# probe [options] POD[/CONTAINER] ARGV...: like kubectl exec
probe() {
	local options=()
	while [[ $1 = -* ]]; do
		[ "$1" = -i ] && { options+=("$1") && shift; continue; }
		options+=("$1" "$2") && shift 2
	done
	timeout 200 "$BUILD/e2e/rc_probe" "${config:-$KUBECONFIG}" "${options[@]}" "$ns/$1" "${@:2}"
}
# refused WHAT EXIT-CODE PATTERN ARGUMENTS...: the probe ends so and says so
refused() {
	local what=$1 code=$2 pattern=$3 rc
	shift 3
	probe "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	rc=$?
	[ $rc -eq "$code" ] || fail "$what: exit code $rc, not $code: $(cat "$tmp/err")"
	grep -qE "$pattern" "$tmp/err" && ok "$what" || fail "$what: no '$pattern' in: $(cat "$tmp/err")"
}
pod box localhost/busybox:1 sleep 100000

equal "output" "hello" "$(probe box echo hello)"
probe box sh -c 'echo out; echo err >&2; exit 7' >"$tmp/out" 2>"$tmp/err"
equal "the exit code" 7 $?
equal "stdout and stderr apart" "out err" "$(cat "$tmp/out") $(cat "$tmp/err")"
probe box sh -c 'kill -9 $$'
equal "a kill shows as 137" 137 $?
equal "an argument with everything in it" $'a b&c=d#e%20\n+é\'"' "$(probe box echo $'a b&c=d#e%20\n+é\'"')"
equal "a command of 60 kB" 60000 "$(probe box sh -c "echo -n $(head -c 60000 /dev/zero | tr '\0' x) | wc -c")"

# --- bulk
head -c 100000000 /dev/urandom >"$tmp/bulk"
sum=$(sha256sum <"$tmp/bulk")
equal "100 MB in, byte by byte" "$sum" "$(probe -i box sh -c 'head -c 100000000 | tee /tmp/bulk | sha256sum' <"$tmp/bulk")"
equal "100 MB out" "$sum" "$(probe box cat /tmp/bulk | sha256sum)"
equal "through a pipe that is slow to take it" "$sum" "$(probe box cat /tmp/bulk | (sleep 3; sha256sum))"
equal "and in by a pipe, with output the other way" "$(head -c 30000000 "$tmp/bulk" | sha256sum)" \
	"$(head -c 30000000 "$tmp/bulk" | probe -i box head -c 30000000 | sha256sum)"
for _ in $(seq 30); do
	probe box sh -c 'head -c 1000000 /tmp/bulk; exit 5' >"$tmp/out"
	rc=$?
	[ "$rc $(wc -c <"$tmp/out")" = "5 1000000" ] || fail "an exit at once: code $rc, $(wc -c <"$tmp/out") of 1000000 bytes"
done
ok "nothing is missing before an exit at once, 30 times"
head -c 30000 "$tmp/bulk" | probe -i box sh -c 'echo last words; exit 7' >"$tmp/out"
rc=${PIPESTATUS[1]}
equal "an exit with stdin unread" "last words 7" "$(cat "$tmp/out") $rc"
probe -n 20 box sh -c 'sleep 1; exit 7' </dev/null
equal "20 at once" 7 $?

# --- terminals
equal "a terminal" "/dev/pts/0" "$(probe -t 80x24 box tty </dev/null | tr -d '\r')"
probe -t 80x24 -r 132x43 box sh -c 'echo ready; for i in $(seq 300); do [ "$(stty size)" = "43 132" ] && exit 3; sleep 0.1; done' </dev/null >"$tmp/out"
equal "its size changes" 3 $?

# --- refusals, in the API's words
refused "no such program" 127 'not_started program_not_found: .*executable file not found' box nosuch
refused "no program" 126 'not_started program_not_executable: .*permission denied' box /etc
refused "no such pod" 66 'not_started not_found: .*pods "nopod" not found' nopod true
refused "no such container" 69 'not_started .*container other is not valid for pod box' box/other true
pod gone localhost/busybox:1 sleep 100000
kubectl delete pod gone >/dev/null || fail "the pod stays"
refused "a pod that is gone" 66 'not_started not_found' gone true
kubectl run two --image=localhost/busybox:1 --image-pull-policy=Never --restart=Never --overrides='{"spec":{"terminationGracePeriodSeconds":0,
	"containers":[{"name":"a","image":"localhost/busybox:1","command":["sleep","100000"]},{"name":"b","image":"localhost/busybox:1","command":["sleep","100000"]}]}}' >/dev/null
kubectl wait pod two --for=condition=Ready --timeout=60s >/dev/null || fail "pod two is not ready"
refused "which container: the list" 69 'container name must be specified for pod two, choose one of: \[a b\]' two true
equal "a container by name" "b" "$(probe two/b sh -c 'echo b')"

# --- who it is: without rights, with rights, by a token of 8 kB
user() {
	kubectl config set-credentials "$1" --token="$(cat "$K8S_HOME/pki/$2")" >/dev/null
	kubectl config set-context "$1" --cluster="$(kubectl config view -o jsonpath='{.clusters[0].name}')" --user="$1" --namespace="$ns" >/dev/null
	kubectl config use-context "$1" >/dev/null
	cp "$KUBECONFIG" "$tmp/config-$1"
	kubectl config use-context "$admin" >/dev/null
}
admin=$(kubectl config current-context)
user story story.token
user long long.token
config=$tmp/config-story refused "forbidden, in its words" 77 'not_started k8s_forbidden: .*User "story" cannot (get|create) resource "pods/exec"' box true
config=$tmp/config-long refused "a token of 8 kB is read" 77 'not_started k8s_forbidden: .*User "long" cannot' box true
kubectl create role enter --verb=get,create --resource=pods,pods/exec >/dev/null
kubectl create rolebinding enter --role=enter --user=long >/dev/null
until_ok 30 kubectl --context=long exec box -- true || fail "a role does not allow exec"
equal "and may, once it is allowed" "hello" "$(config=$tmp/config-long probe box echo hello)"
sed 's/token: .*/token: nonsense/' "$tmp/config-long" >"$tmp/config-wrong"
config=$tmp/config-wrong refused "a wrong token" 77 'not_started k8s_unauthenticated: .*401 Unauthorized' box true

# --- silence: containerd cuts a stream on which no message came for 5 s; pings do not count, empty messages do
cluster containerd restart 5s
until_ok 60 probe box true </dev/null
probe -k 1000 box sh -c 'sleep 30; echo late; exit 5' </dev/null >"$tmp/out"
rc=$?
equal "silent for 30 s, alive" "late 5" "$(cat "$tmp/out") $rc"
probe -k 1000 -t 80x24 box sh -c 'sleep 20; echo late; exit 5' </dev/null >"$tmp/out"
rc=$?
equal "a silent terminal too" "late 5" "$(tr -d '\r' <"$tmp/out") $rc"
refused "without keepalive it is cut" 69 'lost link_lost' -k 60000 box sleep 40
cluster containerd restart 4h0m0s
until_ok 60 probe box true </dev/null

# --- the API server goes: the stream is lost, and the program in the pod lives on
probe box sh -c 'echo $$; exec sleep 1000' </dev/null >"$tmp/pid" 2>"$tmp/lost" &
stream=$!
until_ok 30 grep -q . "$tmp/pid" || fail "the program does not start"
cluster apiserver stop
wait $stream
equal "a lost stream says so" 69 $?
grep -q '^lost ' "$tmp/lost" && ok "and is not mistaken for an exit" || fail "no 'lost' in: $(cat "$tmp/lost")"
refused "nobody there" 69 'not_started k8s_unreachable: .*Connection refused' box true
cluster apiserver start
until_ok 60 probe box true </dev/null || fail "the API server does not come back"
equal "the program lives on" "sleep 1000" "$(probe box sh -c "tr '\\0' ' ' </proc/$(cat "$tmp/pid")/cmdline" | xargs)"
