/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/host_options.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/load.h"
#include "entrypoint/nic/modprobe_options.h"
#include "entrypoint/role/role_parameters.h"

#define OWN_FOLDER "etc/modprobe.d/"

static const char *const folders[] = {
	"etc/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/etc/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/usr/local/lib/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/usr/lib/modprobe.d",
	CONTRACT_NIC_HOST_ROOT "/lib/modprobe.d",
	NULL,
};

static void tell_notes(struct action *action, const struct strv *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		worker_report(action->worker, WORKER_NOTE, 0, "%s", notes->items[i]);
}

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
	worker_report(action->worker, WORKER_NOTE, 0,
		"/%s has \"%s\" for %s, which is left out: %s", file, word, module, why.text);
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
		worker_report(action->worker, WORKER_NOTE, 0, "the host's options of %s: %s",
			module, joined);
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
	r = modprobe_options_read(
		role->root_fd, folders, CONTRACT_NIC_HOST_ROOT, &options, &notes, &action->error);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	tell_notes(action, &notes);
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
