/* SPDX-License-Identifier: Apache-2.0 */
#include "module/running_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/arch.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/path.h"
#include "module/kernel_config.h"

/* ---- what a build knew of its kernel */

#define FACTS_SIZE_LIMIT 65536
#define USUAL_PAGE_KIB   4 /* where no other size is stated */

#define INIT_TRAMPOLINE_KEY "init_trampoline"

/* The names of an option: a kernel has one of them. */
static const struct option_name {
	const char *names[2];
	size_t offset;    /* in struct kernel_options */
	const char *only; /* said of kernels with this option only; or NULL */
} option_names[] = {
	{ { "CONFIG_MODULES" }, offsetof(struct kernel_options, modules), NULL },
	{ { "CONFIG_MODULE_FORCE_LOAD" }, offsetof(struct kernel_options, force_load), NULL },
	{ { "CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS" },
		offsetof(struct kernel_options, missing_imports), NULL },
	{ { "CONFIG_MODULE_SIG" }, offsetof(struct kernel_options, module_sig), NULL },
	{ { "CONFIG_LIVEPATCH" }, offsetof(struct kernel_options, livepatch), NULL },
	/*
	 * CONFIG_LOCK_DOWN_KERNEL is what distributions had before lockdown came to Linux in 5.4.
	 */
	{ { "CONFIG_SECURITY_LOCKDOWN_LSM", "CONFIG_LOCK_DOWN_KERNEL" },
		offsetof(struct kernel_options, lockdown), NULL },
	/* Renamed in 6.9. */
	{ { "CONFIG_MITIGATION_RETPOLINE", "CONFIG_RETPOLINE" },
		offsetof(struct kernel_options, retpoline), NULL },
	{ { "CONFIG_ARM64_MODULE_PLTS" }, offsetof(struct kernel_options, module_plts),
		"CONFIG_ARM64" },
	{ { "CONFIG_DYNAMIC_FTRACE" }, offsetof(struct kernel_options, dynamic_ftrace),
		"CONFIG_ARM64" },
	{ { "CONFIG_UNWIND_PATCH_PAC_INTO_SCS" }, offsetof(struct kernel_options, shadow_stacks),
		"CONFIG_ARM64" },
};

static enum proof_option *option_of(struct kernel_options *options, const struct option_name *name)
{
	return (enum proof_option *) (void *) ((char *) options + name->offset);
}

/* @absent: what it means that no line names the option. */
static void read_options(const char *text, enum proof_option absent, struct kernel_options *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_names); i++) {
		enum proof_option *option = option_of(ret, &option_names[i]);
		char value[8] = "";

		for (size_t j = 0; j < 2 && !*value && option_names[i].names[j]; j++)
			conf_value(text, option_names[i].names[j], value, sizeof(value));
		if (!*value)
			*option = absent;
		else
			*option = strcmp(value, "y") == 0 ? PROOF_YES : PROOF_NO;
	}
}

void kernel_options_of_config(const char *text, struct kernel_options *ret)
{
	const struct arch_page *page = arch_pages;
	char value[8] = "";

	read_options(text, PROOF_NO, ret);
	for (size_t i = 0; i < ARRAY_SIZE(option_names); i++) {
		if (!option_names[i].only)
			continue;
		conf_value(text, option_names[i].only, value, sizeof(value));
		if (strcmp(value, "y") != 0)
			*option_of(ret, &option_names[i]) = PROOF_UNKNOWN;
	}
	for (; page->config; page++) {
		char name[64];

		(void) snprintf(name, sizeof(name), "CONFIG_%s", page->config);
		conf_value(text, name, value, sizeof(value));
		if (strcmp(value, "y") == 0)
			break;
	}
	ret->page_kib = page->kib;
}

int kernel_facts_read(int dir_fd, const char *path, struct kernel_facts *ret)
{
	_cleanup_free_ char *text = NULL;
	char size[24], page[8], value[8];
	int r = fs_read(dir_fd, path, FACTS_SIZE_LIMIT, &text, NULL);

	if (r < 0)
		return r;
	*ret = (struct kernel_facts){ .struct_size = 0 };
	conf_value(text, "vermagic", ret->vermagic, sizeof(ret->vermagic));
	conf_value(text, "build", ret->build, sizeof(ret->build));
	conf_value(text, "struct_size", size, sizeof(size));
	ret->struct_size = strtoull(size, NULL, 10);
	read_options(text, PROOF_UNKNOWN, &ret->options);
	conf_value(text, INIT_TRAMPOLINE_KEY, value, sizeof(value));
	if (*value)
		ret->options.init_trampoline = strcmp(value, "y") == 0 ? PROOF_YES : PROOF_NO;
	conf_value(text, "page_kib", page, sizeof(page));
	ret->options.page_kib = *page ? (unsigned int) strtoul(page, NULL, 10) : USUAL_PAGE_KIB;
	return 0;
}

