/* SPDX-License-Identifier: Apache-2.0 */
/* slipway-init status, with a folder as the node. */
#include "tests/unit/status_node.h"

#include <fcntl.h>
#include <errno.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <time.h>

#include "common/arch.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/status/status_internal.h"

static void a_real_node_with_another_programs_driver(void **state)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_real_node(*state);
	text = status_of(*state, false, 1);
	assert_contains(text, "without module versions");
	assert_contains(text, "without module unloading");
	assert_contains(text, "takes signed modules only");
	assert_contains(text, "no driver container of Slipway has run on this node");
	assert_contains(text, "driver   580.159.04 (open kernel modules)\n");
	assert_contains(text,
		"gpu      0000:00:06.0 [10de:2335] by nvidia, NVIDIA H200, "
		"GPU-ac54eae4-fea4-6e2f-f25e-23b2c844b843, GSP firmware 580.159.04\n");
	assert_contains(text, "imex     2048 channels (device major 242), 0 with a node here; no "
			      "nvidia-imex runs\n");
	assert_null(strchr(text, '!'));
	assert_contains(text, "fabric   NVLink is switched off (NvLinkDisable=1)");
	assert_contains(
		text, "modules  nvidia(cannot be unloaded) nvidia_uvm(cannot be unloaded)\n");

	json = status_of(*state, true, 1);
	assert_contains(json, "\"modversions\":false,\"module_unloading\":false,"
			      "\"signatures_forced\":true");
	assert_contains(json,
		"\"roles\":[],\"nic\":null,\"driver\":{\"loaded\":true,\"version\":\"580.159.04\","
		"\"open\":true,\"user_space_version\":null");
	assert_contains(json, "\"uuid\":\"GPU-ac54eae4-fea4-6e2f-f25e-23b2c844b843\"");
	assert_contains(json, "\"minor\":0,\"node\":true,\"excluded\":false");
	assert_contains(json, "\"imex\":{\"channels_major\":242,\"caps_major\":241,"
			      "\"channel_count\":2048,\"create_channel0\":0,\"channel_nodes\":0,"
			      "\"management_minor\":4323,\"daemons\":[]");
	assert_contains(json, "\"port\":50000,\"listening\":false");
	assert_contains(json, "\"CoherentGPUMemoryMode\":null");
	assert_contains(json, "\"findings\":[]");
	assert_contains(json, "\"kind\":\"none\",\"management\":\"off\"");
}

static void a_gpu_that_does_not_answer_is_named(void **state)
{
	const struct folder *node = *state;
	struct findings findings = { .gpus = { .count = 1,
					     .items = { { .address = "0000:00:06.0" } } } };
	struct json json = { .file = fopen("/dev/null", "w") };

	assert_non_null(json.file);
	put_real_node(node);
	status_devices(node->fd, &json, &findings);
	assert_int_equal(findings.lines.count, 1);
	assert_contains(findings.lines.items[0],
		"0000:00:06.0: the driver gave no answer about this GPU within 10 s");
	/* One sentence, however many there are. */
	findings.gpus.count = 2;
	findings.gpus.error = -EAGAIN;
	status_devices(node->fd, &json, &findings);
	assert_int_equal(findings.lines.count, 2);
	assert_contains(findings.lines.items[1],
		"the driver could not be asked about its GPUs: Resource temporarily unavailable");
	strv_free(&findings.lines);
	(void) fclose(json.file);
}

static void a_node_with_nothing(void **state)
{
	_cleanup_free_ char *text = status_of(*state, false, 1);
	_cleanup_free_ char *json = status_of(*state, true, 1);

	assert_contains(text, "driver   nvidia is not loaded\n");
	assert_contains(text, "devices  no NVIDIA or Mellanox PCI function\n");
	assert_contains(text, "daemons  none runs\n");
	assert_contains(text, "modules  none\n");
	assert_null(strstr(text, "without module unloading"));
	assert_contains(json, "\"modversions\":null,\"module_unloading\":null");
	assert_contains(json, "\"listening\":null");
	assert_contains(json, "\"management\":\"unknown\"");
}

static void a_kernel_without_modules_is_said_to_be_one(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL, *json = NULL, *has = NULL;

	folder_write_text(node, "proc/version", "Linux version 6.18.44\n");
	text = status_of(node, false, 1);
	assert_contains(text, ", without loadable modules\n");
	assert_contains(text, "! no driver can be loaded: boot a kernel with CONFIG_MODULES\n");
	json = status_of(node, true, 1);
	assert_contains(json, "\"modules\":false,\"modversions\":null,");
	folder_write_text(node, "proc/modules", "");
	has = status_of(node, true, 1);
	assert_contains(has, "\"modules\":true,");
}

