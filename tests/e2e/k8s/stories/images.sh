#!/bin/bash
# Images and sizes of sandboxes that are pods: two images side by side, each by the name that the operator gave it; another one after
# a stop, over the same workspace; names that are not for pods refused before anything is made; an image that cannot be pulled told in
# Kubernetes' own words, and made good by another. Sizes as asked, clipped or refused by the profile of the task.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

# box NAME: an image of busybox with a file that tells which one it is. muxlet is not in it: muxd brings that.
box() {
	local tree=$tmp/$1 applet
	mkdir -p "$tree"/{bin,dev,etc,proc,sys,tmp,workspace}
	chmod 1777 "$tree/tmp"
	install -m 755 /bin/busybox "$tree/bin/busybox"
	for applet in $(/bin/busybox --list); do
		[ "$applet" = busybox ] || ln "$tree/bin/busybox" "$tree/bin/$applet"
	done
	printf 'agent:x:1000:1000:agent:/workspace:/bin/sh\n' >"$tree/etc/passwd"
	echo "$1" >"$tree/etc/image-name"
	cluster image "$tree" "localhost/$1:1" sh || fail "no image $1"
}
for name in plain red blue; do box $name; done
cluster storage start || fail "no storage"
chmod 0711 "$tmp"
cat >"$tmp/policy.yaml" <<'Y'
policy: 1
otherwise: as_granted
profiles:
- name: paint
  match: {task: "paint-*"}
  allow: [sandbox.*, round.*]
  image: red
  resources: {most: {cpu: 500m, memory: 96Mi}, default: {memory: 80Mi}}
- name: clips
  match: {task: "clips-*"}
  allow: [sandbox.*, round.*]
  image: [red, blue]
  resources: {most: {cpu: 500m, memory: 96Mi}, over: clip}
Y
# begin POLICY TIMEOUT: the daemon, told when and for how long the node looks for an image
begin() {
	[ -z "${MUXD_STATE:-}" ] || stop_daemon
	cat >"$tmp/muxd.yaml" <<-Y
		policy: {file: $tmp/policy.yaml}
		sandbox:
		  backend: kubernetes
		  workspace_size: 24MiB
		  images:
		  - {name: red, ref: "localhost/red:1"}
		  - {name: blue, ref: "localhost/blue:1"}
		  - {name: absent, ref: "localhost/absent:1"}
		  - {name: archived, archive: $tmp/archived.tar, digest: "sha256:$(printf '0%.0s' {1..64})"}
		kubernetes:
		  kubeconfig: $tmp/kubeconfig
		  namespace: $ns
		  cluster_name: here
		  image: localhost/plain:1
		  pull_policy: $1
		  create_timeout: $2
		  request_cpu: 10m
		  request_memory: 64Mi
		  request_ephemeral: 1Mi
		  limit_cpu: "1"
		  limit_memory: 128Mi
		  workspace: claim
		  storage_class: loop
		  snapshot_class: loop
	Y
	start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon: $(tail -n 3 "$tmp/state/daemon.log")"
	trap 'stop_daemon; end_story' EXIT
}
begin Never 2m
token() { PRINCIPAL=$1 GRANT_TASK=$1-1 new_token '*' service rounds,lifecycle 60m; }
free=$(token free) paint=$(token paint) clips=$(token clips)
resume() { api "$1" POST "/v1/agents/$2/resume" "${3:-"{}"}" | tee "$tmp/out"; }
code() { jq -r '.error.code // "fine"'; }
round() { api "$1" POST "/v1/agents/$2/rounds" "$(jq -nc --arg c "$3" '{argv:["sh","-c",$c],wait_ms:120000}')" | jq -r '.stdout.data // .error.code'; }
which() { round "$free" "$1" 'cat /etc/image-name'; }
show() { muxctl sandbox show "$1" -o json | jq -r "$2"; }
stop() { equal "$1 stops" stopped "$(muxctl sandbox stop "$1" --reason 'image story' >/dev/null; show "$1" .state)"; }
refs() { kubectl get pod "muxd-$1" -o jsonpath='{.spec.initContainers[*].image}{.spec.containers[*].image}'; }
sizes() { kubectl get pod "muxd-$1" -o json | jq -r '.spec.containers[0].resources | "\(.limits.cpu) \(.limits.memory) \(.requests.cpu) \(.requests.memory)"'; }
none_of() { [ -z "$(kubectl get pod,pvc -o name | grep "muxd-$1\$")" ] && ok "$1: no pod and no claim" || fail "$1: $(kubectl get pod,pvc)"; }

