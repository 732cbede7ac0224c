/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/sys/net has for each interface. A new interface gets the values of "default", so those
 * that differ are what there is to keep (Documentation/networking/ip-sysctl.rst).
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"

static const char *const folders[] = { "ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh",
	"mpls/conf" };

static int open_folder(int root_fd, const char *folder, const char *link)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "proc/sys/net/%s/%s", folder, link);
	return openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- saving */

/* No setting of the interface's own: mtu follows it, the tables' sizes belong to all. */
static bool is_skipped(const char *name)
{
	return strcmp(name, "mtu") == 0 || strncmp(name, "gc_", 3) == 0;
}

/* What a new interface has; "" for what cannot be read there (stable_secret that was not set). */
static int read_usual(int root_fd, const char *folder, struct record *usual)
{
	_cleanup_close_ int folder_fd = open_folder(root_fd, folder, "default");
	_cleanup_strv_ struct strv names = { 0 };
	int r = folder_fd < 0 ? 0 : fs_list(folder_fd, ".", &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		_cleanup_free_ char *value = NULL;
		const char *name = names.items[i];

		if (!is_skipped(name))
			r = record_set(usual, name,
				fs_read_line(folder_fd, name, &value) == 0 ? value : "");
	}
	return r == -ENOMEM ? r : 0;
}

static int save_folder(
	struct links_save *save, size_t folder, const char *link, struct record *record)
{
	const struct record *usual = &save->usual.items[folder];
	_cleanup_close_ int link_fd = open_folder(save->netstate->root_fd, folders[folder], link);

	for (size_t i = 0; link_fd >= 0 && i < usual->count; i++) {
		_cleanup_free_ char *value = NULL;
		char field[128];

		if (fs_read_line(link_fd, usual->fields[i].name, &value) < 0 ||
			strcmp(value, usual->fields[i].value) == 0)
			continue;
		/* "ipv4.conf.rp_filter" */
		(void) snprintf(
			field, sizeof(field), "%s.%s", folders[folder], usual->fields[i].name);
		*strchr(field, '/') = '.';
		if (record_set(record, field, value) < 0)
			return -ENOMEM;
	}
	return 0;
}

int sysctls_save(struct links_save *save, const struct link *link)
{
	struct record *record;

	while (save->usual.count < ARRAY_SIZE(folders)) {
		const char *folder = folders[save->usual.count];
		struct record *usual = statefile_add(&save->usual, "usual");

		if (!usual || read_usual(save->netstate->root_fd, folder, usual) < 0)
			return -ENOMEM;
	}
	record = statefile_add(save->records, "sysctls");
	if (!record || record_set(record, "link", link->name) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (save_folder(save, i, link->name, record) < 0)
			return -ENOMEM;
	if (record->count == 1)
		statefile_drop(save->records);
	return 0;
}

/* ---- restoring */

/* "ipv4.conf.rp_filter" is ipv4/conf/LINK/rp_filter; false for what is none of these. */
static bool path_of(const char *field, const char *link, char *path, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		size_t length = strlen(folders[i]);
		size_t first = strcspn(folders[i], "/");

		if (strncmp(field, folders[i], first) == 0 && field[first] == '.' &&
			strncmp(field + first + 1, folders[i] + first + 1, length - first - 1) ==
				0 &&
			field[length] == '.' && !strchr(field + length + 1, '/'))
			return (size_t) snprintf(path, size, "proc/sys/net/%s/%s/%s", folders[i],
				       link, field + length + 1) < size;
	}
	return false;
}

static int write_value(int root_fd, const char *path, const char *value)
{
	_cleanup_free_ char *now = NULL;
	_cleanup_close_ int fd = -1;

	if (fs_read_line(root_fd, path, &now) == 0 && strcmp(now, value) == 0)
		return 0;
	fd = openat(root_fd, path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fs_write_all(fd, value, strlen(value));
}

static void restore_record(const struct links_restore *restore, const struct record *record)
{
	const struct restored_link *link = restored_by_name(restore, record_get(record, "link"));
	const struct link *now = link ? restored_now(restore, link) : NULL;
	char path[192];

	if (!now || link->is_hosts)
		return;
	for (size_t i = 0; i < record->count; i++) {
		const struct record_field *field = &record->fields[i];
		int r;

		if (!path_of(field->name, now->name, path, sizeof(path)))
			continue;
		r = write_value(restore->netstate->root_fd, path, field->value);
		if (r < 0)
			netstate_failure(restore->netstate, restore->result, "/%s=%s: %s", path,
				field->value, strerror(-r));
	}
}

void sysctls_restore(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->records->count; i++)
		if (strcmp(restore->records->items[i].kind, "sysctls") == 0)
			restore_record(restore, &restore->records->items[i]);
}
