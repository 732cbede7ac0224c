/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "cli/verify/firmware.h"
#include "cli/verify/modprobe_conf.h"
#include "cli/verify/report.h"
#include "cli/verify/variants.h"
#include "common/fs.h"

#define WHOLE_MODULES_MAX 1000 /* above it files are not read whole */

static int tell_all(const struct strv *texts, bool with, struct verify_input **ret, size_t *count,
	struct error *error)
{
	int r = 0;

	*ret = calloc(texts->count + 1, sizeof(**ret));
	if (!*ret)
		return error_set_errno(error, -ENOMEM, "verify");
	for (size_t i = 0; i < texts->count; i++)
		(*ret)[i] = (struct verify_input) VERIFY_INPUT_CLOSED;
	for (size_t i = 0; i < texts->count && r == 0; i++) {
		*count = i + 1;
		/* A file of symvers is its own kind, and stays an input without a name. */
		if (with && verify_is_symvers(texts->items[i]))
			continue;
		r = verify_input_tell(texts->items[i], &(*ret)[i], error);
		if (r < 0 && with)
			r = error_prefix(error, r, "--with");
	}
	return r;
}

static bool is_same(const struct verify_input *a, const struct verify_input *b)
{
	struct stat left, right;

	if (!a->place || !b->place)
		return false;
	if (a->kind == VERIFY_STORAGE || b->kind == VERIFY_STORAGE)
		return a->kind == b->kind && strcmp(a->place, b->place) == 0;
	return stat(a->place, &left) == 0 && stat(b->place, &right) == 0 &&
	       left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

static int check_twice(const struct verify *verify, struct error *error)
{
	for (size_t i = 1; i < verify->input_count; i++)
		for (size_t k = 0; k < i; k++)
			if (is_same(&verify->inputs[i], &verify->inputs[k]))
				return error_set(
					error, -EINVAL, "%s: given twice", verify->inputs[i].name);
	return 0;
}

int verify_tell(struct verify *verify, struct error *error)
{
	int r = tell_all(&verify->what, false, &verify->inputs, &verify->input_count, error);

	if (r == 0)
		r = check_twice(verify, error);
	if (r == 0)
		r = tell_all(&verify->with, true, &verify->withs, &verify->with_count, error);
	if (r == 0 && !verify->running)
		r = verify_kernel_tell(&verify->kernels, &verify->kernel_kind, error);
	return r;
}

static bool unpacks_any(const struct verify *verify)
{
	for (size_t i = 0; i < verify->input_count; i++)
		if (verify_input_unpacks(&verify->inputs[i]))
			return true;
	for (size_t i = 0; i < verify->with_count; i++)
		if (verify->withs[i].name && verify_input_unpacks(&verify->withs[i]))
			return true;
	return false;
}

bool verify_needs_cache(const struct verify *verify)
{
	return unpacks_any(verify) ||
	       (!verify->running && verify->kernel_kind != VERIFY_KERNEL_FOLDER);
}

static int read_folder(struct verify *verify, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	int r = verify_place_find(verify->kernels.items[0], NULL, &place, error);

	verify->failure = r == -EINVAL || r == -EBADMSG ? EXIT_CODE_KERNEL : EXIT_CODE_USAGE;
	if (r < 0)
		return r;
	verify->failure = EXIT_CODE_CONTENT; /* a damaged Module.symvers or configuration */
	return verify_kernel_read(&verify->kernel, &place, error);
}

/* A kernel that was built without modules has a /proc, and no list of them in it. */
static bool takes_no_modules(int root_fd)
{
	return root_fd >= 0 && fs_exists(root_fd, "proc/version") &&
	       !fs_exists(root_fd, "proc/modules");
}

static int take_bare_kernel(struct verify_kernel *kernel, struct error *error)
{
	struct utsname name;

	if (uname(&name) < 0)
		return error_set_errno(error, -errno, "uname");
	kernel->facts.modules = PROOF_NO;
	kernel->facts.running = true;
	kernel->krel = strdup(name.release);
	return kernel->krel ? 0 : error_set_errno(error, -ENOMEM, "the running kernel");
}

/* The kernel that runs here. */
static int read_running(struct verify *verify, struct error *error)
{
	_cleanup_close_ int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct running_sources sources = { .kallsyms = true,
		.read_keyring = running_read_keyring };
	int r;

	verify->failure = EXIT_CODE_KERNEL;
	if (takes_no_modules(root_fd))
		return take_bare_kernel(&verify->kernel, error);
	r = root_fd < 0 ? error_set_errno(error, -errno, "/")
			: running_open(root_fd, &sources, &verify->now, error);
	if (r < 0)
		return r;
	r = verify_kernel_take_running(&verify->kernel, verify->now);
	return r < 0 ? error_set_errno(error, r, "the running kernel") : 0;
}

static int read_kernel(struct verify *verify, struct error *error)
{
	int r;

	if (verify->running)
		return read_running(verify, error);
	if (verify->kernel_kind == VERIFY_KERNEL_FOLDER)
		return read_folder(verify, error);
	verify->found.context = &verify->context;
	r = verify_kernel_fetch(&verify->kernel, &verify->found, &verify->kernels, error);
	verify->failure = verify->context.failure ? verify->context.failure : EXIT_CODE_CONTENT;
	return r;
}

static int open_input(struct verify *verify, struct verify_input *input, struct error *error)
{
	const char *krel =
		verify->kernel.facts.krel ? verify->kernel.facts.krel : verify->kernel.krel;
	int r;

	verify->failure = EXIT_CODE_USAGE;
	input->listed = &verify->kernel.own;
	r = verify_input_open(input, &verify->context, error);
	if (r == -EIO)
		verify->failure = EXIT_CODE_IMAGE;
	if (r == 0 && krel)
		r = verify_input_choose(input, krel);
	return r == -ENOMEM ? error_set_errno(error, r, "%s", input->name) : r;
}

static int no_module(const struct verify_input *input, struct error *error)
{
	return error_set(error, -EINVAL,
		"%s: no module is in it: .ko, .ko.gz, .ko.xz and .ko.zst were looked for in all %s",
		input->name,
		input->kind == VERIFY_FOLDER ? "its folders" : "its layers and folders");
}

/* As the node chooses among several of an image. */
static int choose_variants(struct verify *verify, struct error *error)
{
	const char *krel =
		verify->kernel.facts.krel ? verify->kernel.facts.krel : verify->kernel.krel;
	int r = 0;

	for (size_t i = 0; krel && i < verify->input_count && r == 0; i++) {
		struct verify_input *input = &verify->inputs[i];

		r = verify_variants_choose(input, krel, verify->withs, verify->with_count);
		if (r == 0)
			r = verify_variants_choose(
				input, krel, verify->inputs, verify->input_count);
	}
	return r < 0 ? error_set_errno(error, r, "verify") : 0;
}

static int open_inputs(struct verify *verify, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < verify->input_count && r == 0; i++) {
		r = open_input(verify, &verify->inputs[i], error);
		if (r == 0 && verify->inputs[i].modules.count == 0)
			r = no_module(&verify->inputs[i], error);
	}
	for (size_t i = 0; i < verify->with_count && r == 0; i++) {
		if (!verify->withs[i].name)
			continue;
		r = open_input(verify, &verify->withs[i], error);
		if (r == 0 && verify->withs[i].modules.count + verify->withs[i].symvers.count == 0)
			r = error_set(error, -EINVAL,
				"%s: neither a Module.symvers nor a module is in it",
				verify->withs[i].name);
		if (r < 0)
			r = error_prefix(error, r, "--with");
	}
	return r < 0 ? r : choose_variants(verify, error);
}

