/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people: what was judged, the table, the reasons, the order, and the sum. */
#include <string.h>

#include "cli/verify/verify.h"

#include "cli/message.h"
#include "common/arch.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/tree/depends.h"

#define ROWS_SHOWN     50 /* modules of one verdict */
#define REASONS_SHOWN  3  /* findings of one kind; of notes one */
#define LABEL_MIN      16
#define FROM_MAX       48
#define REASON_MAX     110 /* the reasons below have the whole */
#define SUM_REASON_MAX 160 /* bytes; above it stands whole */
#define VERDICT_WIDTH  13

struct table_row {
	const struct proof_member *member;
	const struct verify_input *input;
	char *name;        /* of the module: from the file's own name where it has none */
	char *label;       /* the name; of two of one name with where each is from */
	const char *shown; /* the label as the table has it: beside the column FROM, if any */
	bool own; /* the kernel's own module, by what it says of itself: MODULE_INFO(intree) */
};

struct table {
	const struct verify *verify;
	struct table_row *rows; /* of all members: others before the kernel's own, then by name */
	size_t row_count;
	const char **inputs; /* of each input the end of its name that no other one has */
	bool from;           /* there is a column for the input */
	bool exports_known;  /* the kernel's own exports are known */
};

/* --- the rows: a line a module, with the reason that counts --- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Do other inputs' names end with these folders, too? */
static bool is_shared(const struct verify *verify, size_t input, const char *end)
{
	for (size_t i = 0; i < verify->input_count; i++) {
		const char *name = verify->inputs[i].name;
		size_t length = strlen(name), wanted = strlen(end);

		if (i != input && length >= wanted && strcmp(name + length - wanted, end) == 0 &&
			(length == wanted || name[length - wanted - 1] == '/'))
			return true;
	}
	return false;
}

/* Two images of one file name are named by as many of their folders as it takes. */
static void name_inputs(struct table *table)
{
	const struct verify *verify = table->verify;

	table->inputs = xcalloc(verify->input_count, sizeof(char *));
	for (size_t i = 0; i < verify->input_count; i++) {
		const char *name = verify->inputs[i].name;
		const char *end = base_name(name);

		while (end > name && is_shared(verify, i, end)) {
			end--;
			while (end > name && end[-1] != '/')
				end--;
		}
		table->inputs[i] = end;
		/* Single files are told apart by their name. */
		table->from |= verify->input_count > 1 && verify->inputs[i].kind != VERIFY_MODULE;
	}
}

static const char *input_of(const struct table *table, const struct table_row *row)
{
	return table->inputs[row->input - table->verify->inputs];
}

static int compare_names(const void *left, const void *right)
{
	const struct table_row *a = left, *b = right;
	int r = strcmp(a->name, b->name);

	return r ? r : strcmp(a->member->path, b->member->path);
}

/* Sorts the kernel's own modules last: the user does not ask for those. */
static int compare_rows(const void *left, const void *right)
{
	const struct table_row *a = left, *b = right;

	return a->own == b->own ? compare_names(a, b) : (int) a->own - (int) b->own;
}

static const char *below_release(const struct table_row *row)
{
	return row->shown + verify_release_length(row->shown);
}

/* Leaves out the folder of the release in the table, if what is below it tells them apart. */
static void shorten_row(struct table_row *rows, size_t count, size_t i)
{
	for (size_t k = 0; k < count; k++)
		if (k != i && rows[k].input == rows[i].input &&
			strcmp(below_release(&rows[k]), below_release(&rows[i])) == 0)
			return;
	rows[i].shown = below_release(&rows[i]);
}

/*
 * Labels modules of the same name: by image if it is in two images, by path if it is twice in one.
 * All @count rows have one name.
 */
static void label_rows(const struct table *table, struct table_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct table_row *row = &rows[i];
		const char *path = row->member->path;
		size_t length = strlen(row->input->name), same = 0;

		for (size_t k = 0; k < count; k++)
			same += rows[k].input == row->input;
		if (strncmp(path, row->input->name, length) == 0 && path[length] == ':')
			path += length + 1;
		if (count == 1)
			row->label = xstrdup(row->name);
		else if (row->input->kind == VERIFY_MODULE)
			row->label = xstrdup(input_of(table, row));
		else if (table->verify->input_count == 1)
			row->label = xstrdup(path);
		else
			row->label = xasprintf(
				"%s:%s", input_of(table, row), same > 1 ? path : row->name);
		row->shown = row->label;
		if (count > 1 && table->from && row->input->kind != VERIFY_MODULE)
			row->shown += strlen(input_of(table, row)) + 1;
	}
	for (size_t i = 0; i < count; i++)
		shorten_row(rows, count, i);
}

