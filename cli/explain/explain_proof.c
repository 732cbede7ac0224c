/* SPDX-License-Identifier: Apache-2.0 */
/* Where a message tells only that it failed, the load proof knows why: same rules, same kernel. */
#include <errno.h>
#include <string.h>

#include "cli/explain/explain_owner.h"

#define SHOWN 4 /* of many findings alike */

static const struct {
	const char *id; /* of struct explain_entry */
	int number;
} answers[] = {
	{ "errno-enoexec", ENOEXEC },
	{ "errno-enoent", ENOENT },
	{ "errno-einval", EINVAL },
	{ "errno-esrch", ESRCH },
	{ "errno-ekeyrejected", EKEYREJECTED },
	{ "errno-enokey", ENOKEY },
	{ "errno-ebadmsg", EBADMSG },
	{ "errno-enopkg", ENOPKG },
	{ "errno-eperm", EPERM },
	{ "errno-eexist", EEXIST },
	{ "errno-elibbad", ELIBBAD },
};

static const struct {
	const char *id; /* of struct proof_finding; one that ends with '-' is a beginning */
	enum explain_input input;
} inputs[] = {
	{ "machine", EXPLAIN_ARCH },
	{ "format", EXPLAIN_FILE },
	{ "unreadable", EXPLAIN_FILE },
	{ "unsigned", EXPLAIN_SIGNATURE },
	{ "signature-", EXPLAIN_SIGNATURE },
	{ "gpl-only", EXPLAIN_LICENCE },
	{ "proprietary", EXPLAIN_LICENCE },
	{ "tainted-exporter", EXPLAIN_LICENCE },
	{ "inherits-taint", EXPLAIN_LICENCE },
	{ "name-space", EXPLAIN_NVIDIA },
	{ "module-import", EXPLAIN_NVIDIA },
	{ "duplicate-export", EXPLAIN_OFED },
	{ "blacklisted", EXPLAIN_NODE },
	{ "built-in", EXPLAIN_NODE },
};

static bool is_of(const char *id, const char *pattern)
{
	size_t length = strlen(pattern);

	return pattern[length - 1] == '-' ? strncmp(id, pattern, length) == 0
					  : strcmp(id, pattern) == 0;
}

static void find_input(const struct proof_finding *reason, const struct explain_witness *witness,
	struct explain_owner *owner)
{
	const char *name = elf_module_name(witness->module);

	*owner = (struct explain_owner){ .input = EXPLAIN_KERNEL };
	for (size_t i = 0; i < ARRAY_SIZE(inputs); i++) {
		if (!is_of(reason->id, inputs[i].id))
			continue;
		owner->input = inputs[i].input;
		/* A driver source's fault is that of the source at hand. */
		if (owner->input == EXPLAIN_NVIDIA && name)
			owner->input = explain_source_of(name);
		return;
	}
	if (reason->symbol)
		explain_owner_find(witness, reason->symbol, owner);
}

static int answer_of(const struct explain_finding *finding)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		if (strcmp(answers[i].id, finding->entry->id) == 0)
			return answers[i].number;
	return 0;
}

/* Does the proof's reason explain what the finding's line says? */
static bool explains(const struct proof_finding *reason, const struct explain_finding *finding,
	const struct explain_witness *witness)
{
	struct explain_owner owner;

	if (reason->weight != PROOF_REFUSAL)
		return false;
	if (finding->entry->rank == EXPLAIN_RESULT)
		return reason->answer == answer_of(finding);
	/* Of symbols the CRCs and exporters are told already. */
	find_input(reason, witness, &owner);
	return !reason->symbol && owner.input == finding->input;
}

/* A message without a cause gets the proof's: its input, and what to do. */
static int take_reason(struct explain_finding *finding, const struct proof_finding *reason,
	const struct explain_witness *witness)
{
	struct explain_owner owner;
	const char *remedy;

	find_input(reason, witness, &owner);
	remedy = owner.input == EXPLAIN_NODE ? reason->cure : explain_remedy_for(owner.input);
	/* The file itself told already what is wrong with its signature. */
	if (owner.input == EXPLAIN_SIGNATURE && explain_signature_remedy(witness->signed_state))
		remedy = explain_signature_remedy(witness->signed_state);
	free(finding->remedy);
	finding->remedy = strdup(remedy);
	finding->input = owner.input;
	finding->guessed = owner.guessed;
	return finding->remedy ? 0 : -ENOMEM;
}

static int add_reasons(
	struct explain_finding *finding, const struct explain_witness *witness, size_t *ret_count)
{
	const struct proof *proof = witness->proof;
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; i < proof->count && r == 0; i++) {
		const struct proof_finding *reason = &proof->findings[i];

		if (!explains(reason, finding, witness))
			continue;
		if (count == 0 && finding->entry->rank == EXPLAIN_RESULT)
			r = take_reason(finding, reason, witness);
		if (r == 0 && count++ < SHOWN)
			r = strv_push(&finding->evidence, reason->text);
	}
	if (r == 0 && count > SHOWN)
		r = strv_pushf(&finding->evidence, "%zu more like these: slipway verify lists them",
			count - SHOWN);
	*ret_count = count;
	return r;
}

/* What such inputs of a build spoil, the proof would have seen. */
static bool proof_would_see(const struct explain_finding *finding)
{
	if (finding->entry->rank == EXPLAIN_RESULT)
		return answer_of(finding) == ENOEXEC || answer_of(finding) == ENOENT;
	return strcmp(finding->entry->id, "vermagic") == 0 ||
	       strcmp(finding->entry->id, "struct-size") == 0;
}

/* The first refusal of the proof, where it is another than the line's. */
static const struct proof_finding *first_refusal(const struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++)
		if (proof->findings[i].weight == PROOF_REFUSAL)
			return &proof->findings[i];
	return NULL;
}

int explain_add_proof(struct explain_finding *finding, const struct explain_witness *witness)
{
	const struct proof_finding *other = first_refusal(witness->proof);
	size_t count;
	int r = add_reasons(finding, witness, &count);

	if (r < 0 || count)
		return r;
	if (other && finding->entry->rank == EXPLAIN_RESULT && answer_of(finding))
		return strv_pushf(&finding->evidence,
			"the load proof for %s expects another answer, \"%s\": %s", witness->kernel,
			strerror(other->answer), other->text);
	if (witness->proof->verdict != PROOF_WILL_LOAD || !proof_would_see(finding))
		return 0;
	r = strv_pushf(&finding->evidence,
		"by the load proof %s loads on %s: the node runs another kernel, or was given another "
		"file",
		witness->module_path, witness->kernel);
	return r < 0 ? r : explain_blame_node(finding);
}
