/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of the load proof but those of symbols, with the answer that finit_module(2) gives, and
 * by kernel version. */
#include <elf.h>

#include "tests/unit/trial.h"

static void a_kernel_without_modules_takes_none(void **state)
{
	expect_plain(*state, "peer", ALL, (struct proof_kernel){ .options.modules = PROOF_NO },
		"modules", PROOF_REFUSAL, ENOSYS);
}

static void another_architecture_is_all_that_is_reported(void **state)
{
	_cleanup_proof_ struct proof proof =
		prove(*state, "peer", LAYOUT, (struct proof_kernel){ .machine = EM_AARCH64 });

	assert_int_equal(proof.count, 1);
	assert_finding(&proof, "machine", PROOF_REFUSAL, ENOEXEC);
	assert_contains(proof.findings[0].text, "built for x86_64, but the kernel is for aarch64");
}

/* The mutant as a file for another machine, with a symbol of that one's in place of printk. */
static void move_to(struct mutant *mutant, uint16_t machine, const char symbol[7])
{
	struct error error = { 0 };
	char *place = mutant->data;

	memcpy(mutant->data + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof(machine));
	while ((place = memmem(place, mutant->size - (size_t) (place - mutant->data), "printk",
			sizeof("printk")))) {
		memcpy(place, symbol, sizeof("printk"));
		place++;
	}
	elf_module_close(&mutant->module);
	assert_int_equal(elf_module_open_memory(
				 mutant->data, mutant->size, "moved.ko", &mutant->module, &error),
		0);
}

static void an_architecture_that_is_not_read_is_a_doubt_for_its_kernel(void **state)
{
	struct proof_kernel kernel = { .machine = EM_S390, .version = PROOF_VERSION(6, 1) };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "peer", NULL, NULL, 0);
	mutant.data[EI_DATA] = ELFDATA2MSB;
	move_to(&mutant, EM_S390 << 8, "printk");
	expect(*state, &mutant, ALL, kernel, "machine", PROOF_DOUBT, ENOEXEC);
	kernel.machine = 0;
	expect(*state, &mutant, ALL, kernel, "machine", PROOF_DOUBT, ENOEXEC);
	kernel.machine = EM_X86_64;
	expect(*state, &mutant, ALL, kernel, "machine", PROOF_REFUSAL, ENOEXEC);
}

static void the_toc_of_powerpc_is_exported_by_no_module(void **state)
{
	struct proof_kernel kernel = { .machine = EM_PPC64 };
	_cleanup_mutant_ struct mutant mutant = { 0 }, other = { 0 };

	mutant_make(&mutant, "peer", NULL, NULL, 0);
	move_to(&mutant, EM_PPC64, ".TOC.\0");
	expect(*state, &mutant, LAYOUT PEER, kernel, NULL, PROOF_NOTE, 0);
	mutant_make(&other, "peer", NULL, NULL, 0);
	move_to(&other, EM_AARCH64, ".TOC.\0");
	kernel.machine = EM_AARCH64;
	expect(*state, &other, LAYOUT PEER, kernel, "symbol-missing", PROOF_REFUSAL, ENOENT);
}

static void the_size_of_struct_module_counts_since_6_4(void **state)
{
	struct proof_kernel kernel = { .struct_size = 64 };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "gap", NULL, NULL, 0);
	kernel.missing_versions = PROOF_YES;
	expect(*state, &mutant, ALL, kernel, "struct-size", PROOF_NOTE, 0);
	kernel.version = PROOF_VERSION(6, 4);
	expect(*state, &mutant, ALL, kernel, "struct-size", PROOF_REFUSAL, ENOEXEC);
	/* The kernel writes all of its own, so that a smaller one is worse. */
	kernel.struct_size = 100000;
	kernel.version = PROOF_VERSION(6, 1);
	expect(*state, &mutant, ALL, kernel, "struct-size", PROOF_REFUSAL, ENOEXEC);
	kernel.version = PROOF_VERSION(6, 4);
	kernel.struct_size = elf_module_struct_size(mutant.module);
	assert_true(kernel.struct_size > 64);
	expect(*state, &mutant, ALL, kernel, NULL, PROOF_NOTE, 0);
}

static void what_the_command_line_forbids_is_refused(void **state)
{
	char *names[] = { "other", "peer", NULL };
	const struct strv blacklist = { names, 2, 3 };
	const struct strv others = { names, 1, 2 };

	expect_plain(*state, "peer", ALL, (struct proof_kernel){ .blacklist = &blacklist },
		"blacklisted", PROOF_REFUSAL, EPERM);
	expect_plain(*state, "peer", ALL, (struct proof_kernel){ .blacklist = &others }, NULL,
		PROOF_NOTE, 0);
}

