/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain/explain_open.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verify/input.h"
#include "module/cms.h"
#include "module/trailer.h"

/* One sentence; a damaged signature is one too. */
static int describe_signature(struct explain_opened *opened, const char *path, struct error *error)
{
	_cleanup_free_ char *data = NULL;
	struct module_trailer trailer = { 0 };
	struct cms_facts facts = { 0 };
	struct error why = { 0 };
	size_t size = 0;
	int written;
	int r = elf_module_bytes(opened->module, &data, &size, error);

	if (r < 0)
		return r;
	r = module_trailer_read(data, size, &trailer, &why);
	if (r == 0 && trailer.present && trailer.type == MODULE_TRAILER_CMS)
		r = cms_read(data + trailer.signature_offset, trailer.signature_size,
			trailer.signature_offset, &facts, &why);
	if (r < 0)
		written = asprintf(&opened->signature, "%s: %s", path, why.text);
	else if (!trailer.present)
		written = asprintf(&opened->signature, "%s is not signed", path);
	else
		written = asprintf(&opened->signature, "%s is signed with %s by %s%s%s, %s with %s",
			path, module_trailer_type_text(trailer.type),
			*facts.issuer ? facts.issuer : "an unnamed key",
			*facts.serial ? ", serial " : ", key id ",
			*facts.serial ? facts.serial : facts.key_id, facts.algorithm, facts.hash);
	return written < 0 ? error_set_errno(error, -ENOMEM, "explain") : 0;
}

static bool is_list(const char *path)
{
	size_t length = strlen(path);
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && !verify_is_module(path) &&
	       (length < 5 || strcmp(path + length - 5, ".json") != 0);
}

static int read_kernel(struct explain_opened *opened, const char *path, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	_cleanup_free_ char *krel = NULL;
	const char *vermagic = opened->module ? elf_module_info(opened->module, "vermagic") : NULL;
	int r;

	if (is_list(path)) {
		r = verify_kernel_add_symvers(&opened->kernel, AT_FDCWD, path, path, error);
		return r < 0 ? error_prefix(error, r, "--kernel") : 0;
	}
	if (access(path, F_OK) < 0 && !strchr(path, '/'))
		return error_set(error, -EINVAL,
			"--kernel %s: no such folder, and explain fetches none: name a kernel's tree or "
			"Module.symvers",
			path);
	/* Of several kernels in one tree that of the module, if it is there. */
	krel = vermagic ? strndup(vermagic, strcspn(vermagic, " ")) : NULL;
	r = verify_place_find(path, krel, &place, error);
	return r < 0 ? r : verify_kernel_read(&opened->kernel, &place, error);
}

static int add_with(struct verify_kernel *kernel, const char *path, struct error *error)
{
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;
	int r;

	if (is_list(path)) {
		r = verify_kernel_add_symvers(kernel, AT_FDCWD, path, path, error);
		return r < 0 ? error_prefix(error, r, "--with") : 0;
	}
	r = verify_input_tell(path, &input, error);
	if (r == 0 && verify_input_unpacks(&input))
		r = error_set(error, -EINVAL,
			"%s: explain unpacks no images: give a Module.symvers, a module or a folder",
			path);
	if (r == 0)
		r = verify_input_open(&input, NULL, error);
	return r < 0 ? error_prefix(error, r, "--with")
		     : verify_kernel_add_with(kernel, &input, error);
}

int explain_open(
	struct explain_opened *opened, const struct explain_sources *sources, struct error *error)
{
	struct explain_witness *witness = &opened->witness;
	int r = 0;

	if (sources->module_path) {
		r = elf_module_open(AT_FDCWD, sources->module_path, &opened->module, error);
		if (r == 0)
			r = describe_signature(opened, sources->module_path, error);
	}
	if (r == 0 && sources->kernel)
		r = read_kernel(opened, sources->kernel, error);
	for (size_t i = 0; i < sources->with.count && r == 0; i++) {
		r = add_with(&opened->kernel, sources->with.items[i], error);
		if (r == 0)
			r = add_with(&opened->with, sources->with.items[i], error);
	}
	if (r < 0)
		return r;
	verify_kernel_finish(&opened->kernel);
	*witness = (struct explain_witness){
		.module_path = sources->module_path,
		.module = opened->module,
		.signature = opened->signature,
		.kernel = sources->kernel,
		.symvers = opened->kernel.symvers,
		.with = opened->with.symvers,
	};
	return 0;
}

static bool has_signature_message(const struct explanation *explanation)
{
	for (size_t i = 0; i < explanation->count; i++) {
		const struct explain_finding *finding = &explanation->items[i];

		/* One of them only warns. */
		if (finding->input == EXPLAIN_SIGNATURE &&
			strcmp(finding->entry->id, "signature-taint") != 0)
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
	if (has_signature_message(explanation)) {
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
	verify_kernel_free(&opened->kernel);
	verify_kernel_free(&opened->with);
	free(opened->signature);
}
