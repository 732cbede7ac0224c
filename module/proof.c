/* SPDX-License-Identifier: Apache-2.0 */
#include "module/proof.h"

#include <stdarg.h>
#include <string.h>

#include "module/proof_internal.h"

static char *copy_or_null(const char *text)
{
	return text ? strdup(text) : NULL;
}

static void finding_free(struct proof_finding *finding)
{
	free(finding->symbol);
	free(finding->exporter);
	free(finding->text);
	free(finding->cure);
}

static struct proof_finding *new_finding(struct proof_trial *trial)
{
	size_t capacity = trial->capacity ? trial->capacity * 2 : 4;
	struct proof_finding *findings = trial->proof.findings;

	if (trial->proof.count == trial->capacity) {
		findings = reallocarray(findings, capacity, sizeof(*findings));
		if (!findings)
			return NULL;
		trial->proof.findings = findings;
		trial->capacity = capacity;
	}
	return &findings[trial->proof.count];
}

int proof_add(struct proof_trial *trial, const struct proof_draft *draft, const char *format, ...)
{
	struct proof_finding *finding = new_finding(trial);
	_cleanup_free_ char *text = NULL;
	va_list arguments;
	int length;

	if (!finding)
		return -ENOMEM;
	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		text = NULL;
		return -ENOMEM;
	}
	*finding = (struct proof_finding){
		.id = draft->id,
		.weight = draft->weight,
		.answer = draft->weight == PROOF_NOTE ? 0 : draft->answer,
		.symbol = copy_or_null(draft->symbol),
		.exporter = copy_or_null(draft->exporter),
		.has_crcs = draft->has_crcs,
		.wanted_crc = draft->wanted_crc,
		.found_crc = draft->found_crc,
		.cure = strdup(draft->cure ? draft->cure : ""),
	};
	if (asprintf(&finding->text, "%s: %s", trial->name, text) < 0)
		finding->text = NULL;
	trial->proof.count++; /* so that what it has is freed with the others */
	return !finding->text || !finding->cure || (draft->symbol && !finding->symbol) ||
			       (draft->exporter && !finding->exporter)
		       ? -ENOMEM
		       : 0;
}

/* Stable, and linear where nothing is out of place: findings are few. */
static void sort_findings(struct proof *proof)
{
	for (size_t i = 1; i < proof->count; i++) {
		struct proof_finding moved = proof->findings[i];
		size_t place = i;

		for (; place && proof->findings[place - 1].weight > moved.weight; place--)
			proof->findings[place] = proof->findings[place - 1];
		proof->findings[place] = moved;
	}
}

void proof_conclude(struct proof *proof)
{
	sort_findings(proof);
	proof->verdict = PROOF_WILL_LOAD;
	if (proof->count && proof->findings[0].weight == PROOF_REFUSAL)
		proof->verdict = PROOF_WILL_NOT_LOAD;
	else if (proof->count && proof->findings[0].weight == PROOF_DOUBT)
		proof->verdict = PROOF_CANNOT_TELL;
	proof->answer = proof->count ? proof->findings[0].answer : 0;
}

enum proof_weight proof_weight_without(enum proof_option option)
{
	static const enum proof_weight weights[] = {
		[PROOF_UNKNOWN] = PROOF_DOUBT,
		[PROOF_NO] = PROOF_REFUSAL,
		[PROOF_YES] = PROOF_NOTE,
	};

	return weights[option];
}

/* What messages call it: its own name, or its file's where it is too old to state one. */
static const char *name_of(const struct elf_module *module)
{
	const char *name = elf_module_name(module);
	const char *slash = strrchr(elf_module_path(module), '/');

	if (name)
		return name;
	return slash ? slash + 1 : elf_module_path(module);
}

bool proof_kernel_has_modversions(const struct proof_kernel *kernel)
{
	return kernel->vermagic && proof_has_word(kernel->vermagic, "modversions");
}

int proof_module_among(const struct elf_module *module, const struct proof_kernel *kernel,
	const struct proof_overlay *overlay, struct proof *ret)
{
	struct proof_trial trial = {
		.module = module,
		.kernel = kernel,
		.overlay = overlay,
		.name = name_of(module),
		.version = kernel->version ? kernel->version : proof_version(kernel->vermagic),
		.modversions = proof_kernel_has_modversions(kernel),
		.proprietary = !proof_license_is_gpl(elf_module_info(module, "license")),
	};
	int r = proof_judge_layout(&trial);

	if (r == 0)
		r = proof_judge_vermagic(&trial);
	if (r == 0)
		r = proof_judge_symbols(&trial);
	if (r < 0) {
		proof_free(&trial.proof);
		return r;
	}
	proof_conclude(&trial.proof);
	*ret = trial.proof;
	return 0;
}

int proof_module(
	const struct elf_module *module, const struct proof_kernel *kernel, struct proof *ret)
{
	return proof_module_among(module, kernel, NULL, ret);
}

/* What elf_module_open() minds of the file itself, and what kept it from reading it. */
static bool is_about_the_file(int code)
{
	return code == -EINVAL || code == -ENOEXEC || code == -EBADMSG || code == -ENODATA ||
	       code == -EFBIG;
}

int proof_unreadable(const char *name, int code, const struct error *open_error, struct proof *ret)
{
	struct proof_trial trial = { .name = name };
	bool refused = is_about_the_file(code);
	const struct proof_draft draft = {
		.id = refused ? "format" : "unreadable",
		.weight = refused ? PROOF_REFUSAL : PROOF_DOUBT,
		.answer = ENOEXEC,
		.cure = refused ? "build it, or copy it, anew" : "make it readable and try again",
	};
	const char *text = open_error->text;
	size_t length = strlen(name);
	int r;

	/* Most messages begin with the name that we put in front. */
	if (strncmp(text, name, length) == 0 && strncmp(text + length, ": ", 2) == 0)
		text += length + 2;
	r = proof_add(&trial, &draft, "%s", text);
	if (r < 0) {
		proof_free(&trial.proof);
		return r;
	}
	proof_conclude(&trial.proof);
	*ret = trial.proof;
	return 0;
}

int proof_answer(const struct proof *proof)
{
	return proof->answer;
}

void proof_free(struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++)
		finding_free(&proof->findings[i]);
	free(proof->findings);
	*proof = (struct proof){ 0 };
}

const char *proof_verdict_text(enum proof_verdict verdict)
{
	static const char *const texts[] = {
		[PROOF_WILL_LOAD] = "will load",
		[PROOF_WILL_NOT_LOAD] = "will not load",
		[PROOF_CANNOT_TELL] = "cannot tell",
	};

	return texts[verdict];
}

const char *proof_weight_text(enum proof_weight weight)
{
	static const char *const texts[] = {
		[PROOF_REFUSAL] = "refusal",
		[PROOF_DOUBT] = "doubt",
		[PROOF_NOTE] = "note",
	};

	return texts[weight];
}

char *proof_finding_line(const struct proof_finding *finding)
{
	char *line = NULL;

	if (asprintf(&line, "%s%s%s", finding->text, *finding->cure ? ": " : "", finding->cure) < 0)
		return NULL;
	return line;
}
