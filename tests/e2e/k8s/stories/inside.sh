#!/bin/bash
# In pods muxlet is one process among others of its user: programs cannot change it by any name, and what fills a pod with
# processes is ended by one call, for which none has to be made. What others run in that container stays.
# tier: test
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<-YAML
	sandbox: {backend: kubernetes}
	kubernetes: {kubeconfig: $tmp/kubeconfig, image: localhost/busybox:1, pull_policy: Never}
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; end_story' EXIT
gcc -O1 -static -w -include stdbool.h -o "$tmp/table" "$here/tests/integration/guard_table.c" || fail "the table does not compile"
# as many as it can, 400 at the most, each hidden as well as it can be, and again when one is gone
cat >"$tmp/fill.c" <<-C
	#include <unistd.h>
	int main(void)
	{
		if (fork())
			return 0;
		setsid();
		for (int n = 0; n < 400; usleep(1000)) {
			int pid = fork();
			if (pid == 0) {
				setsid();
				alarm(400);
				for (;;)
					pause();
			}
			n += pid > 0;
		}
	}
C
gcc -O1 -static -w -o "$tmp/fill" "$tmp/fill.c" || fail "the filler does not compile"

agent=inside
muxctl put --mode 755 $agent "$tmp/table" /workspace/table >/dev/null || fail "the table is not put"
out=$(muxctl exec -n --task story $agent -- /workspace/table) || fail "the table: $out"
ok "in a pod: every call, every name: $(tail -n 1 <<<"$out")"

# In a pod that is full a terminal of staff still begins: by processes that were made ahead, as many as there are. It can
# end what fills the pod without making any.
enter() {
	local target=$1 token
	token=$(PRINCIPAL=anna new_token "$target" staff terminal)
	SSHPASS=$token timeout 20 sshpass -e ssh -F none -tt -p "$(jq -r .ssh "$MUXD_STATE/ready.json" | sed 's/.*://')" -l "$target" \
		-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o PreferredAuthentications=password \
		-o NumberOfPasswordPrompts=1 127.0.0.1 2>&1 | tr -d '\r'
}
# full NAME TARGET: fills the pod, which may have 80 processes, and ends that
full() {
	local pod=$1 target=$2 group token staff begun out i
	group=$(find /sys/fs/cgroup -type d -path "*muxd-k8s-*" -path "*pid*" -name "*$(kubectl get pod "$pod" -o jsonpath='{.metadata.uid}')*" | head -n 1)
	[ -n "$group" ] || fail "no group of processes of $pod"
	echo 80 >"$group/pids.max" || fail "$pod cannot be given a limit"
	token=$(PRINCIPAL=bot new_token "$target" agent rounds)
	staff=$(PRINCIPAL=anna new_token "$target" staff terminal,rounds,drive)
	round() { api "$token" POST "/v1/agents/$target/rounds" "$1"; }
	# how many were made ahead and are in that state; a signal to them, as any program of their user can send it
	spares() { [ "$(round "{\"command\":\"cat /proc/[0-9]*/stat | grep -c '(exe) $1'\"}" | jq -r .stdout.data)" = "$2" ]; }
	signal_spares() { round "{\"command\":\"for p in /proc/[0-9]*; do grep -q -e --spar[e] \$p/cmdline && kill -$1 \${p#/proc/}; done\"}" >/dev/null; }
	limited() { [ "$(round '{"argv":["true"]}' | jq -r .error.code)" = limit_reached ]; }
	muxctl put --mode 755 "$target" "$tmp/fill" /tmp/fill >/dev/null || fail "the filler is not put"
	wait_for 10 spares S 4 || fail "$pod: none are made ahead"
	signal_spares KILL
	wait_for 10 spares S 4 || fail "$pod: those that were killed are not replaced"
	signal_spares STOP
	wait_for 10 spares T 4 || fail "$pod: they cannot be stopped"
	round '{"command":"/tmp/fill >/dev/null 2>&1"}' >/dev/null
	wait_for 20 limited || fail "$pod is not full"
	for i in 1 2; do
		out=$({ sleep 1; printf 'echo $((6*7))-%s; exit\n' "$i"; } | enter "$target")
		equal "$pod, full: terminal $i of staff" 1 "$(grep -c "^42-$i" <<<"$out")"
		grep -q "at its limit of processes" <<<"$out" || fail "nobody was told why so little works there: $out"
	done
	begun=$SECONDS
	api "$staff" POST "/v1/agents/$target/kill" '{"reason":"it is full"}' | jq -e '.sessions_ended >= 0' >/dev/null || fail "$pod is not emptied"
	[ $((SECONDS - begun)) -le 12 ] || fail "that took $((SECONDS - begun)) s"
	equal "$pod: a round after the kill" 0 "$(round '{"argv":["true"]}' | jq -r .exit.code)"
	equal "$pod: nothing of it is left" 1 "$(round '{"command":"cat /proc/[0-9]*/cmdline | grep -q \"/tmp/[f]ill\""}' | jq -r .exit.code)"
}

full "$(kubectl get pods -l agent_id=$agent -o jsonpath='{.items[0].metadata.name}')" $agent
pod box localhost/busybox:1 sh -c 'sleep 3987 & wait'
muxctl exec -n --task story "$ns/box" -- true || fail "no way into box"
full box "$ns/box"
equal "what others run in that pod stays" 0 "$(muxctl exec -n --task story -c 'cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -q "[s]leep 3987"; echo $?' "$ns/box")"
