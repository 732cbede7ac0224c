/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/variant.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/chase.h"
#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/fingerprint.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/role/role.h"
#include "module/kernel_facts.h"
#include "module/symvers.h"

#define VARIANT_PATH_SIZE 1024

#define MODULE_SIZE_MAX (16UL << 20)

int peermem_path(const void *context, char *path, size_t size)
{
	const struct role *role = context;

	(void) snprintf(path, size, "lib/modules/%s/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE,
		role->krel);
	if (fs_exists(role->root_fd, path))
		return 0;
	if (!role->peermem || !role->peermem->always)
		return -ENOENT;
	/* What the pod's driver container compiled lies in its root, and not in this one's. */
	(void) snprintf(path, size,
		CONTRACT_DRIVER_ROOT "/lib/modules/%s/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE,
		role->krel);
	return fs_exists(role->root_fd, path) ? 0 : -ENOENT;
}

uint32_t peermem_file_crc(const void *context)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const struct role *role = context;
	struct error ignored;
	char path[PATH_MAX];
	uint32_t crc = 0;

	if (peermem_path(role, path, sizeof(path)) < 0 ||
		elf_module_open(role->root_fd, path, &module, &ignored) < 0 ||
		!elf_module_version(module, CONTRACT_PEER_REGISTER, &crc))
		return 0;
	return crc;
}

bool peermem_is_bound(const void *context)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const struct elf_undefined *used;
	const struct role *role = context;
	struct error ignored;
	char path[PATH_MAX];
	size_t count;

	if (peermem_path(role, path, sizeof(path)) < 0 ||
		elf_module_open(role->root_fd, path, &module, &ignored) < 0)
		return true;
	used = elf_module_undefined_symbols(module, &count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(used[i].name, CONTRACT_PEER_REGISTER) == 0)
			return true;
	return false;
}

static int list_symvers(const struct role *role, const char *base, struct strv *paths)
{
	struct utsname system;

	(void) uname(&system);
	if (strv_pushf(paths, "%s/%s/%s/Module.symvers", base, system.machine, role->krel) < 0 ||
		strv_pushf(paths, "%s/%s/Module.symvers", base, role->krel) < 0)
		return -ENOMEM;
	return strv_pushf(paths, "%s/default/Module.symvers", base);
}

/* Where the list of OFED's exports lies. Links in the host's tree mean what they mean there. */
static int find_symvers(const struct role *role, char *path, size_t size)
{
	const char *top = role->options.host_ofed ? CONTRACT_GPU_HOST_ROOT : ".";
	_cleanup_close_ int top_fd = openat(role->root_fd, top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv paths = { 0 };
	int r = list_symvers(role,
		role->options.host_ofed ? "usr/src/ofa_kernel"
					: CONTRACT_OFED_SOURCES "/ofa_kernel",
		&paths);

	for (size_t i = 0; r == 0 && top_fd >= 0 && i < paths.count; i++) {
		_cleanup_free_ char *real = NULL;

		if (chase(top_fd, paths.items[i], &real) < 0)
			continue;
		(void) snprintf(path, size, "%s/%s", top, real);
		return 0;
	}
	return -ENOENT;
}

static uint32_t listed_crc(const struct role *role)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error ignored;
	char path[PATH_MAX];

	if (find_symvers(role, path, sizeof(path)) < 0 ||
		symvers_open(role->root_fd, path, &symvers, &ignored) < 0)
		return 0;
	entry = symvers_find(symvers, CONTRACT_PEER_REGISTER);
	return entry ? entry->crc : 0;
}

uint32_t peermem_wanted_crc(const void *context, bool *ret_proven)
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	const struct role *role = context;

	*ret_proven = fingerprint_read(role->root_fd, &ofed);
	return *ret_proven ? ofed.crc : listed_crc(role);
}

/* Does the variant in @folder fit? Its version is remembered, for what is said of it. */
static bool fits(struct role *role, const char *folder, uint32_t crc)
{
	_cleanup_free_ char *text = NULL;
	char path[VARIANT_PATH_SIZE];
	char value[64];

	(void) snprintf(path, sizeof(path), "%s/" KERNEL_FACTS_PEERMEM_CONF, folder);
	if (fs_read(role->root_fd, path, 65536, &text, NULL) < 0)
		return false;
	conf_value(text, "crc", value, sizeof(value));
	if (!*value || strtoul(value, NULL, 16) != crc)
		return false;
	conf_value(
		text, "ofed_version", role->image.ofed_version, sizeof(role->image.ofed_version));
	conf_value(text, "ofed_exporter", role->image.ofed_exporter,
		sizeof(role->image.ofed_exporter));
	return true;
}

static int copy(int root_fd, const char *folder, const char *file, const char *to)
{
	_cleanup_free_ char *data = NULL;
	char from[VARIANT_PATH_SIZE];
	size_t size;
	int r;

	(void) snprintf(from, sizeof(from), "%s/%s", folder, file);
	r = fs_read(root_fd, from, MODULE_SIZE_MAX, &data, &size);
	return r < 0 ? r : fs_write_atomic(root_fd, to, data, size, 0644);
}

/* The module, and the list of the OFED that it is bound to. */
static int put(struct action *action, const char *folder)
{
	const struct role *role = action->role;
	char path[PATH_MAX];
	int r;

	(void) peermem_path(role, path, sizeof(path));
	r = copy(role->root_fd, folder, KERNEL_FACTS_PEERMEM_MODULE, path);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "/%s cannot be replaced: %s", path,
			strerror(-r));
	(void) snprintf(
		path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OFED, role->krel);
	r = copy(role->root_fd, folder, KERNEL_FACTS_OFED, path);
	if (r < 0 && r != -ENOENT)
		return action_fail(action, REASON_INTERNAL, r, "/%s cannot be replaced: %s", path,
			strerror(-r));
	worker_report(action->worker, WORKER_NOTE, 0,
		"of the image's nvidia-peermems, the one for OFED %s fits",
		*role->image.ofed_version ? role->image.ofed_version : "of unknown version");
	return 1;
}

int peermem_choose(struct action *action, uint32_t crc)
{
	struct role *role = action->role;
	_cleanup_strv_ struct strv variants = { 0 };
	char base[256];

	if (peermem_file_crc(role) == crc)
		return 1;
	(void) snprintf(
		base, sizeof(base), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, role->krel);
	if (fs_list(role->root_fd, base, &variants) < 0)
		return 0; /* one peermem, which does not fit */
	for (size_t i = 0; i < variants.count; i++) {
		char folder[VARIANT_PATH_SIZE - 64];

		(void) snprintf(folder, sizeof(folder), "%s/%s", base, variants.items[i]);
		if (fits(role, folder, crc))
			return put(action, folder);
	}
	return 0;
}