static void make_rows(struct table *table)
{
	const struct proof_set *set = &table->verify->set;
	size_t count;

	table->row_count = set->member_count;
	table->rows = xcalloc(set->member_count, sizeof(*table->rows));
	for (size_t i = 0; i < set->member_count; i++) {
		const struct proof_member *member = &set->members[i];
		struct table_row *row = &table->rows[i];
		const char *name = member->module ? elf_module_name(member->module) : NULL;
		char from_path[256];

		if (!name && module_name_of_file(member->path, from_path, sizeof(from_path)))
			name = from_path;
		row->member = member;
		row->input = table->verify->member_inputs[i];
		row->own = member->module && elf_module_info(member->module, "intree");
		row->name = xstrdup(name ? name : base_name(member->path));
	}
	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_names);
	for (size_t i = 0; i < table->row_count; i += count) {
		count = 1;
		while (i + count < table->row_count &&
			strcmp(table->rows[i + count].name, table->rows[i].name) == 0)
			count++;
		label_rows(table, &table->rows[i], count);
	}
	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_rows);
}

/*
 * Are the kernel's own exports known? A Module.symvers of a driver alone does not have them.
 * Without MODVERSIONS there is no module_layout, but vmlinux is named.
 */
static bool knows_exports(const struct symvers *symvers)
{
	if (!symvers)
		return false;
	if (symvers_find(symvers, "module_layout"))
		return true;
	for (size_t i = 0; i < symvers_count(symvers); i++)
		if (strcmp(symvers_at(symvers, i)->module, "vmlinux") == 0)
			return true;
	return false;
}

/* A doubt that is there only because the kernel's exports are not known. */
static bool is_unknown_symbol(const struct table *table, const struct proof_finding *finding)
{
	static const char *const ids[] = { "symvers", "symbol-missing", "symbol-crc-unknown",
		"needs-refused" };

	if (table->exports_known || finding->weight != PROOF_DOUBT)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (strcmp(finding->id, ids[i]) == 0)
			return true;
	return false;
}

/*
 * The text without "name: " where a column or line has the name already. What could not be
 * opened is called by its path there. Without @row it is about the set.
 */
static const char *finding_text(const struct proof_finding *finding, const struct table_row *row)
{
	for (size_t i = 0; row && i < 3; i++) {
		const char *name = i == 0   ? row->name
				   : i == 1 ? row->member->path
					    : base_name(row->member->path);
		size_t length = strlen(name);

		if (strncmp(finding->text, name, length) == 0 && finding->text[length] == ':')
			return finding->text + length + 1 + strspn(finding->text + length + 1, " ");
	}
	return finding->text;
}

static void print_row(
	const struct table *table, const struct table_row *row, int name_width, int from_width)
{
	const struct proof *proof = &row->member->proof;
	const char *verdict = proof_verdict_text(proof->verdict);
	const char *reason;
	size_t length;

	text_print(stdout, "%-*s  ", name_width, row->shown);
	if (table->from)
		text_print(stdout, "%-*s  ", from_width, input_of(table, row));
	if (proof->verdict == PROOF_WILL_LOAD || !proof->count) {
		text_print(stdout, "%s\n", verdict);
		return;
	}
	reason = is_unknown_symbol(table, &proof->findings[0])
			 ? "the kernel's exports are unknown"
			 : finding_text(&proof->findings[0], row);
	length = strlen(reason);
	/* As many whole words as there is room for. */
	while (!table->verify->all &&
		(length > REASON_MAX ||
			(reason[length] && length > REASON_MAX / 2 && reason[length] != ' ')))
		length--;
	message_print(stdout, proof->verdict == PROOF_WILL_NOT_LOAD ? COLOUR_RED : COLOUR_YELLOW,
		"%-*s", VERDICT_WIDTH, verdict);
	text_print(stdout, "  %.*s%s\n", (int) length, reason, reason[length] ? " …" : "");
}

