/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/xalloc.h"
#include "kernels/tree/depends.h"

#define SAMPLE 101 /* modules that are asked for their signer: of packed ones each is unpacked */

void verify_trust_free(struct verify_trust *trust)
{
	for (size_t i = 0; i < trust->count; i++)
		module_cert_free(&trust->certs[i]);
	free(trust->certs);
	for (size_t i = 0; i < trust->own_count; i++)
		free((void *) (uintptr_t) trust->own[i].name);
	free(trust->own);
	free(trust->judged);
	*trust = (struct verify_trust){ 0 };
}

static int compare_own(const void *a, const void *b)
{
	return strcmp(((const struct verify_own *) a)->name, ((const struct verify_own *) b)->name);
}

/* A table: a whole tree may be asked for all its names. */
static void list_own(struct verify_trust *trust, const struct strv *paths)
{
	trust->own = xcalloc(paths->count, sizeof(*trust->own));
	for (size_t i = 0; i < paths->count; i++) {
		const char *path = paths->items[i];
		char name[256];

		if (strncmp(path, "kernel/", 7) == 0 &&
			module_name_of_file(path, name, sizeof(name)))
			trust->own[trust->own_count++] =
				(struct verify_own){ .name = xstrdup(name), .path = path };
	}
	qsort(trust->own, trust->own_count, sizeof(*trust->own), compare_own);
}

/* A serial number counts among one issuer's, so both are named. "": it is not signed. */
static void name_signer(const struct cms_facts *facts, char signer[VERIFY_SIGNER_SIZE])
{
	*signer = '\0';
	if (facts->signers)
		(void) snprintf(signer, VERIFY_SIGNER_SIZE, "%s\n%s\n%s", facts->issuer,
			facts->serial, facts->key_id);
}

/* Of so many of them, taken evenly: more than half have to agree. */
static void find_signer(struct verify_trust *trust)
{
	size_t asked = trust->own_count < SAMPLE ? trust->own_count : SAMPLE;
	char signers[SAMPLE][VERIFY_SIGNER_SIZE];

	for (size_t i = 0; i < asked; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		const char *path = trust->own[i * trust->own_count / asked].path;
		struct cms_facts facts = { 0 };
		struct error ignored = { 0 };
		bool present;

		if (elf_module_open(trust->own_fd, path, &module, &ignored) < 0 ||
			elf_module_trailer(module, &facts, &present, &ignored) < 0)
			facts.signers = 0;
		name_signer(&facts, signers[i]);
	}
	for (size_t i = 0; i < asked; i++) {
		size_t same = 0;

		for (size_t k = 0; k < asked; k++)
			same += strcmp(signers[i], signers[k]) == 0;
		if (2 * same <= asked)
			continue;
		memcpy(trust->signer, signers[i], sizeof(trust->signer));
		return;
	}
}

/* The first of the kernel's own modules of that name, or NULL; another may follow it. */
static struct verify_own *first_own(const struct verify_trust *trust, const char *name)
{
	const struct verify_own wanted = { .name = name };
	struct verify_own *own = NULL;

	if (name && trust->own_count)
		own = bsearch(&wanted, trust->own, trust->own_count, sizeof(*own), compare_own);
	while (own && own > trust->own && compare_own(own - 1, &wanted) == 0)
		own--;
	return own;
}

static struct verify_own *next_own(const struct verify_trust *trust, struct verify_own *own)
{
	struct verify_own *next = own + 1;

	return next < trust->own + trust->own_count && compare_own(own, next) == 0 ? next : NULL;
}

static int compare_files(const void *a, const void *b)
{
	const struct verify_file *left = a;
	const struct verify_file *right = b;

	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	return (left->inode > right->inode) - (left->inode < right->inode);
}

static bool identify(int dir_fd, const char *path, struct verify_file *ret)
{
	struct stat status;

	if (fstatat(dir_fd, path, &status, 0) < 0)
		return false;
	*ret = (struct verify_file){ status.st_dev, status.st_ino };
	return true;
}

