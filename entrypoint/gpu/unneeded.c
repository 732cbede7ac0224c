/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/unneeded.h"

#include <string.h>

/* Of variables that every pod has (NODE_NAME and the like) nothing is said. */
static const struct {
	const char *reason;
	const char *names[12];
} variables[] = {
	{ "the image holds finished modules, of one kind",
		{ "KERNEL_MODULE_TYPE", "OPEN_KERNEL_MODULES_ENABLED" } },
	{ "no package is fetched on the node",
		{ "UBUNTU_PRO_TOKEN", "DNF_RELEASEVER", "RHEL_VERSION", "RHCOS_VERSION",
			"RHCOS_IMAGE_MISSING" } },
	{ "nothing is fetched on the node", { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy",
						    "https_proxy", "no_proxy" } },
};

/* The operator's default, and what the image's own environment says of itself. */
static bool is_worth_a_word(const char *name, const char *value)
{
	return value && *value &&
	       !(strcmp(name, "KERNEL_MODULE_TYPE") == 0 && strcmp(value, "auto") == 0);
}

static void tell(struct role *role, const char *names, size_t count, const char *reason)
{
	struct error text;

	if (!count)
		return;
	(void) error_set(&text, 0, "%s %s set: not needed, because %s", names,
		count == 1 ? "is" : "are", reason);
	journal_event(&role->journal, "note", role->journal.step, 0, REASON_NONE, text.text);
}

static void tell_variables(struct role *role)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		_cleanup_strv_ struct strv set = { 0 };
		_cleanup_free_ char *names = NULL;

		for (const char *const *name = variables[i].names; *name; name++)
			if (is_worth_a_word(*name, getenv(*name)) && strv_push(&set, *name) < 0)
				return;
		names = strv_join(&set, ", ");
		if (names)
			tell(role, names, set.count, variables[i].reason);
	}
}

static void tell_driver_version(struct role *role)
{
	const char *wanted = getenv("DRIVER_VERSION");
	struct error text;

	if (!wanted || !*wanted || !*role->image.version ||
		strcmp(wanted, role->image.version) == 0)
		return;
	(void) error_set(&text, 0,
		"DRIVER_VERSION asks for %.64s: this image holds %s, and that is what is loaded",
		wanted, role->image.version);
	journal_event(&role->journal, "note", role->journal.step, 0, REASON_NONE, text.text);
}

static void tell_module_type(struct role *role)
{
	const char *wanted = getenv("KERNEL_MODULE_TYPE");
	struct error text;

	if (!wanted || strcmp(wanted, "proprietary") != 0)
		return;
	(void) error_set(&text, 0,
		"KERNEL_MODULE_TYPE asks for the proprietary modules: this image holds the open ones, "
		"and those are loaded");
	journal_event(&role->journal, "note", role->journal.step, 0, REASON_NONE, text.text);
}

static void tell_arguments(struct role *role)
{
	const struct options *options = &role->options;

	tell(role, "--accept-license", options->accept_license,
		"the licence is accepted where the image is built");
	tell(role, "--tag", options->tag != NULL, "no package is looked up by a tag");
	tell(role, "--sign", options->sign != NULL,
		"modules are signed where the image is built (slipway build --sign-key)");
	tell(role, "--kernel", options->kernel && strcmp(options->kernel, role->krel) != 0,
		"modules go into the kernel that runs, and no other");
}

void unneeded_tell(struct role *role)
{
	tell_arguments(role);
	tell_variables(role);
	tell_module_type(role);
	tell_driver_version(role);
}