static void a_locked_down_kernel_takes_signed_modules_only(void **state)
{
	static const char lockdown[] = "sys/kernel/security/lockdown";
	const struct folder *node = *state;
	_cleanup_free_ char *without = NULL, *locked = NULL;

	folder_write_text(node, "proc/modules", "");
	folder_write_text(node, "sys/module/module/parameters/sig_enforce", "N\n");
	folder_write_text(node, lockdown, "[none] integrity confidentiality\n");
	without = status_of(node, true, 1);
	assert_contains(without, "\"signatures_forced\":false");
	folder_write_text(node, lockdown, "none [integrity] confidentiality\n");
	locked = status_of(node, true, 1);
	assert_contains(locked, "\"signatures_forced\":true");
}

static void the_image_knows_its_kernel(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *json = NULL;
	struct utsname system;
	char path[256];

	(void) uname(&system);
	(void) snprintf(
		path, sizeof(path), "usr/lib/slipway/kernels/%s/kernel.conf", system.release);
	folder_write_text(node, path, "vermagic=6.1.0 SMP preempt mod_unload modversions \n");
	json = status_of(node, true, 1);
	assert_contains(json, "\"modversions\":true,\"module_unloading\":null");
}

static void the_imex_check_finds_rivals_and_bad_parameters(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;

	put_real_node(node);
	folder_write_text(
		node, "proc/driver/nvidia/params", "ImexChannelCount: 16\nCreateImexChannel0: 1\n");
	put_process(node, "4711", "nvidia-imex\n", "0::/system.slice/nvidia-imex.service\n");
	put_process(node, "4712", "nvidia-imex\n",
		"0::/kubepods.slice/kubepods-burstable.slice/"
		"kubepods-burstable-pod12345678_1234_1234_1234_123456789abc.slice/"
		"cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef."
		"scope\n");
	put_process(node, "77", "stockd\n", "0::/system.slice/stock.service\n");
	put_link(node, "proc/77/fd/5", "socket:[999]");
	folder_write_text(node, "proc/1/net/tcp6",
		"  sl  local_address                         remote_address                        "
		"st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		"   0: 00000000000000000000000000000000:C355 00000000000000000000000000000000:0000 "
		"0A 00000000:00000000 00:00000000 00000000     0        0 999 1 00000000 100 0 0 10 "
		"0\n");
	text = status_of(node, false, 1);
	assert_contains(text, "! NVreg_ImexChannelCount=16: the DRA driver expects 2048\n");
	assert_contains(text, "! NVreg_CreateImexChannel0=1 gives channel 0 to everyone");
	assert_contains(text, "! process 4711 is the host's nvidia-imex");
	assert_null(strstr(text, "! process 4712"));
	assert_contains(text, "nvidia-imex: process 4712, pod 12345678-1234-1234-1234-");
	assert_contains(text, "! TCP port 50005, which nvidia-imex needs, is taken by process 77 "
			      "(stockd)\n");
	assert_null(strstr(text, "TCP port 50000"));
}

static void no_channels_is_reported_with_its_cause(void **state)
{
	_cleanup_free_ char *none = NULL;
	_cleanup_free_ char *old = NULL;

	put_real_node(*state);
	folder_write_text(*state, "proc/devices", "Character devices:\n195 nvidia\n");
	folder_write_text(*state, "proc/driver/nvidia/params", "ImexChannelCount: 0\n");
	none = status_of(*state, false, 1);
	assert_contains(none, "! NVreg_ImexChannelCount=0 leaves no IMEX channel");
	folder_write_text(*state, "proc/driver/nvidia/params", "RmLogonRC: 1\n");
	old = status_of(*state, false, 1);
	assert_contains(old, "this driver is too old for IMEX channels");
}

static void put_driver(const struct folder *node, const char *version)
{
	char text[128];

	(void) snprintf(text, sizeof(text),
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\n",
		version);
	folder_write_text(node, "proc/driver/nvidia/version", text);
}

