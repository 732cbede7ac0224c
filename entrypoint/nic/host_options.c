/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"

#define OWN_FOLDER "etc/modprobe.d/"
#define SUFFIX     ".conf"
#define FILE_LIMIT (1UL << 20)

static const char *const option_folders[] = {
	"etc/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/etc/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/usr/local/lib/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/usr/lib/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/lib/modprobe.d",
	NULL,
};

/* ---- modprobe.d */

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

/* ---- the options of our modules */

static bool takes_name(const struct parameters_taken *taken, const char *word)
{
	char name[128];

	(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(word, "="), word);
	return parameter_exists(taken, name);
}

/* Returns 1 when the word is good, 0 when it is to be left out. */
static int check(struct action *action, const struct parameters_taken *taken,
	const struct modprobe_options *options, size_t index)
{
	const char *word = options->words.items[index];
	const char *module = options->modules.items[index];
	const char *file = options->files.items[index];
	struct error why = { "" };
	int r = parameter_check(taken, word, &why);

	if (r == 0)
		return 1;
	if (r != -EINVAL || takes_name(taken, word)) {
		action->error = why;
		return error_prefix(
			&action->error, r, "/%s, the host's options of %s", file, module);
	}
	nic_note(action, "/%s has \"%s\" for %s, which is left out: %s", file, word, module,
		why.text);
	return 0;
}

/* Words of the container's own folder are checked only: libkmod finds them there. */
static int options_of(struct action *action, struct loader *loader,
	const struct modprobe_options *options, const char *module, struct strv *words)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = { 0 };
	bool is_open = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < options->words.count; i++) {
		const char *file = options->files.items[i];

		if (strcmp(options->modules.items[i], module) != 0)
			continue;
		if (!is_open)
			r = loader_parameters(loader, module, &taken, &action->error);
		is_open = true;
		if (r == 0)
			r = check(action, &taken, options, i);
		if (r > 0)
			r = strncmp(file, OWN_FOLDER, strlen(OWN_FOLDER)) == 0
				    ? 0
				    : strv_push(words, options->words.items[i]);
	}
	return r;
}

static int collect(
	struct action *action, const struct modprobe_options *options, struct strv *lines)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);

	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++) {
		const char *module = role->driver_modules.items[i];
		_cleanup_strv_ struct strv words = { 0 };
		_cleanup_free_ char *joined = NULL;

		r = options_of(action, loader, options, module, &words);
		if (r < 0 || !words.count)
			continue;
		joined = strv_join(&words, " ");
		if (!joined || strv_pushf(lines, "options %s %s", module, joined) < 0)
			return error_set_errno(&action->error, -ENOMEM, "%s", module);
		nic_note(action, "the host's options of %s: %s", module, joined);
	}
	return r;
}

static bool is_any_ours(const struct role *role, const struct modprobe_options *options)
{
	for (size_t i = 0; i < options->modules.count; i++)
		if (strv_contains(&role->driver_modules, options->modules.items[i]))
			return true;
	return false;
}

int nic_host_options(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(modprobe_options_free) struct modprobe_options options = { .modules = { 0 } };
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	int r;

	(void) unlinkat(role->root_fd, HOST_OPTIONS_PATH, 0);
	r = modprobe_options_read(role->root_fd, option_folders, CONTRACT_NIC_HOST_ROOT, &options,
		&notes, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	for (size_t i = 0; i < notes.count; i++)
		nic_note(action, "%s", notes.items[i]);
	if (!is_any_ours(role, &options))
		return 0;
	r = collect(action, &options, &lines);
	if (r < 0)
		return action_reason(
			action, r == -EINVAL ? REASON_BAD_PARAMETER : REASON_INTERNAL, r);
	return lines.count ? action_reason(action, REASON_MOUNT_FAILED,
				     role_parameters_write(
					     role, HOST_OPTIONS_PATH, &lines, &action->error))
			   : 0;
}
