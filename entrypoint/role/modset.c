/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/modset.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libkmod.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/library.h"
#include "common/path.h"
#include "entrypoint/role/modprobe_d.h"
#include "entrypoint/role/processes.h"
#include "module/running.h"

#define USERS_NAMED 8

#define MODULE_LIMIT ((size_t) 1 << 30) /* bytes, unpacked */
#define INDEX_LIMIT  ((size_t) 8 << 20) /* bytes of modules.dep */

/*
 * ---- libkmod: only functions of kmod 20, which CentOS 7 has.
 *
 * Each process pays for its dlopen() (docs/architecture.md has the figures): it is opened for what
 * it knows, names, dependencies, options and packed files. One plain file is inserted, and a module
 * removed, by the system call itself.
 */

#define KMOD_SONAME "libkmod.so.2"

#define KMOD_FUNCTIONS(X)                                                                          \
	X(kmod_new)                                                                                \
	X(kmod_unref)                                                                              \
	X(kmod_set_log_fn)                                                                         \
	X(kmod_list_next)                                                                          \
	X(kmod_module_new_from_name)                                                               \
	X(kmod_module_new_from_path)                                                               \
	X(kmod_module_unref)                                                                       \
	X(kmod_module_unref_list)                                                                  \
	X(kmod_module_get_module)                                                                  \
	X(kmod_module_get_name)                                                                    \
	X(kmod_module_get_path)                                                                    \
	X(kmod_module_get_options)                                                                 \
	X(kmod_module_get_dependencies)                                                            \
	X(kmod_module_get_softdeps)                                                                \
	X(kmod_module_insert_module)

struct kmod {
	struct kmod_ctx *context;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none */
#define KMOD_MEMBER(name) __typeof__(&name) name;
	KMOD_FUNCTIONS(KMOD_MEMBER)
#undef KMOD_MEMBER
};

/* modprobe.d(5), in their order; also where /usr is not merged. */
static const char *const config_folders[] = { "etc/modprobe.d", "run/modprobe.d",
	"usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d" };
/* For one module by its file or name: modprobe.d does not count. */
static const char *const no_config[] = { NULL };

static void silent_log(void *data, int priority, const char *file, int line, const char *function,
	const char *format, va_list arguments)
{
	/* Failures come back as errno and are reported once, with the module's name. */
	(void) data, (void) priority, (void) file, (void) line, (void) function, (void) format;
	(void) arguments;
}

/* The library stays open until the worker exits. */
static int kmod_open(
	struct kmod *kmod, const char *folder, const char *const *config, struct error *error)
{
	const char *why;
	void *library = library_open(KMOD_SONAME, RTLD_LAZY, &why);

