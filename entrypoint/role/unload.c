/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded modules: which build they are, who holds them, how they go. */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/processes.h"
#include "module/running.h"

#define USERS_NAMED 8

enum loaded loaded_compare(int root_fd, const char *name, const struct elf_module *file)
{
	const char *of_file = elf_module_info(file, "srcversion");
	_cleanup_free_ char *srcversion = NULL;
	char loaded_id[BUILD_ID_HEX_SIZE];
	char file_id[BUILD_ID_HEX_SIZE];
	char path[128];

	sysmodule_build_id(root_fd, name, loaded_id);
	elf_module_build_id(file, file_id);
	if (*loaded_id && *file_id)
		return strcmp(loaded_id, file_id) == 0 ? LOADED_SAME : LOADED_OTHER;
	(void) snprintf(path, sizeof(path), "sys/module/%.100s/srcversion", name);
	if (fs_read_line(root_fd, path, &srcversion) == 0 && *srcversion)
		return of_file && strcmp(srcversion, of_file) == 0 ? LOADED_SAME : LOADED_OTHER;
	return *loaded_id ? LOADED_OTHER : LOADED_UNKNOWN;
}

/* ---- unloading */

/*
 * A module's own references, which no holder accounts for: names the processes behind them, and has
 * the init wake up when one of them ends.
 */
static int refuse_references(const struct unload *unload, struct worker *worker, const char *module,
	int references, struct error *error)
{
	_cleanup_strv_ struct strv patterns = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *who = NULL;
	struct process_seen users[USERS_NAMED];
	char more[32] = "";
	int count = 0;
	int r = users_patterns(unload->root_fd, module, &patterns);

	for (const char *const *prefix = patterns.count ? NULL : unload->device_prefixes;
		r == 0 && prefix && *prefix; prefix++)
		r = strv_pushf(&patterns, "%s*", *prefix);
	if (r == 0 && patterns.count)
		count = users_of_devices(unload->root_fd, &patterns, users, USERS_NAMED);
	for (int i = 0; r == 0 && i < count && i < USERS_NAMED; i++) {
		char text[USER_TEXT_SIZE];

		user_text(&users[i], text);
		r = strv_push(&names, text);
		if (worker)
			worker_report_holder(worker, users[i].pid);
	}
	who = names.count ? strv_join(&names, ", ") : NULL;
	if (!who)
		return error_set(error, -EBUSY,
			"%s is in use: %d reference(s) that belong to no other module and to no "
			"process seen from here: stop the workload that uses it, then try again",
			module, references);
	if (count > USERS_NAMED)
		(void) snprintf(more, sizeof(more), " and %d more", count - USERS_NAMED);
	return error_set(error, -EBUSY, "%s is in use by %.760s%s: stop it, then try again", module,
		who, more);
}

/* Is another process unloading it? Its attributes go first, then its folder, then its line. */
static bool is_going(int root_fd, const char *module)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (!sysmodule_is_built_in(root_fd, module))
		return !sysmodule_is_live(root_fd, module);
	return sysmodule_list(root_fd, &names) == 0 && strv_contains(&names, module);
}

/* Holders come first: depth-first over them. */
static int visit(const struct unload *unload, struct worker *worker, const char *module,
	struct strv *order, struct error *error)
{
	_cleanup_strv_ struct strv holders = { 0 };
	int references;
	int r;

	if (strv_contains(order, module) || !sysmodule_exists(unload->root_fd, module))
		return 0;
	r = sysmodule_holders(unload->root_fd, module, &holders);
	if (r < 0)
		return error_set_errno(error, r, "/sys/module/%s/holders", module);
	for (size_t i = 0; i < holders.count; i++) {
		if (!unload->holders_too && !strv_contains(unload->modules, holders.items[i]))
			return error_set(error, -EBUSY,
				"%s is held by the module %s: unload that first, then try again",
				module, holders.items[i]);
		r = visit(unload, worker, holders.items[i], order, error);
		if (r < 0)
			return r;
	}
	references = sysmodule_references(unload->root_fd, module);
	if (references < 0 && is_going(unload->root_fd, module))
		return error_set(error, -EBUSY,
			"%s is being unloaded by another process: wait until it is gone", module);
	if (references < 0 && !sysmodule_exists(unload->root_fd, module))
		return 0;
	if (references < 0)
		return error_set(error, -EOPNOTSUPP,
			"%s cannot be unloaded: it is built in, or the kernel has no module "
			"unloading (CONFIG_MODULE_UNLOAD): reboot the node to change the driver",
			module);
	if ((size_t) references > holders.count)
		return refuse_references(
			unload, worker, module, references - (int) holders.count, error);
	return strv_push(order, module) < 0 ? error_set_errno(error, -ENOMEM, "%s", module) : 0;
}

int unload_order(
	const struct unload *unload, struct worker *worker, struct strv *order, struct error *error)
{
	for (size_t i = 0; i < unload->modules->count; i++) {
		int r = visit(unload, worker, unload->modules->items[i], order, error);

		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * A module turns "live" a moment before its loader drops the last reference of its own (Linux
 * kernel/module/main.c: do_init_module()), and nothing shows when: the call is repeated a few times
 * over 100 ms before its "in use" is believed.
 */
static int remove_module(const char *name)
{
	const struct timespec pause = { .tv_nsec = 10L * 1000 * 1000 };

	for (int attempt = 0; syscall(SYS_delete_module, name, O_NONBLOCK) < 0; attempt++) {
		if (errno != EAGAIN || attempt == 10)
			return -errno;
		(void) nanosleep(&pause, NULL);
	}
	return 0;
}

/*
 * delete_module(2): EWOULDBLOCK when there are references or modules that depend on it, EBUSY when
 * it has no exit function or is on its way already.
 */
static int refuse_removal(const struct unload *unload, struct worker *worker, char *module,
	int code, struct error *error)
{
	_cleanup_strv_ struct strv order = { 0 };
	const struct strv one = { .items = &module, .count = 1 };
	const struct unload again = { .root_fd = unload->root_fd,
		.modules = &one,
		.device_prefixes = unload->device_prefixes };

	if (code == -EBUSY)
		return error_set(error, -EPERM,
			"%s cannot be unloaded: it has no exit function, or another process is unloading it: reboot the node to change the driver",
			module);
	if (code != -EAGAIN)
		return error_set_errno(error, code, "the kernel refused to unload %s", module);
	/* Who took it since the check? */
	if (unload_order(&again, worker, &order, error) == -EBUSY)
		return -EBUSY;
	return error_set(
		error, -EBUSY, "%s was taken into use while it was being unloaded", module);
}

int unload_modules(const struct unload *unload, struct worker *worker, struct strv *removed,
	struct error *error)
{
	_cleanup_strv_ struct strv order = { 0 };
	int r = unload_order(unload, worker, &order, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < order.count; i++) {
		uint64_t begun_ms = clock_monotonic_ms();

		r = remove_module(order.items[i]);
		if (r < 0 && r != -ENOENT) /* another process removed that one */
			return refuse_removal(unload, worker, order.items[i], r, error);
		worker_report(worker, WORKER_UNLOADED, (uint32_t) (clock_monotonic_ms() - begun_ms),
			"%s", order.items[i]);
		if (strv_push(removed, order.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", order.items[i]);
	}
	return 0;
}
