/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from the pod's environment and its ConfigMap which modules to load, with which parameters.
 *
 * Parameters come from /drivers/<module>.conf and from our defaults. NVreg_ImexChannelCount and
 * NVreg_CreateImexChannel0 are the user's alone: the DRA driver counts on the module's defaults.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/options.h"
#include "entrypoint/role/module_kind.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"
#include "module/running.h"

static bool has_conf(const struct role *role, const char *module)
{
	_cleanup_strv_ struct strv files = { 0 };

	if (fs_list(role->root_fd, CONTRACT_MODULE_CONF, &files) < 0)
		return false;
	for (size_t i = 0; i < files.count; i++) {
		char about[PARAMETERS_MODULE_SIZE];

		if (parameters_conf_module(files.items[i], about) && strcmp(about, module) == 0)
			return true;
	}
	return false;
}

static bool is_required(const struct role *role, const struct gpu_module *module, bool with_peermem)
{
	switch (module->kind) {
	case GPU_MODULE_BASE:
		return true;
	case GPU_MODULE_OPTION:
		return gpu_module_is_asked(module, &role->options);
	case GPU_MODULE_PEERMEM:
		return with_peermem;
	default:
		return false;
	}
}

static bool is_optional(const struct role *role, const struct gpu_module *module)
{
	switch (module->kind) {
	case GPU_MODULE_OPTION:
		return !gpu_module_is_asked(module, &role->options) && has_conf(role, module->name);
	case GPU_MODULE_ADDON:
		return gpu_module_is_asked(module, &role->options);
	default:
		return false;
	}
}

void gpu_module_list(const struct role *role, bool with_peermem, struct module_list *list)
{
	*list = (struct module_list){ .count = 0 };
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		if (is_required(role, module, with_peermem))
			list->names[list->count++] = module->name;
	list->required = list->count;
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		if (is_optional(role, module))
			list->names[list->count++] = module->name;
}

void gpu_report_missing_modules(struct role *role)
{
	if (!role->driver_modules.count)
		return; /* a build on the node has yet to make them */
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		if (module->kind == GPU_MODULE_ADDON &&
			gpu_module_is_asked(module, &role->options) &&
			!strv_contains(&role->driver_modules, module->name))
			role_note(role,
				"%s is true, but this image has no module %s for %s: the operator's own container for it has to load it, or build the image with slipway build %s SOURCE",
				module->variable, module->name, role->krel, module->build_option);
}

void gpu_report_ignored_env(struct role *role)
{
	/* Variables that every pod has (NODE_NAME and the like) are not reported. */
	static const struct ignored_env variables[] = {
		/* The operator's default. */
		{ "the image has compiled modules of one kind", "auto", { "KERNEL_MODULE_TYPE" } },
		{ "the image has compiled modules; if it has both kinds, KERNEL_MODULE_TYPE chooses",
			NULL, { "OPEN_KERNEL_MODULES_ENABLED" } },
		{ "no package is installed on the node", NULL,
			{ "UBUNTU_PRO_TOKEN", "DNF_RELEASEVER", "RHEL_VERSION", "RHCOS_VERSION",
				"RHCOS_IMAGE_MISSING" } },
		IGNORED_ENV_PROXIES,
	};
	const struct options *options = &role->options;
	const struct {
		const char *name;
		bool is_set;
		const char *reason;
	} arguments[] = {
		{ "--accept-license", options->accept_license,
			"the licence is accepted when the image is built" },
		{ "--tag", options->tag != NULL, "no package is looked up by a tag" },
		{ "--sign", options->sign != NULL,
			"modules are signed when the image is built (slipway build --sign-key)" },
		{ "--kernel", options->kernel && strcmp(options->kernel, role->krel) != 0,
			"modules are loaded into the running kernel only" },
	};
	const bool both = module_kind_has_both(role);
	const char *type = getenv("KERNEL_MODULE_TYPE");
	const char *version = getenv("DRIVER_VERSION");

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (arguments[i].is_set)
			role_note(role, "%s is set: not needed, because %s", arguments[i].name,
				arguments[i].reason);
	/* In an image of both kinds the first row's variable chooses. */
	ignored_env_report(
		&role->log, role->log.step, &variables[both], ARRAY_SIZE(variables) - both);
	if (!both && type && *type && strcmp(type, "auto") != 0 &&
		*role->image.kernel_module_type &&
		strcmp(type, role->image.kernel_module_type) != 0)
		role_note(role,
			"KERNEL_MODULE_TYPE asks for the %.16s modules, but this image has the %s ones: using those",
			type, role->image.kernel_module_type);
	if (version && *version && *role->image.version &&
		strcmp(version, role->image.version) != 0)
		role_note(role, "DRIVER_VERSION asks for %.64s, but this image has %s: using that",
			version, role->image.version);
}

