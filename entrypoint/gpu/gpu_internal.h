/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU role's own header. gpu.c has its steps in their order; what a step does stands in
 * gpu_parameters.c, devices.c, fast_path.c, driver_root.c or daemons.c.
 */
#pragma once

#include "entrypoint/gpu/fabric.h"
#include "entrypoint/gpu/supervisor_internal.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/gpu_modules.h"
#include "entrypoint/role/role.h"

/*
 * All that decides which driver a full start would leave in the kernel, and what is there: two
 * starts with equal inputs load the same. The operator's DRIVER_CONFIG_DIGEST is one of them; it
 * knows nothing of the contents of a ConfigMap, of OFED or of the kernel.
 */
enum input {
	INPUT_BOOT,   /* the kernel's boot_id: a node that was started anew has nothing loaded */
	INPUT_DIGEST, /* DRIVER_CONFIG_DIGEST */
	INPUT_KREL,
	INPUT_SET,  /* the image's id of its modules */
	INPUT_WANT, /* which modules the environment asks for */
	INPUT_OFED, /* what is loaded there, "absent" while nothing is, "none" unasked */
	INPUT_CONF, /* names and contents of /drivers/<module>.conf */
	INPUT_COUNT,
};

#define INPUT_SIZE 96

/* Whether the driver is that of a vGPU guest. */
enum vgpu {
	VGPU_NO,
	VGPU_PASSED_THROUGH, /* DRIVER_TYPE=vgpu, and no GPU of the node is a vGPU */
	VGPU_GUEST,
};

struct gpu {
	struct role role; /* first: a step's action->role points to it */
	/*
	 * The fast path: the driver that runs is what a full start would load, by the fingerprint
	 * (fast_path.c). Nothing is proven, unloaded or loaded then; all else is done as ever.
	 */
	bool keep;
	bool devices_are_free; /* no other driver has a device of ours */
	struct {
		bool parameters;    /* those that were checked and written are there again */
		bool state_removed; /* while serving: nvidia-driver.state is not to be believed */
		char inputs[INPUT_COUNT][INPUT_SIZE];
		struct strv modules; /* as recorded when serving began */
	} fast_path;
	struct {
		struct fabric fabric;
		enum vgpu vgpu;
		struct supervisor supervisor; /* zeroed before and after it serves */
		bool is_ready;                /* what .driver-daemons-status says */
		/* When the wait for the NVLink bridge's port is given up; 0: not begun. */
		uint64_t port_late_ms;
	} daemons;
	struct peermem_state peermem;
};

static inline struct gpu *gpu_of(void *role)
{
	return role;
}

static inline const struct gpu *gpu_of_const(const void *role)
{
	return role;
}

/* ---- gpu_parameters.c: which modules, with which parameters */

struct module_list {
	const char *names[GPU_MODULE_COUNT]; /* in load order */
	size_t count;
	size_t required; /* so many of them must be in the image; of the others those that are */
};

/*
 * Which modules the environment and /drivers ask for: required are the base, options whose flag is
 * set, and @with_peermem nvidia_peermem, which is proven with them but loaded by peermem_load().
 * Options for which there is only a .conf, and addons, are loaded if the image has them.
 */
void gpu_module_list(const struct role *role, bool with_peermem, struct module_list *list);

/* Notes the addons that the variables ask for and that the image lacks. */
void gpu_report_missing_modules(struct role *role);

/* Notes variables and arguments of the stock image that have no effect here, and why. */
void gpu_report_ignored_env(struct role *role);

/*
 * STEP_WORKER: checks /drivers/<module>.conf and our defaults against what the image's modules
 * take, before anything is unloaded, and writes PARAMETERS_PATH. REASON_BAD_PARAMETER when one
 * takes no such value. One that does not exist is reported and passed on; with
 * SLIPWAY_STRICT_PARAMETERS it is REASON_BAD_PARAMETER, too.
 */
int gpu_parameters(struct action *action);
/* The same without its notes: the start comes to gpu_parameters() later. */
int gpu_early_parameters(struct action *action);

/* ---- devices.c: the node's NVIDIA PCI devices, and who else drives them */

/* STEP_DIRECT: REASON_NO_NVIDIA_DEVICE when there is none. Sees whether one has to be freed. */
int gpu_find_device(struct action *action);

/*
 * Runs in the step that proves: REASON_NO_NVIDIA_DEVICE when the image's modules are the open ones
 * and every GPU is too old for them. If only some GPUs are too old, they are reported.
 */
int gpu_check_devices(struct action *action);

/*
 * In a worker, when the driver is loaded: one that was live already, and stays, does not look for
 * what became free since. Reports a device that it could not bind.
 */
void gpu_take_devices(struct action *action);

/*
 * STEP_WORKER: takes the GPUs and NVSwitches from nouveau, nova_core and nova_drm, whose modules
 * go, and from vfio-pci. REASON_DEVICE_HELD, naming device, driver and processes, when one of them
 * does not let go, or when another driver (pci-stub, say) leaves no device for us: what was parked
 * there on purpose stays there. What was taken stands in <state_folder>/gpu.freed.
 */
int gpu_free_devices(struct action *action);

/*
 * STEP_WORKER, its undo: gives them back when the start failed or the operator wants it, but for
 * those that nvidia drives. The first half is for before the node's own nvidia is loaded again,
 * which would take each device that has no driver.
 */
int gpu_return_early(struct action *action);
int gpu_return_devices(struct action *action);

/* ---- fast_path.c: is the driver that runs the one that a full start would load? */

/* STEP_DIRECT: compares. Unless all is equal it removes nvidia-driver.state. */
int fast_path_recognise(struct action *action);
/*
 * STEP_DIRECT, the undo of fast_path_recognise(): removes both files once the modules are gone. A
 * stop that could not unload leaves them, so that the next start is a fast one.
 */