static void a_vermagic_is_compared_to_its_last_space(void **state)
{
	static const char *const changes[] = { "modversions ", "modversion_ ", NULL };
	_cleanup_mutant_ struct mutant other = { 0 }, shorter = { 0 };

	mutant_make(&other, "peer", changes, NULL, 0);
	expect(*state, &other, ALL, (struct proof_kernel){ 0 }, "vermagic", PROOF_REFUSAL, ENOEXEC);
	mutant_make(&shorter, "peer", NULL, NULL, 0);
	expect(*state, &shorter, ALL,
		(struct proof_kernel){
			.vermagic = "6.1.0-1-test SMP preempt mod_unload modversions" },
		NULL, PROOF_NOTE, 0);
	expect(*state, &shorter, ALL,
		(struct proof_kernel){
			.vermagic = "6.1.0-1-test SMP preempt mod_unload modversions  " },
		"vermagic", PROOF_REFUSAL, ENOEXEC);
	/* The one is the other's beginning. */
	expect(*state, &shorter, ALL,
		(struct proof_kernel){
			.vermagic = "6.1.0-1-test SMP preempt mod_unload modversions RT" },
		"vermagic", PROOF_REFUSAL, ENOEXEC);
	expect(*state, &shorter, ALL,
		(struct proof_kernel){ .vermagic = "6.1.0-1-test SMP preempt mod_unload" },
		"vermagic", PROOF_REFUSAL, ENOEXEC);
}

static void without_a_vermagic_it_takes_force(void **state)
{
	static const char *const changes[] = { "vermagic=", "vermagix=", NULL };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "peer", changes, NULL, 0);
	expect(*state, &mutant, ALL, (struct proof_kernel){ .options.force_load = PROOF_NO },
		"no-vermagic", PROOF_REFUSAL, ENOEXEC);
	expect(*state, &mutant, ALL, (struct proof_kernel){ .options.force_load = PROOF_YES },
		"no-vermagic", PROOF_NOTE, 0);
}

static void a_kernel_of_unknown_vermagic_is_a_doubt(void **state)
{
	_cleanup_mutant_ struct mutant mutant = { 0 };
	_cleanup_symvers_ struct symvers *symvers = symvers_of(*state, ALL);
	const struct proof_kernel kernel = { .symvers = symvers, .krel = "6.1.0-1-test" };
	_cleanup_proof_ struct proof proof = { 0 };

	mutant_make(&mutant, "peer", NULL, NULL, 0);
	assert_int_equal(proof_module(mutant.module, &kernel, &proof), 0);
	assert_finding(&proof, "vermagic-unknown", PROOF_DOUBT, ENOEXEC);
	assert_int_equal(proof.verdict, PROOF_CANNOT_TELL);
}

static void without_modversions_the_words_are_vermagic_only(void **state)
{
	_cleanup_proof_ struct proof proof = prove(*state, "unversioned", PRINTK,
		(struct proof_kernel){ .vermagic = "6.1.0-1-test SMP preempt mod_unload " });

	assert_int_equal(proof.verdict, PROOF_WILL_LOAD);
	assert_finding(&proof, "vermagic-only", PROOF_NOTE, 0);
	assert_contains(finding_of(&proof, "vermagic-only")->text, "only vermagic");
}

static void another_release_is_worth_a_note(void **state)
{
	expect_plain(*state, "peer", ALL,
		(struct proof_kernel){
			.vermagic = "6.1.0-2-test SMP preempt mod_unload modversions " },
		"release", PROOF_NOTE, 0);
}

static void a_live_patch_needs_its_option(void **state)
{
	expect_plain(*state, "tainted", ALL, (struct proof_kernel){ .options.livepatch = PROOF_NO },
		"livepatch", PROOF_REFUSAL, ENOEXEC);
	expect_plain(*state, "tainted", ALL,
		(struct proof_kernel){ .options.livepatch = PROOF_YES }, "livepatch", PROOF_NOTE,
		0);
	expect_plain(*state, "tainted", ALL, (struct proof_kernel){ 0 }, "livepatch", PROOF_DOUBT,
		ENOEXEC);
}

