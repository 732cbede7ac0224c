/* SPDX-License-Identifier: Apache-2.0 */
/* The load proof's rules of symbols: versions, name spaces, licences, and who exports them. */
#include "tests/unit/trial.h"

static void without_versions_it_takes_force(void **state)
{
	expect_plain(*state, "forgetful", ALL,
		(struct proof_kernel){ .options.force_load = PROOF_NO }, "no-versions",
		PROOF_REFUSAL, ENOEXEC);
	expect_plain(*state, "forgetful", ALL,
		(struct proof_kernel){ .options.force_load = PROOF_YES }, "no-versions", PROOF_NOTE,
		0);
	expect_plain(*state, "forgetful", ALL, (struct proof_kernel){ 0 }, "no-versions",
		PROOF_DOUBT, ENOEXEC);
}

static void exports_without_versions_take_force(void **state)
{
	static const char *const changes[] = { "__kcrctab", "__kcrcxxx", "__crc_ib_register",
		"__xxx_ib_register", NULL };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "exporter", changes, NULL, 0);
	expect(*state, &mutant, LAYOUT PRINTK,
		(struct proof_kernel){ .options.force_load = PROOF_NO }, "exports-without-versions",
		PROOF_REFUSAL, ENOEXEC);
	expect_plain(*state, "exporter", LAYOUT PRINTK,
		(struct proof_kernel){ .options.force_load = PROOF_NO }, NULL, PROOF_NOTE, 0);
}

static void module_name_spaces_are_not_imported_since_6_16(void **state)
{
	static const char *const changes[] = { "import_ns=DMA_BUF", "import_ns=module:", NULL };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "proprietary", changes, NULL, 0);
	expect(*state, &mutant, ALL, (struct proof_kernel){ .version = PROOF_VERSION(6, 15) }, NULL,
		PROOF_NOTE, 0);
	expect(*state, &mutant, ALL, (struct proof_kernel){ .version = PROOF_VERSION(6, 16) },
		"module-import", PROOF_REFUSAL, EPERM);
	/* Before, such a name was one like any other. */
	expect(*state, &mutant, LAYOUT "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tmodule:\n",
		(struct proof_kernel){ .version = PROOF_VERSION(6, 12) }, NULL, PROOF_NOTE, 0);
}

static void an_import_that_is_missing_hangs_on_an_option(void **state)
{
	const char *behind = LAYOUT PEER "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tDMA_BUF\n";

	expect_plain(*state, "peer", behind,
		(struct proof_kernel){ .options.missing_imports = PROOF_NO }, "name-space",
		PROOF_REFUSAL, EINVAL);
	expect_plain(*state, "peer", behind,
		(struct proof_kernel){ .options.missing_imports = PROOF_YES }, "name-space",
		PROOF_NOTE, 0);
	expect_plain(*state, "peer", behind, (struct proof_kernel){ 0 }, "name-space", PROOF_DOUBT,
		EINVAL);
}

static void a_symbol_without_version_is_debians_to_refuse(void **state)
{
	expect_plain(*state, "gap", ALL, (struct proof_kernel){ .krel = "6.1.0-56-cloud-amd64" },
		"symbol-without-version", PROOF_REFUSAL, EINVAL);
	expect_plain(*state, "gap", ALL, (struct proof_kernel){ .krel = "7.2.9+deb14-arm64" },
		"symbol-without-version", PROOF_REFUSAL, EINVAL);
	expect_plain(*state, "gap", ALL, (struct proof_kernel){ .krel = "6.1.0-56-generic" },
		"symbol-without-version", PROOF_DOUBT, EINVAL);
	expect_plain(*state, "gap", ALL, (struct proof_kernel){ .missing_versions = PROOF_YES },
		"symbol-without-version", PROOF_NOTE, 0);
	expect_plain(*state, "gap", ALL,
		(struct proof_kernel){ .krel = "6.1.0-56-amd64", .missing_versions = PROOF_YES },
		"symbol-without-version", PROOF_NOTE, 0);
}

static void kernels_before_6_14_read_the_basic_versions_only(void **state)
{
	struct proof_kernel kernel = {
		.vermagic = "6.12.0-1-test SMP preempt mod_unload modversions "
	};

	/* The fixture's basic records lack module_layout, and have another CRC of printk. */
	kernel.missing_versions = PROOF_YES;
	expect_plain(*state, "extended", ALL, kernel, "symbol-version", PROOF_REFUSAL, EINVAL);
	kernel.missing_versions = PROOF_NO;
	expect_plain(
		*state, "extended", ALL, kernel, "symbol-without-version", PROOF_REFUSAL, ENOEXEC);
	kernel.vermagic = "6.14.0-1-test SMP preempt mod_unload modversions ";
	expect_plain(*state, "extended", ALL, kernel, NULL, PROOF_NOTE, 0);
}

