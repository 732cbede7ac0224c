/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image carries for the load proof on the node, in KERNEL_FACTS_FOLDER/<krel>: the kernel's
 * Module.symvers, packed; of that the lines that its own modules use; a few facts about the kernel;
 * and in a GPU image the symvers of the OFED that it was bound to.
 */
#include <fcntl.h>
#include <string.h>
#include <zstd.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/tree/depends.h"
#include "kernels/tree/tree.h"
#include "module/kernel_facts.h"
#include "module/symvers.h"

#define SYMVERS_LIMIT ((size_t) 64 << 20)
#define HEADER_LIMIT  ((size_t) 1 << 20)
#define PACKING_LEVEL 19 /* 1.5 MB take a second, and unpack in two milliseconds at any level */

static int write_packed(
	int root_fd, const char *path, const char *text, size_t size, struct error *error)
{
	size_t capacity = ZSTD_compressBound(size);
	_cleanup_free_ char *packed = xcalloc(1, capacity);
	size_t length = ZSTD_compress(packed, capacity, text, size, PACKING_LEVEL);
	int r = -ENOMEM;

	if (!ZSTD_isError(length))
		r = fs_write_atomic(root_fd, path, packed, length, 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static int copy_symvers(const struct build *build, enum stage_id stage, const char *from,
	int root_fd, const char *to, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	size_t size;
	int r = stage_open(build, stage, &fd, error);

	if (r < 0)
		return r;
	r = fs_read(fd, from, SYMVERS_LIMIT, &text, &size);
	/* A tree without one is said by lint; the init then judges by less. */
	if (r == -ENOENT && stage == STAGE_KERNEL)
		return 0;
	if (r < 0)
		return error_set_errno(error, r, "%s/%s", stage_output(build, stage), from);
	return write_packed(root_fd, to, text, size, error);
}

static int put_known(struct symvers *used, const struct symvers *all, const char *symbol)
{
	const struct symvers_entry *entry = symvers_find(all, symbol);

	return entry ? symvers_put(used, entry) : 0;
}

/* What it exports counts too: a kernel that has the same already refuses the module. */
static int put_used_by(struct symvers *used, const struct symvers *all, const char *path,
	int root_fd, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const struct elf_module_export *exports;
	const struct elf_undefined *undefined;
	size_t count;
	int r = elf_module_open(root_fd, path, &module, error);

	if (r < 0)
		return r;
	undefined = elf_module_undefined_symbols(module, &count);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_known(used, all, undefined[i].name);
	exports = elf_module_exports(module, &count);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_known(used, all, exports[i].symbol);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static int write_lines(int root_fd, const char *to, const struct symvers *used, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	int r = -ENOMEM;

	if (!file)
		return error_set_errno(error, r, "%s", to);
	for (size_t i = 0; i < symvers_count(used); i++) {
		const struct symvers_entry *entry = symvers_at(used, i);

		(void) fprintf(file, "0x%08x\t%s\t%s\t%s\t%s\n", entry->crc, entry->symbol,
			entry->module, entry->export, entry->name_space);
	}
	if (fclose(file) == 0)
		r = fs_write_atomic(root_fd, to, text, size, 0644);
	return r < 0 ? error_set_errno(error, r, "%s", to) : 0;
}

/* 24,000 lines are unpacked and read in 15 ms; the few hundred that matter in one. */
static int write_used(
	const struct build *build, int root_fd, const char *folder, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *used = NULL;
	_cleanup_(symvers_close) struct symvers *all = NULL;
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *modules = xasprintf("usr/lib/modules/%s", build->kernel.lock.krel);
	_cleanup_free_ char *from = xasprintf("%s/" KERNEL_FACTS_SYMVERS, folder);
	_cleanup_free_ char *to = xasprintf("%s/" KERNEL_FACTS_USED, folder);
	int r;

	if (!fs_exists(root_fd, from))
		return 0;
	r = symvers_open(root_fd, from, &all, error);
	if (r < 0)
		return r;
	if (symvers_new(&used) < 0 || put_known(used, all, "module_layout") < 0 ||
		depends_list_modules(root_fd, modules, &paths) < 0)
		return error_set_errno(error, -ENOMEM, "kernel facts");
	for (size_t i = 0; r == 0 && i < paths.count; i++)
		r = put_used_by(used, all, paths.items[i], root_fd, error);
	return r < 0 ? r : write_lines(root_fd, to, used, error);
}

/* The text in '#define UTS_VERSION "…"'; compile.h had it until 6.0 (scripts/mkcompile_h). */
static void read_build(int build_fd, char *build, size_t size)
{
	static const char *const headers[] = { "include/generated/utsversion.h",
		"include/generated/compile.h" };
	static const char define[] = "#define UTS_VERSION \"";

	for (size_t i = 0; i < ARRAY_SIZE(headers) && !*build; i++) {
		_cleanup_free_ char *text = NULL;
		const char *at;

		if (fs_read(build_fd, headers[i], HEADER_LIMIT, &text, NULL) < 0)
			continue;
		at = strstr(text, define);
		if (!at)
			continue;
		at += sizeof(define) - 1;
		(void) snprintf(build, size, "%.*s", (int) strcspn(at, "\"\n"), at);
	}
}

static void read_config(const struct build *build, int kernel_fd, struct kernel_options *options)
{
	_cleanup_free_ char *text = NULL;

	if (build->kernel.record.config_source && *build->kernel.record.config_source &&
		fs_read(kernel_fd, build->kernel.record.config_source, 0, &text, NULL) == 0)
		kernel_options_of_config(text, options);
}

/* By the first of the kernel's own modules; the smallest lie in lib. */
static int read_module(const struct build *build, struct kernel_facts *facts, struct error *error)
{
	static const char *const folders[] = { "kernel/lib", "kernel" };
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_close_ int fd = -1;
	const char *vermagic = build->kernel.record.vermagic;
	int r = stage_open(build, STAGE_MODULES, &fd, error);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders) && !paths.count; i++) {
		_cleanup_free_ char *folder =
			xasprintf("lib/modules/%s/%s", build->kernel.lock.krel, folders[i]);

		if (depends_list_modules(fd, folder, &paths) == -ENOMEM)
			return error_set_errno(error, -ENOMEM, "kernel facts");
	}
	if (r == 0 && paths.count)
		r = elf_module_open(fd, paths.items[0], &module, error);
	if (r < 0)
		return r;
	if (module) {
		facts->struct_size = elf_module_struct_size(module);
		vermagic = elf_module_info(module, "vermagic");
	}
	(void) snprintf(facts->vermagic, sizeof(facts->vermagic), "%s", vermagic ? vermagic : "");
	return 0;
}

static int write_facts(
	const struct build *build, int root_fd, const char *folder, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" KERNEL_FACTS_FILE, folder);
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int kernel_fd = -1;
	_cleanup_close_ int build_fd = -1;
	struct kernel_facts facts = { .struct_size = 0 };
	int r = read_module(build, &facts, error);

	if (r == 0)
		r = stage_open(build, STAGE_KERNEL, &kernel_fd, error);
	if (r == 0)
		r = kernel_tree_open(kernel_fd, build->kernel.lock.krel, &build_fd, error);
	if (r < 0)
		return r;
	read_build(build_fd, facts.build, sizeof(facts.build));
	read_config(build, kernel_fd, &facts.options);
	text = kernel_facts_text(&facts);
	r = text ? fs_write_atomic(root_fd, path, text, strlen(text), 0644) : -ENOMEM;
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int image_root_add_kernel(
	const struct build *build, const struct image_root *root, int root_fd, struct error *error)
{
	const char *krel = build->kernel.lock.krel;
	_cleanup_free_ char *folder = xasprintf(KERNEL_FACTS_FOLDER "/%s", krel);
	_cleanup_free_ char *from = xasprintf("lib/modules/%s/build/Module.symvers", krel);
	_cleanup_free_ char *to = xasprintf("%s/" KERNEL_FACTS_SYMVERS, folder);
	_cleanup_free_ char *ofed = xasprintf("%s/" KERNEL_FACTS_OFED, folder);
	int r = fs_mkdir_parents(root_fd, folder, 0755);

	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	r = copy_symvers(build, STAGE_KERNEL, from, root_fd, to, error);
	if (r == 0 && root->other != STAGE_COUNT)
		r = copy_symvers(build, root->other, "usr/src/ofa_kernel/default/Module.symvers",
			root_fd, ofed, error);
	if (r == 0)
		r = write_used(build, root_fd, folder, error);
	return r < 0 ? r : write_facts(build, root_fd, folder, error);
}
