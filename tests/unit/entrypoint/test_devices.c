/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/role/module_kind.h"
#include "module/running.h"
#include "tests/unit/support.h"

#define PCI "sys/bus/pci/"
#define GPU "0000:01:00.0"

struct bench {
	struct gpu gpu;
	struct worker worker;
	struct action action;
	int ends[2];
};

static void begin(struct bench *bench, const struct folder *folder)
{
	*bench = (struct bench){ 0 };
	bench->gpu.role.name = "gpu";
	bench->gpu.role.state_folder = "run/slipway";
	bench->gpu.role.host_root = "/nowhere";
	bench->gpu.role.root_fd = folder->fd;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bench->ends), 0);
	bench->worker.fd = bench->ends[1];
	bench->action = (struct action){ .role = &bench->gpu, .worker = &bench->worker };
	folder_subfolder(folder, "run/slipway");
	folder_subfolder(folder, "sys/module");
}

static void end(const struct bench *bench)
{
	(void) close(bench->ends[0]);
	(void) close(bench->ends[1]);
}

static void function_at(const struct folder *folder, const char *address, const char *vendor,
	const char *class, const char *driver)
{
	char path[256];
	char target[256];

	(void) snprintf(path, sizeof(path), PCI "devices/%s/vendor", address);
	folder_write_text(folder, path, vendor);
	(void) snprintf(path, sizeof(path), PCI "devices/%s/class", address);
	folder_write_text(folder, path, class);
	(void) snprintf(path, sizeof(path), PCI "devices/%s/driver_override", address);
	folder_write_text(folder, path, "(null)\n");
	if (!driver)
		return;
	(void) snprintf(path, sizeof(path), PCI "drivers/%s/unbind", driver);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), PCI "drivers/%s/bind", driver);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), PCI "devices/%s/driver", address);
	(void) snprintf(target, sizeof(target), "../../drivers/%s", driver);
	assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

static void gpu_with(const struct folder *folder, const char *driver)
{
	function_at(folder, GPU, "0x10de\n", "0x030200\n", driver);
}

static void expect_text(const struct folder *folder, const char *path, const char *expected)
{
	_cleanup_free_ char *text = folder_read_text(folder, path);

	assert_string_equal(text, expected);
}

static void audio_and_other_vendors_are_no_gpu(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	function_at(*state, "0000:01:00.1", "0x10de\n", "0x040300\n", "snd_hda_intel");
	function_at(*state, "0000:02:00.0", "0x1a03\n", "0x030000\n", "ast");
	assert_int_equal(gpu_find_device(&bench.action), -ENODEV);
	assert_int_equal(bench.action.reason, REASON_NO_NVIDIA_DEVICE);
	function_at(*state, "0000:05:00.0", "0x10de\n", "0x068000\n", NULL);
	assert_int_equal(gpu_find_device(&bench.action), 0);
	end(&bench);
}

static void a_bus_that_cannot_be_read_is_no_node_without_a_gpu(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	assert_int_equal(gpu_find_device(&bench.action), -ENOENT);
	assert_int_equal(bench.action.reason, REASON_INTERNAL);
	folder_subfolder(*state, "sys/bus");
	assert_int_equal(gpu_find_device(&bench.action), -ENODEV);
	folder_write_text(*state, PCI "devices", "no folder");
	assert_int_equal(gpu_find_device(&bench.action), -ENOTDIR);
	assert_int_equal(bench.action.reason, REASON_INTERNAL);
	assert_contains(bench.action.error.text, "/sys/bus/pci/devices, which lists");
	end(&bench);
}

static void device_at(const struct folder *folder, const char *address, const char *device)
{
	char path[256];

	function_at(folder, address, "0x10de\n", "0x030200\n", NULL);
	(void) snprintf(path, sizeof(path), PCI "devices/%s/device", address);
	folder_write_text(folder, path, device);
}

