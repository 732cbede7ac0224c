# Slipway: short targets that say what they do. `make help` lists them.
# Knobs: O (build folder), CC, CFLAGS, LDFLAGS, prefix, DESTDIR, V=1 (full commands), W=1 (-Werror), SAN=1 (ASan and UBSan).
# KILL_POINTS=1: slipway-init kills itself where a test says (entrypoint/engine/kill_point.h); never for images that anyone runs.

MAKEFLAGS += -rR
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

CC := $(if $(filter default undefined,$(origin CC)),gcc,$(CC))
AR := $(if $(filter default undefined,$(origin AR)),ar,$(AR))
O ?= build
prefix ?= /usr/local
CFLAGS ?= -O2 -g
Q := $(if $(V),,@)

# What only the build side links is looked up when a build-side target is made: slipway-init is also
# compiled in containers that have none of it.
pkg_cflags = $(shell pkg-config --cflags $(1))
pkg_libs = $(shell pkg-config --libs $(1))

comma := ,
base_cflags := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -Wall -Wextra -Wshadow \
	-Wmissing-prototypes -Wstrict-prototypes -Wvla -Wformat=2 -Wpointer-arith -Wcast-qual \
	-fstack-protector-strong -fPIE $(if $(W),-Werror) \
	-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables \
	$(if $(KILL_POINTS),-DSLIPWAY_KILL_POINTS) \
	$(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer,-D_FORTIFY_SOURCE=2)
base_ldflags := -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(if $(SAN),-fsanitize=address$(comma)undefined)

common_sources := $(wildcard common/*.c)
module_sources := $(wildcard module/*.c)
entrypoint_sources := $(filter-out entrypoint/look.c,$(wildcard entrypoint/*.c entrypoint/*/*.c))
kernels_sources := $(wildcard kernels/*.c kernels/*/*.c)
cli_sources := $(filter-out cli/probe/main.c,$(wildcard cli/*.c cli/*/*.c))

objects = $(patsubst %.c,$(O)/%.o,$(1))

# slipway-init links what a node needs; libkmod is opened at run time by the process that loads
# modules, never by the one that stays (see entrypoint/role/insert.c).
init_common := $(filter-out common/buildlog.c common/sha256.c common/process.c common/xalloc.c,$(common_sources))
# Signing is the build side's, and the only part of module/ that needs libcrypto.
init_module := $(filter-out module/sign.c,$(module_sources))
init_objects := $(call objects,$(entrypoint_sources) $(init_module) $(init_common))
# What unpacks is opened at run time too (module/decompress.c).
init_libs := -lmnl -ldl

cli_objects := $(call objects,$(cli_sources) $(kernels_sources) $(module_sources) $(common_sources))
cli_libs = $(call pkg_libs,json-c libarchive libcrypto libelf inih libcurl expat) -llzma -lzstd -lz

# `slipway probe` by itself, static, to be copied to any node of this architecture.
probe_objects := $(call objects,common/arch.c common/nearest.c common/xalloc.c cli/probe/main.c cli/probe/collect.c cli/cmd_probe.c cli/exit_code.c cli/message.c cli/options.c cli/image/output_place.c \
	kernels/krel.c \
	kernels/archive/pack.c kernels/local/scan.c kernels/local/files.c kernels/tree/tree.c \
	kernels/archive/unpack_link.c module/kernel_config.c module/names.c module/sysmodule.c common/path.c common/error.c common/text.c common/fs.c common/hash.c common/json_text.c common/strv.c)

.PHONY: all
all: $(O)/slipway $(O)/slipway-init $(O)/slipway-look $(O)/slipway-probe ## build slipway, slipway-init, slipway-look and slipway-probe

$(O)/slipway: $(cli_objects)
	@echo "  LINK    $@"
	$(Q)$(CC) $(base_ldflags) $(LDFLAGS) -o $@ $^ $(cli_libs)

# What nothing calls stays out, and tables that only C++ needs: a start reads the program from the disk.
$(O)/slipway-init: $(init_objects)
	@echo "  LINK    $@"
	$(Q)$(CC) $(base_ldflags) -Wl,--gc-sections $(LDFLAGS) -o $@ $^ $(init_libs)

