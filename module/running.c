/* SPDX-License-Identifier: Apache-2.0 */
#include "module/running.h"

#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/chase.h"
#include "common/fs.h"
#include "common/module_name.h"
#include "module/decompress.h"
#include "module/machine.h"
#include "module/running_parts.h"

#define CONFIG_SIZE_LIMIT ((size_t) 8 << 20)

static void copy_or(char *to, size_t size, const char *text, const char *otherwise)
{
	(void) snprintf(to, size, "%s", text ? text : otherwise);
}

static void read_names(struct running *running)
{
	const struct running_sources *sources = &running->sources;
	struct utsname system;

	(void) uname(&system);
	copy_or(running->krel, sizeof(running->krel), sources->krel, system.release);
	copy_or(running->machine, sizeof(running->machine), sources->machine, system.machine);
	copy_or(running->build, sizeof(running->build), sources->build, system.version);
}

/* A configuration, packed or not. -ENOENT and the like: it is not there. */
static int read_config(int dir_fd, const char *path, struct kernel_options *ret)
{
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *text = NULL;
	enum decompress_format format;
	struct error ignored;
	size_t size, unpacked;
	int r = fs_read(dir_fd, path, CONFIG_SIZE_LIMIT, &data, &size);

	if (r < 0)
		return r;
	format = decompress_detect(data, size);
	if (format == DECOMPRESS_NONE) {
		kernel_options_of_config(data, ret);
		return 0;
	}
	r = decompress(format, data, size, CONFIG_SIZE_LIMIT, &text, &unpacked, &ignored);
	if (r == 0) {
		char *terminated = realloc(text, unpacked + 1);

		if (!terminated)
			return -ENOMEM;
		text = terminated;
		text[unpacked] = '\0';
		kernel_options_of_config(text, ret);
	}
	return r;
}

/* What the running kernel shows itself is best; then what lies where its package put it. */
static int find_config(const struct running *running, struct kernel_options *ret)
{
	_cleanup_strv_ struct strv paths = { 0 };
	int r = read_config(running->root_fd, "proc/config.gz", ret);

	if (strv_pushf(&paths, "lib/modules/%s/config", running->krel) < 0 ||
		strv_pushf(&paths, "boot/config-%s", running->krel) < 0 ||
		strv_pushf(&paths, "lib/modules/%s/build/.config", running->krel) < 0)
		return -ENOMEM;
	for (size_t i = 0; r < 0 && i < running->tree_count; i++)
		for (size_t j = 0; r < 0 && j < paths.count; j++) {
			_cleanup_free_ char *real = NULL;

			if (chase(running->trees[i].fd, paths.items[j], &real) == 0)
				r = read_config(running->trees[i].fd, real, ret);
		}
	return r;
}

/* CONFIG_SECURITY_LOCKDOWN_LSM. A build's facts count for that very build only. */
enum proof_option running_has_lockdown(const struct running *running)
{
	struct kernel_options options = { 0 };

	if (running->has_facts && *running->build &&
		strcmp(running->facts.build, running->build) == 0 &&
		running->facts.options.lockdown != PROOF_UNKNOWN)
		return running->facts.options.lockdown;
	return find_config(running, &options) < 0 ? PROOF_UNKNOWN : options.lockdown;
}

static void read_facts(struct running *running)
{
	struct proof_kernel *kernel = &running->kernel;
	const struct kernel_facts *facts = &running->facts;
	struct kernel_options options = { 0 };

	running->has_facts =
		running->sources.facts &&
		kernel_facts_read(running->root_fd, running->sources.facts, &running->facts) == 0;
	if (running->has_facts) {
		options = facts->options;
		kernel->vermagic = *facts->vermagic ? facts->vermagic : NULL;
		kernel->struct_size = facts->struct_size;
	} else if (find_config(running, &options) < 0) {
		options = (struct kernel_options){ 0 };
	}
	kernel->krel = running->krel;
	kernel->version = proof_version(running->krel);
	kernel->machine = machine_of(running->machine);
	kernel->running = running->sources.module_count > 0;
	kernel->modules = PROOF_YES; /* /proc/modules is there */
	kernel->force_load = options.force_load;
	kernel->missing_imports = options.missing_imports;
	kernel->module_sig = options.module_sig;
	kernel->livepatch = options.livepatch;
	kernel->retpoline = options.retpoline;
	kernel->proprietary = &running->proprietary;
	kernel->builtin = &running->builtin;
}

