/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/parameters.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/load.h"
#include "entrypoint/role/parameter.h"
#include "entrypoint/role/role_parameters.h"

#define CONF_SUFFIX ".conf"
#define CONF_LIMIT  (64UL * 1024)
#define NAME_SIZE   64

/*
 * What a node of a cluster wants unless its owner says otherwise. GPU memory of a coherent system
 * (GH200, GB200) would be the kernel's own as a NUMA node, and be counted as the node's memory.
 */
static const struct {
	const char *module;
	const char *name;
	const char *parameter;
} defaults[] = {
	{ "nvidia", "NVreg_CoherentGPUMemoryMode", "NVreg_CoherentGPUMemoryMode=driver" },
};

/* "nvidia-uvm.conf" speaks of nvidia_uvm. False for what is no such file. */
static bool module_of_file(const char *file, char module[NAME_SIZE])
{
	size_t length = strlen(file);
	size_t suffix = strlen(CONF_SUFFIX);

	if (length <= suffix || length - suffix >= NAME_SIZE ||
		strcmp(file + length - suffix, CONF_SUFFIX) != 0)
		return false;
	(void) snprintf(module, NAME_SIZE, "%.*s", (int) (length - suffix), file);
	for (char *c = module; *c; c++)
		if (*c == '-')
			*c = '_';
	return true;
}

static int read_file(const struct role *role, const char *file, const char *module,
	struct strv *parameters, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	char path[512];
	int r;

	(void) snprintf(path, sizeof(path), CONTRACT_MODULE_CONF "/%s", file);
	r = fs_read(role->root_fd, path, CONF_LIMIT, &text, NULL);
	if (r < 0)
		return error_set_errno(error, r, "/%s", path);
	r = parameter_split(text, module, parameters, error);
	return r < 0 ? error_prefix(error, r, "/%s", path) : 0;
}

/* All files that speak of the module: "nvidia-uvm.conf" as the operator has it, "nvidia_uvm.conf"
 * as others write it. */
static int read_files(const struct role *role, const struct strv *files, const char *module,
	struct strv *parameters, struct error *error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < files->count; i++) {
		char about[NAME_SIZE];

		if (module_of_file(files->items[i], about) && strcmp(about, module) == 0)
			r = read_file(role, files->items[i], module, parameters, error);
	}
	return r;
}

static bool is_said(const struct strv *parameters, const char *name)
{
	for (size_t i = 0; i < parameters->count; i++)
		if (parameter_is(parameters->items[i], name))
			return true;
	return false;
}

static int add_defaults(
	const struct parameters_taken *taken, const char *module, struct strv *parameters)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(defaults); i++)
		if (strcmp(defaults[i].module, module) == 0 &&
			!is_said(parameters, defaults[i].name) &&
			parameter_exists(taken, defaults[i].name))
			r = strv_push(parameters, defaults[i].parameter);
	return r;
}

static bool has_defaults(const char *module)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
		if (strcmp(defaults[i].module, module) == 0)
			return true;
	return false;
}

/* The files that speak of the module: one, unless somebody mounts both spellings. */
static char *files_of(const struct strv *files, const char *module)
{
	_cleanup_strv_ struct strv paths = { 0 };

	for (size_t i = 0; i < files->count; i++) {
		char about[NAME_SIZE];

		if (module_of_file(files->items[i], about) && strcmp(about, module) == 0 &&
			strv_pushf(&paths, "/" CONTRACT_MODULE_CONF "/%s", files->items[i]) < 0)
			return NULL;
	}
	return strv_join(&paths, " or ");
}

static int check_all(const struct parameters_taken *taken, const struct strv *files,
	const char *module, const struct strv *parameters, struct error *error)
{
	_cleanup_free_ char *paths = NULL;

	for (size_t i = 0; i < parameters->count; i++) {
		int r = parameter_check(taken, parameters->items[i], error);

		if (r == 0)
			continue;
		paths = files_of(files, module);
		return error_prefix(error, r, "%s, the operator's kernelModuleConfig, on %s",
			paths ? paths : "/" CONTRACT_MODULE_CONF, module);
	}
	return 0;
}

static int parameters_of_module(const struct role *role, struct loader *loader,
	const struct strv *files, const char *module, struct strv *parameters, struct error *error)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = { 0 };
	int r = read_files(role, files, module, parameters, error);

	if (r < 0 || (!parameters->count && !has_defaults(module)))
		return r;
	r = loader_parameters(loader, module, &taken, error);
	if (r == 0)
		r = check_all(&taken, files, module, parameters, error);
	if (r == 0 && add_defaults(&taken, module, parameters) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", module);
	return r;
}

/* One who changes a parameter wants to see that it was heard, also when it was not. */
static void tell_unheard(struct action *action, const struct strv *files)
{
	const struct role *role = action->role;

	for (size_t i = 0; i < files->count; i++) {
		char module[NAME_SIZE];

		if (module_of_file(files->items[i], module) && strcmp(module, "gridd") != 0 &&
			!strv_contains(&role->driver_modules, module))
			worker_report(action->worker, WORKER_NOTE, 0,
				"/" CONTRACT_MODULE_CONF "/%s has no effect: the image has no "
				"module %s",
				files->items[i], module);
	}
}

/* Appends "options MODULE PARAMETER…" for each module that has any. */
static int collect(struct action *action, struct loader *loader, struct strv *lines)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(role->root_fd, CONTRACT_MODULE_CONF, &files);

	if (r < 0 && r != -ENOENT)
		return error_set_errno(&action->error, r, "/" CONTRACT_MODULE_CONF);
	tell_unheard(action, &files);
	r = 0;
	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++) {
		const char *module = role->driver_modules.items[i];
		_cleanup_strv_ struct strv parameters = { 0 };
		_cleanup_free_ char *joined = NULL;

		r = parameters_of_module(role, loader, &files, module, &parameters, &action->error);
		if (r < 0 || !parameters.count)
			continue;
		joined = strv_join(&parameters, " ");
		if (!joined || strv_pushf(lines, "options %s %s", module, joined) < 0)
			return error_set_errno(&action->error, -ENOMEM, "%s", module);
		worker_report(
			action->worker, WORKER_NOTE, 0, "parameters of %s: %s", module, joined);
	}
	return r;
}

int gpu_parameters(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	int r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = collect(action, loader, &lines);
	if (r < 0)
		return action_reason(
			action, r == -EINVAL ? REASON_BAD_PARAMETER : REASON_INTERNAL, r);
	return action_reason(action, REASON_MOUNT_FAILED,
		role_parameters_write(role, PARAMETERS_PATH, &lines, &action->error));
}
