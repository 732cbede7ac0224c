/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why slipway-init stopped: a stable code for machines, an exit code, and the cure. The codes are
 * an interface: they stand in the status file, the event log and the termination message, and
 * docs/reasons.md explains each. A test compares that page with this table.
 */
#pragma once

enum reason {
	REASON_NONE,
	REASON_USAGE,
	REASON_ALREADY_RUNNING,
	REASON_NO_MODULES_FOR_KERNEL,
	REASON_NO_NVIDIA_DEVICE,
	REASON_OFED_NOT_READY,
	REASON_PEERMEM_OTHER_OFED,
	REASON_WILL_NOT_LOAD,
	REASON_MODULE_IN_USE,
	REASON_LOAD_FAILED,
	REASON_UNLOAD_FAILED,
	REASON_MOUNT_FAILED,
	REASON_DEADLINE,
	REASON_STOPPED,
	REASON_INTERNAL,
	REASON_SIGNATURE_REFUSED,
	REASON_KERNEL_REBUILT,
	REASON_CANNOT_TELL,
	REASON_DAEMON_FAILED,
	REASON_BAD_PARAMETER,
	REASON_DEVICE_HELD,
	REASON_BUILD_FAILED,
	REASON_NO_PEER_MEMORY,
	REASON_NETWORK_INCOMPLETE,
	REASON_DRIVER_REPLACED,
	REASON_COUNT,
};

struct reason_entry {
	const char *code; /* stable, upper case */
	int exit_code;
};

const struct reason_entry *reason_entry(enum reason reason);

/*
 * The verb "explain" of @program: prints what docs/reasons.md has of a reason, which @word names by
 * its code, in any case, or by its exit code; NULL: a list of all. Returns an exit code, after a
 * message on stderr if it is not 0.
 */
int reason_explain(const char *program, const char *word);
extern const char reason_explain_usage[];
