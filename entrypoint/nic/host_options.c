/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's modprobe options for the modules that we load in its stead: an administrator who gave
 * mlx5_core or ib_core an option wants it whichever build is loaded. What the operator mounted into
 * the container's own /etc/modprobe.d comes before them, and libkmod reads that by itself. An
 * option that our module does not know is left out with a note, as the kernel would do.
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/role/modprobe_d.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"

#define OWN_FOLDER "etc/modprobe.d/"

/* libkmod finds the host's options here in the container. */
#define HOST_OPTIONS_PATH OWN_FOLDER "slipway-host.conf"

static const struct modprobe_folder option_folders[] = {
	{ "", "etc/modprobe.d" },
	{ CONTRACT_NIC_HOST_ROOT, "etc/modprobe.d" },
	{ CONTRACT_NIC_HOST_ROOT, "usr/local/lib/modprobe.d" },
	{ CONTRACT_NIC_HOST_ROOT, "usr/lib/modprobe.d" },
	{ CONTRACT_NIC_HOST_ROOT, "lib/modprobe.d" },
};

/* ---- modprobe.d, as libkmod reads it; its own reader does not say which file has an option */

static const char blanks[] = " \t";

void modprobe_options_free(struct modprobe_options *options)
{
	strv_free(&options->modules);
	strv_free(&options->words);
	strv_free(&options->files);
}

/* @line is changed. */
static int read_options_line(
	const char *file, char *line, struct modprobe_options *options, struct strv *notes)
{
	_cleanup_strv_ struct strv words = { 0 };
	struct error why = { 0 };
	char *rest = line;
	const char *verb = strtok_r(NULL, blanks, &rest);
	char *module = verb && strcmp(verb, "options") == 0 ? strtok_r(NULL, blanks, &rest) : NULL;
	int r;

	if (!module || !rest || !*rest)
		return 0;
	for (char *dash = module; (dash = strchr(dash, '-'));)
		*dash = '_';
	r = parameter_split(rest, module, &words, &why);
	if (r == -EINVAL)
		return strv_pushf(
			notes, "/%s, options of %s: %.500s: skipped", file, module, why.text);
	for (size_t i = 0; r == 0 && i < words.count; i++) {
		r = strv_push(&options->modules, module);
		if (r == 0)
			r = strv_push(&options->words, words.items[i]);
		if (r == 0)
			r = strv_push(&options->files, file);
	}
	return r;
}

struct reading {
	struct modprobe_options *options;
	struct strv *notes;
};

static int read_options_file(void *data, const char *path, char *text, int r)
{
	const struct reading *reading = data;
	char *rest = text;
	char *line;

	if (!text)
		return strv_pushf(reading->notes,
			"/%s cannot be read, so its options are not used: %s", path, strerror(-r));
	for (char *at = text; (at = strstr(at, "\\\n"));)
		memset(at, ' ', 2);
	while (r == 0 && (line = strsep(&rest, "\n")))
		if (line[strspn(line, blanks)] != '#')
			r = read_options_line(path, line, reading->options, reading->notes);
	return r;
}

int modprobe_options_read(
	int root_fd, struct modprobe_options *options, struct strv *notes, struct error *error)
{
	struct reading reading = { options, notes };
	int r = modprobe_d_read(
		root_fd, option_folders, ARRAY_SIZE(option_folders), read_options_file, &reading);

	return r < 0 ? error_set_errno(error, r, "modprobe options") : 0;
}

/* ---- the options of our modules */

/* Returns 1 when the word is good, 0 when it is to be left out. */
static int check_option(struct action *action, const struct parameters_taken *taken,
	const struct modprobe_options *options, size_t index)
{
	const char *word = options->words.items[index];
	const char *module = options->modules.items[index];
	const char *file = options->files.items[index];
	struct error why = { 0 };
	int r = parameter_check(taken, word, &why);

	if (r == 0)
		return 1;
	if (r != -ENOENT) {
		action->error = why;
		return error_prefix(
			&action->error, r, "/%s, the host's options of %s", file, module);
	}
	nic_note(action, "/%s sets \"%s\" for %s, which is not used: %s", file, word, module,
		why.text);
	return 0;
}

/*
 * Appends the module's line where it has good words. Those of the container's own folder are
 * checked only: libkmod finds them there.
 */
static int push_options_line(struct action *action, struct loader *loader,
	const struct modprobe_options *options, const char *module, struct strv *lines)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *joined = NULL;
	int r;

	if (!strv_contains(&options->modules, module))
		return 0;
	r = loader_parameters(loader, module, &taken, &action->error);
	for (size_t i = 0; r >= 0 && i < options->words.count; i++) {
		if (strcmp(options->modules.items[i], module) != 0)
			continue;
		r = check_option(action, &taken, options, i);
		if (r > 0 && strncmp(options->files.items[i], OWN_FOLDER, strlen(OWN_FOLDER)) != 0)
			r = strv_push(&words, options->words.items[i]);
	}
	if (r < 0 || !words.count)
		return r < 0 ? r : 0;
	joined = strv_join(&words, " ");
	if (!joined || strv_pushf(lines, "options %s %s", module, joined) < 0)
		return error_set_errno(&action->error, -ENOMEM, "%s", module);
	nic_note(action, "the host's options of %s: %s", module, joined);
	return 0;
}

int nic_host_options(struct action *action)
{
	const struct role *role = action->role;
	const struct strv *set = &role->driver_modules;
	_cleanup_(modprobe_options_free) struct modprobe_options options = { .modules = { 0 } };
	_cleanup_(loader_close) struct loader *loader = NULL;
	_cleanup_strv_ struct strv notes = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	bool is_any_ours = false;
	int r;

	(void) unlinkat(role->root_fd, HOST_OPTIONS_PATH, 0);
	r = modprobe_options_read(role->root_fd, &options, &notes, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	for (size_t i = 0; i < notes.count; i++)
		nic_note(action, "%s", notes.items[i]);
	for (size_t i = 0; i < options.modules.count; i++)
		is_any_ours |= strv_contains(set, options.modules.items[i]);
	if (!is_any_ours)
		return 0;
	r = loader_open(role->root_fd, "", role->krel, &loader, &action->error);
	for (size_t i = 0; r == 0 && i < set->count; i++)
		r = push_options_line(action, loader, &options, set->items[i], &lines);
	if (r < 0)
		return action_reason(
			action, r == -EINVAL ? REASON_BAD_PARAMETER : REASON_INTERNAL, r);
	if (!lines.count)
		return 0;
	return action_reason(action, REASON_MOUNT_FAILED,
		role_parameters_write(role, HOST_OPTIONS_PATH, &lines, &action->error));
}
