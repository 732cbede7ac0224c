/* SPDX-License-Identifier: Apache-2.0 */
/* One tree of modules: names, files, order, options, loading. */
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/role/modprobe_d.h"
#include "entrypoint/role/modset_internal.h"
#include "module/running.h"

#define INDEX_LIMIT ((size_t) 8 << 20) /* bytes of modules.dep */

/* modprobe.d(5), in their order; also where /usr is not merged. */
static const char *const config_folders[] = { "etc/modprobe.d", "run/modprobe.d",
	"usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d" };

struct loader {
	int root_fd;
	char prefix[128];
	char folder[256]; /* lib/modules/<krel> of the tree */
	struct kmod kmod;
	char kmod_folder[288]; /* the same for libkmod */
	char *index;           /* its modules.dep; NULL for the image, whose root is ours */
	/* Modules whose files have other names, as the kernel has them and as the tree has them. */
	struct strv renamed, file_names;
	struct strv inserted; /* what the kernel took from us */
	struct strv visited;  /* soft dependencies that were tried: they may go round in a circle */
	int kmsg_fd;          /* the kernel's log, from the first module on; or -1 */
};

/* modprobe_file_fn. One that cannot be read is ignored by libkmod, too. */
static int append_config(void *data, const char *path, char *text, int r)
{
	const int *fd = data;

	(void) path;
	(void) r;
	if (text)
		r = fs_write_all(*fd, text, strlen(text));
	return text && r == 0 ? fs_write_all(*fd, "\n", 1) : 0;
}

/*
 * All that modprobe.d has below @prefix, as one file in memory. libkmod would follow links from our
 * root: Debian's nvidia.conf leads to /etc/alternatives, NixOS's files to /etc/static.
 */
static int open_config(int root_fd, const char *prefix)
{
	_cleanup_close_ int fd = (int) syscall(SYS_memfd_create, "modprobe.d", MFD_CLOEXEC);
	struct modprobe_folder folders[ARRAY_SIZE(config_folders)];
	int r;

	/* Before Linux 3.17, or where a filter forbids it, links stay as libkmod sees them. */
	if (fd < 0)
		return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -errno : -ENOSYS;
	for (size_t i = 0; i < ARRAY_SIZE(config_folders); i++)
		folders[i] = (struct modprobe_folder){ prefix, config_folders[i] };
	r = modprobe_d_read(root_fd, folders, ARRAY_SIZE(folders), append_config, &fd);
	return r < 0 ? r : TAKE_FD(fd);
}

