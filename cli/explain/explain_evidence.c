/* SPDX-License-Identifier: Apache-2.0 */
/* What a module file and the kernel's symbol versions say beside the log. */
#include "cli/explain/explain.h"

#include <string.h>

#include "cli/explain/explain_owner.h"

static int add_symbol(
	struct explain_finding *finding, const struct explain_witness *witness, const char *symbol)
{
	const struct symvers_entry *entry =
		witness->symvers ? symvers_find(witness->symvers, symbol) : NULL;
	char exporter[EXPLAIN_NAME_SIZE] = "";
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

/* The name of the module at hand; of a file that is none, by the file's name. */
static void witness_name(const struct explain_witness *witness, char name[EXPLAIN_NAME_SIZE])
{
	const char *own = witness->module ? elf_module_name(witness->module) : NULL;
	const char *slash = witness->unreadable ? strrchr(witness->module_path, '/') : NULL;

	if (witness->unreadable)
		own = slash ? slash + 1 : witness->module_path;
	(void) snprintf(name, EXPLAIN_NAME_SIZE, "%.*s",
		own ? (int) strcspn(own, witness->unreadable ? "." : "") : 0, own ? own : "");
	for (char *dash = name; (dash = strchr(dash, '-'));)
		*dash = '_';
}

/* A finding about another module than the one at hand: its file says nothing here. */
static bool is_about(const struct explain_finding *finding, const char *name)
{
	return !*finding->module || !*name || strcmp(name, finding->module) == 0;
}

static int set_remedy(struct explain_finding *finding, const char *remedy)
{
	free(finding->remedy);
	finding->remedy = strdup(remedy);
	return finding->remedy ? 0 : -ENOMEM;
}

static int set_because(struct explain_finding *finding, const char *because)
{
	free(finding->because);
	finding->because = strdup(because);
	return finding->because ? 0 : -ENOMEM;
}

int explain_blame_node(struct explain_finding *finding)
{
	finding->input = EXPLAIN_NODE;
	finding->guessed = false;
	return set_remedy(finding,
		"by these files nothing has to be built again: compare what the node has with "
		"them: uname -r, and the module and the one that exports the symbol (sha256sum of "
		"what modinfo -n names, /sys/module/<name>/srcversion); then explain with the "
		"node's");
}

static bool uses(const struct elf_module *module, const char *symbol)
{
	uint32_t crc;
	size_t count;
	const struct elf_undefined *undefined = elf_module_undefined_symbols(module, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(undefined[i].name, symbol) == 0)
			return true;
	return elf_module_version(module, symbol, &crc);
}

/* Lines about symbols that a module needs, of which this file needs none. */
static bool uses_none(const struct explain_finding *finding, const struct explain_witness *witness)
{
	for (size_t i = 0; i < finding->symbols.count; i++)
		if (uses(witness->module, finding->symbols.items[i]))
			return false;
	return finding->symbols.count && finding->entry->input == EXPLAIN_SYMBOL;
}

static int say_unused(struct explain_finding *finding, const struct explain_witness *witness)
{
	int r = 0;

	for (size_t i = 0; i < finding->symbols.count && r == 0; i++)
		r = strv_pushf(&finding->evidence,
			"%s does not use %s at all: the node was given another file",
			witness->module_path, finding->symbols.items[i]);
	return r < 0 ? r : explain_blame_node(finding);
}

/* Has each symbol the CRC that the module was compiled for? */
static bool all_fit(const struct explain_finding *finding, const struct explain_witness *witness)
{
	for (size_t i = 0; i < finding->symbols.count; i++) {
		const char *symbol = finding->symbols.items[i];
		const struct symvers_entry *entry = symvers_find(witness->symvers, symbol);
		uint32_t crc;

		if (!entry || !entry->has_crc ||
			!elf_module_version(witness->module, symbol, &crc) || crc != entry->crc)
			return false;
	}
	return finding->symbols.count;
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

/* What the kernel answers to a file that is no module. */
static bool is_about_form(const struct explain_finding *finding)
{
	static const char *const ids[] = { "errno-enoexec", "errno-einval", "errno-elibbad" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (strcmp(finding->entry->id, ids[i]) == 0)
			return true;
	return finding->input == EXPLAIN_FILE;
}

static int add_unreadable(struct explain_finding *finding, const struct explain_witness *witness)
{
	int r = strv_push(&finding->evidence, witness->unreadable);

	if (r < 0 || !is_about_form(finding))
		return r < 0 ? r
			     : strv_pushf(&finding->evidence,
				       "%s is no whole module, so it says no more of this",
				       witness->module_path);
	finding->input = EXPLAIN_FILE;
	finding->guessed = false;
	r = set_because(finding,
		"the file is no whole kernel module: it was damaged or cut short, or is no module at "
		"all");
	return r < 0 ? r : set_remedy(finding, explain_remedy_for(EXPLAIN_FILE));
}

/* Where a line tells only that a signature was refused, the file tells which of the reasons are
 * out. */
static int add_signature(struct explain_finding *finding, const struct explain_witness *witness)
{
	const char *cause = explain_signature_cause(witness->signed_state);
	const char *remedy = explain_signature_remedy(witness->signed_state);
	bool is_result = finding->entry->rank == EXPLAIN_RESULT;
	int r = strv_push(&finding->evidence, witness->signature);

	if (r == 0 && witness->judged)
		r = strv_push(&finding->evidence, witness->judged);
	if (r < 0 || finding->input != EXPLAIN_SIGNATURE)
		return r;
	if (is_result && strcmp(finding->entry->id, "errno-ekeyrejected") == 0)
		r = set_because(finding, cause);
	if (r == 0 && (is_result || strcmp(finding->entry->id, "key-unknown") == 0))
		r = set_remedy(finding, remedy);
	return r;
}

static int add_symbols(struct explain_finding *finding, const struct explain_witness *witness)
{
	int r = 0;

	if (witness->module && uses_none(finding, witness))
		return say_unused(finding, witness);
	for (size_t i = 0; i < finding->symbols.count && r == 0; i++)
		r = add_symbol(finding, witness, finding->symbols.items[i]);
	if (r == 0)
		r = add_fit(finding, witness);
	if (r == 0 && witness->module && witness->symvers && all_fit(finding, witness))
		r = explain_blame_node(finding);
	return r;
}

static int add_to(struct explain_finding *finding, const struct explain_witness *witness)
{
	char name[EXPLAIN_NAME_SIZE];
	int r;

	witness_name(witness, name);
	if (!is_about(finding, name))
		return strv_pushf(&finding->evidence, "%s is %s, and the lines are about %s",
			witness->module_path, name, finding->module);
	if (witness->unreadable)
		return add_unreadable(finding, witness);
	r = add_symbols(finding, witness);
	if (r == 0 && witness->module && is_about_kernel(finding))
		r = add_vermagic(finding, witness);
	if (r == 0 && witness->signature && is_about_signature(finding))
		r = add_signature(finding, witness);
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
