/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain/explain_open.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verify/input.h"

/* A Module.symvers by whatever name: its lines begin with a CRC. Packed ones tell by their name. */
static bool is_list(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *slash = strrchr(path, '/');
	struct stat status;
	char start[2];

	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	return strstr(slash ? slash : path, "symvers") ||
	       (pread(fd, start, 2, 0) == 2 && memcmp(start, "0x", 2) == 0);
}

/* A Module.symvers alone tells who exports what, which is all that many a line asks for. */
static bool is_list_alone(const struct strv *kernels)
{
	return kernels->count == 1 && is_list(kernels->items[0]);
}

bool explain_needs_cache(const struct explain_sources *sources)
{
	enum verify_kernel_kind kind = VERIFY_KERNEL_FOLDER;
	struct error ignored = { 0 };
	bool needs = false;

	if (sources->kernels.count && !is_list_alone(&sources->kernels))
		needs = verify_kernel_tell(&sources->kernels, &kind, &ignored) == 0 &&
			kind != VERIFY_KERNEL_FOLDER;
	for (size_t i = 0; i < sources->with.count && !needs; i++) {
		_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;

		if (!is_list(sources->with.items[i]))
			needs = verify_input_tell(sources->with.items[i], &input, &ignored) == 0 &&
				verify_input_unpacks(&input);
	}
	return needs;
}

static int read_folder(struct explain_opened *opened, const char *path, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	_cleanup_free_ char *krel = NULL;
	const char *vermagic = opened->module ? elf_module_info(opened->module, "vermagic") : NULL;
	int r;

	/* Of several kernels in one tree that of the module, if it is there. */
	krel = vermagic ? strndup(vermagic, strcspn(vermagic, " ")) : NULL;
	r = verify_place_find(path, krel, &place, error);
	return r < 0 ? r : verify_kernel_read(&opened->kernel, &place, error);
}

static int read_kernel(
	struct explain_opened *opened, const struct explain_sources *sources, struct error *error)
{
	const struct strv *kernels = &sources->kernels;
	enum verify_kernel_kind kind;
	int r;

	if (kernels->count == 0)
		return 0;
	if (is_list_alone(kernels)) {
		r = verify_kernel_add_symvers(
			&opened->kernel, AT_FDCWD, kernels->items[0], kernels->items[0], error);
		return r < 0 ? error_prefix(error, r, "--kernel") : 0;
	}
	r = verify_kernel_tell(kernels, &kind, error);
	if (r == 0 && kind == VERIFY_KERNEL_FOLDER)
		r = read_folder(opened, kernels->items[0], error);
	else if (r == 0)
		r = verify_kernel_fetch(&opened->kernel, sources->found, kernels, error);
	return r;
}

/* Who waits for an image is told what for. */
static int open_input(
	struct verify_input *input, const struct explain_sources *sources, struct error *error)
{
	struct context *context = sources->found->context;
	int r;

	if (!verify_input_unpacks(input))
		return verify_input_open(input, context, error);
	progress_begin(&context->progress, "unpack");
	r = verify_input_open(input, context, error);
	progress_end(&context->progress, r < 0 ? "failed" : "done");
	return r;
}

static int add_input(struct explain_opened *opened, const struct explain_sources *sources,
	const char *what, struct error *error)
{
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;
	const char *krel = opened->kernel.krel;
	int r = verify_input_tell(what, &input, error);

	if (r == 0)
		r = open_input(&input, sources, error);
	if (r == 0 && krel && verify_input_choose(&input, krel) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", what);
	if (r == 0 && input.modules.count + input.symvers.count == 0)
		r = error_set(
			error, -EINVAL, "%s: neither a Module.symvers nor a module is in it", what);
	if (r < 0)
		return error_prefix(error, r, "--with");
	r = verify_kernel_add_with(&opened->kernel, &input, error);
	return r < 0 ? r : verify_kernel_add_with(&opened->with, &input, error);
}

static int add_withs(
	struct explain_opened *opened, const struct explain_sources *sources, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < sources->with.count && r == 0; i++) {
		const char *path = sources->with.items[i];

		if (!is_list(path)) {
			r = add_input(opened, sources, path, error);
			continue;
		}
		r = verify_kernel_add_with_file(&opened->kernel, path, error);
		if (r == 0)
			r = verify_kernel_add_with_file(&opened->with, path, error);
	}
	return r;
}

