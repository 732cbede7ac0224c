/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLink's fabric as far as it shows without the vendor's library: the switches, what the driver
 * made of them, whether NVLink is switched off, and whether somebody manages it. Where the switches
 * are in trays of their own (NVL72), nothing of them is on this node: there `nvidia-smi -q` has the
 * state that the GPUs registered with. Sources: open-gpu-kernel-modules
 * kernel-open/nvidia/{linux_nvswitch.c,nvlink_linux.c}.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/status/driver_version.h"
#include "entrypoint/status/part.h"
#include "entrypoint/status/pci.h"
#include "entrypoint/status/processes.h"
#include "entrypoint/status/procfs.h"

#define SWITCH_DEVICES "proc/driver/nvidia-nvswitch/devices"
#define MANAGEMENT     "proc/driver/nvidia-nvlink/capabilities/fabric-mgmt"
#define MANAGER_SOCKET "run/nvidia-fabricmanager/socket"

enum fabric_state {
	FABRIC_UNKNOWN,  /* no driver is loaded */
	FABRIC_OFF,      /* NVLink is switched off */
	FABRIC_NONE,     /* no switch on this node */
	FABRIC_MANAGED,  /* switches, and a fabric manager that runs */
	FABRIC_UNMANAGED /* switches, and nobody who manages them */
};

struct fabric {
	bool driver_loaded;
	int switches;          /* PCI functions */
	size_t driven;         /* of them, by the driver */
	long nvlink_disabled;  /* NvLinkDisable: 1, 0, or -1: not told */
	long management_minor; /* of the capability that a fabric manager opens; -1: none */
	struct process_seen manager, subnet_manager; /* pid 0: does not run */
	bool socket;                                 /* the fabric manager's */
};

static void look(int root_fd, struct fabric *fabric)
{
	_cleanup_strv_ struct strv devices = { 0 };
	struct driver_version version;

	driver_version(root_fd, &version);
	fabric->driver_loaded = version.loaded;
	fabric->switches = pci_count(root_fd, PCI_NVSWITCH);
	if (fs_list(root_fd, SWITCH_DEVICES, &devices) == 0)
		fabric->driven = devices.count;
	fabric->nvlink_disabled = procfs_nvidia_parameter(root_fd, "NvLinkDisable");
	fabric->management_minor = procfs_capability_minor(root_fd, MANAGEMENT);
	fabric->socket = fs_exists(root_fd, MANAGER_SOCKET);
	(void) processes_of_program(root_fd, "nv-fabricmanager", &fabric->manager, 1);
	(void) processes_of_program(root_fd, "nvlsm", &fabric->subnet_manager, 1);
}

static enum fabric_state state_of(const struct fabric *fabric)
{
	if (!fabric->driver_loaded)
		return FABRIC_UNKNOWN;
	if (fabric->nvlink_disabled > 0)
		return FABRIC_OFF;
	/* NVLink5 machines show no switch on the PCI bus, but somebody who manages them. */
	if (fabric->manager.pid)
		return FABRIC_MANAGED;
	return fabric->switches ? FABRIC_UNMANAGED : FABRIC_NONE;
}

static const char *const state_names[] = {
	[FABRIC_UNKNOWN] = "unknown",
	[FABRIC_OFF] = "off",
	[FABRIC_NONE] = "none",
	[FABRIC_MANAGED] = "managed",
	[FABRIC_UNMANAGED] = "unmanaged",
};

static const char *const state_words[] = {
	[FABRIC_UNKNOWN] = "no driver is loaded",
	[FABRIC_OFF] = "NVLink is switched off (NvLinkDisable=1): no fabric to manage",
	[FABRIC_NONE] =
		"no NVSwitch on this node (of switches in trays of their own, nvidia-smi -q "
		"tells: Fabric State)",
	[FABRIC_MANAGED] = "a fabric manager runs",
	[FABRIC_UNMANAGED] =
		"NO FABRIC MANAGER runs: CUDA will fail with error 802, system not yet "
		"initialized",
};

static void print_json(struct json *json, const struct fabric *fabric)
{
	json_open(json, "fabric", '{');
	json_text(json, "state", state_names[state_of(fabric)]);
	json_number(json, "switches", fabric->switches);
	json_number(json, "switches_driven", (long long) fabric->driven);
	if (fabric->nvlink_disabled < 0)
		json_null(json, "nvlink_disabled");
	else
		json_bool(json, "nvlink_disabled", fabric->nvlink_disabled > 0);
	json_number_or_null(json, "management_minor", fabric->management_minor);
	json_number_or_null(
		json, "fabric_manager_pid", fabric->manager.pid ? fabric->manager.pid : -1);
	json_bool(json, "fabric_manager_socket", fabric->socket);
	json_number_or_null(json, "subnet_manager_pid",
		fabric->subnet_manager.pid ? fabric->subnet_manager.pid : -1);
	json_close(json, '}');
}

static void print(const struct fabric *fabric)
{
	(void) printf("fabric   %s", state_words[state_of(fabric)]);
	if (fabric->switches)
		(void) printf(
			"; %d NVSwitches, %zu of them driven", fabric->switches, fabric->driven);
	if (fabric->manager.pid)
		(void) printf("; nv-fabricmanager is process %d, its socket is %s",
			(int) fabric->manager.pid, fabric->socket ? "there" : "not there yet");
	if (fabric->subnet_manager.pid)
		(void) printf("; nvlsm is process %d", (int) fabric->subnet_manager.pid);
	(void) putchar('\n');
}

void status_fabric(int root_fd, struct json *json)
{
	struct fabric fabric = { .driver_loaded = false };

	look(root_fd, &fabric);
	if (json)
		print_json(json, &fabric);
	else
		print(&fabric);
}
