/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/module_tree.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/fs.h"

int module_tree_open(int dir_fd, const char *folder, struct module_tree *ret)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "%s/modules.dep", folder);
	ret->index = NULL;
	return fs_read(dir_fd, path, 0, &ret->index, NULL);
}

void module_tree_close(struct module_tree *tree)
{
	free(tree->index);
	tree->index = NULL;
}

static bool is_same_letter(char a, char b)
{
	return a == b || ((a == '-' || a == '_') && (b == '-' || b == '_'));
}

/* Is the file's name, of which @length bytes come before ".ko", that of the module? */
static bool is_file_of(const char *base, size_t length, const char *name)
{
	for (size_t i = 0; i < length; i++)
		if (!name[i] || !is_same_letter(base[i], name[i]))
			return false;
	return !name[length];
}

/* Where the last part of a path begins, of which @size bytes count, and what of it is the name. */
static const char *base_of(const char *path, size_t size, size_t *ret_length)
{
	const char *slash = memrchr(path, '/', size);
	const char *base = slash ? slash + 1 : path;
	const char *suffix;

	size -= (size_t) (base - path);
	suffix = memmem(base, size, ".ko", strlen(".ko"));
	*ret_length = suffix ? (size_t) (suffix - base) : size;
	return base;
}

/* The line of a module, or NULL. */
static const char *find_line(const struct module_tree *tree, const char *name)
{
	for (const char *line = tree->index; *line;) {
		size_t size = strcspn(line, ":\n");
		size_t length;
		const char *base = base_of(line, size, &length);

		if (line[size] == ':' && is_file_of(base, length, name))
			return line;
		line += size;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return NULL;
}

static bool copy_path(const char *line, size_t size, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%.*s", (int) size, line) < PATH_MAX;
}

bool module_tree_path(const struct module_tree *tree, const char *name, char path[PATH_MAX])
{
	const char *line = find_line(tree, name);

	return line && copy_path(line, strcspn(line, ":"), path);
}

int module_tree_order(const struct module_tree *tree, const char *name, struct strv *paths)
{
	const char *line = find_line(tree, name);
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *text = NULL;
	int r;

	if (!line)
		return -ENOENT;
	text = strndup(line, strcspn(line, "\n"));
	r = text ? strv_split(&words, text, ": ") : -ENOMEM;
	for (size_t i = words.count; r == 0 && i-- > 0;)
		r = strv_push(paths, words.items[i]);
	return r;
}

void module_tree_name(const char *path, char name[NAME_MAX])
{
	size_t length;
	const char *base = base_of(path, strlen(path), &length);

	(void) snprintf(name, NAME_MAX, "%.*s", (int) length, base);
	for (char *dash = name; (dash = strchr(dash, '-')); dash++)
		*dash = '_';
}
