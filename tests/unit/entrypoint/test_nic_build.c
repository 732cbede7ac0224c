/* SPDX-License-Identifier: Apache-2.0 */
/* What the NIC container's mode "sources" compiles. */
#include "tests/unit/support.h"

#include "entrypoint/nic/nic_build_internal.h"

static char empty[] = "";
static char inventory[] = "mnt/drivers-inventory";

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(only_sources_compiles),
		folder_test(sets_are_kept_below_the_inventory),
		folder_test(nfsrdma_is_needed_where_the_source_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
