/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, unloads and reloads modules for the roles' steps. */
#include <string.h>

#include "entrypoint/role/modset.h"
#include "module/running.h"

#define LIST_BEFORE   "before"
#define LIST_REPLACED "replaced"

/* -ENOENT without such a list; any other failure is in @error. */
static int read_list(
	const struct role *role, const char *list, struct strv *names, struct error *error)
{
	int r = role_list_read(role, list, names);

	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r,
			"the list of modules /%s/%s.%s, which an earlier step wrote, cannot be "
			"read (remove it to go on without it)",
			role->state_folder, role->name, list);
	return r;
}

int role_compare_loaded(const struct role *role, struct loader *loader, struct strv *present,
	char foreign[64], struct error *error)
{
	foreign[0] = '\0';
	for (size_t i = 0; i < role->driver_modules.count; i++) {
		const char *name = role->driver_modules.items[i];
		enum loaded loaded;
		int r;

		if (!sysmodule_exists(role->root_fd, name))
			continue;
		r = loader_compare(loader, name, &loaded, error);
		if (r < 0)
			return r;
		if (loaded != LOADED_SAME && !*foreign)
			(void) snprintf(foreign, 64, "%s", name);
		if (strv_push(present, name) < 0)
			return error_set_errno(error, -ENOMEM, "%s", name);
	}
	return 0;
}

static struct unload unload_of(const struct role *role, const struct strv *modules)
{
	return (struct unload){ .root_fd = role->root_fd,
		.modules = modules,
		.device_prefixes = role->devices,
		.holders_too = role->unloads_holders };
}

static int unload_refused(struct action *action, int code)
{
	return action_reason(
		action, code == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, code);
}

/* The next step for a module that did not come back from the image's tree, or from @host. */
static const char *cure(bool is_own, struct loader *host, const char *name)
{
	_cleanup_free_ char *path = NULL;
	struct error ignored;

	if (is_own)
		return "start the container again, or reboot the node";
	if (host && loader_file(host, name, &path, &ignored) == -ENOENT)
		return "start the container that brought it, or reboot the node";
	return "try modprobe on the node, or reboot it";
}

/*
 * Loads modules again, last gone first: those of the image's set from @own, where that is not NULL,
 * all others from the host's tree, which is opened when *@host is NULL. One that no tree has
 * (another OFED's own, for one, or one that came out of a container) is reported and skipped: the
 * others are worth having.
 */
static int load_again(const struct role *role, struct worker *worker, struct loader *own,
	struct loader **host, const struct strv *removed, struct error *error)
{
	int first_failure = 0;

	for (size_t i = removed->count; i-- > 0;) {
		const char *name = removed->items[i];
		bool is_own = own && strv_contains(&role->driver_modules, name);
		enum reason reason = REASON_NONE;
		struct error why = { 0 };
		int r = 0;

		if (!is_own && !*host)
			r = loader_open(role->root_fd, role->host_root, role->krel, host, &why);
		if (r == 0)
			r = loader_load(is_own ? own : *host, worker, name, &reason, &why);
		if (r < 0)
			worker_report(worker, WORKER_NOTE, 0, "%s could not be reloaded (%s): %s",
				name, cure(is_own, *host, name), why.text);
		if (r < 0 && r != -ENOENT && !first_failure) {
			first_failure = r;
			*error = why;
		}
	}
	return first_failure;
}

/*
 * When the kernel refused in mid-course: what went before comes back, so that nothing is half gone.
 * @ours: what was loaded of the image's set was the image's. @host: as load_again() has it.
 */
static int take_back(struct action *action, bool ours, struct loader **host,
	const struct strv *removed, int code)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *own = NULL;
	struct error again = { 0 };
	int r = 0;

	if (ours && removed->count)
		r = loader_open(role->root_fd, "", role->krel, &own, &again);
	if (r == 0)
		r = load_again(role, action->worker, own, host, removed, &again);
	if (r < 0)
		worker_report(action->worker, WORKER_NOTE, 0,
			"not all modules could be reloaded: %s", again.text);
	return unload_refused(action, code);
}

