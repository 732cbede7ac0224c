/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the files that say to registries and operators how to use images. The fields below were
 * checked against the operators' CRDs (gpu-operator 24.3 to 26.7, network-operator 24.7 to 26.7).
 */
#include "tests/unit/support.h"

#include <stdlib.h>

#include "cli/image/policies.h"
#include "common/fs.h"

static char nic[] = "nic", gpu[] = "gpu", holds[] = "holds", cannot_tell[] = "cannot-tell";
static char nic_id[] = "1111", gpu_id[] = "2222", ofed[] = "24.07-0.6.0.1", driver[] = "535.261.03";
static char nic_name[] = "localhost/slipway/doca-driver:24.07-rocky9.4-amd64";
static char gpu_name[] = "localhost/slipway/driver:535-5.14.0-rocky9";
static char gpu_older[] = "localhost/slipway/driver:535-5.14.0-rocky9.4";
static char gdrdrv_name[] = "localhost/slipway/gdrdrv:2.5-rocky9", gdrdrv[] = "2.5";
static char odd_version[] = "2.17.5+x";
static char *also[] = { gpu_older };

static void make_images(struct image images[2])
{
	images[0] = (struct image){
		.role = nic, .version = ofed, .reference = nic_name, .id = nic_id, .proof = holds
	};
	images[1] = (struct image){ .role = gpu,
		.version = driver,
		.reference = gpu_name,
		.also = { .items = also, .count = 1 },
		.id = gpu_id,
		.proof = holds };
}

static const struct image_use precompiled = { .operators = { .registry = "r.example:5000/drivers" },
	.os_id = "rocky",
	.os_version = "9.4",
	.krel = "5.14.0",
	.rdma = true };

static void place(const struct folder *folder, const struct image *images, size_t count,
	const struct image_use *use, bool expected_change)
{
	const struct image_use uses[] = { *use, *use };
	struct error error = { 0 };
	bool changed = false;

	assert_int_equal(policies_place(folder->path, images, count, uses, &changed, &error), 0);
	assert_int_equal(changed, expected_change);
}

/* Without its comments. */
static void expect_file(const struct folder *folder, const char *name, const char *expected)
{
	_cleanup_free_ char *text = folder_read_text(folder, name);
	char *kept = text;

	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n") + 1;

		if (*line != '#') {
			memmove(kept, line, length);
			kept += length;
		}
		line += length;
	}
	*kept = '\0';
	assert_string_equal(text, expected);
}

static void expect_pushed(const struct folder *folder, const char *calls)
{
	_cleanup_free_ char *text = folder_read_text(folder, "push.sh");
	const char *found = strstr(text, "\n}\n\n");

	assert_non_null(found);
	assert_string_equal(found + 4, calls);
}

static void test_for_one_kernel(void **state)
{
	const struct folder *folder = *state;
	struct image images[2];

	make_images(images);
	place(folder, images, 2, &precompiled, true);
	place(folder, images, 2, &precompiled, false);
	expect_file(folder, "nic-cluster-policy.yaml",
		"apiVersion: mellanox.com/v1alpha1\n"
		"kind: NicClusterPolicy\n"
		"metadata:\n"
		"  name: nic-cluster-policy\n"
		"spec:\n"
		"  ofedDriver:\n"
		"    repository: \"r.example:5000/drivers\"\n"
		"    image: doca-driver\n"
		"    version: \"24.07-0.6.0.1\"\n"
		"    forcePrecompiled: true\n");
	expect_file(folder, "cluster-policy.patch.yaml",
		"spec:\n"
		"  driver:\n"
		"    enabled: true\n"
		"    usePrecompiled: true\n"
		"    repository: \"r.example:5000/drivers\"\n"
		"    image: driver\n"
		"    version: \"535\"\n"
		"    rdma:\n"
		"      enabled: true\n"
		"      useHostMofed: false\n");
	expect_file(folder, "nvidia-driver.yaml",
		"apiVersion: nvidia.com/v1alpha1\n"
		"kind: NVIDIADriver\n"
		"metadata:\n"
		"  name: slipway-rocky9.4\n"
		"spec:\n"
		"  driverType: gpu\n"
		"  usePrecompiled: true\n"
		"  repository: \"r.example:5000/drivers\"\n"
		"  image: driver\n"
		"  version: \"535\"\n"
		"  rdma:\n"
		"    enabled: true\n"
		"    useHostMofed: false\n"
		"  nodeSelector:           # no two NVIDIADrivers may select the same node\n"
		"    feature.node.kubernetes.io/system-os_release.ID: \"rocky\"\n"
		"    feature.node.kubernetes.io/system-os_release.VERSION_ID: \"9.4\"\n");
}

