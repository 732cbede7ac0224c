/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/sys/net has for each interface. A new interface gets the values of "default", so those
 * that differ are what there is to keep (Documentation/networking/ip-sysctl.rst).
 */
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

/* What a new interface has; "" for what cannot be read there (stable_secret that was not set). */
static int read_defaults(int root_fd, struct record *defaults)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv names = { 0 };
		char path[192];
		char field[128];

		(void) snprintf(path, sizeof(path), ROOT "/%s/default", folders[i].folder);
		if (fs_list(root_fd, path, &names) == -ENOMEM)
			return -ENOMEM;
		for (size_t k = 0; k < names.count; k++) {
			const char *name = names.items[k];
			_cleanup_free_ char *value = NULL;

			/* No setting of its own: mtu follows it, tables' sizes are for all. */
			if (strcmp(name, "mtu") == 0 || strncmp(name, "gc_", 3) == 0)
				continue;
			(void) snprintf(field, sizeof(field), "%s%s", folders[i].prefix, name);
			if (path_of(field, "default", path, sizeof(path)) &&
				record_set(defaults, field,
					fs_read_line(root_fd, path, &value) == 0 ? value : "") < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int save_link(const struct run *run, const struct record *defaults, const char *link)
{
	struct record *record = records_add(run->records, "sysctls", "link", link, NULL, NULL);

	if (!record)
		return -ENOMEM;
	for (size_t i = 0; i < defaults->count; i++) {
		const struct record_field *usual = &defaults->fields[i];
		_cleanup_free_ char *value = NULL;
		char path[192];

		if (path_of(usual->name, link, path, sizeof(path)) &&
			fs_read_line(run->netstate->root_fd, path, &value) == 0 &&
			strcmp(value, usual->value) != 0 &&
			record_set(record, usual->name, value) < 0)
			return -ENOMEM;
	}
	if (record->count == 1)
		statefile_drop(run->records);
	return 0;
}

int sysctls_save(const struct links_save *save)
{
	_cleanup_(statefile_free) struct statefile memory = { 0 };
	struct record *defaults = statefile_add(&memory, "defaults");

	if (!defaults || read_defaults(save->run->netstate->root_fd, defaults) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < save->count; i++)
		if (save_link(save->run, defaults, save->order[i]->name) < 0)
			return -ENOMEM;
	return 0;
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
