/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a root beside modules: their firmware, the options that modprobe would give them, and
 * modules.dep.
 */
#include "cli/verify/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "module/elf.h"

#define MODPROBE_LIMIT ((size_t) 1 << 20)
#define INDEX_LIMIT    ((size_t) 8 << 20)
#define MODULES        "lib/modules/"

static const char *const firmware_tops[] = { "lib/firmware", "usr/lib/firmware" };

bool verify_firmware_judged(const struct verify *verify)
{
	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];

		if (input->root && (input->image || fs_exists(input->fd, firmware_tops[0]) ||
					   fs_exists(input->fd, firmware_tops[1])))
			return true;
	}
	return false;
}

/*
 * A module may name "vendor/chip-*.bin". A link counts as its name says: what it leads to may not
 * be unpacked.
 */
static bool is_at(const struct verify_input *input, const char *path)
{
	_cleanup_free_ char *pattern = NULL;
	struct stat status;
	glob_t found = { 0 };
	bool any;

	if (!strpbrk(path, "*?["))
		return fstatat(input->fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		       !S_ISDIR(status.st_mode);
	pattern = xasprintf("%s/%s", input->folder, path);
	any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	return any;
}

static bool has_firmware(const struct verify_input *input, const char *krel, const char *name)
{
	static const char *const ends[] = { "", ".xz", ".zst" };

	for (size_t i = 0; i < 8 * ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%s%s%s%s%s", firmware_tops[i & 1], i & 2 ? "updates/" : "",
				i & 4 ? krel : "", i & 4 ? "/" : "", name, ends[i / 8]);

		if (is_at(input, path))
			return true;
	}
	return false;
}

bool verify_firmware_there(void *context, const char *name)
{
	const struct verify *verify = context;
	const char *krel = verify->kernel.facts.krel ? verify->kernel.facts.krel : "";

	for (size_t i = 0; i < verify->input_count; i++)
		if (verify->inputs[i].root && has_firmware(&verify->inputs[i], krel, name))
			return true;
	return false;
}

/* "MODULE PARAMETER=VALUE …": what follows "options". */
static void take_options(const char *line, struct strv *options)
{
	static const char blanks[] = " \t";
	size_t name = strcspn(line, blanks);

	for (const char *option = line + name; *(option += strspn(option, blanks));) {
		const char *end = option;

		/* To the first blank that is not between double quotes. */
		for (bool quoted = false; *end && (quoted || !strchr(blanks, *end)); end++)
			quoted ^= *end == '"';
		xstrv_pushf(options, "%.*s %.*s", (int) name, line, (int) (end - option), option);
		for (char *c = options->items[options->count - 1]; *c != ' '; c++)
			if (*c == '-')
				*c = '_';
		option = end;
	}
}

void modprobe_conf_parse(const char *text, struct strv *options)
{
	_cleanup_free_ char *joined = xstrdup(text);
	char *rest = joined;
	const char *line;

	/* A line and what follows its backslash are one. */
	for (char *end = joined; (end = strstr(end, "\\\n"));)
		memmove(end, end + 2, strlen(end + 2) + 1);
	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t");
		if (strncmp(line, "options ", 8) == 0 || strncmp(line, "options\t", 8) == 0)
			take_options(line + 8 + strspn(line + 8, " \t"), options);
	}
}

/* A file hides those of its name in the folders that come later. */
int modprobe_conf_read(int root_fd, struct strv *options, struct error *error)
{
	static const char *const folders[] = { "etc/modprobe.d", "run/modprobe.d",
		"usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d" };
	_cleanup_strv_ struct strv seen = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *folder = NULL;
		int r;

		if (chase(root_fd, folders[i], &folder) < 0)
			continue;
		r = fs_list(root_fd, folder, &names);
		if (r < 0 && r != -ENOTDIR)
			return error_set_errno(error, r, "modprobe.d");
		for (size_t k = 0; k < names.count; k++) {
			const char *name = names.items[k];
			const char *dot = strrchr(name, '.');
			_cleanup_free_ char *path = xasprintf("%s/%s", folders[i], name);
			_cleanup_free_ char *real = NULL;
			_cleanup_free_ char *text = NULL;

			if (*name == '.' || !dot || strcmp(dot, ".conf") != 0 ||
				strv_contains(&seen, name))
				continue;
			xstrv_push(&seen, name);
			if (chase(root_fd, path, &real) == 0 &&
				fs_read(root_fd, real, MODPROBE_LIMIT, &text, NULL) == 0)
				modprobe_conf_parse(text, options);
		}
	}
	return 0;
}