static void print_rows(const struct table *table)
{
	static const enum proof_verdict verdicts[] = { PROOF_WILL_NOT_LOAD, PROOF_CANNOT_TELL,
		PROOF_WILL_LOAD };
	int name_width = LABEL_MIN, from_width = 4;

	for (size_t i = 0; i < table->row_count; i++) {
		int name = (int) strlen(table->rows[i].shown);
		int from = (int) strnlen(input_of(table, &table->rows[i]), FROM_MAX);

		name_width = name > name_width ? name : name_width;
		from_width = from > from_width ? from : from_width;
	}
	text_print(stdout, "\n%-*s  ", name_width, "MODULE");
	if (table->from)
		text_print(stdout, "%-*s  ", from_width, "FROM");
	text_print(stdout, "%-*s  FIRST REASON\n", VERDICT_WIDTH, "VERDICT");
	for (size_t v = 0; v < ARRAY_SIZE(verdicts); v++) {
		size_t count = 0;

		for (size_t i = 0; i < table->row_count; i++)
			if (table->rows[i].member->proof.verdict == verdicts[v] &&
				(count++ < ROWS_SHOWN || table->verify->all))
				print_row(table, &table->rows[i], name_width, from_width);
		if (count > ROWS_SHOWN && !table->verify->all)
			text_print(stdout, "and %zu more: %s (--all lists them)\n",
				count - ROWS_SHOWN, proof_verdict_text(verdicts[v]));
	}
}

/* --- the reasons: each kind of finding once, with its first few modules and its cure --- */

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

/* But for what is printed elsewhere, once: taints, and what hangs on symbols that are not known. */
static void add_reasons(struct reasons *reasons, const struct table *table,
	const struct proof *proof, const struct table_row *row)
{
	for (size_t i = 0; i < proof->count; i++) {
		const struct proof_finding *finding = &proof->findings[i];

		if (table->verify->all || !(taint_of(finding) || is_unknown_symbol(table, finding)))
			reasons->items[reasons->count++] =
				(struct reason){ .finding = finding, .row = row };
	}
}

static bool same_kind(const struct proof_finding *a, const struct proof_finding *b)
{
	return a->weight == b->weight && strcmp(a->id, b->id) == 0;
}

/*
 * One kind: its first few, each with its cure where that is not the one before's. A note that is
 * the same text of several modules is one line.
 */
static void print_kind(const struct table *table, struct reasons *reasons, size_t first)
{
	const struct reason *kind = &reasons->items[first];
	const char *text = finding_text(kind->finding, kind->row);
	bool all = table->verify->all, note = kind->finding->weight == PROOF_NOTE;
	size_t limit = all ? SIZE_MAX : note ? 1 : REASONS_SHOWN;
	bool alike = note && !all;
	size_t count = 0, shown = 0;
	const struct table_row *last = NULL;
	const char *cure = "";

	text_print(
		stdout, "\n%s (%s)\n", kind->finding->id, proof_weight_text(kind->finding->weight));
	for (size_t i = first; i < reasons->count; i++) {
		struct reason *reason = &reasons->items[i];

		if (!same_kind(reason->finding, kind->finding))
			continue;
		reason->shown = true;
		count++;
		alike = alike && reason->row &&
			strcmp(finding_text(reason->finding, reason->row), text) == 0;
	}
	if (alike && count > 1) {
		text_print(stdout, "  %zu modules: %s\n", count, text);
		cure = kind->finding->cure;
		limit = 0;
	}
	for (size_t i = first; i < reasons->count && shown < limit; i++) {
		const struct proof_finding *finding = reasons->items[i].finding;
		const struct table_row *row = reasons->items[i].row;

		/* Three modules say more than three symbols of one. */
		if (!same_kind(finding, kind->finding) || (!all && row && row == last))
			continue;
		last = row;
		shown++;
		if (*cure && strcmp(cure, finding->cure) != 0)
			text_print(stdout, "    do: %s\n", cure);
		/* A file that is no module has no name but its path. */
		text_print(stdout, "  %s%s%s\n",
			!row                  ? ""
			: row->member->module ? row->label
					      : row->member->path,
			row ? ": " : "", finding_text(finding, row));
		cure = finding->cure;
	}
	if (*cure)
		text_print(stdout, "    do: %s\n", cure);
	if (count > shown && limit)
		text_print(stdout, "  … and %zu more of this kind (--all lists them)\n",
			count - shown);
}

/*
 * True of every OFED and in no way wrong: a line for all that share it. "2 modules are out of tree
 * and unsigned: they taint the kernel (OE)"
 */
