/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what the NIC container's mode "sources" compiles. */
#include "tests/unit/support.h"

#include "entrypoint/nic/nic_internal.h"

static char empty[] = "";
static char inventory[] = "mnt/drivers-inventory";

static const struct nodebuild *read_build(
	const struct folder *folder, const struct nic_inputs *inputs, struct nic *nic)
{
	struct error error = { 0 };

	*nic = (struct nic){ .role = { .root_fd = folder->fd }, .inputs = *inputs };
	assert_int_equal(nic_build_read(nic, &error), 0);
	return nic->role.build;
}

static void free_build(struct nic *nic)
{
	nic->inputs = (struct nic_inputs){ .mode = NIC_PRECOMPILED };
	nic_free(nic);
}

static void only_sources_compiles(void **state)
{
	const struct nic_inputs inputs = { .mode = NIC_PRECOMPILED, .inventory = inventory };
	struct nic nic;

	assert_null(read_build(*state, &inputs, &nic));
	free_build(&nic);
}

static void sets_are_kept_below_the_inventory(void **state)
{
	struct nic_inputs inputs = { .mode = NIC_SOURCES, .inventory = inventory };
	const struct nodebuild *found;
	struct nic nic;

	assert_int_equal(unsetenv("APPEND_DRIVER_BUILD_FLAGS"), 0);
	found = read_build(*state, &inputs, &nic);
	assert_string_equal(found->recipe, "ofed");
	assert_string_equal(found->cache, "/mnt/drivers-inventory/.slipway");
	assert_int_equal(found->settings.count, 0);
	assert_null(found->needs);
	free_build(&nic);
	inputs.inventory = empty;
	found = read_build(*state, &inputs, &nic);
	assert_null(found->cache);
	free_build(&nic);
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
	struct nic nic;

	assert_int_equal(setenv("APPEND_DRIVER_BUILD_FLAGS", "--with-srp-mod --x", 1), 0);
	found = read_build(folder, &inputs, &nic);
	assert_int_equal(found->settings.count, 2);
	assert_string_equal(found->settings.items[0], "SLIPWAY_NFSRDMA=yes");
	assert_string_equal(found->settings.items[1], "SLIPWAY_OFED_FLAGS=--with-srp-mod --x");
	assert_null(found->needs);
	free_build(&nic);
	folder_subfolder(folder, "usr/lib/slipway/kit/source/net/sunrpc/xprtrdma");
	found = read_build(folder, &inputs, &nic);
	assert_string_equal(found->needs, "rpcrdma");
	free_build(&nic);
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
