/* SPDX-License-Identifier: Apache-2.0 */
/* What the roles' steps load, unload and load again. */
#include <string.h>

#include "entrypoint/role/modset.h"
#include "module/sysmodule.h"

/* Before the first load: what was there before us, unless a previous run of the container knows. */
static int remember_before(const struct role *role, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = role_list_read(role, "before", &names);

	if (r != -ENOENT)
		return r < 0 ? error_set_errno(error, r, "list of modules before us") : 0;
	r = sysmodule_list(role->root_fd, &names);
	if (r < 0)
		return error_set_errno(error, r, "/sys/module");
	return role_list_write(role, "before", &names, error);
}

/* Is the loaded module the very file that the image has? */
static int is_ours(const struct role *role, struct loader *loader, const char *name, bool *ret,
	struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *path = NULL;
	int r = loader_file(loader, name, &path, error);

	if (r < 0)
		return r;
	r = elf_module_open_brief(role->root_fd, path, &module, error);
	if (r < 0)
		return r;
	*ret = loaded_compare(role->root_fd, name, module) == LOADED_SAME;
	return 0;
}

int role_compare_loaded(const struct role *role, struct loader *loader, struct strv *present,
	char foreign[64], struct error *error)
{
	foreign[0] = '\0';
	for (size_t i = 0; i < role->driver_modules.count; i++) {
		const char *name = role->driver_modules.items[i];
		bool ours = false;
		int r;

		if (!sysmodule_exists(role->root_fd, name))
			continue;
		r = is_ours(role, loader, name, &ours, error);
		if (r < 0)
			return r;
		if (!ours && !*foreign)
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

/* The trees that modules come back from. */
struct trees {
	/* The image's, for those of the image's set; NULL: all are the host's. */
	struct loader *own;
	struct loader *host; /* for all others; NULL as long as none was asked for */
};

static void trees_close(struct trees *trees)
{
	loader_close(&trees->own);
	loader_close(&trees->host);
}

static int tree_for(const struct role *role, struct trees *trees, const char *module,
	struct loader **ret, struct error *error)
{
	if (trees->own && strv_contains(&role->driver_modules, module)) {
		*ret = trees->own;
		return 0;
	}
	if (!trees->host) {
		int r = loader_open(
			role->root_fd, role->host_root, role->krel, &trees->host, error);

		if (r < 0)
			return r;
	}
	*ret = trees->host;
	return 0;
}

/*
 * Loads modules again, last gone first. One that no tree has (another OFED's own, say, or one that
 * came out of a container) is reported and skipped: the others are worth having.
 */
static int load_again(const struct role *role, struct worker *worker, struct trees *trees,
	const struct strv *removed, struct error *error)
{
	int first_failure = 0;

	for (size_t i = removed->count; i-- > 0;) {
		struct loader *loader = NULL;
		struct error why = { "" };
		enum reason reason = REASON_NONE;
		int r = tree_for(role, trees, removed->items[i], &loader, &why);

		if (r == 0)
			r = loader_load(loader, worker, removed->items[i], &reason, &why);
		if (r < 0)
			worker_report(worker, WORKER_NOTE, 0, "%s does not come back: %s",
				removed->items[i], why.text);
		if (r < 0 && r != -ENOENT && !first_failure) {
			first_failure = r;
			*error = why;
		}
	}
	return first_failure;
}

/*
 * When the kernel refused in mid-course: what went before comes back, so that nothing is half gone.
 * @ours: what was loaded of the image's set was the image's.
 */
static int take_back(struct action *action, bool ours, const struct strv *removed, int code)
{
	const struct role *role = action->role;
	_cleanup_(trees_close) struct trees trees = { 0 };
	struct error again = { "" };
	int r = 0;

	if (ours && removed->count)
		r = loader_open(role->root_fd, "", role->krel, &trees.own, &again);
	if (r == 0)
		r = load_again(role, action->worker, &trees, removed, &again);
	if (r < 0)
		worker_report(action->worker, WORKER_NOTE, 0, "not all came back: %s", again.text);
	return unload_refused(action, code);
}

/* The list of a previous run names the node's own driver: it stays. */
static int remember_replaced(struct action *action, const struct strv *order)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv earlier = { 0 };
	int r = role_list_read(role, "replaced", &earlier);

	if (r == -ENOENT)
		r = role_list_write(role, "replaced", order, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

/* @ours: those present are the image's own, loaded with other parameters. */
static int replace(struct action *action, const struct strv *present, bool ours)
{
	const struct role *role = action->role;
	const struct unload unload = unload_of(role, present);
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_strv_ struct strv order = { 0 };
	int r = unload_order(&unload, action->worker, &order, &action->error);

	if (r < 0)
		return unload_refused(action, r);
	r = ours ? 0 : remember_replaced(action, &order);
	if (r < 0)
		return r;
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	return r < 0 ? take_back(action, ours, &removed, r) : 0;
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
	_cleanup_strv_ struct strv present = { 0 };
	char foreign[64] = "";
	bool changed = false;
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
	return *foreign || changed ? replace(action, &present, changed) : 0;
}

int role_reload_replaced(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(trees_close) struct trees trees = { 0 };
	_cleanup_strv_ struct strv replaced = { 0 };
	int r;

	if (role->plan.stop_failed) /* ours could not be unloaded: it is the node's driver */
		return 0;
	if (!role->plan.start_failed && !role->options.restore_inbox)
		return 0;
	r = role_list_read(role, "replaced", &replaced);
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = load_again(role, action->worker, &trees, &replaced, &action->error);
	if (r < 0)
		return action_reason(action, REASON_LOAD_FAILED, r);
	role_list_remove(role, "replaced");
	return 0;
}

int role_select(struct action *action, const char *const *modules, size_t count, size_t required,
	struct strv *selected)
{
	const struct role *role = action->role;

	for (size_t i = 0; i < count; i++) {
		if (!strv_contains(&role->driver_modules, modules[i])) {
			if (i >= required)
				continue;
			return action_fail(action, REASON_WILL_NOT_LOAD, -ENOENT,
				"the image has no module %s for %s: build it again with slipway "
				"build --kernel %s",
				modules[i], role->krel, role->krel);
		}
		if (strv_push(selected, modules[i]) < 0)
			return action_fail(
				action, REASON_INTERNAL, -ENOMEM, "module %s", modules[i]);
	}
	return 0;
}

/* What the kernel took from us is ours; somebody else may have been quicker with the others. */
static int expect_ours(struct action *action, struct loader *loader)
{
	const struct role *role = action->role;

	for (size_t i = 0; i < role->driver_modules.count; i++) {
		const char *name = role->driver_modules.items[i];
		bool ours = false;
		int r;

		if (loader_inserted(loader, name) || !sysmodule_exists(role->root_fd, name))
			continue;
		r = is_ours(role, loader, name, &ours, &action->error);
		if (r < 0)
			return action_reason(action, REASON_INTERNAL, r);
		if (!ours)
			return action_fail(action, REASON_LOAD_FAILED, -EEXIST,
				"%s is loaded, but not the image's: the host loaded its own "
				"meanwhile (udev?): keep it from that with a blacklist line in its "
				"modprobe.d",
				name);
	}
	return 0;
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
	return r < 0 ? r : expect_ours(action, loader);
}

/* What the image's modules depend on and what was not there before us, dependencies last. */
static int list_added_dependencies(const struct role *role, struct strv *added, struct error *error)
{
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv all = { 0 };
	int r = role_list_read(role, "before", &before);

	if (r == -ENOENT)
		return 0; /* nothing was ever loaded */
	if (r == 0)
		r = loader_open(role->root_fd, "", role->krel, &loader, error);
	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++)
		r = loader_resolve_all(loader, role->driver_modules.items[i], &all, error);
	for (size_t i = all.count; r == 0 && i-- > 0;)
		if (!strv_contains(&before, all.items[i]) &&
			!strv_contains(&role->driver_modules, all.items[i]) &&
			sysmodule_exists(role->root_fd, all.items[i]))
			r = strv_push(added, all.items[i]);
	return r;
}

/* One by one, for someone else may use one by now: that one then stays, and is theirs. */
static void unload_dependencies(struct action *action, const struct strv *dependencies)
{
	const struct role *role = action->role;
	bool progress = true;

	while (progress) {
		progress = false;
		for (size_t i = 0; i < dependencies->count; i++) {
			const struct strv one = { .items = &dependencies->items[i], .count = 1 };
			const struct unload unload = { .root_fd = role->root_fd, .modules = &one };
			_cleanup_strv_ struct strv removed = { 0 };
			struct error ignored;

			if (sysmodule_references(role->root_fd, dependencies->items[i]) == 0 &&
				unload_modules(&unload, action->worker, &removed, &ignored) == 0)
				progress = true;
		}
	}
}

int role_unload(struct action *action)
{
	const struct role *role = action->role;
	const struct unload unload = unload_of(role, &role->driver_modules);
	_cleanup_strv_ struct strv dependencies = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	int r = list_added_dependencies(role, &dependencies, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	if (r < 0)
		return take_back(action, true, &removed, r);
	unload_dependencies(action, &dependencies);
	role_list_remove(role, ROLE_PARAMETERS_LIST);
	role_list_remove(role, "before");
	return 0;
}
