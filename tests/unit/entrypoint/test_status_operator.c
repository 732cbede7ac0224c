/* SPDX-License-Identifier: Apache-2.0 */
/* slipway-init status: what operators, the DRA driver and containers need of the node. */
#include "tests/unit/status_node.h"

#include <errno.h>
#include <sys/sysmacros.h>

#include "entrypoint/contract.h"
#include "entrypoint/role/roles.h"

#define DRIVER_DEV CONTRACT_DRIVER_ROOT "/dev"

static void nodes_that_the_driver_root_lacks_are_findings(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_real_node(node);
	folder_subfolder(node, DRIVER_DEV);
	text = status_of(node, false, 1);
	assert_contains(text, "! /run/nvidia/driver/dev/nvidiactl is missing or is not device "
			      "195:255: containers with a GPU will fail\n");
	assert_contains(text, "! /run/nvidia/driver/dev/nvidia0 is missing or is not device 195:0");
	assert_contains(
		text, "! /run/nvidia/driver/dev/nvidia-uvm is missing or is not device 238:0");
	assert_contains(text,
		"! /run/nvidia/driver/dev/nvidia-uvm-tools is missing or is not device "
		"238:1");
	/* Here the pod has none in its own /dev: dev/nvidia0 is no device. */
	assert_null(strstr(text, "! /dev/"));
	/* Nothing knows the number of one that is not loaded. */
	assert_null(strstr(text, "modeset"));
	json = status_of(node, true, 1);
	assert_contains(json, "\"nodes\":[{\"path\":\"/run/nvidia/driver/dev/nvidiactl\","
			      "\"number\":\"195:255\",\"correct\":false},");
}

static void put_node(
	const struct folder *node, const char *path, unsigned major_number, unsigned minor_number)
{
	if (mknodat(node->fd, path, S_IFCHR | 0600, makedev(major_number, minor_number)) == 0)
		return;
	assert_int_equal(errno, EPERM);
	skip(); /* only root makes devices */
}

static void a_node_with_an_old_number_is_a_finding(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_real_node(node);
	folder_write_text(node, "proc/devices",
		"Character devices:\n195 nvidia\n195 nvidiactl\n195 nvidia-modeset\n"
		"238 nvidia-uvm\n\nBlock devices:\n");
	folder_subfolder(node, DRIVER_DEV);
	put_node(node, DRIVER_DEV "/nvidiactl", 195, 255);
	put_node(node, DRIVER_DEV "/nvidia0", 195, 0);
	put_node(node, DRIVER_DEV "/nvidia-uvm", 237, 0);
	put_node(node, DRIVER_DEV "/nvidia-uvm-tools", 238, 1);
	/* In /dev one is right, so all should be. */
	put_node(node, "dev/nvidiactl", 195, 255);
	text = status_of(node, false, 1);
	assert_contains(
		text, "! /run/nvidia/driver/dev/nvidia-uvm is missing or is not device 238:0");
	assert_null(strstr(text, "! /run/nvidia/driver/dev/nvidia0"));
	assert_null(strstr(text, "! /run/nvidia/driver/dev/nvidiactl"));
	assert_null(strstr(text, "! /run/nvidia/driver/dev/nvidia-uvm-tools"));
	assert_contains(text, "! /dev/nvidia-uvm is missing or is not device 238:0");
	assert_null(strstr(text, "! /dev/nvidiactl"));
	/* CUDA does without it. */
	assert_null(strstr(text, "modeset is missing"));
	json = status_of(node, true, 1);
	assert_contains(json, "{\"path\":\"/dev/nvidiactl\",\"number\":\"195:255\","
			      "\"correct\":true}");
}

