/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people: what was judged, the table, the reasons, the order, and the sum. */
#include <string.h>

#include "cli/verify/table.h"

#define SUM_REASON_MAX 160 /* bytes; above it stands whole */

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* The kernel's own ends in a blank, which people need not see. */
static void print_vermagic(const char *vermagic, FILE *file)
{
	size_t length = strlen(vermagic);

	while (length && vermagic[length - 1] == ' ')
		length--;
	(void) fprintf(file, "\"%.*s\"", (int) length, vermagic);
}

static void print_header(const struct verify_report *report, FILE *file)
{
	const struct verify_kernel *kernel = report->kernel;

	(void) fprintf(file, "kernel %s, vermagic ", kernel->krel ? kernel->krel : "(no release)");
	if (kernel->facts.vermagic)
		print_vermagic(kernel->facts.vermagic, file);
	else
		(void) fputs("not known", file);
	if (kernel->facts.vermagic && !verify_has_versions(report))
		(void) fputs(", no MODVERSIONS: vermagic only", file);
	if (kernel->symvers_count)
		(void) fprintf(file, ", %zu symbols", kernel->symvers_count);
	else
		(void) fputs(", no Module.symvers", file);
	(void) fprintf(
		file, ", %zu module%s\n", report->members->count, plural(report->members->count));
}

/* Said once in place of a doubt for each symbol of each module. */
static void print_unknown_exports(const struct table *table)
{
	const struct verify_kernel *kernel = table->report->kernel;

	if (table->exports_known || kernel->facts.modules == PROOF_NO)
		return;
	(void) fputs(
		"nothing tells what this kernel exports, so no symbol can be judged", table->file);
	if (kernel->facts.running)
		(void) fputs(": neither its Module.symvers nor its modules' files are here\n",
			table->file);
	else
		(void) fprintf(table->file,
			": add --with …/Module.symvers (of its headers' package), or name its "
			"release: --kernel %s\n",
			kernel->krel ? kernel->krel : "KREL");
}

static void print_inputs(const struct verify_report *report, FILE *file)
{
	for (size_t i = 0; i < report->input_count; i++) {
		const struct verify_input *input = &report->inputs[i];
		_cleanup_free_ char *list = strv_join(&input->passed_over, ", ");

		if (input->passed_over.count)
			(void) fprintf(file, "%s: modules for other kernels are passed over: %s\n",
				input->name, list ? list : "");
		if (input->other_kernel)
			(void) fprintf(file,
				"%s: nothing in it lies in a folder of %s: all its modules are "
				"judged\n",
				input->name, report->kernel->krel);
	}
	for (size_t i = 0; i < report->kernel->notes.count; i++)
		(void) fprintf(file, "note: %s\n", report->kernel->notes.items[i]);
}

/* Of a module built for another release: its vermagic, which begins with that. */
static const char *other_release(const struct table *table, const struct table_row *row)
{
	const char *krel = table->report->kernel->krel;
	const char *vermagic =
		row->member->module ? elf_module_info(row->member->module, "vermagic") : NULL;
	size_t length = vermagic ? strcspn(vermagic, " ") : 0;

	if (!krel || !length || (strlen(krel) == length && memcmp(vermagic, krel, length) == 0))
		return NULL;
	return vermagic;
}

/* Most of what follows is then one mistake, and no CRC tells it as well as this. */
static void print_other_release(const struct table *table)
{
	const char *krel = table->report->kernel->krel;
	const char *first = NULL;
	size_t count = 0, bad = 0;
	bool several = false;

	for (size_t i = 0; i < table->row_count; i++) {
		const char *release = other_release(table, &table->rows[i]);

		if (!release)
			continue;
		first = first ? first : release;
		several |= strncmp(first, release, strcspn(first, " ") + 1) != 0;
		count++;
		bad += table->rows[i].member->proof.verdict != PROOF_WILL_LOAD;
	}
	if (!bad || count * 2 <= table->row_count)
		return;
	if (count < table->row_count)
		(void) fprintf(table->file, "\n%zu of %zu modules were", count, table->row_count);
	else if (count == 1)
		(void) fputs("\nthe module was", table->file);
	else
		(void) fprintf(table->file, "\nall %zu modules were", count);
	if (several)
		(void) fputs(" built for other kernels", table->file);
	else
		(void) fprintf(table->file, " built for %.*s", (int) strcspn(first, " "), first);
	(void) fprintf(table->file,
		", not for %s: take those of this kernel, or build them: slipway build --kernel "
		"%s\n",
		krel, krel);
}

static void print_order(const struct verify_report *report, FILE *file)
{
	const struct strv *order = &report->set->order;

	if (order->count == 0) {
		(void) fputs("\nnothing loads, so there is no order\n", file);
		return;
	}
	(void) fprintf(file, "\nin this order %s load:\n",
		report->set->loading == report->members->count ? "all" : "those that will");
	for (size_t i = 0; i < report->set->relied.count; i++)
		(void) fprintf(file, "     -  %s, which is %s\n", report->set->relied.items[i],
			report->kernel->facts.running ? "loaded already"
						      : "the kernel's own, or what --with names");
	for (size_t i = 0; i < order->count; i++)
		(void) fprintf(file, "%6zu  %s\n", i + 1, order->items[i]);
}

/* What decides of the set where no module alone does; NULL: the numbers say it. */
static const struct proof_finding *decisive(const struct verify_report *report)
{
	const struct proof *set = &report->set->findings;
	enum proof_weight weight =
		report->set->verdict == PROOF_CANNOT_TELL ? PROOF_DOUBT : PROOF_REFUSAL;

	if (report->set->verdict == PROOF_WILL_LOAD)
		return NULL;
	for (size_t i = 0; i < report->members->count; i++)
		if (report->members->items[i].proof.verdict == report->set->verdict)
			return NULL;
	for (size_t i = 0; i < set->count; i++)
		if (set->findings[i].weight == weight)
			return &set->findings[i];
	return NULL;
}

static void print_sum(const struct verify_report *report, FILE *file)
{
	const struct proof_finding *finding = decisive(report);
	size_t length = finding ? strnlen(finding->text, SUM_REASON_MAX) : 0;
	size_t counts[3] = { 0 };

	for (size_t i = 0; i < report->members->count; i++)
		counts[report->members->items[i].proof.verdict]++;
	(void) fprintf(file, "\n%zu module%s: %zu will load, %zu will not, %zu cannot tell",
		report->members->count, plural(report->members->count), counts[PROOF_WILL_LOAD],
		counts[PROOF_WILL_NOT_LOAD], counts[PROOF_CANNOT_TELL]);
	while (finding && length && (finding->text[length] & 0xc0) == 0x80)
		length--;
	if (finding)
		(void) fprintf(file, "; as one set: %s: %.*s%s",
			proof_verdict_text(report->set->verdict), (int) length, finding->text,
			finding->text[length] ? "…" : "");
	(void) fputc('\n', file);
}

int verify_print(const struct verify_report *report, FILE *file)
{
	struct table table = { 0 };
	int r = table_open(report, file, &table);

	if (r == 0) {
		print_header(report, file);
		print_unknown_exports(&table);
		print_inputs(report, file);
		print_other_release(&table);
		table_print_rows(&table);
		r = table_print_reasons(&table);
	}
	table_close(&table);
	if (r < 0)
		return r;
	if (report->order)
		print_order(report, file);
	print_sum(report, file);
	return 0;
}
