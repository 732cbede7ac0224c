/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what becomes of the load proof's verdict: which reason, what text, and whether the start
 * goes on.
 */
#include "tests/unit/support.h"

#include "entrypoint/contract.h"
#include "entrypoint/role/prove.h"
#include "module/running.h"

#define KREL  "6.1.0-1-test"
#define FACTS KERNEL_FACTS_FOLDER "/" KREL "/" KERNEL_FACTS_FILE

#define _cleanup_running_ _cleanup_(running_close)

/* A node whose kernel is of build "#1", and a proof with at most one finding. */
struct trial {
	struct running *running;
	struct strv symvers;
	struct proof_finding finding;
	struct proof_member member;
	struct proof_set set;
	struct judgement judgement;
	enum reason reason;
	struct error text;
};

static void trial_open_with(struct trial *trial, const struct folder *folder, const char *vermagic,
	const char *build, const char *modules)
{
	char *drivers[] = { "ofed", NULL };
	const struct strv lists = { drivers, 1, 2 };
	struct running_sources sources = {
		.krel = KREL, .build = "#1", .facts = FACTS, .driver_symvers = &lists
	};
	_cleanup_free_ char *facts = NULL;
	struct error error = { 0 };

	assert_true(asprintf(&facts, "vermagic=%s\nbuild=%s\n", vermagic, build) > 0);
	folder_write_text(folder, FACTS, facts);
	folder_write_text(folder, "proc/modules", modules);
	folder_write_text(folder, "symvers", "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n");
	*trial = (struct trial){ .reason = REASON_NONE };
	assert_int_equal(strv_push(&trial->symvers, "symvers"), 0);
	sources.symvers = &trial->symvers;
	if (running_open(folder->fd, &sources, &trial->running, &error) < 0)
		fail_msg("%s", error.text);
	trial->set.kernel = running_kernel(trial->running);
	trial->set.members = &trial->member;
	trial->set.member_count = 1;
	trial->judgement = (struct judgement){
		.set = &trial->set,
		.running = trial->running,
		.krel = KREL,
		.ofed_version = "24.07",
		.ofed_loaded = "25.01",
	};
}

static void trial_open(
	struct trial *trial, const struct folder *folder, const char *vermagic, const char *build)
{
	trial_open_with(trial, folder, vermagic, build, "");
}

static void trial_done(struct trial *trial)
{
	running_close(&trial->running);
	strv_free(&trial->symvers);
}

static void find(struct trial *trial, enum proof_verdict verdict, enum proof_weight weight,
	const char *id, const char *text)
{
	static char symbol[] = CONTRACT_PEER_REGISTER;
	static char cure[] = "do this";

	trial->finding = (struct proof_finding){ .id = id, .weight = weight, .cure = cure };
	trial->finding.text = (char *) (uintptr_t) text;
	if (strstr(text, CONTRACT_PEER_REGISTER))
		trial->finding.symbol = symbol;
	trial->member.proof.findings = &trial->finding;
	trial->member.proof.count = 1;
	trial->member.proof.verdict = verdict;
	trial->set.verdict = verdict;
	trial->set.refused = verdict == PROOF_WILL_NOT_LOAD;
	trial->set.unknown = verdict == PROOF_CANNOT_TELL;
}

static int judge(struct trial *trial)
{
	trial->reason = REASON_NONE;
	return prove_judge(&trial->judgement, &trial->reason, &trial->text);
}

static void good_news_go_on(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	trial_open(&trial, *state, KREL " SMP modversions ", "#1");
	find(&trial, PROOF_WILL_LOAD, PROOF_NOTE, "unsigned", "m: it taints");
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), 0);
	assert_string_equal(trial.text.text, "1 modules will load");
}

static void a_refusal_stops_with_its_reason(void **state)
{
	static const struct {
		const char *id, *text;
		enum reason reason;
		const char *part;
	} cases[] = {
		{ "vermagic", "m: built for another", REASON_WILL_NOT_LOAD,
			"m: built for another: do this (1 of 1 modules will not load" },
		{ "unsigned", "m: unsigned", REASON_SIGNATURE_REFUSED, "m: unsigned: do this" },
		{ "signature-key", "m: signed by X", REASON_SIGNATURE_REFUSED, "do this" },
		{ "symbol-version", "nvidia_peermem: built for " CONTRACT_PEER_REGISTER " CRC 0x1",
			REASON_PEERMEM_OTHER_OFED,
			"built for OFED 24.07, but OFED 25.01 is loaded): build the GPU image" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(trial_done) struct trial trial;

		trial_open(&trial, *state, KREL " SMP modversions ", "#1");
		find(&trial, PROOF_WILL_NOT_LOAD, PROOF_REFUSAL, cases[i].id, cases[i].text);
		assert_int_equal(judge(&trial), -ENOEXEC);
		assert_int_equal(trial.reason, cases[i].reason);
		assert_contains(trial.text.text, cases[i].part);
	}
}

/* Nothing is lost by trying where nothing has to go. */
static void a_doubt_costs_no_working_driver(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	trial_open(&trial, *state, KREL " SMP modversions ", "#1");
	find(&trial, PROOF_CANNOT_TELL, PROOF_DOUBT, "symbol-version", "m: not known");
	assert_int_equal(judge(&trial), 0);
	assert_contains(trial.text.text, "cannot tell");
	assert_contains(trial.text.text, "m: not known");
	assert_contains(trial.text.text, "the kernel will decide");
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_CANNOT_TELL);
	assert_contains(trial.text.text, "m: not known");
	assert_contains(trial.text.text, "a working driver would have to be unloaded first");
}

