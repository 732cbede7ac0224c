/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/parameters.h"
#include "module/elf.h"
#include "tests/unit/support.h"

static void expect_words(const char *text, const char *words)
{
	_cleanup_strv_ struct strv list = { 0 };
	_cleanup_free_ char *joined = NULL;
	struct error error = { 0 };

	assert_int_equal(parameter_split(text, "nvidia_uvm", &list, &error), 0);
	joined = strv_join(&list, "|");
	assert_non_null(joined);
	assert_string_equal(joined, words);
}

static void words_stand_between_blanks_and_lines(void **state)
{
	(void) state;
	expect_words("a=1 b=2\nc=3", "a=1|b=2|c=3");
	expect_words("\n\n  a=1\t\tb \r\n", "a=1|b");
	expect_words("# a=1\n  # b=2\nc=3 # d\n", "c=3|#|d");
	expect_words("a=\"x y\" b=\"1;2\"z", "a=\"x y\"|b=\"1;2\"z");
}

static void the_form_of_modprobe_d_is_taken(void **state)
{
	(void) state;
	expect_words("options nvidia-uvm a=1 b=2\n", "a=1|b=2");
	expect_words("options nvidia_uvm a=1\nc=2\n", "a=1|c=2");
	expect_words("options nvidia a=1\n", "options|nvidia|a=1");
	expect_words("options", "options");
}

static void expect_no_words(const char *text, const char *part)
{
	_cleanup_strv_ struct strv list = { 0 };
	struct error error = { 0 };

	assert_int_equal(parameter_split(text, "nvidia", &list, &error), -EINVAL);
	assert_contains(error.text, part);
}

static void what_modprobe_d_cannot_hold_is_refused(void **state)
{
	(void) state;
	expect_no_words("a=1\nb=\"x y\n", "line 2: a \" is not closed");
	expect_no_words("a=1\\\nb=2\n", "line 1: a control character, or a \\");
	expect_no_words("a=\x01\n", "line 1: a control character");
}

static void files_are_read_by_either_spelling(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_strv_ struct strv paths = { 0 };
	struct error error = { 0 };

	assert_int_equal(parameters_read_conf(folder->fd, "nvidia_uvm", &words, NULL, &error), 0);
	assert_int_equal(words.count, 0); /* no folder */
	folder_write_text(folder, "drivers/nvidia-uvm.conf", "a=1\n");
	folder_write_text(folder, "drivers/nvidia_uvm.conf", "options nvidia_uvm b=2\n");
	folder_write_text(folder, "drivers/nvidia.conf", "c=3\n");
	folder_write_text(folder, "drivers/nvidia-uvm.txt", "d=4\n");
	assert_int_equal(parameters_read_conf(folder->fd, "nvidia_uvm", &words, &paths, &error), 0);
	assert_int_equal(words.count, 2);
	assert_string_equal(words.items[0], "a=1");
	assert_string_equal(words.items[1], "b=2");
	assert_int_equal(paths.count, 2);
	assert_string_equal(paths.items[0], "/drivers/nvidia-uvm.conf");
	folder_write_text(folder, "drivers/nvidia.conf", "c=\"3\n");
	assert_int_equal(parameters_read_conf(folder->fd, "nvidia", &words, NULL, &error), -EINVAL);
	assert_contains(error.text, "/drivers/nvidia.conf: line 1: a \" is not closed");
}

static struct parameters_taken open_fixture(void)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct parameters_taken taken = { 0 };
	struct error error;

	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/parameters.ko", &module, &error), 0);
	assert_int_equal(elf_module_info_all(module, "parmtype", &taken.types), 0);
	assert_int_equal(elf_module_info_all(module, "parm", &taken.described), 0);
	return taken;
}

static void expect_taken(const char *parameter)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = open_fixture();
	struct error error = { 0 };

	if (parameter_check(&taken, parameter, &error) != 0)
		fail_msg("%s: %s", parameter, error.text);
}

