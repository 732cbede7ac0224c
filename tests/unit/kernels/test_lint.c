/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/lint/lint.h"

static const struct lint_finding *lint_find(const struct lint *lint, const char *id)
{
	for (size_t i = 0; i < lint->count; i++)
		if (strcmp(lint->findings[i].id, id) == 0)
			return &lint->findings[i];
	return NULL;
}

/* A kernel of which there is nothing to say, and a request that wants everything of it. */
static const char *const compilers[] = { "clang-16", "gcc-11", "gcc-12", NULL };
static const struct strv compiler_list = { (char **) (uintptr_t) compilers, 3, 4 };

static struct kernel_record record;
static struct lint_request request;

static void all_options_off(void)
{
	for (unsigned int i = 0; i < KOPT_COUNT; i++)
		record.options[i] = 'n';
}

static char *text(const char *value)
{
	return (char *) (uintptr_t) value;
}

static int reset(void **state)
{
	(void) state;
	record = (struct kernel_record){
		.krel = text("6.1.0-56-amd64"),
		.arch = text("x86_64"),
		.tools_arch = text("x86_64"),
		.vermagic = text(""),
		.vermagic_source = text("config"),
		.config_source = text("lib/modules/6.1.0-56-amd64/build/.config"),
		.sig_hash = text("sha256"),
		.compress = text("none"),
		.compiler = { .name = text("gcc-12"),
			.family = text("gcc"),
			.program = text("gcc-12"),
			.version = text("12.2.0"),
			.text = text("gcc-12 (Debian 12.2.0-14) 12.2.0"),
			.linker = text("ld.bfd"),
			.major = 12,
			.config_version = 120200 },
		.page_kib = 4,
		.has_symvers = true,
		.prepared = true,
	};
	all_options_off();
	record.options[KOPT_MODULES] = 'y';
	record.options[KOPT_MODULE_UNLOAD] = 'y';
	record.options[KOPT_MODVERSIONS] = 'y';
	record.options[KOPT_BASIC_MODVERSIONS] = 'y';
	record.options[KOPT_INFINIBAND] = 'm';
	record.options[KOPT_MLX5_CORE] = 'm';
	record.options[KOPT_MLX5_INFINIBAND] = 'm';
	record.options[KOPT_DRM] = 'm';
	record.options[KOPT_DRM_KMS_HELPER] = 'm';
	request = (struct lint_request){
		.os = "debian12",
		.machine_arch = "x86_64",
		.compilers = &compiler_list,
		.ofed = true,
		.nvidia = true,
	};
	return 0;
}

/* Wants exactly this finding and no other; NULL wants none at all. */
static void expect(const char *id, enum lint_severity severity, const char *reason)
{
	_cleanup_(lint_free) struct lint lint = { 0 };

	lint_run(&record, &request, &lint);
	if (!id) {
		if (lint.count > 0)
			fail_msg("%s: %s", lint.findings[0].id, lint.findings[0].reason);
		return;
	}
	assert_int_equal(lint.count, 1);
	assert_string_equal(lint.findings[0].id, id);
	assert_int_equal(lint.findings[0].severity, severity);
	assert_contains(lint.findings[0].reason, reason);
	assert_true(strlen(lint.findings[0].fix) > 10);
}

static void nothing_is_found_in_a_good_kernel(void **state)
{
	(void) state;
	expect(NULL, LINT_NOTE, NULL);
}

static void an_incomplete_tree_is_an_error(void **state)
{
	(void) state;
	record.prepared = false;
	expect("not-prepared", LINT_ERROR, "utsrelease.h");
	record.prepared = true;
	record.has_symvers = false;
	expect("no-symvers", LINT_ERROR, "Module.symvers");
	record.has_symvers = true;
	record.tools_arch = text("");
	expect("host-tools-missing", LINT_WARNING, "fixdep");
}

/* Then unknown options have no finding. */
static void a_missing_configuration_is_the_only_finding_about_it(void **state)
{
	(void) state;
	record.config_source = text("");
	record.compiler.name = text("");
	all_options_off();
	expect("config-missing", LINT_ERROR, "no configuration");
}

