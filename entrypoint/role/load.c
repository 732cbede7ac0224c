/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/load.h"

#include <string.h>

#include "entrypoint/role/insert.h"
#include "entrypoint/role/kmod_api.h"
#include "entrypoint/role/kmsg.h"
#include "entrypoint/role/modprobe_d.h"
#include "entrypoint/role/module_tree.h"
#include "module/elf.h"
#include "module/sysmodule.h"

struct loader {
	int root_fd;
	char folder[256]; /* the module tree */
	struct module_tree tree;
	struct modprobe_d conf;
	bool has_conf;         /* it was read */
	struct strv inserted;  /* what the kernel took from us */
	int kmsg_fd;           /* the kernel's log, from the first module on; or -1 */
	struct kmod_api api;   /* where options are beyond modprobe_d.h */
	struct kmod_ctx *kmod; /* or NULL */
};

int loader_open(
	int root_fd, const char *prefix, const char *krel, struct loader **ret, struct error *error)
{
	struct loader *loader = calloc(1, sizeof(*loader));
	int r;

	if (!loader)
		return error_set_errno(error, -ENOMEM, "module loader");
	loader->root_fd = root_fd;
	loader->kmsg_fd = -1;
	(void) snprintf(loader->folder, sizeof(loader->folder), "%s/lib/modules/%s", prefix, krel);
	r = module_tree_open(root_fd, loader->folder, &loader->tree);
	if (r < 0) {
		r = error_set_errno(error, r, "%s/modules.dep", loader->folder);
		free(loader);
		return r;
	}
	*ret = loader;
	return 0;
}

void loader_close(struct loader **loader)
{
	struct loader *closing = TAKE_PTR(*loader);

	if (!closing)
		return;
	if (closing->kmod)
		(void) closing->api.kmod_unref(closing->kmod);
	module_tree_close(&closing->tree);
	modprobe_d_free(&closing->conf);
	strv_free(&closing->inserted);
	cleanup_close(&closing->kmsg_fd);
	free(closing);
}

static int has_no_module(const struct loader *loader, const char *name, struct error *error)
{
	return error_set(error, -ENOENT, "%s has no module %s", loader->folder, name);
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

static void silent_log(void *data, int priority, const char *file, int line, const char *function,
	const char *format, va_list arguments)
{
	/* Failures come back as errno and are told once, with the module's name. */
	(void) data, (void) priority, (void) file, (void) line, (void) function, (void) format;
	(void) arguments;
}

static int open_kmod(struct loader *loader, struct error *error)
{
	int r;

	if (loader->kmod)
		return 0;
	r = kmod_api_open(&loader->api, error);
	if (r < 0)
		return r;
	loader->kmod = loader->api.kmod_new(loader->folder, NULL);
	if (!loader->kmod)
		return error_set(error, -ENOENT, "libkmod cannot use %s", loader->folder);
	loader->api.kmod_set_log_fn(loader->kmod, silent_log, NULL);
	return 0;
}

static int ask_kmod(struct loader *loader, const char *name, char **ret, struct error *error)
{
	struct kmod_module *module = NULL;
	const char *options;
	int r = open_kmod(loader, error);

	if (r < 0)
		return r;
	if (loader->api.kmod_module_new_from_name(loader->kmod, name, &module) < 0)
		return has_no_module(loader, name, error);
	options = loader->api.kmod_module_get_options(module);
	*ret = strdup(options ? options : "");
	(void) loader->api.kmod_module_unref(module);
	return *ret ? 0 : error_set_errno(error, -ENOMEM, "%s", name);
}

int loader_options(struct loader *loader, const char *name, char **ret_options, struct error *error)
{
	int r = loader->has_conf ? 0 : modprobe_d_read(loader->root_fd, &loader->conf);

	if (r == 0) {
		loader->has_conf = true;
		r = modprobe_d_options(&loader->conf, name, ret_options);
	}
	if (r == -EOPNOTSUPP)
		return ask_kmod(loader, name, ret_options, error);
	return r < 0 ? error_set_errno(error, r, "options of %s", name) : 0;
}

bool loader_inserted(const struct loader *loader, const char *name)
{
	return strv_contains(&loader->inserted, name);
}

void loader_forget(struct loader *loader, const struct strv *modules)
{
	for (size_t i = loader->inserted.count; i-- > 0;)
		if (strv_contains(modules, loader->inserted.items[i]))
			strv_remove(&loader->inserted, i);
}

/* @path is relative to the tree. */
static int insert(struct loader *loader, struct worker *worker, const char *path,
	enum reason *reason, struct error *error)
{
	_cleanup_free_ char *options = NULL;
	char full[PATH_MAX];
	char name[NAME_MAX];
	bool taken = false;
	int r;

	module_tree_name(path, name);
	/* Several of ours may depend on one. */
	if (loader_inserted(loader, name) || sysmodule_is_live(loader->root_fd, name))
		return 0;
	r = loader_options(loader, name, &options, error);
	if (r < 0)
		return r;
	if (snprintf(full, sizeof(full), "%s/%s", loader->folder, path) >= (int) sizeof(full))
		return error_set_errno(error, -ENAMETOOLONG, "%s", path);
	r = insert_file(&(const struct insertion){ loader->root_fd, full, name, options, &taken,
				&loader->kmsg_fd },
		worker, reason, error);
	if (r == 0 && taken && strv_push(&loader->inserted, name) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return r;
}

int loader_load(struct loader *loader, struct worker *worker, const char *name, enum reason *reason,
	struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	int r = module_tree_order(&loader->tree, name, &paths);

	*reason = REASON_LOAD_FAILED;
	if (r == -ENOENT && sysmodule_is_live(loader->root_fd, name))
		return 0;
	if (r == -ENOENT)
		return has_no_module(loader, name, error);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	for (size_t i = 0; r == 0 && i < paths.count; i++)
		r = insert(loader, worker, paths.items[i], reason, error);
	return r;
}

int loader_resolve(struct loader *loader, const char *name, struct strv *names, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	int r = module_tree_order(&loader->tree, name, &paths);

	if (r == -ENOENT) {
		if (!sysmodule_exists(loader->root_fd, name))
			return has_no_module(loader, name, error);
		r = strv_push(&paths, name);
	}
	for (size_t i = 0; r == 0 && i < paths.count; i++) {
		char module[NAME_MAX];

		module_tree_name(paths.items[i], module);
		r = strv_push_unique(names, module);
	}
	return r < 0 ? error_set_errno(error, r, "%s", name) : 0;
}

int loader_file(struct loader *loader, const char *name, char **ret_path, struct error *error)
{
	char path[PATH_MAX];

	if (!module_tree_path(&loader->tree, name, path))
		return sysmodule_exists(loader->root_fd, name)
			       ? error_set(error, -ENOENT, "%s has no file for %s", loader->folder,
					 name)
			       : has_no_module(loader, name, error);
	if (asprintf(ret_path, "%s/%s", loader->folder, path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return 0;
}

int loader_parameters(struct loader *loader, const char *name, struct parameters_taken *taken,
	struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *path = NULL;
	int r = loader_file(loader, name, &path, error);

	if (r == 0)
		r = elf_module_open_brief(loader->root_fd, path, &module, error);
	if (r < 0)
		return r;
	if (elf_module_info_all(module, "parmtype", &taken->types) < 0 ||
		elf_module_info_all(module, "parm", &taken->described) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return 0;
}
