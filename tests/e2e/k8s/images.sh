#!/bin/bash
# images.sh: the images every cluster has, as tars in K8S_HOME/images; made without a registry.
#   localhost/pause:1      what holds a pod's namespaces
#   localhost/static:1     one static program and nothing else, no shell (static.c says what it can)
#   localhost/busybox:1    a shell and the usual tools; also as plain `busybox`
. "$(dirname "$0")/lib.sh"

images=$K8S_HOME/images
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

program() { cc -static -Os -s -Wall -Wextra -Werror "$K8S_DIR/static.c" -o "$1"; }
image() {
	local name=$1
	shift
	"$K8S_DIR/image.py" "$tree/$name" "$images/$name.tar.new" "$@"
	mv "$images/$name.tar.new" "$images/$name.tar"
}
busybox_tree() {
	local applet
	mkdir -p "$1"/{bin,dev,etc,proc,root,run,sys,tmp,usr/bin,var/run}
	chmod 1777 "$1/tmp"
	install -m 755 /bin/busybox "$1/bin/busybox"
	for applet in $(/bin/busybox --list); do
		[ "$applet" = busybox ] || ln "$1/bin/busybox" "$1/bin/$applet"
	done
	ln -s /bin/env "$1/usr/bin/env"
	printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n' >"$1/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\n' >"$1/etc/group"
}

if [ ! -s "$images/pause.tar" ]; then
	mkdir "$tree/pause"
	program "$tree/pause/pause"
	image pause localhost/pause:1 /pause
fi
if [ ! -s "$images/static.tar" ]; then
	mkdir "$tree/static"
	program "$tree/static/static"
	image static localhost/static:1 /static
fi
if [ ! -s "$images/busybox.tar" ]; then
	busybox_tree "$tree/busybox"
	image busybox localhost/busybox:1,docker.io/library/busybox:latest sh
fi
