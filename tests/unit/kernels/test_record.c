/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/fs.h"
#include "kernels/tree/record.h"

#define KREL  "6.1.0-56-amd64"
#define BUILD "lib/modules/" KREL "/build"

static const char config_text[] =
	"CONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0\"\n"
	"CONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\nCONFIG_CLANG_VERSION=0\n"
	"CONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_PREEMPT_BUILD=y\nCONFIG_MODULES=y\n"
	"CONFIG_MODULE_UNLOAD=y\nCONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG=y\n"
	"CONFIG_MODULE_SIG_HASH=\"sha256\"\nCONFIG_INFINIBAND=m\nCONFIG_DRM=m\n"
	"CONFIG_MODULE_COMPRESS_XZ=y\nCONFIG_MITIGATION_RETPOLINE=y\n";

static void make_tree(const struct folder *folder, const char *config)
{
	folder_write_text(folder, BUILD "/include/generated/utsrelease.h",
		"#define UTS_RELEASE \"" KREL "\"\n");
	folder_write_text(folder, BUILD "/Module.symvers", "");
	if (config)
		folder_write_text(folder, BUILD "/.config", config);
}

static struct kernel_record make_record(const struct folder *folder)
{
	struct kernel_record record = { 0 };
	struct error error = { 0 };

	assert_int_equal(kernel_record_make(folder->fd, KREL, &record, &error), 0);
	return record;
}

static void all_of_the_kernel_is_in_a_tree(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };

	make_tree(folder, config_text);
	record = make_record(folder);
	assert_string_equal(record.krel, KREL);
	assert_string_equal(record.arch, "x86_64");
	assert_string_equal(record.tools_arch, "");
	assert_string_equal(record.vermagic, KREL " SMP preempt mod_unload modversions ");
	assert_string_equal(record.vermagic_source, "config");
	assert_string_equal(record.config_source, BUILD "/.config");
	assert_string_equal(record.sig_hash, "sha256");
	assert_string_equal(record.compress, "xz");
	assert_string_equal(record.compiler.name, "gcc-12");
	assert_string_equal(record.compiler.linker, "ld.bfd");
	assert_false(record.compiler.disagrees);
	assert_false(record.compiler.llvm);
	assert_int_equal(record.compiler.config_version, 120200);
	assert_int_equal(record.page_kib, 4);
	assert_int_equal(record.options[KOPT_INFINIBAND], 'm');
	assert_true(kernel_record_has(&record, KOPT_RETPOLINE));
	assert_false(kernel_record_has(&record, KOPT_MODULE_SIG_FORCE));
	assert_true(record.prepared && record.has_symvers);
	assert_false(record.has_vmlinux || record.has_randseed);
}

/* 6.12 asks for PREEMPT_BUILD first, 7.x for PREEMPT_RT: a kernel for real time has both. */
static void vermagic_has_preemption_as_the_trees_own_header_has_it(void **state)
{
	static const char first_build[] = "#ifdef CONFIG_PREEMPT_BUILD\n"
					  "#define MODULE_VERMAGIC_PREEMPT \"preempt \"\n"
					  "#elif defined(CONFIG_PREEMPT_RT)\n"
					  "#define MODULE_VERMAGIC_PREEMPT \"preempt_rt \"\n"
					  "#else\n#define MODULE_VERMAGIC_PREEMPT \"\"\n#endif\n";
	static const char first_rt[] = "#ifdef CONFIG_PREEMPT_RT\n"
				       "#define MODULE_VERMAGIC_PREEMPT \"preempt_rt \"\n"
				       "#elif defined(CONFIG_PREEMPT_BUILD)\n"
				       "#define MODULE_VERMAGIC_PREEMPT \"preempt \"\n#endif\n";
	static const struct {
		const char *header;
		const char *config;
		const char *wanted;
	} cases[] = {
		{ first_build, "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_RT=y\n", KREL " preempt " },
		{ first_rt, "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_RT=y\n", KREL " preempt_rt " },
		{ first_rt, "CONFIG_PREEMPT_BUILD=y\n", KREL " preempt " },
		{ first_build, "CONFIG_PREEMPT_RT=y\n", KREL " preempt_rt " },
		{ first_build, "CONFIG_SMP=y\n", KREL " SMP " },
	};
	const struct folder *folder = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(kernel_record_free) struct kernel_record record = { 0 };

		make_tree(folder, cases[i].config);
		folder_write_text(folder, BUILD "/include/linux/vermagic.h", cases[i].header);
		record = make_record(folder);
		assert_string_equal(record.vermagic, cases[i].wanted);
	}
}

