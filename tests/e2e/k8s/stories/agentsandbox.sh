#!/bin/bash
# Pods held by Sandbox objects of agents.x-k8s.io, by the provider alone (link_probe). hold.py plays that project's controllers: what is
# shown is that muxd writes what the API asks for and waits for what comes of it. The definitions are the tests' own, and at the end
# the project's, where they are beside the project (../shared/agent-sandbox-crds): the server checks, defaults and prunes by their
# schemas. One version is served at a time then, since their conversion webhook is not there. Where the server refuses them (1.20
# does), the rules (CEL) and defaults of "" are left out. tests/integration/sandbox_api.sh does all of it, without a server.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

make -s --no-print-directory -C "$here" "$(realpath --relative-to="$here" "$BUILD")/e2e/link_probe" || fail "link_probe does not build"
export MUXLET=$BUILD/muxlet
cluster storage start || fail "no storage"
controller=
end_controller() {
	[ -z "$controller" ] || end_own "$controller"
	controller=
}
daemon=
end_all() {
	[ -z "$daemon" ] || stop_daemon
	end_controller
	[ ! -s "$tmp/crds.json" ] || kubectl delete -f "$tmp/crds.json" --ignore-not-found --wait=false >/dev/null 2>&1
	end_story
}
trap end_all EXIT
begin_controller() {
	K8S_API=$K8S_API python3 "$K8S_DIR/hold.py" "$ns" "$@" >"$tmp/controller" 2>&1 &
	controller=$!
}
version=v1alpha1
api=
probe() {
	local opts=()
	while [ "$1" != -- ]; do opts+=("$1") && shift; done
	shift
	timeout 180 "$BUILD/e2e/link_probe" -n "$ns" -H ${api:-$version} -w claim -s 67108864 -C loop "${opts[@]}" "$KUBECONFIG" "$@" 2>"$tmp/said" </dev/null
}
said() { grep -qE -- "$2" "$tmp/said" && ok "$1" || fail "$1: no '$2' in: $(tail -n 5 "$tmp/said")"; }
# definitions VERSION whole|less: the project's, with that version of Sandbox alone, as one list
definitions() {
	python3 - "$crds" "$1" "$2" >"$tmp/crds.json" <<-'P' || fail "the definitions cannot be read"
		import glob, json, sys, yaml

		def less(o):
		    if isinstance(o, dict):
		        keys = [o["items"]["properties"][k] for k in o.get("x-kubernetes-list-map-keys", [])]
		        if any(k.get("default") == "" for k in keys):  # a key needs its default
		            o = {k: v for k, v in o.items() if not k.startswith("x-kubernetes-list-")}
		        return {k: less(v) for k, v in o.items() if k != "x-kubernetes-validations" and (k, v) != ("default", "")}
		    return [less(v) for v in o] if isinstance(o, list) else o

		items = []
		for path in sorted(glob.glob(sys.argv[1] + "/*.yaml")):
		    o = yaml.load(open(path), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
		    o = less(o) if sys.argv[3] == "less" else o
		    wanted = sys.argv[2] if o["spec"]["names"]["plural"] == "sandboxes" else "v1beta1"
		    o["metadata"]["annotations"]["api-approved.kubernetes.io"] = "unapproved, for tests"
		    o["spec"]["conversion"] = {"strategy": "None"}
		    o["spec"]["versions"] = [dict(v, served=True, storage=True) for v in o["spec"]["versions"] if v["name"] == wanted]
		    items.append(o)
		json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout)
	P
}
real() {
	definitions "$1" whole
	kubectl delete -f "$tmp/crds.json" --ignore-not-found >/dev/null 2>&1
	if ! kubectl create -f "$tmp/crds.json" >"$tmp/created" 2>&1; then
		echo "  not whole: this server does not take rules (CEL) and defaults of \"\": $(grep -m 1 rror "$tmp/created" | cut -c 1-120)"
		kubectl delete -f "$tmp/crds.json" --ignore-not-found >/dev/null 2>&1
		definitions "$1" less
		kubectl create -f "$tmp/crds.json" >"$tmp/created" 2>&1 || fail "the project's definitions are refused: $(cut -c 1-300 "$tmp/created")"
	fi
	kubectl wait --for=condition=Established --timeout=60s -f "$tmp/crds.json" >/dev/null || fail "they are not established"
	until_ok 30 kubectl get "sandboxes.$1.agents.x-k8s.io" || fail "the kind is not served"
}
field() { kubectl get "sandboxes.$version.agents.x-k8s.io" "$1" -o jsonpath="$2"; }

