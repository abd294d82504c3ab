# muxd - see README.md. `make help` lists the targets.
SHELL := /bin/bash
SAN   ?=
# Compiled once is compiled: ccache, where it is installed (make test installs it).
CC    := $(if $(shell command -v ccache 2>/dev/null),ccache )gcc
BUILD := build$(if $(SAN),/san)
VERSION := 0.1.0

PKGS     := libuv jansson yaml-0.1 libcrypto libssl zlib libdeflate libzstd sqlite3 libseccomp libcurl
PKG_NET  := libwebsockets libssh
PKG_VT   := vterm
PKG_TAR  := libarchive libcrypto
CSTD     := -std=c17 -D_GNU_SOURCE -DMUXD_VERSION='"$(VERSION)"'
WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wwrite-strings -Wformat=2 -Wno-format-nonliteral
# Objects go into programs and into the shared object that the unit tests link; what the linker knows it calls directly either way.
HARD     := -fstack-protector-strong -fPIC -fno-semantic-interposition $(if $(SAN),,-D_FORTIFY_SOURCE=2)
OPT      := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all,-O2)
# Paths in objects are below the checkout, so that ccache knows them in another one.
CFLAGS   := $(CSTD) $(WARN) $(HARD) $(OPT) -g -ffile-prefix-map=$(CURDIR)=. -MMD -MP -I. $(shell pkg-config --cflags $(PKGS) $(PKG_NET) 2>/dev/null)
LDFLAGS  := -pie -Wl,-z,relro,-z,now $(if $(SAN),-fsanitize=$(SAN))
LIBS     := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lpthread
LIBS_NET := $(shell pkg-config --libs $(PKG_NET) 2>/dev/null)
LIBS_VT  := $(shell pkg-config --libs $(PKG_VT) 2>/dev/null)
LIBS_TAR := $(shell pkg-config --libs $(PKG_TAR) 2>/dev/null)

# make V=1 shows the commands.
Q := $(if $(V),,@)
say := @printf '  %-5s %s\n'