static void the_dra_driver_wants_a_plain_nvidia_smi_and_the_library(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *link = NULL, *plain = NULL, *json = NULL, *absolute = NULL;

	put_real_node(node);
	folder_write_text(node, CONTRACT_DRIVER_ROOT "/opt/nvidia/nvidia-smi", "");
	put_link(node, CONTRACT_DRIVER_ROOT "/usr/bin/nvidia-smi", "../../opt/nvidia/nvidia-smi");
	link = status_of(node, false, 1);
	assert_contains(link, "! /run/nvidia/driver/usr/bin/nvidia-smi is a link, ");
	assert_contains(
		link, "! /run/nvidia/driver has nvidia-smi and no libnvidia-ml.so.1 where ");

	assert_int_equal(unlinkat(node->fd, CONTRACT_DRIVER_ROOT "/usr/bin/nvidia-smi", 0), 0);
	folder_write_text(node, CONTRACT_DRIVER_ROOT "/usr/bin/nvidia-smi", "");
	folder_write_text(node, CONTRACT_DRIVER_ROOT "/usr/lib64/libnvidia-ml.so.580.159.04", "");
	put_link(node, CONTRACT_DRIVER_ROOT "/usr/lib64/libnvidia-ml.so.1",
		"libnvidia-ml.so.580.159.04");
	plain = status_of(node, false, 1);
	assert_null(strchr(plain, '!'));
	json = status_of(node, true, 1);
	assert_contains(json,
		"\"nvidia_smi\":\"/run/nvidia/driver/usr/bin/nvidia-smi\","
		"\"libnvidia_ml\":\"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1\"");

	/* In the DRA driver's container it leads elsewhere. */
	assert_int_equal(
		unlinkat(node->fd, CONTRACT_DRIVER_ROOT "/usr/lib64/libnvidia-ml.so.1", 0), 0);
	put_link(node, CONTRACT_DRIVER_ROOT "/usr/lib64/libnvidia-ml.so.1",
		"/usr/lib64/libnvidia-ml.so.580.159.04");
	absolute = status_of(node, false, 1);
	assert_contains(absolute, "no libnvidia-ml.so.1 where ");
}

static void a_hosts_own_nvidia_smi_is_a_finding_beside_a_driver_container(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *preinstalled = NULL, *beside = NULL, *json = NULL, *own = NULL;

	folder_write_text(node, "proc/1/root/etc/alternatives/nvidia-smi", "#!/bin/sh\n");
	assert_int_equal(fchmodat(node->fd, "proc/1/root/etc/alternatives/nvidia-smi", 0755, 0), 0);
	put_link(node, "proc/1/root/usr/bin/nvidia-smi", "/etc/alternatives/nvidia-smi");
	folder_write_text(node, CONTRACT_VALIDATIONS "/driver-ready", "");
	folder_write_text(node, CONTRACT_VALIDATIONS "/toolkit-ready", "");
	preinstalled = status_of(node, false, 1);
	assert_contains(preinstalled, "operator files in /run/nvidia/validations: driver-ready "
				      "toolkit-ready; the host has /usr/bin/nvidia-smi\n");
	assert_null(strchr(preinstalled, '!'));

	folder_write_text(node, GPU_STATE_FOLDER "/gpu.status", "state=stopped\n");
	beside = status_of(node, false, 1);
	assert_contains(beside,
		"! the host has /usr/bin/nvidia-smi: if it works, k8s-driver-manager "
		"takes the driver for pre-installed ");
	json = status_of(node, true, 1);
	assert_contains(json, "\"operator\":{\"host_has_nvidia_smi\":true,"
			      "\"host_nvidia_smi\":\"/usr/bin/nvidia-smi\","
			      "\"validations\":[\"driver-ready\",\"toolkit-ready\"]}");

	/* Process 1 is this container's own. */
	folder_write_text(node, "proc/1/root/etc/slipway/image.conf", "role=gpu\n");
	own = status_of(node, true, 1);
	assert_contains(own, "\"operator\":{\"host_has_nvidia_smi\":null,");
}

static void on_the_host_its_own_root_is_looked_at_where_that_of_process_1_may_not_be(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *none = NULL, *own = NULL, *other = NULL;

	folder_write_text(node, "proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n");
	folder_write_text(node, "proc/1/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n");
	none = status_of(node, true, 1);
	assert_contains(none, "\"operator\":{\"host_has_nvidia_smi\":false,");
	folder_write_text(node, "usr/bin/nvidia-smi", "#!/bin/sh\n");
	assert_int_equal(fchmodat(node->fd, "usr/bin/nvidia-smi", 0755, 0), 0);
	own = status_of(node, true, 1);
	assert_contains(own, "\"host_nvidia_smi\":\"/usr/bin/nvidia-smi\"");
	/* In a container. */
	folder_write_text(node, "proc/self/mountinfo", "90 1 0:51 / / rw - overlay overlay rw\n");
	other = status_of(node, true, 1);
	assert_contains(other, "\"operator\":{\"host_has_nvidia_smi\":null,");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(nodes_that_the_driver_root_lacks_are_findings),
		folder_test(a_node_with_an_old_number_is_a_finding),
		folder_test(the_dra_driver_wants_a_plain_nvidia_smi_and_the_library),
		folder_test(a_hosts_own_nvidia_smi_is_a_finding_beside_a_driver_container),
		folder_test(
			on_the_host_its_own_root_is_looked_at_where_that_of_process_1_may_not_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
