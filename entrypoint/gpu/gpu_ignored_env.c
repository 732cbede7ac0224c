/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/gpu_ignored_env.h"

#include <string.h>

#include "entrypoint/ignored_env.h"

/* Of variables that every pod has (NODE_NAME and the like) nothing is said. */
static const struct unneeded variables[] = {
	/* The operator's default. */
	{ "the image holds finished modules, of one kind", "auto",
		{ "KERNEL_MODULE_TYPE", "OPEN_KERNEL_MODULES_ENABLED" } },
	{ "no package is installed on the node", NULL,
		{ "UBUNTU_PRO_TOKEN", "DNF_RELEASEVER", "RHEL_VERSION", "RHCOS_VERSION",
			"RHCOS_IMAGE_MISSING" } },
	UNNEEDED_PROXIES,
};

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
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text.text);
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
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text.text);
}

static void tell_argument(struct role *role, const char *name, bool is_set, const char *reason)
{
	struct error text;

	if (!is_set)
		return;
	(void) error_set(&text, 0, "%s is set: not needed, because %s", name, reason);
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text.text);
}

static void tell_arguments(struct role *role)
{
	const struct options *options = &role->options;

	tell_argument(role, "--accept-license", options->accept_license,
		"the licence is accepted where the image is built");
	tell_argument(role, "--tag", options->tag != NULL, "no package is looked up by a tag");
	tell_argument(role, "--sign", options->sign != NULL,
		"modules are signed where the image is built (slipway build --sign-key)");
	tell_argument(role, "--kernel", options->kernel && strcmp(options->kernel, role->krel) != 0,
		"modules go into the kernel that runs, and no other");
}

void gpu_ignored_env_tell(struct role *role)
{
	tell_arguments(role);
	ignored_env_tell(&role->log, role->log.step, variables, ARRAY_SIZE(variables));
	tell_module_type(role);
	tell_driver_version(role);
}
