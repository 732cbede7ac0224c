/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/swapper.h"

#include <stdarg.h>
#include <string.h>

#include "entrypoint/role/insert.h"
#include "entrypoint/role/loaded.h"
#include "entrypoint/role/parameters_now.h"
#include "entrypoint/role/unload.h"
#include "module/sysmodule.h"

static void tell_passed_over(void *context, const char *text)
{
	swapper_tell(context, "%s", text);
}

static int name_kept(struct swapper *swapper)
{
	const char *folder = swapper->nic->inputs.journal_folder;
	const char *krel = swapper->role->krel;
	const char *slash = strrchr(folder, '/');
	int in_length = slash ? (int) (slash - folder) : 0;

	if (snprintf(swapper->kept, PATH_MAX, "%s/loaded", folder) >= PATH_MAX ||
		snprintf(swapper->kept_of, PATH_MAX, "%s/loaded/%s", folder, krel) >= PATH_MAX)
		return -ENAMETOOLONG;
	(void) snprintf(swapper->kept_in, PATH_MAX, "%.*s", in_length, folder);
	return 0;
}

int swapper_open(struct swapper *swapper, struct action *action)
{
	struct nic *nic = nic_of(action->role);
	const char *host = nic->role.host_root;

	*swapper = (struct swapper){ .action = action, .nic = nic, .role = &nic->role };
	if (name_kept(swapper) < 0)
		return action_fail(
			action, REASON_INTERNAL, -ENAMETOOLONG, "the inventory's path is too long");
	swapper->at_hand = (struct at_hand){
		.root_fd = nic->role.root_fd,
		.krel = nic->role.krel,
		.host = host + (*host == '/'),
		.kept = swapper->kept_of,
		.kept_in = swapper->kept_in,
		.tell = tell_passed_over,
		.tell_context = swapper,
	};
	return 0;
}

void swapper_close(struct swapper *swapper)
{
	loader_close(&swapper->own);
	loader_close(&swapper->host);
	at_hand_free(&swapper->at_hand);
}

void swapper_tell(struct swapper *swapper, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	worker_report(swapper->action->worker, WORKER_NOTE, 0, "%s", text);
}

static struct loader *open_tree(
	struct swapper *swapper, const char *prefix, struct loader **tree, struct error *error)
{
	if (!*tree &&
		loader_open(swapper->role->root_fd, prefix, swapper->role->krel, tree, error) < 0)
		*tree = NULL;
	return *tree;
}

struct loader *swapper_own(struct swapper *swapper, struct error *error)
{
	return open_tree(swapper, "", &swapper->own, error);
}

struct loader *swapper_host(struct swapper *swapper, struct error *error)
{
	return open_tree(swapper, swapper->role->host_root, &swapper->host, error);
}

bool swapper_tree_has(struct loader *tree, const char *name)
{
	_cleanup_free_ char *path = NULL;
	struct error ignored;

	return loader_file(tree, name, &path, &ignored) == 0;
}

static enum loaded compare_file(const struct role *role, const char *name, const char *path)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	struct error ignored;

	if (elf_module_open_brief(role->root_fd, path, &file, &ignored) < 0)
		return LOADED_OTHER;
	return loaded_compare(role->root_fd, name, file);
}

bool swapper_is_ours(struct swapper *swapper, const char *name)
{
	const struct role *role = swapper->role;
	_cleanup_free_ char *path = NULL;
	struct error ignored;
	struct loader *own = swapper_own(swapper, &ignored);
	enum loaded build;

	if (!sysmodule_exists(role->root_fd, name) || sysmodule_is_built_in(role->root_fd, name) ||
		!own || loader_file(own, name, &path, &ignored) < 0)
		return false;
	build = compare_file(role, name, path);
	return build == LOADED_SAME || (build == LOADED_UNKNOWN && loader_inserted(own, name));
}

