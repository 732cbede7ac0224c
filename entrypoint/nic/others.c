/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/others.h"

#include "entrypoint/role/prove.h"
#include "entrypoint/nic/swap.h"
#include "entrypoint/role/role_list.h"
#include "module/sysmodule.h"

/* Will it load on what is there now? */
static int prove(struct swapper *swapper, const char *prefix, const char *name, struct error *why)
{
	struct strv names = { 0 };
	const struct prove_request request = { .prefix = prefix, .modules = &names };
	int r = strv_push(&names, name);

	if (r == 0)
		r = prove_tree(swapper->action, &request);
	if (r < 0)
		*why = swapper->action->error;
	strv_free(&names);
	return r;
}

static int bring_from(struct swapper *swapper, struct loader *tree, const char *prefix,
	const struct swap_module *module, struct error *why)
{
	int r = prove(swapper, prefix, module->name, why);

	return r < 0 ? r : swapper_bring(swapper, tree, module->name, module->options, why);
}

static int bring(
	struct swapper *swapper, const struct swap_module *module, bool of_image, struct error *why)
{
	struct loader *own = of_image ? swapper_own(swapper, why) : NULL;
	struct loader *host;

	if (own && swapper_tree_has(own, module->name))
		return bring_from(swapper, own, "", module, why);
	if (!of_image && swapper_bring_build(swapper, module, why) == 0)
		return 0;
	host = swapper_host(swapper, why);
	if (!host)
		return -ENOENT;
	if (!swapper_tree_has(host, module->name))
		return error_set(why, -ENOENT,
			"%s of the host has no such module, and it is nowhere else at hand",
			swapper->role->host_root);
	return bring_from(swapper, host, swapper->role->host_root, module, why);
}

/* On the way back the driver itself is somebody else's to bring. */
static bool is_absent(
	const struct swapper *swapper, const struct swap_module *module, bool of_image)
{
	return module->part != SWAP_PEERMEM && (of_image || module->part != SWAP_OURS) &&
	       !sysmodule_exists(swapper->role->root_fd, module->name);
}

/* One look at all of them, last gone first. */
static int bring_all(struct swapper *swapper, const struct swap_plan *debt, bool of_image,
	struct strv *missing, bool *progress)
{
	int r = 0;

	*progress = false;
	for (size_t i = debt->go_count; r == 0 && i-- > 0;) {
		struct error why = { "" };

		if (!is_absent(swapper, &debt->go[i], of_image))
			continue;
		if (bring(swapper, &debt->go[i], of_image, &why) < 0)
			r = strv_pushf(missing, "%s: %s", debt->go[i].name, why.text);
		else
			*progress = true;
	}
	return r;
}

int others_bring(
	struct swapper *swapper, const struct swap_plan *debt, bool of_image, struct strv *missing)
{
	bool progress = true;
	int r = 0;

	/* One may need another that came later in the order: of an earlier life's debt, say. */
	do {
		strv_free(missing);
		r = bring_all(swapper, debt, of_image, missing, &progress);
	} while (r == 0 && missing->count && progress);
	swapper->action->reason = REASON_INTERNAL;
	swapper->action->error = (struct error){ "" };
	return r;
}

void others_tell_missing(struct swapper *swapper, const struct strv *missing)
{
	struct error error;

	if (!missing->count) {
		role_list_remove(swapper->role, SWAP_MISSING_LIST);
		return;
	}
	for (size_t i = 0; i < missing->count; i++)
		swapper_tell(swapper, "does not come back: %s", missing->items[i]);
	if (role_list_write(swapper->role, SWAP_MISSING_LIST, missing, &error) < 0)
		swapper_tell(swapper, "%s", error.text);
}
