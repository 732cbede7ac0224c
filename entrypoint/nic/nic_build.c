/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/nic_build_internal.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"

/* Where an OFED has NFS/RDMA: a source without it cannot be asked for its module. */
#define NFSRDMA_SOURCE KIT_FOLDER "/source/net/sunrpc/xprtrdma"

/* What the recipe is told (containers/recipes/ofed.sh), by the inputs. */
static int list_settings(
	const struct nic_inputs *inputs, struct strv *settings, struct error *error)
{
	const char *flags = getenv(CONTRACT_ENV_BUILD_FLAGS);
	int r = 0;

	if (inputs->nfsrdma)
		r = strv_push(settings, "SLIPWAY_NFSRDMA=yes");
	if (r == 0 && flags && *flags)
		r = strv_pushf(settings, "SLIPWAY_OFED_FLAGS=%s", flags);
	return r < 0 ? error_set_errno(error, r, "sources") : 0;
}

/* Beside the journals: the stock container removes what it does not know in the inventory itself.
 */
static int find_cache(struct nic_build *build, const struct nic_inputs *inputs)
{
	if (!*inputs->inventory)
		return 0;
	if (asprintf(&build->cache, "/%s/.slipway", inputs->inventory) < 0)
		build->cache = NULL;
	return build->cache ? 0 : -ENOMEM;
}

int nic_build_read(struct nic_build *build, int root_fd, const struct nic_inputs *inputs,
	const struct nodebuild **ret_build, struct error *error)
{
	int r;

	*ret_build = NULL;
	if (inputs->mode != NIC_SOURCES)
		return 0;
	build->build = (struct nodebuild){ .recipe = "ofed" };
	if (inputs->nfsrdma && fs_exists(root_fd, NFSRDMA_SOURCE))
		build->build.needs = NIC_NFSRDMA_MODULE;
	r = list_settings(inputs, &build->build.settings, error);
	if (r < 0)
		return r;
	r = find_cache(build, inputs);
	if (r < 0)
		return error_set_errno(error, r, "sources");
	build->build.cache = build->cache;
	*ret_build = &build->build;
	return 0;
}

void nic_build_free(struct nic_build *build)
{
	strv_free(&build->build.settings);
	free(build->cache);
	*build = (struct nic_build){ .cache = NULL };
}