static void print_taints(const struct table *table)
{
	unsigned int counts[1U << ARRAY_SIZE(taints)] = { 0 };
	bool begun = false;

	for (size_t i = 0; i < table->row_count; i++)
		counts[taints_of(&table->rows[i].member->proof)]++;
	for (size_t i = 0; i < table->row_count; i++) {
		unsigned int mask = taints_of(&table->rows[i].member->proof);
		unsigned int count = counts[mask];
		char letters[ARRAY_SIZE(taints) + 1] = "";

		counts[mask] = 0;
		if (!mask || !count)
			continue;
		if (!begun)
			text_print(stdout, "\ntaints (note)\n");
		begun = true;
		if (count == 1)
			text_print(stdout, "  %s is ", table->rows[i].label);
		else
			text_print(stdout, "  %u modules are ", count);
		for (size_t t = 0; t < ARRAY_SIZE(taints); t++) {
			if (!(mask & 1U << t))
				continue;
			mask &= ~(1U << t);
			text_print(stdout, "%s%s", taints[t].text,
				!mask               ? ""
				: mask & (mask - 1) ? ", "
						    : " and ");
			if (!strchr(letters, taints[t].letter))
				letters[strlen(letters)] = taints[t].letter;
		}
		text_print(stdout, ": %s the kernel (%s)\n",
			count == 1 ? "it taints" : "they taint", letters);
	}
}

static void print_reasons(const struct table *table)
{
	const struct proof *set = &table->verify->set.findings;
	struct reasons reasons = { 0 };
	size_t count = set->count;

	for (size_t i = 0; i < table->row_count; i++)
		count += table->rows[i].member->proof.count;
	reasons.items = xcalloc(count, sizeof(*reasons.items));
	for (size_t i = 0; i < table->row_count; i++)
		add_reasons(&reasons, table, &table->rows[i].member->proof, &table->rows[i]);
	add_reasons(&reasons, table, set, NULL);
	for (enum proof_weight weight = PROOF_REFUSAL; weight <= PROOF_NOTE; weight++)
		for (size_t i = 0; i < reasons.count; i++)
			if (!reasons.items[i].shown && reasons.items[i].finding->weight == weight)
				print_kind(table, &reasons, i);
	if (!table->verify->all)
		print_taints(table);
	free(reasons.items);
}

/* --- the whole --- */

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* Prints what is judged, for which kernel, and what was not available. */
static void print_header(const struct table *table)
{
	const struct verify *verify = table->verify;
	const struct verify_kernel *kernel = &verify->kernel;
	const char *vermagic = kernel->facts.vermagic;
	const struct symvers *symvers = kernel->facts.symvers;
	size_t length = vermagic ? strlen(vermagic) : 0;

	text_print(stdout, "kernel %s, vermagic ", kernel->krel ? kernel->krel : "(no release)");
	/* The kernel's own ends in a blank, which people need not see. */
	while (length && vermagic[length - 1] == ' ')
		length--;
	if (vermagic)
		text_print(stdout, "\"%.*s\"%s", (int) length, vermagic,
			proof_kernel_has_modversions(&kernel->facts)
				? ""
				: ", no MODVERSIONS: vermagic only");
	else
		text_print(stdout, "not known");
	if (symvers && symvers_count(symvers))
		text_print(stdout, ", %zu symbols", symvers_count(symvers));
	else
		text_print(stdout, ", no Module.symvers");
	text_print(stdout, ", %zu module%s\n", verify->set.member_count,
		plural(verify->set.member_count));
	/* Once, in place of a doubt for each symbol of each module. */
	if (!table->exports_known && kernel->facts.options.modules != PROOF_NO) {
		text_print(stdout,
			"the exports of this kernel are unknown, so no symbol can be checked");
		if (kernel->facts.running)
			text_print(stdout,
				": neither its Module.symvers nor its module files were found\n");
		else
			text_print(stdout,
				": add --with …/Module.symvers (from its headers package), or name "
				"its release: --kernel %s\n",
				kernel->krel ? kernel->krel : "KREL");
	}
	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];
		_cleanup_free_ char *list = xstrv_join(&input->skipped, ", ");
		_cleanup_free_ char *other = xstrv_join(&input->archs, ", ");

		if (input->archs.count)
			text_print(stdout,
				"%s: an index: its image for %s is checked here, not that for %s\n",
				input->name, input->arch ? input->arch : arch_here()->oci, other);
		if (input->skipped.count)
			text_print(stdout, "%s: modules for other kernels are skipped: %s\n",
				input->name, list);
		if (input->others.count && !verify_input_finds_none(input))
			text_print(stdout,
				"%s: it has no folder for %s, so all its modules are checked\n",
				input->name, kernel->krel);
	}
	for (size_t i = 0; i < kernel->notes.count; i++)
		text_print(stdout, "note: %s\n", kernel->notes.items[i]);
}

/*
 * Were most modules built for another release? Most of what follows is then one mistake, and no CRC
 * shows it as well as this.
 */
