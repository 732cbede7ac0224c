/* SPDX-License-Identifier: Apache-2.0 */
/* Source of the form: Linux include/linux/vermagic.h and arch/arm64/include/asm/vermagic.h. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/strv.h"
#include "kernels/tree/depends.h"
#include "kernels/tree/record_parts.h"
#include "kernels/tree/tree.h"
#include "module/elf.h"

/* Of a quoted word of a "#define": what stands between the quotes, or NULL. */
static char *quoted(const char *text)
{
	const char *start = strchr(text, '"');
	const char *end = start ? strchr(start + 1, '"') : NULL;

	return end ? strndup(start + 1, (size_t) (end - start - 1)) : NULL;
}

/* Is the option set that "#ifdef CONFIG_X" or "#elif defined(CONFIG_X)" asks for? */
static bool condition_holds(const struct kernel_record *record, const char *line)
{
	if (strstr(line, "CONFIG_PREEMPT_RT"))
		return kernel_record_has(record, KOPT_PREEMPT_RT);
	return strstr(line, "CONFIG_PREEMPT") && kernel_record_has(record, KOPT_PREEMPT);
}

/* The text of vermagic.h, freed by the caller, or NULL: the sources are apart from the build. */
static char *read_header(const struct kernel_record *record, int root_fd)
{
	static const char *const tops[] = { "source", "build" };
	char *text = NULL;

	for (size_t i = 0; root_fd >= 0 && !text && i < ARRAY_SIZE(tops); i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_close_ int fd = -1;

		if (asprintf(&path, "lib/modules/%s/%s/include/linux", record->krel, tops[i]) < 0)
			return NULL;
		fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
		if (fd < 0 || fs_read(fd, "vermagic.h", 1 << 20, &text, NULL) < 0)
			text = NULL;
	}
	return text;
}

/*
 * Kernels with both PREEMPT_BUILD and PREEMPT_RT (since 6.12) say "preempt" or "preempt_rt" by
 * which of the two their vermagic.h asks for first. The caller frees the word; "" for neither.
 */
static char *preempt_word(const struct kernel_record *record, int root_fd)
{
	static const char define[] = "#define MODULE_VERMAGIC_PREEMPT";
	_cleanup_free_ char *text = read_header(record, root_fd);
	char *rest = text;
	char *line;
	bool holds = false;

	if (!text && kernel_record_has(record, KOPT_PREEMPT))
		return strdup("preempt ");
	if (!text)
		return strdup(kernel_record_has(record, KOPT_PREEMPT_RT) ? "preempt_rt " : "");
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, "#if", 3) == 0 || strncmp(line, "#elif", 5) == 0)
			holds = condition_holds(record, line);
		else if (holds && strncmp(line, define, sizeof(define) - 1) == 0)
			return quoted(line);
	}
	return strdup("");
}

/* "RANDSTRUCT_<hash of the seed>"; "" without RANDSTRUCT or without the hash. */
static char *randstruct_word(const struct kernel_record *record, int build_fd)
{
	static const struct {
		const char *file;
		const char *word;
	} forms[] = {
		{ "include/generated/randstruct_hash.h", "RANDSTRUCT_" },
		{ "include/generated/randomize_layout_hash.h", "RANDSTRUCT_PLUGIN_" },
	};

	if (build_fd < 0 || !kernel_record_has(record, KOPT_RANDSTRUCT))
		return strdup("");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_free_ char *text = NULL;
		_cleanup_free_ char *hash = NULL;
		char *word;

		if (fs_read(build_fd, forms[i].file, 1 << 16, &text, NULL) < 0)
			continue;
		hash = quoted(text);
		if (hash)
			return asprintf(&word, "%s%s", forms[i].word, hash) < 0 ? NULL : word;
	}
	return strdup("");
}

/* Takes vermagic from the first of the kernel's own modules that has one. */
static int ask_module(struct kernel_record *record, int root_fd)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = NULL;

	if (root_fd < 0)
		return -ENOENT;
	if (asprintf(&folder, "lib/modules/%s/kernel", record->krel) < 0)
		return -ENOMEM;
	if (depends_list_modules(root_fd, folder, &paths) < 0)
		return -ENOENT;
	for (size_t i = 0; i < paths.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		struct error ignored = { 0 };
		const char *vermagic = NULL;

		if (elf_module_open(root_fd, paths.items[i], &module, &ignored) == 0)
			vermagic = elf_module_info(module, "vermagic");
		if (!vermagic)
			continue;
		record->vermagic = strdup(vermagic);
		record->vermagic_source = strdup(paths.items[i]);
		return record->vermagic && record->vermagic_source ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

int record_compute_vermagic(
	struct kernel_record *record, int root_fd, int build_fd, struct error *error)
{
	_cleanup_free_ char *preempt = NULL;
	_cleanup_free_ char *randstruct = NULL;
	int r;

	free(record->vermagic);
	free(record->vermagic_source);
	record->vermagic = NULL;
	record->vermagic_source = NULL;
	r = ask_module(record, root_fd);
	if (r == 0)
		return 0;
	preempt = preempt_word(record, root_fd);
	randstruct = randstruct_word(record, build_fd);
	record->vermagic_source = strdup("config");
	if (r == -ENOMEM || !preempt || !randstruct || !record->vermagic_source ||
		asprintf(&record->vermagic, "%s %s%s%s%s%s%s", record->krel,
			kernel_record_has(record, KOPT_SMP) ? "SMP " : "", preempt,
			kernel_record_has(record, KOPT_MODULE_UNLOAD) ? "mod_unload " : "",
			kernel_record_has(record, KOPT_MODVERSIONS) ? "modversions " : "",
			strcmp(record->arch, "aarch64") == 0 ? "aarch64" : "", randstruct) < 0)
		return error_set_errno(error, -ENOMEM, "vermagic");
	return 0;
}
