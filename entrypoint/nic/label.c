/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/label.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/fs.h"

/* Linux include/uapi/linux/xattr.h: XATTR_NAME_SELINUX. */
#define LABEL      "security.selinux"
#define LABEL_SIZE 4096

struct label {
	char text[LABEL_SIZE];
	ssize_t size;
};

/* The calls that take a descriptor want one that is open for more than O_PATH: by its name in
 * /proc they take any, a link's too. */
static int open_by_name(int folder_fd, const char *path, char name[32])
{
	int fd = openat(folder_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	(void) snprintf(name, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static bool read_label(int folder_fd, const char *path, struct label *label)
{
	char name[32];
	_cleanup_close_ int fd = open_by_name(folder_fd, path, name);

	label->size = fd < 0 ? -1 : getxattr(name, LABEL, label->text, sizeof(label->text));
	return label->size > 0;
}

static bool is_regular(int folder_fd, const char *name)
{
	struct stat status;

	return fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode);
}

static bool label_in(int folder_fd, struct label *label)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(folder_fd, ".", &names) < 0)
		return false;
	for (size_t i = 0; i < names.count; i++)
		if (is_regular(folder_fd, names.items[i]) &&
			read_label(folder_fd, names.items[i], label))
			return true;
	return read_label(folder_fd, ".", label);
}

int label_copy(int root_fd, const char *path, const char *like, struct error *error)
{
	_cleanup_close_ int like_fd = openat(root_fd, like, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct label label;
	char name[32];

	if (like_fd < 0 || !label_in(like_fd, &label))
		return 0;
	fd = open_by_name(root_fd, path, name);
	/* A file system without labels of its own gets them by its mount. */
	if (fd < 0 || (setxattr(name, LABEL, label.text, (size_t) label.size, 0) < 0 &&
			      errno != EOPNOTSUPP))
		return error_set_errno(error, -errno, "SELinux label of /%s", path);
	return 0;
}