# ---- two side by side, by their names
equal "one by the API" "fine red" "$(resume "$free" r '{"image":"red"}' | code) $(show r .image)"
muxctl sandbox create b --image blue >/dev/null || fail "none by muxctl"
equal "each round sees its own image" "red blue plain" "$(which r) $(which b) $(which p)"
equal "each pod has the reference of its name, and nothing else" "localhost/red:1 localhost/blue:1 localhost/plain:1" "$(refs r) $(refs b) $(refs p)"

# ---- another one after a stop; a copy has that of whom it is made from
round "$free" r 'echo kept >keep; sync' >/dev/null
equal "another one for its next start: what runs stays as it is" "fine blue red localhost/red:1" "$(resume "$free" r '{"image":"blue"}' | code) $(show r .image) $(which r) $(refs r)"
stop r
equal "woken with it" fine "$(resume "$free" r | code)"
equal "the image changed and the workspace stayed" "blue kept localhost/blue:1" "$(round "$free" r 'cat /etc/image-name keep' | xargs) $(refs r)"
stop r
equal "and changes with the start itself" "fine red kept localhost/red:1" "$(resume "$free" r '{"image":"red"}' | code) $(round "$free" r 'cat /etc/image-name keep' | xargs) $(refs r)"
equal "a fork" fine "$(api "$free" POST /v1/agents/r/fork '{"as":"copy","writable":true}' | code)"
equal "has image and workspace" "red kept localhost/red:1" "$(round "$free" copy 'cat /etc/image-name keep' | xargs) $(refs copy)"
stop copy
equal "taken away: the configured one" "plain kept localhost/plain:1" \
	"$(resume "$free" copy '{"image":null}' >/dev/null; round "$free" copy 'cat /etc/image-name keep' | xargs) $(refs copy)"

# ---- what is not for pods is refused by name, and nothing is made
refused() {
	equal "refused: $1" image_not_allowed "$(resume "$free" x "{\"image\":\"$1\"}" | code)"
	grep -qF -- "$2" "$tmp/out" && ok "by name: $2" || fail "$(cat "$tmp/out")"
	equal "and told in the log" "image_not_allowed" "$(muxctl audit --agent x -n 1 -o json | jq -r .record.outcome)"
	muxctl sandbox create x --image "$1" >/dev/null 2>"$tmp/err" && fail "muxctl made $1"
	grep -q image_not_allowed "$tmp/err" && ok "by muxctl, too" || fail "$(cat "$tmp/err")"
	none_of x
}
refused localhost/red:1 'localhost/red:1 is not among sandbox.images'
refused green 'green is not among sandbox.images'
refused archived 'sandbox.images has no ref for archived, which a pod needs'
equal "nobody has heard of x" not_found "$(muxctl sandbox show x -o json 2>&1 | grep -o not_found | head -n 1)"
equal "nor is a fork made with one" image_not_allowed "$(api "$free" POST /v1/agents/r/fork '{"as":"x","writable":true,"image":"archived"}' | code)"
none_of x

# ---- whose it is, and where it is to be
app() { kubectl get pod "muxd-$1" -o json | jq -r '.metadata.labels["muxd.dev/app-id"] // "none"'; }
equal "an app's, where it is to be" "fine billing here $ns" "$(resume "$free" w "{\"app_id\":\"billing\",\"cluster\":\"here\",\"namespace\":\"$ns\",\"labels\":{\"muxd.dev/app-id\":\"forged\"}}" | code) $(show w '.reference | "\(.app_id) \(.cluster) \(.namespace)"')"
equal "is a label of its pod, and no label of the agent's own" "billing none" "$(app w) $(app p)"
equal "found by it" w "$(muxctl sandbox list --app-id billing -o json | jq -r '.agents[].agent')"
equal "another for its next start" "fine search billing" "$(resume "$free" w '{"app_id":"search"}' | code) $(show w .app_id) $(app w)"
stop w
equal "asleep it has its reference still" "search here $ns" "$(show w '.reference | "\(.app_id) \(.cluster) \(.namespace)"')"
equal "woken with it" "fine search" "$(resume "$free" w | code) $(app w)"
elsewhere() { # FIELD VALUE
	equal "refused: $1 $2" unsupported "$(resume "$free" x "{\"$1\":\"$2\"}" | code)"
	grep -qF -- "$2" "$tmp/out" && ok "by name: $2" || fail "$(cat "$tmp/out")"
	none_of x
}
elsewhere cluster prod
elsewhere namespace kube-system

