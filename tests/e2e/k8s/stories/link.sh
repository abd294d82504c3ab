#!/bin/bash
# Terminals and rounds in a pod through one exec stream, by the daemon as people use it: codes, signals, sizes, 100 MB each way;
# the runtime's idle cut; clients that vanish; then the API server gone for 20 s in the middle of a gigabyte and of a shell, the
# kubelet gone, the hub killed. Nothing is lost, nothing comes twice, programs live on.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
sandbox: {backend: kubernetes}
kubernetes:
  kubeconfig: $tmp/kubeconfig
  namespace: $ns
  image: localhost/busybox:1
  pull_policy: Never
  request_cpu: 10m
  request_ephemeral: 1Mi
  request_memory: 32Mi
  limit_memory: 256Mi
sessions: {linger: 2s}
record:
  rules:
    - {kind: "*", session: round, rule: metadata}
    - {kind: "*", session: exec, rule: metadata}
    - {kind: "*", session: "*", rule: full}
Y
started=()
finish() {
	end_own "${started[@]}"
	muxctl shutdown --sandboxes >/dev/null 2>&1
	end_story
}
trap finish EXIT
# The idle cut first: it has to wait, and everything before the faults runs beside it. Another node setting for this story only.
cluster containerd restart 20s
cluster kubelet start
trap 'cluster containerd restart 4h0m0s >/dev/null 2>&1; finish' EXIT
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"

agent=coder
port=$(ssh_port)
token=$(new_token $agent staff terminal,rounds,observe,drive,files 60m)
(umask 077 && printf '%s' "$token" >"$tmp/token")
printf '#!/bin/sh\ncat "%s/token"\n' "$tmp" >"$tmp/askpass"
chmod 0700 "$tmp/askpass"
run() { timeout "${LIMIT:-280}" "$MUXCTL" --state "$MUXD_STATE" exec "$agent" --task link -- "$@"; }
# round JSON: the answer to a round
round() { api "$token" POST "/v1/agents/$agent/rounds" "$1"; }
in_pod() { timeout 60 kubectl exec "muxd-$agent" -- "$@"; }
# ssh_ LOGIN [-tt] [COMMAND]: OpenSSH itself, so that its pid is the shell's $!
ssh_() {
	local login=$1 tty=-T
	shift
	[ "${1:-}" != -tt ] || { tty=-tt && shift; }
	SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force exec setsid ssh -F none $tty -p "$port" -o StrictHostKeyChecking=no \
		-o UserKnownHostsFile="$tmp/known" -o LogLevel=ERROR -l "$login" 127.0.0.1 "$@"
}
declare -A to pid
# enter NAME LOGIN: a client by SSH with a terminal; to[NAME] is its keyboard, $tmp/NAME its screen
enter() {
	local fd
	mkfifo "$tmp/$1.in"
	ssh_ "$2" -tt <"$tmp/$1.in" >"$tmp/$1" 2>&1 &
	pid[$1]=$!
	started+=($!)
	exec {fd}>"$tmp/$1.in"
	to[$1]=$fd
}
typed() { printf '%s\n' "$2" >&"${to[$1]}"; }
sees() { grep -qaE -- "$2" "$tmp/$1"; }
# shown NAME PATTERN WHAT
shown() { wait_for 30 sees "$1" "$2" && ok "$3" || fail "$3: no '$2' in: $(tail -c 1000 "$tmp/$1")"; }

equal "a pod is made, and a round runs in it" "hello" "$(run echo hello)"
equal "it is the agent's" "$agent" "$(kubectl get pod "muxd-$agent" -o jsonpath='{.metadata.labels.agent_id}')"
equal "through muxlet" link "$(api "$token" GET "/v1/agents/$agent" | jq -r .backend)"

# A session of its own pod that says nothing for two minutes; the hub's pings keep the runtime from cutting it.
quiet_token=$(new_token quiet staff terminal,rounds,observe,drive 60m)
quiet_began=$(date +%s)
SSHPASS=$quiet_token sshpass -e ssh -F none -tt -p "$port" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" \
	-o LogLevel=ERROR -o PreferredAuthentications=password -l quiet 127.0.0.1 'echo begun; sleep 120; echo woke' >"$tmp/quiet" 2>&1 &