char *kernel_facts_text(const struct kernel_facts *facts)
{
	struct kernel_options options = facts->options;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	(void) fprintf(file, "vermagic=%s\nbuild=%s\nstruct_size=%llu\n", facts->vermagic,
		facts->build, (unsigned long long) facts->struct_size);
	for (size_t i = 0; i < ARRAY_SIZE(option_names); i++) {
		enum proof_option option = *option_of(&options, &option_names[i]);

		if (option != PROOF_UNKNOWN)
			(void) fprintf(file, "%s=%s\n", option_names[i].names[0],
				option == PROOF_YES ? "y" : "n");
	}
	if (options.init_trampoline != PROOF_UNKNOWN)
		(void) fprintf(file, INIT_TRAMPOLINE_KEY "=%s\n",
			options.init_trampoline == PROOF_YES ? "y" : "n");
	if (options.page_kib > USUAL_PAGE_KIB)
		(void) fprintf(file, "page_kib=%u\n", options.page_kib);
	if (fclose(file) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- /proc/modules */

static int compare_loaded(const void *a, const void *b)
{
	const struct loaded *left = a;
	const struct loaded *right = b;

	return strcmp(left->module.name, right->module.name);
}

static int compare_name(const void *name, const void *loaded)
{
	return strcmp(name, ((const struct loaded *) loaded)->module.name);
}

/*
 * "name size references holders state address taint": Linux kernel/module/procfs.c: m_show();
 * without CONFIG_MODULE_UNLOAD the references are "-". The taint is "(POE)", where "+" and "-" mean
 * that it comes or goes.
 */
static int parse_line(const char *line, struct loaded *ret)
{
	struct running_module *module = &ret->module;
	char references[12] = "-";

	if (sscanf(line, "%ms %*s %11s %*s %*s %*s (%m[^)+-]", &module->name, references,
		    &module->taint) < 3)
		module->taint = strdup("");
	module->references = *references == '-' ? -1 : (int) strtol(references, NULL, 10);
	return module->name && module->taint ? 0 : -ENOMEM;
}

static int parse_lines(struct running *running, char *text)
{
	size_t capacity = 1;
	char *line;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		capacity++;
	running->loaded = calloc(capacity, sizeof(*running->loaded));
	if (!running->loaded)
		return -ENOMEM;
	while ((line = strsep(&text, "\n")))
		if (*line && parse_line(line, &running->loaded[running->loaded_count++]) < 0)
			return -ENOMEM;
	return 0;
}

static int read_loaded(struct running *running, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(running->root_fd, "proc/modules", 0, &text, NULL);

	if (r == 0)
		r = parse_lines(running, text);
	if (r < 0)
		return error_set_errno(error, r, "/proc/modules");
	if (running->loaded_count)
		qsort(running->loaded, running->loaded_count, sizeof(*running->loaded),
			compare_loaded);
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		loaded->module.gone = running->sources.gone &&
				      strv_contains(running->sources.gone, loaded->module.name);
		if (!loaded->module.gone && strchr(loaded->module.taint, 'P') &&
			strv_push(&running->proprietary, loaded->module.name) < 0)
			return error_set_errno(error, -ENOMEM, "/proc/modules");
	}
	return 0;
}

struct loaded *running_find_loaded(const struct running *running, const char *name)
{
	return running->loaded_count ? bsearch(name, running->loaded, running->loaded_count,
					       sizeof(*running->loaded), compare_name)
				     : NULL;
}

static void free_loaded(struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		free(loaded->module.name);
		free(loaded->module.taint);
		free(loaded->module.path);
		strv_free(&loaded->candidates);
		free(loaded->candidate_trees);
		elf_module_close(&loaded->file);
	}
	free(running->loaded);
}

const struct running_module *running_loaded(const struct running *running, size_t index)
{
	return index < running->loaded_count ? &running->loaded[index].module : NULL;
}

/* ---- the Module.symvers of the running kernel, and of drivers that are loaded */

static int open_first(struct running *running, const struct strv *paths, struct error *error)
{
	for (size_t i = 0; i < paths->count; i++)
		if (fs_exists(running->root_fd, paths->items[i]))
			return symvers_open(
				running->root_fd, paths->items[i], &running->given, error);
	return 0;
}