static void chips_that_the_drivers_list_lacks_are_refused(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	(void) snprintf(bench.gpu.role.image.version, 16, "535.1");
	/* Without a list any will do. */
	device_at(*state, GPU, "0x2b85\n");
	assert_int_equal(gpu_check_devices(&bench.action), 0);
	(void) snprintf(bench.gpu.role.image.chips, 32, "1d80 1e00 2080 2880");
	assert_int_equal(gpu_check_devices(&bench.action), -ENODEV);
	assert_int_equal(bench.action.reason, REASON_NO_NVIDIA_DEVICE);
	assert_contains(bench.action.error.text, "driver 535.1 drives only the chips in its list");
	assert_contains(bench.action.error.text, GPU " (10de:2b85). Nothing was unloaded");
	bench.gpu.role.options.unlisted_gpus = true;
	assert_int_equal(gpu_check_devices(&bench.action), 0);
	bench.gpu.role.options.unlisted_gpus = false;
	/* A model that the list lacks, of a chip that it has: 128 ids are a chip's. */
	device_at(*state, GPU, "0x20ff\n");
	assert_int_equal(gpu_check_devices(&bench.action), 0);
	device_at(*state, GPU, "0x2100\n");
	assert_int_equal(gpu_check_devices(&bench.action), -ENODEV);
	/* An older one is driven by the proprietary modules only. */
	device_at(*state, "0000:02:00.0", "0x1db6\n");
	assert_int_equal(gpu_check_devices(&bench.action), 0);
	(void) snprintf(bench.gpu.role.image.kernel_module_type, 16, "open");
	assert_int_equal(gpu_check_devices(&bench.action), -ENODEV);
	(void) snprintf(bench.gpu.role.image.kernel_module_type, 16, "proprietary");
	assert_int_equal(gpu_check_devices(&bench.action), 0);
	/* Beside one that the driver serves it is only reported. */
	device_at(*state, "0000:02:00.0", "0x1e30\n");
	assert_int_equal(gpu_check_devices(&bench.action), 0);
	end(&bench);
}

#define MODULES "lib/modules/6.1/updates/nvidia/nvidia.ko"
#define FACTS   KERNEL_FACTS_FOLDER "/6.1/"

/* As slipway combine leaves it. */
static void image_with_both(const struct folder *folder)
{
	folder_write_text(folder, MODULES, "open");
	folder_write_text(folder, "lib/modules/6.1/left", "of the first");
	folder_write_text(folder, FACTS KERNEL_FACTS_IMAGE, "kernel_module_type=open\nset=1\n");
	folder_write_text(folder, FACTS KERNEL_FACTS_USED, "of open");
	folder_write_text(folder, FACTS KERNEL_FACTS_PEERMEM "/0/peermem.conf", "");
	folder_write_text(folder, FACTS KERNEL_FACTS_OFED, "of the first");
	folder_write_text(folder, FACTS "other/modules/updates/nvidia/nvidia.ko", "proprietary");
	folder_write_text(folder, FACTS "other/facts/" KERNEL_FACTS_IMAGE,
		"kernel_module_type=proprietary\nset=2\n");
	folder_write_text(folder, FACTS "other/facts/" KERNEL_FACTS_USED, "of proprietary");
}

static void expect_choice(struct bench *bench, const struct folder *folder, const char *kind)
{
	_cleanup_free_ char *conf = NULL;
	_cleanup_free_ char *used = NULL;

	assert_true(module_kind_has_both(&bench->gpu.role));
	assert_int_equal(module_kind_choose(&bench->action), 0);
	conf = folder_read_text(folder, FACTS KERNEL_FACTS_IMAGE);
	used = folder_read_text(folder, FACTS KERNEL_FACTS_USED);
	expect_text(folder, MODULES, kind);
	assert_non_null(strstr(conf, kind));
	assert_non_null(strstr(used, kind));
}

static void the_kind_that_drives_the_gpus_is_put_in_place(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	(void) snprintf(bench.gpu.role.krel, sizeof(bench.gpu.role.krel), "6.1");
	folder_write_text(folder, MODULES, "one kind");
	assert_false(module_kind_has_both(&bench.gpu.role));
	assert_int_equal(module_kind_choose(&bench.action), 0);
	image_with_both(folder);
	/* Both kinds drive Turing: what is in place, or what the operator asks for. */
	device_at(folder, GPU, "0x1eb8\n");
	expect_choice(&bench, folder, "open");
	assert_int_equal(setenv("KERNEL_MODULE_TYPE", "auto", 1), 0);
	expect_choice(&bench, folder, "open");
	/* Beside one that only the open ones drive, an older one is no reason. */
	assert_int_equal(setenv("KERNEL_MODULE_TYPE", "proprietary", 1), 0);
	device_at(folder, GPU, "0x1db6\n");
	device_at(folder, "0000:02:00.0", "0x2b85\n");
	expect_choice(&bench, folder, "open");
	device_at(folder, "0000:02:00.0", "0x2342\n");
	expect_choice(&bench, folder, "open");
	assert_int_equal(unsetenv("KERNEL_MODULE_TYPE"), 0);
	device_at(folder, "0000:02:00.0", "0x1eb8\n");
	expect_choice(&bench, folder, "proprietary");
	assert_false(fs_exists(folder->fd, "lib/modules/6.1/left"));
	assert_false(fs_exists(folder->fd, FACTS KERNEL_FACTS_PEERMEM));
	assert_false(fs_exists(folder->fd, FACTS KERNEL_FACTS_OFED));
	/* Once more: nothing is left to do. */
	expect_choice(&bench, folder, "proprietary");
	end(&bench);
}

