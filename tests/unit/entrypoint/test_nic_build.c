/* SPDX-License-Identifier: Apache-2.0 */
/* What the NIC container's mode "sources" compiles, and where OpenShift's pair meets. */
#include "tests/unit/support.h"

#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/nic/nic_build.h"
#include "entrypoint/nic/toolkit_place.h"

#define KREL  "5.14.0-503.el9.x86_64+rt"
#define LABEL "5.14.0-503.el9.x86_64_rt"

static char empty[] = "";
static char inventory[] = "mnt/drivers-inventory";
static char shared[] = "mnt/shared";

static const struct nodebuild *read_build(
	const struct folder *folder, const struct nic_inputs *inputs, struct nic_build *build)
{
	const struct nodebuild *found = NULL;
	struct error error = { "" };

	*build = (struct nic_build){ .cache = NULL };
	assert_int_equal(nic_build_read(build, folder->fd, inputs, &found, &error), 0);
	return found;
}

static void only_sources_compiles(void **state)
{
	const struct nic_inputs inputs = { .mode = NIC_PRECOMPILED, .inventory = inventory };
	struct nic_build build;

	assert_null(read_build(*state, &inputs, &build));
	nic_build_free(&build);
}

static void sets_are_kept_below_the_inventory(void **state)
{
	struct nic_inputs inputs = { .mode = NIC_SOURCES, .inventory = inventory };
	const struct nodebuild *found;
	struct nic_build build;

	assert_int_equal(unsetenv("APPEND_DRIVER_BUILD_FLAGS"), 0);
	found = read_build(*state, &inputs, &build);
	assert_string_equal(found->recipe, "ofed");
	assert_string_equal(found->role, "nic");
	assert_string_equal(found->cache, "/mnt/drivers-inventory/.slipway");
	assert_int_equal(found->settings.count, 0);
	assert_null(found->needs);
	nic_build_free(&build);
	inputs.inventory = empty;
	found = read_build(*state, &inputs, &build);
	assert_null(found->cache);
	nic_build_free(&build);
}

/* A source that has none cannot be made to have it by compiling again. */
static void nfsrdma_is_needed_where_the_source_has_it(void **state)
{
	const struct folder *folder = *state;
	const struct nic_inputs inputs = {
		.mode = NIC_SOURCES,
		.inventory = inventory,
		.nfsrdma = true,
	};
	const struct nodebuild *found;
	struct nic_build build;

	assert_int_equal(setenv("APPEND_DRIVER_BUILD_FLAGS", "--with-srp-mod --x", 1), 0);
	found = read_build(folder, &inputs, &build);
	assert_int_equal(found->settings.count, 2);
	assert_string_equal(found->settings.items[0], "SLIPWAY_NFSRDMA=yes");
	assert_string_equal(found->settings.items[1], "SLIPWAY_OFED_FLAGS=--with-srp-mod --x");
	assert_null(found->needs);
	nic_build_free(&build);
	folder_subfolder(folder, "usr/lib/slipway/kit/source/net/sunrpc/xprtrdma");
	found = read_build(folder, &inputs, &build);
	assert_string_equal(found->needs, "rpcrdma");
	nic_build_free(&build);
	assert_int_equal(unsetenv("APPEND_DRIVER_BUILD_FLAGS"), 0);
}

static void the_pair_meets_below_the_nodes_label(void **state)
{
	const struct nic_inputs inputs = { .dtk_folder = shared };
	struct toolkit_place place;
	struct error error = { "" };

	(void) state;
	assert_int_equal(toolkit_place_find(&place, &inputs, KREL, "24.07-0.6.1", &error), 0);
	assert_string_equal(place.start, "mnt/shared/" LABEL "/dtk_start_compile");
	assert_string_equal(place.done, "mnt/shared/" LABEL "/dtk_done_compile_24_07_0_6_1");
	toolkit_place_free(&place);
}

static void a_flag_of_other_inputs_is_no_answer(void **state)
{
	const struct folder *folder = *state;

	assert_false(toolkit_flag_says(folder->fd, "flag", "set-1"));
	folder_write_text(folder, "flag", "set-1");
	assert_true(toolkit_flag_says(folder->fd, "flag", "set-1"));
	assert_false(toolkit_flag_says(folder->fd, "flag", "set-2"));
	folder_write_text(folder, "flag", "");
	assert_false(toolkit_flag_says(folder->fd, "flag", "set-1"));
}

static int mode_of(const struct folder *folder, const char *path)
{
	struct stat status;

	assert_int_equal(fstatat(folder->fd, path, &status, 0), 0);
	return status.st_mode & 0777;
}

static void the_toolkit_gets_program_libraries_and_script(void **state)
{
	const struct folder *folder = *state;
	const struct nic_inputs inputs = { .dtk_folder = shared, .nfsrdma = true };
	struct kit kit = { .id = "abc", .folder = "usr/lib/slipway/kit", .version = "24.07" };
	_cleanup_free_ char *script = NULL;
	_cleanup_free_ char *words = NULL;
	_cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct toolkit_place place;
	struct error error = { "" };
	char below[PATH_MAX];

	/* The program is read below the root, so the place is a folder of ours there. */
	(void) snprintf(below, sizeof(below), "%s/pod", folder->path + 1);
	folder_write_text(folder, "kit/kit.conf", "id=abc\n");
	folder_write_text(folder, "kit/recipes/ofed.sh", "");
	assert_int_equal(setenv("APPEND_DRIVER_BUILD_FLAGS", "--it's", 1), 0);
	assert_int_equal(toolkit_place_find(&place, &(struct nic_inputs){ .dtk_folder = below },
				 KREL, kit.version, &error),
		0);
	(void) snprintf(below, sizeof(below), "%s/kit", folder->path + 1);
	kit.folder = below;
	assert_int_equal(toolkit_place_fill(root_fd, &place, &inputs, &kit, KREL, &error), 0);
	assert_int_equal(mode_of(folder, "pod/" LABEL "/slipway-init"), 0755);
	assert_int_equal(mode_of(folder, "pod/" LABEL "/lib/libc.so.6"), 0755);
	assert_int_equal(mode_of(folder, "pod/" LABEL "/dtk_nic_driver_build.sh"), 0755);
	assert_true(fs_exists(folder->fd, "pod/" LABEL "/kit/recipes/ofed.sh"));
	assert_int_equal(
		fs_read(folder->fd, "pod/" LABEL "/dtk_nic_driver_build.sh", 0, &script, NULL), 0);
	assert_contains(script, "/lib/ld-");
	assert_contains(script, "dtk-build --kernel '" KREL "'");
	assert_int_equal(fs_read(folder->fd, "pod/" LABEL "/dtk.env", 0, &words, NULL), 0);
	assert_contains(words, "export DTK_OCP_COMPILED_DRIVER_VER='24_07'\n");
	assert_contains(words, "export ENABLE_NFSRDMA='true'\n");
	assert_contains(words, "export APPEND_DRIVER_BUILD_FLAGS='--it'\\''s'\n");
	toolkit_place_free(&place);
	assert_int_equal(unsetenv("APPEND_DRIVER_BUILD_FLAGS"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(only_sources_compiles),
		folder_test(sets_are_kept_below_the_inventory),
		folder_test(nfsrdma_is_needed_where_the_source_has_it),
		folder_test(the_pair_meets_below_the_nodes_label),
		folder_test(a_flag_of_other_inputs_is_no_answer),
		folder_test(the_toolkit_gets_program_libraries_and_script),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