/* One that the module does not have is given to it all the same: the kernel warns, and loads it. */
static int take_unknown(struct action *action, const char *module, const char *parameter,
	const char *where, struct strv *unknown)
{
	const struct role *role = action->role;

	if (role->options.strict_parameters)
		return error_prefix(&action->error, -EINVAL, "%s, on %s", where, module);
	worker_report(action->worker, WORKER_NOTE, 0, "%s: \"%s\" has no effect on %s: %s", where,
		parameter, module, action->error.text);
	if (strv_pushf(unknown, "%s %s", module, parameter) < 0)
		return error_set_errno(&action->error, -ENOMEM, "%s", module);
	return 0;
}

static int parameters_of_module(struct action *action, struct loader *loader, const char *module,
	struct strv *parameters, struct strv *unknown)
{
	const struct role *role = action->role;
	struct error *error = &action->error;
	_cleanup_(parameters_taken_free) struct parameters_taken taken = { 0 };
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *joined = NULL;
	char where[320];
	bool wants_preset = strcmp(module, "nvidia") == 0;
	int r = parameters_read_conf(role->root_fd, module, parameters, &paths, error);

	if (r < 0 || (!parameters->count && !wants_preset))
		return r;
	r = loader_parameters(loader, module, &taken, error);
	if (r < 0)
		return r;
	joined = strv_join(&paths, " or ");
	(void) snprintf(where, sizeof(where), "%.256s, the operator's kernelModuleConfig",
		joined ? joined : "/" CONTRACT_MODULE_CONF);
	for (size_t i = 0; i < parameters->count; i++) {
		const char *parameter = parameters->items[i];

		if (parameter_is(parameter, NVIDIA_COHERENT))
			wants_preset = false;
		r = parameter_check(&taken, parameter, error);
		if (r == -ENOENT)
			r = take_unknown(action, module, parameter, where, unknown);
		else if (r < 0)
			r = error_prefix(error, r, "%s, on %s", where, module);
		if (r < 0)
			return r;
	}
	if (wants_preset && parameter_exists(&taken, NVIDIA_COHERENT) &&
		strv_push(parameters, NVIDIA_COHERENT "=" NVIDIA_COHERENT_VALUE) < 0)
		return error_set_errno(error, -ENOMEM, "%s", module);
	return 0;
}

/*
 * Appends "options MODULE PARAMETER…" for each module that has any to @lines, and "MODULE
 * PARAMETER" for each that the module does not have to @unknown.
 */
static int collect(
	struct action *action, struct loader *loader, struct strv *lines, struct strv *unknown)
{
	const struct role *role = action->role;
	const struct strv *modules = &role->driver_modules;
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(role->root_fd, CONTRACT_MODULE_CONF, &files);

	if (r < 0 && r != -ENOENT)
		return error_set_errno(&action->error, r, "/" CONTRACT_MODULE_CONF);
	for (size_t i = 0; i < files.count; i++) {
		char module[PARAMETERS_MODULE_SIZE];

		if (parameters_conf_module(files.items[i], module) &&
			strcmp(module, "gridd") != 0 && !strv_contains(modules, module))
			worker_report(action->worker, WORKER_NOTE, 0,
				"/" CONTRACT_MODULE_CONF "/%s has no effect: the image has no "
				"module %s",
				files.items[i], module);
	}
	for (size_t i = 0; i < modules->count; i++) {
		const char *module = modules->items[i];
		_cleanup_strv_ struct strv parameters = { 0 };
		_cleanup_free_ char *joined = NULL;

		r = parameters_of_module(action, loader, module, &parameters, unknown);
		if (r < 0)
			return r;
		if (!parameters.count)
			continue;
		joined = strv_join(&parameters, " ");
		if (!joined || strv_pushf(lines, "options %s %s", module, joined) < 0)
			return error_set_errno(&action->error, -ENOMEM, "%s", module);
		worker_report(
			action->worker, WORKER_NOTE, 0, "parameters of %s: %s", module, joined);
	}
	return 0;
}

int gpu_parameters(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv unknown = { 0 };
	int r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = strv_pushf(&lines, "# for the set of modules %s", role->image.set);
	if (r == 0)
		r = collect(action, loader, &lines, &unknown);
	if (r < 0)
		return action_reason(
			action, r == -EINVAL ? REASON_BAD_PARAMETER : REASON_INTERNAL, r);
	r = role_parameters_write(role, PARAMETERS_PATH, &lines, &action->error);
	if (unknown.count == 0)
		role_list_remove(role, ROLE_UNKNOWN_LIST);
	else if (r == 0)
		r = role_list_write(role, ROLE_UNKNOWN_LIST, &unknown, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

int gpu_early_parameters(struct action *action)
{
	struct worker *worker = action->worker;
	struct worker silent = { .fd = -1 };
	int r;

	action->worker = &silent;
	r = gpu_parameters(action);
	action->worker = worker;
	return r;
}
