/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU role's own header. gpu.c has its steps in their order; what a step does stands in
 * parameters.c, devices.c, fast_path.c, driver_root.c or daemons.c.
 */
#pragma once

#include "entrypoint/gpu/daemons_internal.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/role.h"

/* What the image's modules are loaded with: libkmod finds it there, and modprobe in the root. */
#define PARAMETERS_PATH "etc/modprobe.d/slipway.conf"

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

struct inputs {
	char value[INPUT_COUNT][INPUT_SIZE];
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
		struct inputs inputs;
		struct strv modules; /* as recorded when serving began */
	} fast_path;
	struct gpu_daemons daemons;
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

/* ---- parameters.c: which modules, with which parameters */

#define MODULE_LIST_MAX 8

struct module_list {
	const char *names[MODULE_LIST_MAX]; /* in load order */
	size_t count;
	size_t required; /* so many of them must be in the image; of the others those that are */
};

/*
 * nvidia, nvidia_uvm, nvidia_modeset; nvidia_drm where SLIPWAY_NVIDIA_DRM asks for it or
 * /drivers/nvidia-drm.conf is there; @with_peermem nvidia_peermem, which is proven with them but
 * loaded by peermem_load(); gdrdrv and nvidia_fs where the operator's variables ask for GDRCopy and
 * GDS and the image has them: without, their containers compile them.
 */
void gpu_module_list(const struct gpu *gpu, bool with_peermem, struct module_list *list);

/* Notes the modules of GDRCopy and GDS that the variables ask for and that the image lacks. */
void gpu_report_missing_modules(struct gpu *gpu);

/* Notes variables and arguments of the stock image that have no effect here, and why. */
void gpu_report_ignored_env(struct gpu *gpu);

/*
 * STEP_WORKER: checks /drivers/<module>.conf and our defaults against what the image's modules
 * take, before anything is unloaded, and writes PARAMETERS_PATH. REASON_BAD_PARAMETER when a
 * parameter does not exist or takes no such value.
 */
int gpu_parameters(struct action *action);

/* ---- devices.c: the node's NVIDIA PCI devices, and who else drives them */

/* STEP_DIRECT: REASON_NO_NVIDIA_DEVICE when there is none. Sees whether one has to be freed. */
int gpu_find_device(struct action *action);

/*
 * STEP_WORKER: takes the GPUs and NVSwitches from nouveau, nova_core and nova_drm, whose modules
 * go, and from vfio-pci. REASON_DEVICE_HELD, naming device, driver and processes, when one of them
 * does not let go, or when another driver (pci-stub, say) leaves no device for us: what was parked
 * there on purpose stays there. What was taken stands in <state_folder>/gpu.freed.
 */
int gpu_free_devices(struct action *action);

/* STEP_WORKER, its undo: gives them back when the start failed or the operator wants it. */
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
/* A watch: removes nvidia-driver.state while the fingerprint does not hold. */
void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

/* ---- driver_root.c: what others find in the driver root, and the kernel its firmware */

/* STEP_DIRECT each. */
int gpu_set_firmware_path(struct action *action);
int gpu_export_root(struct action *action);
int gpu_detach_root(struct action *action);
/*
 * STEP_DIRECT, the undo of the first two: what fits the driver goes after it. As long as nvidia is
 * loaded, whatever else failed or did not, root and firmware path stay.
 */
int gpu_withdraw_root(struct action *action);
