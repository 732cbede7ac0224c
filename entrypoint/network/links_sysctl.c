/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/sys/net has for each interface. A new interface gets the values of "default", so those
 * that differ are what there is to keep (Documentation/networking/ip-sysctl.rst).
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/network/links_parts.h"

static const char *const folders[] = { "ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh",
	"mpls/conf" };

/* No setting of the interface's own: mtu follows it, the tables' sizes belong to all. */
static bool is_passed_over(const char *name)
{
	return strcmp(name, "mtu") == 0 || strncmp(name, "gc_", 3) == 0;
}

static int open_folder(int root_fd, const char *folder, const char *link)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "proc/sys/net/%s/%s", folder, link);
	return openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* "ipv4.conf.rp_filter" */
static void field_name(const char *folder, const char *name, char field[128])
{
	(void) snprintf(field, 128, "%s.%s", folder, name);
	for (char *slash = strchr(field, '/'); slash; slash = strchr(slash, '/'))
		*slash = '.';
}

static int save_value(
	int link_fd, const char *folder, const struct record_field *usual, struct record *record)
{
	_cleanup_free_ char *value = NULL;
	char field[128];

	if (fs_read_line(link_fd, usual->name, &value) < 0 || strcmp(value, usual->value) == 0)
		return 0;
	field_name(folder, usual->name, field);
	return record_set(record, field, value);
}

/* @usual: what a new interface has, and so the names of all there are. */
static int save_folder(int root_fd, const char *folder, const struct record *usual,
	const char *link, struct record *record)
{
	_cleanup_close_ int link_fd = open_folder(root_fd, folder, link);
	int r = 0;

	for (size_t i = 0; r == 0 && link_fd >= 0 && i < usual->count; i++)
		r = save_value(link_fd, folder, &usual->fields[i], record);
	return r;
}

static int read_usual(int root_fd, const char *folder, struct record *usual)
{
	_cleanup_close_ int folder_fd = open_folder(root_fd, folder, "default");
	_cleanup_strv_ struct strv names = { 0 };
	int r = folder_fd < 0 ? 0 : fs_list(folder_fd, ".", &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		_cleanup_free_ char *value = NULL;
		const char *name = names.items[i];

		/* A secret is one only when it was set, and cannot be read before. */
		if (is_passed_over(name))
			continue;
		if (fs_read_line(folder_fd, name, &value) < 0)
			r = record_set(usual, name, "");
		else
			r = record_set(usual, name, value);
	}
	return r == -ENOMEM ? r : 0;
}

static int read_all_usual(struct saved_links *saved)
{
	int r = 0;

	for (size_t i = saved->usual.count; r == 0 && i < ARRAY_SIZE(folders); i++) {
		struct record *usual = records_add(&saved->usual, "usual");

		r = usual ? read_usual(saved->network->root_fd, folders[i], usual) : -ENOMEM;
	}
	return r;
}

int sysctls_save(struct saved_links *saved, const struct link *link, struct error *error)
{
	struct record *record = records_add(saved->records, "sysctls");
	int r = record ? record_set(record, "link", link->name) : -ENOMEM;

	if (r == 0)
		r = read_all_usual(saved);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++)
		r = save_folder(saved->network->root_fd, folders[i], &saved->usual.items[i],
			link->name, record);
	if (r == 0 && record->count == 1)
		records_drop(saved->records);
	return r < 0 ? error_set_errno(error, r, "%s", link->name) : 0;
}

/* ---- restoring */

/* "ipv4.conf.rp_filter" is ipv4/conf/LINK/rp_filter; false for what is none of these. */
static bool path_of(const char *field, const char *link, char *path, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		size_t length = strlen(folders[i]);
		const char *slash = strchr(folders[i], '/');
		size_t first = (size_t) (slash - folders[i]);

		if (strncmp(field, folders[i], first) != 0 || field[first] != '.' ||
			strncmp(field + first + 1, slash + 1, length - first - 1) != 0 ||
			field[length] != '.' || strchr(field + length + 1, '/'))
			continue;
		(void) snprintf(
			path, size, "proc/sys/net/%s/%s/%s", folders[i], link, field + length + 1);
		return true;
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
	const char *name = record_get(record, "link");
	const struct restored_link *link = name ? restored_by_name(restore, name) : NULL;
	const struct link *now = link ? restored_now(restore, link) : NULL;
	char path[192];

	if (!now || link->is_hosts)
		return;
	for (size_t i = 0; i < record->count; i++) {
		const struct record_field *field = &record->fields[i];
		int r;

		if (!path_of(field->name, now->name, path, sizeof(path)))
			continue;
		r = write_value(restore->network->root_fd, path, field->value);
		if (r < 0)
			network_failure(restore->network, restore->result, "/%s=%s: %s", path,
				field->value, strerror(-r));
	}
}

void sysctls_restore(struct links_restore *restore)
{
	for (size_t i = 0; i < restore->records->count; i++)
		if (strcmp(restore->records->items[i].kind, "sysctls") == 0)
			restore_record(restore, &restore->records->items[i]);
}
