/* SPDX-License-Identifier: Apache-2.0 */
/* Will these modules load on that kernel? Nothing is loaded, started or asked of a kernel for that.
 */
#include "cli/commands.h"

#include <unistd.h>

#include "cli/json.h"
#include "cli/verify/verify.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/local/local_image.h"

static int take_argument(void *target, const char *argument, struct error *error)
{
	struct verify *verify = target;

	(void) error;
	xstrv_push(&verify->what, argument);
	return 0;
}

static int check(void *target, struct error *error)
{
	struct verify *verify = target;
	int r = verify_identify(verify, error);

	return r < 0 || verify->fetched
		       ? r
		       : common_options_refuse_lists(&verify->common,
				 "--kernel names files, so no package list is read", error);
}

static const struct option_rule rules[] = {
	{ .needs = OPTION_RULE_ARGUMENT,
		.why = "WHAT is missing: a folder of modules, .ko files or an image" },
	{ .given = "running",
		.refuses = "kernel",
		.why = "only one kernel can be verified against" },
	{ .given = "running",
		.refuses = "with",
		.why = "the loaded modules are read from the machine" },
	{ .needs = "kernel running",
		.why = "--kernel is missing: give a kernel tree, a release (uname -r on the node) "
		       "or --running" },
};

#define VERIFY_OPTION(name, argument, kind, member, help)                                          \
	OPTION(name, 0, argument, kind, struct verify, member, help)

static const struct option_row rows[] = {
	VERIFY_OPTION("kernel", "WHERE", OPTION_LIST, kernels,
		"a kernel tree, a build folder, /lib/modules/KREL, record.json of a tree,\n"
		"files as for build --kernel-from (packages, slipway probe's bundle), or a\n"
		"release or newest, which is fetched; repeat it for files that together\n"
		"are one kernel"),
	VERIFY_OPTION("with", "PATH", OPTION_LIST, with,
		"modules loaded before WHAT: a Module.symvers, or a folder or image with\n"
		"modules or such a file; may be repeated, later ones take precedence"),
	VERIFY_OPTION(
		"running", NULL, OPTION_FLAG, running, "use the running kernel of this machine"),
	VERIFY_OPTION("enforce-signatures", NULL, OPTION_FLAG, enforce,
		"check as with module.sig_enforce=1"),
	VERIFY_OPTION("trust", "CERT", OPTION_LIST, trust_files,
		"accept signatures made with this certificate (PEM or DER); may be repeated.\n"
		"The kernel's own modules need none"),
	VERIFY_OPTION("order", NULL, OPTION_FLAG, order, "print the load order"),
	VERIFY_OPTION("all", NULL, OPTION_FLAG, all,
		"list every module and finding without "
		"grouping"),
	VERIFY_OPTION("jobs", "N", OPTION_JOBS, jobs,
		"number of threads [the number of "
		"processors]"),
};

const struct option_table verify_options = {
	.verb = "verify",
	.usage = "Usage: slipway verify WHAT… --kernel TREE|KREL|RECORD [--with SYMVERS|DIR]… "
		 "[options]\n"
		 "       slipway verify WHAT… --running\n"
		 "\n"
		 "Checks whether the kernel will load each module, by the kernel's own rules and "
		 "without\n"
		 "loading it: vermagic, the CRC of every symbol, GPL-only symbols, name spaces, "
		 "signatures,\n"
		 "architecture; then the whole set: load order, missing modules, conflicts. "
		 "Programs of images\n"
		 "of slipway build have to start: libraries and versions of symbols. "
		 "docs/verify.md explains\n"
		 "each finding. Exit code 0: all will load, 3: some will not, 4: some are "
		 "undecided.\n"
		 "\n"
		 "WHAT is a folder that contains modules, a folder of build --output (all of its "
		 "images), a .ko\n"
		 "file (.gz, .xz, .zst), an image (OCI or docker archive, oci:FOLDER, "
		 "containers-storage:NAME or\n"
		 "just its name, docker://REF), a .deb, .rpm or tarball.\n"
		 "Several are checked as one set, such as the NIC image and the GPU image of one "
		 "node.\n"
		 "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.common = offsetof(struct verify, common),
	.take_argument = take_argument,
	.check = check,
};

/* Also in the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verify *verify = context;
	struct error error = { 0 };
	int code = EXIT_CODE_OK;
	int r = verify_run(verify, &code, &error);
	enum exit_code failed = verify->failure;

	/*
	 * exit_code_for() would read these errnos differently: here they mean that a file of the
	 * user's is no module, or is not readable.
	 */
	if (r == 0)
		return code;
	if (r == -EACCES || r == -EPERM)
		failed = verify->context.failure ? verify->context.failure : EXIT_CODE_INTERNAL;
	else if (r != -ENOEXEC && r != -ENOMSG)
		failed = exit_code_for(r, failed);
	return json_fail("verify", verify->common.json ? "" : NULL, (int) failed, &error);
}