quiet=$!
started+=("$quiet")
wait_for 60 grep -q begun "$tmp/quiet" || fail "no session in the quiet pod: $(cat "$tmp/quiet")"

run sh -c 'exit 7'
equal "an exit code" 7 $?
equal "stderr is apart" "out" "$(run sh -c 'echo out; echo err >&2' 2>"$tmp/err")"
equal "and whole" "err" "$(cat "$tmp/err")"
equal "a signal is a signal" '"exit",null,"KILL"' \
	"$(round '{"argv":["sh","-c","kill -9 $$"]}' | jq -c '.exit | .cause, .code, .signal' | paste -sd,)"
equal "memory that ran out is said" oom "$(round '{"argv":["tail","/dev/zero"]}' | jq -r .exit.cause)"
equal "a program that is not there" program_not_found "$(round '{"argv":["no-such-program"]}' | jq -r '.error.code // .code')"

enter shell $agent
typed shell 'stty -echo; PS1=; KEPT=$((6*7)); stty rows 33 cols 99; echo set$((1+1)); stty size'
shown shell '^33 99' "a terminal, its size from inside"
/usr/bin/python3 - "$port" "$tmp" "$agent" <<'P' || fail "the terminal's size does not follow"
import fcntl, os, pty, signal, struct, sys, termios, time
port, tmp, agent = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(SSH_ASKPASS=tmp + "/askpass", SSH_ASKPASS_REQUIRE="force")
    os.execvp("ssh", ["ssh", "-F", "none", "-tt", "-p", port, "-o", "StrictHostKeyChecking=no", "-o",
                      "UserKnownHostsFile=" + tmp + "/known", "-o", "LogLevel=ERROR", "-l", agent, "127.0.0.1"])
got = b""
def wait_for(what):
    global got
    end = time.time() + 60
    while what not in got and time.time() < end:
        got += os.read(fd, 4096)
    if what not in got:
        sys.exit("no %r in %r" % (what, got[-500:]))
os.write(fd, b"echo here$((1+1))\n")
wait_for(b"here2")
for rows, cols in (41, 123), (7, 20), (500, 1000):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    end = time.time() + 60
    while b"%d %d" % (rows, cols) not in got:
        if time.time() > end:
            sys.exit("no %d %d in %r" % (rows, cols, got[-500:]))
        os.write(fd, b"stty size\n")
        time.sleep(0.2)
        got += os.read(fd, 4096)
os.kill(pid, signal.SIGKILL)
P
ok "the terminal's size follows the client's"

head -c 100000000 /dev/urandom >"$tmp/bulk"
sum=$(sha256sum <"$tmp/bulk")
equal "100 MB in, byte by byte" "$sum" "$(run sha256sum <"$tmp/bulk")"
equal "100 MB in and out again" "$sum" "$(run cat <"$tmp/bulk" | sha256sum)"

# 200 clients that vanish, terminals and commands by turns: killed, no goodbye. (A round of muxctl would run on, as rounds do.)
processes() { in_pod ps -o pid,comm | awk 'NR>1 && $2 != "ps"' | wc -l; }
before=$(processes)
for i in $(seq 100); do
	rm -f "$tmp/cut.in" "$tmp/cut"
	enter cut $agent
	typed cut 'echo up; sleep 1000'
	wait_for 30 sees cut '^up' || fail "no shell $i: $(cat "$tmp/cut")"
	kill -KILL "${pid[cut]}"
	fd=${to[cut]}
	exec {fd}>&-
	ssh_ $agent 'echo up; sleep 1000' >"$tmp/exec" 2>&1 </dev/null &
	client=$!
	wait_for 30 grep -q '^up' "$tmp/exec" || fail "no program $i: $(cat "$tmp/exec")"
	kill -KILL $client
	wait $client "${pid[cut]}"