/* Folders are read in no time; who waits for an image is told what for. */
static int open_all(struct verify *verify, struct error *error)
{
	struct progress *progress = &verify->context.progress;
	int r;

	if (!unpacks_any(verify))
		return open_inputs(verify, error);
	progress_begin(progress, "unpack");
	r = open_inputs(verify, error);
	progress_end(progress, r < 0 ? "failed" : "done");
	return r;
}

static int add_one_with(struct verify *verify, size_t i, struct error *error)
{
	const struct verify_input *input = &verify->withs[i];

	verify->failure = EXIT_CODE_CONTENT;
	return input->name
		       ? verify_kernel_add_with(&verify->kernel, input, error)
		       : verify_kernel_add_with_file(&verify->kernel, verify->with.items[i], error);
}

static int add_withs(struct verify *verify, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < verify->with_count && r == 0; i++)
		r = add_one_with(verify, i, error);
	if (r == 0 && verify->with_count && verify_kernel_name_exporters(&verify->kernel) < 0)
		r = error_set_errno(error, -ENOMEM, "--with");
	return r;
}

/*
 * Certificates that are given count whether signatures are demanded or not: a kernel that has the
 * key refuses a wrong signature in any case.
 */
static int set_trust(struct verify *verify, struct error *error)
{
	struct verify_kernel *kernel = &verify->kernel;
	struct proof_trust *trust = &kernel->facts.trust;
	int r;

	if (verify->enforce) {
		trust->enforced = true;
		trust->lockdown = false;
		trust->enforced_by = "--enforce-signatures";
	} else if (kernel->enforced_by) {
		trust->enforced = true;
		trust->enforced_by = kernel->enforced_by;
	}
	if (verify->enforce && kernel->facts.module_sig == PROOF_NO &&
		strv_push(&kernel->notes,
			"this kernel checks no signatures (CONFIG_MODULE_SIG is not set), and "
			"--enforce-signatures changes nothing") < 0)
		return error_set_errno(error, -ENOMEM, "verify");
	if (kernel->keys.count)
		trust->keys = &kernel->keys;
	if (!trust->enforced && !verify->trust_files.count)
		return 0;
	verify->failure = EXIT_CODE_USAGE;
	r = verify_trust_open(&verify->trust_files, kernel, verify->inputs, verify->input_count,
		&verify->trust, error);
	trust->verify = verify_trust_judge;
	trust->context = &verify->trust;
	return r;
}

