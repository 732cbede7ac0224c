/* SPDX-License-Identifier: Apache-2.0 */
/* After ours are in: what leant on the old ones comes again, and nothing is owed any more. */
#include <inttypes.h>
#include <string.h>

#include "common/fnv.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/debt.h"
#include "entrypoint/nic/kept.h"
#include "entrypoint/nic/others.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/nic/swapper.h"
#include "module/sysmodule.h"

static int bring_again(struct swapper *swapper)
{
	struct action *action = swapper->action;
	_cleanup_(swap_plan_free) struct swap_plan debt = { 0 };
	_cleanup_strv_ struct strv missing = { 0 };
	int r = debt_read(swapper->role, &debt, &action->error);

	if (r == -ENOENT)
		return 0; /* nothing ever went */
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = others_bring(swapper, &debt, true, &missing);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	others_tell_missing(swapper, &missing);
	return 0;
}

int swap_others(struct action *action)
{
	_cleanup_(swapper_close) struct swapper swapper = { 0 };
	int r = swapper_open(&swapper, action);

	return r < 0 ? r : bring_again(&swapper);
}

/* The files of all modules of the image that are loaded as its own. */
static int list_loaded(struct swapper *swapper, struct strv *paths, uint64_t *ret_hash)
{
	const struct role *role = swapper->role;
	struct error ignored;
	struct loader *own = swapper_own(swapper, &ignored);
	uint64_t hash = FNV64_START;
	int r = own ? 0 : -ENOENT;

	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++) {
		const char *name = role->driver_modules.items[i];
		char build_id[BUILD_ID_HEX_SIZE];
		_cleanup_free_ char *path = NULL;

		if (!swapper_is_ours(swapper, name))
			continue;
		r = loader_file(own, name, &path, &ignored);
		if (r == 0)
			r = strv_push(paths, path + (*path == '/'));
		sysmodule_build_id(role->root_fd, name, build_id);
		hash = fnv64_bytes(hash, name, strlen(name) + 1);
		hash = fnv64_bytes(hash, build_id, strlen(build_id) + 1);
	}
	*ret_hash = hash;
	return r;
}

static int keep(struct swapper *swapper, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	uint64_t hash;
	char id[32];
	int r = list_loaded(swapper, &paths, &hash);

	if (r < 0)
		return error_set_errno(error, r, "the image's module files");
	(void) snprintf(id, sizeof(id), "%016" PRIx64, hash);
	return kept_replace(
		swapper->role->root_fd, swapper->kept, swapper->role->krel, &paths, id, error);
}

void swap_settle(const struct role *role)
{
	kill_point("swap:settle");
	debt_settle(role);
}

bool swap_is_settled(const void *role)
{
	return debt_is_settled(role);
}

int swap_keep(struct action *action)
{
	_cleanup_(swapper_close) struct swapper swapper = { 0 };
	struct error why = { "" };

	if (swapper_open(&swapper, action) < 0)
		return 0;
	if (keep(&swapper, &why) < 0)
		swapper_tell(&swapper,
			"%.600s: should the next image fail, the host's own modules come back "
			"instead of these",
			why.text);
	else
		debt_settled_forget(swapper.role);
	return 0;
}