int fast_path_forget_gone(struct action *action);
/* STEP_DIRECT: from here on the modules change, so the fingerprint goes. */
int fast_path_forget(struct action *action);
/* STEP_DIRECT: writes both. */
int fast_path_remember(struct action *action);
/*
 * The text that PARAMETERS_PATH had when this image's driver last was ready, if it has another now:
 * a new string, or NULL. A stop that unloads the driver forgets it.
 */
char *fast_path_earlier_parameters(const struct role *role);

/* In a worker: keeps the text of PARAMETERS_PATH as one that the driver has refused. */
void fast_path_note_refused(const struct role *role);
/*
 * In a worker, once PARAMETERS_PATH is written: if it has the text that the running driver has
 * refused, it gets the earlier one again, so that nothing is reloaded for what is refused anyway.
 */
int fast_path_avoid_refused(struct action *action);
/* In a worker: the driver is loaded. Unless it has its earlier parameters, it has refused none. */
void fast_path_forget_refused(const struct role *role);
/* A watch: removes nvidia-driver.state while the fingerprint does not hold. */
void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

/* ---- driver_root.c: what others find in the driver root, and the kernel its firmware */

/*
 * Makes the nodes of procfs_addon_nodes(@root_fd, @module) below @driver_root_fd; one that is right
 * already is left alone. Two processes do not make the same node at a time.
 */
int gpu_make_addon_nodes(int root_fd, const struct gpu_module *module, int driver_root_fd,
	struct error *error) _must_check_;

/*
 * STEP_WORKER: makes the device nodes of all that is loaded, in the container's own /dev. Reports
 * what it could not make, and asks the driver about each GPU: see procfs_gpus_ask().
 */
int gpu_make_nodes(struct action *action);

/* STEP_DIRECT each. */
int gpu_set_firmware_path(struct action *action);
int gpu_export_root(struct action *action);
int gpu_retire_root(struct action *action);
/*
 * STEP_DIRECT, the undo of the first two: what fits the driver goes after it. As long as nvidia is
 * loaded, whatever else failed or did not, root and firmware path stay.
 */
int gpu_withdraw_root(struct action *action);

/*
 * ---- daemons.c: the vendor's, in which order, with which configuration. nvidia-imex is none of
 * them: ComputeDomains run their own, and a second one breaks it.
 */

/* From SIGTERM to SIGKILL, of each: a pod's 30 s of grace are enough only if they end themselves.
 */
#define DAEMON_STOP_MS 5000u

/* All of them, one after the other, each deaf and then held by the kernel; what they left behind,
 * likewise; and a second. */
#define DAEMONS_STOP_ALL_MS                                                                        \
	(SUPERVISOR_DAEMONS * (DAEMON_STOP_MS + SUPERVISOR_KILL_MS) + SUPERVISOR_ORPHANS_MS +      \
		SUPERVISOR_KILL_MS + 1000u)

/*
 * STEP_DIRECT: finds which daemons the node needs, and whether the image has them; puts
 * configuration and licence files in their places.
 */
int gpu_daemons_configure(struct action *action);
/* Is the NVLink bridge without the modules that fabric manager reaches it through? */
bool gpu_daemons_want_modules(const void *role);
/* STEP_WORKER: loads mlx5_ib and ib_umad from the host's own modules. */
int gpu_daemons_load_modules(struct action *action);
/* STEP_WAIT: starts them in order, each when the one before is up. */
int gpu_daemons_start(struct action *action);
/* STEP_WAIT, its undo: stops them in reverse order. */
int gpu_daemons_stop(struct action *action);
/* Writes to .driver-daemons-status what is true of them now. */
int gpu_daemons_report(struct action *action);
/* A watch: starts again what ended, and keeps .driver-daemons-status true. */
void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

/* The rest is what the unit tests call by itself. */

/*
 * 0 when the image has what a node with this fabric, or a vGPU guest, cannot do without; -ENOENT
 * with what is missing and where it comes from.
 */
int daemons_check(int root_fd, const struct fabric *fabric, enum vgpu vgpu, struct error *error);

/* Adds those daemons that the node wants and the image has, in their order. -ENOMEM. */
int daemons_declare(struct supervisor *supervisor, const struct fabric *fabric, enum vgpu vgpu);

/* @asked: DRIVER_TYPE=vgpu. */
enum vgpu vgpu_find(int root_fd, bool asked);

#define FM_CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

/*
 * Puts NVFM_CONFIG_<field>=<value> of @environment (NULL-terminated) as "<field>=<value>" into
 * fabric manager's configuration, in the place of lines that set the field already, else at the end
 * (source: gpu-driver-container's ubuntu24.04/nvidia-driver). *ret_set is how many there are. One
 * whose field is no name (empty, or with other bytes than letters, digits and '_'), or whose value
 * has a line break, is left out and counted in *ret_ignored. -ENOENT when there are settings and no
 * file: the image has no fabric manager.
 */
int fm_config_apply(int root_fd, char *const *environment, unsigned *ret_set, unsigned *ret_ignored,
	struct error *error);

/*
 * A vGPU guest's licence: copies gridd.conf and, @with_token, the client configuration tokens,
 * which the operator mounts below /drivers, to where nvidia-gridd looks. *ret_conf says whether
 * there was one, *ret_tokens how many: their absence is the administrator's choice, and no error.
 * Sources: gpu-driver-container's ubuntu24.04/nvidia-driver, gpu-operator's driver_volumes.go.
 */
int vgpu_licence_place(
	int root_fd, bool with_token, bool *ret_conf, unsigned *ret_tokens, struct error *error);
