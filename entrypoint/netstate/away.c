/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/away.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_state.h"
#include "entrypoint/netstate/name_spaces.h"
#include "entrypoint/netstate/tell.h"

#define KIND  "away"
#define CURE  "restart that pod, or drain the node before the next swap"
#define PLACE "another network name space"

/* ---- which functions */

static bool has_file(int root_fd, const char *name, const char *file)
{
	char path[PATH_MAX];

	device_path(name, file, path, sizeof(path));
	return fs_exists(root_fd, path);
}

/* A subfunction is a device of the auxiliary bus below its PF. */
static int add_subfunctions(int root_fd, const char *name, struct strv *functions)
{
	_cleanup_strv_ struct strv entries = { 0 };
	char path[PATH_MAX];
	int r;

	device_path(name, "", path, sizeof(path));
	r = fs_list(root_fd, path, &entries);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = 0;
	for (size_t i = 0; r == 0 && i < entries.count; i++) {
		char file[NAME_MAX + 16];

		(void) snprintf(file, sizeof(file), "%s/sfnum", entries.items[i]);
		if (has_file(root_fd, name, file))
			r = strv_pushf(functions, "auxiliary/%s", entries.items[i]);
	}
	return r;
}

static int add_vfs(int root_fd, const char *name, struct strv *functions)
{
	struct device device;
	int r = device_read_sysfs(root_fd, name, &device);

	for (size_t i = 0; r == 0 && i < device.vf_count; i++)
		if (*device.vfs[i].function)
			r = strv_pushf(functions, "pci/%s", device.vfs[i].function);
	device_free(&device);
	return r == -ENOMEM ? r : 0;
}

/* The devices of the drivers that go, and all that goes with them. */
static int list_functions(const struct network *network, struct strv *functions)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = device_names(network->root_fd, network->modules, &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		r = strv_push(functions, names.items[i]);
		if (r == 0)
			r = add_vfs(network->root_fd, names.items[i], functions);
		if (r == 0)
			r = add_subfunctions(network->root_fd, names.items[i], functions);
	}
	return r;
}

/* ---- which of them are away */

/*
 * The folder "net" is made with a device's first interface and goes with the last; an interface in
 * another name space is not shown in it (Linux drivers/base/core.c, get_device_parent(), and
 * net/core/net-sysfs.c, net_class). Representors do not count.
 */
static bool is_hidden(int root_fd, const char *name)
{
	struct device device;
	bool is_here;

	if (!has_file(root_fd, name, "driver") || !has_file(root_fd, name, "net"))
		return false;
	if (device_read_sysfs(root_fd, name, &device) < 0)
		return false;
	is_here = device.ifindex != 0;
	device_free(&device);
	return !is_here;
}

static const struct away_link *next_of(
	const struct away_links *links, const char *device, size_t *at)
{
	for (; *at < links->count; ++*at)
		if (strcmp(links->items[*at].device, device) == 0)
			return &links->items[(*at)++];
	return NULL;
}

static int add_record(
	struct statefile *records, const char *device, const char *name, const char *where)
{
	struct record *record = statefile_add(records, KIND);
	int r = record ? record_set(record, "device", device) : -ENOMEM;

	if (r == 0 && *name)
		r = record_set(record, "name", name);
	if (r == 0 && *where)
		r = record_set(record, "where", where);
	return r;
}

static int find_of(
	int root_fd, const char *device, const struct away_links *links, struct statefile *records)
{
	const struct away_link *link;
	size_t at = 0;
	bool is_found = false;
	int r = 0;

	while (r == 0 && (link = next_of(links, device, &at))) {
		r = add_record(records, device, link->name, link->where);
		is_found = true;
	}
	return r == 0 && !is_found && is_hidden(root_fd, device)
		       ? add_record(records, device, "", "")
		       : r;
}

/* One record for each that is away now. */
static int find(const struct network *network, struct statefile *records)
{
	_cleanup_strv_ struct strv functions = { 0 };
	struct away_links links = { 0 };
	int r = list_functions(network, &functions);

	if (r == 0 && functions.count)
		r = name_spaces_look(network->root_fd, &links);
	for (size_t i = 0; r == 0 && i < functions.count; i++)
		r = find_of(network->root_fd, functions.items[i], &links, records);
	free(links.items);
	return r == -ENOMEM ? r : 0;
}

/* ---- telling */

static const char *field(const struct record *record, const char *name)
{
	const char *value = record_get(record, name);

	return value ? value : "";
}

/* "its interface net1", "(pod jobs/trainer-0)", or that nobody knows. */
static void describe(const struct record *record, char text[400])
{
	const char *name = field(record, "name");
	const char *where = field(record, "where");

	(void) snprintf(text, 400, "its interface%s%s is in " PLACE " (%s)", *name ? " " : "", name,
		*where ? where : "of a pod that cannot be seen from here");
}

static bool is_same(const struct record *one, const struct record *other)
{
	return strcmp(one->kind, other->kind) == 0 &&
	       strcmp(field(one, "device"), field(other, "device")) == 0 &&
	       strcmp(field(one, "name"), field(other, "name")) == 0;
}

static bool has(const struct statefile *records, const struct record *record)
{
	for (size_t i = 0; i < records->count; i++)
		if (is_same(&records->items[i], record))
			return true;
	return false;
}

static void tell(const struct network *network, const struct record *record)
{
	char text[400];

	describe(record, text);
	network_note(
		network, "%s: %s, and goes with the driver: " CURE, field(record, "device"), text);
}

int away_save(const struct network *network, struct statefile *records)
{
	_cleanup_(statefile_free) struct statefile found = { 0 };
	int r = find(network, &found);

	for (size_t i = 0; r == 0 && i < found.count; i++) {
		const struct record *record = &found.items[i];

		/* An earlier life told it, and it did not go. */
		if (has(records, record))
			continue;
		tell(network, record);
		r = add_record(records, field(record, "device"), field(record, "name"),
			field(record, "where"));
	}
	return r;
}

static bool is_other(const struct record *record)
{
	return strcmp(record->kind, KIND) != 0;
}

void away_forget(struct statefile *records)
{
	statefile_keep(records, is_other);
}

void away_restore(
	const struct network *network, struct statefile *records, struct network_result *result)
{
	_cleanup_(statefile_free) struct statefile now = { 0 };

	/* Without memory none is: then all are told. */
	if (find(network, &now) < 0)
		statefile_free(&now);
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->items[i];
		const char *name = field(record, "name");
		const char *where = field(record, "where");

		if (is_other(record) || has(&now, record))
			continue;
		network_failure(network, result,
			"%s: its interface%s%s was in " PLACE
			" (%s) and went with the driver: " CURE,
			field(record, "device"), *name ? " " : "", name,
			*where ? where : "of a pod that could not be seen from here");
	}
	away_forget(records);
}