# ---- sizes: as asked, by the profile, clipped, refused
equal "as asked, and a request follows its limit" "fine 300m 48Mi 10m 48Mi" "$(resume "$free" s '{"resources":{"cpu":"300m","memory":"48Mi"}}' | code) $(sizes s)"
equal "more than the operator's is that, and said" 'fine 1 128Mi 10m 64Mi ["memory"]' \
	"$(resume "$free" t '{"resources":{"memory":"1Gi"}}' | code) $(sizes t) $(show t '.resources_clipped | tojson')"
equal "what a pod cannot have" unsupported "$(resume "$free" x '{"resources":{"pids":100}}' | code)"
equal "a round makes one as its profile says" "red" "$(round "$paint" m 'cat /etc/image-name')"
equal "in image and sizes" "localhost/red:1 500m 80Mi 10m 64Mi" "$(refs m) $(sizes m)"
equal "which is in the log, ahead of the start" "red 80Mi" "$(muxctl audit --agent m --event policy.allow -n 9 -o json | jq -sr '.[0].record.detail.by_profile | "\(.image) \(.resources.memory)"')"
equal "over its most: refused" "policy_denied paint/resources" "$(resume "$paint" x '{"resources":{"memory":"1Gi"}}' | jq -r '"\(.error.code) \(.error.details.policy.rule)"')"
equal "another image: refused" "policy_denied paint/image" "$(resume "$paint" x '{"image":"blue"}' | jq -r '"\(.error.code) \(.error.details.policy.rule)"')"
none_of x
equal "over its most: clipped, and said" '96Mi ["memory"]' "$(resume "$clips" c '{"image":"blue","resources":{"cpu":"200m","memory":"1Gi"}}' | jq -r '"\(.resources.memory) \(.by_profile.clipped | tojson)"')"
equal "the pod has the most" "localhost/blue:1 200m 96Mi 10m 64Mi" "$(refs c) $(sizes c)"

# ---- the list is the one of now: what a reload brings may be had, what it takes away may not
listed() {
	sed -i "$1" "$tmp/muxd.yaml"
	muxctl config reload || fail "no reload"
}
listed 's|^  - {name: red,.*|&\n  - {name: green, ref: "localhost/blue:1"}|'
equal "a name that came with a reload" "fine blue localhost/blue:1" "$(resume "$free" g '{"image":"green"}' | code) $(which g) $(refs g)"
listed 's|name: green, ref: "localhost/blue:1"|name: green, ref: "localhost/red:1"|'
stop g
equal "another reference under it" "red localhost/red:1" "$(which g) $(refs g)"
listed '/name: green/d'
stop g
equal "a name that went with one" "image_not_allowed" "$(which g)"
equal "until the agent has another" "fine plain" "$(resume "$free" g '{"image":null}' | code) $(which g)"

# ---- an image that cannot be had: at once where it can never come, else at the end of create_timeout
# A kubelet of 1.20 takes its time to let go of a pod whose image does not come: a call that sees no end of that is repeated.
repaired() { [ "$(resume "$free" "$1" '{"image":"red"}' | code)" = fine ]; }
absent() {
	equal "$1: $2" "$2" "$(resume "$free" "$1" '{"image":"absent"}' | code)"
	grep -qE "$3" "$tmp/out" && ok "in Kubernetes' own words: $3" || fail "$(cat "$tmp/out")"
	equal "$1: the agent is in error, with these words" "error true" "$(show "$1" "\"\(.state) \(.detail | test(\"$3\"))\"")"
	equal "$1: its pod stays to be looked at" "Pending localhost/absent:1" "$(kubectl get pod "muxd-$1" -o jsonpath='{.status.phase}') $(refs "$1")"
	wait_for 60 repaired "$1" && ok "$1: another image in its place" || fail "$1: $(cat "$tmp/out")"
	equal "$1: works" "red localhost/red:1" "$(which "$1") $(refs "$1")"
}
absent never sandbox_create_failed ErrImageNeverPull
equal "given up instead" sandbox_create_failed "$(resume "$free" gone '{"image":"absent"}' | code)"
muxctl sandbox terminate gone --how wipe --reason 'image story' >/dev/null || fail "it cannot be wiped"
none_of gone
begin IfNotPresent 30s
absent late sandbox_create_timeout 'ErrImagePull|ImagePullBackOff'
equal "those from before go on" "red kept" "$(round "$free" r 'cat /etc/image-name keep' | xargs)"
muxctl verify --all >"$tmp/verify" 2>&1 && ok "the record verifies" || fail "$(tail -n 5 "$tmp/verify")"
