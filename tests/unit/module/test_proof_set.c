/* SPDX-License-Identifier: Apache-2.0 */
/* The load proof of several modules: links of a chain, each of which needs a symbol of the next. */
#include "module/proof.h"
#include "tests/unit/mutant.h"

#define VERMAGIC "6.1.0-1-test SMP preempt mod_unload modversions "
#define LAYOUT   "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
/* The last of a chain needs this one, whom the kernel has. */
#define KERNEL LAYOUT "0x00000011\tlink_k_offers\tdrivers/link-k\tEXPORT_SYMBOL\t\n"

#define MAX_LINKS 64

struct chain {
	struct mutant links[MAX_LINKS];
	struct proof_member members[MAX_LINKS];
	struct symvers *symvers;
	struct proof_kernel kernel;
	struct proof_set set;
};

static void chain_start(struct chain *chain, const struct folder *folder, const char *exports)
{
	*chain = (struct chain){ .symvers = symvers_of(folder, exports) };
	chain->kernel = (struct proof_kernel){ .vermagic = VERMAGIC, .symvers = chain->symvers };
	chain->set = (struct proof_set){
		.kernel = &chain->kernel, .members = chain->members, .jobs = 1
	};
}

/* Adds link_<self>, which needs link_<needs> and asks for link_<wishes> before it. */
static void add_changed(struct chain *chain, const char *path, char self, char needs, char wishes,
	const char *from, const char *to)
{
	const char own[] = { 'l', 'i', 'n', 'k', '_', self, '\0' };
	const char next[] = { 'l', 'i', 'n', 'k', '_', needs, '\0' };
	const char depends[] = { 'l', 'i', 'n', 'k', '-', needs, '\0' };
	const char wished[] = { 'l', 'i', 'n', 'k', '-', wishes, '\0' };
	const char *changes[] = { "link_s", own, "link_n", next, "link-n", depends, "link-w",
		wished, from, to, NULL };
	size_t place = chain->set.member_count++;

	assert_true(place < MAX_LINKS);
	mutant_make(&chain->links[place], "link", changes, NULL, 0);
	chain->members[place] =
		(struct proof_member){ .module = chain->links[place].module, .path = path };
}

static void add(struct chain *chain, const char *path, char self, char needs)
{
	add_changed(chain, path, self, needs, needs, NULL, NULL);
}

static void run(struct chain *chain)
{
	struct error error = { 0 };

	if (proof_set_run(&chain->set, &error) < 0)
		fail_msg("%s", error.text);
}

static void chain_done(struct chain *chain)
{
	proof_set_free(&chain->set);
	for (size_t i = 0; i < chain->set.member_count; i++)
		mutant_free(&chain->links[i]);
	symvers_close(&chain->symvers);
}

#define _cleanup_chain_ _cleanup_(chain_done)

static void assert_order(const struct chain *chain, const char *wanted)
{
	_cleanup_free_ char *order = strv_join(&chain->set.order, " ");

	assert_string_equal(order ? order : "", wanted);
}

static const char *text_of(const struct proof *proof, const char *id)
{
	const struct proof_finding *finding = finding_of(proof, id);

	if (!finding)
		fail_msg("no finding \"%s\" among %zu", id, proof->count);
	return finding ? finding->text : "";
}

static void members_stand_in_for_the_kernels_modules(void **state)
{
	_cleanup_chain_ struct chain chain;

	/* The kernel's link_b has another CRC, and does not count: the set brings its own. */
	chain_start(&chain, *state,
		KERNEL "0x00000099\tlink_b_offers\tdrivers/link-b\tEXPORT_SYMBOL_GPL\tNS\n");
	add(&chain, "a.ko", 'a', 'b');
	add(&chain, "b.ko", 'b', 'k');
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	assert_int_equal(chain.set.loading, 2);
	assert_order(&chain, "b.ko a.ko");
}

static void what_a_replaced_module_had_is_gone(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state,
		KERNEL "0x00000011\tlink_z_offers\tdrivers/link-b\tEXPORT_SYMBOL\t\n");
	add(&chain, "a.ko", 'a', 'z');
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	proof_set_free(&chain.set);
	add(&chain, "b.ko", 'b', 'k');
	run(&chain);
	assert_int_equal(chain.members[0].proof.verdict, PROOF_WILL_NOT_LOAD);
	assert_finding(&chain.members[0].proof, "symbol-missing", PROOF_REFUSAL, ENOENT);
	assert_contains(text_of(&chain.members[0].proof, "symbol-missing"),
		"the kernel's own link_b exports");
	assert_int_equal(chain.members[1].proof.verdict, PROOF_WILL_LOAD);
}

