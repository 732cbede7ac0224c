/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/role/mounts.h"

static bool leads_to(int folder_fd, const char *name, const char *target)
{
	char there[PATH_MAX];
	ssize_t size = readlinkat(folder_fd, name, there, sizeof(there) - 1);

	there[size < 0 ? 0 : size] = '\0';
	return strcmp(there, target) == 0;
}

static bool is_folder(int folder_fd, const char *name)
{
	struct stat status;

	return fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(status.st_mode);
}

static int make_link(int folder_fd, const char *name, const char *target, struct error *error)
{
	char new_name[300];

	if (leads_to(folder_fd, name, target) || is_folder(folder_fd, name))
		return 0;
	(void) snprintf(new_name, sizeof(new_name), "%s.new", name);
	(void) unlinkat(folder_fd, new_name, 0);
	if (symlinkat(target, folder_fd, new_name) < 0 ||
		renameat(folder_fd, new_name, folder_fd, name) < 0)
		return error_set_errno(error, -errno, "link ofa_kernel/%s", name);
	return 0;
}

int sources_link(
	int root_fd, const char *sources, const char *arch, const char *krel, struct error *error)
{
	_cleanup_close_ int folder_fd = -1;
	char folder[PATH_MAX], target[300], symvers[400];
	int r;

	(void) snprintf(folder, sizeof(folder), "%s/ofa_kernel", sources);
	(void) snprintf(target, sizeof(target), "%s/%s", arch, krel);
	(void) snprintf(symvers, sizeof(symvers), "%s/Module.symvers", target);
	folder_fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0 || !fs_exists(folder_fd, symvers))
		return error_set(error, -ENOENT,
			"/%s/%s is not there: nvidia-peermem cannot be compiled against this OFED",
			folder, symvers);
	r = make_link(folder_fd, "default", target, error);
	return r < 0 ? r : make_link(folder_fd, krel, target, error);
}

static void note(struct action *action, const char *text)
{
	struct role *role = action->role;

	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text);
}

/* Without them the modules serve all the same. */
static void link_all(struct action *action)
{
	const struct nic *nic = nic_of(action->role);
	struct utsname system;
	struct error why = { "" };

	(void) uname(&system);
	if (sources_link(nic->role.root_fd, nic->inputs.sources, system.machine, nic->role.krel,
		    &why) < 0)
		note(action, why.text);
}

int nic_export_sources(struct action *action)
{
	const struct nic *nic = nic_of(action->role);
	char source[PATH_MAX];

	link_all(action);
	(void) snprintf(source, sizeof(source), "/%s", nic->inputs.sources);
	return action_reason(action, REASON_MOUNT_FAILED,
		rootfs_bind_over(
			nic->role.root_fd, source, nic->inputs.shown_sources, &action->error));
}

int nic_detach_sources(struct action *action)
{
	return action_reason(action, REASON_MOUNT_FAILED,
		rootfs_detach(nic_of(action->role)->inputs.shown_sources, &action->error));
}