done 2>/dev/null
as_before() { [ "$(processes)" -le "$before" ]; }
wait_for 60 as_before && ok "200 sessions opened and cut leave no process" || fail "$before processes before, now: $(in_pod ps)"

wait $quiet
equal "a silent session outlives the runtime's idle cut of 20 s" "0 woke" "$? $(tail -n 1 "$tmp/quiet" | tr -d '\r')"
[ $(($(date +%s) - quiet_began)) -ge 120 ] || fail "that was no two minutes"
equal "on one stream" 0 "$(grep -c 'link down.*agent=quiet' "$tmp/state/daemon.log")"
cluster containerd restart 4h0m0s
cluster kubelet start

# A gigabyte on its way and a shell at work while the API server is gone for 20 s; a round asked for meanwhile waits for it.
gigabyte='seq 1 200000000 | head -c 1000000000; exit 9'
want=$(sh -c "$gigabyte" | sha256sum)
typed shell 'for i in $(seq 1 400); do echo tick-$i; sleep 0.1; done; echo ticked-$KEPT'
{ LIMIT=600 run sh -c "$gigabyte"; echo $? >"$tmp/code"; } | sha256sum >"$tmp/sum" &
bulk=$!
started+=("$bulk")
shown shell 'tick-20' "a shell at work, a gigabyte on its way"
cluster apiserver stop
sleep 20
cluster apiserver start
wait $bulk
equal "the gigabyte arrived, byte by byte" "$want" "$(cat "$tmp/sum")"
equal "with its exit code" 9 "$(cat "$tmp/code")"
shown shell 'ticked-42' "the shell went on, and kept its variable"
# missing NAME: what of the ticks is not there, or not in order, or there twice
ticks() { tr -d '\r' <"$tmp/$1" | sed -n 's/^tick-\([0-9]*\)$/\1/p' | cmp -s - <(seq 1 400); }
ticks shell && ok "each of its lines came once" || fail "its lines: $(grep -ac '^tick-' "$tmp/shell")"

less='seq 1 60000000 | head -c 300000000; exit 5'
want=$(sh -c "$less" | sha256sum)
typed shell 'for i in $(seq 1 100); do echo tock-$i; sleep 0.1; done; echo tocked-$KEPT'
{ LIMIT=600 run sh -c "$less"; echo $? >"$tmp/code"; } | sha256sum >"$tmp/sum" &
bulk=$!
started+=("$bulk")
shown shell 'tock-20' "once more"
cluster kubelet stop
sleep 5
cluster kubelet start
wait $bulk
equal "the kubelet was gone for 5 s: 300 MB arrived" "$want" "$(cat "$tmp/sum")"
equal "with their exit code" 5 "$(cat "$tmp/code")"
shown shell 'tocked-42' "the shell went on"

# kill -9 of the hub and of the recorder in mid-flood, as in the story of the same name on this machine.
MUXD_STATE=$MUXD_STATE MUXCTL=$MUXCTL KILLS=3 /usr/bin/python3 "$here/tests/integration/kill.py" || fail "kill -9: see above"

# Rounds by the thousand: neither the hub nor muxlet keeps anything of them.
MUXD_STATE=$MUXD_STATE AGENT=$agent TOKEN=$token POD=muxd-$agent /usr/bin/python3 "$(dirname "$0")/../rounds.py" || fail "rounds: see above"

# Somebody deletes the pod: a shell is told at once, with the cause.
enter last $agent
typed last 'echo here$((1+1)); sleep 1000'
shown last '^here2' "one more shell"
kubectl delete pod "muxd-$agent" --wait=false >/dev/null
gone() { ! kill -0 "${pid[last]}" 2>/dev/null; }
wait_for 30 gone && ok "a deleted pod ends its sessions at once" || fail "the shell is still there: $(tail -c 300 "$tmp/last")"
sees last 'its pod was deleted' && ok "and says why" || fail "no cause in: $(tail -c 300 "$tmp/last")"
equal "the next round gets another pod" "again" "$(run echo again)"