static void what_the_kernel_complains_of_is_noted(void **state)
{
	static const char *const ids[] = { "out-of-tree", "staging", "test", "retpoline" };
	_cleanup_proof_ struct proof proof = prove(*state, "tainted", ALL,
		(struct proof_kernel){
			.options.livepatch = PROOF_YES, .options.retpoline = PROOF_YES });
	_cleanup_proof_ struct proof clean =
		prove(*state, "gap", ALL, (struct proof_kernel){ .missing_versions = PROOF_YES });
	_cleanup_proof_ struct proof closed =
		prove(*state, "proprietary", ALL, (struct proof_kernel){ 0 });

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_finding(&proof, ids[i], PROOF_NOTE, 0);
		assert_null(finding_of(&clean, ids[i]));
	}
	assert_null(finding_of(&proof, "proprietary"));
	assert_finding(&closed, "proprietary", PROOF_NOTE, 0);
}

static void the_kernel_goes_by_the_name_in_struct_module(void **state)
{
	static const char *const changes[] = { "name=ib_uverbs", "name=ib_others", NULL };
	const char *exports = LAYOUT PRINTK
		"0x00000001\tib_register_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\t\n";
	struct proof_kernel kernel = { .running = true };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "exporter", changes, NULL, 0);
	expect(*state, &mutant, exports, kernel, NULL, PROOF_NOTE, 0);
}

static void a_name_that_is_built_in_may_be_taken(void **state)
{
	char *names[] = { "peer", NULL };
	const struct strv builtin = { names, 1, 2 };
	const struct strv none = { 0 };
	struct proof_kernel kernel = { .builtin = &builtin };

	expect_plain(*state, "peer", ALL, kernel, "built-in", PROOF_DOUBT, EINVAL);
	kernel.builtin_shown = &builtin;
	expect_plain(*state, "peer", ALL, kernel, "built-in", PROOF_REFUSAL, EINVAL);
	kernel.builtin_shown = &none;
	expect_plain(*state, "peer", ALL, kernel, "built-in", PROOF_NOTE, 0);
}

static void what_is_no_module_at_all_has_a_verdict(void **state)
{
	_cleanup_proof_ struct proof damaged = { 0 }, hidden = { 0 }, empty = { 0 };
	struct error error = { .text = "x.ko: cut short" };

	(void) state;
	assert_int_equal(proof_unreadable("x.ko", -EINVAL, &error, &damaged), 0);
	assert_int_equal(damaged.verdict, PROOF_WILL_NOT_LOAD);
	assert_int_equal(damaged.answer, ENOEXEC);
	assert_string_equal(damaged.findings[0].text, "x.ko: cut short");
	assert_int_equal(proof_unreadable("x.ko", -EACCES, &error, &hidden), 0);
	assert_int_equal(hidden.verdict, PROOF_CANNOT_TELL);
	assert_int_equal(proof_unreadable("x.ko", -ENODATA, &error, &empty), 0);
	assert_int_equal(empty.answer, EINVAL);
}

static void releases_are_versions(void **state)
{
	(void) state;
	assert_int_equal(proof_version("6.1.0-56-amd64"), PROOF_VERSION(6, 1));
	assert_int_equal(proof_version("7.3-rc1"), PROOF_VERSION(7, 3));
	assert_int_equal(proof_version("6.12.48+deb13-amd64"), PROOF_VERSION(6, 12));
	assert_int_equal(proof_version("x"), 0);
	assert_int_equal(proof_version("6"), 0);
	assert_int_equal(proof_version("6.300"), 0);
	assert_int_equal(proof_version(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_kernel_without_modules_takes_none),
		folder_test(another_architecture_is_all_that_is_reported),
		folder_test(an_architecture_that_is_not_read_is_a_doubt_for_its_kernel),
		folder_test(the_toc_of_powerpc_is_exported_by_no_module),
		folder_test(the_size_of_struct_module_counts_since_6_4),
		folder_test(what_the_command_line_forbids_is_refused),
		folder_test(a_vermagic_is_compared_to_its_last_space),
		folder_test(without_a_vermagic_it_takes_force),
		folder_test(a_kernel_of_unknown_vermagic_is_a_doubt),
		folder_test(without_modversions_the_words_are_vermagic_only),
		folder_test(another_release_is_worth_a_note),
		folder_test(a_live_patch_needs_its_option),
		folder_test(what_the_kernel_complains_of_is_noted),
		folder_test(the_kernel_goes_by_the_name_in_struct_module),
		folder_test(a_name_that_is_built_in_may_be_taken),
		cmocka_unit_test(what_is_no_module_at_all_has_a_verdict),
		cmocka_unit_test(releases_are_versions),
	};

	return cmocka_run_group_tests_name("proof_rules", tests, NULL, NULL);
}
