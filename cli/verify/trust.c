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
	strv_free(&trust->own);
	strv_free(&trust->judged);
	*trust = (struct verify_trust){ 0 };
}

size_t verify_search(const struct strv *list, const char *text)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(list->items[middle], text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A list: a whole tree may be asked for all its names. */
static void list_own(struct verify_trust *trust, const struct strv *paths)
{
	char name[256];

	for (size_t i = 0; i < paths->count; i++)
		if (strncmp(paths->items[i], "kernel/", 7) == 0 &&
			module_name_of_file(paths->items[i], name, sizeof(name)))
			xstrv_pushf(&trust->own, "%s/%s", name, paths->items[i]);
	strv_sort(&trust->own);
}

/* A serial number counts among one issuer's, so both are named. "": it is not signed. */
static void name_signer(const struct cms_facts *facts, char signer[VERIFY_SIGNER_SIZE])
{
	*signer = '\0';
	if (facts->signers)
		(void) snprintf(signer, VERIFY_SIGNER_SIZE, "%s\n%s\n%s", facts->issuer,
			facts->serial, facts->key_id);
}

/*
 * Takes the signer from up to SAMPLE of the kernel's modules, evenly spread; over half must agree.
 */
static void find_signer(struct verify_trust *trust)
{
	const struct strv *own = &trust->own;
	size_t asked = own->count < SAMPLE ? own->count : SAMPLE, same = 0;
	_cleanup_strv_ struct strv signers = { 0 };
	const char *middle;

	for (size_t i = 0; i < asked; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		const char *path = strchr(own->items[i * own->count / asked], '/') + 1;
		char signer[VERIFY_SIGNER_SIZE];
		struct cms_facts facts = { 0 };
		struct error ignored = { 0 };
		bool present;

		if (elf_module_open(trust->own_fd, path, &module, &ignored) < 0 ||
			elf_module_trailer(module, &facts, &present, &ignored) < 0)
			facts.signers = 0;
		name_signer(&facts, signer);
		xstrv_push(&signers, signer);
	}
	if (!asked)
		return;
	strv_sort(&signers);
	middle = signers.items[asked / 2];
	for (size_t i = 0; i < asked; i++)
		same += strcmp(signers.items[i], middle) == 0;
	if (2 * same > asked)
		(void) snprintf(trust->signer, sizeof(trust->signer), "%s", middle);
}

/*
 * Identifies a file by its inode: it may be an input under another name. NULL: it does not exist.
 */
static char *identify(int dir_fd, const char *path)
{
	struct stat status;

	return fstatat(dir_fd, path, &status, 0) < 0
		       ? NULL
		       : xasprintf("%lu:%lu", (unsigned long) status.st_dev,
				 (unsigned long) status.st_ino);
}

static void list_judged(
	struct verify_trust *trust, const struct verify_input *inputs, size_t input_count)
{
	for (size_t i = 0; i < input_count; i++)
		for (size_t k = 0; k < inputs[i].modules.count; k++) {
			_cleanup_free_ char *file =
				identify(inputs[i].fd, inputs[i].modules.items[k]);

			if (file)
				xstrv_push(&trust->judged, file);
		}
	strv_sort(&trust->judged);
}

static bool is_judged(const struct verify_trust *trust, const char *path)
{
	_cleanup_free_ char *file = identify(trust->own_fd, path);
	size_t at = file ? verify_search(&trust->judged, file) : trust->judged.count;

	return at < trust->judged.count && strcmp(trust->judged.items[at], file) == 0;
}

int verify_trust_open(struct verify *verify, struct error *error)
{
	struct verify_trust *trust = &verify->trust;
	const struct strv *files = &verify->trust_files;
	int r;

	trust->own_fd = verify->kernel.own.fd;
	trust->certs = xcalloc(files->count, sizeof(struct module_cert *));
	for (; trust->count < files->count; trust->count++) {
		r = module_cert_read(
			AT_FDCWD, files->items[trust->count], &trust->certs[trust->count], error);
		if (r < 0)
			return error_prefix(error, r, "--trust");
	}
	if (verify->kernel.own.modules.count) {
		list_own(trust, &verify->kernel.own.modules);
		find_signer(trust);
		list_judged(trust, verify->inputs, verify->input_count);
	}
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

/* The path of the kernel's own module of that name and with these bytes, or NULL. */
static const char *find_own(const struct verify_trust *trust, const void *module, size_t size)
{
	_cleanup_(elf_module_close) struct elf_module *opened = NULL;
	_cleanup_free_ char *name = NULL;
	struct error ignored = { 0 };

	if (elf_module_open_memory(module, size, "module", &opened, &ignored) < 0 ||
		!elf_module_name(opened))
		return NULL;
	name = xasprintf("%s/", elf_module_name(opened));
	for (size_t i = verify_search(&trust->own, name); i < trust->own.count; i++) {
		const char *item = trust->own.items[i];

		if (strncmp(item, name, strlen(name)) != 0)
			return NULL;
		if (same_bytes(trust, item + strlen(name), module, size))
			return item + strlen(name);
	}
	return NULL;
}

/* Judges a module that no certificate can check. -ENOKEY leaves the reason in @error as it is. */
static int judge_own(const struct verify_trust *trust, const void *module, size_t size,
	const struct cms_facts *facts, struct error *error)
{
	const char *found = find_own(trust, module, size);
	char signer[VERIFY_SIGNER_SIZE];

	if (!found && trust->count)
		return -ENOKEY;
	name_signer(facts, signer);
	if (!found || !*signer || strcmp(signer, trust->signer) != 0)
		return error_set(error, -EAGAIN, "no certificate was given to check it");
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
