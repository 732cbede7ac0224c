/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/unload.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "module/sysmodule.h"
#include "entrypoint/role/users.h"

#define USERS_NAMED 8

static size_t append(char *text, size_t size, size_t used, const char *format, ...) _printf_(4, 5);

static size_t append(char *text, size_t size, size_t used, const char *format, ...)
{
	va_list arguments;
	int length;

	if (used >= size)
		return used;
	va_start(arguments, format);
	length = vsnprintf(text + used, size - used, format, arguments);
	va_end(arguments);
	return length < 0 ? used : used + (size_t) length;
}

static int patterns_for(const struct unload *unload, const char *module, struct strv *patterns)
{
	int r = users_patterns(unload->root_fd, module, patterns);

	if (r < 0 || patterns->count)
		return r;
	for (const char *const *prefix = unload->device_prefixes; prefix && *prefix; prefix++)
		if (strv_pushf(patterns, "%s*", *prefix) < 0)
			return -ENOMEM;
	return 0;
}

/* Names the processes, and has the init wake up when one of them ends. Returns how many. */
static int name_users(const struct unload *unload, struct worker *worker, const char *module,
	char *who, size_t size)
{
	_cleanup_strv_ struct strv patterns = { 0 };
	struct user users[USERS_NAMED];
	size_t used = 0;
	int count = 0;

	if (patterns_for(unload, module, &patterns) == 0 && patterns.count)
		count = users_of_devices(unload->root_fd, &patterns, users, USERS_NAMED);
	for (int i = 0; i < count && i < USERS_NAMED; i++) {
		char text[USER_TEXT_SIZE];

		user_text(&users[i], text);
		used = append(who, size, used, "%s%s", i ? ", " : "", text);
		if (worker)
			worker_report_holder(worker, users[i].pid);
	}
	if (count > USERS_NAMED)
		(void) append(who, size, used, " and %d more", count - USERS_NAMED);
	return count;
}

/* A module's own references: those that no holder accounts for. */
static int refuse_references(const struct unload *unload, struct worker *worker, const char *module,
	int references, struct error *error)
{
	char who[ERROR_TEXT_SIZE * 3 / 4] = "";

	if (name_users(unload, worker, module, who, sizeof(who)) > 0)
		return error_set(
			error, -EBUSY, "%s is in use by %s: stop it, then try again", module, who);
	return error_set(error, -EBUSY,
		"%s is in use: %d reference(s) that belong to no other module and to no "
		"process seen from here: stop the workload that uses it, then try again",
		module, references);
}

/* Holders come first: depth-first over them. A holder outside the set is not ours to remove, unless
 * the caller says so. */
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
 * kernel/module/main.c: do_init_module()), and nothing tells when: the call is repeated a few times
 * over 100 ms before its "in use" is believed.
 */
static int remove_module(const char *module)
{
	const struct timespec pause = { .tv_nsec = 10L * 1000 * 1000 };

	for (int attempt = 0;; attempt++) {
		if (syscall(SYS_delete_module, module, O_NONBLOCK) == 0)
			return 0;
		if (errno != EAGAIN || attempt == 10)
			return -errno;
		(void) nanosleep(&pause, NULL);
	}
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
			"%s cannot be unloaded: it has no exit function, or is being unloaded by "
			"someone else: reboot the node to change the driver",
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

	for (size_t i = 0; r == 0 && i < order.count; i++) {
		uint64_t begun_ms = clock_monotonic_ms();

		r = remove_module(order.items[i]);
		if (r == -ENOENT)
			r = 0; /* someone else was quicker */
		if (r < 0)
			return refuse_removal(unload, worker, order.items[i], r, error);
		worker_report(worker, WORKER_UNLOADED, (uint32_t) (clock_monotonic_ms() - begun_ms),
			"%s", order.items[i]);
		if (strv_push(removed, order.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", order.items[i]);
	}
	return r;
}
