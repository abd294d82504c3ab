#!/bin/bash
# pki.sh: a CA of the cluster's own, certificates for its parts, kubeconfigs, tokens. Does nothing where they exist.
. "$(dirname "$0")/lib.sh"

pki=$K8S_HOME/pki
[ ! -f "$pki/complete" ] || exit 0
umask 077
mkdir -p "$pki"
cd "$pki" || exit

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
# certificate NAME SUBJECT clientAuth|serverAuth [SUBJECT-ALT-NAMES]
certificate() {
	key "$1"
	openssl req -new -key "$1.key" -subj "$2" |
		openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$1.crt" -extfile <(
			echo "basicConstraints=critical,CA:FALSE"
			echo "keyUsage=digitalSignature"
			echo "extendedKeyUsage=$3"
			[ -z "${4:-}" ] || echo "subjectAltName=$4"
		) 2>/dev/null
}
b64() { base64 -w0 "$1"; }
# kubeconfig FILE: the client certificate of that name, everything inside the one file
kubeconfig() {
	cat >"$2" <<-E
		apiVersion: v1
		kind: Config
		clusters:
		- name: test
		  cluster: {server: "$K8S_API", certificate-authority-data: $(b64 ca.crt)}
		users:
		- name: $1
		  user: {client-certificate-data: $(b64 "$1.crt"), client-key-data: $(b64 "$1.key")}
		contexts:
		- name: test
		  context: {cluster: test, user: $1, namespace: default}
		current-context: test
	E
}
random() { head -c "$1" /dev/urandom | base64 -w0 | tr -d '/+=\n'; }

key ca
openssl req -x509 -new -key ca.key -subj /CN=muxd-k8s-test -days 30 -out ca.crt
certificate apiserver /CN=kube-apiserver serverAuth \
	"DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:$K8S_API_IP"
certificate kubelet-server "/CN=$K8S_NODE" serverAuth "DNS:$K8S_NODE,IP:$K8S_NODE_IP"
certificate kubelet-client "/O=system:masters/CN=apiserver-kubelet-client" clientAuth
certificate node "/O=system:nodes/CN=system:node:$K8S_NODE" clientAuth
certificate manager /CN=system:kube-controller-manager clientAuth
certificate scheduler /CN=system:kube-scheduler clientAuth
certificate admin /O=system:masters/CN=admin clientAuth
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
for who in node manager scheduler; do kubeconfig $who $who.kubeconfig; done
kubeconfig admin "$K8S_HOME/admin.kubeconfig"

# Two people without any right of their own; the token of the second is as long as identity providers make them.
random 24 >story.token
random 6200 | head -c 8000 >long.token
printf '%s,%s,%s,stories\n' "$(cat story.token)" story 1001 "$(cat long.token)" long 1002 >tokens.csv
touch complete
