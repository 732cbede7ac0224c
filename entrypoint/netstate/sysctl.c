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
	return openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

		/* No setting of the interface's own: mtu follows it, tables' sizes are for all. */
		if (strcmp(name, "mtu") != 0 && strncmp(name, "gc_", 3) != 0)
			r = record_set(usual, name,
				fs_read_line(folder_fd, name, &value) == 0 ? value : "");
	}
	return r == -ENOMEM ? r : 0;
}

int sysctls_save(struct links_save *save, const struct link *link)
{
	int root_fd = save->run->netstate->root_fd;
	struct record *record;

	while (save->usual.count < ARRAY_SIZE(folders)) {
		const char *folder = folders[save->usual.count].folder;
		struct record *usual = statefile_add(&save->usual, "usual");

		if (!usual || read_usual(root_fd, folder, usual) < 0)
			return -ENOMEM;
	}
	record = records_add(save->run->records, "sysctls", "link", link->name, NULL);
	if (!record)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		const struct record *usual = &save->usual.items[i];
		_cleanup_close_ int link_fd = open_folder(root_fd, folders[i].folder, link->name);

		for (size_t k = 0; link_fd >= 0 && k < usual->count; k++) {
			_cleanup_free_ char *value = NULL;
			char field[128];

			if (fs_read_line(link_fd, usual->fields[k].name, &value) < 0 ||
				strcmp(value, usual->fields[k].value) == 0)
				continue;
			(void) snprintf(field, sizeof(field), "%s%s", folders[i].prefix,
				usual->fields[k].name);
			if (record_set(record, field, value) < 0)
				return -ENOMEM;
		}
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

static void restore_record(const struct links_restore *restore, const struct record *record)
{
	const struct restored_link *link = restored_by_name(restore, record_get(record, "link"));
	int root_fd = restore->run->netstate->root_fd;

	if (!link || !link->now || link->is_hosts)
		return;
	for (size_t i = 0; i < record->count; i++) {
		_cleanup_free_ char *current = NULL;
		const char *value = record->fields[i].value;
		char path[192];
		int r;

		if (!path_of(record->fields[i].name, link->now->name, path, sizeof(path)) ||
			(fs_read_line(root_fd, path, &current) == 0 && strcmp(current, value) == 0))
			continue;
		r = sysfs_put(root_fd, value, "%s", path);
		if (r < 0)
			run_failure(restore->run, "/%s=%s: %s", path, value, strerror(-r));
	}
}

void sysctls_restore(const struct links_restore *restore)
{
	const struct record *record = NULL;

	while ((record = records_next(restore->run->records, "sysctls", record)))
		restore_record(restore, record);
}
