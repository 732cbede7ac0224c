/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "common/tag.h"

static void expect(char *tag, const char *wanted)
{
	assert_non_null(tag);
	assert_string_equal(tag, wanted);
	free(tag);
}

static void the_kernel_part_is_the_nodes_label(void **state)
{
	(void) state;
	expect(tag_kernel("6.1.0-56-amd64"), "6.1.0-56-amd64");
	expect(tag_kernel("6.12.107+deb13-amd64"), "6.12.107_deb13-amd64");
	expect(tag_kernel("5.14.0-427.13.1.el9_4.aarch64+64k"),
		"5.14.0-427.13.1.el9_4.aarch64_64k");
	expect(tag_kernel("6.1.0-custom+"), "6.1.0-custom");
	expect(tag_kernel("-6.1~rc1 x"), "6.1_rc1_x");
}

static void a_nic_tag_has_the_whole_version_and_the_architecture(void **state)
{
	(void) state;
	expect(tag_nic("24.07-0.6.1.0", "6.1.0-56-amd64", "debian", "12", "amd64"),
		"24.07-0.6.1.0-6.1.0-56-amd64-debian12-amd64");
	expect(tag_nic("doca2.9.1-24.10-1.1.4.0-0", "5.14.0-1+rt", "rhel", "9.4", "arm64"),
		"doca2.9.1-24.10-1.1.4.0-0-5.14.0-1_rt-rhel9.4-arm64");
	expect(tag_nic("1+x", "6.1.0", "debian", "12", "amd64"), "1_x-6.1.0-debian12-amd64");
}

static void a_gpu_tag_has_the_branch_and_the_operators_own_os_tag(void **state)
{
	(void) state;
	expect(tag_gpu("535.261.03", "6.1.0-56-amd64", "debian", "12"),
		"535-6.1.0-56-amd64-debian12");
	expect(tag_gpu("535.261.03", "5.4.0-150-generic", "ubuntu", "22.04"),
		"535-5.4.0-150-generic-ubuntu22.04");
	expect(tag_gpu("595.45.04", "5.14.0-427.el9", "rhel", "9.4"), "595-5.14.0-427.el9-rhel9");
	expect(tag_gpu("595.45.04", "5.14.0-427.el9", "rocky", "9.4"), "595-5.14.0-427.el9-rocky9");
	expect(tag_gpu("595.45.04", "6.12.0", "ol", "10.0"), "595-6.12.0-ol10");
	expect(tag_gpu("595.45.04", "6.4.0", "sles", "15.7"), "595-6.4.0-sles15.7");
	expect(tag_gpu("595.45.04-7", "6.1.0-56-amd64", "debian", "12"),
		"595-7-6.1.0-56-amd64-debian12");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_part_is_the_nodes_label),
		cmocka_unit_test(a_nic_tag_has_the_whole_version_and_the_architecture),
		cmocka_unit_test(a_gpu_tag_has_the_branch_and_the_operators_own_os_tag),
	};

	return cmocka_run_group_tests_name("tag", tests, NULL, NULL);
}
