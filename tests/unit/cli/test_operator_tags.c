/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tags of an image, from the catalogue and the kernel's name, against those that the operators
 * ask for on a node. Their formulas are below, from their sources:
 * gpu-operator v26.7.0 internal/state/nodepool.go getOSTag() and controllers/state_manager.go
 * getGPUNodeOSInfo(), v26.3.3 internal/state/nodepool.go, v25.10.1 controllers/object_controls.go,
 * and api/nvidia/v1alpha1/nvidiadriver_types.go GetPrecompiledImagePath() and GetImagePath();
 * network-operator v26.7 pkg/state/state_ofed.go precompiledTagFormat and mofedImageFormat. Kernel
 * and VERSION_ID are labels of node-feature-discovery (source/kernel, source/system).
 */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "cli/image/operators.h"
#include "common/tag.h"
#include "kernels/catalogue.h"

#define CATALOGUE "kernels/catalogue"
#define DRIVER    "580.65.06"
#define OFED      "25.10-1.2.8.0"

/* A node as its os-release and uname -r have it. */
static const struct node {
	const char *os;    /* in the catalogue */
	const char *krel;  /* of the kernel that it runs */
	const char *label; /* the same in its label kernel-version.full, where that differs */
	const char *id;    /* and VERSION_ID of its os-release */
	const char *version;
	bool stated; /* the kernel's name does not tell VERSION_ID: --os-version */
	const char *arch;
} nodes[] = {
	{ "debian12", "6.1.0-56-amd64", NULL, "debian", "12", false, "amd64" },
	{ "debian13", "6.12.107+deb13-amd64", "6.12.107_deb13-amd64", "debian", "13", false,
		"amd64" },
	{ "ubuntu18.04", "4.15.0-109-generic", NULL, "ubuntu", "18.04", false, "amd64" },
	{ "ubuntu22.04", "5.15.0-130-generic", NULL, "ubuntu", "22.04", false, "amd64" },
	{ "ubuntu24.04", "6.14.0-1012-aws", NULL, "ubuntu", "24.04", false, "amd64" },
	{ "ubuntu24.04", "6.8.0-1015-nvidia-64k", NULL, "ubuntu", "24.04", false, "arm64" },
	{ "ubuntu24.04", "6.8.0-45-generic-64k", NULL, "ubuntu", "24.04", false, "arm64" },
	{ "debian12", "6.1.0-56-arm64", NULL, "debian", "12", false, "arm64" },
	{ "debian13", "6.12.117+deb13-arm64-16k", "6.12.117_deb13-arm64-16k", "debian", "13", false,
		"arm64" },
	{ "rhel9", "5.14.0-427.13.1.el9_4.aarch64+64k", "5.14.0-427.13.1.el9_4.aarch64_64k", "rhel",
		"9.4", false, "arm64" },
	{ "oracle10", "6.12.0-103.40.4.el10uek.aarch64.64k", NULL, "ol", "10.1", true, "arm64" },
	{ "fedora43", "6.17.1-300.fc43.aarch64+16k", "6.17.1-300.fc43.aarch64_16k", "fedora", "43",
		false, "arm64" },
	{ "sles15.7", "6.4.0-150700.53.3-64kb", NULL, "sles", "15.7", false, "arm64" },
	{ "ubuntu26.04", "7.0.0-14-generic", NULL, "ubuntu", "26.04", false, "amd64" },
	{ "rhel8", "4.18.0-553.el8_10.x86_64", NULL, "rhel", "8.10", false, "amd64" },
	{ "rhel9", "5.14.0-427.13.1.el9_4.x86_64", NULL, "rhel", "9.4", false, "amd64" },
	{ "rhel10", "6.12.0-55.9.1.el10_0.x86_64", NULL, "rhel", "10.0", false, "amd64" },
	{ "rocky9", "5.14.0-503.11.1.el9_5.x86_64", NULL, "rocky", "9.5", false, "amd64" },
	{ "rocky9", "5.14.0-427.13.1.el9_4.x86_64+rt", "5.14.0-427.13.1.el9_4.x86_64_rt", "rocky",
		"9.4", false, "amd64" },
	{ "almalinux9", "5.14.0-503.11.1.el9_5.x86_64", NULL, "almalinux", "9.5", false, "amd64" },
	{ "oracle9", "6.12.0-103.40.4.4.el9uek.x86_64", NULL, "ol", "9.6", true, "amd64" },
	{ "oracle8", "5.15.0-200.131.27.el8uek.x86_64", NULL, "ol", "8.10", true, "amd64" },
	{ "rhcos4.18", "5.14.0-427.50.1.el9_4.x86_64", NULL, "rhcos", "4.18", false, "amd64" },
	{ "rhcos4.20", "5.14.0-570.12.1.el9_6.x86_64", NULL, "rhel", "9.6", false, "amd64" },
	{ "sles15.7", "6.4.0-150700.53.3-default", NULL, "sles", "15.7", false, "amd64" },
	{ "sl-micro6.1", "6.4.0-29-default", NULL, "sl-micro", "6.1", false, "amd64" },
	{ "centos7", "3.10.0-1160.45.1.el7.custom", NULL, "centos", "7", false, "amd64" },
	{ "amzn2023", "6.1.79-99.164.amzn2023.x86_64", NULL, "amzn", "2023", false, "amd64" },
	{ "photon5", "6.1.83-1.ph5-esx", NULL, "photon", "5.0", false, "amd64" },
	{ "azurelinux3", "6.6.64.2-7.azl3", NULL, "azurelinux", "3.0", false, "amd64" },
	{ "fedora43", "6.17.1-300.fc43.x86_64", NULL, "fedora", "43", false, "amd64" },
	{ "opensuse-leap15.6", "6.4.0-150600.23.25-default", NULL, "opensuse-leap", "15.6", false,
		"amd64" },
	{ "opensuse-tumbleweed", "6.16.8-1-default", NULL, "opensuse-tumbleweed", "20251120", true,
		"amd64" },
	{ "sles16.0", "6.12.0-160000.5-default", NULL, "sles", "16.0", false, "amd64" },
	{ "sl-micro6.2", "6.12.0-160000.5-default", NULL, "sles", "16.0", false, "amd64" },
	/* Pinned and EUS kernels: the node has moved on to another minor release. */
	{ "rhel9", "5.14.0-427.13.1.el9_4.x86_64", NULL, "rhel", "9.6", true, "amd64" },
	{ "almalinux9", "5.14.0-427.13.1.el9_4.x86_64", NULL, "almalinux", "9.6", true, "amd64" },
	{ "rhel10", "6.12.0-55.9.1.el10_0.x86_64", NULL, "rhel", "10.1", true, "amd64" },
};