kubectl delete crd sandboxes.agents.x-k8s.io --ignore-not-found >/dev/null
probe -t 30 -- exec thread-1 true
said "a cluster without the project says what to do" 'unsupported: the cluster knows no Sandbox \(agents.x-k8s.io/v1alpha1\)'
kubectl apply -f "$K8S_DIR/objects/sandboxes.yaml" >/dev/null || fail "the definitions are refused"
kubectl wait --for=condition=Established --timeout=30s crd sandboxes.agents.x-k8s.io >/dev/null
until_ok 30 kubectl get sandboxes.v1beta1.agents.x-k8s.io || fail "the kind is not served"

probe -t 4 -- exec thread-1 true
said "without its controller nothing happens, and that is said" 'sandbox_create_timeout: Sandbox investigation-thread-1 .*status is empty: does the controller of agent-sandbox run'
equal "one object for each thread" thread-1 "$(field investigation-thread-1 '{.metadata.labels.thread-id}')"
for version in v1alpha1 v1beta1; do
	box=thread-$version
	begin_controller $version
	equal "$version: made when it is missing, and reached" "kept" "$(probe -T 7200 -- exec $box sh -c 'echo kept >keep; cat keep; sync' || cat "$tmp/said")"
	said "$version: through muxlet" 'backend=link .*workspace=yes'
	[ "$(field investigation-$box '{.spec.shutdownPolicy}')" = Delete ] && [[ $(field investigation-$box '{.spec.shutdownTime}') =~ ^20.*Z$ ]] &&
		ok "$version: with an end of its own" || fail "$(field investigation-$box '{.spec}')"
	ends=$(field investigation-$box '{.spec.shutdownTime}')
	probe -T 7200 -- destroy $box || fail "$(cat "$tmp/said")"
	if [ $version = v1alpha1 ]; then
		equal "$version: asleep" 0 "$(field investigation-$box '{.spec.replicas}')"
	else
		equal "$version: asleep" Suspended "$(field investigation-$box '{.spec.operatingMode}')"
	fi
	kubectl get pod investigation-$box >/dev/null 2>&1 && fail "the pod is still there"
	probe -T 7200 -- attach $box true
	said "$version: who only comes back does not wake it" 'not_found'
	equal "$version: woken, with its files" kept "$(probe -T 7200 -- exec $box cat keep || cat "$tmp/said")"
	[[ $(field investigation-$box '{.spec.shutdownTime}') > $ends ]] && ok "$version: its end is the one that was told last" ||
		fail "$ends, then $(field investigation-$box '{.spec.shutdownTime}')"
	probe -- list
	said "$version: in the list" "$box running"
	probe -- wipe $box || fail "$(cat "$tmp/said")"
	kubectl get "sandboxes.$version.agents.x-k8s.io" investigation-$box >/dev/null 2>&1 && fail "the Sandbox is still there"
	ok "$version: wiped"
	end_controller
done

# ---- the version is asked for, and conditions are heeded
version=v1beta1 api=auto
begin_controller $version
equal "auto: of what is served the best is spoken" asked "$(probe -- exec thread-auto echo asked || cat "$tmp/said")"
equal "auto: in its words" Running "$(field investigation-thread-auto '{.spec.operatingMode}')"
probe -- wipe thread-auto || fail "$(cat "$tmp/said")"
probe -- exec thread-multiple true
said "a start that its conditions call failed ends with their words" 'sandbox_create_failed: Sandbox investigation-thread-multiple .*MultiplePods: 2 pods'
end_controller
api=

