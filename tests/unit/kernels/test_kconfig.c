/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "kernels/tree/kconfig.h"
#include "tests/unit/packed.h"

static struct kconfig *parse(const char *text)
{
	struct kconfig *config = NULL;
	struct error error = { 0 };

	assert_int_equal(kconfig_parse(".config", text, strlen(text), &config, &error), 0);
	return config;
}

static void values_come_without_quotes(void **state)
{
	_cleanup_(kconfig_free) struct kconfig *config =
		parse("#\n# Automatically generated file; DO NOT EDIT.\n#\n\nCONFIG_SMP=y\r\n"
		      "CONFIG_DRM=m\n# CONFIG_PREEMPT_RT is not set\nCONFIG_HZ=250\n"
		      "CONFIG_START=0xffff\nCONFIG_EMPTY=\"\"\nCONFIG_NOTHING=\n"
		      "CONFIG_TEXT=\"a \\\"b\\\" \\\\c # d\"\nCONFIG_LAST=\"no newline\"");

	(void) state;
	assert_int_equal(kconfig_count(config), 8);
	assert_int_equal(kconfig_tristate(config, "SMP"), 'y');
	assert_int_equal(kconfig_tristate(config, "DRM"), 'm');
	assert_int_equal(kconfig_tristate(config, "PREEMPT_RT"), 'n');
	assert_int_equal(kconfig_tristate(config, "HZ"), 'n');
	assert_int_equal(kconfig_number(config, "HZ"), 250);
	assert_int_equal(kconfig_number(config, "START"), 0xffff);
	assert_int_equal(kconfig_number(config, "TEXT"), 0);
	assert_string_equal(kconfig_get(config, "EMPTY"), "");
	assert_string_equal(kconfig_get(config, "NOTHING"), "");
	assert_string_equal(kconfig_get(config, "TEXT"), "a \"b\" \\c # d");
	assert_string_equal(kconfig_get(config, "LAST"), "no newline");
	assert_null(kconfig_get(config, "PREEMPT_RT"));
}

static void the_last_value_of_a_name_counts(void **state)
{
	_cleanup_(kconfig_free) struct kconfig *config =
		parse("CONFIG_A=y\nCONFIG_B=1\nCONFIG_A=m\nCONFIG_A=n\n");

	(void) state;
	assert_string_equal(kconfig_get(config, "A"), "n");
	assert_int_equal(kconfig_count(config), 2);
}

static void an_empty_text_sets_nothing(void **state)
{
	_cleanup_(kconfig_free) struct kconfig *config = parse("");

	(void) state;
	assert_int_equal(kconfig_count(config), 0);
	assert_null(kconfig_get(config, "A"));
}

static void expect_refusal(const char *text, size_t size, const char *where, const char *why)
{
	struct kconfig *config = NULL;
	struct error error = { 0 };

	assert_int_equal(kconfig_parse("x/.config", text, size, &config, &error), -EINVAL);
	assert_null(config);
	assert_contains(error.text, "x/.config: line ");
	assert_contains(error.text, where);
	assert_contains(error.text, why);
}

#define EXPECT_REFUSAL(text, where, why) expect_refusal(text, sizeof(text) - 1, where, why)

static void what_is_no_configuration_is_refused_with_its_place(void **state)
{
	(void) state;
	EXPECT_REFUSAL("CONFIG_A=y\n<html>\n", "line 2 (offset 11)", "start with CONFIG_");
	EXPECT_REFUSAL("CONFIG_A\n", "line 1 (offset 0)", "no CONFIG_NAME=value");
	EXPECT_REFUSAL("CONFIG_=y\n", "line 1", "no CONFIG_NAME=value");
	EXPECT_REFUSAL("CONFIG_A B=y\n", "line 1", "no CONFIG_NAME=value");
	EXPECT_REFUSAL("\nCONFIG_A=\"x\n", "line 2 (offset 1)", "quote");
	EXPECT_REFUSAL("CONFIG_A=\"x\"y\n", "line 1", "quote");
	EXPECT_REFUSAL("CONFIG_A=\"x\\\"\n", "line 1", "quote");
	EXPECT_REFUSAL("CONFIG_A=y\0\0z\n", "line 1", "NUL");
}

static void what_is_too_large_is_refused(void **state)
{
	struct kconfig *config = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(
		kconfig_parse("big", "", KCONFIG_LIMIT_BYTES + 1, &config, &error), -EFBIG);
	assert_contains(error.text, "big");
}

static void packed_files_are_read(void **state)
{
	static const enum decompress_format formats[] = {
		DECOMPRESS_XZ,
		DECOMPRESS_GZIP,
		DECOMPRESS_ZSTD,
	};
	static const char text[] = "CONFIG_SMP=y\n";
	const struct folder *folder = *state;
	struct kconfig *config = NULL;
	struct error error = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		size_t size;
		_cleanup_free_ char *packed = pack(formats[i], text, sizeof(text) - 1, &size);

		folder_write(folder, "config", packed, size);
		assert_int_equal(kconfig_read(folder->fd, "config", &config, &error), 0);
		assert_int_equal(kconfig_tristate(config, "SMP"), 'y');
		kconfig_free(&config);
		folder_write(folder, "config", packed, size - 2);
		assert_int_equal(kconfig_read(folder->fd, "config", &config, &error), -EINVAL);
		assert_contains(error.text, "config");
	}
	assert_int_equal(kconfig_read(folder->fd, "absent", &config, &error), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_come_without_quotes),
		cmocka_unit_test(the_last_value_of_a_name_counts),
		cmocka_unit_test(an_empty_text_sets_nothing),
		cmocka_unit_test(what_is_no_configuration_is_refused_with_its_place),
		cmocka_unit_test(what_is_too_large_is_refused),
		folder_test(packed_files_are_read),
	};

	return cmocka_run_group_tests_name("kconfig", tests, NULL, NULL);
}
