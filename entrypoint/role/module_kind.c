/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/module_kind.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/role/pci.h"
#include "module/running.h"

#define OPEN        "open"
#define PROPRIETARY "proprietary"

/*
 * Turing's first device id. Firmware runs on its GPUs and on those after it (the GSP), and
 * the open modules drive no others: the table in open-gpu-kernel-modules' README.md begins at 1E02.
 */
#define FIRST_WITH_GSP 0x1e00

/*
 * Blackwell's first. Neither these nor Grace Hopper's are driven by the proprietary modules: they
 * lack GPU_FLAGS_PROPRIETARY_POSSIBLE in nvGpus.h of nvidia-installer (590.48.01).
 */
#define FIRST_OPEN_ONLY 0x2900
#define GRACE_HOPPER    0x2340 /* and the 15 after it */

#define LOADED "proc/driver/nvidia/version"

bool module_kind_drives(const char *kind, unsigned device)
{
	if (strcmp(kind, OPEN) == 0)
		return device >= FIRST_WITH_GSP;
	return strcmp(kind, PROPRIETARY) != 0 ||
	       (device < FIRST_OPEN_ONLY && (device & ~0xfU) != GRACE_HOPPER);
}

static void other_path(const struct role *role, const char *below, char path[PATH_MAX])
{
	(void) snprintf(path, PATH_MAX, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OTHER "%s",
		role->krel, below);
}

bool module_kind_has_both(const void *data)
{
	const struct role *role = data;
	char path[PATH_MAX];

	other_path(role, "", path);
	return fs_exists(role->root_fd, path);
}

/* Sidecars have to go with the driver that is there. */
static const char *loaded_kind(const struct role *role, const char *in_place)
{
	_cleanup_free_ char *line = NULL;

	if (fs_read_line(role->root_fd, LOADED, &line) < 0)
		return in_place;
	return strstr(line, "Open Kernel Module") ? OPEN : PROPRIETARY;
}

/* A node with a GPU for each kind gets the open ones: what is newer is driven, the rest reported.
 */
static const char *wanted_kind(const struct role *role, const char *in_place)
{
	const char *asked = getenv("KERNEL_MODULE_TYPE");
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(role->root_fd, &functions);
	bool open = true, proprietary = true;

	for (int i = 0; i < count; i++) {
		if (functions[i].kind != PCI_GPU)
			continue;
		open &= module_kind_drives(OPEN, functions[i].device);
		proprietary &= module_kind_drives(PROPRIETARY, functions[i].device);
	}
	if (open != proprietary)
		return open ? OPEN : PROPRIETARY;
	if (!open)
		return OPEN;
	if (asked && (strcmp(asked, OPEN) == 0 || strcmp(asked, PROPRIETARY) == 0))
		return asked;
	return in_place;
}

/* image.conf last: what it says is in place then. */
static int copy_facts(const struct role *role)
{
	_cleanup_strv_ struct strv names = { 0 };
	char from[PATH_MAX], path[PATH_MAX];
	int r;

	other_path(role, "/" KERNEL_FACTS_OTHER_FACTS, from);
	r = fs_list(role->root_fd, from, &names);
	(void) snprintf(
		path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, role->krel);
	if (r == 0)
		r = fs_remove_tree(role->root_fd, path);
	if (r == 0)
		r = strv_push(&names, KERNEL_FACTS_IMAGE);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		if (i + 1 < names.count && strcmp(names.items[i], KERNEL_FACTS_IMAGE) == 0)
			continue;
		(void) snprintf(from, sizeof(from),
			KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OTHER "/" KERNEL_FACTS_OTHER_FACTS
					    "/%s",
			role->krel, names.items[i]);
		(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/%s", role->krel,
			names.items[i]);
		r = copy_tree(role->root_fd, from, role->root_fd, path);
	}
	return r;
}

int module_kind_choose(struct action *action)
{
	const struct role *role = action->role;
	struct image image;
	const char *kind;
	char from[PATH_MAX], path[PATH_MAX];
	int r;

	if (!module_kind_has_both(role))
		return 0;
	image_read(role->root_fd, role->krel, &image);
	kind = strcmp(role->name, "gpu") == 0 ? wanted_kind(role, image.kernel_module_type)
					      : loaded_kind(role, image.kernel_module_type);
	if (strcmp(kind, image.kernel_module_type) == 0)
		return 0;
	(void) snprintf(path, sizeof(path), "lib/modules/%s", role->krel);
	other_path(role, "/" KERNEL_FACTS_OTHER_MODULES, from);
	r = fs_remove_tree(role->root_fd, path);
	if (r == 0)
		r = copy_tree(role->root_fd, from, role->root_fd, path);
	if (r == 0)
		r = copy_facts(role);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r,
			"the %s modules of the image cannot be put into /%s: %s", kind, path,
			strerror(-r));
	worker_report(action->worker, WORKER_NOTE, 0,
		"of the image's two kinds of modules this node gets the %s ones", kind);
	return 0;
}
