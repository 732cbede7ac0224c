/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/trust.h"

#include <fcntl.h>
#include <string.h>

#include "kernels/tree/depends.h"

void verify_trust_free(struct verify_trust *trust)
{
	for (size_t i = 0; i < trust->count; i++)
		module_cert_free(&trust->certs[i]);
	free(trust->certs);
	strv_free(&trust->paths);
	*trust = (struct verify_trust){ .modules_fd = -1 };
}

static int list_own(struct verify_trust *trust, struct error *error)
{
	int r = trust->modules_fd < 0
			? 0
			: depends_list_modules(trust->modules_fd, "kernel", &trust->paths);

	return r < 0 && r != -ENOENT ? error_set_errno(error, r, "the kernel's own modules") : 0;
}

int verify_trust_open(const struct strv *files, const struct verify_kernel *kernel,
	struct verify_trust *ret, struct error *error)
{
	_cleanup_(verify_trust_free) struct verify_trust trust = {
		.modules_fd = kernel->modules_fd,
	};
	int r = 0;

	trust.certs = calloc(files->count + 1, sizeof(struct module_cert *));
	if (!trust.certs)
		return error_set_errno(error, -ENOMEM, "--trust");
	for (size_t i = 0; i < files->count && r == 0; i++) {
		r = module_cert_read(AT_FDCWD, files->items[i], &trust.certs[i], error);
		trust.count += r == 0;
	}
	if (r < 0)
		return error_prefix(error, r, "--trust");
	r = list_own(&trust, error);
	if (r < 0)
		return r;
	*ret = trust;
	trust = (struct verify_trust){ .modules_fd = -1 };
	return 0;
}

static bool same_bytes(
	const struct verify_trust *trust, const char *path, const void *module, size_t size)
{
	_cleanup_(elf_module_close) struct elf_module *own = NULL;
	_cleanup_free_ char *data = NULL;
	struct error ignored = { 0 };
	size_t own_size;

	return elf_module_open(trust->modules_fd, path, &own, &ignored) == 0 &&
	       elf_module_bytes(own, &data, &own_size, &ignored) == 0 && own_size == size &&
	       memcmp(data, module, size) == 0;
}

/* Is it the kernel's own module of that name, to the last byte? Two may share a name. */
static bool is_own(const struct verify_trust *trust, const void *module, size_t size)
{
	_cleanup_(elf_module_close) struct elf_module *opened = NULL;
	struct error ignored = { 0 };
	const char *wanted;

	if (elf_module_open_memory(module, size, "module", &opened, &ignored) < 0)
		return false;
	wanted = elf_module_name(opened);
	for (size_t i = 0; wanted && i < trust->paths.count; i++) {
		char name[256];

		if (depends_module_name(trust->paths.items[i], name, sizeof(name)) &&
			strcmp(name, wanted) == 0 &&
			same_bytes(trust, trust->paths.items[i], module, size))
			return true;
	}
	return false;
}

int verify_trust_judge(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct verify_trust *trust = context;
	struct cms_facts facts = { 0 };
	int r = module_signature_verify(module, size, trust->certs, trust->count, &facts, error);

	if (r == -ENOKEY && is_own(trust, module, size))
		r = 0;
	else if (r == -ENOKEY && trust->count == 0)
		r = error_set(error, -EAGAIN, "no certificate was given to check it with");
	if (ret)
		*ret = facts;
	return r;
}