static void test_for_all_kernels(void **state)
{
	const struct folder *folder = *state;
	const struct image names = { .reference = gdrdrv_name, .version = gdrdrv };
	const struct image_addon addon = {
		.values = "gdrcopy", .repository = "gdrdrv", .names = &names
	};
	const struct image_use use = {
		.os_id = "sl_micro", .compiles = true, .addons = &addon, .addon_count = 1
	};
	struct image images[2];

	make_images(images);
	place(folder, images, 2, &use, true);
	expect_file(folder, "cluster-policy.patch.yaml",
		"spec:\n"
		"  driver:\n"
		"    enabled: true\n"
		"    usePrecompiled: false\n"
		"    repository: \"REGISTRY\"\n"
		"    image: driver\n"
		"    version: \"535.261.03\"\n"
		"    rdma:\n"
		"      enabled: false\n"
		"      useHostMofed: false\n"
		"  gdrcopy:\n"
		"    enabled: true\n"
		"    repository: \"REGISTRY\"\n"
		"    image: gdrdrv\n"
		"    version: \"2.5\"\n");
	expect_pushed(folder, "push nic.oci.tar 1111 doca-driver:24.07-rocky9.4-amd64\n"
			      "push gpu.oci.tar 2222 driver:535-5.14.0-rocky9\n"
			      "push gpu.oci.tar 2222 driver:535-5.14.0-rocky9.4\n"
			      "push gpu.oci.tar 2222 gdrdrv:2.5-rocky9\n");
}

/* By the documentation's table of tags. */
static void test_the_tag_of_an_operator(void **state)
{
	static const struct {
		const char *operator, * os_id, *os_version;
		bool older;
	} cases[] = {
		{ "v24.9.2", "rocky", "9.4", true },
		{ "25.10", "rocky", "9.4", true },
		{ "26.3", "rocky", "9.4", false },
		{ "26.3.1", "rhel", "9.4", true },
		{ "26.3", "rhel", "10.1", false },
		{ "25.10", "rhel", "10.1", true },
		{ "26.7", "rhel", "9.4", false },
		{ "26.3", "ol", "9.4", true },
		{ "27.1", "ol", "9.4", false },
	};
	const struct folder *folder = *state;
	struct image images[2];

	make_images(images);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct image_use use = precompiled;

		use.operators.gpu = cases[i].operator;
		use.os_id = cases[i].os_id;
		use.os_version = cases[i].os_version;
		use.os_major = strtoul(cases[i].os_version, NULL, 10);
		place(folder, &images[1], 1, &use, true);
		expect_pushed(folder, cases[i].older
					      ? "push gpu.oci.tar 2222 driver:535-5.14.0-rocky9.4\n"
					      : "push gpu.oci.tar 2222 driver:535-5.14.0-rocky9\n");
		assert_int_equal(unlinkat(folder->fd, "push.sh", 0), 0);
	}
}

static void test_gds_of_an_nvidiadriver(void **state)
{
	const struct folder *folder = *state;
	const struct image names = { .reference = gdrdrv_name, .version = odd_version };
	const struct image_addon addon = {
		.values = "gds", .repository = "nvidia-fs", .names = &names
	};
	struct image_use use = { .os_id = "debian",
		.os_version = "12",
		.open_modules = true,
		.addons = &addon,
		.addon_count = 1 };
	_cleanup_free_ char *driver_text = NULL, *patch = NULL;
	struct image images[2];

	make_images(images);
	place(folder, images, 2, &use, true);
	driver_text = folder_read_text(folder, "nvidia-driver.yaml");
	assert_contains(driver_text, "\n  kernelModuleType: open\n");
	assert_contains(driver_text, "\n    version: \"2.17.5_x\"\n");
	patch = folder_read_text(folder, "cluster-policy.patch.yaml");
	assert_null(strstr(patch, "kernelModuleType"));
}

