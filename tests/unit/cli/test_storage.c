/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which image a tag stands for after a build, with the test's own buildah in PATH. */
#include "tests/unit/support.h"

#include <sched.h>
#include <sys/mount.h>
#include <time.h>

#include "cli/image/image_record.h"
#include "cli/image/output_place.h"

#define OURS      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define THEIRS    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define REFERENCE "localhost/slipway/driver:535-6.1.0-56-amd64-debian12"

/* One file an image: its name is what the image is asked by, its text the ID. */
static const char buildah[] = "#!/bin/sh\n"
			      "cd \"${0%/*}/storage\" || exit 1\n"
			      "echo \"$*\" >>../asked\n"
			      "case $1 in\n"
			      "inspect) eval name=\\$$#; cat \"$(echo \"$name\" | tr / _)\" ;;\n"
			      "tag) echo \"$2\" >\"$(echo \"$3\" | tr / _)\" ;;\n"
			      "pull) cat ../pulled ;;\n"
			      "esac\n";

static void make_buildah(const struct folder *folder, const char *pulled)
{
	folder_write_text(folder, "buildah", buildah);
	assert_int_equal(fchmodat(folder->fd, "buildah", 0755, 0), 0);
	folder_write_text(folder, "pulled", pulled);
	folder_subfolder(folder, "storage");
}

static int place(const struct folder *folder, bool *ret_changed, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *before = NULL;
	const char *programs = getenv("PATH");
	_cleanup_free_ char *old = strdup(programs ? programs : "/usr/bin:/bin");
	char id[] = OURS, reference[] = REFERENCE;
	const struct image image = { .id = id, .reference = reference };
	int r;

	assert_non_null(old);
	assert_true(asprintf(&path, "%s:%s", folder->path, old) > 0);
	assert_int_equal(setenv("PATH", path, 1), 0);
	r = image_place("/cache/gpu", &image, ret_changed, &before, error);
	assert_int_equal(setenv("PATH", old, 1), 0);
	return r;
}

static void expect_tag(const struct folder *folder, const char *id)
{
	_cleanup_free_ char *found = folder_read_text(
		folder, "storage/localhost_slipway_driver:535-6.1.0-56-amd64-debian12");

	assert_string_equal(found, id);
}

static void a_tag_that_is_right_is_left_alone(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	bool changed = true;
	_cleanup_free_ char *asked = NULL;

	make_buildah(folder, "");
	folder_write_text(folder, "storage/localhost_slipway_driver:535-6.1.0-56-amd64-debian12",
		"sha256:" OURS "\n");
	assert_int_equal(place(folder, &changed, &error), 0);
	assert_false(changed);
	asked = folder_read_text(folder, "asked");
	assert_null(strstr(asked, "tag "));
}

static void a_tag_of_another_ofeds_image_is_moved(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	bool changed = false;
	_cleanup_free_ char *asked = NULL;

	make_buildah(folder, "");
	folder_write_text(folder, "storage/localhost_slipway_driver:535-6.1.0-56-amd64-debian12",
		THEIRS "\n");
	folder_write_text(folder, "storage/" OURS, OURS "\n");
	assert_int_equal(place(folder, &changed, &error), 0);
	assert_true(changed);
	expect_tag(folder, OURS "\n");
	asked = folder_read_text(folder, "asked");
	assert_null(strstr(asked, "pull "));
}

static void an_image_that_is_gone_comes_back_from_its_archive(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	bool changed = false;
	_cleanup_free_ char *asked = NULL;

	make_buildah(folder, OURS "\n");
	assert_int_equal(place(folder, &changed, &error), 0);
	assert_true(changed);
	expect_tag(folder, OURS "\n");
	asked = folder_read_text(folder, "asked");
	assert_contains(asked, "pull --quiet oci-archive:/cache/gpu/" IMAGE_ARCHIVE);
}

static void an_archive_of_another_image_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	bool changed = false;

	make_buildah(folder, THEIRS "\n");
	assert_int_equal(place(folder, &changed, &error), -EBADMSG);
	assert_contains(error.text, "holds image bbbbbbbbbbbb, not aaaaaaaaaaaa");
}

/* A disk of one page, in a mount namespace of the test's own. */
static void a_full_disk_says_what_is_needed(void **state)
{
	const struct folder *folder = *state;
	char from[512], small[512], to[600], big[20000];
	struct error error = { 0 };
	bool changed = false;

	(void) snprintf(from, sizeof(from), "%s/big", folder->path);
	(void) snprintf(small, sizeof(small), "%s/small", folder->path);
	(void) snprintf(to, sizeof(to), "%s/gpu.oci.tar", small);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	folder_write_text(folder, "big", big);
	folder_subfolder(folder, "small");
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", small, "tmpfs", 0, "size=4k") < 0)
		skip();
	assert_int_equal(image_place_file(from, to, &changed, &error), -ENOSPC);
	(void) umount(small);
	assert_contains(error.text, "gpu.oci.tar: needs 1 MB, and the disk has room for 0");
	assert_contains(error.lines, "try: free some there, or name a folder on another disk");
}

/* Nothing sets when a file was changed last: the clock of this program goes ahead in its place. */
static time_t ahead;

time_t time(time_t *ret)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	if (ret)
		*ret = now.tv_sec + ahead;
	return now.tv_sec + ahead;
}

static void what_a_killed_run_left_beside_its_output_goes_after_an_hour(void **state)
{
	static const char *const kept[] = { "gpu.oci.tar", "gpu.oci.tar.0123456789abcdef",
		"gpu.oci.tar.0123456789abcde.tmp", "my-gpu.oci.tar.0123456789abcdef.tmp",
		"gpu.oci.tar.backup.tmp" };
	const char left[] = "gpu.oci.tar.0123456789abcdef.tmp";
	const struct folder *folder = *state;
	_cleanup_free_ char *path = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		folder_write_text(folder, kept[i], "");
	folder_write_text(folder, left, "");
	assert_true(asprintf(&path, "%s/gpu.oci.tar", folder->path) > 0);
	for (ahead = 0; ahead <= 3660; ahead += 3660) {
		_cleanup_free_ char *temporary = output_temporary(path);

		assert_non_null(temporary);
		assert_int_equal(faccessat(folder->fd, left, F_OK, 0), ahead ? -1 : 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		assert_int_equal(faccessat(folder->fd, kept[i], F_OK, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_tag_that_is_right_is_left_alone),
		folder_test(a_tag_of_another_ofeds_image_is_moved),
		folder_test(an_image_that_is_gone_comes_back_from_its_archive),
		folder_test(an_archive_of_another_image_is_refused),
		folder_test(a_full_disk_says_what_is_needed),
		folder_test(what_a_killed_run_left_beside_its_output_goes_after_an_hour),
	};

	return cmocka_run_group_tests_name("storage", tests, NULL, NULL);
}
