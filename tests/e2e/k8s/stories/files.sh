#!/bin/bash
# muxctl demo, and files into pods and out of them: what holds on this machine holds in the cluster, through the link. And in
# a pod of others, by its own name.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/lib/files_story.sh
. "$here/tests/lib/files_story.sh"

# A disk each, of that size exactly, by a driver: what a person made by hand would be named as kept, and the demo's end not ok.
cluster storage start || fail "no storage"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<-YAML
	sandbox: {backend: kubernetes, workspace_size: 160MiB}
	kubernetes: {kubeconfig: $tmp/kubeconfig, image: localhost/busybox:1, pull_policy: Never, workspace: claim, storage_class: loop}
YAML
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'MUXD_STATE=$tmp/state; stop_daemon; end_story' EXIT

muxctl demo --backend kubernetes >"$tmp/out" 2>"$tmp/err" || fail "muxctl demo: $(cat "$tmp/out" "$tmp/err")"
cat "$tmp/out"
equal "five steps, all of them well" "ok create ok exec ok put ok get ok destroy" "$(awk '{printf "%s%s %s", s, $1, $2; s = " "}' "$tmp/out")"
until_ok 60 sh -c '[ -z "$(kubectl get pods -o name)" ]' || fail "a pod is left: $(kubectl get pods)"
ok "no pod is left"

agent=files
PRINCIPAL=files.1
inside true || fail "no sandbox"
equal "shown as what it is" "link true" "$(muxctl sandbox show $agent -o json | jq -r '"\(.backend) \(.enforced.workspace_size)"')"
files_there_and_back
files_names
files_modes
files_refused
files_cut
files_recorded
files_no_space 200000000 50000000
files_daemon_dies
muxctl sandbox destroy --reason "the story goes on" $agent >/dev/null || fail "not ended"

pod box localhost/busybox:1 sh -c 'while :; do sleep 1; done'
agent=$ns/box
head -c 1000000 /dev/urandom >"$tmp/f"
put "$tmp/f" /tmp/here || fail "put into a pod of others: $(cat "$tmp/err")"
equal "a file for a pod of others" "$(sum "$tmp/f")" "$(kubectl exec box -- sha256sum /tmp/here </dev/null | cut -d' ' -f1)"
agent=$ns/box/box
get /tmp/here "$tmp/g" || fail "get from its container: $(cat "$tmp/err")"
cmp "$tmp/f" "$tmp/g" && ok "and out of it, by its container's name"
token=$(new_token "$ns/box" staff files)
url=https://$(ready https)/v1/agents/$ns/box/box/files
curl_ -o "$tmp/g" "$url?path=/tmp/here"
cmp "$tmp/f" "$tmp/g" && ok "and by REST, with a grant for the pod"
equal "one container has one name" "$ns/box/box" "$(muxctl sandbox show "$ns/box" -o json | jq -r .agent)"