static void list_judged(
	struct verify_trust *trust, const struct verify_input *inputs, size_t input_count)
{
	size_t count = 0;

	for (size_t i = 0; i < input_count; i++)
		count += inputs[i].modules.count;
	trust->judged = xcalloc(count, sizeof(*trust->judged));
	for (size_t i = 0; i < input_count; i++)
		for (size_t k = 0; k < inputs[i].modules.count; k++)
			trust->judged_count += identify(inputs[i].fd, inputs[i].modules.items[k],
				&trust->judged[trust->judged_count]);
	qsort(trust->judged, trust->judged_count, sizeof(*trust->judged), compare_files);
}

/* By its inode: as an input it may have another name. */
static bool is_judged(const struct verify_trust *trust, const struct verify_own *own)
{
	struct verify_file file;

	return identify(trust->own_fd, own->path, &file) &&
	       bsearch(&file, trust->judged, trust->judged_count, sizeof(file), compare_files);
}

int verify_trust_open(const struct strv *files, const struct verify_kernel *kernel,
	const struct verify_input *inputs, size_t input_count, struct verify_trust *ret,
	struct error *error)
{
	_cleanup_(verify_trust_free) struct verify_trust trust = {
		.own_fd = kernel->own.fd,
	};
	int r;

	trust.certs = xcalloc(files->count, sizeof(struct module_cert *));
	for (; trust.count < files->count; trust.count++) {
		r = module_cert_read(
			AT_FDCWD, files->items[trust.count], &trust.certs[trust.count], error);
		if (r < 0)
			return error_prefix(error, r, "--trust");
	}
	if (kernel->own.modules.count) {
		list_own(&trust, &kernel->own.modules);
		find_signer(&trust);
		list_judged(&trust, inputs, input_count);
	}
	*ret = trust;
	trust = (struct verify_trust){ 0 };
	return 0;
}

static bool same_bytes(
	const struct verify_trust *trust, const char *path, const void *module, size_t size)
{
	_cleanup_(elf_module_close) struct elf_module *own = NULL;
	_cleanup_free_ char *data = NULL;
	struct error ignored = { 0 };
	size_t own_size;

	return elf_module_open(trust->own_fd, path, &own, &ignored) == 0 &&
	       elf_module_bytes(own, &data, &own_size, &ignored) == 0 && own_size == size &&
	       memcmp(data, module, size) == 0;
}

/* What no certificate checks: -ENOKEY stays with its reason. */
static int judge_own(const struct verify_trust *trust, const void *module, size_t size,
	const struct cms_facts *facts, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *opened = NULL;
	const struct verify_own *found = NULL;
	char signer[VERIFY_SIGNER_SIZE];
	struct error ignored = { 0 };

	/* The kernel's own module of that name, to the last byte. */
	if (elf_module_open_memory(module, size, "module", &opened, &ignored) == 0)
		for (struct verify_own *own = first_own(trust, elf_module_name(opened));
			own && !found; own = next_own(trust, own))
			found = same_bytes(trust, own->path, module, size) ? own : NULL;
	if (!found && trust->count)
		return -ENOKEY;
	name_signer(facts, signer);
	if (!found || !*signer || strcmp(signer, trust->signer) != 0)
		return error_set(error, -EAGAIN, "no certificate was given to check it with");
	return is_judged(trust, found)
		       ? error_set(error, -ENOTSUP, "it is the kernel's own file, and only that")
		       : 0;
}

int verify_trust_judge(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct verify_trust *trust = context;
	struct cms_facts facts = { 0 };
	int r = module_signature_verify(module, size, trust->certs, trust->count, &facts, error);

	if (r == -ENOKEY)
		r = judge_own(trust, module, size, &facts, error);
	if (ret)
		*ret = facts;
	return r;
}
