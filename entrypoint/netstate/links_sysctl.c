/* SPDX-License-Identifier: Apache-2.0 */
/* What of /proc/sys/net links_sysctl_save.c put into the journal, again. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/links_parts.h"

static const char *const folders[] = { "ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh",
	"mpls/conf" };

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
		return (size_t) snprintf(path, size, "proc/sys/net/%s/%s/%s", folders[i], link,
			       field + length + 1) < size;
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
