#!/bin/bash
# A coding agent's work in the cluster, by the stories of this machine, through the link: the day of a coding agent with
# both clients, what they do besides, starts that happen once under kill -9, what programs change, the changes of a
# workspace as an artifact, and workspaces that begin with one. They are claims, their snapshots VolumeSnapshots.
# tier: all
# shellcheck source=tests/e2e/k8s/story.sh
. "$(dirname "$0")/../story.sh"
# shellcheck source=tests/e2e/k8s/boxes.sh
. "$K8S_DIR/boxes.sh"

boxes
# shellcheck disable=SC2086 # words
KILLS=4 retell ${STORIES-changes changes_export workspace_begins coding_day exec_once clients}

# The clients' named errors, of the real API server: for an account that may nothing, and for a pod that no node takes.
ended() {
	[ -z "${DAEMON:-}" ] || stop_daemon
	end_boxes
}
trap ended EXIT
export PYTHONDONTWRITEBYTECODE=1 TMP_DIR=$tmp MUXD_STATE
named() {
	start_daemon "$tmp/$1" --config "$tmp/$1.yaml" || fail "no daemon"
	(umask 077 && new_token '*' service rounds,lifecycle >"$tmp/any")
	/usr/bin/python3 "$here/tests/integration/clients_cluster.py" "$1" || fail "see above"
	stop_daemon
	DAEMON=
}
cp "$tmp/kubeconfig" "$tmp/story.kubeconfig"
KUBECONFIG=$tmp/story.kubeconfig kubectl config set-credentials story --token="$(cat "$K8S_HOME/pki/story.token")" >/dev/null
KUBECONFIG=$tmp/story.kubeconfig kubectl config set-context --current --user=story >/dev/null
echo "kubernetes: {kubeconfig: $tmp/story.kubeconfig}" >"$tmp/forbidden.yaml"
echo 'kubernetes: {request_cpu: "900", limit_cpu: "900"}' >"$tmp/late.yaml"
named late
named forbidden
