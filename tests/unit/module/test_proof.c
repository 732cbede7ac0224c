/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "module/proof.h"

#define VERMAGIC "6.1.0-1-test SMP preempt mod_unload modversions "

#define LAYOUT     "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PRINTK     "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PEER       "0x8e6daf35\tib_register_peer_memory_client\t/b/ib_uverbs\tEXPORT_SYMBOL\t\n"
#define OTHER_PEER "0x1c2d3e4f\tib_register_peer_memory_client\t/b/ib_uverbs\tEXPORT_SYMBOL\t\n"

#define _cleanup_proof_ _cleanup_(proof_free)

/* Proves one fixture against a kernel given as vermagic and the text of its Module.symvers. */
static struct proof prove(
	const struct folder *folder, const char *fixture, const char *vermagic, const char *text)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	_cleanup_free_ char *path = NULL;
	struct proof proof = { 0 };
	struct error error = { 0 };

	assert_true(asprintf(&path, FIXTURES "/%s.ko", fixture) > 0);
	if (elf_module_open(AT_FDCWD, path, &module, &error) < 0)
		fail_msg("%s", error.text);
	folder_write_text(folder, "symvers", text);
	if (symvers_open(folder->fd, "symvers", &symvers, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(
		proof_module(module,
			&(struct proof_kernel){ .vermagic = vermagic, .symvers = symvers }, &proof),
		0);
	return proof;
}

/* Refusals and doubts; @text is contained in the first of them. */
static void expect_count(const struct proof *proof, size_t count, const char *text)
{
	size_t found = 0;

	for (size_t i = 0; i < proof->count; i++)
		found += proof->findings[i].weight != PROOF_NOTE;
	assert_int_equal(found, count);
	assert_contains(proof->findings[0].text, text);
}

static void expect(const struct folder *folder, const char *fixture, const char *vermagic,
	const char *text, enum proof_verdict verdict, const char *finding)
{
	_cleanup_proof_ struct proof proof = prove(folder, fixture, vermagic, text);

	_cleanup_free_ char *line = NULL;

	if (finding) {
		expect_count(&proof, 1, "");
		line = proof_finding_line(&proof.findings[0]);
		assert_string_equal(line, finding);
	} else if (proof.count && proof.findings[0].weight != PROOF_NOTE) {
		fail_msg("unexpected finding: %s", proof.findings[0].text);
	}
	assert_int_equal(proof.verdict, verdict);
}

static void a_module_built_for_this_kernel_will_load(void **state)
{
	expect(*state, "peer", VERMAGIC, LAYOUT PRINTK PEER, PROOF_WILL_LOAD, NULL);
}

static void another_release_with_the_same_crcs_will_load(void **state)
{
	expect(*state, "peer", "6.1.0-2-test SMP preempt mod_unload modversions ",
		LAYOUT PRINTK PEER, PROOF_WILL_LOAD, NULL);
	expect(*state, "peer", "6.1.0-2-test SMP preempt mod_unload modversions",
		LAYOUT PRINTK PEER, PROOF_WILL_LOAD, NULL);
}

static void another_crc_is_named_with_both_and_the_exporter(void **state)
{
	expect(*state, "peer", VERMAGIC, LAYOUT PRINTK OTHER_PEER, PROOF_WILL_NOT_LOAD,
		"peer: built for ib_register_peer_memory_client CRC 0x8e6daf35, but ib_uverbs "
		"exports 0x1c2d3e4f: rebuild it against the ib_uverbs that the kernel has");
	expect(*state, "peer", VERMAGIC,
		LAYOUT "0x00000008\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n" PEER, PROOF_WILL_NOT_LOAD,
		"peer: built for printk CRC 0x00000007, but the kernel exports 0x00000008: "
		"rebuild it against the headers of this kernel");
}

static void another_module_layout_is_refused(void **state)
{
	expect(*state, "peer", VERMAGIC,
		"0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n" PRINTK PEER,
		PROOF_WILL_NOT_LOAD,
		"peer: built for module_layout CRC 0x9060323f, but the kernel exports 0x00000001: "
		"rebuild it against the headers of this kernel");
}

static void a_symbol_that_nothing_exports_is_named(void **state)
{
	expect(*state, "peer", VERMAGIC, LAYOUT PRINTK, PROOF_WILL_NOT_LOAD,
		"peer: needs ib_register_peer_memory_client, which is exported neither by the "
		"kernel nor by a module loaded before it: also give the OFED that exports it (the "
		"NIC image, or its Module.symvers with --with); this module is needed only for "
		"GPUDirect RDMA");
	expect(*state, "peer", VERMAGIC, LAYOUT PEER, PROOF_WILL_NOT_LOAD,
		"peer: needs printk, which is exported neither by the kernel nor by a module "
		"loaded before it: rebuild it, or load the exporting module first");
}

static void a_weak_symbol_may_be_absent_but_not_different(void **state)
{
	expect(*state, "peer", VERMAGIC,
		LAYOUT PRINTK PEER "0x0000000a\tmaybe\tvmlinux\tEXPORT_SYMBOL\t\n", PROOF_WILL_LOAD,
		NULL);
	expect(*state, "peer", VERMAGIC,
		LAYOUT PRINTK PEER "0x0000000b\tmaybe\tvmlinux\tEXPORT_SYMBOL\t\n",
		PROOF_WILL_NOT_LOAD,
		"peer: built for maybe CRC 0x0000000a, but the kernel exports 0x0000000b: rebuild "
		"it against the headers of this kernel");
}

static void another_vermagic_beyond_the_release_is_refused(void **state)
{
	expect(*state, "peer", "6.1.0-1-test SMP mod_unload modversions ", LAYOUT PRINTK PEER,
		PROOF_WILL_NOT_LOAD,
		"peer: built for vermagic \"6.1.0-1-test SMP preempt mod_unload modversions\", but "
		"the kernel's is \"6.1.0-1-test SMP mod_unload modversions\": rebuild it against "
		"the headers of this kernel");
}

static void without_modversions_the_release_counts_and_crcs_do_not(void **state)
{
	const char *kernel = "0x00000000\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n";

	expect(*state, "unversioned", "6.1.0-1-test SMP preempt mod_unload ", kernel,
		PROOF_WILL_LOAD, NULL);
	expect(*state, "unversioned", "6.1.0-2-test SMP preempt mod_unload ", kernel,
		PROOF_WILL_NOT_LOAD,
		"unversioned.ko: built for vermagic \"6.1.0-1-test SMP preempt mod_unload\", but "
		"the kernel's is \"6.1.0-2-test SMP preempt mod_unload\": rebuild it against the "
		"headers of this kernel");
}

static void a_module_without_versions_is_refused_unless_forced(void **state)
{
	_cleanup_proof_ struct proof proof = prove(*state, "forgetful", VERMAGIC, LAYOUT PRINTK);
	_cleanup_proof_ struct proof other = prove(*state, "forgetful",
		"6.1.0-2-test SMP preempt mod_unload modversions ", LAYOUT PRINTK);

	assert_int_equal(proof.verdict, PROOF_CANNOT_TELL);
	expect_count(&proof, 1, "CONFIG_MODULE_FORCE_LOAD");
	/* Without versions the release counts, and no option of the kernel changes that. */
	assert_int_equal(other.verdict, PROOF_WILL_NOT_LOAD);
	assert_contains(other.findings[0].text, "vermagic");
}

static void extended_versions_are_compared(void **state)
{
	const char *vermagic = "6.14.0-1-test SMP preempt mod_unload modversions ";

	expect(*state, "extended", vermagic, LAYOUT PRINTK, PROOF_WILL_LOAD, NULL);
	expect(*state, "extended", vermagic,
		LAYOUT "0x00000001\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n", PROOF_WILL_NOT_LOAD,
		"extended: built for printk CRC 0x00000007, but the kernel exports 0x00000001: "
		"rebuild it against the headers of this kernel");
}

static void gpl_symbols_are_for_gpl_modules(void **state)
{
	const char *gpl = LAYOUT "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL_GPL\t\n";

	expect(*state, "peer", VERMAGIC,
		LAYOUT PEER "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL_GPL\t\n", PROOF_WILL_LOAD,
		NULL);
	expect(*state, "proprietary", VERMAGIC, LAYOUT PRINTK, PROOF_WILL_LOAD, NULL);
	expect(*state, "proprietary", VERMAGIC, gpl, PROOF_WILL_NOT_LOAD,
		"proprietary: its licence \"NVIDIA\" is not GPL-compatible, but the kernel exports "
		"printk only to GPL-compatible modules: use a driver source with a compatible "
		"licence");
}

static void a_name_space_has_to_be_imported(void **state)
{
	_cleanup_proof_ struct proof missing = prove(*state, "peer", VERMAGIC,
		LAYOUT PEER "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tDMA_BUF\n");

	assert_int_equal(missing.verdict, PROOF_CANNOT_TELL);
	expect_count(&missing, 1, "DMA_BUF");
	assert_contains(missing.findings[0].cure, "MODULE_IMPORT_NS(DMA_BUF)");
	expect(*state, "proprietary", VERMAGIC,
		LAYOUT "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tDMA_BUF\n", PROOF_WILL_LOAD,
		NULL);
}

static void a_module_name_space_names_who_may_use_it(void **state)
{
	static const struct {
		const char *name_space;
		enum proof_verdict verdict;
	} cases[] = {
		{ "module:peer", PROOF_WILL_LOAD },
		{ "module:kvm,peer", PROOF_WILL_LOAD },
		{ "module:pe*,kvm", PROOF_WILL_LOAD },
		{ "module:*", PROOF_WILL_LOAD },
		{ "module:pee", PROOF_CANNOT_TELL },
		{ "module:peers", PROOF_CANNOT_TELL },
		{ "module:peer-1*", PROOF_CANNOT_TELL },
		{ "module:", PROOF_CANNOT_TELL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;
		struct proof proof;

		assert_true(asprintf(&text,
				    LAYOUT PEER "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t%s\n",
				    cases[i].name_space) > 0);
		proof = prove(
			*state, "peer", "6.16.0-1-test SMP preempt mod_unload modversions ", text);
		assert_int_equal(proof.verdict, cases[i].verdict);
		proof_free(&proof);
	}
}

static void without_the_kernels_own_symvers_it_cannot_tell(void **state)
{
	_cleanup_proof_ struct proof proof = prove(*state, "peer", VERMAGIC, PRINTK PEER);

	assert_int_equal(proof.verdict, PROOF_CANNOT_TELL);
	assert_contains(proof.findings[0].text, "module_layout");
}

static void refusals_come_before_doubts(void **state)
{
	_cleanup_proof_ struct proof proof = prove(*state, "forgetful", VERMAGIC, LAYOUT);

	assert_int_equal(proof.verdict, PROOF_WILL_NOT_LOAD);
	expect_count(&proof, 2, "needs printk");
	assert_contains(proof.findings[1].text, "CONFIG_MODULE_FORCE_LOAD");
}

static void verdicts_have_words(void **state)
{
	(void) state;
	assert_string_equal(proof_verdict_text(PROOF_WILL_LOAD), "will load");
	assert_string_equal(proof_verdict_text(PROOF_WILL_NOT_LOAD), "will not load");
	assert_string_equal(proof_verdict_text(PROOF_CANNOT_TELL), "cannot tell");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_module_built_for_this_kernel_will_load),
		folder_test(another_release_with_the_same_crcs_will_load),
		folder_test(another_crc_is_named_with_both_and_the_exporter),
		folder_test(another_module_layout_is_refused),
		folder_test(a_symbol_that_nothing_exports_is_named),
		folder_test(a_weak_symbol_may_be_absent_but_not_different),
		folder_test(another_vermagic_beyond_the_release_is_refused),
		folder_test(without_modversions_the_release_counts_and_crcs_do_not),
		folder_test(a_module_without_versions_is_refused_unless_forced),
		folder_test(extended_versions_are_compared),
		folder_test(gpl_symbols_are_for_gpl_modules),
		folder_test(a_name_space_has_to_be_imported),
		folder_test(a_module_name_space_names_who_may_use_it),
		folder_test(without_the_kernels_own_symvers_it_cannot_tell),
		folder_test(refusals_come_before_doubts),
		cmocka_unit_test(verdicts_have_words),
	};

	return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
