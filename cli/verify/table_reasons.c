/* SPDX-License-Identifier: Apache-2.0 */
/* Below the table: each kind of finding once, with its first few modules and its cure. */
#include <string.h>

#include "cli/verify/table.h"

#define REASONS_SHOWN 3 /* findings of one kind; of notes one */

/* A finding with the module that it is about; NULL: it is about the set. */
struct reason {
	const struct proof_finding *finding;
	const struct table_row *row;
	bool shown;
};

struct reasons {
	struct reason *items;
	size_t count;
};

/* In the order in which the kernel prints its letters. */
static const struct {
	const char *id;
	char letter;
	const char *text;
} taints[] = {
	{ "proprietary", 'P', "proprietary" },
	{ "staging", 'C', "of the staging tree" },
	{ "out-of-tree", 'O', "out of tree" },
	{ "unsigned", 'E', "unsigned" },
	{ "signature-key", 'E', "signed with a key that the kernel does not have" },
	{ "signature-kind", 'E', "signed in a way that the kernel does not check" },
	{ "test", 'N', "tests" },
};

static unsigned int taint_of(const struct proof_finding *finding)
{
	for (size_t i = 0; finding->weight == PROOF_NOTE && i < ARRAY_SIZE(taints); i++)
		if (strcmp(finding->id, taints[i].id) == 0)
			return 1U << i;
	return 0;
}

static unsigned int taints_of(const struct proof *proof)
{
	unsigned int all = 0;

	for (size_t i = 0; i < proof->count; i++)
		all |= taint_of(&proof->findings[i]);
	return proof->verdict == PROOF_WILL_NOT_LOAD ? 0 : all;
}

/* What is said elsewhere and once: what taints, and what hangs on symbols that nobody knows. */
static bool is_folded(const struct table *table, const struct proof_finding *finding)
{
	return !table->report->all &&
	       (taint_of(finding) || table_is_unknown_symbol(table, finding));
}

static void add(struct reasons *reasons, const struct table *table, const struct proof *proof,
	const struct table_row *row)
{
	for (size_t i = 0; i < proof->count; i++)
		if (!is_folded(table, &proof->findings[i]))
			reasons->items[reasons->count++] =
				(struct reason){ .finding = &proof->findings[i], .row = row };
}

static int gather(const struct table *table, struct reasons *reasons)
{
	size_t count = table->report->set->findings.count;

	for (size_t i = 0; i < table->row_count; i++)
		count += table->rows[i].member->proof.count;
	reasons->items = calloc(count + 1, sizeof(*reasons->items));
	if (!reasons->items)
		return -ENOMEM;
	for (size_t i = 0; i < table->row_count; i++)
		add(reasons, table, &table->rows[i].member->proof, &table->rows[i]);
	add(reasons, table, &table->report->set->findings, NULL);
	return 0;
}

static bool same_kind(const struct proof_finding *a, const struct proof_finding *b)
{
	return a->weight == b->weight && strcmp(a->id, b->id) == 0;
}

static const char *reason_text(const struct reason *reason)
{
	return reason->row ? table_text(reason->finding, reason->row) : reason->finding->text;
}

static void print_reason(const struct table *table, const struct reason *reason)
{
	const struct table_row *row = reason->row;

	/* What is no module has no name but its path. */
	if (row)
		(void) fprintf(table->file, "  %s: %s\n",
			row->member->module ? row->label : row->member->path, reason_text(reason));
	else
		(void) fprintf(table->file, "  %s\n", reason->finding->text);
}

/* How many notes of this kind, all of one text; 0 where they differ. */
static size_t count_alike(const struct reasons *reasons, size_t first)
{
	const struct reason *kind = &reasons->items[first];
	size_t count = 0;

	for (size_t i = first; i < reasons->count; i++) {
		if (!same_kind(reasons->items[i].finding, kind->finding))
			continue;
		if (!reasons->items[i].row ||
			strcmp(reason_text(&reasons->items[i]), reason_text(kind)) != 0)
			return 0;
		count++;
	}
	return count;
}