static void randstruct_and_arm_are_part_of_vermagic(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };

	make_tree(folder, "CONFIG_ARM64=y\nCONFIG_ARM64_64K_PAGES=y\nCONFIG_RANDSTRUCT=y\n");
	folder_write_text(folder, BUILD "/include/generated/randstruct_hash.h",
		"#define RANDSTRUCT_HASHED_SEED \"c0ffee\"\n");
	folder_write_text(folder, BUILD "/scripts/basic/randstruct.seed", "0123\n");
	record = make_record(folder);
	assert_string_equal(record.vermagic, KREL " aarch64RANDSTRUCT_c0ffee");
	assert_string_equal(record.arch, "aarch64");
	assert_int_equal(record.page_kib, 64);
	assert_true(record.has_randseed);
}

static void copy_fixture(const struct folder *folder, const char *fixture, const char *path)
{
	_cleanup_free_ char *module = NULL;
	size_t size;

	assert_int_equal(fs_read(AT_FDCWD, fixture, 0, &module, &size), 0);
	folder_write(folder, path, module, size);
}

static void a_module_of_the_kernel_decides_on_vermagic(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };

	make_tree(folder, config_text);
	/* The first one in the list has no vermagic. */
	copy_fixture(folder, FIXTURES "/plain.ko", "lib/modules/" KREL "/kernel/a.ko");
	copy_fixture(folder, FIXTURES "/unversioned.ko", "lib/modules/" KREL "/kernel/b.ko");
	record = make_record(folder);
	assert_string_equal(record.vermagic_source, "lib/modules/" KREL "/kernel/b.ko");
	assert_string_equal(record.vermagic, "6.1.0-1-test SMP preempt mod_unload ");
}

static void expect_compiler(
	const char *text, const char *name, const char *program, const char *version, bool llvm)
{
	_cleanup_(kernel_compiler_free) struct kernel_compiler compiler = { 0 };
	struct error error = { 0 };

	assert_int_equal(kernel_compiler_parse(text, &compiler, &error), 0);
	assert_string_equal(compiler.name, name);
	assert_string_equal(compiler.program, program);
	assert_string_equal(compiler.version, version);
	assert_int_equal(compiler.llvm, llvm);
}

static void compilers_are_known_by_their_own_text(void **state)
{
	(void) state;
	expect_compiler(
		"gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", "gcc-11", "gcc", "11.4.0", false);
	expect_compiler("x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0", "gcc-12",
		"x86_64-linux-gnu-gcc-12", "12.3.0", false);
	expect_compiler(
		"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc-12", "gcc-12", "12.2.0", false);
	expect_compiler(
		"gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)", "gcc-11", "gcc", "11.4.1", false);
	expect_compiler("gcc (SUSE Linux) 7.5.0", "gcc-7", "gcc", "7.5.0", false);
	expect_compiler("gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC) ", "gcc-4.8", "gcc",
		"4.8.5", false);
	expect_compiler(
		"Debian clang version 16.0.6 (15~deb12u1)", "clang-16", "clang", "16.0.6", true);
	expect_compiler(
		"Ubuntu clang version 14.0.0-1ubuntu1.1", "clang-14", "clang", "14.0.0", true);
	expect_compiler("/opt/cross/bin/aarch64-gcc-13.2 (crosstool) 13.2.0", "gcc-13",
		"aarch64-gcc-13.2", "13.2.0", false);
	expect_compiler("Linux version 5.14.0-1.el9.x86_64 (mock@host) (gcc (GCC) 11.4.1 20230605 "
			"(Red Hat 11.4.1-2), GNU ld version 2.35.2-42.el9) #1 SMP",
		"gcc-11", "gcc", "11.4.1", false);
}

static void other_texts_are_no_compiler(void **state)
{
	static const char *const texts[] = { "", "gcc", "gcc (Debian 12.2.0)", "icc 2021.1",
		"gcc-12 (unclosed 12.2.0" };
	struct kernel_compiler compiler = { 0 };
	struct error error = { 0 };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(kernel_compiler_parse(texts[i], &compiler, &error), -EINVAL);
	assert_null(compiler.name);
}

static void expect_evidence(const struct folder *folder, const char *config, const char *name,
	const char *version, bool disagrees)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };

	make_tree(folder, config);
	record = make_record(folder);
	assert_string_equal(record.compiler.name, name);
	assert_string_equal(record.compiler.version, version);
	assert_int_equal(record.compiler.disagrees, disagrees);
}