static void a_driver_root_that_cannot_serve_compute_domains_is_reported(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *old = NULL, *none = NULL, *half = NULL, *whole = NULL, *json = NULL;
	_cleanup_free_ char *alone = NULL;

	put_real_node(node);
	put_driver(node, "570.133.20");
	/* A node without NVLink to others is in no ComputeDomain. */
	alone = status_of(node, false, 1);
	assert_null(strstr(alone, "ComputeDomains"));
	/* A GB200. */
	folder_write_text(node, "sys/bus/pci/devices/0000:06:00.0/vendor", "0x10de\n");
	folder_write_text(node, "sys/bus/pci/devices/0000:06:00.0/device", "0x2941\n");
	folder_write_text(node, "sys/bus/pci/devices/0000:06:00.0/class", "0x030200\n");
	old = status_of(node, false, 1);
	assert_contains(old, "! driver 570.133.20 is too old for ComputeDomains, which need "
			     "570.158.01 or newer\n");
	/* Nothing is expected of a driver root without a userspace, or where there is none. */
	assert_null(strstr(old, "has no nvidia-imex"));

	put_driver(node, "570.158.01");
	folder_write_text(node, CONTRACT_DRIVER_ROOT "/usr/bin/nvidia-smi", "");
	none = status_of(node, false, 1);
	assert_null(strstr(none, "too old"));
	assert_contains(none, "! /run/nvidia/driver has no nvidia-imex, which ComputeDomains "
			      "start: slipway build --imex adds it to the image\n");
	assert_contains(none, "! /run/nvidia/driver has no nvidia-imex-ctl, ");
	json = status_of(node, true, 1);
	assert_contains(json, "\"findings\":[\"/run/nvidia/driver has no nvidia-imex, ");

	folder_write_text(node, CONTRACT_DRIVER_ROOT "/usr/bin/nvidia-imex", "");
	half = status_of(node, false, 1);
	assert_null(strstr(half, "has no nvidia-imex, "));
	assert_contains(half, "! /run/nvidia/driver has no nvidia-imex-ctl, ");

	folder_write_text(node, CONTRACT_DRIVER_ROOT "/opt/bin/nvidia-imex-ctl", "");
	whole = status_of(node, false, 1);
	assert_null(strstr(whole, "has no nvidia-imex"));
	assert_null(strstr(whole, "too old"));
}

static void switches_without_a_manager_are_reported(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *without = NULL;
	_cleanup_free_ char *with = NULL;

	put_real_node(node);
	folder_write_text(node, "proc/driver/nvidia/params", "NvLinkDisable: 0\n");
	folder_write_text(node, "sys/bus/pci/devices/0000:05:00.0/vendor", "0x10de\n");
	folder_write_text(node, "sys/bus/pci/devices/0000:05:00.0/device", "0x22a3\n");
	folder_write_text(node, "sys/bus/pci/devices/0000:05:00.0/class", "0x068000\n");
	folder_subfolder(node, "proc/driver/nvidia-nvswitch/devices/0000:05:00.0");
	without = status_of(node, false, 1);
	assert_contains(without, "fabric   no fabric manager runs; 1 NVSwitches, 1 of them driven\n"
				 "         ! these GPUs need a fabric manager: CUDA will fail with "
				 "error 802\n");
	assert_contains(without, "nvswitch 0000:05:00.0 [10de:22a3] by no driver\n");
	put_process(node, "900", "nv-fabricmanage\n", "0::/\n");
	folder_write_text(node, "run/nvidia-fabricmanager/socket", "");
	with = status_of(node, false, 1);
	assert_contains(with, "fabric   a fabric manager runs");
	assert_contains(with, "nv-fabricmanager is process 900, its socket is there\n");
	assert_contains(with, "daemon   nv-fabricmanager: process 900, the host's");
}

static void our_daemons_and_those_that_are_gone(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	folder_write_text(node, GPU_STATE_FOLDER "/gpu.daemons",
		"nvidia-persistenced 501 up 2 1795300000 signal:9\n"
		"nv-fabricmanager 502 up 0 1795300000 -\n"
		"torn line\n");
	put_process(node, "501", "nvidia-persiste\n", "0::/\n");
	text = status_of(node, false, 1);
	assert_contains(text,
		"daemon   nvidia-persistenced: up, process 501, started again 2 times, "
		"last ended with signal:9\n");
	assert_contains(text, "daemon   nv-fabricmanager: gone\n");
	assert_null(strstr(text, "none of Slipway's roles"));
	json = status_of(node, true, 1);
	assert_contains(json,
		"{\"name\":\"nv-fabricmanager\",\"supervised\":true,\"state\":\"gone\","
		"\"pid\":null,\"restarts\":0,\"since\":1795300000,\"last_exit\":null,"
		"\"next_start\":null,\"why\":null}");
}

static void put_parent(const struct folder *node, const char *pid, int parent)
{
	char path[64], text[64];

	(void) snprintf(path, sizeof(path), "proc/%s/stat", pid);
	(void) snprintf(text, sizeof(text), "%s (a) b) S %d 1 1 0", pid, parent);
	folder_write_text(node, path, text);
}