#define DEP "lib/modules/6.1/modules.dep"

/* Is it in a note that the worker has sent since the last call? */
static bool was_noted(const struct bench *bench, const char *text)
{
	struct worker_message message;
	bool found = false;

	while (recv(bench->ends[0], &message, sizeof(message), MSG_DONTWAIT) > 0)
		found |= message.kind == WORKER_NOTE && strstr(message.text.text, text);
	return found;
}

static void what_was_asked_and_is_not_chosen_is_said(void **state)
{
	static const char both[] = "OPEN_KERNEL_MODULES_ENABLED is set: not needed, because";
	const struct folder *folder = *state;
	_cleanup_free_ char *events = NULL;
	struct bench bench;

	begin(&bench, folder);
	(void) snprintf(bench.gpu.role.krel, sizeof(bench.gpu.role.krel), "6.1");
	image_with_both(folder);
	/* Nothing is put in place by any of these. */
	device_at(folder, GPU, "0x2b85\n");
	assert_int_equal(setenv("KERNEL_MODULE_TYPE", "auto", 1), 0);
	expect_choice(&bench, folder, "open");
	assert_false(was_noted(&bench, ""));
	assert_int_equal(setenv("KERNEL_MODULE_TYPE", "proprietary", 1), 0);
	expect_choice(&bench, folder, "open");
	assert_true(was_noted(
		&bench, "KERNEL_MODULE_TYPE asks for the proprietary modules, which do not"));
	assert_int_equal(setenv("KERNEL_MODULE_TYPE", "opne", 1), 0);
	expect_choice(&bench, folder, "open");
	assert_true(was_noted(&bench, "KERNEL_MODULE_TYPE is opne, not open, proprietary or auto"));
	assert_int_equal(unsetenv("KERNEL_MODULE_TYPE"), 0);

	assert_int_equal(setenv("OPEN_KERNEL_MODULES_ENABLED", "true", 1), 0);
	log_prepare(&bench.gpu.role.log, folder->fd, "gpu", "run/slipway");
	log_open(&bench.gpu.role.log);
	gpu_report_ignored_env(&bench.gpu.role);
	log_close(&bench.gpu.role.log);
	assert_int_equal(unsetenv("OPEN_KERNEL_MODULES_ENABLED"), 0);
	events = folder_read_text(folder, "run/slipway/gpu.events.jsonl");
	assert_contains(events, both);
	end(&bench);
}

/* A copy that fails, or is killed, leaves a container that starts again and tries again. */
static void a_kind_that_is_put_in_place_halfway_is_put_there_by_the_next_start(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	(void) snprintf(bench.gpu.role.krel, sizeof(bench.gpu.role.krel), "6.1");
	device_at(folder, GPU, "0x1db6\n");
	image_with_both(folder);
	folder_write_text(folder, DEP, "of open");
	folder_write_text(folder, FACTS "other/modules/modules.dep", "of proprietary");
	assert_int_equal(renameat(folder->fd, FACTS "other/modules", folder->fd, "aside"), 0);
	assert_true(module_kind_choose(&bench.action) < 0);
	expect_text(folder, DEP, "of open");
	assert_int_equal(renameat(folder->fd, "aside", folder->fd, FACTS "other/modules"), 0);
	/* Killed where the folder of modules is gone and the new one has not its name yet. */
	assert_int_equal(fs_remove_tree(folder->fd, "lib/modules/6.1/updates"), 0);
	folder_write_text(folder, "lib/modules/6.1/updates.new/nvidia/nvidia.ko", "half");
	expect_choice(&bench, folder, "proprietary");
	expect_text(folder, DEP, "of proprietary");
	assert_false(fs_exists(folder->fd, "lib/modules/6.1/updates.new"));
	end(&bench);
}

