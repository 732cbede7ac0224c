// SPDX-License-Identifier: Apache-2.0
/*
 * The other side of the agreement test: asks the load proof about the very modules that a kernel
 * was given, and compares.
 *
 *   judge --name TEXT --krel KREL --config FILE --symvers FILE --like MODULE --builtin FILE \
 *         --output DIR [--trust CERTS] [--enforced HOW]
 *
 * DIR holds what mutate.c made (cases.tsv, modules/) and results.tsv, the kernel's answers:
 * "<index> <errno> [name taints]".
 * --like is a module of that kernel's own, for vermagic, machine and the size of struct module. HOW
 * is sig_enforce or lockdown. Writes DIR/judged.tsv: index, what the kernel said, what we say,
 * mutation, module, what exactly, our finding. Prints the confusion matrix, each disagreement, and
 * each "cannot tell" with its reason; exit status 1 when there is any of both.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "module/proof.h"
#include "module/sign.h"

#define CASES_MAX   65536
#define ANSWERS_MAX 256 /* errnos stay below */
#define NOT_ASKED   (-1)
#define CRASHED     (-2)

#define VERDICT_SIZE 48
#define FILE_LIMIT   ((size_t) 1 << 30)

struct result {
	int answer;
	bool proprietary;
};

struct options {
	const char *name, *krel, *config, *symvers, *like, *output, *trust, *enforced, *builtin;
};

struct judge {
	struct options options;
	struct proof_kernel kernel;
	struct module_cert *cert;
	struct elf_module *like;
	struct symvers *vmlinux; /* what is built in */
	struct symvers *loaded;  /* and what the kept modules export */
	struct strv proprietary;
	struct strv builtin, builtin_shown;
	struct result *results;
	size_t disagreements, undecided, dangerous, dangerous_taken, state, agreed;
	/* [the kernel's answer][our answer]; our last column is "cannot tell" */
	size_t matrix[ANSWERS_MAX][ANSWERS_MAX];
	FILE *judged;
};

#define CANNOT_TELL (ANSWERS_MAX - 1)

static void must(int r, const struct error *error)
{
	if (r < 0)
		errx(2, "%s", error->text);
}

/* ---- what is known of the kernel */

static enum proof_option option(const char *config, const char *name)
{
	char line[512], wanted[128];
	FILE *file = fopen(config, "r");
	bool found = false;

	if (!file)
		err(2, "%s", config);
	(void) snprintf(wanted, sizeof(wanted), "CONFIG_%s=y\n", name);
	while (fgets(line, sizeof(line), file))
		found |= strcmp(line, wanted) == 0;
	(void) fclose(file);
	return found ? PROOF_YES : PROOF_NO;
}

static unsigned int page_kib(const char *config)
{
	const struct arch_page *page = arch_pages;

	while (page->config && option(config, page->config) != PROOF_YES)
		page++;
	return page->kib;
}

static int verify(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	struct judge *judge = context;

	return module_signature_verify(module, size, &judge->cert, 1, ret, error);
}

static struct symvers *symvers_of_vmlinux(const char *path)
{
	struct symvers *all, *vmlinux;
	struct error error = { 0 };

	must(symvers_open(AT_FDCWD, path, &all, &error), &error);
	must(symvers_new(&vmlinux), &error);
	for (size_t i = 0; i < symvers_count(all); i++)
		if (strcmp(symvers_at(all, i)->module, "vmlinux") == 0)
			must(symvers_put(vmlinux, symvers_at(all, i)), &error);
	symvers_close(&all);
	return vmlinux;
}

/* Module names, one a line, of files or of folders in /sys/module. */
static void read_names(struct strv *names, const char *path)
{
	FILE *file = fopen(path, "r");
	struct error error = { 0 };
	char line[512];

	if (!file)
		err(2, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		char *name = strrchr(line, '/') ? strrchr(line, '/') + 1 : line;

		name[strcspn(name, ".\n")] = '\0';
		for (char *dash; (dash = strchr(name, '-'));)
			*dash = '_';
		must(strv_push(names, name), &error);
	}
	(void) fclose(file);
}