static void foreign_architectures_are_errors(void **state)
{
	(void) state;
	record.tools_arch = text("aarch64");
	expect("host-tools-foreign-arch", LINT_ERROR, "for aarch64, this machine is x86_64");
	record.arch = text("aarch64");
	request.cross = true; /* the recipes make them, or run them by qemu-user */
	expect(NULL, LINT_NOTE, NULL);
	request.cross = false;
	record.tools_arch = text("x86_64");
	expect("kernel-foreign-arch", LINT_ERROR,
		"the kernel is for aarch64, this machine is x86_64");
	request.cross = true;
	expect(NULL, LINT_NOTE, NULL);
	request.cross = false;
	request.machine_arch = NULL;
	expect(NULL, LINT_NOTE, NULL);
}

static void kernels_that_share_a_label_share_a_tag(void **state)
{
	(void) state;
	record.krel = text("6.1.0-rc3+");
	expect("tag-shared", LINT_WARNING, "get the label 6.1.0-rc3,");
	record.krel = text("6.12.117+deb13-amd64");
	expect(NULL, LINT_NOTE, NULL);
}

static void the_compiler_must_be_known_and_there(void **state)
{
	(void) state;
	record.compiler.name = text("gcc-13");
	expect("compiler-missing", LINT_ERROR,
		"compiler gcc-13 is needed, but debian12 has gcc-11, gcc-12");
	record.compiler.name = text("gcc-1");
	expect("compiler-missing", LINT_ERROR, "gcc-1 is needed");
	record.compiler.name = text("icc-1");
	expect("compiler-missing", LINT_ERROR, "debian12 has none");
	request.compilers = NULL;
	expect(NULL, LINT_NOTE, NULL);
	record.compiler.name = text("");
	expect("compiler-unknown", LINT_ERROR, "is unknown");
	request.compiler = "gcc-12";
	expect(NULL, LINT_NOTE, NULL);
}

static void another_compiler_than_the_kernels_is_a_warning(void **state)
{
	(void) state;
	request.compiler = "gcc-12";
	expect(NULL, LINT_NOTE, NULL);
	request.compiler = "gcc-11";
	expect("compiler-major-differs", LINT_WARNING,
		"built with gcc-12, but modules will be built with gcc-11");
	request.compiler = NULL;
	record.compiler.disagrees = true;
	expect("config-compiler-disagrees", LINT_WARNING, "number is 120200");
}

/* Turns one option on, wants the finding, and turns it off again. */
static void expect_when(enum kernel_option option, char value, const char *id,
	enum lint_severity severity, const char *reason)
{
	char before = record.options[option];

	record.options[option] = value;
	expect(id, severity, reason);
	record.options[option] = before;
	expect(NULL, LINT_NOTE, NULL);
}

static void options_of_the_kernel_are_judged(void **state)
{
	(void) state;
	expect_when(KOPT_MODULES, 'n', "no-modules", LINT_ERROR, "MODULES=n");
	expect_when(KOPT_MODULE_UNLOAD, 'n', "no-module-unload", LINT_WARNING, "without a reboot");
	expect_when(KOPT_MODVERSIONS, 'n', "no-modversions", LINT_NOTE, "only vermagic");
	expect_when(KOPT_GCC_PLUGINS, 'y', "gcc-plugins", LINT_NOTE, "GCC_PLUGINS=y");
	expect_when(KOPT_LTO, 'y', "lto-cfi", LINT_WARNING, "built with LTO:");
	expect_when(KOPT_CFI, 'y', "lto-cfi", LINT_WARNING, "built with CFI:");
	expect_when(KOPT_RANDSTRUCT, 'y', "randstruct-no-seed", LINT_ERROR, "without its seed");
	expect_when(KOPT_TRIM_UNUSED_KSYMS, 'y', "trim-unused-ksyms", LINT_WARNING, "exports only");
	expect_when(KOPT_BTF_MODULES, 'y', "btf-modules-without-vmlinux", LINT_NOTE, "no vmlinux");
}

static void what_makes_an_option_harmless_is_seen(void **state)
{
	(void) state;
	record.has_randseed = true;
	record.has_vmlinux = true;
	record.options[KOPT_RANDSTRUCT] = 'y';
	record.options[KOPT_BTF_MODULES] = 'y';
	record.options[KOPT_EXTENDED_MODVERSIONS] = 'y';
	expect(NULL, LINT_NOTE, NULL);
	record.options[KOPT_BASIC_MODVERSIONS] = 'n';
	expect("extended-modversions-only", LINT_NOTE, "only in the new form");
}