/* A file that is no module explains why it was refused; one that cannot be read explains nothing.
 */
static int open_module(struct explain_opened *opened, const char *path, struct error *error)
{
	struct error why = { 0 };
	int r = elf_module_open(AT_FDCWD, path, &opened->module, &why);

	switch (r) {
	case 0:
		return 0;
	case -ENOEXEC:
	case -EINVAL:
	case -EBADMSG:
	case -ENODATA:
	case -EFBIG:
		opened->unreadable = strdup(why.text);
		return opened->unreadable ? 0 : error_set_errno(error, -ENOMEM, "%s", path);
	default:
		*error = why;
		return r;
	}
}

int explain_open(
	struct explain_opened *opened, const struct explain_sources *sources, struct error *error)
{
	struct explain_witness *witness = &opened->witness;
	int r = sources->module_path ? open_module(opened, sources->module_path, error) : 0;

	if (r == 0)
		r = read_kernel(opened, sources, error);
	if (r == 0)
		r = add_withs(opened, sources, error);
	if (r == 0)
		r = explain_read_signature(opened, sources, error);
	if (r < 0)
		return r;
	verify_kernel_finish(&opened->kernel);
	witness->module_path = sources->module_path;
	witness->module = opened->module;
	witness->unreadable = opened->unreadable;
	witness->signature = opened->signature;
	witness->judged = opened->judged;
	witness->kernel = sources->kernels.count ? sources->kernels.items[0] : NULL;
	witness->symvers = opened->kernel.symvers;
	witness->with = opened->with.symvers;
	return 0;
}

/* An answer that a wrong signature gets of any kernel, whether or not it insists on one. */
static bool may_be_wrong_only(
	const struct explain_finding *finding, const struct explain_witness *witness)
{
	return finding->entry->rank == EXPLAIN_RESULT &&
	       witness->signed_state != EXPLAIN_SIGNED_UNKNOWN &&
	       witness->signed_state != EXPLAIN_UNSIGNED;
}

/* Does a message show that the kernel insists on signatures? */
static bool is_enforced(const struct explanation *explanation)
{
	for (size_t i = 0; i < explanation->count; i++) {
		const struct explain_finding *finding = &explanation->items[i];

		/* One of them only warns. */
		if (finding->input == EXPLAIN_SIGNATURE &&
			strcmp(finding->entry->id, "signature-taint") != 0 &&
			!may_be_wrong_only(finding, explanation->witness))
			return true;
	}
	return false;
}

int explain_prove(
	struct explain_opened *opened, const struct explanation *explanation, struct error *error)
{
	struct proof_trust *trust = &opened->kernel.facts.trust;

	if (!opened->module || !opened->witness.kernel)
		return 0;
	if (opened->trust.count) {
		trust->verify = verify_trust_judge;
		trust->context = &opened->trust;
	}
	if (is_enforced(explanation)) {
		opened->kernel.facts.module_sig = PROOF_YES;
		trust->enforced = true;
		trust->enforced_by = "the kernel's message";
	}
	if (proof_module(opened->module, &opened->kernel.facts, &opened->proof) < 0)
		return error_set_errno(error, -ENOMEM, "explain");
	opened->witness.proof = &opened->proof;
	return 0;
}

void explain_close(struct explain_opened *opened)
{
	proof_free(&opened->proof);
	elf_module_close(&opened->module);
	verify_trust_free(&opened->trust);
	verify_kernel_free(&opened->kernel);
	verify_kernel_free(&opened->with);
	free(opened->unreadable);
	free(opened->signature);
	free(opened->judged);
}
