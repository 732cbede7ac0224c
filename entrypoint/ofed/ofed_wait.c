/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/ofed/ofed_wait.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/ofed/fingerprint.h"
#include "entrypoint/role.h"
#include "module/kallsyms.h"
#include "module/sysmodule.h"

/* Newer OFED exports the peer-memory interface from ib_uverbs, older OFED from ib_core. */
#define EXPORTER_UNLESS_TOLD "ib_uverbs"

static int missing_interface(struct action *action, const char *exporter)
{
	return action_missing(action, REASON_OFED_NOT_READY,
		"%s is loaded but nobody exports %s: this RDMA stack has no peer-memory "
		"interface (OFED has; without OFED, use dma-buf, which needs no nvidia-peermem, "
		"and leave %s unset)",
		exporter, CONTRACT_PEER_REGISTER, CONTRACT_ENV_RDMA);
}

/* The kernel's list of symbols is long: a module that once had none is not asked again. */
static bool exports_peer_memory(struct role *role, const char *exporter)
{
	char build_id[BUILD_ID_HEX_SIZE];
	char owner[64];

	sysmodule_build_id(role->root_fd, exporter, build_id);
	if (*build_id && strcmp(build_id, role->without_peer_memory) == 0)
		return false;
	if (kallsyms_exporter(role->root_fd, CONTRACT_PEER_REGISTER, owner, sizeof(owner)) == 0)
		return true;
	memcpy(role->without_peer_memory, build_id, sizeof(build_id));
	return false;
}

/* The NIC container's word about the very module that is live, or the kernel's own list. */
static int find_peer_memory(struct action *action)
{
	struct role *role = action->role;
	const char *exporter =
		*role->image.ofed_exporter ? role->image.ofed_exporter : EXPORTER_UNLESS_TOLD;
	_cleanup_(fingerprint_free) struct fingerprint fingerprint = { .crc = 0 };

	if (fingerprint_read(role->root_fd, &fingerprint) &&
		sysmodule_is_live(role->root_fd, fingerprint.exporter))
		return 0;
	if (!sysmodule_is_live(role->root_fd, exporter))
		return action_missing(action, REASON_OFED_NOT_READY,
			"the module %s, which has to export %s, is not loaded", exporter,
			CONTRACT_PEER_REGISTER);
	return exports_peer_memory(role, exporter) ? 0 : missing_interface(action, exporter);
}

int ofed_wait(struct action *action)
{
	struct role *role = action->role;

	if (role->options.host_ofed)
		return find_peer_memory(action);
	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	if (!fs_exists(role->root_fd, CONTRACT_OFED_READY))
		return action_missing(action, REASON_OFED_NOT_READY,
			"the NIC driver container has not written /%s", CONTRACT_OFED_READY);
	return find_peer_memory(action);
}
