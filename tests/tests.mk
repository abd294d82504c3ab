# What make test, lint, run and the rest do. Included by the Makefile.

# Debian 12 packages: to build and run, to test. `make setup` installs what is missing.
PKG_BUILD := gcc make pkg-config libc6-dev libwebsockets-dev libwebsockets-evlib-uv libuv1-dev libssh-dev libvterm-dev libssl-dev \
	zlib1g-dev libdeflate-dev libzstd-dev libarchive-dev libsqlite3-dev libyaml-dev libjansson-dev libseccomp-dev libcurl4-openssl-dev uthash-dev bubblewrap e2fsprogs zstd \
	util-linux
PKG_RUN   := openssh-client curl
PKG_TEST  := $(PKG_RUN) libcmocka-dev openssh-server sshpass tmux asciinema clang clang-tidy clang-format libclang-rt-14-dev \
	shellcheck gojq jq mandoc procps python3 python3-yaml python3-jsonschema python3-paramiko python3-cryptography python3-zstandard python3-websockets python3-prometheus-client vim less ca-certificates openssl libcap2-bin git ccache \
	chromium chromium-headless-shell fonts-dejavu-core iproute2 rsyslog rsyslog-gnutls python3-botocore mypy zsh fish \
	golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev
PKG_K8S   := golang-1.19-go golang-github-modern-go-reflect2-dev dpkg-dev patch xz-utils etcd-server containerd runc \
	containernetworking-plugins busybox-static iproute2 openssl curl gojq jq python3 gcc libc6-dev procps e2fsprogs
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

setup-build: setup-node ; @tests/lib/packages.sh "$(SUDO)" $(PKG_BUILD)
# Any node from 18 on with its npm, wherever it comes from.
setup-node: ; @command -v node >/dev/null && command -v npm >/dev/null || tests/lib/packages.sh "$(SUDO)" nodejs npm
setup-run: setup-node ; @tests/lib/packages.sh "$(SUDO)" $(PKG_BUILD) $(PKG_RUN)
setup-test: setup-node ; @tests/lib/packages.sh "$(SUDO)" $(PKG_BUILD) $(PKG_TEST)
setup-k8s: ; @tests/lib/packages.sh "$(SUDO)" $(PKG_K8S)
.PHONY: setup-node setup-build setup-run setup-test setup-k8s

# Packages first, then a second make, whose pkg-config then finds them.
run: setup-run ## install what is missing, build, start: SSH on 2222, HTTPS on 8443, Ctrl-C ends it
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@exec tests/lib/run.sh build
check: setup-test ## unit tests and corpora of what changed, layers: a minute and a half at most
	@tests/run.sh check $(if $(T),--only $(T))
test: setup-test ## everything CI checks, 12 minutes at most once it is built (T=name: one test by name)
	@tests/run.sh test $(if $(T),--only $(T))
test-all: setup-test ## everything plain and sanitized, long proofs whole, every story of the cluster: hours
	@tests/run.sh all $(if $(T),--only $(T))
bench: setup-test ## speed against peers, in one run of four minutes; writes build/bench.json, build/speed.svg (DOCS=1: docs/)
	@$(MAKE) --no-print-directory -j$$(nproc) all $(BUILD)/bench/client $(BUILD)/bench/floor $(BUILD)/bench/keeper $(BUILD)/bench/verdict
	@tests/bench/run.sh
bench-all: setup-test ## and many at once, pools, snapshots, replays (K8S_HOME=dir: pods, too)
	@$(MAKE) --no-print-directory -j$$(nproc) all $(BUILD)/bench/client $(BUILD)/bench/floor $(BUILD)/bench/keeper $(BUILD)/bench/verdict
	@tests/bench/run.sh all
# What snapshots of local workspaces cost: build/bench/local_snapshot [image|plain] [runs], as root.
$(BUILD)/bench/%: tests/bench/%.c $(LIBS_ALL) $(BUILD)/muxd-archive
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -DBUILD_DIR='"$(BUILD)"' -o $@ $< $(LIBS_ALL) $(LIBS_NET) -lcmocka $(LIBS)
$(BUILD)/bench/client: tests/bench/peer.h tests/bench/keys.h tests/bench/crowd.h
$(BUILD)/bench/floor $(BUILD)/bench/keeper: $(BUILD)/bench/%: tests/bench/%.c
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) -o $@ $< -lssl -lcrypto -lutil
.PHONY: run check test test-all bench bench-all

# --- a real Kubernetes cluster on this machine: tests/e2e/k8s/README.md
k8s-up: setup-k8s ## a one-node Kubernetes, as root (K8S_NET=n: one more)
	@tests/e2e/k8s/build.sh
	@tests/e2e/k8s/up.sh full