static void print_alike(const struct table *table, struct reasons *reasons, size_t first)
{
	const struct proof_finding *kind = reasons->items[first].finding;
	size_t count = 0;

	for (size_t i = first; i < reasons->count; i++)
		if (same_kind(reasons->items[i].finding, kind)) {
			reasons->items[i].shown = true;
			count++;
		}
	(void) fprintf(table->file, "\n%s (%s)\n  %zu modules: %s\n", kind->id,
		proof_weight_text(kind->weight), count, reason_text(&reasons->items[first]));
	if (*kind->cure)
		(void) fprintf(table->file, "    do: %s\n", kind->cure);
}

/* One kind: its first few, each with its cure where that is not the one before's. */
static void print_kind(const struct table *table, struct reasons *reasons, size_t first)
{
	bool all = table->report->all;
	FILE *file = table->file;
	const struct proof_finding *kind = reasons->items[first].finding;
	size_t limit = kind->weight == PROOF_NOTE ? 1 : REASONS_SHOWN;
	const struct table_row *last = NULL;
	size_t count = 0, shown = 0;
	const char *cure = "";

	if (!all && kind->weight == PROOF_NOTE && count_alike(reasons, first) > 1) {
		print_alike(table, reasons, first);
		return;
	}
	(void) fprintf(file, "\n%s (%s)\n", kind->id, proof_weight_text(kind->weight));
	for (size_t i = first; i < reasons->count; i++) {
		struct reason *reason = &reasons->items[i];
		const struct proof_finding *finding = reason->finding;

		if (reason->shown || !same_kind(finding, kind))
			continue;
		reason->shown = true;
		count++;
		/* Three modules say more than three symbols of one. */
		if (!all && (shown >= limit || (reason->row && reason->row == last)))
			continue;
		last = reason->row;
		shown++;
		if (*cure && strcmp(cure, finding->cure) != 0)
			(void) fprintf(file, "    do: %s\n", cure);
		print_reason(table, reason);
		cure = finding->cure;
	}
	if (*cure)
		(void) fprintf(file, "    do: %s\n", cure);
	if (count > shown)
		(void) fprintf(
			file, "  … and %zu more of this kind (--all lists them)\n", count - shown);
}

/* "out of tree and unsigned: they taint the kernel (OE)" */
static void print_taint(const struct table *table, unsigned int mask, const char *verb)
{
	char letters[ARRAY_SIZE(taints) + 1] = "";
	unsigned int left = mask;

	for (size_t i = 0; i < ARRAY_SIZE(taints); i++) {
		if (!(mask & 1U << i))
			continue;
		left &= ~(1U << i);
		(void) fprintf(table->file, "%s%s", taints[i].text,
			!left               ? ""
			: left & (left - 1) ? ", "
					    : " and ");
		if (!strchr(letters, taints[i].letter))
			letters[strlen(letters)] = taints[i].letter;
	}
	(void) fprintf(table->file, ": %s the kernel (%s)\n", verb, letters);
}

/* True of every OFED and in no way wrong: a line for all that share it. */
static void print_taints(const struct table *table)
{
	unsigned int done[1U << ARRAY_SIZE(taints)] = { 0 };
	bool any = false;

	for (size_t i = 0; i < table->row_count; i++)
		done[taints_of(&table->rows[i].member->proof)]++;
	for (size_t i = 0; i < table->row_count; i++) {
		unsigned int mask = taints_of(&table->rows[i].member->proof);
		unsigned int count = done[mask];

		if (!mask || !count)
			continue;
		(void) fputs(any ? "" : "\ntaints (note)\n", table->file);
		any = true;
		done[mask] = 0;
		if (count == 1)
			(void) fprintf(table->file, "  %s is ", table->rows[i].label);
		else
			(void) fprintf(table->file, "  %u modules are ", count);
		print_taint(table, mask, count == 1 ? "it taints" : "they taint");
	}
}

int table_print_reasons(const struct table *table)
{
	struct reasons reasons = { 0 };
	int r = gather(table, &reasons);

	for (enum proof_weight weight = PROOF_REFUSAL; weight <= PROOF_NOTE && r == 0; weight++)
		for (size_t i = 0; i < reasons.count; i++)
			if (!reasons.items[i].shown && reasons.items[i].finding->weight == weight)
				print_kind(table, &reasons, i);
	if (r == 0 && !table->report->all)
		print_taints(table);
	free(reasons.items);
	return r;
}
