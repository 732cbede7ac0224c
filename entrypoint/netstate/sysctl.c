/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/sys/net has for each interface. A new interface gets the values of "default", so those
 * that differ are what there is to keep (Documentation/networking/ip-sysctl.rst).
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"
#include "entrypoint/role/pci.h"

#define ROOT "proc/sys/net"

/* In a record "ipv4.conf.rp_filter" is ipv4/conf/LINK/rp_filter. */
static const struct {
	const char *folder;
	const char *prefix;
} folders[] = {
	{ "ipv4/conf", "ipv4.conf." },
	{ "ipv4/neigh", "ipv4.neigh." },
	{ "ipv6/conf", "ipv6.conf." },
	{ "ipv6/neigh", "ipv6.neigh." },
	{ "mpls/conf", "mpls.conf." },
};

static int open_folder(int root_fd, const char *folder, const char *link)
{
	char path[128];

	(void) snprintf(path, sizeof(path), ROOT "/%s/%s", folder, link);
	return openat(root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What cannot be read of "default" (stable_secret that was not set) is "". */
static int save_folder(int usual_fd, int link_fd, const char *prefix, struct record *record)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(link_fd, ".", &names);

	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *usual = NULL;
		_cleanup_free_ char *value = NULL;
		char field[128];

		/* No setting of the interface's own: mtu follows it, tables' sizes are for all. */
		if (strcmp(name, "mtu") == 0 || strncmp(name, "gc_", 3) == 0 ||
			!fs_exists(usual_fd, name) || fs_read_line(link_fd, name, &value) < 0)
			continue;
		if (strcmp(value, fs_read_line(usual_fd, name, &usual) == 0 ? usual : "") == 0)
			continue;
		(void) snprintf(field, sizeof(field), "%s%s", prefix, name);
		if (record_set(record, field, value) < 0)
			return -ENOMEM;
	}
	return r == -ENOMEM ? r : 0;
}

int sysctls_save(const struct links_save *save, const struct link *link)
{
	int root_fd = save->run->netstate->root_fd;
	struct record *record =
		records_add(save->run->records, "sysctls", "link", link->name, NULL, NULL);

	if (!record)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_close_ int usual_fd = open_folder(root_fd, folders[i].folder, "default");
		_cleanup_close_ int link_fd = open_folder(root_fd, folders[i].folder, link->name);

		if (save_folder(usual_fd, link_fd, folders[i].prefix, record) < 0)
			return -ENOMEM;
	}
	if (record->count == 1)
		statefile_drop(save->run->records);
	return 0;
}

/* False for a field that is no setting. */
static bool path_of(const char *field, const char *link, char *path, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		size_t length = strlen(folders[i].prefix);

		if (strncmp(field, folders[i].prefix, length) == 0 && !strchr(field + length, '/'))
			return (size_t) snprintf(path, size, ROOT "/%s/%s/%s", folders[i].folder,
				       link, field + length) < size;
	}
	return false;
}

static void restore_field(const struct run *run, const char *link, const struct record_field *field)
{
	int root_fd = run->netstate->root_fd;
	_cleanup_free_ char *current = NULL;
	char path[192];
	int r;

	if (!path_of(field->name, link, path, sizeof(path)) ||
		(fs_read_line(root_fd, path, &current) == 0 && strcmp(current, field->value) == 0))
		return;
	r = sysfs_put(root_fd, field->value, "%s", path);
	if (r < 0)
		run_failure(run, "/%s=%s: %s", path, field->value, strerror(-r));
}

void sysctls_restore(const struct links_restore *restore)
{
	const struct record *record = NULL;

	while ((record = records_next(restore->run->records, "sysctls", record))) {
		const struct restored_link *link =
			restored_by_name(restore, record_get(record, "link"));

		for (size_t i = 0; link && link->now && !link->is_hosts && i < record->count; i++)
			restore_field(restore->run, link->now->name, &record->fields[i]);
	}
}