static void print_other_release(const struct table *table)
{
	const char *krel = table->verify->kernel.krel;
	const char *first = NULL;
	size_t count = 0, bad = 0;
	bool several = false;

	for (size_t i = 0; krel && i < table->row_count; i++) {
		const struct proof_member *member = table->rows[i].member;
		const char *vermagic =
			member->module ? elf_module_info(member->module, "vermagic") : NULL;
		size_t length = vermagic ? strcspn(vermagic, " ") : 0;

		if (!length || (strlen(krel) == length && memcmp(vermagic, krel, length) == 0))
			continue;
		first = first ? first : vermagic;
		several |= strncmp(first, vermagic, strcspn(first, " ") + 1) != 0;
		count++;
		bad += member->proof.verdict != PROOF_WILL_LOAD;
	}
	if (!bad || count * 2 <= table->row_count)
		return;
	if (count < table->row_count)
		text_print(stdout, "\n%zu of %zu modules were", count, table->row_count);
	else if (count == 1)
		text_print(stdout, "\nthe module was");
	else
		text_print(stdout, "\nall %zu modules were", count);
	if (several)
		text_print(stdout, " built for other kernels");
	else
		text_print(stdout, " built for %.*s", (int) strcspn(first, " "), first);
	text_print(stdout, ", not for %s", krel);
	if (table->verify->kernel.facts.options.modules != PROOF_NO)
		text_print(stdout,
			": use those for this kernel, or build them: slipway build --kernel %s",
			krel);
	(void) putchar('\n');
}

static void print_order(const struct verify *verify)
{
	const struct strv *order = &verify->set.order;

	if (order->count == 0) {
		text_print(stdout, "\n"
				   "no module will load, so there is no load order\n");
		return;
	}
	text_print(stdout, "\nin this order %s load:\n",
		verify->set.loading == verify->set.member_count ? "all modules"
								: "the loadable modules");
	for (size_t i = 0; i < verify->set.relied.count; i++)
		text_print(stdout, "     -  %s, which is %s\n", verify->set.relied.items[i],
			verify->kernel.facts.running ? "loaded already"
						     : "the kernel's own, or from --with");
	for (size_t i = 0; i < order->count; i++)
		text_print(stdout, "%6zu  %s\n", i + 1, order->items[i]);
}

/*
 * Returns the finding that decides the set's verdict if no module does; NULL: the numbers show it.
 */
static const struct proof_finding *decisive(const struct proof_set *set)
{
	bool refused = set->verdict == PROOF_WILL_NOT_LOAD;
	enum proof_weight weight = refused ? PROOF_REFUSAL : PROOF_DOUBT;

	if (set->verdict == PROOF_WILL_LOAD || (refused ? set->refused : set->unknown))
		return NULL;
	for (size_t i = 0; i < set->findings.count; i++)
		if (set->findings.findings[i].weight == weight)
			return &set->findings.findings[i];
	return NULL;
}

static void print_sum(const struct proof_set *set)
{
	const struct proof_finding *finding = decisive(set);
	size_t length = finding ? strnlen(finding->text, SUM_REASON_MAX) : 0;

	text_print(stdout, "\n%zu module%s: %zu will load, %zu will not, %zu cannot tell",
		set->member_count, plural(set->member_count), set->loading, set->refused,
		set->unknown);
	while (length && (finding->text[length] & 0xc0) == 0x80)
		length--;
	if (finding)
		text_print(stdout, "; but the set as a whole: %s: %.*s%s%s%s",
			proof_verdict_text(set->verdict), (int) length, finding->text,
			finding->text[length] ? "…" : "", *finding->cure ? ": " : "",
			finding->cure);
	(void) putchar('\n');
}

static bool are_signatures_good(const struct verify *verify)
{
	const struct proof_set *set = &verify->set;

	for (size_t i = 0; i < set->member_count; i++)
		if (set->members[i].proof.unchecked)
			return false;
	return verify->enforce && verify->kernel.facts.options.module_sig != PROOF_NO &&
	       set->verdict == PROOF_WILL_LOAD;
}

void verify_print(const struct verify *verify)
{
	struct table table = {
		.verify = verify,
		.exports_known = knows_exports(verify->kernel.facts.symvers),
	};

	name_inputs(&table);
	make_rows(&table);
	print_header(&table);
	print_other_release(&table);
	print_rows(&table);
	print_reasons(&table);
	if (verify->order)
		print_order(verify);
	verify_print_programs(verify);
	print_sum(&verify->set);
	if (are_signatures_good(verify))
		text_print(stdout, "signatures are enforced, and the kernel takes each module's\n");
	for (size_t i = 0; i < table.row_count; i++) {
		free(table.rows[i].name);
		free(table.rows[i].label);
	}
	free(table.rows);
	free(table.inputs);
}
