#!/bin/bash
# A pod template over the pods that muxd makes: placed, sized, labelled and accompanied as it says; a pod that no node can take tells
# the scheduler's words; a field that this server does not know is named, and the workspace stays. The template of now counts at
# the next start. An agent's own is merged over it, outlives stops and restarts of muxd, and goes when it is taken away.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"

cluster storage start || fail "no storage"
chmod 0711 "$tmp"
mark=muxd-$ns
daemon=
end_template() {
	[ -z "$daemon" ] || stop_daemon
	kubectl label node "$K8S_NODE" "$mark-" >/dev/null 2>&1
	kubectl delete priorityclass "$mark" --ignore-not-found >/dev/null 2>&1
	end_story
}
trap end_template EXIT
kubectl label node "$K8S_NODE" "$mark=here" --overwrite >/dev/null || fail "the node takes no label"
kubectl create priorityclass "$mark" --value=7 >/dev/null || fail "no priority class"
kubectl create configmap models --from-literal=word=small >/dev/null || fail "no config map"
cat >"$tmp/muxd.yaml" <<-Y
	sandbox: {backend: kubernetes, workspace_size: 24MiB}
	kubernetes:
	  kubeconfig: $tmp/kubeconfig
	  namespace: $ns
	  image: localhost/busybox:1
	  pull_policy: Never
	  request_cpu: 10m
	  request_ephemeral: 1Mi
	  request_memory: 16Mi
	  limit_memory: 64Mi
	  workspace: claim
	  storage_class: loop
	  create_timeout: 40s
	  pod_template: $tmp/pod.yaml
	  pod_template_config_maps: models
Y
# begin: the daemon, with the template on stdin
begin() {
	[ -z "$daemon" ] || stop_daemon
	cat >"$tmp/pod.yaml"
	daemon=
	start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon: $(tail -n 3 "$tmp/state/daemon.log")"
	daemon=yes
	svc=$(PRINCIPAL=planner new_token '*' service lifecycle,rounds 30m)
}
resume() { api "$svc" POST "/v1/agents/$1/resume" '{}'; }
asleep() { api "$svc" POST "/v1/agents/$1/stop" '{"reason":"template story"}' | jq -r '.lifecycle.state // .state // .error.message'; }
round() { api "$svc" POST "/v1/agents/$1/rounds" "$(jq -nc --arg c "$2" '{argv:["sh","-c",$c],wait_ms:60000}')" | jq -r '"\(.exit.code) \(.stdout.data)"'; }
field() { kubectl get pod "muxd-$1" -o jsonpath="$2"; }
started() {
	muxctl audit --event sandbox.state -n 200 -o json |
		jq -rs --arg a "$1" '[.[].record | select(.agent == $a and .outcome == "ok" and .detail.to == "running")] | last | .detail.pod_template // "none"'
}

begin <<-Y
	metadata:
	  labels: {team: red}
	  annotations: {note: hello}
	spec:
	  nodeSelector: {$mark: here}
	  priorityClassName: $mark
	  tolerations: [{key: $mark, operator: Exists, effect: NoSchedule}]
	  volumes: [{name: models, configMap: {name: models}}]
	  containers:
	  - name: sandbox
	    env: [{name: WORD, value: said}]
	    resources: {limits: {memory: 96Mi}}
	    volumeMounts: [{name: models, mountPath: /models, readOnly: true}]
	  - name: side
	    image: localhost/busybox:1
	    imagePullPolicy: Never
	    command: [sh, -c, 'trap "exit 0" TERM; while :; do sleep 1; done']
	    volumeMounts: [{name: workspace, mountPath: /seen, readOnly: true}]
Y
equal "a sandbox with a template works" "0 said small" "$(round a 'echo kept >keep; sync; echo -n "$WORD $(cat /models/word)"')"
equal "labels, annotations, node, priority" "red hello here 7" \
	"$(field a '{.metadata.labels.team} {.metadata.annotations.note}') $(field a "{.spec.nodeSelector['$mark']} {.spec.priority}")"