static void a_sidecar_goes_with_the_driver_that_is_loaded(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	bench.gpu.role.name = "gds";
	(void) snprintf(bench.gpu.role.krel, sizeof(bench.gpu.role.krel), "6.1");
	image_with_both(folder);
	device_at(folder, GPU, "0x1db6\n");
	expect_choice(&bench, folder, "open");
	folder_write_text(folder, "proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1\n");
	expect_choice(&bench, folder, "open");
	folder_write_text(folder, "proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.1\n");
	expect_choice(&bench, folder, "open");
	folder_write_text(folder, "proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1\n");
	expect_choice(&bench, folder, "proprietary");
	folder_write_text(folder, "proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX aarch64 Kernel Module  580.1\n");
	expect_choice(&bench, folder, "proprietary");
	end(&bench);
}

static void a_free_gpu_and_one_of_nvidia_are_left_alone(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	gpu_with(*state, NULL);
	function_at(*state, "0000:02:00.0", "0x10de\n", "0x030000\n", "nvidia");
	assert_int_equal(gpu_free_devices(&bench.action), 0);
	expect_text(*state, PCI "devices/" GPU "/driver_override", "(null)\n");
	end(&bench);
}

static void expect_free(const struct folder *folder, bool expected)
{
	struct bench bench;

	begin(&bench, folder);
	assert_int_equal(gpu_find_device(&bench.action), 0);
	assert_int_equal(bench.gpu.devices_are_free, expected);
	end(&bench);
}

static void what_has_to_be_freed_is_seen_at_once(void **state)
{
	const struct folder *folder = *state;

	gpu_with(folder, NULL);
	expect_free(folder, true);
	function_at(folder, "0000:02:00.0", "0x10de\n", "0x030000\n", "nvidia");
	function_at(folder, "0000:02:00.1", "0x10de\n", "0x040300\n", "snd_hda_intel");
	expect_free(folder, true);
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	expect_free(folder, false);
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "(null)\n");
	expect_free(folder, true);
	folder_module(folder, "nova_drm", "0\n", NULL);
	expect_free(folder, false);
}

static void a_device_of_another_driver_has_to_be_freed(void **state)
{
	gpu_with(*state, "vfio-pci");
	expect_free(*state, false);
}

static void vfio_lets_go_and_its_override_too(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "vfio-pci");
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	/* No kernel unbinds in a folder of files: what was written is what counts. */
	assert_contains(bench.action.error.text, GPU " is bound to vfio-pci");
	expect_text(folder, PCI "drivers/vfio-pci/unbind", GPU);
	expect_text(folder, PCI "devices/" GPU "/driver_override", "\nfio-pci\n");
	expect_text(folder, "run/slipway/gpu.freed",
		"slipway-list 1\nitem text=bind%20" GPU "%20vfio-pci%20vfio-pci\nend\n");
	end(&bench);
}

static void an_override_without_a_driver_is_cleared(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, NULL);
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	assert_int_equal(gpu_free_devices(&bench.action), 0);
	expect_text(folder, PCI "devices/" GPU "/driver_override", "\nfio-pci\n");
	/* A failed start gives it back, and binds nothing. */
	expect_text(folder, "run/slipway/gpu.freed",
		"slipway-list 1\nitem text=bind%20" GPU "%20-%20vfio-pci\nend\n");
	bench.gpu.role.plan.start_failed = true;
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	assert_int_equal(faccessat(folder->fd, "run/slipway/gpu.freed", F_OK, 0), -1);
	end(&bench);
}

