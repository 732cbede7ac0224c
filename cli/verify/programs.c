/* SPDX-License-Identifier: Apache-2.0 */
/* Do the programs of the images start? Their verdicts, and how they are printed. */
#include "cli/verify/verify.h"

#include <string.h>

#include "common/text.h"
#include "common/xalloc.h"

#define FINDINGS_SHOWN 5 /* of a kind and an image, unless --all wants more */

void verify_judge_programs(struct verify *verify)
{
	verify->programs = xcalloc(verify->input_count, sizeof(*verify->programs));
	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];

		if (input->files)
			programs_judge(input->files, input->name, NULL, false,
				&verify->programs[verify->programs_count++]);
	}
}

bool verify_programs_start(const struct verify *verify)
{
	for (size_t i = 0; i < verify->programs_count; i++)
		if (!programs_start(&verify->programs[i]))
			return false;
	return true;
}

const char *verify_verdict_text(const struct verify *verify)
{
	return verify->set.verdict == PROOF_WILL_NOT_LOAD || verify_programs_start(verify)
		       ? proof_verdict_text(verify->set.verdict)
		       : "will not start";
}

/* Prints the findings from @first on that have its id and weight. */
static void print_kind(const struct verify *verify, const struct programs *programs, size_t first)
{
	const struct program_finding *kind = &programs->findings[first];
	const char *cure = "";
	size_t count = 0;

	text_print(stdout, "\n%s (%s)\n", kind->id, kind->weight);
	for (size_t i = first; i < programs->finding_count; i++) {
		const struct program_finding *finding = &programs->findings[i];

		if (strcmp(finding->id, kind->id) != 0 ||
			strcmp(finding->weight, kind->weight) != 0)
			continue;
		count++;
		if (count > FINDINGS_SHOWN && !verify->all)
			continue;
		text_print(stdout, "  %s: %s\n", programs->image, finding->text);
		cure = finding->cure;
	}
	if (*cure)
		text_print(stdout, "    do: %s\n", cure);
	if (count > FINDINGS_SHOWN && !verify->all)
		text_print(stdout, "  … and %zu more of this kind (--all lists them)\n",
			count - FINDINGS_SHOWN);
}

/* Is there one of its kind before it, which printed it? */
static bool is_printed(const struct programs *programs, size_t number)
{
	const struct program_finding *finding = &programs->findings[number];

	for (size_t i = 0; i < number; i++)
		if (strcmp(programs->findings[i].id, finding->id) == 0 &&
			strcmp(programs->findings[i].weight, finding->weight) == 0)
			return true;
	return false;
}

void verify_print_programs(const struct verify *verify)
{
	for (size_t i = 0; i < verify->programs_count; i++) {
		const struct programs *programs = &verify->programs[i];

		for (size_t k = 0; k < programs->finding_count; k++) {
			const struct program_finding *finding = &programs->findings[k];

			if ((verify->all || program_finding_is_refusal(finding)) &&
				!is_printed(programs, k))
				print_kind(verify, programs, k);
		}
	}
	if (verify->programs_count)
		(void) putchar('\n');
	for (size_t i = 0; i < verify->programs_count; i++) {
		const struct programs *programs = &verify->programs[i];

		text_print(stdout, "%s: %u of %u programs will start\n", programs->image,
			programs->starting, programs->count);
	}
}
