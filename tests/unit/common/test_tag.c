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

static void a_gpu_tag_has_the_branch(void **state)
{
	(void) state;
	expect(tag_gpu("535.261.03", "6.1.0-56-amd64", "debian12"), "535-6.1.0-56-amd64-debian12");
	expect(tag_gpu("535.261.03", "6.12.107+deb13-amd64", "debian13"),
		"535-6.12.107_deb13-amd64-debian13");
	expect(tag_gpu("595.45.04-7", "6.1.0-56-amd64", "debian12"),
		"595-7-6.1.0-56-amd64-debian12");
	expect(tag_gpu_sources("595.45.04-7", "rhel9"), "595.45.04-7-rhel9");
}

/*
 * gpu-operator v26.7.0 and v26.3.3 (internal/state/nodepool.go, getOSTag()), v25.10.1
 * (controllers/object_controls.go): which 26.3 asks for is one of the two.
 */
static void the_os_tag_is_the_operators_own(void **state)
{
	static const struct {
		const char *id, *version, *now, *old;
	} cases[] = {
		{ "ubuntu", "22.04", "ubuntu22.04", "ubuntu22.04" },
		{ "debian", "12", "debian12", "debian12" },
		{ "rhel", "8.10", "rhel8", "rhel8.10" },
		{ "rhel", "9.4", "rhel9", "rhel9.4" },
		{ "rhel", "10.1", "rhel10", "rhel10.1" },
		{ "rocky", "9.4", "rocky9", "rocky9.4" },
		{ "ol", "9.4", "ol9", "ol9.4" },
		{ "ol", "10.0", "ol10", "ol10.0" },
		{ "almalinux", "9.4", "almalinux9.4", "almalinux9.4" },
		{ "centos", "9", "centos9", "centos9" },
		{ "sles", "15.7", "sles15.7", "sles15.7" },
		{ "sl-micro", "6.0", "sl-micro6.0", "sl-micro6.0" },
		{ "rhcos", "4.18", "rhcos4.18", "rhcos4.18" },
		{ "opensuse-leap", "15.6", "opensuse-leap15.6", "opensuse-leap15.6" },
		{ "amzn", "2023", "amzn2023", "amzn2023" },
		{ "rhel", "9", "rhel9", "rhel9" },
		{ "debian", "", "debian", "debian" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		expect(tag_gpu_os(cases[i].id, cases[i].version), cases[i].now);
		expect(tag_gpu_os_old(cases[i].id, cases[i].version), cases[i].old);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_part_is_the_nodes_label),
		cmocka_unit_test(a_nic_tag_has_the_whole_version_and_the_architecture),
		cmocka_unit_test(a_gpu_tag_has_the_branch),
		cmocka_unit_test(the_os_tag_is_the_operators_own),
	};

	return cmocka_run_group_tests_name("tag", tests, NULL, NULL);
}
