/* SPDX-License-Identifier: Apache-2.0 */
/* --with: what is loaded before, and not part of the kernel. */
#include <string.h>

#include "cli/verify/kernel.h"

static int add_module(struct verify_kernel *kernel, const struct verify_input *input,
	const char *path, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	int r = elf_module_open(input->fd, path, &module, error);

	if (r == 0 && !kernel->symvers)
		r = symvers_new(&kernel->symvers);
	if (r == 0)
		r = symvers_add_module(kernel->symvers, module);
	return r == -ENOMEM ? error_set_errno(error, r, "%s", path) : r;
}

int verify_kernel_add_with(
	struct verify_kernel *kernel, const struct verify_input *input, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < input->symvers.count && r == 0; i++) {
		_cleanup_free_ char *name = NULL;

		if (asprintf(&name, "%s/%s", input->name, input->symvers.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "--with %s", input->name);
		r = verify_kernel_add_symvers(
			kernel, input->fd, input->symvers.items[i], name, error);
	}
	/* A module knows better than a list what it exports: the list may be of another build. */
	for (size_t i = 0; i < input->modules.count && r == 0; i++)
		r = add_module(kernel, input, input->modules.items[i], error);
	if (r == 0 && input->modules.count)
		r = strv_push(&kernel->symvers_sources, input->name);
	if (r < 0)
		return error_prefix(error, r, "--with %s", input->name);
	if (input->symvers.count + input->modules.count == 0)
		return error_set(error, -EINVAL,
			"--with %s: neither a Module.symvers nor a module is in it", input->name);
	return 0;
}
