#!/bin/sh
# image.sh muxd|muxlet BUILD OUT.tar TAG: the image that the Dockerfile's target of this name makes, without a container
# engine: the tree of rootfs.sh as a tar for `docker load`, `podman load` or `ctr images import`. As root, so that the
# directories of the state belong to whom the image runs as.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 4 ] || {
	sed -n '2,4s/^# //p' "$0" >&2
	exit 1
}
what=$1 build=$2 out=$3 tag=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/rootfs.sh" "$what" "$build" "$work/root"
# The same words as in the Dockerfile: who it runs as, what it runs.
says() { sed -n "/^FROM scratch AS $what\$/,/^FROM/s/^$1 //p" "$here/Dockerfile"; }
RUN_AS=$(says USER) ENTRYPOINT=$(says ENTRYPOINT) CMD=$(says CMD)
export RUN_AS ENTRYPOINT CMD
OWNER=keep "$here/../../tests/e2e/k8s/image.py" "$work/root" "$out" "$tag"