/* An index is copied with all its images; the NIC's is for one kernel, the GPU's for any. */
static void test_an_index(void **state)
{
	static char part_name[] = "localhost/slipway/driver:535-6.1.0-57-arm64-debian12";
	static char part_archive[] = "aarch64/gpu.oci.tar";
	const struct folder *folder = *state;
	_cleanup_free_ char *nic_text = NULL, *patch = NULL, *push = NULL;
	const struct image_part part = { .archive = part_archive,
		.names = { .role = gpu, .reference = part_name } };
	struct image_use uses[2] = { precompiled, precompiled };
	struct error error = { 0 };
	struct image images[2];
	bool changed = false;

	make_images(images);
	uses[0].index = "out/nic.oci.tar";
	uses[1].index = "out/gpu.oci.tar";
	uses[1].krel = NULL;
	uses[1].parts = &part;
	uses[1].part_count = 1;
	assert_int_equal(policies_place(folder->path, images, 2, uses, &changed, &error), 0);
	expect_pushed(folder, "push nic.oci.tar doca-driver:24.07-rocky9.4-amd64\n"
			      "push gpu.oci.tar driver:535-5.14.0-rocky9\n"
			      "push gpu.oci.tar driver:535-5.14.0-rocky9.4\n"
			      "push aarch64/gpu.oci.tar driver:535-6.1.0-57-arm64-debian12\n");
	push = folder_read_text(folder, "push.sh");
	assert_contains(push, "skopeo copy --all \"oci-archive:$1\" \"docker://$registry/$2\"");
	assert_null(strstr(push, "buildah"));
	nic_text = folder_read_text(folder, "nic-cluster-policy.yaml");
	assert_contains(nic_text, "forcePrecompiled: true\n");
	patch = folder_read_text(folder, "cluster-policy.patch.yaml");
	assert_contains(patch, "usePrecompiled: false\n");
	assert_contains(patch, "version: \"535.261.03\"\n");
}

static void test_files_of_another_hand_stay(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	struct image images[2];
	bool changed = false;

	make_images(images);
	folder_write_text(folder, "push.sh", "mine\n");
	assert_int_equal(policies_ready(folder->path, &error), -EEXIST);
	assert_contains(error.text, "push.sh");
	assert_int_equal(
		policies_place(folder->path, images, 2, &precompiled, &changed, &error), -EEXIST);
	text = folder_read_text(folder, "push.sh");
	assert_string_equal(text, "mine\n");
}

static void test_what_no_operator_asks_for(void **state)
{
	const struct folder *folder = *state;
	struct image images[2];

	make_images(images);
	place(folder, images, 2, &precompiled, true);
	images[1].proof = cannot_tell;
	place(folder, images, 2, &precompiled, true);
	expect_pushed(folder, "push nic.oci.tar 1111 doca-driver:24.07-rocky9.4-amd64\n");
	assert_true(fs_exists(folder->fd, "nic-cluster-policy.yaml"));
	assert_false(fs_exists(folder->fd, "cluster-policy.patch.yaml"));
	assert_false(fs_exists(folder->fd, "nvidia-driver.yaml"));
	place(folder, &images[1], 1, &precompiled, false);
	assert_false(fs_exists(folder->fd, "nic-cluster-policy.yaml"));
	assert_false(fs_exists(folder->fd, "push.sh"));
}

static void test_options(void **state)
{
	static const struct {
		struct operators operators;
		const char *why; /* NULL: they are right */
	} cases[] = {
		{ { .registry = "r.example" }, NULL },
		{ { .registry = "R.example:5000/a/b-c" }, NULL },
		{ { .gpu = "v25.3.4" }, NULL },
		{ { .registry = "docker://r.example/a" }, "a transport stands before it" },
		{ { .registry = "r.example/a/" }, "it ends with /" },
		{ { .registry = "r.example/A" }, "not the name of a registry" },
		{ { .registry = "r.example/a:1" }, "not the name of a registry" },
		{ { .registry = "r example" }, "not the name of a registry" },
		{ { .registry = "/tmp/out" }, "not the name of a registry" },
		{ { .gpu = "25" }, "not a version" },
		{ { .gpu = "25.10-rc1" }, "not a version" },
		{ { .gpu = "latest" }, "not a version" },
		{ { .gpu = "23.6" }, "23.9 is the oldest" },
		{ { .gpu = "23.9" }, NULL },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error error = { 0 };
		int r = operators_check(&cases[i].operators, &error);

		assert_int_equal(r, cases[i].why ? -EINVAL : 0);
		if (cases[i].why)
			assert_contains(error.text, cases[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_for_one_kernel),
		folder_test(test_for_all_kernels),
		folder_test(test_the_tag_of_an_operator),
		folder_test(test_gds_of_an_nvidiadriver),
		folder_test(test_an_index),
		folder_test(test_files_of_another_hand_stay),
		folder_test(test_what_no_operator_asks_for),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests_name("policies", tests, NULL, NULL);
}