/* Finds what is built in, and which of it has a folder in /sys/module. */
static void set_builtin(struct judge *judge)
{
	char path[4096];

	(void) snprintf(path, sizeof(path), "%s/names", judge->options.output);
	read_names(&judge->builtin, judge->options.builtin);
	read_names(&judge->builtin_shown, path);
	judge->kernel.builtin = &judge->builtin;
	judge->kernel.builtin_shown = &judge->builtin_shown;
}

static void copy_symvers(struct symvers **to, const struct symvers *from)
{
	struct error error = { 0 };

	symvers_close(to);
	must(symvers_new(to), &error);
	for (size_t i = 0; i < symvers_count(from); i++)
		must(symvers_put(*to, symvers_at(from, i)), &error);
}

static void set_trust(struct judge *judge)
{
	const struct options *options = &judge->options;
	struct proof_trust *trust = &judge->kernel.trust;
	struct error error = { 0 };

	if (options->trust) {
		must(module_cert_read(AT_FDCWD, options->trust, &judge->cert, &error), &error);
		trust->verify = verify;
		trust->context = judge;
	}
	trust->enforced = options->enforced;
	trust->enforced_by = options->enforced;
	trust->lockdown = options->enforced && strcmp(options->enforced, "lockdown") == 0;
}

static void set_kernel(struct judge *judge)
{
	const struct options *options = &judge->options;
	struct proof_kernel *kernel = &judge->kernel;
	const char *config = options->config;
	struct error error = { 0 };

	must(elf_module_open(AT_FDCWD, options->like, &judge->like, &error), &error);
	judge->vmlinux = symvers_of_vmlinux(options->symvers);
	copy_symvers(&judge->loaded, judge->vmlinux);
	*kernel = (struct proof_kernel){
		.krel = options->krel,
		.vermagic = elf_module_info(judge->like, "vermagic"),
		.machine = elf_module_machine(judge->like),
		.struct_size = elf_module_struct_size(judge->like),
		.symvers = judge->loaded,
		.running = true,
		.options.force_load = option(config, "MODULE_FORCE_LOAD"),
		.options.missing_imports = option(config, "MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS"),
		.options.module_sig = option(config, "MODULE_SIG"),
		.options.livepatch = option(config, "LIVEPATCH"),
		.options.modules = option(config, "MODULES"),
		.options.module_plts = option(config, "ARM64_MODULE_PLTS"),
		.options.dynamic_ftrace = option(config, "DYNAMIC_FTRACE"),
		.options.shadow_stacks = option(config, "UNWIND_PATCH_PAC_INTO_SCS"),
		.options.page_kib = page_kib(config),
		.proprietary = &judge->proprietary,
	};
	kernel_options_of_module(judge->like, &kernel->options);
	set_trust(judge);
	set_builtin(judge);
}

/* ---- one case */

struct one {
	size_t index;
	char action;
	char module[128], mutation[256], detail[600];
};

/* A module that was loaded and stays is there for those that follow. */
static void keep(struct judge *judge, const struct one *one, const struct elf_module *module)
{
	const struct result *result = &judge->results[one->index];
	const char *name = elf_module_name(module);
	struct error error = { 0 };

	if (result->answer != 0)
		return;
	must(symvers_add_module(judge->loaded, module), &error);
	if (result->proprietary && name)
		must(strv_push(&judge->proprietary, name), &error);
}

/* A file that is no module may still have a signature, which the kernel looks at first. */
static void ask_unreadable(struct judge *judge, const struct one *one, const char *path, int code,
	const struct error *open_error, struct proof *proof)
{
	_cleanup_free_ char *bytes = NULL;
	struct error error = { 0 };
	size_t size = 0;

	must(fs_read(AT_FDCWD, path, FILE_LIMIT, &bytes, &size), open_error);
	must(proof_unreadable_bytes(
		     one->module, bytes, size, &judge->kernel, code, open_error, proof),
		&error);
}

