/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/prove.h"

#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/fingerprint.h"
#include "entrypoint/load.h"
#include "entrypoint/role.h"
#include "module/sysmodule.h"
#include "module/elf_module.h"
#include "module/symvers.h"

static int open_module(const struct role *role, struct loader *loader, const char *name,
	struct elf_module **ret, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = loader_file(loader, name, &path, error);

	return r < 0 ? r : elf_module_open(role->root_fd, path, ret, error);
}

/* Where OFED's container, or the host with OFED of its own, shows the symvers of what it loaded. */
static int open_ofed_symvers(const struct role *role, struct symvers **ret, struct error *error)
{
	struct utsname system;
	char path[3][PATH_MAX];

	(void) uname(&system);
	(void) snprintf(path[0], PATH_MAX, "%s/ofa_kernel/%s/%s/Module.symvers",
		CONTRACT_OFED_SOURCES, system.machine, role->krel);
	(void) snprintf(path[1], PATH_MAX, "%s/ofa_kernel/%s/Module.symvers", CONTRACT_OFED_SOURCES,
		role->krel);
	(void) snprintf(
		path[2], PATH_MAX, "%s/ofa_kernel/default/Module.symvers", CONTRACT_OFED_SOURCES);
	for (size_t i = 0; i < ARRAY_SIZE(path); i++)
		if (fs_exists(role->root_fd, path[i]))
			return symvers_open(role->root_fd, path[i], ret, error);
	return error_set(
		error, -ENOENT, "no ofa_kernel/…/Module.symvers under /%s", CONTRACT_OFED_SOURCES);
}

static int refuse_unbound(struct action *action, const struct role *role)
{
	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"nvidia_peermem asks for no %s: it was built without OFED. Build the GPU image "
		"with slipway build --kernel %s --ofed <the OFED of the NIC image>, or leave %s "
		"unset",
		CONTRACT_PEER_REGISTER, role->krel, CONTRACT_ENV_RDMA);
}

/* 1: it does, 0: it does not. */
static int asks_for_peer_memory(const struct elf_module *peermem, struct error *error)
{
	_cleanup_strv_ struct strv undefined = { 0 };
	int r = elf_module_undefined(peermem, true, &undefined);

	if (r < 0)
		return error_set_errno(error, r, "symbols of nvidia_peermem");
	return strv_contains(&undefined, CONTRACT_PEER_REGISTER);
}

static int compare_peer_crc(struct action *action, uint32_t wanted, const struct fingerprint *ofed)
{
	const struct role *role = action->role;

	if (ofed->crc == wanted)
		return 0;
	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"nvidia_peermem: built for %s CRC 0x%08x (OFED %s), but the loaded OFED's %s "
		"exports 0x%08x: build the GPU image again with --ofed set to the OFED that is "
		"loaded",
		CONTRACT_PEER_REGISTER, wanted,
		*role->image.ofed_version ? role->image.ofed_version : "of unknown version",
		ofed->exporter, ofed->crc);
}

/* What the loaded OFED exports: by the NIC container's word, else by the symvers that are shown. */
static int find_exported(const struct role *role, struct fingerprint *ret, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	int r;

	if (fingerprint_read(role->root_fd, ret))
		return 0;
	r = open_ofed_symvers(role, &symvers, error);
	if (r < 0)
		return r;
	entry = symvers_find(symvers, CONTRACT_PEER_REGISTER);
	if (!entry)
		return error_set(error, -ENOENT, "OFED's Module.symvers does not list %s",
			CONTRACT_PEER_REGISTER);
	symvers_module_name(entry, ret->exporter, sizeof(ret->exporter));
	ret->crc = entry->crc;
	return 0;
}

static int check_peermem(struct action *action, struct loader *loader)
{
	const struct role *role = action->role;
	_cleanup_(elf_module_close) struct elf_module *peermem = NULL;
	struct error error = { "" };
	struct fingerprint ofed;
	uint32_t wanted;
	int r = open_module(role, loader, "nvidia_peermem", &peermem, &action->error);

	if (r < 0)
		return action_reason(action, REASON_WILL_NOT_LOAD, r);
	r = asks_for_peer_memory(peermem, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (r == 0)
		return refuse_unbound(action, role);
	if (!elf_module_version(peermem, CONTRACT_PEER_REGISTER, &wanted))
		return 0; /* a kernel without MODVERSIONS: there is nothing to compare */
	if (find_exported(role, &ofed, &error) == 0)
		return compare_peer_crc(action, wanted, &ofed);
	worker_tell(action->worker, WORKER_NOTE, 0,
		"cannot tell whether nvidia_peermem fits the loaded OFED (%s): the kernel will "
		"judge",
		error.text);
	return 0;
}

/* The first word of vermagic is the krel that a module was built for (linux/vermagic.h). */
static int check_vermagic(struct action *action, struct loader *loader, const char *name)
{
	const struct role *role = action->role;
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const char *vermagic;
	size_t length = strlen(role->krel);
	int r = open_module(role, loader, name, &module, &action->error);

	if (r < 0)
		return action_reason(action, REASON_WILL_NOT_LOAD, r);
	vermagic = elf_module_info(module, "vermagic");
	if (vermagic && strncmp(vermagic, role->krel, length) == 0 && vermagic[length] == ' ')
		return 0;
	return action_fail(action, REASON_WILL_NOT_LOAD, -ENOEXEC,
		"%s: built for \"%s\", the running kernel is %s: use an image for this kernel",
		name, vermagic ? vermagic : "a kernel that it does not name", role->krel);
}

static int open_tree(struct action *action, struct loader **ret)
{
	const struct role *role = action->role;
	int r = loader_open(role->root_fd, "", role->krel, ret, &action->error);

	return action_reason(action, REASON_INTERNAL, r);
}

int prove_modules(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = open_tree(action, &loader);

	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++)
		r = check_vermagic(action, loader, role->driver_modules.items[i]);
	if (r == 0 && role->options.rdma && strcmp(role->name, "gpu") == 0)
		r = check_peermem(action, loader);
	return r;
}

int prove_peermem(struct action *action)
{
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = open_tree(action, &loader);

	return r < 0 ? r : check_peermem(action, loader);
}
