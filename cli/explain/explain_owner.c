/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain/explain_owner.h"

#include <string.h>

#include "common/cleanup.h"

/* Whose a name is by its beginning, of a symbol or of a module: what comes first counts. */
static const struct {
	const char *prefix;
	enum explain_input input;
} owners[] = {
	{ "nvidia", EXPLAIN_NVIDIA },
	{ "nvUvm", EXPLAIN_NVIDIA },
	{ "nvKms", EXPLAIN_NVIDIA },
	{ "ib_", EXPLAIN_OFED },
	{ "ibnl_", EXPLAIN_OFED },
	{ "rdma_", EXPLAIN_OFED },
	{ "rdmacg_", EXPLAIN_OFED },
	{ "iw_", EXPLAIN_OFED },
	{ "mlx", EXPLAIN_OFED },
	{ "uverbs_", EXPLAIN_OFED },
	{ "_uverbs_", EXPLAIN_OFED },
};

static enum explain_input guess(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(owners); i++)
		if (strncmp(owners[i].prefix, name, strlen(owners[i].prefix)) == 0)
			return owners[i].input;
	return EXPLAIN_KERNEL;
}

enum explain_input explain_source_of(const char *module)
{
	return guess(module) == EXPLAIN_OFED ? EXPLAIN_OFED : EXPLAIN_NVIDIA;
}

enum explain_fit explain_kernel_fit(const struct explain_witness *witness)
{
	enum explain_fit fit = EXPLAIN_FIT_UNKNOWN;
	size_t count;
	const struct elf_symbol_version *versions = elf_module_versions(witness->module, &count);

	for (size_t i = 0; i < count; i++) {
		const struct symvers_entry *entry =
			symvers_find(witness->symvers, versions[i].name);

		if (!entry || strcmp(entry->module, "vmlinux") != 0 || !entry->has_crc)
			continue;
		if (entry->crc != versions[i].crc)
			return EXPLAIN_FITS_NOT;
		fit = EXPLAIN_FITS;
	}
	return fit;
}

/*
 * The kernel's own tree has the exporter, but an OFED replaces such modules: which of the two was
 * wrong shows in whether the module fits the rest of that kernel.
 */
static void judge_replaceable(const struct explain_witness *witness, struct explain_owner *owner)
{
	enum explain_fit fit = witness->module ? explain_kernel_fit(witness) : EXPLAIN_FIT_UNKNOWN;

	if (fit == EXPLAIN_FITS_NOT)
		owner->input = EXPLAIN_KERNEL;
	owner->guessed = fit == EXPLAIN_FIT_UNKNOWN;
}

static bool find_exporter(
	const struct explain_witness *witness, const char *symbol, struct explain_owner *owner)
{
	const struct symvers_entry *entry;

	entry = witness->with ? symvers_find(witness->with, symbol) : NULL;
	if (entry) {
		symvers_module_name(entry, owner->exporter, sizeof(owner->exporter));
		owner->input =
			guess(owner->exporter) == EXPLAIN_NVIDIA ? EXPLAIN_NVIDIA : EXPLAIN_OFED;
		return true;
	}
	entry = witness->symvers ? symvers_find(witness->symvers, symbol) : NULL;
	if (!entry)
		return false;
	symvers_module_name(entry, owner->exporter, sizeof(owner->exporter));
	owner->input = guess(owner->exporter);
	if (owner->input != EXPLAIN_KERNEL)
		judge_replaceable(witness, owner);
	return true;
}

/* modpost wrote down whose symbols it uses; none of a module's means: all are vmlinux's. */
static bool depends_on_nothing(const struct explain_witness *witness)
{
	const char *depends = witness->module ? elf_module_info(witness->module, "depends") : NULL;

	return depends && !*depends;
}

void explain_owner_find(
	const struct explain_witness *witness, const char *symbol, struct explain_owner *ret)
{
	/* Not a function: the layout of struct module, which the headers decide. */
	bool layout = strcmp(symbol, "module_layout") == 0;

	*ret = (struct explain_owner){ .input = EXPLAIN_KERNEL };
	if (witness && find_exporter(witness, symbol, ret))
		return;
	if (layout || (witness && depends_on_nothing(witness)))
		return;
	ret->input = guess(symbol);
	ret->guessed = true;
}
