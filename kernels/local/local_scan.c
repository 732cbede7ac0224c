/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local/local_scan.h"

#include <string.h>

/* What tells a tree, as the end of a path. utsrelease.h is what makes it one. */
#define MARK_RELEASE "include/generated/utsrelease.h"

static const struct {
	const char *end;
	bool content;
} tree_marks[] = {
	{ MARK_RELEASE, true },
	{ "Module.symvers", false },
	{ "scripts/Kbuild.include", false },
	{ "modules.builtin", false },
};

static const struct {
	const char *path;
	bool content;
} told_files[] = {
	{ "etc/os-release", true },
	{ "usr/lib/os-release", true },
	{ "probe.json", true },
	{ "oci-layout", false },
	{ "index.json", false },
	{ "manifest.json", false },
};

struct local_scan *local_scan_new(void)
{
	return calloc(1, sizeof(struct local_scan));
}

void local_scan_free(struct local_scan *scan)
{
	if (!scan)
		return;
	for (size_t i = 0; i < scan->mark_count; i++) {
		free(scan->marks[i].path);
		free(scan->marks[i].text);
	}
	for (size_t i = 0; i < scan->tree_count; i++) {
		free(scan->trees[i].path);
		free(scan->trees[i].krel);
	}
	for (size_t i = 0; i < scan->module_count; i++) {
		free(scan->modules[i].path);
		free(scan->modules[i].krel);
	}
	free(scan->marks);
	free(scan->trees);
	free(scan->modules);
	free(scan);
}

/* Does the path end in these components? Then the length of what is before them, else -1. */
static ssize_t stem_length(const char *path, const char *end)
{
	size_t length = strlen(path);
	size_t size = strlen(end);

	if (length < size || strcmp(path + length - size, end) != 0)
		return -1;
	if (length == size)
		return 0;
	return path[length - size - 1] == '/' ? (ssize_t) (length - size - 1) : -1;
}

static const char *find_lib_modules(const char *path)
{
	static const char folder[] = "lib/modules/";
	const char *found = path;

	while ((found = strstr(found, folder))) {
		if (found == path || found[-1] == '/')
			return found + strlen(folder);
		found++;
	}
	return NULL;
}

/* Debug packages have the same paths below usr/lib/debug: those modules are no modules. */
bool local_scan_split(const char *path, char **ret_krel, const char **ret_rest)
{
	const char *krel = find_lib_modules(path);
	size_t length = krel ? strcspn(krel, "/") : 0;

	if (length == 0 || strncmp(path, "usr/lib/debug/", 14) == 0)
		return false;
	*ret_rest = krel + length + (krel[length] == '/');
	*ret_krel = strndup(krel, length);
	return *ret_krel != NULL;
}

static bool is_of_modules(const char *path, bool *ret_is_module)
{
	_cleanup_free_ char *krel = NULL;
	const char *rest;

	if (!local_scan_split(path, &krel, &rest))
		return false;
	*ret_is_module = strncmp(rest, "kernel/", 7) == 0;
	return *ret_is_module || strcmp(rest, "modules.builtin") == 0 ||
	       strcmp(rest, "kernel") == 0;
}

