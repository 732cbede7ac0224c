/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/module_kind.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

#define NEW ".new"

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
static const char *wanted_kind(const struct role *role, const char *asked, const char *in_place)
{
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

static const char *gpu_kind(const struct action *action, const char *in_place)
{
	const char *asked = getenv("KERNEL_MODULE_TYPE");
	const char *kind = wanted_kind(action->role, asked, in_place);

	if (!asked || !*asked || strcmp(asked, "auto") == 0 || strcmp(asked, kind) == 0)
		return kind;
	if (strcmp(asked, OPEN) == 0 || strcmp(asked, PROPRIETARY) == 0)
		worker_report(action->worker, WORKER_NOTE, 0,
			"KERNEL_MODULE_TYPE asks for the %s modules, which do not drive all of this node's GPUs: using the %s ones",
			asked, kind);
	else
		worker_report(action->worker, WORKER_NOTE, 0,
			"KERNEL_MODULE_TYPE is %.64s, not open, proprietary or auto: using the %s modules",
			asked, kind);
	return kind;
}

/*
 * Puts a copy of @from at @path, a file at once. The copy has another name until it is whole. A
 * folder of the image's own is removed first: on an overlay it can neither be renamed nor
 * exchanged (EXDEV).
 */
static int replace(const struct role *role, const char *from, const char *path)
{
	char fresh[PATH_MAX];
	struct stat status;
	int r;

	(void) snprintf(fresh, sizeof(fresh), "%.4000s" NEW, path);
	r = fs_remove_tree(role->root_fd, fresh);
	if (r == 0)
		r = copy_tree(role->root_fd, from, role->root_fd, fresh);
	if (r == 0 && fstatat(role->root_fd, fresh, &status, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && S_ISDIR(status.st_mode))
		r = fs_remove_tree(role->root_fd, path);
	if (r == 0 && renameat(role->root_fd, fresh, role->root_fd, path) < 0)
		r = -errno;
	return r;
}

/* In the folder of facts: the other kind's own folder, and what is replaced last. */
static bool is_kept(const char *name)
{
	return strcmp(name, KERNEL_FACTS_OTHER) == 0 || strcmp(name, KERNEL_FACTS_IMAGE) == 0;
}

/*
 * Makes the folder @to what @from is, but for the other kind's folder and image.conf. At no time
 * it lacks a file that both have, such as modules.dep, by which a start that follows a kill knows
 * that the image is for this kernel.
 */
static int take_folder(const struct role *role, const char *from, const char *to)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv old = { 0 };
	char source[PATH_MAX], path[PATH_MAX];
	int r = fs_list(role->root_fd, from, &names);

	if (r == 0)
		r = fs_list(role->root_fd, to, &old);
	for (size_t i = 0; i < old.count && r == 0; i++) {
		if (strv_contains(&names, old.items[i]) || is_kept(old.items[i]))
			continue;
		(void) snprintf(path, sizeof(path), "%.3000s/%s", to, old.items[i]);
		r = fs_remove_tree(role->root_fd, path);
	}
	for (size_t i = 0; i < names.count && r == 0; i++) {
		if (is_kept(names.items[i]))
			continue;
		(void) snprintf(source, sizeof(source), "%.3000s/%s", from, names.items[i]);
		(void) snprintf(path, sizeof(path), "%.3000s/%s", to, names.items[i]);
		r = replace(role, source, path);
	}
	return r;
}

/* image.conf last: what it says is in place then, and without it the next start does it again. */
static int put_other_in_place(const struct role *role)
{
	char from[PATH_MAX], path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "lib/modules/%s", role->krel);
	other_path(role, "/" KERNEL_FACTS_OTHER_MODULES, from);
	r = take_folder(role, from, path);
	if (r < 0)
		return r;
	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s", role->krel);
	other_path(role, "/" KERNEL_FACTS_OTHER_FACTS, from);
	r = take_folder(role, from, path);
	if (r < 0)
		return r;
	(void) snprintf(
		path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, role->krel);
	other_path(role, "/" KERNEL_FACTS_OTHER_FACTS "/" KERNEL_FACTS_IMAGE, from);
	return replace(role, from, path);
}

int module_kind_choose(struct action *action)
{
	const struct role *role = action->role;
	struct image_conf image;
	const char *kind;
	int r;

	if (!module_kind_has_both(role))
		return 0;
	image_read(role->root_fd, role->krel, &image);
	kind = strcmp(role->name, "gpu") == 0 ? gpu_kind(action, image.kernel_module_type)
					      : loaded_kind(role, image.kernel_module_type);
	if (strcmp(kind, image.kernel_module_type) == 0)
		return 0;
	r = put_other_in_place(role);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r,
			"the %s modules of the image cannot be put into /lib/modules/%s: %s", kind,
			role->krel, strerror(-r));
	worker_report(action->worker, WORKER_NOTE, 0,
		"the image has both kinds of modules: using the %s ones", kind);
	return 0;
}