static int choose_options(struct swapper *swapper, const char *path, const char *options,
	char **ret, struct strv *left_out, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	int r = elf_module_open(swapper->role->root_fd, path, &file, error);

	if (r < 0)
		return r;
	if (parameters_for_file(file, options ? options : "", ret, left_out) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", path + (*path == '/'));
	return 0;
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
		if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

/* What was a default, and is one again, is no loss. */
static void tell_left_out(struct swapper *swapper, const char *name, const struct strv *left_out)
{
	_cleanup_strv_ struct strv lost = { 0 };
	_cleanup_free_ char *words = NULL;
	_cleanup_free_ char *now = NULL;

	if (!left_out->count || parameters_now(swapper->role->root_fd, name, &now) < 0)
		return;
	for (size_t i = 0; i < left_out->count; i++)
		if (!has_word(now, left_out->items[i]) && strv_push(&lost, left_out->items[i]) < 0)
			return;
	words = lost.count ? strv_join(&lost, " ") : NULL;
	if (words)
		swapper_tell(swapper,
			"%s does not get back %.500s: this build has no such parameter, or one "
			"that cannot be passed back",
			name, words);
}

static int insert(struct swapper *swapper, const char *name, const char *path, const char *options,
	struct error *error)
{
	const struct role *role = swapper->role;
	_cleanup_strv_ struct strv left_out = { 0 };
	_cleanup_free_ char *chosen = NULL;
	struct insertion insertion = { .root_fd = role->root_fd, .path = path, .name = name };
	int r = choose_options(swapper, path, options, &chosen, &left_out, error);

	if (r < 0)
		return r;
	insertion.options = chosen;
	r = insert_file(&insertion, swapper->action->worker, &swapper->action->reason, error);
	if (r == -EINVAL && *chosen) {
		insertion.options = "";
		r = insert_file(
			&insertion, swapper->action->worker, &swapper->action->reason, error);
		if (r == 0)
			swapper_tell(swapper, "%s takes not back \"%.500s\": it came without", name,
				chosen);
	}
	if (r == 0)
		tell_left_out(swapper, name, &left_out);
	/* Where nothing is shown, nothing better is known than that the kernel took the file. */
	if (r == 0 && compare_file(role, name, path) == LOADED_OTHER)
		return error_set(error, -EEXIST,
			"%s is loaded, but from another file than /%s: something on the host loads "
			"modules meanwhile (udev?)",
			name, path + (*path == '/'));
	return r;
}

static int bring_dependencies(
	struct swapper *swapper, struct loader *tree, const char *name, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = loader_resolve(tree, name, &names, error);

	for (size_t i = 0; r == 0 && i < names.count; i++)
		if (strcmp(names.items[i], name) != 0 &&
			!sysmodule_is_live(swapper->role->root_fd, names.items[i]))
			r = loader_load(tree, swapper->action->worker, names.items[i],
				&swapper->action->reason, error);
	return r;
}

int swapper_bring_build(
	struct swapper *swapper, const struct swap_module *module, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	char loaded[BUILD_ID_HEX_SIZE];
	int r;

	sysmodule_build_id(swapper->role->root_fd, module->name, loaded);
	if (*loaded && strcmp(loaded, module->build_id) == 0)
		return 0;
	r = at_hand_find(&swapper->at_hand, module->name, module->build_id, &path);
	if (r < 0)
		return error_set_errno(error, r, "the file of %s with the build id %s",
			module->name, *module->build_id ? module->build_id : "(none)");
	/* What else it needs was there when it was loaded, and may have gone with ours. */
	if (at_hand_is_of_host(&swapper->at_hand, path)) {
		struct loader *host = swapper_host(swapper, error);

		r = host ? bring_dependencies(swapper, host, module->name, error) : -ENOENT;
	}
	return r < 0 ? r : insert(swapper, module->name, path, module->options, error);
}

int swapper_bring(struct swapper *swapper, struct loader *tree, const char *name,
	const char *options, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = loader_file(tree, name, &path, error);

	if (r == 0)
		r = bring_dependencies(swapper, tree, name, error);
	return r < 0 ? r : insert(swapper, name, path, options, error);
}

int swapper_remove(struct swapper *swapper, const struct strv *names, struct strv *removed)
{
	const struct unload unload = {
		.root_fd = swapper->role->root_fd,
		.modules = names,
		.device_prefixes = swapper->role->devices,
		.holders_too = true,
	};
	struct action *action = swapper->action;
	int r = unload_modules(&unload, action->worker, removed, &action->error);

	return action_reason(action, r == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, r);
}