static void ofed_cannot_replace_what_is_built_in(void **state)
{
	(void) state;
	expect_when(KOPT_INFINIBAND, 'y', "infiniband-builtin", LINT_ERROR,
		"INFINIBAND=y: OFED cannot replace it");
	expect_when(KOPT_MLX5_CORE, 'y', "mlx5-builtin", LINT_ERROR, "MLX5_CORE=y");
	expect_when(KOPT_MLX5_INFINIBAND, 'y', "mlx5-builtin", LINT_ERROR, "MLX5_INFINIBAND=y");
	request.ofed = false;
	record.options[KOPT_INFINIBAND] = 'y';
	record.options[KOPT_MLX5_CORE] = 'y';
	expect(NULL, LINT_NOTE, NULL);
	record.options[KOPT_INFINIBAND] = 'n';
	expect(NULL, LINT_NOTE, NULL);
}

static void nvidia_wants_drm_and_no_real_time(void **state)
{
	(void) state;
	expect_when(KOPT_DRM, 'n', "drm-missing", LINT_WARNING, "DRM=n");
	expect_when(KOPT_DRM_KMS_HELPER, 'n', "drm-missing", LINT_WARNING, "DRM_KMS_HELPER=n");
	expect_when(KOPT_PREEMPT_RT, 'y', "preempt-rt", LINT_ERROR, "real-time");
	request.nvidia = false;
	record.options[KOPT_DRM] = 'n';
	record.options[KOPT_PREEMPT_RT] = 'y';
	expect(NULL, LINT_NOTE, NULL);
}

static void unsigned_modules_are_measured_by_what_the_kernel_enforces(void **state)
{
	(void) state;
	record.options[KOPT_MODULE_SIG] = 'y';
	expect(NULL, LINT_NOTE, NULL);
	expect_when(KOPT_MODULE_SIG_FORCE, 'y', "sig-force-unsigned", LINT_ERROR, "not signed");
	expect_when(KOPT_LOCKDOWN_INTEGRITY, 'y', "lockdown", LINT_ERROR, "from boot");
	expect_when(KOPT_LOCKDOWN_CONFIDENTIALITY, 'y', "lockdown", LINT_ERROR, "from boot");
	expect_when(KOPT_LOCKDOWN_SECURE_BOOT, 'y', "lockdown", LINT_NOTE, "Secure Boot");
	request.signing = true;
	record.options[KOPT_MODULE_SIG_FORCE] = 'y';
	record.options[KOPT_LOCKDOWN_INTEGRITY] = 'y';
	expect(NULL, LINT_NOTE, NULL);
	record.sig_hash = text("md5");
	expect("sig-hash-unsupported", LINT_ERROR, "\"md5\"");
	request.signing = false;
	record.options[KOPT_MODULE_SIG_FORCE] = 'n';
	record.options[KOPT_LOCKDOWN_INTEGRITY] = 'n';
	expect(NULL, LINT_NOTE, NULL);
}

static void large_pages_are_worth_a_note(void **state)
{
	(void) state;
	record.page_kib = 64;
	expect("page-size", LINT_NOTE, "64 KiB");
}

static void the_worst_comes_first(void **state)
{
	_cleanup_(lint_free) struct lint lint = { 0 };

	(void) state;
	record.options[KOPT_MODVERSIONS] = 'n';
	record.options[KOPT_MODULE_UNLOAD] = 'n';
	record.options[KOPT_MLX5_CORE] = 'y';
	record.options[KOPT_INFINIBAND] = 'y';
	lint_run(&record, &request, &lint);
	assert_int_equal(lint.count, 4);
	assert_string_equal(lint.findings[0].id, "infiniband-builtin");
	assert_string_equal(lint.findings[1].id, "mlx5-builtin");
	assert_string_equal(lint.findings[2].id, "no-module-unload");
	assert_string_equal(lint.findings[3].id, "no-modversions");
	assert_int_equal(lint_count(&lint, LINT_ERROR), 2);
	assert_non_null(lint_find(&lint, "no-modversions"));
	assert_null(lint_find(&lint, "page-size"));
}

#define lint_test(function) cmocka_unit_test_setup(function, reset)

/* A node's facts, as slipway probe brought them, to compare with the tree. */
static struct probe node_probe;
static struct kernel_record node_record;
static struct lint_node node;