static void a_virtual_machine_that_has_it_open_is_named(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "vfio-pci");
	folder_subfolder(folder, "sys/kernel/iommu_groups/17");
	assert_int_equal(symlinkat("../../../../kernel/iommu_groups/17", folder->fd,
				 PCI "devices/" GPU "/iommu_group"),
		0);
	folder_write_text(folder, "proc/4711/comm", "qemu-kvm\n");
	folder_write_text(folder, "proc/4711/cgroup",
		"0::/kubepods/pod1a2b3c4d-1111-2222-3333-0123456789ab/x\n");
	folder_subfolder(folder, "proc/4711/fd");
	assert_int_equal(symlinkat("/dev/vfio/17", folder->fd, "proc/4711/fd/9"), 0);
	/* Another group, of which ours is the beginning. */
	folder_subfolder(folder, "proc/4712/fd");
	assert_int_equal(symlinkat("/dev/vfio/171", folder->fd, "proc/4712/fd/9"), 0);
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	assert_int_equal(bench.action.reason, REASON_DEVICE_HELD);
	assert_contains(bench.action.error.text, GPU
		" is passed to a virtual machine by vfio-pci and in use by process 4711 "
		"(qemu-kvm, /dev/vfio/17, pod 1a2b3c4d-1111-2222-3333-0123456789ab): stop that");
	expect_text(folder, PCI "drivers/vfio-pci/unbind", "");
	end(&bench);
}

static void the_node_of_its_own_counts_too(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "nvgrace_gpu_vfio_pci");
	folder_subfolder(folder, PCI "devices/" GPU "/vfio-dev/vfio3");
	folder_write_text(folder, "proc/7/comm", "vmm\n");
	folder_subfolder(folder, "proc/7/fd");
	assert_int_equal(symlinkat("/dev/vfio/devices/vfio3", folder->fd, "proc/7/fd/3"), 0);
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	assert_contains(bench.action.error.text, "process 7 (vmm, /dev/vfio/devices/vfio3)");
	end(&bench);
}

static void a_gpu_that_is_parked_stays_where_another_is_free(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	gpu_with(*state, "pci-stub");
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	assert_int_equal(bench.action.reason, REASON_DEVICE_HELD);
	assert_contains(bench.action.error.text, GPU " is bound to pci-stub");
	function_at(*state, "0000:02:00.0", "0x10de\n", "0x030000\n", NULL);
	assert_int_equal(gpu_free_devices(&bench.action), 0);
	expect_text(*state, PCI "drivers/pci-stub/unbind", "");
	end(&bench);
}

static void nouveau_in_use_is_named_with_its_device(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "nouveau");
	folder_module(folder, "nouveau", "2\n", NULL);
	folder_subfolder(folder, "sys/class/drm/card1-DP-1");
	folder_subfolder(folder, "sys/class/drm/card1/device");
	assert_int_equal(symlinkat("../../../../bus/pci/drivers/nouveau", folder->fd,
				 "sys/class/drm/card1/device/driver"),
		0);
	folder_write_text(folder, "proc/99/comm", "Xorg\n");
	folder_subfolder(folder, "proc/99/fd");
	assert_int_equal(symlinkat("/dev/dri/card1", folder->fd, "proc/99/fd/5"), 0);
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	assert_int_equal(bench.action.reason, REASON_DEVICE_HELD);
	assert_contains(bench.action.error.text,
		GPU " is driven by nouveau, and nouveau is in use by process 99 (Xorg, "
		    "/dev/dri/card1): stop it");
	end(&bench);
}

static void the_console_on_the_gpu_is_given_back_when_it_does_not_go(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "nouveau");
	folder_module(folder, "nouveau", "1\n", NULL);
	folder_write_text(folder, "sys/class/vtconsole/vtcon0/name", "(S) dummy device\n");
	folder_write_text(folder, "sys/class/vtconsole/vtcon0/bind", "x");
	folder_write_text(folder, "sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n");
	folder_write_text(folder, "sys/class/vtconsole/vtcon1/bind", "x");
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	expect_text(folder, "sys/class/vtconsole/vtcon1/bind", "x"); /* its own buffer */
	folder_subfolder(folder, "sys/class/graphics/fb0");
	assert_int_equal(symlinkat("../../../0000:00:01.0/" GPU, folder->fd,
				 "sys/class/graphics/fb0/device"),
		0);
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	expect_text(folder, "sys/class/vtconsole/vtcon1/bind", "1");
	expect_text(folder, "sys/class/vtconsole/vtcon0/bind", "x");
	end(&bench);
}

static void nouveau_that_drives_nothing_of_ours_may_stay(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	gpu_with(*state, NULL);
	folder_module(*state, "nouveau", "1\n", NULL);
	assert_int_equal(gpu_free_devices(&bench.action), 0);
	end(&bench);
}