static int hold(const struct folder *node, const char *path)
{
	int fd;

	folder_write_text(node, path, "");
	fd = openat(node->fd, path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	return fd;
}

/* Seen in the first seconds after ready: the supervisor had not seen the pid file yet. */
static void what_forked_below_the_init_is_ours(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *early = NULL;
	_cleanup_free_ char *orphaned = NULL;
	int lock_fd = hold(node, CONTRACT_GPU_PID_FILE);

	folder_write_text(node, GPU_STATE_FOLDER "/gpu.status", "pid=400\nstate=ready\n");
	folder_write_text(node, GPU_STATE_FOLDER "/gpu.daemons",
		"nvidia-persistenced 456 starting 0 1795300000 - 0 \n");
	put_link(node, "proc/400/exe", "/usr/bin/slipway-init");
	put_process(node, "456", "nvidia-persiste\n", "0::/\n");
	put_parent(node, "456", 400);
	put_process(node, "467", "nvidia-persiste\n", "0::/\n");
	put_parent(node, "467", 456);
	put_process(node, "900", "nvidia-persiste\n", "0::/\n");
	put_parent(node, "900", 1);
	early = status_of(node, false, 0);
	assert_contains(early, "daemon   nvidia-persistenced: starting, process 456\n");
	assert_null(strstr(early, "process 467"));
	assert_contains(early, "process 900, the host's: none of Slipway's roles started it\n");

	/* The started process has ended; the daemon is the init's own child now. */
	assert_int_equal(fs_remove_tree(node->fd, "proc/456"), 0);
	put_parent(node, "467", 400);
	text = status_of(node, false, 0);
	assert_contains(text, "daemon   nvidia-persistenced: starting, process 467\n");
	assert_null(strstr(text, "process 467, the host's"));

	/* That number is another program's: the init is seen with other process ids. */
	assert_int_equal(unlinkat(node->fd, "proc/400/exe", 0), 0);
	put_link(node, "proc/400/exe", "/usr/lib/systemd/systemd");
	orphaned = status_of(node, false, 0);
	assert_contains(orphaned, "process 467, the host's");
	(void) close(lock_fd);
}

static void one_that_waits_shows_for_what_and_until_when(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;
	char line[256];

	(void) snprintf(line, sizeof(line),
		"nvidia-gridd 0 waiting 1 1795300000 exit:1 %ld nvidia-gridd ended with exit code "
		"1: \"no server\"\n",
		(long) time(NULL) + 40);
	folder_write_text(node, GPU_STATE_FOLDER "/gpu.daemons", line);
	text = status_of(node, false, 1);
	assert_contains(text, "daemon   nvidia-gridd: waiting, started again once, last ended with "
			      "exit:1, next start in ");
	assert_contains(text, " s: nvidia-gridd ended with exit code 1: \"no server\"\n");
	json = status_of(node, true, 1);
	assert_contains(json, "\"last_exit\":\"exit:1\",\"next_start\":");
	assert_contains(json, "\"why\":\"nvidia-gridd ended with exit code 1: \\\"no server");
}

static void a_nic_container_that_was_killed_leaves_a_stale_flag(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *stale = NULL;
	_cleanup_free_ char *live = NULL;
	_cleanup_free_ char *json = NULL;
	int lock_fd;

	folder_module(node, "ib_core", "1\n", NULL);
	folder_write_text(node, CONTRACT_OFED_READY, "");
	folder_write_text(node, CONTRACT_OFED_LOCK, "77\n");
	folder_write_text(node, NIC_STATE_FOLDER "/nic.status", "pid=77\nstate=ready\nreason=OK\n");
	stale = status_of(node, false, 1);
	assert_contains(stale, "nic      dead");
	assert_contains(stale, "! its process is gone without a cleanup (nic): the kubelet");
	assert_contains(stale, "peermem  not loaded; stale flag: the NIC container died");
	json = status_of(node, true, 1);
	assert_contains(json, "\"ofed_ready\":false,\"ofed_flag_stale\":true");
	assert_contains(json, "\"ready_ms\":null");
	lock_fd = hold(node, CONTRACT_OFED_LOCK);
	live = status_of(node, false, 0);
	assert_contains(live, "OFED's container says that it is ready");
	(void) close(lock_fd);
}

static void roles_with_their_phases(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	folder_write_text(node, GPU_STATE_FOLDER "/gds.status",
		"role=gds\npid=600\nstate=ready\nstep=\nreason=OK\nready_ms=12\ndetail=\nproof=\n"
		"phases=identify-kernel:1500 load:10250\npeermem_loads=0\npeermem_us=0\n");
	folder_write_text(node, GPU_STATE_FOLDER "/gdrcopy.status",
		"role=gdrcopy\npid=601\nstate=ready\nreason=OK\nready_ms=5\n");
	put_process(node, "600", "slipway-init\n", "0::/\n");
	text = status_of(node, false, 1);
	assert_contains(text, "gds      ready     after 12 ms\n");
	assert_contains(text, "phases: identify-kernel 1.5 ms, load 10.2 ms\n");
	assert_contains(text, "gdrcopy  dead");
	json = status_of(node, true, 1);
	assert_contains(json, "\"phases\":[{\"step\":\"identify-kernel\",\"us\":1500},"
			      "{\"step\":\"load\",\"us\":10250}]");
	put_process(node, "601", "slipway-init\n", "0::/\n");
	free(text);
	text = status_of(node, false, 0);
	assert_contains(text, "gdrcopy  ready     after 5 ms\n");
}

static void a_user_space_of_another_version(void **state)
{
	const struct folder *node = *state;
	const char *const names[] = { "libnvidia-ml.so.575.1.2", "libnvidia-ml.so.1" };
	_cleanup_free_ char *text = NULL;
	char path[256];

	put_real_node(node);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void) snprintf(path, sizeof(path), "run/nvidia/driver/usr/lib/%s/%s",
			arch_here()->triplet, names[i]);
		folder_write_text(node, path, "");
	}
	text = status_of(node, false, 1);
	assert_contains(text, "; user space in /run/nvidia/driver: 575.1.2\n"
			      "         ! the user space in /run/nvidia/driver is version 575.1.2, "
			      "the kernel driver is not: ");
}