static void a_doubt_of_the_set_counts(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	trial_open(&trial, *state, KREL " SMP modversions ", "#1");
	find(&trial, PROOF_CANNOT_TELL, PROOF_DOUBT, "depends", "of the set");
	trial.set.findings = trial.member.proof;
	trial.member.proof = (struct proof){ .verdict = PROOF_WILL_LOAD };
	trial.set.unknown = 0;
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_contains(trial.text.text, "of the set");
}

static void another_build_is_the_cause_of_all(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	trial_open(&trial, *state, KREL " SMP modversions ", "#2");
	find(&trial, PROOF_WILL_NOT_LOAD, PROOF_REFUSAL, "symbol-version", "m: printk");
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_KERNEL_REBUILT);
	assert_contains(trial.text.text, "is another build (\"#1\")");
	assert_contains(trial.text.text, "m: printk");
	find(&trial, PROOF_CANNOT_TELL, PROOF_DOUBT, "symbol-version", "m: printk");
	assert_int_equal(judge(&trial), 0);
	assert_contains(trial.text.text, "is another build (\"#1\")");
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_KERNEL_REBUILT);
	/* A signature is not a matter of builds. */
	find(&trial, PROOF_WILL_NOT_LOAD, PROOF_REFUSAL, "unsigned", "m: unsigned");
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_SIGNATURE_REFUSED);
}

/* The kernel compares no CRCs and would take the modules of the other build. */
static void another_build_without_modversions_is_a_doubt(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	trial_open(&trial, *state, KREL " SMP ", "#2");
	find(&trial, PROOF_WILL_LOAD, PROOF_NOTE, "no-versions", "vermagic only");
	assert_int_equal(judge(&trial), 0);
	assert_contains(trial.text.text, "cannot tell");
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_KERNEL_REBUILT);
}

/* Nothing ties the kernel to the build: its name is no proof. */
static void an_unknown_build_keeps_a_working_driver(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	trial_open(&trial, *state, KREL " SMP ", "");
	find(&trial, PROOF_WILL_LOAD, PROOF_NOTE, "no-versions", "vermagic only");
	assert_int_equal(judge(&trial), 0);
	assert_string_equal(trial.text.text, "1 modules will load");
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_CANNOT_TELL);
	assert_contains(trial.text.text, "nothing shows that the running kernel is the build");
}

/* The list of a driver is of a loaded module by its name alone. */
static void a_list_without_a_build_id_keeps_a_working_driver(void **state)
{
	_cleanup_(trial_done) struct trial trial;

	folder_write_text(*state, "ofed", "0x00004321\theard\t/src/ib-uverbs\tEXPORT_SYMBOL\t\n");
	trial_open_with(&trial, *state, KREL " SMP modversions ", "#1",
		"ib_uverbs 180224 0 - Live 0x0000000000000000 (OE)\n");
	find(&trial, PROOF_WILL_LOAD, PROOF_NOTE, "unsigned", "m: it taints");
	assert_int_equal(judge(&trial), 0);
	assert_contains(trial.text.text, "1 modules will load; the exports of ib_uverbs are");
	trial.judgement.replacing = true;
	assert_int_equal(judge(&trial), -ENOEXEC);
	assert_int_equal(trial.reason, REASON_CANNOT_TELL);
	assert_contains(trial.text.text, "known only from its driver's list");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(good_news_go_on),
		folder_test(a_refusal_stops_with_its_reason),
		folder_test(a_doubt_costs_no_working_driver),
		folder_test(a_doubt_of_the_set_counts),
		folder_test(another_build_is_the_cause_of_all),
		folder_test(another_build_without_modversions_is_a_doubt),
		folder_test(an_unknown_build_keeps_a_working_driver),
		folder_test(a_list_without_a_build_id_keeps_a_working_driver),
	};

	return cmocka_run_group_tests_name("prove", tests, NULL, NULL);
}
