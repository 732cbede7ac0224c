/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's archives of IMEX and of the fabric manager: which file is one, and of which driver. */
#include "tests/unit/support.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>

#include "cli/stage/stage_internal.h"
#include "common/xalloc.h"

static char x86_64[] = "x86_64";

/* A tarball at @path in the folder, with @files, NULL-terminated. */
static void put_archive(const struct folder *folder, const char *path, const char *const *files)
{
	_cleanup_free_ char *whole = xasprintf("%s/%s", folder->path, path);
	struct archive *archive = archive_write_new();

	assert_int_equal(archive_write_set_format_pax_restricted(archive), ARCHIVE_OK);
	assert_int_equal(archive_write_open_filename(archive, whole), ARCHIVE_OK);
	for (; *files; files++) {
		struct archive_entry *entry = archive_entry_new();

		archive_entry_set_pathname(entry, *files);
		archive_entry_set_filetype(entry, AE_IFREG);
		archive_entry_set_perm(entry, 0755);
		archive_entry_set_size(entry, 0);
		assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
		archive_entry_free(entry);
	}
	assert_int_equal(archive_write_free(archive), ARCHIVE_OK);
}

/* --imex with that file of the folder and a userspace of @driver, or NULL. Frees what was found. */
static int imex(const struct folder *folder, const char *path, const char *driver, char version[32],
	struct error *error)
{
	_cleanup_free_ char *whole = xasprintf("%s/%s", folder->path, path);
	struct build build = { .context.arch = x86_64, .options.redist[REDIST_IMEX] = whole };
	int r;

	build.userspace_version = driver ? xstrdup(driver) : NULL;
	*error = (struct error){ 0 };
	r = redist_open(&build, error);
	(void) snprintf(version, 32, "%s",
		build.redist[REDIST_IMEX].version ? build.redist[REDIST_IMEX].version : "");
	free(build.redist[REDIST_IMEX].path);
	free(build.redist[REDIST_IMEX].version);
	free(build.userspace_version);
	return r;
}

#define TOP "imex-linux-x86_64-595.58.03-archive"

static void an_archive_is_known_by_what_is_in_it(void **state)
{
	static const struct {
		const char *file;
		const char *files[4];
		const char *version; /* NULL: it is refused */
		const char *why;
	} cases[] = {
		{ TOP ".tar.xz", { TOP "/usr/bin/nvidia-imex", TOP "/usr/bin/nvidia-imex-ctl" },
			"595.58.03", NULL },
		{ "any",
			{ "./" TOP "/LICENSE", "./" TOP "/a/nvidia-imex",
				"./" TOP "/b/nvidia-imex-ctl" },
			"595.58.03", NULL },
		{ "older",
			{ "nvidia-imex-linux-x86_64-560.35.03-archive/nvidia-imex",
				"nvidia-imex-linux-x86_64-560.35.03-archive/nvidia-imex-ctl" },
			"560.35.03", NULL },
		{ "half", { TOP "/usr/bin/nvidia-imex", TOP "/usr/bin/other" }, NULL,
			"not NVIDIA's archive: it has no nvidia-imex" },
		{ "two-tops", { TOP "/nvidia-imex", TOP "/nvidia-imex-ctl", "LICENSE" }, NULL,
			"the folder around its files is missing" },
		{ "no-version",
			{ "imex-linux-x86_64-archive/nvidia-imex",
				"imex-linux-x86_64-archive/nvidia-imex-ctl" },
			NULL, "its version is unknown" },
		{ "short", { "imex/nvidia-imex", "imex/nvidia-imex-ctl" }, NULL,
			"its version is unknown" },
		{ "sbsa",
			{ "imex-linux-sbsa-595.58.03-archive/nvidia-imex",
				"imex-linux-sbsa-595.58.03-archive/nvidia-imex-ctl" },
			NULL, "the archive is for sbsa, but the images are for x86_64" },
		{ "imex-linux-x86_64-580.1.2-archive.tar",
			{ TOP "/nvidia-imex", TOP "/nvidia-imex-ctl" }, NULL,
			"the file is called 580.1.2, but its files are of 595.58.03" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error;
		char version[32];

		put_archive(*state, cases[i].file, cases[i].files);
		if (imex(*state, cases[i].file, NULL, version, &error) == 0) {
			assert_non_null(cases[i].version);
			assert_string_equal(version, cases[i].version);
			continue;
		}
		assert_null(cases[i].version);
		assert_contains(error.text, cases[i].why);
		assert_true(*error.lines); /* what to do */
	}
}

static void an_archive_of_another_driver_is_refused(void **state)
{
	static const char *const files[] = { TOP "/nvidia-imex", TOP "/nvidia-imex-ctl", NULL };
	struct error error;
	char version[32];

	put_archive(*state, "imex.tar", files);
	assert_int_equal(imex(*state, "imex.tar", "595.58.03", version, &error), 0);
	assert_int_equal(imex(*state, "imex.tar", "595.45.04", version, &error), -EINVAL);
	assert_contains(error.text,
		"it is from driver 595.58.03, but the modules of --nvidia are from 595.45.04");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(an_archive_is_known_by_what_is_in_it),
		folder_test(an_archive_of_another_driver_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