# ---- restored under it: another claim in the template
version=v1alpha1
begin_controller $version
id=$(cat /proc/sys/kernel/random/uuid)
probe -- exec copied sh -c 'echo one >word; sync' && probe -- take copied "$id" && probe -- exec copied sh -c 'echo two >word; sync' &&
	probe -- destroy copied && probe -- restore copied copied "$id" || fail "$(cat "$tmp/said")"
equal "restored: the template follows the claim" one "$(probe -- exec copied cat word || cat "$tmp/said")"

# ---- its end
timeout 120 "$BUILD/e2e/link_probe" -n "$ns" -H $version -T 6 "$KUBECONFIG" exec short sleep 1000 2>"$tmp/short" </dev/null &
pid=$!
wait $pid
equal "past its end what runs in it ends" 93 $?
grep -q 'gone: short: its pod was deleted' "$tmp/short" && ok "with that cause" || fail "$(cat "$tmp/short")"
kubectl apply -f - >/dev/null <<-Y
	apiVersion: agents.x-k8s.io/v1alpha1
	kind: Sandbox
	metadata: {name: investigation-taken}
	spec: {replicas: 0, podTemplate: {spec: {containers: [{name: main, image: busybox}]}}}
Y
probe -t 20 -- exec taken true
said "one that muxd did not make is not touched" 'k8s_conflict: Sandbox investigation-taken .*muxd did not make it'

# ---- the project's own definitions
crds=$here/../shared/agent-sandbox-crds
if [ ! -e "$crds/README.md" ]; then
	echo "  not run: the definitions of agent-sandbox are not beside the project (../shared/agent-sandbox-crds)"
	exit 0
fi
api=auto
for version in v1alpha1 v1beta1; do
	end_controller
	real $version
	begin_controller $version
	box=real-$version
	equal "$version as published: made and reached" kept "$(probe -T 7200 -- exec $box sh -c 'echo kept >keep; cat keep; sync' || cat "$tmp/said")"
	probe -T 7200 -- destroy $box || fail "$(cat "$tmp/said")"
	equal "$version as published: asleep" "$([ $version = v1alpha1 ] && echo 0 || echo Suspended)" \
		"$(field investigation-$box '{.spec.replicas}{.spec.operatingMode}')"
	equal "$version as published: awake, with its files" kept "$(probe -- exec $box cat keep || cat "$tmp/said")"
	equal "$version as published: no end any more" "" "$(field investigation-$box '{.spec.shutdownTime}')"
	probe -- wipe $box || fail "$(cat "$tmp/said")"
done

