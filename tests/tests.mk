# Tests: included by the top Makefile. tests/run-all shows what a layer prints and counts it.

unit_dir := $(O)/unit
unit_cc := $(CC)
sanitize := -fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

# Compiling takes longer than running: nothing is optimised, unless CFLAGS says so, and of debug information there is what the
# sanitisers' reports need. No path of this checkout is in an object, or the compiler cache would have none for another one: the
# tests run in its top folder.
# Where binutils have gold, it links in a third of the time of ld.
unit_debug := $(if $(filter file,$(origin CFLAGS)),-O0 -g1,$(CFLAGS))

# Fortified functions hide reads from ASan, hence no _FORTIFY_SOURCE.
unit_cflags = $(filter-out -D_FORTIFY_SOURCE=2,$(base_cflags)) $(sanitize)
$(unit_dir)/obj/tests/%.o: unit_cflags += -DFIXTURES='"$(unit_dir)/fixtures"' \
	-DDOUBLES='"$(unit_dir)/doubles"'
test_linker := $(if $(shell command -v ld.gold),-fuse-ld=gold)
unit_libs = $(cli_libs) $(init_libs) -lcmocka

# Every object of a program but its main.c, sanitised, for whatever a test needs of it. The programs
# share names (both read images), so a test gets the library of the one whose headers it includes.
libraries := $(unit_dir)/libslipway.a $(unit_dir)/libinit.a $(unit_dir)/libsupport.a
not_main = $(patsubst %.c,$(unit_dir)/obj/%.o,$(filter-out %/main.c,$(1)))
unit_sources := $(wildcard tests/unit/*/test_*.c)
unit_programs := $(patsubst tests/unit/%.c,$(unit_dir)/%,$(unit_sources))
fixtures := $(patsubst tests/unit/fixtures/%.c,$(unit_dir)/fixtures/%.ko,$(wildcard tests/unit/fixtures/*.c))

$(unit_dir)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(unit_cc) $(unit_cflags) $(CPPFLAGS) $(unit_debug) -MMD -MP -c -o $@ $<

$(unit_dir)/libslipway.a: $(call not_main,$(common_sources) $(module_sources) $(kernels_sources) $(cli_sources))
$(unit_dir)/libinit.a: $(call not_main,$(common_sources) $(module_sources) $(entrypoint_sources))
# What tests share: whatever in tests/unit is not a test itself.
$(unit_dir)/libsupport.a: $(call not_main,$(filter-out $(unit_sources),$(wildcard tests/unit/*.c)))
# q, not r: two objects from different folders may have one name.
$(libraries):
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) qcs $@ $^

init_tests := $(filter $(unit_dir)/entrypoint/%,$(unit_programs))
$(init_tests): $(unit_dir)/libinit.a
$(filter-out $(init_tests),$(unit_programs)): $(unit_dir)/libslipway.a

$(unit_programs): $(unit_dir)/%: $(unit_dir)/obj/tests/unit/%.o $(unit_dir)/libsupport.a
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(unit_cc) -pie $(sanitize) $(test_linker) $(LDFLAGS) -o $@ $(filter %.o,$^) \
		$(unit_dir)/libsupport.a $(filter-out %/libsupport.a %.o,$^) $(unit_libs)

# Small module files: objects with the sections that modpost writes, relinked to carry a build id.
$(unit_dir)/fixtures/%.ko: tests/unit/fixtures/%.c tests/unit/fixtures/module_sections.h
	@mkdir -p $(@D)
	@echo "  KO      $@"
	$(Q)$(CC) -std=c11 -I. -O1 -ffreestanding -fno-pic -fno-stack-protector -fno-asynchronous-unwind-tables \
		-r -nostdlib -Wl$(comma)--build-id=0x0123456789abcdef0123456789abcdef01234567 -o $@ $<

# Stand-ins for libraries of the vendor.
doubles := $(unit_dir)/doubles/libnvidia-ml.so.1
# Read when they run.
$(unit_programs): | $(fixtures) $(doubles)
$(unit_dir)/doubles/libnvidia-ml.so.1: tests/unit/doubles/nvml.c
	@mkdir -p $(@D)
	@echo "  DOUBLE  $@"
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize% -fPIE,$(base_cflags)) -fPIC -shared -o $@ $<

.PHONY: unit-programs
unit-programs: $(unit_programs) $(fixtures) $(doubles)

# ---- fuzzing: clang only, the code under test instrumented with it

fuzz_dir := $(O)/fuzz
fuzz_cc ?= clang
fuzz_flags := -fsanitize=fuzzer-no-link$(comma)address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
fuzz_sources := $(wildcard tests/fuzz/fuzz_*.c)
fuzz_programs := $(patsubst tests/fuzz/%.c,$(fuzz_dir)/%,$(fuzz_sources))
# Compiled once for all targets; a target links what it needs of it.
fuzz_tested := $(patsubst %.c,$(fuzz_dir)/obj/%.o,$(common_sources) $(module_sources) $(kernels_sources) \
	cli/programs/elf_program.c entrypoint/engine/statefile.c entrypoint/role/pci_config.c \
	$(addprefix entrypoint/netstate/,device_record.c netlink.c records.c))

$(fuzz_dir)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(fuzz_cc) $(filter-out -D_FORTIFY_SOURCE=2,$(base_cflags)) $(fuzz_flags) -O1 -g -MMD -MP -c -o $@ $<

$(fuzz_dir)/libtested.a: $(fuzz_tested)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) qcs $@ $^

$(fuzz_programs): $(fuzz_dir)/%: $(fuzz_dir)/obj/tests/fuzz/%.o $(fuzz_dir)/libtested.a
	@echo "  FUZZ    $@"
	$(Q)$(fuzz_cc) $(subst -fsanitize=fuzzer-no-link,-fsanitize=fuzzer,$(fuzz_flags)) -pie -o $@ $^ \
		$(cli_libs) $(init_libs)

.PHONY: fuzz-programs
fuzz-programs: $(fuzz_programs) $(fixtures) $(doubles)

# ---- images for the VM tests

# The kernel that Debian's meta package stands for: for some hours after a new one was published, slipway's "newest" is one
# whose signed image, which the VM boots, is not there yet.
newest_signed = $(or $(shell apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: linux-image-\([0-9]\)/\1/p' | head -n 1),newest)
images_options ?= --kernel $(newest_signed) --ofed reference

# The other NIC image has another version of OFED, with another CRC for the peer-memory interface: what a node is upgraded to.
other_ofed := $(O)/ofed-second

# A file of its own is its time: all in the tree are of 1970.
$(other_ofed).made: scripts/reference-ofed $(wildcard scripts/reference-ofed.d/*)
	scripts/reference-ofed --variant other --output $(other_ofed)
	touch $@

.PHONY: images
images: all $(other_ofed).made ## build the images for the newest kernel, for the VM tests
	$(O)/slipway build $(images_options) --output $(O)/images
	$(O)/slipway build --kernel "$$(jq -r .krel $(O)/images/images.json)" --ofed $(other_ofed) --nvidia none \
		--output $(O)/images/other
	$(O)/slipway build --kernel "$$(jq -r .krel $(O)/images/images.json)" --ofed reference \
		--gdrcopy tests/vm/addons/gdrcopy --nvidia-fs tests/vm/addons/gds-nvidia-fs --output $(O)/images/addons

# A quarter of an hour; then it stays in the user's cache, and a fifth of the VM's cases run in it: tests/vm/README.md.
.PHONY: um
um: $(O)/slipway ## compile User Mode Linux and images for it: the VM tests take less time then
	kernel=$$(tests/vm/um/make-um-kernel --build $(O)/vm --slipway $(O)/slipway) && \
		tests/vm/um/make-um-images --slipway $(O)/slipway --kernel "$$kernel" $(O)/images-um

# ---- what a developer calls

# exec: what ends make ends the run and all that it started, too.
run_all = exec env O='$(O)' MAKE='$(MAKE)' tests/run-all

.PHONY: check check-quick check-failed check-unit check-cli check-real check-vm check-fuzz check-full
check: ## lint, unit, fuzz, CLI and VM tests, Debian's real suites; the last line counts them all
	+@$(run_all) check
check-quick: ## what needs no VM: lint, unit and CLI tests
	+@$(run_all) quick
check-failed: ## only what failed, or was cut short, when it was run last
	+@$(run_all) failed
check-unit: ## cmocka tests under ASan and UBSan
	+@$(run_all) unit
check-cli: ## BATS tests of both programs' verbs
	+@$(run_all) build cli
check-real: ## real packages and sources: Debian's suites resolve, images are built, signed, combined and exported
	+@$(run_all) build real
check-vm: ## BATS tests of the built images in the VM
	+@$(run_all) vm
check-fuzz: ## every fuzz target for 5 seconds (FUZZ_SECONDS)
	+@$(run_all) fuzz
check-full: ## check, and all of check-full-1, check-full-2 … (tests/full-parts): other kernels and distributions
	+@$(run_all) full
# A part of check-full by itself.
check-full-%:
	+@$(run_all) build full-$*

# ---- what `make bench` runs in the guest: static, for they run in the driver image's root

bench_dir := $(O)/bench
bench_programs := $(bench_dir)/stopwatch $(bench_dir)/floor $(bench_dir)/measure

$(bench_dir)/%: tests/bench/%.c common/fs.c common/strv.c $(wildcard common/*.h)
	@mkdir -p $(@D)
	@echo "  BENCH   $@"
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(base_cflags)) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -static -o $@ \
		$(filter %.c,$^)

.PHONY: bench-programs bench bench-build bench-resolve bench-verify
bench-programs: $(bench_programs)
bench-resolve: all bench-programs ## finding a kernel's packages beside apt, and the memory of large lists
	O=$(O) tests/bench/resolve $(bench_resolve_options)
bench-verify: all bench-programs ## the load proof of all of Debian's modules beside depmod
	O=$(O) tests/bench/verify $(bench_verify_options)
bench-build: all ## compiling modules for a first and a second kernel, beside the source's own make
	O=$(O) tests/bench/build $(bench_build_options)
bench: images bench-programs bench-resolve bench-verify ## times against the floor and against a stock-like script, sizes, memory
	O=$(O) tests/bench/run $(bench_options)
	O=$(O) tests/bench/nic

# ---- the agreement test in the VM: what makes mutants, what loads them, and what asks the proof

agreement_dir := $(O)/agreement
agreement_source := tests/vm/agreement
agreement_cflags = $(filter-out -fsanitize% -fno-sanitize%,$(base_cflags)) $(CPPFLAGS) $(CFLAGS)

# Process 1 of a guest that has nothing else, for the machine that the guest is, as uname -m calls it.
this_machine := $(shell uname -m)
$(agreement_dir)/loader-%: $(agreement_source)/loader.c
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(if $(filter $*,$(this_machine)),$(CC),$*-linux-gnu-gcc-12) $(agreement_cflags) $(LDFLAGS) -static -o $@ $<

$(agreement_dir)/mutate: $(wildcard $(agreement_source)/mutate*.c) $(agreement_source)/image.c $(wildcard $(agreement_source)/*.h)
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(agreement_cflags) $(LDFLAGS) -pie -o $@ $(filter %.c,$^)

$(agreement_dir)/judge: $(O)/$(agreement_source)/judge.o $(call objects,$(module_sources) $(common_sources))
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(base_ldflags) $(LDFLAGS) -o $@ $^ $(cli_libs) -ldl

$(agreement_dir)/certs: $(agreement_source)/certs.c
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)$(CC) $(agreement_cflags) $(LDFLAGS) -pie -o $@ $< $(call pkg_libs,libcrypto)

.PHONY: agreement-programs
agreement-programs: $(addprefix $(agreement_dir)/,loader-$(this_machine) mutate judge certs)

# ---- what the VM's tests of the network state run: the role's own code without the role

$(O)/nettool: $(O)/tests/vm/nettool.o $(call objects,$(wildcard entrypoint/netstate/*.c) entrypoint/role/pci.c entrypoint/role/pci_config.c $(addprefix entrypoint/engine/,spawn.c statefile.c kill_point.c) $(init_common))
	@echo "  LINK    $@"
	$(Q)$(CC) $(base_ldflags) $(LDFLAGS) -o $@ $^ -lmnl
