/* SPDX-License-Identifier: Apache-2.0 */
/* Sources found by version. */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"
#include "common/strv.h"
#include "common/xalloc.h"

/* Files are called "<version>_<anything>" here; "x" tells none. */
static char *name_says(
	const struct build *build, const char *path, bool is_folder, const void *data)
{
	const char *name = strrchr(path, '/') + 1;

	(void) build;
	(void) data;
	return is_folder || *name == 'x' ? NULL : xstrndup(name, strcspn(name, "_"));
}

static int search(
	const struct folder *folder, const char *version, char **ret_path, struct error *error)
{
	const struct source_search search = { .option = "nvidia",
		.version = version,
		.says = name_says,
		.none = "no source",
		.published = "an installer" };
	struct build build = { 0 };
	int r;

	*error = (struct error){ 0 };
	xstrv_push(&build.options.source_folders, folder->path);
	r = source_search(&build, &search, ret_path, error);
	strv_free(&build.options.source_folders);
	return r;
}

static void the_one_source_of_a_version_is_found(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *whole = NULL, *branch = NULL, *none = NULL;
	struct error error;

	folder_write_text(folder, "595.58.03_a", "");
	folder_write_text(folder, "580.1.2_b", "");
	folder_write_text(folder, "580.1.20_c", "");
	folder_write_text(folder, "x", "");
	folder_subfolder(folder, "595.58.03");
	assert_int_equal(search(folder, "595.58.03", &whole, &error), 0);
	assert_true(str_ends_with(whole, "/595.58.03_a"));
	assert_int_equal(search(folder, "580.1.2", &branch, &error), 0);
	assert_true(str_ends_with(branch, "/580.1.2_b"));
	/* A branch with several has no one, nor has a number that only begins like another. */
	assert_int_equal(search(folder, "580", &none, &error), -EINVAL);
	assert_contains(error.text, "several are of this version: ");
	assert_int_equal(search(folder, "59", &none, &error), -EINVAL);
	assert_contains(error.text, "--nvidia 59: no source of this version in ");
	assert_contains(error.lines, "there: 580.1.20_c (580.1.20), 580.1.2_b (580.1.2), ");
	assert_null(none);
}

static void a_version_is_digits_dots_and_dashes(void **state)
{
	(void) state;
	assert_true(source_is_version("535"));
	assert_true(source_is_version("24.07-0.6.1.0"));
	assert_false(source_is_version("debian"));
	assert_false(source_is_version("595.58.03/run"));
	assert_false(source_is_version(""));
	assert_false(source_is_version(".5"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_one_source_of_a_version_is_found),
		cmocka_unit_test(a_version_is_digits_dots_and_dashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
