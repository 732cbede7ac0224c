/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/variants.h"

#include <string.h>

#include "common/fs.h"
#include "module/elf.h"
#include "module/kernel_facts.h"
#include "module/symvers.h"

/* What cannot be read is judged later, with a reason of its own. */
static bool in_module(const struct verify_input *input, const char *path, uint32_t *ret_crc)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const struct elf_module_export *exports;
	struct error ignored = { 0 };
	size_t count;

	if (elf_module_open(input->fd, path, &module, &ignored) < 0)
		return false;
	exports = elf_module_exports(module, &count);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(exports[i].symbol, PEERMEM_SYMBOL) != 0 || !exports[i].has_crc)
			continue;
		*ret_crc = exports[i].crc;
		return true;
	}
	return false;
}

static bool in_symvers(const struct verify_input *input, const char *path, uint32_t *ret_crc)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error ignored = { 0 };

	if (symvers_open(input->fd, path, &symvers, &ignored) < 0)
		return false;
	entry = symvers_find(symvers, PEERMEM_SYMBOL);
	if (entry)
		*ret_crc = entry->crc;
	return entry;
}

/* The version of the peer-memory interface that the inputs' OFED offers. */
static bool offered(const struct verify_input *inputs, size_t count, uint32_t *ret_crc)
{
	for (size_t i = 0; i < count; i++) {
		const struct verify_input *input = &inputs[i];

		for (size_t k = 0; k < input->modules.count; k++)
			if (in_module(input, input->modules.items[k], ret_crc))
				return true;
		for (size_t k = 0; k < input->symvers.count; k++)
			if (in_symvers(input, input->symvers.items[k], ret_crc))
				return true;
	}
	return false;
}

static bool demands(const struct verify_input *input, const char *path, uint32_t wanted)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error ignored = { 0 };
	uint32_t crc;

	return elf_module_open(input->fd, path, &module, &ignored) == 0 &&
	       elf_module_version(module, PEERMEM_SYMBOL, &crc) && crc == wanted;
}

static int replace(struct verify_input *input, const char *path)
{
	static const char installed[] = "/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE;

	for (size_t i = 0; i < input->modules.count; i++) {
		char *item = input->modules.items[i];
		size_t length = strlen(item);
		char *copy;

		if (length < strlen(installed) ||
			strcmp(item + length - strlen(installed), installed) != 0)
			continue;
		copy = strdup(path);
		if (!copy)
			return -ENOMEM;
		free(item);
		input->modules.items[i] = copy;
		break;
	}
	return 0;
}

int verify_variants_choose(struct verify_input *input, const char *krel,
	const struct verify_input *others, size_t count)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *folder = NULL;
	uint32_t crc;
	int r;

	if (!input->root)
		return 0;
	if (asprintf(&folder, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, krel) < 0)
		return -ENOMEM;
	r = fs_list(input->fd, folder, &names);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (!offered(others, count, &crc))
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s/" KERNEL_FACTS_PEERMEM_MODULE, folder, names.items[i]) <
			0)
			return -ENOMEM;
		if (demands(input, path, crc))
			return replace(input, path);
	}
	return 0;
}