k8s-down: ## end it, and forget its data
	@tests/e2e/k8s/down.sh wipe
test-k8s: setup-test ## the Kubernetes stories alone (T=name: one; K8S_HOME=dir: on a cluster that is up)
	@tests/run.sh test --k8s $(if $(T),--only $(T))
# What a story drives a part of muxd with: tests/e2e/k8s/NAME.c
$(BUILD)/e2e/%: tests/e2e/k8s/%.c $(LIBS_ALL)
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LIBS_ALL) $(LIBS_NET) $(LIBS)
.PHONY: k8s-up k8s-down test-k8s

# The chart's second renderer (tests/integration/chart.sh), of Debian's Go packages and nothing from a network.
$(BUILD)/chart/render: tests/chart/render.go
	@mkdir -p $(@D)
	$(say) GO $@
	$(Q)GO111MODULE=off GOPROXY=off GOFLAGS= GOPATH=/usr/share/gocode GOCACHE=$(abspath $(@D))/cache go build -o $@.new $< && mv $@.new $@

check-layers: all ## includes and calls only point downwards (docs/architecture.md)
	@tests/lib/layers.sh
lint: ## clang-tidy, shellcheck, mandoc
	@tests/lib/lint.sh
format: ## clang-format over the tree
	@git ls-files '*.c' '*.h' | xargs clang-format -i
.PHONY: check-layers lint format

# --- fuzzing: corpus runs are tests; `make fuzz` looks for new inputs with libFuzzer
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
$(addprefix $(BUILD)/fuzz/,$(FUZZ)): $(BUILD)/fuzz/%: $(BUILD)/test/fuzz/%.o $(BUILD)/test/fuzz/run_corpus.o | $(PRODUCT)
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(LD_TEST) $(LIBS_NET) $(LIBS) $(LIBS_VT)
corpus: $(addprefix $(BUILD)/fuzz/,$(FUZZ))
	@set -e; for f in $(FUZZ); do $(BUILD)/fuzz/$$f tests/fuzz/corpus/$${f#fuzz_}; done
fuzz: build/contexts/programs.c ## libFuzzer, FUZZ_SECONDS=60 each (T=name for one)
	@tests/fuzz/run.sh "$(if $(T),fuzz_$(T),$(FUZZ))" $(FUZZ_SECONDS)
corpus-programs: $(addprefix $(BUILD)/fuzz/,$(FUZZ))
.PHONY: corpus corpus-programs fuzz

# --- install and dist
PREFIX ?= /usr/local
install: all ## into PREFIX (DESTDIR is honoured)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/muxd $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/share/man/man8
	install -s $(BUILD)/muxd $(BUILD)/muxctl $(DESTDIR)$(PREFIX)/bin
	install -s $(BUILD)/muxd-recorder $(BUILD)/muxd-screen $(BUILD)/muxd-archive $(BUILD)/muxd-witness $(BUILD)/muxd-issuer $(BUILD)/muxlet $(DESTDIR)$(PREFIX)/libexec/muxd
	for n in 1 5 8; do install -m 644 docs/man/*.$$n $(DESTDIR)$(PREFIX)/share/man/man$$n; done
	install -d $(DESTDIR)$(PREFIX)/share/muxd/profiles
	install -m 644 deploy/profiles/*.yaml $(DESTDIR)$(PREFIX)/share/muxd/profiles
	for at in bash-completion/completions/muxctl:bash zsh/site-functions/_muxctl:zsh fish/vendor_completions.d/muxctl.fish:fish; do \
		install -d $$(dirname $(DESTDIR)$(PREFIX)/share/$${at%:*}) && \
		$(BUILD)/muxctl completion script $${at##*:} >$(DESTDIR)$(PREFIX)/share/$${at%:*} && \
		chmod 644 $(DESTDIR)$(PREFIX)/share/$${at%:*} || exit 1; done
images: all ## container images as tars in build/, without an engine (as root)
	deploy/image/image.sh muxd $(BUILD) $(BUILD)/muxd-image.tar muxd:$(VERSION)
	deploy/image/image.sh muxlet $(BUILD) $(BUILD)/muxlet-image.tar muxlet:$(VERSION)
dist: ## source tarball of HEAD in build/
	@mkdir -p build
	git archive --prefix=muxd-$(VERSION)/ -o build/muxd-$(VERSION).tar.gz HEAD
clients: ## wheel, sdist and npm tarball of the clients, in build/clients
	clients/typescript/build.sh
	for kind in wheel sdist; do python3 clients/python/backend.py $$kind build/clients || exit 1; done
	cd build/clients/typescript && npm pack --silent --pack-destination ..
.PHONY: install images dist clients
