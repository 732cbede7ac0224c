/* SPDX-License-Identifier: Apache-2.0 */
/* What a module file and the kernel's symbol versions say beside the log. */
#include "cli/explain/explain.h"

#include <string.h>

#include "cli/explain/explain_owner.h"

#define MODULE_NAME_SIZE 64

static int add_symbol(
	struct explain_finding *finding, const struct explain_witness *witness, const char *symbol)
{
	const struct symvers_entry *entry =
		witness->symvers ? symvers_find(witness->symvers, symbol) : NULL;
	char exporter[MODULE_NAME_SIZE] = "";
	uint32_t crc = 0;
	bool wants = witness->module && elf_module_version(witness->module, symbol, &crc);
	int r = 0;

	if (entry)
		symvers_module_name(entry, exporter, sizeof(exporter));
	if (wants && entry && entry->has_crc)
		return strv_pushf(&finding->evidence,
			"%s: %s was compiled for CRC 0x%08x, %s exports it with 0x%08x%s", symbol,
			witness->module_path, crc, exporter, entry->crc,
			crc == entry->crc
				? ": these fit each other, so the node runs another build of one"
				: "");
	if (wants)
		r = strv_pushf(&finding->evidence, "%s: %s was compiled for CRC 0x%08x", symbol,
			witness->module_path, crc);
	else if (witness->module)
		r = strv_pushf(&finding->evidence, "%s: %s has no CRC for it", symbol,
			witness->module_path);
	if (r == 0 && entry && !entry->has_crc)
		r = strv_pushf(&finding->evidence, "%s: %s exports it, with which CRC is not known",
			symbol, exporter);
	else if (r == 0 && entry)
		r = strv_pushf(&finding->evidence, "%s: %s exports it with CRC 0x%08x (%s)", symbol,
			exporter, entry->crc, entry->export);
	else if (r == 0 && witness->symvers)
		r = strv_pushf(&finding->evidence,
			"%s: none of the symbol versions given has it: another kernel, or the "
			"module that exports it is of another source",
			symbol);
	return r;
}

/* Whether the headers were the right ones parts the kernel's fault from a stack's. */
static int add_fit(struct explain_finding *finding, const struct explain_witness *witness)
{
	enum explain_fit fit;

	if (!finding->symbols.count || !witness->module || !witness->symvers)
		return 0;
	fit = explain_kernel_fit(witness);
	if (fit == EXPLAIN_FIT_UNKNOWN)
		return 0;
	return strv_pushf(&finding->evidence,
		fit == EXPLAIN_FITS
			? "what %s takes from the kernel itself has the CRCs that it was compiled "
			  "for: the headers were this kernel's"
			: "%s was compiled for other CRCs of the kernel's own symbols: the headers "
			  "were another kernel's",
		witness->module_path);
}

/* A finding about another module than the one at hand: its file says nothing here. */
static bool is_about(const struct explain_finding *finding, const struct explain_witness *witness)
{
	const char *name = witness->module ? elf_module_name(witness->module) : NULL;

	return !*finding->module || !name || strcmp(name, finding->module) == 0;
}

static bool line_has(const struct explain_finding *finding, const char *text)
{
	for (size_t i = 0; i < finding->lines.count; i++)
		if (strstr(finding->lines.items[i], text))
			return true;
	return false;
}

static int add_vermagic(struct explain_finding *finding, const struct explain_witness *witness)
{
	const char *vermagic = elf_module_info(witness->module, "vermagic");
	bool is_vermagic = strcmp(finding->entry->id, "vermagic") == 0;

	if (!vermagic)
		return strv_pushf(&finding->evidence, "%s has no vermagic", witness->module_path);
	if (is_vermagic && !line_has(finding, vermagic))
		return strv_pushf(&finding->evidence,
			"%s has vermagic \"%s\": it is not the file that the kernel was given",
			witness->module_path, vermagic);
	return strv_pushf(
		&finding->evidence, "%s has vermagic \"%s\"", witness->module_path, vermagic);
}

static bool is_about_kernel(const struct explain_finding *finding)
{
	return finding->input == EXPLAIN_KERNEL || finding->entry->rank == EXPLAIN_RESULT;
}

/* EPERM is a locked-down kernel's answer to what is not signed. */
static bool is_about_signature(const struct explain_finding *finding)
{
	return finding->input == EXPLAIN_SIGNATURE ||
	       strcmp(finding->entry->id, "errno-eperm") == 0;
}

static int add_to(struct explain_finding *finding, const struct explain_witness *witness)
{
	int r = 0;

	if (!is_about(finding, witness))
		return strv_pushf(&finding->evidence, "%s is %s, and the lines are about %s",
			witness->module_path, elf_module_name(witness->module), finding->module);
	for (size_t i = 0; i < finding->symbols.count && r == 0; i++)
		r = add_symbol(finding, witness, finding->symbols.items[i]);
	if (r == 0)
		r = add_fit(finding, witness);
	if (r == 0 && witness->module && is_about_kernel(finding))
		r = add_vermagic(finding, witness);
	if (r == 0 && witness->signature && is_about_signature(finding))
		r = strv_push(&finding->evidence, witness->signature);
	return r == 0 && witness->proof ? explain_add_proof(finding, witness) : r;
}

int explain_add_evidence(struct explanation *explanation)
{
	int r = 0;

	for (size_t i = 0; explanation->witness && i < explanation->count && r == 0; i++)
		if (!explanation->items[i].joined)
			r = add_to(&explanation->items[i], explanation->witness);
	return r;
}
