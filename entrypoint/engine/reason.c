/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/reason.h"

static const struct reason_entry reasons[REASON_COUNT] = {
	[REASON_NONE] = { "OK", 0, "nothing is wrong" },
	[REASON_USAGE] = { "USAGE", 2, "the command line is not one that slipway-init knows" },
	[REASON_ALREADY_RUNNING] = { "ALREADY_RUNNING", 10, "another instance holds the lock" },
	[REASON_NO_MODULES_FOR_KERNEL] = { "NO_MODULES_FOR_KERNEL", 11,
		"the image has no modules for the running kernel" },
	[REASON_NO_NVIDIA_DEVICE] = { "NO_NVIDIA_DEVICE", 12, "the node has no NVIDIA PCI device" },
	[REASON_OFED_NOT_READY] = { "OFED_NOT_READY", 13,
		"OFED did not come up before the deadline" },
	[REASON_PEERMEM_OTHER_OFED] = { "PEERMEM_OTHER_OFED", 14,
		"nvidia-peermem was built against another OFED than the one loaded" },
	[REASON_WILL_NOT_LOAD] = { "WILL_NOT_LOAD", 15,
		"a module of the image will not load on the running kernel" },
	[REASON_MODULE_IN_USE] = { "MODULE_IN_USE", 16,
		"a module that has to go is in use; nothing was unloaded, or it was loaded again" },
	[REASON_LOAD_FAILED] = { "LOAD_FAILED", 17, "the kernel refused a module" },
	[REASON_UNLOAD_FAILED] = { "UNLOAD_FAILED", 18, "the kernel refused to unload a module" },
	[REASON_MOUNT_FAILED] = { "MOUNT_FAILED", 19, "a mount or a file could not be made" },
	[REASON_DEADLINE] = { "DEADLINE", 20, "a step took longer than its deadline" },
	[REASON_SIGNATURE_REFUSED] = { "SIGNATURE_REFUSED", 21,
		"the kernel takes signed modules only, and these it would not take" },
	[REASON_KERNEL_REBUILT] = { "KERNEL_REBUILT", 22,
		"the running kernel is another build than the one of its name that the image is "
		"for" },
	[REASON_CANNOT_TELL] = { "CANNOT_TELL", 23,
		"it cannot be told whether the modules load, and a working driver would have to "
		"go first" },
	[REASON_DAEMON_FAILED] = { "DAEMON_FAILED", 24,
		"a vendor daemon that the node needs does not run" },
	[REASON_BAD_PARAMETER] = { "BAD_PARAMETER", 25,
		"a module parameter that was asked for does not exist" },
	[REASON_DEVICE_HELD] = { "DEVICE_HELD", 26,
		"another driver holds the GPU and cannot be made to let go" },
	[REASON_BUILD_FAILED] = { "BUILD_FAILED", 27, "compiling on the node failed" },
	[REASON_NO_PEER_MEMORY] = { "NO_PEER_MEMORY", 28,
		"the RDMA stack that is loaded has no peer-memory interface" },
	[REASON_NETWORK_INCOMPLETE] = { "NETWORK_INCOMPLETE", 29,
		"part of the network's state did not come back after the NIC driver was replaced" },
	[REASON_DRIVER_REPLACED] = { "DRIVER_REPLACED", 30,
		"somebody unloaded or replaced modules of the running NIC driver" },
	[REASON_STOPPED] = { "STOPPED", 0, "stopped by a signal; all is undone" },
	[REASON_INTERNAL] = { "INTERNAL", 70, "slipway-init itself failed" },
};

const struct reason_entry *reason_entry(enum reason reason)
{
	return &reasons[reason < REASON_COUNT ? reason : REASON_INTERNAL];
}
