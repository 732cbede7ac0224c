/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/modules/load.h"

#include <string.h>

#include "common/clock.h"
#include "entrypoint/modules/kmod_api.h"
#include "entrypoint/modules/kmsg.h"
#include "module/sysmodule.h"

struct loader {
	struct kmod_api api;
	struct kmod_ctx *context;
	int root_fd;
	char folder[256]; /* the module tree, for messages */
};

static void silent_log(void *data, int priority, const char *file, int line, const char *function,
	const char *format, va_list arguments)
{
	/* Failures come back as errno and are told once, with the module's name. */
	(void) data, (void) priority, (void) file, (void) line, (void) function, (void) format;
	(void) arguments;
}

int loader_open(
	int root_fd, const char *prefix, const char *krel, struct loader **ret, struct error *error)
{
	struct loader *loader = calloc(1, sizeof(*loader));
	int r;

	if (!loader)
		return error_set_errno(error, -ENOMEM, "module loader");
	loader->root_fd = root_fd;
	(void) snprintf(loader->folder, sizeof(loader->folder), "%s/lib/modules/%s", prefix, krel);
	r = kmod_api_open(&loader->api, error);
	if (r == 0) {
		loader->context = loader->api.kmod_new(loader->folder, NULL);
		if (!loader->context)
			r = error_set(error, -ENOENT, "libkmod cannot use %s", loader->folder);
	}
	if (r < 0) {
		free(loader);
		return r;
	}
	loader->api.kmod_set_log_fn(loader->context, silent_log, NULL);
	(void) loader->api.kmod_load_resources(loader->context);
	*ret = loader;
	return 0;
}

void loader_close(struct loader **loader)
{
	if (!*loader)
		return;
	(void) (*loader)->api.kmod_unref((*loader)->context);
	free(*loader);
	*loader = NULL;
}

/* Finds the module by its file name: an alias would be another module than the one asked for. */
static int find(const struct loader *loader, const char *name, struct kmod_module **ret,
	struct error *error)
{
	struct kmod_module *module = NULL;

	if (loader->api.kmod_module_new_from_name(loader->context, name, &module) < 0)
		return error_set(error, -ENOENT, "%s has no module %s", loader->folder, name);
	if (!loader->api.kmod_module_get_path(module) &&
		!sysmodule_exists(loader->root_fd, loader->api.kmod_module_get_name(module))) {
		(void) loader->api.kmod_module_unref(module);
		return error_set(error, -ENOENT, "%s has no module %s", loader->folder, name);
	}
	*ret = module;
	return 0;
}

/* What the errno of finit_module() means, and what to do (Linux kernel/module/main.c). */
static const char *explain(int code)
{
	switch (code) {
	case -ENODEV:
		return "the driver found no device that it can drive";
	case -ENOENT:
		return "a symbol that it needs is not there: load or rebuild what exports it";
	case -ENOEXEC:
		return "it was built for another kernel (vermagic): use an image for this kernel";
	case -EINVAL:
		return "a symbol version or a parameter does not fit: rebuild it against what is "
		       "loaded";
	case -EKEYREJECTED:
		return "its signature is by a key that the kernel does not trust: sign it, or "
		       "enrol the key";
	case -EPERM:
		return "the kernel forbids it (lockdown, modules_disabled, or no CAP_SYS_MODULE)";
	case -ENOMEM:
		return "the kernel is out of memory";
	default:
		return strerror(-code);
	}
}

int loader_failure(
	const char *name, int code, int kmsg_fd, enum reason *reason, struct error *error)
{
	char kernel_says[ERROR_TEXT_SIZE / 2];

	kmsg_about(kmsg_fd, name, kernel_says, sizeof(kernel_says));
	*reason = code == -ENODEV && strcmp(name, "nvidia") == 0 ? REASON_NO_NVIDIA_DEVICE
								 : REASON_LOAD_FAILED;
	return error_set(error, code, "%s: the kernel refused it (%s): %s%s%s", name,
		strerrorname_np(-code), explain(code), *kernel_says ? "; the kernel's log: " : "",
		kernel_says);
}

static int insert(const struct loader *loader, struct worker *worker, struct kmod_module *module,
	enum reason *reason, struct error *error)
{
	const char *name = loader->api.kmod_module_get_name(module);
	_cleanup_close_ int kmsg_fd = -1;
	uint64_t begun_ms;
	int r;

	if (sysmodule_is_live(loader->root_fd, name))
		return 0;
	kmsg_fd = kmsg_open_at_end(loader->root_fd);
	begun_ms = clock_monotonic_ms();
	r = loader->api.kmod_module_insert_module(
		module, 0, loader->api.kmod_module_get_options(module));
	if (r == -EEXIST)
		return 0; /* another loader, udev say, was quicker */
	if (r < 0)
		return loader_failure(name, r, kmsg_fd, reason, error);
	worker_tell(
		worker, WORKER_LOADED, (uint32_t) (clock_monotonic_ms() - begun_ms), "%s", name);
	return 0;
}