static bool is_one_of(const char *id, const char *const *ids)
{
	while (*ids && strcmp(*ids, id) != 0)
		ids++;
	return *ids != NULL;
}

/* Which minor releases the operator of a version leaves out. */
static char *os_tag(const char *operator, const struct node * node)
{
	static const char *const family[] = { "ol", "rocky", "rhel", NULL };
	bool major_only = false;
	char *tag;

	if (strcmp(operator, "26.7") == 0)
		major_only = is_one_of(node->id, family);
	else if (strcmp(operator, "26.3") == 0)
		major_only = strcmp(node->id, "rocky") == 0 ||
			     (strcmp(node->id, "rhel") == 0 && atoi(node->version) >= 10);
	assert_true(
		asprintf(&tag, "%s%.*s", node->id,
			(int) (major_only ? strcspn(node->version, ".") : strlen(node->version)),
			node->version) > 0);
	return tag;
}

/* Exactly one of the image's names is pushed for that operator. */
static void expect_gpu_tag(
	const struct node *node, const char *os_version, const char *operator, bool compiles)
{
	const char *label = node->label ? node->label : node->krel;
	_cleanup_(image_free) struct image image = { 0 };
	_cleanup_strv_ struct strv os_tags = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *asked_os = os_tag(operator, node);
	_cleanup_free_ char *asked = NULL;
	const struct image_use use = {
		.operators = { .gpu = operator},
		.os_id = node->id,
		.os_major = strtoul(os_version, NULL, 10),
	};

	/* usePrecompiled, with the branch as the version; or the driver's own. */
	assert_true((compiles ? asprintf(&asked, "localhost/slipway/driver:%s-%s", DRIVER, asked_os)
			      : asprintf(&asked, "localhost/slipway/driver:580-%s-%s", label,
					asked_os)) > 0);
	image_os_tags(node->id, os_version, &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		_cleanup_free_ char *tag = compiles ? tag_gpu_sources(DRIVER, os_tags.items[i])
						    : tag_gpu(DRIVER, node->krel, os_tags.items[i]);

		image_add_tag(&image, IMAGE_GPU_REPOSITORY, tag, "");
	}
	image_wanted_names(&image, &use, &names);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0], asked);
}

