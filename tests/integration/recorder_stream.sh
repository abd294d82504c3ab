#!/bin/bash
# The stream on which net asks the recorder: no question of a stranger's ends it, however long; and when it breaks while
# both live, the monitor gives net another, and whoever asks meanwhile is answered.
# tier: test, san
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
# Who is not configured as a witness reads no such question.
cat >"$tmp/muxd.yaml" <<Y
witness:
  pushers:
    - {name: other, log_id: 01936f0e-7c5a-7b1e-8f43-2f1f5a0d9c11, keys: ["$(openssl genpkey -algorithm ed25519 | openssl pkey -pubout -outform DER | tail -c 32 | basenc --base64url | tr -d =)"]}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
auditor=$(new_token '*' auditor replay)
asked() { api "$auditor" GET '/v1/audit?limit=1' | jq -r '.events | length'; }
before=$(ready 'pids | "\(.net) \(.recorder)"')

# A witness takes heads from whoever brings the signature of a log's key, which only the recorder can look at.
for bytes in 100 70000 380000 600000; do
	jq -nc --argjson n "$bytes" '{head: {log_id: "x"}, entries: ("A" * $n)}' >"$tmp/question"
	status=$(curl -sS -o "$tmp/answer" -w '%{http_code}' --cacert "$MUXD_STATE/keys/tls.crt" -H 'Content-Type: application/json' \
		--data-binary "@$tmp/question" "https://$(ready https)/v1/witness/heads")
	equal "a stranger's question of $bytes bytes is refused" 4 "${status:0:1}"
	equal "and the next one is answered" 1 "$(asked)"
done
jq -nc '{head: {log_id: "x"}, entries: ("A" * 380000)}' >"$tmp/question"
crowd() {
	seq 30 | xargs -P 30 -I{} curl -sS -o /dev/null -w '%{http_code}\n' --cacert "$MUXD_STATE/keys/tls.crt" -H 'Content-Type: application/json' \
		--data-binary "@$tmp/question" "https://$(ready https)/v1/witness/heads" >"$tmp/crowd"
}
crowd &
equal "nor does a crowd of them keep anybody waiting" 1 "$(asked)"
wait $!
equal "each of whom is refused, or told to come again" 30 "$(grep -cxE '400|429' "$tmp/crowd")"
grep -q 'stream to the recorder is lost' "$MUXD_STATE/daemon.log" && fail "the stream broke"

# Only root may reach into another process.
if [ "$(id -u)" = 0 ]; then
	for n in 1 2 3; do
		/usr/bin/python3 - "$(ready pids.recorder)" <<'PY' || fail "the stream is not there to be cut"
import ctypes, os, socket, sys
libc, pid, cut = ctypes.CDLL(None, use_errno=True), int(sys.argv[1]), 0
of = os.pidfd_open(pid)
for fd in os.listdir(f"/proc/{pid}/fd"):
    try:
        if not os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
            continue
    except FileNotFoundError:  # closed meanwhile
        continue
    s = socket.socket(fileno=libc.syscall(438, of, int(fd), 0))  # pidfd_getfd
    try:
        s.getpeername()
        if str(s.getsockname()).endswith("recorder.sock"):
            s.shutdown(socket.SHUT_RDWR)
            cut += 1
    except OSError:
        pass
    s.close()
sys.exit(cut == 0)
PY
		equal "the stream was cut ($n): the next question is answered" 1 "$(asked)"
	done
	equal "it was told" 3 "$(grep -c 'stream to the recorder is lost' "$MUXD_STATE/daemon.log")"
fi
equal "nobody was started anew" "$before" "$(ready 'pids | "\(.net) \(.recorder)"')"