static void expect_answer(const char *parameter, int code, const char *part)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = open_fixture();
	struct error error = { 0 };

	if (parameter_check(&taken, parameter, &error) != code)
		fail_msg("%s: %s", parameter, error.text);
	assert_contains(error.text, part);
}

static void expect_refused(const char *parameter, const char *part)
{
	expect_answer(parameter, -EINVAL, part);
}

static void expect_unknown(const char *parameter, const char *part)
{
	expect_answer(parameter, -ENOENT, part);
}

static void names_are_the_modules_own(void **state)
{
	(void) state;
	expect_taken("NVreg_EnableGpuFirmware=0");
	expect_taken("NVreg-EnableGpuFirmware=0");
	expect_taken("described=x");
	expect_taken("own_kind=sunny");
	expect_taken("async_probe");
	expect_taken("dyndbg=+p");
	expect_unknown("NVreg_EnableGpuFirmwares=0",
		"no parameter NVreg_EnableGpuFirmwares: did you mean NVreg_EnableGpuFirmware?");
	expect_unknown("EnableEverything=1", "no parameter EnableEverything: modinfo -p lists the");
	expect_unknown("=1", "no parameter");
	expect_unknown("NVreg_EnableGpu=1", "did you mean NVreg_EnableGpuFirmware?");
}

static void values_are_what_the_kernel_can_read(void **state)
{
	static const char *const good[] = { "NVreg_EnableGpuFirmware=-2147483648",
		"NVreg_EnableGpuFirmware=0x12", "NVreg_EnableGpuFirmware=017", "small=255",
		"small=\"7\"", "mask=ffff", "mask=0xffffffff", "count=4294967295", "count=+1",
		"modeset", "modeset=Y", "modeset=off", "modeset=0", "list=1,2,3",
		"NVreg_RegistryDwords=\"a=1;b=2\"", "NVreg_RegistryDwords=" };
	static const char *const bad[] = { "NVreg_EnableGpuFirmware=2147483648",
		"NVreg_EnableGpuFirmware=yes", "NVreg_EnableGpuFirmware=", "small=256", "small=-1",
		"NVreg_EnableGpuFirmware=08", "NVreg_EnableGpuFirmware=1k", "count=4294967296",
		"count=--1", "count= 1", "modeset=", "modeset=maybe", "modeset=o" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		expect_taken(good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_refused(
			bad[i], "the kernel does not accept this value: the parameter is of type");
	expect_refused("NVreg_EnableGpuFirmware", "has no value: write");
}

static void a_string_longer_than_the_kernel_takes_is_refused(void **state)
{
	char text[2048] = "NVreg_RegistryDwords=";
	size_t begin = strlen(text);

	(void) state;
	memset(text + begin, 'x', 1024);
	text[begin + 1024] = '\0';
	expect_taken(text);
	text[begin + 1024] = 'x';
	text[begin + 1025] = '\0';
	expect_refused(text, "charp");
}

static void a_parameter_is_found_by_either_spelling(void **state)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = open_fixture();

	(void) state;
	assert_true(parameter_exists(&taken, "NVreg_CoherentGPUMemoryMode"));
	assert_true(parameter_exists(&taken, "own-kind"));
	assert_false(parameter_exists(&taken, "NVreg_Coherent"));
	assert_true(parameter_is("a-b=1", "a_b"));
	assert_false(parameter_is("a_bc=1", "a_b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_stand_between_blanks_and_lines),
		cmocka_unit_test(the_form_of_modprobe_d_is_taken),
		cmocka_unit_test(what_modprobe_d_cannot_hold_is_refused),
		folder_test(files_are_read_by_either_spelling),
		cmocka_unit_test(names_are_the_modules_own),
		cmocka_unit_test(values_are_what_the_kernel_can_read),
		cmocka_unit_test(a_string_longer_than_the_kernel_takes_is_refused),
		cmocka_unit_test(a_parameter_is_found_by_either_spelling),
	};

	return cmocka_run_group_tests_name("parameter", tests, NULL, NULL);
}