static int read_drivers(struct running *running, struct error *error)
{
	const struct strv *paths = running->sources.driver_symvers;

	for (size_t i = 0; paths && i < paths->count; i++) {
		const char *path = paths->items[i];
		int r;

		if (!fs_exists(running->root_fd, path))
			continue;
		r = running->drivers
			    ? symvers_add(running->drivers, running->root_fd, path, error)
			    : symvers_open(running->root_fd, path, &running->drivers, error);
		if (r < 0)
			return r;
	}
	return 0;
}

int running_read_whole(struct running *running, struct error *error)
{
	static const char *const files[] = { "build/Module.symvers", "symvers.zst", "symvers.xz",
		"symvers.gz", "symvers" };
	_cleanup_strv_ struct strv paths = { 0 };

	symvers_close(&running->given);
	running->given_is_part = false;
	if (running->sources.symvers)
		return open_first(running, running->sources.symvers, error);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (strv_pushf(&paths, "lib/modules/%s/%s", running->krel, files[i]) < 0)
			return error_set_errno(error, -ENOMEM, "symbol versions");
	return open_first(running, &paths, error);
}

static int read_symvers(struct running *running, struct error *error)
{
	const char *used = running->sources.used_symvers;
	int r;

	running->given_is_part =
		used && running->sources.module_count > 0 && fs_exists(running->root_fd, used);
	if (running->given_is_part)
		r = symvers_open(running->root_fd, used, &running->given, error);
	else
		r = running_read_whole(running, error);
	return r < 0 ? r : read_drivers(running, error);
}

#define TEXT_SIZE_LIMIT ((size_t) 8 << 20) /* a configuration, modules.dep */

static void copy_or(char *to, size_t size, const char *text, const char *otherwise)
{
	(void) snprintf(to, size, "%s", text ? text : otherwise);
}

char *running_read_in_tree(
	const struct running *running, size_t tree, const char *path, size_t *ret_size)
{
	_cleanup_free_ char *real = NULL;
	char *text = NULL;

	if (chase(running->trees[tree].fd, path, &real) < 0 ||
		fs_read(running->trees[tree].fd, real, TEXT_SIZE_LIMIT, &text, ret_size) < 0)
		return NULL;
	return text;
}

/* A configuration, packed or not; NULL: it is not there. False: @ret is as it was. */
static bool read_config(const char *data, size_t size, struct kernel_options *ret)
{
	enum decompress_format format = data ? decompress_detect(data, size) : DECOMPRESS_NONE;
	_cleanup_free_ char *text = NULL;
	struct error ignored;

	if (!data)
		return false;
	if (format != DECOMPRESS_NONE &&
		decompress(format, data, size, TEXT_SIZE_LIMIT, &text, &size, &ignored) < 0)
		return false;
	kernel_options_of_config(text ? text : data, ret);
	return true;
}

/*
 * Prefers the configuration that the running kernel itself shows, then files where its package puts
 * them.
 */
static void find_config(const struct running *running, struct kernel_options *ret)
{
	_cleanup_free_ char *shown = NULL;
	char path[PATH_MAX];
	size_t size = 0;

	if (fs_read(running->root_fd, KERNEL_CONFIG_SHOWN, TEXT_SIZE_LIMIT, &shown, &size) == 0 &&
		read_config(shown, size, ret))
		return;
	for (size_t i = 0; i < running->tree_count; i++)
		for (size_t j = 0; kernel_config_place(j, running->krel, path, sizeof(path)); j++) {
			_cleanup_free_ char *data = NULL;

			data = running_read_in_tree(running, i, path, &size);
			if (read_config(data, size, ret))
				return;
		}
}

enum proof_option running_has_lockdown(const struct running *running)
{
	struct kernel_options options = running->kernel.options;

	if (running->has_facts &&
		(!*running->build || strcmp(running->facts.build, running->build) != 0 ||
			options.lockdown == PROOF_UNKNOWN)) {
		options.lockdown = PROOF_UNKNOWN;
		find_config(running, &options);
	}
	return options.lockdown;
}

static void read_facts(struct running *running)
{
	struct proof_kernel *kernel = &running->kernel;
	const struct kernel_facts *facts = &running->facts;

	running->has_facts =
		running->sources.facts &&
		kernel_facts_read(running->root_fd, running->sources.facts, &running->facts) == 0;
	if (running->has_facts) {
		kernel->options = facts->options;
		kernel->vermagic = *facts->vermagic ? facts->vermagic : NULL;
		kernel->struct_size = facts->struct_size;
	} else {
		find_config(running, &kernel->options);
	}
	kernel->krel = running->krel;
	kernel->version = proof_version(running->krel);
	kernel->machine = proof_machine(running->machine);
	kernel->running = running->sources.module_count > 0;
	kernel->options.modules = PROOF_YES; /* /proc/modules is there */
	kernel->proprietary = &running->proprietary;
	kernel->builtin = &running->builtin;
}