static void a_driver_in_the_kernel_is_asked_to_let_go(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	gpu_with(*state, "NovaCore");
	folder_subfolder(*state, "sys/module/nova_core/parameters");
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	expect_text(*state, PCI "drivers/NovaCore/unbind", GPU);
	end(&bench);
}

#define SECOND "0000:02:00.0"
#define SWITCH "0000:05:00.0"

/* The driver was live before the devices were freed: the kernel asks none for them. */
static void a_driver_that_stays_takes_what_was_freed(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "nvidia");
	function_at(folder, SECOND, "0x10de\n", "0x030000\n", NULL);
	folder_write_text(folder, PCI "drivers/nvidia-nvswitch/bind", "");
	/* A device that nobody freed stays as it is. */
	gpu_take_devices(&bench.action);
	folder_write_text(folder, "run/slipway/gpu.freed",
		"slipway-list 1\nitem text=bind%20" GPU "%20vfio-pci%20\nend\n");
	gpu_take_devices(&bench.action);
	expect_text(folder, PCI "drivers/nvidia/bind", "");
	/* nouveau had all that it drove. */
	folder_write_text(folder, "run/slipway/gpu.freed",
		"slipway-list 1\nitem text=module%20nouveau\nend\n");
	gpu_take_devices(&bench.action);
	expect_text(folder, PCI "drivers/nvidia/bind", SECOND);
	folder_write_text(folder, PCI "drivers/nvidia/bind", "");
	folder_write_text(folder, "run/slipway/gpu.freed",
		"slipway-list 1\nitem text=bind%20" SECOND "%20vfio-pci%20vfio-pci\n"
		"item text=bind%20" SWITCH "%20vfio-pci%20\nend\n");
	/* Given to another one meanwhile. */
	folder_write_text(folder, PCI "devices/" SECOND "/driver_override", "vfio-pci\n");
	gpu_take_devices(&bench.action);
	expect_text(folder, PCI "drivers/nvidia/bind", "");
	folder_write_text(folder, PCI "devices/" SECOND "/driver_override", "(null)\n");
	function_at(folder, SWITCH, "0x10de\n", "0x068000\n", NULL);
	gpu_take_devices(&bench.action);
	expect_text(folder, PCI "drivers/nvidia/bind", SECOND);
	expect_text(folder, PCI "drivers/nvidia-nvswitch/bind", SWITCH);
	assert_false(was_noted(&bench, "has no driver"));
	assert_int_equal(unlinkat(folder->fd, PCI "drivers/nvidia-nvswitch/bind", 0), 0);
	gpu_take_devices(&bench.action);
	assert_true(was_noted(&bench, SWITCH " has no driver: it could not be bound to"));
	end(&bench);
}