static void expect_nic_tag(const struct node *node, const char *os_version)
{
	_cleanup_free_ char *precompiled = NULL, *any = NULL;
	_cleanup_free_ char *of_kernel =
		tag_nic(OFED, node->krel, node->id, os_version, node->arch);
	_cleanup_free_ char *sources = tag_nic_sources(OFED, node->id, os_version, node->arch);

	assert_true(asprintf(&precompiled, "%s-%s-%s%s-%s", OFED,
			    node->label ? node->label : node->krel, node->id, node->version,
			    node->arch) > 0);
	assert_true(asprintf(&any, "%s-%s%s-%s", OFED, node->id, node->version, node->arch) > 0);
	assert_string_equal(of_kernel, precompiled);
	assert_string_equal(sources, any);
}

static void tags_are_those_that_the_operators_ask_for(void **state)
{
	static const char *const operators[] = { "26.7", "26.3", "25.10" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		const struct node *node = &nodes[i];
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		_cleanup_free_ char *told = NULL;
		const char *version;
		struct error error = { 0 };

		assert_int_equal(catalogue_open(CATALOGUE, node->os, &os, &error), 0);
		assert_string_equal(os.id, node->id);
		told = catalogue_node_version(&os, node->krel);
		/* As slipway build has it: --os-version, else by the kernel. */
		version = node->stated ? node->version : told ? told : "";
		assert_string_equal(version, node->version);
		assert_false(node->stated && told && strcmp(told, node->version) == 0);
		for (size_t k = 0; k < ARRAY_SIZE(operators); k++) {
			expect_gpu_tag(node, version, operators[k], false);
			expect_gpu_tag(node, version, operators[k], true);
		}
		expect_nic_tag(node, version);
	}
}

/* slipway build and plan --nodes name such kernels and nodes. */
static void a_kernel_of_another_minor_release_is_known(void **state)
{
	static const struct {
		const char *os, *krel, *version, *release;
	} cases[] = {
		{ "rhel9", "5.14.0-427.13.1.el9_4.x86_64", "9.6", "9.4" },
		{ "rocky9", "5.14.0-427.13.1.el9_4.x86_64", "9.4", NULL },
		{ "oracle9", "6.12.0-103.40.4.4.el9uek.x86_64", "9.6", NULL },
		/* Its version is OpenShift's. */
		{ "rhcos4.18", "5.14.0-427.50.1.el9_4.x86_64", "4.18", NULL },
		{ "debian12", "6.1.0-56-amd64", "12", NULL },
		{ "opensuse-tumbleweed", "6.16.8-1-default", "20251120", NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		_cleanup_free_ char *release = NULL;
		struct error error = { 0 };

		assert_int_equal(catalogue_open(CATALOGUE, cases[i].os, &os, &error), 0);
		release = catalogue_other_release(&os, cases[i].krel, cases[i].version);
		if (cases[i].release)
			assert_string_equal(release, cases[i].release);
		else
			assert_null(release);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tags_are_those_that_the_operators_ask_for),
		cmocka_unit_test(a_kernel_of_another_minor_release_is_known),
	};

	return cmocka_run_group_tests_name("operator_tags", tests, NULL, NULL);
}