/* The list for role_reload_replaced(): names, each with that of its file where it is another. */
static int write_replaced(
	const struct role *role, struct loader *host, const struct strv *order, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv earlier = { 0 };
	/* The list of a previous run names the node's own driver: it stays. */
	int r = read_list(role, LIST_REPLACED, &earlier, error);

	if (r != -ENOENT)
		return r;
	for (size_t i = 0; i < order->count; i++) {
		const char *name = order->items[i];
		const char *file_name = host ? loader_file_name(host, name) : name;

		r = strcmp(file_name, name) == 0 ? strv_push(&lines, name)
						 : strv_pushf(&lines, "%s %s", name, file_name);
		if (r < 0)
			return error_set_errno(error, r, "%s", name);
	}
	return role_list_write(role, LIST_REPLACED, &lines, error);
}

bool role_has_loaded(const struct role *role)
{
	for (size_t i = 0; i < role->driver_modules.count; i++)
		if (sysmodule_exists(role->root_fd, role->driver_modules.items[i]))
			return true;
	return false;
}

int role_unload_conflicting(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_(loader_close) struct loader *host = NULL;
	_cleanup_strv_ struct strv present = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv order = { 0 };
	const struct unload unload = unload_of(role, &present);
	struct error no_tree;
	bool changed = false; /* they are the image's own, loaded with other parameters */
	char foreign[64] = "";
	int r;

	if (!role_has_loaded(role))
		return 0;
	r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);
	if (r == 0)
		r = role_compare_loaded(role, loader, &present, foreign, &action->error);
	if (r == 0 && !*foreign)
		r = role_parameters_changed(
			role, loader, &present, action->worker, &changed, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (!*foreign && !changed)
		return 0;
	r = unload_order(&unload, action->worker, &order, &action->error);
	if (r < 0)
		return unload_refused(action, r);
	/* While they are loaded it can be told which files they came from. */
	r = loader_open(role->root_fd, role->host_root, role->krel, &host, &no_tree);
	if (r < 0 && r != -ENOENT)
		worker_report(action->worker, WORKER_NOTE, 0,
			"the node's own driver may not come back: %s", no_tree.text);
	r = r < 0 ? 0 : loader_find_renamed(host, &order, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = changed ? 0 : write_replaced(role, host, &order, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	return r < 0 ? take_back(action, changed, &host, &removed, r) : 0;
}

/* Is one of them loaded that is not of the node's own driver? Then ours is, or a part of it. */
static bool is_ours_loaded(
	const struct role *role, struct loader *host, const struct strv *replaced)
{
	for (size_t i = 0; host && i < replaced->count; i++) {
		enum loaded loaded;
		struct error ignored;

		if (sysmodule_exists(role->root_fd, replaced->items[i]) &&
			loader_compare(host, replaced->items[i], &loaded, &ignored) == 0 &&
			loaded == LOADED_OTHER)
			return true;
	}
	return false;
}

int role_reload_replaced(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *host = NULL;
	_cleanup_strv_ struct strv replaced = { 0 };
	struct error no_tree;
	int r;

	/* Ours could not be unloaded: it is the node's driver. (Other undos fail, too.) */
	if (role->plan.stop_failed && role_has_loaded(role))
		return 0;
	if (!role->plan.start_failed && !role->options.restore_inbox)
		return 0;
	r = read_list(role, LIST_REPLACED, &replaced, &action->error);
	if (r == -ENOENT)
		return 0;
	/* Where there is no tree, load_again() reports it. */
	if (r == 0 &&
		loader_open(role->root_fd, role->host_root, role->krel, &host, &no_tree) == -ENOMEM)
		return action_reason(action, REASON_INTERNAL, -ENOMEM);
	for (size_t i = 0; r == 0 && i < replaced.count; i++) {
		char *file_name = strchr(replaced.items[i], ' ');

		if (!file_name)
			continue;
		*file_name++ = '\0';
		if (host)
			r = loader_rename(host, replaced.items[i], file_name, &action->error);
	}
	/* A start was refused while ours is loaded: the node's modules have no place in it. */
	if (r == 0 && is_ours_loaded(role, host, &replaced))
		return 0;
	if (r == 0)
		r = load_again(role, action->worker, NULL, &host, &replaced, &action->error);
	if (r < 0)
		return action_reason(action, REASON_LOAD_FAILED, r);
	role_list_remove(role, LIST_REPLACED);
	return 0;
}

int role_select(struct action *action, const char *const *modules, size_t count, size_t required,
	struct strv *selected)
{
	const struct role *role = action->role;

	for (size_t i = 0; i < count; i++) {
		bool has = strv_contains(&role->driver_modules, modules[i]);

		if (!has && i < required)
			return action_fail(action, REASON_WILL_NOT_LOAD, -ENOENT,
				"the image has no module %s for %s: build it again with slipway "
				"build --kernel %s",
				modules[i], role->krel, role->krel);
		if (has && strv_push(selected, modules[i]) < 0)
			return action_fail(
				action, REASON_INTERNAL, -ENOMEM, "module %s", modules[i]);
	}
	return 0;
}

/* Records the modules that were there before us, unless a previous run of the container did. */
static int remember_before(const struct role *role, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = read_list(role, LIST_BEFORE, &names, error);

	if (r != -ENOENT)
		return r;
	r = sysmodule_list(role->root_fd, &names);
	if (r < 0)
		return error_set_errno(error, r, "/sys/module");
	return role_list_write(role, LIST_BEFORE, &names, error);
}

int role_load(struct action *action, const char *const *modules, size_t count, size_t required)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv selected = { 0 };
	int r = remember_before(role, &action->error);

	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = role_parameters_remember(role, loader, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	r = role_select(action, modules, count, required, &selected);
	for (size_t i = 0; r == 0 && i < selected.count; i++)
		r = loader_load(
			loader, action->worker, selected.items[i], &action->reason, &action->error);
	if (r < 0)
		return r;
	/* Modules that the kernel took from us are ours; udev may have loaded others first. */
	for (size_t i = 0; i < role->driver_modules.count; i++) {
		const char *name = role->driver_modules.items[i];
		enum loaded loaded;

		if (loader_inserted(loader, name) || !sysmodule_exists(role->root_fd, name))
			continue;
		r = loader_compare(loader, name, &loaded, &action->error);
		if (r < 0)
			return action_reason(action, REASON_INTERNAL, r);
		if (loaded != LOADED_SAME)
			return action_fail(action, REASON_LOAD_FAILED, -EEXIST,
				"%s is loaded, but not from the image: the host loaded its own in the meantime (udev?): prevent that with a blacklist line in the host's modprobe.d",
				name);
	}
	return 0;
}

/* Lists dependencies of the image's modules that were not there before us, dependencies last. */
static int list_added_dependencies(const struct role *role, struct strv *added, struct error *error)
{
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv all = { 0 };
	int r = read_list(role, LIST_BEFORE, &before, error);

	if (r == -ENOENT)
		return 0; /* nothing was ever loaded */
	if (r == 0)
		r = loader_open(role->root_fd, "", role->krel, &loader, error);
	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++)
		r = loader_resolve_all(loader, role->driver_modules.items[i], &all, error);
	for (size_t i = all.count; r == 0 && i-- > 0;)
		if (!strv_contains(&before, all.items[i]) &&
			!strv_contains(&role->driver_modules, all.items[i]) &&
			sysmodule_exists(role->root_fd, all.items[i]) &&
			strv_push(added, all.items[i]) < 0)
			r = error_set_errno(error, -ENOMEM, "%s", all.items[i]);
	return r;
}

bool role_has_inserted(const struct role *role)
{
	_cleanup_strv_ struct strv before = { 0 };

	return role_list_read(role, LIST_BEFORE, &before) != -ENOENT;
}

int role_unload(struct action *action)
{
	const struct role *role = action->role;
	const struct unload unload = unload_of(role, &role->driver_modules);
	_cleanup_(loader_close) struct loader *host = NULL;
	_cleanup_strv_ struct strv dependencies = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	bool progress = true;
	int r = list_added_dependencies(role, &dependencies, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	if (r < 0)
		return take_back(action, true, &host, &removed, r);
	/* One by one: one that is used by others by now stays, and is theirs. */
	while (progress) {
		progress = false;
		for (size_t i = 0; i < dependencies.count; i++) {
			const struct strv one = { .items = &dependencies.items[i], .count = 1 };
			const struct unload last = { .root_fd = role->root_fd, .modules = &one };
			_cleanup_strv_ struct strv gone = { 0 };
			struct error ignored;

			if (sysmodule_references(role->root_fd, dependencies.items[i]) == 0 &&
				unload_modules(&last, action->worker, &gone, &ignored) == 0)
				progress = true;
		}
	}
	role_list_remove(role, ROLE_PARAMETERS_LIST);
	role_list_remove(role, ROLE_UNKNOWN_LIST);
	role_list_remove(role, ROLE_REFUSED_LIST);
	role_list_remove(role, LIST_BEFORE);
	return 0;
}
