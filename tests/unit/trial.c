/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/trial.h"

static struct proof prove_mutant(const struct folder *folder, const struct mutant *mutant,
	const char *exports, struct proof_kernel kernel)
{
	_cleanup_symvers_ struct symvers *symvers = exports ? symvers_of(folder, exports) : NULL;
	struct proof proof = { 0 };

	if (!kernel.vermagic)
		kernel.vermagic = VERMAGIC;
	if (symvers)
		kernel.symvers = symvers;
	assert_int_equal(proof_module(mutant->module, &kernel, &proof), 0);
	return proof;
}

struct proof prove(const struct folder *folder, const char *fixture, const char *exports,
	struct proof_kernel kernel)
{
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, fixture, NULL, NULL, 0);
	return prove_mutant(folder, &mutant, exports, kernel);
}

void expect(const struct folder *folder, const struct mutant *mutant, const char *exports,
	struct proof_kernel kernel, const char *id, enum proof_weight weight, int answer)
{
	static const enum proof_verdict verdicts[] = {
		[PROOF_REFUSAL] = PROOF_WILL_NOT_LOAD,
		[PROOF_DOUBT] = PROOF_CANNOT_TELL,
		[PROOF_NOTE] = PROOF_WILL_LOAD,
	};
	_cleanup_proof_ struct proof proof = prove_mutant(folder, mutant, exports, kernel);

	if (id)
		assert_finding(&proof, id, weight, answer);
	else if (proof.count && proof.findings[0].weight != PROOF_NOTE)
		fail_msg("unexpected finding: %s", proof.findings[0].text);
	assert_int_equal(proof.verdict, id ? verdicts[weight] : PROOF_WILL_LOAD);
	assert_int_equal(proof.answer, id ? answer : 0);
}

void expect_plain(const struct folder *folder, const char *fixture, const char *exports,
	struct proof_kernel kernel, const char *id, enum proof_weight weight, int answer)
{
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, fixture, NULL, NULL, 0);
	expect(folder, &mutant, exports, kernel, id, weight, answer);
}