/* As the kernel shows it; NULL: by none. */
static void drive(const struct folder *folder, const char *address, const char *driver)
{
	char path[256], target[256];

	(void) snprintf(path, sizeof(path), PCI "devices/%s/driver", address);
	(void) snprintf(target, sizeof(target), "../../drivers/%s", driver ? driver : "");
	(void) unlinkat(folder->fd, path, 0);
	if (driver)
		assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

static void a_failed_start_gives_the_device_back(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "vfio-pci");
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", ""); /* the start did not fail */
	bench.gpu.role.plan.start_failed = true;
	/* It did not let go, or a person has bound it again. */
	assert_int_equal(gpu_return_early(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", "");
	expect_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	end(&bench);

	begin(&bench, folder);
	bench.gpu.role.plan.start_failed = true;
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	drive(folder, GPU, NULL);
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", GPU);
	expect_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	assert_int_equal(faccessat(folder->fd, "run/slipway/gpu.freed", F_OK, 0), -1);
	end(&bench);
}

/*
 * Its present driver decides: a daemon that did not end makes the stop fail too, but has none.
 */
static void a_driver_that_stays_keeps_its_devices_and_its_root(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "vfio-pci");
	assert_int_equal(gpu_free_devices(&bench.action), -EBUSY);
	folder_write_text(folder, CONTRACT_FIRMWARE_PATH, CONTRACT_FIRMWARE_PATH_VALUE "\n");
	folder_module(folder, "nvidia", "1\n", NULL);
	drive(folder, GPU, "nvidia");
	bench.gpu.role.options.restore_inbox = true;
	assert_int_equal(gpu_return_early(&bench.action), 0);
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", "");
	assert_int_equal(gpu_withdraw_root(&bench.action), 0);
	expect_text(folder, CONTRACT_FIRMWARE_PATH, CONTRACT_FIRMWARE_PATH_VALUE "\n");
	assert_int_equal(fs_remove_tree(folder->fd, "sys/module/nvidia"), 0);
	drive(folder, GPU, NULL);
	bench.gpu.role.plan.stop_failed = true;
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", GPU);
	end(&bench);
}

/* The node's own nvidia is in use, and the start refused; or it is to be loaded again. */
static void a_device_is_given_back_beside_nvidia_that_does_not_drive_it(void **state)
{
	static const char left[] = "slipway-list 1\nitem text=module%20nouveau\nend\n";
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "vfio-pci");
	function_at(folder, "0000:02:00.0", "0x10de\n", "0x030000\n", "nvidia");
	folder_module(folder, "nvidia", "1\n", NULL);
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	folder_write_text(folder, "run/slipway/gpu.freed", left);
	assert_int_equal(gpu_free_devices(&bench.action), 0);
	drive(folder, GPU, NULL);
	bench.gpu.role.plan.start_failed = true;
	assert_int_equal(gpu_return_early(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", GPU);
	expect_text(folder, PCI "devices/" GPU "/driver_override", "vfio-pci\n");
	/* No other driver comes beside it. */
	expect_text(folder, "run/slipway/gpu.freed", left);
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, "run/slipway/gpu.freed", left);
	end(&bench);
}

/* It was given to another machine since: the driver's override and its device are that one's. */
static void a_device_that_another_driver_has_by_now_is_left_to_it(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	gpu_with(folder, "pci-stub");
	folder_write_text(folder, PCI "devices/" GPU "/driver_override", "(null)\n");
	folder_write_text(folder, PCI "drivers/vfio-pci/bind", "");
	folder_module(folder, "nvidia", "1\n", NULL);
	folder_write_text(folder, "run/slipway/gpu.freed",
		"slipway-list 1\nitem text=bind%20" GPU "%20vfio-pci%20vfio-pci\nend\n");
	bench.gpu.role.plan.start_failed = true;
	assert_int_equal(gpu_return_early(&bench.action), 0);
	assert_int_equal(gpu_return_devices(&bench.action), 0);
	expect_text(folder, PCI "drivers/vfio-pci/bind", "");
	expect_text(folder, PCI "devices/" GPU "/driver_override", "(null)\n");
	assert_false(fs_exists(folder->fd, "run/slipway/gpu.freed"));
	end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(audio_and_other_vendors_are_no_gpu),
		folder_test(a_bus_that_cannot_be_read_is_no_node_without_a_gpu),
		folder_test(chips_that_the_drivers_list_lacks_are_refused),
		folder_test(the_kind_that_drives_the_gpus_is_put_in_place),
		folder_test(what_was_asked_and_is_not_chosen_is_said),
		folder_test(a_kind_that_is_put_in_place_halfway_is_put_there_by_the_next_start),
		folder_test(a_sidecar_goes_with_the_driver_that_is_loaded),
		folder_test(a_free_gpu_and_one_of_nvidia_are_left_alone),
		folder_test(a_driver_that_stays_takes_what_was_freed),
		folder_test(what_has_to_be_freed_is_seen_at_once),
		folder_test(a_device_of_another_driver_has_to_be_freed),
		folder_test(vfio_lets_go_and_its_override_too),
		folder_test(an_override_without_a_driver_is_cleared),
		folder_test(a_virtual_machine_that_has_it_open_is_named),
		folder_test(the_node_of_its_own_counts_too),
		folder_test(a_gpu_that_is_parked_stays_where_another_is_free),
		folder_test(nouveau_in_use_is_named_with_its_device),
		folder_test(the_console_on_the_gpu_is_given_back_when_it_does_not_go),
		folder_test(nouveau_that_drives_nothing_of_ours_may_stay),
		folder_test(a_driver_in_the_kernel_is_asked_to_let_go),
		folder_test(a_failed_start_gives_the_device_back),
		folder_test(a_driver_that_stays_keeps_its_devices_and_its_root),
		folder_test(a_device_is_given_back_beside_nvidia_that_does_not_drive_it),
		folder_test(a_device_that_another_driver_has_by_now_is_left_to_it),
	};

	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
