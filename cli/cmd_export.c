/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>

#include "cli/export/export.h"
#include "cli/image/output_place.h"
#include "cli/json.h"
#include "cli/supervise.h"
#include "common/arch.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

struct verb {
	struct common_options options;
	struct strv names;
	struct context context;
	struct export export;
};

static int take_argument(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	(void) error;
	xstrv_push(&verb->names, argument);
	return 0;
}

static int take_form(void *target, const char *value, struct error *error)
{
	struct verb *verb = target;

	if (verb->export.form) {
		(void) error_set(error, -EINVAL, "--as %s: one form is made at a time", value);
		return error_try(error, -EINVAL, "one slipway export for each form");
	}
	return export_choose_form(value, &verb->export.form, error);
}

static int take_without(void *target, const char *value, struct error *error)
{
	struct verb *verb = target;

	if (strcmp(value, "userspace") != 0)
		return error_set(
			error, -EINVAL, "--without %s: only userspace can be left out", value);
	xstrv_push(&verb->export.without, value);
	return 0;
}

static int check(void *target, struct error *error)
{
	struct verb *verb = target;
	const struct export *export = &verb->export;

	if (export->sign_key && !export_form_signs(export->form))
		return error_set(error, -EINVAL, "--sign-key: only --as sysext has a signature");
	if (verb->names.count > EXPORT_MAX)
		return error_set(error, -EINVAL, "more than %d images", EXPORT_MAX);
	if (!output_place_is_folder(export->output))
		return error_set(error, -EINVAL, "--output %s: not a folder", export->output);
	return output_place_check(export->output, error);
}

static const struct option_rule rules[] = {
	{ .needs = OPTION_RULE_ARGUMENT, .why = "IMAGE is missing: an image of slipway build" },
	{ .needs = "as", .why = "--as is missing: layer, tar or sysext" },
	{ .needs = "output", .why = "--output DIR is missing" },
	{ .given = "sign-key", .needs = "sign-cert", .why = "a signature names its certificate" },
	{ .given = "sign-cert", .needs = "sign-key", .why = "the certificate alone signs nothing" },
	{ .given = "password-file password-fd password-env",
		.needs = "sign-key",
		.why = "the password belongs to a key" },
};

#define EXPORT_OPTION(name, letter, argument, kind, member, help)                                  \
	OPTION(name, letter, argument, kind, struct verb, export.member, help)

static const struct option_row rows[] = {
	OPTION_ARGUMENT("IMAGE",
		"a NIC or GPU image made by slipway build or combine: its archive, its OCI\n"
		"layout, its name in containers-storage, or docker://REFERENCE in a\n"
		"registry; two of them are one node's; or a build's --output folder"),
	OPTION_CALL("as", 0, "FORM", take_form,
		"layer: an image of one layer, to be copied in a Containerfile;\n"
		"tar: the same files as .tar.zst; sysext: a system extension (systemd-sysext)"),
	EXPORT_OPTION("output", 'o', "DIR", OPTION_TEXT, output, "the folder for the files"),
	EXPORT_OPTION("kernel", 0, "KREL", OPTION_TEXT, kernel,
		"the kernel, if images have modules for several"),
	OPTION_CALL("without", 0, "userspace", take_without,
		"leave out programs, libraries and firmware of the GPU driver"),
	EXPORT_OPTION("sign-key", 0, "KEY", OPTION_TEXT, sign_key,
		"sysext: sign it with this key: a file (PEM, PKCS#8, PKCS#12) or a pkcs11: URI"),
	EXPORT_OPTION("sign-cert", 0, "FILE", OPTION_TEXT, sign_cert,
		"and its certificate, which nodes have in /etc/verity.d"),
	SIGN_PASSWORD_OPTIONS(struct verb, export.password),
	EXPORT_OPTION("force", 0, NULL, OPTION_FLAG, force,
		"also export images that are not proven to load"),
};

const struct option_table export_options = {
	.verb = "export",
	.usage =
		"Usage: slipway export IMAGE… --as layer|tar|sysext --output DIR [options]\n"
		"\n"
		"Makes files for an operating system's image out of driver images, for nodes whose "
		"driver is\n"
		"in the system (driver.enabled=false, useHostMofed): the modules of one kernel, "
		"depmod's and\n"
		"modprobe's rules for them, and the GPU driver's userspace. docs/edge.md explains "
		"their use.\n"
		"\n",
	.notes = "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.only_common = "os arch cache json quiet verbose help",
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

/* The machine that the kernel's release names, else that of --arch; NULL: neither names one. */
static const struct arch *wanted_arch(const struct verb *verb)
{
	const char *name = verb->export.kernel ? krel_arch(verb->export.kernel) : NULL;

	if (!name)
		name = verb->options.arch;
	return name ? arch_find(name) : NULL;
}

static int export_images(struct verb *verb, struct error *error)
{
	struct context *context = &verb->context;
	struct export *export = &verb->export;
	json_object *object;
	int r = output_place_ready(export->output, error);

	if (r < 0)
		return context_fail(context, EXIT_CODE_OUTPUT, r);
	r = context_read_date(context, error);
	if (r < 0)
		return r;
	export->context = context;
	export->arch = wanted_arch(verb);
	r = export_prepare(export, error);
	if (r < 0)
		return r;
	progress_begin(&context->progress, "export");
	r = export_open(export, &verb->names, error);
	if (r == 0)
		r = export_make(export, error);
	/* The images, or the way they were put together, are wrong. */
	if (r == -EINVAL && context->failure == EXIT_CODE_OK)
		(void) context_fail(context, EXIT_CODE_USAGE, r);
	progress_end(&context->progress, r < 0 ? "failed" : "done");
	if (r < 0)
		return r;
	if (!verb->options.json) {
		export_print(export);
		return 0;
	}
	object = export_to_json(export);
	json_add_texts(object, "event", "result");
	json_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	json_add(object, "files", json_list(&export->files));
	json_print_line(object);
	return 0;
}

static int make(void *data, struct error *error)
{
	struct verb *verb = data;
	int r = export_images(verb, error);

	export_close(&verb->export);
	return r;
}

int export_command(char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED, .export.password.fd = -1 };
	int code;

	if (options_start(&export_options, argv, &verb, &code)) {
		code = supervise_run(&verb.context, &verb.options, "export", "nothing was exported",
			make, &verb);
		if (code != EXIT_CODE_OK)
			export_sweep(verb.export.output);
	}
	context_close(&verb.context);
	strv_free(&verb.names);
	common_options_free(&verb.options);
	return code;
}