/* Debian's common folder and kbuild package: no kernel by themselves, but part of one. */
static bool is_companion(const char *path)
{
	static const char *const starts[] = { "usr/src/linux", "usr/src/kernels/",
		"usr/lib/linux-kbuild" };

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (strncmp(path, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

static bool is_tree_mark(const char *path, bool *ret_content)
{
	for (size_t i = 0; i < ARRAY_SIZE(tree_marks); i++) {
		if (stem_length(path, tree_marks[i].end) < 0)
			continue;
		*ret_content = tree_marks[i].content;
		return true;
	}
	return false;
}

bool local_scan_wants(const char *path, bool *ret_content)
{
	bool is_module;

	*ret_content = false;
	for (size_t i = 0; i < ARRAY_SIZE(told_files); i++) {
		if (strcmp(path, told_files[i].path) != 0)
			continue;
		*ret_content = told_files[i].content;
		return true;
	}
	if (is_of_modules(path, &is_module)) {
		const char *suffix = strstr(path, ".ko");

		return !is_module || (suffix && (!suffix[3] || suffix[3] == '.'));
	}
	return is_tree_mark(path, ret_content) || is_companion(path);
}

static int push_mark(struct local_scan *scan, const char *path, size_t length, const char *text)
{
	struct local_mark *grown;

	for (size_t i = 0; i < scan->mark_count; i++)
		if (strlen(scan->marks[i].path) == length &&
			strncmp(scan->marks[i].path, path, length) == 0)
			return 0;
	/* A power of two at a time: there are only few marks. */
	if ((scan->mark_count & (scan->mark_count + 1)) == 0) {
		grown = realloc(scan->marks, 2 * (scan->mark_count + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		scan->marks = grown;
	}
	scan->marks[scan->mark_count].path = strndup(path, length);
	scan->marks[scan->mark_count].text = text ? strdup(text) : NULL;
	scan->mark_count++;
	return scan->marks[scan->mark_count - 1].path &&
			       (!text || scan->marks[scan->mark_count - 1].text)
		       ? 0
		       : -ENOMEM;
}

int local_scan_add(struct local_scan *scan, const char *path, const char *text)
{
	bool is_module = false, content;
	size_t length = strlen(path);

	if (!is_of_modules(path, &is_module) && !is_tree_mark(path, &content) && is_companion(path))
		return push_mark(scan, "usr/src", strlen("usr/src"), NULL);
	if (is_module)
		length = (size_t) (strstr(find_lib_modules(path), "/kernel/") - path) +
			 strlen("/kernel");
	return push_mark(scan, path, length, text);
}

void local_scan_forget(struct local_scan *scan, const char *path)
{
	size_t length = strlen(path);
	size_t kept = 0;

	for (size_t i = 0; i < scan->mark_count; i++) {
		const char *mark = scan->marks[i].path;

		if (strncmp(mark, path, length) == 0 &&
			(!length || mark[length] == '/' || !mark[length])) {
			free(scan->marks[i].path);
			free(scan->marks[i].text);
			continue;
		}
		scan->marks[kept++] = scan->marks[i];
	}
	scan->mark_count = kept;
}

const char *local_scan_text(const struct local_scan *scan, const char *path)
{
	for (size_t i = 0; i < scan->mark_count; i++)
		if (strcmp(scan->marks[i].path, path) == 0)
			return scan->marks[i].text;
	return NULL;
}

static struct local_tree *tree_at(struct local_scan *scan, const char *path, size_t length)
{
	struct local_tree *tree;

	for (size_t i = 0; i < scan->tree_count; i++)
		if (scan->trees[i].path && strlen(scan->trees[i].path) == length &&
			strncmp(scan->trees[i].path, path, length) == 0)
			return &scan->trees[i];
	tree = &scan->trees[scan->tree_count];
	tree->path = strndup(path, length);
	if (!tree->path)
		return NULL;
	scan->tree_count++;
	return tree;
}

static char *release_of(const char *text)
{
	static const char define[] = "#define UTS_RELEASE \"";
	const char *found = text ? strstr(text, define) : NULL;
	size_t length;

	if (!found)
		return NULL;
	found += strlen(define);
	length = strcspn(found, "\"\n/");
	return found[length] == '"' && length ? strndup(found, length) : NULL;
}

static int finish_tree(struct local_scan *scan, const struct local_mark *mark)
{
	for (size_t i = 0; i < ARRAY_SIZE(tree_marks); i++) {
		ssize_t length = stem_length(mark->path, tree_marks[i].end);
		struct local_tree *tree;

		if (length < 0)
			continue;
		tree = tree_at(scan, mark->path, (size_t) length);
		if (!tree)
			return -ENOMEM;
		if (i == 0 && !tree->krel)
			tree->krel = release_of(mark->text);
		tree->symvers |= i == 1;
		tree->builtin |= i == 3;
		return 0;
	}
	return 0;
}

static int finish_modules(struct local_scan *scan, const char *path, char *krel, const char *rest)
{
	struct local_modules *modules = NULL;

	for (size_t i = 0; i < scan->module_count && !modules; i++)
		if (scan->modules[i].krel && strcmp(scan->modules[i].krel, krel) == 0)
			modules = &scan->modules[i];
	if (!modules) {
		modules = &scan->modules[scan->module_count];
		modules->path = strndup(path, (size_t) (rest - path) - 1);
		modules->krel = strdup(krel);
		scan->module_count++;
		if (!modules->path || !modules->krel)
			return -ENOMEM;
	}
	modules->modules |= strcmp(rest, "kernel") == 0;
	modules->builtin |= strcmp(rest, "modules.builtin") == 0;
	return 0;
}

int local_scan_finish(struct local_scan *scan)
{
	int r = 0;

	scan->trees = calloc(scan->mark_count + 1, sizeof(*scan->trees));
	scan->modules = calloc(scan->mark_count + 1, sizeof(*scan->modules));
	if (!scan->trees || !scan->modules)
		return -ENOMEM;
	for (size_t i = 0; i < scan->mark_count && r == 0; i++) {
		const struct local_mark *mark = &scan->marks[i];
		_cleanup_free_ char *krel = NULL;
		bool is_module;
		const char *rest;

		if (is_of_modules(mark->path, &is_module) &&
			local_scan_split(mark->path, &krel, &rest))
			r = finish_modules(scan, mark->path, krel, rest);
		else
			r = finish_tree(scan, mark);
	}
	return r;
}

bool local_scan_has(const struct local_scan *scan, const char *path)
{
	for (size_t i = 0; i < scan->mark_count; i++)
		if (strcmp(scan->marks[i].path, path) == 0)
			return true;
	return false;
}

const struct local_tree *local_scan_tree(const struct local_scan *scan, const char *krel)
{
	for (size_t i = 0; i < scan->tree_count; i++)
		if (scan->trees[i].krel && (!krel || strcmp(scan->trees[i].krel, krel) == 0))
			return &scan->trees[i];
	return NULL;
}

const struct local_modules *local_scan_modules(const struct local_scan *scan, const char *krel)
{
	for (size_t i = 0; i < scan->module_count; i++)
		if (strcmp(scan->modules[i].krel, krel) == 0)
			return &scan->modules[i];
	return NULL;
}