int loader_open(
	int root_fd, const char *prefix, const char *krel, struct loader **ret, struct error *error)
{
	const char *config[ARRAY_SIZE(config_folders) + 1] = { NULL };
	_cleanup_(loader_close) struct loader *loader = calloc(1, sizeof(*loader));
	char paths[ARRAY_SIZE(config_folders)][192];
	_cleanup_close_ int config_fd = -1;
	char index[PATH_MAX];
	char top[160]; /* for libkmod, which knows no root */
	int r;

	if (!loader)
		return error_set_errno(error, -ENOMEM, "module loader");
	loader->root_fd = root_fd;
	loader->kmsg_fd = -1;
	(void) snprintf(loader->prefix, sizeof(loader->prefix), "%s", prefix);
	(void) snprintf(loader->folder, sizeof(loader->folder), "%s/lib/modules/%s", prefix, krel);
	(void) snprintf(index, sizeof(index), "%s/modules.dep.bin", loader->folder);
	if (!fs_exists(root_fd, index))
		return error_set_errno(error, -ENOENT, "%s", index);
	index[strlen(index) - strlen(".bin")] = '\0';
	r = *prefix ? fs_read(root_fd, index, INDEX_LIMIT, &loader->index, NULL) : 0;
	if (r < 0)
		return error_set_errno(error, r, "%s", index);
	if (*prefix == '/' || !*prefix)
		(void) snprintf(top, sizeof(top), "%s", prefix);
	else
		(void) snprintf(top, sizeof(top), "/proc/self/fd/%d/%s", root_fd, prefix);
	(void) snprintf(
		loader->kmod_folder, sizeof(loader->kmod_folder), "%s/lib/modules/%s", top, krel);
	for (size_t i = 0; i < ARRAY_SIZE(config_folders); i++) {
		(void) snprintf(paths[i], sizeof(paths[i]), "%s/%s", top, config_folders[i]);
		config[i] = paths[i];
	}
	config_fd = *prefix ? open_config(root_fd, prefix) : -ENOSYS;
	if (config_fd < 0 && config_fd != -ENOSYS)
		return error_set_errno(error, config_fd, "modprobe.d of %s, in memory", prefix);
	if (config_fd >= 0) {
		(void) snprintf(paths[0], sizeof(paths[0]), "/proc/self/fd/%d", config_fd);
		config[1] = NULL;
	}
	r = kmod_open(&loader->kmod, loader->kmod_folder, config, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(loader);
	return 0;
}

void loader_close(struct loader **loader)
{
	struct loader *closing = TAKE_PTR(*loader);

	if (!closing)
		return;
	kmod_close(&closing->kmod);
	free(closing->index);
	strv_free(&closing->renamed);
	strv_free(&closing->file_names);
	strv_free(&closing->inserted);
	strv_free(&closing->visited);
	cleanup_close(&closing->kmsg_fd);
	free(closing);
}

static int has_no_module(const struct loader *loader, const char *name, struct error *error)
{
	return error_set(error, -ENOENT, "%s has no module %s", loader->folder, name);
}

const char *loader_file_name(const struct loader *loader, const char *name)
{
	for (size_t i = 0; i < loader->renamed.count; i++)
		if (strcmp(loader->renamed.items[i], name) == 0)
			return loader->file_names.items[i];
	return name;
}

static const char *kernels_name(const struct loader *loader, const char *file_name)
{
	for (size_t i = 0; i < loader->renamed.count; i++)
		if (strcmp(loader->file_names.items[i], file_name) == 0)
			return loader->renamed.items[i];
	return file_name;
}

int loader_rename(
	struct loader *loader, const char *name, const char *file_name, struct error *error)
{
	for (size_t i = 0; i < loader->renamed.count; i++)
		if (strcmp(loader->renamed.items[i], name) == 0) {
			strv_remove(&loader->renamed, i);
			strv_remove(&loader->file_names, i);
			break;
		}
	if (strv_push(&loader->file_names, file_name) < 0 || strv_push(&loader->renamed, name) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return 0;
}

/* Appends the names of a list of modules, which is freed. */
static int take_names(const struct loader *loader, struct kmod_list *list, struct strv *names)
{
	const struct kmod *kmod = &loader->kmod;
	int r = 0;

	for (struct kmod_list *entry = list; r == 0 && entry;
		entry = kmod->kmod_list_next(list, entry)) {
		_cleanup_(handle_drop) struct handle handle = { kmod,
			kmod->kmod_module_get_module(entry) };

		r = strv_push_unique(
			names, kernels_name(loader, kmod->kmod_module_get_name(handle.module)));
	}
	(void) kmod->kmod_module_unref_list(list);
	return r;
}

/* Looks @name up as it is; the tree need not have it. */
static int find_named(
	const struct loader *loader, const char *name, struct handle *ret, struct error *error)
{
	int r = loader->kmod.kmod_module_new_from_name(loader->kmod.context, name, &ret->module);

	ret->kmod = &loader->kmod;
	return r < 0 ? error_set_errno(error, r, "%s: module %s", loader->folder, name) : 0;
}

static int find_module(
	const struct loader *loader, const char *name, struct handle *ret, struct error *error)
{
	return find_named(loader, loader_file_name(loader, name), ret, error);
}

/* @own: the module by its own name, where its file has another; else it is left as it is. */
static int find_both(const struct loader *loader, const char *name, struct handle *file,
	struct handle *own, struct error *error)
{
	int r = find_module(loader, name, file, error);

	return r < 0 || loader_file_name(loader, name) == name
		       ? r
		       : find_named(loader, name, own, error);
}

/*
 * The next line of modules.dep that has a module, from *@rest on, which then is after it: the
 * line's begin, and the file and its name; NULL at the end.
 */
static const char *next_line(
	const char **rest, char path[PATH_MAX], char name[ELF_STRUCT_NAME_SIZE])
{
	while (**rest) {
		const char *line = *rest;

		*rest += strcspn(line, "\n");
		*rest += **rest == '\n';
		(void) snprintf(path, PATH_MAX, "%.*s", (int) strcspn(line, ":\n"), line);
		if (module_name_of_file(path, name, ELF_STRUCT_NAME_SIZE))
			return line;
	}
	return NULL;
}

/*
 * Appends the dependencies that the tree's modules.dep has for @file_name, in the order of loading.
 * libkmod, which looks at each file, has none at all where one is a link that leads nowhere for us.
 */
static int take_listed(const struct loader *loader, const char *file_name, struct strv *names)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *text = NULL;
	char name[ELF_STRUCT_NAME_SIZE];
	const char *rest = loader->index;
	char path[PATH_MAX];
	const char *line;
	int r;

	do
		line = next_line(&rest, path, name);
	while (line && strcmp(name, file_name) != 0);
	if (!line)
		return 0;
	line += strcspn(line, ":\n");
	line += *line == ':';
	text = strndup(line, strcspn(line, "\n"));
	r = text ? strv_split(&paths, text, " \t") : -ENOMEM;
	for (size_t i = paths.count; r == 0 && i-- > 0;)
		if (module_name_of_file(paths.items[i], name, sizeof(name)))
			r = strv_push_unique(names, kernels_name(loader, name));
	return r;
}

/* Appends what should be loaded before a module, and after it. */
static int take_soft(const struct loader *loader, struct kmod_module *module, struct strv *before,
	struct strv *after)
{
	struct kmod_list *pre = NULL;
	struct kmod_list *post = NULL;
	int r = loader->kmod.kmod_module_get_softdeps(module, &pre, &post);
	int r_post;

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = take_names(loader, pre, before);
	r_post = take_names(loader, post, after);
	return r < 0 ? r : r_post;
}

/* The same by both names of the module. */
static int find_soft(
	const struct loader *loader, const char *name, struct strv *before, struct strv *after)
{
	_cleanup_(handle_drop) struct handle file = { 0 };
	_cleanup_(handle_drop) struct handle own = { 0 };
	struct error ignored;
	int r = find_both(loader, name, &file, &own, &ignored);

	if (r == 0)
		r = take_soft(loader, file.module, before, after);
	return r < 0 || !own.module ? r : take_soft(loader, own.module, before, after);
}

/* @soft: what is loaded with them because modprobe.d or the tree has it so, too, in no order. */
static int resolve(const struct loader *loader, const char *name, bool soft, struct strv *names,
	struct error *error)
{
	const struct kmod *kmod = &loader->kmod;
	_cleanup_(handle_drop) struct handle handle = { 0 };
	_cleanup_strv_ struct strv more = { 0 };
	int r = find_module(loader, name, &handle, error);

	if (r < 0)
		return r;
	if (!kmod->kmod_module_get_path(handle.module) && !sysmodule_exists(loader->root_fd, name))
		return has_no_module(loader, name, error);
	if (loader->index)
		r = take_listed(loader, kmod->kmod_module_get_name(handle.module), names);
	else
		r = take_names(loader, kmod->kmod_module_get_dependencies(handle.module), names);
	if (r == 0)
		r = strv_push_unique(
			names, kernels_name(loader, kmod->kmod_module_get_name(handle.module)));
	if (r == 0 && soft)
		r = find_soft(loader, name, &more, &more);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	for (size_t i = 0; i < more.count; i++) {
		struct error ignored;

		if (!strv_contains(names, more.items[i]) &&
			resolve(loader, more.items[i], true, names, &ignored) == -ENOMEM)
			return error_set_errno(error, -ENOMEM, "%s", name);
	}
	return 0;
}

int loader_resolve(struct loader *loader, const char *name, struct strv *names, struct error *error)
{
	return resolve(loader, name, false, names, error);
}

int loader_resolve_all(
	struct loader *loader, const char *name, struct strv *names, struct error *error)
{
	return resolve(loader, name, true, names, error);
}

/*
 * @listed: a file as modules.dep has it, relative to the tree's folder, or absolute where
 * depmod.conf has an "external" folder.
 */
static int find_file(
	const struct loader *loader, const char *listed, char **ret_path, struct error *error)
{
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "%s%s%s", *listed == '/' ? "" : loader->folder,
		*listed == '/' ? "" : "/", listed);
	if (*loader->prefix) {
		r = chase_in(loader->root_fd, loader->prefix,
			*listed == '/' ? path : path + strlen(loader->prefix), ret_path);
		return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
	}
	*ret_path = strdup(path);
	return *ret_path ? 0 : error_set_errno(error, -ENOMEM, "%s", path);
}