/* Without certificates a copy of one of the kernel's own is signed well all the same. */
static int trust_own(struct verify *verify, struct error *error)
{
	struct proof_trust *trust = &verify->kernel.facts.trust;
	const struct strv none = { 0 };
	int r;

	if (trust->verify || verify->kernel.modules_fd < 0)
		return 0;
	r = verify_trust_open(
		&none, &verify->kernel, verify->inputs, verify->input_count, &verify->trust, error);
	trust->verify = verify_trust_judge;
	trust->context = &verify->trust;
	return r;
}

static int read_options(struct verify *verify, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < verify->input_count && r == 0; i++)
		if (verify->inputs[i].root)
			r = modprobe_conf_read(verify->inputs[i].fd, &verify->options, error);
	return r;
}

static int prove(struct verify *verify, struct error *error)
{
	struct verify_firmware firmware = {
		.inputs = verify->inputs,
		.count = verify->input_count,
		.krel = verify->kernel.facts.krel,
	};
	struct proof_set *set = &verify->set;
	int r = verify_members_open(verify->inputs, verify->input_count, &verify->kernel.facts,
		verify->jobs, &verify->members, error);

	if (r < 0)
		return r;
	/* Reading all of each file costs as much as all else: worth it for what was built. */
	verify->kernel.facts.relocations = verify->members.count <= WHOLE_MODULES_MAX;
	if (verify->kernel.facts.relocations)
		r = trust_own(verify, error);
	if (r < 0)
		return r;
	set->kernel = &verify->kernel.facts;
	set->members = verify->members.items;
	set->member_count = verify->members.count;
	set->options = verify->options.count ? &verify->options : NULL;
	set->jobs = verify->jobs;
	if (verify->now)
		set->kernel_modules = running_modules(verify->now);
	else if (verify->kernel.has_modules)
		set->kernel_modules = &verify->kernel.modules;
	if (verify_firmware_judged(&firmware)) {
		set->firmware_there = verify_firmware_there;
		set->firmware_context = &firmware;
	}
	r = proof_set_run(set, error);
	set->firmware_context = NULL;
	return r;
}

static int code_of(enum proof_verdict verdict)
{
	switch (verdict) {
	case PROOF_WILL_NOT_LOAD:
		return EXIT_CODE_WILL_NOT_LOAD;
	case PROOF_CANNOT_TELL:
		return EXIT_CODE_CANNOT_TELL;
	default:
		return EXIT_CODE_OK;
	}
}

static int report(struct verify *verify, int code, struct error *error)
{
	const struct verify_report report = {
		.kernel = &verify->kernel,
		.inputs = verify->inputs,
		.input_count = verify->input_count,
		.members = &verify->members,
		.set = &verify->set,
		.exit_code = code,
		.order = verify->order,
		.all = verify->all,
	};
	int r = verify->common.json ? verify_print_json(&report, stdout)
				    : verify_print(&report, stdout);

	return r < 0 ? error_set_errno(error, r, "report") : 0;
}

int verify_run(struct verify *verify, int *ret_code, struct error *error)
{
	int r = read_kernel(verify, error);

	if (r == 0)
		r = open_all(verify, error);
	if (r == 0)
		r = add_withs(verify, error);
	if (r == 0 && !verify->now)
		verify_kernel_finish(&verify->kernel);
	if (r == 0)
		r = set_trust(verify, error);
	verify->failure = r < 0 ? verify->failure : EXIT_CODE_INTERNAL;
	if (r == 0)
		r = read_options(verify, error);
	if (r == 0)
		r = prove(verify, error);
	if (r < 0)
		return r;
	*ret_code = code_of(verify->set.verdict);
	return report(verify, *ret_code, error);
}

static void close_inputs(struct verify_input *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		verify_input_close(&inputs[i]);
	free(inputs);
}

void verify_close(struct verify *verify)
{
	proof_set_free(&verify->set);
	verify_members_free(&verify->members);
	verify_trust_free(&verify->trust);
	verify_kernel_free(&verify->kernel);
	running_close(&verify->now);
	close_inputs(verify->inputs, verify->input_count);
	close_inputs(verify->withs, verify->with_count);
	strv_free(&verify->options);
	strv_free(&verify->kernels);
	strv_free(&verify->what);
	strv_free(&verify->with);
	strv_free(&verify->trust_files);
}