static void ask(struct judge *judge, const struct one *one, struct proof *proof)
{
	struct elf_module *module = NULL;
	struct error error = { 0 };
	char path[4096];
	int r;

	(void) snprintf(path, sizeof(path), "%s/modules/%zu.ko", judge->options.output, one->index);
	r = elf_module_open(AT_FDCWD, path, &module, &error);
	if (r < 0) {
		ask_unreadable(judge, one, path, r, &error, proof);
		return;
	}
	must(proof_module(module, &judge->kernel, proof), &error);
	if (one->action == 'K')
		keep(judge, one, module);
	elf_module_close(&module);
}

static const char *answer_text(int answer, char text[32])
{
	if (answer == CRASHED || answer == NOT_ASKED)
		return answer == CRASHED ? "CRASHED" : "not asked";
	(void) snprintf(text, 32, "%s", answer ? strerrorname_np(answer) : "loads");
	return text;
}

static const char *verdict_text(const struct proof *proof, char text[VERDICT_SIZE])
{
	char name[32];

	if (proof->verdict != PROOF_WILL_NOT_LOAD)
		return proof_verdict_text(proof->verdict);
	(void) snprintf(text, VERDICT_SIZE, "not: %s", answer_text(proof->answer, name));
	return text;
}

static void tell(FILE *file, struct judge *judge, const struct one *one, const struct proof *proof)
{
	const struct result *result = &judge->results[one->index];
	char kernel[32], ours[VERDICT_SIZE];

	(void) fprintf(file, "%zu\t%s\t%s\t%s\t%s\t%s\t%s\n", one->index,
		answer_text(result->answer, kernel), verdict_text(proof, ours), one->mutation,
		one->module, one->detail, proof->count ? proof->findings[0].text : "");
}

/* A jump that no PLT reaches: the kernel loads it or crashes, by the addresses around it. */
static bool is_chance(int answer, const struct proof *proof)
{
	bool told = false;

	for (size_t i = 0; i < proof->count; i++)
		told |= strstr(proof->findings[i].text, "which no PLT reaches") != NULL;
	return told && (answer == 0 || answer == CRASHED);
}

static void count(struct judge *judge, const struct one *one, const struct proof *proof)
{
	int answer = judge->results[one->index].answer, ours = proof->answer;
	bool agrees;

	if (one->action == 'D') {
		judge->dangerous++;
		judge->dangerous_taken += proof->verdict != PROOF_WILL_NOT_LOAD;
		if (proof->verdict != PROOF_WILL_NOT_LOAD)
			tell(stdout, judge, one, proof);
		return;
	}
	if (is_chance(answer, proof)) {
		judge->state++;
		return;
	}
	if (answer >= 0 && answer < CANNOT_TELL)
		judge->matrix[answer][proof->verdict == PROOF_CANNOT_TELL ? CANNOT_TELL : ours]++;
	if (proof->verdict == PROOF_CANNOT_TELL) {
		judge->undecided++;
		printf("undecided: ");
		tell(stdout, judge, one, proof);
		return;
	}
	agrees = answer == ours;
	judge->agreed += agrees;
	judge->disagreements += !agrees;
	if (!agrees)
		tell(stdout, judge, one, proof);
}

static void decide(struct judge *judge, const struct one *one)
{
	struct proof proof = { 0 };

	if (one->action == 'U') {
		copy_symvers(&judge->loaded, judge->vmlinux);
		judge->kernel.symvers = judge->loaded;
		strv_free(&judge->proprietary);
		return;
	}
	if (one->action == 'X') {
		judge->state++;
		return;
	}
	ask(judge, one, &proof);
	tell(judge->judged, judge, one, &proof);
	count(judge, one, &proof);
	proof_free(&proof);
}

/* ---- files */

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
	char path[4096];
	FILE *file;

	(void) snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, mode);
	if (!file)
		err(2, "%s", path);
	return file;
}

