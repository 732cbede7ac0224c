/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/status_node.h"

#include <sys/utsname.h>

void put_link(const struct folder *node, const char *path, const char *target)
{
	char parent[256];

	(void) snprintf(parent, sizeof(parent), "%s", path);
	*strrchr(parent, '/') = '\0';
	folder_subfolder(node, parent);
	assert_int_equal(symlinkat(target, node->fd, path), 0);
}

void put_process(
	const struct folder *node, const char *pid, const char *command, const char *cgroup)
{
	char path[64];

	(void) snprintf(path, sizeof(path), "proc/%s/comm", pid);
	folder_write_text(node, path, command);
	(void) snprintf(path, sizeof(path), "proc/%s/cgroup", pid);
	folder_write_text(node, path, cgroup);
}

static void put_gpu(const struct folder *node)
{
	folder_write_text(node, GPU_FOLDER "/vendor", "0x10de\n");
	folder_write_text(node, GPU_FOLDER "/device", "0x2335\n");
	folder_write_text(node, GPU_FOLDER "/class", "0x030200\n");
	folder_write_text(node, GPU_FOLDER "/numa_node", "-1\n");
	put_link(node, GPU_FOLDER "/driver", "../../../bus/pci/drivers/nvidia");
	folder_write_text(node, "proc/driver/nvidia/gpus/0000:00:06.0/information",
		"Model: \t\t NVIDIA H200\n"
		"IRQ:   \t\t 41\n"
		"GPU UUID: \t GPU-ac54eae4-fea4-6e2f-f25e-23b2c844b843\n"
		"Device Minor: \t 0\n"
		"GPU Firmware: \t 580.159.04\n"
		"GPU Excluded:\t No\n");
	folder_write_text(node, "dev/nvidia0", "");
}

static void put_kernel(const struct folder *node)
{
	struct utsname system;
	char path[256];

	(void) uname(&system);
	(void) snprintf(path, sizeof(path), "boot/config-%s", system.release);
	folder_write_text(node, path, "CONFIG_MODULES=y\n# CONFIG_MODVERSIONS is not set\n");
	folder_write_text(node, "sys/module/module/parameters/sig_enforce", "Y\n");
	folder_write_text(node, "sys/module/nvidia/initstate", "live\n");
	folder_write_text(node, "sys/module/nvidia_uvm/initstate", "live\n");
}

void put_real_node(const struct folder *node)
{
	put_kernel(node);
	put_gpu(node);
	folder_write_text(node, "proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release "
		"Build  (nixbld@)  \n"
		"GCC version:  gcc version 15.3.0 (GCC) \n");
	folder_write_text(node, "proc/driver/nvidia/params",
		"ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nNvLinkDisable: 1\n"
		"EnableGpuFirmware: 18\nEnableGpuFirmwareLogs: 2\nImexChannelCount: 2048\n"
		"CreateImexChannel0: 0\nCoherentGPUMemoryMode: \"\"\n");
	folder_write_text(node, "proc/driver/nvidia/capabilities/fabric-imex-mgmt",
		"DeviceFileMinor: 4323\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
	folder_write_text(node, "proc/devices",
		"Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n238 nvidia-uvm\n"
		"241 nvidia-caps\n242 nvidia-caps-imex-channels\n\nBlock devices:\n259 blkext\n");
	folder_write_text(node, "proc/1/net/tcp",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid "
		" timeout inode\n"
		"   0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0 "
		"       0 5167 1 0000000007420235 100 0 0 10 0\n");
}

char *status_with(const struct folder *node, const struct status_options *options, int expected)
{
	struct capture capture = capture_start();
	int code = status_main(node->fd, options);
	char *text = capture_end(&capture);

	assert_int_equal(code, expected);
	assert_true(*text);
	return text;
}

char *status_of(const struct folder *node, bool json, int expected)
{
	const struct status_options options = { .json = json };

	return status_with(node, &options, expected);
}
