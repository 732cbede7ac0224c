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
	return r < 0 ? error_prefix(error, r, "--with %s", input->name) : 0;
}

int verify_kernel_name_exporters(struct verify_kernel *kernel)
{
	size_t count = kernel->symvers ? symvers_count(kernel->symvers) : 0;
	char last[256] = "vmlinux";

	for (size_t i = 0; i < count && kernel->has_modules; i++) {
		char name[sizeof(last)];

		symvers_module_name(symvers_at(kernel->symvers, i), name, sizeof(name));
		if (strcmp(name, last) == 0)
			continue;
		memcpy(last, name, sizeof(last));
		if (strcmp(name, "vmlinux") != 0 && strv_push(&kernel->modules, name) < 0)
			return -ENOMEM;
	}
	return 0;
}
