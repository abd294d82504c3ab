#!/bin/bash
# The Kubernetes client of control/kube against the real API server: every verb, whom it may be and who it may not, HTTP/2,
# and a watch that misses nothing and tells nothing twice while the API server is killed and comes again.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make --no-print-directory -C "$here" "${BUILD#"$here"/}/e2e/kube_probe" >"$tmp/make" 2>&1 || fail "kube_probe: $(tail -n 5 "$tmp/make")"
probe() { timeout 120 "$BUILD/e2e/kube_probe" "$@"; }
# refused WHAT EXIT-CODE PATTERN ARGUMENTS...: the probe ends so and says so
refused() {
	local what=$1 code=$2 pattern=$3 rc
	shift 3
	probe "$@" >"$tmp/out" 2>"$tmp/err"
	rc=$?
	[ $rc -eq "$code" ] || fail "$what: exit code $rc, not $code: $(cat "$tmp/err")"
	grep -qE "$pattern" "$tmp/err" && ok "$what" || fail "$what: no '$pattern' in: $(cat "$tmp/err")"
}
config=$tmp/kubeconfig

probe "$config" tour || fail "the tour"

PROBE_LOG=1 probe "$config" many 100 >"$tmp/out" 2>"$tmp/err" || fail "100 requests: $(tail -n 3 "$tmp/err")"
equal "100 requests at once are answered over HTTP/2" 100 "$(grep -c ': 200 over HTTP/2' "$tmp/err")"
equal "over one connection" 1 "$(grep -c 'on a new connection' "$tmp/err")"

# --- who it is
# user NAME FIELDS: a context for a user with these fields
user() {
	python3 - "$config" "$1" "$2" "$ns" <<-'E'
		import sys, yaml
		path, name, fields, ns = sys.argv[1:]
		c = yaml.safe_load(open(path))
		c["users"].append({"name": name, "user": yaml.safe_load(fields)})
		c["contexts"].append({"name": name, "context": {"cluster": c["clusters"][0]["name"], "user": name, "namespace": ns}})
		yaml.safe_dump(c, open(path, "w"))
	E
}
user story "{tokenFile: $K8S_HOME/pki/story.token}"
user long "{tokenFile: $K8S_HOME/pki/long.token}"
user nobody "{token: nobody-knows-this}"
printf '#!/bin/sh\nprintf %s "{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"client.authentication.k8s.io/v1beta1\\",\\"status\\":{\\"token\\":\\"$(cat %s)\\"}}"\n' \
	'%s' "$K8S_HOME/pki/story.token" >"$tmp/login"
chmod 755 "$tmp/login"
user plugin "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: $tmp/login}}"
whose='k8s_forbidden: get pods/x in .*: 403 Forbidden: pods "x" is forbidden: User "story" cannot get resource "pods"'
refused "a token without rights gets the server's words" 77 "$whose" "$config@story" get pods x
refused "a credential plug-in says who one is" 77 "$whose" "$config@plugin" get pods x
refused "a token of 8 kB arrives" 77 'k8s_forbidden: .*Forbidden' "$config@long" get pods x
refused "a token that nobody knows" 77 'k8s_unauthenticated: .*: 401 Unauthorized' "$config@nobody" get pods x
refused "a context that is not there" 78 'there is no context "stage"; there are: ' "$config@stage" get pods x

pod box localhost/busybox:1 sleep 3600
mkdir "$tmp/account"
for f in token ca.crt namespace; do
	kubectl exec box -- cat /var/run/secrets/kubernetes.io/serviceaccount/$f >"$tmp/account/$f" || fail "no $f in the pod"
done
export KUBERNETES_SERVICE_HOST=$K8S_API_IP KUBERNETES_SERVICE_PORT=443
refused "a pod's account" 77 "k8s_forbidden: .*User \"system:serviceaccount:$ns:default\" cannot get" "pod:$tmp/account" get pods box
kubectl create role look --verb=get --resource=pods >/dev/null && kubectl create rolebinding look --role=look --serviceaccount="$ns:default" >/dev/null ||
	fail "cannot make a role"
until_ok 10 probe "pod:$tmp/account" get pods box && ok "with a role it may" || fail "a role does not help: $(probe "pod:$tmp/account" get pods box 2>&1)"

sed 's/certificate-authority-data: .*/certificate-authority: other.crt/; s/certificate-authority: .*/certificate-authority: other.crt/' "$config" >"$tmp/other"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=other -keyout "$tmp/other.key" -out "$tmp/other.crt" 2>/dev/null
refused "an authority that did not sign the server" 69 'k8s_tls_failed: .*certificate is not trusted: ' "$tmp/other" get pods x

# --- a server that takes connections and answers nobody
coproc asker { PROBE_LOG=1 probe "$config" ask 5000 2>"$tmp/err"; }
asks() {
	echo probe >&"${asker[1]}"
	read -r -t 60 line <&"${asker[0]}" && echo "$line"
}
equal "a server that answers" not_found "$(asks)"
server=$(pid_of apiserver)
kill -STOP "$server"
answer=$(asks)
kill -CONT "$server"
equal "a server that hangs" timeout "$answer"
equal "a server that goes on" not_found "$(asks)"
equal "gets a new connection" 2 "$(grep -c 'on a new connection' "$tmp/err")"
grep -q 'the connection is given up' "$tmp/err" && ok "the dead one is given up" || fail "no connection was given up"
eval "exec ${asker[1]}>&-"

# --- a watch
mkfifo "$tmp/in"
probe "$config" watch configmaps app=story <"$tmp/in" >"$tmp/told" 2>"$tmp/trouble" &
watcher=$!
exec 4>"$tmp/in"
told() { grep -qx -- "$1" "$tmp/told"; }
# the watch has told LINE
tells() { until_ok 60 told "$1" || fail "the watch does not tell $1: $(xargs <"$tmp/told") $(tail -n 2 "$tmp/trouble")"; }
map() { kubectl create configmap "$1" --dry-run=client -o yaml | kubectl label --local -f - "app=${2:-story}" -o yaml | kubectl create -f - >/dev/null || fail "cannot make $1"; }
tells sync.
map one
map foreign other
tells +one
kubectl patch configmap one -p '{"data":{"a":"1"}}' >/dev/null
tells '~one'
cluster apiserver stop || fail "cannot stop the API server"
until_ok 30 grep -q 'k8s_unreachable: .*Connection refused' "$tmp/trouble" && ok "trouble is told" || fail "no trouble: $(cat "$tmp/trouble")"
cluster apiserver start 4>&- || fail "cannot start the API server"
map two
kubectl delete configmap one >/dev/null
tells +two
tells -one
kubectl label configmap two app=other --overwrite >/dev/null
tells -two
exec 4>&-
wait $watcher || fail "the watch ended with $?"
equal "a watch tells each change once, over the loss of the API server" "+one ~one +two -one -two" \
	"$(grep -v 'sync\.' "$tmp/told" | xargs)"
grep -q '^well' "$tmp/trouble" && ok "the end of trouble is told" || fail "trouble without an end: $(cat "$tmp/trouble")"