static void another_members_crc_counts(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "a.ko", 'a', 'b');
	/* Its version record and its export alike. */
	add_changed(&chain, "b.ko", 'b', 'k', 'k', "\x11", "\x12");
	run(&chain);
	assert_finding(&chain.members[0].proof, "symbol-version", PROOF_REFUSAL, EINVAL);
	assert_contains(text_of(&chain.members[0].proof, "symbol-version"), "link_b exports 0x");
}

static void what_needs_a_refused_one_falls_with_it(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "a.ko", 'a', 'b');
	add(&chain, "b.ko", 'b', 'c');
	add(&chain, "c.ko", 'c', 'x');
	add(&chain, "d.ko", 'd', 'k');
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_NOT_LOAD);
	assert_int_equal(chain.set.refused, 3);
	assert_int_equal(chain.set.loading, 1);
	assert_string_equal(text_of(&chain.members[0].proof, "needs-refused"),
		"link_a: needs link_b, which will not load");
	assert_finding(&chain.members[1].proof, "needs-refused", PROOF_REFUSAL, ENOENT);
	assert_finding(&chain.members[2].proof, "symbol-missing", PROOF_REFUSAL, ENOENT);
	assert_finding(&chain.set.findings, "depends-missing", PROOF_REFUSAL, ENOENT);
	assert_order(&chain, "d.ko");
}

static void a_doubt_spreads_as_a_doubt(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state,
		LAYOUT "0x00000011\tlink_k_offers\tdrivers/link-k\tEXPORT_SYMBOL\tNS\n");
	add(&chain, "a.ko", 'a', 'b');
	add(&chain, "b.ko", 'b', 'k');
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_CANNOT_TELL);
	assert_int_equal(chain.set.unknown, 2);
	assert_finding(&chain.members[0].proof, "needs-refused", PROOF_DOUBT, ENOENT);
	assert_order(&chain, "b.ko a.ko");
}

static void a_cycle_is_named_member_by_member(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "a.ko", 'a', 'b');
	add(&chain, "b.ko", 'b', 'c');
	add(&chain, "c.ko", 'c', 'd');
	add(&chain, "d.ko", 'd', 'b');
	add(&chain, "e.ko", 'e', 'k');
	run(&chain);
	assert_int_equal(chain.set.refused, 4);
	assert_contains(
		text_of(&chain.set.findings, "cycle"), "link_b -> link_c -> link_d -> link_b: ");
	assert_finding(&chain.members[1].proof, "cycle", PROOF_REFUSAL, ENOENT);
	assert_null(finding_of(&chain.members[0].proof, "cycle"));
	assert_finding(&chain.members[0].proof, "needs-refused", PROOF_REFUSAL, ENOENT);
	assert_order(&chain, "e.ko");
}

static void wishes_make_an_order_but_no_cycle(void **state)
{
	_cleanup_chain_ struct chain chain;
	_cleanup_chain_ struct chain circle;

	chain_start(&chain, *state, KERNEL);
	add_changed(&chain, "a.ko", 'a', 'k', 'b', NULL, NULL);
	add_changed(&chain, "b.ko", 'b', 'k', 'c', NULL, NULL);
	add_changed(&chain, "c.ko", 'c', 'k', 'k', NULL, NULL);
	run(&chain);
	assert_order(&chain, "c.ko b.ko a.ko");
	/* Each wants the other: they load, in some order; who needs one comes behind it. */
	chain_start(&circle, *state, KERNEL);
	add_changed(&circle, "a.ko", 'a', 'k', 'b', NULL, NULL);
	add_changed(&circle, "b.ko", 'b', 'a', 'a', NULL, NULL);
	run(&circle);
	assert_int_equal(circle.set.verdict, PROOF_WILL_LOAD);
	assert_order(&circle, "a.ko b.ko");
}