static void the_answer_is_the_last_symbols_and_the_layout_comes_first(void **state)
{
	_cleanup_proof_ struct proof one =
		prove(*state, "peer", LAYOUT "0x00000008\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n",
			(struct proof_kernel){ 0 });
	_cleanup_proof_ struct proof other = prove(*state, "peer",
		LAYOUT "0x00000008\tib_register_peer_memory_client\tx\tEXPORT_SYMBOL\t\n",
		(struct proof_kernel){ 0 });
	_cleanup_proof_ struct proof layout =
		prove(*state, "peer", "0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n",
			(struct proof_kernel){ 0 });

	assert_int_equal(one.findings[0].answer + one.findings[1].answer, ENOENT + EINVAL);
	assert_int_equal(one.answer, one.findings[1].answer);
	assert_int_equal(other.answer, other.findings[1].answer);
	assert_int_not_equal(one.answer, other.answer);
	assert_int_equal(layout.answer, ENOEXEC);
}

static void a_crc_finding_has_both_and_the_exporter(void **state)
{
	_cleanup_proof_ struct proof proof = prove(*state, "peer",
		LAYOUT PRINTK
		"0x1c2d3e4f\tib_register_peer_memory_client\t/b/ib-core\tEXPORT_SYMBOL\t\n",
		(struct proof_kernel){ 0 });
	const struct proof_finding *finding = finding_of(&proof, "symbol-version");

	assert_non_null(finding);
	assert_string_equal(finding->symbol, "ib_register_peer_memory_client");
	assert_string_equal(finding->exporter, "ib_core");
	assert_true(finding->has_crcs);
	assert_int_equal(finding->wanted_crc, 0x8e6daf35);
	assert_int_equal(finding->found_crc, 0x1c2d3e4f);
	assert_int_equal(finding->answer, EINVAL);
}

static void put(struct symvers *symvers, const char *symbol, const char *module)
{
	const struct symvers_entry entry = {
		.symbol = symbol, .module = module, .export = "", .name_space = ""
	};

	assert_int_equal(symvers_put(symvers, &entry), 0);
}

static void what_is_not_known_is_a_doubt_that_names_it(void **state)
{
	_cleanup_symvers_ struct symvers *symvers = symvers_of(*state, LAYOUT);
	const struct proof_kernel kernel = { .vermagic = VERMAGIC, .symvers = symvers };
	_cleanup_mutant_ struct mutant mutant = { 0 };
	_cleanup_proof_ struct proof proof = { 0 };

	put(symvers, "printk", "vmlinux");
	put(symvers, "maybe", "vmlinux");
	put(symvers, "ib_register_peer_memory_client", "ib_uverbs");
	mutant_make(&mutant, "peer", NULL, NULL, 0);
	assert_int_equal(proof_module(mutant.module, &kernel, &proof), 0);
	assert_int_equal(proof.verdict, PROOF_CANNOT_TELL);
	assert_int_equal(proof.findings[1].weight, PROOF_DOUBT);
	assert_string_equal(proof.findings[0].exporter, "ib_uverbs");
	assert_contains(proof.findings[1].text, "1 other symbols of the kernel");
	assert_contains(proof.findings[1].cure, "Module.symvers");
}

static void a_proprietary_modules_symbols_taint_who_uses_them(void **state)
{
	char *names[] = { "ib_uverbs", NULL };
	const struct strv proprietary = { names, 1, 2 };
	const struct proof_kernel kernel = { .proprietary = &proprietary };
	const char *gpl = LAYOUT PEER "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL_GPL\t\n";
	_cleanup_proof_ struct proof proof = prove(*state, "peer", gpl, kernel);

	expect_plain(*state, "peer", ALL, kernel, "inherits-taint", PROOF_NOTE, 0);
	/*
	 * If there are GPL-only symbols too, the order in the file decides which finding refuses.
	 */
	assert_int_equal(proof.verdict, PROOF_WILL_NOT_LOAD);
	assert_int_equal(proof.answer, ENOENT);
	assert_true(finding_of(&proof, "tainted-exporter") || finding_of(&proof, "gpl-only"));
	expect_plain(*state, "peer", gpl, (struct proof_kernel){ 0 }, NULL, PROOF_NOTE, 0);
}