	if (!library)
		return error_set(error, -ELIBACC, "%s: the image lacks libkmod", why);
#define KMOD_LOOK_UP(name)                                                                         \
	*(void **) &kmod->name = dlsym(library, #name);                                            \
	if (!kmod->name)                                                                           \
		return error_set(error, -ELIBBAD, "%s has no %s", KMOD_SONAME, #name);
	KMOD_FUNCTIONS(KMOD_LOOK_UP)
#undef KMOD_LOOK_UP
	/* It reads the files here, before it knows silent_log(): bad lines would go to stderr. */
	(void) setenv("KMOD_LOG", "0", 1);
	kmod->context = kmod->kmod_new(folder, config);
	if (!kmod->context)
		return error_set(error, -ENOMEM, "libkmod cannot use %s", folder);
	kmod->kmod_set_log_fn(kmod->context, silent_log, NULL);
	return 0;
}

static void kmod_close(struct kmod *kmod)
{
	if (kmod->context)
		(void) kmod->kmod_unref(kmod->context);
}

/* A module of libkmod's, for as long as this is in scope. */
struct handle {
	const struct kmod *kmod;
	struct kmod_module *module;
};

static void handle_drop(struct handle *handle)
{
	if (handle->module)
		(void) handle->kmod->kmod_module_unref(handle->module);
}

/*
 * ---- the kernel's log: finit_module() answers with an errno, the cause stands there. Format of
 * its records: Linux Documentation/ABI/testing/dev-kmsg.
 */

/* The longest record that the kernel hands out is CONSOLE_EXT_LOG_MAX. */
#define KMSG_RECORD_SIZE 8192

/* Does the text name the module, with '-' or '_'? NVRM names NVIDIA's, too. */
static bool names_module(const char *text, const char *module)
{
	size_t length = strlen(module);

	for (const char *at = text; *at; at++) {
		size_t same = 0;

		while (same < length && (at[same] == '-' ? '_' : at[same]) == module[same])
			same++;
		if (same == length)
			return true;
	}
	return strncmp(module, "nvidia", strlen("nvidia")) == 0 && strstr(text, "NVRM");
}

/*
 * Puts into @text the newest records since the log was opened that name @module, joined by "; ". ""
 * when there are none.
 */
static void read_kmsg(int kmsg_fd, const char *module, char *text, size_t size)
{
	char record[KMSG_RECORD_SIZE];
	ssize_t got;

	text[0] = '\0';
	while (kmsg_fd >= 0 && (got = read(kmsg_fd, record, sizeof(record) - 1)) > 0) {
		/* "priority,sequence,time,flags;text\n key=value…" */
		char *message;
		size_t used = strlen(text);

		record[got] = '\0';
		message = strchr(record, ';');
		if (!message)
			continue;
		message++;
		message[strcspn(message, "\n")] = '\0';
		if (!names_module(message, module) || strlen(message) + 3 > size)
			continue;
		/* A newer record is worth more than an older one, which makes room. */
		while (used && used + strlen(message) + 3 > size) {
			char *rest = strstr(text, "; ");

			rest = rest ? rest + 2 : text + used;
			memmove(text, rest, strlen(rest) + 1);
			used = strlen(text);
		}
		(void) snprintf(text + used, size - used, "%s%s", used ? "; " : "", message);
	}
}

/* ---- a tree of modules */

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

	if (fd < 0)
		return -errno;
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
	config_fd = *prefix ? open_config(root_fd, prefix) : -1;
	if (config_fd == -ENOMEM)
		return error_set_errno(error, -ENOMEM, "modprobe.d");
	/* Without memfd_create(2), which Linux 3.17 brought, links stay as libkmod sees them. */
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

/* Also of a name that the tree does not have. */
static int find_module(
	const struct loader *loader, const char *name, struct handle *ret, struct error *error)
{
	int r = loader->kmod.kmod_module_new_from_name(
		loader->kmod.context, loader_file_name(loader, name), &ret->module);

	ret->kmod = &loader->kmod;
	return r < 0 ? error_set_errno(error, r, "%s: module %s", loader->folder, name) : 0;
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

/* The same by its name, and by its file's name where that is another. */
static int find_soft(
	const struct loader *loader, const char *name, struct strv *before, struct strv *after)
{
	const char *const both[] = { loader_file_name(loader, name), name };
	int r = 0;

	for (size_t i = 0; r == 0 && i < (both[0] == name ? 1U : 2U); i++) {
		_cleanup_(handle_drop) struct handle handle = { .kmod = &loader->kmod };

		r = loader->kmod.kmod_module_new_from_name(
			loader->kmod.context, both[i], &handle.module);
		if (r == 0)
			r = take_soft(loader, handle.module, before, after);
	}
	return r;
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
	_cleanup_(handle_drop) struct handle module = { .kmod = &loader->kmod };
	const char *options[2] = { NULL };
	int r = find_module(loader, name, &file, error);

	if (r < 0)
		return r;
	options[0] = loader->kmod.kmod_module_get_options(file.module);
	/* An install command passes those of the module on ($CMDLINE_OPTS of modprobe.d(5)). */
	if (strcmp(loader_file_name(loader, name), name) != 0) {
		r = loader->kmod.kmod_module_new_from_name(
			loader->kmod.context, name, &module.module);
		if (r < 0)
			return error_set_errno(error, r, "%s: module %s", loader->folder, name);
		options[1] = loader->kmod.kmod_module_get_options(module.module);
	}
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

/* Explains an errno of finit_module(), and what to do (Linux kernel/module/main.c). */
static const char *explain(int code)
{
	switch (code) {
	case -ENODEV:
		return "the driver found no device that it can drive";
	case -ENOENT:
		return "a symbol that it needs is missing: load or rebuild the module that exports it";
	case -ENOEXEC:
		return "it was built for another kernel (vermagic): use an image for this kernel";
	case -EINVAL:
		return "a symbol version or a parameter does not fit: rebuild it against the loaded modules";
	case -EKEYREJECTED:
		return "it has no signature by a key that the kernel trusts: sign it, or enrol the key";
	case -EACCES:
		return "a security policy forbids loading it, from the file and from memory (for "
		       "SELinux see ausearch -m avc on the node)";
	case -EPERM:
		return "the kernel forbids it (lockdown, modules_disabled, or no CAP_SYS_MODULE)";
	case -ENOMEM:
		return "the kernel is out of memory";
	default:
		return strerror(-code);
	}
}

/*
 * SELinux asks whether the file's label may be loaded, and a container's files have labels that may
 * not. Of a module in memory it asks for the process's own (Linux security/selinux/hooks.c,
 * selinux_kernel_module_from_file() and selinux_kernel_load_data()). -EACCES where the file cannot
 * be read or unpacked: the answer that its descriptor got.
 */
static int insert_from_memory(int root_fd, const char *path, const char *options)
{
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *plain = NULL;
	struct error ignored;
	enum decompress_format format;
	size_t size, plain_size;
	int r = fs_read(root_fd, path, MODULE_LIMIT, &data, &size);

	if (r < 0)
		return -EACCES;
	format = decompress_detect(data, size);
	if (format != DECOMPRESS_NONE &&
		decompress(format, data, size, MODULE_LIMIT, &plain, &plain_size, &ignored) < 0)
		return -EACCES;
	return syscall(SYS_init_module, plain ? plain : data, plain ? plain_size : size, options) <
			       0
		       ? -errno
		       : 0;
}

/*
 * 1: the kernel took it. 0: one of that name was there. @handle: libkmod's of the module; NULL: it
 * is the plain file @fd. @kmsg_fd: opened when it is -1.
 */
static int insert(const struct handle *handle, int fd, const struct insertion *insertion,
	int *kmsg_fd, struct worker *worker, enum reason *reason, struct error *error)
{
	const char *options = insertion->options ? insertion->options : "";
	char kernel_log[ERROR_TEXT_SIZE / 2];
	uint64_t begun_ms = clock_monotonic_ms();
	int r;

	*reason = REASON_LOAD_FAILED;
	if (*kmsg_fd < 0)
		*kmsg_fd =
			openat(insertion->root_fd, "dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (*kmsg_fd >= 0)
		(void) lseek(*kmsg_fd, 0, SEEK_END);
	if (handle)
		r = handle->kmod->kmod_module_insert_module(handle->module, 0, options);
	else
		r = syscall(SYS_finit_module, fd, options, 0) < 0 ? -errno : 0;
	if (r == -EACCES) {
		const char *path =
			handle ? handle->kmod->kmod_module_get_path(handle->module) : NULL;

		r = insert_from_memory(insertion->root_fd, path ? path : insertion->path, options);
		if (r == 0)
			worker_report(worker, WORKER_NOTE, 0,
				"%s: SELinux refused to load it from a container's file (EACCES); "
				"it was loaded from memory instead",
				insertion->name);
	}
	if (r == -EEXIST)
		return 0;
	if (r == 0) {
		worker_report(worker, WORKER_LOADED, (uint32_t) (clock_monotonic_ms() - begun_ms),
			"%s", insertion->name);
		return 1;
	}
	if (r == -ENODEV && strcmp(insertion->name, "nvidia") == 0)
		*reason = REASON_NO_NVIDIA_DEVICE;
	read_kmsg(*kmsg_fd, insertion->name, kernel_log, sizeof(kernel_log));
	return error_set(error, r, "%s: the kernel refused it (%s): %s%s%s", insertion->name,
		strerrorname_np(-r), explain(r), *kernel_log ? "; the kernel's log: " : "",
		kernel_log);
}

static int insert_packed(const struct insertion *insertion, int *kmsg_fd, struct worker *worker,
	enum reason *reason, struct error *error)
{
	_cleanup_(kmod_close) struct kmod kmod = { .context = NULL };
	_cleanup_(handle_drop) struct handle handle = { .kmod = &kmod };
	char path[PATH_MAX];
	int r = kmod_open(&kmod, "/", no_config, error);

	if (!kmod.context)
		return r;
	if (*insertion->path == '/')
		(void) snprintf(path, sizeof(path), "%s", insertion->path);
	else
		(void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", insertion->root_fd,
			insertion->path);
	r = kmod.kmod_module_new_from_path(kmod.context, path, &handle.module);
	if (r < 0)
		return error_set_errno(
			error, r, "/%s", insertion->path + (*insertion->path == '/'));
	return insert(&handle, -1, insertion, kmsg_fd, worker, reason, error);
}

/* Returns as insert(). */
static int insert_path(const struct insertion *insertion, int *kmsg_fd, struct worker *worker,
	enum reason *reason, struct error *error)
{
	_cleanup_close_ int fd = fs_open(insertion->root_fd, insertion->path, O_RDONLY);
	char start[DECOMPRESS_MAGIC_SIZE];
	ssize_t size = fd < 0 ? -1 : pread(fd, start, sizeof(start), 0);

	*reason = REASON_LOAD_FAILED;
	if (size < 0)
		return error_set_errno(error, fd < 0 ? fd : -errno, "/%s",
			insertion->path + (*insertion->path == '/'));
	return decompress_detect(start, (size_t) size) == DECOMPRESS_NONE
		       ? insert(NULL, fd, insertion, kmsg_fd, worker, reason, error)
		       : insert_packed(insertion, kmsg_fd, worker, reason, error);
}

int insert_file(const struct insertion *insertion, struct worker *worker, enum reason *reason,
	struct error *error)
{
	_cleanup_close_ int kmsg_fd = -1;
	int r = insert_path(insertion, &kmsg_fd, worker, reason, error);

	return r < 0 ? r : 0;
}

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
	r = !*loader->prefix
		    ? insert(&handle, -1, &insertion, &loader->kmsg_fd, worker, reason, error)
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

enum loaded loaded_compare(int root_fd, const char *name, const struct elf_module *file)
{
	const char *of_file = elf_module_info(file, "srcversion");
	_cleanup_free_ char *srcversion = NULL;
	char loaded_id[BUILD_ID_HEX_SIZE];
	char file_id[BUILD_ID_HEX_SIZE];
	char path[128];

	sysmodule_build_id(root_fd, name, loaded_id);
	elf_module_build_id(file, file_id);
	if (*loaded_id && *file_id)
		return strcmp(loaded_id, file_id) == 0 ? LOADED_SAME : LOADED_OTHER;
	(void) snprintf(path, sizeof(path), "sys/module/%.100s/srcversion", name);
	if (fs_read_line(root_fd, path, &srcversion) == 0 && *srcversion)
		return of_file && strcmp(srcversion, of_file) == 0 ? LOADED_SAME : LOADED_OTHER;
	return *loaded_id ? LOADED_OTHER : LOADED_UNKNOWN;
}

/* ---- unloading */

/*
 * A module's own references, which no holder accounts for: names the processes behind them, and has
 * the init wake up when one of them ends.
 */
static int refuse_references(const struct unload *unload, struct worker *worker, const char *module,
	int references, struct error *error)
{
	_cleanup_strv_ struct strv patterns = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *who = NULL;
	struct process_seen users[USERS_NAMED];
	char more[32] = "";
	int count = 0;
	int r = users_patterns(unload->root_fd, module, &patterns);

	for (const char *const *prefix = patterns.count ? NULL : unload->device_prefixes;
		r == 0 && prefix && *prefix; prefix++)
		r = strv_pushf(&patterns, "%s*", *prefix);
	if (r == 0 && patterns.count)
		count = users_of_devices(unload->root_fd, &patterns, users, USERS_NAMED);
	for (int i = 0; r == 0 && i < count && i < USERS_NAMED; i++) {
		char text[USER_TEXT_SIZE];

		user_text(&users[i], text);
		r = strv_push(&names, text);
		if (worker)
			worker_report_holder(worker, users[i].pid);
	}
	who = names.count ? strv_join(&names, ", ") : NULL;
	if (!who)
		return error_set(error, -EBUSY,
			"%s is in use: %d reference(s) that belong to no other module and to no "
			"process seen from here: stop the workload that uses it, then try again",
			module, references);
	if (count > USERS_NAMED)
		(void) snprintf(more, sizeof(more), " and %d more", count - USERS_NAMED);
	return error_set(error, -EBUSY, "%s is in use by %.760s%s: stop it, then try again", module,
		who, more);
}

/* Holders come first: depth-first over them. */
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
 * kernel/module/main.c: do_init_module()), and nothing shows when: the call is repeated a few times
 * over 100 ms before its "in use" is believed.
 */
static int remove_module(const char *name)
{
	const struct timespec pause = { .tv_nsec = 10L * 1000 * 1000 };

	for (int attempt = 0; syscall(SYS_delete_module, name, O_NONBLOCK) < 0; attempt++) {
		if (errno != EAGAIN || attempt == 10)
			return -errno;
		(void) nanosleep(&pause, NULL);
	}
	return 0;
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
			"%s cannot be unloaded: it has no exit function, or another process is unloading it: reboot the node to change the driver",
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

	if (r < 0)
		return r;
	for (size_t i = 0; i < order.count; i++) {
		uint64_t begun_ms = clock_monotonic_ms();

		r = remove_module(order.items[i]);
		if (r < 0 && r != -ENOENT) /* another process removed that one */
			return refuse_removal(unload, worker, order.items[i], r, error);
		worker_report(worker, WORKER_UNLOADED, (uint32_t) (clock_monotonic_ms() - begun_ms),
			"%s", order.items[i]);
		if (strv_push(removed, order.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", order.items[i]);
	}
	return 0;
}
