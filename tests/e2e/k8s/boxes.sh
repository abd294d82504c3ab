# boxes.sh - stories of this machine in the cluster; sourced after story.sh, never run. Sandboxes are pods then: their
# /usr is this machine's, read-only, as in sandboxes of bubblewrap, so what a story of this machine runs in one is there.
# Workspaces are claims of storage.py, with snapshots.
# boxes [YAML] makes what that needs and writes $BOX_CONFIG, with more sections where they are given; start_daemon lays it
# under what a story configures. retell NAME... runs stories of tests/integration so, one after the other.
# shellcheck shell=bash disable=SC2154

# The image: what local sandboxes have besides /usr (control/local/cmdline.c), with its links into it.
box_image() {
	local tree=$tmp/box-image f
	mkdir -p "$tree"/{dev,etc/ssl,proc,run,sys,tmp,usr,var,workspace}
	mkdir -m 1777 "$tree/var/tmp"
	chmod 1777 "$tree/tmp"
	for f in bin sbin lib lib32 lib64 libx32; do
		[ ! -L "/$f" ] || ln -s "usr/$f" "$tree/$f"
	done
	for f in alternatives bash.bashrc ca-certificates inputrc ld.so.cache localtime mime.types os-release profile protocols \
		services shells ssl/certs terminfo vim; do
		[ ! -e "/etc/$f" ] || cp -a "/etc/$f" "$tree/etc/$f"
	done
	cp -aL /etc/python3* "$tree/etc/" 2>/dev/null
	printf 'root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/workspace:/bin/bash\n' >"$tree/etc/passwd"
	printf 'root:x:0:\ntty:x:5:\nagent:x:1000:\n' >"$tree/etc/group"
	cluster image "$tree" localhost/box:1 bash || fail "no image for the boxes"
}
# /usr as a volume that a pod template may name. No pod can write to it, and the kubelet gives no file of it away: it
# leaves the owners in hostPath volumes as they are.
box_usr() {
	kubectl apply -f - >/dev/null <<-Y || fail "no volume of /usr"
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: usr-$ns}
		spec:
		  capacity: {storage: 1Gi}
		  accessModes: [ReadOnlyMany]
		  persistentVolumeReclaimPolicy: Retain
		  storageClassName: none
		  claimRef: {namespace: $ns, name: usr}
		  hostPath: {path: /usr, type: Directory}
		---
		apiVersion: v1
		kind: PersistentVolumeClaim
		metadata: {name: usr}
		spec:
		  accessModes: [ReadOnlyMany]
		  storageClassName: none
		  volumeName: usr-$ns
		  resources: {requests: {storage: 1Gi}}
	Y
	until_ok 30 sh -c '[ "$(kubectl get pvc usr -o jsonpath="{.status.phase}")" = Bound ]' || fail "the claim of /usr is not bound"
}
end_boxes() {
	kubectl delete pvc usr --wait=false --request-timeout=10s >/dev/null 2>&1
	kubectl delete pv "usr-$ns" --wait=false --request-timeout=10s >/dev/null 2>&1
	end_story
}
boxes() {
	cluster storage start || fail "no storage"
	trap end_boxes EXIT
	chmod 0711 "$tmp"
	box_image
	box_usr
	cat >"$tmp/pod.yaml" <<-Y
		spec:
		  volumes: [{name: usr, persistentVolumeClaim: {claimName: usr, readOnly: true}}]
		  containers:
		  - name: sandbox
		    volumeMounts: [{name: usr, mountPath: /usr, readOnly: true}]
	Y
	BOX_CONFIG=$tmp/boxes.yaml BOX_NAMESPACE=$ns
	export BOX_CONFIG BOX_NAMESPACE
	cat >"$BOX_CONFIG" <<-Y
		sandbox: {backend: kubernetes, workspace_size: ${BOX_SIZE:-256MiB}}
		kubernetes:
		  kubeconfig: $tmp/kubeconfig
		  namespace: $ns
		  image: localhost/box:1
		  pull_policy: Never
		  request_cpu: 10m
		  request_ephemeral: 1Mi
		  request_memory: 64Mi
		  workspace: claim
		  storage_class: loop
		  snapshot_class: loop
		  pod_template: $tmp/pod.yaml
		  pod_template_claims: usr
		  muxlet_path: /opt/muxlet
		${1:-}
	Y
}
retell() {
	local name began
	for name; do
		began=$SECONDS
		echo "  -- $name"
		bash "$here/tests/integration/$name.sh" || fail "$name does not hold in the cluster"
		echo "  note: $name took $((SECONDS - began)) s"
	done
}