size_t verify_release_length(const char *path)
{
	const char *found = strstr(path, MODULES);
	const char *end = found ? strchr(found + strlen(MODULES), '/') : NULL;

	return end ? (size_t) (end + 1 - path) : 0;
}

static void read_modules_dep(struct verify_modules_dep *index, const struct verify_input *input)
{
	_cleanup_free_ char *path = xasprintf("%s" VERIFY_MODULES_DEP, index->folder);
	_cleanup_free_ char *real = NULL;
	_cleanup_free_ char *text = NULL;
	char *rest;
	const char *line;

	if (chase(input->fd, path, &real) < 0 ||
		fs_read(input->fd, real, INDEX_LIMIT, &text, NULL) < 0)
		return;
	index->there = true;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		xstrv_pushf(&index->paths, "%.*s", (int) strcspn(line, ":"), line);
	strv_sort(&index->paths);
}

bool verify_modules_dep_lists(
	struct verify_modules_dep *index, const struct verify_input *input, const char *path)
{
	size_t length = verify_release_length(path);
	size_t at;

	if (!index->folder || strlen(index->folder) != length ||
		strncmp(index->folder, path, length) != 0) {
		verify_modules_dep_close(index);
		index->folder = xstrndup(path, length);
		read_modules_dep(index, input);
	}
	at = verify_search(&index->paths, path + length);
	return at < index->paths.count && strcmp(index->paths.items[at], path + length) == 0;
}

void verify_modules_dep_close(struct verify_modules_dep *index)
{
	free(index->folder);
	strv_free(&index->paths);
	*index = (struct verify_modules_dep){ 0 };
}

static bool is_module_name(const char *path, const char *name)
{
	char other[256];

	return module_name_of_file(path, other, sizeof(other)) && strcmp(other, name) == 0;
}

/* depmod lists one of two files with the same name: the other one was not forgotten. */
static bool lists_name(const struct verify_modules_dep *index, const char *path)
{
	char name[256];

	if (!module_name_of_file(path, name, sizeof(name)))
		return false;
	for (size_t i = 0; i < index->paths.count; i++)
		if (is_module_name(index->paths.items[i], name))
			return true;
	return false;
}

/* Before the notes, which are last. */
static void add_doubt(struct proof_set *set, char *text, char *cure)
{
	struct proof *proof = &set->findings;
	size_t at = 0;

	proof->findings =
		xreallocarray(proof->findings, proof->count + 1, sizeof(*proof->findings));
	while (at < proof->count && proof->findings[at].weight != PROOF_NOTE)
		at++;
	(void) memmove(&proof->findings[at + 1], &proof->findings[at],
		(proof->count - at) * sizeof(*proof->findings));
	proof->count++;
	proof->findings[at] = (struct proof_finding){ .id = "modules-dep",
		.weight = PROOF_DOUBT,
		.answer = ENOENT,
		.text = text,
		.cure = cure };
	if (set->verdict == PROOF_WILL_LOAD)
		set->verdict = PROOF_CANNOT_TELL;
}

/* @members: those of the input. */
static void find_unlisted(
	struct verify *verify, const struct verify_input *input, const struct proof_member *members)
{
	_cleanup_(verify_modules_dep_close) struct verify_modules_dep index = { 0 };
	_cleanup_free_ char *folder = NULL; /* of the first one */
	_cleanup_free_ char *more = NULL;
	const char *first = NULL, *krel;
	size_t count = 0;

	for (size_t i = 0; i < input->modules.count; i++) {
		const char *path = input->modules.items[i];

		if (members[i].listed || verify_modules_dep_lists(&index, input, path) ||
			!index.there || lists_name(&index, path))
			continue;
		count++;
		if (first)
			continue;
		first = path + strlen(index.folder);
		folder = xstrdup(index.folder);
	}
	if (!first)
		return;
	if (*folder)
		folder[strlen(folder) - 1] = '\0';
	krel = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : verify->kernel.facts.krel;
	more = count > 1 ? xasprintf(" and %zu more", count - 1) : xstrdup("");
	add_doubt(&verify->set,
		xasprintf("%s: its " VERIFY_MODULES_DEP " does not list %s%s: modprobe does not "
			  "find what it lacks",
			input->name, first, more),
		xasprintf(
			"run depmod %s there, after the modules were added", krel ? krel : "KREL"));
}

void verify_find_unlisted(struct verify *verify)
{
	const struct proof_member *members = verify->set.members;

	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];

		/* A single file is loaded by its path, and not by modprobe. */
		if (input->kind != VERIFY_MODULE)
			find_unlisted(verify, input, members);
		members += input->modules.count;
	}
}