equal "its toleration stands in front of ours" "$mark node.kubernetes.io/not-ready" "$(field a '{.spec.tolerations[0].key} {.spec.tolerations[1].key}')"
equal "its memory counts, our request stays" "96Mi 10m" "$(field a '{.spec.containers[0].resources.limits.memory} {.spec.containers[0].resources.requests.cpu}')"
equal "what is ours is as ever" "false 1000 $ns" "$(field a '{.spec.automountServiceAccountToken} {.spec.securityContext.runAsUser} {.metadata.namespace}')"
equal "the container beside ours is confined as ours is" '["ALL"] false' \
	"$(field a '{.spec.containers[1].securityContext.capabilities.drop} {.spec.containers[1].securityContext.allowPrivilegeEscalation}')"
equal "it sees the workspace" kept "$(kubectl exec muxd-a -c side -- cat /seen/keep)"
kubectl exec muxd-a -c side -- sh -c 'echo no >/seen/keep' 2>/dev/null && fail "and writes to it" || ok "and cannot write to it"
digest=$(field a '{.metadata.annotations.muxd\.dev/pod-template}')
equal "the audit event of its start has the template's digest" "$digest" "$(started a)"
[ ${#digest} -eq 64 ] && ok "a digest: $digest" || fail "the annotation is '$digest'"

# ---- the next start is made from the template of now
equal "asleep" stopped "$(asleep a)"
begin <<<'{"metadata": {"labels": {"team": "blue"}}}'
equal "woken, with its files" "0 kept" "$(round a 'cat keep | tr -d "\n"')"
equal "from the template of now alone" "blue  1" "$(field a '{.metadata.labels.team} {.spec.nodeSelector}') $(field a '{.spec.containers[*].name}' | wc -w)"
[ "$(started a)" != "$digest" ] && ok "and another digest" || fail "the digest stayed"

# ---- an agent's own, over the configured one
sed -i "s/^  pod_template_config_maps: models/&\n  pod_template_per_create: admin\n  pod_template_priority_classes: $mark/" "$tmp/muxd.yaml"
begin <<<'{"metadata": {"labels": {"team": "blue"}}}'
show() { muxctl sandbox show "$1" -o json | jq -r "$2"; }
cat >"$tmp/own.yaml" <<-Y
	metadata: {labels: {task: train}}
	spec:
	  priorityClassName: $mark
	  volumes: [{name: models, configMap: {name: models}}]
	  containers:
	  - name: sandbox
	    resources: {limits: {memory: 80Mi}}
	    volumeMounts: [{name: models, mountPath: /models, readOnly: true}]
Y
refuses() {
	muxctl sandbox create own --pod-template /dev/stdin >"$tmp/out" 2>&1 && fail "$1: no error"
	grep -q -- "$2" "$tmp/out" && ok "refused: $1" || fail "$1: $(cat "$tmp/out")"
	kubectl get pod muxd-own >/dev/null 2>&1 && fail "$1: a pod was made"
}
refuses "a host namespace" "/spec/hostPID is not for a template" <<<'spec: {hostPID: true}'
refuses "a secret that is not listed" 'names the secret "keys"' <<<'spec: {volumes: [{name: k, secret: {secretName: keys}}]}'
refuses "the configured label" "/metadata/labels/team is set by kubernetes.pod_template" <<<'metadata: {labels: {team: red}}'
refuses "a priority class that is not listed" "is not in kubernetes.pod_template_priority_classes" <<<'spec: {priorityClassName: system-node-critical}'
muxctl sandbox create own --pod-template "$tmp/own.yaml" >"$tmp/out" || fail "not made: $(cat "$tmp/out")"
own_is() {
	equal "$1: both templates count" "blue train 7 80Mi" "$(field own '{.metadata.labels.team} {.metadata.labels.task} {.spec.priority} {.spec.containers[0].resources.limits.memory}')"
	equal "$1: shown as the pod has it" "$(field own '{.metadata.annotations.muxd\.dev/pod-template}') true" "$(show own '"\(.pod_made_with) \(.pod_template == .pod_made_with)"')"
}
own_is "made"
equal "with the file of its ConfigMap" "0 small" "$(round own 'echo kept >keep; sync; cat /models/word')"
digest=$(show own .own_pod_template)
equal "its own is in the log, by digest" "$digest" \
	"$(muxctl audit --agent own --event agent.resume -n 9 -o json | jq -rs '[.[].record | select(.outcome == "ok")] | last | .detail.own_pod_template')"
muxctl sandbox resume own --pod-template "$tmp/own.yaml" >/dev/null && ok "the same again is no change" || fail "the same again is refused"
echo 'metadata: {labels: {task: other}}' >"$tmp/other.yaml"
muxctl sandbox resume own --pod-template "$tmp/other.yaml" >"$tmp/out" 2>&1 && fail "a pod that runs was given another template"
grep -q bad_state "$tmp/out" && ok "one that runs has to be stopped first" || fail "$(cat "$tmp/out")"
equal "asleep" stopped "$(asleep own)"
begin <<<'{"metadata": {"labels": {"team": "blue"}}}'
equal "awake, after a restart of muxd" "0 kept" "$(round own 'cat keep | tr -d "\n"')"
own_is "awake"
equal "another agent has none of it" "null" "$(show a .own_pod_template)"
equal "asleep once more" stopped "$(asleep own)"
begin <<<'{"metadata": {"labels": {"team": "blue", "task": "mine"}}}'
resume own >"$tmp/out"
equal "a configuration that takes its label for itself stops the next start" invalid_request "$(jq -r .error.code "$tmp/out")"
grep -q '/metadata/labels/task is set by kubernetes.pod_template' "$tmp/out" && ok "and names it" || fail "$(cat "$tmp/out")"
[[ $(show own .pod_template_refused) == *labels/task* ]] && ok "as show does" || fail "show: $(muxctl sandbox show own)"
muxctl sandbox resume own --no-pod-template >"$tmp/out" || fail "not taken away: $(cat "$tmp/out")"
equal "taken away: the configured one alone, and the workspace" "blue mine 64Mi null kept" \
	"$(field own '{.metadata.labels.team} {.metadata.labels.task} {.spec.containers[0].resources.limits.memory}') $(show own .own_pod_template) $(round own 'cat keep' | cut -d' ' -f2)"
begin <<<'{"metadata": {"labels": {"team": "blue"}}}'

# ---- a pod that no node can take
sed -i 's/create_timeout: 40s/create_timeout: 20s/' "$tmp/muxd.yaml"
begin <<<'spec: {containers: [{name: sandbox, resources: {limits: {example.com/gpu: 1}}}]}'
resume gpu >"$tmp/out"
equal "an extended resource that no node has: in time, and" sandbox_create_timeout "$(jq -r .error.code "$tmp/out")"
grep -q 'Insufficient example.com/gpu' "$tmp/out" && ok "with the scheduler's words" || fail "$(cat "$tmp/out")"

# ---- a field that the server does not know
sed -i 's/create_timeout: 20s/create_timeout: 60s/' "$tmp/muxd.yaml"
equal "asleep again" stopped "$(asleep a)"
begin <<<'spec: {hostUsers: false}'
resume a >"$tmp/out"
if kubectl explain pod.spec.hostUsers >/dev/null 2>&1; then
	equal "this server knows hostUsers" false "$(field a '{.spec.hostUsers}')"
else
	equal "a field that the server drops is an error" k8s_field_dropped "$(jq -r .error.code "$tmp/out")"
	grep -q 'dropped /spec/hostUsers, which the pod template asks for' "$tmp/out" && ok "that names it" || fail "$(cat "$tmp/out")"
	kubectl get pod muxd-a >/dev/null 2>&1 && fail "the pod stayed" || ok "the pod is gone again"
	begin </dev/null
	equal "the workspace stays" "0 kept" "$(round a 'cat keep | tr -d "\n"')"
fi