# slipway-init without its roles, static, to inspect any node. Its own objects come before the archive of all others, which
# then gives only what they lack.
look_objects := $(call objects,entrypoint/look.c module/decompress_linked.c)
$(O)/module/decompress_linked.o: module/decompress.c
	@mkdir -p $(@D)
	@echo "  CC      $< (linked)"
	$(Q)$(CC) $(base_cflags) $(CPPFLAGS) $(CFLAGS) -DDECOMPRESS_LINKED -MMD -MP -c -o $@ $<
$(O)/libinit.a: $(filter-out $(O)/entrypoint/main.o,$(init_objects))
	@rm -f $@
	@echo "  AR      $@"
	$(Q)$(AR) qcs --thin $@ $^
$(O)/slipway-look: $(look_objects) $(O)/libinit.a
	@echo "  LINK    $@"
	$(Q)$(CC) $(filter-out -pie,$(base_ldflags)) $(if $(SAN),,-static) -Wl,--gc-sections \
		$(LDFLAGS) -o $@ $^ -llzma -lzstd -lz

# A sanitised program cannot be static.
$(O)/slipway-probe: $(probe_objects)
	@echo "  LINK    $@"
	$(Q)$(CC) $(filter-out -pie,$(base_ldflags)) $(if $(SAN),,-static) $(LDFLAGS) -o $@ $^ -lzstd -lz

$(O)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(base_cflags) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

-include $(shell find $(O) -path '$(O)/vm' -prune -o -name '*.d' -type f -print 2>/dev/null)

include tests/tests.mk

# What it has in it by .incbin, of which the compiler notes no dependency.
$(O)/cli/explain/causes.o $(unit_dir)/obj/cli/explain/causes.o: cli/explain/causes.txt
$(O)/cli/explain/findings.o $(unit_dir)/obj/cli/explain/findings.o: docs/verify.md
$(O)/common/reason_text.o $(unit_dir)/obj/common/reason_text.o $(fuzz_dir)/obj/common/reason_text.o: docs/reasons.md

man_pages := $(patsubst docs/man/%.scd,$(O)/man/%,$(wildcard docs/man/*.scd))

$(O)/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	@echo "  MAN     $@"
	$(Q)scdoc <$< >$@

.PHONY: man
man: $(man_pages) ## make the man pages

.PHONY: install
install: all man ## install under $(DESTDIR)$(prefix)
	$(Q)for page in $(man_pages); do \
		install -D -m 644 $$page $(DESTDIR)$(prefix)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	install -D -m 755 $(O)/slipway $(DESTDIR)$(prefix)/bin/slipway
	install -D -m 755 $(O)/slipway-look $(DESTDIR)$(prefix)/libexec/slipway/slipway-look
	install -D -m 755 $(O)/slipway-probe $(DESTDIR)$(prefix)/libexec/slipway/slipway-probe
	$(Q)for place in bash:bash-completion/completions/slipway zsh:zsh/site-functions/_slipway \
		fish:fish/vendor_completions.d/slipway.fish; do \
		$(O)/slipway completion $${place%%:*} >$(O)/completion && \
		install -D -m 644 $(O)/completion $(DESTDIR)$(prefix)/share/$${place#*:} || exit 1; done
	install -D -m 644 -t $(DESTDIR)$(prefix)/share/doc/slipway README.md CONTRIBUTING.md NEWS
	install -D -m 644 -t $(DESTDIR)$(prefix)/share/doc/slipway/docs docs/*.md
	install -D -m 644 -t $(DESTDIR)$(prefix)/share/doc/slipway/docs/man docs/man/*.scd
	scripts/install-data $(DESTDIR)$(prefix)/share/slipway

.PHONY: arm64-programs
arm64-programs: ## cross-compile slipway-look and slipway-probe for arm64 nodes
	scripts/cross-programs aarch64 $(O)/arm64-programs

.PHONY: lint
lint: ## clang-format, clang-tidy, cppcheck, shellcheck
	scripts/lint

.PHONY: quickstart
quickstart: all ## build both images for the newest 6.1 kernel and run them in the test VM
	@O=$(O) scripts/demo

.PHONY: clean
clean: ## remove the build folder (caches under ~/.cache/slipway stay)
	rm -rf $(O)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | sort | expand -t 14