int loader_file(struct loader *loader, const char *name, char **ret_path, struct error *error)
{
	_cleanup_(handle_drop) struct handle handle = { 0 };
	int r = find_module(loader, name, &handle, error);
	size_t length = strlen(loader->kmod_folder);
	const char *path;

	if (r < 0)
		return r;
	path = loader->kmod.kmod_module_get_path(handle.module);
	if (!path && sysmodule_exists(loader->root_fd, name))
		return error_set(error, -ENOENT, "%s has no file for %s", loader->folder, name);
	if (!path)
		return has_no_module(loader, name, error);
	if (strncmp(path, loader->kmod_folder, length) == 0 && path[length] == '/')
		path += length + 1;
	return find_file(loader, path, ret_path, error);
}

int loader_options(struct loader *loader, const char *name, char **ret_options, struct error *error)
{
	_cleanup_(handle_drop) struct handle file = { 0 };
	_cleanup_(handle_drop) struct handle own = { 0 };
	const char *options[2] = { NULL };
	int r = find_both(loader, name, &file, &own, error);

	if (r < 0)
		return r;
	options[0] = loader->kmod.kmod_module_get_options(file.module);
	/* An install command passes those of the module on ($CMDLINE_OPTS of modprobe.d(5)). */
	if (own.module)
		options[1] = loader->kmod.kmod_module_get_options(own.module);
	if (asprintf(ret_options, "%s%s%s", options[0] ? options[0] : "",
		    options[0] && options[1] ? " " : "", options[1] ? options[1] : "") < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return 0;
}

int loader_elf(
	struct loader *loader, const char *name, struct elf_module **ret, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = loader_file(loader, name, &path, error);

	return r < 0 ? r : elf_module_open_brief(loader->root_fd, path, ret, error);
}

int loader_parameters(struct loader *loader, const char *name, struct parameters_taken *taken,
	struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	int r = loader_elf(loader, name, &module, error);

	if (r < 0)
		return r;
	if (elf_module_info_all(module, "parmtype", &taken->types) < 0 ||
		elf_module_info_all(module, "parm", &taken->described) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return 0;
}

int loader_compare(struct loader *loader, const char *name, enum loaded *ret, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	int r = loader_elf(loader, name, &module, error);

	if (r == 0)
		*ret = loaded_compare(loader->root_fd, name, module);
	return r;
}

/* Debian's nvidia-current-uvm for nvidia_uvm: it begins and ends as the module does. */
static bool may_be_of(const char *file_name, const struct strv *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		size_t word = strcspn(modules->items[i], "_");

		if (strncmp(file_name, modules->items[i], word) == 0 &&
			str_ends_with(file_name, modules->items[i] + word))
			return true;
	}
	return false;
}

/* The tree's file @listed is @file_name.ko: of which of @missing? The loaded build is the last. */
static int rename_to(struct loader *loader, const char *listed, const char *file_name,
	struct strv *missing, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_free_ char *path = NULL;
	const char *name;
	int r = find_file(loader, listed, &path, error);

	if (r == 0)
		r = elf_module_open_brief(loader->root_fd, path, &file, error);
	if (r < 0)
		return r == -ENOMEM ? r : 0; /* it cannot be loaded, whatever it is */
	name = elf_module_name(file);
	for (size_t i = 0; name && i < missing->count; i++) {
		bool same;

		if (strcmp(missing->items[i], name) != 0)
			continue;
		same = loaded_compare(loader->root_fd, name, file) == LOADED_SAME;
		if (same || loader_file_name(loader, missing->items[i]) == missing->items[i])
			r = loader_rename(loader, name, file_name, error);
		if (same)
			strv_remove(missing, i);
		break;
	}
	return r;
}

int loader_find_renamed(struct loader *loader, const struct strv *loaded, struct error *error)
{
	const char *rest = loader->index ? loader->index : "";
	_cleanup_strv_ struct strv missing = { 0 };
	char file_name[ELF_STRUCT_NAME_SIZE];
	char path[PATH_MAX];
	int r;

	for (size_t i = 0; i < loaded->count; i++) {
		_cleanup_(handle_drop) struct handle handle = { 0 };

		r = find_module(loader, loaded->items[i], &handle, error);
		if (r < 0)
			return r;
		if (!loader->kmod.kmod_module_get_path(handle.module) &&
			strv_push(&missing, loaded->items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", loaded->items[i]);
	}
	while (missing.count && next_line(&rest, path, file_name)) {
		if (!may_be_of(file_name, &missing))
			continue;
		r = rename_to(loader, path, file_name, &missing, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- loading */

/* modprobe goes on, too, when one of them does not load. */
static int load_soft(struct loader *loader, struct worker *worker, const struct strv *names)
{
	for (size_t i = 0; i < names->count; i++) {
		enum reason reason;
		struct error why;
		int r;

		if (strv_contains(&loader->visited, names->items[i]))
			continue;
		if (strv_push(&loader->visited, names->items[i]) < 0)
			return -ENOMEM;
		r = loader_load(loader, worker, names->items[i], &reason, &why);
		if (r < 0 && r != -ENOENT)
			worker_report(worker, WORKER_NOTE, 0, "soft dependency: %s", why.text);
	}
	return 0;
}

/* One of the tree, whose hard dependencies are loaded. */
static int load_one(struct loader *loader, struct worker *worker, const char *name,
	enum reason *reason, struct error *error)
{
	struct insertion insertion = { .root_fd = loader->root_fd, .name = name };
	_cleanup_(handle_drop) struct handle handle = { 0 };
	_cleanup_free_ char *options = NULL;
	_cleanup_free_ char *path = NULL; /* libkmod would follow links from our root */
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv after = { 0 };
	int r;

	/* Several of ours may depend on one. */
	if (loader_inserted(loader, name) || sysmodule_is_live(loader->root_fd, name))
		return 0;
	r = find_module(loader, name, &handle, error);
	if (r < 0)
		return r;
	r = loader_file(loader, name, &path, error);
	if (!path)
		return r;
	r = loader_options(loader, name, &options, error);
	if (r < 0)
		return r;
	insertion.path = path;
	insertion.options = options;
	if (find_soft(loader, name, &before, &after) < 0 || load_soft(loader, worker, &before) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	r = !*loader->prefix ? insert_module(&handle, -1, &insertion, &loader->kmsg_fd, worker,
				       reason, error)
			     : insert_path(&insertion, &loader->kmsg_fd, worker, reason, error);
	if (r < 0)
		return r;
	if ((r == 1 && strv_push(&loader->inserted, name) < 0) ||
		load_soft(loader, worker, &after) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	return 0;
}

int loader_load(struct loader *loader, struct worker *worker, const char *name, enum reason *reason,
	struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	*reason = REASON_LOAD_FAILED;
	r = loader_resolve(loader, name, &names, error);
	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = load_one(loader, worker, names.items[i], reason, error);
	return r;
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