static void two_exporters_of_a_symbol_do_not_go_together(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "a.ko", 'a', 'k');
	add_changed(&chain, "b.ko", 'b', 'k', 'k', "link_b_offers", "link_a_offers");
	add(&chain, "c.ko", 'c', 'a');
	run(&chain);
	assert_int_equal(chain.members[0].proof.verdict, PROOF_WILL_LOAD);
	assert_finding(&chain.members[1].proof, "duplicate-export", PROOF_REFUSAL, ENOEXEC);
	assert_string_equal(text_of(&chain.members[1].proof, "duplicate-export"),
		"link_b: exports link_a_offers, which link_a already exports");
	assert_contains(text_of(&chain.set.findings, "duplicate-export"),
		"link_a and link_b both export link_a_offers");
	assert_int_equal(chain.members[2].proof.verdict, PROOF_WILL_LOAD);
}

static void a_kernels_module_that_is_needed_exports_too(void **state)
{
	const char *exports = KERNEL "0x00000011\tlink_a_offers\tdrivers/link-k\tEXPORT_SYMBOL\t\n";
	_cleanup_chain_ struct chain chain;
	_cleanup_chain_ struct chain idle;

	chain_start(&chain, *state, exports);
	add(&chain, "a.ko", 'a', 'k');
	run(&chain);
	assert_finding(&chain.members[0].proof, "duplicate-export", PROOF_REFUSAL, ENOEXEC);
	assert_contains(chain.members[0].proof.findings[0].text,
		"like the kernel's own link_k, which is loaded for link_a");
	/* No module needs it: a note. */
	chain_start(
		&idle, *state, KERNEL "0x00000011\tlink_a_offers\tdrivers/idle\tEXPORT_SYMBOL\t\n");
	add(&idle, "a.ko", 'a', 'k');
	run(&idle);
	assert_finding(&idle.members[0].proof, "duplicate-export", PROOF_NOTE, 0);
}

static void a_symbol_may_move_to_another_module_of_the_set(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state,
		KERNEL "0x00000011\tlink_a_offers\tdrivers/link-b\tEXPORT_SYMBOL\t\n");
	add(&chain, "a.ko", 'a', 'k');
	add(&chain, "b.ko", 'b', 'k');
	run(&chain);
	assert_null(finding_of(&chain.members[0].proof, "duplicate-export"));
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
}

/* Who is taken of two files of one name, or NULL: it cannot be told. */
static void expect_taken(const struct folder *folder, const char *krel, const char *a,
	const char *b, const char *taken)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, folder, KERNEL);
	chain.kernel.krel = krel;
	add(&chain, a, 'a', 'k');
	add_changed(&chain, b, 'a', 'k', 'j', NULL, NULL);
	run(&chain);
	assert_finding(&chain.set.findings, "duplicate-name", taken ? PROOF_NOTE : PROOF_DOUBT,
		taken ? 0 : EEXIST);
	if (taken)
		assert_order(&chain, taken);
}

static void depmods_order_hangs_on_the_distribution(void **state)
{
	const char *el = "5.14.0-503.el9.x86_64", *other = "6.1.0-56-amd64";

	expect_taken(*state, el, "lib/modules/k/weak-updates/a.ko", "lib/modules/k/kernel/a.ko",
		"lib/modules/k/kernel/a.ko");
	expect_taken(*state, other, "lib/modules/k/weak-updates/a.ko", "lib/modules/k/kernel/a.ko",
		NULL);
	expect_taken(*state, el, "lib/modules/k/kernel/a.ko", "lib/modules/k/extra/a.ko",
		"lib/modules/k/extra/a.ko");
	expect_taken(*state, other, "lib/modules/k/kernel/a.ko", "lib/modules/k/extra/a.ko", NULL);
	expect_taken(*state, other, "nic:lib/modules/k/kernel/a.ko",
		"gpu:lib/modules/k/updates/a.ko", "gpu:lib/modules/k/updates/a.ko");
	/* A folder of that name somewhere below is none of depmod's. */
	expect_taken(
		*state, el, "lib/modules/k/kernel/a.ko", "lib/modules/k/kernel/updates/a.ko", NULL);
}