# One static library a part, in link order: a part may use those behind it, and the linker says so when one uses another. A
# part is a folder; main.c of a program is left out.
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
SRC_base     := $(wildcard base/*.c)
SRC_policy   := $(wildcard policy/*.c)
SRC_recorder := $(wildcard recorder/*/*.c)
SRC_archive  := $(wildcard control/archive/*.c)
SRC_control  := $(filter-out $(SRC_archive),$(wildcard control/*.c control/*/*.c control/*/*/*.c))
SRC_files    := $(wildcard files/*.c)
SRC_link     := $(wildcard muxd/link/*.c)
SRC_screen   := $(filter-out muxd/screen/main.c,$(wildcard muxd/screen/*.c))
SRC_plain    := $(wildcard muxd/plain/*.c)
SRC_hub      := $(wildcard muxd/hub/*.c muxd/hub/*/*.c) build/contexts/programs.c
SRC_doors    := $(wildcard muxd/doors/*.c muxd/doors/*/*.c muxd/doors/*/*/*.c) build/web/assets.c
SRC_monitor  := $(wildcard muxd/monitor/*.c)
SRC_net      := $(wildcard muxd/net/*.c)
SRC_witness  := $(filter-out muxd/witness/main.c,$(wildcard muxd/witness/*.c))
SRC_issuer   := $(filter-out muxd/issuer/main.c,$(wildcard muxd/issuer/*.c))
SRC_ctl      := $(filter-out muxd/ctl/main.c,$(wildcard muxd/ctl/*.c))
PARTS := net monitor issuer witness doors hub plain link control recorder screen policy files base
lib = $(BUILD)/lib/$(1).a
LIBS_ALL := $(foreach p,$(PARTS),$(call lib,$(p)))
LIBS_CTL := $(foreach p,ctl monitor witness control recorder screen policy files base,$(call lib,$(p)))
LIBS_REC := $(foreach p,recorder screen policy files base,$(call lib,$(p)))

all: $(BUILD)/muxd $(BUILD)/muxd-recorder $(BUILD)/muxd-screen $(BUILD)/muxd-archive $(BUILD)/muxd-witness $(BUILD)/muxd-issuer $(BUILD)/muxlet $(BUILD)/muxctl ## build everything
.PHONY: all
.DEFAULT_GOAL := all

# Other flags are other objects.
$(BUILD)/flags: FORCE
	@$(shell mkdir -p $(@D))$(file >$@.new,$(CFLAGS))cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:
.PHONY: FORCE

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

define part_rule
$(call lib,$(1)): $(call obj,$(SRC_$(1)))
	@mkdir -p $$(@D); rm -f $$@
	$(say) AR $$@
	$(Q)ar rcs $$@ $$^
$(1): $(call lib,$(1)) ## build one part
.PHONY: $(1)
endef
$(foreach p,$(PARTS) ctl,$(eval $(call part_rule,$(p))))

$(BUILD)/muxd: $(BUILD)/obj/muxd/main.o $(LIBS_ALL)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(LIBS_ALL) $(LIBS_NET) $(LIBS)
$(BUILD)/muxd-recorder: $(BUILD)/obj/recorder/main.o $(LIBS_REC)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(LIBS_REC) $(LIBS)
$(BUILD)/muxd-screen: $(BUILD)/obj/muxd/screen/main.o $(call lib,screen) $(call lib,base)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(LIBS_VT) $(LIBS)
$(BUILD)/muxd-archive: $(call obj,$(SRC_archive)) $(call lib,base)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(LIBS_TAR) $(LIBS)
$(BUILD)/muxd-witness: $(BUILD)/obj/muxd/witness/main.o $(call lib,witness) $(call lib,base)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(LIBS)
$(BUILD)/muxd-issuer: $(BUILD)/obj/muxd/issuer/main.o $(call lib,issuer) $(call lib,base)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -Wl,--as-needed $(LIBS)
$(BUILD)/muxctl: $(BUILD)/obj/muxd/ctl/main.o $(LIBS_CTL)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(LIBS_CTL) $(LIBS)

# muxlet goes into sandboxes: static, libc only (dynamic when a sanitizer wants it).
SRC_muxlet := $(wildcard muxd/muxlet/*.c) $(SRC_files) muxd/link/frame.c base/utf8.c base/relpath.c \
	$(addprefix base/,http1.c events.c loopback.c json_scan.c buf.c err.c text.c visible.c) # those of mcp.c
$(BUILD)/muxlet: $(patsubst %.c,$(BUILD)/muxlet.d/%.o,$(SRC_muxlet))
	$(say) LD $@
	$(Q)$(CC) $(if $(SAN),-fsanitize=$(SAN),-static -Wl,--gc-sections) -o $@ $^
$(BUILD)/muxlet.d/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CSTD) $(WARN) $(OPT) -ffunction-sections -fdata-sections -fstack-protector-strong -g -MMD -MP -I. -c $< -o $@

# The pages, built from TypeScript and linked in: nothing of node is needed when muxd runs.
build/web/assets.c: $(shell find webclient/src -type f) webclient/build.mjs webclient/build.sh webclient/package-lock.json
	$(say) WEB $@
	$(Q)webclient/build.sh

# What runs around the code of contexts inside sandboxes, as texts.
build/contexts/programs.c: Makefile $(wildcard muxd/hub/session/contexts/*)
	@mkdir -p $(@D)
	$(say) TEXT $@
	$(Q){ echo '#include "muxd/hub/session/context_call.h"'; for f in $(sort $(filter-out Makefile,$^)); do \
		echo "const char context_$$(basename $$f | tr . _)[] ="; sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $$f; echo '"";'; done; } >$@.new && mv $@.new $@

# --- tests: every tests/unit/test_*.c is one cmocka program. Tests are compiled by themselves and link one shared object of all
# parts, so that a change of the product makes that object anew and no test. What a test defines itself comes before it.
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
# They run in sandboxes as well, where that object is not.
ALONE := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(shell grep -l 'tests/lib/local_box\.h' tests/unit/test_*.c))
PRODUCT := $(BUILD)/lib/libmuxd-test.so
STARTED := $(addprefix $(BUILD)/,muxlet muxd-screen muxd-archive)
LD_TEST = $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(BUILD)/lib -Wl,-rpath,$(abspath $(BUILD)/lib) -lmuxd-test
$(PRODUCT): $(foreach p,$(PARTS) ctl,$(call obj,$(SRC_$(p))))
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) -shared -Wl,-z,now -Wl,-z,defs $(if $(SAN),-fsanitize=$(SAN)) -o $@.new $^ $(LIBS_NET) $(LIBS) $(LIBS_VT) && mv $@.new $@
$(BUILD)/test/%.o: tests/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS) -DBUILD_DIR='"$(BUILD)"' -c $< -o $@
$(filter-out $(ALONE),$(UNIT)): $(BUILD)/unit/%: $(BUILD)/test/unit/%.o | $(PRODUCT) $(STARTED)
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(LD_TEST) $(LIBS_NET) $(LIBS) $(LIBS_VT) -lcmocka
$(ALONE): $(BUILD)/unit/%: $(BUILD)/test/unit/%.o $(LIBS_ALL) | $(STARTED)
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(LIBS_ALL) $(LIBS_NET) $(LIBS) $(LIBS_VT) -lcmocka
unit: $(UNIT) ## run the unit tests (T=name for one)
	@set -e; for t in $(if $(T),$(BUILD)/unit/test_$(T),$(UNIT)); do $$t; done
unit-programs: $(UNIT)
.PHONY: unit unit-programs

-include tests/tests.mk

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' Makefile tests/tests.mk 2>/dev/null | sort -u | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'
.PHONY: help

clean: ## remove what was built
	rm -rf build
.PHONY: clean

-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
