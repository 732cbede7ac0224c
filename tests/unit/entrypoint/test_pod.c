/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/pod.h"
#include "tests/unit/support.h"

#define UID    "1a2b3c4d-1111-2222-3333-0123456789ab"
#define UID_U  "1a2b3c4d_1111_2222_3333_0123456789ab"
#define STATIC "0123456789abcdef0123456789abcdef"
#define ID     "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"
#define SLICE  "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_U ".slice"

static void expect_pod(const char *cgroups, const char *uid, const char *container)
{
	struct pod pod;

	assert_true(pod_parse(cgroups, &pod));
	assert_string_equal(pod.uid, uid);
	assert_string_equal(pod.container, container);
}

static void each_driver_runtime_and_version_is_read(void **state)
{
	(void) state;
	expect_pod("0::/" SLICE "/cri-containerd-" ID ".scope\n", UID, ID);
	expect_pod("0::/" SLICE "/crio-" ID ".scope\n", UID, ID);
	expect_pod("0::/" SLICE "/docker-" ID ".scope/init\n", UID, ID);
	expect_pod("0::/kubepods/burstable/pod" UID "/" ID "\n", UID, ID);
	expect_pod("0::/kubepods/pod" UID "/" ID "\n", UID, ID);
	expect_pod("13:pids:/\n12:devices:/kubepods/besteffort/pod" UID "/" ID "\n", UID, ID);
	expect_pod("4:cpu,cpuacct:/" SLICE "/cri-containerd-" ID ".scope\n0::/\n", UID, ID);
	expect_pod("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_U
		   ".slice/cri-containerd-" ID ".scope\n",
		UID, ID);
	expect_pod("0::/kubepods/pod" STATIC "/" ID "\n", STATIC, ID);
	expect_pod("0::/" SLICE "\n", UID, "");
}

static void seen_from_a_cgroup_name_space_the_beginning_is_missing(void **state)
{
	(void) state;
	expect_pod("0::/../../kubepods-besteffort-pod" UID_U ".slice/cri-containerd-" ID ".scope\n",
		UID, ID);
}

static void what_is_no_pod_is_none(void **state)
{
	static const char docker[] = "0::/system.slice/docker-" ID ".scope\n";
	static const char podman[] = "0::/machine.slice/libpod-" ID ".scope\n";
	static const char *const texts[] = { "", "\n", "0::/\n", "0::/init.scope\n", "x",
		"0:", docker, podman, "0::/user.slice/podman-1234.scope\n", "0::/pod\n" };
	struct pod pod;

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (pod_parse(texts[i], &pod))
			fail_msg("%s: taken for pod %s", texts[i], pod.uid);
}

static void the_name_is_in_the_folder_of_its_logs(void **state)
{
	const struct folder *folder = *state;
	char text[POD_TEXT_SIZE];
	struct pod pod;

	folder_write_text(folder, "proc/7/cgroup", "0::/kubepods/pod" UID "/" ID "\n");
	folder_write_text(folder, "proc/8/cgroup", "0::/init.scope\n");
	assert_true(pod_of_process(folder->fd, 7, &pod));
	pod_text(&pod, text);
	assert_string_equal(text, "pod " UID ", container aaaabbbbcccc");
	folder_subfolder(folder, "proc/1/root/var/log/pods/default_other_" STATIC);
	folder_subfolder(folder, "proc/1/root/var/log/pods/gpu-jobs_trainer-0_" UID);
	assert_true(pod_of_process(folder->fd, 7, &pod));
	pod_text(&pod, text);
	assert_string_equal(text, "pod gpu-jobs/trainer-0, container aaaabbbbcccc");
	assert_false(pod_of_process(folder->fd, 8, &pod));
	assert_false(pod_of_process(folder->fd, 9, &pod));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_driver_runtime_and_version_is_read),
		cmocka_unit_test(seen_from_a_cgroup_name_space_the_beginning_is_missing),
		cmocka_unit_test(what_is_no_pod_is_none),
		folder_test(the_name_is_in_the_folder_of_its_logs),
	};

	return cmocka_run_group_tests_name("pod", tests, NULL, NULL);
}
