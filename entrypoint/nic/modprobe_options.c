/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/modprobe_options.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/role/parameter.h"

#define SUFFIX     ".conf"
#define FILE_LIMIT (1UL << 20)

static const char blanks[] = " \t";

void modprobe_options_free(struct modprobe_options *options)
{
	strv_free(&options->modules);
	strv_free(&options->words);
	strv_free(&options->files);
}

/* What one pass over the folders needs. */
struct reading {
	int root_fd;
	const char *host;
	struct modprobe_options *options;
	struct strv *notes;
};

static int add_word(
	const struct reading *reading, const char *file, const char *module, const char *word)
{
	struct modprobe_options *options = reading->options;
	int r = strv_push(&options->modules, module);

	if (r == 0)
		r = strv_push(&options->words, word);
	return r < 0 ? r : strv_push(&options->files, file);
}

static int read_words(
	const struct reading *reading, const char *file, const char *module, const char *text)
{
	_cleanup_strv_ struct strv words = { 0 };
	struct error why = { "" };
	int r = parameter_split(text, module, &words, &why);

	if (r == -EINVAL)
		return strv_pushf(reading->notes, "/%s, options of %s: %.500s: passed over", file,
			module, why.text);
	for (size_t i = 0; r == 0 && i < words.count; i++)
		r = add_word(reading, file, module, words.items[i]);
	return r;
}

/* @line is changed. */
static int read_line(const struct reading *reading, const char *file, char *line)
{
	char *rest = line;
	const char *verb = strtok_r(NULL, blanks, &rest);
	char *module = verb && strcmp(verb, "options") == 0 ? strtok_r(NULL, blanks, &rest) : NULL;

	if (!module || !rest || !*rest)
		return 0;
	for (char *c = module; *c; c++)
		if (*c == '-')
			*c = '_';
	return read_words(reading, file, module, rest);
}

static void join_lines(char *text)
{
	for (char *at = strstr(text, "\\\n"); at; at = strstr(at, "\\\n"))
		memset(at, ' ', 2);
}

static int read_text(const struct reading *reading, const char *file, char *text)
{
	char *rest = text;
	char *line;
	int r = 0;

	join_lines(text);
	while (r == 0 && (line = strsep(&rest, "\n")))
		if (line[strspn(line, blanks)] != '#')
			r = read_line(reading, file, line);
	return r;
}

/* An absolute link of the host's means a place below the host's root. */
static void follow_link(const struct reading *reading, const char *path, char real[PATH_MAX])
{
	char target[PATH_MAX];
	ssize_t size = readlinkat(reading->root_fd, path, target, sizeof(target) - 1);

	target[size < 0 ? 0 : size] = '\0';
	if (*target == '/' && strcmp(target, "/dev/null") != 0)
		(void) snprintf(real, PATH_MAX, "%s%.*s", reading->host,
			(int) (PATH_MAX - strlen(reading->host) - 1), target);
	else
		(void) snprintf(real, PATH_MAX, "%s", path);
}

static int read_file(const struct reading *reading, const char *folder, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], real[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "%s/%s", folder, name);
	follow_link(reading, path, real);
	r = fs_read(reading->root_fd, real, FILE_LIMIT, &text, NULL);
	if (r == -ENOENT)
		return 0; /* leads nowhere: modprobe passes over it too */
	if (r < 0)
		return strv_pushf(reading->notes,
			"/%s cannot be read, its options are not known: "
			"%s",
			path, strerror(-r));
	return read_text(reading, path, text);
}

static bool has_suffix(const char *name)
{
	size_t length = strlen(name);

	return length > strlen(SUFFIX) && name[0] != '.' &&
	       strcmp(name + length - strlen(SUFFIX), SUFFIX) == 0;
}

/* The names of all folders, sorted, each once. */
static int list_names(int root_fd, const char *const *folders, struct strv *names)
{
	int r = 0;

	for (; r == 0 && *folders; folders++) {
		_cleanup_strv_ struct strv here = { 0 };

		if (fs_list(root_fd, *folders, &here) < 0)
			continue;
		for (size_t i = 0; r == 0 && i < here.count; i++)
			if (has_suffix(here.items[i]))
				r = strv_push_unique(names, here.items[i]);
	}
	strv_sort(names);
	return r;
}

static const char *first_with(int root_fd, const char *const *folders, const char *name)
{
	for (; *folders; folders++) {
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/%s", *folders, name);
		if (fs_exists(root_fd, path))
			return *folders;
	}
	return NULL;
}

int modprobe_options_read(int root_fd, const char *const *folders, const char *host,
	struct modprobe_options *options, struct strv *notes, struct error *error)
{
	const struct reading reading = { root_fd, host, options, notes };
	_cleanup_strv_ struct strv names = { 0 };
	int r = list_names(root_fd, folders, &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		const char *folder = first_with(root_fd, folders, names.items[i]);

		if (folder)
			r = read_file(&reading, folder, names.items[i]);
	}
	return r < 0 ? error_set_errno(error, r, "modprobe options") : 0;
}