/* modules.builtin (Documentation/kbuild/kbuild.rst) of the first tree that has one. */
static int read_builtin(struct running *running)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.builtin", running->krel);
	for (size_t i = 0; !text && i < running->tree_count; i++)
		text = running_read_in_tree(running, i, path, NULL);
	for (const char *line = text; line && *line;) {
		size_t length = strcspn(line, "\n");
		char name[NAME_MAX];

		module_name_copy(line, length, name, sizeof(name));
		name[strcspn(name, ".")] = '\0';
		if (*name && strv_push(&running->builtin, name) < 0)
			return -ENOMEM;
		line += length + (line[length] == '\n');
	}
	return 0;
}

/* Finds the built-in modules that have a folder in /sys/module: both lists are sorted. */
static int find_shown(struct running *running)
{
	_cleanup_strv_ struct strv folders = { 0 };
	const struct strv *builtin = &running->builtin;
	size_t at = 0;

	strv_sort(&running->builtin);
	if (fs_list(running->root_fd, "sys/module", &folders) < 0)
		return 0;
	for (size_t i = 0; i < folders.count; i++) {
		while (at < builtin->count && strcmp(builtin->items[at], folders.items[i]) < 0)
			at++;
		if (at < builtin->count && strcmp(builtin->items[at], folders.items[i]) == 0 &&
			strv_push(&running->builtin_shown, folders.items[i]) < 0)
			return -ENOMEM;
	}
	running->kernel.builtin_shown = &running->builtin_shown;
	return 0;
}

/* Fills the list that running_modules() returns. */
static int list_modules(struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++)
		if (!running->loaded[i].module.gone &&
			strv_push(&running->modules, running->loaded[i].module.name) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < running->builtin.count; i++)
		if (strv_push(&running->modules, running->builtin.items[i]) < 0)
			return -ENOMEM;
	return 0;
}

static int look(struct running *running, struct error *error)
{
	const struct running_sources *sources = &running->sources;
	struct utsname system;
	int r;

	(void) uname(&system);
	copy_or(running->krel, sizeof(running->krel), sources->krel, system.release);
	copy_or(running->machine, sizeof(running->machine), sources->machine, system.machine);
	copy_or(running->build, sizeof(running->build), sources->build, system.version);
	if (running_open_trees(running) < 0)
		return error_set_errno(error, -ENOMEM, "running kernel");
	r = read_loaded(running, error);
	if (r < 0)
		return r;
	read_facts(running);
	if (running_read_trust(running) < 0 || read_builtin(running) < 0 || find_shown(running) < 0)
		return error_set_errno(error, -ENOMEM, "running kernel");
	r = read_symvers(running, error);
	if (r == 0)
		r = running_find_exports(running, error);
	if (r < 0)
		return r;
	if (running_compare_build(running) < 0 || running_add_signers(running) < 0 ||
		list_modules(running) < 0)
		return error_set_errno(error, -ENOMEM, "running kernel");
	running->kernel.symvers = running->there;
	return 0;
}

int running_open(int root_fd, const struct running_sources *sources, struct running **ret,
	struct error *error)
{
	struct running *running = calloc(1, sizeof(*running));
	int r;

	if (!running)
		return error_set_errno(error, -ENOMEM, "running kernel");
	running->root_fd = root_fd;
	running->sources = *sources;
	r = look(running, error);
	if (r < 0)
		running_close(&running);
	else
		*ret = running;
	return r;
}

void running_close(struct running **running)
{
	struct running *closing = TAKE_PTR(*running);

	if (!closing)
		return;
	free_loaded(closing);
	running_close_trees(closing);
	symvers_close(&closing->given);
	symvers_close(&closing->part);
	symvers_close(&closing->drivers);
	symvers_close(&closing->members);
	symvers_close(&closing->there);
	strv_free(&closing->unidentified);
	strv_free(&closing->modules);
	strv_free(&closing->builtin);
	strv_free(&closing->builtin_shown);
	strv_free(&closing->proprietary);
	strv_free(&closing->blacklist);
	strv_free(&closing->keys);
	strv_free(&closing->maybe_keys);
	free(closing);
}

const struct proof_kernel *running_kernel(const struct running *running)
{
	return &running->kernel;
}

const struct strv *running_modules(const struct running *running)
{
	return &running->modules;
}

enum proof_option running_is_same_build(const struct running *running, const char **ret_why)
{
	*ret_why = running->same_build == PROOF_NO ? running->why.text : "";
	return running->same_build;
}

const struct strv *running_unidentified(const struct running *running)
{
	return &running->unidentified;
}
