#!/bin/bash
# build.sh: Kubernetes from Debian's source package, as one static program that is kube-apiserver, kube-controller-manager,
# kube-scheduler or kubelet by the name it is called with; and kubectl beside it, by itself, so that measuring it is fair.
# Once per machine: some five minutes on two cores, 3 GB of disk while it runs, 120 MB kept in K8S_CACHE. Exit 69: the
# source or the room for it cannot be had.
. "$(dirname "$0")/lib.sh"

package=kubernetes version=1.20.5+really1.20.2-1.1+deb12u1
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
work=$K8S_CACHE/work
log=$K8S_CACHE/build.log
tree=$work/go/src/k8s.io/kubernetes

# mirrors: source lines for whichever Debian mirrors this machine uses
mirrors() {
	# shellcheck disable=SC2016
	apt-get indextargets 'Identifier: Packages' 'Origin: Debian' --format \
		'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) $(COMPONENT)' | sort -u
}
# Into a directory of its own, with lists of its own: apt's sources stay as they are.
fetch() {
	local opt
	mkdir -p "$work/source/lists/partial"
	cd "$work/source"
	mirrors >sources.list
	[ -s sources.list ] || { apt-get -qq update && mirrors >sources.list; }
	opt=(-qq -o APT::Sandbox::User=root
		-o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$PWD/lists")
	apt-get "${opt[@]}" update
	apt-get "${opt[@]}" source --download-only "$package=$version"
	sha256sum --quiet -c - <<-E
		b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc  kubernetes_1.20.5+really1.20.2.orig.tar.gz
		9b6e5fd41769d2b5badf2e73b274e3bcd90f85e13d06a1a4a845ccce018127d8  kubernetes_1.20.5+really1.20.2-1.1+deb12u1.debian.tar.xz
	E
}
unpack() {
	local p
	mkdir -p "$tree"
	cd "$tree"
	tar -xf "$work"/source/kubernetes_*.orig.tar.gz --strip-components=1
	tar -xf "$work"/source/kubernetes_*.debian.tar.xz
	grep -v '^#' debian/patches/series | while read -r p; do patch -p1 -s <"debian/patches/$p"; done
}
mend() {
	local from=/usr/share/gocode/src/github.com/modern-go/reflect2 to=vendor/github.com/modern-go/reflect2
	cd "$tree"
	# The vendored reflect2 1.0.1 faults with Go 1.18 and later: the API server at the first custom resource, kubectl (Debian's
	# own, too) at the first map it writes.
	rm -f $to/*.go $to/*.s
	cp $from/*.go $from/*.s $to/
	rm -f $to/*_test.go
	# cadvisor asks five times, a second each, for a Docker daemon before the kubelet starts.
	sed -i 's/rootDirRetries = 5/rootDirRetries = 0/' vendor/github.com/google/cadvisor/container/docker/factory.go
}
# The API's OpenAPI definitions are generated, and the one generated file that the tarball lacks.
generate() {
	local marked
	cd "$tree"
	go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
	marked=$(grep -rl --include='*.go' --exclude='*_test.go' '+k8s:openapi-gen=' cmd pkg staging/src/k8s.io |
		grep -vE '_examples|sample-apiserver|code-generator' | xargs -n1 dirname | sort -u |
		sed -e 's|^staging/src/|vendor/|' -e 's|^|k8s.io/kubernetes/|' | paste -sd,)
	"$work/openapi-gen" -O zz_generated.openapi -i "$marked" -p k8s.io/kubernetes/pkg/generated/openapi \
		-h hack/boilerplate/boilerplate.generatego.txt -r "$work/violations"
}
# program OUT PACKAGE
program() {
	local v=k8s.io/kubernetes/vendor/k8s.io/component-base/version
	go build -trimpath -tags 'providerless dockerless' -o "$1" \
		-ldflags "-s -w -X $v.gitVersion=v$K8S_VERSION -X $v.gitMajor=1 -X $v.gitMinor=20 -X $v.gitTreeState=clean" "$2"
}
compile() {
	cd "$tree"
	mkdir -p cmd/multicall "$work/bin"
	cp "$K8S_DIR/multicall.go" cmd/multicall/main.go
	program "$work/bin/multicall" ./cmd/multicall
	program "$work/bin/kubectl" ./cmd/kubectl
}
# step NAME EXIT-CODE WHAT: runs the function in a shell of its own. Not as a condition: `set -e` would not hold in it.
step() {
	local t0=$SECONDS rc
	set +e
	(set -e && "$1") >>"$log" 2>&1
	rc=$?
	set -e
	[ $rc -eq 0 ] && { say "$1: $((SECONDS - t0)) s"; return; }
	tail -n 5 "$log" >&2
	echo "k8s: $3 failed; the whole log: $log" >&2
	exit "$2"
}

unavailable() {
	echo "k8s: $*" >&2
	exit 69
}
mkdir -p "$K8S_CACHE" 2>/dev/null && [ -w "$K8S_CACHE" ] || unavailable "the cache directory $K8S_CACHE cannot be written"
exec 9>"$K8S_CACHE/lock"
flock 9
[ ! -x "$K8S_CACHE/bin/kubelet" ] || exit 0
[ "$(df -m --output=avail "$K8S_CACHE" | tail -n 1)" -gt 4000 ] || unavailable "building needs 4 GB in $K8S_CACHE"
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
rm -rf "$work"
mkdir -p "$work/tmp"
: >"$log"
# Debian's Go 1.19, whatever else calls itself go here.
PATH=/usr/lib/go-1.19/bin:$PATH
unset GOROOT
export GOENV=off GOPATH=$work/go GOCACHE=$work/gocache GOTMPDIR=$work/tmp GO111MODULE=off GOFLAGS='' CGO_ENABLED=0 GOPROXY=off

say "building Kubernetes $K8S_VERSION into $K8S_CACHE (once; some five minutes)"
step fetch 69 "getting Debian's source package $package $version"
step unpack 1 "unpacking the source package"
step mend 1 "mending the source"
step generate 1 "generating OpenAPI definitions"
step compile 1 "compiling"
for p in "${programs[@]}"; do ln -s multicall "$work/bin/$p"; done
rm -rf "${K8S_CACHE:?}/bin"
mv "$work/bin" "$K8S_CACHE/bin"
say "built: $(du -sm "$K8S_CACHE/bin" | cut -f1) MB"