static void of_two_files_of_one_name_updates_win(void **state)
{
	_cleanup_chain_ struct chain chain;
	_cleanup_chain_ struct chain tie;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "kernel/a.ko", 'a', 'k');
	add(&chain, "lib/modules/x/updates/a.ko", 'a', 'k');
	run(&chain);
	assert_finding(&chain.set.findings, "duplicate-name", PROOF_NOTE, 0);
	assert_contains(chain.set.findings.findings[0].text,
		"lib/modules/x/updates/a.ko and kernel/a.ko: depmod uses the first");
	assert_order(&chain, "lib/modules/x/updates/a.ko");
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	chain_start(&tie, *state, KERNEL);
	add(&tie, "one/a.ko", 'a', 'k');
	add_changed(&tie, "two/a.ko", 'a', 'k', 'j', NULL, NULL);
	run(&tie);
	assert_finding(&tie.set.findings, "duplicate-name", PROOF_DOUBT, EEXIST);
	assert_int_equal(tie.set.verdict, PROOF_CANNOT_TELL);
}

/* depmod has chosen, by depmod.d: whatever their folders are. */
static void of_several_files_of_one_name_the_one_in_modules_dep_wins(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	/* The first two alone: it cannot be told. */
	add(&chain, "lib/modules/x/updates/a/a.ko", 'a', 'k');
	add_changed(&chain, "lib/modules/x/updates/dkms/a.ko", 'a', 'k', 'j', NULL, NULL);
	add_changed(&chain, "lib/modules/x/updates/slipway/a.ko", 'a', 'k', 'i', NULL, NULL);
	chain.members[2].listed = true;
	add_changed(&chain, "lib/modules/x/updates/z/a.ko", 'a', 'k', 'h', NULL, NULL);
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	assert_order(&chain, "lib/modules/x/updates/slipway/a.ko");
	assert_contains(chain.set.findings.findings[1].text,
		"updates/slipway/a.ko and lib/modules/x/updates/dkms/a.ko: modules.dep lists the first");
	chain.members[2].listed = false;
	proof_set_free(&chain.set);
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_CANNOT_TELL);
}

/* As of a link in weak-updates and what it leads to. */
static void of_two_equal_files_either_will_do(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "opt/a.ko", 'a', 'k');
	add(&chain, "lib/modules/x/weak-updates/a.ko", 'a', 'k');
	run(&chain);
	assert_finding(&chain.set.findings, "duplicate-name", PROOF_NOTE, 0);
	assert_contains(chain.set.findings.findings[0].text, "and they are equal");
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
}

static bool only_a(void *context, const char *name)
{
	(void) context;
	return strcmp(name, "link_a.bin") == 0;
}

static void firmware_wishes_and_options_that_miss_are_noted(void **state)
{
	char *modules[] = { "link_k", NULL };
	char *lines[] = { "link-a speed=3 async_probe", "link_b sped=\"a b\" speed=1", "other x=1",
		NULL };
	const struct strv kernel_modules = { modules, 1, 2 };
	const struct strv options = { lines, 3, 4 };
	const struct strv aliases = { NULL, 0, 0 };
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add_changed(&chain, "a.ko", 'a', 'k', 'k', NULL, NULL);
	add_changed(&chain, "b.ko", 'b', 'k', 'y', NULL, NULL);
	chain.set.kernel_modules = &kernel_modules;
	chain.set.kernel_aliases = &aliases;
	chain.set.aliases_known = true;
	chain.set.firmware_there = only_a;
	chain.set.options = &options;
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	assert_int_equal(chain.set.findings.count, 4); /* and that link_k is the kernel's */
	assert_string_equal(text_of(&chain.set.findings, "firmware-missing"),
		"link_b: may ask for the firmware link_b.bin, which is missing");
	assert_string_equal(text_of(&chain.set.findings, "softdep-missing"),
		"link_b: asks for link_y to be loaded before it, but there is no such module");
	assert_string_equal(text_of(&chain.set.findings, "option-unknown"),
		"link_b: modprobe.d sets sped, which is not one of its parameters (did you mean "
		"speed?)");
}

/* A member's alias, one of the kernel's, or one that may be there. */
static void a_wish_may_be_for_an_alias(void **state)
{
	char *modules[] = { "link_k", NULL };
	char *listed[] = { "platform:x", "link-[y-z]", NULL };
	const struct strv kernel_modules = { modules, 1, 2 };
	const struct strv none = { NULL, 0, 0 }, aliases = { listed, 2, 3 };
	const struct strv *const kernels[] = { &none, &aliases, &none, NULL };

	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		_cleanup_chain_ struct chain chain;

		chain_start(&chain, *state, KERNEL);
		add_changed(&chain, "a.ko", 'a', 'k', 'y', NULL, NULL);
		/* Its description of the parameter becomes an alias. */
		add_changed(&chain, "b.ko", 'b', 'k', 'k', i == 0 ? "parm=speed:?" : NULL,
			i == 0 ? "alias=l?nk-y" : NULL);
		chain.set.kernel_modules = &kernel_modules;
		chain.set.kernel_aliases = kernels[i];
		chain.set.aliases_known = i < 2;
		run(&chain);
		assert_null(finding_of(&chain.set.findings, "softdep-missing"));
	}
}

