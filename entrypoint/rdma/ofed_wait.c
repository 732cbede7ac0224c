/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/ofed_wait.h"

#include <string.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/fingerprint.h"
#include "entrypoint/rdma/ready_flag.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/role/mounts.h"
#include "module/kallsyms.h"
#include "module/sysmodule.h"

/* Newer OFED exports the peer-memory interface from ib_uverbs, older OFED from ib_core. */
#define EXPORTER_UNLESS_TOLD "ib_uverbs"

#define PCI_DEVICES "sys/bus/pci/devices"

#define CURE_NIC                                                                                   \
	"look at the NIC pod of this node (kubectl -n <namespace> logs <pod>); " CURE_DEADLINE
#define CURE_DEADLINE "SLIPWAY_OFED_DEADLINE_SECONDS is how long it is waited for"

const char *ofed_exporter(const struct role *role)
{
	return *role->image.ofed_exporter ? role->image.ofed_exporter : EXPORTER_UNLESS_TOLD;
}

bool ofed_has_nic(int root_fd)
{
	_cleanup_strv_ struct strv devices = { 0 };
	int r = fs_list(root_fd, PCI_DEVICES, &devices);

	for (size_t i = 0; r == 0 && i < devices.count; i++) {
		_cleanup_free_ char *vendor = NULL;
		char path[512];

		(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/vendor", devices.items[i]);
		if (fs_read_line(root_fd, path, &vendor) == 0 &&
			strtoul(vendor, NULL, 16) == CONTRACT_PCI_MELLANOX)
			return true;
	}
	return r < 0; /* who cannot see the bus cannot say that there is none */
}

/* The host's stack is told from a NIC container's by the flag; a host's may still be replaced by
 * its own OFED, which has no flag, so it is waited for. */
static int missing_interface(struct action *action, const char *exporter)
{
	const struct role *role = action->role;

	(void) action_missing(action, REASON_NO_PEER_MEMORY,
		"%s is loaded but nobody exports %s: this RDMA stack has no peer-memory "
		"interface (OFED has; without OFED, use dma-buf, which needs no nvidia-peermem, "
		"and leave %s unset)",
		exporter, CONTRACT_PEER_REGISTER, CONTRACT_ENV_RDMA);
	return fs_exists(role->root_fd, CONTRACT_OFED_READY) ? -ENODATA : 1;
}

/* The kernel's list of symbols is long: a module that once had none is not asked again. */
static bool exports_peer_memory(struct role *role, const char *exporter)
{
	char build_id[BUILD_ID_HEX_SIZE];
	char owner[64];

	sysmodule_build_id(role->root_fd, exporter, build_id);
	if (*build_id && strcmp(build_id, role->peermem->without_peer_memory) == 0)
		return false;
	if (kallsyms_exporter(role->root_fd, CONTRACT_PEER_REGISTER, owner, sizeof(owner)) == 0)
		return true;
	memcpy(role->peermem->without_peer_memory, build_id, sizeof(build_id));
	return false;
}

static int missing_exporter(struct action *action, const char *exporter)
{
	const struct role *role = action->role;
	const char *cure = CURE_NIC;

	if (role->options.host_ofed)
		cure = "load the host's OFED (USE_HOST_MOFED is set); " CURE_DEADLINE;
	else if (ready_flag_is_stale(role->root_fd))
		cure = READY_FLAG_STALE "; " CURE_DEADLINE;
	return action_missing(action, REASON_OFED_NOT_READY,
		"the module %s, which has to export %s, is not loaded: %s", exporter,
		CONTRACT_PEER_REGISTER, cure);
}

/* The NIC container's word about the very module that is live, or the kernel's own list. */
static int find_peer_memory(struct action *action)
{
	struct role *role = action->role;
	const char *exporter = ofed_exporter(role);
	_cleanup_(fingerprint_free) struct fingerprint fingerprint = { .crc = 0 };

	if (fingerprint_read(role->root_fd, &fingerprint) &&
		sysmodule_is_live(role->root_fd, fingerprint.exporter))
		return 0;
	if (!sysmodule_is_live(role->root_fd, exporter))
		return missing_exporter(action, exporter);
	return exports_peer_memory(role, exporter) ? 0 : missing_interface(action, exporter);
}

/* What the NIC container says of itself, where it has said anything. */
static void nic_says(int root_fd, struct error *says)
{
	_cleanup_free_ char *text = NULL;
	char detail[512] = "";
	char reason[64] = "";
	char state[32] = "";

	if (fs_read(root_fd, NIC_STATE_FOLDER "/nic.status", 65536, &text, NULL) < 0)
		return;
	conf_value(text, "state", state, sizeof(state));
	conf_value(text, "reason", reason, sizeof(reason));
	conf_value(text, "detail", detail, sizeof(detail));
	if (*state)
		(void) error_set(says, 0, "; it says of itself: %s%s%s%s%s", state,
			*reason ? ", " : "", reason, *detail ? ": " : "", detail);
}

/* A container without the host's folder would wait for a flag that it can never see. */
static int missing_flag(struct action *action)
{
	const struct role *role = action->role;
	struct mountinfo mount;
	struct error says = { "" };

	if (mountinfo_find(role->root_fd, CONTRACT_OFED_RUN, &mount) == 0 && mount.of_root)
		return action_missing(action, REASON_OFED_NOT_READY,
			"/%s is not a mount of the host, so that the NIC container's flag /%s cannot "
			"be seen from here: mount the hostPath /%s there with mountPropagation: "
			"HostToContainer",
			CONTRACT_OFED_RUN, CONTRACT_OFED_READY, CONTRACT_OFED_RUN);
	nic_says(role->root_fd, &says);
	return action_missing(action, REASON_OFED_NOT_READY,
		"the NIC driver container has not written /%s: " CURE_NIC "%.600s",
		CONTRACT_OFED_READY, says.text);
}

static int find_ofed(struct action *action)
{
	struct role *role = action->role;

	if (role->options.host_ofed)
		return find_peer_memory(action);
	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	if (!fs_exists(role->root_fd, CONTRACT_OFED_READY))
		return missing_flag(action);
	return find_peer_memory(action);
}

int ofed_wait(struct action *action)
{
	struct role *role = action->role;
	int r = find_ofed(action);

	role->peermem->due = r == 0;
	if (r == 0 || ofed_has_nic(role->root_fd))
		return r;
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE,
		"the node has no PCI function of Mellanox (15b3), so OFED is not waited for: "
		"nvidia_peermem is loaded if it ever comes");
	return 0;
}

bool ofed_is_up(const struct role *role)
{
	_cleanup_(fingerprint_free) struct fingerprint fingerprint = { .crc = 0 };

	if (!role->options.host_ofed && !fs_exists(role->root_fd, CONTRACT_OFED_READY))
		return false;
	if (fingerprint_read(role->root_fd, &fingerprint))
		return sysmodule_is_live(role->root_fd, fingerprint.exporter);
	return sysmodule_is_live(role->root_fd, ofed_exporter(role));
}