static void what_gdrcopy_and_storage_need_is_missing(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_real_node(node);
	folder_write_text(node, "proc/devices",
		"Character devices:\n195 nvidia\n240 gdrdrv\n239 nvidia-fs\n\nBlock devices:\n");
	folder_write_text(node, "sys/class/nvidia-fs-class/nvidia-fs1/dev", "239:1\n");
	/* In a pod that has no driver root, nothing is known. */
	json = status_of(node, true, 1);
	assert_contains(json, "\"addon_nodes\":[]");
	free(json);
	/* No device: of another kind. */
	folder_write_text(node, "run/nvidia/driver/dev/nvidia-fs1", "");
	text = status_of(node, false, 1);
	assert_contains(text,
		"! /run/nvidia/driver/dev/gdrdrv is missing or has another device number: "
		"containers are not given GDRCopy\n");
	assert_contains(text,
		"! /run/nvidia/driver/dev/nvidia-fs1 is missing or has another device number: "
		"containers are not given GPUDirect Storage\n");
	json = status_of(node, true, 1);
	assert_contains(json, "\"addon_nodes\":[{\"path\":\"/run/nvidia/driver/dev/gdrdrv\","
			      "\"correct\":false},");
}

static void parameters_that_a_module_lacks(void **state)
{
	const struct folder *node = *state;
	const struct role gpu = {
		.name = "gpu", .state_folder = GPU_STATE_FOLDER, .root_fd = node->fd
	};
	char *items[] = { (char[]){ "nvidia NVreg_Nothing=1" },
		(char[]){ "nvidia_uvm x=\"1 2\"" } };
	const struct strv unknown = { .items = items, .count = 2 };
	char *words[] = { (char[]){ "No such device" } };
	const struct strv refused = { .items = words, .count = 1 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;
	struct error error;

	put_real_node(node);
	assert_int_equal(role_list_write(&gpu, ROLE_UNKNOWN_LIST, &unknown, &error), 0);
	assert_int_equal(role_list_write(&gpu, ROLE_REFUSED_LIST, &refused, &error), 0);
	text = status_of(node, false, 1);
	assert_contains(text, "did not load with those in kernelModuleConfig: No such device\n");
	assert_contains(text, "! NVreg_Nothing=1 has no effect: nvidia has no such parameter\n");
	assert_contains(text, "! x=\"1 2\" has no effect: nvidia_uvm has no such parameter\n");
	json = status_of(node, true, 1);
	assert_contains(json, "\"unknown_parameters\":[\"nvidia NVreg_Nothing=1\",");
	assert_contains(json, "\"refused_parameters\":[\"No such device\"]");
}

static void peermem_with_its_latency(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;

	folder_module(node, "nvidia_peermem", "0\n", NULL);
	folder_module(node, "ib_core", "1\n", NULL);
	folder_write_text(node, CONTRACT_OFED_READY, "");
	folder_write_text(node, GPU_STATE_FOLDER "/gpu.status",
		"state=ready\npeermem_loads=3\npeermem_us=31400\n");
	text = status_of(node, false, 1);
	assert_contains(text, "peermem  loaded; OFED's container says that it is ready; loaded 3 "
			      "times after OFED came, the last time in 31.4 ms\n");
	free(text);
	folder_write_text(node, GPU_STATE_FOLDER "/gpu.status", "peermem_loads=1\npeermem_us=20\n");
	text = status_of(node, false, 1);
	assert_contains(text, "; loaded once after OFED came, in 0.0 ms\n");
}

static void rdma_devices_with_their_ports(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	folder_write_text(node, "sys/class/infiniband/test_0/fw_ver", "28.39.1002\n");
	folder_write_text(node, "sys/class/infiniband/test_0/ports/1/state", "4: ACTIVE\n");
	folder_write_text(node, "sys/class/infiniband/test_0/ports/1/link_layer", "Ethernet\n");
	folder_write_text(node, "sys/class/infiniband/test_0/ports/1/gids/0",
		"fe80:0000:0000:0000:0202:c9ff:fe4a:f1b0\n");
	folder_write_text(node, "sys/class/infiniband/test_0/ports/1/gids/1",
		"0000:0000:0000:0000:0000:0000:0000:0000\n");
	folder_write_text(node, "sys/class/infiniband/test_0/ports/1/phys_state", "5: LinkUp\n");
	folder_write_text(
		node, "sys/class/infiniband/test_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
	folder_write_text(
		node, "sys/class/infiniband/test_0/ports/1/gid_attrs/ndevs/0", "ens1np0\n");
	folder_write_text(node, "sys/class/infiniband/test_1/ports/1/state", "1: DOWN\n");
	folder_write_text(node, "sys/class/infiniband/test_1/ports/1/link_layer", "InfiniBand\n");
	folder_write_text(node, "sys/class/infiniband/test_1/ports/1/phys_state", "2: Polling\n");
	folder_subfolder(node, "sys/class/infiniband/test_2");
	text = status_of(node, false, 1);
	assert_contains(text,
		"rdma     test_0, firmware 28.39.1002; port 1 ACTIVE, Ethernet, 1 GID, "
		"ens1np0, 400 Gb/sec (4X NDR)\n");
	assert_contains(text, "rdma     test_1; port 1 DOWN, InfiniBand, 0 GIDs, link Polling\n");
	assert_contains(text, "rdma     test_2\n");
	json = status_of(node, true, 1);
	assert_contains(json,
		"\"rdma\":[{\"name\":\"test_0\",\"firmware\":\"28.39.1002\",\"by_verbs\":false,"
		"\"dma_buf\":null,\"ports\":[{\"port\":1,\"state\":\"ACTIVE\","
		"\"physical_state\":\"LinkUp\",\"link_layer\":\"Ethernet\","
		"\"rate\":\"400 Gb/sec (4X NDR)\",\"interface\":\"ens1np0\","
		"\"gid_count\":1,\"gids\":[\"fe80:0000:0000:0000:0202:c9ff:fe4a:f1b0\"]}]}");
}

static void dma_buf_shows_by_what_a_bad_descriptor_is_refused_with(void **state)
{
	(void) state;
	assert_int_equal(dma_buf_answer(EBADF), 1);
	assert_int_equal(dma_buf_answer(EOPNOTSUPP), 0);
	assert_int_equal(dma_buf_answer(EPROTONOSUPPORT), 0);
	assert_int_equal(dma_buf_answer(EPERM), -1);
}

static void a_link_with_too_few_lanes_is_a_finding(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_real_node(node);
	folder_write_text(node, GPU_FOLDER "/current_link_width", "8\n");
	folder_write_text(node, GPU_FOLDER "/max_link_width", "16\n");
	text = status_of(node, false, 1);
	assert_contains(text, "GSP firmware 580.159.04\n"
			      "         ! 0000:00:06.0: its PCIe link has 8 of the 16 lanes ");
	json = status_of(node, true, 1);
	assert_contains(json, "\"link_width\":8,\"link_width_possible\":16,");
}

static void a_function_that_its_driver_left_is_a_finding(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;

	put_real_node(node);
	assert_int_equal(unlinkat(node->fd, GPU_FOLDER "/driver", 0), 0);
	text = status_of(node, false, 1);
	assert_contains(text, "! 0000:00:06.0: nvidia is loaded and does not drive it: ");
}

static void peermem_shows_whether_it_is_used(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *used = NULL, *json = NULL, *absent = NULL;

	folder_module(node, "nvidia_peermem", "0\n", NULL);
	folder_module(node, "ib_core", "1\n", NULL);
	folder_write_text(node, "sys/kernel/mm/memory_peers/nv_mem/num_alloc_mrs", "120\n");
	folder_write_text(node, "sys/kernel/mm/memory_peers/nv_mem/num_dealloc_mrs", "118\n");
	folder_write_text(node, "sys/kernel/mm/memory_peers/nv_mem_nc/num_alloc_mrs", "7\n");
	folder_write_text(node, "sys/kernel/mm/memory_peers/nv_mem_nc/num_dealloc_mrs", "6\n");
	used = status_of(node, false, 1);
	assert_contains(used, "; 3 memory regions in use, 127 since it was loaded\n");
	json = status_of(node, true, 1);
	assert_contains(json, "\"registered\":true,\"regions\":3,\"regions_ever\":127}");
	assert_int_equal(fs_remove_tree(node->fd, "sys/kernel/mm/memory_peers/nv_mem"), 0);
	assert_int_equal(fs_remove_tree(node->fd, "sys/kernel/mm/memory_peers/nv_mem_nc"), 0);
	absent = status_of(node, false, 1);
	assert_contains(absent, "! nvidia_peermem is loaded and is no client of the peer-memory ");
}

static void host_ofed_that_is_no_ofed_is_a_finding(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *inbox = NULL, *ofed = NULL, *json = NULL;

	folder_module(node, "mlx5_core", "1\n", NULL);
	folder_module(node, "ib_core", "1\n", NULL);
	assert_int_equal(setenv("USE_HOST_MOFED", "true", 1), 0);
	inbox = status_of(node, false, 1);
	folder_write_text(node, "sys/module/mlx5_core/version", "24.10-0.7.0\n");
	ofed = status_of(node, false, 1);
	json = status_of(node, true, 1);
	assert_int_equal(unsetenv("USE_HOST_MOFED"), 0);
	assert_contains(inbox, "! USE_HOST_MOFED is set, and mlx5_core is the kernel's own, ");
	assert_null(strchr(ofed, '!'));
	assert_contains(ofed, "peermem  not loaded; OFED is the host's\n");
	assert_contains(json, "\"ofed_version\":\"24.10-0.7.0\",\"host_ofed\":true,");
}

static void strict_exits_with_3_where_there_is_a_finding(void **state)
{
	const struct folder *node = *state;
	const struct status_options strict = { .json = true, .strict = true };
	_cleanup_free_ char *good = NULL, *bad = NULL, *lenient = NULL;

	put_real_node(node);
	good = status_with(node, &strict, 1);
	assert_contains(good, ",\"findings\":[]}\n");
	folder_write_text(node, GPU_FOLDER "/current_link_width", "4\n");
	folder_write_text(node, GPU_FOLDER "/max_link_width", "16\n");
	folder_write_text(node, "proc/driver/nvidia/params", "ImexChannelCount: 16\n");
	bad = status_with(node, &strict, STATUS_EXIT_FINDINGS);
	assert_contains(bad, ",\"findings\":[\"0000:00:06.0: its PCIe link has 4 of the 16 lanes");
	assert_contains(bad, "\",\"NVreg_ImexChannelCount=16: the DRA driver expects 2048\"]}\n");
	lenient = status_of(node, true, 1);
	assert_string_equal(lenient, bad);
}

static void its_options_are_known(void **state)
{
	struct status_options options;
	char *both[] = { (char[]){ "--strict" }, (char[]){ "--json" }, NULL };
	char *wrong[] = { (char[]){ "--json" }, (char[]){ "now" }, NULL };

	(void) state;
	assert_null(status_parse(both, &options));
	assert_true(options.json && options.strict);
	assert_string_equal(status_parse(wrong, &options), "now");
	assert_null(status_parse(both + 2, &options));
	assert_false(options.json || options.strict);
}

static void hostile_state_files_break_no_line(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;

	folder_write_text(node, GPU_STATE_FOLDER "/gpu.status",
		"role=gpu\npid=0\nstate=stopped\nstep=a\033[2Jb\nreason=OK\nready_ms=0\n"
		"detail=c\x9b"
		"31md\rgpu ready\nproof=e\xe2\x80\xae"
		"f\nphases=load\033[1m\nx:5\npeermem_loads=0\npeermem_us=0\n");
	text = status_of(node, false, 1);
	for (const char *c = text; *c; c++)
		assert_true(*c == '\n' || ((unsigned char) *c >= ' ' && (signed char) *c > 0));
	assert_contains(text, " at a?[2Jb: c?31md?gpu ready\n");
}

static void metrics_have_what_the_log_knows(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *status = NULL;
	struct log log;

	put_real_node(node);
	folder_write_text(node, GPU_STATE_FOLDER "/gpu.daemons",
		"nvidia-smi 0 done 0 1795300000 -\n"
		"nvidia-persistenced 501 up 2 1795300000 signal:9\n");
	log_prepare(&log, node->fd, "gpu", GPU_STATE_FOLDER);
	log.changed = metrics_changed;
	log_event(&log, "done", "load", 1234567, REASON_NONE, "");
	log_detail(&log, REASON_DEADLINE, "a \"quoted\" wait");
	text = folder_read_text(node, GPU_STATE_FOLDER "/metrics/gpu.prom");
	assert_contains(text, "slipway_role_ready{role=\"gpu\"} 0\n");
	assert_contains(text, "slipway_role_info{role=\"gpu\",state=\"starting\",reason=\""
			      "DEADLINE\"} 1\n");
	assert_contains(
		text, "slipway_phase_duration_seconds{role=\"gpu\",step=\"load\"} 1.234567\n");
	assert_contains(text, "slipway_driver_info{version=\"580.159.04\",open=\"true\"} 1\n");
	assert_contains(text, "slipway_daemon_up{daemon=\"nvidia-persistenced\"} 1\n");
	assert_contains(text, "slipway_daemon_restarts_total{daemon=\"nvidia-persistenced\"} 2\n");
	assert_contains(text, "# HELP slipway_daemon_up ");
	assert_null(strstr(text, "nvidia-smi"));
	assert_null(strstr(text, "slipway_role_start_duration_seconds"));

	log_detail(&log, REASON_NONE, "");
	status = folder_read_text(node, GPU_STATE_FOLDER "/gpu.status");
	assert_contains(status, "\nreason=OK\n");
	assert_null(strstr(status, "quoted")); /* of the longer text before */
	log_state(&log, "ready", "");
	log_event(&log, LOG_EVENT_PEERMEM, "load", 20000, REASON_NONE, "");
	/* Steps done while serving are none of the start's. */
	log_event(&log, "done", "reload", 5, REASON_NONE, "");
	file = metrics_text(&log);
	assert_contains(file, "slipway_role_ready{role=\"gpu\"} 1\n");
	assert_contains(file, "slipway_peermem_loads_total{role=\"gpu\"} 1\n");
	assert_contains(file, "slipway_peermem_load_duration_seconds{role=\"gpu\"} 0.020000\n");
	assert_null(strstr(file, "step=\"reload\""));
	log_close(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_real_node_with_another_programs_driver),
		folder_test(a_gpu_that_does_not_answer_is_named),
		folder_test(a_node_with_nothing),
		folder_test(a_kernel_without_modules_is_said_to_be_one),
		folder_test(a_locked_down_kernel_takes_signed_modules_only),
		folder_test(the_image_knows_its_kernel),
		folder_test(the_imex_check_finds_rivals_and_bad_parameters),
		folder_test(a_driver_root_that_cannot_serve_compute_domains_is_reported),
		folder_test(no_channels_is_reported_with_its_cause),
		folder_test(switches_without_a_manager_are_reported),
		folder_test(our_daemons_and_those_that_are_gone),
		folder_test(what_forked_below_the_init_is_ours),
		folder_test(one_that_waits_shows_for_what_and_until_when),
		folder_test(a_nic_container_that_was_killed_leaves_a_stale_flag),
		folder_test(roles_with_their_phases),
		folder_test(a_user_space_of_another_version),
		folder_test(what_gdrcopy_and_storage_need_is_missing),
		folder_test(parameters_that_a_module_lacks),
		folder_test(peermem_with_its_latency),
		folder_test(rdma_devices_with_their_ports),
		cmocka_unit_test(dma_buf_shows_by_what_a_bad_descriptor_is_refused_with),
		folder_test(a_link_with_too_few_lanes_is_a_finding),
		folder_test(a_function_that_its_driver_left_is_a_finding),
		folder_test(peermem_shows_whether_it_is_used),
		folder_test(host_ofed_that_is_no_ofed_is_a_finding),
		folder_test(strict_exits_with_3_where_there_is_a_finding),
		cmocka_unit_test(its_options_are_known),
		folder_test(hostile_state_files_break_no_line),
		folder_test(metrics_have_what_the_log_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
