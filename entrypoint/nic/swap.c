/* SPDX-License-Identifier: Apache-2.0 */
/* The swap: old modules out, ours in, what depended on the old ones in again. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/hash.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/prove.h"
#include "module/running.h"

/* How often modules that udev brought in the middle are taken out again. */
#define CONFLICTS_MAX 3

/* ---- the context */

int swap_open(struct swap_context *swap, struct action *action)
{
	struct nic *nic = action->role;
	int r;

	*swap = (struct swap_context){
		.action = action,
		.nic = nic,
		.role = &nic->role,
		.root_fd = nic->role.root_fd,
		.lookup = { .action = action },
	};
	r = journal_read(nic->role.root_fd, &swap->journal, &action->error);
	swap->is_damaged = r == -EBADMSG;
	return swap->is_damaged ? 0 : action_reason(action, REASON_INTERNAL, r);
}

void swap_close(struct swap_context *swap)
{
	for (size_t i = 0; i < SWAP_SOURCES; i++)
		loader_close(&swap->trees[i]);
	module_lookup_free(&swap->lookup);
	journal_free(&swap->journal);
}

struct loader *swap_tree(struct swap_context *swap, enum swap_source tree, struct error *error)
{
	const char *prefix = tree == SWAP_HOST ? swap->role->host_root : "";

	if (!swap->trees[tree] &&
		loader_open(swap->root_fd, prefix, swap->role->krel, &swap->trees[tree], error) < 0)
		swap->trees[tree] = NULL;
	return swap->trees[tree];
}

bool swap_tree_has(struct swap_context *swap, enum swap_source tree, const char *name)
{
	_cleanup_free_ char *path = NULL;
	struct error ignored;
	struct loader *loader = swap_tree(swap, tree, &ignored);

	return loader && loader_file(loader, name, &path, &ignored) == 0;
}

bool swap_is_loaded(const struct swap_context *swap, const char *name)
{
	return sysmodule_exists(swap->root_fd, name) && !sysmodule_is_built_in(swap->root_fd, name);
}

bool swap_is_ours(struct swap_context *swap, const char *name)
{
	struct loader *image;
	struct error ignored;
	enum loaded build;

	if (!swap_is_loaded(swap, name))
		return false;
	image = swap_tree(swap, SWAP_IMAGE, &ignored);
	if (!image || loader_compare(image, name, &build, &ignored) < 0)
		return false;
	return build == LOADED_SAME || (build == LOADED_UNKNOWN && loader_inserted(image, name));
}

