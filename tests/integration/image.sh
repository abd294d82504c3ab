#!/bin/bash
# The image is whole: its tree alone, under a foreign uid that owns nothing else, with no program of this machine, serves both
# doors as it would in a pod (agents are pods, no bubblewrap), with a certificate that was given to it, and answers as
# admission webhook. Root makes the tree; otherwise the story says that it did not run.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
[ "$(id -u)" = 0 ] || {
	echo "  not run: only root can change into the image's tree"
	exit 0
}

root=$tmp/root
"$here/deploy/image/rootfs.sh" muxd "$BUILD" "$root" || fail "no tree"
equal "no shell, no tool" "muxctl muxd muxd-archive muxd-issuer muxd-recorder muxd-screen muxd-witness muxlet" "$(find "$root" -type f '(' -path '*/bin/*' -o -path '*/libexec/*' ')' -printf '%f\n' | sort | xargs)"
equal "nothing is setuid" "" "$(find "$root" -perm /6000)"
if [[ $BUILD == */san ]]; then
	echo "  not run: muxlet alone, which is not static with sanitizers"
else
	"$here/deploy/image/rootfs.sh" muxlet "$BUILD" "$tmp/let" || fail "no tree for muxlet"
	equal "muxlet alone" "usr/local/bin/muxlet" "$(cd "$tmp/let" && find . -type f | sed 's|^\./||')"
fi

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=muxd -addext subjectAltName=DNS:muxd.example \
	-keyout "$root/etc/muxd/tls.key" -out "$root/etc/muxd/tls.crt" 2>/dev/null || fail "no certificate"
chown 64800 "$root/etc/muxd/tls.key"
cat >"$root/etc/muxd/kubeconfig" <<E
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: t}}]}
E
cat >"$root/etc/muxd/muxd.yaml" <<E
listen: {tls_cert: /etc/muxd/tls.crt, tls_key: /etc/muxd/tls.key}
journal: {dir: /run/muxd/journal, size: 4MiB}
sandbox: {backend: kubernetes}
kubernetes: {kubeconfig: /etc/muxd/kubeconfig, namespace: boxes, admission_user: "system:serviceaccount:muxd:muxd"}
E
chmod 755 "$tmp"
mount -t proc proc "$root/proc"
for d in null urandom; do # as every container has them
	touch "$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done
chroot --userspec=64800:64800 "$root" /usr/local/bin/muxd serve --state /var/lib/muxd --https 127.0.0.1:0 --ssh 127.0.0.1:0 \
	--config /etc/muxd/muxd.yaml 2>"$tmp/log" &
daemon=$!
end() {
	kill -TERM "$daemon" 2>/dev/null
	wait "$daemon" 2>/dev/null
	umount "$root/proc" "$root/dev/null" "$root/dev/urandom"
	tidy
}
trap end EXIT
MUXD_STATE=$root/var/lib/muxd
settled() { [ -s "$MUXD_STATE/ready.json" ] || ! kill -0 "$daemon" 2>/dev/null; }
wait_for 30 settled
[ -s "$MUXD_STATE/ready.json" ] || fail "it does not start: $(tail -n 5 "$tmp/log")"
equal "one uid, and said so" "none" "$(ready privsep)"
inside() { chroot --userspec=64800:64800 "$root" /usr/local/bin/muxctl --state /var/lib/muxd "$@"; }
inside status >/dev/null && ok "muxctl inside" || fail "muxctl does not work inside"

https=$(ready https)
ask() { curl -sS --cacert "$root/etc/muxd/tls.crt" --connect-to "muxd.example:443:$https" "https://muxd.example$1" "${@:2}"; }
is_ready() { ask /readyz -f; }
wait_for 30 is_ready && ok "ready, under the certificate that it was given" || fail "not ready: $(ask /readyz)"
# verdict USER: what the API server would hear about an exec by USER
verdict() {
	ask '/k8s/admission?timeout=10s' -H 'Content-Type: application/json' --data-binary @- <<-E
		{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "7", "operation": "CONNECT",
		 "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "exec", "namespace": "boxes",
		 "name": "muxd-demo", "userInfo": {"username": "$1"}, "object": {"kind": "PodExecOptions", "container": "sandbox"}}}
	E
}
equal "its own exec is allowed" "7 true" "$(verdict system:serviceaccount:muxd:muxd | jq -r '.response | "\(.uid) \(.allowed)"')"
equal "somebody else's is not" "7 false 403" "$(verdict admin | jq -r '.response | "\(.uid) \(.allowed) \(.status.code)"')"
verdict admin | grep -q 'muxctl exec boxes/muxd-demo/sandbox -- COMMAND' && ok "and is told the way in" || fail "no way in: $(verdict admin)"