# ---- out of a warm pool
end_controller
begin_controller v1beta1 pool
claim() { kubectl get "sandboxclaims.v1beta1.extensions.agents.x-k8s.io" "investigation-$1" -o jsonpath="$2"; }
probe -W python -- exec early true
said "a pool that is not there ends the start at once" 'sandbox_create_failed: the SandboxClaim of early .*WarmPoolNotFound'
probe -W python -- wipe early || fail "$(cat "$tmp/said")"
kubectl apply -f - >/dev/null <<-'Y' || fail "template or pool is refused"
	apiVersion: extensions.agents.x-k8s.io/v1beta1
	kind: SandboxTemplate
	metadata: {name: python}
	spec:
	  podTemplate:
	    metadata: {labels: {muxd.dev/role: sandbox}}
	    spec:
	      restartPolicy: Never
	      terminationGracePeriodSeconds: 0
	      automountServiceAccountToken: false
	      securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
	      containers:
	      - name: sandbox
	        image: localhost/busybox:1
	        imagePullPolicy: Never
	        command: [sh, -c, "httpd -p 127.0.0.1:8000 -h /workspace; trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
	        workingDir: /workspace
	        volumeMounts: [{name: workspace, mountPath: /workspace}]
	  volumeClaimTemplates:
	  - metadata: {name: workspace}
	    spec: {accessModes: [ReadWriteOnce], storageClassName: loop, resources: {requests: {storage: 64Mi}}}
	---
	apiVersion: extensions.agents.x-k8s.io/v1beta1
	kind: SandboxWarmPool
	metadata: {name: python}
	spec: {sandboxTemplateRef: {name: python}}
Y
warm_runs() { kubectl get pods -o name | grep -q pod/python- && kubectl wait pod --all --for=condition=Ready --timeout=1s; }
until_ok 90 warm_runs || fail "the pool has no pod: $(tail -n 3 "$tmp/controller")"
equal "claimed: a pod that ran already" kept "$(probe -W python -T 7200 -- exec warm sh -c 'echo kept >keep; cat keep; sync' || cat "$tmp/said")"
said "through muxlet, which was streamed into it" 'backend=link .*workspace=yes'
box=$(claim warm '{.status.sandbox.name}')
[[ $box == python-* ]] && ok "adopted: $box" || fail "$(claim warm '{.status}')"
[[ $(claim warm '{.spec.lifecycle.shutdownTime}') =~ ^20.*Z$ ]] && ok "with an end of its own" || fail "$(claim warm '{.spec}')"
probe -W python -- list
said "in the list" "warm running"
probe -W python -- destroy warm || fail "$(cat "$tmp/said")"
equal "asleep" Suspended "$(kubectl get "sandboxes.v1beta1.agents.x-k8s.io" "$box" -o jsonpath='{.spec.operatingMode}')"
probe -W python -- stat warm
said "and known to be, with its workspace" 'stopped.*workspace=yes'
equal "woken: the same one, with its files" "kept $box" "$(probe -W python -- exec warm cat keep || cat "$tmp/said") $(claim warm '{.status.sandbox.name}')"
volume=$(kubectl get pvc "workspace-$box" -o jsonpath='{.spec.volumeName}')
probe -W python -- wipe warm || fail "$(cat "$tmp/said")"
for o in "sandboxclaims.v1beta1.extensions.agents.x-k8s.io/investigation-warm" "sandboxes.v1beta1.agents.x-k8s.io/$box" "pod/$box" "pvc/workspace-$box" "pv/$volume"; do
	kubectl get "$o" >/dev/null 2>&1 && fail "$o is still there"
done
ok "wiped: claim, Sandbox, pod and volume"

# ---- the whole daemon: what sleeps is woken by a request to a port
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<-Y
	sandbox: {backend: kubernetes}
	router: {ports: "8000"}
	kubernetes:
	  kubeconfig: $tmp/kubeconfig
	  namespace: $ns
	  image: localhost/busybox:1
	  hold: sandbox
	  warm_pool: python
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
daemon=1
token=$(new_token routed agent rounds,ports,lifecycle 30m)
round() { api "$token" POST /v1/agents/routed/rounds "{\"argv\":[\"sh\",\"-c\",\"$1\"],\"wait_ms\":60000}"; }
page() { curl -sS --cacert "$MUXD_STATE/keys/tls.crt" -H "Authorization: Bearer $token" -H 'X-Sandbox-ID: routed' -H 'X-Sandbox-Port: 8000' "https://$(ready https)/page.html"; }
round 'echo paged >page.html; sync' >"$tmp/round"
equal "a round in a claimed sandbox" 0 "$(jq -r .exit.code "$tmp/round" || cat "$tmp/round")"
equal "a request to a port of it" paged "$(page)"
box=$(claim routed '{.status.sandbox.name}')
mode() { kubectl get "sandboxes.v1beta1.agents.x-k8s.io" "$box" -o jsonpath='{.spec.operatingMode}'; }
muxctl sandbox stop routed --reason "the story goes on" >"$tmp/stop" 2>&1 || fail "it does not stop: $(cat "$tmp/stop")"
equal "stopped: its Sandbox sleeps" "stopped Suspended" "$(muxctl sandbox show routed -o json | jq -r .state) $(mode)"
paged() { [ "$(page)" = paged ]; } # its server may begin a moment behind muxlet
until_ok 60 paged && ok "a request to the port wakes it, and is answered" || fail "$(page; cat "$tmp/state/daemon.log" | tail -n 5)"
equal "the same one runs" "running Running $box" "$(muxctl sandbox show routed -o json | jq -r .state) $(mode) $(claim routed '{.status.sandbox.name}')"