/* Calls @visit for each dependency of @module, deepest first, then for @module. */
static int for_each_dependency(const struct loader *loader, struct kmod_module *module,
	int (*visit)(void *context, struct kmod_module *module), void *context)
{
	struct kmod_list *list = loader->api.kmod_module_get_dependencies(module);
	struct kmod_list *item;
	int r = 0;

	for (item = list; r == 0 && item; item = loader->api.kmod_list_next(list, item)) {
		struct kmod_module *dependency = loader->api.kmod_module_get_module(item);

		r = visit(context, dependency);
		(void) loader->api.kmod_module_unref(dependency);
	}
	if (list)
		(void) loader->api.kmod_module_unref_list(list);
	return r < 0 ? r : visit(context, module);
}

struct load_call {
	const struct loader *loader;
	struct worker *worker;
	enum reason *reason;
	struct error *error;
	struct strv *names;
};

static int visit_insert(void *context, struct kmod_module *module)
{
	const struct load_call *call = context;

	return insert(call->loader, call->worker, module, call->reason, call->error);
}

static int visit_name(void *context, struct kmod_module *module)
{
	const struct load_call *call = context;

	return strv_push_unique(call->names, call->loader->api.kmod_module_get_name(module));
}

int loader_load(struct loader *loader, struct worker *worker, const char *name, enum reason *reason,
	struct error *error)
{
	struct load_call call = { loader, worker, reason, error, NULL };
	struct kmod_module *module = NULL;
	int r;

	*reason = REASON_LOAD_FAILED;
	r = find(loader, name, &module, error);
	if (r < 0)
		return r;
	r = for_each_dependency(loader, module, visit_insert, &call);
	(void) loader->api.kmod_module_unref(module);
	return r;
}

int loader_resolve(struct loader *loader, const char *name, struct strv *names, struct error *error)
{
	struct load_call call = { loader, NULL, NULL, error, names };
	struct kmod_module *module = NULL;
	int r = find(loader, name, &module, error);

	if (r < 0)
		return r;
	r = for_each_dependency(loader, module, visit_name, &call);
	(void) loader->api.kmod_module_unref(module);
	return r;
}

int loader_file(struct loader *loader, const char *name, char **ret_path, struct error *error)
{
	struct kmod_module *module = NULL;
	const char *path;
	char *copy;
	int r = find(loader, name, &module, error);

	if (r < 0)
		return r;
	path = loader->api.kmod_module_get_path(module);
	copy = path ? strdup(path) : NULL;
	(void) loader->api.kmod_module_unref(module);
	if (!path)
		return error_set(error, -ENOENT, "%s has no file for %s", loader->folder, name);
	if (!copy)
		return error_set_errno(error, -ENOMEM, "%s", name);
	*ret_path = copy;
	return 0;
}

int loader_options(struct loader *loader, const char *name, char **ret_options, struct error *error)
{
	struct kmod_module *module = NULL;
	const char *options;
	int r = find(loader, name, &module, error);

	if (r < 0)
		return r;
	options = loader->api.kmod_module_get_options(module);
	*ret_options = strdup(options ? options : "");
	(void) loader->api.kmod_module_unref(module);
	return *ret_options ? 0 : error_set_errno(error, -ENOMEM, "%s", name);
}

static int push_info(struct parameters_taken *taken, const char *key, const char *value)
{
	if (!key || !value)
		return 0;
	if (strcmp(key, "parmtype") == 0)
		return strv_push(&taken->types, value);
	return strcmp(key, "parm") == 0 ? strv_push(&taken->described, value) : 0;
}

int loader_parameters(struct loader *loader, const char *name, struct parameters_taken *taken,
	struct error *error)
{
	const struct kmod_api *api = &loader->api;
	struct kmod_module *module = NULL;
	struct kmod_list *list = NULL;
	int r = find(loader, name, &module, error);

	if (r < 0)
		return r;
	r = api->kmod_module_get_info(module, &list);
	if (r < 0)
		r = error_set_errno(error, r, "%s's own file in %s", name, loader->folder);
	for (struct kmod_list *item = list; r >= 0 && item; item = api->kmod_list_next(list, item))
		if (push_info(taken, api->kmod_module_info_get_key(item),
			    api->kmod_module_info_get_value(item)) < 0)
			r = error_set_errno(error, -ENOMEM, "%s", name);
	if (list)
		api->kmod_module_info_free_list(list);
	(void) api->kmod_module_unref(module);
	return r < 0 ? r : 0;
}
