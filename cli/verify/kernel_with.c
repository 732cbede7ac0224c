/* SPDX-License-Identifier: Apache-2.0 */
/* --with: what is loaded before, and not part of the kernel. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/verify/kernel.h"

#define VMLINUX   "vmlinux"
#define NAME_SIZE 256

bool verify_is_symvers(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *slash = strrchr(path, '/');
	struct stat status;
	char start[2];

	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	return strstr(slash ? slash : path, "symvers") ||
	       (pread(fd, start, 2, 0) == 2 && memcmp(start, "0x", 2) == 0);
}

/* Appends the modules that export anything, without vmlinux; twice where they are not together. */
static int list_exporters(const struct symvers *symvers, struct strv *names)
{
	char last[NAME_SIZE] = VMLINUX;

	for (size_t i = 0; i < symvers_count(symvers); i++) {
		char name[NAME_SIZE];

		symvers_module_name(symvers_at(symvers, i), name, sizeof(name));
		if (strcmp(name, last) == 0)
			continue;
		memcpy(last, name, sizeof(last));
		if (strcmp(name, VMLINUX) != 0 && strv_push(names, name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int compare(const void *left, const void *right)
{
	return strcmp(*(char *const *) left, *(char *const *) right);
}

static bool is_replaced(const struct symvers_entry *entry, const struct strv *names)
{
	char name[NAME_SIZE];
	const char *key = name;

	symvers_module_name(entry, name, sizeof(name));
	return names->count &&
	       bsearch(&key, names->items, names->count, sizeof(*names->items), compare);
}

/*
 * A module of --with takes the place of the kernel's of that name, with all that it exports: what
 * only the kernel's one had is not there any more. Takes @with.
 */
static int merge(struct verify_kernel *kernel, struct symvers **with)
{
	_cleanup_(symvers_close) struct symvers *merged = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	if (!kernel->symvers) {
		kernel->symvers = TAKE_PTR(*with);
		return 0;
	}
	r = list_exporters(*with, &names);
	strv_sort(&names);
	if (r == 0)
		r = symvers_new(&merged);
	for (size_t i = 0; i < symvers_count(kernel->symvers) && r == 0; i++)
		if (!is_replaced(symvers_at(kernel->symvers, i), &names))
			r = symvers_put(merged, symvers_at(kernel->symvers, i));
	for (size_t i = 0; i < symvers_count(*with) && r == 0; i++)
		r = symvers_put(merged, symvers_at(*with, i));
	if (r < 0)
		return r;
	symvers_close(&kernel->symvers);
	kernel->symvers = TAKE_PTR(merged);
	return 0;
}

static int read_symvers(struct symvers **with, int dir_fd, const char *path, struct error *error)
{
	return *with ? symvers_add(*with, dir_fd, path, error)
		     : symvers_open(dir_fd, path, with, error);
}

static int add_module(struct symvers **with, const struct verify_input *input, const char *path,
	struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	int r = elf_module_open(input->fd, path, &module, error);

	if (r == 0 && !*with)
		r = symvers_new(with);
	if (r == 0)
		r = symvers_add_module(*with, module);
	return r == -ENOMEM ? error_set_errno(error, r, "%s", path) : r;
}

static int read_input(struct verify_kernel *kernel, const struct verify_input *input,
	struct symvers **with, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < input->symvers.count && r == 0; i++) {
		r = read_symvers(with, input->fd, input->symvers.items[i], error);
		if (r == 0 && strv_pushf(&kernel->symvers_sources, "%s/%s", input->name,
				      input->symvers.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "symvers");
	}
	/* A module knows better than a list what it exports: the list may be of another build. */
	for (size_t i = 0; i < input->modules.count && r == 0; i++)
		r = add_module(with, input, input->modules.items[i], error);
	if (r == 0 && input->modules.count && strv_push(&kernel->symvers_sources, input->name) < 0)
		r = error_set_errno(error, -ENOMEM, "symvers");
	return r;
}

int verify_kernel_add_with(
	struct verify_kernel *kernel, const struct verify_input *input, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *with = NULL;
	int r = read_input(kernel, input, &with, error);

	if (r == 0 && with && merge(kernel, &with) < 0)
		r = error_set_errno(error, -ENOMEM, "symvers");
	return r < 0 ? error_prefix(error, r, "--with %s", input->name) : 0;
}

int verify_kernel_add_with_file(struct verify_kernel *kernel, const char *path, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *with = NULL;
	int r = read_symvers(&with, AT_FDCWD, path, error);

	if (r == 0 && (strv_push(&kernel->symvers_sources, path) < 0 || merge(kernel, &with) < 0))
		r = error_set_errno(error, -ENOMEM, "symvers");
	return r < 0 ? error_prefix(error, r, "--with") : 0;
}

int verify_kernel_name_exporters(struct verify_kernel *kernel)
{
	return kernel->symvers && kernel->has_modules
		       ? list_exporters(kernel->symvers, &kernel->modules)
		       : 0;
}