static void the_numbers_of_the_configuration_corroborate_the_text(void **state)
{
	const struct folder *folder = *state;

	expect_evidence(folder, "CONFIG_GCC_VERSION=110401\n", "gcc-11", "11.4.1", false);
	expect_evidence(folder, "CONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=160006\n", "clang-16",
		"16.0.6", false);
	expect_evidence(folder,
		"CONFIG_CC_VERSION_TEXT=\"gcc (GCC) 13.2.0\"\nCONFIG_GCC_VERSION=120200\n",
		"gcc-13", "13.2.0", true);
	expect_evidence(folder,
		"CONFIG_CC_VERSION_TEXT=\"gcc (GCC) 13.2.0\"\nCONFIG_CC_IS_CLANG=y\n"
		"CONFIG_CLANG_VERSION=160006\n",
		"gcc-13", "13.2.0", true);
	expect_evidence(folder, "CONFIG_CC_VERSION_TEXT=\"odd\"\nCONFIG_GCC_VERSION=120200\n",
		"gcc-12", "12.2.0", false);
	expect_evidence(folder, "CONFIG_SMP=y\n", "", "", false);
	folder_write_text(folder, BUILD "/include/generated/compile.h",
		"#define LINUX_COMPILER \"gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)\"\n");
	expect_evidence(folder, "CONFIG_SMP=y\n", "gcc-4.8", "4.8.5", false);
}

static void what_a_tree_lacks_is_reported(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kernel_record_free) struct kernel_record second = { 0 };

	folder_subfolder(folder, BUILD);
	record = make_record(folder);
	assert_false(record.prepared || record.has_symvers);
	assert_string_equal(record.config_source, "");
	folder_write_text(folder, BUILD "/include/config/auto.conf", "CONFIG_SMP=y\n");
	second = make_record(folder);
	assert_string_equal(second.config_source, BUILD "/include/config/auto.conf");
	assert_true(kernel_record_has(&second, KOPT_SMP));
}

static void another_kernels_tree_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct kernel_record record = { 0 };
	struct error error = { 0 };

	assert_int_equal(kernel_record_make(folder->fd, KREL, &record, &error), -ENOENT);
	make_tree(folder, config_text);
	folder_write_text(folder, BUILD "/include/generated/utsrelease.h",
		"#define UTS_RELEASE \"6.1.0-47-amd64\"\n");
	assert_int_equal(kernel_record_make(folder->fd, KREL, &record, &error), -EINVAL);
	assert_contains(error.text, "it belongs to kernel 6.1.0-47-amd64");
	make_tree(folder, "rubbish\n");
	assert_int_equal(kernel_record_make(folder->fd, KREL, &record, &error), -EINVAL);
	assert_contains(error.text, "line 1");
	assert_null(record.krel);
}

static void what_is_written_is_read_again(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kernel_record_free) struct kernel_record again = { 0 };
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *second = NULL;
	struct error error = { 0 };

	make_tree(folder, config_text);
	record = make_record(folder);
	assert_int_equal(kernel_record_save(&record, folder->fd, &error), 0);
	assert_int_equal(kernel_record_load(folder->fd, KERNEL_RECORD_FILE, &again, &error), 0);
	first = folder_read_text(folder, KERNEL_RECORD_FILE);
	assert_int_equal(kernel_record_save(&again, folder->fd, &error), 0);
	second = folder_read_text(folder, KERNEL_RECORD_FILE);
	assert_string_equal(first, second);
	assert_contains(first, "\"modversions\": \"y\"");
}

static void a_damaged_record_is_refused(void **state)
{
	static const char *const texts[] = { "", "[]", "{}", "{\"schema\": 2}",
		"{\"schema\": 1, \"compiler\": {}, \"options\": []}",
		"{\"schema\": 1, \"compiler\": {}, \"options\": {}, \"krel\": 1}" };
	const struct folder *folder = *state;
	struct kernel_record record = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct error error = { 0 };

		folder_write_text(folder, KERNEL_RECORD_FILE, texts[i]);
		assert_int_equal(
			kernel_record_load(folder->fd, KERNEL_RECORD_FILE, &record, &error),
			-EBADMSG);
		assert_contains(error.text, "record.json");
	}
	assert_null(record.krel);
}

static void a_probes_configuration_is_enough_for_a_record(void **state)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(kconfig_parse("config", "CONFIG_SMP=y\n", 13, &config, &error), 0);
	kernel_record_of_config(config, KREL,
		"Linux version 6.1 (me@host) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1",
		&record);
	assert_string_equal(record.compiler.name, "gcc-12");
	assert_string_equal(record.vermagic, KREL " SMP ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(all_of_the_kernel_is_in_a_tree),
		folder_test(vermagic_has_preemption_as_the_trees_own_header_has_it),
		folder_test(randstruct_and_arm_are_part_of_vermagic),
		folder_test(a_module_of_the_kernel_decides_on_vermagic),
		cmocka_unit_test(compilers_are_known_by_their_own_text),
		cmocka_unit_test(other_texts_are_no_compiler),
		folder_test(the_numbers_of_the_configuration_corroborate_the_text),
		folder_test(what_a_tree_lacks_is_reported),
		folder_test(another_kernels_tree_is_refused),
		folder_test(what_is_written_is_read_again),
		folder_test(a_damaged_record_is_refused),
		cmocka_unit_test(a_probes_configuration_is_enough_for_a_record),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
