/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/gpu_programs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/gpu/fm_config.h"

#define NVLSM_CONF "/usr/share/nvidia/nvlsm/nvlsm.conf"

#define PERSISTENCED_RUN "run/nvidia-persistenced/"
#define FABRIC_RUN       "run/nvidia-fabricmanager/"
#define NVLSM_PID_FILE   FABRIC_RUN "nvlsm.pid"

/* Every GPU is initialised before nvidia-persistenced returns: seconds for each. */
#define PERSISTENCED_START_MS (120 * 1000)
/* As long as the vendor's own unit gives it, and a bit. */
#define FABRIC_START_MS (300 * 1000)
#define START_MS        (60 * 1000)
/* The vendor's script waits 5 s for nvlsm's socket and then goes on. */
#define NVLSM_SETTLE_MS (15 * 1000)
#define SETTLE_MS       (10 * 1000)

static int find_program(int root_fd, const char *name, char path[128])
{
	static const char *const folders[] = { "usr/bin", "usr/sbin", "bin", "sbin",
		"usr/local/bin", "usr/local/sbin", "opt/nvidia/nvlsm/sbin" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void) snprintf(path, 128, "/%s/%s", folders[i], name);
		if (faccessat(root_fd, path + 1, X_OK, 0) == 0)
			return 0;
	}
	return -ENOENT;
}

static int require(int root_fd, const char *name, const char *why, struct error *error)
{
	char path[128];

	if (find_program(root_fd, name, path) == 0)
		return 0;
	return error_set(error, -ENOENT,
		"the image has no %s, and %s: build it with the driver's userspace that brings it "
		"(slipway build --userspace)",
		name, why);
}

int gpu_programs_check(int root_fd, const struct fabric *fabric, bool vgpu, struct error *error)
{
	int r = 0;

	if (vgpu)
		r = require(root_fd, "nvidia-gridd",
			"DRIVER_TYPE=vgpu asks for a vGPU guest, which gets its licence by it",
			error);
	if (r == 0 && fabric->kind == FABRIC_NVLINK5)
		r = require(root_fd, "nvlsm",
			"this node's NVLink switches do not work without their subnet manager",
			error);
	if (r == 0 && (fabric->kind == FABRIC_NVLINK5 || fabric->kind == FABRIC_NVSWITCH))
		r = require(root_fd, "nv-fabricmanager",
			"no CUDA program runs on a node with NVSwitches before it has set them up",
			error);
	return r;
}

/* -ENOENT when the image has no such program: it is not declared then. */
static int declare(struct supervisor *supervisor, const struct daemon *as, const char *const *words)
{
	struct daemon *daemon;
	char path[128];
	int r = find_program(supervisor->root_fd, as->name, path);

	if (r < 0)
		return r;
	daemon = supervisor_add(supervisor, as->name);
	if (!daemon)
		return -E2BIG;
	*daemon = *as;
	daemon->stop_ms = GPU_PROGRAMS_STOP_MS;
	r = strv_push(&daemon->argv, path);
	for (; r == 0 && *words; words++)
		r = strv_push(&daemon->argv, *words);
	return r;
}

static int declare_persistenced(struct supervisor *supervisor)
{
	static const struct daemon persistenced = {
		.name = "nvidia-persistenced",
		.forks = true,
		.pid_file = PERSISTENCED_RUN "nvidia-persistenced.pid",
		.socket = PERSISTENCED_RUN "socket",
		.start_ms = PERSISTENCED_START_MS,
		.settle_ms = SETTLE_MS,
	};
	static const char *const words[] = { "--persistence-mode", NULL };

	return declare(supervisor, &persistenced, words);
}

