#!/bin/sh
# tls.sh [--renew] [NAME...]: the certificate of muxd in a cluster, and the cluster's trust in it. Run once after
# `kubectl apply -k deploy/kustomize/base` (or helm install), and again whenever the webhook was applied anew.
#
# Makes an authority of its own and by it a certificate for muxd's services (and NAMEs that people use from outside) in the
# Secret muxd-tls: tls.crt, tls.key, ca.crt. The authority's key is thrown away. An existing Secret is kept, without --renew,
# which makes everything new and starts muxd again. Then ca.crt goes into the webhook's caBundle, where there is a webhook.
#
# NAMESPACE (muxd), DAYS (825). Needs kubectl and openssl. With cert-manager: a Certificate with secretName muxd-tls and the
# annotation cert-manager.io/inject-ca-from on the ValidatingWebhookConfiguration do the same.
set -eu
ns=${NAMESPACE:-muxd} days=${DAYS:-825}
renew=
if [ "${1:-}" = --renew ]; then
	renew=1
	shift
fi
case ${1:-} in -*)
	sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
	exit 64
	;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
umask 077

openssl_() {
	openssl "$@" 2>"$dir/log" || {
		cat "$dir/log" >&2
		exit 1
	}
}
make_certificate() {
	names=DNS:localhost
	for service in muxd muxd-admission; do
		names=$names,DNS:$service.$ns.svc,DNS:$service.$ns.svc.cluster.local
	done
	for name; do names=$names,DNS:$name; done
	printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' "$names" >"$dir/ext"
	openssl_ req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$days" -subj "/CN=muxd authority $(date -u +%F)" \
		-addext keyUsage=critical,keyCertSign -keyout "$dir/ca.key" -out "$dir/ca.crt"
	openssl_ req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=muxd -keyout "$dir/tls.key" -out "$dir/csr"
	openssl_ x509 -req -in "$dir/csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days "$days" \
		-extfile "$dir/ext" -out "$dir/tls.crt"
	rm -f "$dir/ca.key"
	kubectl -n "$ns" delete secret muxd-tls --ignore-not-found >/dev/null
	kubectl -n "$ns" create secret generic muxd-tls --type=kubernetes.io/tls --from-file="$dir/tls.crt" \
		--from-file="$dir/tls.key" --from-file="$dir/ca.crt" >/dev/null
	echo "made: secret $ns/muxd-tls"
}

if [ -n "$renew" ] || ! kubectl -n "$ns" get secret muxd-tls >/dev/null 2>&1; then
	make_certificate "$@"
	if [ -n "$renew" ]; then kubectl -n "$ns" rollout restart statefulset/muxd; fi
fi
bundle=$(kubectl -n "$ns" get secret muxd-tls -o 'jsonpath={.data.ca\.crt}')
[ -n "$bundle" ] || {
	echo "tls.sh: the secret $ns/muxd-tls has no ca.crt" >&2
	exit 1
}
if kubectl get validatingwebhookconfiguration muxd-sandboxes >/dev/null 2>&1; then
	patch='' i=0
	for _ in $(kubectl get validatingwebhookconfiguration muxd-sandboxes -o 'jsonpath={.webhooks[*].name}'); do
		patch="$patch${patch:+, }{\"op\": \"add\", \"path\": \"/webhooks/$i/clientConfig/caBundle\", \"value\": \"$bundle\"}"
		i=$((i + 1))
	done
	kubectl patch validatingwebhookconfiguration muxd-sandboxes --type=json -p "[$patch]" >/dev/null
	echo "the webhook trusts it"
fi