static void read_results(struct judge *judge)
{
	FILE *file = open_in(judge->options.output, "results.tsv", "r");
	char line[512];

	judge->results = calloc(CASES_MAX, sizeof(*judge->results));
	if (!judge->results)
		err(2, "results");
	for (size_t i = 0; i < CASES_MAX; i++)
		judge->results[i].answer = NOT_ASKED;
	while (fgets(line, sizeof(line), file)) {
		char name[128] = "", taints[64] = "";
		size_t index;
		int answer;

		if (sscanf(line, "%zu %d %127s %63s", &index, &answer, name, taints) < 2 ||
			index >= CASES_MAX)
			errx(2, "results.tsv: %s", line);
		judge->results[index] = (struct result){ answer, strchr(taints, 'P') };
	}
	(void) fclose(file);
}

static void decide_all(struct judge *judge)
{
	FILE *file = open_in(judge->options.output, "cases.tsv", "r");
	char line[2048];

	judge->judged = open_in(judge->options.output, "judged.tsv", "w");
	while (fgets(line, sizeof(line), file)) {
		struct one one = { 0 };

		if (sscanf(line, "%zu\t%c\t%127[^\t]\t%255[^\t]\t%599[^\n]", &one.index,
			    &one.action, one.module, one.mutation, one.detail) < 4)
			errx(2, "cases.tsv: %s", line);
		decide(judge, &one);
	}
	(void) fclose(file);
	if (fclose(judge->judged) == EOF)
		err(2, "judged.tsv");
}

/* ---- the matrix */

static bool column_used(const struct judge *judge, size_t column)
{
	for (size_t row = 0; row < ANSWERS_MAX; row++)
		if (judge->matrix[row][column])
			return true;
	return false;
}

static bool row_used(const struct judge *judge, size_t row)
{
	for (size_t column = 0; column < ANSWERS_MAX; column++)
		if (judge->matrix[row][column])
			return true;
	return false;
}

static void print_matrix(const struct judge *judge)
{
	char text[32];

	printf("%-14s", "kernel \\ proof");
	for (size_t column = 0; column < ANSWERS_MAX; column++)
		if (column_used(judge, column))
			printf(" %14s", column == CANNOT_TELL ? "cannot tell"
					: column              ? answer_text((int) column, text)
							      : "will load");
	for (size_t row = 0; row < ANSWERS_MAX; row++) {
		if (!row_used(judge, row))
			continue;
		printf("\n%-14s", answer_text((int) row, text));
		for (size_t column = 0; column < ANSWERS_MAX; column++)
			if (column_used(judge, column))
				printf(" %14zu", judge->matrix[row][column]);
	}
	printf("\n%s: %zu agree, %zu disagree, %zu cannot tell; %zu that the kernel would not survive, of which %zu would "
	       "pass; %zu hang on what is loaded, and where\n",
		judge->options.name, judge->agreed, judge->disagreements, judge->undecided,
		judge->dangerous, judge->dangerous_taken, judge->state);
}

static void read_options(struct options *options, int argc, char **argv)
{
	const struct {
		const char *word;
		const char **value;
	} known[] = {
		{ "--name", &options->name },
		{ "--krel", &options->krel },
		{ "--config", &options->config },
		{ "--symvers", &options->symvers },
		{ "--like", &options->like },
		{ "--output", &options->output },
		{ "--trust", &options->trust },
		{ "--enforced", &options->enforced },
		{ "--builtin", &options->builtin },
	};

	for (int i = 1; i + 1 < argc; i += 2)
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strcmp(argv[i], known[k].word) == 0)
				*known[k].value = argv[i + 1];
	if (!options->name || !options->krel || !options->config || !options->symvers ||
		!options->like || !options->output || !options->builtin)
		errx(2, "an option is missing: see the head of judge.c");
}

int main(int argc, char **argv)
{
	static struct judge judge;

	read_options(&judge.options, argc, argv);
	set_kernel(&judge);
	read_results(&judge);
	decide_all(&judge);
	print_matrix(&judge);
	/* All of the kernel is known here: a proof that cannot tell has no excuse. */
	return judge.disagreements || judge.undecided || judge.dangerous_taken ? 1 : 0;
}