static int push_builtin(struct running *running, const char *line, size_t length)
{
	char name[NAME_MAX];

	module_name_copy(line, length, name, sizeof(name));
	name[strcspn(name, ".")] = '\0';
	return *name ? strv_push(&running->builtin, name) : 0;
}

/* modules.builtin (Documentation/kbuild/kbuild.rst) of the first tree that has one. */
static int read_builtin(struct running *running)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int r = 0;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.builtin", running->krel);
	for (size_t i = 0; !text && i < running->tree_count; i++) {
		_cleanup_free_ char *real = NULL;

		if (chase(running->trees[i].fd, path, &real) == 0 &&
			fs_read(running->trees[i].fd, real, 0, &text, NULL) < 0)
			text = NULL;
	}
	for (const char *line = text; r == 0 && line && *line;) {
		size_t length = strcspn(line, "\n");

		r = push_builtin(running, line, length);
		line += length + (line[length] == '\n');
	}
	return r;
}

/* Which built-in ones have a folder in /sys/module: both lists are sorted. */
static int find_shown(struct running *running)
{
	_cleanup_strv_ struct strv folders = { 0 };
	const struct strv *builtin = &running->builtin;
	size_t at = 0;
	int r = 0;

	strv_sort(&running->builtin);
	if (fs_list(running->root_fd, "sys/module", &folders) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < folders.count; i++) {
		while (at < builtin->count && strcmp(builtin->items[at], folders.items[i]) < 0)
			at++;
		if (at < builtin->count && strcmp(builtin->items[at], folders.items[i]) == 0)
			r = strv_push(&running->builtin_shown, folders.items[i]);
	}
	running->kernel.builtin_shown = &running->builtin_shown;
	return r;
}

/* For those who ask: what is loaded, and what is there in all. */
static int tell(struct running *running)
{
	int r = 0;

	running->told = calloc(running->loaded_count + 1, sizeof(*running->told));
	if (!running->told)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < running->loaded_count; i++) {
		const struct loaded *loaded = &running->loaded[i];

		running->told[i] = loaded->facts;
		running->told[i].name = loaded->name;
		running->told[i].taint = loaded->taint;
		running->told[i].build_id = loaded->build_id;
		running->told[i].srcversion = loaded->srcversion;
		running->told[i].path = loaded->path;
		if (!loaded->facts.gone)
			r = strv_push(&running->modules, loaded->name);
	}
	for (size_t i = 0; r == 0 && i < running->builtin.count; i++)
		r = strv_push(&running->modules, running->builtin.items[i]);
	return r;
}

static int look(struct running *running, struct error *error)
{
	int r;

	read_names(running);
	if (running_open_trees(running) < 0)
		return error_set_errno(error, -ENOMEM, "running kernel");
	r = running_read_loaded(running, error);
	if (r < 0)
		return r;
	read_facts(running);
	if (running_read_trust(running) < 0 || read_builtin(running) < 0 || find_shown(running) < 0)
		return error_set_errno(error, -ENOMEM, "running kernel");
	r = running_read_symvers(running, error);
	if (r == 0)
		r = running_find_exports(running, error);
	if (r < 0)
		return r;
	if (running_compare_build(running) < 0 || running_add_signers(running) < 0 ||
		tell(running) < 0)
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
	running_free_loaded(closing);
	running_close_trees(closing);
	symvers_close(&closing->given);
	symvers_close(&closing->part);
	symvers_close(&closing->drivers);
	symvers_close(&closing->members);
	symvers_close(&closing->there);
	strv_free(&closing->unexplained);
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

bool running_has_symvers(const struct running *running)
{
	return running->there != NULL;
}

enum proof_option running_is_same_build(const struct running *running, const char **ret_why)
{
	*ret_why = running->same_build == PROOF_NO ? running->why.text : "";
	return running->same_build;
}

const struct strv *running_unexplained(const struct running *running)
{
	return &running->unexplained;
}