/* The rule came with 5.9, and later to some that are older. */
static void before_5_9_that_taint_may_not_be_inherited(void **state)
{
	char *names[] = { "ib_uverbs", NULL };
	const struct strv proprietary = { names, 1, 2 };
	struct proof_kernel kernel = { .proprietary = &proprietary };
	const char *gpl = LAYOUT PEER "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL_GPL\t\n";

	for (unsigned int i = 0; i < 2; i++) {
		kernel.version = i ? PROOF_VERSION(5, 9) : PROOF_VERSION(5, 8);
		_cleanup_proof_ struct proof proof = prove(*state, "peer", gpl, kernel);
		bool gpl_first = !finding_of(&proof, "gpl-only");

		assert_finding(&proof, gpl_first ? "tainted-exporter" : "gpl-only",
			i ? PROOF_REFUSAL : PROOF_DOUBT, ENOENT);
		assert_int_equal(proof.verdict, i ? PROOF_WILL_NOT_LOAD : PROOF_CANNOT_TELL);
	}
}

static void a_weak_symbol_that_is_hidden_is_just_not_there(void **state)
{
	static const char *const changes[] = { "license=Dual MIT/GPL", "license=Proprietary!",
		NULL };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "peer", changes, NULL, 0);
	expect(*state, &mutant, ALL "0x0000000f\tmaybe\tvmlinux\tEXPORT_SYMBOL_GPL\t\n",
		(struct proof_kernel){ 0 }, NULL, PROOF_NOTE, 0);
	expect(*state, &mutant, ALL "0x0000000f\tmaybe\tvmlinux\tEXPORT_SYMBOL\t\n",
		(struct proof_kernel){ 0 }, "symbol-version", PROOF_REFUSAL, EINVAL);
}

/* The kernel compares all of the 64 bits that a module has for a CRC. */
static void a_crc_of_more_than_32_bits_is_refused(void **state)
{
	static const char record[] = "\x3f\x32\x60\x90\0\0\0\0module_layout";
	_cleanup_mutant_ struct mutant mutant = { 0 };
	struct error error = { 0 };
	char *found;

	mutant_make(&mutant, "peer", NULL, NULL, 0);
	expect(*state, &mutant, ALL, (struct proof_kernel){ 0 }, NULL, PROOF_NOTE, 0);
	elf_module_close(&mutant.module);
	found = memmem(mutant.data, mutant.size, record, sizeof(record));
	assert_non_null(found);
	found[4] = 1;
	assert_int_equal(
		elf_module_open_memory(mutant.data, mutant.size, "peer", &mutant.module, &error),
		0);
	expect(*state, &mutant, ALL, (struct proof_kernel){ 0 }, "symbol-version", PROOF_REFUSAL,
		ENOEXEC);
}

static void a_symbol_is_exported_once(void **state)
{
	const char *twice =
		LAYOUT PRINTK "0x00000001\tib_register_peer_memory_client\t%s\tEXPORT_SYMBOL\t\n";
	static const struct {
		const char *module;
		bool running;
		enum proof_weight weight;
		int answer;
	} cases[] = {
		{ "vmlinux", false, PROOF_REFUSAL, ENOEXEC },
		{ "kernel/ib_core", true, PROOF_REFUSAL, ENOEXEC },
		{ "kernel/ib_core", false, PROOF_NOTE, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "%s%s%s", strtok(strdupa(twice), "%"), cases[i].module,
				    strstr(twice, "%s") + 2) > 0);
		expect_plain(*state, "exporter", text,
			(struct proof_kernel){ .running = cases[i].running }, "duplicate-export",
			cases[i].weight, cases[i].answer);
	}
	/* The one that it takes the place of. */
	expect_plain(*state, "exporter",
		LAYOUT PRINTK
		"0x00000001\tib_register_peer_memory_client\ta/ib-uverbs\tEXPORT_SYMBOL\t\n",
		(struct proof_kernel){ .running = true }, NULL, PROOF_NOTE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(without_versions_it_takes_force),
		folder_test(exports_without_versions_take_force),
		folder_test(module_name_spaces_are_not_imported_since_6_16),
		folder_test(an_import_that_is_missing_hangs_on_an_option),
		folder_test(a_symbol_without_version_is_debians_to_refuse),
		folder_test(kernels_before_6_14_read_the_basic_versions_only),
		folder_test(the_answer_is_the_last_symbols_and_the_layout_comes_first),
		folder_test(a_crc_finding_has_both_and_the_exporter),
		folder_test(what_is_not_known_is_a_doubt_that_names_it),
		folder_test(a_proprietary_modules_symbols_taint_who_uses_them),
		folder_test(before_5_9_that_taint_may_not_be_inherited),
		folder_test(a_weak_symbol_that_is_hidden_is_just_not_there),
		folder_test(a_crc_of_more_than_32_bits_is_refused),
		folder_test(a_symbol_is_exported_once),
	};

	return cmocka_run_group_tests_name("proof_symbols", tests, NULL, NULL);
}