static int declare_vgpu(struct supervisor *supervisor)
{
	static const struct daemon gridd = {
		.name = "nvidia-gridd",
		.forks = true,
		.needed = true,
		.variable = "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/nvidia/gridd:"
			    "/usr/lib64/nvidia/gridd",
		.pid_file = "run/nvidia-gridd/nvidia-gridd.pid",
		.start_ms = START_MS,
		.settle_ms = SETTLE_MS,
	};
	static const struct daemon topologyd = {
		.name = "nvidia-topologyd",
		.forks = true,
		.pid_file = "run/nvidia-topologyd/nvidia-topologyd.pid",
		.start_ms = START_MS,
		.settle_ms = SETTLE_MS,
	};
	static const char *const no_words[] = { NULL };
	int r = declare(supervisor, &gridd, no_words);

	if (r == 0)
		r = declare(supervisor, &topologyd, no_words);
	return r;
}

static int declare_nvlsm(struct supervisor *supervisor, const char *guid)
{
	static const struct daemon nvlsm = {
		.name = "nvlsm",
		.forks = true,
		.needed = true,
		.pid_file = NVLSM_PID_FILE,
		.socket = FABRIC_RUN "fm_sm_ipc.socket",
		.start_ms = START_MS,
		.settle_ms = NVLSM_SETTLE_MS,
	};
	static const char pid_file[] = "/" NVLSM_PID_FILE;
	const char *const words[] = { "-F", NVLSM_CONF, "-B", "--pid_file", pid_file, "-g", guid,
		NULL };

	return declare(supervisor, &nvlsm, words);
}

/* With DAEMONIZE=0 it stays in the foreground and writes no pid file. */
static int declare_manager(struct supervisor *supervisor, const char *guid)
{
	struct daemon manager = {
		.name = "nv-fabricmanager",
		.forks = true,
		.needed = true,
		.pid_file = FABRIC_RUN "nv-fabricmanager.pid",
		.start_ms = FABRIC_START_MS,
		.settle_ms = SETTLE_MS,
	};
	static const char config[] = "/" FM_CONFIG;
	const char *const words[] = { "-c", config, guid ? "-g" : NULL, guid, NULL };
	char value[32];

	fm_config_value(supervisor->root_fd, "DAEMONIZE", value, sizeof(value));
	manager.forks = strcmp(value, "0") != 0;
	return declare(supervisor, &manager, words);
}

/*
 * Fabric manager in shared mode finds partitions of an earlier life in the GPUs: a reset clears
 * them. Only where the stock image does so: on NVLink 5, asked by NVFM_CONFIG_FABRIC_MODE=1.
 */
static int declare_reset(struct supervisor *supervisor)
{
	static const struct daemon reset = {
		.name = "nvidia-smi",
		.once = true,
		.start_ms = PERSISTENCED_START_MS,
	};
	static const char *const words[] = { "-r", NULL };
	const char *mode = getenv(FM_VARIABLE_PREFIX "FABRIC_MODE");

	return mode && strcmp(mode, "1") == 0 ? declare(supervisor, &reset, words) : 0;
}

static int declare_fabric(struct supervisor *supervisor, const struct fabric *fabric)
{
	int r;

	if (fabric->kind == FABRIC_NVSWITCH)
		return declare_manager(supervisor, NULL);
	if (fabric->kind != FABRIC_NVLINK5)
		return 0;
	r = declare_nvlsm(supervisor, fabric->guid);
	if (r == 0)
		r = declare_manager(supervisor, fabric->guid);
	return r == 0 ? declare_reset(supervisor) : r;
}

int gpu_programs_declare(
	struct supervisor *supervisor, const struct fabric *fabric, bool vgpu, struct error *error)
{
	int r = declare_persistenced(supervisor);

	/* What the node cannot do without was looked for before anything was loaded. */
	if ((r == 0 || r == -ENOENT) && vgpu)
		r = declare_vgpu(supervisor);
	if (r == 0 || r == -ENOENT)
		r = declare_fabric(supervisor, fabric);
	return r == -ENOENT ? 0 : r < 0 ? error_set_errno(error, r, "daemons") : 0;
}