bool swap_is_build(const struct swap_context *swap, const struct swap_module *module)
{
	char loaded[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(swap->root_fd, module->name, loaded);
	return *loaded && strcmp(loaded, module->build_id) == 0;
}

/* ---- one module */

/*
 * Reports parameters that a module lost. One that had its default, and has it again, is not lost.
 */
static void report_left_out(
	struct swap_context *swap, const char *name, const struct strv *left_out)
{
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_strv_ struct strv lost = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *now = NULL;
	struct error ignored;

	if (!left_out->count || parameters_now(swap->root_fd, name, &now) < 0 ||
		parameter_split(now, name, &words, &ignored) < 0)
		return;
	for (size_t i = 0; i < left_out->count; i++)
		if (!strv_contains(&words, left_out->items[i]) &&
			strv_push(&lost, left_out->items[i]) < 0)
			return;
	text = lost.count ? strv_join(&lost, " ") : NULL;
	if (text)
		nic_note(swap->action,
			"%s is loaded without %.500s, which it had before: this build has no "
			"such parameter, or cannot be passed its value",
			name, text);
}

static int insert_with_options(struct swap_context *swap, const struct swap_module *module,
	const char *path, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	struct action *action = swap->action;
	_cleanup_strv_ struct strv left_out = { 0 };
	_cleanup_free_ char *chosen = NULL;
	struct insertion insertion = {
		.root_fd = swap->root_fd, .path = path, .name = module->name
	};
	int r = elf_module_open(swap->root_fd, path, &file, error);

	if (r < 0)
		return r;
	if (parameters_for_file(file, module->options, &chosen, &left_out) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", path + (*path == '/'));
	insertion.options = chosen;
	r = insert_file(&insertion, action->worker, &action->reason, error);
	if (r == -EINVAL && *chosen) {
		insertion.options = "";
		r = insert_file(&insertion, action->worker, &action->reason, error);
		if (r == 0)
			nic_note(action,
				"%s is loaded without \"%.500s\", which it had before: the "
				"kernel refuses it",
				module->name, chosen);
	}
	if (r < 0)
		return r;
	report_left_out(swap, module->name, &left_out);
	/* If the kernel shows nothing to compare, all that is known is that it took the file. */
	if (loaded_compare(swap->root_fd, module->name, file) == LOADED_OTHER)
		return error_set(error, -EEXIST,
			"%s is loaded, but not from /%s: something on the host loads modules at "
			"the same time (udev?)",
			module->name, path + (*path == '/'));
	return 0;
}

static int load_dependencies(
	struct swap_context *swap, struct loader *tree, const char *name, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = loader_resolve(tree, name, &names, error);

	for (size_t i = 0; r == 0 && i < names.count; i++)
		if (strcmp(names.items[i], name) != 0 &&
			!sysmodule_is_live(swap->root_fd, names.items[i]))
			r = loader_load(tree, swap->action->worker, names.items[i],
				&swap->action->reason, error);
	return r;
}

int swap_load(struct swap_context *swap, enum swap_source from, const struct swap_module *module,
	struct error *error)
{
	_cleanup_free_ char *path = NULL;
	struct loader *tree;
	int r = 0;

	if (from == SWAP_EXACT) {
		if (swap_is_build(swap, module))
			return 0;
		r = module_find(&swap->lookup, module->name, module->build_id, &path);
		if (r < 0)
			return error_set_errno(error, r, "the file of %s with the build id %s",
				module->name, *module->build_id ? module->build_id : "(none)");
		/* Dependencies were there when it was loaded, and may have gone with ours. */
		if (module_is_of_host(&swap->lookup, path))
			from = SWAP_HOST;
	}
	if (from != SWAP_EXACT) {
		tree = swap_tree(swap, from, error);
		if (!tree)
			return -ENOENT;
		if (!path)
			r = loader_file(tree, module->name, &path, error);
		if (r == 0)
			r = load_dependencies(swap, tree, module->name, error);
		if (r < 0)
			return r;
	}
	return insert_with_options(swap, module, path, error);
}

int swap_unload(
	struct swap_context *swap, const struct strv *names, bool holders_too, struct strv *removed)
{
	const struct unload unload = {
		.root_fd = swap->root_fd,
		.modules = names,
		.device_prefixes = swap->role->devices,
		.holders_too = holders_too,
	};
	struct action *action = swap->action;
	int r = unload_modules(&unload, action->worker, removed, &action->error);

	nic_network_restore_bond_macs(swap->nic);
	return action_reason(action, r == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, r);
}

int swap_unload_plan(
	struct swap_context *swap, const struct swap_plan *plan, bool undoing, struct strv *removed)
{
	_cleanup_strv_ struct strv going = { 0 };
	int r;

	/* Without nvidia_peermem, which is asked to go. */
	for (size_t i = 0; i < plan->go_count; i++)
		if (plan->go[i].part != SWAP_PEERMEM &&
			sysmodule_exists(swap->root_fd, plan->go[i].name) &&
			strv_push(&going, plan->go[i].name) < 0)
			return nic_no_memory(swap->action);
	if (!going.count) {
		/* A start that was killed here may have had no time for them. */
		nic_network_restore_bond_macs(swap->nic);
		return 0;
	}
	/* At the last moment: from here on GPUs have no direct way to the network. */
	r = peermem_make_way(swap->action, &going);
	if (r < 0)
		return r;
	kill_point(undoing ? "swap:undo:peermem" : "swap:peermem");
	return swap_unload(swap, &going, undoing, removed);
}

/* ---- out */

/* Whether the rollback will bring the very builds is reported while there still is a choice. */
static int report_lost_files(struct swap_context *swap)
{
	const struct swap_plan *plan = &swap->nic->swap;
	_cleanup_strv_ struct strv missing = { 0 };
	_cleanup_free_ char *names = NULL;

	for (size_t i = 0; i < plan->go_count; i++) {
		const struct swap_module *module = &plan->go[i];
		_cleanup_free_ char *path = NULL;
		int r;

		if (module->part == SWAP_PEERMEM)
			continue;
		r = module_find(&swap->lookup, module->name, module->build_id, &path);
		if (r == -ENOENT)
			r = strv_pushf(&missing, "%s (%.12s)", module->name, module->build_id);
		if (r < 0)
			return r;
	}
	if (!missing.count)
		return 0;
	names = strv_join(&missing, ", ");
	if (!names)
		return -ENOMEM;
	nic_note(swap->action,
		"no file has the build id of these loaded modules: %.600s: if the swap fails, "
		"the host's own modules are loaded instead",
		names);
	return 0;
}

/*
 * The kernel removes its folder of RDMA devices with the last node in it (Linux
 * drivers/base/devtmpfs.c, delete_path()), and this container's mount of that folder would show no
 * node of OFED's: something stays in it meanwhile.
 */
#define DEVICE_FOLDER_KEEPER "dev/infiniband/slipway"

static void keep_device_folder(const struct swap_context *swap)
{
	(void) mkdirat(swap->root_fd, DEVICE_FOLDER_KEEPER, 0700);
}

void swap_release_device_folder(const struct swap_context *swap)
{
	(void) unlinkat(swap->root_fd, DEVICE_FOLDER_KEEPER, AT_REMOVEDIR);
}

int nic_swap_out(struct action *action)
{
	_cleanup_(swap_close) struct swap_context swap = { 0 };
	_cleanup_strv_ struct strv removed = { 0 };
	const struct swap_plan *plan;
	int r = swap_open(&swap, action);

	if (r < 0)
		return r;
	plan = &swap.nic->swap;
	/* Since the comparison the proof and the save took their time. */
	r = nic_refuse(action, plan);
	if (r < 0)
		return r;
	if (report_lost_files(&swap) < 0)
		return nic_no_memory(action);
	r = journal_begin(plan, &swap.lookup, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	keep_device_folder(&swap);
	return swap_unload_plan(&swap, plan, false, &removed);
}

/* ---- in */

/* Modules that shall be the image's and are there in another build. */
static int list_conflicting(struct swap_context *swap, struct strv *conflicting)
{
	const struct role *role = swap->role;
	const struct strv *load = &swap->nic->swap.load;

	for (size_t i = 0; i < load->count; i++)
		if (strv_contains(&role->driver_modules, load->items[i]) &&
			swap_is_loaded(swap, load->items[i]) &&
			!swap_is_ours(swap, load->items[i]) &&
			strv_push(conflicting, load->items[i]) < 0)
			return -ENOMEM;
	return 0;
}

static int unload_conflicting(
	struct swap_context *swap, const struct strv *conflicting, int attempt)
{
	struct action *action = swap->action;
	_cleanup_strv_ struct strv removed = { 0 };
	_cleanup_free_ char *names = strv_join(conflicting, ", ");
	int r;

	if (!names)
		return nic_no_memory(action);
	if (attempt == CONFLICTS_MAX)
		return action_fail(action, REASON_LOAD_FAILED, -EEXIST,
			"something on the host (udev?) keeps loading its own %.300s while the "
			"image's modules are loaded: blacklist them in the host's modprobe.d",
			names);
	nic_note(action,
		"the host loaded its own %.300s in the middle of the swap: unloading them again",
		names);
	r = swap_unload(swap, conflicting, true, &removed);
	loader_forget(swap->trees[SWAP_IMAGE], &removed); /* ours that held them went, too */
	return r;
}

int nic_swap_in(struct action *action)
{
	_cleanup_(swap_close) struct swap_context swap = { 0 };
	const struct strv *load;
	struct loader *image;
	int r = swap_open(&swap, action);

	if (r < 0)
		return r;
	load = &swap.nic->swap.load;
	r = journal_enter(swap.root_fd, PHASE_LOADING, NULL, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	image = swap_tree(&swap, SWAP_IMAGE, &action->error);
	r = image ? role_parameters_remember(swap.role, image, &action->error) : -ENOENT;
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	for (int attempt = 0;; attempt++) {
		_cleanup_strv_ struct strv conflicting = { 0 };
		int loaded = 0;

		for (size_t i = 0; loaded == 0 && i < load->count; i++)
			loaded = loader_load(image, action->worker, load->items[i], &action->reason,
				&action->error);
		if (list_conflicting(&swap, &conflicting) < 0)
			return nic_no_memory(action);
		if (!conflicting.count)
			return action_reason(action, REASON_LOAD_FAILED, loaded);
		r = unload_conflicting(&swap, &conflicting, attempt);
		if (r < 0)
			return r;
		kill_point("swap:conflicting");
	}
}

/* ---- dependents */

/* Loads it, once it is proven that it will load on what is there now. */
static int load_proven(struct swap_context *swap, enum swap_source tree, bool over_image,
	const struct swap_module *module, struct error *why)
{
	_cleanup_strv_ struct strv names = { 0 };
	const struct prove_request request = {
		.prefix = tree == SWAP_HOST ? swap->role->host_root : "",
		.modules = &names,
		.over_image = over_image,
	};
	int r = strv_push(&names, module->name);

	if (r == 0)
		r = prove_tree(swap->action, &request);
	if (r == 0)
		return swap_load(swap, tree, module, why);
	*why = swap->action->error;
	return r;
}

static int load_dependent(struct swap_context *swap, const struct swap_module *module,
	bool of_image, struct error *why)
{
	if (of_image && swap_tree_has(swap, SWAP_IMAGE, module->name))
		return load_proven(swap, SWAP_IMAGE, false, module, why);
	if (!of_image && swap_load(swap, SWAP_EXACT, module, why) == 0)
		return 0;
	if (!swap_tree(swap, SWAP_HOST, why))
		return -ENOENT;
	if (!swap_tree_has(swap, SWAP_HOST, module->name))
		return error_set(why, -ENOENT,
			"%s of the host has no such module, and it was found nowhere else",
			swap->role->host_root);
	return load_proven(swap, SWAP_HOST, of_image, module, why);
}

int swap_load_dependents(struct swap_context *swap, bool of_image, struct strv *missing)
{
	const struct swap_plan *pending = &swap->journal.pending;
	_cleanup_strv_ struct strv absent = { 0 };
	struct action *action = swap->action;
	bool progress;
	struct error error;

	/* One may need another that comes later in the order: of a killed container's, say. */
	do {
		strv_free(&absent);
		progress = false;
		for (size_t i = pending->go_count; i-- > 0;) {
			const struct swap_module *module = &pending->go[i];
			struct error why = { 0 };

			/* In a rollback the driver itself is not a dependent. */
			if (module->part == SWAP_PEERMEM ||
				(!of_image && module->part == SWAP_DRIVER) ||
				sysmodule_exists(swap->root_fd, module->name))
				continue;
			if (load_dependent(swap, module, of_image, &why) == 0)
				progress = true;
			else if (strv_pushf(&absent, "%s: %s", module->name, why.text) < 0)
				return -ENOMEM;
		}
	} while (absent.count && progress);
	action->reason = REASON_INTERNAL;
	action->error = (struct error){ 0 };
	if (nic_push_all(missing, &absent) < 0)
		return -ENOMEM;
	/* "ib_iser: why" */
	for (size_t i = 0; i < missing->count; i++) {
		const char *name = missing->items[i];
		size_t length = strcspn(name, ":");

		nic_note(action, "%.*s could not be reloaded%s", (int) length, name, name + length);
	}
	if (journal_set_list(swap->root_fd, JOURNAL_MISSING, missing, &error) < 0)
		nic_note(action, "%s", error.text);
	return 0;
}

/* ---- mlx5's auxiliary modules, of the image */

/* Lists what the auxiliary modules would insert, dependencies first. */
static int list_auxiliary(struct swap_context *swap, struct strv *coming)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct error ignored;
	struct loader *image = swap_tree(swap, SWAP_IMAGE, &ignored);

	if (image && nic_resolve_auxiliary(swap->nic, image, &names) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < names.count; i++)
		if (!sysmodule_exists(swap->root_fd, names.items[i]) &&
			strv_push(coming, names.items[i]) < 0)
			return -ENOMEM;
	return 0;
}

/*
 * Loads those that were not there before, as the stock image does: others are dependents. One that
 * does not load is reported, and costs the node nothing that it had.
 */
static void load_auxiliary(struct swap_context *swap)
{
	const struct strv *auxiliary = &swap->nic->inputs.auxiliary;
	struct action *action = swap->action;
	struct loader *image = swap_tree(swap, SWAP_IMAGE, &action->error);

	for (size_t i = 0; image && i < auxiliary->count; i++) {
		char *name = auxiliary->items[i];
		const struct strv one = { .items = &name, .count = 1 };
		const struct prove_request request = { .prefix = "", .modules = &one };

		if (!strv_contains(&swap->role->driver_modules, name) ||
			swap_plan_find(&swap->journal.pending, name) ||
			sysmodule_exists(swap->root_fd, name))
			continue;
		if (prove_tree(action, &request) < 0 ||
			loader_load(image, action->worker, name, &action->reason, &action->error) <
				0)
			nic_note(action, "%s (%s) could not be loaded: %s", name,
				CONTRACT_ENV_AUXILIARY, action->error.text);
	}
	action->reason = REASON_INTERNAL;
	action->error = (struct error){ 0 };
}

int nic_swap_dependents(struct action *action)
{
	_cleanup_(swap_close) struct swap_context swap = { 0 };
	_cleanup_strv_ struct strv missing = { 0 };
	_cleanup_strv_ struct strv coming = { 0 };
	struct error why = { 0 };
	int r = swap_open(&swap, action);

	if (r < 0)
		return r;
	if (!journal_is_pending(swap.root_fd))
		return 0; /* nothing ever went */
	/* Dependents may be auxiliary ones, too: before either, the journal knows what comes. */
	if (list_auxiliary(&swap, &coming) < 0)
		return nic_no_memory(action);
	r = journal_enter(swap.root_fd, PHASE_DEPENDENTS, &coming, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (swap_load_dependents(&swap, true, &missing) < 0)
		return nic_no_memory(action);
	swap_release_device_folder(&swap);
	load_auxiliary(&swap);
	if (journal_forget_absent(swap.root_fd, &coming, &why) < 0)
		nic_note(action, "%s", why.text);
	return 0;
}

/* ---- copies for the next image */

bool nic_is_committed(const void *role)
{
	const struct nic *nic = role;

	return journal_phase(nic->role.root_fd) == PHASE_COMMITTED;
}

/* The files of all modules of the image that are loaded as its own. */
static int keep_loaded(struct swap_context *swap, struct error *error)
{
	const struct strv *set = &swap->role->driver_modules;
	struct loader *image = swap_tree(swap, SWAP_IMAGE, error);
	_cleanup_strv_ struct strv paths = { 0 };
	uint64_t hash = FNV64_START;
	char id[32];

	if (!image)
		return -ENOENT;
	for (size_t i = 0; i < set->count; i++) {
		const char *name = set->items[i];
		char build_id[BUILD_ID_HEX_SIZE];
		_cleanup_free_ char *path = NULL;
		int r;

		if (!swap_is_ours(swap, name))
			continue;
		r = loader_file(image, name, &path, error);
		if (r < 0)
			return r;
		if (strv_push(&paths, path + (*path == '/')) < 0)
			return error_set_errno(error, -ENOMEM, "%s", path);
		sysmodule_build_id(swap->root_fd, name, build_id);
		hash = fnv64_bytes(hash, name, strlen(name) + 1);
		hash = fnv64_bytes(hash, build_id, strlen(build_id) + 1);
	}
	(void) snprintf(id, sizeof(id), "%016" PRIx64, hash);
	return modules_keep(swap->nic, &paths, id, error);
}

int nic_keep_modules(struct action *action)
{
	_cleanup_(swap_close) struct swap_context swap = { 0 };
	struct error why = { 0 };

	if (swap_open(&swap, action) < 0)
		return 0;
	if (keep_loaded(&swap, &why) == 0)
		journal_end(swap.root_fd, false);
	else
		nic_note(action,
			"%.600s: if the next image fails, the host's own modules are loaded "
			"instead of these",
			why.text);
	return 0;
}