static void make_node(void)
{
	node_probe = (struct probe){ .sig_enforce = PROBE_UNKNOWN, .module_unload = PROBE_UNKNOWN };
	node_record = record;
	node = (struct lint_node){ .probe = &node_probe, .record = &node_record };
	request.node = &node;
}

static void a_node_that_fits_the_tree_says_nothing(void **state)
{
	(void) state;
	make_node();
	expect(NULL, LINT_NOTE, NULL);
	node_probe.sig_enforce = PROBE_NO;
	node_probe.module_unload = PROBE_YES;
	node_probe.lockdown = text("none");
	node.symvers_count = 9000;
	expect(NULL, LINT_NOTE, NULL);
	node.record = NULL;
	expect(NULL, LINT_NOTE, NULL);
}

static void a_node_that_wants_signatures_is_an_error(void **state)
{
	static const char *const keys[] = { "Own key: 6cce", "Distribution CA: 0a0b", NULL };

	(void) state;
	make_node();
	node_probe.sig_enforce = PROBE_YES;
	expect("node-sig-enforce", LINT_ERROR, "the bundle names none");
	node_probe.keys = (struct strv){ (char **) (uintptr_t) keys, 2, 3 };
	expect("node-sig-enforce", LINT_ERROR, "Own key: 6cce, Distribution CA: 0a0b");
	request.signing = true;
	expect(NULL, LINT_NOTE, NULL);
	request.signing = false;
	node_probe.sig_enforce = PROBE_NO;
	node_probe.lockdown = text("integrity");
	expect("node-lockdown", LINT_ERROR, "in lockdown (integrity)");
	request.signing = true;
	expect(NULL, LINT_NOTE, NULL);
}

static void a_node_of_another_build_is_a_warning(void **state)
{
	(void) state;
	make_node();
	node_record.options[KOPT_PREEMPT_RT] = 'y';
	expect("node-config-differs", LINT_WARNING, "preempt_rt is y there and n in the tree");
	make_node();
	node_record.compiler.version = text("12.3.0");
	expect("node-config-differs", LINT_WARNING, "gcc 12.3.0 there and gcc 12.2.0 in the tree");
	/* Kernels such as 3.10 do not say it. */
	make_node();
	node_record.compiler.version = text("");
	expect(NULL, LINT_NOTE, NULL);
	make_node();
	node.symvers_count = 9000;
	node.symvers_differing = 17;
	node.symvers_first = "ib_register_client";
	expect("node-symvers-differ", LINT_WARNING, "17 have another CRC");
	make_node();
	node_probe.module_unload = PROBE_NO;
	expect("node-no-module-unload", LINT_WARNING, "MODULE_UNLOAD=n on the node");
	record.options[KOPT_MODULE_UNLOAD] = 'n';
	node.record = NULL;
	expect("no-module-unload", LINT_WARNING, "MODULE_UNLOAD=n");
}

static void a_configuration_alone_is_judged_without_a_tree(void **state)
{
	(void) state;
	record.prepared = false;
	record.has_symvers = false;
	record.tools_arch = text("");
	request.no_tree = true;
	expect("no-tree", LINT_WARNING, "no headers to compile against");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		lint_test(nothing_is_found_in_a_good_kernel),
		lint_test(an_incomplete_tree_is_an_error),
		lint_test(a_missing_configuration_is_the_only_finding_about_it),
		lint_test(foreign_architectures_are_errors),
		lint_test(kernels_that_share_a_label_share_a_tag),
		lint_test(the_compiler_must_be_known_and_there),
		lint_test(another_compiler_than_the_kernels_is_a_warning),
		lint_test(options_of_the_kernel_are_judged),
		lint_test(what_makes_an_option_harmless_is_seen),
		lint_test(ofed_cannot_replace_what_is_built_in),
		lint_test(nvidia_wants_drm_and_no_real_time),
		lint_test(unsigned_modules_are_measured_by_what_the_kernel_enforces),
		lint_test(large_pages_are_worth_a_note),
		lint_test(the_worst_comes_first),
		lint_test(a_node_that_fits_the_tree_says_nothing),
		lint_test(a_node_that_wants_signatures_is_an_error),
		lint_test(a_node_of_another_build_is_a_warning),
		lint_test(a_configuration_alone_is_judged_without_a_tree),
	};

	return cmocka_run_group_tests_name("lint", tests, NULL, NULL);
}