static void depends_without_a_symbol_is_a_note(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add_changed(&chain, "a.ko", 'a', 'k', 'k', "depends=link-k", "depends=link-x");
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	assert_finding(&chain.set.findings, "depends-missing", PROOF_NOTE, 0);
}

static void a_proprietary_member_taints_those_above_it(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "a.ko", 'a', 'b');
	add(&chain, "b.ko", 'b', 'c');
	add_changed(&chain, "c.ko", 'c', 'k', 'k', "license=GPL", "license=XYZ");
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	assert_finding(&chain.members[2].proof, "proprietary", PROOF_NOTE, 0);
	assert_string_equal(
		finding_of(&chain.members[1].proof, "inherits-taint")->exporter, "link_c");
	assert_string_equal(
		finding_of(&chain.members[0].proof, "inherits-taint")->exporter, "link_b");
}

static void an_unreadable_member_is_a_verdict(void **state)
{
	const struct error why = { .text = "cut short" };
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	add(&chain, "a.ko", 'a', 'k');
	chain.members[1].path = "x/link-b.ko.xz";
	assert_int_equal(
		proof_unreadable("x/link-b.ko.xz", -EINVAL, &why, &chain.members[1].proof), 0);
	chain.set.member_count = 2;
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_NOT_LOAD);
	assert_int_equal(chain.set.refused, 1);
	assert_order(&chain, "a.ko");
}

static void threads_come_to_the_same_verdicts(void **state)
{
	static const char letters[] = "abcdefghijABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	_cleanup_free_ char *alone = NULL;
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	for (size_t i = 0; letters[i]; i++)
		add(&chain, &letters[i], letters[i], letters[i + 1] ? letters[i + 1] : 'k');
	run(&chain);
	alone = strv_join(&chain.set.order, " ");
	proof_set_free(&chain.set);
	chain.set.jobs = 8;
	run(&chain);
	assert_int_equal(chain.set.loading, sizeof(letters) - 1);
	assert_order(&chain, alone);
	assert_string_equal(chain.set.order.items[0], "9");
}

static void no_members_are_no_trouble(void **state)
{
	_cleanup_chain_ struct chain chain;

	chain_start(&chain, *state, KERNEL);
	run(&chain);
	assert_int_equal(chain.set.verdict, PROOF_WILL_LOAD);
	assert_int_equal(chain.set.order.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(members_stand_in_for_the_kernels_modules),
		folder_test(what_a_replaced_module_had_is_gone),
		folder_test(another_members_crc_counts),
		folder_test(what_needs_a_refused_one_falls_with_it),
		folder_test(a_doubt_spreads_as_a_doubt),
		folder_test(a_cycle_is_named_member_by_member),
		folder_test(wishes_make_an_order_but_no_cycle),
		folder_test(two_exporters_of_a_symbol_do_not_go_together),
		folder_test(a_kernels_module_that_is_needed_exports_too),
		folder_test(a_symbol_may_move_to_another_module_of_the_set),
		folder_test(depmods_order_hangs_on_the_distribution),
		folder_test(of_two_files_of_one_name_updates_win),
		folder_test(of_several_files_of_one_name_the_one_in_modules_dep_wins),
		folder_test(of_two_equal_files_either_will_do),
		folder_test(firmware_wishes_and_options_that_miss_are_noted),
		folder_test(a_wish_may_be_for_an_alias),
		folder_test(depends_without_a_symbol_is_a_note),
		folder_test(a_proprietary_member_taints_those_above_it),
		folder_test(an_unreadable_member_is_a_verdict),
		folder_test(threads_come_to_the_same_verdicts),
		folder_test(no_members_are_no_trouble),
	};

	return cmocka_run_group_tests_name("proof_set", tests, NULL, NULL);
}
