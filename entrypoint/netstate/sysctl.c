/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of each interface in /proc/sys/net. A new interface gets the values of "default", so
 * only those that differ are kept (Documentation/networking/ip-sysctl.rst). Also RoCE's congestion
 * control, which OFED's mlx5_core has below ecn/ of an interface in /sys/class/net: all of it, for
 * it has no defaults to compare with.
 */
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"
#include "entrypoint/role/pci.h"

#define ROOT "proc/sys/net"
#define NET  "sys/class/net"
#define ECN  "ecn."

/* In a record "ipv4.conf.rp_filter" is ipv4/conf/LINK/rp_filter. */
static const struct folder {
	const char *folder;
	const char *below; /* the interface's name */
	const char *prefix;
} folders[] = {
	{ ROOT "/ipv4/conf", "", "ipv4.conf." },
	{ ROOT "/ipv4/neigh", "", "ipv4.neigh." },
	{ ROOT "/ipv6/conf", "", "ipv6.conf." },
	{ ROOT "/ipv6/neigh", "", "ipv6.neigh." },
	{ ROOT "/mpls/conf", "", "mpls.conf." },
	/* One whose prefix is another's beginning comes before that. */
	{ NET, "/ecn/roce_np/enable", ECN "roce_np.enable." },
	{ NET, "/ecn/roce_np", ECN "roce_np." },
	{ NET, "/ecn/roce_rp/enable", ECN "roce_rp.enable." },
	{ NET, "/ecn/roce_rp", ECN "roce_rp." },
};

static bool is_ecn(const char *field)
{
	return strncmp(field, ECN, strlen(ECN)) == 0;
}

/* False for a field that is no setting. */
static bool path_of(const char *field, const char *link, char *path, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		size_t length = strlen(folders[i].prefix);

		if (strncmp(field, folders[i].prefix, length) == 0 && !strchr(field + length, '/'))
			return (size_t) snprintf(path, size, "%s/%s%s/%s", folders[i].folder, link,
				       folders[i].below, field + length) < size;
	}
	return false;
}

/*
 * Reads a new interface's values; "" for those that cannot be read (stable_secret, when not set).
 */
static int read_defaults(int root_fd, struct record *defaults)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv names = { 0 };
		char path[192];
		char field[128];

		if (is_ecn(folders[i].prefix))
			continue;
		(void) snprintf(path, sizeof(path), "%s/default", folders[i].folder);
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

static int save_ecn(
	int root_fd, const struct folder *folder, const char *link, struct record *record)
{
	_cleanup_strv_ struct strv names = { 0 };
	char path[192];

	(void) snprintf(path, sizeof(path), "%s/%s%s", folder->folder, link, folder->below);
	if (fs_list(root_fd, path, &names) == -ENOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *value = NULL;
		struct stat st;
		char field[128];

		(void) snprintf(field, sizeof(field), "%s%s", folder->prefix, names.items[i]);
		if (path_of(field, link, path, sizeof(path)) &&
			fstatat(root_fd, path, &st, 0) == 0 && S_ISREG(st.st_mode) &&
			(st.st_mode & S_IWUSR) && fs_read_line(root_fd, path, &value) == 0 &&
			record_set_text(record, field, value) < 0)
			return -ENOMEM;
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
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (is_ecn(folders[i].prefix) &&
			save_ecn(run->netstate->root_fd, &folders[i], link, record) < 0)
			return -ENOMEM;
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

/* False: it is a setting of OFED's that this driver does not have. */
static bool restore_field(const struct run *run, const char *link, const struct record_field *field)
{
	int root_fd = run->netstate->root_fd;
	_cleanup_free_ char *current = NULL;
	char path[192];
	int r;

	if (!path_of(field->name, link, path, sizeof(path)) ||
		(fs_read_line(root_fd, path, &current) == 0 && strcmp(current, field->value) == 0))
		return true;
	if (is_ecn(field->name) && !fs_exists(root_fd, path))
		return false;
	r = sysfs_put(root_fd, field->value, "%s", path);
	if (r < 0)
		run_failure(run, "/%s=%s: %s", path, field->value, strerror(-r));
	return true;
}

/* All of ecn/ is saved, set or not: that a driver lacks it is no failure. */
static void restore_link(
	const struct links_restore *restore, const struct record *record, const char *link)
{
	const struct record_field *first = NULL;
	size_t lacks = 0;

	for (size_t i = 0; i < record->count; i++) {
		if (restore_field(restore->run, link, &record->fields[i]))
			continue;
		if (lacks++ == 0)
			first = &record->fields[i];
	}
	if (first)
		run_note(restore->run,
			"%s: this driver lacks %zu settings of RoCE congestion control, first "
			"%s=%s",
			link, lacks, first->name, first->value);
}

void sysctls_restore(const struct links_restore *restore)
{
	const struct record *record = NULL;

	while ((record = records_next(restore->run->records, "sysctls", record))) {
		const struct restored_link *link =
			restored_by_name(restore, record_get(record, "link"));

		if (link && link->now && !link->is_hosts)
			restore_link(restore, record, link->now->name);
	}
}
