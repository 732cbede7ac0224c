/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/peermem_load.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/rdma/fingerprint.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/rdma/variant.h"
#include "entrypoint/role/role.h"
#include "module/kallsyms.h"
#include "module/sysmodule.h"

/* As the operator names it, and as others do (gpu/parameters.c takes both, too). */
static const char *const conf_paths[] = { CONTRACT_MODULE_CONF "/nvidia-peermem.conf",
	CONTRACT_MODULE_CONF "/nvidia_peermem.conf" };

static const char *const peermem_modules[] = { PEERMEM_MODULE };

static int refuse_other(struct action *action, uint32_t crc)
{
	const struct role *role = action->role;
	char loaded[64];

	fingerprint_version(role->root_fd, loaded);
	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"%s: built for %s CRC 0x%08x (OFED %s), and the OFED that is loaded has 0x%08x "
		"(version %s): use a GPU image that has it (slipway build --ofed …, or slipway "
		"combine to have both in one), or the NIC image of the first",
		PEERMEM_MODULE, CONTRACT_PEER_REGISTER, peermem_file_crc(role),
		*role->image.ofed_version ? role->image.ofed_version : "of unknown version", crc,
		loaded);
}

/* Against the headers of the very OFED that is loaded, whose list told the CRC. */
static int compile(struct action *action, uint32_t crc)
{
	int r = nodebuild_peermem(action);

	if (r < 0)
		return r;
	return peermem_file_crc(action->role) == crc ? 1 : refuse_other(action, crc);
}

/* 1: a CRC is known, and lib/modules has what fits. 0: nobody tells a CRC, or nothing fits it. */
static int choose(struct action *action, bool refuse, bool *ret_proven)
{
	uint32_t crc = peermem_wanted_crc(action->role, ret_proven);
	int r;

	if (!crc)
		return 0;
	r = peermem_choose(action, crc);
	if (r == 0 && nodebuild_can_peermem(action->role))
		return compile(action, crc);
	if (r == 0 && refuse && *ret_proven)
		return refuse_other(action, crc);
	return r;
}

int peermem_prepare(struct action *action)
{
	bool proven;
	int r = choose(action, false, &proven);

	return r < 0 ? r : 0;
}

int peermem_put_fitting(struct action *action)
{
	bool proven;
	uint32_t crc = peermem_wanted_crc(action->role, &proven);
	int r = crc && proven ? peermem_choose(action, crc) : 0;

	return r < 0 ? r : 0;
}

/* Its parameters, as one line of "name=value". The kernel passes over names that it does not know.
 */
static int read_parameters(struct action *action, char **ret)
{
	_cleanup_strv_ struct strv words = { 0 };
	const struct role *role = action->role;

	for (size_t i = 0; i < ARRAY_SIZE(conf_paths); i++) {
		_cleanup_free_ char *text = NULL;
		int r = fs_read(role->root_fd, conf_paths[i], 65536, &text, NULL);

		/* "name=value", or modprobe.d's "options nvidia_peermem name=value". */
		if (r == 0)
			r = parameter_split(text, PEERMEM_MODULE, &words, &action->error);
		if (r < 0 && r != -ENOENT)
			return action_reason(action, REASON_BAD_PARAMETER, r);
	}
	*ret = words.count ? strv_join(&words, " ") : strdup("");
	return *ret ? 0 : action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
}

/* What it depends on is loaded: the file alone will do. */
static int insert(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *parameters = NULL;
	struct insertion insertion = { .root_fd = role->root_fd, .name = PEERMEM_MODULE };
	char path[PATH_MAX];
	int r = peermem_path(role, path, sizeof(path));

	if (r < 0)
		return action_fail(action, REASON_PEERMEM_OTHER_OFED, r,
			"the image has no nvidia-peermem for %s: build it with slipway build "
			"--ofed <the OFED of the NIC image>, or leave %s unset",
			role->krel, CONTRACT_ENV_RDMA);
	r = read_parameters(action, &parameters);
	if (r < 0)
		return r;
	insertion.path = path;
	insertion.options = parameters;
	return insert_file(&insertion, action->worker, &action->reason, &action->error);
}

/* Without the NIC container's word: does anybody export the interface at all? */
static int find_interface(struct action *action)
{
	const struct role *role = action->role;
	char owner[64];
	int r = kallsyms_exporter(role->root_fd, CONTRACT_PEER_REGISTER, owner, sizeof(owner));

	if (r != -ENOENT)
		return 0;
	return action_fail(action, REASON_NO_PEER_MEMORY, r,
		"nobody exports %s: this RDMA stack has no peer-memory interface (OFED has; "
		"without OFED, use dma-buf, which needs no nvidia-peermem, and leave %s unset)",
		CONTRACT_PEER_REGISTER, CONTRACT_ENV_RDMA);
}

/* The load proof says more than the kernel: which symbol, both CRCs, who exports it. */
static int explain(struct action *action, int code)
{
	struct action refused = *action;
	int r = find_interface(action);

	if (r == 0)
		r = prove_modules(action, peermem_modules, ARRAY_SIZE(peermem_modules), 1);
	if (r < 0)
		return r;
	action->reason = refused.reason;
	action->error = refused.error;
	return code;
}

static int refuse_unbound(struct action *action)
{
	const struct role *role = action->role;

	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"%s asks for no %s: it was built without OFED. Build the GPU image with slipway "
		"build --kernel %s --ofed <the OFED of the NIC image>, or leave %s unset",
		PEERMEM_MODULE, CONTRACT_PEER_REGISTER, role->krel, CONTRACT_ENV_RDMA);
}

/*
 * Nothing has to go for it, so that the kernel may judge, in milliseconds. Without MODVERSIONS the
 * kernel would take what is for another OFED: then only what the fingerprint tells is known.
 */
int peermem_load(struct action *action)
{
	bool proven = false;
	int r = choose(action, true, &proven);

	if (r < 0)
		return r;
	if (!peermem_is_bound(action->role))
		return refuse_unbound(action);
	r = insert(action);
	return r == 0 || proven ? r : explain(action, r);
}