/*
 * The architectures of an index, where the kernel's release names none ("newest",
 * 6.8.0-45-generic) and no --arch does: there is such a kernel for each.
 */
static void list_archs(const struct verify *verify, struct strv *unames)
{
	const char *krel = verify->kernels.count == 1 ? verify->kernels.items[0] : NULL;

	if (!verify->fetched || verify->common.arch || !krel || krel_arch(krel) ||
		access(krel, F_OK) == 0)
		return;
	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];
		_cleanup_(local_images_free) struct local_images images = { 0 };
		struct error ignored = { 0 };

		if ((input->kind != VERIFY_ARCHIVE && input->kind != VERIFY_LAYOUT) ||
			local_images_list(input->place, input->kind == VERIFY_ARCHIVE, &images,
				&ignored) < 0 ||
			images.count < 2)
			continue;
		for (size_t k = 0; k < images.count; k++) {
			const struct arch *arch = arch_find(images.items[k].arch);

			if (arch)
				xstrv_push_unique(unames, arch->uname);
		}
	}
}

/* The reports of several architectures. */
struct several {
	struct strv unames;
	json_object *reports; /* with --json: of each what verify prints of one */
	const char *verdict;  /* the worst */
	int worst;            /* its exit code */
};

static bool is_verdict(int code)
{
	return code == EXIT_CODE_OK || code == EXIT_CODE_WILL_NOT_LOAD ||
	       code == EXIT_CODE_CANNOT_TELL;
}

static int no_report(struct error *error)
{
	(void) error_set(error, -EIO, "the report of an architecture could not be kept");
	return error_try(error, -EIO, "room in /tmp");
}

/* Takes the report that the child has written; it may have had no room for all of it. */
static int take_report(
	struct several *several, const char *uname, FILE *file, int code, struct error *error)
{
	bool worse = code == EXIT_CODE_WILL_NOT_LOAD || several->worst == EXIT_CODE_OK;
	_cleanup_free_ char *text = NULL;
	json_object *report = NULL;

	if (worse)
		several->worst = code;
	if (!file)
		return 0;
	if (lseek(fileno(file), 0, SEEK_SET) == 0 && fs_read_fd(fileno(file), 0, &text, NULL) == 0)
		report = json_tokener_parse(text);
	if (!report)
		return no_report(error);
	if (worse)
		several->verdict =
			json_object_get_string(json_object_object_get(report, "verdict"));
	json_add_texts(report, "arch", uname);
	(void) json_object_array_add(several->reports, report);
	return 0;
}

/* Once, for @uname; with NULL, several->unames gets those to do it for instead, if several. */
static int verify_once(char **argv, const char *uname, struct several *several)
{
	_cleanup_(verify_close) struct verify verify = VERIFY_CLOSED;
	_cleanup_fclose_ FILE *report = NULL;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct error error = { 0 };
	int code;

	verify.jobs = processors > 0 ? (unsigned int) processors : 1;
	if (!options_start(&verify_options, argv, &verify, &code))
		return code;
	if (!uname) {
		list_archs(&verify, &several->unames);
		if (several->unames.count > 1)
			return EXIT_CODE_OK;
	} else {
		verify.common.arch = uname;
		if (verify.common.json) {
			report = tmpfile();
			if (!report) {
				(void) no_report(&error);
				return json_fail("verify", "", EXIT_CODE_INTERNAL, &error);
			}
			if (!several->reports)
				several->reports = json_object_new_array();
		} else if (uname != several->unames.items[0]) {
			(void) putchar('\n');
		}
		verify.report = report;
	}
	code = verify_supervise(&verify, "verify", "nothing was checked", work, &verify);
	if (uname && is_verdict(code) && take_report(several, uname, report, code, &error) < 0)
		return json_fail("verify", "", EXIT_CODE_INTERNAL, &error);
	return code;
}

static void print_reports(const struct several *several)
{
	json_object *root = json_object_new_object();

	json_add(root, "exit_code", json_object_new_int(several->worst));
	json_add_texts(root, "verdict", several->verdict);
	json_add(root, "archs", json_object_get(several->reports));
	json_print(root, stdout);
}

static int verify_all(char **argv, struct several *several)
{
	for (size_t i = 0; i < several->unames.count; i++) {
		int code = verify_once(argv, several->unames.items[i], several);

		/* It is the end, and has said so; of verdicts the worst counts. */
		if (!is_verdict(code))
			return code;
	}
	if (several->reports)
		print_reports(several);
	return several->worst;
}

int verify_command(char **argv)
{
	struct several several = { 0 };
	int code = verify_once(argv, NULL, &several);

	if (several.unames.count > 1)
		code = verify_all(argv, &several);
	strv_free(&several.unames);
	(void) json_object_put(several.reports);
	return code;
}
